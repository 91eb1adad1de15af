//! A worker: keeps so many I/Os under way on one volume and records how long each took.

use std::collections::VecDeque;

use block::{Arena, Buf, Done, Fault, Io, Lane, Nanos, Op, Pool, Tag};
use stats::Interval;

use crate::content;
use crate::pattern::{Next, Pattern};
use crate::rng::Rng;
use crate::spec::Workload;

/// A worker on its core.
pub(crate) struct Worker {
    lane: Box<dyn Lane>,
    pattern: Pattern,
    /// Length of the buffers.
    size: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    batch: VecDeque<Io>,
    done: Vec<Done>,
    interval: Box<Interval>,
    /// Until when outstanding I/Os are counted.
    counted: Nanos,
    /// Writes carry, and reads are compared with, the content of this seed.
    verify: Option<u64>,
    /// Reads go without a buffer; the lane lends one of this pool's.
    lent: Option<Pool>,
    /// The first pass of a verified run: where to write next.
    filled: Option<u64>,
    trouble: Option<Trouble>,
}

/// One I/O that may be under way.
struct Slot {
    start: Nanos,
    offset: u64,
    op: Op,
    len: u32,
    /// The data, while they are not with the lane.
    buf: Option<Buf>,
}

impl Slot {
    fn new(len: u32, buf: Buf) -> Slot {
        Slot { start: Nanos(0), offset: 0, op: Op::Read, len, buf: Some(buf) }
    }
}

/// Why a worker ends the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The way to its volume is gone.
    Lost(String),
    /// The data at this byte are not what was written there.
    Mismatch(u64),
}

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Keep I/Os under way.
    Run,
    /// Let those under way come back.
    Drain,
}

impl Worker {
    /// A worker with buffers of its own, as many as it keeps I/Os under way.
    pub(crate) fn new(
        lane: Box<dyn Lane>,
        pattern: Pattern,
        workload: &Workload,
        mut rng: Rng,
        verify: Option<u64>,
        pool: &Pool,
    ) -> std::io::Result<Worker> {
        let (size, outstanding) = (workload.access.longest_bytes(), workload.outstanding);
        let mut bufs = Arena::cut(outstanding as usize, size as usize)?;
        if workload.writes() {
            bufs.iter_mut().for_each(|buf| content::fill_random(buf, &mut rng));
        }
        let lends = lane.lends() && size as usize <= Pool::LARGE_BYTES;
        let lent = lends.then(|| pool.clone());
        let slot = |buf| Slot::new(size, buf);
        let slots: Vec<Slot> = bufs.into_iter().map(slot).collect();
        Ok(Worker {
            lane,
            pattern,
            size,
            free: (0..outstanding).rev().collect(),
            batch: VecDeque::with_capacity(slots.len()),
            done: Vec::with_capacity(slots.len()),
            slots,
            interval: Box::new(Interval::new()),
            counted: Nanos(0),
            filled: verify.map(|_| 0),
            verify,
            lent,
            trouble: None,
        })
    }

    /// Takes what is finished, starts as much anew, and returns when to come again if nothing
    /// happens before.
    #[inline]
    pub(crate) fn step(&mut self, now: Nanos, order: Order) -> Option<Nanos> {
        self.lane.poll(now, &mut self.done);
        self.count_outstanding(now);
        self.finish(now);
        if order == Order::Run && self.trouble.is_none() {
            self.start(now);
        }
        self.lane.submit(now, &mut self.batch);
        self.lane.wake()
    }

    /// Exchanges the interval that was recorded for an empty one.
    pub(crate) fn take_interval(&mut self, now: Nanos, empty: Box<Interval>) -> Box<Interval> {
        self.count_outstanding(now);
        let mut full = std::mem::replace(&mut self.interval, empty);
        full.end = now;
        self.interval.start = now;
        full
    }

