//! Totals of all hosts: counts, sums and histograms.

use crate::buckets::{Buckets, Histograms};
use crate::failures::{Failure, LISTED_MAX};
use crate::histogram::{Complete, Exact, Latencies, Latency, MostMoments, SAMPLES_MAX};
use crate::interval::per;
use crate::run::{Connections, Direction, PacedTotals, Part, Ramp, RunResult, Totals, Waiting};

/// Latencies of all hosts.
#[derive(Debug, Default)]
struct Sum {
    latencies: Latencies,
    moments: MostMoments,
}

/// One direction of all hosts.
#[derive(Debug, Default)]
struct Way {
    ios: u64,
    errors: u64,
    bytes: u64,
    sum: Sum,
}

/// Totals of the parts so far.
#[derive(Debug, Default)]
pub(super) struct Sums {
    ios: u64,
    errors: u64,
    ramp_errors: u64,
    all: Sum,
    ways: [Way; 4],
    /// I/Os in flight, integrated over time: I/Os × nanoseconds.
    outstanding_ns: u128,
    waiting: Waiting,
    connections: Connections,
    ramp: Ramp,
    paced: Option<Paced>,
    /// Some host had no open loop.
    closed: bool,
    failures: Vec<Failure>,
    failures_unlisted: u64,
}

#[derive(Debug, Default)]
struct Paced {
    service: Sum,
    lag: Sum,
    missed: u64,
    backlog: Waiting,
}

/// Totals of a merged result.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub totals: Totals,
    pub histograms: Histograms,
    pub failures: Vec<Failure>,
    pub failures_unlisted: u64,
    /// Latencies of all directions.
    pub all: Latencies,
}

impl Sum {
    fn add(&mut self, latencies: &Latencies) {
        self.moments.add(latencies);
        self.latencies.merge(latencies);
    }

    /// Merges latencies as a document holds them.
    fn restore(&mut self, buckets: &Buckets, of: &Latency, exact: &Exact) -> Result<(), String> {
        self.add(&Latencies::restored(buckets, of, exact)?);
        Ok(())
    }

    fn finish(mut self) -> Latencies {
        self.moments.put(&mut self.latencies);
        self.latencies
    }
}

impl Sums {
    /// Adds the totals of a host.
    pub fn add(&mut self, result: &RunResult, part: &Part) -> Result<(), String> {
        let totals = &result.totals;
        let exact = &part.exact;
        let directions = [&totals.read, &totals.write, &totals.trim, &totals.flush];
        let counts = directions.iter().flat_map(|of| [of.ios, of.errors, of.bytes >> 16]);
        let counts = counts.chain([totals.ios, totals.errors, totals.ramp_errors]);
        if counts.chain([result.failures_unlisted]).any(|count| count > SAMPLES_MAX) {
            return Err("more I/Os than any run of one host has".to_owned());
        }
        let histograms = &result.histograms;
        let buckets = [&histograms.read, &histograms.write, &histograms.trim, &histograms.flush];
        let exacts = [&exact.read, &exact.write, &exact.trim, &exact.flush];
        let mut own = Latencies::new();
        for (at, ((way, of), (buckets, exact))) in
            self.ways.iter_mut().zip(directions).zip(buckets.into_iter().zip(exacts)).enumerate()
        {
            let latencies = Latencies::restored(buckets, &of.latency_ns, exact)?;
            if at < 3 {
                own.merge(&latencies);
            }
            way.sum.add(&latencies);
            (way.ios, way.errors) = (way.ios + of.ios, way.errors + of.errors);
            way.bytes = way.bytes.saturating_add(of.bytes);
        }
        self.all.restore(&Buckets::of(&own), &totals.latency_ns, &exact.all)?;
        self.add_paced(totals.paced.as_ref(), part)?;
        self.count(totals);
        self.fail(result, &part.host);
        Ok(())
    }

