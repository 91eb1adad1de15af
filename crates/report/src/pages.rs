//! Runs and sweeps as pages of HTML: what the tables of [`text`](crate::text) and
//! [`sweep`](crate::sweep) say, with bars.

use stats::sweep::{Cell, SweepResult};
use stats::{Check, Latency, RunResult, Second};

use crate::chart::{Bar, Chart};
use crate::ended;
use crate::failures;
use crate::figure;
use crate::job;
use crate::page::{Content, Page, Section, Table};
use crate::part;
use crate::reason;
use crate::records::{self, Beside};
use crate::style::Paint;
use crate::sweep as table;

/// Most bars of a chart over time: more are too thin to read.
const BARS: usize = 60;
/// How many records stand beside a result.
const RECORDS_SHOWN: usize = 4;

/// The results of a run, one for each step.
pub fn runs(results: &[RunResult]) -> Page {
    let first = results.first();
    let title = first.map_or("run", |result| &result.job.name).to_owned();
    let lead = results.iter().map(lead).collect::<Vec<_>>().join(" ");
    let many = results.len() > 1;
    let sections = (1..).zip(results).flat_map(|(number, result)| {
        let before = if many { format!("step {number}: ") } else { String::new() };
        sections(result)
            .into_iter()
            .map(move |section| Section { title: format!("{before}{}", section.title), ..section })
    });
    let foot = first.map_or_else(String::new, |result| {
        format!("drumfire {}, begun {}, seed {}", result.tool.version, result.started, result.seed)
    });
    Page { title, lead, sections: sections.collect(), foot }
}

fn lead(result: &RunResult) -> String {
    let totals = &result.totals;
    let troubles = ended::troubles(result);
    let partial = result.partial.as_ref().map(|why| format!(" Partial result: {why}."));
    let part = part::words(&result.spec);
    format!(
        "{}. {}{}. {} I/Os in {}, {}.{}",
        reason::headline(result, Paint::PLAIN),
        job::kind(&result.job),
        part.iter().map(|word| format!(", {word}")).collect::<String>(),
        figure::count(totals.ios),
        figure::seconds(totals.seconds),
        if troubles.is_empty() { "no errors".to_owned() } else { troubles.join(", ") },
        partial.unwrap_or_default(),
    )
}

fn sections(result: &RunResult) -> Vec<Section> {
    let mut sections = vec![latencies(result)];
    if !result.intervals.is_empty() {
        sections.push(over_time(result));
    }
    sections.extend(failures::section(result));
    sections.push(checks(result));
    sections.extend(records(result));
    sections
}

fn section(title: &str, content: Vec<Content>) -> Section {
    Section { title: title.to_owned(), content }
}

