//! Detection of other threads that compete for the CPU of a waiting core.
//!
//! A thread that yields to a CPU-bound one waits for a whole time slice, some milliseconds; a
//! sleeping thread preempts the CPU-bound one when an event wakes it. So a core that saw two long
//! yields in a row sleeps instead, for a while; without CPU-bound threads yields are short.

use block::Nanos;

/// Minimum yield that shows a CPU-bound thread's time slice: two loops that share a CPU alternate
/// within microseconds.
const SLICE: Nanos = Nanos(500_000);
/// Time within which two such yields are no coincidence: a hypervisor that preempts the CPU for a
/// moment causes one.
const TOGETHER: Nanos = Nanos::from_millis(20);
/// Interval at which a core checks whether others still compete.
const FOR: Nanos = Nanos::from_millis(100);

/// Observed competition for the CPU.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// End of the last long yield.
    seen: Option<Nanos>,
    until: Nanos,
}

impl Crowd {
    /// Whether yields took slices a short while ago.
    pub(crate) fn is_there(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// Records a yield from one time to another.
    pub(crate) fn yielded(&mut self, from: Nanos, to: Nanos) {
        if to.since(from) < SLICE {
            return;
        }
        if self.seen.replace(to).is_some_and(|seen| from.since(seen) < TOGETHER) {
            self.until = to + FOR;
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn two_long_yields_are_remembered_for_a_while() {
        let ms = Nanos::from_millis;
        let mut crowd = Crowd::default();
        crowd.yielded(Nanos(1_000), Nanos(9_000));
        crowd.yielded(Nanos(10_000), ms(4));
        assert!(!crowd.is_there(ms(4)), "once may be the host");
        crowd.yielded(ms(24), ms(25));
        assert!(!crowd.is_there(ms(25)), "too long after the first");
        crowd.yielded(ms(26), ms(27));
        assert!(crowd.is_there(ms(27)) && crowd.is_there(ms(126)));
        assert!(!crowd.is_there(ms(127)));
    }
}
