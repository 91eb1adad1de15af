//! End of a worker's time: the worker waits for I/Os in flight, or planned and not started; I/Os
//! that do not complete count with their age.

use block::{Cause, Fault, Nanos};
use stats::Interval;

use super::planned::{SOON, Upcoming};
use super::{Worker, sooner};
use crate::pattern::Pattern;

/// Time for which planned I/Os are still started after a worker's end. A lane that keeps up needs
/// milliseconds; one that does not would need as long as the run.
const CATCH_UP: Nanos = Nanos::from_secs(1);
/// Maximum number of I/Os that never started and are counted singly; beyond, one represents
/// several.
const COUNTED: u64 = 1 << 20;

/// Maximum number of I/Os that are examined singly each second.
const LOOKED_AT: u64 = 1024;

impl Worker {
    /// Hands over the last interval of the window, which ends at `now`. From here on nothing new is
    /// planned, and [late results](Worker::give_up) are recorded.
    #[cold]
    pub(crate) fn take_last(&mut self, now: Nanos) -> Box<Interval> {
        let paced = self.interval.paced.is_some();
        let empty = Box::new(if paced { Interval::paced() } else { Interval::new() });
        let last = self.take_interval(now, empty);
        self.close_window(now);
        last
    }

    /// The window ended at `now`, when the last interval was taken.
    pub(crate) fn close_window(&mut self, now: Nanos) {
        self.plan.closed = Some(now);
        // I/O before its start, or in its own ramp, is in no figure.
        self.plan.unmeasured = self.turn.as_ref().is_some_and(|turn| turn.is_unmeasured());
        self.hand_over_records(now, false);
        self.end_plan(self.planned_until(now));
    }

    /// Until when I/Os are planned, as of `now`: a worker with a lost lane does not check the end
    /// of its time any more.
    fn planned_until(&self, now: Nanos) -> Nanos {
        let by_turn = || self.turn.as_ref().map_or(now, |turn| turn.end_by(now));
        self.plan.until.unwrap_or_else(by_turn).min(now)
    }

    /// Ends the plan at `now`; a repeated call changes nothing.
    pub(super) fn end_plan(&mut self, now: Nanos) {
        if self.plan.until.is_none() {
            self.plan.until = Some(now);
            let holds_back = self.control.as_ref().is_some_and(|control| control.holds_back());
            self.plan.exhausted |= !self.is_paced() || holds_back || self.plan.full;
        }
    }

    /// Whether all I/Os begun in its time are complete, and all planned ones started. On a lost
    /// lane nothing more starts.
    pub(crate) fn is_drained(&self) -> bool {
        let begins = !self.plan.exhausted && self.plan.until.is_some() && self.trouble.is_none();
        self.is_idle() && !begins
    }

    /// Starts I/Os planned in its time that were blocked; returns when to step again.
    #[cold]
    pub(super) fn start_backlog(&mut self, now: Nanos) -> Option<Nanos> {
        let until = self.plan.until.filter(|_| !self.plan.exhausted)?;
        if now >= until + CATCH_UP {
            self.count_backlog(now, until);
            return None;
        }
        // A completion after the end triggers no replies.
        self.plan.replies.clear();
        while !self.free.is_empty() {
            let (next, due) = match self.upcoming(until) {
                Upcoming::Now(next, due) => (next, due),
                Upcoming::At(_) | Upcoming::Nothing => {
                    self.plan.exhausted = true;
                    return None;
                }
            };
            let Some(next) = self.claim(next) else {
                self.plan.held = Some((next, due));
                return Some(now + SOON);
            };
            self.launch(next, due, now);
        }
        Some(until + CATCH_UP)
    }

    /// Counts I/Os planned before `until` that never started, with their age.
    #[cold]
    fn count_backlog(&mut self, now: Nanos, until: Nanos) {
        self.plan.replies.clear();
        let mean_bytes = self.plan.mean_bytes;
        let mut each = 1;
        if let Some(schedule) = &mut self.plan.schedule {
            each = schedule.ahead(until, mean_bytes).div_ceil(COUNTED).max(1);
            schedule.thin(each);
        }
        // More I/Os are impossible, whatever the plan.
        let most = self.backlog_most();
        let mut moment = None;
        for _ in 0..most {
            let Upcoming::Now(next, due) = self.upcoming(until) else { break };
            let age = now.since(due);
            self.interval.record_waiting(next.op, age, each, false);
            // The I/Os end at different, unknown times, as they were planned.
            let planned = stats::moment(due);
            if moment.replace(planned) != Some(planned) {
                self.interval.note_moment(next.op, age);
            }
            self.interval.record_outstanding(each, age);
        }
        self.plan.exhausted = true;
    }

