//! The document of a sweep, `sweep.json`: what is to be measured, and what was so far.
//!
//! It is written after each run, so that a sweep that was cut can be taken up again, and holds the
//! figures of each run that tables and comparisons need. Everything else stands in the runs' own
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
    /// What made it.
    pub tool: Tool,
    /// What is to be measured.
    pub plan: SweepPlan,
    /// Bounds that the user set, and whether the cells kept them: the exit code followed from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// What was measured, one cell for each combination of settings.
    pub cells: Vec<Cell>,
    /// Where each series of cells bends.
    pub series: Vec<Series>,
    /// What a search for the highest rate came to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Found>,
    /// Figures that differed between equal runs made in turn on the same host, before these: what
    /// they say beside another sweep is chance, or the host's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unkept: Vec<String>,
    /// How often runs were made, by the journal; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<journal::Counts>,
}

/// What is to be measured. A sweep is taken up again only by the same plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// The job that the axes change.
    pub job: Value,
    /// What is varied; every combination is a cell.
    pub axes: Vec<Axis>,
    /// Runs of each cell; a search makes others of the cells that it plans.
    pub repeats: u32,
    /// Decides the order of the cells.
    pub seed: u64,
    /// What is looked for beyond the axes.
    #[serde(default)]
    pub search: Search,
    /// What starts afresh for each run.
    #[serde(default)]
    pub repeat_as: RepeatAs,
    /// Planned starts are independent of each other where the sweep plans them; otherwise they
    /// have equal distances.
    #[serde(default)]
    pub poisson: bool,
}

/// One setting and the values that it takes. A document has them as numbers, too, where they are
/// numbers of one unit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Axis {
    /// The setting, as `size`.
    pub word: String,
    /// Its values as they were typed.
    pub values: Vec<String>,
}

/// What is new for each run of a sweep. Layout of memory and placement of threads differ from
/// process to process: runs within one share their luck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepeatAs {
    /// Its threads and connections.
    #[default]
    Connection,
    /// Its whole process.
    Process,
}

/// What is looked for beyond the axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Nothing.
    #[default]
    Nothing,
    /// Latency at 10 to 100 % of the highest rate found.
    Ladder,
    /// The highest rate with a p99 of at most so many nanoseconds.
    P99 {
        /// The bound.
        ns: u64,
    },
}

/// One setting with its value. A document has the value as a number with its unit, too, where it is
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// The setting, as `size`.
    pub word: String,
    /// The value, as `4k`.
    pub value: String,
}

/// One combination of settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The settings.
    pub settings: Vec<Setting>,
    /// Its folder inside that of the sweep.
    pub folder: String,
    /// Planned I/Os per second over all workers, where a search decided them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Runs that it is to have; 0 in documents from before searches said so: those of the plan.
    #[serde(default)]
    pub repeats: u32,
    /// End that its runs are evidence for, where a search decided that before them: they count for
    /// nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<Shows>,
    /// I/Os per second over the runs that went through.
    pub iops: Option<Spread>,
    /// How far to believe them: from the worst verdict of each check over these runs, and from how
    /// many there are and how far they lie apart (H20).
    #[serde(default)]
    pub class: Class,
    /// Doubts about its runs as repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Its runs, by repeat.
    pub runs: Vec<CellRun>,
}

/// Claim that runs at a rate are evidence for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// More than half of all runs hold.
    Holds,
    /// Less than half of all runs do.
    Misses,
}

/// One run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellRun {
    /// Which repeat, from 1.
    pub repeat: u32,
    /// Its folder inside that of the sweep.
    pub folder: String,
    /// Why it is not a whole run, when it is not.
    #[serde(default)]
    pub failed: Option<String>,
    /// How its numbers came about.
    pub origin: Origin,
    /// As in the result: the least sure kind of the figures that they rest on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// How far to believe it.
    pub class: Class,
    /// What each honesty check came to, by its number.
    #[serde(default)]
    pub verdicts: BTreeMap<String, Verdict>,
    /// Beginning of the measured window, RFC 3339.
    pub started: String,
    /// For how long it counts as a repeat, in seconds: [`RunResult::repeat_seconds`].
    #[serde(default)]
    pub seconds: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// I/Os that ended in a fault.
    pub errors: u64,
    /// Connections lost and made again.
    #[serde(flatten)]
    pub connections: Connections,
    /// Latencies; response times where a rate was planned.
    pub latency_ns: Latency,
    /// Core time per I/O in microseconds.
    pub core_us_per_io: Option<f64>,
    /// Where it comes from.
    #[serde(default)]
    pub source: Source,
}

/// Cells that differ by their load only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What they have in common.
    pub settings: Vec<Setting>,
    /// What they differ by.
    pub axis: String,
    /// How many there are.
    pub points: usize,
    /// Where more load begins to buy more latency than rate.
    pub knee: Option<Knee>,
    /// What more of the same brings, where the axis counts things.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scale>,
}

/// What so many of something do, beside the fewest of them that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// How many, as the axis says it.
    pub value: String,
    /// The same as a number, in the unit of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// The rate over that of the fewest.
    pub times: f64,
    /// Between what it lies with 95 %; `null` unless both have at least three runs.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// Share of what as many times the fewest would do, 1 if all of it.
    pub share: f64,
}

