//! One core's lane to a mirror.
//!
//! A write goes to every leg that is in, a read to the leg that the granule is assigned to. A leg
//! whose write fails while another's succeeds is failed before the write is acknowledged. A failed
//! read is served by another leg and written back.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    Batch, Buf, Cause, Connection, Count, Done, Fault, Geometry, Immediate, Io, Lane, Nanos, Op,
    Plant, Pool, Tag, planted,
};

use super::claims::{Claims, GRANULE_BYTES};
use super::ghosts::Ghosts;
use super::numbers::Number;
use super::rules::{Answers, Opened, Rules, Verdict};
use super::task::{Blame, Change, Fill, Flush, Read, Repair, Task, Tasks, Votes};
use super::turn::turn_of;
use crate::losses::{Losses, Telling};
use ways::Way;

mod answers;
mod fill;
mod hung;
mod ways;

/// Opens a new lane to a leg, or returns the reason why there is none.
pub type Ways = Box<dyn FnMut(usize) -> Result<Box<dyn Lane>, String>>;

pub(crate) struct MirrorLane<R> {
    number: Number,
    pub(super) geometry: Geometry,
    /// Offset of the data on each leg.
    base: u64,
    legs: Arc<R>,
    claims: Arc<Claims>,
    pool: Pool,
    ways: Vec<Way>,
    /// Opens lanes to legs that return; `None` where legs never return.
    source: Option<Ways>,
    tasks: Tasks,
    /// All legs are memory: an I/O is executed within the call.
    immediate: bool,
    pub(super) batch: Batch,
    /// Changes and repairs that wait for claimed granules, in order of arrival.
    blocked: VecDeque<Blocked>,
    /// Changes that hold their claims and wait until the map marks their regions dirty.
    marking: VecDeque<Io>,
    /// Reads that wait until the legs are identical in their range.
    unsettled: VecDeque<Io>,
    /// Changes and flushes that all legs completed and that may not be acknowledged yet.
    held: Vec<u32>,
    /// Time of the last call.
    now: Nanos,
    /// The lane has been open.
    opened: bool,
    /// Another lane is waiting for granules that this one released: the other lane goes first.
    yields: bool,
    /// Completions to report.
    pub(super) ready: Vec<Done>,
    answers: Vec<Done>,
    /// Abandoned lanes with I/Os in flight.
    ghosts: Ghosts,
    /// Time of the next check for I/Os that wait for long.
    look_at: Nanos,
    /// The legs of the last causes of faults, for [`words_of`](Lane::words_of).
    blamed: VecDeque<(Cause, usize)>,
    telling: Telling,
}

/// Time between checks for metadata to become durable.
const LOOK: Nanos = Nanos(20_000);

/// Waits for a granule.
enum Blocked {
    Change(Io),
    Repair { leg: usize, offset: u64, len: u32 },
}

impl<R: Rules> MirrorLane<R> {
    pub(crate) fn new(
        lanes: Vec<Option<Box<dyn Lane>>>,
        number: Number,
        geometry: Geometry,
        (legs, claims): (Arc<R>, Arc<Claims>),
        pool: Pool,
    ) -> MirrorLane<R> {
        let mut lanes = lanes;
        let immediate = lanes
            .iter_mut()
            .all(|lane| lane.as_mut().is_some_and(|lane| lane.immediate().is_some()));
        let way = |(leg, lane)| Way::new(lane, legs.joined(leg));
        MirrorLane {
            number,
            geometry,
            base: 0,
            ways: lanes.into_iter().enumerate().map(way).collect(),
            source: None,
            legs,
            claims,
            pool,
            tasks: Tasks::default(),
            immediate,
            batch: Batch::default(),
            blocked: VecDeque::new(),
            marking: VecDeque::new(),
            unsettled: VecDeque::new(),
            held: Vec::new(),
            now: Nanos(0),
            opened: false,
            yields: false,
            ready: Vec::new(),
            answers: Vec::new(),
            ghosts: Ghosts::default(),
            look_at: Nanos(0),
            blamed: VecDeque::new(),
            telling: Telling::default(),
        }
    }

