//! FUSE over io_uring (Linux 6.14): requests of `/dev/fuse` that come by a ring, and answers that
//! go by it, many with one system call.
//!
//! Each request comes as the completion of a command that waits in the ring, and its answer is the
//! next such command (`Documentation/filesystems/fuse/fuse-io-uring.rst` and `linux/fuse.h` of
//! Linux). A command has a buffer that the kernel knows from the first one on: a header, and the
//! data of a write or a read. Such commands want entries of 128 bytes, so the ring is one beside
//! the core's own, which [watches](crate::Core::watch) it.

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
/// Where data stand in a buffer, behind the header.
const PAYLOAD: usize = 512;
/// `struct fuse_in_header`.
const IN_HEADER_BYTES: usize = 40;

/// `len` of a submission: the count of parts that `addr` points to.
const LEN_OF_ENTRY: usize = 24;
const PARTS: u32 = 2;
/// Marks the first command of a place. If the kernel refuses it, requests come by the channel.
const FIRST: u64 = 1 << 32;
/// How long commands may take to come back from a file system that was unmounted.
const DRAIN_MS: u32 = 100;

const _: () = assert!(size_of::<Entry128>() == 128 && HEADER_BYTES <= PAYLOAD);

/// A ring that has the requests of some queues of a file system. The kernel has a queue for each
/// CPU, and puts a request into that of the CPU on which the program runs.
pub struct FuseRing {
    /// Dropped before the buffers that its commands write to.
    uring: Option<IoUring<Entry128>>,
    channel: OwnedFd,
    places: Vec<Place>,
    /// Commands that the kernel has.
    in_flight: usize,
}

/// A command and its buffer.
struct Place {
    buf: Buf,
    queue: u16,
    /// A request is here that was not answered: the kernel leaves the buffer alone.
    is_ours: bool,
}

/// A request as it lies in its buffer.
#[derive(Clone, Copy, Debug)]
pub struct FuseMessage<'a> {
    /// `struct fuse_in_header`.
    pub header: &'a [u8; IN_HEADER_BYTES],
    /// The arguments of the operation.
    pub arguments: &'a [u8],
    /// What follows them, such as the data of a write.
    pub data: &'a [u8],
}

impl FuseRing {
    /// Whether the kernel offers requests over io_uring; `None` where it cannot (before Linux
    /// 6.14, without `CONFIG_FUSE_IO_URING`, or where FUSE is a module that is not loaded).
    pub fn is_offered() -> Option<bool> {
        let switch = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring").ok()?;
        Some(switch.trim() == "Y")
    }

    /// Whether this process may have such a ring: to be asked before it agrees with the kernel on
    /// one, which then waits for it.
    pub fn is_possible() -> bool {
        let without = std::env::var("DRUMFIRE_WITHOUT").unwrap_or_default();
        !without.split(',').any(|word| word.trim() == "fuse_uring") && build(8).is_ok()
    }

