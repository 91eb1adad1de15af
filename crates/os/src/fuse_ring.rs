//! FUSE over io_uring (Linux 6.14): requests and replies by a ring in place of reads and writes of
//! `/dev/fuse`, many with one system call.
//!
//! A ring entry (the kernel's word) is a command and its buffer. A request comes as the completion
//! of the command; the reply is the next command of the entry, which also fetches the next request
//! (`Documentation/filesystems/fuse/fuse-io-uring.rst` and `linux/fuse.h` of Linux). The buffer has
//! a header, and the data of a write or a read; the kernel keeps its address from the first command
//! on. Such commands need submission entries of 128 bytes, so this is a second ring in addition to
//! the core's, which [polls](crate::Core::watch) this one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use block::{Arena, Buf};
use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use crate::fuse::FuseChannel;
use crate::ring::tolerate;

/// `FUSE_IO_URING_CMD_…`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// `struct fuse_uring_req_header`: two areas of 128 bytes, the first for the header of a request
/// or an answer, the second for the arguments of a request, and `struct fuse_uring_ent_in_out`.
const ARGUMENTS: usize = 128;
const ARGUMENTS_BYTES: usize = 128;
const COMMIT_ID: usize = 264;
const PAYLOAD_BYTES: usize = 272;
const HEADER_BYTES: usize = 288;
/// Offset of the data in a buffer, after the header.
const PAYLOAD: usize = 512;
/// `struct fuse_in_header`.
const IN_HEADER_BYTES: usize = 40;

/// Offset of `len` in a submission: the number of iovecs that `addr` points to.
const LEN_OF_SUBMISSION: usize = 24;
/// Header and payload.
const IOVECS: u32 = 2;
/// Marks a REGISTER. If the kernel refuses it, requests come by the channel.
const REGISTERS: u64 = 1 << 32;
/// Time for commands to complete after an unmount.
const DRAIN_MS: u32 = 100;

const _: () = assert!(size_of::<Entry128>() == 128 && HEADER_BYTES <= PAYLOAD);

/// A ring that serves some queues of a file system. The kernel has a queue for each CPU, and puts
/// a request into the queue of the CPU that the program runs on.
pub struct FuseRing {
    /// Ring, dropped before the entries, because its commands write to their buffers.
    uring: Option<IoUring<Entry128>>,
    channel: OwnedFd,
    entries: Vec<RingEntry>,
    /// Header and payload of each entry, for the kernel to read.
    iovecs: Vec<[libc::iovec; 2]>,
    /// Commands that the kernel has.
    in_flight: usize,
}

/// A command and its buffer.
struct RingEntry {
    buf: Buf,
    queue: u16,
    /// The entry holds a request without a reply: the kernel does not touch the buffer.
    in_userspace: bool,
}

/// A request in its buffer.
#[derive(Clone, Copy, Debug)]
pub struct FuseMessage<'a> {
    /// `struct fuse_in_header`.
    pub header: &'a [u8; IN_HEADER_BYTES],
    /// The arguments of the operation.
    pub arguments: &'a [u8],
    /// Payload after the headers, such as the data of a write.
    pub data: &'a [u8],
}

impl FuseRing {
    /// Whether the kernel offers requests over io_uring; `None` if the kernel does not support this
    /// (before Linux 6.14, without `CONFIG_FUSE_IO_URING`, or if the FUSE module is not loaded).
    pub fn is_offered() -> Option<bool> {
        let switch = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring").ok()?;
        Some(switch.trim() == "Y")
    }

    /// Whether this process can create such a ring. Call before INIT agrees on one: from then on
    /// the kernel holds all requests until the ring exists.
    pub fn is_possible() -> bool {
        let without = std::env::var("DRUMFIRE_WITHOUT").unwrap_or_default();
        !without.split(',').any(|word| word.trim() == "fuse_uring") && build(8).is_ok()
    }

