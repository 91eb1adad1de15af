//! Speed of predictions, from the examples of `plan` and `model`. There are no peers.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::programs::Programs;
use super::{Bench, Contender, Row, Sample};
use crate::dist;
use crate::process::{self, Show};

/// A solution.
pub const SOLVE: Row = Row {
    name: "plan-solve",
    title: "Prediction: 28 drives on five adapters, solved once",
    unit: "ms",
    contenders: &[Contender { name: "plan::predict", run: |bench| plan(bench, "solve: ") }],
};

/// The maximum of `--draws`.
pub const DRAW: Row = Row {
    name: "plan-draw",
    title: "Prediction: the same with 10,000 draws of all figures",
    unit: "s",
    contenders: &[Contender { name: "plan::chance", run: |bench| plan(bench, "draw: ") }],
};

/// Discrete-event simulation.
pub const SIMULATE: Row = Row {
    name: "simulate",
    title: "Simulation: I/Os through three stations, on one core",
    unit: "million/s",
    contenders: &[
        Contender { name: "exponential times", run: |bench| simulation(bench, "Exponential: ") },
        Contender { name: "fixed times", run: |bench| simulation(bench, "Deterministic: ") },
    ],
};

const RUN_LIMIT: Duration = Duration::from_secs(120);

fn plan(bench: &Bench, line: &str) -> Result<Sample> {
    number_behind(line, &example(bench, "drumfire-plan", "plan_speed")?)
}

fn simulation(bench: &Bench, line: &str) -> Result<Sample> {
    number_behind(line, &example(bench, "drumfire-model", "sim_speed")?)
}

/// Output of an example, which is built first.
fn example(bench: &Bench, package: &str, name: &str) -> Result<String> {
    if matches!(bench.programs, Programs::Dry) {
        return Ok("solve: 0.5 ms\ndraw: 1.5 s\nExponential: 5 m\nDeterministic: 9 m\n".into());
    }
    let host = dist::build::host()?;
    let folder = dist::build::build(&host, &["-p", package, "--example", name])?;
    let program = folder.join("examples").join(name);
    let ended = process::run(&mut Command::new(program), RUN_LIMIT, Show::Nothing)?;
    if !ended.success() {
        bail!("{name}: {}", ended.ending());
    }
    Ok(ended.stdout)
}

/// The number of the line that starts with `start`.
fn number_behind(start: &str, text: &str) -> Result<Sample> {
    let rest = text.lines().find_map(|line| line.strip_prefix(start));
    let number = rest.and_then(|rest| rest.split(' ').next()?.parse().ok());
    Ok(Sample::of(number.with_context(|| format!("no number behind `{start}`"))?))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_the_line_that_is_asked_for() {
        let text = "solve: 0.250 ms, the median of 51\ndraw: 1.5 s for 10000 draws\n";
        assert_eq!(number_behind("draw: ", text).unwrap(), Sample::of(1.5));
        assert_eq!(number_behind("solve: ", text).unwrap(), Sample::of(0.25));
        assert!(number_behind("other: ", text).is_err() && number_behind("", "x y").is_err());
    }
}
