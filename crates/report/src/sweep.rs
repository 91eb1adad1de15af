//! A sweep as a table: a line for each cell, then where each series bends and what was found.

use std::collections::BTreeMap;
use std::io::{self, Write};

use stats::sweep::{Cell, CellRun, Found, Held, Scale, Search, Series, Setting, SweepResult};
use stats::{Latency, Origin, Spread, Verdict};

use crate::bounds;
use crate::connections;
use crate::figure;
use crate::painted::{Painted, printable_of};
use crate::reason;
use crate::style::Paint;

/// Fewest repeats whose interval covers a median with 95 %.
const ENOUGH: usize = 6;

/// The table, for a terminal or whoever reads it on one later.
pub fn painted(sweep: &SweepResult, paint: Paint) -> Painted {
    let mut out = Vec::new();
    // Memory takes whatever is written.
    let _ = write(&printable_of(sweep), paint, &mut out);
    Painted::of(out)
}

/// Writes the table.
fn write(sweep: &SweepResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let heads: Vec<String> = heads(sweep);
    let mut rows = vec![heads];
    rows.extend(sweep.cells.iter().map(|cell| row(sweep, cell)));
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        let line = cells.join("  ");
        writeln!(out, "{}", if index == 0 { paint.dim(&line) } else { line })?;
    }
    writeln!(out, "\n{}", rests_on(sweep))?;
    let held = held_against(sweep);
    if !held.is_empty() {
        writeln!(out, "checks not passed: {}", held.join(", "))?;
    }
    for series in &sweep.series {
        writeln!(out, "{}", knee(series))?;
        for scale in &series.scaling {
            writeln!(out, "{}", scaled(series, scale))?;
        }
    }
    sweep.found.iter().try_for_each(|found| writeln!(out, "{}", search(sweep, found)))?;
    failures(sweep).iter().try_for_each(|line| writeln!(out, "{}", paint.red(line)))?;
    bounds::write(&sweep.bounds, paint, out)
}

/// The runs that did not go through, had errors or lost connections, and why.
pub(crate) fn failures(sweep: &SweepResult) -> Vec<String> {
    let runs = sweep.cells.iter().flat_map(|cell| &cell.runs);
    let say = |run: &CellRun| {
        let errors = || (run.errors > 0).then(|| figure::plural(run.errors, "error"));
        let lost = connections::words(&run.connections, true);
        let why: Vec<String> = run.failed.clone().or_else(errors).into_iter().chain(lost).collect();
        (!why.is_empty()).then(|| format!("{}: {}", run.folder, why.join(", ")))
    };
    runs.filter_map(say).collect()
}

/// The figures of a cell, behind its settings.
pub(crate) const FIGURES: [&str; 10] =
    ["runs", "IOPS", "from", "to", "mean", "p50", "p99", "p99.9", "µs core/IO", "class"];

/// Names of the settings, then of the figures.
fn heads(sweep: &SweepResult) -> Vec<String> {
    let settings = words(sweep).into_iter().map(str::to_owned);
    settings.chain(FIGURES.map(str::to_owned)).collect()
}

fn words(sweep: &SweepResult) -> Vec<&str> {
    let first = sweep.cells.first();
    first.map_or_else(Vec::new, |cell| cell.settings.iter().map(|s| s.word.as_str()).collect())
}

/// Its settings, then its figures.
pub(crate) fn row(sweep: &SweepResult, cell: &Cell) -> Vec<String> {
    let values = cell.settings.iter().map(|setting| setting.value.clone());
    let runs = format!("{}/{}{}", cell.whole_runs().count(), wanted(sweep, cell), short(cell));
    let unknown = || figure::UNKNOWN.to_owned();
    let [median, low, high] = match cell.iops {
        Some(iops) => [iops.median, iops.low, iops.high].map(figure::rate),
        None => [(); 3].map(|()| unknown()),
    };
    let core = Spread::of(cell.whole_runs().filter_map(|run| run.core_us_per_io));
    let figures = [
        runs,
        median,
        low,
        high,
        cell.mean_ns().map_or_else(unknown, figure::span),
        range(cell, |latency| latency.p50),
        range(cell, |latency| latency.p99),
        range(cell, |latency| latency.p99_9),
        core.map_or_else(unknown, |core| format!("{:.3}", core.median)),
        if cell.iops.is_some() { class(cell) } else { unknown() },
    ];
    values.chain(figures).collect()
}

/// The class of a cell with the check that says most against it: `indicative (H19)`.
pub(crate) fn class(cell: &Cell) -> String {
    let word = cell.class.word();
    match reason::worst_of(cell.verdicts()) {
        Some((code, _)) => format!("{word} ({code})"),
        None => word.to_owned(),
    }
}

