//! `drumfire compare`: what changed between two runs or two sweeps.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args as Flags;
use load::sweep::words_of;
use report::compare::{Comparison, compare};
use stats::RunResult;

use crate::args::Color;
use crate::exit::{Exit, UsageError};
use crate::{output, report as results, show, sweep};

/// `drumfire compare`.
#[derive(Flags, Debug)]
pub struct Args {
    /// Folder of a run or a sweep, or a result.json: before.
    pub a: PathBuf,
    /// The same: after.
    pub b: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// What is held against its like on the other side.
struct Side {
    name: String,
    runs: Vec<RunResult>,
}

/// Prints what changed.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    let (a, b) = (sides(&args.a)?, sides(&args.b)?);
    let mut pairs: Vec<(Comparison, &RunResult)> = Vec::new();
    let mut alone: Vec<String> = Vec::new();
    if let ([a], [b]) = (&a[..], &b[..]) {
        // Two runs are held against each other whatever they are called.
        pairs.push((compare(&a.name, &a.runs, &b.runs), &a.runs[0]));
    } else {
        for side in &a {
            match b.iter().find(|other| other.name == side.name) {
                Some(other) => {
                    pairs.push((compare(&side.name, &side.runs, &other.runs), &side.runs[0]));
                }
                None => alone.push(format!("{}: {}", args.a.display(), side.name)),
            }
        }
        let unmatched = b.iter().filter(|side| !a.iter().any(|other| other.name == side.name));
        alone.extend(unmatched.map(|side| format!("{}: {}", args.b.display(), side.name)));
    }
    if pairs.is_empty() {
        let why = "nothing stands on both sides: compare two runs, or sweeps with equal cells";
        return Err(UsageError(why.to_owned()).into());
    }
    output::write(|out| match args.json {
        true => {
            let all: Vec<&Comparison> = pairs.iter().map(|(comparison, _)| comparison).collect();
            let document = serde_json::json!({ "comparisons": all, "on_one_side_only": alone });
            report::json::write_value(&document, out)
        }
        false => print(&pairs, &alone, color, out),
    })?;
    Ok(Exit::Good)
}

fn print(
    pairs: &[(Comparison, &RunResult)],
    alone: &[String],
    color: Color,
    out: &mut impl Write,
) -> io::Result<()> {
    for (comparison, run) in pairs {
        report::compare::write(comparison, run, show::paint(color), out)?;
    }
    alone.iter().try_for_each(|name| writeln!(out, "on one side only: {name}"))
}

/// The cells of a sweep, or the steps of a run.
fn sides(path: &Path) -> Result<Vec<Side>> {
    if !sweep::is_one(path) {
        let runs = results::read(path)?;
        let only = runs.len() == 1;
        let name = |(number, _): &(usize, _)| match only {
            true => String::new(),
            false => format!("step {number}"),
        };
        let side = |step: (usize, RunResult)| Side { name: name(&step), runs: vec![step.1] };
        return Ok((1..).zip(runs).map(side).collect());
    }
    let mut sides = Vec::new();
    for cell in sweep::read(path)?.cells {
        let runs: Vec<RunResult> = cell
            .whole_runs()
            .map(|run| results::read_document(&path.join(&run.folder).join("result.json")))
            .collect::<Result<_>>()
            .with_context(|| format!("{}, a cell of {}", cell.folder, path.display()))?;
        if !runs.is_empty() {
            sides.push(Side { name: words_of(&cell.settings), runs });
        }
    }
    Ok(sides)
}

#[cfg(test)]
mod test {
    use load::spec::JobSpec;
    use serde_json::{Value, json};

    use super::*;

    /// What two runs of the same job may differ in.
    const LEFT_OUT: [&str; 6] = ["command", "name", "seed", "volumes", "reported", "figures"];

    /// A job with something at this place.
    fn job(place: &str, name: &str, value: &Value) -> Value {
        let mut job = json!({ "steps": [{ "seconds": 10, "groups": [{
            "volumes": ["null:1g"],
            "workload": { "access": { "lines": [{ "size_bytes": 4096 }] } },
        }] }] });
        job.pointer_mut(place).unwrap()[name] = value.clone();
        job
    }

    /// All options that a job may have at this place, by what is said of one that is none.
    fn options(place: &str) -> Vec<String> {
        let odd = job(place, "no such option", &json!(1));
        let why = serde_json::from_value::<JobSpec>(odd).unwrap_err().to_string();
        let (_, known) = why.split_once("expected one of ").expect("all are listed");
        let quoted = known.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    }

    #[test]
    fn every_option_of_a_job_is_compared() {
        let places = [
            ("", ""),
            ("/steps/0", ""),
            ("/steps/0/groups/0", ""),
            ("/steps/0/groups/0/workload", ""),
            ("/steps/0/groups/0/workload/access", "access."),
        ];
        let mut count = 0;
        for (place, prefix) in places {
            for name in options(place) {
                let run = |value: Value| RunResult {
                    spec: job(place, &name, &value),
                    ..RunResult::default()
                };
                // These hold what is looked into.
                let whole = ["steps", "groups", "workload", "access"];
                if whole.contains(&name.as_str()) {
                    continue;
                }
                let compared = compare("", &[run(json!(1))], &[run(json!(2))]);
                let told: Vec<&str> =
                    compared.differences.iter().map(|found| &*found.what).collect();
                let wanted = format!("{prefix}{name}");
                match LEFT_OUT.contains(&name.as_str()) {
                    true => assert_eq!(told, [""; 0], "{place}/{name}"),
                    false => assert_eq!(told, [wanted], "{place}/{name}"),
                }
                count += 1;
            }
        }
        // As many as there were when this was written, at least.
        assert!(count >= 45, "{count} options");
    }
}