    fn count(&mut self, totals: &Totals) {
        self.ios += totals.ios;
        self.errors += totals.errors;
        self.ramp_errors += totals.ramp_errors;
        let outstanding_ns = totals.mean_outstanding * totals.seconds * 1e9;
        self.outstanding_ns = self.outstanding_ns.saturating_add(outstanding_ns.max(0.0) as u128);
        add_waiting(&mut self.waiting, totals.waiting);
        let (sum, more) = (&mut self.connections, &totals.connections);
        sum.reconnects = sum.reconnects.saturating_add(more.reconnects);
        sum.connections_lost = sum.connections_lost.saturating_add(more.connections_lost);
        sum.failed_attempts = sum.failed_attempts.saturating_add(more.failed_attempts);
        sum.disconnected_seconds += more.disconnected_seconds;
        let (sum, more) = (&mut self.ramp, &totals.ramp);
        sum.connections_lost = sum.connections_lost.saturating_add(more.connections_lost);
        sum.reconnects = sum.reconnects.saturating_add(more.reconnects);
    }

    fn add_paced(&mut self, totals: Option<&PacedTotals>, part: &Part) -> Result<(), String> {
        let Some(totals) = totals else {
            self.closed = true;
            return Ok(());
        };
        let (Some(service), Some(lag)) = (&part.exact.service, &part.exact.lag) else {
            return Err("an open loop without its service times".to_owned());
        };
        let paced = self.paced.get_or_insert_default();
        for (sum, of) in [(&mut paced.service, service), (&mut paced.lag, lag)] {
            sum.add(&Complete::restore(of)?);
        }
        paced.missed = paced.missed.saturating_add(totals.missed);
        add_waiting(&mut paced.backlog, totals.backlog);
        Ok(())
    }

    fn fail(&mut self, result: &RunResult, host: &str) {
        self.failures_unlisted = self.failures_unlisted.saturating_add(result.failures_unlisted);
        for failure in &result.failures {
            let mut failure = failure.clone();
            failure.first.worker = format!("{host}: {}", failure.first.worker);
            let alike = |kept: &&mut Failure| {
                kept.volume == failure.volume
                    && kept.operation == failure.operation
                    && kept.fault == failure.fault
                    && kept.status == failure.status
            };
            let is_full = self.failures.len() >= LISTED_MAX;
            match self.failures.iter_mut().find(alike) {
                Some(kept) => {
                    kept.count = kept.count.saturating_add(failure.count);
                    if failure.first.t_s < kept.first.t_s {
                        kept.first = failure.first;
                    }
                }
                None if !is_full => self.failures.push(failure),
                None => {
                    self.failures_unlisted = self.failures_unlisted.saturating_add(failure.count);
                }
            }
        }
    }

    /// Makes the totals, over the time in which any host measured.
    pub fn finish(self, seconds: f64) -> Merged {
        let paced = self.paced.filter(|_| !self.closed).map(|paced| PacedTotals {
            service_ns: paced.service.finish().summary(),
            lag_ns: paced.lag.finish().summary(),
            missed: paced.missed,
            backlog: paced.backlog,
        });
        let ways = self.ways.map(|way| {
            let latencies = way.sum.finish();
            let direction = Direction {
                ios: way.ios,
                errors: way.errors,
                iops: per(way.ios as f64, seconds),
                bytes_per_second: per(way.bytes as f64, seconds),
                bytes: way.bytes,
                latency_ns: latencies.summary(),
                ..Direction::default()
            };
            (direction, Buckets::of(&latencies))
        });
        let each = ways[..3].iter().map(|(direction, _)| direction.bytes);
        let bytes = each.fold(0, u64::saturating_add);
        let [(read, reads), (write, writes), (trim, trims), (flush, flushes)] = ways;
        let all = self.all.finish();
        let mut failures = self.failures;
        failures.sort_by(|a, b| a.first.t_s.total_cmp(&b.first.t_s));
        let totals = Totals {
            seconds,
            ios: self.ios,
            errors: self.errors,
            iops: per(self.ios as f64, seconds),
            bytes_per_second: per(bytes as f64, seconds),
            mean_outstanding: per(self.outstanding_ns as f64, seconds * 1e9),
            read,
            write,
            trim,
            flush,
            latency_ns: all.summary(),
            waiting: self.waiting,
            ramp_errors: self.ramp_errors,
            connections: self.connections,
            ramp: self.ramp,
            paced,
        };
        let histograms = Histograms { read: reads, write: writes, trim: trims, flush: flushes };
        let failures_unlisted = self.failures_unlisted;
        Merged { totals, histograms, failures, failures_unlisted, all }
    }
}

fn add_waiting(sum: &mut Waiting, more: Waiting) {
    sum.ios = sum.ios.saturating_add(more.ios);
    sum.oldest_ns = sum.oldest_ns.max(more.oldest_ns);
}
