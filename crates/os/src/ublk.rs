//! A queue of `/dev/ublkcN` on a core: requests of a block device served by this process.
//!
//! Each request is the completion of a command in the core's ring, with the data of a write in that
//! command's buffer. The next command for the tag completes the request, with the data of a read in
//! its buffer. So each tag has a buffer, which the kernel owns while the command is in the ring.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use block::{Arena, Buf};
use io_uring::opcode;
use io_uring::types::Fd;

use crate::core::{Core, CoreState, Kind, Slot};
use crate::extents::page_bytes;
use crate::ublk_control::UblkDevice;

/// `_IOWR('u', 0x20, struct ublksrv_io_cmd)`, and 0x21: Linux 6.4.
const FETCH_REQ: u32 = 0xc010_7520;
const COMMIT_AND_FETCH_REQ: u32 = 0xc010_7521;
/// Maximum number of tags in a queue's descriptor area.
const DEPTH_MOST: u64 = 4096;
/// `PR_SET_IO_FLUSHER`.
const IO_FLUSHER: libc::c_int = 57;

/// A queue of a device.
pub struct UblkQueue {
    core: Core,
    index: u32,
}

/// A request of the kernel.
#[derive(Debug)]
pub struct UblkRequest {
    /// Tag of the request within its queue until its completion.
    pub tag: u16,
    /// The operation.
    pub op: UblkOp,
    /// Durable before the completion.
    pub fua: bool,
    /// Offset.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Data of a write, or space for those of a read. The buffer has the size of the device's
    /// longest request.
    pub buf: Buf,
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkOp {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Discard the range.
    Discard,
    /// Make the range read as zeroes.
    WriteZeroes,
    /// An operation that was never announced.
    Unknown,
}

/// `struct ublksrv_io_desc`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    op_flags: u32,
    sectors: u32,
    start_sector: u64,
    address: u64,
}

impl UblkQueue {
    /// Starts to fetch requests of a queue. The kernel binds the queue to this thread.
    ///
    /// # Errors
    ///
    /// Out of memory or descriptors.
    ///
    /// # Panics
    ///
    /// There is no such queue.
    pub fn open(core: &Core, device: &UblkDevice, queue: u16) -> io::Result<UblkQueue> {
        assert!(queue < device.info.queues, "queue {queue} of {}", device.info.queues);
        // Writeback through this device for memory reclaim must not wait for this thread. SAFETY: a
        // system call without pointers. Without CAP_SYS_RESOURCE the call is refused.
        unsafe { libc::prctl(IO_FLUSHER, 1 as libc::c_ulong, 0, 0, 0) };
        let depth = device.info.depth;
        let area = Area::map(&device.file, queue, depth)?;
        let fd = OwnedFd::from(device.file.try_clone()?);
        let max_bytes = device.info.max_bytes as usize;
        let state = UblkState {
            fd,
            queue,
            area,
            max_bytes,
            bufs: (0..depth).map(|_| None).collect(),
            arrived: Vec::with_capacity(depth.into()),
            over: 0,
            refused: None,
            ready: false,
        };
        let bufs = Arena::cut(depth.into(), max_bytes)?;
        let index = core.state.borrow_mut().insert(Slot::Ublk(Box::new(state)));
        let queue = UblkQueue { core: core.clone(), index };
        for (tag, buf) in (0..depth).zip(bufs) {
            queue.push(FETCH_REQ, tag, 0, buf)?;
        }
        core.submit()?;
        Ok(queue)
    }

    /// Moves arrived requests to `requests`.
    pub fn take(&self, requests: &mut Vec<UblkRequest>) {
        let mut state = self.core.state.borrow_mut();
        let ublk = state.ublk(self.index);
        for tag in ublk.arrived.drain(..) {
            let buf = ublk.bufs[usize::from(tag)].take().expect("a request comes with its buffer");
            requests.push(ublk.area.request(tag, buf));
        }
    }

    /// Completes a request: bytes done, or a negative errno. Sent with the next turn.
    ///
    /// # Errors
    ///
    /// The ring has failed.
    ///
    /// # Panics
    ///
    /// The request was completed before, or the buffer is shorter than the longest request.
    #[inline]
    pub fn answer(&self, tag: u16, result: i32, buf: Buf) -> io::Result<()> {
        self.push(COMMIT_AND_FETCH_REQ, tag, result, buf)
    }

