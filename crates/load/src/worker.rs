//! A worker: keeps I/Os in flight on one volume and records their latencies.
//!
//! The usual worker, a closed loop of a plain pattern without verification, has a fast path,
//! [`Worker::start_plain`]; unused features cost it one branch.

mod closing;
mod control;
mod planned;
mod replay;
mod turn;
mod verify;
mod zoned;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Arena, Buf, Cause, Connection, Done, Fault, Io, Lane, Nanos, Op, Pool, Rng, Tag};
use stats::{Failed, Interval, SampledIo};

use crate::activity::Sampler;
use crate::content::Writer;
use crate::ledger::{Earlier, Finding, Ledger};
use crate::pacing::Schedule;
use crate::pattern::{Next, Pattern};
use crate::records::Recorder;
use job::spec::{Content, Part, Workload};

use self::control::Control;
pub(crate) use self::control::Missed;
use self::planned::Upcoming;
use self::turn::Turn;
pub(crate) use self::turn::{Ties, outlasts, ties};
use self::verify::Verifier;

/// Content of writes without data: not random, so that no buffer is touched.
const NO_CONTENT: Content = Content {
    compress_percent: 100.0,
    chunk_bytes: None,
    dedupe_percent: 0.0,
    dedupe_blocks: None,
    repeats: false,
    pattern: None,
};

/// A worker on its core.
pub(crate) struct Worker {
    lane: Box<dyn Lane>,
    pattern: Pattern,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Whether each slot is in flight, if that is needed.
    in_flight: Vec<bool>,
    batch: VecDeque<Io>,
    done: Vec<Done>,
    interval: Box<Interval>,
    /// Until when outstanding I/Os are accounted.
    counted: Nanos,
    /// Connection counters already reported.
    connection: Connection,
    writer: Writer,
    /// Reads carry no buffer; the lane lends one of this pool's.
    lent: Option<Pool>,
    trouble: Option<Trouble>,
    /// Whether none of the following features is used.
    plain: bool,
    plan: Plan,
    verify: Option<Verifier>,
    /// Verifies reads without a ledger.
    earlier: Option<Box<Earlier>>,
    /// Whether the volume has no zones: then no zone is reset there.
    zones_are_ours: bool,
    /// Turn, if the worker does not begin and end with the run.
    turn: Option<Box<Turn>>,
    /// Control of the worker while it runs.
    control: Option<Box<Control>>,
    /// Time before the measurement.
    ramp: Nanos,
    /// Log of its I/Os, if any. Such a worker uses the slow path.
    recorder: Option<Box<Recorder>>,
    /// Samples its I/Os, if recorded.
    sampler: Option<Box<Sampler>>,
}

/// State that decides when the next I/O starts, if not at once.
#[derive(Default)]
struct Plan {
    schedule: Option<Schedule>,
    mean_bytes: f64,
    /// An I/O that is blocked by an overlapping change, and its due time.
    held: Option<(Next, Nanos)>,
    /// An I/O that starts after a pause.
    paused: Option<Next>,
    /// Replies to come: operation replied to, and length.
    replies: VecDeque<(Op, u32)>,
    /// Start of the last I/O.
    last_start: Nanos,
    /// Times of completions after all slots had been in use.
    freed: Nanos,
    /// Low watermark (iodepth_low): after all slots were in use, none starts until this many are.
    refill_at: Option<usize>,
    /// All were in use.
    draining: bool,
    /// Whether the worker ends at ENOSPC.
    until_full: bool,
    /// ENOSPC was reached.
    full: bool,
    /// The pattern has ended.
    exhausted: bool,
    /// Start of the worker.
    began: Nanos,
    ended: Option<Nanos>,
    /// End of the worker's time: no new I/Os are planned from here on, and planned I/Os still start
    /// for a while.
    until: Option<Nanos>,
    /// End of the measured window.
    closed: Option<Nanos>,
    /// Whether none of its I/Os was measured by then.
    unmeasured: bool,
}

