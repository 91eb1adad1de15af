//! Moments: the number of milliseconds that contain an I/O of at least a given latency. A stall
//! that hits fifty I/Os at once is one event for a tail, and is counted as one here.
//!
//! Counting costs an I/O nothing: [`Latencies`](crate::Latencies) compares each latency with the
//! maximum so far anyway, which here is the maximum of the open millisecond. Once per millisecond
//! the worker stores it (about 10 ns). Runs of consecutive I/Os above each level would need the
//! order of all I/Os, which is two more stores per I/O, as much as the histogram costs.

use std::collections::BTreeMap;

use block::Nanos;
use serde::{Deserialize, Serialize};

use crate::buckets::Buckets;
use crate::histogram::{GROUPING_POWER, LONGEST_NS};

/// Length of a moment: 2²⁰ ns, 1.05 ms, as a power of two.
const MOMENT_BITS: u32 = 20;
/// Number of moments per interval, 2.1 s: a collector that runs every second may be one second
/// late. Later moments count as the last one.
const MOMENTS: usize = 2048;
/// Minimum number of moments of a tail: as many as a hundred I/Os above it represent if fewer than
/// two of them come from one event on average.
pub const MOMENTS_ABOVE: u64 = 50;
/// The lowest percentile that is a tail.
const TAIL: f64 = 0.99;
/// Marker for no moment.
pub(crate) const NONE: u64 = u64::MAX;

/// Longest latency of each moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moments {
    /// The open moment.
    open: u64,
    /// Moment of the first of `longest`.
    first: u64,
    /// Bucket of the longest latency, plus one; 0 without an I/O.
    longest: Box<[u16]>,
    /// True if `longest` includes moments that were not opened by this value.
    is_merged: bool,
    /// Number of settled moments, by the bucket of their longest latency.
    settled: BTreeMap<u16, u64>,
}

/// Moments in which an I/O took as long as a percentile, or longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailMoments {
    /// Number of moments above p99.
    pub p99: u64,
    /// Number of moments above p99.9.
    pub p99_9: u64,
    /// Number of moments above p99.99.
    pub p99_99: u64,
}

impl TailMoments {
    /// Returns the number of moments above the percentile `p`, or above the next lower tail
    /// percentile; `None` if `p` is below all of them.
    pub fn of(&self, p: f64) -> Option<u64> {
        match p {
            p if p < TAIL => None,
            p if p < 0.999 => Some(self.p99),
            p if p < 0.9999 => Some(self.p99_9),
            _ => Some(self.p99_99),
        }
    }

    /// Returns the maximum of each field.
    pub fn most(self, other: TailMoments) -> TailMoments {
        TailMoments {
            p99: self.p99.max(other.p99),
            p99_9: self.p99_9.max(other.p99_9),
            p99_99: self.p99_99.max(other.p99_99),
        }
    }

    /// Returns whether the moments are enough to show the percentile `p`: a tail needs 50.
    pub fn supports(&self, p: f64) -> bool {
        self.of(p).is_none_or(|moments| moments >= MOMENTS_ABOVE)
    }
}

/// Returns the number of the moment at an instant.
pub fn moment(now: Nanos) -> u64 {
    number(now.0)
}

/// Returns the number of the moment at `now_ns` nanoseconds.
#[inline]
pub(crate) fn number(now_ns: u64) -> u64 {
    now_ns >> MOMENT_BITS
}

/// Returns the number of a latency's bucket.
fn bucket(ns: u64) -> u16 {
    const SMALL: u32 = GROUPING_POWER as u32 + 1;
    let ns = ns.min(LONGEST_NS);
    let bits = (ns | 1).ilog2();
    match bits.checked_sub(SMALL) {
        None => ns as u16,
        Some(above) => ((above + 1) << GROUPING_POWER) as u16 + (ns >> (above + 1)) as u16,
    }
}

impl Moments {
    pub(crate) fn new() -> Moments {
        let longest = vec![0; MOMENTS].into_boxed_slice();
        Moments { open: NONE, first: NONE, longest, is_merged: false, settled: BTreeMap::new() }
    }

    /// Returns whether no moment is open.
    pub(crate) fn is_closed(&self) -> bool {
        self.open == NONE
    }

