//! Results of several hosts as one.
//!
//! Each host writes a [`Part`](crate::Part) with its result. Counts, sums and histograms of parts
//! add up: the merged percentiles are those that one process would have computed, bit for bit.
//! Parts that do not belong together are [`Refused`]. Parts may come from anywhere, so
//! contradictory figures in them are rejected.

mod agree;
pub(crate) mod apart;
mod costs;
mod judged;
mod seconds;
mod totals;
mod window;

use std::fmt;

use crate::histogram::checked;
use crate::run::{HostResult, RunResult, SCHEMA_VERSION, WorkerResult};
use crate::verdict::{Check, Class};

use self::agree::Agreed;
use self::seconds::Course;
use self::totals::Sums;

pub use self::judged::OVERLAP_PERCENT;

/// Most hosts of a result.
pub const HOSTS_MAX: usize = 8192;
/// Most numbers that are kept of single workers, in histograms and rows: 10 MB of a document. Of
/// more, only the rows of their hosts are kept.
const WORKER_NUMBERS_MAX: usize = 1 << 18;
/// Most rows of a part that are believed: a run has half as many.
const ROWS_MAX: usize = 8192;

/// Why parts are not merged, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Parts that are being merged.
#[derive(Debug, Default)]
pub struct Merge {
    agreed: Option<Agreed>,
    sums: Sums,
    course: Course,
    hosts: Vec<Host>,
    /// Numbers that the workers of all hosts hold.
    numbers: usize,
}

/// Figures of one part that the merge retains.
#[derive(Debug)]
struct Host {
    started_ns: u64,
    ended_ns: u64,
    row: HostResult,
    workers: Vec<WorkerResult>,
    checks: Vec<Check>,
    warnings: Vec<String>,
    costs: costs::Costs,
    /// Rates of its whole seconds.
    rates: Vec<f32>,
}

impl Merge {
    /// Adds the part of one more host.
    ///
    /// # Errors
    ///
    /// A part that does not belong to the others, or that contradicts itself.
    pub fn add(&mut self, result: RunResult) -> Result<(), Refused> {
        if self.hosts.len() == HOSTS_MAX {
            return Err(Refused(format!("more than {HOSTS_MAX} hosts")));
        }
        is_sound(&result)?;
        match &mut self.agreed {
            None => self.agreed = Some(Agreed::new(&result)?),
            Some(agreed) => agreed.check(&result)?,
        }
        let Some(part) = result.part.as_ref() else { return Err(no_part()) };
        let named = |why: String| Refused(format!("{}: {why}", part.host));
        self.sums.add(&result, part).map_err(named)?;
        let reference_ns = self.agreed.as_ref().map_or(0, |agreed| agreed.reference_ns);
        self.course.add(&result, part.started_ns, reference_ns);
        self.keep(result);
        Ok(())
    }

    fn keep(&mut self, mut result: RunResult) {
        let row = host_row(&result);
        let costs = costs::Costs::of(&result);
        let rates = apart::rates(&result);
        let (started_ns, ended_ns) = match &result.part {
            Some(part) => (part.started_ns, part.ended_ns),
            None => (0, 0),
        };
        for worker in &mut result.workers {
            worker.name = format!("{}: {}", row.name, worker.name);
            self.numbers += numbers(worker);
        }
        if self.numbers > WORKER_NUMBERS_MAX {
            result.workers.clear();
            self.hosts.iter_mut().for_each(|host| host.workers.clear());
        }
        let (workers, checks) = (result.workers, result.checks);
        let warnings = result.warnings;
        self.hosts.push(Host {
            started_ns,
            ended_ns,
            row,
            workers,
            checks,
            warnings,
            costs,
            rates,
        });
    }

