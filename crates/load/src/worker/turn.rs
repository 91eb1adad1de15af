//! Start and end of a worker, if they differ from the run's, and its final flush.
//!
//! Workers without a turn never get here. Others call [`Turn::look`] once per step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use block::{Connection, Nanos, Op};
use stats::Interval;

use super::control::{Flows, Shared};
use super::{Worker, sooner};
use crate::pattern::Next;
use job::spec::{Flow, RunSpec, WorkerSpec};

/// Time of the next check whether others have ended.
const SOON: Nanos = Nanos::from_millis(1);

/// The workers' ends, shared by all workers of a run.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Running workers of each group.
    left: Vec<AtomicU32>,
    /// All are to end.
    over: AtomicBool,
    /// All end with the first one.
    with_first: bool,
}

/// The turn of one worker.
#[derive(Debug)]
pub(crate) struct Turn {
    ends: Arc<Ends>,
    group: usize,
    after: Vec<usize>,
    delay: Nanos,
    /// Duration from the worker's start.
    length: Option<Nanos>,
    /// Latest end, from the start of the run.
    last: Option<Nanos>,
    flush: bool,
    /// Ramp of the worker, which is not measured.
    ramp: Nanos,
    /// End of the worker's ramp; `None` if over, or if only the run has a ramp.
    opens: Option<Nanos>,
    /// Results of the worker's ramp: they count if the worker ends within it.
    ramped: Option<Box<Interval>>,
    state: WorkerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    /// The run started at this time, and its predecessors have not ended.
    Waits(Nanos),
    /// The worker starts at the first time; the run started at the second.
    Begins(Nanos, Nanos),
    /// The worker runs until this time, if known.
    Goes(Option<Nanos>),
    /// The worker has ended.
    Over,
}

/// Ties of a worker to others of its run.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    /// Turn, if start or end differ from the run's.
    pub(crate) turn: Option<Turn>,
    /// Flow, shared with others.
    pub(super) flow: Option<(Arc<Shared>, Flow)>,
    /// Whether the worker ends after measuring the depth it found: others run without a search.
    pub(super) ends_alone: bool,
    /// Time before the measurement.
    pub(super) ramp: Nanos,
}

/// The ties of the workers of a run.
pub(crate) fn ties(spec: &RunSpec) -> Vec<Ties> {
    let flows = Flows::of(spec);
    let ramp = nanos(spec.ramp_seconds);
    let tie = |(worker, turn): (&WorkerSpec, Option<Turn>)| {
        let flow = worker.workload.flow.map(|flow| flows.shared(flow));
        let ramp = ramp + nanos(worker.shift.when.ramp_seconds);
        Ties { turn, flow, ends_alone: spec.search_window().is_none(), ramp }
    };
    spec.workers.iter().zip(turns(spec)).map(tie).collect()
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// A worker's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    /// Start nothing before this time.
    Wait(Nanos),
    /// Start, and check again at this time.
    Begin(Option<Nanos>),
    /// Go on, and check again at this time.
    Go(Option<Nanos>),
    /// Continue, check again at this time, and start the measurement now.
    Open(Option<Nanos>),
    /// Start nothing new.
    End,
}

/// Returns whether a run continues after its time, until its workers have flushed their writes.
pub(crate) fn outlasts(spec: &RunSpec) -> bool {
    spec.workers.iter().any(|worker| worker.workload.end_flush)
}

/// The turns of the workers of a run; all `None` if everyone starts and ends with the run.
fn turns(spec: &RunSpec) -> Vec<Option<Turn>> {
    let outlasts = outlasts(spec);
    let usual = |worker: &WorkerSpec| {
        worker.shift.when == Default::default() && worker.shift.after.is_empty()
    };
    if !outlasts && !spec.ends_with_first && spec.workers.iter().all(usual) {
        return spec.workers.iter().map(|_| None).collect();
    }
    let groups = spec.workers.iter().map(|worker| worker.shift.group + 1).max().unwrap_or(0);
    let left: Vec<AtomicU32> = (0..groups).map(|_| AtomicU32::new(0)).collect();
    for worker in &spec.workers {
        left[worker.shift.group].fetch_add(1, Ordering::Relaxed);
    }
    let over = AtomicBool::new(false);
    let ends = Arc::new(Ends { left, over, with_first: spec.ends_with_first });
    let turn = |worker: &WorkerSpec| {
        let (shift, when) = (&worker.shift, &worker.shift.when);
        Turn {
            ends: Arc::clone(&ends),
            group: shift.group,
            after: shift.after.clone(),
            delay: nanos(when.delay_seconds),
            length: when
                .seconds
                .map(|seconds| nanos(spec.ramp_seconds + when.ramp_seconds + seconds)),
            last: outlasts.then(|| nanos(spec.ramp_seconds + spec.seconds)),
            flush: worker.workload.end_flush,
            ramp: nanos(when.ramp_seconds),
            opens: None,
            ramped: None,
            state: WorkerState::Waits(Nanos(0)),
        }
    };
    spec.workers.iter().map(|worker| Some(turn(worker))).collect()
}

impl Worker {
    /// Steps a worker whose start and end differ from the run's.
    #[inline(never)]
    pub(super) fn begin_in_turn(&mut self, now: Nanos) -> Option<Nanos> {
        let wake = if self.trouble.is_none() { self.take_turn(now) } else { None };
        self.lane.submit(now, &mut self.batch);
        sooner(self.lane.wake(), wake)
    }

