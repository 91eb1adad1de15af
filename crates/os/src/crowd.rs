//! Whether others want the processor that a core waits on.
//!
//! A thread that yields beside one that computes is behind it for a whole slice, some
//! milliseconds, and one that sleeps is let in when what it waits for comes. So a core that has
//! seen a long yield sleeps instead, for a while; where nobody else computes, yields are short.

use block::Nanos;

/// A yield that lasts so long was the slice of a thread that computes: two loops that share a core
/// hand it over after some microseconds.
const SLICE: Nanos = Nanos(500_000);
/// Whether the others are still there is looked at so often.
const FOR: Nanos = Nanos(20_000_000);

/// What was seen of others on the processor.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    until: Nanos,
}

impl Crowd {
    /// Whether a yield took a slice a short while ago.
    pub(crate) fn is_there(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// A yield lasted from one time to the other.
    pub(crate) fn yielded(&mut self, from: Nanos, to: Nanos) {
        if to.since(from) >= SLICE {
            self.until = to + FOR;
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_long_yield_is_remembered_for_a_while() {
        let mut crowd = Crowd::default();
        crowd.yielded(Nanos(1_000), Nanos(9_000));
        assert!(!crowd.is_there(Nanos(9_000)));
        crowd.yielded(Nanos(10_000), Nanos(4_010_000));
        assert!(crowd.is_there(Nanos(4_010_000)) && crowd.is_there(Nanos(24_009_999)));
        assert!(!crowd.is_there(Nanos(24_010_000)));
    }
}
