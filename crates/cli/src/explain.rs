//! `drumfire explain`: the work of a job file, and the parts of the file that it cannot run as
//! written.

use anyhow::{Context, Result};
use block::{Text, print_size};
use clap::Args as Flags;
use job::formats::{Note, Reading, Treatment, fio, icf};
use job::spec::{Figures, JobSpec, Logs, Reported};

use crate::exit::{Exit, UsageError};
use crate::foreign::{self, Format};
use crate::{asked, layout, output};

/// `drumfire explain`.
#[derive(Flags, Debug)]
#[command(after_long_help = "Exit code 2 when the file would not be run.")]
pub struct Args {
    /// A job file: .toml, .fio or .icf.
    pub file: String,
    /// Volumes for the targets of the file, in the order of the file.
    #[arg(value_name = "URI")]
    pub volumes: Vec<String>,
    /// Length of each step, instead of that of the file.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Convert the job to another format; refused if anything would be lost.
    #[arg(long = "as", value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Explains a file.
pub fn main(args: &Args) -> Result<Exit> {
    let reading = read(args)?;
    let Some(job) = with_cores(&reading).filter(|_| args.format.is_some()) else {
        output::print(&explained(&args.file, &reading))?;
        return Ok(if reading.job.is_some() { Exit::Good } else { Exit::Usage });
    };
    // Deviations from the file are reported on stderr, not in the new file.
    reading.notes.iter().for_each(output::note);
    // A file, to the last byte.
    let text = written(&job, args.format.unwrap_or(Format::Toml))?;
    output::file(text.as_bytes())?;
    Ok(Exit::Good)
}

fn read(args: &Args) -> Result<Reading> {
    match Format::of(&args.file) {
        Some(Format::Toml) => {
            let job = asked::of_toml(&args.file, &args.volumes, args.seconds)?;
            Ok(Reading { job: Some(job), cores: Vec::new(), notes: Vec::new() })
        }
        Some(format) => foreign::read(format, &args.file, &args.volumes, args.seconds),
        None => {
            let why = format!(
                "{}: not a job file: its name must end in .toml or .icf, or its text must begin \
                with a fio section, [NAME]",
                args.file
            );
            Err(UsageError(why).into())
        }
    }
}

/// The job with the CPUs of the whole file copied to each group, because a job file has CPUs per
/// group only.
fn with_cores(reading: &Reading) -> Option<JobSpec> {
    let mut job = reading.job.clone()?;
    let groups = job.steps.iter_mut().flat_map(|step| &mut step.groups);
    groups.filter(|_| !reading.cores.is_empty()).for_each(|g| g.cores.clone_from(&reading.cores));
    Some(job)
}

/// The job in another format. The output is parsed again: it is the same job, or an error.
fn written(job: &JobSpec, format: Format) -> Result<String> {
    let (text, what) = match format {
        Format::Toml => return toml::to_string(job).context("the job as TOML"),
        Format::Fio => (fio::write(job, &foreign::storage_of), "a fio job file"),
        Format::Icf => (icf::write(job), "an Iometer configuration"),
    };
    let refuse = |why: String| UsageError(format!("{what} cannot express this job: {why}"));
    let text = text.map_err(refuse)?;
    let again = foreign::read_as(format, "the new file", &text, &[], None)?;
    let again =
        with_cores(&again).ok_or_else(|| refuse(format!("{} is refused", again.notes[0])))?;
    let plain = |job: &JobSpec| {
        // Names are for people.
        let job = job.clone().without_options();
        let mut job = JobSpec { command: String::new(), name: String::new(), ..job };
        for step in &mut job.steps {
            step.name.clear();
            for group in &mut step.groups {
                group.name.clear();
                // Logs and figures are not part of the load, and log numbers refer to jobs in the
                // file.
                group.logs = Logs::default();
                group.figures = Figures::default();
                group.reported = Reported::Group;
                group.volumes.iter_mut().for_each(|uri| *uri = foreign::plain_uri(uri));
            }
        }
        toml::to_string(&job).context("the job as TOML")
    };
    let (old, new) = (plain(job)?, plain(&again)?);
    let differs = old.lines().zip(new.lines()).find(|(old, new)| old != new);
    match differs {
        Some((old, new)) => Err(refuse(format!("`{old}` would become `{new}`")).into()),
        None if old.lines().count() != new.lines().count() => {
            Err(refuse("some of its settings would be lost".to_owned()).into())
        }
        None => Ok(text),
    }
}

fn explained(file: &str, reading: &Reading) -> Text {
    let mut text = Vec::new();
    match &reading.job {
        Some(job) => {
            text.extend(fio::told(file, job));
            for (path, bytes) in layout::longer(job) {
                let (path, size) = (path.display(), print_size(bytes));
                text.push(format!("before the run, {path} is extended to {size}"));
            }
            for (path, making) in layout::missing(job, layout::Manner::of(file)) {
                let (path, size) = (path.display(), print_size(making.size_bytes));
                let how = if making.written { "written" } else { "created without data" };
                text.push(format!("before the run, {path} is {how}, {size}: it does not exist"));
            }
        }
        None => {
            let refused = reading.notes_of(Treatment::Refused).count();
            let s = if refused == 1 { "" } else { "s" };
            text.push(format!("{file} cannot be run: {refused} setting{s} refused"));
        }
    }
    if !reading.cores.is_empty() {
        let cores: Vec<String> = reading.cores.iter().map(usize::to_string).collect();
        text.push(format!("on CPUs {}", cores.join(", ")));
    }
    let mut notes: Vec<&Note> = reading.notes.iter().collect();
    notes.sort_by_key(|note| note.treatment);
    text.extend(notes.iter().map(ToString::to_string));
    text.into_iter().collect()
}
