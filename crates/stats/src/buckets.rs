//! Histograms as a result stores them: complete, so that any percentile can be computed later and
//! histograms of several results can be merged.

use serde::{Deserialize, Serialize};

use crate::histogram::{Bucket, GROUPING_POWER, Latencies, rank};

/// A histogram: the counts of its non-empty buckets, in ascending order of latency.
///
/// Buckets below 256 ns are one nanosecond wide; above, each power of two has 128 of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets {
    /// Shortest latency of each bucket, in nanoseconds.
    pub from_ns: Vec<u64>,
    /// Number of I/Os in each bucket.
    pub count: Vec<u64>,
}

impl Buckets {
    /// Copies the non-empty buckets of a histogram.
    pub fn of(latencies: &Latencies) -> Buckets {
        let mut buckets = Buckets::default();
        for bucket in latencies.buckets() {
            buckets.from_ns.push(bucket.from_ns);
            buckets.count.push(bucket.count);
        }
        buckets
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.from_ns.is_empty()
    }

    /// Returns the number of I/Os counted.
    pub fn samples(&self) -> u64 {
        self.count.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the buckets. If the lists of a document differ in length, elements without a partner
    /// are dropped.
    pub fn iter(&self) -> impl Iterator<Item = Bucket> + '_ {
        let buckets = self.from_ns.iter().zip(&self.count);
        buckets.map(|(from_ns, count)| Bucket {
            from_ns: *from_ns,
            to_ns: from_ns.saturating_add(width_ns(*from_ns) - 1),
            count: *count,
        })
    }

    /// Returns the longest latency in nanoseconds of the bucket that holds the share `p` (0 to 1)
    /// of all I/Os; `None` if there are no I/Os.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        let rank = rank(p, self.samples())?;
        let mut seen = 0_u64;
        let found = self.iter().find(|bucket| {
            seen = seen.saturating_add(bucket.count);
            seen >= rank
        });
        found.map(|bucket| bucket.to_ns)
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Buckets) {
        let mut all: Vec<(u64, u64)> =
            self.iter().chain(other.iter()).map(|bucket| (bucket.from_ns, bucket.count)).collect();
        all.sort_unstable_by_key(|(from_ns, _)| *from_ns);
        *self = Buckets::default();
        for (from_ns, count) in all {
            match self.from_ns.last() {
                Some(last) if *last == from_ns => {
                    let sum = self.count.last_mut().expect("as many counts as buckets");
                    *sum = sum.saturating_add(count);
                }
                _ => {
                    self.from_ns.push(from_ns);
                    self.count.push(count);
                }
            }
        }
    }
}

/// Returns the width in nanoseconds of the bucket that begins at `from_ns`.
pub(crate) fn width_ns(from_ns: u64) -> u64 {
    let exact = u32::from(GROUPING_POWER) + 1;
    let bits = 64 - from_ns.leading_zeros();
    1 << bits.saturating_sub(exact)
}

/// The histograms of one worker, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histograms {
    /// Reads.
    #[serde(skip_serializing_if = "Buckets::is_empty")]
    pub read: Buckets,
    /// Writes.
    #[serde(skip_serializing_if = "Buckets::is_empty")]
    pub write: Buckets,
    /// Trims.
    #[serde(skip_serializing_if = "Buckets::is_empty")]
    pub trim: Buckets,
    /// Flushes; in documents before layout 4 also trims.
    #[serde(alias = "other", skip_serializing_if = "Buckets::is_empty")]
    pub flush: Buckets,
}

impl Histograms {
    /// Returns the histogram of all directions, without flushes.
    pub fn all(&self) -> Buckets {
        let mut all = self.read.clone();
        all.merge(&self.write);
        all.merge(&self.trim);
        all
    }

    /// Adds the counts of other histograms.
    pub fn merge(&mut self, other: &Histograms) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.trim.merge(&other.trim);
        self.flush.merge(&other.flush);
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        let all = [&self.read, &self.write, &self.trim, &self.flush];
        all.into_iter().all(Buckets::is_empty)
    }
}

/// Histogram of one part of the measured window, all directions together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Beginning, in seconds since the measured window began.
    pub from_s: f64,
    /// End, in seconds since the measured window began.
    pub to_s: f64,
    /// Exact maximum latency in nanoseconds; 0 if there are no I/Os.
    pub max_ns: u64,
    /// Latencies of the span.
    #[serde(flatten)]
    pub buckets: Buckets,
}

impl Span {
    /// Returns the latency in nanoseconds that the share `p` (0 to 1) of all I/Os did not exceed,
    /// as [`Latencies::percentile`] does.
    pub(crate) fn percentile(&self, p: f64) -> Option<u64> {
        self.buckets.percentile(p).map(|ns| ns.min(self.max_ns))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::histogram::test::of;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_are_those_of_the_histogram(
            samples in prop::collection::vec(0_u64..1 << 42, 0..200),
        ) {
            let latencies = of(&samples);
            let kept: Vec<Bucket> = Buckets::of(&latencies).iter().collect();
            prop_assert_eq!(kept, latencies.buckets().collect::<Vec<_>>());
        }

        #[test]
        fn percentiles_are_those_of_the_histogram(
            samples in prop::collection::vec(0_u64..1 << 42, 1..200),
            p in 0.0..=1.0f64,
        ) {
            let latencies = of(&samples);
            let (buckets, max_ns) = (Buckets::of(&latencies), latencies.max().unwrap());
            let span = Span { from_s: 0.0, to_s: 1.0, max_ns, buckets };
            prop_assert_eq!(span.percentile(p), latencies.percentile(p));
        }

        #[test]
        fn merging_is_concatenation(
            a in prop::collection::vec(0_u64..1 << 20, 0..200),
            b in prop::collection::vec(0_u64..1 << 20, 0..200),
        ) {
            let mut merged = Buckets::of(&of(&a));
            merged.merge(&Buckets::of(&of(&b)));
            prop_assert_eq!(merged, Buckets::of(&of(&[a, b].concat())));
        }
    }
}
