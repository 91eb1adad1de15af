//! Two sides: what changed, what did not, what cannot be told from so few repeats, and whether they
//! may stand side by side at all.

mod facts;
mod options;
mod ratio;

use std::io::{self, Write};

use block::printable;
use serde::Serialize;
use stats::{Class, Latency, RunResult, SAME_FIGURES_SINCE};

use crate::figure;
use crate::job;
use crate::painted::{Painted, printable_of};
use crate::reason;
use crate::style::Paint;

/// What two sides come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared, as "size=4k outstanding=8"; empty for two runs.
    pub name: String,
    /// Whether nothing but what is to be compared differs.
    pub comparable: bool,
    /// Sides that are invalid, and why: nothing of what they say is called changed.
    pub invalid: Vec<String>,
    /// What else differs.
    pub differences: Vec<Difference>,
    /// The figures of both.
    pub figures: Vec<Figure>,
}

/// Something that differs beside the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What, as "size" or "host"; an option of a job by its name.
    pub what: String,
    /// On the first side.
    pub a: String,
    /// On the second side.
    pub b: String,
}

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Which, as "IOPS".
    pub name: &'static str,
    /// On the first side.
    pub a: Sample,
    /// On the second side.
    pub b: Sample,
    /// The second over the first; `null` if one is 0.
    pub ratio: Option<f64>,
    /// Between what the ratio lies with 95 %; `null` unless each side has at least three runs.
    pub ratio_range: Option<[f64; 2]>,
    /// The smallest change that so many runs show in four of five comparisons, as a share: 0.05 is
    /// a rise of 5 %. `null` without an interval.
    pub detectable: Option<f64>,
    /// What it comes to.
    pub verdict: Change,
}

/// A figure of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The value: of the only run, or the geometric mean of several.
    pub value: f64,
    /// Runs that it rests on.
    pub runs: usize,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
    /// It is a lower bound: I/Os without an answer could make it longer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Whether something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The whole interval of the ratio lies above 1.
    Higher,
    /// The whole interval of the ratio lies below 1.
    Lower,
    /// The interval holds 1 and nothing that is further off than [`SAME`].
    Unchanged,
    /// There is no interval, it is too wide, or a side means something else.
    CannotTell,
}

/// What is no further off than this share is called unchanged, if the interval is as narrow.
pub const SAME: f64 = 0.05;
/// Percentiles come from histograms, by so much too high at most.
const BUCKET: f64 = 1.0 / 128.0;

/// Why two sides cannot be compared at all, and what to do: their results have names of other
/// meanings.
pub fn refuse(a: &[RunResult], b: &[RunResult]) -> Option<String> {
    let mut all = a.iter().chain(b);
    let first = all.next()?;
    // Figures of later layouts have one meaning.
    let meaning = |run: &RunResult| run.schema_version.min(SAME_FIGURES_SINCE);
    let other = all.find(|run| meaning(run) != meaning(first))?;
    let older = if other.schema_version < first.schema_version { other } else { first };
    Some(format!(
        "a result of layout {} (drumfire {}) has figures of another meaning than one of layout {}: \
         measure it again with this version",
        older.schema_version,
        older.tool.version,
        first.schema_version.max(other.schema_version),
    ))
}

/// Compares two sides of at least one run each. The runs of a side are repeats of each other.
pub fn compare(name: &str, a: &[RunResult], b: &[RunResult]) -> Comparison {
    let differences = differences(a, b);
    let invalid = ["first", "second"].iter().zip([a, b]).filter_map(|(side, runs)| {
        let bad = runs.iter().find(|run| run.class == Class::Invalid)?;
        let of = match runs.len() {
            1 => String::new(),
            of => {
                let bad = runs.iter().filter(|run| run.class == Class::Invalid).count();
                format!("{bad} of {of} runs of ")
            }
        };
        Some(format!("{of}the {side} side: {}", reason::verdict(bad)))
    });
    let invalid: Vec<String> = invalid.collect();
    let figures = figures(a, b).into_iter().map(|figure| match invalid.is_empty() {
        true => figure,
        false => Figure { verdict: Change::CannotTell, ..figure },
    });
    Comparison {
        name: name.to_owned(),
        comparable: differences.is_empty() && invalid.is_empty(),
        figures: figures.collect(),
        invalid,
        differences,
    }
}

