//! Failed I/Os: where and why, in words.

use std::io::{self, Write};

use stats::{Failure, RunResult};

use crate::figure;
use crate::page::{Content, Section, Table};
use crate::style::Paint;

/// Number of kinds in the table of a terminal; the page and the document have all.
const SHOWN: usize = 8;
/// Width of a label at the beginning of a line.
const LABEL: usize = 9;

/// Returns a line with the number of failed I/Os and the first failure, if any failed.
pub fn line(result: &RunResult) -> Option<String> {
    let failure = result.failures.first()?;
    let Failure { volume, operation, .. } = failure;
    let failed = figure::plural(result.totals.errors, "I/O");
    Some(format!("{failed} failed: {operation} on {volume}, {}, {}", why(failure), first(failure)))
}

/// Writes the lines of a table: two for each kind.
pub(crate) fn write(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let labels = std::iter::once("errors").chain(std::iter::repeat(""));
    for (label, failure) in labels.zip(result.failures.iter().take(SHOWN)) {
        let Failure { volume, operation, count, .. } = failure;
        let what = format!("{} × {operation}: {}", figure::count(*count), why(failure));
        writeln!(out, "\n{label:LABEL$}{}", paint.red(&what))?;
        writeln!(out, "{:LABEL$}on {volume}, {}", "", first(failure))?;
    }
    match beyond(result, SHOWN) {
        0 => Ok(()),
        ios => writeln!(out, "\n{:LABEL$}{} × of further kinds", "", figure::count(ios)),
    }
}

/// A table of all kinds, if any I/O failed.
pub(crate) fn section(result: &RunResult) -> Option<Section> {
    if result.failures.is_empty() {
        return None;
    }
    let row = |failure: &Failure| {
        let Failure { volume, operation, count, .. } = failure;
        let cells = [operation, volume, &why(failure), &figure::count(*count), &first(failure)];
        cells.map(String::clone).to_vec()
    };
    let rows = result.failures.iter().map(row).collect();
    let head = vec!["operation", "volume", "why", "count", "the first"];
    let mut content = vec![Content::Table(Table { head, rows })];
    let ios = beyond(result, usize::MAX);
    if ios > 0 {
        content.push(Content::Text(format!("{} more of further kinds.", figure::count(ios))));
    }
    Some(Section { title: "errors".to_owned(), content })
}

/// Returns the status from the system or the target, else the kind of fault.
fn why(failure: &Failure) -> String {
    match &failure.status {
        Some(status) => status.clone(),
        None => failure.fault.clone(),
    }
}

/// Returns offset and time of the first failure.
fn first(failure: &Failure) -> String {
    let first = &failure.first;
    let (t_s, length) = (first.t_s, first.length_bytes);
    let place = match length {
        0 => String::new(),
        _ => format!(", {length} bytes at offset {}", first.offset_bytes),
    };
    format!("first at {t_s:.3} s{place} ({})", first.worker)
}

/// Failed I/Os of kinds that are not among the first `shown`.
fn beyond(result: &RunResult, shown: usize) -> u64 {
    let rest = result.failures.iter().skip(shown).map(|failure| failure.count);
    rest.fold(result.failures_unlisted, u64::saturating_add)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn text(result: &RunResult) -> String {
        let mut out = Vec::new();
        write(result, Paint::PLAIN, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_failed_is_said_with_place_time_and_reason() {
        let mut result = RunResult::default();
        assert_eq!((text(&result), section(&result), line(&result)), (String::new(), None, None));
        result.failures = sample::failures();
        assert_eq!(text(&result), GOLDEN);
        result.totals.errors = 1235;
        let said = "1,235 I/Os failed: read on file:/dev/sdz, EIO (5): Input/output error, first \
                    at 1.500 s, 4096 bytes at offset 1048576 (manager 1 worker 2)";
        assert_eq!(line(&result).as_deref(), Some(said));
        let page = crate::pages::runs(&[result.clone()]).html();
        for part in ["<h2>errors", "EIO (5): Input/output error", "4096 bytes at offset 1048576"] {
            assert!(page.contains(part), "{part} in {page}");
        }
        result.failures = vec![result.failures[0].clone(); 20];
        result.failures_unlisted = 7;
        let said = text(&result);
        assert_eq!(said.matches("× read").count(), SHOWN);
        assert!(said.ends_with("\n         14,815 × of further kinds\n"), "{said}");
    }

    const GOLDEN: &str = "
errors   1,234 × read: EIO (5): Input/output error
         on file:/dev/sdz, first at 1.500 s, 4096 bytes at offset 1048576 (manager 1 worker 2)

         1 × flush: connection lost
         on null:1g, first at 2.000 s (manager 1 worker 1)
";
}
