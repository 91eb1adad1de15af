//! The full-screen view: a pure function of the job and the latest snapshot.

use stats::live::{About, HISTORY_SECONDS, LiveCpu, Phase, Snapshot, TargetRate};

use crate::canvas::{Area, Canvas, Color, Style};
use crate::connections;
use crate::digits;
use crate::figure;
use crate::job;
use crate::records::{self, Record, Standing};
use crate::style::Paint;

/// Narrowest cell that still shows a name, a bar and a rate.
const CELL_WIDTH: u16 = 24;
/// Width of the column with the processors.
const CPU_WIDTH: u16 = 28;

/// Input of the picture.
#[derive(Debug)]
pub struct Scene<'a> {
    /// Facts that do not change during the run.
    pub about: &'a About,
    /// The latest second; `None` before the first.
    pub snapshot: &'a Snapshot,
    /// The user holds the picture.
    pub paused: bool,
    /// Help is shown.
    pub help: bool,
    /// Whether there is colour.
    pub paint: Paint,
}

impl Scene<'_> {
    fn color(&self, color: Color) -> Style {
        Style { color: self.paint.is_on().then_some(color), ..Style::default() }
    }

    fn label(&self) -> Style {
        Style { dim: true, ..Style::default() }
    }

    fn bold(&self) -> Style {
        Style { bold: true, ..Style::default() }
    }
}

/// Help text, of at most 80 columns.
const HELP: [&str; 18] = [
    "What this shows",
    "",
    "big number    I/Os per second of the last second, with bytes and errors",
    "ramp          caches, windows and queues fill; not in the result",
    "run           the measured window; the time left is above it",
    "latency       of the last second's I/Os; n/a: too few for that percentile",
    "              ≥: an I/O without an answer could make it longer",
    "last 60 s     the rate, from 0 to the most of that time",
    "targets       rate relative to the fastest one; without targets: volumes",
    "CPU           cores that workers and targets use; below it each core",
    "passed, next  published records for the same kind of job",
    "",
    "Keys",
    "",
    "q, Ctrl-C     stop, complete what is in flight, write the result; twice: now",
    "p             hold the picture; the run goes on",
    "?             this page, and back",
    "In a browser: the same command with --listen 127.0.0.1:8080",
];

/// Rows above the targets, and below them.
const ABOVE: u16 = 1 + 1 + digits::ROWS as u16 + 1 + 2 + 4;
const BELOW: u16 = 2 + 1;
/// Fewest rows of targets, with their heading.
const TARGETS: u16 = 4;
/// Blocks of an eighth to eight eighths, in a column.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the whole screen. It fits 80 × 24; a smaller terminal shows its upper left part.
pub fn draw(canvas: &mut Canvas, scene: &Scene) {
    let area = canvas.area();
    if scene.help {
        for (y, line) in (0..).zip(HELP) {
            canvas.line(area.row(y), line, Style::default());
        }
        return;
    }
    // Parts below the last row are not drawn.
    let area = Area { height: area.height.max(ABOVE + TARGETS + BELOW), ..area };
    let (title, rest) = area.split_rows(1);
    let (rate, rest) = rest.split_rows(1).1.split_rows(digits::ROWS as u16);
    let (latency, rest) = rest.split_rows(1).1.split_rows(2);
    let (history, rest) = rest.split_rows(4);
    let (bars, rest) = rest.split_rows(rest.height - BELOW);
    let (marks, keys) = rest.split_rows(2);
    draw_title(canvas, title, scene);
    draw_rate(canvas, rate, scene);
    draw_latency(canvas, latency, scene);
    draw_history(canvas, history, scene);
    let targets = bars.width.saturating_sub(CPU_WIDTH).max(CELL_WIDTH);
    let (targets, cpu) = bars.split_columns(targets);
    draw_targets(canvas, targets, scene);
    draw_cpu(canvas, cpu, scene);
    draw_marks(canvas, marks, scene);
    canvas.line(keys, "q stop and report   p hold the picture   ? help", scene.label());
}

fn draw_title(canvas: &mut Canvas, area: Area, scene: &Scene) {
    let About { job, .. } = scene.about;
    let name = if job.name.is_empty() { "run" } else { &job.name };
    let columns = canvas.line(area, name, scene.bold());
    let rest = area.split_columns(columns).1;
    canvas.line(rest, &format!("  {}", job::kind(job)), Style::default());
    let snapshot = scene.snapshot;
    let left_s = snapshot.seconds_left.filter(|s| s.is_finite());
    let clock = left_s.map_or_else(String::new, |s| format!("  {:.0} s left", s.max(0.0)));
    let held = if scene.paused { "  HELD" } else { "" };
    let style = match snapshot.phase {
        Phase::Run => scene.color(Color::Green),
        Phase::Ramp | Phase::Drain => scene.color(Color::Yellow),
    };
    // Before the first second there is nothing but the wait for it.
    let nothing_yet = snapshot.history.is_empty() && snapshot.t_s == 0.0;
    let phase = if nothing_yet { "preparing" } else { snapshot.phase.word() };
    canvas.right(area, &format!(" {phase}{clock}{held}"), style);
}

