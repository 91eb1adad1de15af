//! Reads and writes of files in memory, by system calls of the submitting thread.
//!
//! Asynchrony gains nothing, because the system call copies the data itself. For files one call per
//! I/O is the minimum. Block devices have a longer path, on which a batch of Linux AIO costs little
//! more and saves system calls.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;

use crate::aio::{Aio, FileIo};
use crate::device::Device;

/// Maximum I/Os of one turn: their completions are handled while the data is in the cache.
const TURN: usize = 16;
/// Bytes after which a turn ends.
const TURN_BYTES: usize = 256 << 10;
/// I/Os of a batch. Thousands of 4 KiB reads of zram per second, with one call each and in batches
/// of this size (medians of 9 and 11): 379 and 333 with 1, 404 and 399 with 4, 403 and 405 with 8,
/// 381 and 426 with 16, 434 with 32 (2 vCPUs, AMD EPYC, Linux 6.18).
const BATCH: usize = 32;
/// Minimum I/Os of a batch; fewer are executed by one call each.
const BATCH_LEAST: usize = 8;

/// I/Os of one core.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    queued: VecDeque<FileIo>,
}

impl Calls {
    /// I/Os queued or in flight.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.queued.len()
    }

    /// Queues an I/O for the next [`turn`](Self::turn).
    ///
    /// # Safety
    /// The buffer stays valid and untouched, and the file open, until the completion.
    pub(crate) unsafe fn push(&mut self, io: FileIo) {
        self.queued.push_back(io);
    }

    /// Executes the I/Os queued first, and appends completions as (data, result), as of io_uring.
    pub(crate) fn turn(&mut self, answers: &mut Vec<(u64, i32)>) {
        // SAFETY: the promise of `push`.
        self.take(TURN, |io| answers.push((io.data, unsafe { call(&io) })));
    }

    /// Like [`turn`](Self::turn), with a batch by AIO if that is faster. `aio` completes the other
    /// I/Os later.
    pub(crate) fn turn_with(&mut self, aio: &mut Aio, answers: &mut Vec<(u64, i32)>) {
        if self.queued.len() < BATCH_LEAST {
            return self.turn(answers);
        }
        // SAFETY: the promise of `push`.
        self.take(BATCH, |io| unsafe { aio.push(io) });
        aio.turn(answers);
    }

    /// Takes this many I/Os, or as many as fit in a turn.
    fn take(&mut self, most: usize, mut each: impl FnMut(FileIo)) {
        let mut bytes = 0;
        for _ in 0..most {
            let Some(io) = self.queued.pop_front() else { return };
            bytes += io.len as usize;
            each(io);
            if bytes >= TURN_BYTES {
                return;
            }
        }
    }
}

/// Returns the number of bytes, or a negative errno.
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

/// Whether reads and writes of a file complete within the call: on tmpfs or ramfs, or on zram
/// without a backing device.
pub(crate) fn is_memory(file: &File) -> bool {
    // Magic numbers have 32 bits; the type of `f_type` differs between C libraries.
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    if file.metadata().is_ok_and(|data| data.file_type().is_block_device()) {
        return Device::under(file).is_some_and(|device| is_compressed_memory(&device));
    }
    // SAFETY: all zeroes are a valid struct of numbers, which the kernel fills.
    let (result, stat) = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &mut stat), stat)
    };
    result == 0 && [TMPFS, RAMFS].contains(&(stat.f_type as u32))
}

fn is_compressed_memory(device: &Device) -> bool {
    // Kernels without this file have no writeback of zram.
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

    #[test]
    fn many_are_done_in_batches_and_few_by_calls() {
        let file = File::open("/dev/zero").unwrap();
        let mut bufs = vec![[1_u8; 512]; BATCH + BATCH_LEAST + 3];
        let (mut calls, mut aio) = (Calls::default(), Aio::open().unwrap());
        for (data, buf) in (0..).zip(&mut bufs) {
            let (fd, buf) = (file.as_raw_fd(), buf.as_mut_ptr());
            let (write, durable, offset, len) = (false, false, 0, 512);
            // SAFETY: the buffers and the file live until the end of the test.
            unsafe { calls.push(FileIo { data, write, durable, fd, buf, len, offset }) };
        }
        let mut answers = Vec::new();
        for left in [BATCH_LEAST + 3, 0] {
            calls.turn_with(&mut aio, &mut answers);
            assert_eq!((calls.pending(), aio.pending()), (left, 0));
        }
        assert!(answers.into_iter().eq((0..bufs.len() as u64).map(|data| (data, 512))));
        assert!(bufs.iter().all(|buf| *buf == [0; 512]));
    }
}
