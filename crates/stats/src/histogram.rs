//! Latencies of many I/Os in fixed memory.
//!
//! The hot half of the crate: a worker calls [`Latencies::record`] once per I/O.

use ::histogram::{Config, Histogram};
use serde::{Deserialize, Serialize};

/// 2⁷ buckets for each power of two: a percentile is at most 1/128 = 0.78 % too high.
const GROUPING_POWER: u8 = 7;
/// 2⁴² ns are 73 minutes; no I/O that anybody waits for takes longer.
const MAX_VALUE_POWER: u8 = 42;
/// Longest latency that has a bucket of its own; longer ones are counted there.
const LONGEST_NS: u64 = (1 << MAX_VALUE_POWER) - 1;
/// Fewest samples that must lie above a percentile before it is shown.
const SAMPLES_ABOVE: f64 = 100.0;

/// How long I/Os took: a histogram with an error of at most 0.78 %, and beside it the exact
/// count, sum, minimum and maximum.
///
/// Its memory (36 KiB) is taken by [`new`](Self::new) and never grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    buckets: Histogram,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// One bucket of a histogram that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Shortest latency that is counted here, in nanoseconds.
    pub from_ns: u64,
    /// Longest latency that is counted here, in nanoseconds.
    pub to_ns: u64,
    /// How many were counted.
    pub count: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl Latencies {
    /// Without any latency yet.
    pub fn new() -> Latencies {
        const CONFIG: Config = match Config::new(GROUPING_POWER, MAX_VALUE_POWER) {
            Ok(config) => config,
            Err(_) => panic!("7 and 42 are valid powers"),
        };
        let buckets = Histogram::with_config(&CONFIG);
        Latencies { buckets, count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Counts one latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Counts the same latency `n` times.
    #[inline]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        // Cannot fail: the value is clamped to what the histogram holds.
        let _ = self.buckets.add(ns.min(LONGEST_NS), n);
        self.count += n;
        self.sum_ns += u128::from(ns) * u128::from(n);
        if n != 0 && ns < self.min_ns {
            self.min_ns = ns;
        }
        if n != 0 && ns > self.max_ns {
            self.max_ns = ns;
        }
    }

    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Latencies) {
        if other.count == 0 {
            return;
        }
        for (ours, theirs) in self.buckets.as_mut_slice().iter_mut().zip(other.buckets.as_slice()) {
            *ours += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        if self.count != 0 {
            self.buckets.reset();
        }
        (self.count, self.sum_ns, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
    }

    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The shortest, exactly, in nanoseconds.
    pub fn min(&self) -> Option<u64> {
        (self.count != 0).then_some(self.min_ns)
    }

    /// The longest, exactly, in nanoseconds.
    pub fn max(&self) -> Option<u64> {
        (self.count != 0).then_some(self.max_ns)
    }

    /// The exact sum over the count, in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        (self.count != 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The latency in nanoseconds that the share `p` of all I/Os did not exceed, for `p` from 0
    /// to 1: never too low, at most 0.78 % too high. `None` without samples or for another `p`.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.count == 0 || !(0.0..=1.0).contains(&p) {
            return None;
        }
        // Nearest rank: the smallest sample that has a share of at least `p` at or below it. The
        // tiny cut keeps 0.7 × 10 = 7.000000000000001 at rank 7.
        let exact = p * self.count as f64;
        let rank = ((exact * (1.0 - 1e-12)).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for bucket in self.buckets() {
            seen += bucket.count;
            if seen >= rank {
                return Some(bucket.to_ns.clamp(self.min_ns, self.max_ns));
            }
        }
        Some(self.max_ns)
    }

    /// Like [`percentile`](Self::percentile), but `None` unless at least 100 samples lie above
    /// it: n·(1−p) ≥ 100. A percentile that rests on a handful of I/Os is a story about those.
    pub fn supported_percentile(&self, p: f64) -> Option<u64> {
        supports(self.count, p).then(|| self.percentile(p)).flatten()
    }

    /// The buckets that are not empty, from short to long.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.buckets.iter().filter(|bucket| bucket.count() != 0).map(|bucket| Bucket {
            from_ns: bucket.start(),
            to_ns: bucket.end(),
            count: bucket.count(),
        })
    }

    /// What is shown of it.
    pub fn summary(&self) -> Latency {
        Latency {
            samples: self.count,
            min: self.min(),
            mean: self.mean(),
            p50: self.supported_percentile(0.5),
            p90: self.supported_percentile(0.9),
            p99: self.supported_percentile(0.99),
            p99_9: self.supported_percentile(0.999),
            p99_99: self.supported_percentile(0.9999),
            max: self.max(),
        }
    }
}

/// Whether `samples` are enough to show the percentile `p` (0 to 1): n·(1−p) ≥ 100.
pub(crate) fn supports(samples: u64, p: f64) -> bool {
    // 1 − 0.9999 is a hair below 0.0001 in binary; a millionth of slack keeps n = 1,000,000 in.
    samples as f64 * (1.0 - p) >= SAMPLES_ABOVE * (1.0 - 1e-6)
}

/// Latencies in nanoseconds, as they stand in a result. `null` where there are too few samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many I/Os this rests on.
    #[serde(default)]
    pub samples: u64,
    /// The shortest, exactly.
    pub min: Option<u64>,
    /// The mean, exactly.
    pub mean: Option<f64>,
    /// Half of all I/Os took no longer.
    pub p50: Option<u64>,
    /// 90 % took no longer.
    pub p90: Option<u64>,
    /// 99 % took no longer.
    pub p99: Option<u64>,
    /// 99.9 % took no longer.
    pub p99_9: Option<u64>,
    /// 99.99 % took no longer.
    pub p99_99: Option<u64>,
    /// The longest, exactly.
    pub max: Option<u64>,
}
