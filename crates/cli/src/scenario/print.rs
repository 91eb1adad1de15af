//! Output of scenarios for people.

use std::fmt::{self, Write as _};

use block::Text;

use super::rows::{Outcome, Shown};

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Formats the outcomes for a terminal.
pub fn text(outcomes: &[Outcome], ways: (bool, bool)) -> Result<Text, fmt::Error> {
    let mut out = Text::new();
    for one in outcomes {
        writeln!(out, "{}: {}", one.name, one.title)?;
        writeln!(out, "{}", one.source)?;
        if ways.1 {
            lines(&mut out, &live(one));
        }
        writeln!(out)?;
        writeln!(out, "{:<32} {:>10} {:>17} {:>17}", "", "published", "modelled", "live")?;
        for row in &one.rows {
            let figure = format!("{}, {}", labelled(row), row.unit);
            let modelled = held(row.modelled, row.error_percent);
            let live = held(row.live, row.live_error_percent);
            let published = or_dash(row.published.map(number));
            if figure.chars().count() > 32 {
                writeln!(out, "{figure}")?;
                writeln!(out, "{:<32} {published:>10} {modelled:>17} {live:>17}", "")?;
            } else {
                writeln!(out, "{figure:<32} {published:>10} {modelled:>17} {live:>17}")?;
            }
            let model = row.modelled_origin.as_deref().unwrap_or_default();
            let real = row.live_origin.as_ref().map(|origin| format!("{origin}{}", scaled(row)));
            let line = format!("{:43} {model:>17} {:>17}", "", real.unwrap_or_default());
            if !line.trim().is_empty() {
                out.line(line.trim_end());
            }
            row.words.iter().for_each(|words| {
                lines(&mut out, words);
            });
        }
        if !one.earlier.is_empty() {
            out.line("");
        }
        one.earlier.iter().for_each(|words| lines(&mut out, words));
        out.line("");
    }
    Ok(out)
}

/// Formats the outcomes for a page of the documentation.
pub fn markdown(outcomes: &[Outcome], ways: (bool, bool)) -> String {
    let mut out = String::new();
    for one in outcomes {
        let _ = writeln!(out, "## {}\n\n{}. {}.\n", one.name, one.title, one.source);
        if ways.1 {
            let _ = writeln!(out, "{}\n", live(one));
        }
        // Columns that were not requested would be empty.
        let live = if ways.1 { (" live | held against |", "---|---|") } else { ("", "") };
        let _ = writeln!(out, "| figure | unit | published | modelled | error |{}", live.0);
        let _ = writeln!(out, "|---|---|---|---|---|{}", live.1);
        for row in &one.rows {
            let _ = write!(
                out,
                "| {} | {} | {} ",
                labelled(row),
                row.unit,
                or_dash(row.published.map(number))
            );
            let modelled = row.modelled.map(|value| {
                format!("{} ({})", number(value), row.modelled_origin.as_deref().unwrap_or("?"))
            });
            let _ = write!(out, "| {} | {} |", or_dash(modelled), percent(row.error_percent));
            if ways.1 {
                let live = row.live.map(|value| {
                    let origin = row.live_origin.as_deref().unwrap_or("?");
                    format!("{} ({origin}{})", number(value), scaled(row))
                });
                let _ = write!(out, " {} | {} |", or_dash(live), percent(row.live_error_percent));
            }
            out.push('\n');
        }
        out.push('\n');
        for row in one.rows.iter().filter(|row| !row.words.is_empty()) {
            let _ = writeln!(out, "- {}: {}", row.figure, row.words.join("; "));
        }
        out.push('\n');
        for words in &one.earlier {
            let _ = writeln!(out, "{words}.\n");
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn percent(error: Option<f64>) -> String {
    or_dash(error.map(|error| format!("{error:+.1} %")))
}

fn live(one: &Outcome) -> String {
    match one.live {
        "not built yet" => "live: not built yet".to_owned(),
        _ => format!("live: {}", one.scaled),
    }
}

/// Words below a row, within the width of a terminal.
fn lines(out: &mut Text, words: &str) {
    let mut line = String::from("   ");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.line(&line);
            line = String::from("     ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.line(line);
}

fn scaled(row: &Shown) -> String {
    if row.live_scale == 1.0 { String::new() } else { format!(" × {}", number(row.live_scale)) }
}

fn held(value: Option<f64>, error: Option<f64>) -> String {
    match (value, error) {
        // Above 1e4 percent a factor is more readable, and fits the column.
        (Some(value), Some(error)) if error >= 1e4 => {
            format!("{} × {}", number(value), number(1.0 + error / 100.0))
        }
        (Some(value), Some(error)) => format!("{} {error:+.1} %", number(value)),
        (Some(value), None) => number(value),
        _ => "–".to_owned(),
    }
}

/// The figure in words, with the value that follows from the document where it has none itself.
fn labelled(row: &Shown) -> String {
    match row.derived {
        Some(derived) => format!("{} (derived: {})", row.figure, number(derived)),
        None => row.figure.clone(),
    }
}

/// Four digits are enough to see a difference.
pub fn number(value: f64) -> String {
    let (value, unit) = match value.abs() {
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "K"),
        _ => (value, ""),
    };
    let places = if value.abs() >= 100.0 { 1 } else { 3 };
    let text = format!("{value:.places$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, right) in
            [(1e6, "1M"), (979_950.8, "980K"), (0.88, "0.88"), (100.0, "100"), (16.35, "16.35")]
        {
            assert_eq!(number(value), right);
        }
        assert_eq!(held(Some(1.5e6), Some(1.5e8)), "1.5M × 1.5M");
        assert_eq!(held(Some(2.0), Some(100.0)), "2 +100.0 %");
    }
}
