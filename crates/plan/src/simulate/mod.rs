//! Discrete-event simulation of a bill or a profile, under any access specification.
//!
//! The workers of `load` drive lanes of a machine of `model` in virtual time. Service times of a
//! bill's parts come from [`System`](crate::system::System), for each operation and size.

mod apart;
mod heading;
mod parts;
mod theory;

use std::collections::HashMap;
use std::num::NonZero;

use block::{Op, Rng};
use job::spec::{Access, RunSpec, WorkerSpec};
use load::{Prepared, RunError, Runner, Simulation, Stop};
use model::device::{Profile, Width};
use model::{ModelError, StationId, Step};
use stats::live::{About, Action, Live, Snapshot};
use stats::{Check, Class, Cpu, Direction, Latency, RunResult, Verdict};

pub use heading::{answer, line};
pub use theory::{Theory, theory};

use crate::answer::{DRAWS, SEED};
use crate::bill::Bill;
use crate::predict::least_sure;
use crate::system::{PlanError, rests_on};
use catalogue::Kind;

/// Name of the profile's stage for the host's cores.
pub const PROCESSOR: &str = "processor";

/// A system for simulation in virtual time: a [`Runner`] of specs whose workers drive its
/// [`drives`](Simulator::drives), each named by the worker's `uri`.
pub struct Simulator {
    system: System,
    drives: Vec<Drive>,
    /// Ends a run early.
    pub stop: Stop,
    /// Maximum number of threads; `None` for as many as this process has cores. The number does not
    /// change any bit of a result.
    pub threads: Option<usize>,
}

/// Returns the kind of a profile's times: fitted to runs, or guessed by its author.
pub fn kind(profile: &Profile) -> Kind {
    if profile.calibration.is_some() { Kind::Fit } else { Kind::Guess }
}

/// Simulated system.
enum System {
    /// Drives of a profile, with their number.
    Profile(Profile, u32),
    /// A bill of material.
    Bill(Box<Bill>),
}

/// A unit that workers drive: a drive, or a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Name, such as "drive 0.1.3": group, card, number.
    pub name: String,
    /// Index of its host.
    host: u32,
    /// Index in the machine of its host.
    at: u32,
    /// Maximum number of I/Os in the drive at once.
    depth: u32,
}

/// CPU time of I/Os.
struct Cores {
    /// Number of cores; 0 if unknown.
    count: u32,
    /// Core seconds of one I/O, and of one byte.
    read: (f64, f64),
    write: (f64, f64),
}

/// A system at the beginning of a run.
struct Motion {
    machines: apart::Machines,
    cores: Cores,
    /// Least certain kind of its figures.
    kind: Kind,
    /// Omissions and assumptions, as text.
    remarks: Vec<String>,
}

/// Reason why nothing can be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// Error of the bill.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Error of the stations.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Error of the workload.
    #[error("{0}")]
    Access(String),
}

impl Simulator {
    /// Creates a simulator of the given number of drives of a profile.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Access`] for no drives or more than a network supports.
    pub fn of_profile(profile: &Profile, drives: u32) -> Result<Simulator, SimulateError> {
        if !(1..=crate::bill::DEVICES_MAX).contains(&drives) {
            let max = crate::bill::DEVICES_MAX;
            return Err(SimulateError::Access(format!("{drives} drives: 1 to {max} are possible")));
        }
        let depth = profile.queue_depth.unwrap_or(u32::MAX);
        let name = |at| format!("drive {at} of {}", profile.name);
        let drive = |at| Drive { name: name(at), host: 0, at, depth };
        Ok(Simulator {
            drives: (0..drives).map(drive).collect(),
            system: System::Profile(profile.clone(), drives),
            stop: Stop::default(),
            threads: None,
        })
    }

