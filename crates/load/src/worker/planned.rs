//! The slow path of a worker: paced, in turns or conditional I/O, verification, control and logs.

use block::{Fault, Io, Nanos, Op, Plant, Tag, planted};

use super::control::{Back, Gate};
use super::verify::{Fill, changes};
use super::{Trouble, Worker, lost};
use crate::pattern::{Next, Pattern};

/// Attempts to move a write that overlaps another one.
const TRIES: u32 = 16;
/// Time at which to retry a blocked I/O.
pub(super) const SOON: Nanos = Nanos(20_000);

/// A worker's next action.
pub(super) enum Upcoming {
    /// Start this, with this planned start.
    Now(Next, Nanos),
    /// Start something, but not before.
    At(Nanos),
    /// Nothing to start before the next completion, or at all.
    Nothing,
}

impl Worker {
    /// Takes completions.
    #[inline(never)]
    pub(super) fn finish_planned(&mut self, now: Nanos) {
        if self.free.is_empty() && !self.done.is_empty() {
            self.plan.freed = now;
        }
        for mut done in self.done.drain(..) {
            let index = done.tag.0 as usize;
            let slot = &mut self.slots[index];
            self.free.push(index as u32);
            let mut trouble = None;
            match done.result {
                Ok(()) => {
                    self.interval.record(slot.op, slot.len, now.since(slot.start));
                    if let Some(paced) = &mut self.interval.paced {
                        paced.service.record(now.since(slot.issued).0);
                    }
                    if let Some(control) = &mut self.control {
                        let (op, offset, len) = (slot.op, slot.offset, slot.len);
                        let latency = now.since(slot.start);
                        control.done(Back { op, offset, len, latency, at: now });
                    }
                    if let Some(recorder) = &mut self.recorder {
                        let place = (slot.offset, slot.len);
                        recorder.done(now, now.since(slot.start), slot.op, place);
                    }
                }
                Err(Fault::NoSpace) if self.plan.until_full => {
                    // ENOSPC ends the worker and is not counted.
                    self.plan.full = true;
                    self.interval.unsettled_ns += i128::from(now.since(slot.start).0);
                }
                Err(fault) => {
                    slot.record_failure(fault, done.cause, now, &mut self.interval, &*self.lane);
                    if let Some(paced) = self.interval.paced.as_mut().filter(|_| fault.is_lost()) {
                        paced.service.record_waiting(now.since(slot.issued).0, 1);
                    }
                    trouble = lost(&*self.lane, fault);
                }
            }
            if let (Pattern::Zoned(zoned), Op::Write) = (&mut self.pattern, slot.op) {
                zoned.ended(slot.offset, done.result.is_ok());
            }
            if slot.reply > 0 {
                self.plan.replies.push_back((slot.op, slot.reply));
            }
            if let Some(verify) = &mut self.verify {
                let finding = verify.ended(index, slot, &mut done);
                trouble = trouble.or(finding.map(Trouble::Mismatch));
            }
            if let (Some(earlier), Op::Read, Ok(()), Some(data)) =
                (&mut self.earlier, slot.op, done.result, &done.buf)
            {
                let finding = earlier.check(&data[..slot.len as usize], slot.offset);
                trouble = trouble.or(finding.map(Trouble::Mismatch));
            }
            self.trouble = self.trouble.take().or(trouble);
            slot.take_back(done.buf, self.lent.as_ref());
        }
    }

    /// Starts due I/Os while slots are free; returns when the next one is due.
    pub(super) fn start_due(&mut self, now: Nanos) -> Option<Nanos> {
        if self.plan.full {
            self.plan.exhausted = true;
            if self.is_finished() {
                self.end(now);
            }
            return None;
        }
        if let Some(low) = self.plan.refill_at {
            self.plan.draining &= self.slots.len() - self.free.len() > low;
            if self.plan.draining {
                return None;
            }
        }
        while !self.free.is_empty() {
            if let Some(control) = &mut self.control {
                let in_flight = self.slots.len() - self.free.len();
                let gate = control.gate(now, in_flight, self.plan.schedule.as_mut());
                if let Gate::Shut(wake) = gate {
                    return wake;
                }
            }
            match self.upcoming(now) {
                Upcoming::Now(next, due) => match self.claim(next) {
                    Some(next) => self.launch(next, due, now),
                    None => {
                        self.plan.held = Some((next, due));
                        return Some(now + SOON);
                    }
                },
                Upcoming::At(at) => return Some(at),
                Upcoming::Nothing => {
                    if self.is_finished() {
                        self.end(now);
                    }
                    return None;
                }
            }
        }
        self.plan.draining = true;
        None
    }