    /// Returns whether this moment is open.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.open == number
    }

    /// Returns whether any moment is known.
    pub(crate) fn is_known(&self) -> bool {
        self.first != NONE || !self.settled.is_empty()
    }

    /// Closes the open moment with its longest latency, and opens another.
    #[cold]
    pub(crate) fn begin(&mut self, number: u64, longest_ns: u64) {
        self.note(longest_ns);
        self.open = number;
        if self.first == NONE {
            self.first = number;
        }
    }

    /// Counts one moment in addition to those opened here, with its longest latency.
    pub(crate) fn note_one(&mut self, longest_ns: u64) {
        *self.settled.entry(bucket(longest_ns)).or_default() += 1;
    }

    /// Stores the longest latency of the open moment; 0 if no I/O completed in it.
    fn note(&mut self, longest_ns: u64) {
        if self.open == NONE || longest_ns == 0 {
            return;
        }
        let (at, longest) = (self.open - self.first, bucket(longest_ns) + 1);
        // A plain store does not wait for the cache line, which is cold after a millisecond.
        match self.longest.get_mut(at as usize) {
            Some(place) if at < MOMENTS as u64 - 1 && !self.is_merged => *place = longest,
            _ => put(&mut self.longest, at, longest),
        }
    }

    /// Adds moments of the same time, or later ones. `longest_ns` is the longest latency of the
    /// open moment of `other`.
    pub(crate) fn merge(&mut self, other: &Moments, longest_ns: u64) {
        other.settled.iter().for_each(|(at, count)| *self.settled.entry(*at).or_default() += count);
        self.merge_single(other, longest_ns);
    }

    /// Adds only the moments that are not settled.
    pub(crate) fn merge_single(&mut self, other: &Moments, longest_ns: u64) {
        if other.first == NONE {
            return;
        }
        self.is_merged = true;
        let first = self.first.min(other.first);
        let earlier = self.first.saturating_sub(first);
        if self.first != NONE && earlier > 0 {
            let mut later = vec![0; MOMENTS].into_boxed_slice();
            let kept = (0..).zip(&self.longest[..]);
            kept.for_each(|(at, longest)| put(&mut later, at + earlier, *longest));
            self.longest = later;
        }
        self.first = first;
        let theirs = (other.first - first..).zip(&other.longest[..]);
        theirs.for_each(|(at, longest)| put(&mut self.longest, at, *longest));
        if other.open != NONE && longest_ns > 0 {
            put(&mut self.longest, other.open - first, bucket(longest_ns) + 1);
        }
    }

    /// Counts single moments, which are over for all workers: no later latency belongs to them.
    pub(crate) fn settle(&mut self, longest_ns: u64) {
        self.note(longest_ns);
        if self.first == NONE {
            return;
        }
        for longest in self.longest.iter_mut().filter(|longest| **longest > 0) {
            *self.settled.entry(*longest - 1).or_default() += 1;
            *longest = 0;
        }
        (self.open, self.first, self.is_merged) = (NONE, NONE, false);
    }

    /// Clears all counts and retains the memory.
    pub(crate) fn clear(&mut self) {
        if self.first != NONE {
            self.longest.fill(0);
        }
        (self.open, self.first, self.is_merged) = (NONE, NONE, false);
        self.settled.clear();
    }

    /// Returns the settled moments whose longest latency is in the bucket of `ns`, or in a later
    /// one.
    pub(crate) fn from(&self, ns: u64) -> u64 {
        self.settled.range(bucket(ns)..).map(|(_, count)| count).sum()
    }
}

/// Moments that are written down, and those of several hosts.
impl Moments {
    /// Returns the settled moments by the bucket of their longest latency.
    pub(crate) fn by_longest(&self) -> Buckets {
        let mut all = Buckets::default();
        for (bucket, count) in &self.settled {
            all.from_ns.push(begins_at(*bucket));
            all.count.push(*count);
        }
        all
    }

    /// Restores settled moments. The buckets are checked; `count` is their sum.
    pub(crate) fn settled_as(buckets: &Buckets, count: u64) -> Moments {
        let mut moments = Moments::new();
        if count > 0 {
            let each = buckets.iter().map(|of| (bucket(of.from_ns), of.count));
            moments.settled = each.collect();
        }
        moments
    }

    /// Returns for each bucket the settled moments with a latency in it or above it; `None` if no
    /// moment is known.
    pub(crate) fn above(&self) -> Option<Vec<u64>> {
        let last = *self.settled.keys().next_back()?;
        let mut above = vec![0; usize::from(bucket(LONGEST_NS).max(last)) + 1];
        let mut sum = 0;
        for (at, count) in above.iter_mut().enumerate().rev() {
            sum += self.settled.get(&(at as u16)).copied().unwrap_or(0);
            *count = sum;
        }
        Some(above)
    }

