//! Thresholds, as `p99>500us`: the forbidden range, and whether a result is in it.
//!
//! A single run is judged by its figures, several runs by the interval of their median, and a
//! comparison by the interval of the ratio. Faults and maxima are judged by their sum and by the
//! maximum of all runs, as their median says nothing. A result that is invalid, or of imitated
//! storage that was not requested, misses every bound.

mod asked;
mod cell;

use std::str::FromStr;

use block::hint;

use stats::sweep::{Cell, CellRun, SweepResult};
use stats::{Bound, Class, Direction, Kept, Latency, RunResult, Spread};

use self::asked::unasked;
use self::cell::of_cell_run;
use crate::compare::{Comparison, UNKEPT};
use crate::{figure, reason};

/// A figure with a bound that it must not cross.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    figure: Figure,
    is_above: bool,
    /// In the unit of the figure; of a relative one a share of the first side.
    bound: f64,
    is_relative: bool,
    text: String,
}

/// Figure that may have a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Iops(Side),
    Bytes(Side),
    Latency(Side, Point),
    Errors,
    CoreTime,
    HostCpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    All,
    Reads,
    Writes,
    Flushes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Mean,
    P50,
    P90,
    P99,
    P999,
    P9999,
    Max,
}

impl std::fmt::Display for Threshold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Figures by their names, without the side: for typing mistakes.
const FIGURES: [&str; 12] = [
    "iops",
    "bw",
    "mean",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "p99.99",
    "max",
    "errors",
    "us_per_io",
    "cpu",
];
const NAMES: &str = "iops, bw, mean, p50, p90, p99, p99.9, p99.99, max (of reads, writes or \
                     flushes only: read.p99), errors, us_per_io, cpu";
/// Figures that comparisons have.
const COMPARED: &str = "iops, bw, mean, p50, p99, p99.9, us_per_io";
/// Minimum number of runs whose interval covers a median with 95 %.
const ENOUGH: usize = 6;

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let wrong = |why: &str| {
            format!("{why}: give a figure, < or >, and a bound, as 'p99>500us' or 'iops<900k'")
        };
        let at = text.find(['<', '>']).ok_or_else(|| wrong("< or > is missing"))?;
        let (name, rest) = text.split_at(at);
        let is_above = rest.starts_with('>');
        let bound = rest[1..].trim();
        if bound.starts_with('=') {
            return Err(wrong("<= and >= are not known"));
        }
        let figure = Figure::of(name.trim()).ok_or_else(|| {
            let name = name.trim();
            let near = hint(name.rsplit('.').next().unwrap_or(name), FIGURES);
            format!("unknown figure '{name}'{near}: use {NAMES}")
        })?;
        let share = bound.strip_suffix('%').filter(|_| figure != Figure::HostCpu);
        let is_relative = share.is_some();
        if is_relative && figure.compared().is_none() {
            let name = name.trim();
            return Err(format!("a change of {name} in percent is not known: use {COMPARED}"));
        }
        let bound = match share {
            Some(percent) => percent.trim().parse().ok().map(|percent: f64| percent / 100.0),
            None => figure.parse(bound),
        };
        let bound = bound.filter(|bound| bound.is_finite());
        let bound = bound.ok_or_else(|| wrong(&format!("'{}' is not a bound", &rest[1..])))?;
        Ok(Threshold { figure, is_above, bound, is_relative, text: text.trim().to_owned() })
    }
}

impl Figure {
    fn of(name: &str) -> Option<Figure> {
        let name = name.to_ascii_lowercase();
        let (side, rest) = match name.split_once('.') {
            Some(("read" | "reads", rest)) => (Side::Reads, rest),
            Some(("write" | "writes", rest)) => (Side::Writes, rest),
            Some(("flush" | "flushes", rest)) => (Side::Flushes, rest),
            _ => (Side::All, &name[..]),
        };
        let latency = |point| Some(Figure::Latency(side, point));
        match rest {
            "iops" => Some(Figure::Iops(side)),
            "bw" | "bandwidth" | "mb/s" | "bytes_per_second" => Some(Figure::Bytes(side)),
            "mean" | "latency" => latency(Point::Mean),
            "p50" | "median" => latency(Point::P50),
            "p90" => latency(Point::P90),
            "p99" => latency(Point::P99),
            "p99.9" | "p99_9" | "p999" => latency(Point::P999),
            "p99.99" | "p99_99" | "p9999" => latency(Point::P9999),
            "max" | "p100" => latency(Point::Max),
            "errors" if side == Side::All => Some(Figure::Errors),
            "us_per_io" | "core_us_per_io" if side == Side::All => Some(Figure::CoreTime),
            "cpu" | "host_percent" if side == Side::All => Some(Figure::HostCpu),
            _ => None,
        }
    }

