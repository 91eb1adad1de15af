//! The activity of a core, recorded for `--trace`.
//!
//! When off, each recorded operation checks an empty `Option`, a few times a turn; when on, each
//! reads the clock twice.

use block::{Activity, Doing, Nanos, Stretch};

use crate::clock::Clock;
use crate::core::{Core, CoreState};

/// The activity record of a core.
#[derive(Debug)]
pub(crate) struct Record {
    clock: Clock,
    activity: Activity,
}

impl Core {
    /// Starts to record this core's activity in `activity`, or stops. Returns the record so far.
    pub fn record(&self, activity: Option<Activity>) -> Option<Activity> {
        let clock = self.clock();
        let record = activity.map(|activity| Box::new(Record { clock, activity }));
        let before = std::mem::replace(&mut self.state.borrow_mut().record, record);
        before.map(|record| record.activity)
    }

    /// Records that the core's owner did something for `worker` from `start` until now, if
    /// recording; returns the time.
    pub fn note(&self, doing: Doing, worker: u32, start: Nanos) -> Nanos {
        let end = self.now();
        if let Some(record) = &mut self.state.borrow_mut().record {
            record.activity.note(Stretch { start, end, doing, worker });
        }
        end
    }
}

impl CoreState {
    /// Receives on the direct socket, if there is one.
    #[inline]
    pub(crate) fn receive_direct_timed(&mut self) {
        if self.direct.is_some() {
            self.timed(Doing::Reap, CoreState::receive_direct);
        }
    }

    /// Records an activity from `start` to `end`, if recording.
    #[inline]
    pub(crate) fn note(&mut self, doing: Doing, start: Nanos, end: Nanos) {
        if let Some(record) = &mut self.record {
            record.activity.note(Stretch { start, end, doing, worker: 0 });
        }
    }

    /// Runs `work`, and records it if recording is on.
    #[inline]
    pub(crate) fn timed<R>(&mut self, doing: Doing, work: impl FnOnce(&mut CoreState) -> R) -> R {
        let Some(record) = &self.record else { return work(self) };
        let start = record.clock.now();
        let done = work(self);
        if let Some(record) = &mut self.record {
            let end = record.clock.now();
            record.activity.note(Stretch { start, end, doing, worker: 0 });
        }
        done
    }
}

#[cfg(test)]
mod test {
    use block::Pool;

    use super::*;

    #[test]
    fn a_turn_that_sleeps_holds_its_sleep() {
        let core = Core::open(Pool::new(8, 8)).unwrap();
        let mut ready = Vec::new();
        assert!(core.record(Some(Activity::new(64))).is_none());
        let start = core.now();
        core.turn(Some(start + Nanos::from_millis(3)), &mut ready).unwrap();
        core.note(Doing::Step, 0, start);
        let (stretches, left_out) = core.record(None).unwrap().take();
        assert_eq!(left_out, 0);
        let of = |doing| stretches.iter().find(move |stretch| stretch.doing == doing).unwrap();
        let (turn, wait, sleep) = (of(Doing::Turn), of(Doing::Wait), of(Doing::Sleep));
        assert!(turn.start <= wait.start && wait.start <= sleep.start);
        assert!(sleep.end <= wait.end && wait.end <= turn.end && turn.end <= of(Doing::Step).end);
        assert!(wait.end.since(wait.start) >= Nanos::from_millis(2), "{wait:?}");
        core.turn(Some(core.now()), &mut ready).unwrap();
        assert!(core.record(None).is_none());
    }
}
