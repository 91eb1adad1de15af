//! How long the collector waits for workers that do not hand their numbers over.
//!
//! A worker that is kept from its processor, by builds beside it or by a stop of the whole process,
//! answers when it is let: that time does not count. One that sits in a call of the kernel which
//! does not end may never answer.

use block::Nanos;

/// How long workers may take that could have answered.
const LATE: Nanos = Nanos::from_secs(2);
/// How long workers may take that only wait for a processor.
const STARVED: Nanos = Nanos::from_secs(20);
/// How often their threads are looked at. What was longer, nobody was there to see.
const LOOK: Nanos = Nanos::from_millis(20);

/// Patience with those who are late.
#[derive(Debug)]
pub(crate) struct Patience {
    looked: Nanos,
    /// How long they took in all, and when they could have answered.
    waited: Nanos,
    idle: Nanos,
}

impl Patience {
    /// From now on.
    pub(crate) fn new(now: Nanos) -> Patience {
        Patience { looked: now, waited: Nanos(0), idle: Nanos(0) }
    }

    /// Whether the wait has timed out. `starved` says whether one of those who are late waits for a
    /// processor; it is asked every [`LOOK`].
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

    /// How long it lasts when it is asked every millisecond.
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