    pub(super) fn upcoming(&mut self, now: Nanos) -> Upcoming {
        if let Some((next, due)) = self.plan.held.take() {
            // Without a plan it starts when unblocked: the volume had no part in the wait.
            return Upcoming::Now(next, if self.is_paced() { due } else { now });
        }
        if self.filling() {
            return self.fill_next(now);
        }
        if let Some((op, bytes)) = self.plan.replies.pop_front() {
            return Upcoming::Now(self.pattern.reply(op, bytes), now);
        }
        if let Pattern::Replay(_) = self.pattern {
            return self.replay_next(now);
        }
        let plan = &mut self.plan;
        if let Some(schedule) = &mut plan.schedule {
            // The rate counts reads and writes. As in fio, flushes are additional.
            if let Some(flush) = self.pattern.owes_flush().then(|| self.pattern.next()).flatten() {
                return Upcoming::Now(flush, now);
            }
            let due = schedule.next();
            if due > now {
                // A worker that has started all its I/Os does not wait for the time of another.
                plan.exhausted |= self.pattern.is_over();
                return if plan.exhausted { Upcoming::Nothing } else { Upcoming::At(due) };
            }
            let Some(next) = self.pattern.next() else {
                plan.exhausted = true;
                return Upcoming::Nothing;
            };
            schedule.advance(next.len);
            return Upcoming::Now(next, due);
        }
        let Some(next) = plan.paused.take().or_else(|| self.pattern.next()) else {
            plan.exhausted = true;
            return Upcoming::Nothing;
        };
        let at = plan.last_start + next.pause;
        if next.pause > Nanos(0) && at > now {
            plan.paused = Some(next);
            return Upcoming::At(at);
        }
        Upcoming::Now(next, now)
    }

    fn fill_next(&mut self, now: Nanos) -> Upcoming {
        let idle = self.is_idle();
        let Some(verify) = &mut self.verify else { return Upcoming::Nothing };
        match verify.fill.as_mut().and_then(Fill::next) {
            Some(next) => Upcoming::Now(next, now),
            None if !idle => Upcoming::Nothing,
            None => {
                verify.fill = None;
                Upcoming::Nothing
            }
        }
    }

    /// Ensures that no other change of the same blocks is in flight, with verification: tries other
    /// offsets, too. `None` if all were taken.
    pub(super) fn claim(&mut self, mut next: Next) -> Option<Next> {
        if !self.enter_zone(&next) {
            return None;
        }
        let Some(verify) = &self.verify else { return Some(next) };
        if !changes(next.op) {
            return Some(next);
        }
        let place = next.offset;
        for _ in 0..TRIES {
            if verify.ledger.claim(next.op, next.offset, next.len) {
                self.interval.displaced += u64::from(next.offset != place);
                return Some(next);
            }
            if verify.fill.is_none() {
                next = self.pattern.elsewhere(next);
            }
        }
        None
    }

    pub(super) fn launch(&mut self, next: Next, due: Nanos, now: Nanos) {
        let Next { op, fua, offset, len, reply, .. } = next;
        let index = self.free.pop().expect("a slot is free");
        let slot = &mut self.slots[index as usize];
        let start = if planted(Plant::WrongStart) { now } else { due };
        (slot.start, slot.issued, slot.op) = (start, now, op);
        (slot.offset, slot.len, slot.reply) = (offset, len, reply);
        self.plan.last_start = now;
        if let Some(control) = &mut self.control {
            control.begun(op, len);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.begun(now, op, offset, len);
        }
        if let Some(paced) = &mut self.interval.paced {
            paced.lag.record(now.since(due).0);
            let missed = due < self.plan.freed;
            paced.missed += u64::from(missed);
            // The thread came late, not the volume.
            self.interval.waited_ns += if missed { 0 } else { u128::from(now.since(due).0) };
        }
        // The I/O is outstanding from its planned start, or from when it was first blocked.
        self.interval.record_outstanding(1, now.since(due));
        let lent = self.lent.is_some() && op == Op::Read;
        let moves_data = matches!(op, Op::Read | Op::Write);
        let mut buf = if lent || !moves_data { None } else { slot.buf.take() };
        if let (Op::Write, Some(buf)) = (op, &mut buf) {
            let data = &mut buf[..len as usize];
            match &self.verify {
                Some(verify) => verify.ledger.stamp(data, offset),
                None => self.writer.renew(data),
            }
        }
        if let (Op::Read, Some(verify)) = (op, &mut self.verify) {
            verify.note(index as usize, offset, len);
        }
        let tag = Tag(u64::from(index));
        self.batch.push_back(Io { tag, op, offset, len, fua, buf });
    }
}