    /// A bound in the unit of the figure.
    fn parse(self, text: &str) -> Option<f64> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-');
        let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
        let unit = unit.trim();
        let times = match (self, unit) {
            (Figure::Latency(..), "ns") => 1.0,
            (Figure::Latency(..), "us" | "µs" | "μs") => 1e3,
            (Figure::Latency(..), "ms") => 1e6,
            (Figure::Latency(..), "s") => 1e9,
            // A latency without a unit could be any.
            (Figure::Latency(..), _) => return None,
            (Figure::CoreTime, "" | "us" | "µs") | (Figure::HostCpu, "" | "%") => 1.0,
            (Figure::Errors, "") => 1.0,
            (Figure::Iops(_), "") => 1.0,
            (Figure::Iops(_), unit) => prefix(unit)?,
            (Figure::Bytes(_), "B/s" | "B") => 1.0,
            (Figure::Bytes(_), unit) => {
                prefix(unit.strip_suffix("B/s").or_else(|| unit.strip_suffix('B'))?)?
            }
            _ => return None,
        };
        digits.parse::<f64>().ok().map(|number| number * times)
    }

    /// Returns the figure's value in a result, and whether it is only a lower bound.
    fn value(self, result: &RunResult) -> Option<(f64, bool)> {
        let totals = &result.totals;
        let direction = |side| -> Option<&Direction> {
            match side {
                Side::All => None,
                Side::Reads => Some(&totals.read),
                Side::Writes => Some(&totals.write),
                Side::Flushes => Some(&totals.flush),
            }
        };
        let exact = |value| Some((value, false));
        match self {
            Figure::Iops(side) => exact(direction(side).map_or(totals.iops, |of| of.iops)),
            Figure::Bytes(side) => {
                exact(direction(side).map_or(totals.bytes_per_second, |of| of.bytes_per_second))
            }
            Figure::Latency(side, point) => {
                latency(direction(side).map_or(&totals.latency_ns, |of| &of.latency_ns), point)
            }
            Figure::Errors => exact(totals.errors as f64),
            Figure::CoreTime => result.cpu.core_us_per_io.map(|us| (us, false)),
            Figure::HostCpu => result.cpu.host_percent.map(|percent| (percent, false)),
        }
    }

    /// Returns the figure's name in comparisons.
    fn compared(self) -> Option<&'static str> {
        match self {
            Figure::Iops(Side::All) => Some("IOPS"),
            Figure::Bytes(Side::All) => Some("bytes/s"),
            Figure::Latency(Side::All, Point::Mean) => Some("mean"),
            Figure::Latency(Side::All, Point::P50) => Some("p50"),
            Figure::Latency(Side::All, Point::P99) => Some("p99"),
            Figure::Latency(Side::All, Point::P999) => Some("p99.9"),
            Figure::CoreTime => Some("µs core/IO"),
            _ => None,
        }
    }

    /// Returns whether a sweep's document does not have the figure.
    fn is_in_results_only(self) -> bool {
        match self {
            Figure::Iops(side) | Figure::Bytes(side) | Figure::Latency(side, _) => {
                side != Side::All
            }
            Figure::HostCpu => true,
            Figure::Errors | Figure::CoreTime => false,
        }
    }

    fn words(self, value: f64) -> String {
        match self {
            Figure::Iops(Side::Flushes) => format!("{} flushes a second", figure::rate(value)),
            Figure::Iops(_) => figure::iops(value),
            Figure::Bytes(_) => figure::bytes_per_second(value),
            Figure::Latency(..) => figure::span(value),
            Figure::Errors => figure::plural(value as u64, "error"),
            Figure::CoreTime => format!("{value:.3} µs"),
            Figure::HostCpu => format!("{value:.1} %"),
        }
    }
}

fn prefix(unit: &str) -> Option<f64> {
    match unit {
        "" => Some(1.0),
        "k" | "K" => Some(1e3),
        "M" | "m" => Some(1e6),
        "G" | "g" => Some(1e9),
        _ => None,
    }
}

fn latency(of: &Latency, point: Point) -> Option<(f64, bool)> {
    if point == Point::Mean {
        return of.mean.map(|mean| (mean, of.mean_at_least()));
    }
    let ns = match point {
        Point::P50 => of.p50,
        Point::P90 => of.p90,
        Point::P99 => of.p99,
        Point::P999 => of.p99_9,
        Point::P9999 => of.p99_99,
        Point::Max | Point::Mean => of.max,
    };
    ns.map(|ns| (ns as f64, of.at_least(ns)))
}

