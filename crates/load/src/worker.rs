//! A worker: keeps I/Os in flight on one volume and records how long each took.
//!
//! The usual one, a closed loop of a plain pattern without comparison, takes a short way
//! through [`Worker::start_plain`]; what it does not need costs it one branch.

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

/// What is written where no bytes move: nothing is random in it, so that no buffer is touched.
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
    /// Of each slot whether it is in flight, when that is looked at.
    under_way: Vec<bool>,
    batch: VecDeque<Io>,
    done: Vec<Done>,
    interval: Box<Interval>,
    /// Until when outstanding I/Os are counted.
    counted: Nanos,
    /// What was already said of the connection.
    connection: Connection,
    writer: Writer,
    /// Reads go without a buffer; the lane lends one of this pool's.
    lent: Option<Pool>,
    trouble: Option<Trouble>,
    /// Nothing of what follows is needed.
    plain: bool,
    plan: Plan,
    verify: Option<Verifier>,
    /// What it reads is compared without a ledger.
    earlier: Option<Box<Earlier>>,
    /// Where it does not begin and end with the run.
    turn: Option<Box<Turn>>,
    /// What steers it while it runs.
    control: Option<Box<Control>>,
    /// How long the run goes before what is measured.
    ramp: Nanos,
    /// Where each I/O is written down, if it is. Such a worker takes the long way.
    recorder: Option<Box<Recorder>>,
    /// Takes some of its I/Os, while somebody wants to see them.
    sampler: Option<Box<Sampler>>,
}

/// What decides when the next I/O begins, where that is not at once.
#[derive(Default)]
struct Plan {
    schedule: Option<Schedule>,
    mean_bytes: f64,
    /// An I/O that found no place yet, and when it was due.
    held: Option<(Next, Nanos)>,
    /// An I/O that begins after a pause.
    paused: Option<Next>,
    /// Replies that are to follow: to what, and how long.
    replies: VecDeque<(Op, u32)>,
    /// Start of the last I/O.
    last_start: Nanos,
    /// When I/Os came back after all slots had been in use.
    freed: Nanos,
    /// Low watermark (iodepth_low): once all slots were in use, none starts until this many are.
    refill_at: Option<usize>,
    /// All were in use.
    draining: bool,
    /// It ends at ENOSPC.
    until_full: bool,
    /// None is.
    full: bool,
    /// The pattern has ended.
    exhausted: bool,
    /// When the worker began.
    began: Nanos,
    ended: Option<Nanos>,
    /// Its time is over: nothing new is planned from here on, and what was is still begun for a
    /// while.
    until: Option<Nanos>,
    /// When the measured window ended.
    closed: Option<Nanos>,
    /// Nothing of it was measured by then.
    unmeasured: bool,
}

/// One I/O that may be in flight.
pub(crate) struct Slot {
    /// What its latency counts from: in an open loop the planned start.
    start: Nanos,
    op: Op,
    len: u32,
    offset: u64,
    /// Where they differ, the actual start.
    issued: Nanos,
    /// Length of the I/O that follows it.
    reply: u32,
    /// The data, while they are not with the lane. None where it lends all that is moved.
    buf: Option<Buf>,
}

/// Why a worker ends the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The way to its volume is gone.
    Lost(String),
    /// Data are not what was written.
    Mismatch(Finding),
    /// It did not keep what was demanded, and ended; the others go on.
    Missed(Missed),
}

impl Trouble {
    /// What happened, to which worker on which volume.
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

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Write everything once, if data are to be compared, and do nothing else.
    Fill,
    /// Keep I/Os in flight.
    Run,
    /// Let those in flight come back.
    Drain,
}

/// Who a worker is: its number decides its chance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) part: Part,
    /// Bytes move. Where they do not, its buffers are never touched and use no memory.
    pub(crate) data: bool,
}

/// Fills buffers with what is written, or has the system give their memory now, not in the first
/// I/Os.
fn fill(bufs: &mut [Buf], writer: Option<&mut Writer>) {
    match writer {
        Some(writer) => bufs.iter_mut().for_each(|buf| writer.fill(buf)),
        None => bufs.iter_mut().flat_map(|buf| buf.chunks_mut(4096)).for_each(|page| page[0] = 0),
    }
}

