//! Data on latencies that buckets lack: the exact sum and the moments. With both, latencies read
//! from a document are restored exactly, and merge as if one process had counted them.

use serde::{Deserialize, Serialize};

use super::{LONGEST_NS, Latencies, Latency};
use crate::buckets::{Buckets, width_ns};
use crate::moments::Moments;

/// Most latencies that are believed of one document: sums of many documents stay in 64 bits.
pub(crate) const SAMPLES_MAX: u64 = 1 << 48;

/// Exact sum and moments of latencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exact {
    /// Sum of all latencies in nanoseconds: the upper and the lower 64 bits.
    pub sum_ns: [u64; 2],
    /// Moments (of 1.05 ms) by the bucket of their longest latency.
    pub moments: Buckets,
}

/// A histogram outside the totals of a document: everything about its latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Complete {
    /// Summary.
    pub latency_ns: Latency,
    /// Every latency.
    pub buckets: Buckets,
    /// Data that the buckets lack.
    #[serde(flatten)]
    pub exact: Exact,
}

impl Exact {
    /// Copies sum and moments.
    pub fn of(latencies: &Latencies) -> Exact {
        let sum = latencies.sum();
        let mut settled = latencies.moments.clone();
        settled.settle(latencies.open_ns);
        Exact { sum_ns: [(sum >> 64) as u64, sum as u64], moments: settled.by_longest() }
    }

    fn sum(&self) -> u128 {
        u128::from(self.sum_ns[0]) << 64 | u128::from(self.sum_ns[1])
    }
}

impl Complete {
    /// Copies everything.
    pub fn of(latencies: &Latencies) -> Complete {
        let buckets = Buckets::of(latencies);
        Complete { latency_ns: latencies.summary(), buckets, exact: Exact::of(latencies) }
    }

    /// Restores the latencies.
    ///
    /// # Errors
    ///
    /// The figures contradict each other.
    pub fn restore(&self) -> Result<Latencies, String> {
        Latencies::restored(&self.buckets, &self.latency_ns, &self.exact)
    }
}

impl Latencies {
    /// Restores latencies from the three parts of a document that hold them.
    ///
    /// # Errors
    ///
    /// The figures contradict each other, or no histogram can hold them.
    pub fn restored(
        buckets: &Buckets,
        latency: &Latency,
        exact: &Exact,
    ) -> Result<Latencies, String> {
        let mut latencies = Latencies::new();
        let samples = checked(buckets)?;
        if samples != latency.samples {
            return Err(format!("{samples} latencies in buckets, {} said", latency.samples));
        }
        latencies.moments = Moments::settled_as(&exact.moments, checked(&exact.moments)?);
        if samples == 0 {
            let empty = latency.min.is_none() && latency.max.is_none() && exact.sum() == 0;
            let empty = empty && exact.moments.is_empty();
            return if empty { Ok(latencies) } else { Err("ends or a sum of no latencies".into()) };
        }
        let (Some(min_ns), Some(max_ns)) = (latency.min, latency.max) else {
            return Err("latencies without a shortest or a longest".to_owned());
        };
        for bucket in buckets.iter() {
            latencies.record_n(bucket.from_ns, bucket.count);
        }
        // A run that continues counts the age of an I/O that is in no bucket.
        let waits = latency.waiting_from.is_some_and(|from_ns| from_ns <= max_ns);
        latencies.check_ends(buckets, (min_ns, max_ns, waits), exact.sum())?;
        (latencies.min_ns, latencies.open_ns) = (min_ns, max_ns);
        let sum = exact.sum();
        (latencies.sum_wraps, latencies.sum_low_ns) = ((sum >> 64) as u64, sum as u64);
        if let Some(from_ns) = latency.waiting_from {
            if from_ns > max_ns {
                return Err(format!("an I/O waits for {from_ns} ns, the longest took {max_ns} ns"));
            }
            latencies.waiting_from_ns = from_ns;
        }
        Ok(latencies)
    }

    /// Shortest, longest and sum lie where the buckets have room for them.
    fn check_ends(
        &self,
        buckets: &Buckets,
        (min_ns, max_ns, waits): (u64, u64, bool),
        sum_ns: u128,
    ) -> Result<(), String> {
        let (Some(first), Some(last)) = (buckets.iter().next(), buckets.iter().last()) else {
            return Ok(());
        };
        // The last bucket also counts all longer latencies.
        let to_ns = if last.to_ns == LONGEST_NS { u64::MAX } else { last.to_ns };
        let first_to_ns = if first.to_ns == LONGEST_NS { u64::MAX } else { first.to_ns };
        if !(first.from_ns..=first_to_ns).contains(&min_ns)
            || !(last.from_ns..=if waits { u64::MAX } else { to_ns }).contains(&max_ns)
            || min_ns > max_ns
        {
            return Err(format!("{min_ns} to {max_ns} ns are not the ends of the buckets"));
        }
        let most = buckets.iter().fold(0_u128, |sum, bucket| {
            let to_ns = if bucket.to_ns == LONGEST_NS { max_ns } else { bucket.to_ns };
            sum + u128::from(to_ns) * u128::from(bucket.count)
        });
        if !(self.sum()..=most).contains(&sum_ns) {
            return Err(format!("the buckets have no room for a sum of {sum_ns} ns"));
        }
        Ok(())
    }
}

