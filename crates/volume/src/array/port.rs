//! The keeper's lanes to all legs, and the I/Os that its jobs have in flight.
//!
//! A job sends a batch of I/Os to several legs and looks for the outcome in later steps.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Buf, Done, Fault, Io, Lane, Nanos, Op, Pool, Tag};

use super::shared::Shared;
use crate::mirror::{Ghosts, Rules, Ways};

/// A job of the keeper, by number.
pub(super) type Job = usize;

pub(super) struct Port {
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Pool,
    pub(super) now: Nanos,
    ways: Vec<Way>,
    source: Ways,
    batches: Vec<Batch>,
    /// Abandoned lanes with I/Os in flight.
    ghosts: Ghosts,
    /// Time of the next check for legs that hang.
    look_at: Nanos,
    /// For each leg, its number of changes in doubt at the last look.
    doubts: Vec<u64>,
}

/// Time between looks for legs that hang.
const LOOK: Nanos = Nanos::from_secs(1);

struct Way {
    lane: Option<Box<dyn Lane>>,
    waiting: VecDeque<Io>,
    in_flight: u32,
}

/// A job's I/Os in flight.
#[derive(Default)]
struct Batch {
    left: u32,
    sent: bool,
    good: u32,
    bad: u32,
    bufs: Vec<(usize, Buf)>,
    /// The number of I/Os that each leg has not completed.
    waits: Vec<u32>,
    begun: Nanos,
}

/// The outcome of a batch.
pub(super) struct Outcome {
    /// Legs that completed all of their I/Os.
    pub(super) good: u32,
    /// Legs on which an I/O failed.
    pub(super) bad: u32,
    /// Buffers of these I/Os, in order of completion.
    pub(super) bufs: Vec<(usize, Buf)>,
}

/// An operation on one leg.
pub(super) struct Deed {
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) fua: bool,
    pub(super) buf: Option<Buf>,
}

impl Port {
    pub(super) fn new(
        shared: Arc<Shared>,
        pool: Pool,
        lanes: Vec<Option<Box<dyn Lane>>>,
        source: Ways,
        jobs: usize,
    ) -> Port {
        let way = |lane| Way { lane, waiting: VecDeque::new(), in_flight: 0 };
        Port {
            shared,
            pool,
            now: Nanos(0),
            doubts: vec![0; lanes.len()],
            ways: lanes.into_iter().map(way).collect(),
            source,
            batches: (0..jobs).map(|_| Batch::default()).collect(),
            ghosts: Ghosts::default(),
            look_at: Nanos(0),
        }
    }

    /// Sends an I/O to a leg as part of a job's batch.
    pub(super) fn send(&mut self, job: Job, leg: usize, deed: Deed) {
        let Deed { op, offset, len, fua, buf } = deed;
        let (legs, now) = (self.ways.len(), self.now);
        let batch = &mut self.batches[job];
        if !std::mem::replace(&mut batch.sent, true) {
            batch.begun = now;
            batch.waits.resize(legs, 0);
        }
        let way = &mut self.ways[leg];
        if way.lane.as_ref().is_none_or(|lane| lane.broken().is_some()) {
            batch.bad |= 1 << leg;
            batch.bufs.extend(buf.map(|buf| (leg, buf)));
            return;
        }
        batch.left += 1;
        batch.waits[leg] += 1;
        let tag = Tag((job as u64) << 8 | leg as u64);
        way.waiting.push_back(Io { tag, op, fua, len, offset, buf });
    }

    /// Outcome of a job's batch, once all of it has completed.
    pub(super) fn outcome(&mut self, job: Job) -> Option<Outcome> {
        let batch = &mut self.batches[job];
        if !batch.sent || batch.left > 0 {
            return None;
        }
        let Batch { good, bad, bufs, .. } = std::mem::take(batch);
        Some(Outcome { good: good & !bad, bad, bufs })
    }

    /// Like [`outcome`](Self::outcome), returning the buffers to the pool.
    pub(super) fn verdict(&mut self, job: Job) -> Option<(u32, u32)> {
        let Outcome { good, bad, bufs } = self.outcome(job)?;
        bufs.into_iter().for_each(|(_, buf)| self.pool.give(buf));
        Some((good, bad))
    }

    /// Gives a buffer back.
    pub(super) fn give(&self, buf: Option<Buf>) {
        if let Some(buf) = buf {
            self.pool.give(buf);
        }
    }