    /// Takes the requests of some queues, each with its number in flight, with up to `data_bytes`
    /// of data. The file system serves by rings when all its queues are taken.
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
        let places = bufs.into_iter().zip(queue_of_each);
        let places = places.map(|(buf, queue)| Place { buf, queue, is_ours: false }).collect();
        let channel = channel.as_fd().try_clone_to_owned()?;
        let mut ring = FuseRing { uring: Some(uring), channel, places, in_flight: 0 };
        for at in 0..ring.places.len() {
            ring.register(at)?;
        }
        Ok(ring)
    }

    fn uring(&mut self) -> &mut IoUring<Entry128> {
        self.uring.as_mut().expect("the ring lives until the drop")
    }

    /// Makes a buffer known to the kernel, which takes a request into it.
    fn register(&mut self, at: usize) -> io::Result<()> {
        let Place { buf, queue, .. } = &mut self.places[at];
        let queue = *queue;
        let (header, data) = buf.split_at_mut(PAYLOAD);
        let parts = [header, data]
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
        let entry = entry(&self.channel, REGISTER, queue, 0, parts.as_ptr() as u64);
        let entry = with_len(entry, PARTS).user_data(FIRST | at as u64);
        // SAFETY: the buffer stays in its place until the ring is dropped, untouched while the
        // kernel has it; the parts are read when the entry is submitted, which is done here.
        unsafe { self.push(&entry) }?;
        self.enter()
    }

    /// Queues a command.
    ///
    /// # Safety
    /// What the entry points to stays valid: the buffer of its place until the ring is dropped, and
    /// untouched until its completion was taken.
    unsafe fn push(&mut self, entry: &Entry128) -> io::Result<()> {
        // SAFETY: the caller's promise.
        while unsafe { self.uring().submission().push(entry) }.is_err() {
            self.enter()?;
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Submits the answers, and lets requests come.
    fn enter(&mut self) -> io::Result<()> {
        const GET_EVENTS: u32 = 1;
        let uring = self.uring();
        let queued = uring.submission().len() as u32;
        // SAFETY: entries were pushed under the promise of `push`; no argument is passed.
        let entered =
            unsafe { uring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) };
        tolerate(entered.map(drop))
    }

    /// Submits the answers that were given, and adds the numbers of requests that have come.
    ///
    /// # Errors
    ///
    /// The kernel did not take an answer, or the ring is of no more use. A file system that was
    /// unmounted is none, nor is a kernel that does without the ring: nothing comes any more.
    pub fn turn(&mut self, arrived: &mut VecDeque<u32>) -> io::Result<()> {
        let submissions = self.uring().submission();
        let enters = !submissions.is_empty() || submissions.taskrun() || submissions.cq_overflow();
        drop(submissions);
        if enters {
            self.enter()?;
        }
        let FuseRing { uring, places, in_flight, .. } = self;
        for done in uring.as_mut().expect("the ring lives until the drop").completion() {
            *in_flight -= 1;
            let at = done.user_data() as u32;
            match -done.result() {
                0 => {
                    places[at as usize].is_ours = true;
                    arrived.push_back(at);
                }
                libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED | libc::EINTR => {}
                _ if done.user_data() & FIRST != 0 => {}
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(())
    }

    /// A request that has come and was not answered.
    ///
    /// # Panics
    ///
    /// There is none of this number.
    #[inline]
    pub fn message(&self, at: u32) -> FuseMessage<'_> {
        let place = &self.places[at as usize];
        assert!(place.is_ours, "no request is here");
        let bytes = &place.buf[..];
        let whole = u32_at(bytes, 0) as usize;
        let data = (u32_at(bytes, PAYLOAD_BYTES) as usize).min(bytes.len() - PAYLOAD);
        let arguments = whole.saturating_sub(IN_HEADER_BYTES + data).min(ARGUMENTS_BYTES);
        FuseMessage {
            header: bytes.first_chunk().expect("a buffer is longer than a header"),
            arguments: &bytes[ARGUMENTS..][..arguments],
            data: &bytes[PAYLOAD..][..data],
        }
    }

    /// Answers a request with the header and data of an answer. They go with the next turn.
    ///
    /// # Errors
    ///
    /// The ring is of no more use.
    ///
    /// # Panics
    ///
    /// There is no request of this number, or there are more data than a buffer has room for.
    #[inline]
    pub fn answer(&mut self, at: u32, header: &[u8], data: &[u8]) -> io::Result<()> {
        let place = &mut self.places[at as usize];
        assert!(place.is_ours, "a request is answered once");
        let bytes = &mut place.buf[..];
        let commit = u64::from_ne_bytes(std::array::from_fn(|i| bytes[COMMIT_ID + i]));
        bytes[..header.len()].copy_from_slice(header);
        bytes[PAYLOAD_BYTES..][..4].copy_from_slice(&(data.len() as u32).to_ne_bytes());
        bytes[PAYLOAD..][..data.len()].copy_from_slice(data);
        place.is_ours = false;
        let entry = entry(&self.channel, COMMIT_AND_FETCH, place.queue, commit, 0);
        // SAFETY: the place keeps its buffer, and nobody touches it before a request has come.
        unsafe { self.push(&entry.user_data(at.into())) }
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
        // They come back at once where the file system was unmounted.
        if self.in_flight > 0 {
            let span = Timespec::new().nsec(DRAIN_MS * 1_000_000);
            let (args, count) = (SubmitArgs::new().timespec(&span), self.in_flight);
            let _ = self.uring().submitter().submit_with_args(count, &args);
            let _ = self.turn(&mut VecDeque::new());
        }
        self.uring = None;
        if self.in_flight > 0 {
            // The kernel may still write into these buffers: leak them rather than reuse them.
            std::mem::forget(std::mem::take(&mut self.places));
        }
    }
}

fn entry(channel: &OwnedFd, op: u32, queue: u16, commit: u64, parts: u64) -> Entry128 {
    // `struct fuse_uring_cmd_req`.
    let mut command = [0; 80];
    command[8..16].copy_from_slice(&commit.to_ne_bytes());
    command[16..18].copy_from_slice(&queue.to_ne_bytes());
    let fd = Fd(channel.as_raw_fd());
    opcode::UringCmd80::new(fd, op).cmd(command).addr(Some(parts)).build()
}

/// An entry whose address is that of so many parts.
fn with_len(mut entry: Entry128, count: u32) -> Entry128 {
    let at = std::ptr::from_mut(&mut entry).cast::<u8>();
    // SAFETY: an entry is the 128 bytes of `struct io_uring_sqe`, with four of `len` at this place.
    unsafe { at.add(LEN_OF_ENTRY).cast::<u32>().write_unaligned(count) };
    entry
}

/// A ring of long entries with the best set of flags.
fn build(depth: u32) -> io::Result<IoUring<Entry128>> {
    let mut builder = IoUring::<Entry128>::builder();
    builder.setup_clamp().setup_submit_all();
    builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
    builder.build(depth)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}
