//! Summary of a sweep for the last screen of a terminal: the number of its only or best cell, its
//! credibility and reason, and the other cells.

use std::io::{self, Write};

use stats::sweep::{Cell, SweepResult};
use stats::{Class, Origin};

use super::{
    against, doubts, failures, knee, range, rests_on, search, short_seconds, wanted, words_of,
};
use crate::bounds;
use crate::figure;
use crate::painted::{Painted, printable_of};
use crate::reason;
use crate::style::Paint;

/// Width of a label at the beginning of a line.
const LABEL: usize = 9;

/// The sum, the line that counts most first: a reader may cut it anywhere below.
pub fn closing(sweep: &SweepResult, paint: Paint) -> Painted {
    let mut out = Vec::new();
    // A write to memory does not fail.
    let _ = write(&printable_of(sweep), paint, &mut out);
    Painted::of(out)
}

fn write(sweep: &SweepResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    writeln!(out)?;
    // The number is the one that was searched for.
    for found in &sweep.found {
        writeln!(out, "{}", paint.bold(&search(sweep, found)))?;
    }
    let measured = sweep.cells.iter().filter_map(|cell| Some((cell, cell.iops?)));
    match measured.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
        Some((best, _)) => write_best(sweep, best, paint, out)?,
        None => writeln!(out, "{}", rests_on(sweep))?,
    }
    if sweep.cells.len() > 1 {
        writeln!(out, "{:LABEL$}{}", "cells", classes(sweep))?;
    }
    let failed = failures(sweep);
    if let Some(first) = failed.first() {
        let line = format!("{:LABEL$}{first}{}", "failed", more(failed.len()));
        writeln!(out, "{}", paint.red(&line))?;
    }
    let doubts = doubts(sweep);
    if let Some(first) = doubts.first() {
        writeln!(out, "{}", paint.yellow(&format!("{first}{}", more(doubts.len()))))?;
    }
    if !sweep.bounds.is_empty() {
        writeln!(out, "{}", bounds::sum(&sweep.bounds, paint))?;
    }
    let held = against(sweep);
    let held: Vec<String> =
        held.iter().map(|(code, worst, _)| format!("{code} {}", worst.word())).collect();
    if !held.is_empty() {
        writeln!(out, "{:LABEL$}{} (above)", "checks", held.join(", "))?;
    }
    let mut bends = sweep.series.iter().filter(|series| series.knee.is_some());
    match bends.next() {
        Some(first) => writeln!(out, "{}{}", knee(first), more(bends.count() + 1)),
        None => Ok(()),
    }
}

/// Returns ", and 3 more (above)" after the first of `all`.
fn more(all: usize) -> String {
    if all > 1 { format!(", and {} more (above)", all - 1) } else { String::new() }
}

/// Writes number, origin, class and reason of a cell, its interval, and its latencies.
fn write_best(
    sweep: &SweepResult,
    cell: &Cell,
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some(iops) = cell.iops else { return Ok(()) };
    let first = cell.whole_runs().next();
    let origin = first.map(|run| run.origin.with(run.kind)).unwrap_or_default();
    let length = match short_seconds(cell) {
        Some(seconds) => format!(" in {}", figure::seconds(seconds)),
        None => String::new(),
    };
    let name = words_of(cell);
    let at = if name.is_empty() { name } else { format!(" at {name}") };
    let class = match reason::worst_of(cell.verdicts()) {
        Some((code, verdict)) => {
            let words = reason::short(code, verdict).unwrap_or(verdict.word());
            format!("{}: {words} ({code})", cell.class.word())
        }
        None => cell.class.word().to_owned(),
    };
    let class = if cell.class == Class::Invalid { paint.red(&class) } else { class };
    let number = paint.bold(&figure::iops(iops.median));
    let best = if sweep.cells.len() > 1 { "best: " } else { "" };
    writeln!(out, "{best}{number} {origin}{length}{at}, {class}")?;
    let spread = match iops.n {
        1 => "one run, no interval".to_owned(),
        _ => format!(
            "{} – {} ({:.0} %)",
            figure::rate(iops.low),
            figure::iops(iops.high),
            iops.confidence * 100.0
        ),
    };
    let (done, wanted) = (cell.whole_runs().count(), wanted(sweep, cell));
    writeln!(out, "{:LABEL$}{done} of {wanted}; {spread}", "runs")?;
    let withheld = first.is_some_and(|run| run.origin == Origin::Simulated);
    let p50 = range(cell, |latency| latency.p50);
    if withheld && p50 == figure::UNKNOWN {
        let mean = cell.mean_ns().map_or_else(|| figure::UNKNOWN.to_owned(), figure::span);
        return writeln!(out, "{:LABEL$}mean {mean}; percentiles: not calibrated", "latency");
    }
    let p99 = range(cell, |latency| latency.p99);
    let max = range(cell, |latency| latency.max);
    writeln!(out, "{:LABEL$}p50 {p50}   p99 {p99}   max {max}", "latency")
}

