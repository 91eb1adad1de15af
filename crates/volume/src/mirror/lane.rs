//! One core's way to a mirror.
//!
//! A write goes to every leg that is in, and a read to the one that its place says. A leg whose
//! write fails where another one's succeeded leaves before the write is told as done. What one leg
//! cannot read is read from another and written back.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Buf, Cause, Connection, Count, Done, Fault, Geometry, Io, Lane, Nanos, Op, Pool, Tag};

use super::claims::{Claims, GRANULE_BYTES};
use super::legs::Legs;
use super::task::{Change, Flush, Read, Repair, Task, Tasks, Votes};

pub(super) struct MirrorLane {
    /// Its number among the lanes of the mirror, from 1.
    number: u16,
    geometry: Geometry,
    legs: Arc<Legs>,
    claims: Arc<Claims>,
    pool: Pool,
    ways: Vec<Way>,
    tasks: Tasks,
    /// Changes whose granules are taken, in the order in which they came, repairs too.
    blocked: VecDeque<Blocked>,
    /// Another lane waits for what this one gave back: let it try first.
    yields: bool,
    /// Answers that are ready.
    ready: Vec<Done>,
    answers: Vec<Done>,
}

/// The way to one leg.
struct Way {
    lane: Box<dyn Lane>,
    waiting: VecDeque<Io>,
    under_way: u32,
}

/// What waits for a granule.
enum Blocked {
    Change(Io),
    Repair { leg: usize, offset: u64, len: u32 },
}

