//! Linux AIO, for block devices where io_uring could block on submission and so would use worker
//! threads.
//!
//! Completions are read from the ring that the kernel maps, without a system call.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicU32, Ordering};

use block::{Buf, Count};

/// Maximum I/Os in flight of a core; further ones are queued.
const LIMIT: usize = 1024;
/// Completions reaped at once.
const EVENTS: usize = 256;

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Iocb {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buf: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

/// `struct aio_ring` of `fs/aio.c`: the header of the mapped ring, whose address is the context.
/// The kernel writes the tail, the consumer the head.
#[repr(C)]
struct Header {
    id: u32,
    events: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compatible_features: u32,
    incompatible_features: u32,
    len_bytes: u32,
}

/// Magic number of this layout.
const MAGIC: u32 = 0xa10a_10a1;

/// A read or write that bypasses the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileIo {
    /// Returned with the completion.
    pub(crate) data: u64,
    pub(crate) write: bool,
    /// The write is durable at its completion.
    pub(crate) durable: bool,
    pub(crate) fd: RawFd,
    pub(crate) buf: *mut u8,
    pub(crate) len: u32,
    pub(crate) offset: u64,
}

/// I/Os of one core.
pub(crate) struct Aio {
    context: libc::c_ulong,
    queued: Vec<Iocb>,
    events: Vec<Event>,
    in_flight: usize,
}

impl Aio {
    /// Fails at the limit of `fs.aio-max-nr`.
    pub(crate) fn open() -> io::Result<Aio> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context, which we own.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, LIMIT, &raw mut context) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let events = vec![Event::default(); EVENTS];
        Ok(Aio { context, queued: Vec::with_capacity(LIMIT), events, in_flight: 0 })
    }

    /// I/Os queued or in flight.
    pub(crate) fn pending(&self) -> usize {
        self.queued.len() + self.in_flight
    }

    /// Queues an I/O for the next [`turn`](Self::turn).
    ///
    /// # Safety
    /// The buffer stays valid and untouched until the completion.
    pub(crate) unsafe fn push(&mut self, op: FileIo) {
        const READ: u16 = 0;
        const WRITE: u16 = 1;
        self.queued.push(Iocb {
            data: op.data,
            opcode: if op.write { WRITE } else { READ },
            rw_flags: if op.durable { libc::RWF_DSYNC } else { 0 },
            fd: op.fd as u32,
            buf: op.buf as u64,
            bytes: u64::from(op.len),
            offset: op.offset as i64,
            ..Iocb::default()
        });
    }

    /// Submits queued I/Os and appends completions as (user data, result), as of io_uring.
    pub(crate) fn turn(&mut self, answers: &mut Vec<(u64, i32)>) {
        self.submit(answers);
        if self.in_flight == 0 || self.take_shared(answers) {
            return;
        }
        while self.in_flight > 0 {
            let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the kernel fills at most the number of events that we own.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    0_usize,
                    self.events.len(),
                    self.events.as_mut_ptr(),
                    &raw const none,
                )
            };
            let count = usize::try_from(count).unwrap_or(0);
            self.in_flight.lower(count);
            let taken = self.events[..count].iter();
            answers.extend(taken.map(|event| (event.data, event.result as i32)));
            if count < self.events.len() {
                return;
            }
        }
    }

    /// Reaps completions from the mapped ring; false where its layout is unknown.
    fn take_shared(&mut self, answers: &mut Vec<(u64, i32)>) -> bool {
        // SAFETY: a context is the address of its ring, which stays mapped until the drop.
        let ring = unsafe { &*(self.context as *const Header) };
        let known = ring.magic == MAGIC && ring.incompatible_features == 0;
        if !known || ring.len_bytes as usize != size_of::<Header>() || ring.events == 0 {
            return false;
        }
        let (mut head, tail) =
            (ring.head.load(Ordering::Relaxed), ring.tail.load(Ordering::Acquire));
        while head != tail && head < ring.events {
            let at =
                self.context as usize + size_of::<Header>() + head as usize * size_of::<Event>();
            // SAFETY: the ring's events follow its header, and those before the tail are complete.
            let event = unsafe { (at as *const Event).read() };
            answers.push((event.data, event.result as i32));
            self.in_flight.lower(1);
            head = (head + 1) % ring.events;
        }
        ring.head.store(head, Ordering::Release);
        true
    }

    fn submit(&mut self, answers: &mut Vec<(u64, i32)>) {
        let mut sent = 0;
        while sent < self.queued.len() && self.in_flight < LIMIT {
            let mut list = [std::ptr::null_mut::<Iocb>(); 64];
            let rest = self.queued[sent..].iter_mut().take(LIMIT - self.in_flight);
            let count = list.iter_mut().zip(rest).map(|(place, iocb)| *place = iocb).count();
            // SAFETY: the list points to entries that live until the call returns, and the kernel
            // copies them; their buffers are valid by the promise of `push`.
            let taken = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, count, list.as_mut_ptr())
            };
            if taken > 0 {
                sent += taken as usize;
                self.in_flight += taken as usize;
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => break,
                error => {
                    // The error is that of the first I/O in the list.
                    answers.push((self.queued[sent].data, -error.unwrap_or(libc::EIO)));
                    sent += 1;
                }
            }
        }
        self.queued.drain(..sent);
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the context is ours. The call waits until no I/O is in flight any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// Whether a device is to use Linux AIO.
pub(crate) fn is_better(file: &File) -> bool {
    let is_device = file.metadata().is_ok_and(|data| data.file_type().is_block_device());
    is_device && !starts_without_waiting(file)
}

/// Whether the file supports `RWF_NOWAIT`, which io_uring tries first.
fn starts_without_waiting(file: &File) -> bool {
    let Ok(mut buf) = Buf::new(4096) else { return true };
    let part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: the buffer that the vector names lives until the call returns.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &part, 1, 0, libc::RWF_NOWAIT) };
    read >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EOPNOTSUPP)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn more_than_fit_are_answered_and_an_error_is_its_own() {
        const BYTES: usize = 512;
        let path = std::env::temp_dir().join(format!("drumfire-aio-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        std::fs::remove_file(path).unwrap();
        let mut bufs = vec![[0_u8; BYTES]; LIMIT + 200];
        let count = bufs.len() as u64;
        let mut aio = Aio::open().unwrap();
        for (write, bad) in [(true, u64::MAX), (false, 77)] {
            for (data, buf) in (0..count).zip(&mut bufs) {
                let expected = [data as u8; BYTES];
                *buf = if write { expected } else { [0; BYTES] };
                let fd = if data == bad { -1 } else { file.as_raw_fd() };
                let (buf, len, offset) = (buf.as_mut_ptr(), BYTES as u32, data * BYTES as u64);
                let durable = write && data == 0;
                // SAFETY: buffers and file live until all is answered.
                unsafe { aio.push(FileIo { data, write, durable, fd, buf, len, offset }) };
            }
            let mut answers = Vec::new();
            while aio.pending() > 0 {
                aio.turn(&mut answers);
            }
            answers.sort_unstable();
            let result = |data| if data == bad { -libc::EBADF } else { BYTES as i32 };
            assert!(answers.into_iter().eq((0..count).map(|data| (data, result(data)))));
        }
        let read = |data: usize| if data == 77 { [0; BYTES] } else { [data as u8; BYTES] };
        assert!(bufs.iter().enumerate().all(|(data, buf)| *buf == read(data)));
    }
}
