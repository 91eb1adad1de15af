//! Summary of comparisons for the last screen of a terminal: rate and latencies, their credibility
//! and its reason, and other differences.

use std::io::{self, Write};

use block::printable;
use stats::{Bound, RunResult};

use super::text::{change, show, shown};
use super::{Change, Comparison, Figure, Judged, facts};
use crate::bounds;
use crate::figure;
use crate::painted::Painted;
use crate::reason;
use crate::style::Paint;

/// Width of a label at the beginning of a line.
const LABEL: usize = 9;
/// Pairs of which each has a line: of more the rest is counted.
const PAIRS_SHOWN: usize = 4;

/// Two sides and their runs, at least one of each.
#[derive(Clone, Copy, Debug)]
pub struct Both<'a> {
    /// Result of the comparison.
    pub comparison: &'a Comparison,
    /// Runs of the first side.
    pub a: &'a [RunResult],
    /// Runs of the second side.
    pub b: &'a [RunResult],
}

/// The sum of all pairs, the line that counts most first: a reader may cut it anywhere below.
pub fn closing(pairs: &[Both<'_>], judged: Judged, bounds: &[Bound], paint: Paint) -> Painted {
    let mut out = Vec::new();
    // A write to memory does not fail.
    let _ = write(pairs, judged, bounds, paint, &mut out);
    Painted::of(out)
}

fn write(
    pairs: &[Both<'_>],
    judged: Judged,
    bounds: &[Bound],
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out)?;
    match pairs {
        [one] => write_one(one, paint, out)?,
        many => write_many(many, judged, paint, out)?,
    }
    match bounds.is_empty() {
        true => Ok(()),
        false => writeln!(out, "{}", bounds::sum(bounds, paint)),
    }
}

fn write_one(pair: &Both<'_>, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let comparison = shown(pair.comparison);
    let named = |name: &str| comparison.figures.iter().find(|figure| figure.name == name);
    let line =
        |name: &str| named(name).map(|figure| format!("{name:LABEL$}{}", words(figure, paint)));
    writeln!(out, "{}", line("IOPS").unwrap_or_else(|| format!("{:LABEL$}unknown", "IOPS")))?;
    let trouble = trouble(&comparison, paint);
    trouble.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{:LABEL$}{}", "class", classes(pair))?;
    for line in ["p50", "p99"].into_iter().filter_map(line) {
        writeln!(out, "{line}")?;
    }
    if let [Some(a), Some(b)] = [pair.a, pair.b].map(longest) {
        writeln!(out, "{:LABEL$}{a} → {b}, the longest of all runs", "max")?;
    }
    let (a, b) = (pair.a.len(), pair.b.len());
    let runs = match named("IOPS").and_then(|figure| figure.ratio_range) {
        None => format!("{a} and {b}: too few for an interval"),
        Some(_) => format!("{a} and {b}; intervals of 95 %"),
    };
    writeln!(out, "{:LABEL$}{runs}", "runs")
}

fn write_many(
    pairs: &[Both<'_>],
    judged: Judged,
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let rates = || pairs.iter().filter_map(|pair| Some((pair, rate(pair.comparison)?)));
    let count = |wanted: Change| rates().filter(|(_, rate)| rate.verdict == wanted).count();
    writeln!(
        out,
        "{:LABEL$}{}; IOPS {} higher, {} lower, {} unchanged, {} not told apart, {} cannot tell",
        "pairs",
        pairs.len(),
        count(Change::Higher),
        count(Change::Lower),
        count(Change::Unchanged),
        count(Change::NotToldApart),
        count(Change::CannotTell),
    )?;
    let invalid = pairs.iter().filter(|pair| !pair.comparison.invalid.is_empty()).count();
    if invalid > 0 {
        let line = format!("{:LABEL$}{invalid} of {} pairs are NOT COMPARABLE", "", pairs.len());
        writeln!(out, "{}", paint.red(&line))?;
    }
    let worst = pairs.iter().max_by_key(|pair| {
        let sides = [pair.a, pair.b].map(|runs| reason::rank(facts::least_believed(runs).class));
        sides.into_iter().max()
    });
    if let Some(worst) = worst {
        writeln!(out, "{:LABEL$}{}", "class", classes(worst))?;
    }
    // Largest change first.
    let mut told: Vec<(&Both<'_>, &Figure)> = rates().collect();
    let distance = |rate: &Figure| rate.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let is_sure = |rate: &Figure| matches!(rate.verdict, Change::Higher | Change::Lower);
    told.sort_by(|(_, a), (_, b)| {
        is_sure(b).cmp(&is_sure(a)).then(distance(b).total_cmp(&distance(a)))
    });
    for (pair, rate) in told.iter().take(PAIRS_SHOWN) {
        let name = printable(&pair.comparison.name).into_owned();
        writeln!(out, "  {name}: IOPS {}", words(rate, paint))?;
    }
    match judged.words() {
        Some(words) => writeln!(out, "{words}"),
        None => Ok(()),
    }
}

fn rate(comparison: &Comparison) -> Option<&Figure> {
    comparison.figures.iter().find(|figure| figure.name == "IOPS")
}

/// Reasons against the comparison, or else other possible causes of a difference.
fn trouble(comparison: &Comparison, paint: Paint) -> Vec<String> {
    if let Some(first) = comparison.invalid.first() {
        return vec![paint.red(&format!("NOT COMPARABLE, {first}"))];
    }
    let mut lines = Vec::new();
    if let Some(first) = comparison.differences.first() {
        let more = match comparison.differences.len() {
            1 => String::new(),
            all => format!(", and {} more (above)", all - 1),
        };
        let line = format!("{:LABEL$}{}: {} → {}{more}", "differs", first.what, first.a, first.b);
        lines.push(paint.yellow(&line));
    }
    if let Some(first) = comparison.doubts.first() {
        lines.push(paint.yellow(&format!("{:LABEL$}{first}", "doubt")));
    }
    lines
}

/// Class of both sides with the reason that takes most from it; once where they are the same.
fn classes(pair: &Both<'_>) -> String {
    let [a, b] = [pair.a, pair.b]
        .map(|runs| printable(&reason::verdict(facts::least_believed(runs))).into_owned());
    if a == b { format!("{a}, both sides") } else { format!("{a} → {b}") }
}

/// The longest latency of all runs of a side, a lower bound where an I/O without an answer makes it
/// one; nothing where a run has none.
fn longest(runs: &[RunResult]) -> Option<String> {
    let each = runs.iter().map(|run| run.totals.latency_ns.max);
    let most = each.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    let open = runs.iter().any(|run| run.totals.latency_ns.at_least(most));
    let mark = if open { "≥" } else { "" };
    Some(format!("{mark}{}", figure::latency(Some(most))))
}

/// Returns both sides, the change with its interval, and the verdict in a word.
fn words(figure: &Figure, paint: Paint) -> String {
    let (a, b) = (show(figure.name, &figure.a), show(figure.name, &figure.b));
    let change = change(figure);
    let verdict = match figure.verdict {
        Change::Higher => paint.bold("higher"),
        Change::Lower => paint.bold("lower"),
        Change::NotToldApart => "not told apart".to_owned(),
        Change::Unchanged => "unchanged".to_owned(),
        Change::CannotTell => "cannot tell".to_owned(),
    };
    format!("{a} → {b}  {change}: {verdict}")
}

#[cfg(test)]
mod test {
    use stats::sweep::Doubt;
    use stats::{Check, Kept, Verdict};

    use super::*;
    use crate::compare::{compare, mark};
    use crate::sample;

    fn told(
        sides: &[(Comparison, Vec<RunResult>, Vec<RunResult>)],
        bounds: &[Bound],
    ) -> Vec<String> {
        let mut comparisons: Vec<Comparison> = sides.iter().map(|(of, ..)| of.clone()).collect();
        let judged = mark(&mut comparisons);
        let both =
            comparisons.iter().zip(sides).map(|(comparison, (_, a, b))| Both { comparison, a, b });
        let both: Vec<Both<'_>> = both.collect();
        let text = closing(&both, judged, bounds, Paint::PLAIN);
        text.as_str().lines().map(str::to_owned).collect()
    }

    #[test]
    fn one_pair_is_its_rate_its_latencies_and_how_far_to_believe_them() {
        let (a, b) = (sample::races(&[100.0]), sample::races(&[50.0]));
        let bound = Bound { bound: "iops<-3%".into(), verdict: Kept::Missed, ..Bound::default() };
        assert_eq!(
            told(&[(compare("", &a, &b), a.clone(), b.clone())], &[bound]),
            [
                "",
                "IOPS     100 → 50.0  -50.0 %: cannot tell",
                "class    indicative: loopback, no wire (H19), both sides",
                "p50      412 µs → 412 µs  +0.0 %: cannot tell",
                "p99      690 µs → 690 µs  +0.0 %: cannot tell",
                "max      12.3 ms → 12.3 ms, the longest of all runs",
                "runs     1 and 1: too few for an interval",
                "bounds   1 of 1 missed: fail if iops<-3%: ",
            ]
        );
        let (a, mut b) =
            (sample::races(&[100.0, 101.0, 99.0]), sample::races(&[121.0, 120.0, 122.0]));
        b[1].set_check(Check::new("H02", "data-exist", Verdict::Fail, "a hole"));
        b[0].job.size_bytes = Some(8192);
        let said = told(&[(compare("", &a, &b), a.clone(), b.clone())], &[]);
        let wrong = "NOT COMPARABLE, 1 of 3 runs of the second side: invalid: reads of blocks \
                     never written (H02)";
        assert_eq!(said[2], wrong, "{said:?}");
        assert!(said[3].starts_with("class    indicative: loopback"), "{said:?}");
        assert!(said[3].ends_with("→ invalid: reads of blocks never written (H02)"), "{said:?}");
    }

    #[test]
    fn what_differs_and_what_is_doubted_stand_below_the_rate() {
        let (a, mut b) = (sample::races(&[100.0; 3]), sample::races(&[100.0; 3]));
        b[0].job.size_bytes = Some(8192);
        b[0].job.read_percent = 70.0;
        let doubts = [Doubt { verdict: Verdict::Warn, why: "repeats 2 were picked".into() }];
        let comparison = compare("", &a, &b).doubted([&[], &doubts]);
        assert!(comparison.invalid.is_empty());
        let said = told(&[(comparison, a, b)], &[]);
        assert_eq!(said[2], "differs  size: 512 B → 8 KiB, and 1 more (above)", "{said:?}");
        assert_eq!(said[3], "doubt    the second side: repeats 2 were picked", "{said:?}");
    }

    #[test]
    fn of_many_pairs_those_that_changed_come_first() {
        let same = [100.0, 101.0, 99.0, 100.5];
        let pair = |name: &str, times: f64| {
            let at = |rates: Vec<f64>, from: usize| {
                let mut runs = sample::races(&rates);
                for (i, run) in runs.iter_mut().enumerate() {
                    run.started = format!("2026-11-20T08:00:{:02}Z", 2 * i + from);
                }
                runs
            };
            let (a, b) = (at(same.to_vec(), 0), at(same.iter().map(|it| it * times).collect(), 1));
            (compare(name, &a, &b), a, b)
        };
        let all: Vec<_> =
            (1..=6).map(|n| pair(&format!("size={n}k"), if n == 5 { 0.5 } else { 1.0 })).collect();
        let said = told(&all, &[]);
        let counts =
            "pairs    6; IOPS 0 higher, 1 lower, 5 unchanged, 0 not told apart, 0 cannot tell";
        assert_eq!(said[1], counts, "{said:?}");
        assert!(said[3].starts_with("  size=5k: IOPS 100 → 50.1  -50.0 %"), "{said:?}");
        assert!(said.iter().filter(|line| line.starts_with("  size=")).count() == PAIRS_SHOWN);
        assert!(said.last().unwrap().contains("Benjamini"), "{said:?}");
    }
}
