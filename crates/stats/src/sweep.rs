//! The document of a sweep, `sweep.json`: the plan, and the runs measured so far.
//!
//! The document is written after each run, so that an interrupted sweep can be resumed. It has the
//! figures of each run that tables and comparisons need. Everything else is in the runs' own
//! results.

pub mod journal;
mod number;
mod repeats;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::Bound;
use crate::histogram::Latency;
use crate::kind::Kind;
use crate::run::{Connections, EVERY_CHECK_SINCE, Origin, RunResult, Tool};
use crate::spread::Spread;
use crate::verdict::{self, Check, Class, Verdict};

pub use self::number::{Quantity, quantity};
pub use self::repeats::{Doubt, Source, doubts};

/// A sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepResult {
    /// Layout of this document: [`SCHEMA_VERSION`](crate::SCHEMA_VERSION).
    pub schema_version: u32,
    /// Program that made the document.
    pub tool: Tool,
    /// Plan of the sweep.
    pub plan: SweepPlan,
    /// Bounds that the user set, with the verdicts over the cells, which determined the exit code.
    #[serde(rename = "gates", alias = "bounds")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// Measured cells, one for each combination of settings.
    pub cells: Vec<Cell>,
    /// Series of cells, each with its knee.
    pub series: Vec<Series>,
    /// Results of a search for the highest rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Found>,
    /// Figures that differed between identical runs made in turn on the same host, before this
    /// sweep: a difference of these figures between this sweep and another is chance, or due to the
    /// host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unkept: Vec<String>,
    /// Counts of the journal; `None` if there is no journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<journal::Counts>,
}

/// Plan of a sweep. A sweep is resumed only with the same plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// The job that the axes change.
    pub job: Value,
    /// Axes to vary; every combination is a cell.
    pub axes: Vec<Axis>,
    /// Runs of each cell; a search sets other numbers for the cells that it plans.
    pub repeats: u32,
    /// Seed of the order of the cells.
    pub seed: u64,
    /// Search beyond the axes.
    #[serde(default)]
    pub search: Search,
    /// Scope of what starts afresh for each run.
    #[serde(default)]
    pub repeat_as: RepeatAs,
    /// True if planned starts are independent of each other where the sweep plans them; otherwise
    /// they are equidistant.
    #[serde(default)]
    pub poisson: bool,
}

/// One setting and its values. A document also has the values as numbers if all are numbers of one
/// unit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Axis {
    /// Name of the setting, such as `size`.
    pub word: String,
    /// Values as they were typed.
    pub values: Vec<String>,
}

/// Scope of the resources that are new for each run of a sweep. Memory layout and thread placement
/// differ between processes: runs within one process share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepeatAs {
    /// New threads and connections.
    #[default]
    Connection,
    /// A new process.
    Process,
}

/// Search beyond the axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// No search.
    #[default]
    Nothing,
    /// Latency at 10 to 100 % of the maximum rate found.
    Ladder,
    /// The highest rate with a p99 of at most this many nanoseconds.
    P99 {
        /// Maximum p99 in nanoseconds.
        ns: u64,
    },
}

/// One setting with its value. A document has the value as a number with its unit, too, where it is
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// Name of the setting, such as `size`.
    pub word: String,
    /// Value, such as `4k`.
    pub value: String,
}

/// One combination of settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The settings.
    pub settings: Vec<Setting>,
    /// Folder of the cell inside that of the sweep.
    pub folder: String,
    /// Planned I/Os per second over all workers, if a search decided them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Planned number of runs; 0 in documents that lack the field: then the number is that of the
    /// plan.
    #[serde(default)]
    pub repeats: u32,
    /// End of the interval that the cell's runs are evidence for, if a search decided that before
    /// they were made: they count for nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<Shows>,
    /// I/Os per second over the completed runs.
    pub iops: Option<Spread>,
    /// Class of the cell: from the worst verdict of each check over the completed runs, and from
    /// their number and spread (H20).
    #[serde(default)]
    pub class: Class,
    /// Doubts about the cell's runs as repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Runs of the cell, by repeat.
    pub runs: Vec<CellRun>,
}

/// Claim that runs at a rate are evidence for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// More than half of all runs meet the bound.
    Holds,
    /// Less than half of all runs meet the bound.
    Misses,
}