    /// Serves some queues, each with its depth, with up to `data_bytes` of data for each request.
    /// Requests come by rings once every queue of the file system is served.
    ///
    /// # Errors
    ///
    /// Memory is short, or the kernel makes no such ring.
    pub fn open(
        channel: &FuseChannel,
        queues: &[(u16, usize)],
        data_bytes: usize,
    ) -> io::Result<FuseRing> {
        let depth: usize = queues.iter().map(|(_, depth)| depth).sum();
        let uring = build(depth.next_power_of_two() as u32)?;
        let bufs = Arena::cut(depth, PAYLOAD + data_bytes)?;
        let queue_of_each =
            queues.iter().flat_map(|(queue, depth)| std::iter::repeat_n(*queue, *depth));
        let entry = |(buf, queue)| RingEntry { buf, queue, in_userspace: false };
        let mut entries: Vec<_> = bufs.into_iter().zip(queue_of_each).map(entry).collect();
        let iovecs = entries.iter_mut().map(|entry| iovecs(&mut entry.buf)).collect();
        let channel = channel.as_fd().try_clone_to_owned()?;
        let mut ring = FuseRing { uring: Some(uring), channel, entries, iovecs, in_flight: 0 };
        for at in 0..ring.entries.len() {
            ring.register(at)?;
        }
        ring.enter()?;
        Ok(ring)
    }

    fn uring(&mut self) -> &mut IoUring<Entry128> {
        self.uring.as_mut().expect("the ring lives until the drop")
    }

    /// Registers an entry, into which the kernel puts a request.
    fn register(&mut self, at: usize) -> io::Result<()> {
        let address = self.iovecs[at].as_ptr() as u64;
        let command = command(&self.channel, REGISTER, self.entries[at].queue, 0, address);
        let command = with_len(command, IOVECS).user_data(REGISTERS | at as u64);
        // SAFETY: the entry and its iovecs live, unmoved, until the ring is dropped, and nobody
        // touches the buffer before a request has arrived.
        unsafe { self.push(&command) }
    }

