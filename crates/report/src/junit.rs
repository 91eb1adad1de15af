//! Results as JUnit's XML, which build servers read: a suite for each result, a case for each
//! honesty check, for how the run ended, and for each threshold.

use std::io::{self, Write};

use stats::{Check, RunResult, Verdict};

use crate::ended;
use crate::page::escape;
use crate::reason;
use crate::style::Paint;
use crate::threshold::{Held, Outcome};

/// Writes the results by their names, and what thresholds of them came to.
pub fn write(
    results: &[(&str, &RunResult)],
    thresholds: &[Held],
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    let suites: Vec<Suite> = results.iter().map(|(name, result)| of_run(name, result)).collect();
    let held = (!thresholds.is_empty()).then(|| of_thresholds(thresholds));
    let all: Vec<&Suite> = suites.iter().chain(&held).collect();
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
    cases.extend(result.checks.iter().map(|check| {
        let Check { code, name, verdict, evidence, mend } = check;
        let mend: String = mend.iter().map(|mend| format!("\nmend: {mend}")).collect();
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

fn of_thresholds(thresholds: &[Held]) -> Suite {
    let case = |held: &Held| Case {
        name: match held.of.is_empty() {
            true => held.threshold.clone(),
            false => format!("{} {}", held.of, held.threshold),
        },
        end: match held.outcome {
            Outcome::Kept => End::Passed(held.why.clone()),
            Outcome::Missed => End::Failed(held.why.clone(), String::new()),
            Outcome::CannotTell => End::Skipped(format!("cannot tell: {}", held.why)),
        },
    };
    let cases = thresholds.iter().map(case).collect();
    Suite { name: "thresholds".to_owned(), seconds: 0.0, started: String::new(), cases }
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