/// An I/O slot.
pub(crate) struct Slot {
    /// Start of its latency: in an open loop the planned start.
    start: Nanos,
    op: Op,
    len: u32,
    offset: u64,
    /// The actual start, if different.
    issued: Nanos,
    /// Length of its reply.
    reply: u32,
    /// Buffer, while not in the lane. `None` if the lane lends all buffers.
    buf: Option<Buf>,
}

/// Why a worker ends the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The lane to its volume is lost.
    Lost(String),
    /// Read data was wrong.
    Mismatch(Finding),
    /// The worker missed a demand and ended; the others continue.
    Missed(Missed),
}

impl Trouble {
    /// The trouble, with worker and volume.
    pub(crate) fn words(&self, name: &str, uri: &str) -> String {
        match self {
            Trouble::Lost(why) => format!("{name} lost {uri}: {why}"),
            Trouble::Mismatch(finding) => {
                format!("{name} read wrong data: {uri}, {finding}")
            }
            Trouble::Missed(_) => format!("{name} missed the required rate of {uri}"),
        }
    }
}

/// An order to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Fill the volume for verification, and do nothing else.
    Fill,
    /// Keep I/Os in flight.
    Run,
    /// Let I/Os in flight complete.
    Drain,
}

/// Identity of a worker: its number seeds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) part: Part,
    /// I/Os carry data. If not, its buffers are never touched and use no memory.
    pub(crate) data: bool,
}

/// Fills buffers with data to write, or touches them, so that page faults do not hit the first
/// I/Os.
fn fill(bufs: &mut [Buf], writer: Option<&mut Writer>) {
    match writer {
        Some(writer) => bufs.iter_mut().for_each(|buf| writer.fill(buf)),
        None => bufs.iter_mut().flat_map(|buf| buf.chunks_mut(4096)).for_each(|page| page[0] = 0),
    }
}

impl Worker {
    /// A worker with as many buffers as its queue depth, unless its lane lends all. Workers of a
    /// verified volume share its ledger.
    pub(crate) fn new(
        lane: Box<dyn Lane>,
        workload: &Workload,
        who: Identity,
        ledger: Option<Arc<Ledger>>,
        pool: &Pool,
    ) -> std::io::Result<Worker> {
        let Identity { seed, number, part, data } = who;
        let geometry = lane.geometry();
        let pattern = Pattern::new(workload, geometry, seed, number, part);
        // A trace may move nothing.
        let size = workload.access.longest_bytes().max(512);
        let outstanding = workload.outstanding;
        let content = if data { &workload.content } else { &NO_CONTENT };
        let mut writer = Writer::new(content, seed, number);
        let lends = lane.lends() && size as usize <= Pool::LARGE_BYTES;
        let writes = workload.writes() || ledger.is_some();
        let needed = if lends && !writes { 0 } else { outstanding as usize };
        let mut bufs = Arena::cut(needed, size as usize)?;
        if data {
            fill(&mut bufs, workload.writes().then_some(&mut writer));
        }
        let mut bufs = bufs.into_iter();
        let slots: Vec<Slot> = (0..outstanding).map(|_| Slot::new(size, bufs.next())).collect();
        let schedule = Schedule::new(&workload.pacing, Rng::new(!seed, number));
        let rng = Rng::new(seed.rotate_left(32), number);
        let earlier = Earlier::of(workload, geometry, rng).map(Box::new);
        let ledger = ledger.filter(|_| earlier.is_none());
        let verify = ledger.map(|ledger| Verifier::new(workload, geometry, who, ledger));
        Ok(Worker {
            plain: matches!(pattern, Pattern::Plain(_))
                && schedule.is_none()
                && verify.is_none()
                && earlier.is_none()
                && workload.refill_at.is_none()
                && !workload.until_full
                && !workload.is_steered(),
            lane,
            pattern,
            free: (0..outstanding).rev().collect(),
            in_flight: vec![true; slots.len()],
            batch: VecDeque::with_capacity(slots.len()),
            done: Vec::with_capacity(slots.len()),
            interval: Box::new(Interval::new()),
            counted: Nanos(0),
            connection: Connection::default(),
            writer,
            lent: lends.then(|| pool.clone()),
            trouble: None,
            plan: Plan {
                schedule,
                mean_bytes: workload.access.mean_bytes(),
                replies: VecDeque::with_capacity(slots.len()),
                refill_at: workload.refill_at.map(|low| low as usize),
                until_full: workload.until_full,
                ..Plan::default()
            },
            slots,
            verify,
            earlier,
            zones_are_ours: false,
            turn: None,
            control: Control::new(workload, data),
            ramp: Nanos(0),
            recorder: None,
            sampler: None,
        })
    }

