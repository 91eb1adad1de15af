//! A heat map: counts per field of two axes.

use std::fmt::Write as _;

use super::axis::{Axis, Span};
use super::draw::{Frame, ticks};
use super::plot::figure;

/// Shades; each is some five times as many as the one before.
const SHADES: usize = 5;

/// Counts over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Heading.
    pub title: String,
    /// Question that the map answers, in a sentence.
    pub about: String,
    /// X axis.
    pub x: Axis,
    /// Y axis.
    pub y: Axis,
    /// The fields that hold anything.
    pub fields: Vec<Field>,
}

/// A field and its count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Interval on the x axis.
    pub x: (f64, f64),
    /// Interval on the y axis.
    pub y: (f64, f64),
    /// Count.
    pub count: u64,
}

impl Heat {
    /// The figure: a drawing for each width, and a table of rows by the place across.
    pub fn figure(&self, number: usize) -> String {
        let (head, rows) = self.table();
        let words = [&self.title[..], &self.about, &self.description()];
        figure(number, words, |width| self.draw(width), (head, rows, 0))
    }

    /// Description for screen readers.
    pub fn description(&self) -> String {
        let Some(most) = self.fields.iter().max_by_key(|field| field.count) else {
            return format!("{} Nothing was measured.", self.about);
        };
        format!(
            "{} Most, {}, lie between {} and {} from {} on.",
            self.about,
            crate::figure::count(most.count),
            self.y.words(most.y.0),
            self.y.words(most.y.1),
            self.x.words(most.x.0)
        )
    }

    /// The rows of a table: for each place across where most, half and the last of it lie.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let (x, y) = (&self.x, &self.y);
        let head = [&x.name[..], "I/Os", "shortest", "half below", "longest"];
        let mut columns: Vec<Vec<&Field>> = Vec::new();
        for field in &self.fields {
            match columns.iter_mut().find(|column| column[0].x == field.x) {
                Some(column) => column.push(field),
                None => columns.push(vec![field]),
            }
        }
        columns.sort_by(|a, b| a[0].x.0.total_cmp(&b[0].x.0));
        let row = |mut column: Vec<&Field>| {
            column.sort_by(|a, b| a.y.0.total_cmp(&b.y.0));
            let all: u64 = column.iter().map(|field| field.count).sum();
            let mut seen = 0;
            let half = column.iter().find(|field| {
                seen += field.count;
                seen * 2 >= all
            });
            let last = column[column.len() - 1];
            vec![
                format!("{} to {}", x.words(column[0].x.0), x.words(column[0].x.1)),
                crate::figure::count(all),
                y.words(column[0].y.0),
                y.words(half.unwrap_or(&last).y.1),
                y.words(last.y.1),
            ]
        };
        (head.map(str::to_owned).to_vec(), columns.into_iter().map(row).collect())
    }

    /// Draws the map at a width in pixels; returns its height and content.
    pub(crate) fn draw(&self, width: usize) -> (f64, String) {
        let (width, high) = (width as f64, (width as f64 * 0.42).clamp(210.0, 380.0));
        let x = Span::of(&self.x, self.fields.iter().flat_map(|f| [f.x.0, f.x.1]), false);
        let y = Span::of(&self.y, self.fields.iter().flat_map(|f| [f.y.0, f.y.1]), false);
        let left = y.ticks(7).iter().map(|tick| self.y.tick(*tick).chars().count()).max();
        let left = left.unwrap_or(1) as f64 * 6.7 + 12.0;
        let frame = Frame { left, right: width - 14.0, top: 26.0, bottom: high - 40.0, x, y };
        let mut paths = [const { String::new() }; SHADES];
        let most = self.fields.iter().map(|field| field.count).max().unwrap_or(1);
        for field in self.fields.iter().filter(|field| field.count > 0) {
            let places =
                (frame.x(field.x.0), frame.x(field.x.1), frame.y(field.y.0), frame.y(field.y.1));
            let (Some(x0), Some(x1), Some(y0), Some(y1)) = places else { continue };
            let (w, h) = (x1 - x0, y0 - y1);
            let _ =
                write!(paths[shade(field.count, most)], "M{x0:.1} {y1:.1}h{w:.1}v{h:.1}h-{w:.1}z");
        }
        let mut svg = String::new();
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let _ = writeln!(svg, "<path class=\"heat h{shade}\" d=\"{path}\"/>");
        }
        ticks(&mut svg, [&self.x, &self.y], &frame, width, high, &[]);
        let below = high + 4.0;
        let mut at = 4.0;
        for shade in 0..SHADES {
            let from = least(shade, most);
            // A scale of a few I/Os has fewer shades.
            if shade > 0 && from == least(shade - 1, most) {
                continue;
            }
            let words = format!("from {}", crate::figure::count(from));
            let _ = writeln!(
                svg,
                "<path class=\"heat h{shade}\" d=\"M{at:.0} {below:.0}h12v12h-12z\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\">{words}</text>",
                at + 16.0,
                below + 11.0
            );
            at += words.chars().count() as f64 * 6.2 + 26.0;
            if at > width - 70.0 {
                break;
            }
        }
        (below + 20.0, svg)
    }
}

/// The fewest of a shade.
fn least(shade: usize, most: u64) -> u64 {
    let share = shade as f64 / SHADES as f64;
    ((most as f64).powf(share).round() as u64).max(1)
}

fn shade(count: u64, most: u64) -> usize {
    (0..SHADES).rev().find(|shade| count >= least(*shade, most)).unwrap_or(0)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::chart::axis::{Scale, Unit};

    #[test]
    fn each_field_is_drawn_once_and_the_fullest_is_the_darkest() {
        let field = |x: f64, y: f64, count| Field { x: (x, x + 1.0), y: (y, y * 2.0), count };
        let heat = Heat {
            title: "t".to_owned(),
            about: "a".to_owned(),
            x: Axis::new("time", Unit::Seconds, Scale::Linear),
            y: Axis::new("latency", Unit::Nanos, Scale::Log),
            fields: vec![field(0.0, 1e5, 1), field(0.0, 2e5, 100_000), field(1.0, 1e5, 40)],
        };
        let (_, svg) = heat.draw(720);
        let darkest = svg.lines().find(|line| line.contains("h4\"")).unwrap();
        assert_eq!(darkest.matches('z').count(), 1, "{svg}");
        let shade = |n: u64| shade(n, 100_000);
        assert_eq!([shade(1), shade(9), shade(10), shade(10_000), shade(100_000)], [0, 0, 1, 4, 4]);
        let (_, rows) = heat.table();
        assert_eq!(rows[0], ["0 s to 1 s", "100,001", "100 µs", "400 µs", "400 µs"]);
        assert_eq!(rows[1][1], "40");
        let none = Heat { fields: Vec::new(), ..heat };
        assert!(none.figure(1).contains("Nothing was measured"));
    }
}
