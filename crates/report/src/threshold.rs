//! Thresholds, as `p99>500us`: what must not be, and whether it is.
//!
//! Of a single run its figures decide; of several the interval of their median, and of a comparison
//! the interval of the ratio. What the interval does not decide cannot be told, which is said and
//! is no miss.

use std::fmt;
use std::str::FromStr;

use stats::sweep::SweepResult;
use stats::{Direction, Latency, RunResult, Spread};

use crate::compare::Comparison;
use crate::figure;

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

/// What may have a bound.
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

/// What a threshold came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The threshold as it was given.
    pub threshold: String,
    /// Of what, as "size=4k"; empty where there is only one.
    pub of: String,
    /// Whether it was crossed.
    pub outcome: Outcome,
    /// The figures.
    pub why: String,
}

/// Whether a threshold was crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No.
    Kept,
    /// Yes: the job is to fail.
    Missed,
    /// The figures do not decide it.
    CannotTell,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.outcome {
            Outcome::Kept => "kept",
            Outcome::Missed => "MISSED",
            Outcome::CannotTell => "cannot tell",
        };
        let gap = if self.of.is_empty() { "" } else { " " };
        write!(f, "{word}: {}{gap}fail if {}: {}", self.of, self.threshold, self.why)
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const NAMES: &str = "iops, bw, mean, p50, p90, p99, p99.9, p99.99, max (of reads or writes only: \
                     read.p99), errors, us_per_io, cpu";

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
        let figure = Figure::of(name.trim())
            .ok_or_else(|| format!("unknown figure '{}': use {NAMES}", name.trim()))?;
        let share = bound.strip_suffix('%').filter(|_| figure != Figure::HostCpu);
        let is_relative = share.is_some();
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
            "max" => latency(Point::Max),
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

    /// What it is in a result; whether it is only a lower bound.
    fn value(self, result: &RunResult) -> Option<(f64, bool)> {
        let totals = &result.totals;
        let direction = |side| -> Option<&Direction> {
            match side {
                Side::All => None,
                Side::Reads => Some(&totals.read),
                Side::Writes => Some(&totals.write),
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

    /// What comparisons call it.
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

    fn words(self, value: f64) -> String {
        match self {
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

    fn held(&self, of: &str, outcome: Outcome, why: String) -> Held {
        Held { threshold: self.text.clone(), of: of.to_owned(), outcome, why }
    }

    fn crosses(&self, value: f64) -> bool {
        if self.is_above { value > self.bound } else { value < self.bound }
    }

    /// Whether a run crossed it.
    pub fn of_run(&self, of: &str, result: &RunResult) -> Held {
        let Some((value, at_least)) = self.figure.value(result) else {
            let why = "too few I/Os for this figure, or not measured: run longer".to_owned();
            return self.held(of, Outcome::CannotTell, why);
        };
        let crosses = self.crosses(value);
        let words = self.figure.words(value);
        match (at_least, crosses, self.is_above) {
            // It may be longer than what is known.
            (true, false, true) | (true, true, false) => {
                let why = format!("at least {words}: I/Os without an answer may have taken longer");
                self.held(of, Outcome::CannotTell, why)
            }
            (_, true, _) => self.held(of, Outcome::Missed, words),
            (_, false, _) => self.held(of, Outcome::Kept, words),
        }
    }

    /// Whether the median of several runs crossed it, as far as their interval says.
    pub fn of_runs(&self, of: &str, results: &[RunResult]) -> Held {
        if let [result] = results {
            return self.of_run(of, result);
        }
        let each: Vec<Held> = results.iter().map(|result| self.of_run(of, result)).collect();
        if let Some(unknown) = each.iter().find(|held| held.outcome == Outcome::CannotTell) {
            return unknown.clone();
        }
        let values = results.iter().filter_map(|result| self.figure.value(result));
        let Some(spread) = Spread::of(values.map(|(value, _)| value)) else {
            return self.held(of, Outcome::CannotTell, "no run went through".to_owned());
        };
        let [median, low, high] =
            [spread.median, spread.low, spread.high].map(|value| self.figure.words(value));
        let why = format!("{median}, {low} to {high} of {} runs", spread.n);
        let outcome = match (self.crosses(spread.low), self.crosses(spread.high)) {
            (true, true) => Outcome::Missed,
            (false, false) => Outcome::Kept,
            _ => Outcome::CannotTell,
        };
        self.held(of, outcome, why)
    }

    /// Whether the cells of a sweep crossed it, of which the figures are known that its document
    /// has.
    pub fn of_sweep(&self, sweep: &SweepResult) -> Vec<Held> {
        let cell = |cell: &stats::sweep::Cell| {
            let words = cell.settings.iter().map(|s| format!("{}={}", s.word, s.value));
            let name = words.collect::<Vec<_>>().join(" ");
            let run = |run: &stats::sweep::CellRun| {
                let mut result = RunResult::default();
                result.totals.iops = run.iops;
                result.totals.bytes_per_second = run.bytes_per_second;
                result.totals.errors = run.errors;
                result.totals.latency_ns = run.latency_ns;
                result.cpu.core_us_per_io = run.core_us_per_io;
                result
            };
            let runs: Vec<RunResult> = cell.whole_runs().map(run).collect();
            if matches!(
                self.figure,
                Figure::Iops(Side::Reads | Side::Writes)
                    | Figure::Bytes(Side::Reads | Side::Writes)
                    | Figure::Latency(Side::Reads | Side::Writes, _)
            ) {
                let why = "a sweep has no separate figures of reads and writes".to_owned();
                return self.held(&name, Outcome::CannotTell, why);
            }
            self.of_runs(&name, &runs)
        };
        sweep.cells.iter().map(cell).collect()
    }

    /// Whether a comparison crossed it: a change by its interval, a plain bound by the second side.
    pub fn of_comparison(&self, comparison: &Comparison, after: &[RunResult]) -> Held {
        let of = &comparison.name;
        if !self.is_relative {
            return self.of_runs(of, after);
        }
        let name = self.figure.compared();
        let found = comparison.figures.iter().find(|figure| Some(figure.name) == name);
        let Some((found, ratio)) = found.and_then(|found| Some((found, found.ratio?))) else {
            let why = "this figure is missing on one side".to_owned();
            return self.held(of, Outcome::CannotTell, why);
        };
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        if let Some(invalid) = comparison.invalid.first() {
            return self.held(of, Outcome::CannotTell, invalid.clone());
        }
        let Some([low, high]) = found.ratio_range else {
            let why = format!(
                "{}, of {} and {} runs: three or more of each tell a change from noise",
                percent(ratio),
                found.a.runs,
                found.b.runs
            );
            return self.held(of, Outcome::CannotTell, why);
        };
        let why = format!("{} ({} to {})", percent(ratio), percent(low), percent(high));
        let outcome = match (self.crosses(low - 1.0), self.crosses(high - 1.0)) {
            (true, true) => Outcome::Missed,
            (false, false) => Outcome::Kept,
            _ => Outcome::CannotTell,
        };
        self.held(of, outcome, why)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::compare::compare;
    use crate::generated;

    fn threshold(text: &str) -> Threshold {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn what_is_typed_is_understood_or_refused_with_what_is_known() {
        assert_eq!(threshold("p99>500us").bound, 500e3);
        assert_eq!(threshold(" iops < 900k ").bound, 900e3);
        assert_eq!(threshold("bw<1.5GB/s").bound, 1.5e9);
        assert_eq!(threshold("read.p99.9>2ms").bound, 2e6);
        assert_eq!(threshold("iops<-3%").bound, -0.03);
        assert!(threshold("iops<-3%").is_relative() && !threshold("cpu>90%").is_relative());
        for wrong in ["", "p99", "p99>5", "p99>=5ms", "p98>5ms", "iops<fast", "iops<1us", "bw<5"] {
            let why = wrong.parse::<Threshold>().unwrap_err();
            assert!(why.contains("p99") || why.contains("there are"), "{wrong}: {why}");
        }
        for wrong in ["iops<NaN", "iops<inf", "errors>1e999"] {
            assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
        }
    }

    fn runs(rates: &[f64]) -> Vec<RunResult> {
        let one = |rate: &f64| {
            let seeds = (1..).map(generated::small);
            let mut result = { seeds }.find(|run| run.class != stats::Class::Invalid).unwrap();
            (result.totals.iops, result.totals.latency_ns.p99) = (*rate, None);
            result
        };
        rates.iter().map(one).collect()
    }

    #[test]
    fn a_run_is_missed_kept_or_not_told() {
        let [run] = &runs(&[1000.0])[..] else { panic!() };
        let outcome = |text: &str| threshold(text).of_run("", run).outcome;
        assert_eq!(outcome("iops<2k"), Outcome::Missed);
        assert_eq!(outcome("iops<999"), Outcome::Kept);
        assert_eq!(outcome("iops>1000"), Outcome::Kept);
        assert_eq!(outcome("p99>1ns"), Outcome::CannotTell, "withheld");
        let mut run = run.clone();
        run.totals.latency_ns.max = Some(5_000_000);
        run.totals.latency_ns.waiting_from = Some(1_000_000);
        let outcome = |text: &str| threshold(text).of_run("", &run).outcome;
        assert_eq!(outcome("max>4ms"), Outcome::Missed, "it is longer in any case");
        assert_eq!(outcome("max>6ms"), Outcome::CannotTell, "it may be longer");
    }

    #[test]
    fn several_runs_decide_by_their_interval() {
        let outcome = |rates: &[f64]| threshold("iops<1000").of_runs("", &runs(rates)).outcome;
        assert_eq!(outcome(&[900.0, 950.0, 990.0]), Outcome::Missed);
        assert_eq!(outcome(&[1001.0, 1100.0, 1050.0]), Outcome::Kept);
        assert_eq!(outcome(&[900.0, 1100.0, 1050.0]), Outcome::CannotTell);
    }

    #[test]
    fn a_change_within_noise_is_not_told_and_one_beyond_it_is() {
        let outcome = |a: &[f64], b: &[f64]| {
            let (a, b) = (runs(a), runs(b));
            threshold("iops<-3%").of_comparison(&compare("", &a, &b), &b).outcome
        };
        let steady = [1000.0, 1001.0, 1000.5, 999.0, 1000.0];
        assert_eq!(outcome(&[1000.0], &[100.0]), Outcome::CannotTell, "one run each");
        let slow: Vec<f64> = steady.iter().map(|rate| rate * 0.9).collect();
        assert_eq!(outcome(&steady, &slow), Outcome::Missed);
        assert_eq!(outcome(&steady, &steady), Outcome::Kept);
        let wild = [1000.0, 850.0, 1150.0, 900.0, 1100.0];
        assert_eq!(outcome(&wild, &wild), Outcome::CannotTell);
    }
}