/// Counts the samples in buckets of a document.
///
/// # Errors
///
/// Lists of unequal length, entries that are not buckets or out of order, too many samples.
pub(crate) fn checked(buckets: &Buckets) -> Result<u64, String> {
    if buckets.from_ns.len() != buckets.count.len() {
        let (from, count) = (buckets.from_ns.len(), buckets.count.len());
        return Err(format!("{from} buckets with {count} counts"));
    }
    let mut before = None;
    let mut sum = 0_u64;
    for (from_ns, count) in buckets.from_ns.iter().zip(&buckets.count) {
        let is_one = *from_ns <= LONGEST_NS && from_ns % width_ns(*from_ns) == 0;
        if !is_one || before >= Some(*from_ns) || *count == 0 {
            return Err(format!(
                "a bucket from {from_ns} ns with {count} is none, or out of order"
            ));
        }
        before = Some(*from_ns);
        sum = sum.checked_add(*count).filter(|sum| *sum <= SAMPLES_MAX).ok_or_else(|| {
            format!("more than {SAMPLES_MAX} latencies, which no run of one host has")
        })?;
    }
    Ok(sum)
}

/// Maximum number of moments that one of several hosts has above each latency. A stall of a shared
/// resource is one event for all hosts, so moments of hosts do not add up.
#[derive(Debug, Default)]
pub(crate) struct MostMoments(Vec<u64>);

impl MostMoments {
    /// Compares with the moments of one more host.
    pub fn add(&mut self, latencies: &Latencies) {
        let Some(above) = latencies.moments.above() else { return };
        if self.0.is_empty() {
            self.0 = above;
            return;
        }
        self.0.iter_mut().zip(above).for_each(|(most, own)| *most = (*most).max(own));
    }

    /// Replaces the moments of merged latencies.
    pub fn put(&self, latencies: &mut Latencies) {
        latencies.moments = Moments::with_above(&self.0);
    }
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::test::of;

    proptest! {
        #[test]
        fn what_was_written_is_restored(
            samples in prop::collection::vec(prop_oneof![0_u64..1 << 20, any::<u64>()], 0..200),
            stalls in 0_u64..60,
        ) {
            let mut latencies = of(&samples);
            (0..stalls).for_each(|at| {
                latencies.turn(at);
                latencies.record(1000 + at);
            });
            let text = serde_json::to_string(&Complete::of(&latencies)).unwrap();
            let read: Complete = serde_json::from_str(&text).unwrap();
            let restored = read.restore().unwrap();
            prop_assert_eq!(Complete::of(&restored), Complete::of(&latencies));
            prop_assert_eq!(restored.sum(), latencies.sum());
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let good = Complete::of(&of(&[10, 300, 5000]));
        assert!(good.restore().is_ok());
        let lies: [fn(&mut Complete); 9] = [
            |it| it.latency_ns.samples = 4,
            |it| it.latency_ns.min = Some(9),
            |it| it.latency_ns.max = None,
            |it| it.latency_ns.max = Some(1 << 50),
            |it| it.exact.sum_ns[0] = 1,
            |it| it.buckets.from_ns[1] = 301,
            |it| it.buckets.from_ns.swap(0, 2),
            |it| it.buckets.count[1] = u64::MAX,
            |it| it.buckets.count.truncate(2),
        ];
        for (number, lie) in lies.iter().enumerate() {
            let mut told = good.clone();
            lie(&mut told);
            assert!(told.restore().is_err(), "lie {number}");
        }
    }

    #[test]
    fn moments_of_hosts_are_the_most_of_one() {
        let host = |moments: u64, ns: u64| {
            let mut latencies = Latencies::new();
            (0..moments).for_each(|at| {
                latencies.turn(at);
                latencies.record(ns);
            });
            latencies.settle();
            latencies
        };
        let mut most = MostMoments::default();
        let (one, two) = (host(60, 1000), host(70, 500));
        let mut merged = one.clone();
        merged.merge(&two);
        [&one, &two].into_iter().for_each(|host| most.add(host));
        most.put(&mut merged);
        assert_eq!([400, 900, 2000].map(|ns| merged.moments.from(ns)), [70, 60, 0]);
    }
}
