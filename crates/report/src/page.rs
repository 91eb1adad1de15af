//! An HTML page in one file: words, charts and tables, without external resources.
//!
//! The page follows the reader's choice of light or dark, prints in black on white, and repeats its
//! drawings in words and tables. All inputs are text: none becomes markup.

mod markdown;
mod style;
mod svg;

use std::fmt::Write as _;

use crate::chart::{Chart, Heat, Parts, Plot};

pub use self::svg::NoChart;

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Subject.
    pub title: String,
    /// Result, in a sentence or two.
    pub lead: String,
    /// Credibility; `None` if there is nothing to judge.
    pub judged: Option<Judged>,
    /// Sections, in order.
    pub sections: Vec<Section>,
    /// Creator and source of the page.
    pub foot: String,
    /// Source document as JSON; stored in the page, not shown.
    pub raw: Option<String>,
}

/// Class of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Class, as "indicative".
    pub class: &'static str,
    /// Origin of the figures, as "measured".
    pub origin: String,
    /// The strongest reason against the result, with its evidence; empty if there is none.
    pub because: String,
    /// Action that resolves the reason; empty if none is known.
    pub next: String,
}

/// A heading with its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Content, in order.
    pub content: Vec<Content>,
}

/// Content of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A paragraph.
    Text(String),
    /// Text to type or copy, line by line.
    Code(String),
    /// Bar chart.
    Chart(Chart),
    /// Lines over axes.
    Plot(Plot),
    /// A heat map.
    Heat(Heat),
    /// Rows made of parts.
    Parts(Parts),
    /// Rows under a head.
    Table(Table),
}

/// Rows under a head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A cell for each column.
    pub head: Vec<&'static str>,
    /// Rows with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Judged {
    /// Returns a shape for the class, so that classes differ without colour.
    fn shape(&self) -> &'static str {
        match self.class {
            "publishable" => "●",
            "invalid" => "✕",
            _ => "◐",
        }
    }
}

impl Page {
    /// The whole file.
    pub fn html(&self) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n\
             <h1>{0}</h1>\n<p class=\"lead\">{2}</p>\n",
            escape(&self.title),
            style::SHEET,
            escape(&self.lead)
        );
        if let Some(judged) = &self.judged {
            judged.write(&mut html);
        }
        let mut figures = 0;
        for section in &self.sections {
            // Writing to a string cannot fail.
            let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(&section.title));
            for content in &section.content {
                figures += 1;
                content.write(&section.title, figures, &mut html);
            }
            html += "</section>\n";
        }
        html += "</main>\n";
        if let Some(raw) = &self.raw {
            // No text of it may end the element.
            let raw = raw.replace("</", "<\\/").replace("<!--", "<\\u0021--");
            let _ =
                writeln!(html, "<script type=\"application/json\" id=\"result\">{raw}</script>");
        }
        let foot = escape(&self.foot);
        html + "<footer>" + &foot + "</footer>\n</body>\n</html>\n"
    }
}

impl Judged {
    fn write(&self, html: &mut String) {
        let Judged { class, origin, because, next } = self;
        let _ = write!(
            html,
            "<div class=\"judged {class}\">\n<p><b>{} {}</b> · {}</p>\n",
            self.shape(),
            class.to_uppercase(),
            escape(origin)
        );
        if !because.is_empty() {
            let _ = writeln!(html, "<p>Because: {}</p>", escape(because));
        }
        if !next.is_empty() {
            let _ = writeln!(html, "<p>What settles it: <code>{}</code></p>", escape(next));
        }
        *html += "</div>\n";
    }
}

impl Content {
    /// Writes the content. `number` makes the identifiers of a figure unique on the page.
    fn write(&self, section: &str, number: usize, html: &mut String) {
        match self {
            Content::Text(text) => {
                let _ = writeln!(html, "<p>{}</p>", escape(text));
            }
            Content::Code(text) => {
                let lines: Vec<String> = text.lines().map(escape).collect();
                let _ = writeln!(html, "<pre tabindex=\"0\">{}</pre>", lines.join("\n"));
            }
            Content::Chart(chart) => {
                *html += &chart.svg(number);
                let _ = writeln!(html, "<p class=\"about\">{}</p>", escape(&chart.about));
            }
            Content::Plot(plot) => *html += &plot.figure(number),
            Content::Heat(heat) => *html += &heat.figure(number),
            Content::Parts(parts) => *html += &parts.figure(number),
            Content::Table(table) => table.write(&format!("{section}, table {number}"), html),
        }
    }
}

impl Table {
    fn write(&self, name: &str, html: &mut String) {
        // Tables wider than the screen scroll, also by keys.
        let name = escape(name);
        *html +=
            &format!("<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{name}\">");
        *html += "<table>\n<tr>";
        for cell in &self.head {
            *html += &format!("<th scope=\"col\">{}</th>", escape(cell));
        }
        *html += "</tr>\n";
        for row in &self.rows {
            let cells: String =
                row.iter().map(|cell| format!("<td>{}</td>", whole(cell))).collect();
            *html += &format!("<tr>{cells}</tr>\n");
        }
        *html += "</table></div>\n";
    }
}

/// A cell. A figure and its unit stay on one line.
pub(crate) fn whole(cell: &str) -> String {
    let is_figure =
        cell.chars().count() <= 18 && cell.starts_with(|c: char| c.is_ascii_digit() || c == '≥');
    if is_figure { escape(cell).replace(' ', "\u{a0}") } else { escape(cell) }
}

/// Escapes text for markup and for quoted attributes. Control characters are removed.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::chart::Bar;

    fn page(word: &str) -> Page {
        let text = || word.to_owned();
        let bar = Bar { label: text(), value: 1.0, range: None, text: text(), marked: false };
        let chart = Chart { title: text(), about: text(), full: None, bars: vec![bar] };
        let table = Table { head: vec!["part", "price"], rows: vec![vec![text(), text()]] };
        let content = vec![Content::Text(text()), Content::Chart(chart), Content::Table(table)];
        let sections = vec![Section { title: text(), content }];
        Page { title: text(), lead: text(), sections, foot: text(), ..Page::default() }
    }

    #[test]
    fn nothing_that_is_given_becomes_markup() {
        let hostile = "</title><script>alert('x')</script>\" onload=\"y\u{1b}[31m&";
        let html = page(hostile).html();
        assert!(
            !html.contains("<script") && !html.contains("\" onload") && !html.contains('\u{1b}')
        );
        assert!(html.contains("&lt;script&gt;"));
        // Only as many tags as for a harmless word.
        assert_eq!(html.matches('<').count(), page("word").html().matches('<').count());
    }

    #[test]
    fn nothing_is_fetched_and_everything_is_said() {
        let html = page("word").html();
        for outside in ["http", "src=", "href", "url(", "@import"] {
            assert!(!html.contains(outside), "{outside} in {html}");
        }
        for part in
            ["lang=\"en\"", "prefers-color-scheme:dark", "role=\"img\"", "<desc", "scope=\"col\""]
        {
            assert!(html.contains(part), "{part} in {html}");
        }
        for tag in ["html", "head", "body", "main", "section", "svg", "table", "footer", "style"] {
            let count = |text: String| html.matches(&text).count();
            assert_eq!(count(format!("<{tag}")), count(format!("</{tag}>")), "{tag}");
        }
    }
}
