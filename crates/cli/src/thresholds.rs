//! `--fail-if`: figures that end a command in exit code 4 when they cross a bound.

use std::path::Path;

use clap::{Args as Flags, ValueEnum};
use report::threshold::Threshold;
use stats::sweep::{CellRun, SweepResult};
use stats::{Bound, Kept, RunResult};

use crate::exit::{Exit, UsageError};
use crate::{output, report as results};

/// Thresholds of a command.
#[derive(Flags, Clone, Debug, Default)]
pub struct Thresholds {
    /// Exit with 4 if a figure crosses a bound: 'p99>500us', 'iops<900k', 'read.max>5ms',
    /// 'bw<1GB/s', 'errors>0'; can be repeated. For repeats, errors are added, the longest max
    /// counts, and the interval of the median decides the other figures. A bound is also missed if
    /// the result is invalid or unexpectedly emulated, or if the bound cannot be decided.
    #[arg(long, value_name = "BOUND", allow_hyphen_values = true)]
    pub fail_if: Vec<Threshold>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub told: Told,
}

/// The handling of bounds without a verdict.
#[derive(Flags, Clone, Copy, Debug, Default)]
pub struct Told {
    /// Result of a --fail-if bound that cannot be decided: too few I/Os, or an interval that
    /// includes the bound.
    #[arg(long, value_enum, value_name = "AS", default_value_t = Unknown::Miss)]
    pub fail_if_unknown: Unknown,
}

/// The verdict that a bound without one counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Unknown {
    /// Missed.
    #[default]
    Miss,
    /// Neither met nor missed; the bound is printed.
    Ignore,
}

impl Told {
    /// Bounds as reported to the user.
    pub fn of(self, bounds: impl IntoIterator<Item = Bound>) -> Vec<Bound> {
        let ignores = self.fail_if_unknown == Unknown::Ignore;
        bounds.into_iter().map(|bound| bound.settled(ignores)).collect()
    }
}

impl Thresholds {
    /// Refuses thresholds that need a second side.
    pub fn check(&self) -> Result<(), UsageError> {
        match self.fail_if.iter().find(|threshold| threshold.is_relative()) {
            None => Ok(()),
            Some(threshold) => Err(UsageError(format!(
                "--fail-if '{threshold}': a change in percent needs two sides: drumfire compare A \
                 B --fail-if '{threshold}'"
            ))),
        }
    }

    /// Verdicts for a result; `of` is its name in a list.
    pub fn of_result(&self, of: &str, result: &RunResult) -> Vec<Bound> {
        self.told.of(self.fail_if.iter().map(|threshold| threshold.of_run(of, result)))
    }

    /// Verdicts for the cells of a sweep in a folder.
    pub fn of_sweep(&self, sweep: &SweepResult, folder: &Path) -> Vec<Bound> {
        let read = |run: &CellRun| {
            results::read_document(&folder.join(&run.folder).join("result.json")).ok()
        };
        self.told.of(self.fail_if.iter().flat_map(|threshold| threshold.of_sweep(sweep, &read)))
    }

    /// Bounds of a sweep before its end: the report of an interrupted sweep must not show them as
    /// met.
    pub fn before_the_end(&self) -> Vec<Bound> {
        let pending = |threshold: &Threshold| Bound {
            bound: threshold.to_string(),
            verdict: Kept::Unknown,
            evidence: "the sweep is not complete".to_owned(),
            ..Bound::default()
        };
        self.told.of(self.fail_if.iter().map(pending))
    }

    /// Thresholds of the command, or of a resumed sweep if none are given.
    pub fn or_kept(&self, kept: &[Bound]) -> Result<Thresholds, UsageError> {
        if !self.fail_if.is_empty() || kept.is_empty() {
            return Ok(self.clone());
        }
        let mut told = self.told;
        let mut fail_if: Vec<Threshold> = Vec::new();
        for Bound { bound, verdict, .. } in kept {
            let threshold = bound.parse::<Threshold>();
            let threshold = threshold
                .map_err(|why| UsageError(format!("bound '{bound}' of the sweep: {why}")))?;
            if !fail_if.contains(&threshold) {
                fail_if.push(threshold);
            }
            if *verdict == Kept::Unknown {
                told.fail_if_unknown = Unknown::Ignore;
            }
        }
        Ok(Thresholds { fail_if, told })
    }
}

/// Name of one of several steps; empty for a single one.
pub fn step(number: usize, of: usize) -> String {
    if of > 1 { format!("step {number}") } else { String::new() }
}

/// Prints verdicts of bounds on stderr, and returns their exit code.
pub fn say<'a>(bounds: impl IntoIterator<Item = &'a Bound>) -> Exit {
    let mut exit = Exit::Good;
    for bound in bounds {
        output::note(format_args!("drumfire: {bound}"));
        if bound.is_missed() {
            exit = Exit::Missed;
        }
    }
    exit
}

#[cfg(test)]
mod test {
    use super::*;

    fn of(bounds: &[&str]) -> Thresholds {
        let fail_if = bounds.iter().map(|bound| bound.parse().unwrap()).collect();
        Thresholds { fail_if, told: Told::default() }
    }

    #[test]
    fn a_sweep_that_is_taken_up_keeps_its_bounds() {
        let old = of(&["p99>1ms", "iops<5"]);
        assert!(old.before_the_end().iter().all(Bound::is_missed));
        let kept = |old: &Thresholds| of(&[]).or_kept(&old.before_the_end()).unwrap();
        let again = kept(&old);
        assert_eq!(again.fail_if, old.fail_if);
        assert_eq!(again.told.fail_if_unknown, Unknown::Miss);
        let lenient = Thresholds { told: Told { fail_if_unknown: Unknown::Ignore }, ..old.clone() };
        assert!(!lenient.before_the_end().iter().any(Bound::is_missed));
        assert_eq!(kept(&lenient).told.fail_if_unknown, Unknown::Ignore);
        // Bounds of several cells are merged into one, and new ones replace them.
        let twice = [old.before_the_end(), old.before_the_end()].concat();
        assert_eq!(of(&[]).or_kept(&twice).unwrap().fail_if.len(), 2);
        assert_eq!(of(&["max>1s"]).or_kept(&twice).unwrap().fail_if.len(), 1);
        let odd = Bound { bound: "speed>9".to_owned(), ..Bound::default() };
        assert!(of(&[]).or_kept(&[odd]).is_err());
    }
}