    /// Returns this lane with data from offset `base` on, and with new lanes to legs that return.
    pub(crate) fn based(mut self, base: u64, source: Ways) -> MirrorLane<R> {
        (self.base, self.source, self.immediate) = (base, Some(source), false);
        self
    }

    fn refuse(&mut self, io: Io, fault: Fault) {
        self.ready.push(io.failed(fault));
    }

    fn has(&self, leg: usize) -> bool {
        self.legs.in_it() & 1 << leg != 0
    }

    fn give(&mut self, leg: usize, task: u32, io: Io) {
        let offset = if io.op == Op::Flush { 0 } else { self.base + io.offset };
        self.ways[leg].waiting.push_back(Io { tag: Tasks::tag(task, leg), offset, ..io });
    }

    /// Leg that serves reads at an offset, except those `tried`. Each offset has one leg, so that
    /// no later read returns older data.
    pub(super) fn reader(&self, offset: u64, len: u32, tried: u32) -> Option<usize> {
        let all = self.legs.readers(offset, len.into()) & !tried;
        let all = if all == 0 { self.legs.in_it() & !tried } else { all };
        let place = turn_of(offset / GRANULE_BYTES, all.count_ones().max(1));
        legs(all).nth(place as usize)
    }

    fn read(&mut self, io: Io) {
        if !self.legs.settles(io.offset, io.len.into()) {
            return self.unsettled.push_back(io);
        }
        let Io { tag, offset, len, .. } = io;
        let leg = self.reader(offset, len, 0).expect("one leg is always in");
        let read = Read { tag, offset, len, leg, tried: 0, blame: None, begun: self.now };
        let task = self.tasks.enter(Task::Read(read));
        self.give(leg, task, io);
    }

    /// Starts a change, if no other change overlaps it.
    fn change(&mut self, io: Io) {
        let (offset, len) = (io.offset, u64::from(io.len));
        if !self.may_change(offset, len) {
            return self.blocked.push_back(Blocked::Change(io));
        }
        self.begin(io);
    }

    /// Starts a change that holds its claims, if its regions may be written.
    fn begin(&mut self, io: Io) {
        let (offset, len) = (io.offset, u64::from(io.len));
        match self.legs.opens(offset, len) {
            Opened::Yes => {}
            Opened::Wait => return self.marking.push_back(io),
            Opened::Fails => {
                self.give_back(offset, len);
                return self.refuse(io, Fault::Medium);
            }
        }
        let (since, writers) = (self.legs.events(), self.legs.writers());
        let Some(copies) = self.copies(&io, writers.count_ones() as usize - 1) else {
            // Out of memory.
            self.give_back(offset, len);
            return self.refuse(io, Fault::Aborted);
        };
        let Io { tag, op, fua, len, offset, buf } = io;
        if op == Op::Trim && self.trims_nothing(writers) {
            self.give_back(offset, len.into());
            return self.ready.push(Done { tag, result: Ok(()), cause: Cause::NONE, buf });
        }
        let votes = Votes::of(writers, since, self.now);
        let change = Change { tag, op, fua, offset, len, votes, buf: None };
        let task = self.tasks.enter(Task::Change(change));
        let bufs = std::iter::once(buf).chain(copies);
        for (leg, buf) in legs(writers).zip(bufs) {
            let op = if op == Op::Trim { self.trim_of(leg) } else { op };
            self.give(leg, task, Io { tag, op, fua, len, offset, buf });
        }
    }

    /// Claims a range, unless one of this lane's I/Os overlaps it.
    fn may_change(&self, offset: u64, len: u64) -> bool {
        let crosses = |io: &Io| io.offset < offset + len && offset < io.offset + u64::from(io.len);
        let crossed = self.tasks.overlaps(offset, len) || self.marking.iter().any(crosses);
        !crossed && self.claims(offset, len)
    }

