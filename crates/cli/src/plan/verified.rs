//! The error table.

use ::catalogue::Catalogue;
use anyhow::Result;
use block::{Rate, Text};
use plan::evidence::{self, Evidence, Table, Total};
use plan::verify::{Report, Row, verify};
use serde_json::json;

use crate::exit::Exit;
use crate::output;

/// Solves every published figure again.
pub fn verified(catalogue: &Catalogue, json: bool) -> Result<Exit> {
    let report = verify(catalogue)?;
    let evidence = evidence::table(&Evidence::shipped(), catalogue)?;
    let passed = report.passed() && evidence.all.met && evidence.single.met;
    if json {
        let document = json!({ "passed": passed, "report": report, "evidence": evidence });
        output::document(&document)?;
    } else {
        output::print(&strangers(&evidence)?)?;
        output::print(&table(&report)?)?;
    }
    Ok(if passed { Exit::Good } else { Exit::Missed })
}

/// Published results of third parties, each predicted from the others (leave-one-out).
fn strangers(table: &Table) -> Result<Text> {
    let mut text =
        Text::from("published results, each from the others, its own document left out\n");
    for row in &table.rows {
        let held = if row.held { "held" } else { "missed" };
        writeln!(
            text,
            "  {:<20} {:+7.1} % {held:<6} {}",
            row.sample.alike.class.title(),
            row.error * 100.0,
            row.name
        )?;
    }
    let line = |name: &str, total: &Total| {
        format!(
            "  {name:<22} {:>3} rows, {:>2} documents, median {:5.1} %, p10 to p90 hold {:3.0} % \
             ({:3.0} % without the publisher), p90 / p10 {:.2}: {}",
            total.rows,
            total.sources,
            total.median * 100.0,
            total.covered * 100.0,
            total.covered_without_publisher * 100.0,
            total.width,
            if total.met { "met" } else { "MISSED" }
        )
    };
    for total in &table.classes {
        text.line(line(total.class.map_or("", |class| class.title()), total));
    }
    text.line(line("one server", &table.single));
    text.line(line("all", &table.all));
    for class in &table.without {
        writeln!(text, "  {:<22} no evidence for this class", class.title())?;
    }
    writeln!(text, "  {} rows are only recalled and do not count", table.recalled)?;
    Ok(text)
}

fn table(report: &Report) -> Result<Text> {
    let mut text = Text::new();
    writeln!(
        text,
        "published figures next to the network alone, uncorrected: plan BILL corrects it by the \
         results above"
    )?;
    let mut case = "";
    for row in &report.rows {
        if row.case != case {
            case = row.case;
            writeln!(text, "{case}")?;
        }
        writeln!(text, "  {:<5} {}", row.tag.word(), line(row))?;
    }
    writeln!(text, "fitted, never counted as predictions")?;
    for fitted in &report.fitted {
        let of = if fitted.founding { "founding" } else { "others" };
        writeln!(text, "  {:<34} {:<12} to {} ({of})", fitted.name, fitted.value, fitted.to)?;
    }
    let bare = "in brackets against bare numbers, 'nearly 1.3M' as 1.3M, not 1.25M to 1.3M";
    writeln!(text, "held out (PRED); {bare}")?;
    for s in &report.summaries {
        let (median, worst) = s.set.bars();
        let bars = match median.is_finite() {
            true => format!(
                "bars {:.1} % and {:.1} %: {}",
                median * 100.0,
                worst * 100.0,
                if s.met { "met" } else { "MISSED" }
            ),
            false => "no bar: do not rely on them".to_owned(),
        };
        writeln!(
            text,
            "  {:<38} {:>2} rows, median {:.2} % ({:.2} %), worst {:.1} % ({:.1} %); {bars}",
            s.set.title(),
            s.rows,
            s.median * 100.0,
            s.median_bare * 100.0,
            s.worst * 100.0,
            s.worst_bare * 100.0
        )?;
    }
    for key in &report.grown {
        writeln!(text, "grew beyond what is recorded: {key}")?;
    }
    Ok(text)
}

fn line(row: &Row) -> String {
    let number = |value: f64| match value.abs() {
        v if v >= 1e4 => Rate(value).to_string(),
        v if v >= 1.0 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.4}"),
        _ => format!("{:.1}u", value * 1e6),
    };
    let (word, bare) = match row.is_bound() {
        false => ("", String::new()),
        true => {
            let word = if row.published == row.allowed.0 { "over " } else { "nearly " };
            (word, format!(" ({:+.1} % bare)", row.error_bare() * 100.0))
        }
    };
    format!(
        "{:<44} published {:>13} model {:>8} {:+6.1} %{bare}  {}",
        row.figure,
        format!("{word}{}", number(row.published)),
        number(row.model),
        row.error() * 100.0,
        row.note
    )
}