    /// Creates a simulator of a bill of material. The bill's own workload is not used: runs define
    /// theirs.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Plan`] if a figure is missing.
    pub fn of_bill(bill: &Bill) -> Result<Simulator, SimulateError> {
        let one = parts::drives(bill)?.0;
        let hosts = bill.setup.up();
        let of = |host: u32| {
            let name = |name: &str| match hosts {
                1 => name.to_owned(),
                _ => format!("host {host} {name}"),
            };
            let there = |drive: &Drive| Drive { host, name: name(&drive.name), ..drive.clone() };
            one.iter().map(there).collect::<Vec<_>>()
        };
        let drives: Vec<Drive> = (0..hosts).flat_map(of).collect();
        let max = crate::bill::DEVICES_MAX as usize;
        if drives.len() > max {
            let all = drives.len();
            let why = format!("{all} drives of {hosts} hosts: 1 to {max} can be simulated");
            return Err(SimulateError::Access(why));
        }
        let system = System::Bill(Box::new(bill.clone()));
        Ok(Simulator { system, drives, stop: Stop::default(), threads: None })
    }

    /// Returns the drives that workers can use, in order.
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// Returns the source of the profile's percentiles; `None` without one.
    pub fn calibrated(&self) -> Option<&str> {
        match &self.system {
            System::Profile(profile, _) => profile.scatter_is_known(),
            System::Bill(_) => None,
        }
    }

    /// Checks that all figures for the workload are known.
    ///
    /// # Errors
    ///
    /// [`SimulateError`] of a run.
    pub fn check(&self, accesses: &[&Access]) -> Result<(), SimulateError> {
        let accesses: Vec<(&Access, u32)> = accesses.iter().map(|access| (*access, 1)).collect();
        self.start(&accesses, true)?.machines.make(0, 0)?;
        Ok(())
    }

    /// Returns the line of `plan`'s answer for a bill under this work, or that there is none.
    fn heading(&self, spec: &RunSpec) -> Option<String> {
        let System::Bill(bill) = &self.system else { return None };
        let found = answer(bill, &spec.workers, self.drives.len(), (DRAWS, SEED));
        Some(found.map_or_else(|| UNCORRECTED.to_owned(), |found| line(&found)))
    }

    /// Returns the seed of a run, derived from the configured one and from the run's content. Runs
    /// of a sweep that drew the same times would all have the same error, and a fit to them would
    /// be too certain.
    fn own_seed(&self, spec: &RunSpec) -> u64 {
        let mut text = String::new();
        if let System::Profile(profile, _) = &self.system {
            text += &serde_json::to_string(&profile.stages).unwrap_or_default();
        }
        for worker in &spec.workers {
            text += &worker.uri;
            text += &serde_json::to_string(&*worker.workload).unwrap_or_default();
        }
        let next = |seed, byte: u8| Rng::new(seed, u64::from(byte)).next_u64();
        text.bytes().fold(spec.seed, next)
    }

    /// Returns the idle system, ready for these accesses, each with its queue depth on a drive.
    /// Drives of a profile may be `apart` if none of their stages is shared.
    fn start(&self, accesses: &[(&Access, u32)], apart: bool) -> Result<Motion, SimulateError> {
        if accesses.iter().any(|(access, _)| access.trace.is_some()) {
            let why = "a trace is replayed by run alone: give lines in its place";
            return Err(SimulateError::Access(why.to_owned()));
        }
        match &self.system {
            System::Profile(profile, drives) => {
                let machines = apart::Machines::of_profile(profile, *drives, apart);
                let cores = Cores::of_profile(profile);
                let remarks = match profile.calibration {
                    Some(_) => Vec::new(),
                    None => vec![UNCORRECTED.to_owned()],
                };
                Ok(Motion { machines, cores, kind: kind(profile), remarks })
            }
            System::Bill(bill) => {
                let lines = || accesses.iter().flat_map(|(access, _)| &access.lines);
                let moves =
                    |line: &job::spec::Line| line.trim_percent == 0.0 && line.zero_percent == 0.0;
                if !lines().all(moves) || accesses.iter().any(|(access, _)| access.trims_first) {
                    let why = "no figure says what trims and zeroes take: leave them away, or \
                               simulate a profile";
                    return Err(SimulateError::Access(why.to_owned()));
                }
                let parts = parts::Parts::new(bill, accesses)?;
                let (mut cores, kind) = (parts.cores(accesses), least_sure(&parts.inputs));
                let hosts = bill.setup.up();
                cores.count *= hosts;
                let mut remarks = parts.remarks.clone();
                let inputs = rests_on(&parts.inputs);
                remarks.push(format!("rests on {inputs}; a number is of the least sure kind"));
                let machines = apart::Machines::of_bill(parts, hosts);
                Ok(Motion { machines, cores, kind, remarks })
            }
        }
    }
}

