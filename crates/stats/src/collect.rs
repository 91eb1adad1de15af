//! From the workers' intervals to a result.
//!
//! The runner owns one collector. Each second it hands over every worker's interval and closes
//! the second; at the end it asks for the parts of the result.

use crate::histogram::{Latencies, Latency};
use crate::interval::{Interval, Tally, per};
use crate::live::TargetRate;
use crate::run::{Direction, Second, Totals, WorkerResult};
use crate::verdict::Flow;

/// Who a worker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerName {
    /// As "manager 1 worker 3".
    pub name: String,
    /// URI of the volume it drives.
    pub volume: String,
    /// Target that serves it; empty for local storage.
    pub target: String,
}

/// Merges intervals: per worker over time, and per second over workers.
#[derive(Debug)]
pub struct Collector {
    names: Vec<WorkerName>,
    workers: Vec<Interval>,
    /// I/Os per second of each worker in the open second.
    rates: Vec<f64>,
    second: Interval,
    whole: Interval,
    seconds: Vec<Second>,
}

impl Collector {
    /// For these workers; later calls name them by their place in the list.
    pub fn new(names: Vec<WorkerName>) -> Collector {
        Collector {
            workers: names.iter().map(|_| Interval::new()).collect(),
            rates: vec![0.0; names.len()],
            names,
            second: Interval::new(),
            whole: Interval::new(),
            seconds: Vec::new(),
        }
    }

    /// Adds what a worker did since its last interval.
    pub fn add(&mut self, worker: usize, interval: &Interval) {
        self.workers[worker].merge(interval);
        self.rates[worker] = interval.iops();
        self.second.merge(interval);
    }

    /// Closes the second that ends at `t_s` seconds of the phase and says what it was like.
    pub fn end_second(&mut self, t_s: f64) -> (Second, Latency) {
        let latencies = self.second.latencies();
        let row = second(t_s, &self.second, &latencies);
        self.seconds.push(row);
        self.whole.merge(&self.second);
        self.second.clear();
        (row, latencies.summary())
    }

    /// Forgets everything: the ramp is over and the measured window begins.
    pub fn restart(&mut self) {
        self.workers.iter_mut().for_each(Interval::clear);
        self.rates.fill(0.0);
        self.second.clear();
        self.whole.clear();
        self.seconds.clear();
    }

    /// I/Os per second of each target, or of each volume without one, by the latest intervals.
    pub fn target_rates(&self) -> Vec<TargetRate> {
        let mut rows: Vec<TargetRate> = Vec::new();
        for (name, iops) in self.names.iter().zip(&self.rates) {
            let key = if name.target.is_empty() { &name.volume } else { &name.target };
            match rows.iter_mut().find(|row| row.name == *key) {
                Some(row) => row.iops += iops,
                None => rows.push(TargetRate { name: key.clone(), iops: *iops }),
            }
        }
        rows
    }

    /// Everything of the closed seconds in one interval.
    pub fn whole(&self) -> &Interval {
        &self.whole
    }

    /// The closed seconds.
    pub fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    /// The sums of all closed seconds.
    pub fn totals(&self) -> Totals {
        totals(&self.whole)
    }

    /// One row for each worker.
    pub fn workers(&self) -> Vec<WorkerResult> {
        self.names.iter().zip(&self.workers).map(|(name, done)| worker(name, done)).collect()
    }

    /// What Little's law is checked with: the whole first, then each worker.
    pub fn flows(&self) -> Vec<(String, Flow)> {
        let whole = ("all workers".to_owned(), Flow::of(&self.whole));
        let each = self.names.iter().zip(&self.workers);
        let each = each.map(|(name, done)| (name.name.clone(), Flow::of(done)));
        std::iter::once(whole).chain(each).collect()
    }
}

/// The totals of an interval.
pub(crate) fn totals(all: &Interval) -> Totals {
    let seconds = all.seconds();
    Totals {
        seconds,
        ios: all.ios(),
        errors: all.errors(),
        iops: all.iops(),
        bytes_per_second: all.bytes_per_second(),
        mean_outstanding: all.mean_outstanding(),
        read: direction(&all.read, seconds),
        write: direction(&all.write, seconds),
        other: direction(&all.other, seconds),
        latency_ns: all.latencies().summary(),
    }
}

fn direction(tally: &Tally, seconds: f64) -> Direction {
    Direction {
        ios: tally.ios,
        errors: tally.errors,
        iops: per(tally.ios as f64, seconds),
        bytes_per_second: per(tally.bytes as f64, seconds),
        latency_ns: tally.latencies.summary(),
    }
}

fn worker(name: &WorkerName, done: &Interval) -> WorkerResult {
    WorkerResult {
        name: name.name.clone(),
        volume: name.volume.clone(),
        target: name.target.clone(),
        ios: done.ios(),
        errors: done.errors(),
        iops: done.iops(),
        bytes_per_second: done.bytes_per_second(),
        mean_outstanding: done.mean_outstanding(),
        latency_ns: done.latencies().summary(),
    }
}

fn second(t: f64, done: &Interval, latencies: &Latencies) -> Second {
    let seconds = done.seconds();
    Second {
        t,
        iops: done.iops(),
        bytes_per_second: done.bytes_per_second(),
        read_iops: per(done.read.ios as f64, seconds),
        write_iops: per(done.write.ios as f64, seconds),
        errors: done.errors(),
        mean_outstanding: done.mean_outstanding(),
        mean_ns: latencies.mean(),
        p50_ns: latencies.supported_percentile(0.5),
        p99_ns: latencies.supported_percentile(0.99),
        p99_9_ns: latencies.supported_percentile(0.999),
        max_ns: latencies.max(),
    }
}
