//! `drumfire simulate`: a bill of material or a profile, event by event, in virtual time.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ::catalogue::Catalogue;
use anyhow::{Context, Result};
use block::{Rate, Text, hint};
use clap::Args as Flags;
use job::formats::read_text;
use job::spec::{Access, JobSpec, MADE, MAKER, Step};
use load::Prepared;
use model::device::Profile;
use plan::bill::{Bill, Work, shipped, shipped_names};
use plan::simulate::{SimulateError, Simulator};
use plan::system::PlanError;
use volume::{Purpose, Uri};

use crate::args::{Color, Drive, Run};
use crate::bench::{self, Allowed, Maker};
use crate::exit::{Exit, UsageError, of_file};
use crate::plan::percent;
use crate::run::{self, Named};
use crate::{asked, output, typed};

/// Shape of every simulated volume.
const VOLUME: Uri = Uri::Null { bytes: 1 << 40, block_bytes: 512, call: None };
/// Settings of a setup: the system, how many drives of a profile, and files of parts.
const SYSTEM: &str = "system";
const DRIVES: &str = "drives";
const PARTS: &str = "parts";

/// `drumfire simulate`.
#[derive(Flags, Clone, Debug)]
#[command(
    after_long_help = "Percentiles are printed only for a profile that was calibrated with runs."
)]
pub struct Args {
    /// A file with a bill of material or a profile, a shipped one (intel-ssd, x25-m), or a drive of
    /// the catalogue (cd6).
    #[arg(value_name = "BILL.toml|PROFILE")]
    pub system: String,
    /// A job file of drumfire, fio or Iometer, instead of flags. One volume in the job means all
    /// drives, several mean the drives in order.
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
    /// A built-in job, as with run.
    #[arg(long, value_name = "NAME", conflicts_with = "job")]
    pub preset: Option<String>,
    /// Number of drives of a profile; a bill has its own [default: 1].
    #[arg(long, value_name = "N")]
    pub drives: Option<u32>,
    /// Workers for each drive, each with the same queue depth.
    #[arg(long, alias = "numjobs", default_value_t = 1, value_name = "N")]
    pub workers: u32,
    /// Your own parts, added to those of the catalogue.
    #[arg(long, value_name = "FILE")]
    pub parts: Vec<PathBuf>,
    /// Accept a profile whose fit is not usable.
    #[arg(long)]
    pub anyway: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub drive: Drive,
}

/// A system to simulate.
#[derive(Clone)]
pub enum System {
    /// A drive by its stages.
    Profile(Profile),
    /// A system of parts.
    Bill(Box<Bill>),
}

/// Simulates and saves the result like that of any other run.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    if args.drive.ceiling {
        let words = "--ceiling measures the load generator, which a simulation does not have";
        return Err(UsageError(words.to_owned()).into());
    }
    bench::go(&job(args)?, Allowed::default(), &args.drive, color)
}

/// The job of a simulation: its setup has the system, with the text of each file.
pub fn job(args: &Args) -> Result<JobSpec> {
    let parts: Vec<String> = args.parts.iter().map(|file| file.display().to_string()).collect();
    let drives = args.drives.map_or_else(String::new, |drives| drives.to_string());
    let settings = [(SYSTEM, args.system.clone()), (DRIVES, drives), (PARTS, parts.join(","))];
    let mut setup =
        JobSpec { setup: bench::setup(Maker::Simulate, settings), ..no_job(args.drive.seed) };
    parts.iter().try_for_each(|name| keep_file(&mut setup, name))?;
    keep_files(&mut setup, [&args.system])?;
    let system = Systems::default().read(&setup)?;
    if let System::Profile(profile) = &system {
        usable(profile, args.anyway)?;
    }
    let mut run = run_of(args);
    if let (System::Bill(bill), None, None) = (&system, &args.job, &args.preset) {
        work_of(bill, &mut run.drive)?;
    }
    let mut job = asked::of(&run)?.job;
    if !job.laid_out.is_empty() {
        let why = "laid_out needs real files, which only `run` has: remove laid_out";
        return Err(UsageError(why.to_owned()).into());
    }
    if let (System::Bill(bill), None, None) = (&system, &args.job, &args.preset) {
        flushes_and_streams(bill, &mut job)?;
    }
    let names: Vec<String> = simulator(&setup, &system)?.drives().iter().map(name).collect();
    name_drives(&mut job, &names)?;
    if job.name.is_empty() {
        job.name = Maker::Simulate.word().to_owned();
    }
    Ok(JobSpec { command: asked::command(), setup: setup.setup, files: setup.files, ..job })
}

