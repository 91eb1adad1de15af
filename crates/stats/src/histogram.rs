//! Latencies of many I/Os in fixed memory.
//!
//! The hot half of the crate: a worker calls [`Latencies::record`] once per I/O.

mod exact;

use ::histogram::{Config, Histogram};
use serde::{Deserialize, Serialize};

use crate::buckets::Buckets;
use crate::moments::{Moments, TailMoments};

pub use self::exact::{Complete, Exact};
pub(crate) use self::exact::{MostMoments, SAMPLES_MAX, checked};

/// 2⁷ buckets for each power of two: a percentile is at most 1/128 = 0.78 % too high.
pub(crate) const GROUPING_POWER: u8 = 7;
/// 2⁴² ns are 73 minutes, longer than any I/O that anybody waits for.
const MAX_VALUE_POWER: u8 = 42;
/// Longest latency that the last bucket covers; longer ones are counted there, too.
pub(crate) const LONGEST_NS: u64 = (1 << MAX_VALUE_POWER) - 1;
/// Minimum number of samples above a percentile for it to be shown.
const SAMPLES_ABOVE: f64 = 100.0;

/// Latencies of I/Os: a histogram with an error of at most 0.78 %, with the exact sum, minimum and
/// maximum.
///
/// Memory (40 KiB) is allocated by [`new`](Self::new) and never grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    buckets: Histogram,
    /// The sum modulo 2⁶⁴, and the number of wraps: one addition per record where 128 bits need
    /// two.
    sum_low_ns: u64,
    sum_wraps: u64,
    /// Minimum in nanoseconds; above `max_ns` as long as nothing is recorded.
    min_ns: u64,
    /// Maximum before the open moment, and maximum in it; without moments, the maximum of all.
    max_ns: u64,
    open_ns: u64,
    pub(crate) moments: Moments,
    /// Shortest latency that is a lower bound; `u64::MAX` if there is none.
    waiting_from_ns: u64,
}

