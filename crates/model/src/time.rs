//! Simulated time, with a resolution for I/Os that cost a core 72 ns.

/// Picoseconds since the start of a simulation, or a duration; `u64` holds 213 days.
///
/// The type is an integer, so that the order of events and every sum are the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

/// Picoseconds in a second.
pub(crate) const PER_S: f64 = 1e12;

impl Picos {
    /// Returns the time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PER_S
    }

    /// Rounds `ps` picoseconds to an integer; saturates.
    pub(crate) fn round(ps: f64) -> Picos {
        // The conversion saturates and truncates.
        Picos((ps + 0.5) as u64)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rounds_to_the_nearest() {
        assert_eq!(Picos::round(2.5), Picos(3));
        assert_eq!(Picos::round(f64::INFINITY), Picos(u64::MAX));
        assert_eq!(Picos(2_000_000_000_000).as_secs_f64(), 2.0);
    }
}
