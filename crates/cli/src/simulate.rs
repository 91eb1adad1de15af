//! `drumfire simulate`: a bill of material or a profile, event by event, in virtual time.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use block::Rate;
use clap::parser::ValueSource;
use clap::{Args as Flags, CommandFactory};
use load::spec::{Part, Workload};
use load::{RunSpec, Stop, WorkerSpec};
use plan::bill::{Bill, Work};
use plan::catalogue::Kind;
use plan::simulate::{SimulateError, Simulator};
use plan::system::PlanError;
use stats::Job;
use volume::delay::Profile;
use volume::{Purpose, Uri};

use crate::args::{Color, Drive};
use crate::exit::{Exit, UsageError};
use crate::{catalogue, folder, job, output, show, signal};

/// Shape of every simulated volume.
const VOLUME: Uri = Uri::Null { bytes: 1 << 40, block_bytes: 512 };

/// `drumfire simulate`.
#[derive(Flags, Debug)]
#[command(after_help = "Examples: drumfire simulate bill.toml --read 70 --outstanding 8\n\
    drumfire simulate x25-m --drives 4 --rate 20k --arrivals poisson\n\
    Percentiles are printed only for a profile that was calibrated with runs.")]
pub struct Args {
    /// A bill of material, a profile, or the name of a profile that comes along (x25-m).
    #[arg(value_name = "BILL.toml|PROFILE")]
    pub system: String,
    /// How many drives of a profile; a bill has its own.
    #[arg(long, value_name = "N")]
    pub drives: Option<u32>,
    /// Workers for each drive, each with as many outstanding.
    #[arg(long, alias = "numjobs", default_value_t = 1, value_name = "N")]
    pub workers: u32,
    /// Parts of your own, beside those of the catalogue.
    #[arg(long, value_name = "FILE")]
    pub parts: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub drive: Drive,
}

/// What is simulated.
pub enum System {
    /// A drive by its stages.
    Profile(Profile),
    /// A system of parts.
    Bill(Box<Bill>),
}

/// Simulates and keeps the result as that of any other run.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    let system = read(&args.system, &args.parts)?;
    let (simulator, drive) = prepare(args, &system)?;
    let count = simulator.drives().len() as u32;
    if !(1..=4096).contains(&args.workers) {
        return Err(UsageError("--workers: 1 to 4096 for each drive".to_owned()).into());
    }
    let all = count.saturating_mul(args.workers);
    let spec = spec(args, &simulator, &drive, &system, drive.workload(all)?)?;
    let drive_of: Vec<usize> =
        (0..all as usize).map(|worker| worker / args.workers as usize).collect();
    let folder = folder::make(drive.out.as_deref(), "simulate")?;
    let stop = Stop::default();
    signal::stop_on_signal(&stop)?;
    let mut live = show::view(&drive, color)?;
    let found = simulator.run(&spec, &drive_of, &stop, &mut *live);
    drop(live);
    let mut result = found.map_err(|error| usage(&args.system, error))?;
    show::finish(&mut result, &folder, &drive, color, "simulate", true)?;
    Ok(Exit::of_result(&result, stop.asked() > 0, drive.strict))
}

/// Reads what a file holds: stages make a profile, anything else is read as a bill.
pub fn read(name: &str, parts: &[PathBuf]) -> Result<System> {
    let text = match std::fs::read_to_string(name) {
        Ok(text) => text,
        // Perhaps it is one that comes along.
        Err(_) if !name.contains(['/', '.']) => String::from("stage = 1"),
        Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
    };
    let is_profile = text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("stage"));
    if is_profile {
        let profile = Profile::load(name).map_err(|error| UsageError(error.to_string()))?;
        return Ok(System::Profile(profile));
    }
    let catalogue = catalogue::read(parts)?;
    let bill = Bill::read(name, &text, &catalogue);
    let bill = bill.map_err(|error| UsageError(error.to_string()))?;
    Ok(System::Bill(Box::new(bill)))
}

/// Prints what queueing theory says about drives of a profile.
pub fn theory(profile: &Profile, drives: u32, work: &Work, json: bool) -> Result<Exit> {
    let found = plan::simulate::theory(profile, drives, work)
        .map_err(|error| UsageError(error.to_string()))?;
    let kind = if profile.calibration.is_some() { Kind::Fit } else { Kind::Guess };
    if json {
        let document = serde_json::json!({
            "name": profile.name,
            "origin": "simulated",
            "kind": kind,
            "work": work,
            "drives": drives,
            "prediction": found,
            "calibration": profile.calibration,
        });
        output::print(&(serde_json::to_string_pretty(&document)? + "\n"))?;
        return Ok(Exit::Good);
    }
    let mut text = format!(
        "{drives} x {}: {} B, {:.0} % reads, {} under way on each; predicted ({})\n  \
         IOPS       {}\n  bandwidth  {}B/s\n  latency    {:.1} us on average\n",
        profile.name,
        work.size_bytes,
        work.read_share * 100.0,
        work.outstanding,
        kind.word(),
        Rate(found.iops),
        Rate(found.bytes_per_s),
        found.latency_s * 1e6
    );
    for (name, used) in found.uses.iter().take(8) {
        text += &format!("  {:>5.1} %    {name}\n", used * 100.0);
    }
    text += &match &profile.calibration {
        Some(fitted) => format!(
            "  calibrated by {}: median error {:.1} %, of those held out {:.1} %\n",
            fitted.source, fitted.fit_error_percent, fitted.held_out_error_percent
        ),
        None => "  not calibrated\n".to_owned(),
    };
    output::print(&text)?;
    Ok(Exit::Good)
}

