//! A comparison as a page: both sides beside each other, then the same charts laid over each other.

use stats::{Bound, Class, RunResult};

use super::{charts, section};
use crate::bounds;
use crate::chart::{Axis, Plot, Point, Scale, Series, Unit};
use crate::compare::{self, Change, Comparison};
use crate::figure;
use crate::job;
use crate::page::{Content, Judged, Page, Section, Table};
use crate::reason;
use crate::style::Paint;

/// One comparison with a run of each side, what stands on one side only, and what bounds came to.
pub fn comparison(
    found: &[(&Comparison, &RunResult, &RunResult)],
    names: [&str; 2],
    alone: &[String],
    bounds: &[Bound],
) -> Page {
    let many = found.len() > 1;
    let mut sections: Vec<Section> = bounds::section(bounds).into_iter().collect();
    for (comparison, a, b) in found {
        let before = if many { format!("{}: ", comparison.name) } else { String::new() };
        sections.extend(
            sides(comparison, a, b, names)
                .into_iter()
                .map(|section| Section { title: format!("{before}{}", section.title), ..section }),
        );
    }
    if !alone.is_empty() {
        let content = alone.iter().cloned().map(Content::Text).collect();
        sections.push(section("on one side only", content));
    }
    let all: Vec<&Comparison> = found.iter().map(|(comparison, ..)| *comparison).collect();
    let tool = found.first().map(|(_, _, b)| b.tool.version.clone()).unwrap_or_default();
    Page {
        title: format!("{} against {}", names[1], names[0]),
        lead: lead(found),
        judged: judged(found),
        sections,
        foot: format!("drumfire {tool}"),
        raw: serde_json::to_string(&serde_json::json!({ "comparisons": all, "bounds": bounds }))
            .ok(),
    }
}

/// The ratio of rates with its interval, and one word.
fn lead(found: &[(&Comparison, &RunResult, &RunResult)]) -> String {
    if let [(comparison, a, _)] = found {
        let rate = comparison.figures.iter().find(|figure| figure.name == "IOPS");
        let what = job::kind(&a.job);
        let Some(rate) = rate else { return format!("{what}: unknown.") };
        return format!("{what}: {}.", compare::in_words(rate));
    }
    let count = |wanted: Change| {
        let is_rate = |of: &&compare::Figure| of.name == "IOPS" && of.verdict == wanted;
        found.iter().flat_map(|(all, ..)| &all.figures).filter(is_rate).count()
    };
    format!(
        "{} pairs; IOPS faster in {}, slower in {}, same in {}, cannot tell in {}.",
        found.len(),
        count(Change::Higher),
        count(Change::Lower),
        count(Change::Unchanged),
        count(Change::CannotTell)
    )
}

fn judged(found: &[(&Comparison, &RunResult, &RunResult)]) -> Option<Judged> {
    let sides = || found.iter().flat_map(|(_, a, b)| [*a, *b]);
    let worst = sides().max_by_key(|run| match run.class {
        Class::Publishable => 0,
        Class::Indicative => 1,
        Class::Invalid => 2,
    })?;
    let differs: Vec<String> = (found.iter())
        .flat_map(|(all, ..)| &all.differences)
        .map(|of| format!("{} {} → {}", of.what, of.a, of.b))
        .collect();
    let invalid = found.iter().flat_map(|(all, ..)| &all.invalid).next().cloned();
    let because = match (invalid, differs.first()) {
        (Some(invalid), _) => format!("not comparable, {invalid}"),
        (None, Some(first)) => format!("not the same measurement: {first}"),
        (None, None) => reason::verdict(worst),
    };
    Some(Judged {
        class: worst.class.word(),
        origin: worst.origin.with(worst.kind),
        because,
        next: String::new(),
    })
}

fn sides(comparison: &Comparison, a: &RunResult, b: &RunResult, names: [&str; 2]) -> Vec<Section> {
    let row = |what: &str, of: &dyn Fn(&RunResult) -> String| vec![what.to_owned(), of(a), of(b)];
    let rows = vec![
        row("result", &|run| reason::headline(run, Paint::PLAIN)),
        row("mean latency", &|run| figure::mean(&run.totals.latency_ns)),
        row("p99", &|run| figure::bound(&run.totals.latency_ns, run.totals.latency_ns.p99)),
        row("begun", &|run| run.started.clone()),
        row("host", &|run| run.host.name.clone()),
        vec!["folder".to_owned(), names[0].to_owned(), names[1].to_owned()],
    ];
    let heads = Content::Table(Table { head: vec!["what", "before", "after"], rows });
    let rows = comparison.figures.iter().map(compare::row).collect();
    let head = vec!["figure", "before", "after", "change", "interval", "verdict"];
    let figures = Content::Table(Table { head, rows });
    let mut content = vec![heads, figures];
    content.extend(comparison.differences.iter().map(|of| {
        Content::Text(format!("{}: {} → {}: a change may come from this.", of.what, of.a, of.b))
    }));
    let mut sections = vec![section("both sides", content)];
    let overlaid = overlaid(a, b);
    if !overlaid.is_empty() {
        sections.push(section("laid over each other", overlaid));
    }
    sections
}

/// The charts of both, a line each.
fn overlaid(a: &RunResult, b: &RunResult) -> Vec<Content> {
    let mut content = Vec::new();
    let line = |name: &str, run: &RunResult| {
        let points = run.intervals.iter().map(|second| Point::new(second.t, second.iops));
        Series { origin: run.origin, ..Series::new(name, points.collect()) }
    };
    if !a.intervals.is_empty() && !b.intervals.is_empty() {
        content.push(Content::Plot(Plot {
            title: "Rate over time".to_owned(),
            about: "One run of each side, each from its own start.".to_owned(),
            x: Axis::new("time", Unit::Seconds, Scale::Linear),
            y: Axis::new("", Unit::Iops, Scale::Linear),
            series: vec![line("before", a), line("after", b)],
            marks: Vec::new(),
        }));
    }
    let both = [("before", a), ("after", b)];
    let both: Vec<Series> =
        both.into_iter().filter_map(|(name, run)| charts::percentiles(run, name)).collect();
    if both.len() == 2 {
        content.push(Content::Plot(charts::plot_of_percentiles(both)));
    }
    content
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::generated;

    #[test]
    fn both_sides_stand_beside_each_other_with_one_word() {
        let (a, b) = (generated::small(1), generated::small(2));
        let found = compare::compare("", std::slice::from_ref(&a), std::slice::from_ref(&b));
        let page = comparison(
            &[(&found, &a, &b)],
            ["old", "new"],
            &["size=8k".to_owned()],
            &[Bound { bound: "iops<-3%".to_owned(), ..Bound::default() }],
        );
        let html = page.html();
        for part in [
            "cannot tell",
            "before",
            "new against old",
            "Rate over time",
            "on one side only",
            "fail if iops&lt;-3%",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(page.markdown().contains("| IOPS |"), "{}", page.markdown());
    }
}
