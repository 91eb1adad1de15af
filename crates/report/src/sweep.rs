//! A sweep as a table: a line for each cell, then the knee of each series and the findings.

mod closing;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

use stats::sweep::journal::Counts;
use stats::sweep::{Cell, CellRun, Found, Held, Knee, Scale, Search, Series, Setting, SweepResult};
use stats::{Latency, Origin, Spread, Verdict};

use crate::bounds;
use crate::connections;
use crate::figure;
use crate::painted::{Painted, printable_of};
use crate::reason;
use crate::style::Paint;

pub use self::closing::closing;

/// Minimum number of repeats whose interval covers a median with 95 %.
const ENOUGH: usize = 6;

/// The table, for a terminal of this width, or for a later reader if `None`.
pub fn painted(sweep: &SweepResult, paint: Paint, columns: Option<usize>) -> Painted {
    let mut out = Vec::new();
    // A write to memory does not fail.
    let _ = write(&printable_of(sweep), paint, columns, &mut out);
    Painted::of(out)
}

/// Writes the cells: one table, or as many below each other as it takes for none to be wider than
/// `columns`, each with the settings first.
fn write_cells(
    sweep: &SweepResult,
    paint: Paint,
    columns: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut rows = vec![heads(sweep)];
    rows.extend(sweep.cells.iter().map(|cell| row(sweep, cell)));
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let settings = words(sweep).len();
    for (part, figures) in parts(&widths, settings, columns).into_iter().enumerate() {
        if part > 0 {
            writeln!(out)?;
        }
        for (index, row) in rows.iter().enumerate() {
            let cell = |column: usize| format!("{:>width$}", row[column], width = widths[column]);
            let cells: Vec<String> = (0..settings).chain(figures.clone()).map(cell).collect();
            let line = cells.join(GAP);
            writeln!(out, "{}", if index == 0 { paint.dim(&line) } else { line })?;
        }
    }
    Ok(())
}

/// Stands between the columns of a table.
const GAP: &str = "  ";

/// Returns the figure columns of each table, by their widths: as many as fit next to the settings,
/// at least one.
fn parts(widths: &[usize], settings: usize, columns: Option<usize>) -> Vec<Range<usize>> {
    let wide = |all: &[usize]| all.iter().map(|width| width + GAP.len()).sum::<usize>();
    let room = columns.map_or(usize::MAX, |columns| columns + GAP.len());
    let room = room.saturating_sub(wide(&widths[..settings]));
    let mut parts: Vec<Range<usize>> = Vec::new();
    for column in settings..widths.len() {
        match parts.last_mut() {
            Some(last) if wide(&widths[last.start..=column]) <= room => last.end = column + 1,
            _ => parts.push(column..column + 1),
        }
    }
    parts
}

/// Writes the cells and the findings.
fn write(
    sweep: &SweepResult,
    paint: Paint,
    columns: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    write_cells(sweep, paint, columns, out)?;
    writeln!(out, "\n{}", rests_on(sweep))?;
    let held = held_against(sweep);
    if !held.is_empty() {
        writeln!(out, "checks not passed: {}", held.join(", "))?;
    }
    doubts(sweep).iter().try_for_each(|line| writeln!(out, "{}", paint.yellow(line)))?;
    journal(sweep).iter().try_for_each(|line| writeln!(out, "{line}"))?;
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

/// Doubts about the runs of cells as repeats; one of many cells is written once.
pub(crate) fn doubts(sweep: &SweepResult) -> Vec<String> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for cell in sweep.cells.iter() {
        let name = words_of(cell);
        for doubt in &cell.doubts {
            match found.iter_mut().find(|(why, _)| *why == doubt.why) {
                Some((_, cells)) => cells.push(name.clone()),
                None => found.push((&doubt.why, vec![name.clone()])),
            }
        }
    }
    let say = |(why, cells): (&str, Vec<String>)| match &cells[..] {
        [one] if one.is_empty() => format!("repeats: {why}"),
        [one] => format!("repeats of {one}: {why}"),
        [one, more @ ..] => format!("repeats of {one} and {} more cells: {why}", more.len()),
        [] => String::new(),
    };
    found.into_iter().map(say).collect()
}

/// Number of runs of the cell.
pub(crate) fn journal(sweep: &SweepResult) -> Option<String> {
    sweep.journal.as_ref().map(|counts| format!("journal: {}", counted(counts)))
}