    /// Whether this lane has no changes in flight or waiting.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.changes_nothing() && self.marking.is_empty() && self.blocked.is_empty()
    }

    /// Claims the granules of a range, unless another lane has one or goes first.
    pub(super) fn claims(&self, offset: u64, len: u64) -> bool {
        !self.yields && self.claims.claim(self.number.get(), offset, len)
    }

    pub(super) fn legs_in_it(&self) -> u32 {
        self.legs.in_it()
    }

    pub(super) fn leg(&mut self, leg: usize) -> Option<&mut dyn Immediate> {
        self.ways[leg].lane.as_mut()?.immediate()
    }

    /// Copies of the written data for all further legs; `None` if out of memory.
    fn copies(&self, io: &Io, count: usize) -> Option<Vec<Option<Buf>>> {
        let Some(from) = io.buf.as_ref().filter(|_| io.op == Op::Write) else {
            return Some((0..count).map(|_| None).collect());
        };
        let len = io.len as usize;
        let copy = |_| {
            let mut buf = self.pool.take_beyond(len)?;
            buf[..len].copy_from_slice(&from[..len]);
            Some(Some(buf))
        };
        (0..count).map(copy).collect()
    }

    fn flush(&mut self, io: &Io) {
        let (since, writers) = (self.legs.events(), self.legs.writers());
        let sent =
            if planted(Plant::FlushOneLeg) { writers & writers.wrapping_neg() } else { writers };
        let votes = Votes { good: writers & !sent, ..Votes::of(sent, since, self.now) };
        let told = self.legs.losses().map_or(0, Losses::told);
        let task = self.tasks.enter(Task::Flush(Flush { tag: io.tag, votes, told }));
        for leg in legs(sent) {
            self.give(leg, task, Io { buf: None, ..*io });
        }
    }

    /// Starts to write back data that a leg could not read, read from another one.
    fn repair(&mut self, leg: usize, offset: u64, len: u32) {
        if !self.may_change(offset, len.into()) {
            return self.blocked.push_back(Blocked::Repair { leg, offset, len });
        }
        let from = self.reader(offset, len, 1 << leg).filter(|_| self.has(leg));
        let buf = self.pool.take_beyond(len as usize);
        let (Some(from), Some(buf)) = (from, buf) else {
            return self.give_back(offset, len.into());
        };
        let repair = Repair { leg, asked: from, offset, len, begun: self.now };
        let task = self.tasks.enter(Task::Repair(repair));
        let (op, tag, fua, buf) = (Op::Read, Tag(0), false, Some(buf));
        self.give(from, task, Io { tag, op, fua, len, offset, buf });
    }

    pub(super) fn give_back(&mut self, offset: u64, len: u64) {
        self.yields |= self.claims.release(self.number.get(), offset, len);
    }

    /// Retries I/Os that wait for granules, for the map, or for a leg to be recorded as out.
    fn unblock(&mut self) {
        for _ in 0..self.marking.len() {
            if let Some(io) = self.marking.pop_front() {
                self.begin(io);
            }
        }
        std::mem::take(&mut self.held).into_iter().for_each(|task| self.settle(task));
        for _ in 0..self.unsettled.len() {
            if let Some(io) = self.unsettled.pop_front() {
                self.read(io);
            }
        }
        for _ in 0..self.blocked.len() {
            match self.blocked.pop_front() {
                Some(Blocked::Change(io)) => self.change(io),
                Some(Blocked::Repair { leg, offset, len }) => self.repair(leg, offset, len),
                None => return,
            }
        }
    }
}

/// The legs of a bit mask.
pub(super) fn legs(bits: u32) -> impl Iterator<Item = usize> {
    let mut left = bits;
    std::iter::from_fn(move || {
        let leg = (left != 0).then(|| left.trailing_zeros() as usize);
        left &= left.wrapping_sub(1);
        leg
    })
}

