//! Runs, sweeps, comparisons and scenarios as pages: their tables from the terminal, with charts,
//! credibility, and everything needed to repeat them.

mod charts;
mod compared;
mod hosts;
mod scenarios;
mod setup;
mod subject;
mod sweeps;

use stats::{Check, Latency, RunResult};

use crate::bounds;
use crate::direction;
use crate::ended;
use crate::failures;
use crate::figure;
use crate::job;
use crate::json;
use crate::page::{Content, Judged, Page, Section, Table};
use crate::part;
use crate::reason;
use crate::records::{self, Beside};
use crate::style::Paint;

pub use self::compared::{Around, comparison};
pub use self::scenarios::{Scenarios, scenarios};
pub use self::sweeps::sweep;

/// Number of published records shown with a result.
const RECORDS_SHOWN: usize = 4;

/// The results of a run, one for each step.
pub fn runs(results: &[RunResult]) -> Page {
    let first = results.first();
    let title = first.map_or("run", |result| &result.job.name).to_owned();
    let lead = results.iter().map(lead).collect::<Vec<_>>().join(" ");
    let many = results.len() > 1;
    let sections = (1..).zip(results).flat_map(|(number, result)| {
        let before = if many { format!("step {number}: ") } else { String::new() };
        let mut sections = sections(result);
        subject::name_charts(&mut sections, &subject::of_run(result));
        sections
            .into_iter()
            .map(move |section| Section { title: format!("{before}{}", section.title), ..section })
    });
    let foot = first.map_or_else(String::new, |result| {
        format!("drumfire {}, begun {}, seed {}", result.tool.version, result.started, result.seed)
    });
    let judged = results.iter().map(judged).reduce(|a, b| if rank(&b) > rank(&a) { b } else { a });
    let raw = match results {
        // With its digest: taken out of the page it is the result.
        [one] => {
            let mut text = Vec::new();
            json::write(one, &mut text).ok().and_then(|()| String::from_utf8(text).ok())
        }
        all => serde_json::to_string(&serde_json::json!({ "steps": all })).ok(),
    };
    // A result always serializes to JSON.
    Page { title, lead, judged, sections: sections.collect(), foot, raw }
}

/// Rank of a judgement: a higher rank is a worse class.
fn rank(judged: &Judged) -> usize {
    ["publishable", "indicative", "invalid"].iter().position(|c| *c == judged.class).unwrap_or(0)
}

/// Returns the credibility of a result, the strongest reason against it, and the action that
/// resolves it.
fn judged(result: &RunResult) -> Judged {
    let against = reason::worst(&result.checks);
    let because = against.map(|check| {
        let Check { code, evidence, .. } = check;
        format!("{}; {evidence} ({code}, {})", reason::words(check), check.verdict.word())
    });
    Judged {
        class: result.class.word(),
        origin: result.origin.with(result.kind),
        because: because.unwrap_or_default(),
        next: against.map(reason::next).unwrap_or_default(),
    }
}

fn lead(result: &RunResult) -> String {
    let totals = &result.totals;
    let troubles = ended::troubles(result);
    let partial = result.partial.as_ref().map(|why| format!(" Partial result: {why}."));
    let part = part::words(&result.spec);
    let latency = &totals.latency_ns;
    let p99 = latency.p99.map(|ns| format!(" · p99 {}", figure::bound(latency, Some(ns))));
    format!(
        "{}. {} · mean {}{}. {}{}. {} I/Os in {}, {}.{}",
        reason::headline(result, Paint::PLAIN),
        figure::bytes_per_second(totals.bytes_per_second),
        figure::mean(latency),
        p99.unwrap_or_default(),
        job::kind(&result.job),
        part.iter().map(|word| format!(", {word}")).collect::<String>(),
        figure::count(totals.ios),
        figure::seconds(totals.seconds),
        if troubles.is_empty() { "no errors".to_owned() } else { troubles.join(", ") },
        partial.unwrap_or_default(),
    )
}

fn sections(result: &RunResult) -> Vec<Section> {
    let mut sections: Vec<Section> = bounds::section(&result.bounds).into_iter().collect();
    sections.push(latencies(result));
    sections.extend(charts::limits(result));
    sections.extend(charts::over_time(result));
    sections.extend(hosts::over_hosts(result));
    sections.extend(charts::distribution(result));
    sections.extend(charts::processors(result));
    sections.extend(failures::section(result));
    sections.push(checks(result));
    sections.extend(records(result));
    sections.push(setup::section(result));
    sections
}

