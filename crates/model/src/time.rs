//! Simulated time, fine enough for I/Os that cost a core 72 ns.

use block::Nanos;

/// Picoseconds since the start of a simulation, or a span of them; `u64` holds 213 days.
///
/// Whole numbers, so that the order of events and every sum are the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The span in nanoseconds, rounded to the nearest.
    pub fn to_nanos(self) -> Nanos {
        Nanos(self.0 / 1000 + u64::from(self.0 % 1000 >= 500))
    }
}
