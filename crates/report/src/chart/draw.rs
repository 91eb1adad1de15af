//! The drawing of a plot at one width: frame, ticks, bands, lines, points and names.

use std::fmt::Write as _;

use stats::Origin;

use super::axis::{Axis, Scale, Span, Unit};
use super::plot::{Mark, Plot, Point, Series};
use super::svg::shortened;
use crate::page::escape;

/// Colours of the page for lines; beyond them they begin again, with another point.
pub(super) const COLOURS: usize = 8;
/// Lines with more points have none drawn.
const POINTS_SHOWN: usize = 48;
/// Maximum number of lines whose bands are drawn at full strength: with more, bands hide each
/// other.
const BANDS_CLEAR: usize = 4;
/// Width of a letter and height of a line of text, in pixels.
const LETTER: f64 = 6.7;
const LINE: f64 = 16.0;

/// Edges of the plot area, where the axes meet and end.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: Span,
    pub(super) y: Span,
}

impl Frame {
    pub(super) fn x(&self, value: f64) -> Option<f64> {
        self.x.at(value).map(|share| self.left + share * (self.right - self.left))
    }

    pub(super) fn y(&self, value: f64) -> Option<f64> {
        self.y.at(value).map(|share| self.bottom - share * (self.bottom - self.top))
    }
}

/// Height and content of the drawing.
pub(super) fn plot(plot: &Plot, width: usize) -> (f64, String) {
    let width = width as f64;
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let heights = points().flat_map(|point| {
        let (low, high) = point.range.unzip();
        [point.y, low, high].into_iter().flatten()
    });
    let marks = plot.marks.iter().map(|mark| mark.x);
    let x = Span::of(&plot.x, points().map(|p| p.x).chain(marks), false);
    let y = Span::of(&plot.y, heights, true);
    let named: Vec<&Series> = plot.series.iter().filter(|s| !s.name.is_empty()).collect();
    let longest = named.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    let room = longest as f64 * LETTER + 14.0;
    let high = (width * 0.42).clamp(210.0, 380.0);
    // Names are at the ends of lines if there is room, otherwise below the plot.
    let at_ends = room <= width * 0.25 && (named.len() as f64) * LINE <= high - 40.0;
    let left = y.ticks(7).iter().map(|tick| plot.y.tick(*tick).chars().count()).max();
    let left = left.unwrap_or(1) as f64 * LETTER + 12.0;
    let right = if at_ends { width - room.max(14.0) } else { width - 14.0 };
    let frame = Frame { left, right, top: 26.0, bottom: high - 40.0, x, y };
    let mut svg = String::new();
    ticks(&mut svg, [&plot.x, &plot.y], &frame, width, high, &measured_at(plot));
    for (row, mark) in plot.marks.iter().enumerate() {
        self::mark(&mut svg, mark, row, &frame);
    }
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (index, series) in plot.series.iter().enumerate() {
        if let Some(end) = line(&mut svg, plot, series, index, &frame) {
            ends.push((end, index));
        }
    }
    if at_ends {
        names(&mut svg, plot, ends, &frame);
        return (high, svg);
    }
    let mut below = high + 2.0;
    for (index, series) in plot.series.iter().enumerate().filter(|(_, s)| !s.name.is_empty()) {
        let colour = index % COLOURS;
        let _ = writeln!(
            svg,
            "<path class=\"line c{colour}{}\" d=\"M4 {:.0}H30\"/>{}\
             <text x=\"36\" y=\"{:.0}\">{}</text>",
            style(series),
            below + 8.0,
            if series.is_guide { String::new() } else { point(index, 17.0, below + 8.0, "") },
            below + 12.0,
            escape(&shortened(&series.name, ((width - 40.0) / LETTER) as usize))
        );
        below += LINE + 2.0;
    }
    (below + 4.0, svg)
}

