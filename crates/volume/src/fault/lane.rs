//! A lane that applies the referee's decisions to I/Os.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use block::{Cause, Done, Fault, Geometry, Io, Lane, Nanos, Op, Pool, Tag};

use super::cached::CachedLane;
use super::referee::{Hold, Referee, Sentence};

/// Interval at which a lane that holds I/Os indefinitely checks for another schedule.
const LOOK: Nanos = Nanos::from_millis(50);
/// Base of the causes of injected faults; those of other lanes are small numbers or statuses.
const CAUSE: u32 = 0xfa17_0000;
/// Cause of I/Os in flight during a power cut; lower values are numbers of faults.
const POWER: u32 = 0xffff;

pub(super) struct FaultLane {
    referee: Arc<Referee>,
    inner: Box<CachedLane>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// I/Os for the inner lane.
    batch: VecDeque<Io>,
    sentences: Vec<Sentence>,
    finished: Vec<Done>,
    /// Done, to be completed at these times.
    held: BTreeMap<(Nanos, u32), Done>,
    /// Completions held until the schedule changes.
    hung: Vec<(u32, Done)>,
    ready: Vec<Done>,
    edition: u64,
    /// Number of power cuts applied so far.
    cuts: u64,
    looked: Nanos,
}

/// An I/O in flight.
#[derive(Clone, Copy)]
struct Slot {
    /// Tag of the submitter.
    tag: Tag,
    op: Op,
    offset: u64,
    begun: Nanos,
    /// Number of power cuts when the I/O began.
    cuts: u64,
    sentence: Sentence,
}

impl FaultLane {
    /// `pool` provides the buffers of the write cache.
    pub(super) fn new(referee: Arc<Referee>, inner: Box<dyn Lane>, pool: Pool) -> FaultLane {
        let inner = Box::new(CachedLane::new(Arc::clone(referee.cache()), inner, pool));
        FaultLane {
            edition: referee.edition(),
            cuts: referee.cache().cuts(),
            referee,
            inner,
            slots: Vec::new(),
            free: Vec::new(),
            batch: VecDeque::new(),
            sentences: Vec::new(),
            finished: Vec::new(),
            held: BTreeMap::new(),
            hung: Vec::new(),
            ready: Vec::new(),
            looked: Nanos(0),
        }
    }

    fn enter(&mut self, slot: Slot) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Begins an I/O as decided.
    fn begin(&mut self, now: Nanos, mut io: Io, sentence: Sentence) {
        let (tag, op, offset) = (io.tag, io.op, sentence.place.unwrap_or(io.offset));
        let cuts = self.referee.cache().cuts();
        let slot = Slot { tag, op, offset, begun: now, cuts, sentence };
        let index = self.enter(slot);
        if let Some((number, result)) = sentence.answer {
            let cause = match (result, sentence.ends) {
                (Ok(()), _) => Cause::NONE,
                (Err(_), Some(reset)) => Cause::of_end(reset, number as u16),
                (Err(_), None) => Cause(CAUSE | number),
            };
            self.settle(now, index, Done { tag: io.tag, result, cause, buf: io.buf });
            return;
        }
        if io.op == Op::Write {
            flip(&mut io.buf, sentence.flip);
        }
        io.offset = offset;
        io.len = sentence.keep.unwrap_or(io.len);
        io.tag = Tag(index.into());
        self.batch.push_back(io);
    }

    /// Handles a completion: returns it now, or when it is due.
    fn settle(&mut self, now: Nanos, index: u32, done: Done) {
        let slot = self.slots[index as usize];
        let done = Done { tag: slot.tag, ..done };
        match slot.sentence.due(slot.begun, now) {
            Hold::Until(at) if at > now => drop(self.held.insert((at, index), done)),
            Hold::Forever => self.hung.push((index, done)),
            Hold::No | Hold::Until(_) => self.let_go(index, done),
        }
    }

    fn let_go(&mut self, index: u32, done: Done) {
        self.free.push(index);
        if self.slots[index as usize].cuts == self.referee.cache().cuts() {
            return self.ready.push(done);
        }
        // The power was cut since the I/O began: whether it was executed is unknown.
        let (result, cause) = (Err(Fault::Disconnected), Cause(CAUSE | POWER));
        self.ready.push(Done { result, cause, ..done });
    }

