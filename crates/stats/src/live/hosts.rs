//! The past second of several hosts as one: rates add up, histograms are merged.

use serde::{Deserialize, Serialize};

use super::{Counts, LiveCpu, Phase, Snapshot, TargetRate};
use crate::buckets::Buckets;
use crate::histogram::Latency;

/// Most buckets of a host's second that are believed.
const BUCKETS_MAX: usize = 8192;

/// The past second of a host, for a view of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSecond {
    /// Phase of its run.
    pub phase: Phase,
    /// Seconds since its phase began.
    pub t_s: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Flushes per second.
    pub flush_iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Exact minimum, mean and maximum of its latencies.
    pub latency_ns: Latency,
    /// Histogram of its latencies.
    pub buckets: Buckets,
    /// Counters since its run began.
    pub counts: Counts,
    /// Failed I/Os since its run began.
    pub errors: u64,
    /// Connections lost since its run began.
    pub connections_lost: u64,
    /// Reconnects since its run began.
    pub reconnects: u64,
    /// Mean number of I/Os in flight.
    pub outstanding: f64,
    /// Age of its oldest unanswered I/O, in nanoseconds.
    pub oldest_ns: Option<u64>,
    /// CPU cores that its workers used.
    pub initiator_cores: Option<f64>,
    /// CPU cores that its server used, if it serves.
    pub target_cores: Option<f64>,
    /// CPU usage of the host, 0 to 100.
    pub host_percent: Option<f64>,
}

impl HostSecond {
    /// Takes what a view of all hosts needs from a snapshot that has buckets.
    pub fn of(snapshot: &Snapshot) -> HostSecond {
        HostSecond {
            phase: snapshot.phase,
            t_s: snapshot.t_s,
            iops: snapshot.iops,
            flush_iops: snapshot.flush_iops,
            bytes_per_second: snapshot.bytes_per_second,
            latency_ns: snapshot.latency_ns,
            buckets: snapshot.buckets.clone().unwrap_or_default(),
            counts: snapshot.counts.clone(),
            errors: snapshot.errors,
            connections_lost: snapshot.connections_lost,
            reconnects: snapshot.reconnects,
            outstanding: snapshot.outstanding,
            oldest_ns: snapshot.oldest_ns,
            initiator_cores: snapshot.cpu.initiator_cores,
            target_cores: snapshot.cpu.target_cores,
            host_percent: snapshot.cpu.host_percent,
        }
    }

    /// Whether a host can have sent it.
    pub fn is_sound(&self) -> bool {
        let rates = [self.t_s, self.iops, self.flush_iops, self.bytes_per_second, self.outstanding];
        let is_rate = |rate: &f64| (0.0..1e15).contains(rate);
        let (from_ns, count) = (&self.buckets.from_ns, &self.buckets.count);
        let sorted = from_ns.is_sorted_by(|a, b| a < b);
        rates.iter().all(is_rate) && sorted && from_ns.len() == count.len().min(BUCKETS_MAX)
    }
}

impl Snapshot {
    /// Returns the second of this host and of others as one; each is a row of `targets`. The name
    /// of this host is `own`.
    pub fn with_hosts<'a>(
        &self,
        own: &str,
        others: impl Iterator<Item = (&'a str, &'a HostSecond)>,
    ) -> Snapshot {
        let mut all = self.clone();
        let mut buckets = self.buckets.clone().unwrap_or_default();
        let mut means = vec![(self.latency_ns.mean, self.latency_ns.samples)];
        let (mut min, mut max) = (self.latency_ns.min, self.latency_ns.max);
        all.targets = vec![TargetRate { name: own.to_owned(), iops: self.iops }];
        for (name, second) in others {
            all.targets.push(TargetRate { name: name.to_owned(), iops: second.iops });
            all.iops += second.iops;
            all.flush_iops += second.flush_iops;
            all.bytes_per_second += second.bytes_per_second;
            all.outstanding += second.outstanding;
            all.errors = all.errors.saturating_add(second.errors);
            all.connections_lost = all.connections_lost.saturating_add(second.connections_lost);
            all.reconnects = all.reconnects.saturating_add(second.reconnects);
            all.oldest_ns = all.oldest_ns.max(second.oldest_ns);
            all.counts.add_all(&second.counts);
            add_cores(&mut all.cpu, second.initiator_cores);
            buckets.merge(&second.buckets);
            means.push((second.latency_ns.mean, second.latency_ns.samples));
            min = [min, second.latency_ns.min].into_iter().flatten().min();
            max = max.max(second.latency_ns.max);
        }
        all.workers.clear();
        if all.targets.len() > 1 {
            all.latency_ns = latency(&buckets, &means, (min, max));
        }
        if let Some(last) = all.history.last_mut() {
            *last = all.iops;
        }
        all.buckets = Some(buckets);
        all
    }
}

