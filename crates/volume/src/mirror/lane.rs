//! One core's way to a mirror.
//!
//! A write goes to every leg that is in, and a read to the one that its place says. A leg whose
//! write fails where another one's succeeded leaves before the write is told as done. What one leg
//! cannot read is read from another and written back.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    Batch, Buf, Cause, Connection, Count, Done, Fault, Geometry, Immediate, Io, Lane, Nanos, Op,
    Plant, Pool, Tag, planted,
};

use super::claims::{Claims, GRANULE_BYTES};
use super::rules::{Answers, Opened, Rules, Verdict};
use super::task::{Change, Flush, Read, Repair, Task, Tasks, Votes};
use super::turn::turn_of;

/// Makes a new way to a leg, or says why there is none.
pub type Ways = Box<dyn FnMut(usize) -> Result<Box<dyn Lane>, String>>;

pub(crate) struct MirrorLane<R> {
    /// Its number among the lanes of the mirror, from 1.
    number: u16,
    pub(super) geometry: Geometry,
    /// Where the data begin on each leg.
    base: u64,
    legs: Arc<R>,
    claims: Arc<Claims>,
    pool: Pool,
    ways: Vec<Way>,
    /// Where ways to legs that come back are made; `None` where none comes back.
    source: Option<Ways>,
    tasks: Tasks,
    /// All legs are memory: an I/O is done within the call.
    immediate: bool,
    pub(super) batch: Batch,
    /// Changes whose granules are taken, in the order in which they came, repairs too.
    blocked: VecDeque<Blocked>,
    /// Changes that have their granules, and that may not be written yet.
    marking: VecDeque<Io>,
    /// Changes and flushes that all legs have answered, and that may not be told yet.
    held: Vec<u32>,
    /// When this was last called.
    now: Nanos,
    /// It was open once.
    opened: bool,
    /// Another lane waits for what this one gave back: let it try first.
    yields: bool,
    /// Answers that are ready.
    pub(super) ready: Vec<Done>,
    answers: Vec<Done>,
}

/// The way to one leg.
struct Way {
    /// `None` where there is no way at all.
    lane: Option<Box<dyn Lane>>,
    waiting: VecDeque<Io>,
    under_way: u32,
    /// How often the leg had come back when this way was made.
    joined: u32,
    /// When a new way may be made to the last leg.
    renew_at: Nanos,
    /// What became of the connections of earlier ways: counters only grow.
    before: Connection,
}

impl Way {
    /// Takes another lane in place of the one before.
    fn renew(&mut self, now: Nanos, lane: Option<Box<dyn Lane>>) {
        self.before = self.connection(now);
        self.lane = lane;
    }

    fn connection(&self, now: Nanos) -> Connection {
        let present = self.lane.as_ref().map(|lane| lane.connection(now));
        self.before + present.unwrap_or_default()
    }
}

/// How soon a lane looks again whether what it waits for has been made durable.
const LOOK: Nanos = Nanos(20_000);
/// How soon after each other ways to the last leg are made.
const RENEW: Nanos = Nanos::from_millis(100);

/// What waits for a granule.
enum Blocked {
    Change(Io),
    Repair { leg: usize, offset: u64, len: u32 },
}