impl Runner for Simulator {
    /// Runs the simulation. Percentiles remain in the result only if the drives are calibrated.
    fn run(&mut self, mut run: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError> {
        let asked = run.spec.seed;
        run.spec.seed = self.own_seed(&run.spec);
        let spec = &run.spec;
        let model = |error: SimulateError| RunError::Model(error.to_string());
        let accesses = in_flight(&spec.workers);
        let motion = self.start(&accesses, !load::tied(spec)).map_err(model)?;
        let names = self.drives.iter().map(|drive| (drive.name.as_str(), drive));
        let drives: HashMap<&str, &Drive> = names.collect();
        let of = |worker: &WorkerSpec| {
            let drive = drives.get(worker.uri.as_str()).copied();
            drive
                .ok_or_else(|| RunError::Model(format!("the system has no drive '{}'", worker.uri)))
        };
        let driven: Vec<&Drive> = spec.workers.iter().map(of).collect::<Result<_, _>>()?;
        let calibrated = self.calibrated().map(str::to_owned);
        let simulation = Simulation { stop: self.stop.clone() };
        let mut live = Seen { live, percentiles: calibrated.is_some(), kind: motion.kind };
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = self.threads.unwrap_or_else(cores);
        let machines = &motion.machines;
        let mut result = apart::run(&simulation, &run, (machines, threads), &driven, &mut live)?;
        result.kind = Some(motion.kind);
        result.seed = asked;
        result.cpu = motion.cores.used(&result);
        result.host.cores = motion.cores.count;
        if accesses.len() > 1 {
            weigh(&mut result, spec);
        }
        result.warnings.extend(self.heading(spec));
        result.warnings.extend(motion.remarks);
        match calibrated {
            Some(source) => result.warnings.push(format!("calibrated by {source}")),
            None => withhold_percentiles(&mut result),
        }
        Ok(result)
    }
}

/// Weighs the shares of several accesses by the I/Os of each: a plan's mean counts a worker with
/// few I/Os like one with many.
fn weigh(result: &mut RunResult, spec: &RunSpec) {
    let each = || result.workers.iter().zip(&spec.workers);
    let all: f64 = each().map(|(done, _)| done.iops).sum();
    if all <= 0.0 {
        return;
    }
    let share = |of: &dyn Fn(&Access) -> f64| {
        let sum: f64 = each().map(|(done, spec)| done.iops * of(&spec.workload.access)).sum();
        (sum / all * 10.0).round() / 10.0
    };
    let (reads, random) = (share(&Access::read_percent), share(&Access::random_percent));
    (result.job.read_percent, result.job.random_percent) = (reads, random);
}

/// Returns each access once, with the maximum queue depth of its workers on a drive: the number of
/// I/Os that a drive can choose from determines the time of one. I/Os at a rate do not wait in a
/// separate queue.
fn in_flight(workers: &[WorkerSpec]) -> Vec<(&Access, u32)> {
    let mut accesses: Vec<(&Access, u32)> = Vec::new();
    for access in workers.iter().map(|worker| &worker.workload.access) {
        if accesses.iter().any(|(known, _)| *known == access) {
            continue;
        }
        let mut on: HashMap<&str, u32> = HashMap::new();
        for worker in workers.iter().filter(|worker| worker.workload.access == *access) {
            let sum = on.entry(worker.uri.as_str()).or_default();
            *sum = match worker.workload.is_paced() {
                true => (*sum).max(1),
                false => sum.saturating_add(worker.workload.outstanding),
            };
        }
        accesses.push((access, on.into_values().max().unwrap_or(1)));
    }
    accesses
}

/// A view that receives the kind of the numbers, and percentiles only if they mean something.
struct Seen<'a> {
    live: &'a mut dyn Live,
    percentiles: bool,
    kind: Kind,
}

