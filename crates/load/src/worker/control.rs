//! Control of a worker while it runs: called before each I/O and after each completion, and may end
//! the worker. Most workers have none.

mod demands;
mod depth;
mod flow;
mod think;

use std::sync::Arc;

use block::{Nanos, Op};
use stats::SearchedDepth;

use self::demands::Guard;
use self::depth::Depth;
use self::flow::Share;
pub(super) use self::flow::{Flows, Shared};
use self::think::Thinking;
use super::{Worker, sooner};
use crate::pacing::Schedule;
use job::spec::Workload;

/// Why a worker ended that missed a demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    /// The reason.
    pub(crate) why: String,
    /// The errno with which fio ends.
    pub(crate) errno: u32,
    /// The time.
    pub(crate) at: Nanos,
}

/// Whether the next I/O may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Now.
    Open,
    /// Not before this time, or not before a completion.
    Shut(Option<Nanos>),
}

/// A completed I/O.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) latency: Nanos,
    pub(super) at: Nanos,
}

/// All controls of one worker.
#[derive(Debug)]
pub(super) struct Control {
    /// Whether the plan has started: the fill is not controlled.
    began: bool,
    think: Option<Thinking>,
    guard: Option<Guard>,
    depth: Option<Depth>,
    share: Option<Share>,
    missed: Option<Missed>,
}

impl Worker {
    /// Whether it has found the depth it searches, or searches none.
    pub(crate) fn has_found(&self) -> bool {
        let searched = self.control.as_ref().and_then(|control| control.searched());
        searched.is_none_or(|searched| searched.found)
    }

    /// Starts due I/Os; returns when to step again.
    #[inline(never)]
    pub(super) fn start_planned(&mut self, now: Nanos) -> Option<Nanos> {
        let idle = self.is_idle();
        let Some(control) = &mut self.control else { return self.start_due(now) };
        control.look(now, idle);
        if control.is_over() {
            self.plan.exhausted = true;
            if self.is_finished() {
                self.end(now);
            }
            return None;
        }
        let wake = self.start_due(now);
        sooner(wake, self.control.as_ref().and_then(|control| control.wake()))
    }

    /// Notes that the worker has ended.
    pub(super) fn end(&mut self, now: Nanos) {
        self.plan.ended.get_or_insert(now);
        if let Some(control) = &mut self.control {
            control.leave();
        }
    }
}

/// Index of reads, writes and trims. A flush has none.
fn way(op: Op) -> Option<usize> {
    match op {
        Op::Read => Some(0),
        Op::Write | Op::WriteZeroes => Some(1),
        Op::Trim => Some(2),
        Op::Flush => None,
    }
}

impl Control {
    /// The controls of a workload, if any. `spins`: CPU time may be spent.
    pub(super) fn new(workload: &Workload, spins: bool) -> Option<Box<Control>> {
        workload.is_steered().then(|| {
            Box::new(Control {
                began: false,
                think: workload.think.map(|think| Thinking::new(think, spins)),
                guard: workload.demands.map(Guard::new),
                depth: workload
                    .depth_search
                    .map(|search| Depth::new(search, workload.outstanding as usize)),
                share: None,
                missed: None,
            })
        })
    }

    /// Ties it to the other workers of its run.
    pub(super) fn tie(&mut self, share: Option<(Arc<Shared>, job::spec::Flow)>, ends_alone: bool) {
        self.share = share.map(|(shared, flow)| Share::new(shared, flow));
        if let Some(depth) = &mut self.depth {
            depth.ends_alone = ends_alone;
        }
    }

    /// Notes that the plan starts at `now`, and the measurement after `ramp`.
    pub(super) fn begin(&mut self, now: Nanos, ramp: Nanos) {
        self.began = true;
        if let Some(think) = &mut self.think {
            think.begin(now);
        }
        if let Some(guard) = &mut self.guard {
            guard.begin(now, ramp);
        }
        if let Some(depth) = &mut self.depth {
            depth.begin(now, ramp);
        }
        if let Some(share) = &mut self.share {
            share.join();
        }
    }

    /// Counts an I/O that starts.
    pub(super) fn begun(&mut self, op: Op, len: u32) {
        if !self.began {
            return;
        }
        if let (Some(think), true) = (&mut self.think, way(op).is_some()) {
            think.begun();
        }
        if let (Some(guard), Some(way)) = (&mut self.guard, way(op)) {
            guard.begun(way, len);
        }
        if let Some(share) = &mut self.share {
            share.begun();
        }
    }

    /// Counts a successful I/O.
    pub(super) fn done(&mut self, back: Back) {
        let (Some(way), true) = (way(back.op), self.began) else { return };
        if let Some(think) = &mut self.think {
            think.done();
        }
        let slow = self.guard.as_mut().and_then(|guard| {
            let late = guard.done(way, back);
            late.or_else(|| guard.look(back.at))
        });
        let unmet = self.depth.as_mut().and_then(|depth| depth.done(back));
        self.missed = self.missed.take().or(slow).or(unmet);
    }

    /// Checks the clock, once per step. `idle`: nothing is in flight.
    pub(super) fn look(&mut self, now: Nanos, idle: bool) {
        if !self.began || self.is_over() {
            return;
        }
        if let Some(guard) = &self.guard {
            self.missed = guard.stalls(now);
        }
        if let Some(depth) = &mut self.depth {
            depth.look(now, idle);
        }
    }

    /// Whether one more I/O may start with this many in flight.
    pub(super) fn gate(
        &mut self,
        now: Nanos,
        in_flight: usize,
        schedule: Option<&mut Schedule>,
    ) -> Gate {
        if !self.began {
            return Gate::Open;
        }
        if self.depth.as_ref().is_some_and(|depth| !depth.admits(in_flight)) {
            return Gate::Shut(None);
        }
        let idle = in_flight == 0;
        if let Some(think) = &mut self.think
            && let shut @ Gate::Shut(_) = think.gate(now, idle, schedule)
        {
            return shut;
        }
        self.share.as_mut().map_or(Gate::Open, |share| share.gate(now, idle))
    }

    /// Time of the next check.
    pub(super) fn wake(&self) -> Option<Nanos> {
        let guard = self.guard.as_ref().and_then(Guard::wake);
        let wake = sooner(guard, self.depth.as_ref().and_then(Depth::wake));
        wake.filter(|_| self.began && !self.is_over())
    }

    /// Whether it ends its worker.
    pub(super) fn is_over(&self) -> bool {
        self.missed.is_some() || self.depth.as_ref().is_some_and(|depth| depth.over)
    }

    /// Whether it delays I/Os that are due by the schedule.
    pub(super) fn holds_back(&self) -> bool {
        self.think.is_some() || self.share.is_some() || self.depth.is_some()
    }

    /// Notes that the worker has ended: others do not wait for it any more.
    pub(super) fn leave(&mut self) {
        if let Some(share) = &mut self.share {
            share.leave();
        }
    }

    /// The missed demand.
    pub(super) fn missed(&self) -> Option<&Missed> {
        self.missed.as_ref()
    }

    /// The searched depth so far.
    pub(super) fn searched(&self) -> Option<SearchedDepth> {
        self.depth.as_ref().map(Depth::searched)
    }
}

#[cfg(test)]
mod test;
