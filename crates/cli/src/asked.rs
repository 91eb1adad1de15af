//! Job files: copies in a run's folder, with which the run can be repeated.

use std::path::Path;

use anyhow::{Context, Result};
use block::nearest;
use job::formats::{Note, Treatment};
use job::presets;
use job::spec::{Group, JobSpec, MAKER, Serving, open_trace};
use volume::Purpose;

use crate::args::Run;
use crate::exit::UsageError;
use crate::foreign::{self, Format};
use crate::{hosts, output, settings, typed};

/// A run as requested on the command line.
pub struct Asked {
    /// The job.
    pub job: JobSpec,
    /// CPUs to drive from; if empty, one for each worker.
    pub cores: Vec<usize>,
}

/// The requested job: that of a file, if the first argument is one, or that of the flags.
pub fn of(run: &Run) -> Result<Asked> {
    let [first, volumes @ ..] = &run.volumes[..] else { unreachable!("a volume is required") };
    let mut asked = match Format::of(first) {
        _ if run.preset.is_some() => Asked { job: of_preset(run)?, cores: run.cores.clone() },
        None => Asked { job: of_flags(run)?, cores: run.cores.clone() },
        Some(format) => {
            refuse_beside(first, DECIDED)?;
            match format {
                Format::Toml => {
                    let job = of_toml(first, volumes, run.drive.seconds)?;
                    Asked { job, cores: run.cores.clone() }
                }
                _ => of_foreign(run, format, first, volumes)?,
            }
        }
    };
    if run.verify {
        compare_all(&mut asked.job);
    }
    for text in &run.serve {
        asked.job.serve.push(serving(text)?);
    }
    let is_file = run.preset.is_none() && Format::of(first).is_some();
    asked.job.check().map_err(|error| {
        let words = error.to_string();
        // Flags have neither steps nor groups.
        let plain = words.strip_prefix("step 1, group 1: ").or(words.strip_prefix("step 1: "));
        UsageError(plain.filter(|_| !is_file).unwrap_or(&words).to_owned())
    })?;
    Ok(asked)
}

/// Hosts that serve, and the arguments of their server.
fn serving(text: &str) -> Result<Serving, UsageError> {
    let words = |text: &str, at: char| -> Vec<String> {
        let words = text.split(|of: char| of == at || of.is_whitespace());
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (hosts, args) = text.split_once(':').unwrap_or((text, ""));
    let (hosts, args) = (words(hosts, ','), words(args, ' '));
    match hosts.is_empty() || args.is_empty() {
        true => Err(UsageError(format!(
            "--serve '{text}': write HOSTS: ARGS, such as '1-10: --volume disk=ram:1g'"
        ))),
        false => Ok(Serving { hosts, args, files: Default::default() }),
    }
}

/// Enables read verification on every volume; groups that already configure `verify` keep theirs.
fn compare_all(job: &mut JobSpec) {
    let groups = job.steps.iter_mut().flat_map(|step| &mut step.groups);
    groups.for_each(|group| {
        group.workload.verify.get_or_insert_default();
    });
}

/// A native job. Like those of other tools, its file names everything but the length of its steps.
pub fn of_toml(file: &str, volumes: &[String], seconds: Option<f64>) -> Result<JobSpec> {
    if !volumes.is_empty() {
        let why = format!("{file} names its volumes: change them in that file");
        return Err(UsageError(why).into());
    }
    let mut job = read(Path::new(file))?;
    if let Some(seconds) = seconds {
        job.steps.iter_mut().for_each(|step| step.seconds = seconds);
    }
    makes_sense(Path::new(file), &job)?;
    Ok(job)
}

/// Refuses a job that cannot run; the error has the file and line.
fn makes_sense(file: &Path, job: &JobSpec) -> Result<(), UsageError> {
    job.check().map_err(|error| {
        let place = error.place().map_or_else(
            || file.display().to_string(),
            |(step, group)| settings::place_of(file, step, group),
        );
        UsageError(format!("{place}: {error}"))
    })?;
    if job.setup.contains_key(MAKER) {
        return Ok(());
    }
    for (step, of) in (1..).zip(&job.steps) {
        for (group, of) in (1..).zip(&of.groups) {
            for text in &of.volumes {
                let here = hosts::here(text).map_err(|error| UsageError(error.to_string()))?;
                if here.iter().any(|text| Serving::is_served(text)) {
                    continue;
                }
                here.iter().try_for_each(|text| {
                    text.parse::<volume::Uri>().map(drop).map_err(|error| {
                        let place = settings::place_of(file, step, Some(group));
                        UsageError(format!("{place}: {error}"))
                    })
                })?;
            }
        }
    }
    Ok(())
}

/// Job from another tool's file. Differences from that tool's behaviour go to stderr.
fn of_foreign(run: &Run, format: Format, file: &str, volumes: &[String]) -> Result<Asked> {
    let reading = foreign::read(format, file, volumes, run.drive.seconds)?;
    let Some(job) = reading.job else {
        let refused = reading.notes.iter().find(|note| note.treatment == Treatment::Refused);
        let first = refused.map(Note::reason);
        let more = format!("`drumfire explain {file}` lists every option");
        return Err(UsageError(format!("{}; {more}", first.unwrap_or_default())).into());
    };
    reading.notes.iter().for_each(|note| output::note(format_args!("drumfire: {note}")));
    let cores = if run.cores.is_empty() { reading.cores } else { run.cores.clone() };
    let name = if job.name.is_empty() { stem(file) } else { job.name };
    Ok(Asked { job: JobSpec { command: command(), name, ..job }, cores })
}

/// The flags that a job decides for itself.
pub const DECIDED: [&str; 12] = [
    "size",
    "read",
    "random",
    "rw",
    "align",
    "places",
    "outstanding",
    "rate",
    "arrivals",
    "ramp",
    "seed",
    "workers",
];

/// Refuses the first of these flags that was typed, since `what` overrides it: no requested flag is
/// ignored silently.
pub fn refuse_beside<'a>(what: &str, flags: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let typed = typed::typed();
    match flags.into_iter().find(|flag| typed.iter().any(|name| name == flag)) {
        None => Ok(()),
        Some(flag) => {
            let flag = flag.replace('_', "-");
            Err(UsageError(format!("--{flag} cannot be used with {what}, which sets it")).into())
        }
    }
}