    /// A buffer with a copy of `from`.
    pub(super) fn copy(&self, from: &[u8]) -> Option<Buf> {
        let mut buf = self.pool.take_beyond(from.len())?;
        buf[..from.len()].copy_from_slice(from);
        Some(buf)
    }

    /// Whether the lane to a leg is open.
    pub(super) fn is_open(&self, leg: usize) -> bool {
        let lane = self.ways[leg].lane.as_ref();
        lane.is_some_and(|lane| lane.is_open() && lane.broken().is_none())
    }

    /// Whether any leg that is in accepts writes. A leg that has just returned may hold writes back
    /// while earlier ones are in doubt.
    pub(super) fn takes_writes(&self) -> bool {
        legs(self.shared.in_it()).any(|leg| self.is_open(leg))
    }

    /// Time until which writes of an earlier connection may still be executed on a leg.
    pub(super) fn in_doubt_until(&self, leg: usize) -> Option<Nanos> {
        self.ways[leg].lane.as_ref()?.in_doubt_until()
    }

    /// Time until which writes of an earlier connection may still be executed on a leg that is in:
    /// the last one, as others fail.
    pub(super) fn reads_in_doubt_until(&self) -> Option<Nanos> {
        legs(self.shared.in_it()).filter_map(|leg| self.in_doubt_until(leg)).max()
    }

    /// Whether changes on a leg that is in have become in doubt since the last
    /// [look](Self::look_for_doubts), however briefly.
    pub(super) fn has_new_doubts(&self) -> bool {
        legs(self.shared.in_it()).any(|leg| self.doubts_of(leg) != self.doubts[leg])
    }

    /// Like [`has_new_doubts`](Self::has_new_doubts), and records the look. Doubts of other legs
    /// matter when these join.
    pub(super) fn look_for_doubts(&mut self) -> bool {
        let all: Vec<u64> = (0..self.ways.len()).map(|leg| self.doubts_of(leg)).collect();
        let in_it = self.shared.in_it();
        let is_new = legs(in_it).any(|leg| all[leg] != self.doubts[leg]);
        self.doubts = all;
        is_new
    }

    fn doubts_of(&self, leg: usize) -> u64 {
        self.ways[leg].lane.as_ref().map_or(self.doubts[leg], |lane| lane.doubts())
    }

    /// Forgets the losses of a leg: lost data will be copied to it, and its flushes need not fail.
    pub(super) fn forget_losses(&self, leg: usize) {
        if let Some(lane) = &self.ways[leg].lane {
            let _made_good = lane.forget_losses();
        }
    }

    /// Whether the lane to a leg is lost for good.
    pub(super) fn is_broken(&self, leg: usize) -> bool {
        self.ways[leg].lane.as_ref().is_none_or(|lane| lane.broken().is_some())
    }

    /// Opens a new lane to a leg, to inspect its metadata, unless I/Os of the old one are
    /// outstanding. False if no lane can be opened.
    pub(super) fn renew(&mut self, leg: usize) -> bool {
        if self.ways[leg].in_flight > 0 || !self.ways[leg].waiting.is_empty() {
            return false;
        }
        self.ways[leg].lane = (self.source)(leg).ok();
        self.ways[leg].lane.iter().for_each(|lane| lane.looks());
        self.ways[leg].lane.is_some()
    }

    /// Collects completions of the legs.
    pub(super) fn poll(&mut self, now: Nanos) {
        self.now = now;
        let mut answers = Vec::new();
        for leg in 0..self.ways.len() {
            let way = &mut self.ways[leg];
            let Some(lane) = &mut way.lane else { continue };
            lane.poll(now, &mut answers);
            way.in_flight -= answers.len() as u32;
            let broken = lane.broken().map(str::to_owned);
            answers.drain(..).for_each(|one| self.answered(leg, one));
            if let Some(why) = broken {
                for io in std::mem::take(&mut self.ways[leg].waiting) {
                    self.answered(leg, io.failed(Fault::Disconnected));
                }
                if self.shared.in_it() & 1 << leg != 0 {
                    self.shared.leave(leg, &|| why.clone());
                }
            }
        }
        let shared = &self.shared;
        self.ghosts.poll(now, &self.pool, |leg, count| shared.haunts(leg, -i64::from(count)));
        if now >= self.look_at {
            self.look_for_hung();
        }
    }