/// One bucket of a histogram that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Shortest latency that is counted here, in nanoseconds.
    pub from_ns: u64,
    /// Longest latency that is counted here, in nanoseconds.
    pub to_ns: u64,
    /// Number of latencies in the bucket.
    pub count: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl Latencies {
    /// Creates an empty histogram.
    pub fn new() -> Latencies {
        const CONFIG: Config = match Config::new(GROUPING_POWER, MAX_VALUE_POWER) {
            Ok(config) => config,
            Err(_) => panic!("7 and 42 are valid powers"),
        };
        let buckets = Histogram::with_config(&CONFIG);
        let (min_ns, waiting_from_ns) = (u64::MAX, u64::MAX);
        Latencies {
            buckets,
            sum_low_ns: 0,
            sum_wraps: 0,
            min_ns,
            max_ns: 0,
            open_ns: 0,
            moments: Moments::new(),
            waiting_from_ns,
        }
    }

    /// Rebuilds a histogram from its buckets and the maximum. The exact sum is lost.
    pub(crate) fn of(buckets: &Buckets, max_ns: u64) -> Latencies {
        let mut latencies = Latencies::new();
        buckets.iter().for_each(|bucket| latencies.record_n(bucket.from_ns, bucket.count));
        latencies.open_ns = max_ns;
        latencies
    }

    /// Counts one latency in nanoseconds.
    ///
    /// This takes 1.4 ns back to back; the library's bare increment takes 0.9 ns (2 shared vCPUs,
    /// AMD EPYC). No count is maintained: a count would cost another 0.1 ns, and equals the
    /// buckets' sum.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        if self.buckets.increment(ns).is_err() {
            self.record_beyond(1);
        }
        let (sum, wrapped) = self.sum_low_ns.overflowing_add(ns);
        self.sum_low_ns = sum;
        if wrapped {
            self.sum_wraps += 1;
        }
        // Branches, because they are rarely taken and a branch not taken stores nothing.
        if ns < self.min_ns {
            self.min_ns = ns;
        }
        if ns > self.open_ns {
            self.open_ns = ns;
        }
    }

    /// Begins a moment: later latencies belong to it.
    pub(crate) fn turn(&mut self, moment: u64) {
        if self.moments.is_open(moment) {
            return;
        }
        self.moments.begin(moment, self.open_ns);
        self.max_ns = self.max_ns.max(std::mem::take(&mut self.open_ns));
    }

    /// Counts the moments so far, which are complete.
    pub(crate) fn settle(&mut self) {
        self.moments.settle(self.open_ns);
        (self.open_ns, self.max_ns) = (self.open_ns.max(self.max_ns), 0);
    }

    /// Adds the unsettled moments of this histogram to `to`.
    pub(crate) fn add_moments(&self, to: &mut Moments) {
        to.merge_single(&self.moments, self.open_ns);
    }

    /// Replaces the moments. In a sum of latencies of the same time, the moments of its parts do
    /// not add up.
    pub(crate) fn set_moments(&mut self, moments: Moments) {
        self.moments = moments;
    }

    /// Counts the same latency `n` times.
    pub fn record_n(&mut self, ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        if self.buckets.add(ns, n).is_err() {
            self.record_beyond(n);
        }
        self.add_sum(u128::from(ns) * u128::from(n));
        self.min_ns = self.min_ns.min(ns);
        self.open_ns = self.open_ns.max(ns);
    }

    /// Counts `n` unanswered I/Os of age `age_ns`: their latencies are at least that long.
    pub fn record_waiting(&mut self, age_ns: u64, n: u64) {
        self.record_n(age_ns, n);
        if n > 0 {
            self.waiting_from_ns = self.waiting_from_ns.min(age_ns);
        }
    }

    /// Counts latencies beyond the last bucket in the last bucket.
    #[cold]
    fn record_beyond(&mut self, n: u64) {
        self.buckets.add(LONGEST_NS, n).expect("the longest latency has a bucket");
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        if other.is_empty() {
            return;
        }
        let theirs = other.buckets.as_slice();
        for (ours, theirs) in self.buckets.as_mut_slice().iter_mut().zip(theirs) {
            *ours += theirs;
        }
        self.add_sum(other.sum());
        self.min_ns = self.min_ns.min(other.min_ns);
        let longest = if self.moments.is_closed() { &mut self.open_ns } else { &mut self.max_ns };
        *longest = (*longest).max(other.max_ns).max(other.open_ns);
        self.moments.merge(&other.moments, other.open_ns);
        self.waiting_from_ns = self.waiting_from_ns.min(other.waiting_from_ns);
    }

    /// Clears all counts and retains the memory.
    pub fn clear(&mut self) {
        self.moments.clear();
        if self.is_empty() {
            return;
        }
        self.buckets.reset();
        (self.sum_low_ns, self.sum_wraps) = (0, 0);
        (self.min_ns, self.max_ns, self.open_ns) = (u64::MAX, 0, 0);
        self.waiting_from_ns = u64::MAX;
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.min_ns > self.longest_ns()
    }

    fn longest_ns(&self) -> u64 {
        self.max_ns.max(self.open_ns)
    }

    /// Returns the number of latencies: a sum over all buckets, so not for the I/O path.
    pub fn count(&self) -> u64 {
        self.buckets.as_slice().iter().sum()
    }

    /// Returns the exact minimum in nanoseconds.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// Returns the exact maximum in nanoseconds.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.longest_ns())
    }

    /// Returns the age in nanoseconds of the youngest unanswered I/O that is counted.
    pub fn waiting_from(&self) -> Option<u64> {
        (self.waiting_from_ns < u64::MAX).then_some(self.waiting_from_ns)
    }

    /// Returns the exact sum in nanoseconds.
    pub fn sum(&self) -> u128 {
        u128::from(self.sum_wraps) << 64 | u128::from(self.sum_low_ns)
    }

    /// Returns the exact mean in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum() as f64 / self.count() as f64)
    }

    fn add_sum(&mut self, more_ns: u128) {
        let sum = self.sum() + more_ns;
        (self.sum_wraps, self.sum_low_ns) = ((sum >> 64) as u64, sum as u64);
    }

    /// Returns the latency in nanoseconds that the share `p` of all I/Os did not exceed, for `p`
    /// from 0 to 1: never too low, at most 0.78 % too high. `None` without samples or for another
    /// `p`.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        let [found] = self.at([rank(p, self.count())]);
        found
    }

    /// Returns the latencies of the samples with these ascending ranks, in one pass.
    fn at<const N: usize>(&self, ranks: [Option<u64>; N]) -> [Option<u64>; N] {
        let (mut found, mut next, mut seen) = ([None; N], 0, 0);
        for bucket in self.buckets() {
            seen += bucket.count;
            while next < N && ranks[next].is_none_or(|rank| seen >= rank) {
                found[next] =
                    ranks[next].and(Some(bucket.to_ns.clamp(self.min_ns, self.longest_ns())));
                next += 1;
            }
            if next == N {
                break;
            }
        }
        found
    }

    /// Returns [`percentile`](Self::percentile), or `None` unless n·(1−p) ≥ 100: a percentile with
    /// fewer than 100 samples above it rests on a handful of I/Os. A tail, p99 and beyond, also
    /// needs 50 moments, if moments are known.
    pub fn supported_percentile(&self, p: f64) -> Option<u64> {
        self.supports(p).then(|| self.percentile(p)).flatten()
    }

    /// Returns whether there are enough samples, of enough moments, to show the percentile `p`.
    pub fn supports(&self, p: f64) -> bool {
        supports(self.count(), p) && self.tail_moments().is_none_or(|tail| tail.supports(p))
    }

    /// Returns the moments of each tail, if moments are known.
    pub(crate) fn tail_moments(&self) -> Option<TailMoments> {
        let count = self.count();
        if count == 0 || !self.moments.is_known() {
            return None;
        }
        let mut settled = self.moments.clone();
        settled.settle(self.open_ns);
        let tails = self.at([0.99, 0.999, 0.9999].map(|p| rank(p, count)));
        let [p99, p99_9, p99_99] = tails.map(|ns| settled.from(ns.unwrap_or(0)));
        Some(TailMoments { p99, p99_9, p99_99 })
    }

    /// Returns the non-empty buckets, in ascending order of latency.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.buckets.iter().filter(|bucket| bucket.count() != 0).map(|bucket| Bucket {
            from_ns: bucket.start(),
            to_ns: bucket.end(),
            count: bucket.count(),
        })
    }

    /// Returns the summary that reports show.
    pub fn summary(&self) -> Latency {
        let count = self.count();
        let moments = self.tail_moments();
        let of_enough = |p| moments.is_none_or(|tail: TailMoments| tail.supports(p));
        let supported = |p| rank(p, count).filter(|_| supports(count, p) && of_enough(p));
        let [p50, p90, p99, p99_9, p99_99] =
            self.at([0.5, 0.9, 0.99, 0.999, 0.9999].map(supported));
        Latency {
            samples: count,
            min: self.min(),
            mean: (count > 0).then(|| self.sum() as f64 / count as f64),
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            max: self.max(),
            moments,
            waiting_from: self.waiting_from(),
            waited_for_cpu: None,
        }
    }
}