impl Worker {
    /// A worker with buffers of its own, as many as it keeps I/Os in flight, unless its lane lends
    /// all that it moves. All workers of a volume that is verified share its ledger.
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
            under_way: vec![true; slots.len()],
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
            turn: None,
            control: Control::new(workload, data),
            ramp: Nanos(0),
            recorder: None,
            sampler: None,
        })
    }

    /// The same, bound to the others of its run.
    pub(crate) fn tied(mut self, ties: Ties) -> Worker {
        self.turn = ties.turn.map(Box::new);
        self.ramp = ties.ramp;
        if let Some(control) = &mut self.control {
            control.tie(ties.flow, ties.ends_alone);
        }
        self
    }

    /// The same, writing down each I/O.
    pub(crate) fn recorded(mut self, recorder: Option<Recorder>) -> Worker {
        self.plain &= recorder.is_none();
        self.recorder = recorder.map(Box::new);
        self
    }

    /// Takes what is finished, starts as much anew, and returns when to come again if nothing
    /// happens before.
    #[inline]
    pub(crate) fn step(&mut self, now: Nanos, order: Order) -> Option<Nanos> {
        self.finish(now);
        self.begin_next(now, order)
    }

    /// The first half of a step: takes what is finished.
    #[inline]
    pub(crate) fn finish(&mut self, now: Nanos) {
        self.lane.poll(now, &mut self.done);
        self.count_outstanding(now);
        if let Some(sampler) = &mut self.sampler {
            sampler.take_some(now, &self.done, &self.slots);
        }
        if self.plain { self.finish_plain(now) } else { self.finish_planned(now) }
    }

    /// The second half: starts as much anew, and returns when to come again.
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

    /// Has some of its I/Os taken from now on, or no longer; what took them until now.
    pub(crate) fn sample(&mut self, sampler: Option<Sampler>) -> Option<Sampler> {
        let before = std::mem::replace(&mut self.sampler, sampler.map(Box::new));
        before.map(|sampler| *sampler)
    }

    /// Whether some are taken.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampler.is_some()
    }

    /// I/Os that ended since some of them are taken.
    pub(crate) fn sampled(&self) -> u64 {
        self.sampler.as_ref().map_or(0, |sampler| sampler.seen())
    }

    /// The only socket whose events bring it news, beside the time that its last step returned;
    /// `None` if others may.
    #[inline]
    pub(crate) fn socket(&self) -> Option<u32> {
        self.lane.socket().filter(|_| self.plain && self.turn.is_none())
    }

    /// Exchanges the interval that was recorded for an empty one.
    pub(crate) fn take_interval(&mut self, now: Nanos, empty: Box<Interval>) -> Box<Interval> {
        self.count_outstanding(now);
        self.count_connection(now);
        let mut full = std::mem::replace(&mut self.interval, empty);
        full.end = self.plan.ended.unwrap_or(now).max(full.start);
        let unmeasured = self.turn.as_ref().is_some_and(|turn| turn.is_unmeasured());
        if self.plan.ended.is_some_and(|ended| ended < full.start) {
            // After its end there is no time of its own.
            (full.start, full.end) = (Nanos(u64::MAX), Nanos(0));
        }
        full.searched = self.control.as_ref().and_then(|control| control.searched());
        full.oldest_ns = self.oldest(now).map_or(0, |oldest| now.since(oldest).0);
        // What waits for its beginning is outstanding in the second in which it waits.
        let backlog_ns = self.backlog_ns(now);
        full.outstanding_ns += backlog_ns;
        self.interval.before_ns = backlog_ns;
        let ages_ns = self.ages_ns(now) + backlog_ns as i128;
        full.unsettled_ns += ages_ns;
        self.interval.unsettled_ns -= ages_ns;
        self.interval.start = now;
        if unmeasured {
            // Nor is there any before its turn, and what is done in its own ramp does not count.
            full.clear();
        }
        full
    }

    /// Counts what became of the connection since this was last asked.
    fn count_connection(&mut self, now: Nanos) {
        let counted = self.lane.connection(now);
        self.interval.connection += counted - std::mem::replace(&mut self.connection, counted);
    }

    /// For how long the I/Os in flight are in flight by now, all together.
    fn ages_ns(&self, now: Nanos) -> i128 {
        let start = |slot: &Slot| i128::from(slot.start.0);
        let free = self.free.iter().map(|index| start(&self.slots[*index as usize]));
        let starts = self.slots.iter().map(start).sum::<i128>() - free.sum::<i128>();
        i128::from(now.0) * (self.slots.len() - self.free.len()) as i128 - starts
    }

    /// Begins to record at `now`.
    pub(crate) fn begin(&mut self, now: Nanos, interval: Box<Interval>) {
        self.interval = interval;
        self.interval.start = now;
        self.counted = now;
    }

    /// Begins its plan at `now`, after everything was written once.
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

    /// Hands over what it has written down until `now`; the last of it if it is `over`: then what
    /// was in flight when its window ended is back.
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

    /// Whether it begins I/Os by the clock.
    pub(crate) fn is_paced(&self) -> bool {
        self.plan.schedule.is_some() || self.follows_times()
    }

    /// Whether the first pass of a verified run is still going on.
    pub(crate) fn filling(&self) -> bool {
        let filling = self.verify.as_ref().is_some_and(|verify| verify.fill.is_some());
        filling && self.trouble.is_none()
    }

    /// Whether it has done all that it was to do.
    pub(crate) fn is_finished(&self) -> bool {
        let over = self.turn.as_ref().is_none_or(|turn| turn.is_over());
        self.plan.exhausted && self.is_idle() && over
    }

    /// Why the run must end, once.
    pub(crate) fn take_trouble(&mut self) -> Option<Trouble> {
        let missed = || self.control.as_ref()?.missed().cloned().map(Trouble::Missed);
        self.trouble.clone().or_else(missed)
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way() == 0
    }

    /// I/Os that did not come back yet.
    #[inline]
    pub(crate) fn under_way(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    /// Asks for an orderly end of the way to the volume; true when it came.
    pub(crate) fn close(&mut self, now: Nanos) -> bool {
        self.lane.close(now)
    }

    #[inline]
    fn count_outstanding(&mut self, now: Nanos) {
        self.interval.record_outstanding(self.under_way(), now.since(self.counted));
        self.counted = now;
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

    /// Uses every free slot at once.
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

/// The sooner of two times, where there are any.
fn sooner(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The trouble that a fault means for the whole run, if it does.
#[cold]
fn lost(lane: &dyn Lane, fault: Fault) -> Option<Trouble> {
    let why = || lane.broken().unwrap_or("connection lost").to_owned();
    fault.is_lost().then(|| Trouble::Lost(why()))
}

impl Slot {
    fn new(len: u32, buf: Option<Buf>) -> Slot {
        Slot { start: Nanos(0), op: Op::Read, len, offset: 0, issued: Nanos(0), reply: 0, buf }
    }

    /// Its I/O, which has come back.
    pub(crate) fn sampled(&self, end: Nanos, failed: bool) -> SampledIo {
        let (op, offset, len, start) = (self.op, self.offset, self.len, self.start);
        SampledIo { worker: 0, every: 1, op, offset, len, start, end, failed }
    }

    /// Counts its I/O, which ended in a fault. One that was never answered took no less than its
    /// age.
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

    /// What is known of its I/O, which ended in a fault.
    fn failed(&self, fault: Fault, cause: Cause, at: Nanos) -> Failed {
        Failed { op: self.op, fault, cause, at, offset: self.offset, len: self.len }
    }

    /// Takes the buffer of an I/O that ended, unless it was lent for a read.
    #[inline]
    fn take_back(&mut self, buf: Option<Buf>, lent: Option<&Pool>) {
        match (lent, self.op, buf) {
            (Some(pool), Op::Read, Some(lent)) => pool.give(lent),
            (_, _, Some(buf)) => self.buf = Some(buf),
            // It went without.
            (_, _, None) => {}
        }
    }
}

#[cfg(test)]
mod test;