    /// Returns the maximum number of planned I/Os: a trace has an end, and with a rate one I/O
    /// represents several.
    fn backlog_most(&self) -> u64 {
        match &self.pattern {
            Pattern::Replay(_) => self.pattern.left(),
            _ => 2 * COUNTED,
        }
    }

    /// Start or due time of the oldest I/O without a completion at `now`.
    #[cold]
    pub(super) fn oldest(&mut self, now: Nanos) -> Option<Nanos> {
        self.mark_in_flight();
        let slots = self.slots.iter().zip(&self.in_flight);
        let starts = slots.filter(|(_, in_flight)| **in_flight).map(|(slot, _)| slot.start);
        sooner(starts.min(), self.due(now))
    }

    /// Marks the slots in flight.
    fn mark_in_flight(&mut self) {
        self.in_flight.fill(true);
        self.free.iter().for_each(|index| self.in_flight[*index as usize] = false);
    }

    /// Due time of an I/O that waits for a free slot.
    fn due(&self, now: Nanos) -> Option<Nanos> {
        let held = self.held_since();
        let planned = match (&self.pattern, &self.plan.schedule) {
            _ if !self.has_backlog() => None,
            (Pattern::Replay(stream), _) if stream.is_timed() => {
                stream.upcoming().map(|(_, at)| self.plan.began + at)
            }
            (_, schedule) => {
                let until = self.planned_until(now);
                schedule.as_ref().map(|schedule| schedule.next()).filter(|due| *due <= until)
            }
        };
        sooner(held, planned).filter(|due| *due < now)
    }

    /// Since when a planned I/O is blocked by an overlapping change.
    fn held_since(&self) -> Option<Nanos> {
        self.plan.held.as_ref().map(|(_, due)| *due).filter(|_| self.is_paced())
    }

    /// Whether due I/Os may wait for others to complete.
    fn has_backlog(&self) -> bool {
        let holds_back = self.control.as_ref().is_some_and(|control| control.holds_back());
        // With nothing in flight they start at once, unless the lane is lost.
        let waits = self.free.len() < self.slots.len() || self.trouble.is_some();
        !self.plan.exhausted && !holds_back && waits
    }

    /// Total waiting time by `now` of due I/Os that have not started. For many it is estimated; an
    /// error here is corrected by later calls.
    #[cold]
    pub(super) fn backlog_ns(&self, now: Nanos) -> u128 {
        let held = self.held_since().map_or(0, |due| u128::from(now.since(due).0));
        let planned = match (&self.pattern, &self.plan.schedule) {
            _ if !self.has_backlog() => 0,
            (Pattern::Replay(stream), _) if stream.is_timed() => {
                let since = Nanos(now.0.saturating_sub(self.plan.began.0));
                stream.waited_ns(since, LOOKED_AT)
            }
            (_, Some(schedule)) => {
                // No I/O is planned beyond the end of the worker's time.
                let until = self.planned_until(now);
                let (mean_bytes, left) = (self.plan.mean_bytes, self.pattern.left());
                schedule.waited_ns((until, now), mean_bytes, LOOKED_AT, left)
            }
            _ => 0,
        };
        held + planned
    }

    /// Gives up I/Os without a completion at `now`. Returns the results since the end of the
    /// window, and separately the failures of this.
    #[cold]
    pub(crate) fn give_up(&mut self, now: Nanos) -> (Box<Interval>, Interval) {
        self.count_outstanding(now);
        if let Some(until) = self.plan.until.filter(|_| !self.plan.exhausted) {
            self.count_backlog(now, until);
        }
        let (mut late, mut failed) = (std::mem::take(&mut self.interval), Interval::new());
        self.mark_in_flight();
        for (slot, _) in self.slots.iter().zip(&self.in_flight).filter(|(_, in_flight)| **in_flight)
        {
            late.record_waiting(slot.op, now.since(slot.start), 1, true);
            if let Some(paced) = &mut late.paced {
                paced.service.record_waiting(now.since(slot.issued).0, 1);
            }
            let unanswered = slot.failed(Fault::Unanswered, Cause::NONE, now);
            failed.record_failure(unanswered, Nanos(0), || None);
        }
        late.connection += self.lane.connection(now) - self.connection;
        late.end = now;
        if self.plan.unmeasured || self.plan.closed.is_none() {
            (*late, failed) = (Interval::new(), Interval::new());
        }
        (late, failed)
    }
}