/// Returns the rank, counted from the shortest, of percentile `p` among `count` samples; `None`
/// without samples or if `p` is not in 0 to 1.
pub(crate) fn rank(p: f64, count: u64) -> Option<u64> {
    // Nearest rank: the smallest sample with a share of at least `p` at or below it. The tiny cut
    // makes 0.07 × 100 = 7.000000000000001 rank 7.
    let rank = (p * count as f64 * (1.0 - 1e-12)).ceil() as u64;
    (count > 0 && (0.0..=1.0).contains(&p)).then(|| rank.clamp(1, count))
}

/// Returns whether `samples` are enough to show the percentile `p` (0 to 1): n·(1−p) ≥ 100.
pub fn supports(samples: u64, p: f64) -> bool {
    // 1 − 0.9999 is slightly below 0.0001 in binary; a slack of one millionth admits n = 1,000,000.
    samples as f64 * (1.0 - p) >= SAMPLES_ABOVE * (1.0 - 1e-6)
}

/// Latencies of a result in nanoseconds. `null` if there are too few samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of I/Os.
    #[serde(default)]
    pub samples: u64,
    /// Exact minimum.
    pub min: Option<u64>,
    /// Exact mean.
    pub mean: Option<f64>,
    /// Median: half of all I/Os took no longer.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// 99.99th percentile.
    pub p99_99: Option<u64>,
    /// Exact maximum.
    pub max: Option<u64>,
    /// Number of moments (of 1.05 ms) in which an I/O took as long as each tail, or longer: a stall
    /// that hit many I/Os is one moment. A tail of fewer than 50 moments is `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments: Option<TailMoments>,
    /// Age of the youngest unanswered I/O, which is counted with the age that it had reached.
    /// Latencies at or above this age are lower bounds: the true ones may be longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_from: Option<u64>,
    /// Part of the mean in which workers were ready but waited for a CPU, or came late to planned
    /// starts. Only of all I/Os of a run; `None` where the scheduler does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for_cpu: Option<WaitedForCpu>,
}