fn figures(a: &[RunResult], b: &[RunResult]) -> Vec<Figure> {
    let exact = |of: fn(&RunResult) -> Option<f64>| move |run: &RunResult| Some((of(run)?, false));
    let percentile = |of: fn(&Latency) -> Option<u64>| {
        move |run: &RunResult| {
            let latency = &run.totals.latency_ns;
            of(latency).map(|ns| (ns as f64, latency.at_least(ns)))
        }
    };
    let mean = |run: &RunResult| {
        let latency = &run.totals.latency_ns;
        latency.mean.map(|mean| (mean, latency.mean_at_least()))
    };
    [
        figure("IOPS", a, b, 0.0, exact(|run| Some(run.totals.iops))),
        figure("bytes/s", a, b, 0.0, exact(|run| Some(run.totals.bytes_per_second))),
        figure("mean", a, b, 0.0, mean),
        figure("p50", a, b, BUCKET, percentile(|latency| latency.p50)),
        figure("p99", a, b, BUCKET, percentile(|latency| latency.p99)),
        figure("p99.9", a, b, BUCKET, percentile(|latency| latency.p99_9)),
        figure("µs core/IO", a, b, 0.0, exact(|run| run.cpu.core_us_per_io)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn figure(
    name: &'static str,
    a: &[RunResult],
    b: &[RunResult],
    blur: f64,
    of: impl Fn(&RunResult) -> Option<(f64, bool)>,
) -> Option<Figure> {
    let values = |runs: &[RunResult]| runs.iter().map(&of).collect::<Option<Vec<(f64, bool)>>>();
    let bare = |of: &[(f64, bool)]| of.iter().map(|(value, _)| *value).collect::<Vec<f64>>();
    let (a, b) = (values(a)?, values(b)?);
    let found = ratio::ratio(&bare(&a), &bare(&b), blur);
    let (a, b) = (sample(&a)?, sample(&b)?);
    let verdict = match found.and_then(|ratio| ratio.range) {
        // What is a lower bound may be anything above it.
        _ if a.at_least || b.at_least => Change::CannotTell,
        None => Change::CannotTell,
        Some([low, _]) if low > 1.0 => Change::Higher,
        Some([_, high]) if high < 1.0 => Change::Lower,
        Some([low, high]) if low >= 1.0 - SAME && high <= 1.0 + SAME => Change::Unchanged,
        Some(_) => Change::CannotTell,
    };
    Some(Figure {
        name,
        a,
        b,
        ratio: found.map(|ratio| ratio.value),
        ratio_range: found.and_then(|ratio| ratio.range),
        detectable: found.and_then(|ratio| ratio.detectable),
        verdict,
    })
}

fn sample(values: &[(f64, bool)]) -> Option<Sample> {
    let bare: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
    let least = bare.iter().copied().reduce(f64::min)?;
    let most = bare.iter().copied().reduce(f64::max)?;
    let value = match &bare[..] {
        [only] => *only,
        several => ratio::mean(several).unwrap_or(least),
    };
    let at_least = values.iter().any(|(_, at_least)| *at_least);
    Some(Sample { value, runs: values.len(), least, most, at_least })
}

/// What differs beside the figures: how far to believe them, the kind of job, the host, how the
/// numbers came about.
fn differences(a: &[RunResult], b: &[RunResult]) -> Vec<Difference> {
    let (one, other) = (&a[0], &b[0]);
    let sides = facts::of_side(a).into_iter().zip(facts::of_side(b));
    let mut found: Vec<Difference> = sides
        .filter(|((_, a), (_, b))| a != b)
        .map(|((what, a), (_, b))| Difference {
            what: what.to_owned(),
            a: a.trim().to_owned(),
            b: b.trim().to_owned(),
        })
        .collect();
    found.extend(facts::of_hosts(one, other));
    for option in options::differences(&one.spec, &other.spec) {
        // Some stand among the facts, in better words.
        if found.iter().all(|known| known.what != option.what) {
            found.push(option);
        }
    }
    found
}

/// A comparison for a terminal: first what forbids it, then the figures. `again` are the commands
/// that repeat both sides [`ENOUGH`] times.
pub fn painted(
    comparison: &Comparison,
    run: &RunResult,
    again: [&str; 2],
    paint: Paint,
) -> Painted {
    let plain = |text: &String| printable(text).into_owned();
    let difference =
        |it: &Difference| Difference { what: plain(&it.what), a: plain(&it.a), b: plain(&it.b) };
    let shown = Comparison {
        name: plain(&comparison.name),
        invalid: comparison.invalid.iter().map(plain).collect(),
        differences: comparison.differences.iter().map(difference).collect(),
        ..comparison.clone()
    };
    let again = again.map(printable);
    let mut out = Vec::new();
    // Memory takes whatever is written.
    let _ = write(&shown, &printable_of(run), [&again[0], &again[1]], paint, &mut out);
    Painted::of(out)
}

fn write(
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
    for figure in &comparison.figures {
        let change = match (figure.ratio, figure.ratio_range) {
            (Some(ratio), Some([low, high])) => {
                format!("{} ({} to {})", percent(ratio), percent(low), percent(high))
            }
            (Some(ratio), None) => percent(ratio),
            (None, _) => figure::UNKNOWN.to_owned(),
        };
        let verdict = match figure.verdict {
            Change::Higher | Change::Lower => paint.bold(&words(figure)),
            Change::Unchanged | Change::CannotTell => words(figure),
        };
        let (a, b) = (show(figure.name, &figure.a), show(figure.name, &figure.b));
        writeln!(out, "  {:<10} {a:>10} → {b:>10}  {change:<30}  {verdict}", figure.name)?;
    }
    let rests_on = rests_on(comparison, again);
    rests_on.iter().try_for_each(|line| writeln!(out, "  {}", paint.dim(line)))
}

/// The ratio of a figure with its interval and one word: "IOPS +3.1 % (+2.0 % to +4.1 %), faster".
pub(crate) fn in_words(figure: &Figure) -> String {
    let [_, a, b, change, range, _] = row(figure).try_into().unwrap_or_default();
    let range = if range.is_empty() { range } else { format!(" ({range})") };
    let word = match figure.verdict {
        Change::Higher => "faster",
        Change::Lower => "slower",
        Change::Unchanged => "same",
        Change::CannotTell => "cannot tell",
    };
    format!("{a} → {b} {}, {change}{range}: {word}", figure.name)
}

/// The cells of a figure in a table: name, both sides, the change, its interval, what it comes to.
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

/// As "+3.1 %".
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn show(name: &str, sample: &Sample) -> String {
    let value = sample.value;
    let text = match name {
        "IOPS" => figure::rate(value),
        "bytes/s" => figure::bytes_per_second(value),
        "µs core/IO" => format!("{value:.3}"),
        _ => figure::span(value),
    };
    if sample.at_least { format!("≥{text}") } else { text }
}

/// The verdict, and what a change would have to be to show.
fn words(figure: &Figure) -> String {
    let seen = figure.detectable.map(|share| format!("{:.1} %", share * 100.0));
    match (figure.verdict, seen) {
        (Change::Higher, _) => "higher".to_owned(),
        (Change::Lower, _) => "lower".to_owned(),
        (Change::Unchanged, Some(seen)) => format!("unchanged; from {seen} on it would show"),
        (Change::Unchanged, None) => "unchanged".to_owned(),
        (Change::CannotTell, _) if figure.a.at_least || figure.b.at_least => {
            "cannot tell: a lower bound".to_owned()
        }
        (Change::CannotTell, Some(seen)) => {
            format!("cannot tell; only a change from {seen} on shows")
        }
        (Change::CannotTell, None) => "cannot tell: no interval".to_owned(),
    }
}

/// What the intervals rest on, or how to get some.
fn rests_on(comparison: &Comparison, [a, b]: [&str; 2]) -> Vec<String> {
    let Some(figure) = comparison.figures.first() else {
        return vec!["nothing is known".to_owned()];
    };
    let (one, other) = (figure.a.runs, figure.b.runs);
    let few = ratio::FEWEST;
    let least = one.min(other);
    if least >= few {
        let runs =
            format!("{one} and {other} runs: geometric means, 95 % intervals of their ratio");
        return vec![match least < ENOUGH {
            true => format!("{runs}; more repeats see smaller changes"),
            false => runs,
        }];
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
        vec![format!("no interval: {runs}; {few} runs of each side give one; repeat with")];
    lines.extend(
        [(a, one), (b, other)]
            .into_iter()
            .filter(|(_, runs)| *runs < few)
            .map(|(again, _)| format!("  {again}")),
    );
    lines
}

/// Repeats that are asked for: so many see changes of about twice the noise.
pub const ENOUGH: usize = 5;

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn runs(rates: &[f64]) -> Vec<RunResult> {
        let with = |iops: &f64| {
            let mut run = sample::race();
            run.totals.iops = *iops;
            run.workers.truncate(1);
            run
        };
        rates.iter().map(with).collect()
    }

    fn iops(a: &[f64], b: &[f64]) -> Figure {
        compare("", &runs(a), &runs(b)).figures.remove(0)
    }

    #[test]
    fn changed_unchanged_or_cannot_tell() {
        let figure = iops(&[100.0, 101.0, 99.0], &[121.0, 120.0, 122.0]);
        assert_eq!(figure.verdict, Change::Higher);
        let [low, high] = figure.ratio_range.unwrap();
        assert!(1.15 < low && high < 1.27, "{low} to {high}");
        assert_eq!(iops(&[100.0, 101.0, 99.0], &[90.0, 91.0, 89.0]).verdict, Change::Lower);
        let same = iops(&[100.0, 100.5, 99.5, 100.2], &[100.1, 99.9, 100.3, 99.8]);
        assert_eq!((same.verdict, words(&same).contains("would show")), (Change::Unchanged, true));
        // Too far apart to say that nothing changed, and too wide to say that something did.
        let wide = iops(&[100.0, 180.0, 60.0], &[90.0, 170.0, 70.0]);
        assert_eq!(wide.verdict, Change::CannotTell);
        assert!(wide.detectable.unwrap() > 0.5, "{wide:?}");
        assert!(words(&wide).starts_with("cannot tell; only a change from "), "{}", words(&wide));
    }

    #[test]
    fn one_run_each_has_no_interval_whatever_it_says() {
        let text = |a: &[RunResult], b: &[RunResult]| {
            let mut out = Vec::new();
            let again = ["drumfire sweep a", "drumfire sweep b"];
            write(&compare("", a, b), &a[0], again, Paint::PLAIN, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (mut a, mut b) = (runs(&[100.0]), runs(&[43.2]));
        let second = |iops| stats::Second { iops, ..stats::Second::default() };
        a[0].intervals = [10.0, 100.0, 300.0].map(second).to_vec();
        b[0].intervals = [9.0, 43.0, 110.0].map(second).to_vec();
        let figure = compare("", &a, &b).figures.remove(0);
        assert_eq!((figure.verdict, figure.ratio_range), (Change::CannotTell, None));
        let said = text(&a, &b);
        assert!(said.contains("-56.8 %") && !said.contains("-56.8 % ("), "{said}");
        assert!(said.contains("no interval: one run each; 3 runs of each side"), "{said}");
        assert!(
            said.ends_with("repeat with\n    drumfire sweep a\n    drumfire sweep b\n"),
            "{said}"
        );
        for verdict in ["higher", "lower", "unchanged", "within"] {
            assert!(!said.contains(verdict), "{said}");
        }
        let said = text(&runs(&[1.0; 3]), &runs(&[2.0; 2]));
        assert!(said.contains("3 runs and 2 runs") && !said.contains("sweep a"), "{said}");
    }

    #[test]
    fn what_is_invalid_is_not_compared() {
        let (a, mut b) = (runs(&[1.0; 3]), runs(&[9.0; 3]));
        assert_eq!(compare("", &a, &b).figures[0].verdict, Change::Higher);
        b[1].set_check(stats::Check::new("H02", "x", stats::Verdict::Fail, "a hole"));
        let compared = compare("", &a, &b);
        assert!(compared.figures.iter().all(|figure| figure.verdict == Change::CannotTell));
        let why = "1 of 3 runs of the second side: invalid: reads of blocks never written (H02)";
        assert_eq!((compared.invalid[0].as_str(), compared.comparable), (why, false));
        assert_eq!(compared.differences[0].what, "class");
        let mut out = Vec::new();
        write(&compared, &a[0], ["a", "b"], Paint::PLAIN, &mut out).unwrap();
        let said = String::from_utf8(out).unwrap();
        assert!(said.contains("\n  NOT COMPARABLE, 1 of 3 runs of the second"), "{said}");
    }

    #[test]
    fn lower_bounds_and_other_layouts_are_not_compared() {
        let (a, mut b) = (runs(&[1.0; 3]), runs(&[1.0; 3]));
        b[2].totals.latency_ns.waiting_from = Some(600_000);
        b.iter_mut().for_each(|run| run.totals.latency_ns.p99 = Some(7_000_000));
        let compared = compare("", &a, &b);
        let of = |name| compared.figures.iter().find(|figure| figure.name == name).unwrap();
        assert_eq!(of("p50").verdict, Change::Unchanged);
        assert_eq!(
            (of("p99").verdict, of("mean").verdict),
            (Change::CannotTell, Change::CannotTell)
        );
        assert_eq!(show("p99", &of("p99").b), "≥7.00 ms");
        assert_eq!(words(of("p99")), "cannot tell: a lower bound");
        assert_eq!(refuse(&a, &b), None);
        b[1].schema_version = 2;
        assert_eq!(refuse(&a, &b), None);
        b[1].schema_version = 1;
        let why = refuse(&a, &b).unwrap();
        assert!(why.contains("measure it again with this version"), "{why}");
    }

    #[test]
    fn says_what_else_differs() {
        let (a, mut b) = (runs(&[1.0]), runs(&[1.0]));
        assert!(compare("", &a, &b).comparable);
        b[0].origin = stats::Origin::Simulated;
        b[0].job.size_bytes = Some(8192);
        b[0].host.name = "elsewhere".to_owned();
        b[0].host.more.insert("clock_source".to_owned(), "hpet".into());
        b[0].workers[0].volume = "file:hole".to_owned();
        let comparison = compare("", &a, &b);
        let what: Vec<&str> = comparison.differences.iter().map(|d| &*d.what).collect();
        assert_eq!(what, ["origin", "size", "volume", "host", "clock source"]);
        assert!(!comparison.comparable);
    }

    #[test]
    fn targets_of_loopback_have_other_ports_each_time() {
        let (mut a, mut b) = (runs(&[1.0]), runs(&[1.0]));
        a[0].workers[0].volume = "iscsi://127.0.0.1:40001/iqn.x/1".to_owned();
        b[0].workers[0].volume = "iscsi://127.0.0.1:51234/iqn.x/1".to_owned();
        assert!(compare("", &a, &b).comparable);
        for other in ["iscsi://127.0.0.1:51234/iqn.y/1", "iscsi://10.0.0.1:40001/iqn.x/1"] {
            b[0].workers[0].volume = other.to_owned();
            assert_eq!(compare("", &a, &b).differences[0].what, "volume");
        }
    }
}
