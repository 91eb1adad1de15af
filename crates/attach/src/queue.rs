//! Thread of a queue of a block device: submits the kernel's requests to its lane as they arrive,
//! one I/O for each, and answers them on completion.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use block::{Buf, Done, Fault, Io, Nanos, Op, Pool, Tag};
use os::{UblkDevice, UblkOp, UblkQueue, UblkRequest};
use rustix::io::Errno;
use volume::Volume;

use crate::station::{Station, begin, errno_of};
use crate::{AttachError, Shared};

/// Serves a queue until the device is stopped. Signals when it is ready for requests.
pub(crate) fn run(
    shared: &Shared,
    volume: &dyn Volume,
    device: UblkDevice,
    queue: u16,
    cpu: Option<usize>,
    tell: &Sender<Result<(), AttachError>>,
) {
    let set_up = || {
        let depth = usize::from(device.info.depth);
        // Tags have their own buffers; these are for lanes that need additional ones.
        let (station, waker) =
            Station::open(shared, volume, cpu, Pool::new(2 * depth, depth + 2), depth)?;
        let queue = UblkQueue::open(&station.core, &device, queue)?;
        let max_bytes = device.info.max_bytes as usize;
        let worker = Worker {
            station,
            queue,
            slots: (0..depth).map(|_| None).collect(),
            in_flight: 0,
            max_bytes,
            requests: Vec::with_capacity(depth),
        };
        Ok((worker, waker))
    };
    let worker = begin(shared, tell, set_up);
    // The node of the device is closed with its last queue.
    drop(device);
    let Some(mut worker) = worker else { return };
    if let Err(error) = worker.serve(shared) {
        shared.fail(format!("the device can no longer be served: {error}"));
    }
    // The kernel fails requests that are still in flight with EIO.
    if let Err(fault) = worker.station.leave(drop) {
        shared.fail(format!("written data may be lost: the last flush failed: {fault}"));
    }
}

/// A request in flight.
struct Slot {
    op: UblkOp,
    len: u32,
    /// The tag's buffer, if the I/O has none.
    spare: Option<Buf>,
}

struct Worker<'a> {
    station: Station<'a>,
    queue: UblkQueue,
    slots: Vec<Option<Slot>>,
    in_flight: usize,
    max_bytes: usize,
    requests: Vec<UblkRequest>,
}

impl Worker<'_> {
    fn serve(&mut self, shared: &Shared) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            let taken = self.take_requests()?;
            let answered = self.drive()?;
            let stops = shared.stop.load(Ordering::Acquire);
            if self.in_flight == 0 && (self.queue.is_over()? || stops) {
                return Ok(());
            }
            let until = if taken + answered > 0 { Some(Nanos(0)) } else { self.station.wake() };
            self.station.core.turn(until, &mut ready)?;
            ready.clear();
        }
    }

    fn take_requests(&mut self) -> io::Result<usize> {
        let mut requests = std::mem::take(&mut self.requests);
        self.queue.take(&mut requests);
        let count = requests.len();
        for request in requests.drain(..) {
            self.begin(request)?;
        }
        self.requests = requests;
        Ok(count)
    }

    fn begin(&mut self, request: UblkRequest) -> io::Result<()> {
        let UblkRequest { tag, op, fua, offset, len, buf } = request;
        let (does, moves_data) = match op {
            UblkOp::Read => (Op::Read, true),
            UblkOp::Write => (Op::Write, true),
            UblkOp::Flush => (Op::Flush, false),
            UblkOp::Discard => (Op::Trim, false),
            UblkOp::WriteZeroes => (Op::WriteZeroes, false),
            UblkOp::Unknown => return self.answer(tag, refusal(Errno::OPNOTSUPP), buf),
        };
        let range = if op == UblkOp::Flush { (0, 0) } else { (offset, len) };
        let len = match u32::try_from(range.1) {
            Ok(len) if !moves_data || len as usize <= buf.len() => len,
            _ => return self.answer(tag, refusal(Errno::INVAL), buf),
        };
        let (data, spare) = if moves_data { (Some(buf), None) } else { (None, Some(buf)) };
        self.slots[usize::from(tag)] = Some(Slot { op, len, spare });
        self.in_flight += 1;
        let tag = Tag(tag.into());
        self.station.push(Io { tag, op: does, fua, len, offset: range.0, buf: data });
        Ok(())
    }

    /// Drives the lane, and answers completed requests; returns their number.
    fn drive(&mut self) -> io::Result<usize> {
        let mut done = self.station.drive();
        let count = done.len();
        for done in done.drain(..) {
            self.finish(done)?;
        }
        self.station.give_back(done);
        Ok(count)
    }

    fn finish(&mut self, Done { tag, result, buf, .. }: Done) -> io::Result<()> {
        let Some(slot) = self.slots[tag.0 as usize].take() else { return Ok(()) };
        self.in_flight -= 1;
        let tag = tag.0 as u16;
        let has_data = buf.is_some();
        let buf = match slot.spare.or(buf) {
            Some(buf) => self.as_long_as_any(buf, slot.len as usize)?,
            None => Buf::new(self.max_bytes)?,
        };
        let result = match (result, slot.op) {
            (Err(fault), _) => refusal(errno_of(fault)),
            // A read that was done without its buffer would be a fault of the lane.
            (Ok(()), UblkOp::Read) if !has_data => refusal(errno_of(Fault::Medium)),
            (Ok(()), UblkOp::Read | UblkOp::Write) => slot.len as i32,
            (Ok(()), _) => 0,
        };
        self.answer(tag, result, buf)
    }

    /// Lanes may bring a read in a buffer of their own, which may be too short for the next
    /// request.
    fn as_long_as_any(&self, buf: Buf, len: usize) -> io::Result<Buf> {
        if buf.len() >= self.max_bytes {
            return Ok(buf);
        }
        let mut longer = Buf::new(self.max_bytes)?;
        let len = len.min(buf.len());
        longer[..len].copy_from_slice(&buf[..len]);
        self.station.core.pool().give(buf);
        Ok(longer)
    }

    fn answer(&self, tag: u16, result: i32, buf: Buf) -> io::Result<()> {
        self.queue.answer(tag, result, buf)
    }
}

fn refusal(errno: Errno) -> i32 {
    -errno.raw_os_error()
}
