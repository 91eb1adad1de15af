//! Whether other threads compete for the CPU of a waiting core.
//!
//! A thread that yields beside one that computes is behind it for a whole slice, some
//! milliseconds, and one that sleeps is let in when what it waits for comes. So a core that has
//! seen two long yields one after the other sleeps instead, for a while; where nobody computes,
//! yields are short.

use block::Nanos;

/// A yield that lasts so long was the slice of a thread that computes: two loops that share a core
/// hand it over after some microseconds.
const SLICE: Nanos = Nanos(500_000);
/// Two such yields within this time are no chance: a host that takes its processor away for a
/// moment looks like one.
const TOGETHER: Nanos = Nanos::from_millis(20);
/// How often a core checks whether others still compete.
const FOR: Nanos = Nanos::from_millis(100);

/// Observed competition for the CPU.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// When the last long yield was over.
    seen: Option<Nanos>,
    until: Nanos,
}

impl Crowd {
    /// Whether yields took slices a short while ago.
    pub(crate) fn is_there(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// A yield lasted from one time to the other.
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