/// One run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellRun {
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Folder of the run inside that of the sweep.
    pub folder: String,
    /// Reason why the run is incomplete, if it is.
    #[serde(default)]
    pub failed: Option<String>,
    /// Origin of the numbers.
    pub origin: Origin,
    /// Least certain kind of the figures used for the numbers, as in the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Class of the run.
    pub class: Class,
    /// Verdict of each honesty check, by its number.
    #[serde(default)]
    pub verdicts: BTreeMap<String, Verdict>,
    /// Beginning of the measured window, RFC 3339.
    pub started: String,
    /// Length as a repeat, in seconds: [`RunResult::repeat_seconds`].
    #[serde(default)]
    pub seconds: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// I/Os that ended in a fault.
    pub errors: u64,
    /// Connections lost and restored.
    #[serde(flatten)]
    pub connections: Connections,
    /// Latencies; response times if a rate was planned.
    pub latency_ns: Latency,
    /// Core time per I/O in microseconds.
    pub core_us_per_io: Option<f64>,
    /// Source of the run.
    #[serde(default)]
    pub source: Source,
}

/// Cells that differ by their load only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Settings that the cells have in common.
    pub settings: Vec<Setting>,
    /// Name of the setting in which the cells differ.
    pub axis: String,
    /// Number of cells.
    pub points: usize,
    /// Knee: the point from which more load adds more latency than rate.
    pub knee: Option<Knee>,
    /// Scaling along the axis, if the axis is a count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scale>,
}

/// Rate at one value of a counting axis, relative to the lowest measured value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Value of the axis.
    pub value: String,
    /// The value as a number, in the unit of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// Ratio of the rate to that of the lowest value.
    pub times: f64,
    /// 95 % confidence interval of the ratio; `null` unless both values have at least three runs.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// Efficiency: share of linear scaling, 1 if scaling is linear.
    pub share: f64,
}

/// The load with the highest power: rate divided by mean latency (L. Kleinrock, Power and
/// deterministic rules of thumb, 1979). Below this load a system has room, beyond it queues grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Value of the axis.
    pub value: String,
    /// The value as a number, in the unit of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// IOPS at that value.
    pub iops: f64,
    /// Mean latency at that value, in nanoseconds.
    pub mean_ns: f64,
    /// True if the knee is the largest load that was measured: the real one may lie beyond.
    pub at_end: bool,
    /// True if the knee is the smallest load that was measured: the real one may lie below.
    #[serde(default)]
    pub at_start: bool,
    /// Loads that are not distinguishable from the best one, itself included: one of them is the
    /// knee with 95 % confidence. `null` if a load has fewer than three runs.
    #[serde(default)]
    pub among: Option<Vec<String>>,
    /// Values of these loads as numbers, in the unit of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub among_numbers: Option<Vec<f64>>,
}

/// The highest rate whose latency is within the bound: half of all runs at this rate meet the
/// bound, so the median of their p99 is the bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Settings of the searched cells.
    pub settings: Vec<Setting>,
    /// The rate, by a logistic curve through all runs of the search; `null` if no tried rate is low
    /// enough. Documents without [`runs`](Found::runs) have the highest tried rate that met the
    /// bound.
    pub rate_per_s: Option<f64>,
    /// Number of runs that the curve is fitted to.
    #[serde(default)]
    pub runs: u32,
    /// Next lower rate that was tried.
    #[serde(default)]
    pub held_rate_per_s: Option<f64>,
    /// Runs at that rate that met the bound, and their total.
    #[serde(default)]
    pub held: Option<Held>,
    /// Median p99 of the runs at that rate, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Next higher rate that was tried; `null` if the rate is the highest one.
    pub missed_rate_per_s: Option<f64>,
    /// Runs at that rate that met the bound, and their total.
    #[serde(default)]
    pub missed_held: Option<Held>,
    /// Lower end of an interval for the rate: the highest rate at which runs decided that more than
    /// half of all runs meet the bound. `null` if there is none.
    #[serde(default)]
    pub low_per_s: Option<f64>,
    /// Upper end of the interval: the lowest rate at which runs decided that less than half of all
    /// runs meet the bound. `null` if there is none up to the highest rate of a closed loop.
    #[serde(default)]
    pub high_per_s: Option<f64>,
    /// Minimum coverage of such an interval, 0 to 1 (a bet against either end that may stop at any
    /// time).
    #[serde(default)]
    pub confidence: f64,
    /// True if the runs at the rate that missed had too few I/Os for a p99: longer ones could pass.
    #[serde(default)]
    pub too_short: bool,
}

/// Number of runs that met the bound, and their total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Completed runs without an error that achieved their rate and had a p99 within the bound.
    pub runs: u32,
    /// All runs.
    pub of: u32,
}