    /// Creates settled moments with these counts at or above each bucket, which never grow from
    /// bucket to bucket.
    pub(crate) fn with_above(above: &[u64]) -> Moments {
        let mut moments = Moments::new();
        for (at, count) in above.iter().enumerate() {
            let next = above.get(at + 1).copied().unwrap_or(0);
            if *count > next {
                moments.settled.insert(at as u16, count - next);
            }
        }
        moments
    }
}

/// Returns the shortest latency of a bucket, by its number.
fn begins_at(bucket: u16) -> u64 {
    const SMALL: u16 = 1 << (GROUPING_POWER + 1);
    if bucket < SMALL {
        return u64::from(bucket);
    }
    let above = (bucket >> GROUPING_POWER) - 1;
    u64::from(bucket - (above << GROUPING_POWER)) << above
}

/// Raises the longest latency of a moment to `value`.
fn put(longest: &mut [u16], at: u64, value: u16) {
    let at = usize::try_from(at).unwrap_or(usize::MAX).min(MOMENTS - 1);
    longest[at] = longest[at].max(value);
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::histogram::Latencies;

    /// Records I/Os, each with its end in milliseconds and its latency in nanoseconds.
    fn of(ios: &[(u64, u64)]) -> Latencies {
        let mut latencies = Latencies::new();
        for (end_ms, ns) in ios {
            latencies.turn(number(end_ms << MOMENT_BITS));
            latencies.record(*ns);
        }
        latencies
    }

    #[test]
    fn buckets_are_those_of_the_histogram() {
        let buckets = |ns: &[u64]| {
            let each = of(&ns.iter().map(|ns| (0, *ns)).collect::<Vec<_>>());
            each.buckets().count()
        };
        for ns in (1..5000).chain((13..43).map(|bits| 1 << bits)) {
            let same = bucket(ns) == bucket(ns - 1);
            assert_eq!(same, buckets(&[ns, ns - 1]) == 1, "{ns}");
            assert!(bucket(ns) >= bucket(ns - 1));
            assert!(begins_at(bucket(ns)) <= ns && bucket(begins_at(bucket(ns))) == bucket(ns));
            assert!(ns == 0 || bucket(begins_at(bucket(ns)).saturating_sub(1)) <= bucket(ns));
        }
        assert_eq!(bucket(u64::MAX), bucket(LONGEST_NS));
    }

    #[test]
    fn what_a_stall_hits_at_once_is_one_moment() {
        // Three stalls of 50 I/Os each among 100,000 of 100 µs; then as many separate slow I/Os.
        let quick = |at: u64| (at / 100, 100_000);
        let mut ios: Vec<(u64, u64)> = (0..100_000).map(quick).collect();
        let mut alone = ios.clone();
        for stall in [3_u64, 500, 900] {
            ios.extend((0..50).map(|_| (stall, 20_000_000)));
            alone.extend((0..50).map(|at| (stall + 2 * at, 20_000_000)));
        }
        for (mut ios, moments) in [(ios, 3), (alone, 150)] {
            ios.sort_unstable();
            let mut latencies = of(&ios);
            latencies.settle();
            let shown = latencies.summary();
            assert_eq!(shown.moments.map(|tail| tail.p99_9), Some(moments));
            assert_eq!(shown.p99_9.is_some(), moments >= MOMENTS_ABOVE, "{shown:?}");
            assert_eq!((shown.p99, shown.max), (Some(100_351), Some(20_000_000)));
        }
    }

    #[test]
    fn moments_of_several_workers_are_one() {
        let mut all = of(&[(7, 500), (9, 90)]);
        all.merge(&of(&[(5, 30), (7, 900)]));
        all.merge(&of(&[(7, 1), (8, 40)]));
        all.settle();
        let from = |ns| all.moments.from(ns);
        assert_eq!([1, 31, 41, 91, 1000].map(from), [4, 3, 2, 1, 0]);
        // A collector that runs late loses no moments, but merges them into one.
        let mut late = of(&[(1, 10), (5_000_000, 20), (5_000_001, 30)]);
        late.settle();
        assert_eq!(late.moments.from(10), 2);
        // Later moments add up, and an empty histogram has none.
        all.merge(&late);
        assert_eq!(all.moments.from(1), 6);
        assert_eq!(Latencies::new().summary().moments, None);
        all.clear();
        assert_eq!(all, Latencies::new());
    }
}