impl<R: Rules> MirrorLane<R> {
    pub(crate) fn new(
        lanes: Vec<Option<Box<dyn Lane>>>,
        number: u16,
        geometry: Geometry,
        (legs, claims): (Arc<R>, Arc<Claims>),
        pool: Pool,
    ) -> MirrorLane<R> {
        let mut lanes = lanes;
        let immediate = lanes
            .iter_mut()
            .all(|lane| lane.as_mut().is_some_and(|lane| lane.immediate().is_some()));
        let way = |(leg, lane)| Way {
            lane,
            waiting: VecDeque::with_capacity(64),
            under_way: 0,
            joined: legs.joined(leg),
            renew_at: Nanos(0),
            before: Connection::default(),
        };
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
            held: Vec::new(),
            now: Nanos(0),
            opened: false,
            yields: false,
            ready: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The same over data that begin at `base`, with new ways to legs that come back.
    pub(crate) fn based(mut self, base: u64, source: Ways) -> MirrorLane<R> {
        (self.base, self.source, self.immediate) = (base, Some(source), false);
        self
    }

    fn refuse(&mut self, io: Io, fault: Fault) {
        let Io { tag, buf, .. } = io;
        self.ready.push(Done { tag, result: Err(fault), cause: Cause::NONE, buf });
    }

    fn has(&self, leg: usize) -> bool {
        self.legs.in_it() & 1 << leg != 0
    }

    fn give(&mut self, leg: usize, task: u32, io: Io) {
        let offset = if io.op == Op::Flush { 0 } else { self.base + io.offset };
        self.ways[leg].waiting.push_back(Io { tag: Tasks::tag(task, leg), offset, ..io });
    }

    /// The leg that answers for a place, of those that were not `tried`: no two reads of it go back
    /// in time.
    pub(super) fn reader(&self, offset: u64, len: u32, tried: u32) -> Option<usize> {
        let all = self.legs.readers(offset, len.into()) & !tried;
        let all = if all == 0 { self.legs.in_it() & !tried } else { all };
        let place = turn_of(offset / GRANULE_BYTES, all.count_ones().max(1));
        legs(all).nth(place as usize)
    }

    fn read(&mut self, io: Io) {
        let Io { tag, op, fua, len, offset, buf } = io;
        let leg = self.reader(offset, len, 0).expect("one leg is always in");
        let task = self.tasks.enter(Task::Read(Read { tag, offset, len, tried: 0, fault: None }));
        self.give(leg, task, Io { tag, op, fua, len, offset, buf });
    }

    /// Begins a change, if nobody changes what it touches.
    fn change(&mut self, io: Io) {
        let (offset, len) = (io.offset, u64::from(io.len));
        if !self.may_change(offset, len) {
            return self.blocked.push_back(Blocked::Change(io));
        }
        self.begin(io);
    }

    /// Begins a change that has its granules, if it may be written there.
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
            // The system has no memory.
            self.give_back(offset, len);
            return self.refuse(io, Fault::Aborted);
        };
        let Io { tag, op, fua, len, offset, buf } = io;
        let votes = Votes::of(writers, since);
        let change = Change { tag, op, offset, len, votes, buf: None };
        let task = self.tasks.enter(Task::Change(change));
        let bufs = std::iter::once(buf).chain(copies);
        for (leg, buf) in legs(writers).zip(bufs) {
            self.give(leg, task, Io { tag, op, fua, len, offset, buf });
        }
    }

    /// Claims a range, unless something is in flight there.
    fn may_change(&self, offset: u64, len: u64) -> bool {
        let crosses = |io: &Io| io.offset < offset + len && offset < io.offset + u64::from(io.len);
        let crossed = self.tasks.overlaps(offset, len) || self.marking.iter().any(crosses);
        !crossed && self.claims(offset, len)
    }

    /// Whether this lane changes nothing, and nothing waits for that.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.changes_nothing() && self.marking.is_empty() && self.blocked.is_empty()
    }

    /// Claims the granules of a range, unless another lane has one, or is to try first.
    pub(super) fn claims(&self, offset: u64, len: u64) -> bool {
        !self.yields && self.claims.claim(self.number, offset, len)
    }

    pub(super) fn legs_in_it(&self) -> u32 {
        self.legs.in_it()
    }

    pub(super) fn leg(&mut self, leg: usize) -> Option<&mut dyn Immediate> {
        self.ways[leg].lane.as_mut()?.immediate()
    }

    /// As many copies of what is written as there are further legs; `None` without memory.
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
        let votes = Votes { good: writers & !sent, ..Votes::of(sent, since) };
        let task = self.tasks.enter(Task::Flush(Flush { tag: io.tag, votes }));
        for leg in legs(sent) {
            self.give(leg, task, Io { buf: None, ..*io });
        }
    }

    /// Begins to write back what a leg could not read, from another one.
    fn repair(&mut self, leg: usize, offset: u64, len: u32) {
        if !self.may_change(offset, len.into()) {
            return self.blocked.push_back(Blocked::Repair { leg, offset, len });
        }
        let from = self.reader(offset, len, 1 << leg).filter(|_| self.has(leg));
        let buf = self.pool.take_beyond(len as usize);
        let (Some(from), Some(buf)) = (from, buf) else {
            return self.give_back(offset, len.into());
        };
        let task = self.tasks.enter(Task::Repair(Repair { leg, offset, len }));
        let (op, tag, fua, buf) = (Op::Read, Tag(0), false, Some(buf));
        self.give(from, task, Io { tag, op, fua, len, offset, buf });
    }

    pub(super) fn give_back(&mut self, offset: u64, len: u64) {
        self.yields |= self.claims.release(self.number, offset, len);
    }

    /// Tries again what waited for granules, for its mark, or for a leg to be out.
    fn unblock(&mut self) {
        for _ in 0..self.marking.len() {
            if let Some(io) = self.marking.pop_front() {
                self.begin(io);
            }
        }
        std::mem::take(&mut self.held).into_iter().for_each(|task| self.settle(task));
        for _ in 0..self.blocked.len() {
            match self.blocked.pop_front() {
                Some(Blocked::Change(io)) => self.change(io),
                Some(Blocked::Repair { leg, offset, len }) => self.repair(leg, offset, len),
                None => return,
            }
        }
    }

    /// Takes an answer of a leg.
    fn answered(&mut self, leg: usize, one: Done) {
        let task = Tasks::number(one.tag);
        match self.tasks.get(task) {
            Task::Read(_) => self.read_answered(leg, task, one),
            Task::Repair(_) => self.repair_answered(leg, task, one),
            Task::Change(change) => {
                change.votes.note(leg, one.result, one.cause);
                // The owner gets one of the buffers back; which does not matter, they are alike.
                let spare = match (&change.buf, one.buf) {
                    (None, buf) => {
                        change.buf = buf;
                        None
                    }
                    (Some(_), buf) => buf,
                };
                if let Some(buf) = spare {
                    self.pool.give(buf);
                }
                if change.votes.left == 0 {
                    self.settle(task);
                }
            }
            Task::Flush(flush) => {
                flush.votes.note(leg, one.result, one.cause);
                if flush.votes.left == 0 {
                    self.settle(task);
                }
            }
        }
    }

    /// Tells what all legs have answered, if that may be told already.
    fn settle(&mut self, task: u32) {
        let (op, votes) = match self.tasks.get(task) {
            Task::Change(change) => (change.op, change.votes),
            Task::Flush(flush) => (Op::Flush, flush.votes),
            Task::Read(_) | Task::Repair(_) => return,
        };
        let Some((result, cause)) = self.verdict(op, votes) else { return self.held.push(task) };
        match self.tasks.leave(task) {
            Task::Change(Change { tag, offset, len, buf, .. }) => {
                // Some may have it, and some not; one that all refuse is nowhere.
                if result.is_err_and(|fault| votes.good != 0 || !refuses(fault)) {
                    self.legs.differs(offset, len.into());
                }
                // Behind the verdict: who writes here next meets only legs that have this one.
                self.give_back(offset, len.into());
                self.ready.push(Done { tag, result, cause, buf });
            }
            Task::Flush(Flush { tag, .. }) => {
                self.ready.push(Done { tag, result, cause, buf: None });
            }
            Task::Read(_) | Task::Repair(_) => {}
        }
    }

    /// What the answers of all legs come to, if that is clear. Those whose answer was bad leave
    /// where another one's was good.
    fn verdict(&self, op: Op, votes: Votes) -> Option<(Result<(), Fault>, Cause)> {
        let Votes { good, bad, fault, since, .. } = votes;
        let (fault, cause) = fault.unwrap_or((Fault::Medium, Cause::NONE));
        if good == 0 || (bad != 0 && refuses(fault)) {
            return Some((Err(fault), cause));
        }
        for leg in legs(bad) {
            self.legs.leave(leg, &|| format!("{} failed: {fault}", op.word()));
        }
        match self.legs.settled(Answers { good, since }) {
            Verdict::Done => Some((Ok(()), Cause::NONE)),
            Verdict::Lost => Some((Err(Fault::Medium), Cause::NONE)),
            Verdict::Wait => None,
        }
    }

    fn read_answered(&mut self, leg: usize, task: u32, one: Done) {
        let Task::Read(read) = self.tasks.get(task) else { return };
        let Read { tag, offset, len, tried, fault } = *read;
        let bit = 1 << leg;
        match one.result {
            // Who left meanwhile may have missed a write, which then was in flight beside the read.
            Ok(()) => {
                self.tasks.leave(task);
                self.ready.push(Done { tag, ..one });
                let bad = self.legs.in_it() & tried;
                legs(bad).for_each(|leg| self.repair(leg, offset, len));
                return;
            }
            Err(fault) if refuses(fault) => {
                self.tasks.leave(task);
                return self.ready.push(Done { tag, ..one });
            }
            Err(Fault::Medium) => self.legs.read_failed(leg),
            Err(fault) => {
                self.legs.leave(leg, &|| format!("read failed: {fault}"));
            }
        }
        let told = one.result.err().map(|fault| (fault, one.cause)).or(fault);
        match self.reader(offset, len, tried | bit) {
            Some(other) => {
                if let Task::Read(read) = self.tasks.get(task) {
                    (read.tried, read.fault) = (tried | bit, told);
                }
                let (op, fua, buf) = (Op::Read, false, one.buf);
                self.give(other, task, Io { tag, op, fua, len, offset, buf });
            }
            None => {
                self.tasks.leave(task);
                let (fault, cause) = told.unwrap_or((Fault::Medium, Cause::NONE));
                self.ready.push(Done { tag, result: Err(fault), cause, buf: one.buf });
            }
        }
    }

    /// What another leg read is written where it could not be; then the repair is over.
    fn repair_answered(&mut self, from: usize, task: u32, one: Done) {
        let Task::Repair(Repair { leg, offset, len }) = *self.tasks.get(task) else { return };
        if from != leg && one.result.is_ok() && self.has(leg) {
            let (tag, op, fua, buf) = (one.tag, Op::Write, false, one.buf);
            return self.give(leg, task, Io { tag, op, fua, len, offset, buf });
        }
        if from == leg {
            match one.result {
                Ok(()) => self.legs.repaired(),
                Err(fault) => {
                    self.legs.leave(leg, &|| format!("a block could not be repaired: {fault}"));
                }
            }
        }
        self.tasks.leave(task);
        self.give_back(offset, len.into());
        if let Some(buf) = one.buf {
            self.pool.give(buf);
        }
    }

    /// A leg whose way is gone for good leaves, and one that came back gets a new way.
    fn look_after_ways(&mut self) {
        for leg in 0..self.ways.len() {
            let joined = self.legs.joined(leg);
            if joined != self.ways[leg].joined && self.ways[leg].under_way == 0 {
                let way = self.source.as_mut().map(|source| source(leg));
                if let Some(Err(why)) = &way {
                    self.legs.leave(leg, &|| why.clone());
                }
                self.ways[leg].renew(self.now, way.and_then(Result::ok));
                self.ways[leg].joined = joined;
            }
            self.look_for_broken(leg, joined);
        }
    }

    /// A leg to which no way leads any more leaves; for the last one there is a new way.
    fn look_for_broken(&mut self, leg: usize, joined: u32) {
        let gets = (self.legs.writers() | self.legs.in_it()) & 1 << leg != 0;
        let way = &mut self.ways[leg];
        let broken = way.lane.as_ref().map_or(Some("no way leads there"), |lane| lane.broken());
        let Some(why) = broken.filter(|_| gets && joined == way.joined) else { return };
        self.legs.leave(leg, &|| why.to_owned());
        if let Some(source) = &mut self.source
            && self.legs.in_it() & 1 << leg != 0
            && way.under_way == 0
            && self.now >= way.renew_at
        {
            way.renew_at = self.now + RENEW;
            way.renew(self.now, source(leg).ok());
        }
    }

    fn send(&mut self, now: Nanos) {
        for leg in 0..self.ways.len() {
            let came_back = self.legs.joined(leg) != self.ways[leg].joined;
            let way = &mut self.ways[leg];
            match &mut way.lane {
                // What was begun for the new way does not go by the old one.
                _ if came_back => {}
                Some(lane) if lane.broken().is_some() => self.answer_lost(leg),
                Some(lane) if lane.is_open() || !self.opened => {
                    let before = way.waiting.len();
                    lane.submit(now, &mut way.waiting);
                    way.under_way += (before - way.waiting.len()) as u32;
                }
                Some(lane) => lane.submit(now, &mut VecDeque::new()),
                None => self.answer_lost(leg),
            }
        }
    }

    /// Answers what waits for a leg to which no way leads.
    fn answer_lost(&mut self, leg: usize) {
        for Io { tag, buf, .. } in std::mem::take(&mut self.ways[leg].waiting) {
            let (result, cause) = (Err(Fault::Disconnected), Cause::NONE);
            self.answered(leg, Done { tag, result, cause, buf });
        }
    }
}

