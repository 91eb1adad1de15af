//! A chart as inline SVG: the page sets the colours, every figure is also text, and the drawing is
//! one image with a title and a description for screen readers.

use std::fmt::Write as _;

use super::{Bar, Chart};
use crate::page::escape;

/// Width of the drawing; the page scales it.
const WIDTH: f64 = 720.0;
/// A bar with the line of words above it.
const ROW: f64 = 44.0;
/// Offset and height of a bar within its row, in pixels.
const BAR: (f64, f64) = (20.0, 14.0);
/// Width of a letter and height of a line of words, in pixels.
const LETTER: f64 = 8.7;
const LINE: f64 = 16.0;

impl Chart {
    /// Returns the drawing. `number` makes its identifiers unique on the page.
    pub(crate) fn svg(&self, number: usize) -> String {
        let (height, bars) = self.drawing();
        let svg = format!(
            "<svg role=\"img\" aria-labelledby=\"t{number} d{number}\" \
             viewBox=\"0 0 {WIDTH} {height}\">\n<title id=\"t{number}\">{}</title>\n\
             <desc id=\"d{number}\">{}</desc>\n",
            escape(&self.title),
            escape(&self.description())
        );
        svg + &bars + "</svg>\n"
    }

    /// Draws the bars 720 pixels wide; returns height and content. If a label and its figure do not
    /// fit on one line, every figure has a separate line.
    pub(crate) fn drawing(&self) -> (f64, String) {
        let letters = |bar: &Bar| bar.label.chars().count() + bar.text.chars().count();
        let widest = self.bars.iter().map(letters).max().unwrap_or(0);
        let lines = if (widest + 2) as f64 * LETTER > WIDTH { 1.0 } else { 0.0 };
        let row_height = ROW + lines * LINE;
        let mut svg = String::new();
        for (bar, row) in self.bars.iter().zip(0..) {
            self.bar(&mut svg, bar, row_height * f64::from(row), lines * LINE);
        }
        (row_height * self.bars.len() as f64, svg)
    }

    fn description(&self) -> String {
        let said = |bar: &Bar| format!("{}: {}", bar.label, bar.text);
        let bars: Vec<String> = self.bars.iter().map(said).collect();
        format!("{}. {}", self.about, bars.join("; "))
    }

    /// Draws a bar with its words above; the figure is `lower` pixels below the label.
    fn bar(&self, svg: &mut String, bar: &Bar, top: f64, lower: f64) {
        let at = |value: f64| WIDTH * self.share(value);
        let (y, high) = (top + lower + BAR.0, BAR.1);
        let label = shortened(&bar.label, (WIDTH / LETTER) as usize);
        let class = if bar.marked { "bar marked" } else { "bar" };
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"{}\">{}</text>\
             <text x=\"{WIDTH}\" y=\"{}\" class=\"figure\">{}</text>\n\
             <rect class=\"{class}\" x=\"0\" y=\"{y}\" width=\"{:.1}\" height=\"{high}\"/>\n",
            top + 14.0,
            escape(&label),
            top + lower + 14.0,
            escape(&bar.text),
            at(bar.value)
        );
        if let Some((low, top)) = bar.range {
            let (from, to, middle) = (at(low), at(top), y + high / 2.0);
            let (above, below) = (y + 3.0, y + high - 3.0);
            let _ = writeln!(
                svg,
                "<path class=\"range\" d=\"M{from:.1} {above}V{below}M{from:.1} {middle}H{to:.1}\
                 M{to:.1} {above}V{below}\"/>"
            );
        }
    }
}

/// Shortens a text to this many letters; the last one is then an ellipsis.
pub(crate) fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lengths_words_and_nothing_that_closes_a_tag() {
        let bar = |label: &str, value, range| Bar {
            label: label.to_owned(),
            value,
            range,
            text: format!("{value} kg"),
            marked: value == 4.0,
        };
        let bars = vec![bar("<a> & \"b\"", 4.0, None), bar("c", 2.0, Some((1.0, 3.0)))];
        let title = "Weight </svg>".to_owned();
        let svg = Chart { title, about: "a pound".to_owned(), full: None, bars }.svg(3);
        assert!(svg.contains("&lt;a&gt; &amp; &quot;b&quot;") && !svg.contains("<a>"), "{svg}");
        assert_eq!(svg.matches("</svg>").count(), 1, "{svg}");
        assert!(svg.contains("class=\"bar marked\" x=\"0\" y=\"20\" width=\"720.0\""), "{svg}");
        assert!(svg.contains("class=\"bar\" x=\"0\" y=\"64\" width=\"360.0\""), "{svg}");
        assert!(svg.contains("d=\"M180.0 67V75M180.0 71H540.0M540.0 67V75\""), "{svg}");
        assert!(
            svg.contains("<desc id=\"d3\">a pound. &lt;a&gt; &amp; &quot;b&quot;: 4 kg; c: 2 kg")
        );
    }
    #[test]
    fn a_figure_that_does_not_fit_has_a_line_of_its_own() {
        let bar = |label: String| Bar { label, value: 1.0, text: "1 kg".into(), ..Bar::default() };
        let of = |letters: usize| {
            let bars = vec![bar("x".repeat(letters)), bar("short".to_owned())];
            Chart { bars, ..Chart::default() }.drawing()
        };
        let ((low, beside), (high, below)) = (of(40), of(83));
        assert_eq!((low, high), (88.0, 120.0));
        assert!(beside.contains("y=\"14\" class=\"figure\""), "{beside}");
        assert!(below.contains("y=\"30\" class=\"figure\""), "{below}");
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("äbcdefg", 6), "äbcde…");
        assert!(of(400).1.contains("x…</text>"));
    }
}
