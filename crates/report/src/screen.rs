//! What the full-screen view draws: a pure function of the job and the latest snapshot.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use stats::live::{About, HISTORY_SECONDS, LiveCpu, Phase, Snapshot, TargetRate};

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

/// Everything that decides what is drawn.
#[derive(Debug)]
pub struct Scene<'a> {
    /// What does not change.
    pub about: &'a About,
    /// The latest second; `None` before the first.
    pub snapshot: &'a Snapshot,
    /// The user holds the picture.
    pub paused: bool,
    /// The user wants to know what is shown.
    pub help: bool,
    /// Whether there is colour.
    pub paint: Paint,
}

impl Scene<'_> {
    fn color(&self, color: Color) -> Style {
        if self.paint.is_on() { Style::new().fg(color) } else { Style::new() }
    }

    fn label(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn bold(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}

/// What is shown, in words of at most 80 columns.
const HELP: [&str; 18] = [
    "What this shows",
    "",
    "big number    I/Os per second of the last second; beside it bytes and errors",
    "ramp          caches, windows and queues fill; not in the result",
    "run           the measured window; the time left stands above",
    "latency       of the last second's I/Os; n/a: too few for that percentile",
    "              ≥: an I/O without an answer could make it longer",
    "last 60 s     the rate, from 0 to the most of that time",
    "targets       each one's rate beside the fastest; without targets: volumes",
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

/// Draws the whole screen. Fits 80 × 24; what does not fit a smaller one is cut off.
pub fn draw(frame: &mut Frame, scene: &Scene) {
    if scene.help {
        frame.render_widget(Paragraph::new(HELP.map(Line::from).to_vec()), frame.area());
        return;
    }
    let [title, _, rate, _, latency, history, bars, marks, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(digits::ROWS as u16),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(4),
        Constraint::Min(4),
        Constraint::Length(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_title(frame, title, scene);
    draw_rate(frame, rate, scene);
    draw_latency(frame, latency, scene);
    draw_history(frame, history, scene);
    let [targets, cpu] =
        Layout::horizontal([Constraint::Min(CELL_WIDTH), Constraint::Length(CPU_WIDTH)])
            .areas(bars);
    draw_targets(frame, targets, scene);
    draw_cpu(frame, cpu, scene);
    draw_marks(frame, marks, scene);
    let help = Line::styled("q stop and report   p hold the picture   ? help", scene.label());
    frame.render_widget(help, keys);
}

fn draw_title(frame: &mut Frame, area: Rect, scene: &Scene) {
    let About { job, .. } = scene.about;
    let name = if job.name.is_empty() { "run" } else { &job.name };
    let left = Line::from(vec![
        Span::styled(name.to_owned(), scene.bold()),
        Span::raw(format!("  {}", job::kind(job))),
    ]);
    frame.render_widget(left, area);
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
    let right = format!(" {phase}{clock}{held}");
    frame.render_widget(Line::styled(right, style).right_aligned(), area);
}

fn draw_rate(frame: &mut Frame, area: Rect, scene: &Scene) {
    let snapshot = scene.snapshot;
    let rows = digits::rows(&figure::rate(snapshot.iops));
    let width = rows[0].chars().count() as u16;
    let [number, beside] =
        Layout::horizontal([Constraint::Length(width + 3), Constraint::Min(0)]).areas(area);
    let style = scene.color(Color::Cyan).add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(rows.map(Line::from).to_vec()).style(style), number);
    let errors = match snapshot.errors {
        0 => Line::styled("no errors", scene.label()),
        n => Line::styled(figure::plural(n, "error"), scene.color(Color::Red)),
    };
    let lost = connections::so_far(snapshot);
    let lost = lost.map(|words| Line::styled(words, scene.color(Color::Yellow)));
    let lines = vec![
        Line::styled(format!("IOPS, {}", scene.about.origin.with(scene.about.kind)), scene.bold()),
        lost.unwrap_or_default(),
        Line::raw(figure::bytes_per_second(snapshot.bytes_per_second)),
        Line::raw(format!("{:.0} outstanding", snapshot.outstanding)),
        errors,
    ];
    frame.render_widget(Paragraph::new(lines), beside);
}

fn draw_latency(frame: &mut Frame, area: Rect, scene: &Scene) {
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
    let lines = vec![
        Line::styled(format!("latency{heads}"), scene.label()),
        Line::raw(format!("{:7}{values}", "")),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_history(frame: &mut Frame, area: Rect, scene: &Scene) {
    let known = scene.snapshot.history.iter().filter(|rate| rate.is_finite());
    let rates: Vec<u64> = known.map(|rate| *rate as u64).collect();
    let most = rates.iter().copied().max().unwrap_or(0);
    let [label, chart] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let text = format!("last {HISTORY_SECONDS} s, at most {}", figure::iops(most as f64));
    frame.render_widget(Line::styled(text, scene.label()), label);
    let from = rates.len().saturating_sub(usize::from(chart.width));
    let line = Sparkline::default().data(&rates[from..]).max(most.max(1));
    frame.render_widget(line.style(scene.color(Color::Cyan)), chart);
}

fn draw_targets(frame: &mut Frame, area: Rect, scene: &Scene) {
    let targets = &scene.snapshot.targets;
    let [label, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let what = if scene.about.job.targets > 0 { "target" } else { "volume" };
    let count = figure::plural(targets.len() as u64, what);
    frame.render_widget(Line::styled(count, scene.label()), label);
    let rows = usize::from(body.height);
    let columns = usize::from((body.width / CELL_WIDTH).max(1));
    let room = rows * columns;
    let shown = if targets.len() > room { room.saturating_sub(1) } else { targets.len() };
    let most = targets.iter().map(|target| target.iops).fold(0.0, f64::max);
    let width = body.width / targets.len().div_ceil(rows.max(1)).clamp(1, columns) as u16;
    let cell = |index: usize| Rect {
        x: body.x + (index / rows) as u16 * width,
        y: body.y + (index % rows) as u16,
        width: width.saturating_sub(2),
        height: 1,
    };
    for (i, TargetRate { name, iops }) in targets.iter().take(shown).enumerate() {
        let bar = Bar { name, share: iops / most, value: &figure::rate(*iops) };
        bar.draw(frame, cell(i), scene.color(Color::Blue));
    }
    if shown < targets.len() && room > 0 {
        let more = format!("… and {} more", targets.len() - shown);
        frame.render_widget(Line::styled(more, scene.label()), cell(shown));
    }
}

fn draw_cpu(frame: &mut Frame, area: Rect, scene: &Scene) {
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
    let [label, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let text = format!("CPU, {}", figure::plural(scene.about.cores.into(), "core"));
    frame.render_widget(Line::styled(text, scene.label()), label);
    for (row, (name, share, value)) in (0..body.height).zip(&rows) {
        let line = Rect { y: body.y + row, height: 1, ..body };
        let color = if *share > 0.95 { Color::Yellow } else { Color::Green };
        Bar { name, share: *share, value }.draw(frame, line, scene.color(color));
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
    fn draw(&self, frame: &mut Frame, area: Rect, style: Style) {
        let [name, bar, value] =
            Layout::horizontal([Constraint::Length(10), Constraint::Min(0), Constraint::Length(7)])
                .areas(area);
        // The end of a long name is where names differ.
        let skip = self.name.chars().count().saturating_sub(9);
        frame.render_widget(Line::raw(self.name.chars().skip(skip).collect::<String>()), name);
        let eighths = (self.share.clamp(0.0, 1.0) * f64::from(bar.width) * 8.0).round() as usize;
        let mut blocks = "█".repeat(eighths / 8);
        blocks.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
        frame.render_widget(Line::styled(blocks, style), bar);
        frame.render_widget(Line::raw(self.value).right_aligned(), value);
    }
}

fn draw_marks(frame: &mut Frame, area: Rect, scene: &Scene) {
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
    let lines = [("passed", passed), ("next", next.unwrap_or_default())];
    let lines: Vec<Line> = lines
        .into_iter()
        .map(|(label, text)| {
            let text = if text.is_empty() { "–".to_owned() } else { text };
            Line::from(vec![Span::styled(format!("{label:8}"), scene.label()), Span::raw(text)])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// As many of the texts as stand whole in `width` columns.
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
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::sample;

    /// The characters of a screen of that size.
    fn screen(width: u16, height: u16, about: &About, snapshot: &Snapshot) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let scene = Scene { about, snapshot, paused: false, help: false, paint: Paint::COLOR };
        terminal.draw(|frame| draw(frame, &scene)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content.chunks(usize::from(width));
        rows.map(|row| {
            let line: String = row.iter().map(|cell| cell.symbol()).collect();
            format!("{}\n", line.trim_end())
        })
        .collect()
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