impl Live for Seen<'_> {
    fn start(&mut self, about: &About) {
        self.live.start(&About { kind: Some(self.kind), ..about.clone() });
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        if self.percentiles {
            return self.live.update(snapshot);
        }
        let latency_ns = Latency { mean: snapshot.latency_ns.mean, ..Latency::default() };
        self.live.update(&Snapshot { latency_ns, ..snapshot.clone() })
    }

    fn poll(&mut self) -> Action {
        self.live.poll()
    }

    fn end(&mut self) {
        self.live.end();
    }
}

impl Cores {
    /// Returns the CPU times of a profile's processor stage, if there is one.
    fn of_profile(profile: &Profile) -> Cores {
        let processor = profile.stages.iter().find(|stage| stage.name == PROCESSOR);
        let cost = |op: Op| {
            let cost = processor.map(|stage| stage.cost(op)).unwrap_or_default();
            (cost.each_s, cost.per_byte_s)
        };
        let count = match processor.map(|stage| stage.servers) {
            Some(Width::Count(count)) => count,
            _ => 0,
        };
        Cores { count, read: cost(Op::Read), write: cost(Op::Write) }
    }

    /// Returns the CPU usage by the utilisation law, which holds for any distribution.
    fn used(&self, result: &RunResult) -> Cpu {
        let Cores { count, read, write } = *self;
        if count == 0 {
            return Cpu::default();
        }
        let of = |d: &Direction, cost: (f64, f64)| d.iops * cost.0 + d.bytes_per_second * cost.1;
        let totals = &result.totals;
        let cores = of(&totals.read, read) + of(&totals.write, write);
        let cores = cores + of(&totals.trim, write) + of(&totals.flush, write);
        let host_percent = Some(cores / f64::from(count) * 100.0);
        Cpu { host_percent, initiator_cores: Some(cores), ..Cpu::default() }.derive(totals.iops)
    }
}

/// The note of a simulation that nothing corrects.
const UNCORRECTED: &str =
    "uncorrected: the network of the parts alone; plan corrects it by published results";

/// Takes away what depends on distributions that nobody has measured. Means stay.
fn withhold_percentiles(result: &mut RunResult) {
    let clear = |latency: &mut Latency| {
        *latency = Latency { mean: latency.mean, ..Latency::default() };
    };
    let totals = &mut result.totals;
    for direction in [&mut totals.read, &mut totals.write, &mut totals.trim, &mut totals.flush] {
        clear(&mut direction.latency_ns);
    }
    clear(&mut totals.latency_ns);
    if let Some(paced) = &mut totals.paced {
        clear(&mut paced.service_ns);
        clear(&mut paced.lag_ns);
    }
    for worker in &mut result.workers {
        clear(&mut worker.latency_ns);
        for direction in [&mut worker.read, &mut worker.write, &mut worker.trim, &mut worker.flush]
        {
            clear(&mut direction.latency_ns);
        }
        worker.histograms = Default::default();
    }
    for second in &mut result.intervals {
        (second.p50_ns, second.p99_ns) = (None, None);
        (second.p99_9_ns, second.max_ns) = (None, None);
    }
    result.histograms = Default::default();
    result.spans.clear();
    let why = "not calibrated: drumfire calibrate makes a profile from runs of the drive";
    for check in result.checks.iter_mut().filter(|check| check.code == "H12") {
        *check = Check::new("H12", &check.name, Verdict::Unknown, why);
    }
    result.class = Class::of(&result.checks);
}

/// Visits all stations of a route, including those within holds and forks.
pub(crate) fn for_each_stop(route: &mut [Step], each: &mut impl FnMut(&mut Vec<StationId>)) {
    for step in route {
        match step {
            Step::Visit(visit) => each(&mut visit.at),
            Step::Hold(visit, inner) => {
                each(&mut visit.at);
                for_each_stop(inner, each);
            }
            Step::Fork(branches) => branches.iter_mut().for_each(|b| for_each_stop(b, each)),
            Step::Choose(ways) => ways.iter_mut().for_each(|(_, way)| for_each_stop(way, each)),
        }
    }
}

#[cfg(test)]
pub(crate) mod test;
