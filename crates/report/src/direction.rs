//! Directions of a result with their words.

use stats::{Direction, Totals};

/// Word of flushes: they have a rate, and are no I/Os.
pub(crate) const FLUSHES: &str = "flushes";

/// Directions in which anything was done.
pub(crate) fn used(totals: &Totals) -> impl Iterator<Item = (&'static str, &Direction)> {
    let all = [
        ("reads", &totals.read),
        ("writes", &totals.write),
        ("trims", &totals.trim),
        (FLUSHES, &totals.flush),
    ];
    all.into_iter().filter(|(_, of)| of.ios > 0 || of.latency_ns.samples > 0)
}