fn no_job(seed: u64) -> JobSpec {
    JobSpec {
        command: String::new(),
        name: String::new(),
        seed,
        setup: Default::default(),
        files: Default::default(),
        options: Vec::new(),
        laid_out: Vec::new(),
        serve: Vec::new(),
        steps: Vec::new(),
    }
}

/// Makes flags of `run` on a placeholder volume from the arguments.
fn run_of(args: &Args) -> Run {
    let volumes = vec![args.job.clone().unwrap_or_else(|| VOLUME.to_string())];
    Run {
        part: crate::part::Part::default(),
        serve: Vec::new(),
        dry_run: false,
        volumes,
        preset: args.preset.clone(),
        workers: args.workers,
        cores: Vec::new(),
        destroy: Vec::new(),
        verify: false,
        verify_only: false,
        drive: args.drive.clone(),
    }
}

fn name(drive: &plan::simulate::Drive) -> String {
    drive.name.clone()
}

/// Assigns the drives to the job's volumes: a single volume is every drive of the system; several
/// volumes are the drives in their order.
fn name_drives(job: &mut JobSpec, drives: &[String]) -> Result<()> {
    let mut volumes: Vec<String> = Vec::new();
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    for volume in groups.flat_map(|group| &group.volumes) {
        if !volumes.contains(volume) {
            volumes.push(volume.clone());
        }
    }
    let (named, there) = (volumes.len(), drives.len());
    if named > 1 && named != there {
        let why = format!("the job names {named} volumes, but the system has {there} drives");
        return Err(UsageError(why).into());
    }
    for group in job.steps.iter_mut().flat_map(|step| &mut step.groups) {
        if named == 1 {
            group.volumes = vec![MADE.to_owned()];
            continue;
        }
        for volume in &mut group.volumes {
            let place = volumes.iter().position(|known| known == volume);
            drives[place.expect("all were gathered")].clone_into(volume);
        }
    }
    Ok(())
}

/// Copies the content of system files into the job, including those of an axis.
pub fn keep_files<'a>(
    job: &mut JobSpec,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    for name in names {
        // A built-in profile has no file.
        if Path::new(name).exists() || name.contains(['/', '.']) {
            keep_file(job, name)?;
        }
    }
    Ok(())
}

fn keep_file(job: &mut JobSpec, name: &str) -> Result<()> {
    let text = read_text(Path::new(name)).map_err(|error| of_file(name, error))?;
    job.files.insert(name.to_owned(), text);
    Ok(())
}

/// The values of an axis that name a system.
pub fn is_system(word: &str) -> bool {
    word == SYSTEM
}

/// Cache of the systems read so far, and of the setups that can be simulated.
#[derive(Default)]
pub struct Systems {
    known: HashMap<[String; 2], System>,
    /// Setups with accesses that can be simulated: a sweep has few of them and many cells.
    checked: HashSet<String>,
}