/// Part of a mean latency that was the host's, not the volume's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitedForCpu {
    /// Share of the mean, 0 to 1.
    pub share: f64,
    /// Part of the mean, in nanoseconds.
    pub mean: f64,
}

impl Latency {
    /// Sets the part of the mean, in nanoseconds, in which workers waited for a CPU.
    pub fn set_waited_for_cpu(&mut self, waited: Option<f64>) {
        self.waited_for_cpu = waited.zip(self.mean).map(|(waited, mean)| {
            let waited = waited.clamp(0.0, mean);
            WaitedForCpu { share: if mean > 0.0 { waited / mean } else { 0.0 }, mean: waited }
        });
    }

    /// Returns whether a percentile or maximum of `ns` nanoseconds is a lower bound: unanswered
    /// I/Os are counted with their age, and their true latency could move it.
    pub fn at_least(&self, ns: u64) -> bool {
        self.waiting_from.is_some_and(|from| ns >= from)
    }

    /// Returns whether the samples and moments are enough to show the percentile `p`.
    pub fn supports(&self, p: f64) -> bool {
        supports(self.samples, p) && self.moments.is_none_or(|tail| tail.supports(p))
    }

    /// Returns whether the mean is a lower bound, which a single unanswered I/O makes it.
    pub fn mean_at_least(&self) -> bool {
        self.waiting_from.is_some()
    }
}

#[cfg(test)]
pub(crate) mod test {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn of(samples: &[u64]) -> Latencies {
        let mut latencies = Latencies::new();
        samples.iter().for_each(|ns| latencies.record(*ns));
        latencies
    }

    /// Generates latencies of every order of magnitude.
    fn samples() -> impl Strategy<Value = Vec<u64>> {
        let one = (0u32..43, any::<u64>()).prop_map(|(bits, x)| x & ((1 << bits) - 1));
        prop::collection::vec(one, 1..400)
    }

    #[test]
    fn nothing_is_known_of_nothing() {
        let none = Latencies::new();
        assert_eq!(none.summary(), Latency::default());
        assert_eq!((none.percentile(0.5), none.count(), none.buckets().count()), (None, 0, 0));
    }

    #[test]
    fn a_percentile_needs_a_hundred_samples_above_it() {
        for (p, enough) in [(0.5, 200), (0.9, 1000), (0.99, 10_000), (0.9999, 1_000_000)] {
            let mut latencies = Latencies::new();
            latencies.record_n(5, enough - 1);
            assert_eq!(latencies.supported_percentile(p), None, "{p}");
            latencies.record(5);
            assert_eq!(latencies.supported_percentile(p), Some(5), "{p}");
        }
    }