/// The length of its shortest run, where that is too short for any rate to settle.
fn short(cell: &Cell) -> String {
    let measured = cell.whole_runs().filter(|run| run.origin != Origin::Simulated);
    let least = measured.map(|run| run.seconds).filter(|s| reason::is_short(*s)).reduce(f64::min);
    least.map_or_else(String::new, |seconds| format!(" × {}", figure::seconds(seconds)))
}

/// A percentile over the runs: never its mean.
fn range(cell: &Cell, of: impl Fn(&Latency) -> Option<u64>) -> String {
    match cell.range(of) {
        None => figure::UNKNOWN.to_owned(),
        Some((low, high)) => {
            let (low, high) = (figure::span(low as f64), figure::span(high as f64));
            if low == high { low } else { format!("{low} – {high}") }
        }
    }
}

/// How much the intervals are worth.
pub(crate) fn rests_on(sweep: &SweepResult) -> String {
    let runs = || sweep.cells.iter().flat_map(Cell::whole_runs);
    let kind = runs().filter_map(|run| run.kind).max();
    let origin = runs().map(|run| run.origin.with(kind)).next();
    let origin = origin.unwrap_or_else(|| "not measured yet".to_owned());
    // Of a search for a rate, those that only showed the way rest on one run by design.
    let searches = matches!(sweep.plan.search, Search::P99 { .. });
    let shows_the_way = |cell: &&Cell| searches && cell.rate_per_s.is_some() && cell.repeats == 1;
    let cells = sweep.cells.iter().filter(|cell| !shows_the_way(cell));
    let least = cells.filter_map(|cell| cell.iops).min_by_key(|iops| iops.n);
    let Some(least) = least else { return origin };
    let withheld = |run: &CellRun| run.origin == Origin::Simulated && run.latency_ns.p50.is_none();
    let percentiles = match runs().all(withheld) {
        true => "percentiles: not calibrated",
        false => "percentiles: lowest – highest of the runs",
    };
    match least.n {
        1 => format!("{origin}; one run of a cell: no interval; --repeats {ENOUGH} gives one"),
        n if n < ENOUGH => format!(
            "{origin}; IOPS: median, min–max of {n} runs ({:.0} % confidence); {ENOUGH} runs give \
             95 %; {percentiles}",
            least.confidence * 100.0,
        ),
        n => format!(
            "{origin}; IOPS: median and 95 % interval (order statistics) of {n} runs; {percentiles}"
        ),
    }
}

fn meaning(code: &str, verdict: Verdict) -> String {
    reason::short(code, verdict).map_or_else(String::new, |words| format!(" ({words})"))
}

/// What speaks against the cells, the worst of each check: `H06 warn (no steady state)`,
/// `H20 unknown in 2 of 6 cells (measured too rarely)`.
pub(crate) fn held_against(sweep: &SweepResult) -> Vec<String> {
    let measured: Vec<&Cell> = sweep.cells.iter().filter(|cell| cell.iops.is_some()).collect();
    let mut found: BTreeMap<&str, (Verdict, usize)> = BTreeMap::new();
    for (code, verdict) in measured.iter().flat_map(|cell| cell.verdicts()) {
        if verdict.is_against() {
            let (worst, cells) = found.entry(code).or_insert((verdict, 0));
            (*worst, *cells) = (worst.worse(verdict), *cells + 1);
        }
    }
    let say = |(code, (worst, cells)): (&str, (Verdict, usize))| match cells == measured.len() {
        true => format!("{code} {}{}", worst.word(), meaning(code, worst)),
        false => {
            let (word, of) = (worst.word(), measured.len());
            format!("{code} {word} in {cells} of {of} cells{}", meaning(code, worst))
        }
    };
    // What says most comes first.
    let mut found: Vec<(&str, (Verdict, usize))> = found.into_iter().collect();
    found.sort_by_key(|(code, (worst, _))| reason::order(code, *worst));
    found.into_iter().map(say).collect()
}

/// Where a series bends.
pub(crate) fn knee(series: &Series) -> String {
    let of = of(&series.settings);
    let Some(knee) = &series.knee else {
        let loads = figure::plural(series.points as u64, "load");
        return format!("knee{of}: not known from {loads}");
    };
    let place = if knee.at_end { "at or beyond" } else { "at" };
    format!(
        "knee{of}: {place} {}={}, {} with {} on average",
        series.axis,
        knee.value,
        figure::iops(knee.iops),
        figure::span(knee.mean_ns),
    )
}

