//! Verdicts on bounds, as lines of a table and as a section of a page.

use std::io::{self, Write};

use block::printable;
use stats::{Bound, Kept};

use crate::page::{Content, Section, Table};
use crate::style::Paint;

/// Width of a label at the beginning of a line.
const LABEL: usize = 9;

/// Writes a line for each bound, those that were missed first; nothing without any.
pub(crate) fn write(bounds: &[Bound], paint: Paint, out: &mut impl Write) -> io::Result<()> {
    if bounds.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:LABEL$}{}", "bounds", summary(bounds))?;
    for bound in in_order(bounds) {
        let word = format!("{:<11}", bound.verdict.word());
        let word = match bound.verdict {
            Kept::Kept => paint.green(&word),
            Kept::Missed => paint.red(&word),
            Kept::Unknown => paint.dim(&word),
        };
        writeln!(out, "  {word}  {}: {}", bound.name(), bound.evidence)?;
    }
    Ok(())
}

/// One line on all bounds, with the first that was missed.
pub(crate) fn sum(bounds: &[Bound], paint: Paint) -> String {
    let summary = format!("{:LABEL$}{}", "bounds", summary(bounds));
    match bounds.iter().find(|bound| bound.is_missed()) {
        None => summary,
        Some(first) => {
            let (name, evidence) = (printable(&first.name()).into_owned(), &first.evidence);
            paint.red(&format!("{summary}: {name}: {}", printable(evidence)))
        }
    }
}

/// A table of all, if there is one.
pub(crate) fn section(bounds: &[Bound]) -> Option<Section> {
    if bounds.is_empty() {
        return None;
    }
    let row = |bound: &Bound| {
        let verdict = bound.verdict.word().to_owned();
        vec![bound.name(), verdict, bound.evidence.clone()]
    };
    let rows = in_order(bounds).into_iter().map(row).collect();
    let table = Table { head: vec!["bound", "verdict", "evidence"], rows };
    let content = vec![Content::Text(format!("{}.", summary(bounds))), Content::Table(table)];
    Some(Section { title: "bounds".to_owned(), content })
}

fn summary(bounds: &[Bound]) -> String {
    let missed = bounds.iter().filter(|bound| bound.is_missed()).count();
    format!("{missed} of {} missed", bounds.len())
}

fn in_order(bounds: &[Bound]) -> Vec<&Bound> {
    let mut all: Vec<&Bound> = bounds.iter().collect();
    all.sort_by_key(|bound| !bound.is_missed());
    all
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;
    use stats::sweep::SweepResult;

    fn bounds() -> Vec<Bound> {
        let bound = |text: &str, of: &str, verdict| Bound {
            bound: text.to_owned(),
            of: of.to_owned(),
            value: None,
            verdict,
            evidence: "690 µs".to_owned(),
        };
        vec![bound("p50>1s", "", Kept::Kept), bound("p99>1us", "size=4k", Kept::Missed)]
    }

    #[test]
    fn every_form_names_what_was_missed() {
        let mut text = Vec::new();
        write(&bounds(), Paint::PLAIN, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), GOLDEN);
        let mut result = sample::race();
        let table = |result: &_| crate::text::painted(result, Paint::PLAIN).as_str().to_owned();
        assert!(!table(&result).contains("bounds"));
        result.bounds = bounds();
        assert!(table(&result).contains(GOLDEN));
        let page = crate::pages::runs(std::slice::from_ref(&result));
        assert!(page.html().contains("<td>MISSED</td><td>690\u{a0}µs</td>"), "{}", page.html());
        let row = "| size=4k fail if p99&gt;1us | MISSED | 690 µs |";
        assert!(page.markdown().contains(row), "{}", page.markdown());
        assert!(page.html().find("MISSED") < page.html().find("<h2>latency"));
        let sweep = SweepResult { bounds: bounds(), ..SweepResult::default() };
        let table = crate::sweep::painted(&sweep, Paint::PLAIN, None);
        assert!(table.as_str().contains(GOLDEN), "{}", table.as_str());
        let page = crate::pages::sweep(&sweep);
        assert!(page.html().contains("<td>MISSED</td>") && page.markdown().contains("| MISSED |"));
        // In JSON the bounds follow the digest.
        let mut json = Vec::new();
        crate::json::write(&result, &mut json).unwrap();
        assert_eq!(crate::json::seal(&json).unwrap(), crate::json::Seal::Whole);
        assert_eq!(crate::json::read(&json).unwrap(), result);
        let spoilt = String::from_utf8(json).unwrap().replace("\"missed\"", "\"kept\"");
        assert_eq!(crate::json::seal(spoilt.as_bytes()).unwrap(), crate::json::Seal::Broken);
    }

    const GOLDEN: &str = "
bounds   1 of 2 missed
  MISSED       size=4k fail if p99>1us: 690 µs
  kept         fail if p50>1s: 690 µs
";
}