impl MirrorLane {
    pub(super) fn new(
        lanes: Vec<Box<dyn Lane>>,
        number: u16,
        geometry: Geometry,
        (legs, claims): (Arc<Legs>, Arc<Claims>),
        pool: Pool,
    ) -> MirrorLane {
        let way = |lane| Way { lane, waiting: VecDeque::with_capacity(64), under_way: 0 };
        MirrorLane {
            number,
            geometry,
            legs,
            claims,
            pool,
            ways: lanes.into_iter().map(way).collect(),
            tasks: Tasks::default(),
            blocked: VecDeque::new(),
            yields: false,
            ready: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn refuse(&mut self, io: Io, fault: Fault) {
        let Io { tag, buf, .. } = io;
        self.ready.push(Done { tag, result: Err(fault), cause: Cause::NONE, buf });
    }

    /// The legs that are in.
    fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let legs = self.legs.in_it();
        (0..u32::BITS as usize).filter(move |leg| legs & 1 << leg != 0)
    }

    fn give(&mut self, leg: usize, task: u32, io: Io) {
        self.ways[leg].waiting.push_back(Io { tag: Tasks::tag(task, leg), ..io });
    }

    /// The leg that answers for a place, of those that `may`: no two reads of it go back in time.
    fn reader(&self, offset: u64, tried: u32) -> Option<usize> {
        let may: Vec<usize> = self.present().filter(|leg| tried & 1 << leg == 0).collect();
        let place = offset / GRANULE_BYTES;
        may.get((place % may.len().max(1) as u64) as usize).copied()
    }

    fn read(&mut self, io: Io) {
        let Io { tag, op, fua, len, offset, buf } = io;
        let leg = self.reader(offset, 0).expect("one leg is always in");
        let task = self.tasks.enter(Task::Read(Read { tag, offset, len, tried: 0, fault: None }));
        self.give(leg, task, Io { tag, op, fua, len, offset, buf });
    }

    /// Begins a change, if nobody changes what it touches.
    fn change(&mut self, io: Io) {
        let (offset, len) = (io.offset, u64::from(io.len));
        if !self.may_change(offset, len) {
            return self.blocked.push_back(Blocked::Change(io));
        }
        let legs: Vec<usize> = self.present().collect();
        let Some(copies) = self.copies(&io, legs.len() - 1) else {
            // The system has no memory.
            self.release(offset, len);
            return self.refuse(io, Fault::Aborted);
        };
        let Io { tag, op, fua, len, offset, buf } = io;
        let votes = Votes::of(legs.len());
        let change = Change { tag, op, offset, len, votes, buf: None };
        let task = self.tasks.enter(Task::Change(change));
        let bufs = std::iter::once(buf).chain(copies);
        for (leg, buf) in legs.into_iter().zip(bufs) {
            self.give(leg, task, Io { tag, op, fua, len, offset, buf });
        }
    }

    /// Claims a range, unless something is under way there.
    fn may_change(&self, offset: u64, len: u64) -> bool {
        let (yields, crosses) = (self.yields, self.tasks.overlaps(offset, len));
        !yields && !crosses && self.claims.claim(self.number, offset, len)
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
        let legs: Vec<usize> = self.present().collect();
        let votes = Votes::of(legs.len());
        let task = self.tasks.enter(Task::Flush(Flush { tag: io.tag, votes }));
        for leg in legs {
            self.give(leg, task, Io { buf: None, ..*io });
        }
    }

    /// Begins to write back what a leg could not read, from another one.
    fn repair(&mut self, leg: usize, offset: u64, len: u32) {
        if !self.may_change(offset, len.into()) {
            return self.blocked.push_back(Blocked::Repair { leg, offset, len });
        }
        let from = self.reader(offset, 1 << leg).filter(|_| self.legs.has(leg));
        let buf = self.pool.take_beyond(len as usize);
        let (Some(from), Some(buf)) = (from, buf) else {
            return self.release(offset, len.into());
        };
        let task = self.tasks.enter(Task::Repair(Repair { leg, offset, len }));
        let (op, tag, fua, buf) = (Op::Read, Tag(0), false, Some(buf));
        self.give(from, task, Io { tag, op, fua, len, offset, buf });
    }

    fn release(&mut self, offset: u64, len: u64) {
        self.yields |= self.claims.release(self.number, offset, len);
    }

    /// Tries again what waited for granules.
    fn unblock(&mut self) {
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
                    self.change_ended(task);
                }
            }
            Task::Flush(flush) => {
                flush.votes.note(leg, one.result, one.cause);
                let Flush { tag, votes } = *flush;
                if votes.left == 0 {
                    self.tasks.leave(task);
                    let (result, cause) = self.verdict(Op::Flush, votes);
                    self.ready.push(Done { tag, result, cause, buf: None });
                }
            }
        }
    }

    fn change_ended(&mut self, task: u32) {
        let Task::Change(change) = self.tasks.leave(task) else { return };
        let Change { tag, op, offset, len, votes, buf } = change;
        let (result, cause) = self.verdict(op, votes);
        // Behind the verdict: who writes here next meets only legs that have this one.
        self.release(offset, len.into());
        self.ready.push(Done { tag, result, cause, buf });
    }

    /// What the answers of all legs come to. Those whose answer was bad leave where another one's
    /// was good.
    fn verdict(&self, op: Op, votes: Votes) -> (Result<(), Fault>, Cause) {
        let Votes { good, bad, fault, .. } = votes;
        let (fault, cause) = fault.unwrap_or((Fault::Medium, Cause::NONE));
        if good == 0 || (bad != 0 && refuses(fault)) {
            return (Err(fault), cause);
        }
        for leg in (0..self.ways.len()).filter(|leg| bad & 1 << leg != 0) {
            self.legs.leave(leg, || format!("{} failed: {fault}", op.word()));
        }
        // One that has it may have left for another reason: then nobody has.
        match good & self.legs.in_it() {
            0 => (Err(Fault::Medium), Cause::NONE),
            _ => (Ok(()), Cause::NONE),
        }
    }

    fn read_answered(&mut self, leg: usize, task: u32, one: Done) {
        let Task::Read(read) = self.tasks.get(task) else { return };
        let Read { tag, offset, len, tried, fault } = *read;
        let bit = 1 << leg;
        match one.result {
            // Who left meanwhile may have missed a write, which then was under way beside the read.
            Ok(()) => {
                self.tasks.leave(task);
                self.ready.push(Done { tag, ..one });
                let bad = self.present().filter(|leg| tried & 1 << leg != 0);
                bad.collect::<Vec<_>>().into_iter().for_each(|leg| self.repair(leg, offset, len));
                return;
            }
            Err(fault) if refuses(fault) => {
                self.tasks.leave(task);
                return self.ready.push(Done { tag, ..one });
            }
            Err(Fault::Medium) => self.legs.read_failed(leg),
            Err(fault) => {
                self.legs.leave(leg, || format!("read failed: {fault}"));
            }
        }
        let told = one.result.err().map(|fault| (fault, one.cause)).or(fault);
        match self.reader(offset, tried | bit) {
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
        if from != leg && one.result.is_ok() && self.legs.has(leg) {
            let (tag, op, fua, buf) = (one.tag, Op::Write, false, one.buf);
            return self.give(leg, task, Io { tag, op, fua, len, offset, buf });
        }
        if from == leg {
            match one.result {
                Ok(()) => self.legs.repaired(),
                Err(fault) => {
                    self.legs.leave(leg, || format!("a block could not be repaired: {fault}"));
                }
            }
        }
        self.tasks.leave(task);
        self.release(offset, len.into());
        if let Some(buf) = one.buf {
            self.pool.give(buf);
        }
    }

    /// A leg whose way is gone for good leaves.
    fn look_for_broken(&mut self) {
        for (leg, way) in self.ways.iter().enumerate() {
            if let Some(why) = way.lane.broken().filter(|_| self.legs.has(leg)) {
                self.legs.leave(leg, || why.to_owned());
            }
        }
    }

    fn send(&mut self, now: Nanos) {
        for way in &mut self.ways {
            let before = way.waiting.len();
            way.lane.submit(now, &mut way.waiting);
            way.under_way += (before - way.waiting.len()) as u32;
        }
    }
}