    #[test]
    fn ranks_are_exact_where_buckets_are() {
        let latencies = of(&(1..=100).collect::<Vec<_>>());
        for percent in 1..=100 {
            assert_eq!(latencies.percentile(percent as f64 / 100.0), Some(percent));
        }
        assert_eq!(latencies.percentile(0.0), Some(1));
        assert_eq!([-0.1, 1.1, f64::NAN].map(|p| latencies.percentile(p)), [None; 3]);
    }

    #[test]
    fn the_longest_are_clamped_but_their_sum_is_exact() {
        let huge = of(&[u64::MAX, u64::MAX, 2]);
        assert_eq!((huge.max(), huge.min(), huge.count()), (Some(u64::MAX), Some(2), 3));
        assert_eq!(huge.sum(), 2 * u128::from(u64::MAX) + 2);
        let mut twice = huge.clone();
        twice.merge(&huge);
        assert_eq!(twice.sum(), 2 * huge.sum());
        assert!(huge.percentile(1.0).unwrap() > 3600 * 1_000_000_000);
    }

    #[test]
    fn what_has_no_answer_counts_with_its_age_and_says_so() {
        let mut latencies = of(&[7; 300]);
        assert_eq!(latencies.summary().waiting_from, None);
        assert!(!latencies.summary().at_least(7) && !latencies.summary().mean_at_least());
        [9, 5000, 9000].iter().for_each(|age_ns| latencies.record_waiting(*age_ns, 1));
        let mut merged = of(&[1]);
        merged.merge(&latencies);
        let shown = merged.summary();
        assert_eq!((shown.samples, shown.p50, shown.max), (304, Some(7), Some(9000)));
        assert!(shown.mean_at_least() && shown.at_least(9000) && shown.at_least(9));
        assert!(!shown.at_least(7), "no longer latency of those that wait moves the median");
        let text = serde_json::to_string(&shown).unwrap();
        assert_eq!(serde_json::from_str::<Latency>(&text).unwrap(), shown);
        assert!(!serde_json::to_string(&of(&[1]).summary()).unwrap().contains("waiting"));
        merged.clear();
        assert_eq!(merged, Latencies::new());
    }

    proptest! {
        #[test]
        fn percentiles_are_right_within_a_hundredth(mut samples in samples(), p in 0.0..=1.0f64) {
            let latencies = of(&samples);
            samples.sort_unstable();
            let rank = ((p * samples.len() as f64).ceil() as usize).clamp(1, samples.len());
            let (truth, shown) = (samples[rank - 1], latencies.percentile(p).unwrap());
            let fits = shown >= truth && shown as f64 <= truth as f64 * 1.0079;
            prop_assert!(fits, "{} shown for {}", shown, truth);
        }

        #[test]
        fn merging_is_concatenation(a in samples(), b in samples()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(&merged, &of(&[a, b].concat()));
            merged.merge(&Latencies::new());
            merged.clear();
            prop_assert_eq!(merged, Latencies::new());
        }

        #[test]
        fn count_sum_and_ends_are_exact(samples in samples()) {
            let latencies = of(&samples);
            let sum: u128 = samples.iter().map(|ns| u128::from(*ns)).sum();
            prop_assert_eq!(latencies.count() as usize, samples.len());
            prop_assert_eq!(latencies.sum(), sum);
            prop_assert_eq!(latencies.mean(), Some(sum as f64 / samples.len() as f64));
            prop_assert_eq!(latencies.min(), samples.iter().copied().min());
            prop_assert_eq!(latencies.max(), samples.iter().copied().max());
            prop_assert_eq!(latencies.buckets().map(|b| b.count).sum::<u64>(), latencies.count());
        }
    }
}