/// Flags that change the amount of work of a preset.
const AMOUNTS: [&str; 6] = ["outstanding", "rate", "arrivals", "ramp", "seed", "workers"];

/// The job of a preset on the given volumes. Flags may change its amount of work, not its shape.
fn of_preset(run: &Run) -> Result<JobSpec> {
    let name = run.preset.as_deref().unwrap_or_default();
    let Some(preset) = presets::preset(name) else {
        if let Some(near) = nearest(name, presets::PRESETS.iter().map(|preset| preset.name)) {
            let why = format!("unknown preset '{name}': did you mean '{near}'?");
            return Err(UsageError(why).into());
        }
        let says = |preset: &presets::Preset| format!("{}: {}", preset.name, preset.says);
        output::notes(&presets::PRESETS.iter().map(says).collect());
        return Err(UsageError(format!("unknown preset '{name}': use one of those listed")).into());
    };
    let drive = &run.drive;
    let shape = DECIDED.into_iter().filter(|flag| !AMOUNTS.contains(flag));
    refuse_beside(&format!("--preset {name}"), shape)?;
    let typed = typed::typed();
    let typed = |flag: &str| typed.iter().any(|name| name == flag);
    let mut job: JobSpec = toml::from_str(preset.job).context("the preset")?;
    let workers = (run.volumes.len() as u32).saturating_mul(run.workers);
    let given = drive.workload(workers)?;
    for step in &mut job.steps {
        for group in &mut step.groups {
            group.volumes.clone_from(&run.volumes);
            group.workers = run.workers;
        }
        if step.name == presets::PRECONDITION {
            let limit = 2 * smallest(&run.volumes)?.div_ceil(u64::from(run.workers.max(1)));
            step.groups.iter_mut().for_each(|group| group.workload.limit_bytes = Some(limit));
            continue;
        }
        step.seconds = drive.seconds.unwrap_or(step.seconds);
        step.ramp_seconds = if typed("ramp") { drive.ramp } else { step.ramp_seconds };
        for group in &mut step.groups {
            group.workload.pacing = given.pacing.clone();
            if typed("outstanding") {
                group.workload.outstanding = drive.outstanding;
            }
        }
    }
    Ok(JobSpec { command: command(), seed: drive.seed, ..job })
}

/// Bytes of the smallest volume.
fn smallest(volumes: &[String]) -> Result<u64> {
    let mut smallest = u64::MAX;
    for text in volumes {
        let uri: volume::Uri = text.parse()?;
        smallest = smallest.min(volume::open(&uri.unlocked(), Purpose::Read)?.geometry().bytes());
    }
    Ok(smallest)
}

/// The name of a file without folder and ending.
fn stem(file: &str) -> String {
    Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn of_flags(run: &Run) -> Result<JobSpec> {
    let workers = (run.volumes.len() as u32).saturating_mul(run.workers);
    let group = Group::new(run.volumes.clone(), run.workers, run.drive.workload(workers)?);
    let job = JobSpec::of(run.drive.seed, run.drive.seconds(), run.drive.ramp, group);
    Ok(JobSpec { command: command(), ..job })
}

/// Reads a native job, and the traces that it replays.
pub fn read(path: &Path) -> Result<JobSpec> {
    let mut job: JobSpec = settings::read(path)?;
    job.load_traces(&open_trace).map_err(|error| UsageError(error.to_string()))?;
    Ok(job)
}

/// The command line of this process, quoted for a shell.
pub fn command() -> String {
    let plain =
        |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c));
    let quoted = |word: String| match plain(&word) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("drumfire".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
