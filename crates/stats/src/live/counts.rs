//! Counters of a run since it began, the ramp included. They only grow, so that a collector of
//! metrics can read them at any time. A collector adds up the histograms of 55 buckets over
//! minutes, which gives a p99 at 5 IOPS, too.

use block::Op;

use crate::histogram::Latencies;
use crate::interval::{Interval, Tally};

/// Upper edges of the buckets in nanoseconds: six per decade, from 100 ns to 100 s. Longer
/// latencies are in no bucket, but in `samples`.
pub const EDGES_NS: [u64; EDGES] = edges();
/// Number of edges.
pub const EDGES: usize = 55;

/// Edges of a decade in tenths.
const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];

const fn edges() -> [u64; EDGES] {
    let mut edges = [0; EDGES];
    let (mut index, mut decade_ns) = (0, 10);
    while index < EDGES {
        edges[index] = decade_ns * STEPS[index % STEPS.len()];
        index += 1;
        if index.is_multiple_of(STEPS.len()) {
            decade_ns *= 10;
        }
    }
    edges
}

/// Counters of each direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Reads.
    pub read: DirectionCounts,
    /// Writes.
    pub write: DirectionCounts,
    /// Trims.
    pub trim: DirectionCounts,
    /// Flushes.
    pub flush: DirectionCounts,
}

/// Counters of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionCounts {
    /// Done without a fault.
    pub ios: u64,
    /// Ended in a fault.
    pub errors: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Latencies up to each of [`EDGES_NS`], and longer than the one before.
    pub buckets: [u64; EDGES],
    /// Latencies in all.
    pub samples: u64,
    /// Their sum in nanoseconds.
    pub latency_ns: u128,
}

impl Default for DirectionCounts {
    fn default() -> DirectionCounts {
        let (ios, errors, bytes, samples, latency_ns) = Default::default();
        DirectionCounts { ios, errors, bytes, buckets: [0; EDGES], samples, latency_ns }
    }
}

impl Counts {
    /// Adds the I/Os of a second.
    pub(crate) fn add(&mut self, done: &Interval) {
        self.read.add(&done.read);
        self.write.add(&done.write);
        self.trim.add(&done.trim);
        self.flush.add(&done.flush);
    }

    /// Returns the directions with I/Os, with their names.
    pub fn used(&self) -> impl Iterator<Item = (&'static str, &DirectionCounts)> {
        let all = [
            (Op::Read, &self.read),
            (Op::Write, &self.write),
            (Op::Trim, &self.trim),
            (Op::Flush, &self.flush),
        ];
        let used = all.into_iter().filter(|(_, of)| of.ios > 0 || of.errors > 0 || of.samples > 0);
        used.map(|(op, of)| (name(op), of))
    }
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write | Op::WriteZeroes => "write",
        Op::Trim => "trim",
        Op::Flush => "flush",
    }
}

impl DirectionCounts {
    fn add(&mut self, tally: &Tally) {
        self.ios += tally.ios;
        self.errors += tally.errors;
        self.bytes += tally.bytes;
        self.add_latencies(&tally.latencies);
    }

    /// Adds latencies. A bucket of the finer histogram counts at its upper end, so no latency
    /// counts as shorter than it was.
    fn add_latencies(&mut self, latencies: &Latencies) {
        if latencies.is_empty() {
            return;
        }
        let mut edge = 0;
        for bucket in latencies.buckets() {
            while edge < EDGES && bucket.to_ns > EDGES_NS[edge] {
                edge += 1;
            }
            self.samples += bucket.count;
            match self.buckets.get_mut(edge) {
                Some(count) => *count += bucket.count,
                None => continue,
            }
        }
        self.latency_ns += latencies.sum();
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use block::Nanos;

    #[test]
    fn edges_are_six_a_decade_from_100_ns_to_100_s() {
        assert_eq!(EDGES_NS[..7], [100, 150, 200, 300, 500, 700, 1000]);
        assert_eq!(EDGES_NS[EDGES - 1], 100_000_000_000);
        assert!(EDGES_NS.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn every_latency_is_in_one_bucket_at_or_above_its_edge() {
        let mut counts = Counts::default();
        let mut done = Interval::new();
        let all = [1, 100, 101, 150, 999, 1_000_000, 3_000_001, 99_000_000_000, 200_000_000_000];
        for ns in all {
            done.record(Op::Read, 512, Nanos(ns));
        }
        counts.add(&done);
        counts.add(&done);
        let read = &counts.read;
        assert_eq!((read.ios, read.bytes, read.samples), (18, 18 * 512, 18));
        // The last one is beyond all edges.
        assert_eq!(read.buckets.iter().sum::<u64>(), 16);
        assert_eq!(read.latency_ns, 2 * all.iter().map(|ns| u128::from(*ns)).sum::<u128>());
        assert_eq!(read.buckets[0], 4, "1 and 100 ns");
        let mut from = 0;
        for (edge, count) in EDGES_NS.iter().zip(read.buckets) {
            let within = all.iter().filter(|ns| **ns > from && **ns <= *edge).count() as u64;
            // A bucket of the finer histogram may lie across an edge.
            let near =
                all.iter().any(|ns| [from, *edge].iter().any(|e| ns.abs_diff(*e) * 100 < *e));
            assert!(count == 2 * within || near, "up to {edge} ns: {count}");
            from = *edge;
        }
        assert_eq!(counts.used().map(|(name, _)| name).collect::<Vec<_>>(), ["read"]);
    }
}
