//! Unresponsive legs.
//!
//! A write waits for all legs, so one that hangs would block the mirror for ever. Once a second a
//! lane looks for I/Os that wait for long: the leg is named, and fails after its timeout. I/Os in
//! flight on the leg are completed as failed and may still be executed: see [`Ghosts`].

use super::*;

/// Time between looks.
const LOOK_HUNG: Nanos = Nanos::from_secs(1);
/// Parts of its limit after which a leg that an I/O waits for is named.
const TOLD_AFTER: [u64; 2] = [6, 2];

impl<R: Rules> MirrorLane<R> {
    /// Names legs that I/Os wait for, and fails those that hang.
    #[cold]
    pub(super) fn look_for_hung(&mut self) {
        // After a stop of the process, all answers that arrived meanwhile look late.
        let away = self.now.since(self.look_at);
        if away >= LOOK_HUNG {
            self.tasks.postpone(away, self.now);
        }
        self.look_at = self.now + LOOK_HUNG;
        for (leg, way) in self.ways.iter_mut().enumerate().filter(|(_, way)| way.changes > 0) {
            self.legs.took(leg, std::mem::take(&mut way.changes), std::mem::take(&mut way.spent));
        }
        let patience = match planted(Plant::WaitForEver) {
            true => Nanos(u64::MAX),
            false => self.legs.patience(),
        };
        for leg in 0..self.ways.len() {
            let waits = |(_, task): &(u32, &Task)| task.waits().0 & 1 << leg != 0;
            let longest = self.tasks.iter().filter(waits).min_by_key(|(_, task)| task.waits().1);
            let Some((_, task)) = longest else { continue };
            let (waited, word) = (self.now.since(task.waits().1), task.word());
            let (seconds, limit) = (waited.as_secs_f64(), patience.as_secs_f64());
            let crossed = |part| {
                let at = Nanos(patience.0 / part);
                (at..at + LOOK_HUNG).contains(&waited)
            };
            if waited >= patience {
                let why = || format!("a {word} timed out after {limit:.0} s");
                self.legs.leave(leg, &why);
            } else if TOLD_AFTER.into_iter().any(crossed) {
                let then = match self.legs.in_it() & !(1 << leg) {
                    0 => "waiting, as it is the last leg".to_owned(),
                    _ => format!("the leg fails after {limit:.0} s"),
                };
                let words = || format!("has not answered a {word} for {seconds:.0} s; {then}");
                self.legs.waits_for(leg, &words);
            }
            // The last leg stays, and is waited for.
            if waited >= patience && !self.has(leg) {
                self.give_up(leg);
            }
        }
    }

    /// Answers everything that a leg has in flight as failed, and drops its lane when that has
    /// ended.
    fn give_up(&mut self, leg: usize) {
        let way = &mut self.ways[leg];
        let in_flight = std::mem::take(&mut way.in_flight);
        let lane = way.lane.take();
        way.renew(self.now, None);
        if let Some(lane) = lane.filter(|_| in_flight > 0) {
            self.ghosts.keep(leg, lane, in_flight);
            self.legs.haunts(leg, in_flight.into());
        }
        self.answer_lost(leg);
        // A change that a fill completes is answered by that.
        let filled: Vec<u32> = self.tasks.iter().filter_map(|(_, task)| task.fills(leg)).collect();
        let waits = |(number, task): &(u32, &Task)| {
            task.waits().0 & 1 << leg != 0 && !filled.contains(number)
        };
        let waiting: Vec<u32> = self.tasks.iter().filter(waits).map(|(number, _)| number).collect();
        for task in waiting {
            let (tag, result) = (Tasks::tag(task, leg), Err(Fault::Unanswered));
            self.answered(leg, Done { tag, result, cause: Cause::NONE, buf: None });
        }
    }

    /// Collects I/Os of abandoned lanes.
    pub(super) fn lay_ghosts(&mut self) {
        let (legs, pool) = (&self.legs, &self.pool);
        self.ghosts.poll(self.now, pool, |leg, count| legs.haunts(leg, -i64::from(count)));
    }
}