    fn take_turn(&mut self, now: Nanos) -> Option<Nanos> {
        let turn = self.turn.as_mut()?;
        let (mut wake, ramp) = (None, turn.ramp);
        match turn.look(now) {
            Now::Wait(at) => return Some(at),
            Now::End => self.end_plan(now),
            Now::Go(next) => wake = next,
            Now::Open(next) => {
                wake = next;
                self.forget_ramp(now);
            }
            Now::Begin(next) => {
                wake = next;
                (self.interval.start, self.counted) = (now, now);
                // Connection changes before do not count in its turn.
                self.count_connection(now);
                self.interval.connection = Connection::default();
                if let Some(recorder) = &mut self.recorder {
                    recorder.turn(now, ramp);
                }
                self.start_plan(now);
            }
        }
        if self.plan.until.is_some() {
            wake = sooner(wake, self.start_backlog(now));
        } else if !self.plan.exhausted {
            let next = if self.plain { None } else { self.start_planned(now) };
            if self.plain {
                self.start_plain(now);
            }
            wake = sooner(wake, next);
        }
        if self.plan.exhausted && self.is_idle() {
            self.end_turn(now);
        }
        wake
    }

    /// Ends the worker's ramp: results so far count in no figure.
    #[cold]
    fn forget_ramp(&mut self, now: Nanos) {
        if let Some(turn) = &mut self.turn {
            turn.ramped = None;
        }
        self.count_connection(now);
        self.interval.forget_ramp();
        (self.interval.start, self.counted) = (now, now);
        self.interval.before_ns = self.backlog_ns(now);
        self.interval.unsettled_ns = -self.ages_ns(now) - self.interval.before_ns as i128;
    }

    /// All I/Os are complete: flushes if ordered, and ends the turn.
    #[cold]
    fn end_turn(&mut self, now: Nanos) {
        let Some(turn) = &mut self.turn else { return };
        if turn.take_flush() {
            let (op, fua, offset, len, pause) = (Op::Flush, false, 0, 0, Nanos(0));
            return self.launch(Next { op, fua, offset, len, pause, reply: 0 }, now, now);
        }
        if turn.opens.take().is_some() {
            // As in fio, the results of a worker that ends within its ramp are those of the ramp.
            turn.ramped.take().into_iter().for_each(|ramped| self.interval.take_back(&ramped));
        }
        turn.end();
        self.end(now);
    }
}

impl Turn {
    /// The run starts at `now`.
    pub(crate) fn start(&mut self, now: Nanos) {
        self.state = WorkerState::Waits(now);
    }

    /// The action at `now`.
    fn look(&mut self, now: Nanos) -> Now {
        if self.ends.over.load(Ordering::Acquire) {
            return Now::End;
        }
        if let WorkerState::Waits(run) = self.state {
            let left = |group: &usize| self.ends.left[*group].load(Ordering::Acquire) > 0;
            if self.after.iter().any(left) {
                return Now::Wait(now + SOON);
            }
            // A delay alone counts from the run, to the nanosecond.
            let from = if self.after.is_empty() { run } else { now };
            self.state = WorkerState::Begins(from + self.delay, run);
        }
        match self.state {
            WorkerState::Begins(at, _) if now < at => Now::Wait(at),
            WorkerState::Begins(at, run) => {
                let ends = [self.length.map(|length| at + length), self.last.map(|l| run + l)];
                let end = ends.into_iter().flatten().min();
                self.state = WorkerState::Goes(end);
                self.opens = Some(at + self.ramp).filter(|_| self.ramp > Nanos(0));
                if end.is_some_and(|end| now >= end) {
                    Now::End
                } else {
                    Now::Begin(self.next(now))
                }
            }
            WorkerState::Goes(Some(end)) if now >= end => Now::End,
            WorkerState::Goes(_) if self.opens.is_some_and(|opens| now >= opens) => {
                self.opens = None;
                Now::Open(self.next(now))
            }
            WorkerState::Goes(_) => Now::Go(self.next(now)),
            WorkerState::Waits(_) | WorkerState::Over => Now::End,
        }
    }

    /// Returns when to check again while the worker runs.
    fn next(&self, now: Nanos) -> Option<Nanos> {
        let end = if let WorkerState::Goes(end) = self.state { end } else { None };
        let end = sooner(end, self.opens);
        match self.ends.with_first {
            true => Some(end.unwrap_or(now + SOON).min(now + SOON)),
            false => end,
        }
    }

    /// Whether it has not started.
    fn is_waiting(&self) -> bool {
        matches!(self.state, WorkerState::Waits(_) | WorkerState::Begins(..))
    }

    /// `now`, or its planned end if earlier.
    pub(super) fn end_by(&self, now: Nanos) -> Nanos {
        if let WorkerState::Goes(Some(end)) = self.state { end.min(now) } else { now }
    }

    /// Whether its I/O is not measured: before its start, and in its own ramp.
    pub(crate) fn is_unmeasured(&self) -> bool {
        self.is_waiting() || self.opens.is_some()
    }

    /// Keeps results of its ramp.
    pub(crate) fn keep_ramp(&mut self, interval: &Interval) {
        if self.opens.is_some() {
            self.ramped.get_or_insert_with(|| Box::new(Interval::new())).merge(interval);
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.state == WorkerState::Over
    }

    /// Whether a flush must precede its end: true once.
    fn take_flush(&mut self) -> bool {
        !self.is_waiting() && std::mem::take(&mut self.flush)
    }

    /// Notes that the worker has ended, which others may wait for.
    fn end(&mut self) {
        if self.state == WorkerState::Over {
            return;
        }
        self.state = WorkerState::Over;
        self.ends.left[self.group].fetch_sub(1, Ordering::AcqRel);
        if self.ends.with_first {
            self.ends.over.store(true, Ordering::Release);
        }
    }
}