    /// Whether no more requests will come, because the device was stopped.
    ///
    /// # Errors
    ///
    /// The kernel refused a command: the queue is unusable.
    pub fn is_over(&self) -> io::Result<bool> {
        let mut state = self.core.state.borrow_mut();
        let ublk = state.ublk(self.index);
        match ublk.refused {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(ublk.over == ublk.bufs.len()),
        }
    }

    fn push(&self, op: u32, tag: u16, result: i32, buf: Buf) -> io::Result<()> {
        let mut state = self.core.state.borrow_mut();
        let ublk = state.ublk(self.index);
        assert!(buf.len() >= ublk.max_bytes, "a buffer of {} bytes", buf.len());
        let mut command = [0; 16];
        command[..2].copy_from_slice(&ublk.queue.to_ne_bytes());
        command[2..4].copy_from_slice(&tag.to_ne_bytes());
        command[4..8].copy_from_slice(&result.to_ne_bytes());
        command[8..].copy_from_slice(&(buf.address().as_ptr() as u64).to_ne_bytes());
        let had = ublk.bufs[usize::from(tag)].replace(buf);
        assert!(had.is_none(), "a request is answered once");
        let entry = opcode::UringCmd16::new(Fd(ublk.fd.as_raw_fd()), op).cmd(command).build();
        // SAFETY: the buffer is as long as any request, and belongs to the slot, which lives as
        // long as the ring, until the completion.
        unsafe { state.push(entry, Kind::Ublk, self.index, tag.into()) }
    }
}

/// The core's state of a queue.
pub(crate) struct UblkState {
    fd: OwnedFd,
    queue: u16,
    area: Area,
    max_bytes: usize,
    /// Buffers in the kernel or filled by it, by tag.
    bufs: Vec<Option<Buf>>,
    /// Tags of requests not taken yet.
    arrived: Vec<u16>,
    /// Tags that are stopped.
    over: usize,
    /// Why the kernel refused a command.
    refused: Option<i32>,
    pub(crate) ready: bool,
}

impl CoreState {
    fn ublk(&mut self, index: u32) -> &mut UblkState {
        match &mut self.slots[index as usize] {
            Slot::Ublk(ublk) => ublk,
            _ => unreachable!("a queue stays in its slot"),
        }
    }

    /// Handles a completed command.
    pub(crate) fn ublk_done(&mut self, index: u32, tag: u32, result: i32) {
        let ublk = self.ublk(index);
        match result {
            0 => ublk.arrived.push(tag as u16),
            _ if result == -libc::ENODEV => ublk.over += 1,
            _ => ublk.refused = Some(result.saturating_neg()),
        }
        self.mark_ready(index);
    }
}

/// The request descriptors, shared with the kernel.
struct Area {
    base: NonNull<Descriptor>,
    bytes: usize,
    depth: u16,
}

impl Area {
    fn map(file: &std::fs::File, queue: u16, depth: u16) -> io::Result<Area> {
        let page = page_bytes();
        let pages_of = |depth: u64| (depth * size_of::<Descriptor>() as u64).next_multiple_of(page);
        let bytes = pages_of(depth.into()) as usize;
        let at = (u64::from(queue) * pages_of(DEPTH_MOST)) as libc::off_t;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, file.as_raw_fd(), at)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Area { base, bytes, depth })
    }

    /// Request of a tag whose command completed.
    fn request(&self, tag: u16, buf: Buf) -> UblkRequest {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        // SAFETY: the mapping holds `depth` aligned descriptors, any bytes of which are valid. The
        // kernel writes this one only before it completes the tag's command, and it has.
        let Descriptor { op_flags, sectors, start_sector, .. } =
            unsafe { self.base.add(usize::from(tag)).read_volatile() };
        let op = match op_flags & 0xff {
            0 => UblkOp::Read,
            1 => UblkOp::Write,
            2 => UblkOp::Flush,
            3 => UblkOp::Discard,
            5 => UblkOp::WriteZeroes,
            _ => UblkOp::Unknown,
        };
        let fua = op_flags & 1 << 13 != 0;
        // The start sector of a flush is meaningless.
        let offset = start_sector.saturating_mul(512);
        UblkRequest { tag, op, fua, offset, len: u64::from(sectors) * 512, buf }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, to which there are no references any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