impl Systems {
    /// Reads the system of a job's setup, from the texts in the job.
    fn read(&mut self, job: &JobSpec) -> Result<System> {
        let known = [MAKER, SYSTEM, DRIVES, PARTS];
        if let Some(word) = job.setup.keys().find(|word| !known.contains(&word.as_str())) {
            let why = format!("setup: a system has no '{word}': use {}", known.join(", "));
            return Err(UsageError(why).into());
        }
        let [name, parts] =
            [SYSTEM, PARTS].map(|word| job.setup.get(word).cloned().unwrap_or_default());
        if let Some(system) = self.known.get(&[name.clone(), parts.clone()]) {
            return Ok(system.clone());
        }
        let mut catalogue = Catalogue::shipped();
        for file in parts.split(',').filter(|file| !file.is_empty()) {
            let text = job.files.get(file).with_context(|| {
                format!(
                    "the job does not contain \
                {file}"
                )
            })?;
            let added = catalogue.add(file, text);
            added.map_err(|error| UsageError(error.to_string()))?;
        }
        let system = of_text(&name, job.files.get(&name).map(String::as_str), &catalogue)?;
        self.known.insert([name, parts], system.clone());
        Ok(system)
    }
}

/// Refuses a profile that does not predict its own held-out runs.
pub fn usable(profile: &Profile, anyway: bool) -> Result<()> {
    let told = |why| UsageError(format!("{why}; --anyway accepts it"));
    Ok(if anyway { Ok(()) } else { profile.usable().map_err(told) }?)
}

/// Reads a file: stages make a profile, anything else is read as a bill.
pub fn read(name: &str, catalogue: &Catalogue) -> Result<System> {
    let text = match read_text(Path::new(name)) {
        Ok(text) => Some(text),
        // The name may be of a built-in profile.
        Err(_) if !name.contains(['/', '.']) => None,
        Err(error) => return Err(of_file(name, error)),
    };
    of_text(name, text.as_deref(), catalogue)
}

/// A system from its text, or a built-in one.
fn of_text(name: &str, text: Option<&str>, catalogue: &Catalogue) -> Result<System> {
    let Some(text) = text.or_else(|| shipped(name)) else {
        let profile = match (Profile::shipped(name), catalogue.part(name)) {
            (Some(profile), _) => profile,
            (None, Ok(part)) => {
                catalogue.profile(part).map_err(|why| UsageError(why.to_string()))?
            }
            (None, Err(error)) if !error.capacities.is_empty() => {
                return Err(UsageError(error.to_string()).into());
            }
            (None, Err(_)) => return Err(unknown(name, catalogue).into()),
        };
        return Ok(System::Profile(profile));
    };
    let is_profile = text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("stage"));
    if is_profile {
        let profile = Profile::parse(text).map_err(|why| UsageError(format!("{name}: {why}")))?;
        return Ok(System::Profile(profile));
    }
    let bill = Bill::read(name, text, catalogue).map_err(|error| UsageError(error.to_string()))?;
    Ok(System::Bill(Box::new(bill)))
}

/// Error for a name that no profile, drive or bill has.
fn unknown(name: &str, catalogue: &Catalogue) -> UsageError {
    let near = match catalogue.drives_near(name) {
        near if near.is_empty() => String::new(),
        near => format!(" (similar: {})", near.join(", ")),
    };
    let (profiles, bills) = (model::device::shipped_names().collect::<Vec<_>>(), shipped_names());
    let meant = hint(name, profiles.iter().copied().chain(bills.split(", ")));
    let profiles = profiles.join(", ");
    UsageError(format!(
        "{name}: no such file{meant}; name a file, a drive of the catalogue{near}, one of the \
         profiles {profiles}, or one of the bills {bills}"
    ))
}

