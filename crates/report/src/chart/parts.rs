//! Stacked rows: time of a CPU by activity, or the steps of a bound.

use std::fmt::Write as _;

use super::plot::figure;
use crate::page::escape;

/// Rows that share a scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Heading.
    pub title: String,
    /// Question that the chart answers, in a sentence.
    pub about: String,
    /// Value of a row of full length; the longest row if `None`.
    pub full: Option<f64>,
    /// Names of the parts, in order; each part has a colour.
    pub names: Vec<String>,
    /// Rows, from top to bottom.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Label.
    pub label: String,
    /// Figure as text.
    pub text: String,
    /// Parts as index, start and end. In a waterfall a row starts where the previous one ended.
    pub parts: Vec<(usize, f64, f64)>,
}

impl Row {
    /// Returns a row whose parts follow each other in the order of their names.
    pub fn stacked(label: String, text: String, lengths: &[f64]) -> Row {
        let mut from = 0.0;
        let part = |(which, length): (usize, &f64)| {
            let begin = from;
            from += length.max(0.0);
            (which, begin, from)
        };
        Row { label, text, parts: lengths.iter().enumerate().map(part).collect() }
    }
}

/// Height of a row with its words.
const ROW: f64 = 38.0;

impl Parts {
    /// The figure: a drawing for each width, and a table of the same.
    pub fn figure(&self, number: usize) -> String {
        let said = |row: &Row| format!("{}: {}", row.label, row.text);
        let all: Vec<String> = self.rows.iter().map(said).collect();
        let description = format!("{} {}.", self.about, all.join("; "));
        let (head, rows) = self.table();
        let words = [&self.title[..], &self.about, &description];
        figure(number, words, |width| self.draw(width), (head, rows, 0))
    }

    /// Head and rows of the table.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let head =
            ["what", "in all"].map(str::to_owned).into_iter().chain(self.names.iter().cloned());
        let row = |row: &Row| {
            let of = |which: usize| {
                let parts = row.parts.iter().filter(|part| part.0 == which);
                let length: f64 = parts.map(|(_, from, to)| to - from).sum();
                format!("{:.1}", length)
            };
            let cells = [row.label.clone(), row.text.clone()].into_iter();
            cells.chain((0..self.names.len()).map(of)).collect()
        };
        (head.collect(), self.rows.iter().map(row).collect())
    }

    /// Draws the rows at a width in pixels; returns their height and content.
    pub(crate) fn draw(&self, width: usize) -> (f64, String) {
        let width = width as f64;
        let ends = self.rows.iter().flat_map(|row| row.parts.iter().map(|part| part.2));
        let longest = ends.filter(|end| end.is_finite()).fold(0.0, f64::max);
        let full = self.full.unwrap_or(longest).max(1e-12);
        let at = |value: f64| (value / full).clamp(0.0, 1.0) * (width - 4.0) + 2.0;
        let mut svg = String::new();
        let mut top = 0.0;
        let mut left = 2.0;
        for (index, name) in self.names.iter().enumerate() {
            let room = name.chars().count() as f64 * 6.9 + 30.0;
            if left + room > width && left > 2.0 {
                (left, top) = (2.0, top + 18.0);
            }
            let _ = writeln!(
                svg,
                "<path class=\"part c{}\" d=\"M{left:.0} {:.0}h12v12h-12z\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                index % super::draw::COLOURS,
                top + 3.0,
                left + 17.0,
                top + 13.0,
                escape(name)
            );
            left += room;
        }
        top += 24.0;
        for row in &self.rows {
            let _ = writeln!(
                svg,
                "<text x=\"2\" y=\"{0:.0}\">{1}</text>\
                 <text class=\"end\" x=\"{2:.0}\" y=\"{0:.0}\">{3}</text>\
                 <path class=\"rail\" d=\"M2 {4:.0}H{2:.0}v12H2z\"/>",
                top + 13.0,
                escape(&row.label),
                width - 2.0,
                escape(&row.text),
                top + 18.0
            );
            for (which, from, to) in row.parts.iter().filter(|(_, from, to)| to > from) {
                let _ = writeln!(
                    svg,
                    "<path class=\"part c{}\" d=\"M{:.1} {:.0}H{:.1}v12H{1:.1}z\"><title>{}</title>\
                     </path>",
                    which % super::draw::COLOURS,
                    at(*from),
                    top + 18.0,
                    at(*to),
                    self.names.get(*which).map_or_else(String::new, |name| escape(name))
                );
            }
            top += ROW;
        }
        (top + 2.0, svg)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_stand_one_after_the_other_in_their_lengths() {
        let row = Row::stacked("core 0".to_owned(), "75 %".to_owned(), &[50.0, 0.0, 25.0]);
        let names = ["user", "system", "irq"].map(str::to_owned).to_vec();
        let rows = vec![row];
        let parts = Parts { full: Some(100.0), names, rows, ..Parts::default() };
        let (_, svg) = parts.draw(720);
        assert!(svg.contains("d=\"M2.0 42H360.0v12H2.0z\""), "{svg}");
        assert!(svg.contains("d=\"M360.0 42H539.0v12H360.0z\""), "{svg}");
        assert_eq!(parts.table().1, [["core 0", "75 %", "50.0", "0.0", "25.0"]]);
    }
}