fn prepare(args: &Args, system: &System) -> Result<(Simulator, Drive)> {
    let mut drive = args.drive.clone();
    let simulator = match system {
        System::Profile(profile) => {
            let drives = args.drives.unwrap_or(1);
            drive.access()?.check().map_err(|error| UsageError(error.to_string()))?;
            Simulator::of_profile(profile, drives, drive.seed)
        }
        System::Bill(_) if args.drives.is_some() => {
            return Err(
                UsageError("--drives goes with a profile: a bill has its own".into()).into()
            );
        }
        System::Bill(bill) => {
            work_of(bill, &mut drive);
            let access = drive.access()?;
            access.check().map_err(|error| UsageError(error.to_string()))?;
            Simulator::of_bill(bill, &access, drive.seed)
        }
    };
    Ok((simulator.map_err(|error| usage(&args.system, error))?, drive))
}

/// What is not given by a flag is the work of the bill.
fn work_of(bill: &Bill, drive: &mut Drive) {
    let matches = crate::args::Args::command().get_matches();
    let given = matches.subcommand_matches("simulate");
    let defaulted = |flag: &str| {
        given.is_none_or(|flags| flags.value_source(flag) != Some(ValueSource::CommandLine))
    };
    if defaulted("size") {
        drive.size = bill.work.size_bytes as u32;
    }
    if defaulted("outstanding") {
        drive.outstanding = bill.work.outstanding;
    }
    if drive.read.is_none() && drive.rw.is_none() {
        drive.read = Some(bill.work.read_share * 100.0);
    }
}

fn usage(file: &str, error: SimulateError) -> anyhow::Error {
    match error {
        SimulateError::Plan(PlanError::Part { line, reason }) => {
            UsageError(format!("{file}:{line}: {reason}")).into()
        }
        SimulateError::Access(reason) => UsageError(reason).into(),
        other => other.into(),
    }
}

fn spec(
    args: &Args,
    simulator: &Simulator,
    drive: &Drive,
    system: &System,
    workload: Workload,
) -> Result<RunSpec> {
    let volume = volume::open(&VOLUME, Purpose::Destroy)?;
    let mut workers = Vec::new();
    let shared = Arc::new(workload.clone());
    for each in simulator.drives() {
        for index in 0..args.workers {
            workers.push(WorkerSpec {
                name: format!("manager 1 worker {}", workers.len() + 1),
                volume: volume.clone(),
                uri: each.name.clone(),
                target: String::new(),
                workload: shared.clone(),
                number: workers.len() as u64,
                part: Part { index: u64::from(index), of: u64::from(args.workers) },
            });
        }
    }
    let job = job_of(simulator, drive, system, &workload, workers.len() as u32);
    // Enough to do it again: the workload, and the system in its own words.
    let text = match system {
        System::Profile(profile) => profile.print().map_err(anyhow::Error::msg)?,
        System::Bill(_) => std::fs::read_to_string(&args.system)?,
    };
    let document = serde_json::json!({
        "command": job::command(),
        "seed": drive.seed,
        "seconds": drive.seconds(),
        "ramp_seconds": drive.ramp,
        "workers": args.workers,
        "workload": workload,
        "system": { "name": args.system, "text": text },
    });
    Ok(RunSpec {
        job,
        document,
        workers,
        seconds: drive.seconds(),
        ramp_seconds: drive.ramp,
        seed: drive.seed,
        cores: vec![0],
        ledgers: None,
        targets: None,
    })
}

fn job_of(
    simulator: &Simulator,
    drive: &Drive,
    system: &System,
    workload: &Workload,
    count: u32,
) -> Job {
    let access = &workload.access;
    let rate_per_s = match workload.pacing {
        load::spec::Pacing::Closed => None,
        load::spec::Pacing::Ios { per_second, .. } => Some(per_second),
        load::spec::Pacing::Bytes { per_second, .. } => Some(per_second / access.mean_bytes()),
    };
    Job {
        name: "simulate".to_owned(),
        size_bytes: access.size_bytes(),
        read_percent: access.read_percent(),
        random_percent: access.random_percent(),
        outstanding: rate_per_s
            .is_none()
            .then(|| u64::from(workload.outstanding) * u64::from(count)),
        rate_per_s: rate_per_s.map(|rate| rate * f64::from(count)),
        workers: count,
        volumes: simulator.drives().len() as u32,
        targets: 0,
        transport: "local".to_owned(),
        loopback: false,
        storage: match system {
            System::Profile(profile) => profile.name.clone(),
            System::Bill(bill) => bill.name.clone(),
        },
        seconds: drive.seconds(),
        ramp_seconds: drive.ramp,
    }
}
