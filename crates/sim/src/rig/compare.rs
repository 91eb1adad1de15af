//! Compares every figure of a result with the truth, exactly or within a histogram's error.

use block::Op;
use stats::{Buckets, Direction, Latency, MOMENTS_ABOVE, RunResult, Second, Totals, WorkerResult};

use super::medium::Medium;
use super::truth::{Fact, Figures, Times, Truth};

/// Descriptions of differences; a few suffice.
#[derive(Default)]
pub(super) struct Differences(Vec<String>);

impl Differences {
    pub(super) fn say(&mut self, what: String) {
        if self.0.len() < 4 {
            self.0.push(what);
        }
    }

    pub(super) fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, told: T, truth: T) {
        if told != truth {
            self.say(format!("{what} is told as {told:?}, and is {truth:?}"));
        }
    }

    /// Compares sums and quotients, with a tolerance for rounding.
    fn near(&mut self, what: &str, told: f64, truth: f64) {
        // NaN is never near.
        let is_near = (told - truth).abs() <= 1e-9 * truth.abs().max(1e-3);
        if !is_near {
            self.say(format!("{what} is told as {told}, and is {truth}"));
        }
    }

    /// Compares mean queue depths: planned starts are rounded to whole nanoseconds.
    fn outstanding(&mut self, what: &str, told: f64, truth: f64, figures: &Figures, long: f64) {
        let rounded = figures.begun_late as f64 / 1e9 / long.max(1e-9);
        if (told - truth).abs() > rounded + 1e-9 * truth.max(1e-3) {
            self.say(format!("outstanding of {what} is told as {told}, and is {truth}"));
        }
    }

    /// Compares a percentile: never too low, and too high by at most the width of a bucket.
    fn percentile(&mut self, what: &str, told: Option<u64>, truth: Option<u64>) {
        let fits = match (told, truth) {
            (Some(told), Some(truth)) => told >= truth && told - truth <= truth / 128 + 1,
            (told, truth) => told == truth,
        };
        if !fits {
            self.say(format!("{what} is told as {told:?}, and is {truth:?}"));
        }
    }

    pub(super) fn into_result(self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0.join("; ")) }
    }
}