    /// Creates a worker that is tied to others of its run.
    pub(crate) fn tied(mut self, ties: Ties) -> Worker {
        self.turn = ties.turn.map(Box::new);
        self.ramp = ties.ramp;
        if let Some(control) = &mut self.control {
            control.tie(ties.flow, ties.ends_alone);
        }
        self
    }

    /// Creates a worker that logs each I/O.
    pub(crate) fn recorded(mut self, recorder: Option<Recorder>) -> Worker {
        self.plain &= recorder.is_none();
        self.recorder = recorder.map(Box::new);
        self
    }

    /// Takes completions, starts as many I/Os, and returns when to step again without an event.
    #[inline]
    pub(crate) fn step(&mut self, now: Nanos, order: Order) -> Option<Nanos> {
        self.finish(now);
        self.begin_next(now, order)
    }

    /// The first half of a step: takes completions.
    #[inline]
    pub(crate) fn finish(&mut self, now: Nanos) {
        self.lane.poll(now, &mut self.done);
        self.count_outstanding(now);
        self.interval.turn(now);
        if let Some(sampler) = &mut self.sampler {
            sampler.take_some(now, &self.done, &self.slots);
        }
        if self.plain { self.finish_plain(now) } else { self.finish_planned(now) }
    }

    /// The second half: starts I/Os, and returns when to step again.
    #[inline]
    pub(crate) fn begin_next(&mut self, now: Nanos, order: Order) -> Option<Nanos> {
        if self.turn.is_some() && order == Order::Run {
            return self.begin_in_turn(now);
        }
        let run = order == Order::Run || order == Order::Fill && self.filling();
        let mut wake = None;
        if self.trouble.is_none() {
            match (self.plain, run) {
                (true, true) => self.start_plain(now),
                (true, false) => {}
                (false, true) => wake = self.start_planned(now),
                (false, false) => wake = self.start_backlog(now),
            }
        }
        self.lane.submit(now, &mut self.batch);
        sooner(self.lane.wake(), wake)
    }

    /// Samples its I/Os from now on, or stops; returns the last sampler.
    pub(crate) fn sample(&mut self, sampler: Option<Sampler>) -> Option<Sampler> {
        let before = std::mem::replace(&mut self.sampler, sampler.map(Box::new));
        before.map(|sampler| *sampler)
    }