fn draw_rate(canvas: &mut Canvas, area: Area, scene: &Scene) {
    let snapshot = scene.snapshot;
    let rows = digits::rows(&figure::rate(snapshot.iops));
    let width = rows[0].chars().count() as u16;
    let (number, right) = area.split_columns(width + 3);
    let style = Style { bold: true, ..scene.color(Color::Cyan) };
    for (y, row) in (0..).zip(&rows) {
        canvas.line(number.row(y), row, style);
    }
    let plain = Style::default();
    let errors = match snapshot.errors {
        0 => ("no errors".to_owned(), scene.label()),
        n => (figure::plural(n, "error"), scene.color(Color::Red)),
    };
    let lost = connections::so_far(snapshot);
    let lines = [
        (format!("IOPS, {}", scene.about.origin.with(scene.about.kind)), scene.bold()),
        (lost.unwrap_or_default(), scene.color(Color::Yellow)),
        (figure::bytes_per_second(snapshot.bytes_per_second), plain),
        (format!("{:.0} outstanding", snapshot.outstanding), plain),
        errors,
    ];
    for (y, (text, style)) in (0..).zip(&lines) {
        canvas.line(right.row(y), text, *style);
    }
}

fn draw_latency(canvas: &mut Canvas, area: Area, scene: &Scene) {
    let latency = &scene.snapshot.latency_ns;
    let cells = [
        ("p50", figure::bound(latency, latency.p50)),
        ("p99", figure::bound(latency, latency.p99)),
        ("p99.9", figure::bound(latency, latency.p99_9)),
        ("max", figure::bound(latency, latency.max)),
        ("mean", figure::mean(latency)),
    ];
    let heads: String = cells.iter().map(|(head, _)| format!("{head:>12}")).collect();
    let values: String = cells.iter().map(|(_, value)| format!("{value:>12}")).collect();
    canvas.line(area, &format!("latency{heads}"), scene.label());
    canvas.line(area.row(1), &format!("{:7}{values}", ""), Style::default());
}

fn draw_history(canvas: &mut Canvas, area: Area, scene: &Scene) {
    let known = scene.snapshot.history.iter().filter(|rate| rate.is_finite());
    let rates: Vec<u64> = known.map(|rate| *rate as u64).collect();
    let most = rates.iter().copied().max().unwrap_or(0);
    let (label, chart) = area.split_rows(1);
    let text = format!("last {HISTORY_SECONDS} s, at most {}", figure::iops(most as f64));
    canvas.line(label, &text, scene.label());
    let from = rates.len().saturating_sub(usize::from(chart.width));
    let style = scene.color(Color::Cyan);
    for y in 0..chart.height {
        let above = u64::from(chart.height - 1 - y) * 8;
        let blocks: String = rates[from..]
            .iter()
            .map(|rate| {
                let all = u128::from(*rate) * u128::from(chart.height) * 8;
                let eighths = (all / u128::from(most.max(1))) as u64;
                match eighths.saturating_sub(above).min(8) {
                    0 => ' ',
                    eighths => EIGHTHS[eighths as usize - 1],
                }
            })
            .collect();
        canvas.line(chart.row(y), &blocks, style);
    }
}

fn draw_targets(canvas: &mut Canvas, area: Area, scene: &Scene) {
    let targets = &scene.snapshot.targets;
    let (label, body) = area.split_rows(1);
    let what = if scene.about.job.targets > 0 { "target" } else { "volume" };
    let plain = figure::plural(targets.len() as u64, what);
    let (words, style) = match scene.snapshot.slower.first() {
        Some(words) => (words, scene.color(Color::Yellow)),
        None => (&plain, scene.label()),
    };
    canvas.line(label, words, style);
    let rows = usize::from(body.height);
    let columns = usize::from((body.width / CELL_WIDTH).max(1));
    let room = rows * columns;
    let shown = if targets.len() > room { room.saturating_sub(1) } else { targets.len() };
    let most = targets.iter().map(|target| target.iops).fold(0.0, f64::max);
    let width = body.width / targets.len().div_ceil(rows.max(1)).clamp(1, columns) as u16;
    let cell = |index: usize| Area {
        x: body.x + (index / rows) as u16 * width,
        y: body.y + (index % rows) as u16,
        width: width.saturating_sub(2),
        height: 1,
    };
    for (i, TargetRate { name, iops }) in targets.iter().take(shown).enumerate() {
        let bar = Bar { name, share: iops / most, value: &figure::rate(*iops) };
        bar.draw(canvas, cell(i), scene.color(Color::Blue));
    }
    if shown < targets.len() && room > 0 {
        let more = format!("… and {} more", targets.len() - shown);
        canvas.line(cell(shown), &more, scene.label());
    }
}

