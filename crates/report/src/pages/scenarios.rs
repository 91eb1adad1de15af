//! Scenarios as a page: published, modelled and live figures.

use serde::Deserialize;
use serde_json::Value;
use stats::Bound;

use super::section;
use crate::bounds;
use crate::figure;
use crate::page::{Content, Page, Section, Table};

/// Document of `drumfire scenario run --json`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Scenarios {
    /// In their order.
    pub scenarios: Vec<Scenario>,
    /// Verdicts on bounds of the scenarios' figures.
    #[serde(default)]
    pub bounds: Vec<Bound>,
}

/// One system of the founding documents.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// Name, as `intel-28-ssd`.
    pub name: String,
    /// Description, in a sentence.
    pub about: String,
    /// Figures.
    pub rows: Vec<Figure>,
    /// Live steps that earlier runs did, in words.
    pub earlier: Vec<String>,
}

/// One figure of a document.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// Identifier, as `24-drives-iops`.
    pub id: String,
    /// Meaning, in words.
    pub what: String,
    /// Published figure: a number, or words if it is none.
    pub published: Value,
    /// The figure that follows from the document's others, where it has none itself.
    pub derived: Value,
    /// Figure of the model.
    pub modelled: Value,
    /// Figure of a live run on this machine, scaled to the published one.
    pub live: Value,
    /// Origin of the live figure: measured, emulated.
    pub live_origin: Option<String>,
    /// Factor of the live figure for the comparison with the published one.
    pub live_scale: Option<f64>,
    /// `iops`, `ns`, `B/s`, `percent`; any other unit follows the number.
    pub unit: String,
    /// Error of the model relative to the published figure, in percent.
    pub error_percent: Option<f64>,
    /// Reason for the difference, and the live run's bottleneck.
    pub reason: String,
}

/// Differences beyond this need a reason, in percent.
const NEEDS_REASON: f64 = 5.0;

/// Returns the page of a scenario's results. `text` is the document.
pub fn scenarios(found: &Scenarios, text: &str) -> Page {
    let rows = || found.scenarios.iter().flat_map(|scenario| &scenario.rows);
    let errors = || rows().filter_map(|row| row.error_percent).filter(|e| e.is_finite());
    let known = errors().count();
    let far = errors().filter(|error| error.abs() > NEEDS_REASON).count();
    let worst = errors().max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let title = match &found.scenarios[..] {
        [one] => one.name.clone(),
        _ => "the founding systems".to_owned(),
    };
    let worst =
        worst.map_or(String::new(), |worst| format!("; the furthest is off by {worst:+.1} %"));
    let bounds = bounds::section(&found.bounds);
    Page {
        title,
        lead: format!(
            "{} figures, {} of them published; {known} modelled and compared: {far} differ by \
             more than {NEEDS_REASON:.0} %{worst}.",
            rows().count(),
            rows().filter(|row| !row.published.is_null()).count()
        ),
        sections: bounds.into_iter().chain(found.scenarios.iter().map(of)).collect(),
        foot: "Published: theirs, on their hardware. Modelled: simulated from the parts. Live: \
               real I/O on this machine, scaled to it."
            .to_owned(),
        raw: Some(text.to_owned()),
        ..Page::default()
    }
}

fn of(scenario: &Scenario) -> Section {
    let row = |row: &Figure| {
        let shown = |value: &Value| shown(value, &row.unit);
        let error = row.error_percent.map_or_else(|| "–".to_owned(), |e| format!("{e:+.1} %"));
        let mut what = if row.what.is_empty() { row.id.clone() } else { row.what.clone() };
        if !row.derived.is_null() {
            what = format!("{what} (derived: {})", shown(&row.derived));
        }
        let far = row.error_percent.is_some_and(|error| error.abs() > NEEDS_REASON);
        let reason = match (row.reason.is_empty(), far) {
            (true, true) => "no reason is given".to_owned(),
            _ => row.reason.clone(),
        };
        let (published, modelled) = (shown(&row.published), shown(&row.modelled));
        let mut live = shown(&row.live);
        // An emulated figure never looks as if it was measured.
        if let Some(origin) = row.live_origin.as_deref().filter(|_| !row.live.is_null()) {
            live = format!("{live}, {origin}");
        }
        if let Some(scale) = row.live_scale.filter(|scale| *scale != 1.0 && !row.live.is_null()) {
            live = format!("{live}, × {scale}");
        }
        vec![what, published, modelled, error, live, reason]
    };
    let head = vec!["figure", "published", "modelled", "error", "live", "why"];
    let table = Table { head, rows: scenario.rows.iter().map(row).collect() };
    let mut content = vec![Content::Table(table)];
    if !scenario.about.is_empty() {
        content.insert(0, Content::Text(scenario.about.clone()));
    }
    content.extend(scenario.earlier.iter().map(|words| Content::Text(format!("{words}."))));
    section(&scenario.name, content)
}

fn shown(value: &Value, unit: &str) -> String {
    match (value.as_f64(), value.as_str()) {
        (Some(number), _) => match unit.to_ascii_lowercase().as_str() {
            "iops" => figure::iops(number),
            "ns" => figure::span(number),
            "us" | "µs" => figure::span(number * 1e3),
            "ms" => figure::span(number * 1e6),
            "b/s" | "bytes/s" | "bytes_per_second" => figure::bytes_per_second(number),
            "mb/s" => figure::bytes_per_second(number * 1e6),
            "percent" | "%" => format!("{number:.1} %"),
            "" => format!("{number}"),
            other => format!("{number:.4} {other}"),
        },
        (None, Some(words)) => words.to_owned(),
        (None, None) => "–".to_owned(),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn three_columns_and_a_reason_for_each_difference() {
        let text = r#"{"scenarios":[{"name":"intel-28-ssd","rows":[
            {"id":"iops","published":1000000,"modelled":1010000.0,"live":9900.0,"unit":"iops",
             "error_percent":1.0,"live_origin":"emulated","live_scale":100.0},
            {"id":"mean","published":880000,"modelled":990000,"live":"n/a","unit":"ns",
             "error_percent":12.5,"reason":"the drive's <cache>"}]}]}"#;
        let page = scenarios(&serde_json::from_str(text).unwrap(), text);
        assert!(
            page.lead.contains("2 figures, 2 of them published") && page.lead.contains("+12.5 %")
        );
        let html = page.html();
        for part in [
            "1.00M\u{a0}IOPS",
            "1.01M\u{a0}IOPS",
            "+1.0 %",
            "IOPS, emulated, × 100",
            "880\u{a0}µs",
            "the drive&#39;s &lt;cache&gt;",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
