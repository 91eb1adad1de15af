//! Results as JUnit XML, which build servers read: a suite for each result, with a case for the
//! run's end, each bound and each honesty check; and a suite for the bounds of each sweep.

use std::io::{self, Write};

use stats::{Bound, Check, Kept, RunResult, Verdict};

use crate::ended;
use crate::page::escape;
use crate::reason;
use crate::style::Paint;

/// Writes results and verdicts on bounds of sweeps, both with names.
///
/// # Errors
///
/// Errors of `out`.
pub fn write(
    results: &[(&str, &RunResult)],
    sweeps: &[(&str, &[Bound])],
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    let runs = results.iter().map(|(name, result)| of_run(name, result));
    let bounded = sweeps.iter().filter(|(_, bounds)| !bounds.is_empty());
    let all: Vec<Suite> =
        runs.chain(bounded.map(|(name, bounds)| of_sweep(name, bounds))).collect();
    let cases = || all.iter().flat_map(|suite| &suite.cases);
    writeln!(
        out,
        "<testsuites name=\"drumfire\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
        cases().count(),
        cases().filter(|case| matches!(case.end, End::Failed(..))).count(),
        cases().filter(|case| matches!(case.end, End::Skipped(_))).count()
    )?;
    all.iter().try_for_each(|suite| suite.write(out))?;
    writeln!(out, "</testsuites>")
}

struct Suite {
    name: String,
    /// Seconds it took.
    seconds: f64,
    started: String,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    end: End,
}

enum End {
    Passed(String),
    /// In a few words, and all of it.
    Failed(String, String),
    Skipped(String),
}

fn of_run(name: &str, result: &RunResult) -> Suite {
    let troubles = ended::troubles(result);
    let end = match (&result.partial, troubles.is_empty()) {
        (Some(why), _) => End::Failed(why.clone(), troubles.join(", ")),
        (None, false) if result.totals.errors > 0 => {
            End::Failed(troubles.join(", "), reason::headline(result, Paint::PLAIN))
        }
        _ => End::Passed(reason::headline(result, Paint::PLAIN)),
    };
    let mut cases = vec![Case { name: "the run ended well".to_owned(), end }];
    cases.extend(result.bounds.iter().map(of_bound));
    cases.extend(result.checks.iter().map(|check| {
        let Check { code, name, verdict, evidence, mend } = check;
        let mend: String = mend.iter().map(|mend| format!("\nfix: {mend}")).collect();
        let end = match verdict {
            Verdict::Pass => End::Passed(evidence.clone()),
            Verdict::Warn => End::Passed(format!("warning: {evidence}{mend}")),
            Verdict::Fail => End::Failed(reason::words(check), format!("{evidence}{mend}")),
            Verdict::Unknown => End::Skipped(format!("not known: {evidence}")),
            Verdict::DoesNotApply => End::Skipped(format!("does not apply: {evidence}")),
        };
        Case { name: format!("{code} {name}"), end }
    }));
    let (seconds, started) = (result.totals.seconds, result.started.clone());
    Suite { name: name.to_owned(), seconds, started, cases }
}

fn of_sweep(name: &str, bounds: &[Bound]) -> Suite {
    let (name, cases) = (format!("{name}: bounds"), bounds.iter().map(of_bound).collect());
    Suite { name, seconds: 0.0, started: String::new(), cases }
}

/// Returns the case of a bound. A missed bound is a failure, as in the exit code.
fn of_bound(bound: &Bound) -> Case {
    let end = match bound.verdict {
        Kept::Kept => End::Passed(bound.evidence.clone()),
        Kept::Missed => End::Failed(bound.evidence.clone(), bound.to_string()),
        Kept::Unknown => End::Skipped(format!("cannot tell: {}", bound.evidence)),
    };
    Case { name: bound.name(), end }
}

impl Suite {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Suite { name, seconds, started, cases } = self;
        let name = escape(name);
        let started = match started.is_empty() {
            true => String::new(),
            false => format!(" timestamp=\"{}\"", escape(started)),
        };
        writeln!(
            out,
            "<testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" \
             time=\"{seconds:.3}\"{started}>",
            cases.len(),
            cases.iter().filter(|case| matches!(case.end, End::Failed(..))).count(),
            cases.iter().filter(|case| matches!(case.end, End::Skipped(_))).count()
        )?;
        for case in cases {
            write!(out, "<testcase classname=\"{name}\" name=\"{}\"", escape(&case.name))?;
            match &case.end {
                End::Passed(said) => {
                    writeln!(out, "><system-out>{}</system-out></testcase>", escape(said))?;
                }
                End::Failed(short, long) => {
                    let (short, long) = (escape(short), escape(long));
                    writeln!(out, "><failure message=\"{short}\">{long}</failure></testcase>")?;
                }
                End::Skipped(why) => {
                    writeln!(out, "><skipped message=\"{}\"/></testcase>", escape(why))?;
                }
            }
        }
        writeln!(out, "</testsuite>")
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn written(result: &RunResult, swept: &[Bound]) -> String {
        let mut out = Vec::new();
        write(&[("r", result)], &[("s", swept)], &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_bound_that_is_missed_is_a_failure() {
        let bound = |text: &str, verdict| Bound {
            bound: text.to_owned(),
            of: String::new(),
            value: None,
            verdict,
            evidence: "690 µs".to_owned(),
        };
        let mut result = sample::race();
        result.totals.errors = 0;
        let plain = written(&result, &[]);
        assert!(!plain.contains("fail if") && !plain.contains("bounds"), "{plain}");
        assert!(plain.contains("failures=\"0\""), "{plain}");
        result.bounds = vec![
            bound("p99>1us", Kept::Missed),
            bound("iops<1", Kept::Kept),
            bound("p99.99>1s", Kept::Unknown),
        ];
        let text = written(&result, &result.bounds[..1]);
        for part in [
            "<testcase classname=\"r\" name=\"fail if p99&gt;1us\"><failure message=\"690 µs\">",
            "name=\"fail if iops&lt;1\"><system-out>690 µs</system-out>",
            "name=\"fail if p99.99&gt;1s\"><skipped message=\"cannot tell: 690 µs\"/>",
            "<testsuite name=\"s: bounds\" tests=\"1\" failures=\"1\"",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.matches("<failure").count(), 2);
        assert!(
            text.contains("<testsuites name=\"drumfire\" tests=\"31\" failures=\"2\""),
            "{text}"
        );
    }
}