impl Threshold {
    /// Whether it holds a change against another side, which a single run has none of.
    pub fn is_relative(&self) -> bool {
        self.is_relative
    }

    fn crosses(&self, value: f64) -> bool {
        if self.is_above { value > self.bound } else { value < self.bound }
    }

    /// Returns the verdict on an interval from `low` to `high`.
    fn between(&self, low: f64, high: f64) -> Kept {
        match (self.crosses(low), self.crosses(high)) {
            (true, true) => Kept::Missed,
            (false, false) => Kept::Kept,
            _ => Kept::Unknown,
        }
    }

    fn bound(&self, of: &str, (verdict, evidence, value): Told) -> Bound {
        Bound { bound: self.text.clone(), of: of.to_owned(), value, verdict, evidence }
    }

    /// Whether a run crossed it.
    pub fn of_run(&self, of: &str, result: &RunResult) -> Bound {
        self.of_runs(of, std::slice::from_ref(result))
    }

    /// Whether several runs crossed it.
    pub fn of_runs(&self, of: &str, results: &[RunResult]) -> Bound {
        self.unless_refused(of, results, self.told(results, &[]))
    }

    /// Returns the bound; missed for results that are invalid or not of the requested storage.
    fn unless_refused(&self, of: &str, results: &[RunResult], told: Told) -> Bound {
        let why = invalid(results).or_else(|| results.iter().find_map(unasked));
        match why {
            Some(why) => self.bound(of, (Kept::Missed, format!("{}; {why}", told.1), told.2)),
            None => self.bound(of, told),
        }
    }

    /// Returns the verdict on whole runs. Faults and the longest I/O of `cut` runs count too.
    fn told(&self, whole: &[RunResult], cut: &[RunResult]) -> Told {
        match (self.figure, whole) {
            (Figure::Errors, _) => self.sum(whole, cut),
            (Figure::Latency(_, Point::Max), _) => self.most(whole, cut),
            (_, []) => (Kept::Unknown, NO_RUN.to_owned(), None),
            (_, [result]) => match self.figure.value(result) {
                None => (Kept::Unknown, TOO_FEW.to_owned(), None),
                Some((value, at_least)) => self.one(value, at_least, ""),
            },
            (..) => self.interval(whole),
        }
    }

    /// Judges a single figure, perhaps a lower bound.
    fn one(&self, value: f64, at_least: bool, of: &str) -> Told {
        let words = self.figure.words(value);
        let verdict = self.between(value, if at_least { f64::INFINITY } else { value });
        match (at_least, verdict) {
            (true, Kept::Unknown) => {
                let why = "I/Os without an answer may have taken longer";
                (verdict, format!("at least {words}{of}: {why}"), Some(value))
            }
            _ => (verdict, format!("{words}{of}"), Some(value)),
        }
    }

    /// Errors of all runs together: one in one of them is one.
    fn sum(&self, whole: &[RunResult], cut: &[RunResult]) -> Told {
        let all = || whole.iter().chain(cut);
        let errors = all().map(|result| result.totals.errors).fold(0, u64::saturating_add);
        let with = all().filter(|result| result.totals.errors > 0).count();
        let of = match (all().count(), with) {
            (0, _) => return (Kept::Unknown, NO_RUN.to_owned(), None),
            (1, _) => String::new(),
            (runs, 0) => format!(" in {runs} runs"),
            (runs, with) => format!(" in {with} of {runs} runs"),
        };
        let told = self.one(errors as f64, false, &of);
        match told {
            (Kept::Kept, words, value) if whole.is_empty() => {
                (Kept::Unknown, format!("{words}; {NO_RUN}"), value)
            }
            told => told,
        }
    }

    /// The largest of all runs.
    fn most(&self, whole: &[RunResult], cut: &[RunResult]) -> Told {
        let of = |result: &RunResult| self.figure.value(result);
        let known = whole.iter().chain(cut).filter_map(of);
        let Some((most, _)) = known.reduce(|a, b| if b.0 > a.0 { b } else { a }) else {
            let why = if whole.is_empty() { NO_RUN } else { TOO_FEW };
            return (Kept::Unknown, why.to_owned(), None);
        };
        // Each value may be a lower bound.
        let open = whole.iter().map(of).any(|value| value.is_none_or(|(_, at_least)| at_least));
        let of = match whole.len() + cut.len() {
            1 => String::new(),
            runs => format!(", the most of {runs} runs"),
        };
        self.one(most, open || whole.is_empty(), &of)
    }