fn draw_cpu(canvas: &mut Canvas, area: Area, scene: &Scene) {
    let LiveCpu { initiator_cores, target_cores, host_percent, per_core_percent } =
        &scene.snapshot.cpu;
    let cores = f64::from(scene.about.cores.max(1));
    let mut rows: Vec<(String, f64, String)> = Vec::new();
    for (name, used) in [("initiator", initiator_cores), ("target", target_cores)] {
        if let Some(used) = used {
            rows.push((name.to_owned(), used / cores, format!("{used:.2}")));
        }
    }
    let percents = host_percent.iter().map(|percent| ("host".to_owned(), *percent));
    let each = per_core_percent.iter().enumerate();
    let each = each.map(|(i, percent)| (format!("core {i}"), *percent));
    for (name, percent) in percents.chain(each) {
        rows.push((name, percent / 100.0, format!("{percent:.0} %")));
    }
    let (label, body) = area.split_rows(1);
    let text = format!("CPU, {}", figure::plural(scene.about.cores.into(), "core"));
    canvas.line(label, &text, scene.label());
    for (row, (name, share, value)) in (0..body.height).zip(&rows) {
        let color = if *share > 0.95 { Color::Yellow } else { Color::Green };
        let bar = Bar { name, share: *share, value };
        bar.draw(canvas, Area { height: 1, ..body.row(row) }, scene.color(color));
    }
}

/// A name, a bar and a figure in one line.
struct Bar<'a> {
    name: &'a str,
    /// Length of the bar, 0 to 1; anything else is cut, and NaN is 0.
    share: f64,
    value: &'a str,
}

impl Bar<'_> {
    fn draw(&self, canvas: &mut Canvas, area: Area, style: Style) {
        let (name, rest) = area.split_columns(10);
        let (bar, value) = rest.split_columns(rest.width.saturating_sub(7));
        // The end of a long name is where names differ.
        let skip = self.name.chars().count().saturating_sub(9);
        let end: String = self.name.chars().skip(skip).collect();
        canvas.line(name, &end, Style::default());
        let eighths = (self.share.clamp(0.0, 1.0) * f64::from(bar.width) * 8.0).round() as usize;
        let mut blocks = "█".repeat(eighths / 8);
        blocks.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
        canvas.line(bar, &blocks, style);
        canvas.right(value, self.value, Style::default());
    }
}

fn draw_marks(canvas: &mut Canvas, area: Area, scene: &Scene) {
    let iops = scene.snapshot.iops;
    let ladder = records::ladder(&scene.about.job, scene.about.origin);
    let passed =
        ladder.iter().rev().filter(|record| record.iops <= iops).map(|record| mark(record));
    let passed = as_fits(passed, usize::from(area.width.saturating_sub(8)));
    let next = ladder.iter().find(|record| record.iops > iops);
    let next = next.map(|record| {
        let percent = (iops / record.iops * 100.0).floor();
        format!("{}, {percent:.0} % of the way", mark(record))
    });
    for (y, (label, text)) in (0..).zip([("passed", passed), ("next", next.unwrap_or_default())]) {
        let text = if text.is_empty() { "–".to_owned() } else { text };
        let (left, right) = area.row(y).split_columns(8);
        canvas.line(left, label, scene.label());
        canvas.line(right, &text, Style::default());
    }
}

/// Joins as many of the texts as fit whole in `width` columns.
fn as_fits(texts: impl Iterator<Item = String>, width: usize) -> String {
    let mut line = String::new();
    for text in texts {
        let gap = if line.is_empty() { "" } else { " · " };
        if [&line, gap, &text].iter().map(|part| part.chars().count()).sum::<usize>() > width {
            break;
        }
        line = line + gap + &text;
    }
    line
}

/// A record in a few words: `Intel 2010 1M`.
fn mark(record: &Record) -> String {
    let standing = match record.standing {
        Standing::Measured => "",
        Standing::Rated => " (rated)",
        Standing::Announced => " (announced)",
    };
    format!("{} {}{standing}", record.name(), record.figure())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    /// The characters of a screen of that size.
    fn screen(width: u16, height: u16, about: &About, snapshot: &Snapshot) -> String {
        let mut canvas = Canvas::new(width, height);
        let scene = Scene { about, snapshot, paused: false, help: false, paint: Paint::COLOR };
        draw(&mut canvas, &scene);
        canvas.text()
    }

    #[test]
    fn a_race_on_80_by_24() {
        let screen = screen(80, 24, &sample::about(), &sample::snapshot());
        assert_eq!(screen, include_str!("../tests/screen.txt"), "\n{screen}");
    }

    #[test]
    fn help_fits_80_by_24() {
        assert!(HELP.len() <= 24 && HELP.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn any_size_and_any_number_is_drawn() {
        let mut snapshot = sample::snapshot();
        let about = sample::about();
        snapshot.targets =
            (0..100).map(|i| TargetRate { name: format!("t{i}"), iops: i as f64 }).collect();
        assert!(screen(80, 24, &about, &snapshot).contains("… and 89 more"));
        snapshot.iops = f64::NAN;
        snapshot.history = vec![f64::INFINITY, f64::NAN, -1.0, f64::MAX];
        snapshot.cpu.per_core_percent = vec![f64::NAN, 1e9, -1.0];
        snapshot.targets[0].iops = f64::NAN;
        for width in [1, 10, 30, 79, 200] {
            for height in [1, 3, 20, 50] {
                screen(width, height, &about, &snapshot);
                screen(width, height, &About::default(), &Snapshot::default());
            }
        }
    }
}