fn section(title: &str, content: Vec<Content>) -> Section {
    Section { title: title.to_owned(), content }
}

const LATENCY: [&str; 10] =
    ["of", "IOPS", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

fn latencies(result: &RunResult) -> Section {
    let totals = &result.totals;
    let row = |name: &str, iops: f64, latency: &Latency| {
        let mean = figure::mean(latency);
        let cell = |ns| figure::bound(latency, ns);
        let [min, p50, p90, p99] = [latency.min, latency.p50, latency.p90, latency.p99].map(cell);
        let [p99_9, p99_99, max] = [latency.p99_9, latency.p99_99, latency.max].map(cell);
        let name = name.to_owned();
        vec![name, figure::rate(iops), min, mean, p50, p90, p99, p99_9, p99_99, max]
    };
    let used = direction::used(totals);
    let mut rows = vec![row("all", totals.iops, &totals.latency_ns)];
    rows.extend(used.map(|(name, of)| row(name, of.iops, &of.latency_ns)));
    let table = Table { head: LATENCY.to_vec(), rows };
    let words = "Percentiles with fewer than 100 samples above them are withheld, and tails of \
                 fewer than 50 moments: a stall that hits many I/Os is one.";
    let tails = figure::tails(&totals.latency_ns).into_iter();
    let tails = tails.chain(figure::waited(&totals.latency_ns)).map(Content::Text);
    let content = [Content::Table(table), Content::Text(words.to_owned())];
    section("latency", content.into_iter().chain(tails).collect())
}

fn checks(result: &RunResult) -> Section {
    let row = |check: &Check| {
        let Check { code, name, verdict, evidence, mend } = check;
        let (verdict, mend) = (verdict.word().to_owned(), mend.join("; "));
        vec![code.clone(), name.clone(), verdict, evidence.clone(), mend]
    };
    let rows = reason::in_order(&result.checks).into_iter().map(row).collect();
    let head = vec!["check", "name", "verdict", "evidence", "mend"];
    let mut content = vec![Content::Table(Table { head, rows })];
    content.extend(result.warnings.iter().cloned().map(Content::Text));
    section("honesty checks", content)
}

fn records(result: &RunResult) -> Option<Section> {
    let records = match records::beside(result) {
        Beside::Nothing => return None,
        Beside::Withheld(why) => {
            let words = format!("Not compared with published figures: {why}.");
            return Some(section("records", vec![Content::Text(words)]));
        }
        Beside::These(records) => records,
    };
    let row = |record: &records::Record| {
        let multiple = format!("{:.3} ×", result.totals.iops / record.iops);
        vec![multiple, record.figure(), record.name(), record.job(), record.system.to_owned()]
    };
    let rows = records.into_iter().take(RECORDS_SHOWN).map(row).collect();
    let head = vec!["this run", "published", "by", "job", "system"];
    let words = "This run as a multiple of published figures for the same kind of job: theirs, on \
                 their hardware.";
    Some(section(
        "records",
        vec![Content::Text(words.to_owned()), Content::Table(Table { head, rows })],
    ))
}

#[cfg(test)]
mod test {
    use stats::Verdict;

    use super::*;
    use crate::sample;

    #[test]
    fn a_run_says_on_a_page_what_it_says_in_a_table() {
        let mut result = sample::counted();
        result.job = sample::job();
        result.totals = sample::race().totals;
        result.checks = sample::race().checks;
        let page = runs(std::slice::from_ref(&result)).html();
        for part in [
            "3.41M IOPS measured, indicative: loopback",
            "690\u{a0}µs",
            "H19",
            "loopback: no wire",
            "Third I/O",
            "INDICATIVE",
            "Because: ",
            "The same as a table",
            "id=\"result\"",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        result.set_check(Check::new("H02", "data-exist", Verdict::Fail, "a <hole>"));
        let page = runs(&[result.clone(), result]).html();
        assert!(page.contains("step 2: latency") && page.contains("a &lt;hole&gt;"), "{page}");
        assert!(page.contains("Not compared") && !page.contains("Third I/O"), "{page}");
        assert!(runs(&[]).html().contains("<html"));
    }
}
