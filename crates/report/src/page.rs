//! A page of HTML in one file: words, charts and tables, with nothing to fetch.
//!
//! It follows the reader's choice of light or dark, prints in black on white, and says in words and
//! tables what its drawings show. What it is given is text: nothing in it becomes markup.

use std::fmt::Write as _;

use crate::chart::Chart;

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// What it comes to, in a sentence or two.
    pub lead: String,
    /// In order.
    pub sections: Vec<Section>,
    /// Who made it, from what.
    pub foot: String,
}

/// A heading with what stands below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// In order.
    pub content: Vec<Content>,
}

/// What stands in a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A paragraph.
    Text(String),
    /// Bars.
    Chart(Chart),
    /// Rows under a head.
    Table(Table),
}

/// Rows under a head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A cell for each column.
    pub head: Vec<&'static str>,
    /// As many cells each.
    pub rows: Vec<Vec<String>>,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#57606a;--line:#d0d7de;\
--bar:#7aa7d9;--mark:#1f7a4d}
@media(prefers-color-scheme:dark){:root{--back:#14171b;--text:#e6e9ec;--soft:#9aa4ae;\
--line:#3a4149;--bar:#3f6ea5;--mark:#3fa870}}
body{margin:2rem auto;max-width:56rem;padding:0 1rem;background:var(--back);color:var(--text);\
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem;border-bottom:1px solid var(--line)}
.lead{font-size:1.15rem}.about,footer{color:var(--soft);font-size:.9rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;\
border-bottom:1px solid var(--line)}td{font-variant-numeric:tabular-nums}
svg{width:100%;height:auto;font:14px system-ui,sans-serif}svg text{fill:var(--text)}
.figure{text-anchor:end}.bar{fill:var(--bar)}.marked{fill:var(--mark)}
.range{stroke:var(--text);stroke-width:1.5;fill:none}
@media print{:root{--back:#fff;--text:#000;--soft:#333;--line:#999;--bar:#bbb;--mark:#777}}
";

impl Page {
    /// The whole file.
    pub fn html(&self) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{0}</h1>\n<p class=\"lead\">{1}</p>\n",
            escape(&self.title),
            escape(&self.lead)
        );
        let mut charts = 0;
        for section in &self.sections {
            // Writing to a string cannot fail.
            let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(&section.title));
            for content in &section.content {
                match content {
                    Content::Text(text) => {
                        let _ = writeln!(html, "<p>{}</p>", escape(text));
                    }
                    Content::Chart(chart) => {
                        charts += 1;
                        html += &chart.svg(charts);
                        let _ = writeln!(html, "<p class=\"about\">{}</p>", escape(&chart.about));
                    }
                    Content::Table(table) => table.write(&section.title, &mut html),
                }
            }
            html += "</section>\n";
        }
        let foot = escape(&self.foot);
        html + "</main>\n<footer>" + &foot + "</footer>\n</body>\n</html>\n"
    }
}

impl Table {
    fn write(&self, name: &str, html: &mut String) {
        // What is wider than the screen is scrolled, by keys too.
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
                row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            *html += &format!("<tr>{cells}</tr>\n");
        }
        *html += "</table></div>\n";
    }
}

/// Text as it stands in markup, in quotes too. Control characters are none of it.
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
        Page { title: text(), lead: text(), sections, foot: text() }
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
