//! Job files: what a run's folder keeps so that the run can be repeated.

use std::path::Path;

use anyhow::{Context, Result};
use load::formats::Treatment;
use load::spec::{Group, JobSpec, Places, Verify, Workload};

use crate::args::Run;
use crate::exit::UsageError;
use crate::foreign::{self, Format};

/// What the command line asks for.
pub struct Asked {
    /// The job.
    pub job: JobSpec,
    /// Processors to drive from; empty for as many as there are workers.
    pub cores: Vec<usize>,
}

/// The job that the command line asks for: that of a file, if the first thing named is one, or
/// that of its flags.
pub fn of(run: &Run) -> Result<Asked> {
    let [first, volumes @ ..] = &run.volumes[..] else { unreachable!("a volume is required") };
    let asked = match Format::of(first) {
        None => Asked { job: of_flags(run)?, cores: run.cores.clone() },
        Some(Format::Toml) if volumes.is_empty() => {
            Asked { job: read(Path::new(first))?, cores: run.cores.clone() }
        }
        Some(Format::Toml) => {
            let why = "a .toml names its volumes by itself: change them there";
            return Err(UsageError(why.to_owned()).into());
        }
        Some(format) => of_foreign(run, format, first, volumes)?,
    };
    asked.job.check().map_err(|error| UsageError(error.to_string()))?;
    Ok(asked)
}

/// The job of a file of another tool. What it would do otherwise goes to stderr.
fn of_foreign(run: &Run, format: Format, file: &str, volumes: &[String]) -> Result<Asked> {
    if let Some(flag) = flag_beside(run) {
        let why = format!("{flag} does not go with {file}: change it there");
        return Err(UsageError(why).into());
    }
    let reading = foreign::read(format, file, volumes, run.drive.seconds)?;
    let Some(job) = reading.job else {
        let refused = reading.notes.iter().find(|note| note.treatment == Treatment::Refused);
        let first = refused.map(|note| format!("{}: `{}`: {}", note.at, note.text, note.why));
        let more = format!("`drumfire explain {file}` says it all");
        return Err(UsageError(format!("{}; {more}", first.unwrap_or_default())).into());
    };
    reading.notes.iter().for_each(|note| eprintln!("drumfire: {note}"));
    let cores = if run.cores.is_empty() { reading.cores } else { run.cores.clone() };
    let name = if job.name.is_empty() { stem(file) } else { job.name };
    Ok(Asked { job: JobSpec { command: command(), name, ..job }, cores })
}

/// A flag that a job file decides for itself, if one is given.
fn flag_beside(run: &Run) -> Option<&'static str> {
    let drive = &run.drive;
    [
        ("--size", drive.size != 512),
        ("--read", drive.read.is_some()),
        ("--random", drive.random.is_some()),
        ("--rw", drive.rw.is_some()),
        ("--align", drive.align.is_some()),
        ("--places", drive.places != Places::Uniform),
        ("--outstanding", drive.outstanding != 32),
        ("--rate", drive.rate.is_some()),
        ("--ramp", drive.ramp != 2.0),
        ("--seed", drive.seed != 1),
        ("--workers", run.workers != 1),
        ("--verify", run.verify),
    ]
    .into_iter()
    .find_map(|(flag, given)| given.then_some(flag))
}

/// The name of a file without folder and ending.
fn stem(file: &str) -> String {
    Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned()
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
    let job = JobSpec::of(run.drive.seed, run.drive.seconds(), run.drive.ramp, group);
    Ok(JobSpec { command: command(), ..job })
}

/// Reads a job of our own.
pub fn read(path: &Path) -> Result<JobSpec> {
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