/// The legs of a set of bits.
pub(super) fn legs(bits: u32) -> impl Iterator<Item = usize> {
    let mut left = bits;
    std::iter::from_fn(move || {
        let leg = (left != 0).then(|| left.trailing_zeros() as usize);
        left &= left.wrapping_sub(1);
        leg
    })
}

/// The I/O is wrong or cannot be done by this kind of volume: no fault of the leg.
fn refuses(fault: Fault) -> bool {
    matches!(fault, Fault::OutOfRange | Fault::ReadOnly | Fault::Unsupported | Fault::Miscompare)
}

impl<R: Rules> Lane for MirrorLane<R> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
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
        self.yields = false;
        self.unblock();
        for leg in 0..self.ways.len() {
            let mut answers = std::mem::take(&mut self.answers);
            let way = &mut self.ways[leg];
            if let Some(lane) = &mut way.lane {
                lane.poll(now, &mut answers);
            }
            way.under_way.lower(answers.len() as u32);
            answers.drain(..).for_each(|one| self.answered(leg, one));
            self.answers = answers;
        }
        self.opened = self.opened || self.is_open();
        done.append(&mut self.ready);
    }

    fn wake(&self) -> Option<Nanos> {
        let waits = |way: &Way| {
            let open = way.lane.as_ref().is_none_or(|lane| lane.is_open() || !self.opened);
            open && !way.waiting.is_empty()
        };
        if !self.ready.is_empty() || !self.blocked.is_empty() || self.ways.iter().any(waits) {
            return Some(Nanos(0));
        }
        // Another thread makes durable what they wait for.
        let waits = !self.marking.is_empty() || !self.held.is_empty();
        let look = waits.then_some(self.now + LOOK);
        self.lanes().filter_map(Lane::wake).chain(look).min()
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
        self.lanes().find_map(|lane| lane.words_of(cause))
    }

    fn connection(&self, now: Nanos) -> Connection {
        let each = self.ways.iter().map(|way| way.connection(now));
        each.fold(Connection::default(), |sum, one| sum + one)
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
        self.claims.forget(self.number);
    }
}
