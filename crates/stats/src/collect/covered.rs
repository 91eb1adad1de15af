//! Time in which I/Os could happen: when at least one worker was there.
//!
//! Rates are per second of it, in rows and in totals alike. A worker's interval says when it was
//! there: neither before it begins, nor after its work has ended, nor in a ramp of its own.

use block::Nanos;

/// The union of the workers' spans, stretch after stretch.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// Spans of the open stretch.
    open: Vec<(Nanos, Nanos)>,
    /// Begin of the first span of all.
    begin: Option<Nanos>,
    /// End of the last span that was counted.
    to: Nanos,
    total_ns: u64,
}

/// A stretch that was closed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// End of the span, in seconds since the first span of all began.
    pub(crate) to_s: f64,
    /// How much of it is covered.
    pub(crate) span_ns: u64,
}

impl Covered {
    /// Adds a worker's span; an empty one is none.
    pub(super) fn add(&mut self, from: Nanos, to: Nanos) {
        if to > from {
            self.open.push((from, to));
        }
    }

    /// Closes the open stretch; `None` if nobody was there.
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

    /// The covered time of all closed stretches.
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
        // Two workers, one of which hands over 3 ns later.
        assert_eq!(closed(&mut covered, &[(105, 203), (100, 200)]), Some((103.0, 103)));
        assert_eq!(closed(&mut covered, &[(200, 300), (203, 301)]), Some((201.0, 98)));
        // One ends by itself, and after a while another begins.
        assert_eq!(closed(&mut covered, &[(301, 340), (390, 400)]), Some((300.0, 49)));
        assert_eq!(closed(&mut covered, &[(450, 500)]), Some((400.0, 50)));
        assert_eq!(covered.total(), Nanos(300));
    }
}
