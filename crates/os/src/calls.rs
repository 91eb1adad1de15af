//! Reads and writes of files in memory, by plain system calls of the thread that asks.
//!
//! Nothing can be gained there by asking first and waiting later: the call does the work. A call
//! for each I/O is the least that the kernel can do for it; a batch of Linux's asynchronous
//! interface costs more for each than the entry that it saves.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;

use crate::aio::FileIo;
use crate::device::Device;

/// I/Os that are done in one turn, unless they are long: what is done can be asked for again
/// while its lines are in the cache.
const TURN: usize = 16;
/// After so many bytes a turn ends.
const TURN_BYTES: usize = 256 << 10;

/// The I/Os of one core.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    queued: VecDeque<FileIo>,
}

impl Calls {
    /// I/Os without an answer yet.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.queued.len()
    }

    /// Queues an I/O for the next [`turn`](Self::turn).
    ///
    /// # Safety
    /// The buffer stays valid and untouched, and the file open, until the answer.
    pub(crate) unsafe fn push(&mut self, io: FileIo) {
        self.queued.push_back(io);
    }

    /// Does what was queued first, and appends its answers as (data, result) as io_uring has it.
    pub(crate) fn turn(&mut self, answers: &mut Vec<(u64, i32)>) {
        let mut bytes = 0;
        for _ in 0..TURN {
            let Some(io) = self.queued.pop_front() else { return };
            // SAFETY: the promise of `push`.
            answers.push((io.data, unsafe { call(&io) }));
            bytes += io.len as usize;
            if bytes >= TURN_BYTES {
                return;
            }
        }
    }
}

/// The number of bytes, or the negative error.
///
/// # Safety
/// The buffer has `io.len` bytes, which the kernel may read, or write.
unsafe fn call(io: &FileIo) -> i32 {
    let (buf, len, offset) = (io.buf.cast(), io.len as usize, io.offset as libc::off64_t);
    let part = libc::iovec { iov_base: buf, iov_len: len };
    // SAFETY: the caller's promise; the vector lives until the call returns.
    let result = unsafe {
        match (io.write, io.durable) {
            (false, _) => libc::pread64(io.fd, buf, len, offset),
            (true, false) => libc::pwrite64(io.fd, buf, len, offset),
            (true, true) => libc::pwritev2(io.fd, &raw const part, 1, offset, libc::RWF_DSYNC),
        }
    };
    match result {
        0.. => result as i32,
        _ => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
    }
}

/// Whether a file's reads and writes end within the call: a file on tmpfs or ramfs, or compressed
/// memory that writes nothing back to a disk.
pub(crate) fn is_memory(file: &File) -> bool {
    const TMPFS: libc::__fsword_t = 0x0102_1994;
    const RAMFS: libc::__fsword_t = 0x8584_58f6;
    if file.metadata().is_ok_and(|data| data.file_type().is_block_device()) {
        return Device::under(file).is_some_and(|device| is_compressed_memory(&device));
    }
    // SAFETY: all zeroes are a valid struct of numbers, which the kernel fills.
    let (result, stat) = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &mut stat), stat)
    };
    result == 0 && [TMPFS, RAMFS].contains(&stat.f_type)
}

fn is_compressed_memory(device: &Device) -> bool {
    // Kernels without this file write nothing back.
    let backing = fs::read_to_string(format!("/sys/block/{}/backing_dev", device.disk));
    device.disk.starts_with("zram") && backing.map_or(true, |path| path.trim() == "none")
}

#[cfg(test)]
mod test {
    use super::*;
    use block::Buf;

    #[test]
    fn a_turn_is_bounded_in_number_and_bytes() {
        let file = File::open("/dev/zero").unwrap();
        let mut buf = Buf::new(TURN_BYTES / 2).unwrap();
        let mut calls = Calls::default();
        let mut push = |calls: &mut Calls, data, len| {
            let (fd, buf) = (file.as_raw_fd(), buf.as_mut_ptr());
            let (write, durable, offset) = (false, false, 0);
            // SAFETY: the buffer and the file live until the end of the test.
            unsafe { calls.push(FileIo { data, write, durable, fd, buf, len, offset }) };
        };
        let mut answers = Vec::new();
        (0..20).for_each(|data| push(&mut calls, data, 4096));
        calls.turn(&mut answers);
        assert_eq!((answers.len(), calls.pending()), (TURN, 20 - TURN));
        calls.turn(&mut answers);
        assert!(answers.drain(..).eq((0..20).map(|data| (data, 4096))));
        (0..4).for_each(|data| push(&mut calls, data, TURN_BYTES as u32 / 2));
        calls.turn(&mut answers);
        assert_eq!((answers.len(), calls.pending()), (2, 2));
    }
}
