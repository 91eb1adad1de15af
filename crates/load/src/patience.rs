//! Time for which the collector waits for workers that do not hand over their intervals.
//!
//! A preempted worker, or one in a stopped process, hands over once it runs: that time does not
//! count. One in a system call that does not return may never do so.

use block::Nanos;

/// Time limit of workers that could have run.
const LATE: Nanos = Nanos::from_secs(2);
/// Time limit of workers that only wait for a CPU.
const STARVED: Nanos = Nanos::from_secs(20);
/// Interval at which threads of workers are checked. A longer gap means that the collector itself
/// was not scheduled.
const LOOK: Nanos = Nanos::from_millis(20);

/// The time limit of late workers.
#[derive(Debug)]
pub(crate) struct Patience {
    looked: Nanos,
    /// Total waiting time, and the time in which they could have run.
    waited: Nanos,
    idle: Nanos,
}

impl Patience {
    /// Starting now.
    pub(crate) fn new(now: Nanos) -> Patience {
        Patience { looked: now, waited: Nanos(0), idle: Nanos(0) }
    }

    /// Returns whether the wait has timed out. `starved` returns whether a late worker waits for a
    /// CPU; it is called every [`LOOK`].
    pub(crate) fn is_over(&mut self, now: Nanos, starved: impl FnOnce() -> bool) -> bool {
        let since = now.since(self.looked);
        if since >= LOOK {
            self.looked = now;
            self.waited = self.waited + since.min(LOOK);
            if !starved() {
                self.idle = self.idle + since.min(LOOK);
            }
        }
        self.idle >= LATE || self.waited >= STARVED
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Duration of the wait if called every millisecond.
    fn lasts(starved: impl Fn(u64) -> bool) -> u64 {
        let mut patience = Patience::new(Nanos(0));
        (1..).find(|ms| patience.is_over(Nanos::from_millis(*ms), || starved(*ms))).unwrap()
    }

    #[test]
    fn who_waits_for_a_processor_has_longer() {
        assert_eq!(lasts(|_| false), 2_000);
        assert_eq!(lasts(|ms| ms < 5_000), 6_980);
        assert_eq!(lasts(|_| true), 20_000);
    }

    #[test]
    fn a_stop_of_all_does_not_count() {
        let mut patience = Patience::new(Nanos(0));
        assert!(!patience.is_over(Nanos::from_secs(3600), || false));
        assert!(!patience.is_over(Nanos::from_secs(7200), || true));
        assert_eq!(patience.waited, Nanos::from_millis(40));
    }
}