/// The I/O is wrong or cannot be done by this kind of volume: no fault of the leg.
fn refuses(fault: Fault) -> bool {
    matches!(fault, Fault::OutOfRange | Fault::ReadOnly | Fault::Unsupported | Fault::Miscompare)
}

impl Lane for MirrorLane {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
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
        self.look_for_broken();
        self.yields = false;
        self.unblock();
        for leg in 0..self.ways.len() {
            let mut answers = std::mem::take(&mut self.answers);
            let way = &mut self.ways[leg];
            way.lane.poll(now, &mut answers);
            way.under_way.lower(answers.len() as u32);
            answers.drain(..).for_each(|one| self.answered(leg, one));
            self.answers = answers;
        }
        done.append(&mut self.ready);
    }

    fn wake(&self) -> Option<Nanos> {
        let waits = self.ways.iter().any(|way| !way.waiting.is_empty());
        if !self.ready.is_empty() || !self.blocked.is_empty() || waits {
            return Some(Nanos(0));
        }
        self.ways.iter().filter_map(|way| way.lane.wake()).min()
    }

    fn is_open(&self) -> bool {
        self.present().all(|leg| self.ways[leg].lane.is_open())
    }

    fn broken(&self) -> Option<&str> {
        let mut broken = None;
        for leg in self.present() {
            broken = Some(self.ways[leg].lane.broken()?);
        }
        broken
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        self.ways.iter().find_map(|way| way.lane.words_of(cause))
    }

    fn connection(&self, now: Nanos) -> Connection {
        let each = self.ways.iter().map(|way| way.lane.connection(now));
        each.fold(Connection::default(), |sum, one| sum + one)
    }

    fn close(&mut self, now: Nanos) -> bool {
        let mut closed = true;
        self.ways.iter_mut().for_each(|way| closed &= way.lane.close(now));
        closed
    }
}

impl Drop for MirrorLane {
    fn drop(&mut self) {
        self.claims.forget(self.number);
    }
}
