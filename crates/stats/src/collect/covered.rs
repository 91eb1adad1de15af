//! Time in which I/Os could happen: when at least one worker was active.
//!
//! Rates are per second of covered time, in rows and in totals alike. A worker's interval defines
//! its active time: not before the worker begins, not after its work has ended, and not in its own
//! ramp.

use block::Nanos;

/// Union of the workers' spans, stretch by stretch.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// Spans of the open stretch.
    open: Vec<(Nanos, Nanos)>,
    /// Beginning of the first span of all.
    begin: Option<Nanos>,
    /// End of the last span that was counted.
    to: Nanos,
    total_ns: u64,
}

/// A closed stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// End of the span, in seconds since the first span of all began.
    pub(crate) to_s: f64,
    /// Covered time of the stretch, in nanoseconds.
    pub(crate) span_ns: u64,
}

impl Covered {
    /// Adds a worker's span; an empty span is ignored.
    pub(super) fn add(&mut self, from: Nanos, to: Nanos) {
        if to > from {
            self.open.push((from, to));
        }
    }

    /// Closes the open stretch; `None` if no worker was active.
    pub(super) fn close(&mut self) -> Option<Stretch> {
        self.open.sort_unstable();
        let begin = *self.begin.get_or_insert(self.open.first()?.0);
        let mut span_ns = 0;
        for (from, to) in self.open.drain(..) {
            span_ns += to.since(from.max(self.to)).0;
            self.to = self.to.max(to);
        }
        self.total_ns += span_ns;
        Some(Stretch { to_s: self.to.since(begin).as_secs_f64(), span_ns })
    }

    /// Returns the covered time of all closed stretches.
    pub(super) fn total(&self) -> Nanos {
        Nanos(self.total_ns)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn closed(covered: &mut Covered, spans: &[(u64, u64)]) -> Option<(f64, u64)> {
        spans.iter().for_each(|(from, to)| covered.add(Nanos(*from), Nanos(*to)));
        covered.close().map(|stretch| (stretch.to_s * 1e9, stretch.span_ns))
    }

    #[test]
    fn gaps_and_overlaps_are_no_time_of_their_own() {
        let mut covered = Covered::default();
        assert_eq!(closed(&mut covered, &[(9, 9), (u64::MAX, 0)]), None);
        // Two workers; one hands over 3 ns later.
        assert_eq!(closed(&mut covered, &[(105, 203), (100, 200)]), Some((103.0, 103)));
        assert_eq!(closed(&mut covered, &[(200, 300), (203, 301)]), Some((201.0, 98)));
        // One worker ends on its own, and another begins after a while.
        assert_eq!(closed(&mut covered, &[(301, 340), (390, 400)]), Some((300.0, 49)));
        assert_eq!(closed(&mut covered, &[(450, 500)]), Some((400.0, 50)));
        assert_eq!(covered.total(), Nanos(300));
    }
}