/// Number of cells, by class.
fn classes(sweep: &SweepResult) -> String {
    let of = |class: Class| {
        let cells = sweep.cells.iter().filter(|cell| cell.iops.is_some() && cell.class == class);
        (cells.count(), class.word())
    };
    let unmeasured = sweep.cells.iter().filter(|cell| cell.iops.is_none()).count();
    let all = [
        of(Class::Publishable),
        of(Class::Indicative),
        of(Class::Invalid),
        (unmeasured, "not measured"),
    ];
    let words: Vec<String> = all
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    format!("{}: {}", sweep.cells.len(), words.join(", "))
}

#[cfg(test)]
mod test {
    use super::*;
    use stats::sweep::{CellRun, Doubt, Knee, Series, Setting, SweepPlan};
    use stats::{Bound, Kept, Latency, Spread, Verdict};

    fn cell(value: &str, rates: &[f64], class: Class) -> Cell {
        let run = |(repeat, iops): (u32, &f64)| CellRun {
            repeat,
            folder: format!("{value}/{repeat}"),
            iops: *iops,
            seconds: 30.0,
            latency_ns: Latency {
                p50: Some(1000 * u64::from(repeat)),
                p99: Some(9000),
                max: Some(40_000 * u64::from(repeat)),
                ..Latency::default()
            },
            verdicts: [("H06".to_owned(), Verdict::Warn)].into(),
            ..CellRun::default()
        };
        Cell {
            settings: vec![Setting { word: "size".to_owned(), value: value.to_owned() }],
            iops: Spread::of(rates.iter().copied()),
            runs: (1..).zip(rates).map(run).collect(),
            class,
            ..Cell::default()
        }
    }

    fn told(sweep: &SweepResult) -> Vec<String> {
        closing(sweep, Paint::PLAIN).as_str().lines().map(str::to_owned).collect()
    }

    #[test]
    fn one_cell_is_a_number_with_its_spread_its_latencies_and_its_reason() {
        let mut one = cell("4k", &[1e6, 2e6, 1.1e6], Class::Indicative);
        let plan = SweepPlan { repeats: 3, ..SweepPlan::default() };
        let sweep = |cell: &Cell| SweepResult {
            plan: plan.clone(),
            cells: vec![cell.clone()],
            ..SweepResult::default()
        };
        assert_eq!(
            told(&sweep(&one)),
            [
                "",
                "1.10M IOPS measured at size=4k, indicative: no steady state (H06)",
                "runs     3 of 3; 1.00M – 2.00M IOPS (75 %)",
                "latency  p50 1.00 µs – 3.00 µs   p99 9.00 µs   max 40.0 µs – 120 µs",
                "checks   H06 warn, H20 unknown (above)",
            ]
        );
        // A lower bound is one here, too.
        one.runs[2].latency_ns.waiting_from = Some(120_000);
        one.runs[0].seconds = 0.2;
        let told = told(&sweep(&one));
        assert!(told[1].contains(" measured in 0.20 s at size=4k"), "{told:?}");
        assert!(told[3].ends_with("max 40.0 µs – ≥120 µs"), "{told:?}");
    }

    #[test]
    fn of_many_cells_the_best_stands_for_all_and_what_is_wrong_is_told() {
        let knee = Knee { value: "4k".into(), iops: 2e6, mean_ns: 1e4, ..Knee::default() };
        let mut sweep = SweepResult {
            cells: vec![
                cell("512", &[1e6], Class::Publishable),
                cell("4k", &[3e6], Class::Invalid),
                cell("8k", &[], Class::Indicative),
            ],
            series: vec![Series { axis: "size".into(), knee: Some(knee), ..Series::default() }],
            bounds: vec![
                Bound { bound: "iops<1".into(), verdict: Kept::Kept, ..Bound::default() },
                Bound { bound: "p99>1us".into(), verdict: Kept::Missed, ..Bound::default() },
            ],
            ..SweepResult::default()
        };
        sweep.plan.repeats = 1;
        sweep.cells[0].doubts = vec![Doubt { verdict: Verdict::Warn, why: "picked".into() }];
        sweep.cells[0].runs[0].errors = 3;
        sweep.cells[1].runs[0].errors = 1;
        assert_eq!(
            told(&sweep),
            [
                "",
                "best: 3.00M IOPS measured at size=4k, invalid: no steady state (H06)",
                "runs     1 of 1; one run, no interval",
                "latency  p50 1.00 µs   p99 9.00 µs   max 40.0 µs",
                "cells    3: 1 publishable, 1 invalid, 1 not measured",
                "failed   512/1: 3 errors, and 1 more (above)",
                "repeats of size=512: picked",
                "bounds   1 of 2 missed: fail if p99>1us: ",
                "checks   H06 warn, H20 warn (above)",
                "knee: at size=4k, 2.00M IOPS with 10.0 µs on average; three runs of each load say \
                 how sure that is",
            ]
        );
        assert_eq!(told(&SweepResult::default()), ["", "not measured yet"]);
    }
}