    /// Queues a command.
    ///
    /// # Safety
    /// The memory that the command points to stays valid until the ring is dropped, and its buffer
    /// untouched until the completion was taken.
    unsafe fn push(&mut self, command: &Entry128) -> io::Result<()> {
        // SAFETY: the caller's promise.
        while unsafe { self.uring().submission().push(command) }.is_err() {
            self.enter()?;
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Submits replies, and runs completions.
    fn enter(&mut self) -> io::Result<()> {
        const GET_EVENTS: u32 = 1;
        let uring = self.uring();
        let queued = uring.submission().len() as u32;
        // SAFETY: entries were pushed under the promise of `push`; no argument is passed.
        let entered =
            unsafe { uring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) };
        tolerate(entered.map(drop))
    }

    /// Submits queued replies, and appends the entries whose requests have come to `arrived`. None
    /// come after an unmount, or when the kernel refused the ring.
    ///
    /// # Errors
    ///
    /// The kernel refused a reply, or the ring failed.
    pub fn turn(&mut self, arrived: &mut VecDeque<u32>) -> io::Result<()> {
        let submissions = self.uring().submission();
        let enters = !submissions.is_empty() || submissions.taskrun() || submissions.cq_overflow();
        drop(submissions);
        if enters {
            self.enter()?;
        }
        let FuseRing { uring, entries, in_flight, .. } = self;
        for done in uring.as_mut().expect("the ring lives until the drop").completion() {
            *in_flight -= 1;
            let at = done.user_data() as u32;
            match -done.result() {
                0 => {
                    entries[at as usize].in_userspace = true;
                    arrived.push_back(at);
                }
                libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED | libc::EINTR => {}
                _ if done.user_data() & REGISTERS != 0 => {}
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(())
    }

    /// The request of an entry.
    ///
    /// # Panics
    ///
    /// The entry has no request, or was replied to.
    #[inline]
    pub fn message(&self, at: u32) -> FuseMessage<'_> {
        let entry = &self.entries[at as usize];
        assert!(entry.in_userspace, "entry {at} has no request");
        let bytes = &entry.buf[..];
        let whole = u32_at(bytes, 0) as usize;
        let data = (u32_at(bytes, PAYLOAD_BYTES) as usize).min(bytes.len() - PAYLOAD);
        let arguments = whole.saturating_sub(IN_HEADER_BYTES + data).min(ARGUMENTS_BYTES);
        FuseMessage {
            header: bytes.first_chunk().expect("a buffer is longer than a header"),
            arguments: &bytes[ARGUMENTS..][..arguments],
            data: &bytes[PAYLOAD..][..data],
        }
    }

    /// Queues the reply to the request of an entry. The next [turn](Self::turn) submits it.
    ///
    /// # Errors
    ///
    /// The ring failed.
    ///
    /// # Panics
    ///
    /// The entry has no request, or the data are longer than its buffer.
    #[inline]
    pub fn reply(&mut self, at: u32, header: &[u8], data: &[u8]) -> io::Result<()> {
        let entry = &mut self.entries[at as usize];
        assert!(entry.in_userspace, "a request gets one reply");
        let bytes = &mut entry.buf[..];
        let commit = u64::from_ne_bytes(std::array::from_fn(|i| bytes[COMMIT_ID + i]));
        bytes[..header.len()].copy_from_slice(header);
        bytes[PAYLOAD_BYTES..][..4].copy_from_slice(&(data.len() as u32).to_ne_bytes());
        bytes[PAYLOAD..][..data.len()].copy_from_slice(data);
        entry.in_userspace = false;
        let command = command(&self.channel, COMMIT_AND_FETCH, entry.queue, commit, 0);
        // SAFETY: the entry keeps its buffer, and nobody touches it before a request has come.
        unsafe { self.push(&command.user_data(at.into())) }
    }
}

impl AsFd for FuseRing {
    /// Readable when requests have come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        let uring = self.uring.as_ref().expect("the ring lives until the drop");
        // SAFETY: the ring owns the descriptor, and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(uring.as_raw_fd()) }
    }
}

impl Drop for FuseRing {
    fn drop(&mut self) {
        // Commands in flight complete at once after an unmount.
        if self.in_flight > 0 {
            let span = Timespec::new().nsec(DRAIN_MS * 1_000_000);
            let (args, count) = (SubmitArgs::new().timespec(&span), self.in_flight);
            let _ = self.uring().submitter().submit_with_args(count, &args);
            let _ = self.turn(&mut VecDeque::new());
        }
        self.uring = None;
        if self.in_flight > 0 {
            // The kernel may still write into these buffers: leak them rather than reuse them.
            std::mem::forget(std::mem::take(&mut self.entries));
            std::mem::forget(std::mem::take(&mut self.iovecs));
        }
    }
}

/// Header and payload of a buffer.
fn iovecs(buf: &mut Buf) -> [libc::iovec; 2] {
    let (header, payload) = buf.split_at_mut(PAYLOAD);
    [header, payload]
        .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
}

fn command(channel: &OwnedFd, op: u32, queue: u16, commit: u64, iovecs: u64) -> Entry128 {
    // `struct fuse_uring_cmd_req`.
    let mut command = [0; 80];
    command[8..16].copy_from_slice(&commit.to_ne_bytes());
    command[16..18].copy_from_slice(&queue.to_ne_bytes());
    let fd = Fd(channel.as_raw_fd());
    opcode::UringCmd80::new(fd, op).cmd(command).addr(Some(iovecs)).build()
}

/// Sets the number of iovecs, for which the crate has no setter.
fn with_len(mut command: Entry128, count: u32) -> Entry128 {
    let at = std::ptr::from_mut(&mut command).cast::<u8>();
    // SAFETY: the 128 bytes are a `struct io_uring_sqe`, whose `len` has four bytes at this offset.
    unsafe { at.add(LEN_OF_SUBMISSION).cast::<u32>().write_unaligned(count) };
    command
}

/// A ring with submission entries of 128 bytes. Not with `DEFER_TASKRUN`: such a ring does not poll
/// as readable while a request waits for its task work.
fn build(depth: u32) -> io::Result<IoUring<Entry128>> {
    let mut builder = IoUring::<Entry128>::builder();
    builder.setup_clamp().setup_submit_all();
    builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
    builder.build(depth)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}