    /// Collects completions of the inner lane.
    fn gather(&mut self, now: Nanos) {
        self.inner.poll(now, &mut self.finished);
        let mut finished = std::mem::take(&mut self.finished);
        for mut done in finished.drain(..) {
            let index = done.tag.0 as u32;
            let Slot { op, offset, sentence, .. } = self.slots[index as usize];
            if let (Some(buf), true, Ok(())) = (&mut done.buf, sentence.stale, done.result) {
                self.referee.make_stale(offset, buf);
            }
            // The caller gets its written data back unchanged.
            if op == Op::Write || op == Op::Read && done.result.is_ok() {
                flip(&mut done.buf, sentence.flip);
            }
            self.settle(now, index, done);
        }
        self.finished = finished;
    }

    /// Releases I/Os held by an older schedule, and those that a power cut ended.
    fn follow(&mut self, edition: u64) {
        let cuts = self.referee.cache().cuts();
        let is_cut = std::mem::replace(&mut self.cuts, cuts) != cuts;
        if std::mem::replace(&mut self.edition, edition) != edition || is_cut {
            self.release_all();
        }
    }

    /// Completes due I/Os, and all held ones once the schedule has changed.
    fn release(&mut self, now: Nanos) {
        self.looked = now;
        self.referee.tick(now);
        self.follow(self.referee.edition());
        while let Some(entry) = self.held.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((_, index), done) = entry.remove_entry();
            self.let_go(index, done);
        }
    }

    fn release_all(&mut self) {
        let held = std::mem::take(&mut self.held).into_iter();
        let all: Vec<_> = held.map(|((_, index), done)| (index, done)).collect();
        for (index, done) in all.into_iter().chain(std::mem::take(&mut self.hung)) {
            self.let_go(index, done);
        }
    }
}

/// Flips one bit of the data.
fn flip(buf: &mut Option<block::Buf>, bit: Option<u64>) {
    if let (Some(buf), Some(bit)) = (buf, bit)
        && let Some(byte) = buf.get_mut((bit / 8) as usize)
    {
        *byte ^= 1 << (bit % 8);
    }
}

impl Lane for FaultLane {
    fn geometry(&self) -> Geometry {
        let inner = self.inner.geometry();
        Geometry { volatile: inner.volatile || self.referee.geometry().volatile, ..inner }
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if !ios.is_empty() {
            let mut sentences = std::mem::take(&mut self.sentences);
            let edition = self.referee.judge(now, ios.iter(), &mut sentences);
            self.follow(edition);
            for (io, sentence) in ios.drain(..).zip(sentences.drain(..)) {
                self.begin(now, io, sentence);
            }
            self.sentences = sentences;
        }
        self.inner.submit(now, &mut self.batch);
        // Ready completions need no further turn.
        if self.inner.wake().is_some_and(|at| at <= now) {
            self.gather(now);
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.gather(now);
        self.release(now);
        done.append(&mut self.ready);
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        let held = self.held.first_key_value().map(|((at, _), _)| *at);
        let holds = !self.hung.is_empty() || held.is_some();
        let look = holds.then_some(self.looked + LOOK);
        [self.inner.wake(), held, look].into_iter().flatten().min()
    }

    fn inner(&self) -> Option<&dyn Lane> {
        Some(&*self.inner)
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        if cause.0 & 0xffff_0000 != CAUSE && cause.as_end().is_none() {
            return self.inner.words_of(cause);
        }
        if cause.0 & 0xffff == POWER {
            return Some("injected: power cut".to_owned());
        }
        let number = (cause.0 & 0xffff) + 1;
        Some(format!("injected: fault {number} of schedule '{}'", self.referee.strikes().0))
    }

    /// Completes hung I/Os: their callers wait for them.
    fn close(&mut self, now: Nanos) -> bool {
        self.release_all();
        self.inner.close(now) && self.free.len() == self.slots.len() && self.ready.is_empty()
    }
}