fn add_cores(cpu: &mut LiveCpu, more: Option<f64>) {
    if let Some(more) = more {
        cpu.initiator_cores = Some(cpu.initiator_cores.unwrap_or(0.0) + more);
    }
}

/// Latencies of a merged histogram, with the exact mean and extremes of its parts.
fn latency(
    buckets: &Buckets,
    means: &[(Option<f64>, u64)],
    (min, max): (Option<u64>, Option<u64>),
) -> Latency {
    let samples = buckets.samples();
    let known = means.iter().filter_map(|(mean, samples)| Some((mean.as_ref()?, *samples as f64)));
    let (sum, count) =
        known.fold((0.0, 0.0), |(sum, count), (mean, of)| (sum + mean * of, count + of));
    // A tail that no I/O is in says nothing.
    let of = |p: f64| buckets.percentile(p).filter(|_| samples as f64 * (1.0 - p) >= 1.0);
    Latency {
        samples,
        min,
        mean: (count > 0.0).then(|| sum / count),
        p50: buckets.percentile(0.5),
        p90: of(0.9),
        p99: of(0.99),
        p99_9: of(0.999),
        p99_99: of(0.9999),
        max,
        ..Latency::default()
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Latencies;

    fn second(from_ns: u64, ios: u64) -> Snapshot {
        let mut latencies = Latencies::new();
        (0..ios).for_each(|number| latencies.record_n(from_ns + number * 100, 1));
        Snapshot {
            iops: ios as f64,
            bytes_per_second: ios as f64 * 4096.0,
            latency_ns: latencies.summary(),
            buckets: Some(Buckets::of(&latencies)),
            history: vec![5.0, ios as f64],
            ..Snapshot::default()
        }
    }

    /// Percentiles are those of all I/Os, not averages of percentiles.
    #[test]
    fn seconds_of_hosts_are_one_second() {
        let (own, other) = (second(10_000, 1000), second(500_000, 3000));
        let told = HostSecond::of(&other);
        assert!(told.is_sound());
        let all = own.with_hosts("a", [("b", &told)].into_iter());
        let mut both = Latencies::new();
        (0..1000).for_each(|number| both.record_n(10_000 + number * 100, 1));
        (0..3000).for_each(|number| both.record_n(500_000 + number * 100, 1));
        let whole = Buckets::of(&both);
        assert_eq!((all.iops, all.latency_ns.samples), (4000.0, 4000));
        assert_eq!(all.latency_ns.p50, whole.percentile(0.5));
        assert_eq!(all.latency_ns.p99_9, whole.percentile(0.999));
        assert_eq!(all.latency_ns.p99_99, None);
        assert_eq!((all.latency_ns.min, all.latency_ns.max), (Some(10_000), Some(799_900)));
        let mean = both.summary().mean.unwrap();
        assert!((all.latency_ns.mean.unwrap() / mean - 1.0).abs() < 1e-9);
        let names: Vec<&str> = all.targets.iter().map(|target| &*target.name).collect();
        assert_eq!((names, all.history.last()), (vec!["a", "b"], Some(&4000.0)));
    }

    #[test]
    fn what_no_host_sends_is_not_believed() {
        let good = HostSecond::of(&second(1000, 10));
        let text = serde_json::to_string(&good).unwrap();
        assert_eq!(serde_json::from_str::<HostSecond>(&text).unwrap(), good);
        let bad: [fn(&mut HostSecond); 4] = [
            |of| of.iops = f64::NAN,
            |of| of.iops = -1.0,
            |of| of.buckets.from_ns.reverse(),
            |of| of.buckets.count.clear(),
        ];
        for change in bad {
            let mut second = good.clone();
            change(&mut second);
            assert!(!second.is_sound());
        }
    }
}