/// A direction of a result: its name, and the I/Os that belong to it.
type Kind = (&'static str, fn(&Fact) -> bool);

const DIRECTIONS: [Kind; 4] = [
    ("reads", |fact| fact.op == Op::Read),
    ("writes", |fact| matches!(fact.op, Op::Write | Op::WriteZeroes)),
    ("trims", |fact| fact.op == Op::Trim),
    ("flushes", |fact| fact.op == Op::Flush),
];

/// Whether a fact is an I/O: flushes are counted separately.
fn is_io(fact: &Fact) -> bool {
    fact.op != Op::Flush
}

/// Compares every figure of a result with the truth.
pub(super) fn compare(truth: &Truth, medium: &Medium, told: &RunResult, found: &mut Differences) {
    let (workers, window) = (0..truth.facts.len(), (truth.begin, truth.end));
    let (figures, long) = truth.figures(workers.clone(), window, |_| true);
    let (of_ios, _) = truth.figures(workers.clone(), window, is_io);
    totals(found, &told.totals, (&figures, &of_ios), long);
    let of = &told.totals;
    let parts = [&of.read, &of.write, &of.trim, &of.flush];
    let kept = &told.histograms;
    let kept = [&kept.read, &kept.write, &kept.trim, &kept.flush];
    for (((name, belongs), part), kept) in DIRECTIONS.into_iter().zip(parts).zip(kept) {
        let (figures, _) = truth.figures(workers.clone(), window, belongs);
        direction(found, name, part, &figures, long);
        buckets(found, name, kept, &figures);
    }
    let lasted = truth.connections(workers.clone(), window, medium);
    found.equal("what became of connections", told.totals.connections, lasted.into());
    found.equal("number of workers", told.workers.len(), truth.facts.len());
    for (number, told) in told.workers.iter().enumerate() {
        worker(found, truth, number, told);
        let lasted = truth.connections(number..number + 1, window, medium);
        let what = format!("what became of the connection of worker {number}");
        found.equal(&what, told.connections, lasted.into());
    }
    let rows = truth.rows();
    found.equal("number of seconds", told.intervals.len(), rows.len());
    for (told, stretch) in told.intervals.iter().zip(&rows) {
        second(found, truth, told, *stretch);
        if stretch.1 < truth.end {
            let lasted = truth.connections(workers.clone(), *stretch, medium);
            let told = (told.connections_lost, told.reconnects);
            found.equal("connections of a second", told, (lasted.lost, lasted.reconnects));
        }
    }
    let failed: u64 = told.failures.iter().map(|failure| failure.count).sum();
    found.equal("failures that are listed", failed + told.failures_unlisted, figures.errors);
    let spans: u64 = told.spans.iter().map(|span| count(&span.buckets)).sum();
    found.equal("latencies in all spans", spans, of_ios.latencies.count());
}

fn count(buckets: &Buckets) -> u64 {
    buckets.count.iter().sum()
}

/// `of_ios` are the figures without flushes.
fn totals(
    found: &mut Differences,
    told: &Totals,
    (truth, of_ios): (&Figures, &Figures),
    long: f64,
) {
    found.near("length of the window", told.seconds, long);
    found.equal("I/Os without an answer", told.waiting.ios, truth.waiting.0);
    found.equal("age of the oldest", told.waiting.oldest_ns, truth.waiting.1);
    let backlog = told.paced.map_or((0, 0), |paced| (paced.backlog.ios, paced.backlog.oldest_ns));
    found.equal("I/Os that never began, and the age of the oldest", backlog, truth.backlog);
    found.equal("I/Os", told.ios, of_ios.ios);
    found.equal("errors", told.errors, truth.errors);
    found.near("IOPS", told.iops, per(of_ios.ios as f64, long));
    found.near("bytes per second", told.bytes_per_second, per(of_ios.bytes as f64, long));
    if truth.exact {
        let in_flight = per(truth.in_flight as f64 / 1e9, long);
        found.outstanding("all", told.mean_outstanding, in_flight, truth, long);
    }
    latency(found, "all", &told.latency_ns, of_ios);
    if let Some(paced) = &told.paced {
        times(found, "service", &paced.service_ns, &truth.service);
        times(found, "lag", &paced.lag_ns, &truth.lag);
        found.equal("I/Os that were held back", paced.missed, truth.held_back);
    }
}

fn direction(found: &mut Differences, name: &str, told: &Direction, truth: &Figures, long: f64) {
    found.equal(name, told.ios, truth.ios);
    found.equal(&format!("errors of {name}"), told.errors, truth.errors);
    found.equal(&format!("bytes of {name}"), told.bytes, truth.bytes);
    found.near(&format!("IOPS of {name}"), told.iops, per(truth.ios as f64, long));
    let bytes = per(truth.bytes as f64, long);
    found.near(&format!("bytes per second of {name}"), told.bytes_per_second, bytes);
    latency(found, name, &told.latency_ns, truth);
}

fn latency(found: &mut Differences, name: &str, told: &Latency, truth: &Figures) {
    found.equal(&format!("lower bounds of {name}"), told.waiting_from, truth.bounded);
    moments(found, name, told, truth);
    times(found, name, told, &truth.latencies);
}

/// Compares the number of moments in which an I/O took as long as each tail. A moment in which an
/// interval was handed over counts twice, and failed I/Os belong to the last moment.
fn moments(found: &mut Differences, name: &str, told: &Latency, truth: &Figures) {
    let Some(tail) = told.moments else {
        return found.equal(&format!("samples of {name} without moments"), told.samples, 0);
    };
    for (told, share) in [(tail.p99, 9900), (tail.p99_9, 9990), (tail.p99_99, 9999)] {
        let is = truth.moments(share);
        if told + SPLIT < is || told > is + truth.handed_over + SPLIT {
            let share = share as f64 / 100.0;
            found.say(format!(
                "moments of percentile {share} of {name} are told as {told}, not {is}"
            ));
        }
    }
}

/// Maximum difference in reported moments, besides those of intervals.
const SPLIT: u64 = 4;

fn times(found: &mut Differences, name: &str, told: &Latency, truth: &Times) {
    let sorted = &truth.0;
    found.equal(&format!("samples of {name}"), told.samples, truth.count());
    found.equal(&format!("shortest of {name}"), told.min, sorted.first().copied());
    found.equal(&format!("longest of {name}"), told.max, sorted.last().copied());
    match (told.mean, truth.mean()) {
        (Some(told), Some(truth)) => found.near(&format!("mean of {name}"), told, truth),
        (told, truth) => found.equal(&format!("mean of {name}"), told, truth),
    }
    let moments = told.moments;
    let of_enough = |share: u64| moments.is_none_or(|tail| tail.supports(share as f64 / 1e4));
    let told = [told.p50, told.p90, told.p99, told.p99_9, told.p99_99];
    for (told, share) in told.into_iter().zip([5000, 9000, 9900, 9990, 9999]) {
        let what = format!("percentile {} of {name}", share as f64 / 100.0);
        found.percentile(&what, told, truth.percentile(share).filter(|_| of_enough(share)));
    }
}

/// Checks the count of each bucket.
fn buckets(found: &mut Differences, name: &str, told: &Buckets, truth: &Figures) {
    let sorted = &truth.latencies.0;
    let below = |ns: u64| sorted.partition_point(|latency| *latency < ns) as u64;
    for (from, count) in told.from_ns.iter().zip(&told.count) {
        // There are 128 buckets per power of two.
        let wide = 1 << (63 - (from | 1).leading_zeros()).saturating_sub(7);
        let inside = below(from + wide) - below(*from);
        found.equal(&format!("the bucket from {from} ns of {name}"), *count, inside);
    }
    found.equal(&format!("all buckets of {name}"), count(told), sorted.len() as u64);
}

fn worker(found: &mut Differences, truth: &Truth, number: usize, told: &WorkerResult) {
    let name = format!("worker {number}");
    let (this, window) = (number..number + 1, (truth.begin, truth.end));
    let (figures, long) = truth.figures(this.clone(), window, |_| true);
    found.near(&format!("time of {name}"), told.seconds, long);
    let waiting = (told.waiting.ios, told.waiting.oldest_ns);
    found.equal(&format!("I/Os without an answer of {name}"), waiting, figures.waiting);
    let (of_ios, _) = truth.figures(this.clone(), window, is_io);
    found.equal(&format!("I/Os of {name}"), told.ios, of_ios.ios);
    found.equal(&format!("errors of {name}"), told.errors, figures.errors);
    found.near(&format!("IOPS of {name}"), told.iops, per(of_ios.ios as f64, long));
    let bytes = per(of_ios.bytes as f64, long);
    found.near(&format!("bytes per second of {name}"), told.bytes_per_second, bytes);
    let in_flight = per(figures.in_flight as f64 / 1e9, long);
    if figures.exact {
        found.outstanding(&name, told.mean_outstanding, in_flight, &figures, long);
    }
    latency(found, &name, &told.latency_ns, &of_ios);
    let idle = truth.idle_seconds(number);
    found.equal(&format!("seconds without an I/O of {name}"), told.idle_seconds, idle);
    let parts = [&told.read, &told.write, &told.trim, &told.flush];
    for ((which, belongs), part) in DIRECTIONS.into_iter().zip(parts) {
        let (figures, _) = truth.figures(this.clone(), window, belongs);
        direction(found, &format!("{which} of {name}"), part, &figures, long);
    }
}

fn second(found: &mut Differences, truth: &Truth, told: &Second, (from, to): (u64, u64)) {
    let end = truth.end_of((from, to));
    let name = format!("the second up to {end}");
    let workers = 0..truth.facts.len();
    let (figures, long) = truth.figures(workers.clone(), (from, to), |_| true);
    let (of_ios, _) = truth.figures(workers.clone(), (from, to), is_io);
    found.near("end of a second", told.t, end);
    found.near(&format!("span of {name}"), told.seconds, long);
    found.equal(&format!("I/Os of {name}"), told.ios, of_ios.ios);
    found.near(&format!("IOPS of {name}"), told.iops, per(of_ios.ios as f64, long));
    let bytes = per(of_ios.bytes as f64, long);
    found.near(&format!("bytes per second of {name}"), told.bytes_per_second, bytes);
    let errors = figures.errors - figures.late_errors;
    found.equal(&format!("errors of {name}"), told.errors, errors);
    let oldest = (told.oldest_ns, told.waiting_from_ns);
    let truly = (figures.oldest, of_ios.bounded);
    found.equal(&format!("what waits after {name}"), oldest, truly);
    let in_flight = per(figures.in_flight as f64 / 1e9, long);
    if figures.exact {
        found.outstanding(&name, told.mean_outstanding, in_flight, &figures, long);
    }
    match (told.mean_ns, of_ios.latencies.mean()) {
        (Some(told), Some(truth)) => found.near(&format!("mean of {name}"), told, truth),
        (told, truth) => found.equal(&format!("mean of {name}"), told, truth),
    }
    let longest = of_ios.latencies.0.last().copied().max(figures.oldest);
    found.equal(&format!("longest of {name}"), told.max_ns, longest);
    for (told, share) in
        [told.p50_ns, told.p99_ns, told.p99_9_ns].into_iter().zip([5000, 9900, 9990])
    {
        // A row does not report its number of moments: near the minimum either value may be right.
        let moments = if share < 9900 { u64::MAX } else { of_ios.moments(share) };
        let truth = of_ios.latencies.percentile(share);
        let is_shown = match moments {
            few if few.saturating_add(SPLIT + of_ios.handed_over) < MOMENTS_ABOVE => false,
            some if some < MOMENTS_ABOVE + SPLIT => told.is_some(),
            _ => true,
        };
        found.percentile(&format!("a percentile of {name}"), told, truth.filter(|_| is_shown));
    }
    let (reads, _) = truth.figures(workers, (from, to), DIRECTIONS[0].1);
    found.near(&format!("reads of {name}"), told.read_iops, per(reads.ios as f64, long));
}

fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}
