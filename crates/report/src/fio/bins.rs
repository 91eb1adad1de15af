//! fio's histogram: exact below 128 ns, then 64 buckets for each power of two, named by the latency
//! in their middle. Ours has 128 per power of two, so each fio bucket is two of ours.

use stats::Buckets;

/// Bits after the leading one that fio's histogram distinguishes.
const BITS: u32 = 6;

/// Returns the count of each fio bucket, with the latency by which fio names the bucket.
pub(crate) fn bins(buckets: &Buckets) -> Vec<(u64, u64)> {
    let mut bins: Vec<(u64, u64)> = Vec::new();
    for bucket in buckets.iter() {
        let value = middle(bucket.from_ns);
        match bins.last_mut() {
            Some((last, count)) if *last == value => *count = count.saturating_add(bucket.count),
            _ => bins.push((value, bucket.count)),
        }
    }
    bins
}

/// Buckets that fio has in all.
pub(super) const BUCKETS: usize = 29 << BITS;

/// fio's number of the bucket that a latency falls into; the last one has all that is longer.
pub(super) fn number(ns: u64) -> usize {
    let highest = 63 - (ns | 1).leading_zeros();
    let beyond = highest.saturating_sub(BITS);
    let place = (ns >> beyond) as usize;
    ((beyond as usize) << BITS).saturating_add(place).min(BUCKETS - 1)
}

/// The middle of the bucket that a latency falls into.
fn middle(ns: u64) -> u64 {
    let highest = 63 - (ns | 1).leading_zeros();
    if highest <= BITS {
        return ns;
    }
    let width = 1 << (highest - BITS);
    let from = ns & !(width - 1);
    from.saturating_add(width / 2)
}

/// Percentiles in rising order, by fio's own rule: the first bucket that reaches the share.
pub(crate) fn percentiles(bins: &[(u64, u64)], percents: &[f64]) -> Vec<(f64, u64)> {
    let samples = bins.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let mut found = Vec::new();
    let (mut seen, mut wanted) = (0_u64, percents.iter().peekable());
    for (value, count) in bins {
        seen += count;
        while let Some(percent) = wanted.next_if(|p| seen as f64 >= **p / 100.0 * samples as f64) {
            found.push((*percent, *value));
        }
    }
    found
}

/// Returns the standard deviation in nanoseconds around an exact mean, estimated from the buckets.
pub(super) fn deviation(bins: &[(u64, u64)], mean_ns: f64) -> f64 {
    let samples: u64 = bins.iter().map(|(_, count)| count).sum();
    if samples < 2 {
        return 0.0;
    }
    let square = |(value, count): &(u64, u64)| (*value as f64 - mean_ns).powi(2) * *count as f64;
    (bins.iter().map(square).sum::<f64>() / (samples - 1) as f64).sqrt()
}

#[cfg(test)]
mod test {
    use super::*;
    use stats::Latencies;

    #[test]
    fn names_buckets_as_fio_does() {
        // Keys of fio's own documents.
        for (ns, name) in
            [(17, 17), (127, 127), (128, 129), (130, 131), (141, 141), (182, 183), (256, 258)]
        {
            assert_eq!(middle(ns), name, "{ns}");
        }
        for (ns, bucket) in [(0, 0), (127, 127), (128, 128), (130, 129), (255, 191), (256, 192)] {
            assert_eq!(number(ns), bucket, "{ns}");
        }
        assert_eq!(number(u64::MAX), BUCKETS - 1);
        assert_eq!((middle(12_990), middle(1 << 20)), (12_992, (1 << 20) + 8192));
        assert_eq!(middle(u64::MAX), u64::MAX - (1 << 56) + 1);
    }

    #[test]
    fn counts_everything_once() {
        let mut latencies = Latencies::new();
        (0..10_000).for_each(|n| latencies.record(n));
        let bins = bins(&Buckets::of(&latencies));
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert!(bins.is_sorted_by(|a, b| a.0 < b.0));
        let percentiles = percentiles(&bins, &[0.1, 50.0, 100.0]);
        let [_, (50.0, median), (100.0, _)] = percentiles[..] else { panic!("{percentiles:?}") };
        assert!(median.abs_diff(5000) < 80, "{median}");
        // Deviation of 0 to 9999: √((10000² − 1) / 12).
        assert!((deviation(&bins, 4999.5) - 2886.75).abs() < 10.0);
    }
}