    /// Whether its I/Os are sampled.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampler.is_some()
    }

    /// I/Os completed since sampling began.
    pub(crate) fn sampled(&self) -> u64 {
        self.sampler.as_ref().map_or(0, |sampler| sampler.seen())
    }

    /// Returns the only socket whose events concern the worker, in addition to the time returned by
    /// its last step; `None` if others may.
    #[inline]
    pub(crate) fn socket(&self) -> Option<u32> {
        self.lane.socket().filter(|_| self.plain && self.turn.is_none())
    }

    /// Exchanges the worker's interval for an empty one.
    pub(crate) fn take_interval(&mut self, now: Nanos, empty: Box<Interval>) -> Box<Interval> {
        self.count_outstanding(now);
        self.count_connection(now);
        let mut full = std::mem::replace(&mut self.interval, empty);
        full.end = self.plan.ended.unwrap_or(now).max(full.start);
        let unmeasured = self.turn.as_ref().is_some_and(|turn| turn.is_unmeasured());
        if self.plan.ended.is_some_and(|ended| ended < full.start) {
            // After its end it has no time.
            (full.start, full.end) = (Nanos(u64::MAX), Nanos(0));
        }
        full.searched = self.control.as_ref().and_then(|control| control.searched());
        full.oldest_ns = self.oldest(now).map_or(0, |oldest| now.since(oldest).0);
        // Blocked I/Os are outstanding in the second in which they wait.
        let backlog_ns = self.backlog_ns(now);
        full.outstanding_ns += backlog_ns;
        self.interval.before_ns = backlog_ns;
        let ages_ns = self.ages_ns(now) + backlog_ns as i128;
        full.unsettled_ns += ages_ns;
        self.interval.unsettled_ns -= ages_ns;
        self.interval.start = now;
        if unmeasured {
            // Nor before its start, and its own ramp does not count unless it ends within.
            if let Some(turn) = &mut self.turn {
                turn.keep_ramp(&full);
            }
            full.forget_ramp();
        }
        full
    }

    /// Counts changes of the connection since the last call.
    fn count_connection(&mut self, now: Nanos) {
        let counted = self.lane.connection(now);
        self.interval.connection += counted - std::mem::replace(&mut self.connection, counted);
    }

    /// Total age of the I/Os in flight by now.
    fn ages_ns(&self, now: Nanos) -> i128 {
        let start = |slot: &Slot| i128::from(slot.start.0);
        let free = self.free.iter().map(|index| start(&self.slots[*index as usize]));
        let starts = self.slots.iter().map(start).sum::<i128>() - free.sum::<i128>();
        i128::from(now.0) * (self.slots.len() - self.free.len()) as i128 - starts
    }

    /// Starts to record at `now`.
    pub(crate) fn begin(&mut self, now: Nanos, interval: Box<Interval>) {
        self.interval = interval;
        self.interval.start = now;
        self.counted = now;
    }

    /// Starts its plan at `now`, after the fill.
    pub(crate) fn start(&mut self, now: Nanos) {
        if let Some(recorder) = &mut self.recorder {
            recorder.start();
        }
        match &mut self.turn {
            Some(turn) => turn.start(now),
            None => self.start_plan(now),
        }
    }

    fn start_plan(&mut self, now: Nanos) {
        self.plan.began = now;
        if let Some(schedule) = &mut self.plan.schedule {
            schedule.begin(now, self.plan.mean_bytes);
        }
        if let Some(control) = &mut self.control {
            control.begin(now, self.ramp);
        }
    }

    /// Hands over its log until `now`; the last of it if `over`: then I/Os in flight at the end of
    /// its window are complete.
    #[cold]
    pub(crate) fn hand_over_records(&mut self, now: Nanos, over: bool) {
        let ended = self.plan.ended.or(self.plan.closed.filter(|_| over || self.plan.unmeasured));
        match (self.recorder.take(), ended) {
            (None, _) => {}
            (Some(recorder), Some(ended)) => recorder.end(ended),
            (Some(recorder), None) if over => recorder.end(now),
            (Some(mut recorder), None) => {
                recorder.hand_over(now);
                self.recorder = Some(recorder);
            }
        }
    }

    /// Whether it is paced by the clock.
    pub(crate) fn is_paced(&self) -> bool {
        self.plan.schedule.is_some() || self.follows_times()
    }

    /// Whether it is still filling.
    pub(crate) fn filling(&self) -> bool {
        let filling = self.verify.as_ref().is_some_and(|verify| verify.fill.is_some());
        filling && self.trouble.is_none()
    }

    /// Whether it has finished.
    pub(crate) fn is_finished(&self) -> bool {
        let over = self.turn.as_ref().is_none_or(|turn| turn.is_over());
        self.plan.exhausted && self.is_idle() && over
    }

    /// Why the run must end, once.
    pub(crate) fn take_trouble(&mut self) -> Option<Trouble> {
        let missed = || self.control.as_ref()?.missed().cloned().map(Trouble::Missed);
        self.trouble.clone().or_else(missed)
    }

    /// Whether it has no I/Os in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// Number of I/Os in flight.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    /// Closes its lane; true once closed.
    pub(crate) fn close(&mut self, now: Nanos) -> bool {
        self.lane.close(now)
    }

    #[inline]
    fn count_outstanding(&mut self, now: Nanos) {
        self.interval.record_outstanding(self.in_flight(), now.since(self.counted));
        self.counted = now;
    }

    /// Adds the time that the thread waited for a CPU, for each I/O in flight.
    pub(crate) fn count_wait(&mut self, waited: Nanos) {
        self.interval.waited_ns += u128::from(self.in_flight()) * u128::from(waited.0);
    }

    #[inline]
    fn finish_plain(&mut self, now: Nanos) {
        for done in self.done.drain(..) {
            let slot = &mut self.slots[done.tag.0 as usize];
            self.free.push(done.tag.0 as u32);
            match done.result {
                Ok(()) => self.interval.record(slot.op, slot.len, now.since(slot.start)),
                Err(fault) => {
                    slot.record_failure(fault, done.cause, now, &mut self.interval, &*self.lane);
                    self.trouble = self.trouble.take().or_else(|| lost(&*self.lane, fault));
                }
            }
            slot.take_back(done.buf, self.lent.as_ref());
        }
    }

    /// Uses every free slot.
    #[inline]
    fn start_plain(&mut self, now: Nanos) {
        let Pattern::Plain(pattern) = &mut self.pattern else { return };
        while let Some(index) = self.free.pop() {
            let (op, offset) = pattern.next();
            let slot = &mut self.slots[index as usize];
            (slot.start, slot.op, slot.offset) = (now, op, offset);
            let len = slot.len;
            let buf = match op {
                Op::Read if self.lent.is_some() => None,
                Op::Read => slot.buf.take(),
                _ => {
                    let mut buf = slot.buf.take();
                    let data = buf.as_mut().expect("a free slot has its buffer");
                    self.writer.renew(&mut data[..len as usize]);
                    buf
                }
            };
            let tag = Tag(u64::from(index));
            self.batch.push_back(Io { tag, op, offset, len, fua: false, buf });
        }
    }
}

