//! Line plots: the data, and the figure around the drawings.

use std::fmt::Write as _;

use stats::Origin;

use super::axis::Axis;
use super::draw;
use crate::page::{escape, whole};

/// Lines, bands and marks over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Heading.
    pub title: String,
    /// Question that the plot answers, in a sentence.
    pub about: String,
    /// X axis.
    pub x: Axis,
    /// Y axis.
    pub y: Axis,
    /// In the order of their names.
    pub series: Vec<Series>,
    /// Places that are named.
    pub marks: Vec<Mark>,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name, drawn at the end of the line.
    pub name: String,
    /// In ascending order of x.
    pub points: Vec<Point>,
    /// Origin of its figures: measured is drawn solid, emulated dash and dot, simulated dashed.
    pub origin: Origin,
    /// A guide for the eye, as an ideal or a fitted law: thin and without points.
    pub is_guide: bool,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// X value.
    pub x: f64,
    /// Y value; `None` leaves a gap.
    pub y: Option<f64>,
    /// Lower and upper end of the value's interval.
    pub range: Option<(f64, f64)>,
}

/// A place across that is named.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Name, as "knee".
    pub name: String,
    /// Position on the x axis.
    pub x: f64,
}

impl Point {
    /// A point without an interval.
    pub fn new(x: f64, y: impl Into<Option<f64>>) -> Point {
        Point { x, y: y.into(), range: None }
    }
}

/// Widths of the drawings in pixels; the page shows the one that fits.
pub(crate) const WIDTHS: [usize; 3] = [360, 720, 1080];
/// Rows of the table of a figure; beyond them rows are left out, and it says so.
const ROWS: usize = 240;
/// Points of a line that are drawn; of more the least and the most of each stretch are.
pub(crate) const POINTS: usize = 2000;

impl Plot {
    /// Draws the plot at a width in pixels; returns its height and content.
    pub(crate) fn drawing(&self, width: usize) -> (f64, String) {
        draw::plot(self, width)
    }

    /// Returns the figure: a drawing for each width, and a table of the same points. `number` makes
    /// its identifiers unique on the page.
    pub fn figure(&self, number: usize) -> String {
        let words = [&self.title[..], &self.about, &self.description()];
        figure(number, words, |width| draw::plot(self, width), self.table())
    }

    /// Description for screen readers.
    pub fn description(&self) -> String {
        let said = |series: &Series| -> Option<String> {
            let known: Vec<(f64, f64)> =
                series.points.iter().filter_map(|point| Some((point.x, point.y?))).collect();
            let (first, last) = (known.first()?, known.last()?);
            let most = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let at = |point: &(f64, f64)| {
                format!("{} at {}", self.y.words(point.1), self.x.words(point.0))
            };
            Some(format!(
                "{}, {}: from {} to {}, at most {}",
                series.name,
                series.origin.word(),
                at(first),
                at(last),
                at(most)
            ))
        };
        let lines: Vec<String> = self.series.iter().filter_map(said).collect();
        let marks: String = self.marks.iter().map(|mark| format!(" {}.", mark.name)).collect();
        match lines.is_empty() {
            true => format!("{} Nothing was measured.{marks}", self.about),
            false => format!("{} {}.{marks}", self.about, lines.join("; ")),
        }
    }

    /// Head and rows of the points: a row for each x. The number of rows that are left out.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>, usize) {
        let mut xs: Vec<f64> =
            self.series.iter().flat_map(|series| series.points.iter().map(|p| p.x)).collect();
        xs.sort_unstable_by(f64::total_cmp);
        xs.dedup();
        let name = if self.x.name.is_empty() { "x" } else { &self.x.name };
        let mut head = vec![name.to_owned()];
        head.extend(self.series.iter().map(|series| match series.origin {
            Origin::Measured => series.name.clone(),
            other => format!("{} ({})", series.name, other.word()),
        }));
        let every = xs.len().div_ceil(ROWS).max(1);
        let left_out = xs.len() - xs.len().div_ceil(every);
        let row = |x: &f64| {
            let mut row = vec![self.x.words(*x)];
            row.extend(self.series.iter().map(|series| {
                let found = series.points.iter().find(|point| point.x == *x);
                let Some(y) = found.and_then(|point| point.y) else { return "–".to_owned() };
                match found.and_then(|point| point.range) {
                    Some((low, high)) if low < high => {
                        let (low, high) = (self.y.words(low), self.y.words(high));
                        format!("{} ({low} to {high})", self.y.words(y))
                    }
                    _ => self.y.words(y),
                }
            }));
            row
        };
        (head, xs.iter().step_by(every).map(row).collect(), left_out)
    }
}

impl Series {
    /// A measured line.
    pub fn new(name: impl Into<String>, points: Vec<Point>) -> Series {
        Series { name: name.into(), points, ..Series::default() }
    }

    /// The points that are drawn: all, or of each stretch the least and the most, so that no peak
    /// is lost.
    pub(super) fn reduced(&self) -> Vec<Point> {
        if self.points.len() <= POINTS {
            return self.points.clone();
        }
        let mut kept = Vec::with_capacity(POINTS + 2);
        for stretch in self.points.chunks(self.points.len().div_ceil(POINTS / 2)) {
            let known = || (0..stretch.len()).filter_map(|at| Some((at, stretch[at].y?)));
            let least = known().min_by(|a, b| a.1.total_cmp(&b.1));
            let most = known().max_by(|a, b| a.1.total_cmp(&b.1));
            match (least, most) {
                (Some((one, _)), Some((other, _))) => {
                    kept.push(stretch[one.min(other)]);
                    kept.extend((one != other).then(|| stretch[one.max(other)]));
                }
                _ => kept.push(stretch[0]),
            }
        }
        kept
    }
}

/// A drawing of a width, as one image with its title and description.
fn framed(
    number: usize,
    width: usize,
    title: &str,
    description: &str,
    (height, inside): (f64, String),
) -> String {
    let id = format!("{number}w{width}");
    format!(
        "<svg class=\"plot w{width}\" role=\"img\" aria-labelledby=\"t{id} d{id}\" \
         width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title id=\"t{id}\">{}</title>\n<desc id=\"d{id}\">{}</desc>\n{inside}</svg>\n",
        escape(title),
        escape(description)
    )
}

/// Returns a figure with title, purpose and description: a drawing for each width, and the table of
/// the same data, with head, rows and the number of omitted rows.
pub(super) fn figure(
    number: usize,
    [title, about, description]: [&str; 3],
    draw: impl Fn(usize) -> (f64, String),
    (head, rows, left_out): (Vec<String>, Vec<Vec<String>>, usize),
) -> String {
    let drawing = |width| framed(number, width, title, description, draw(width));
    let drawings: String = WIDTHS.into_iter().map(drawing).collect();
    let mut out = format!(
        "<figure>\n<div class=\"drawn\">{drawings}</div>\n<figcaption><b>{}</b> {}</figcaption>\n\
         <details><summary>The same as a table</summary>\n\
         <div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{} as a table\">\
         <table>\n<tr>",
        escape(title),
        escape(about),
        escape(title)
    );
    for cell in head {
        // Writing to a string cannot fail.
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&cell));
    }
    out += "</tr>\n";
    for row in &rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", whole(cell))).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out += "</table></div>\n";
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"about\">{left_out} rows between these are left out; the \
                               raw result has them.</p>"
        );
    }
    out + "</details>\n</figure>\n"
}