/// Number of runs, in words: "4 runs begun, 4 went through".
pub fn counted(counts: &Counts) -> String {
    let Counts { begun, ended, failed, again, thrown_away, of_others, torn, broken_at } = counts;
    let mut words =
        vec![format!("{} begun", figure::plural(*begun, "run")), format!("{ended} went through")];
    let cut = begun.saturating_sub(ended + failed);
    for (count, word) in [
        (*failed, "failed"),
        (cut, "cut or not over"),
        (*again, "made again"),
        (*thrown_away, "went through and thrown away"),
        (*of_others, "of other sweeps in this folder"),
        (*torn, "of its lines torn"),
    ] {
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    }
    if *broken_at > 0 {
        words.push(format!("line {broken_at} does not follow the one before"));
    }
    words.join(", ")
}

/// Columns of a cell's figures, after its settings.
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

/// The settings of a cell, as `size=4k outstanding=8`.
pub(crate) fn words_of(cell: &Cell) -> String {
    let words = cell.settings.iter().map(|setting| format!("{}={}", setting.word, setting.value));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the cell's settings, then its figures.
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

/// The length of its shortest run, where that is too short for any rate to settle: ` × 0.20 s`.
fn short(cell: &Cell) -> String {
    short_seconds(cell)
        .map_or_else(String::new, |seconds| format!(" × {}", figure::seconds(seconds)))
}

/// Length of the shortest run, if it is short.
fn short_seconds(cell: &Cell) -> Option<f64> {
    let measured = cell.whole_runs().filter(|run| run.origin != Origin::Simulated);
    measured.map(|run| run.seconds).filter(|s| reason::is_short(*s)).reduce(f64::min)
}

/// A percentile over the runs: never its mean.
fn range(cell: &Cell, of: impl Fn(&Latency) -> Option<u64>) -> String {
    match cell.range(&of) {
        None => figure::UNKNOWN.to_owned(),
        Some((low, high)) => {
            let is_open =
                |run: &CellRun| of(&run.latency_ns).is_some_and(|ns| run.latency_ns.at_least(ns));
            // I/Os without an answer could make the longest longer.
            let mark = if cell.whole_runs().any(is_open) { "≥" } else { "" };
            let (low, high) = (figure::span(low as f64), figure::span(high as f64));
            if low == high { format!("{mark}{low}") } else { format!("{low} – {mark}{high}") }
        }
    }
}

/// Reliability of the intervals.
pub(crate) fn rests_on(sweep: &SweepResult) -> String {
    let runs = || sweep.cells.iter().flat_map(Cell::whole_runs);
    let kind = runs().filter_map(|run| run.kind).max();
    let origin = runs().map(|run| run.origin.with(kind)).next();
    let origin = origin.unwrap_or_else(|| "not measured yet".to_owned());
    // Cells that only steer a search for a rate have one run by design.
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

/// Returns the checks against the cells, each with its worst verdict: `H06 warn (no steady state)`,
/// `H20 unknown in 2 of 6 cells (measured too rarely)`.
pub(crate) fn held_against(sweep: &SweepResult) -> Vec<String> {
    let measured = sweep.cells.iter().filter(|cell| cell.iops.is_some()).count();
    let say = |(code, worst, cells): (&str, Verdict, usize)| match cells == measured {
        true => format!("{code} {}{}", worst.word(), meaning(code, worst)),
        false => {
            let word = worst.word();
            format!("{code} {word} in {cells} of {measured} cells{}", meaning(code, worst))
        }
    };
    against(sweep).into_iter().map(say).collect()
}

/// Returns the checks that did not pass in a cell, with their worst verdict and the number of such
/// cells, by weight.
fn against(sweep: &SweepResult) -> Vec<(&str, Verdict, usize)> {
    let measured = sweep.cells.iter().filter(|cell| cell.iops.is_some());
    let mut found: BTreeMap<&str, (Verdict, usize)> = BTreeMap::new();
    for (code, verdict) in measured.flat_map(Cell::verdicts) {
        if verdict.is_against() {
            let (worst, cells) = found.entry(code).or_insert((verdict, 0));
            (*worst, *cells) = (worst.worse(verdict), *cells + 1);
        }
    }
    let found = found.into_iter().map(|(code, (worst, cells))| (code, worst, cells));
    let mut found: Vec<(&str, Verdict, usize)> = found.collect();
    found.sort_by_key(|(code, worst, _)| reason::order(code, *worst));
    found
}

/// Describes the knee of a series.
pub(crate) fn knee(series: &Series) -> String {
    let of = of(&series.settings);
    let Some(knee) = &series.knee else {
        let loads = figure::plural(series.points as u64, "load");
        return format!("knee{of}: not known from {loads}");
    };
    let place = match knee {
        Knee { at_end: true, .. } => "at or beyond",
        Knee { at_start: true, .. } => "at or below",
        _ => "at",
    };
    let among = match knee.among.as_deref() {
        None => "; three runs of each load say how sure that is".to_owned(),
        Some([] | [_]) => "; no other load comes near (95 %)".to_owned(),
        Some(all) => format!("; not told apart: {} (95 %)", all.join(", ")),
    };
    format!(
        "knee{of}: {place} {}={}, {} with {} on average{among}",
        series.axis,
        knee.value,
        figure::iops(knee.iops),
        figure::span(knee.mean_ns),
    )
}

/// Describes the speed-up over the first value of the axis.
pub(crate) fn scaled(series: &Series, scale: &Scale) -> String {
    let range = match scale.range {
        Some([low, high]) if low != high => format!(" ({low:.2} – {high:.2})"),
        _ => String::new(),
    };
    let (axis, times, percent) = (&series.axis, scale.times, scale.share * 100.0);
    let value = &scale.value;
    format!("  {axis}={value:<4} {times:>6.2} times the first{range}, {percent:.0} % of linear")
}

/// Describes the result of a search.
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
    let p99 = found
        .p99_ns
        .map_or_else(String::new, |ns| format!(" (median p99 {})", figure::span(ns as f64)));
    let best = match (found.rate_per_s, found.held_rate_per_s) {
        // Found by the rule of an earlier version.
        (Some(rate), None) => format!("{}, held in {}{p99}", figure::iops(rate), runs(found.held)),
        (Some(rate), Some(tried)) => format!(
            "{} by a curve through {}; {} held in {}{p99}",
            figure::iops(rate),
            figure::plural(found.runs.into(), "run"),
            figure::iops(tried),
            runs(found.held),
        ),
        (None, _) => "no rate keeps it".to_owned(),
    };
    format!("p99 ≤ {bound}{of}: {best}; {missed}{}", interval(found))
}

/// Describes the interval of the rate and its confidence.
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
        write(sweep, Paint::PLAIN, None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn shows_medians_ranges_and_what_they_rest_on() {
        let plan = SweepPlan { repeats: 3, ..SweepPlan::default() };
        let cells = vec![cell("512", &[1e6, 3e6, 2e6], &[5000, 7000, 6000]), cell("4k", &[], &[])];
        let among = Some(vec!["4".into(), "8".into()]);
        let knee = Knee {
            value: "8".into(),
            iops: 2e6,
            mean_ns: 1e4,
            at_end: true,
            at_start: false,
            among,
            ..Knee::default()
        };
        let series = vec![Series {
            settings: vec![],
            axis: "outstanding".into(),
            points: 3,
            knee: Some(knee),
            scaling: vec![Scale {
                value: "16".into(),
                times: 15.0,
                range: Some([14.5, 15.5]),
                share: 0.94,
                ..Scale::default()
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
    fn a_narrow_terminal_gets_tables_below_each_other() {
        let cells = vec![cell("512", &[1e6, 3e6, 2e6], &[5000, 7000, 6000]), cell("4k", &[], &[])];
        let sweep = SweepResult { cells, ..SweepResult::default() };
        let of = |columns| {
            let text = painted(&sweep, Paint::PLAIN, columns);
            let (table, _) = text.as_str().split_once("\nmeasured").unwrap();
            table.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let whole = of(None);
        assert_eq!(whole.len(), 3, "{whole:?}");
        for columns in [200, 100, 80, 60, 45] {
            let narrow = of(Some(columns));
            assert!(narrow.iter().all(|line| line.chars().count() <= columns), "{narrow:?}");
            assert_eq!(narrow.len() == 3, columns == 200, "{narrow:?}");
            // No figure is left out, and each table says of which cell it is.
            let words = |lines: &[String], row: usize| -> Vec<String> {
                let rows = lines.chunks(4).filter_map(|table| table.get(row));
                let all = rows.flat_map(|line| line.split("  ").map(|word| word.trim().to_owned()));
                all.filter(|word| !word.is_empty()).collect()
            };
            let tables = narrow.len().div_ceil(4);
            for row in 0..3 {
                let all = words(&whole, row);
                let mut shown = words(&narrow, row);
                let names = shown.iter().filter(|word| **word == all[0]).count();
                assert_eq!(names, tables, "{shown:?}");
                let mut first = true;
                shown.retain(|word| *word != all[0] || std::mem::take(&mut first));
                assert_eq!(shown, all);
            }
        }
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
            rate_per_s: Some(7750.0),
            runs: 21,
            held_rate_per_s: Some(7650.0),
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
            "p99 ≤ 2.00 ms: 7.75k IOPS by a curve through 21 runs; 7.65k IOPS held in 3 of 5 runs \
             (median p99 1.95 ms); 7.85k IOPS held in 2 of 5 runs; between 7.45k and 8.05k IOPS \
             (94 %)"
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
