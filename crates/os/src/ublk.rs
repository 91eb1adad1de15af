//! A queue of `/dev/ublkcN` on a core: requests of a block device that this process answers.
//!
//! Each request comes as the completion of a command that waits in the core's ring, with the data
//! of a write in the buffer that went along with it. The answer is the next such command; the data
//! of a read are in its buffer, in which the next request's will come. So a buffer goes with each
//! tag, to and fro, and the kernel has it while the command is in the ring.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use block::{Arena, Buf};
use io_uring::opcode;
use io_uring::types::Fd;

use crate::core::{Core, CoreState, Kind, Slot, Token};
use crate::extents::page_bytes;
use crate::ublk_control::UblkDevice;

/// `_IOWR('u', 0x20, struct ublksrv_io_cmd)`, and 0x21: Linux 6.4.
const FETCH_REQ: u32 = 0xc010_7520;
const COMMIT_AND_FETCH_REQ: u32 = 0xc010_7521;
/// The area of each queue has room for so many tags.
const DEPTH_MOST: u64 = 4096;
/// `PR_SET_IO_FLUSHER`.
const IO_FLUSHER: libc::c_int = 57;

/// A queue of a device.
pub struct UblkQueue {
    core: Core,
    index: u32,
}

/// What the kernel wants.
#[derive(Debug)]
pub struct UblkRequest {
    /// Names it within its queue until the answer.
    pub tag: u16,
    /// What to do.
    pub op: UblkOp,
    /// Durable before the answer.
    pub fua: bool,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The data of a write; where those of a read go. As long as the device's longest request.
    pub buf: Buf,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkOp {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make what was written durable.
    Flush,
    /// The range is free.
    Discard,
    /// Make the range read as zeroes.
    WriteZeroes,
    /// Something that we never said we could.
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
    /// Waits for the requests of a queue from now on. The kernel takes this thread, and no other,
    /// for the one that answers them.
    ///
    /// # Errors
    ///
    /// Memory is short, or the process has no descriptor left.
    ///
    /// # Panics
    ///
    /// The device has no such queue.
    pub fn open(core: &Core, device: &UblkDevice, queue: u16) -> io::Result<UblkQueue> {
        assert!(queue < device.info.queues, "queue {queue} of {}", device.info.queues);
        // Memory that the kernel frees by writing to this device must not wait for this thread.
        // SAFETY: a system call without pointers. Refused without CAP_SYS_RESOURCE: as before then.
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

    /// Its name in the list of [`Core::turn`].
    pub fn token(&self) -> Token {
        Token(self.index)
    }

    /// Moves the requests that have come to `requests`.
    pub fn take(&self, requests: &mut Vec<UblkRequest>) {
        let mut state = self.core.state.borrow_mut();
        let ublk = state.ublk(self.index);
        for tag in ublk.arrived.drain(..) {
            let buf = ublk.bufs[usize::from(tag)].take().expect("a request comes with its buffer");
            requests.push(ublk.area.request(tag, buf));
        }
    }

    /// Answers a request: bytes done, or an errno below zero. The answer goes with the next turn.
    ///
    /// # Errors
    ///
    /// The ring is of no more use.
    ///
    /// # Panics
    ///
    /// The request was answered before, or the buffer is shorter than the longest request.
    #[inline]
    pub fn answer(&self, tag: u16, result: i32, buf: Buf) -> io::Result<()> {
        self.push(COMMIT_AND_FETCH_REQ, tag, result, buf)
    }

    /// Whether no more requests will come, because the device was stopped.
    ///
    /// # Errors
    ///
    /// The kernel refused a command, and the queue is of no more use.
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

/// What the core knows of a queue.
pub(crate) struct UblkState {
    fd: OwnedFd,
    queue: u16,
    area: Area,
    max_bytes: usize,
    /// Those that the kernel has, or has filled, by tag.
    bufs: Vec<Option<Buf>>,
    /// Tags of requests that nobody has taken yet.
    arrived: Vec<u16>,
    /// Tags by which nothing comes any more.
    over: usize,
    /// Why the kernel takes no commands.
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

    /// A command has come back.
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

/// What the kernel writes of each request, shared with it.
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
        // SAFETY: a new mapping at a place of the kernel's choice; the result is checked.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, file.as_raw_fd(), at)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Area { base, bytes, depth })
    }

    /// What is asked for by a tag whose command came back.
    fn request(&self, tag: u16, buf: Buf) -> UblkRequest {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        // SAFETY: the mapping holds `depth` aligned descriptors, any bytes of which are valid. The
        // kernel writes this one only before it tells of a request, and has told.
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
        // Flushes have a place as well, which is none.
        let offset = start_sector.saturating_mul(512);
        UblkRequest { tag, op, fua, offset, len: u64::from(sectors) * 512, buf }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nobody refers to any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