/// Prints what queueing theory says about drives of a profile: published results correct the drives
/// of the catalogue, no profile.
pub fn theory(profile: &Profile, drives: u32, work: &Work, json: bool) -> Result<Exit> {
    let found = plan::simulate::theory(profile, drives, work)
        .map_err(|error| UsageError(error.to_string()))?;
    let kind = plan::simulate::kind(profile);
    if json {
        let document = serde_json::json!({
            "name": profile.name,
            "origin": "simulated",
            "kind": kind,
            "work": work,
            "drives": drives,
            "uncorrected": found,
            "calibration": profile.calibration,
        });
        output::document(&document)?;
        return Ok(Exit::Good);
    }
    let mut text = Text::new();
    writeln!(
        text,
        "{drives} x {}: {}, {} % reads, {} in flight on each; uncorrected ({})",
        profile.name,
        report::size(work.size_bytes.round() as u64),
        percent(work.read_share),
        work.outstanding,
        kind.word(),
    )?;
    writeln!(text, "  IOPS       {}", Rate(found.iops))?;
    writeln!(text, "  bandwidth  {}", report::bytes_per_second(found.bytes_per_s))?;
    writeln!(text, "  latency    {} on average", report::span(found.latency_s * 1e9))?;
    for (name, used) in found.uses.iter().take(8) {
        writeln!(text, "  {:>5.1} %    {name}", used * 100.0)?;
    }
    match &profile.calibration {
        Some(fitted) => writeln!(
            text,
            "  calibrated by {}: median error {:.1} %, of those held out {:.1} %",
            fitted.source, fitted.fit_error_percent, fitted.held_out_error_percent
        )?,
        None => writeln!(text, "  not calibrated, and not corrected by published results")?,
    }
    output::print(&text)?;
    Ok(Exit::Good)
}

/// The system of a setup, at rest.
fn simulator(job: &JobSpec, system: &System) -> Result<Simulator> {
    let drives = job.setup.get(DRIVES).map_or("", |drives| drives);
    let count = match drives {
        "" => None,
        text => {
            Some(text.parse::<u32>().map_err(|why| UsageError(format!("drives={text}: {why}")))?)
        }
    };
    let simulator = match (system, count) {
        (System::Profile(profile), count) => Simulator::of_profile(profile, count.unwrap_or(1)),
        (System::Bill(bill), None) => Simulator::of_bill(bill),
        (System::Bill(_), Some(_)) => {
            let why = "--drives needs a profile: a bill lists its drives";
            return Err(UsageError(why.to_owned()).into());
        }
    };
    simulator.map_err(|error| usage(job, error))
}

/// Refuses jobs that cannot be simulated.
pub fn check(job: &JobSpec, systems: &mut Systems) -> Result<()> {
    if job.steps.iter().any(|step| step.seconds + step.ramp_seconds > LONGEST_SECONDS) {
        let why = "a simulated run has a maximum length of 200 days, with its ramp";
        return Err(UsageError(why.to_owned()).into());
    }
    let groups = || job.steps.iter().flat_map(|step| &step.groups);
    let asked: Vec<_> = groups().map(|group| (&group.workload.access, group.workers)).collect();
    let asked = serde_json::to_string(&(&job.setup, asked)).context("the job as a document")?;
    if systems.checked.contains(&asked) {
        return Ok(());
    }
    let simulator = simulator(job, &systems.read(job)?)?;
    for step in &job.steps {
        let accesses: Vec<_> = step.groups.iter().map(|group| &group.workload.access).collect();
        simulator.check(&accesses).map_err(|error| usage(job, error))?;
        let made = step.groups.iter().filter(|group| group.volumes == [MADE]);
        let workers = made.map(|group| u64::from(group.workers)).sum::<u64>();
        let all = workers.saturating_mul(simulator.drives().len() as u64);
        if all > WORKERS_MAX {
            let why = format!("{all} workers in total: use 1 to {WORKERS_MAX}");
            return Err(UsageError(why).into());
        }
    }
    systems.checked.insert(asked);
    Ok(())
}

/// Refuses a system without calibrated percentiles.
pub fn check_percentiles(job: &JobSpec, systems: &mut Systems) -> Result<()> {
    match simulator(job, &systems.read(job)?)?.calibrated() {
        Some(_) => Ok(()),
        None => {
            let system = &job.setup[SYSTEM];
            let why = format!(
                "--p99: {system} is not calibrated: `drumfire calibrate` fits a profile with \
                percentiles to runs of the drive"
            );
            Err(UsageError(why).into())
        }
    }
}

