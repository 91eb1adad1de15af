//! The thread of a core: receives requests from the kernel, submits them to its lane as I/Os, and
//! answers them on completion.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use block::{Buf, Done, Io, Nanos, Op, Pool, Tag};
use os::{Clock, FuseChannel, FuseRing};
use rustix::io::Errno;
use volume::Volume;

use crate::plan::{Next, Patch, Stage, Work};
use crate::port::{Port, RequestId};
use crate::station::{Station, begin, errno_of};
use crate::wire::{
    Agreed, Ask, Attr, FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE, FOPEN_PARALLEL_DIRECT_WRITES, HEAD_BYTES,
    IO_MAX_BYTES, MAJOR, Request, SetAttr, answer_head, init_answer, open_answer,
};
use crate::{AttachError, Shared};

/// Requests in flight on a core, each with one or two buffers in addition to those of the lane.
/// Further requests wait in the kernel's queue.
const SLOTS: usize = 256;
/// Requests read as one batch: they share one call into the lane.
const BATCH: usize = 32;
/// Time limit for the kernel to send INIT.
const HELLO: Nanos = Nanos::from_secs(5);
/// Maximum depth of a queue of the ring.
const QUEUE_DEPTH: usize = 64;
const O_DIRECT: u32 = os::O_DIRECT as u32;

/// `fallocate` modes.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 0x10;

/// Negotiates protocol version and flags (INIT), before further channels are opened.
pub(crate) fn shake_hands(channel: &FuseChannel) -> Result<Agreed, AttachError> {
    let mut data = vec![0; 2 * IO_MAX_BYTES as usize];
    let mut head = [0; HEAD_BYTES];
    let clock = Clock::get();
    let end = clock.now() + HELLO;
    loop {
        match channel.next(&mut head, &mut data) {
            Ok(len) => {
                let request = Request::parse_message(&head, &data, len);
                let Some(Request { unique, ask }) = request else { continue };
                let Ask::Init { major, minor, readahead, flags } = ask else { continue };
                if major != MAJOR {
                    let why = format!(
                        "the kernel uses FUSE version {major}, and drumfire needs \
                        {MAJOR}"
                    );
                    return Err(AttachError::Fuse(why));
                }
                let agreed = Agreed::on(flags, FuseRing::is_possible());
                let answer = init_answer(minor, readahead, agreed);
                channel.answer(&answer_head(unique, 0, answer.len()), &answer)?;
                return Ok(agreed);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && clock.now() < end => {
                std::thread::yield_now();
            }
            Err(error) => {
                return Err(AttachError::Fuse(format!("no FUSE_INIT from the kernel: {error}")));
            }
        }
    }
}

/// The channel of a thread and its share of the kernel's queues.
pub(crate) struct Source {
    pub(crate) channel: FuseChannel,
    /// Queues to serve over io_uring; empty if INIT did not agree on it.
    pub(crate) queues: Vec<u16>,
}

impl Source {
    fn open(self, station: &Station<'_>) -> Result<Port, AttachError> {
        let Source { channel, queues } = self;
        let queues = depths(&queues, &os::cpu::online());
        let open = || FuseRing::open(&channel, &queues, IO_MAX_BYTES as usize);
        let ring = (!queues.is_empty()).then(open).transpose()?;
        Port::open(channel, ring, &station.core)
    }
}

/// Depth of each queue: 1 for an offline CPU, which sends no requests; the others share the slots.
fn depths(queues: &[u16], online: &[usize]) -> Vec<(u16, usize)> {
    let is_online = |queue: u16| online.contains(&usize::from(queue));
    let busy = queues.iter().filter(|queue| is_online(**queue)).count();
    let depth = (SLOTS / busy.max(1)).clamp(1, QUEUE_DEPTH);
    queues.iter().map(|queue| (*queue, if is_online(*queue) { depth } else { 1 })).collect()
}

/// Serves until the file is unmounted or a stop is requested. Signals when it has begun.
pub(crate) fn run(
    shared: &Shared,
    attr: &Mutex<Attr>,
    volume: &dyn Volume,
    source: Source,
    cpu: Option<usize>,
    tell: &Sender<Result<(), AttachError>>,
) {
    let set_up = || {
        let pool = Pool::new(2 * SLOTS, SLOTS + 2);
        let (station, waker) = Station::open(shared, volume, cpu, pool, SLOTS)?;
        let worker = Worker {
            shared,
            attr,
            port: source.open(&station)?,
            station,
            slots: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS).rev().collect(),
        };
        Ok((worker, waker))
    };
    let Some(mut worker) = begin(shared, tell, set_up) else { return };
    if let Err(error) = worker.serve() {
        shared.fail(format!("the file can no longer be served: {error}"));
    }
    // Requests still in flight fail with ECONNABORTED.
    if let Err(fault) = worker.station.leave(drop) {
        shared.fail(format!("written data may be lost: the last flush failed: {fault}"));
    }
}