    /// Begins to record at `now`.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.interval.clear();
        self.interval.start = now;
        self.counted = now;
    }

    /// Whether the first pass of a verified run is still going on.
    pub(crate) fn filling(&self) -> bool {
        self.filled.is_some() && self.trouble.is_none()
    }

    /// Why the run must end, once.
    pub(crate) fn take_trouble(&mut self) -> Option<Trouble> {
        self.trouble.clone()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Asks for an orderly end of the way to the volume; true when it came.
    pub(crate) fn close(&mut self, now: Nanos) -> bool {
        self.lane.close(now)
    }

    #[inline]
    fn count_outstanding(&mut self, now: Nanos) {
        let under_way = (self.slots.len() - self.free.len()) as u64;
        self.interval.record_outstanding(under_way, now.since(self.counted));
        self.counted = now;
    }

    #[inline]
    fn finish(&mut self, now: Nanos) {
        for done in self.done.drain(..) {
            let index = done.tag.0 as usize;
            let slot = &mut self.slots[index];
            self.free.push(index as u32);
            match done.result {
                Ok(()) => {
                    self.interval.record(slot.op, slot.len, now.since(slot.start));
                    if self.verify.is_some() && slot.op == Op::Read {
                        let found = compare(slot, done.buf.as_deref(), self.verify);
                        self.trouble = self.trouble.take().or(found);
                    }
                }
                Err(Fault::Disconnected) => {
                    self.interval.record_error(slot.op);
                    let why = self.lane.broken().unwrap_or("connection lost").to_owned();
                    self.trouble.get_or_insert(Trouble::Lost(why));
                }
                Err(_) => self.interval.record_error(slot.op),
            }
            match (&self.lent, slot.op, done.buf) {
                (Some(pool), Op::Read, Some(lent)) => pool.give(lent),
                (_, _, Some(buf)) => slot.buf = Some(buf),
                // It went without.
                (_, _, None) => {}
            }
        }
    }

    #[inline]
    fn start(&mut self, now: Nanos) {
        while let Some(index) = self.free.pop() {
            let next = match self.filled {
                None => self.pattern.next(),
                Some(at) => self.fill_next(at),
            };
            let Some(Next { op, offset, len, fua, .. }) = next else {
                return self.free.push(index);
            };
            let slot = &mut self.slots[index as usize];
            (slot.start, slot.op, slot.offset, slot.len) = (now, op, offset, len);
            if let (Some(seed), Op::Write) = (self.verify, op) {
                let buf = slot.buf.as_mut().expect("a free slot has its buffer");
                content::stamp(&mut buf[..slot.len as usize], offset, seed);
            }
            let lent = self.lent.is_some() && op == Op::Read;
            let buf = if lent || !moves_data(op) { None } else { slot.buf.take() };
            let tag = Tag(u64::from(index));
            self.batch.push_back(Io { tag, op, offset, len, fua, buf });
        }
    }

    /// The next place of the first pass; `None` while its last I/Os are under way.
    #[cold]
    fn fill_next(&mut self, at: u64) -> Option<Next> {
        let len = self.size;
        let write = |offset| {
            Some(Next { op: Op::Write, fua: false, offset, len, pause: Nanos(0), reply: 0 })
        };
        let size = u64::from(len);
        let bytes = self.lane.geometry().bytes();
        if at + size <= bytes {
            self.filled = Some(at + size);
            return write(at);
        }
        if at < bytes {
            // The last one overlaps its predecessor: the same content in the same place.
            self.filled = Some(bytes);
            return write(bytes - size);
        }
        // The slot that was just taken is the only one that is free when all others came back.
        if self.free.len() + 1 == self.slots.len() {
            self.filled = None;
        }
        None
    }
}

fn moves_data(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

#[cold]
fn compare(slot: &Slot, buf: Option<&[u8]>, verify: Option<u64>) -> Option<Trouble> {
    content::check(&buf?[..slot.len as usize], slot.offset, verify?).map(Trouble::Mismatch)
}