    /// Makes the result of all hosts. With fewer than `expected` it is partial.
    ///
    /// # Errors
    ///
    /// No part at all, or more than expected.
    pub fn finish(mut self, expected: Option<u32>) -> Result<RunResult, Refused> {
        let Some(agreed) = self.agreed.take() else { return Err(Refused("no parts".to_owned())) };
        let found = self.hosts.len();
        if let Some(expected) = expected.filter(|expected| found > *expected as usize) {
            return Err(Refused(format!("{found} parts of {expected} hosts")));
        }
        self.hosts.sort_by(|a, b| a.row.name.cmp(&b.row.name));
        let common = window::common(&self.hosts);
        window::place(&mut self.hosts, &common);
        let union_s = window::union_s(&self.hosts);
        let merged = self.sums.finish(union_s);
        let even = apart::judge(&mut self.hosts, &common);
        let mut checks = judged::checks(&self.hosts, &common, &merged, &agreed.first.job);
        checks.extend(even);
        checks.sort_by(|a, b| a.code.cmp(&b.code));
        let earliest = self.hosts.iter().min_by_key(|host| host.started_ns);
        let started = earliest.map_or_else(String::new, |host| host.row.started.clone());
        let seed = agreed.seed();
        let mut result = agreed.first;
        result.partial = judged::partial(&self.hosts, expected);
        result.warnings = judged::warnings(&self.hosts, &common);
        result.class = Class::of(&checks);
        (result.checks, result.totals, result.histograms) =
            (checks, merged.totals, merged.histograms);
        (result.failures, result.failures_unlisted) = (merged.failures, merged.failures_unlisted);
        (result.intervals, result.spans) = self.course.finish();
        (result.started, result.seed) = (started, seed);
        costs::put(&self.hosts, &mut result);
        result.skew_ns = Some(common.start_skew_ns);
        result.common_window = Some(common);
        let hosts = self.hosts.into_iter().map(|host| (host.row, host.workers));
        let (rows, workers): (Vec<_>, Vec<_>) = hosts.unzip();
        result.hosts = rows;
        result.workers = workers.into_iter().flatten().collect();
        Ok(result)
    }
}

/// Counts the numbers of a worker that take memory.
fn numbers(worker: &WorkerResult) -> usize {
    let of = &worker.histograms;
    let buckets = [&of.read, &of.write, &of.trim, &of.flush];
    let buckets: usize = buckets.iter().map(|buckets| buckets.from_ns.len()).sum();
    2 * buckets + 13 * worker.intervals.t.len()
}

fn no_part() -> Refused {
    Refused("no part of several hosts: made without --part".to_owned())
}

/// Refuses a contradictory result, or one longer than a run can make it.
fn is_sound(result: &RunResult) -> Result<(), Refused> {
    let part = result.part.as_ref().ok_or_else(no_part)?;
    if !result.hosts.is_empty() {
        return Err(Refused("merged already: name the parts of the hosts".to_owned()));
    }
    if result.schema_version != SCHEMA_VERSION || part.layout != crate::PART_LAYOUT {
        let (layout, of) = (result.schema_version, part.layout);
        let why = format!("layouts {layout} and {of} are not those of this version");
        return Err(Refused(why));
    }
    agree::name(&part.host)?;
    let why = |why: &str| Err(Refused(format!("{}: {why}", part.host)));
    let totals_s = result.totals.seconds;
    let window_ns = part.ended_ns.checked_sub(part.started_ns);
    let Some(window_ns) = window_ns.filter(|ns| *ns < window::LONGEST_NS) else {
        return why("its window ends before it begins, or lasts for years");
    };
    if !(0.0..=window_ns as f64 / 1e9 + window::SLACK_S).contains(&totals_s) {
        return why("it measured for longer than between its beginning and its end");
    }
    if result.intervals.len() > ROWS_MAX || result.spans.len() > ROWS_MAX {
        return why("more rows than a run has");
    }
    for span in &result.spans {
        if let Err(error) = checked(&span.buckets) {
            return why(&format!("histograms over time: {error}"));
        }
    }
    Ok(())
}

/// Returns the row of a host in a merged result.
fn host_row(result: &RunResult) -> HostResult {
    let (totals, host) = (&result.totals, &result.host);
    let part = result.part.clone().unwrap_or_default();
    let late = part.planned_ns.map(|planned| part.started_ns.wrapping_sub(planned) as i64);
    HostResult {
        name: part.host,
        machine: part.machine,
        cpu: host.cpu.clone(),
        cores: host.cores,
        kernel: host.kernel.clone(),
        clock: part.clock,
        seed: result.seed,
        started: result.started.clone(),
        late_ns: late,
        seconds: totals.seconds,
        ios: totals.ios,
        errors: totals.errors,
        iops: totals.iops,
        bytes_per_second: totals.bytes_per_second,
        latency_ns: totals.latency_ns,
        cpu_percent: result.cpu.host_percent,
        initiator_cores: result.cpu.initiator_cores,
        class: result.class,
        partial: result.partial.clone(),
        ..HostResult::default()
    }
}

#[cfg(test)]
mod test;
