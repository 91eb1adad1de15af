//! Counters of a run since it began, the ramp included. They only grow, so that a collector of
//! metrics can read them at any time. A collector adds up the histograms of 55 buckets over
//! minutes, which gives a p99 at 5 IOPS, too.

use block::{EDGES, EDGES_NS, Op};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::histogram::Latencies;
use crate::interval::{Interval, Tally};

/// Counters of each direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionCounts {
    /// Done without a fault.
    pub ios: u64,
    /// Ended in a fault.
    pub errors: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Latencies up to each of [`EDGES_NS`], and longer than the one before.
    #[serde(serialize_with = "as_list", deserialize_with = "of_list")]
    pub buckets: [u64; EDGES],
    /// Latencies in all.
    pub samples: u64,
    /// Sum of the latencies in nanoseconds.
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

    /// Adds the counters of another host.
    pub(crate) fn add_all(&mut self, other: &Counts) {
        self.read.add_all(&other.read);
        self.write.add_all(&other.write);
        self.trim.add_all(&other.trim);
        self.flush.add_all(&other.flush);
    }

    /// Returns the directions to show, with their names: reads and writes always, so that their
    /// counters begin with 0, and others once there are some.
    pub fn shown(&self) -> impl Iterator<Item = (&'static str, &DirectionCounts)> {
        let all = [
            (Op::Read, &self.read),
            (Op::Write, &self.write),
            (Op::Trim, &self.trim),
            (Op::Flush, &self.flush),
        ];
        let used = |of: &DirectionCounts| of.ios > 0 || of.errors > 0 || of.samples > 0;
        let shown =
            all.into_iter().filter(move |(op, of)| matches!(op, Op::Read | Op::Write) || used(of));
        shown.map(|(op, of)| (name(op), of))
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

    fn add_all(&mut self, other: &DirectionCounts) {
        self.ios = self.ios.saturating_add(other.ios);
        self.errors = self.errors.saturating_add(other.errors);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.samples = self.samples.saturating_add(other.samples);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.saturating_add(*more);
        }
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

fn as_list<S: Serializer>(buckets: &[u64; EDGES], to: S) -> Result<S::Ok, S::Error> {
    buckets.as_slice().serialize(to)
}

fn of_list<'de, D: Deserializer<'de>>(from: D) -> Result<[u64; EDGES], D::Error> {
    let list = Vec::<u64>::deserialize(from)?;
    let wrong = |list: Vec<u64>| {
        serde::de::Error::custom(format_args!("{} buckets, not {EDGES}", list.len()))
    };
    list.try_into().map_err(wrong)
}

#[cfg(test)]
mod test {
    use super::*;
    use block::Nanos;

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
        let shown =
            |counts: &Counts| counts.shown().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
        assert_eq!(shown(&counts), "read write", "writes that never were have a counter");
        done.record(Op::Flush, 0, Nanos(5));
        counts.add(&done);
        assert_eq!(shown(&counts), "read write flush");
    }
}