    /// Fails unresponsive legs, except for the last one that is in.
    fn look_for_hung(&mut self) {
        // After a stop of the process, all answers that arrived meanwhile look late.
        let away = self.now.since(self.look_at);
        if away >= LOOK {
            for batch in &mut self.batches {
                batch.begun = (batch.begun + away).min(self.now);
            }
        }
        self.look_at = self.now + LOOK;
        let patience = self.shared.patience();
        for leg in 0..self.ways.len() {
            let late = |batch: &Batch| {
                batch.waits.get(leg).is_some_and(|count| *count > 0)
                    && self.now.since(batch.begun) >= patience
            };
            if !self.batches.iter().any(late) {
                continue;
            }
            let limit = patience.as_secs_f64();
            // A leg that gets no writes is out already.
            if (self.shared.writers_now() | self.shared.in_it()) & 1 << leg != 0 {
                self.shared.leave(leg, &|| format!("timed out after {limit:.0} s"));
            }
            if self.shared.in_it() & 1 << leg == 0 {
                self.give_up(leg);
            }
        }
    }

    /// Answers everything that a leg has in flight as failed.
    fn give_up(&mut self, leg: usize) {
        let way = &mut self.ways[leg];
        let in_flight = std::mem::take(&mut way.in_flight);
        if let Some(lane) = way.lane.take() {
            self.ghosts.keep(leg, lane, in_flight);
            self.shared.haunts(leg, in_flight.into());
        }
        let waiting = std::mem::take(&mut way.waiting);
        waiting.into_iter().filter_map(|io| io.buf).for_each(|buf| self.pool.give(buf));
        for batch in &mut self.batches {
            if let Some(count) = batch.waits.get_mut(leg).filter(|count| **count > 0) {
                batch.left -= std::mem::take(count);
                batch.bad |= 1 << leg;
            }
        }
    }

    /// A new lane to a leg.
    pub(super) fn open(&mut self, leg: usize) -> Option<Box<dyn Lane>> {
        (self.source)(leg).ok()
    }

    /// Replaces a lost lane.
    pub(super) fn put(&mut self, leg: usize, lane: Box<dyn Lane>) {
        if self.is_broken(leg) && self.ways[leg].in_flight == 0 {
            self.ways[leg].lane = Some(lane);
        }
    }

    fn answered(&mut self, leg: usize, one: Done) {
        let batch = &mut self.batches[(one.tag.0 >> 8) as usize];
        batch.left -= 1;
        batch.waits[leg] -= 1;
        match one.result {
            Ok(()) => batch.good |= 1 << leg,
            Err(_) => batch.bad |= 1 << leg,
        }
        batch.bufs.extend(one.buf.map(|buf| (leg, buf)));
    }

    /// Sends the queued I/Os.
    pub(super) fn submit(&mut self, now: Nanos) {
        for way in &mut self.ways {
            let Some(lane) = &mut way.lane else { continue };
            if lane.is_open() {
                let before = way.waiting.len();
                lane.submit(now, &mut way.waiting);
                way.in_flight += (before - way.waiting.len()) as u32;
            } else {
                lane.submit(now, &mut VecDeque::new());
            }
        }
    }

    /// Time at which a lane needs a poll without an event.
    pub(super) fn wake(&self) -> Option<Nanos> {
        let waits = |way: &Way| {
            let lane = way.lane.as_ref()?;
            match !way.waiting.is_empty() && lane.is_open() {
                true => Some(Nanos(0)),
                false => lane.wake(),
            }
        };
        // A batch that completed without going to a leg is seen at once.
        let ended = self.batches.iter().any(|batch| batch.sent && batch.left == 0);
        let ended = ended.then_some(Nanos(0));
        let hung = self.batches.iter().any(|batch| batch.left > 0).then_some(self.look_at);
        let own = ended.into_iter().chain(hung).chain(self.ghosts.wake());
        self.ways.iter().filter_map(waits).chain(own).min()
    }

    /// Whether all lanes have closed.
    pub(super) fn close(&mut self) -> bool {
        let mut closed = true;
        let now = self.now;
        let lanes = self.ways.iter_mut().filter_map(|way| way.lane.as_mut());
        lanes.for_each(|lane| closed &= lane.close(now));
        closed
    }
}

/// The legs of a bit mask.
pub(super) fn legs(bits: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |leg| bits & 1 << leg != 0)
}