/// What so many do beside the fewest.
pub(crate) fn scaled(series: &Series, scale: &Scale) -> String {
    let [low, high] = scale.range;
    let range = if low == high { String::new() } else { format!(" ({low:.2} – {high:.2})") };
    let (axis, times, percent) = (&series.axis, scale.times, scale.share * 100.0);
    let value = &scale.value;
    format!("  {axis}={value:<4} {times:>6.2} times the first{range}, {percent:.0} % of linear")
}

/// What a search came to.
pub(crate) fn search(sweep: &SweepResult, found: &Found) -> String {
    let Search::P99 { ns } = sweep.plan.search else { return String::new() };
    let (of, bound) = (of(&found.settings), figure::span(ns as f64));
    let missed = match found.missed_rate_per_s {
        Some(rate) if found.too_short => {
            format!("{} has too few I/Os for a p99: give more --seconds", figure::iops(rate))
        }
        Some(rate) => format!("{} held in {}", figure::iops(rate), runs(found.missed_held)),
        None => "never missed up to the highest rate of a closed loop".to_owned(),
    };
    let best = match (found.rate_per_s, found.p99_ns) {
        (Some(rate), Some(p99)) => format!(
            "{}, held in {} (median p99 {})",
            figure::iops(rate),
            runs(found.held),
            figure::span(p99 as f64),
        ),
        _ => "no rate keeps it".to_owned(),
    };
    format!("p99 ≤ {bound}{of}: {best}; {missed}{}", interval(found))
}

/// Between what the rate lies, and how sure that is.
fn interval(found: &Found) -> String {
    let sure = || format!("({:.0} %)", found.confidence * 100.0);
    match (found.low_per_s, found.high_per_s) {
        (None, None) => String::new(),
        (Some(low), None) => format!("; at least {} {}", figure::iops(low), sure()),
        (None, Some(high)) => format!("; below {} {}", figure::iops(high), sure()),
        (Some(low), Some(high)) => {
            let (low, high) = (figure::rate(low), figure::iops(high));
            format!("; between {low} and {high} {}", sure())
        }
    }
}

fn runs(held: Option<Held>) -> String {
    held.map_or_else(|| figure::UNKNOWN.to_owned(), |h| format!("{} of {} runs", h.runs, h.of))
}

/// Runs that a cell is to have.
pub(crate) fn wanted(sweep: &SweepResult, cell: &Cell) -> u32 {
    if cell.repeats == 0 { sweep.plan.repeats } else { cell.repeats }
}

