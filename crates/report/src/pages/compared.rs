//! A comparison as a page: both sides next to each other, then the same charts overlaid.

use stats::{Bound, RunResult};

use super::{charts, section, subject};
use crate::bounds;
use crate::chart::{Axis, Plot, Point, Scale, Series, Unit};
use crate::compare::{self, Change, Comparison, Judged as Figures};
use crate::figure;
use crate::job;
use crate::page::{Content, Judged, Page, Section, Table};
use crate::reason;
use crate::style::Paint;

/// The parts of a comparison other than its pairs.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Folders of both sides.
    pub names: [&'a str; 2],
    /// Figures of all pairs.
    pub figures: Figures,
    /// Runs that one side has alone.
    pub alone: &'a [String],
    /// Lines about the journals of both sides.
    pub journals: &'a [String],
    /// Bounds with their verdicts.
    pub bounds: &'a [Bound],
}

/// Returns the page of one or more comparisons, each with a run of each side, and their context.
pub fn comparison(found: &[(&Comparison, &RunResult, &RunResult)], around: &Around<'_>) -> Page {
    let Around { names, figures, alone, journals, bounds } = *around;
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
    if !journals.is_empty() {
        let content = journals.iter().cloned().map(Content::Text).collect();
        sections.push(section("journals", content));
    }
    let all: Vec<&Comparison> = found.iter().map(|(comparison, ..)| *comparison).collect();
    let tool = found.first().map(|(_, _, b)| b.tool.version.clone()).unwrap_or_default();
    Page {
        title: format!("{} against {}", names[1], names[0]),
        lead: match figures.words() {
            Some(words) => format!("{} {words}.", lead(found)),
            None => lead(found),
        },
        judged: judged(found),
        sections,
        foot: format!("drumfire {tool}"),
        raw: serde_json::to_string(&serde_json::json!({ "comparisons": all, "gates": bounds }))
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
        "{} pairs; IOPS faster in {}, slower in {}, same in {}, not told apart in {}, cannot tell \
         in {}.",
        found.len(),
        count(Change::Higher),
        count(Change::Lower),
        count(Change::Unchanged),
        count(Change::NotToldApart),
        count(Change::CannotTell)
    )
}

fn judged(found: &[(&Comparison, &RunResult, &RunResult)]) -> Option<Judged> {
    let sides = || found.iter().flat_map(|(_, a, b)| [*a, *b]);
    let worst = sides().max_by_key(|run| reason::rank(run.class))?;
    let differs: Vec<String> = (found.iter())
        .flat_map(|(all, ..)| &all.differences)
        .map(|of| format!("{} {} → {}", of.what, of.a, of.b))
        .collect();
    let invalid = found.iter().flat_map(|(all, ..)| &all.invalid).next().cloned();
    let doubt = found.iter().flat_map(|(all, ..)| &all.doubts).next();
    let because = match (invalid, differs.first(), doubt) {
        (Some(invalid), ..) => format!("not comparable, {invalid}"),
        (None, Some(first), _) => format!("not the same measurement: {first}"),
        (None, None, Some(doubt)) => format!("{doubt}; {}", reason::verdict(worst)),
        (None, None, None) => reason::verdict(worst),
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
    // Figures below are of all runs.
    let runs = comparison.figures.first().map_or((1, 1), |figure| (figure.a.runs, figure.b.runs));
    let result = if runs == (1, 1) { "result" } else { "result of the first run" };
    let rows = vec![
        row(result, &|run| reason::headline(run, Paint::PLAIN)),
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
    content.extend(
        comparison.invalid.iter().map(|why| Content::Text(format!("Not comparable, {why}."))),
    );
    content.extend(comparison.doubts.iter().map(|doubt| Content::Text(format!("{doubt}."))));
    let mut sections = vec![section("both sides", content)];
    let overlaid = overlaid(a, b);
    if !overlaid.is_empty() {
        sections.push(section("laid over each other", overlaid));
    }
    let [one, other] = [a, b].map(subject::of_run);
    let of = if one == other { one } else { format!("{one}, and {other}") };
    subject::name_charts(&mut sections, &of);
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
        let mut found = compare::compare("", std::slice::from_ref(&a), std::slice::from_ref(&b));
        let judged = compare::mark([&mut found]);
        let page = comparison(
            &[(&found, &a, &b)],
            &Around {
                names: ["old", "new"],
                figures: judged,
                alone: &["size=8k".to_owned()],
                journals: &["journal of old: 4 runs begun".to_owned()],
                bounds: &[Bound { bound: "iops<-3%".to_owned(), ..Bound::default() }],
            },
        );
        let html = page.html();
        for part in [
            "cannot tell",
            "before",
            "new against old",
            "Rate over time",
            "on one side only",
            "journal of old: 4 runs begun",
            "fail if iops&lt;-3%",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(page.markdown().contains("| IOPS |"), "{}", page.markdown());
    }
}