impl CellRun {
    /// Copies the figures of a result.
    pub fn of(result: &RunResult, repeat: u32, folder: String) -> CellRun {
        CellRun {
            repeat,
            folder,
            failed: result.partial.clone().or_else(|| result.momentary()),
            origin: result.origin,
            kind: result.kind,
            class: result.class,
            verdicts: result.checks.iter().map(|c| (c.code.clone(), c.verdict)).collect(),
            started: result.started.clone(),
            seconds: result.repeat_seconds(),
            iops: result.totals.iops,
            bytes_per_second: result.totals.bytes_per_second,
            errors: result.totals.errors,
            connections: result.totals.connections,
            latency_ns: result.totals.latency_ns,
            core_us_per_io: result.cpu.core_us_per_io,
            source: Source::of(result),
        }
    }
}

impl Cell {
    /// Returns the completed runs.
    pub fn whole_runs(&self) -> impl Iterator<Item = &CellRun> {
        self.runs.iter().filter(|run| run.failed.is_none())
    }

    /// Returns the verdicts of the honesty checks over the completed runs: the worst of each, and
    /// H20 by the spread of the runs.
    pub fn verdicts(&self) -> BTreeMap<&str, Verdict> {
        let mut worst: BTreeMap<&str, Verdict> = BTreeMap::new();
        for (code, verdict) in self.whole_runs().flat_map(|run| &run.verdicts) {
            let known = worst.entry(code).or_insert(*verdict);
            *known = known.worse(*verdict);
        }
        worst.insert("H20", self.repeats().verdict);
        worst
    }

    /// Returns H20 of the cell: the number of runs, their spread, and whether they are repeats.
    pub fn repeats(&self) -> Check {
        let runs: Vec<(f64, f64)> = self.whole_runs().map(|run| (run.iops, run.seconds)).collect();
        let doubts = self.doubts.iter().map(|doubt| (doubt.verdict, &*doubt.why));
        verdict::repeats(&runs).doubted(doubts)
    }

    /// Returns the class of the cell, by the rule of a layout.
    pub fn judge(&self, layout: u32) -> Class {
        let verdicts = self.verdicts();
        if layout < EVERY_CHECK_SINCE {
            let check = |(code, verdict): (&&str, &Verdict)| Check::new(code, "", *verdict, "");
            return Class::of_earlier(&verdicts.iter().map(check).collect::<Vec<_>>());
        }
        // A check that a run lacks may have failed in it; without runs nothing is known.
        let lacks = |run: &CellRun| {
            verdict::of_layout(layout).any(|listed| !run.verdicts.contains_key(listed.code))
        };
        match self.whole_runs().next() {
            None => Class::Indicative,
            Some(_) if self.whole_runs().any(lacks) => Class::Invalid,
            Some(_) => {
                Class::of_verdicts(layout, verdicts.iter().map(|(code, verdict)| (*code, *verdict)))
            }
        }
    }