/// The earlier of two optional times.
fn sooner(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The trouble that a fault means for the run, if any.
#[cold]
fn lost(lane: &dyn Lane, fault: Fault) -> Option<Trouble> {
    let why = || lane.broken().unwrap_or("connection lost").to_owned();
    fault.is_lost().then(|| Trouble::Lost(why()))
}

impl Slot {
    fn new(len: u32, buf: Option<Buf>) -> Slot {
        Slot { start: Nanos(0), op: Op::Read, len, offset: 0, issued: Nanos(0), reply: 0, buf }
    }

    /// The completed I/O as a sample.
    pub(crate) fn sampled(&self, end: Nanos, failed: bool) -> SampledIo {
        let (op, offset, len, start) = (self.op, self.offset, self.len, self.start);
        SampledIo { worker: 0, every: 1, op, offset, len, start, end, failed }
    }

    /// Counts a failed I/O. One that never completed took at least its age.
    #[cold]
    fn record_failure(
        &self,
        fault: Fault,
        cause: Cause,
        now: Nanos,
        interval: &mut Interval,
        lane: &dyn Lane,
    ) {
        let (failed, age) = (self.failed(fault, cause, now), now.since(self.start));
        match fault.is_lost() {
            true => interval.record_unanswered(failed, age, || lane.words_of(cause)),
            false => interval.record_failure(failed, age, || lane.words_of(cause)),
        }
    }

    /// Details of a failed I/O.
    fn failed(&self, fault: Fault, cause: Cause, at: Nanos) -> Failed {
        Failed { op: self.op, fault, cause, at, offset: self.offset, len: self.len }
    }

    /// Takes back the buffer of a completed I/O, unless it was lent for a read.
    #[inline]
    fn take_back(&mut self, buf: Option<Buf>, lent: Option<&Pool>) {
        match (lent, self.op, buf) {
            (Some(pool), Op::Read, Some(lent)) => pool.give(lent),
            (_, _, Some(buf)) => self.buf = Some(buf),
            // The I/O had no buffer.
            (_, _, None) => {}
        }
    }
}

#[cfg(test)]
mod test;