    /// The interval of the median of several runs.
    fn interval(&self, results: &[RunResult]) -> Told {
        let values: Option<Vec<(f64, bool)>> =
            results.iter().map(|result| self.figure.value(result)).collect();
        let Some(values) = values else {
            return (Kept::Unknown, TOO_FEW.to_owned(), None);
        };
        let at_least = values.iter().any(|(_, at_least)| *at_least);
        let Some(spread) = Spread::of(values.into_iter().map(|(value, _)| value)) else {
            return (Kept::Unknown, NO_RUN.to_owned(), None);
        };
        let [median, low, high] =
            [spread.median, spread.low, spread.high].map(|value| self.figure.words(value));
        let n = spread.n;
        let sure = match n {
            ENOUGH.. => String::new(),
            _ => {
                let percent = spread.confidence * 100.0;
                format!(" ({percent:.0} % confidence; {ENOUGH} runs give 95 %)")
            }
        };
        let open = if at_least { "; I/Os without an answer may have taken longer" } else { "" };
        let evidence = format!("{median}, {low} to {high} of {n} runs{sure}{open}");
        let end = if at_least { f64::INFINITY } else { spread.high };
        (self.between(spread.low, end), evidence, Some(spread.median))
    }

    /// Returns whether the cells of a sweep crossed the threshold. Most figures are in the sweep's
    /// document; `read` finds the result of a run for the others.
    pub fn of_sweep(
        &self,
        sweep: &SweepResult,
        read: &dyn Fn(&CellRun) -> Option<RunResult>,
    ) -> Vec<Bound> {
        sweep.cells.iter().map(|cell| self.of_cell(sweep, cell, read)).collect()
    }

    fn of_cell(
        &self,
        sweep: &SweepResult,
        cell: &Cell,
        read: &dyn Fn(&CellRun) -> Option<RunResult>,
    ) -> Bound {
        let words = cell.settings.iter().map(|s| format!("{}={}", s.word, s.value));
        let name = words.collect::<Vec<_>>().join(" ");
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        for run in &cell.runs {
            let mut known = of_cell_run(sweep, cell, run);
            if self.figure.is_in_results_only() && run.failed.is_none() {
                let Some(result) = read(run) else {
                    let why = format!("the result of {} cannot be read", run.folder);
                    return self.bound(&name, (Kept::Unknown, why, None));
                };
                (known.totals, known.cpu) = (result.totals, result.cpu);
            }
            if run.failed.is_none() { whole.push(known) } else { cut.push(known) }
        }
        self.unless_refused(&name, &whole, self.told(&whole, &cut))
    }

    /// Whether a comparison crossed it: a change by its interval, a plain bound by the second side.
    pub fn of_comparison(
        &self,
        comparison: &Comparison,
        before: &[RunResult],
        after: &[RunResult],
    ) -> Bound {
        let of = &comparison.name;
        if !self.is_relative {
            return self.of_runs(of, after);
        }
        let told = self.change(comparison);
        let unasked = before.iter().chain(after).find_map(unasked);
        match comparison.invalid.first().cloned().or(unasked) {
            Some(why) => self.bound(of, (Kept::Missed, format!("{}; {why}", told.1), told.2)),
            None => self.bound(of, told),
        }
    }

    fn change(&self, comparison: &Comparison) -> Told {
        let name = self.figure.compared();
        let found = comparison.figures.iter().find(|figure| Some(figure.name) == name);
        let Some((found, ratio)) = found.and_then(|found| Some((found, found.ratio?))) else {
            return (Kept::Unknown, "this figure is missing on one side".to_owned(), None);
        };
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        if found.unkept {
            return (Kept::Unknown, format!("{}, and {UNKEPT}", percent(ratio)), Some(ratio));
        }
        let Some([low, high]) = found.ratio_range else {
            let why = format!(
                "{}, of {} and {} runs: three or more of each tell a change from noise",
                percent(ratio),
                found.a.runs,
                found.b.runs
            );
            return (Kept::Unknown, why, Some(ratio));
        };
        let evidence = format!("{} ({} to {})", percent(ratio), percent(low), percent(high));
        (self.between(low - 1.0, high - 1.0), evidence, Some(ratio))
    }
}

/// Verdict on a bound, its evidence as text, and the figure it was compared with, if one is known.
type Told = (Kept, String, Option<f64>);

const NO_RUN: &str = "no run went through";
const TOO_FEW: &str = "too few I/Os or moments for this figure, or not measured: run longer";

/// Why the figures of these runs mean something else, if an honesty check of one failed.
fn invalid(results: &[RunResult]) -> Option<String> {
    let bad = || results.iter().filter(|result| result.class == Class::Invalid);
    let first = reason::verdict(bad().next()?);
    Some(match results.len() {
        1 => format!("the result is {first}"),
        runs => format!("{} of {runs} runs are {first}", bad().count()),
    })
}

#[cfg(test)]
mod test;