    /// Returns the median of the runs' mean latencies in nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        Spread::of(self.whole_runs().filter_map(|run| run.latency_ns.mean)).map(|s| s.median)
    }

    /// Returns the minimum and maximum of a percentile over the runs; `None` if a run has too few
    /// samples.
    pub fn range(&self, of: impl Fn(&Latency) -> Option<u64>) -> Option<(u64, u64)> {
        let all: Option<Vec<u64>> = self.whole_runs().map(|run| of(&run.latency_ns)).collect();
        let all = all?;
        Some((*all.iter().min()?, *all.iter().max()?))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::SCHEMA_VERSION;

    fn cell(rates: &[f64], verdict: Verdict) -> Cell {
        let checks: Vec<Check> =
            verdict::ALL.iter().map(|it| Check::new(it.code, "x", Verdict::Pass, "")).collect();
        let mut runs = Vec::new();
        for iops in rates {
            let (checks, schema_version) = (checks.clone(), SCHEMA_VERSION);
            let mut result = RunResult { checks, schema_version, ..RunResult::default() };
            (result.totals.iops, result.totals.seconds) = (*iops, 5.0);
            // A single run says nothing about the next.
            result.set_check(verdict::repeats(&[(*iops, 5.0)]));
            assert_eq!(result.class, Class::Indicative);
            runs.push(CellRun::of(&result, 1, String::new()));
        }
        runs[0].verdicts.insert("H06".to_owned(), verdict);
        Cell { runs, ..Cell::default() }
    }

    #[test]
    fn a_run_counts_as_long_as_was_asked_for_if_most_of_it_was_measured() {
        let lasted = |asked_s: f64, measured_s: f64, partial: Option<&str>| {
            let mut result = RunResult::default();
            (result.job.seconds, result.totals.seconds) = (asked_s, measured_s);
            result.partial = partial.map(str::to_owned);
            CellRun::of(&result, 1, String::new()).seconds
        };
        // A busy host began late; another run completed its work after a moment.
        assert_eq!(lasted(5.0, 4.22, None), 5.0);
        assert_eq!(lasted(5.0, 0.2, None), 0.2);
        assert_eq!(lasted(0.2, 0.2, None), 0.2);
        assert_eq!(lasted(10.0, 6.0, Some("interrupted")), 6.0);
    }

    #[test]
    fn a_moment_of_a_worker_is_no_repeat() {
        let run = |asked_seconds: Option<f64>, seconds: f64| {
            let worker = |name: &str, seconds| crate::WorkerResult {
                name: name.to_owned(),
                seconds,
                asked_seconds,
                ..crate::WorkerResult::default()
            };
            let workers = vec![worker("first", 10.0), worker("late", seconds)];
            let result = RunResult { workers, ..RunResult::default() };
            CellRun::of(&result, 1, String::new())
        };
        let cell = |seconds| Cell { runs: vec![run(Some(10.0), seconds)], ..Cell::default() };
        assert_eq!([0.49, 0.5].map(|seconds| cell(seconds).whole_runs().count()), [0, 1]);
        let why = "late was active for 0.49 of 10.00 s, which is too short for a repeat";
        assert_eq!(run(Some(10.0), 0.49).failed.as_deref(), Some(why));
        // The run completed its work.
        assert_eq!(run(None, 0.01).failed, None);
    }

    #[test]
    fn a_cell_is_as_good_as_its_worst_run_and_their_spread() {
        let five = [100.0, 101.0, 99.0, 102.0, 100.0];
        assert_eq!(cell(&five, Verdict::Pass).judge(SCHEMA_VERSION), Class::Publishable);
        assert_eq!(cell(&five[..4], Verdict::Pass).judge(SCHEMA_VERSION), Class::Indicative);
        assert_eq!(
            cell(&[90.0, 100.0, 100.0, 100.0, 100.0], Verdict::Pass).judge(SCHEMA_VERSION),
            Class::Indicative
        );
        assert_eq!(cell(&five, Verdict::Warn).judge(SCHEMA_VERSION), Class::Indicative);
        assert_eq!(cell(&five, Verdict::Unknown).judge(SCHEMA_VERSION), Class::Indicative);
        assert_eq!(cell(&five, Verdict::Fail).judge(SCHEMA_VERSION), Class::Invalid);
        let mut faulty = cell(&five, Verdict::Pass);
        faulty.runs[3].verdicts.insert("H21".to_owned(), Verdict::Fail);
        assert_eq!(faulty.judge(SCHEMA_VERSION), Class::Invalid);
        // An interrupted run does not count.
        faulty.runs[3].failed = Some("interrupted".to_owned());
        assert_eq!(faulty.judge(SCHEMA_VERSION), Class::Indicative, "four runs");
        assert_eq!(Cell::default().judge(SCHEMA_VERSION), Class::Indicative);
        // One run lacks a check of the list.
        let mut lacking = cell(&five, Verdict::Pass);
        lacking.runs[2].verdicts.remove("H03");
        assert_eq!(lacking.judge(SCHEMA_VERSION), Class::Invalid);
        assert_eq!(lacking.judge(2), Class::Publishable, "by the rule of then");
    }

    #[test]
    fn the_worst_of_each_check_is_taken() {
        let check = |code, verdict, evidence| Check::new(code, "x", verdict, evidence);
        let mut result = RunResult::default();
        result.set_check(check("H06", Verdict::Pass, "first"));
        result.set_check(check("H13", Verdict::Warn, "first"));
        result.take_worse(&[
            check("H06", Verdict::Fail, "second"),
            check("H13", Verdict::Pass, "second"),
            check("H19", Verdict::Unknown, "second"),
        ]);
        let said: Vec<(&str, &str)> =
            result.checks.iter().map(|c| (c.code.as_str(), c.evidence.as_str())).collect();
        assert_eq!(said, [("H06", "second"), ("H13", "first"), ("H19", "second")]);
        assert_eq!(result.class, Class::Invalid);
    }
}