/// Draws frame, ticks with labels, and the names of both axes. Attributes have the ends of the
/// axes, so that points can be read back.
pub(super) fn ticks(
    svg: &mut String,
    [x_axis, y_axis]: [&Axis; 2],
    frame: &Frame,
    width: f64,
    high: f64,
    own: &[f64],
) {
    let Frame { left, right, top, bottom, .. } = *frame;
    let ((x0, x1), (y0, y1)) = (frame.x.ends(), frame.y.ends());
    let _ = writeln!(
        svg,
        "<g class=\"axes\" data-x=\"{x0} {x1}\" data-y=\"{y0} {y1}\" \
         data-box=\"{left:.1} {right:.1} {bottom:.1} {top:.1}\">"
    );
    for tick in frame.y.ticks(7) {
        let Some(y) = frame.y(tick) else { continue };
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 6.0,
            y + 4.0,
            escape(&y_axis.tick(tick))
        );
    }
    let most = ((right - left) / 52.0) as usize;
    let mut taken = f64::NEG_INFINITY;
    let round = frame.x.ticks(most.max(2));
    for tick in if own.is_empty() { round } else { own.to_vec() } {
        let Some(x) = frame.x(tick) else { continue };
        let words = x_axis.tick(tick);
        let half = words.chars().count() as f64 * LETTER / 2.0;
        if x - half < taken + 4.0 {
            continue;
        }
        taken = x + half;
        let (to, at) = (bottom + 5.0, bottom + 18.0);
        let words = escape(&words);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {bottom:.1}V{to:.1}\"/>\
             <text class=\"middle\" x=\"{x:.1}\" y=\"{at:.1}\">{words}</text>"
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"frame\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\"/>\
         <text class=\"soft\" x=\"2\" y=\"14\">{}</text>\
         <text class=\"soft end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n</g>",
        escape(&y_axis.title()),
        right.min(width - 2.0),
        high - 6.0,
        escape(&x_axis.title())
    );
}

/// Draws a mark; the names of several marks are below each other.
fn mark(svg: &mut String, mark: &Mark, row: usize, frame: &Frame) {
    let name = escape(&mark.name);
    let Some(x) = frame.x(mark.x) else { return };
    // Words go to the side that has room.
    let is_far = x > (frame.left + frame.right) / 2.0;
    let (class, words) = if is_far { (" end", x - 5.0) } else { ("", x + 5.0) };
    let (top, bottom) = (frame.top, frame.bottom);
    let _ = writeln!(
        svg,
        "<path class=\"mark\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>\
         <text class=\"named{class}\" x=\"{words:.1}\" y=\"{:.1}\">{name}</text>",
        top + 4.0 + (row % 4) as f64 * 14.0
    );
}

/// Loads that double have ticks of their own: 1, 2, 4, 8 say more than 1, 2, 5, 10.
fn measured_at(plot: &Plot) -> Vec<f64> {
    let mut at: Vec<f64> =
        plot.series.iter().flat_map(|series| series.points.iter().map(|point| point.x)).collect();
    at.sort_unstable_by(f64::total_cmp);
    at.dedup();
    let counts = plot.x.scale == Scale::Log && plot.x.unit == Unit::Count;
    if counts && at.len() <= 14 { at } else { Vec::new() }
}

fn style(series: &Series) -> &'static str {
    match (series.is_guide, series.origin) {
        (true, _) => " guide",
        (_, Origin::Measured) => "",
        (_, Origin::Emulated) => " emulated",
        (_, Origin::Simulated) => " simulated",
    }
}

/// Band, line and points. Returns the height of its end.
fn line(
    svg: &mut String,
    plot: &Plot,
    series: &Series,
    index: usize,
    frame: &Frame,
) -> Option<f64> {
    let points = series.reduced();
    let colour = index % COLOURS;
    let placed = |point: &Point| Some((frame.x(point.x)?, frame.y(point.y?)?));
    let faint = if plot.series.len() > BANDS_CLEAR { " faint" } else { "" };
    band(svg, &points, &format!("c{colour}{faint}"), frame);
    let mut path = String::new();
    let mut is_down = false;
    let mut end = None;
    let mut alone: Vec<(f64, f64)> = Vec::new();
    for (at, one) in points.iter().enumerate() {
        let Some((x, y)) = placed(one) else {
            is_down = false;
            continue;
        };
        let next = points.get(at + 1).and_then(placed);
        if !is_down && next.is_none() {
            alone.push((x, y));
        }
        let _ = write!(path, "{}{x:.2} {y:.2}", if is_down { 'L' } else { 'M' });
        (is_down, end) = (true, Some(y));
    }
    if path.is_empty() {
        return None;
    }
    let name = escape(&series.name);
    let style = style(series);
    let _ = writeln!(
        svg,
        "<path class=\"line c{colour}{style}\" data-series=\"{name}\" d=\"{path}\"/>"
    );
    if series.is_guide {
        return end;
    }
    if points.len() <= POINTS_SHOWN {
        for one in &points {
            let Some((x, y)) = placed(one) else { continue };
            let (across, up) = (plot.x.words(one.x), plot.y.words(one.y.unwrap_or(0.0)));
            *svg += &point(index, x, y, &format!("{}: {up} at {across}", series.name));
        }
        svg.push('\n');
    } else {
        // A point between two gaps is no line.
        for (x, y) in alone {
            *svg += &point(index, x, y, "");
        }
    }
    end
}

