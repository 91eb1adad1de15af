//! `drumfire run JOB.toml --verify-only`: verifies that all written data of a run are present.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use block::Text;
use load::{Asked, Prepared, Recheck};
use serde_json::{Value, json};
use stats::RunResult;

use crate::args::Run;
use crate::exit::{Exit, UsageError};
use crate::output;

/// Compares all verified volumes of a job with the ledgers in the folder of its `job.toml`.
pub fn main(run: &Run, runs: &[Prepared]) -> Result<Exit> {
    let [prepared] = runs else {
        let why = "--verify-only needs the job.toml of one step, in the step's folder";
        return Err(UsageError(why.to_owned()).into());
    };
    let job = Path::new(&run.volumes[0]);
    let verified = prepared.spec.workers.iter().any(|worker| worker.workload.has_ledger());
    if job.extension().is_none_or(|end| end != "toml") || !verified {
        let why = "--verify-only needs the job.toml in the folder of a --verify run";
        return Err(UsageError(why.to_owned()).into());
    }
    let found = load::recheck(prepared, job.parent().unwrap_or(Path::new("")), Asked::All)?;
    if run.drive.json {
        let volumes: Vec<Value> = found.iter().map(to_json).collect();
        output::document(&json!({ "volumes": volumes }))?;
    } else {
        let mut text = Text::new();
        found.iter().try_for_each(|one| write(one, &mut text))?;
        output::print(&text)?;
    }
    Ok(if found.iter().all(Recheck::is_right) { Exit::Good } else { Exit::Mismatch })
}

/// Verifies the data that a just ended run wrote and did not read, and judges its `result`. Returns
/// whether all data match; if not, stderr has the reason.
pub fn after(run: &Prepared, folder: &Path, asked: Asked, result: &mut RunResult) -> Result<bool> {
    let found = compared(run, folder, asked)?;
    load::judge_read_back(run, &found, result);
    Ok(found.iter().all(Recheck::is_right))
}

/// Like [`main`], returning the findings of each volume.
pub fn compared(run: &Prepared, folder: &Path, asked: Asked) -> Result<Vec<Recheck>> {
    let found = load::recheck(run, folder, asked)?;
    tell(&found);
    Ok(found)
}

/// Prints the findings of each volume on stderr.
pub fn tell(found: &[Recheck]) {
    for one in found {
        let mut text = Text::new();
        // Writing to a text does not fail.
        let _ = write(one, &mut text);
        output::notes(&text);
    }
}

fn write(found: &Recheck, out: &mut Text) -> fmt::Result {
    let Recheck { uri, block_bytes, compared, never_written, unreadable, .. } = found;
    writeln!(
        out,
        "{uri}: {compared} blocks of {block_bytes} bytes compared, {never_written} never written"
    )?;
    if *unreadable > 0 {
        writeln!(out, "  unreadable  {unreadable}")?;
    }
    if let Some(first) = &found.unreadable_first {
        writeln!(out, "  {first}")?;
    }
    for (kind, count) in &found.found {
        writeln!(out, "  {kind:<11} {count}")?;
    }
    for finding in &found.examples {
        writeln!(out, "  {finding}")?;
    }
    let verdict =
        if found.is_right() { "all acknowledged writes are there" } else { "data differ" };
    writeln!(out, "  {verdict}")
}

fn to_json(found: &Recheck) -> Value {
    let example = |finding: &load::Finding| {
        json!({
            "offset": finding.offset,
            "kind": finding.kind.word(),
            "text": finding.to_string(),
        })
    };
    json!({
        "volume": found.uri,
        "block_bytes": found.block_bytes,
        "compared": found.compared,
        "never_written": found.never_written,
        "unreadable": found.unreadable,
        "unreadable_first": found.unreadable_first,
        "found": found.found,
        "examples": found.examples.iter().map(example).collect::<Vec<_>>(),
        "right": found.is_right(),
    })
}
