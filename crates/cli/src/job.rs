//! Job files: what a run's folder keeps so that the run can be repeated.

use std::path::Path;

use anyhow::{Context, Result};
use load::spec::{Group, JobSpec, Verify, Workload};

use crate::args::Run;
use crate::exit::UsageError;

/// The job that the command line asks for: that of a file, if the one thing named is one, or that
/// of its flags.
pub fn of(run: &Run) -> Result<JobSpec> {
    let job = match &run.volumes[..] {
        [only] if only.ends_with(".toml") && !only.starts_with("file:") => read(Path::new(only))?,
        _ => of_flags(run)?,
    };
    job.check().map_err(|error| UsageError(error.to_string()))?;
    Ok(job)
}

fn of_flags(run: &Run) -> Result<JobSpec> {
    let workers = (run.volumes.len() as u32).saturating_mul(run.workers);
    let verify = run.verify.then(Verify::default);
    let group = Group {
        name: String::new(),
        volumes: run.volumes.clone(),
        workers: run.workers,
        workload: Workload { verify, ..run.drive.workload(workers)? },
    };
    let job = JobSpec::of(run.drive.seed, run.drive.seconds, run.drive.ramp, group);
    Ok(JobSpec { command: command(), ..job })
}

fn read(path: &Path) -> Result<JobSpec> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // The parser's message names line and column and shows the line.
    let job = toml::from_str(&text).map_err(|error| UsageError(error.to_string()));
    job.with_context(|| path.display().to_string())
}

/// The command line of this process, as a shell would take it.
pub fn command() -> String {
    let plain =
        |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c));
    let quoted = |word: String| match plain(&word) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::env::args().skip(1).map(quoted);
    std::iter::once("drumfire".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