/// The load with the highest power: rate divided by mean latency (L. Kleinrock, Power and
/// deterministic rules of thumb, 1979). Below it a system has room, beyond it queues grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Value of the axis.
    pub value: String,
    /// The same as a number, in the unit of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// I/Os per second there.
    pub iops: f64,
    /// Mean latency there.
    pub mean_ns: f64,
    /// It is the largest load that was measured: the real one may lie beyond.
    pub at_end: bool,
    /// The smallest load that was measured is the knee: the real one may lie below.
    #[serde(default)]
    pub at_start: bool,
    /// Loads that cannot be told apart from the best one, itself among them: one of them is it with
    /// 95 %. `null` where a load has fewer than three runs.
    #[serde(default)]
    pub among: Option<Vec<String>>,
    /// The same as numbers, in the unit of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub among_numbers: Option<Vec<f64>>,
}

/// The highest rate whose latency is within the bound: half of all runs hold there, which is to say
/// that the median of their p99 is the bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Of these settings.
    pub settings: Vec<Setting>,
    /// The rate, by a logistic curve through all runs of the search; `null` if none that was tried
    /// is as low. Documents from before it rested on [`runs`](Found::runs) have the highest rate
    /// that was tried and held.
    pub rate_per_s: Option<f64>,
    /// Runs that the curve goes through.
    #[serde(default)]
    pub runs: u32,
    /// Next rate below it that was tried.
    #[serde(default)]
    pub held_rate_per_s: Option<f64>,
    /// The runs that held there, and of how many.
    #[serde(default)]
    pub held: Option<Held>,
    /// The median of their p99.
    pub p99_ns: Option<u64>,
    /// Next rate above it that was tried; `null` if it is the highest one.
    pub missed_rate_per_s: Option<f64>,
    /// The runs that held there, and of how many.
    #[serde(default)]
    pub missed_held: Option<Held>,
    /// Highest rate at which runs decided that more than half of all hold: the lower end of an
    /// interval for the rate. `null` if there is none.
    #[serde(default)]
    pub low_per_s: Option<f64>,
    /// Lowest rate at which runs decided that less than half of all hold: the upper end. `null` if
    /// there is none up to the highest rate of a closed loop.
    #[serde(default)]
    pub high_per_s: Option<f64>,
    /// How often such an interval covers that rate at least, 0 to 1 (a bet against either end that
    /// may end at any time).
    #[serde(default)]
    pub confidence: f64,
    /// The runs at the rate that missed had too few I/Os for a p99: longer ones could pass.
    #[serde(default)]
    pub too_short: bool,
}

/// How many runs held, and of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Runs that went through without an error, kept their rate, and had a p99 within the bound.
    pub runs: u32,
    /// Runs in all.
    pub of: u32,
}

impl CellRun {
    /// The figures of a result.
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
    /// The runs that went through.
    pub fn whole_runs(&self) -> impl Iterator<Item = &CellRun> {
        self.runs.iter().filter(|run| run.failed.is_none())
    }

    /// What honesty checks came to over the runs that went through: the worst of each, and H20 by
    /// how far the runs lie apart.
    pub fn verdicts(&self) -> BTreeMap<&str, Verdict> {
        let mut worst: BTreeMap<&str, Verdict> = BTreeMap::new();
        for (code, verdict) in self.whole_runs().flat_map(|run| &run.verdicts) {
            let known = worst.entry(code).or_insert(*verdict);
            *known = known.worse(*verdict);
        }
        worst.insert("H20", self.repeats().verdict);
        worst
    }

    /// H20 of its runs: how many there are, how far they lie apart, and whether they are repeats.
    pub fn repeats(&self) -> Check {
        let runs: Vec<(f64, f64)> = self.whole_runs().map(|run| (run.iops, run.seconds)).collect();
        let doubts = self.doubts.iter().map(|doubt| (doubt.verdict, &*doubt.why));
        verdict::repeats(&runs).doubted(doubts)
    }

    /// How far to believe the cell, by the rule of a layout.
    pub fn judge(&self, layout: u32) -> Class {
        let verdicts = self.verdicts();
        if layout < EVERY_CHECK_SINCE {
            let check = |(code, verdict): (&&str, &Verdict)| Check::new(code, "", *verdict, "");
            return Class::of_earlier(&verdicts.iter().map(check).collect::<Vec<_>>());
        }
        // A check that a run lacks may have failed there; without a run nothing is known.
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

    /// Median of the runs' mean latencies in nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        Spread::of(self.whole_runs().filter_map(|run| run.latency_ns.mean)).map(|s| s.median)
    }

    /// Lowest and highest of a percentile over the runs; `None` if a run has too few samples.
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
            // One run alone says nothing of the next.
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
        // A busy host began late; the work of another one was done after a moment.
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
        let why = "late worked for 0.49 of 10.00 s: a moment is no repeat";
        assert_eq!(run(Some(10.0), 0.49).failed.as_deref(), Some(why));
        // The work was done.
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
        // A run that was cut does not count.
        faulty.runs[3].failed = Some("interrupted".to_owned());
        assert_eq!(faulty.judge(SCHEMA_VERSION), Class::Indicative, "four runs");
        assert_eq!(Cell::default().judge(SCHEMA_VERSION), Class::Indicative);
        // One run without a check of the list.
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
