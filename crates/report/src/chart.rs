//! Bar charts: in a terminal, and as inline SVG for a [page](crate::page).
//!
//! A chart is given figures and words and is independent of their meaning. Every bar has its figure
//! in words, so no information depends on length or colour alone. [`Plot`], [`Heat`] and [`Parts`]
//! are drawn for pages only, in three widths, with a table of the same figures.

mod axis;
mod draw;
mod heat;
mod parts;
mod plot;
mod svg;

use block::Text;

pub use self::axis::{Axis, Scale, Unit};
pub use self::heat::{Field, Heat};
pub use self::parts::{Parts, Row};
pub use self::plot::{Mark, Plot, Point, Series};
pub(crate) use self::svg::shortened;

/// Bars that share a scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// Legend of the chart: the meaning of a bar and of its range.
    pub about: String,
    /// Value of a bar of full length; the maximum of all values and ranges if `None`.
    pub full: Option<f64>,
    /// Bars, from top to bottom.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// Label.
    pub label: String,
    /// Length in units of the chart; negative values and NaN are drawn as 0.
    pub value: f64,
    /// Lower and upper end of the value's interval.
    pub range: Option<(f64, f64)>,
    /// Figure as text, with unit and origin.
    pub text: String,
    /// Whether the bar is emphasized.
    pub marked: bool,
}

impl Chart {
    /// The value of a bar of full length.
    fn full(&self) -> f64 {
        let longest = |bar: &Bar| bar.value.max(bar.range.map_or(0.0, |(_, high)| high));
        let most = self.bars.iter().map(longest).filter(|value| value.is_finite());
        self.full.unwrap_or_else(|| most.fold(0.0, f64::max))
    }

    /// The part of the full length that a value has, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let share = value / self.full();
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the title, then a line for each bar of `width` columns, between its label and its
    /// figure. The certain part is dark, and the interval lighter.
    pub fn text(&self, width: usize) -> Text {
        let labels = self.bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
        let mut text = Text::new();
        text.line(&self.title);
        for bar in &self.bars {
            let mark = if bar.marked { '*' } else { ' ' };
            let drawn = self.drawn(bar, width);
            text.line(format_args!("{mark} {:<labels$}  {drawn}  {}", bar.label, bar.text));
        }
        text
    }

    fn drawn(&self, bar: &Bar, width: usize) -> String {
        let eighths = |value: f64| (self.share(value) * width as f64 * 8.0).round() as usize;
        let (low, high) = bar.range.unwrap_or((bar.value, bar.value));
        let low = eighths(low);
        let mut drawn = "█".repeat(low / 8);
        match bar.range {
            Some(_) => drawn += &"▒".repeat((eighths(high).div_ceil(8)).saturating_sub(low / 8)),
            None => {
                drawn.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((low % 8).wrapping_sub(1)))
            }
        }
        let room = width.saturating_sub(drawn.chars().count());
        drawn + &" ".repeat(room)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn bar(label: &str, value: f64, range: Option<(f64, f64)>) -> Bar {
        let text = format!("{value} kg");
        Bar { label: label.to_owned(), value, range, text, marked: value == 8.0 }
    }

    fn chart(bars: Vec<Bar>) -> Chart {
        Chart { title: "Weight".to_owned(), about: "longer is more".to_owned(), full: None, bars }
    }

    #[test]
    fn a_line_each_as_long_as_its_share() {
        let bars =
            vec![bar("a", 8.0, None), bar("long", 3.5, None), bar("c", 4.0, Some((2.0, 6.0)))];
        let expected = "Weight\n\
            * a     ████████  8 kg\n\
            \u{20} long  ███▌      3.5 kg\n\
            \u{20} c     ██▒▒▒▒    4 kg\n";
        assert_eq!(chart(bars).text(8).as_str(), expected);
    }

    #[test]
    fn what_is_no_number_has_no_length() {
        for value in [f64::NAN, -1.0, 0.0] {
            let text = chart(vec![bar("a", value, None), bar("b", 8.0, None)]).text(4);
            assert!(text.as_str().contains("a        "), "{value}: {text:?}");
        }
        assert!(chart(vec![bar("a", 0.0, None)]).text(4).as_str().contains("0 kg"));
        let wide = chart(vec![bar("a", f64::INFINITY, Some((0.0, f64::INFINITY)))]);
        assert_eq!(wide.text(4).as_str().lines().count(), 2);
        assert_eq!(chart(Vec::new()).text(4).as_str(), "Weight\n");
        // A given scale clips values beyond its end.
        let cut = Chart { full: Some(4.0), ..chart(vec![bar("a", 9.0, None)]) };
        assert!(cut.text(4).as_str().contains(" ████ "), "{cut:?}");
    }
}
