//! A sweep as a page: a line for each series over its load, its knee, and every cell.

use stats::sweep::{Cell, Search, Series as Of, Setting, SweepResult, quantity};
use stats::{Latency, Origin, Spread};

use super::{section, setup, subject};
use crate::bounds;
use crate::chart::{Axis, Bar, Chart, Mark, Plot, Point, Scale, Series, Unit};
use crate::figure;
use crate::page::{Content, Judged, Page, Section, Table};
use crate::reason;
use crate::sweep as table;

/// A sweep.
pub fn sweep(sweep: &SweepResult) -> Page {
    let rows = sweep.cells.iter().map(|cell| {
        let mut row = table::row(sweep, cell);
        let figures = row.split_off(cell.settings.len());
        std::iter::once(table::words_of(cell)).chain(figures).collect()
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
    let told = table::doubts(sweep).into_iter().chain(table::journal(sweep));
    checks.extend(told.chain(failed).map(Content::Text));
    let mut sections: Vec<Section> = plots(sweep);
    if sections.is_empty() {
        sections.push(rates(sweep));
    }
    sections.splice(0..0, bounds::section(&sweep.bounds));
    sections.push(section("cells", vec![cells]));
    let bends: Vec<Content> = bends.chain(found).map(Content::Text).collect();
    for (title, content) in [("where it bends", bends), ("honesty checks", checks)] {
        if !content.is_empty() {
            sections.push(section(title, content));
        }
    }
    sections.push(setup::of_sweep(sweep));
    let (done, planned) = (
        sweep.cells.iter().map(|cell| cell.whole_runs().count()).sum::<usize>(),
        sweep.cells.iter().map(|cell| table::wanted(sweep, cell) as usize).sum::<usize>(),
    );
    let subject = subject::of_sweep(sweep);
    subject::name_charts(&mut sections, &subject);
    Page {
        title: if subject.is_empty() { "sweep".to_owned() } else { format!("sweep of {subject}") },
        lead: format!("{}{done} of {planned} runs: {}.", best(sweep), table::rests_on(sweep)),
        judged: judged(sweep),
        sections,
        foot: format!("drumfire {}, seed {}", sweep.tool.version, sweep.plan.seed),
        raw: serde_json::to_string(sweep).ok(),
    }
}

fn rates(sweep: &SweepResult) -> Section {
    let best = sweep.cells.iter().filter_map(|cell| cell.iops).map(|iops| iops.median);
    let best = best.fold(0.0, f64::max);
    let bar = |cell: &Cell| {
        let iops = cell.iops?;
        Some(Bar {
            label: table::words_of(cell),
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

/// The highest rate with its interval: "1.01M IOPS (990k to 1.05M) at outstanding=32; ".
fn best(sweep: &SweepResult) -> String {
    let cells = sweep.cells.iter().filter_map(|cell| Some((cell, cell.iops?)));
    let best = cells.max_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let Some((cell, iops)) = best else { return String::new() };
    // The ends as they are: the median is rarely in their middle.
    let about = match iops.n {
        1 => String::new(),
        _ => format!(" ({} to {})", figure::rate(iops.low), figure::rate(iops.high)),
    };
    let at = table::words_of(cell);
    let at = if at.is_empty() { at } else { format!(" at {at}") };
    let knee = match &sweep.series[..] {
        [only] => only.knee.as_ref().map(|knee| format!("knee at {}={}; ", only.axis, knee.value)),
        _ => None,
    };
    let most = if sweep.cells.len() > 1 { "at most " } else { "" };
    format!("{most}{}{about}{at}; {}", figure::iops(iops.median), knee.unwrap_or_default())
}

/// Class of the sweep: the worst of its cells.
fn judged(sweep: &SweepResult) -> Option<Judged> {
    let measured = || sweep.cells.iter().filter(|cell| cell.iops.is_some());
    let class = measured().map(|cell| cell.class).max_by_key(|class| reason::rank(*class))?;
    let origin = measured().flat_map(Cell::whole_runs).map(|run| run.origin.with(run.kind)).next();
    let held = table::held_against(sweep);
    let because = held.first().cloned().unwrap_or_default();
    let searches = sweep.plan.search != Search::Nothing;
    let next = match because.starts_with("H20") && !searches {
        true => "the same sweep with --repeats 6 and --seconds 5 or more",
        false => reason::settles(because.get(..3).unwrap_or_default()),
    };
    Some(Judged {
        class: class.word(),
        origin: origin.unwrap_or_default(),
        because,
        next: next.to_owned(),
    })
}

/// The number that a value of an axis is, if it is one: `4k` is 4096, `1M` IOPS a million.
fn number(word: &str, value: &str) -> Option<f64> {
    quantity(word, value).map(|it| it.number)
}

/// A series with its cells, by the number that they differ by.
struct Line<'a> {
    of: &'a Of,
    name: String,
    cells: Vec<(f64, &'a Cell)>,
}

fn lines(sweep: &SweepResult) -> Vec<Line<'_>> {
    let line = |of| {
        let mut cells: Vec<(f64, &Cell)> =
            sweep.cells.iter().filter_map(|cell| Some((at(of, cell)?, cell))).collect();
        cells.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { of, name: name(&of.settings), cells }
    };
    let all = sweep.series.iter().map(line);
    all.filter(|line| line.cells.iter().filter(|(_, cell)| cell.iops.is_some()).count() >= 2)
        .collect()
}

/// Returns the position of a cell on the axis of a series, if the cell belongs to the series.
fn at(series: &Of, cell: &Cell) -> Option<f64> {
    if cell.rate_per_s.is_some() {
        return None;
    }
    let (own, rest): (Vec<&Setting>, Vec<&Setting>) =
        cell.settings.iter().partition(|setting| setting.word == series.axis);
    let belongs = rest.len() == series.settings.len()
        && rest.iter().all(|setting| series.settings.contains(setting));
    let [own] = own[..] else { return None };
    if belongs { number(&own.word, &own.value) } else { None }
}

fn name(settings: &[Setting]) -> String {
    let word = |setting: &Setting| format!("{} {}", setting.word, setting.value);
    settings.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn origin(cells: &[(f64, &Cell)]) -> Origin {
    let runs = cells.iter().flat_map(|(_, cell)| cell.whole_runs());
    runs.map(|run| run.origin).next().unwrap_or_default()
}

/// Returns line plots over the varied settings, for each numeric axis.
fn plots(sweep: &SweepResult) -> Vec<Section> {
    let all = lines(sweep);
    let mut axes: Vec<&str> = Vec::new();
    for line in &all {
        if !axes.contains(&&line.of.axis[..]) {
            axes.push(&line.of.axis);
        }
    }
    let of = |axis: &&str| {
        let lines: Vec<&Line> = all.iter().filter(|line| line.of.axis == **axis).collect();
        let mut content = vec![Content::Plot(rate_over(axis, &lines))];
        content.push(Content::Plot(latency_over(axis, &lines)));
        content.push(Content::Plot(p99_over(axis, &lines)));
        content.push(Content::Plot(latency_over_rate(axis, &lines)));
        content.extend(lines.iter().filter_map(|line| scaling(line)));
        section(&format!("over {axis}"), content)
    };
    axes.iter().map(of).collect()
}

fn axis_of(axis: &str, lines: &[&Line]) -> Axis {
    let values = || lines.iter().flat_map(|line| line.cells.iter().map(|(x, _)| *x));
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let scale = if low > 0.0 && high / low >= 8.0 { Scale::Log } else { Scale::Linear };
    Axis::new(axis, Unit::Count, scale)
}

fn drawn(lines: &[&Line], point: impl Fn(f64, &Cell) -> Point) -> Vec<Series> {
    let series = |line: &&Line| Series {
        name: line.name.clone(),
        points: line.cells.iter().map(|(x, cell)| point(*x, cell)).collect(),
        origin: origin(&line.cells),
        is_guide: false,
    };
    lines.iter().map(series).collect()
}

/// Knees, those at one place together.
fn knees(axis: &str, lines: &[&Line]) -> Vec<Mark> {
    let mut found: Vec<(f64, &str, Vec<&str>)> = Vec::new();
    for line in lines {
        let Some(knee) = line.of.knee.as_ref().filter(|knee| !knee.at_end && !knee.at_start) else {
            continue;
        };
        let Some(x) = number(axis, &knee.value) else { continue };
        match found.iter_mut().find(|(at, ..)| *at == x) {
            Some((.., names)) => names.push(&line.name),
            None => found.push((x, &knee.value, vec![&line.name])),
        }
    }
    let mark = |(x, value, names): (f64, &str, Vec<&str>)| {
        let of = match names[..] {
            [only] if lines.len() > 1 => format!(" of {only}"),
            [_] => String::new(),
            _ => format!(" of {} lines", names.len()),
        };
        Mark { name: format!("knee{of} at {value}"), x }
    };
    found.into_iter().map(mark).collect()
}

fn rate_over(axis: &str, lines: &[&Line]) -> Plot {
    Plot {
        title: format!("Rate over {axis}"),
        about: "IOPS over load. Points are medians of the runs, bands their intervals.".to_owned(),
        x: axis_of(axis, lines),
        y: Axis::new("", Unit::Iops, Scale::Linear),
        series: drawn(lines, |x, cell| Point {
            x,
            y: cell.iops.map(|iops| iops.median),
            range: cell.iops.map(|iops| (iops.low, iops.high)),
        }),
        marks: knees(axis, lines),
    }
}

fn latency_over(axis: &str, lines: &[&Line]) -> Plot {
    Plot {
        title: format!("Mean latency over {axis}"),
        about: "Latency over load. Points are medians of the runs' means, bands their range."
            .to_owned(),
        x: axis_of(axis, lines),
        y: Axis::new("mean latency", Unit::Nanos, Scale::Log),
        series: drawn(lines, |x, cell| {
            let means = || cell.whole_runs().filter_map(|run| run.latency_ns.mean);
            let range = means().reduce(f64::min).zip(means().reduce(f64::max));
            Point { x, y: cell.mean_ns(), range }
        }),
        marks: knees(axis, lines),
    }
}

fn p99_over(axis: &str, lines: &[&Line]) -> Plot {
    let spread = |cell: &Cell| {
        // A run without one could have any, and one that is a lower bound a longer one.
        let known = |latency: &Latency| latency.p99.filter(|ns| !latency.at_least(*ns));
        let each: Option<Vec<u64>> = cell.whole_runs().map(|run| known(&run.latency_ns)).collect();
        let each = each?.into_iter().map(|ns| ns as f64);
        let range = each.clone().reduce(f64::min).zip(each.clone().reduce(f64::max));
        Some((Spread::of(each)?.median, range?))
    };
    Plot {
        title: format!("p99 over {axis}"),
        about: "Latency that one of a hundred I/Os exceeds. Points are medians of the runs' p99, \
                bands their range; gaps have too few I/Os for one, or I/Os without an answer."
            .to_owned(),
        x: axis_of(axis, lines),
        y: Axis::new("p99", Unit::Nanos, Scale::Log),
        series: drawn(lines, |x, cell| {
            let found = spread(cell);
            Point { x, y: found.map(|(median, _)| median), range: found.map(|(_, range)| range) }
        }),
        marks: knees(axis, lines),
    }
}

fn latency_over_rate(axis: &str, lines: &[&Line]) -> Plot {
    let series = lines.iter().map(|line| {
        let point = |cell: &Cell| Some(Point::new(cell.iops?.median, cell.mean_ns()));
        Series {
            name: line.name.clone(),
            // In the order of the load: beyond the peak a line turns back.
            points: line.cells.iter().filter_map(|(_, cell)| point(cell)).collect(),
            origin: origin(&line.cells),
            is_guide: false,
        }
    });
    Plot {
        title: "Latency over rate".to_owned(),
        about: format!(
            "The knee is where latency climbs and the rate does not. Each line runs from the least \
             {axis} to the most."
        ),
        x: Axis::new("", Unit::Iops, Scale::Linear),
        y: Axis::new("mean latency", Unit::Nanos, Scale::Log),
        series: series.collect(),
        marks: Vec::new(),
    }
}

/// Returns the speed-up chart, with a straight line and a fitted scaling law.
fn scaling(line: &Line) -> Option<Content> {
    let scales: Vec<(f64, &stats::sweep::Scale)> = (line.of.scaling.iter())
        .filter_map(|scale| Some((number(&line.of.axis, &scale.value)?, scale)))
        .collect();
    let first = scales.first().map(|(x, _)| *x).filter(|x| *x > 0.0 && scales.len() >= 3)?;
    let point = |(x, scale): &(f64, &stats::sweep::Scale)| Point {
        x: *x,
        y: Some(scale.times),
        range: scale.range.map(|[low, high]| (low, high)),
    };
    let points: Vec<Point> = scales.iter().map(point).collect();
    let ideal = scales.iter().map(|(x, _)| Point::new(*x, x / first)).collect();
    let measured: Vec<(f64, f64)> =
        scales.iter().map(|(x, scale)| (x / first, scale.times)).collect();
    let guide = |name: &str, points| Series { is_guide: true, ..Series::new(name, points) };
    let mut series = vec![Series { origin: origin(&line.cells), ..Series::new("rate", points) }];
    series.push(guide("ideal", ideal));
    let mut about = "Speed-up over the smallest number.".to_owned();
    if let Some((waits, agrees)) = law(&measured) {
        let fitted = |x: &f64| {
            let n = x / first;
            Point::new(*x, n / (1.0 + waits * (n - 1.0) + agrees * n * (n - 1.0)))
        };
        series.push(guide("fitted law", scales.iter().map(|(x, _)| fitted(x)).collect()));
        about += &format!(
            " Fitted (universal scalability law): {:.2} % contention, {:.4} % coherence.",
            waits * 100.0,
            agrees * 100.0
        );
    }
    let (x, last) = scales.last()?;
    about += &format!(" Efficiency at {x}: {:.0} %.", last.share * 100.0);
    let name = if line.name.is_empty() { String::new() } else { format!(", {}", line.name) };
    Some(Content::Plot(Plot {
        title: format!("Scaling over {}{name}", line.of.axis),
        about,
        x: Axis::new(&line.of.axis, Unit::Count, Scale::Linear),
        y: Axis::new("", Unit::Times, Scale::Linear),
        series,
        marks: Vec::new(),
    }))
}

/// Least squares of N. Gunther's universal scalability law, C(n) = n / (1 + σ(n−1) + κn(n−1)):
/// the part that waits for its turn, and the part that is agreement. `None` from fewer than four
/// points, or where neither is a number from 0 on.
fn law(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < 4 {
        return None;
    }
    let (mut aa, mut ab, mut bb, mut ay, mut by) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (n, times) in points.iter().filter(|(n, times)| *n > 1.0 && *times > 0.0) {
        let (a, b, y) = (n - 1.0, n * (n - 1.0), n / times - 1.0);
        (aa, ab, bb) = (aa + a * a, ab + a * b, bb + b * b);
        (ay, by) = (ay + a * y, by + b * y);
    }
    let whole = aa * bb - ab * ab;
    let both = ((ay * bb - by * ab) / whole, (by * aa - ay * ab) / whole);
    let (waits, agrees) = match both {
        (waits, agrees) if waits >= 0.0 && agrees >= 0.0 => (waits, agrees),
        (waits, _) if waits < 0.0 => (0.0, by / bb),
        _ => (ay / aa, 0.0),
    };
    let holds = waits.is_finite() && agrees.is_finite() && waits >= 0.0 && agrees >= 0.0;
    holds.then_some((waits, agrees))
}

#[cfg(test)]
mod test {
    use super::*;
    use stats::sweep::{CellRun, Knee, SweepPlan};

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
        let knee = Knee { value: "8".into(), iops: 2e6, mean_ns: 1e4, ..Knee::default() };
        let series =
            Of { axis: "outstanding".into(), points: 3, knee: Some(knee), ..Of::default() };
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
            "1.10M",
            "knee: at outstanding=8",
            "H20 unknown",
            "worker 1 lost &lt;x&gt;",
            "0/2",
            "Rate over outstanding",
            "2.00M IOPS",
            "knee at 8",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(sweep(&SweepResult::default()).html().contains("not measured yet"));
    }

    #[test]
    fn a_skewed_range_is_told_as_it_is_and_p99_has_a_chart() {
        let cell = |value: &str, rates: &[f64], p99: &[Option<u64>]| Cell {
            settings: vec![Setting { word: "outstanding".into(), value: value.into() }],
            iops: Spread::of(rates.iter().copied()),
            runs: (rates.iter().zip(p99))
                .map(|(iops, p99)| CellRun {
                    iops: *iops,
                    latency_ns: Latency { p99: *p99, ..Latency::default() },
                    ..CellRun::default()
                })
                .collect(),
            ..Cell::default()
        };
        let (known, none) = ([Some(2_000_000), Some(9_000_000), Some(3_000_000)], [None; 3]);
        let mut open = cell("4", &[3e4; 3], &known);
        open.runs[1].latency_ns.waiting_from = Some(8_000_000);
        let knee = Knee { value: "2".into(), ..Knee::default() };
        let result = SweepResult {
            cells: vec![
                cell("1", &[2.67e4, 2.72e4, 3.69e4], &known),
                cell("2", &[1e4; 3], &[known[0], None, known[1]]),
                open,
                cell("8", &[1e4; 3], &none),
            ],
            series: vec![Of { axis: "outstanding".into(), knee: Some(knee), ..Of::default() }],
            ..SweepResult::default()
        };
        let one = SweepResult { cells: result.cells[..1].to_vec(), ..SweepResult::default() };
        assert_eq!(best(&one), "27.2k IOPS (26.7k to 36.9k) at outstanding=1; ");
        let most = "at most 30.0k IOPS (30.0k to 30.0k) at outstanding=4; knee at outstanding=2; ";
        assert_eq!(best(&result), most);
        assert!(!sweep(&result).html().contains('±'));
        let plot = p99_over("outstanding", &lines(&result).iter().collect::<Vec<_>>());
        let points: Vec<_> =
            plot.series[0].points.iter().map(|it| (it.x, it.y, it.range)).collect();
        let first = (1.0, Some(3e6), Some((2e6, 9e6)));
        // Runs without a p99, or of which it is a lower bound, leave a gap.
        assert_eq!(points, [first, (2.0, None, None), (4.0, None, None), (8.0, None, None)]);
        assert!(sweep(&result).html().contains("p99 over outstanding"));
    }

    #[test]
    fn a_law_is_found_again() {
        let made = |waits: f64, agrees: f64| -> Vec<(f64, f64)> {
            let at = |n: f64| n / (1.0 + waits * (n - 1.0) + agrees * n * (n - 1.0));
            [1.0, 2.0, 4.0, 8.0, 16.0, 24.0].map(|n| (n, at(n))).to_vec()
        };
        for (waits, agrees) in [(0.0, 0.0), (0.02, 0.0), (0.05, 0.001), (0.0, 0.002)] {
            let (one, other) = law(&made(waits, agrees)).unwrap();
            assert!((one - waits).abs() < 1e-9 && (other - agrees).abs() < 1e-9, "{one} {other}");
        }
        assert_eq!(law(&made(0.1, 0.0)[..3]), None);
        assert_eq!(number("size", "4k"), Some(4096.0));
        assert_eq!(number("rate", "1.5M"), Some(1.5e6));
        assert_eq!(number("protocol", "iscsi"), None);
    }
}