fn band(svg: &mut String, points: &[Point], class: &str, frame: &Frame) {
    let ends = |point: &Point| {
        let (low, high) = point.range?;
        Some((frame.x(point.x)?, frame.y(low)?, frame.y(high)?))
    };
    for stretch in points.split(|point| point.y.is_none() || ends(point).is_none()) {
        let ends: Vec<(f64, f64, f64)> = stretch.iter().filter_map(ends).collect();
        if ends.iter().all(|(_, low, high)| (low - high).abs() < 0.05) {
            continue;
        }
        let mut path = String::new();
        if let [(x, low, high)] = ends[..] {
            let _ = write!(path, "M{x:.2} {low:.2}V{high:.2}");
        }
        let there = ends.iter().map(|(x, _, high)| (x, high));
        let back = ends.iter().rev().map(|(x, low, _)| (x, low));
        if ends.len() > 1 {
            for (at, (x, y)) in there.chain(back).enumerate() {
                let _ = write!(path, "{}{x:.2} {y:.2}", if at == 0 { 'M' } else { 'L' });
            }
            path.push('Z');
        }
        let _ = writeln!(svg, "<path class=\"band {class}\" d=\"{path}\"/>");
    }
}

/// Draws a point in the shape of its line, with a tooltip.
fn point(index: usize, x: f64, y: f64, words: &str) -> String {
    let r = 4.0;
    let (l, o, t, b) = (x - r, x + r, y - r, y + r);
    let path = match index % 4 {
        0 => format!("M{l:.1} {y:.1}a{r} {r} 0 1 0 8 0a{r} {r} 0 1 0 -8 0Z"),
        1 => format!("M{l:.1} {t:.1}H{o:.1}V{b:.1}H{l:.1}Z"),
        2 => format!("M{x:.1} {t:.1}L{o:.1} {b:.1}H{l:.1}Z"),
        _ => format!("M{x:.1} {t:.1}L{o:.1} {y:.1}L{x:.1} {b:.1}L{l:.1} {y:.1}Z"),
    };
    let colour = index % COLOURS;
    match words.is_empty() {
        true => format!("<path class=\"point c{colour}\" d=\"{path}\"/>"),
        false => {
            let words = escape(words);
            format!("<path class=\"point c{colour}\" d=\"{path}\"><title>{words}</title></path>")
        }
    }
}

