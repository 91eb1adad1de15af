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
