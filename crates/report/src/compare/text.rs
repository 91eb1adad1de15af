//! A comparison in words: for a terminal, and the cells of tables on a page.

use std::io::{self, Write};

use block::printable;
use stats::RunResult;
use stats::ratio::FEWEST;

use super::{Change, Comparison, Difference, Figure, Sample, UNKEPT};
use crate::figure;
use crate::job;
use crate::painted::{Painted, printable_of};
use crate::style::Paint;

/// Renders a comparison for a terminal: first reasons against it, then the figures. `again` are the
/// commands that repeat both sides [`ENOUGH`] times.
pub fn painted(
    comparison: &Comparison,
    run: &RunResult,
    again: [&str; 2],
    paint: Paint,
) -> Painted {
    let again = again.map(printable);
    let mut out = Vec::new();
    let (shown, run) = (shown(comparison), printable_of(run));
    // A write to memory does not fail.
    let _ = write(&shown, &run, [&again[0], &again[1]], paint, &mut out);
    Painted::of(out)
}

/// Returns a comparison whose texts have no control characters.
pub(super) fn shown(comparison: &Comparison) -> Comparison {
    let plain = |text: &String| printable(text).into_owned();
    let difference =
        |it: &Difference| Difference { what: plain(&it.what), a: plain(&it.a), b: plain(&it.b) };
    Comparison {
        name: plain(&comparison.name),
        invalid: comparison.invalid.iter().map(plain).collect(),
        differences: comparison.differences.iter().map(difference).collect(),
        doubts: comparison.doubts.iter().map(plain).collect(),
        classes: comparison.classes.as_ref().map(|of| of.each_ref().map(plain)),
        ..comparison.clone()
    }
}

pub(super) fn write(
    comparison: &Comparison,
    run: &RunResult,
    again: [&str; 2],
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let name =
        if comparison.name.is_empty() { job::kind(&run.job) } else { comparison.name.clone() };
    writeln!(out, "{}", paint.bold(&name))?;
    for invalid in &comparison.invalid {
        let line = format!("  NOT COMPARABLE, {invalid}");
        writeln!(out, "{}", paint.red(&line))?;
    }
    for difference in &comparison.differences {
        let line = format!("  {}: {} → {}", difference.what, difference.a, difference.b);
        writeln!(out, "{}", paint.yellow(&line))?;
    }
    if !comparison.differences.is_empty() {
        let line = "  not the same measurement: a change below may come from any of these";
        writeln!(out, "{}", paint.yellow(line))?;
    }
    for doubt in &comparison.doubts {
        writeln!(out, "  {}", paint.yellow(doubt))?;
    }
    if let Some([a, b]) = &comparison.classes {
        writeln!(out, "  {}", paint.yellow(&format!("{a} → {b}")))?;
    }
    for figure in &comparison.figures {
        let change = change(figure);
        let verdict = match figure.verdict {
            Change::Higher | Change::Lower => paint.bold(&words(figure)),
            Change::NotToldApart | Change::Unchanged | Change::CannotTell => words(figure),
        };
        let (a, b) = (show(figure.name, &figure.a), show(figure.name, &figure.b));
        writeln!(out, "  {:<10} {a:>10} → {b:>10}  {change:<30}  {verdict}", figure.name)?;
    }
    let rests_on = rests_on(comparison, again);
    rests_on.iter().try_for_each(|line| writeln!(out, "  {}", paint.dim(line)))
}

/// The change of a figure in percent, with its interval if there is one.
pub(super) fn change(figure: &Figure) -> String {
    match (figure.ratio, figure.ratio_range) {
        (Some(ratio), Some([low, high])) => {
            format!("{} ({} to {})", percent(ratio), percent(low), percent(high))
        }
        (Some(ratio), None) => percent(ratio),
        (None, _) => figure::UNKNOWN.to_owned(),
    }
}

/// The ratio of a figure with its interval and one word: "IOPS +3.1 % (+2.0 % to +4.1 %), faster".
pub(crate) fn in_words(figure: &Figure) -> String {
    let [_, a, b, change, range, _] = row(figure).try_into().unwrap_or_default();
    let range = if range.is_empty() { range } else { format!(" ({range})") };
    let word = match figure.verdict {
        Change::Higher => "faster",
        Change::Lower => "slower",
        Change::NotToldApart => "not told apart",
        Change::Unchanged => "same",
        Change::CannotTell => "cannot tell",
    };
    format!("{a} → {b} {}, {change}{range}: {word}", figure.name)
}

/// The cells of a figure in a table: name, both sides, the change, its interval, the verdict.
pub(crate) fn row(figure: &Figure) -> Vec<String> {
    let range =
        figure.ratio_range.map(|[low, high]| format!("{} to {}", percent(low), percent(high)));
    vec![
        figure.name.to_owned(),
        show(figure.name, &figure.a),
        show(figure.name, &figure.b),
        figure.ratio.map_or_else(|| figure::UNKNOWN.to_owned(), percent),
        range.unwrap_or_default(),
        words(figure),
    ]
}

/// Change in percent, as "+3.1 %".
pub(super) fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

pub(super) fn show(name: &str, sample: &Sample) -> String {
    let value = sample.value;
    let text = match name {
        "IOPS" => figure::rate(value),
        "bytes/s" => figure::bytes_per_second(value),
        "µs core/IO" => format!("{value:.3}"),
        _ => figure::span(value),
    };
    if sample.at_least { format!("≥{text}") } else { text }
}

/// Returns the verdict and, without a change, the smallest detectable one.
pub(super) fn words(figure: &Figure) -> String {
    let seen = figure.detectable.map(|share| format!("{:.1} %", share * 100.0));
    match (figure.verdict, seen) {
        (Change::Higher, _) => "higher".to_owned(),
        (Change::Lower, _) => "lower".to_owned(),
        (Change::NotToldApart, _) => "not told apart among this many figures".to_owned(),
        (Change::Unchanged, Some(seen)) => format!("unchanged; from {seen} on it would show"),
        (Change::Unchanged, None) => "unchanged".to_owned(),
        (Change::CannotTell, _) if figure.a.at_least || figure.b.at_least => {
            "cannot tell: a lower bound".to_owned()
        }
        (Change::CannotTell, _) if figure.unkept => format!("cannot tell: {UNKEPT}"),
        (Change::CannotTell, Some(seen)) => {
            format!("cannot tell; only a change from {seen} on shows")
        }
        (Change::CannotTell, None) => "cannot tell: no interval".to_owned(),
    }
}

/// Returns lines on the basis of the intervals, or on how to get intervals.
fn rests_on(comparison: &Comparison, [a, b]: [&str; 2]) -> Vec<String> {
    let Some(figure) = comparison.figures.first() else {
        return vec!["nothing is known".to_owned()];
    };
    let (one, other) = (figure.a.runs, figure.b.runs);
    if one.min(other) >= FEWEST {
        return comparison.turns.words(one, other);
    }
    let runs = match (one, other) {
        (1, 1) => "one run each".to_owned(),
        _ => format!(
            "{} and {}",
            figure::plural(one as u64, "run"),
            figure::plural(other as u64, "run")
        ),
    };
    let mut lines =
        vec![format!("no interval: {runs}; {FEWEST} runs of each side give one; repeat with")];
    lines.extend(
        [(a, one), (b, other)]
            .into_iter()
            .filter(|(_, runs)| *runs < FEWEST)
            .map(|(again, _)| format!("  {again}")),
    );
    lines
}