/// A request with I/Os in flight.
struct Slot {
    id: RequestId,
    work: Work,
}

struct Worker<'a> {
    shared: &'a Shared,
    attr: &'a Mutex<Attr>,
    port: Port,
    station: Station<'a>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
}

impl Worker<'_> {
    fn in_flight(&self) -> usize {
        SLOTS - self.free.len()
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            let stops = self.shared.stop.load(Ordering::Acquire);
            // Replies of the last round are submitted even if no more requests are taken.
            self.port.turn()?;
            let taken = if stops { 0 } else { self.take_requests()? };
            if (stops || self.port.unmounted) && self.in_flight() == 0 {
                return Ok(());
            }
            let answered = self.drive();
            self.port.await_requests(&self.station.core)?;
            let until = match taken + answered {
                // Every I/O completed in the call; the ring is empty.
                1.. if self.in_flight() == 0 && !self.port.is_idle() => continue,
                1.. => Some(Nanos(0)),
                0 => self.station.wake(),
            };
            self.station.core.turn(until, &mut ready)?;
            self.port.on_ready(&ready);
            ready.clear();
        }
    }

    /// Takes requests while slots are free; returns how many.
    fn take_requests(&mut self) -> io::Result<usize> {
        let mut taken = 0;
        while taken < BATCH && !self.free.is_empty() {
            let Some((id, ask)) = self.port.next()? else { break };
            taken += 1;
            self.begin(id, ask);
        }
        Ok(taken)
    }

    /// Answers a request at once if it needs no I/O; otherwise starts its I/Os.
    fn begin(&mut self, id: RequestId, ask: Ask) {
        match ask {
            Ask::Read { offset, size } => self.begin_read(id, offset, size),
            Ask::Write { direct, offset, size } => self.begin_write(id, direct, offset, size),
            Ask::Fsync => self.start(id, Work::Flush { stage: Stage::New }),
            Ask::Allocate { offset, len, mode } => self.begin_clear(id, offset, len, mode),
            Ask::GetAttr => self.port.answer(id, &self.attr().answer()),
            Ask::SetAttr(set) => self.set_attr(id, set),
            Ask::Open { flags } => {
                let direct = flags & O_DIRECT != 0;
                let how = match direct {
                    true => FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES,
                    false => FOPEN_KEEP_CACHE,
                };
                self.port.answer(id, &open_answer(direct.into(), how));
            }
            Ask::StatFs => self.port.answer(id, &self.attr().stat_fs()),
            Ask::Nod => self.port.answer(id, &[]),
            Ask::Silent => self.port.discard(id),
            Ask::Init { .. } => self.port.refuse(id, Errno::PROTO),
            Ask::Unknown => self.port.refuse(id, Errno::NOSYS),
        }
    }

    fn attr(&self) -> Attr {
        *self.attr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets attributes as on a block device: truncating to zero, as `>` does, changes nothing.
    fn set_attr(&mut self, id: RequestId, set: SetAttr) {
        if set.size.is_some_and(|size| size != 0 && size != self.station.geometry.bytes()) {
            return self.port.refuse(id, Errno::INVAL);
        }
        let answer = {
            let mut attr = self.attr.lock().unwrap_or_else(PoisonError::into_inner);
            attr.mode = set.mode.map_or(attr.mode, |mode| attr.mode & !0o777 | mode & 0o777);
            attr.uid = set.uid.unwrap_or(attr.uid);
            attr.gid = set.gid.unwrap_or(attr.gid);
            attr.answer()
        };
        self.port.answer(id, &answer);
    }

    fn begin_read(&mut self, id: RequestId, offset: u64, size: u32) {
        let left = self.station.geometry.bytes().saturating_sub(offset);
        let size = size.min(IO_MAX_BYTES).min(u32::try_from(left).unwrap_or(u32::MAX));
        if size == 0 {
            return self.port.answer(id, &[]);
        }
        let Patch { offset, len, skip, size } = Patch::around(&self.station.geometry, offset, size);
        let Some(buf) = self.station.core.pool().take_beyond(len as usize) else {
            return self.port.refuse(id, Errno::NOMEM);
        };
        let at = self.hold(id, Work::Read { skip, size });
        self.push(at, Op::Read, offset, len, Some(buf));
    }

    fn begin_write(&mut self, id: RequestId, direct: bool, offset: u64, size: u32) {
        let left = self.station.geometry.bytes().saturating_sub(offset);
        let size = size.min(u32::try_from(left).unwrap_or(u32::MAX));
        if size == 0 {
            return self.port.refuse(id, Errno::NOSPC);
        }
        let patch = Patch::around(&self.station.geometry, offset, size);
        if !patch.is_whole() && direct {
            // Misaligned direct writes fail, as on a block device.
            return self.port.refuse(id, Errno::INVAL);
        }
        let pool = self.station.core.pool();
        let Some(data) = self.port.take_data(id, size as usize, pool) else {
            return self.port.refuse(id, Errno::NOMEM);
        };
        if patch.is_whole() {
            let at = self.hold(id, Work::Write { size });
            return self.push(at, Op::Write, offset, size, Some(data));
        }
        let work = Work::Patch { patch, data: Some(data), size, stage: Stage::New };
        self.start(id, work);
    }

    fn begin_clear(&mut self, id: RequestId, offset: u64, len: u64, mode: u32) {
        let end = offset.saturating_add(len);
        let op = match mode & !KEEP_SIZE {
            // The range is allocated already.
            0 if end <= self.station.geometry.bytes() => return self.port.answer(id, &[]),
            0 => return self.port.refuse(id, Errno::NOSPC),
            PUNCH_HOLE if self.station.geometry.trim_zeroes => Op::Trim,
            PUNCH_HOLE | ZERO_RANGE => Op::WriteZeroes,
            _ => return self.port.refuse(id, Errno::OPNOTSUPP),
        };
        let end = end.min(self.station.geometry.bytes());
        if offset >= end {
            return self.port.answer(id, &[]);
        }
        self.start(id, Work::Clear { op, at: offset, end, patch: None });
    }

    fn hold(&mut self, id: RequestId, work: Work) -> usize {
        let at = self.free.pop().expect("requests are taken where there is a slot");
        self.slots[at] = Some(Slot { id, work });
        at
    }

    fn push(&mut self, at: usize, op: Op, offset: u64, len: u32, buf: Option<Buf>) {
        self.station.push(Io { tag: Tag(at as u64), op, fua: false, len, offset, buf });
    }

    /// Starts a request that may need several I/Os.
    fn start(&mut self, id: RequestId, work: Work) {
        let at = self.hold(id, work);
        self.go_on(at, None);
    }

    /// Starts the next I/O of a request, or answers the request. `buf` is the buffer of the last
    /// I/O.
    fn go_on(&mut self, at: usize, buf: Option<Buf>) {
        let Some(slot) = &mut self.slots[at] else { return };
        match slot.work.next(&self.station.geometry, self.station.core.pool(), buf) {
            Next::Io(op, offset, len, buf) => self.push(at, op, offset, len, buf),
            Next::Done(buf) => self.finish(at, Ok(()), buf),
            Next::NoMemory => self.finish(at, Err(Errno::NOMEM), None),
        }
    }

    /// Answers a request and frees its slot and buffers.
    fn finish(&mut self, at: usize, result: Result<(), Errno>, buf: Option<Buf>) {
        let Some(Slot { id, work }) = self.slots[at].take() else { return };
        self.free.push(at);
        match (result, &work, &buf) {
            (Err(errno), ..) => self.port.refuse(id, errno),
            (Ok(()), Work::Read { skip, size }, Some(buf)) => {
                self.port.answer(id, &buf[*skip..skip + size]);
            }
            (Ok(()), Work::Read { .. }, None) => self.port.refuse(id, Errno::IO),
            (Ok(()), Work::Write { size } | Work::Patch { size, .. }, _) => {
                self.port.answer(id, &u64::from(*size).to_le_bytes());
            }
            (Ok(()), Work::Flush { .. } | Work::Clear { .. }, _) => self.port.answer(id, &[]),
        }
        for buf in buf.into_iter().chain(work.into_data()) {
            self.station.core.pool().give(buf);
        }
    }

    /// Drives the lane, and answers completed requests; returns the number of I/Os.
    fn drive(&mut self) -> usize {
        let mut done = self.station.drive();
        let count = done.len();
        for Done { tag, result, buf, .. } in done.drain(..) {
            match result {
                Ok(()) => self.go_on(tag.0 as usize, buf),
                Err(fault) => self.finish(tag.0 as usize, Err(errno_of(fault)), buf),
            }
        }
        self.station.give_back(done);
        count
    }
}

#[cfg(test)]
mod test {
    use super::depths;

    #[test]
    fn queues_of_cpus_that_are_offline_cost_little() {
        assert_eq!(depths(&[0, 1], &[0, 1]), [(0, 64), (1, 64)]);
        let many: Vec<u16> = (0..128).collect();
        let depths = depths(&many, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((depths[7], depths[8]), ((7, 32), (8, 1)));
        assert_eq!(super::depths(&many, &(0..128).collect::<Vec<_>>())[0], (0, 2));
        assert_eq!(super::depths(&[], &[0]), []);
    }
}