const LATENCY: [&str; 10] =
    ["", "IOPS", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

fn latencies(result: &RunResult) -> Section {
    let totals = &result.totals;
    let row = |name: &str, iops: f64, latency: &Latency| {
        let mean = figure::mean(latency);
        let cell = |ns| figure::bound(latency, ns);
        let [min, p50, p90, p99] = [latency.min, latency.p50, latency.p90, latency.p99].map(cell);
        let [p99_9, p99_99, max] = [latency.p99_9, latency.p99_99, latency.max].map(cell);
        let name = name.to_owned();
        vec![name, figure::rate(iops), min, mean, p50, p90, p99, p99_9, p99_99, max]
    };
    let directions =
        [("reads", &totals.read), ("writes", &totals.write), ("others", &totals.other)];
    let used = directions.into_iter().filter(|(_, of)| of.ios > 0 || of.latency_ns.samples > 0);
    let mut rows = vec![row("all", totals.iops, &totals.latency_ns)];
    rows.extend(used.map(|(name, of)| row(name, of.iops, &of.latency_ns)));
    let table = Table { head: LATENCY.to_vec(), rows };
    let words = "Percentiles with fewer than 100 samples above them are withheld.".to_owned();
    section("latency", vec![Content::Table(table), Content::Text(words)])
}

/// The rate over time, in as many seconds a bar as it takes.
fn over_time(result: &RunResult) -> Section {
    let width = result.intervals.len().div_ceil(BARS).max(1);
    // Rows of long runs stand for more than a second each.
    let length_s = result.intervals.get(width - 1).map_or(0.0, |row| row.t);
    let mut begin = 0.0;
    let bar = |seconds: &[Second]| {
        let end = seconds.last().map_or(begin, |second| second.t);
        let mut from = begin;
        let ios: f64 = seconds
            .iter()
            .map(|second| second.iops * (second.t - std::mem::replace(&mut from, second.t)))
            .sum();
        let value = ios / (end - begin).max(1e-9);
        let label = format!("{begin:.0} – {end:.0} s");
        begin = end;
        Bar { label, value, range: None, text: figure::iops(value), marked: false }
    };
    let chart = Chart {
        title: "IOPS over time".to_owned(),
        about: format!("A bar is the mean rate of {}.", figure::seconds(length_s)),
        full: None,
        bars: result.intervals.chunks(width).map(bar).collect(),
    };
    section("over time", vec![Content::Chart(chart)])
}

fn checks(result: &RunResult) -> Section {
    let row = |check: &Check| {
        let Check { code, name, verdict, evidence, mend } = check;
        let (verdict, mend) = (verdict.word().to_owned(), mend.join("; "));
        vec![code.clone(), name.clone(), verdict, evidence.clone(), mend]
    };
    let rows = reason::in_order(&result.checks).into_iter().map(row).collect();
    let head = vec!["check", "name", "verdict", "evidence", "mend"];
    let mut content = vec![Content::Table(Table { head, rows })];
    content.extend(result.warnings.iter().cloned().map(Content::Text));
    section("honesty checks", content)
}

fn records(result: &RunResult) -> Option<Section> {
    let records = match records::beside(result) {
        Beside::Nothing => return None,
        Beside::Withheld(why) => {
            let words = format!("Not compared with published figures: {why}.");
            return Some(section("records", vec![Content::Text(words)]));
        }
        Beside::These(records) => records,
    };
    let row = |record: &records::Record| {
        let multiple = format!("{:.3} ×", result.totals.iops / record.iops);
        vec![multiple, record.figure(), record.name(), record.job(), record.system.to_owned()]
    };
    let rows = records.into_iter().take(RECORDS_SHOWN).map(row).collect();
    let head = vec!["this run", "published", "by", "job", "system"];
    let words = "This run as a multiple of published figures for the same kind of job: theirs, on \
                 their hardware.";
    Some(section(
        "records",
        vec![Content::Text(words.to_owned()), Content::Table(Table { head, rows })],
    ))
}

/// A sweep.
pub fn sweep(sweep: &SweepResult) -> Page {
    let rows = sweep.cells.iter().map(|cell| {
        let mut row = table::row(sweep, cell);
        let figures = row.split_off(cell.settings.len());
        std::iter::once(words(cell)).chain(figures).collect()
    });
    let head = std::iter::once("cell").chain(table::FIGURES).collect();
    let cells = Content::Table(Table { head, rows: rows.collect() });
    let bends = sweep.series.iter().flat_map(|series| {
        let scaled = series.scaling.iter().map(|scale| table::scaled(series, scale));
        std::iter::once(table::knee(series)).chain(scaled)
    });
    let found = sweep.found.iter().map(|found| table::search(sweep, found));
    let failed = table::failures(sweep);
    let held = table::held_against(sweep);
    let mut checks: Vec<Content> = Vec::new();
    if !held.is_empty() {
        checks.push(Content::Text(format!("Not passed: {}.", held.join(", "))));
    }
    checks.extend(failed.into_iter().map(Content::Text));
    let mut sections = vec![section("cells", vec![cells]), rates(sweep)];
    let bends: Vec<Content> = bends.chain(found).map(Content::Text).collect();
    for (title, content) in [("where it bends", bends), ("honesty checks", checks)] {
        if !content.is_empty() {
            sections.push(section(title, content));
        }
    }
    let (done, planned) = (
        sweep.cells.iter().map(|cell| cell.whole_runs().count()).sum::<usize>(),
        sweep.cells.iter().map(|cell| table::wanted(sweep, cell) as usize).sum::<usize>(),
    );
    Page {
        title: "sweep".to_owned(),
        lead: format!("{done} of {planned} runs: {}.", table::rests_on(sweep)),
        sections,
        foot: format!("drumfire {}, seed {}", sweep.tool.version, sweep.plan.seed),
    }
}

fn words(cell: &Cell) -> String {
    let words = cell.settings.iter().map(|setting| format!("{}={}", setting.word, setting.value));
    words.collect::<Vec<_>>().join(" ")
}

fn rates(sweep: &SweepResult) -> Section {
    let best = sweep.cells.iter().filter_map(|cell| cell.iops).map(|iops| iops.median);
    let best = best.fold(0.0, f64::max);
    let bar = |cell: &Cell| {
        let iops = cell.iops?;
        Some(Bar {
            label: words(cell),
            value: iops.median,
            range: Some((iops.low, iops.high)),
            text: format!("{} {}", figure::iops(iops.median), table::class(cell)),
            marked: iops.median == best,
        })
    };
    let chart = Chart {
        title: "IOPS of each cell".to_owned(),
        about: "A bar is the median of the runs, its range their interval; the highest is marked."
            .to_owned(),
        full: None,
        bars: sweep.cells.iter().filter_map(bar).collect(),
    };
    section("rates", vec![Content::Chart(chart)])
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;
    use stats::sweep::{CellRun, Knee, Series, Setting, SweepPlan};
    use stats::{Spread, Verdict};

    #[test]
    fn a_run_says_on_a_page_what_it_says_in_a_table() {
        let mut result = sample::counted();
        result.job = sample::job();
        result.totals = sample::race().totals;
        result.checks = sample::race().checks;
        let page = runs(std::slice::from_ref(&result)).html();
        for part in [
            "3.41M IOPS measured, indicative: loopback",
            "690 µs",
            "H19",
            "loopback: no wire",
            "Third I/O",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        result.set_check(Check::new("H02", "data-exist", Verdict::Fail, "a <hole>"));
        let page = runs(&[result.clone(), result]).html();
        assert!(page.contains("step 2: latency") && page.contains("a &lt;hole&gt;"), "{page}");
        assert!(page.contains("Not compared") && !page.contains("Third I/O"), "{page}");
        assert!(runs(&[]).html().contains("<html"));
    }

    #[test]
    fn a_long_run_has_few_bars_and_its_mean_rate() {
        let second =
            |t: u32| Second { t: t.into(), iops: f64::from(t % 2) * 200.0, ..Second::default() };
        let intervals = (1..=3600).map(second).collect();
        let result = RunResult { intervals, ..RunResult::default() };
        let section = over_time(&result);
        let [Content::Chart(chart)] = &section.content[..] else { panic!("{section:?}") };
        assert_eq!(chart.bars.len(), BARS);
        assert!(chart.bars.iter().all(|bar| (bar.value - 100.0).abs() < 1e-6), "{chart:?}");
        assert_eq!(chart.bars[59].label, "3540 – 3600 s");
    }

    #[test]
    fn a_sweep_has_its_cells_its_knee_and_what_speaks_against_it() {
        let run = |iops: f64| CellRun {
            iops,
            failed: (iops == 0.0).then(|| "worker 1 lost <x>".to_owned()),
            ..CellRun::default()
        };
        let cell = |value: &str, rates: &[f64]| Cell {
            settings: vec![Setting { word: "outstanding".into(), value: value.into() }],
            iops: Spread::of(rates.iter().copied().filter(|rate| *rate > 0.0)),
            runs: rates.iter().map(|rate| run(*rate)).collect(),
            ..Cell::default()
        };
        let knee = Knee { value: "8".into(), iops: 2e6, mean_ns: 1e4, at_end: false };
        let series =
            Series { axis: "outstanding".into(), points: 3, knee: Some(knee), ..Series::default() };
        let result = SweepResult {
            plan: SweepPlan { repeats: 2, ..SweepPlan::default() },
            cells: vec![cell("1", &[1e6, 1.2e6]), cell("8", &[2e6, 0.0]), cell("16", &[])],
            series: vec![series],
            ..SweepResult::default()
        };
        let page = sweep(&result).html();
        for part in [
            "3 of 6 runs",
            "outstanding=1",
            "1.10M IOPS indicative",
            "knee: at outstanding=8",
            "H20 unknown",
            "worker 1 lost &lt;x&gt;",
            "0/2",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(sweep(&SweepResult::default()).html().contains("not measured yet"));
    }
}