impl<R: Rules> Lane for MirrorLane<R> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        self.now = now;
        if self.immediate {
            self.execute_all(ios);
        }
        while let Some(io) = ios.pop_front() {
            match (self.geometry.check(&io), io.op) {
                (Err(fault), _) => self.refuse(io, fault),
                (_, Op::Read) => self.read(io),
                (_, Op::Flush) => self.flush(&io),
                (_, Op::Write | Op::Trim | Op::WriteZeroes) => self.change(io),
            }
        }
        self.send(now);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.now = now;
        self.look_after_ways();
        if now >= self.look_at {
            self.look_for_hung();
        }
        self.yields = false;
        self.unblock();
        for leg in 0..self.ways.len() {
            let mut answers = std::mem::take(&mut self.answers);
            let way = &mut self.ways[leg];
            if let Some(lane) = &mut way.lane {
                lane.poll(now, &mut answers);
            }
            way.in_flight.lower(answers.len() as u32);
            answers.drain(..).for_each(|one| self.answered(leg, one));
            self.answers = answers;
        }
        self.lay_ghosts();
        self.opened = self.opened || self.is_open();
        done.append(&mut self.ready);
        if let Some(losses) = self.legs.losses() {
            self.telling.returned(losses);
        }
    }

    fn wake(&self) -> Option<Nanos> {
        let waits = |way: &Way| {
            let open = way.lane.as_ref().is_none_or(|lane| lane.is_open() || !self.opened);
            open && !way.waiting.is_empty()
        };
        if !self.ready.is_empty() || !self.blocked.is_empty() || self.ways.iter().any(waits) {
            return Some(Nanos(0));
        }
        // I/Os that wait for work of the keeper's thread.
        let waits = !self.marking.is_empty() || !self.held.is_empty() || !self.unsettled.is_empty();
        let look = waits.then_some(self.now + LOOK);
        let hung = (!self.tasks.is_empty()).then_some(self.look_at);
        let ghosts = self.ghosts.wake();
        self.lanes().filter_map(Lane::wake).chain(look).chain(hung).chain(ghosts).min()
    }

    fn immediate(&mut self) -> Option<&mut dyn Immediate> {
        if self.immediate { Some(self) } else { None }
    }

    fn is_open(&self) -> bool {
        let open = |leg: usize| self.ways[leg].lane.as_ref().is_some_and(|lane| lane.is_open());
        self.opened || legs(self.legs.in_it()).all(open)
    }

    fn broken(&self) -> Option<&str> {
        if self.source.is_some() {
            return None;
        }
        let mut broken = None;
        for leg in legs(self.legs.in_it()) {
            broken = Some(self.ways[leg].lane.as_ref()?.broken()?);
        }
        broken
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        let blamed = self.blamed.iter().rev().find(|(known, _)| *known == cause);
        let lane = blamed.and_then(|(_, leg)| self.ways[*leg].lane.as_deref());
        match lane {
            Some(lane) => lane.words_of(cause),
            None => self.lanes().find_map(|lane| lane.words_of(cause)),
        }
    }

    fn connection(&self, now: Nanos) -> Connection {
        let each = self.ways.iter().map(|way| way.connection(now));
        each.fold(Connection::default(), |sum, one| sum + one)
    }

    fn in_doubt_until(&self) -> Option<Nanos> {
        self.lanes().filter_map(Lane::in_doubt_until).max()
    }

    fn doubts(&self) -> u64 {
        self.lanes().map(Lane::doubts).sum()
    }

    fn forget_losses(&self) -> bool {
        self.lanes().filter(|lane| lane.forget_losses()).count() > 0
    }

    /// An array looks at its own legs itself.
    fn looks(&self) {
        if self.source.is_none() {
            self.lanes().for_each(Lane::looks);
        }
    }

    fn close(&mut self, now: Nanos) -> bool {
        let mut closed = true;
        let lanes = self.ways.iter_mut().filter_map(|way| way.lane.as_mut());
        lanes.for_each(|lane| closed &= lane.close(now));
        closed
    }
}

impl<R> MirrorLane<R> {
    fn lanes(&self) -> impl Iterator<Item = &dyn Lane> {
        self.ways.iter().filter_map(|way| way.lane.as_deref())
    }
}

impl<R> Drop for MirrorLane<R> {
    fn drop(&mut self) {
        self.claims.forget(self.number.get());
    }
}
