//! A page in Markdown, for reviews and the summaries of build servers: charts are tables of a few
//! of their points.

use std::fmt::Write as _;

use super::{Content, Judged, Page};

/// Rows of a chart's table: the page of HTML has them all.
const ROWS: usize = 12;

impl Page {
    /// The whole page in Markdown as GitHub and GitLab read it.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n\n**{}**\n", plain(&self.title), plain(&self.lead));
        if let Some(judged) = &self.judged {
            let Judged { class, origin, because, next } = judged;
            // Writing to a string cannot fail.
            let class = class.to_uppercase();
            let _ = write!(out, "\n> {} **{class}** · {}\n", judged.shape(), plain(origin));
            if !because.is_empty() {
                let _ = write!(out, ">\n> Because: {}\n", plain(because));
            }
            if !next.is_empty() {
                let _ = write!(out, ">\n> What settles it: {}\n", code(next));
            }
        }
        for section in &self.sections {
            let _ = write!(out, "\n## {}\n", plain(&section.title));
            for content in &section.content {
                out.push('\n');
                content.markdown(&mut out);
            }
        }
        let _ = write!(out, "\n<sub>{}</sub>\n", plain(&self.foot));
        out
    }
}

impl Content {
    fn markdown(&self, out: &mut String) {
        match self {
            Content::Text(text) => {
                let _ = writeln!(out, "{}", plain(text));
            }
            Content::Code(text) => {
                // Longer than any fence within.
                let fence = "`".repeat(longest_run(text).max(2) + 1);
                let text: String = text
                    .chars()
                    .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
                    .collect();
                let _ = writeln!(out, "{fence}\n{}\n{fence}", text.trim_end());
            }
            Content::Chart(chart) => {
                let row = |bar: &crate::chart::Bar| vec![bar.label.clone(), bar.text.clone()];
                let head = [chart.title.clone(), "figure".to_owned()];
                table(out, &head, &chart.bars.iter().map(row).collect::<Vec<_>>());
            }
            Content::Plot(plot) => {
                let (head, rows, _) = plot.table();
                figure(out, &plot.title, &plot.about, &head, &rows);
            }
            Content::Heat(heat) => {
                let (head, rows) = heat.table();
                figure(out, &heat.title, &heat.about, &head, &rows);
            }
            Content::Parts(parts) => {
                let (head, rows) = parts.table();
                figure(out, &parts.title, &parts.about, &head, &rows);
            }
            Content::Table(of) => {
                let head: Vec<String> = of.head.iter().map(|cell| (*cell).to_owned()).collect();
                table(out, &head, &of.rows);
            }
        }
    }
}

fn figure(out: &mut String, title: &str, about: &str, head: &[String], rows: &[Vec<String>]) {
    let _ = write!(out, "**{}** {}\n\n", plain(title), plain(about));
    let few: Vec<Vec<String>> = match rows.len() {
        n if n <= ROWS => rows.to_vec(),
        n => (0..ROWS).map(|at| rows[at * (n - 1) / (ROWS - 1)].clone()).collect(),
    };
    table(out, head, &few);
    if few.len() < rows.len() {
        let _ = writeln!(out, "\n{} of {} points.", few.len(), rows.len());
    }
}

fn table(out: &mut String, head: &[String], rows: &[Vec<String>]) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    *out += &line(head);
    *out += &format!("|{}\n", " --- |".repeat(head.len()));
    rows.iter().for_each(|row| *out += &line(row));
}

/// Words that stay words: nothing in them is markup, ends a cell or a line.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '$' | '@' => {
                out.push('\\');
                out.push(letter);
            }
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// Returns inline code.
fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let ticks = "`".repeat(longest_run(&text) + 1);
    let gap = if text.contains('`') { " " } else { "" };
    format!("{ticks}{gap}{text}{gap}{ticks}")
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::page::{Section, Table};

    #[test]
    fn nothing_that_is_given_becomes_markup() {
        let hostile = "a|b\n# c `d` <script> [x](y) ![i](j)\u{1b}[31m @team";
        let rows = vec![vec![hostile.to_owned(), "1".to_owned()]];
        let content = vec![
            Content::Table(Table { head: vec!["a", "b"], rows }),
            Content::Code("```\nx".to_owned()),
        ];
        let next = "drumfire `x`".to_owned();
        let page = Page {
            title: hostile.to_owned(),
            judged: Some(Judged { class: "invalid", next, ..Judged::default() }),
            sections: vec![Section { title: "t".to_owned(), content }],
            ..Page::default()
        };
        let text = page.markdown();
        assert!(!text.contains('<') || text.matches('<').count() == 2, "{text}");
        assert!(text.contains("a\\|b \\# c") && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("\n````\n```\nx\n````\n"), "{text}");
        assert!(text.contains("`` drumfire `x` ``"), "{text}");
        let row = text.lines().find(|line| line.starts_with("| ") && line.contains("[x")).unwrap();
        assert!(row.starts_with("| a") && row.contains("\\[x\\](y)"), "{row}");
    }
}