/// Longest simulated run: picoseconds in 64 bits are 213 days.
const LONGEST_SECONDS: f64 = 200.0 * 86_400.0;
/// Maximum workers of a simulated run.
const WORKERS_MAX: u64 = 65_536;

/// A step for all drives of its system.
pub fn prepare(job: &JobSpec, step: &Step, systems: &mut Systems) -> Result<(Prepared, Simulator)> {
    check(job, systems)?;
    let system = systems.read(job)?;
    let simulator = simulator(job, &system)?;
    let names: Vec<String> = simulator.drives().iter().map(name).collect();
    let mut made = step.clone();
    made.make_volumes(&names);
    let volume = volume::open(&VOLUME, Purpose::Destroy)?;
    let crew = run::crew(&made, |text| {
        Ok(Named { volume: volume.clone(), uri: text.to_owned(), target: String::new() })
    })?;
    let mut run = run::prepare(job, &made, crew, vec![0])?;
    let alone = JobSpec { steps: vec![step.clone()], ..job.clone() };
    run.spec.document = serde_json::to_value(&alone).context("the job as a document")?;
    run.spec.job.storage = match system {
        System::Profile(profile) => profile.name,
        System::Bill(bill) => bill.name,
    };
    Ok((run, simulator))
}

/// Flags that were not given get the values of the bill.
fn work_of(bill: &Bill, drive: &mut Drive) -> Result<()> {
    let typed = typed::typed();
    let defaulted = |flag: &str| !typed.iter().any(|name| name == flag);
    if let Some(all) = bill.setup.in_flight.filter(|_| defaulted("outstanding")) {
        let why = format!(
            "in_flight = {all}: simulate has workers on each drive: use --outstanding, or \
            `drumfire plan`"
        );
        return Err(UsageError(why).into());
    }
    if defaulted("size") {
        drive.size = bill.work.size_bytes as u32;
    }
    if defaulted("outstanding") {
        drive.outstanding = bill.work.outstanding;
    }
    if drive.read.is_none() && drive.rw.is_none() {
        drive.read = Some(bill.work.read_share * 100.0);
    }
    Ok(())
}

/// Adds the flushes of a bill, and its streams as further groups of workers on the same drives.
fn flushes_and_streams(bill: &Bill, job: &mut JobSpec) -> Result<()> {
    let streams = plan::mixed::streams(bill);
    if streams.iter().any(|stream| stream.sequential != bill.setup.sequential) && has_disks(bill) {
        let why = "[[stream]]: simulate supports streams on HDDs only if all are sequential or \
            none is: use `drumfire plan`";
        return Err(UsageError(why.to_owned()).into());
    }
    for step in &mut job.steps {
        let Some(first) = step.groups.first_mut() else { continue };
        first.workload.access.flush_every = bill.work.flush.unwrap_or(0);
        let first = first.clone();
        for stream in streams.iter().skip(1) {
            let (work, mut group) = (stream.work, first.clone());
            let random = if stream.sequential { 0.0 } else { 100.0 };
            let size = work.size_bytes as u32;
            group.workload.access = Access::new(size, work.read_share * 100.0, random);
            group.workload.access.flush_every = work.flush.unwrap_or(0);
            group.workload.outstanding = work.outstanding;
            step.groups.push(group);
        }
    }
    Ok(())
}

fn has_disks(bill: &Bill) -> bool {
    let drives = bill.groups.iter().filter_map(|group| group.drive.as_ref());
    drives.into_iter().any(|drive| bill.catalogue.parts[drive].known("reorder").is_some())
}

fn usage(job: &JobSpec, error: SimulateError) -> anyhow::Error {
    let file = &job.setup[SYSTEM];
    match error {
        SimulateError::Plan(PlanError::Part { line, reason }) => {
            UsageError(format!("{file}:{line}: {reason}")).into()
        }
        SimulateError::Access(reason) => UsageError(reason).into(),
        other => other.into(),
    }
}