fn of(settings: &[Setting]) -> String {
    settings.iter().map(|setting| format!(" {}={}", setting.word, setting.value)).collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use stats::sweep::{Knee, SweepPlan};

    fn cell(value: &str, rates: &[f64], p99: &[u64]) -> Cell {
        let run = |(repeat, (iops, p99)): (u32, (&f64, &u64))| CellRun {
            repeat,
            iops: *iops,
            latency_ns: Latency {
                mean: Some(1000.0),
                p50: Some(*p99),
                p99: Some(*p99),
                ..Latency::default()
            },
            ..CellRun::default()
        };
        Cell {
            settings: vec![Setting { word: "size".to_owned(), value: value.to_owned() }],
            iops: Spread::of(rates.iter().copied()),
            runs: (1..).zip(rates.iter().zip(p99)).map(run).collect(),
            ..Cell::default()
        }
    }

    fn text(sweep: &SweepResult) -> String {
        let mut out = Vec::new();
        write(sweep, Paint::PLAIN, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn shows_medians_ranges_and_what_they_rest_on() {
        let plan = SweepPlan { repeats: 3, ..SweepPlan::default() };
        let cells = vec![cell("512", &[1e6, 3e6, 2e6], &[5000, 7000, 6000]), cell("4k", &[], &[])];
        let knee = Knee { value: "8".into(), iops: 2e6, mean_ns: 1e4, at_end: true };
        let series = vec![Series {
            settings: vec![],
            axis: "outstanding".into(),
            points: 3,
            knee: Some(knee),
            scaling: vec![Scale {
                value: "16".into(),
                times: 15.0,
                range: [14.5, 15.5],
                share: 0.94,
            }],
        }];
        let mut sweep = SweepResult { plan, cells, series, ..SweepResult::default() };
        let shown = text(&sweep);
        let line = shown.lines().nth(1).unwrap();
        assert!(line.contains("3/3  2.00M  1.00M  3.00M"), "{shown}");
        assert!(line.contains("5.00 µs – 7.00 µs"), "{shown}");
        assert!(shown.lines().nth(2).unwrap().contains("0/3    n/a    n/a"), "{shown}");
        assert!(shown.contains("min–max of 3 runs (75 % confidence)"), "{shown}");
        let against = "checks not passed: H20 unknown (measured too rarely)\n";
        assert!(shown.contains(against), "{shown}");
        assert!(line.ends_with("  indicative (H20)"), "{shown}");
        assert!(shown.contains("knee: at or beyond outstanding=8, 2"), "{shown}");
        let scaled = "=16    15.00 times the first (14.50 – 15.50), 94 % of linear";
        assert!(shown.contains(scaled), "{shown}");
        sweep.cells.truncate(1);
        sweep.cells[0] = cell("512", &[1e6; 6], &[1; 6]);
        assert!(text(&sweep).contains("95 % interval (order statistics) of 6 runs"));
        assert!(!text(&sweep).contains("not calibrated"));
        sweep.cells[0].runs.iter_mut().for_each(|run| run.origin = Origin::Simulated);
        assert!(!text(&sweep).contains("not calibrated"), "some have percentiles");
        sweep.cells[0].runs.iter_mut().for_each(|run| run.latency_ns.p50 = None);
        assert!(text(&sweep).contains("percentiles: not calibrated"));
    }

    #[test]
    fn short_runs_and_the_worst_reason_of_a_cell_are_marked() {
        let mut of = cell("512", &[1e6; 5], &[1; 5]);
        of.runs.iter_mut().for_each(|run| run.seconds = 0.2);
        of.runs[3].verdicts.insert("H19".to_owned(), Verdict::Warn);
        of.runs[4].verdicts.insert("H02".to_owned(), Verdict::Fail);
        of.class = of.judge(stats::SCHEMA_VERSION);
        let other = cell("4k", &[1e6; 5], &[1; 5]);
        let mut sweep = SweepResult { cells: vec![of, other], ..SweepResult::default() };
        sweep.plan.repeats = 5;
        let shown = text(&sweep);
        let line = shown.lines().nth(1).unwrap();
        assert!(line.contains(" 5/5 × 0.20 s ") && line.ends_with("invalid (H02)"), "{shown}");
        let against = "checks not passed: H02 fail in 1 of 2 cells (reads of blocks never \
            written), H19 warn in 1 of 2 cells";
        assert!(shown.contains(against), "{shown}");
        sweep.cells[0].runs.iter_mut().for_each(|run| run.seconds = 30.0);
        assert!(!text(&sweep).contains('×'));
    }

    #[test]
    fn runs_that_lost_connections_are_named() {
        let mut runs = cell("512", &[1e6, 2e6], &[1, 2]);
        runs.runs[1].folder = "cell/2".into();
        runs.runs[1].connections.reconnects = 2;
        runs.runs[1].connections.connections_lost = 2;
        let mut sweep = SweepResult { cells: vec![runs], ..SweepResult::default() };
        let lost = "2 reconnects, 0.0 s disconnected in all";
        assert_eq!(failures(&sweep), [format!("cell/2: {lost}")]);
        sweep.cells[0].runs[1].errors = 3;
        assert_eq!(failures(&sweep), [format!("cell/2: 3 errors, {lost}")]);
    }

    #[test]
    fn a_search_says_how_many_held_and_between_what_the_rate_lies() {
        let plan = SweepPlan { search: Search::P99 { ns: 2_000_000 }, ..SweepPlan::default() };
        let sweep = SweepResult { plan, ..SweepResult::default() };
        let held = |runs| Some(Held { runs, of: 5 });
        let mut found = Found {
            rate_per_s: Some(7650.0),
            held: held(3),
            p99_ns: Some(1_950_000),
            missed_rate_per_s: Some(7850.0),
            missed_held: held(2),
            low_per_s: Some(7450.0),
            high_per_s: Some(8050.0),
            confidence: 0.9375,
            ..Found::default()
        };
        assert_eq!(
            search(&sweep, &found),
            "p99 ≤ 2.00 ms: 7.65k IOPS, held in 3 of 5 runs (median p99 1.95 ms); 7.85k IOPS held \
             in 2 of 5 runs; between 7.45k and 8.05k IOPS (94 %)"
        );
        (found.missed_rate_per_s, found.high_per_s) = (None, None);
        assert!(search(&sweep, &found).ends_with("closed loop; at least 7.45k IOPS (94 %)"));
        found = Found { missed_rate_per_s: Some(95.0), too_short: true, ..Found::default() };
        assert!(search(&sweep, &found).ends_with(
            "no rate keeps it; 95.0 IOPS has too few I/Os \
            for a p99: give more --seconds"
        ));
    }
}
