//! `--fail-if`: figures that end a command in exit code 4 when they cross a bound.

use clap::Args as Flags;
use report::threshold::{Held, Outcome, Threshold};
use stats::RunResult;
use stats::sweep::SweepResult;

use crate::exit::{Exit, UsageError};
use crate::output;

/// Thresholds of a command.
#[derive(Flags, Clone, Debug, Default)]
pub struct Thresholds {
    /// Exit with 4 if a figure crosses a bound: 'p99>500us', 'iops<900k', 'read.max>5ms',
    /// 'bw<1GB/s', 'errors>0'; may be repeated. With repeated runs their interval decides; if it
    /// holds the bound, that is printed and is no failure.
    #[arg(long, value_name = "BOUND", allow_hyphen_values = true)]
    pub fail_if: Vec<Threshold>,
}

impl Thresholds {
    /// Refuses what needs a second side.
    pub fn check(&self) -> Result<(), UsageError> {
        match self.fail_if.iter().find(|threshold| threshold.is_relative()) {
            None => Ok(()),
            Some(threshold) => Err(UsageError(format!(
                "--fail-if '{threshold}': a change in percent needs two sides: drumfire compare A \
                 B --fail-if '{threshold}'"
            ))),
        }
    }

    /// What results of a run, one for each step, come to.
    pub fn of_results(&self, results: &[RunResult]) -> Vec<Held> {
        let name = |number: usize| match results.len() {
            1 => String::new(),
            _ => format!("step {number}"),
        };
        let of = |threshold: &Threshold| {
            let all = (1..).zip(results);
            all.map(|(number, result)| threshold.of_run(&name(number), result)).collect::<Vec<_>>()
        };
        self.fail_if.iter().flat_map(of).collect()
    }

    /// What the cells of a sweep come to.
    pub fn of_sweep(&self, sweep: &SweepResult) -> Vec<Held> {
        self.fail_if.iter().flat_map(|threshold| threshold.of_sweep(sweep)).collect()
    }
}

/// Says on stderr what thresholds came to, and what that is as an exit code.
pub fn say(held: &[Held]) -> Exit {
    for one in held {
        output::note(format_args!("drumfire: {one}"));
    }
    match held.iter().any(|one| one.outcome == Outcome::Missed) {
        true => Exit::Missed,
        false => Exit::Good,
    }
}