/// Names at the ends of lines, moved apart where they would meet.
fn names(svg: &mut String, plot: &Plot, mut ends: Vec<(f64, usize)>, frame: &Frame) {
    ends.retain(|(_, index)| !plot.series[*index].name.is_empty());
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = ends.len() as f64;
    let mut lowest = frame.top;
    for (at, (y, index)) in ends.iter().enumerate() {
        let left = (count - at as f64 - 1.0) * LINE;
        let y = y.max(lowest).min(frame.bottom - left + 4.0);
        lowest = y + LINE;
        let _ = writeln!(
            svg,
            "<text class=\"name c{}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            index % COLOURS,
            frame.right + 9.0,
            y + 4.0,
            escape(&plot.series[*index].name)
        );
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::chart::plot::POINTS;
    use crate::generated::Chance;

    /// Returns the value of a tag's attribute.
    fn attribute<'a>(svg: &'a str, name: &str) -> &'a str {
        let from = svg.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        svg[from..].split('"').next().unwrap()
    }

    fn numbers(text: &str) -> Vec<f64> {
        let parts = text.split([' ', 'M', 'L']).filter(|part| !part.is_empty());
        parts.map(|part| part.parse().unwrap()).collect()
    }

    /// The points of each line, read back out of a drawing.
    fn read_back(svg: &str, plot: &Plot) -> Vec<Vec<(f64, f64)>> {
        let (x, y) = (numbers(attribute(svg, "data-x")), numbers(attribute(svg, "data-y")));
        let edges = numbers(attribute(svg, "data-box"));
        let value = |scale: Scale, ends: &[f64], share: f64| match scale {
            Scale::Linear => ends[0] + share * (ends[1] - ends[0]),
            Scale::Log => ends[0] * (ends[1] / ends[0]).powf(share),
            Scale::Percentile => {
                let left = |end: f64| 1.0 - end;
                1.0 - left(ends[0]) * (left(ends[1]) / left(ends[0])).powf(share)
            }
        };
        let lines = svg.lines().filter(|line| line.contains("data-series"));
        lines
            .map(|line| {
                let places = numbers(attribute(line, "d"));
                let place = |pair: &[f64]| {
                    let across = (pair[0] - edges[0]) / (edges[1] - edges[0]);
                    let up = (pair[1] - edges[2]) / (edges[3] - edges[2]);
                    (value(plot.x.scale, &x, across), value(plot.y.scale, &y, up))
                };
                places.chunks(2).map(place).collect()
            })
            .collect()
    }

    fn plot_of(x: Scale, y: Scale, lines: Vec<Vec<Point>>) -> Plot {
        let unit = |scale| if scale == Scale::Percentile { Unit::Percentile } else { Unit::Count };
        let series = (0..).zip(lines).map(|(n, line)| Series::new(format!("line {n}"), line));
        Plot {
            title: "t".to_owned(),
            about: "a".to_owned(),
            x: Axis::new("load", unit(x), x),
            y: Axis::new("rate", unit(y), y),
            series: series.collect(),
            marks: vec![Mark { name: "knee".to_owned(), x: 0.5 }],
        }
    }

    #[test]
    fn every_point_can_be_read_back_at_every_width() {
        for seed in 0..60 {
            let mut chance = Chance::new(seed);
            let scales = [Scale::Linear, Scale::Log, Scale::Percentile];
            let (x, y) = (scales[(seed % 3) as usize], scales[(seed / 3 % 2) as usize]);
            let across = |n: u64, chance: &mut Chance| match x {
                Scale::Percentile => n as f64 / 40.0,
                _ => n as f64 * 10.0 + 1.0 + chance.below(9) as f64,
            };
            let line = |chance: &mut Chance| -> Vec<Point> {
                let count = 1 + chance.below(39);
                let up = |chance: &mut Chance| {
                    let most = 1 << chance.below(30);
                    1.0 + chance.below(most) as f64
                };
                (0..count).map(|n| Point::new(across(n, chance), up(chance))).collect()
            };
            let lines: Vec<_> = (0..1 + seed % 4).map(|_| line(&mut chance)).collect();
            let plot = plot_of(x, y, lines);
            for width in crate::chart::plot::WIDTHS {
                let (_, svg) = self::plot(&plot, width);
                let found = read_back(&svg, &plot);
                assert_eq!(found.len(), plot.series.len(), "seed {seed}");
                for (points, series) in found.iter().zip(&plot.series) {
                    assert_eq!(points.len(), series.points.len(), "seed {seed}");
                    for ((x, y), is) in points.iter().zip(&series.points) {
                        near(*x, is.x, &plot.x.scale, attribute(&svg, "data-x"), seed);
                        near(*y, is.y.unwrap(), &plot.y.scale, attribute(&svg, "data-y"), seed);
                    }
                }
            }
        }
    }

    /// Within a twentieth of a pixel.
    fn near(found: f64, is: f64, scale: &Scale, ends: &str, seed: u64) {
        let ends = numbers(ends);
        let slack = match scale {
            Scale::Linear => (ends[1] - ends[0]) * 2e-4,
            Scale::Log => is * ((ends[1] / ends[0]).powf(2e-4) - 1.0) * 2.0,
            Scale::Percentile => 2e-3 * (1.0 - is),
        };
        assert!((found - is).abs() <= slack + 1e-9, "seed {seed}: {found} for {is}, {scale:?}");
    }

    #[test]
    fn gaps_stay_gaps_and_no_peak_is_lost() {
        let point = |x: u32, y| Point::new(f64::from(x), y);
        let holes = vec![point(1, 5.0), Point::new(2.0, None), point(3, 6.0), point(4, 7.0)];
        let (_, svg) = plot(&plot_of(Scale::Linear, Scale::Linear, vec![holes]), 720);
        let line = svg.lines().find(|line| line.contains("data-series")).unwrap();
        let path = attribute(line, "d");
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        let many = (0..100_000).map(|x| point(x, if x == 77_777 { 900.0 } else { 5.0 }));
        let plot = plot_of(Scale::Linear, Scale::Linear, vec![many.collect()]);
        let found = read_back(&self::plot(&plot, 360).1, &plot);
        assert!(found[0].len() <= POINTS + 2, "{}", found[0].len());
        assert!(found[0].iter().any(|(_, y)| *y > 890.0));
    }

    #[test]
    fn what_is_not_measured_looks_so_and_hostile_names_stay_words() {
        let mut plot = plot_of(
            Scale::Linear,
            Scale::Log,
            vec![vec![
                Point { range: Some((2.0, 8.0)), ..Point::new(1.0, 4.0) },
                Point { range: Some((3.0, 9.0)), ..Point::new(2.0, 5.0) },
            ]],
        );
        plot.series[0].origin = Origin::Simulated;
        plot.series[0].name = "</svg><script>".to_owned();
        let figure = plot.figure(1);
        assert!(figure.contains("line c0 simulated") && figure.contains("band c0"), "{figure}");
        assert!(!figure.contains("<script") && figure.contains("(simulated)"), "{figure}");
        assert_eq!(figure.matches("<svg").count(), 3);
        let none = Plot { series: Vec::new(), ..plot }.figure(2);
        assert!(none.contains("Nothing was measured"), "{none}");
    }
}
