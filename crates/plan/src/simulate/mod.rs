//! A bill or a profile event by event, under any access specification.
//!
//! `load`'s own workers drive lanes of a [`Machine`] in virtual time. What a bill's parts take for
//! an I/O comes from [`System`](crate::system::System), for each operation and length by itself.

mod parts;
mod theory;

use std::sync::Arc;

use block::{Geometry, Lane, Nanos, Op};
use load::spec::Access;
use load::{RunError, RunSpec, Simulation, Stop, Storage};
use model::{ModelError, StationId, Step};
use stats::live::{About, Action, Live, Snapshot};
use stats::{Check, Class, Cpu, Direction, Latency, RunResult, Verdict};
use volume::delay::{Machine, Profile, Way, Width, simulated};

pub use theory::{Theory, theory};

use crate::bill::Bill;
use crate::system::PlanError;

/// The stage of a profile that is the host's cores.
pub const PROCESSOR: &str = "processor";

/// A system to be run in virtual time.
pub struct Simulator {
    machine: Arc<Machine>,
    drives: Vec<Drive>,
    /// What its percentiles rest on; `None` if on nothing.
    calibrated: Option<String>,
    cores: Cores,
    /// What was left out or taken for granted, in words.
    pub remarks: Vec<String>,
}

/// Something that workers drive: a drive, or a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// As "drive 0.1.3": group, card, number.
    pub name: String,
    /// Its place in the machine.
    at: u32,
    /// Most I/Os in it at once.
    depth: u32,
}

/// What I/Os cost the processor.
struct Cores {
    /// How many there are; 0 if nothing is known.
    count: u32,
    /// Core seconds of one I/O, and of one byte.
    read: (f64, f64),
    write: (f64, f64),
}

/// Why nothing can be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The bill.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The stations.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The access specification.
    #[error("{0}")]
    Access(String),
}

impl Simulator {
    /// So many drives of a profile.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Access`] for no drives or more than a network takes.
    pub fn of_profile(
        profile: &Profile,
        drives: u32,
        seed: u64,
    ) -> Result<Simulator, SimulateError> {
        if !(1..=crate::bill::DEVICES_MAX).contains(&drives) {
            let max = crate::bill::DEVICES_MAX;
            return Err(SimulateError::Access(format!("{drives} drives: 1 to {max} are possible")));
        }
        let own = profile.clone();
        let ways = move |way: Way| Ok(own.route(drives, way.drive, way.op, way.len_bytes));
        let machine = Machine::new(profile.network(drives), Box::new(ways), seed)?;
        let depth = profile.queue_depth.unwrap_or(u32::MAX);
        let processor = profile.stages.iter().find(|stage| stage.name == PROCESSOR);
        let cost = |op: Op| {
            let cost = processor.map(|stage| stage.cost(op)).unwrap_or_default();
            (cost.each_s, cost.per_byte_s)
        };
        let count = match processor.map(|stage| stage.servers) {
            Some(Width::Count(count)) => count,
            _ => 0,
        };
        Ok(Simulator {
            machine: Arc::new(machine),
            drives: (0..drives)
                .map(|at| Drive { name: format!("drive {at} of {}", profile.name), at, depth })
                .collect(),
            calibrated: profile.scatter_is_known().map(str::to_owned),
            cores: Cores { count, read: cost(Op::Read), write: cost(Op::Write) },
            remarks: Vec::new(),
        })
    }

    /// A bill of material, under this access specification in place of its own work.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Plan`] when a figure is missing for one of the accesses.
    pub fn of_bill(bill: &Bill, access: &Access, seed: u64) -> Result<Simulator, SimulateError> {
        let moves = |line: &load::spec::Line| {
            line.trim_percent == 0.0 && line.zero_percent == 0.0 && line.flush_percent == 0.0
        };
        if !access.lines.iter().all(moves) || access.flush_every > 0 {
            let why = "no figure says what flushes, trims and zeroes take: leave them away, or \
                       simulate a profile";
            return Err(SimulateError::Access(why.to_owned()));
        }
        let parts = parts::Parts::new(bill, access)?;
        let (drives, remarks) = (parts.drives.clone(), parts.remarks.clone());
        let cores = parts.cores(access)?;
        let machine = parts.machine(seed)?;
        Ok(Simulator { machine: Arc::new(machine), drives, calibrated: None, cores, remarks })
    }

    /// What workers can drive, in order.
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// Runs `spec`, of which each worker drives the drive that `drive_of` names. Percentiles stay
    /// in the result only if the drives are calibrated.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Run`].
    ///
    /// # Panics
    ///
    /// When `drive_of` names a drive that there is not.
    pub fn run(
        &self,
        spec: &RunSpec,
        drive_of: &[usize],
        stop: &Stop,
        live: &mut dyn Live,
    ) -> Result<RunResult, SimulateError> {
        let lane = |(drive, worker): (&usize, &load::WorkerSpec)| -> Box<dyn Lane> {
            let Drive { at, depth, .. } = self.drives[*drive];
            let geometry: Geometry = worker.volume.geometry();
            simulated(&self.machine, at, depth, geometry)
        };
        let lanes = drive_of.iter().zip(&spec.workers).map(lane).collect();
        let simulation = Simulation { stop: stop.clone() };
        let mut live = Seen { live, percentiles: self.calibrated.is_some() };
        let mut result = simulation.run(spec, lanes, &mut Shared(&self.machine), &mut live)?;
        result.cpu = self.cores.used(&result);
        result.host.cores = self.cores.count;
        result.warnings.extend(self.remarks.iter().cloned());
        match &self.calibrated {
            Some(source) => result.warnings.push(format!("calibrated by {source}")),
            None => withhold_percentiles(&mut result),
        }
        Ok(result)
    }
}

/// The machine, as `load` sees it.
struct Shared<'a>(&'a Machine);

impl Storage for Shared<'_> {
    fn next(&mut self) -> Option<Nanos> {
        self.0.next()
    }

    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>) {
        // Lanes were made in the order of the workers.
        self.0.advance(now, workers);
    }
}

/// A view that is shown percentiles only if they mean something.
struct Seen<'a> {
    live: &'a mut dyn Live,
    percentiles: bool,
}

impl Live for Seen<'_> {
    fn start(&mut self, about: &About) {
        self.live.start(about);
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
    /// By the utilisation law, which holds for any distribution.
    fn used(&self, result: &RunResult) -> Cpu {
        let Cores { count, read, write } = *self;
        if count == 0 {
            return Cpu::default();
        }
        let of = |d: &Direction, cost: (f64, f64)| d.iops * cost.0 + d.bytes_per_second * cost.1;
        let totals = &result.totals;
        let cores = of(&totals.read, read) + of(&totals.write, write) + of(&totals.other, write);
        let host_percent = Some(cores / f64::from(count) * 100.0);
        Cpu { host_percent, initiator_cores: Some(cores), ..Cpu::default() }.derive(totals.iops)
    }
}

/// Takes away what depends on distributions that nobody has measured. Means stay.
fn withhold_percentiles(result: &mut RunResult) {
    let clear = |latency: &mut Latency| {
        *latency = Latency { mean: latency.mean, ..Latency::default() };
    };
    let totals = &mut result.totals;
    for direction in [&mut totals.read, &mut totals.write, &mut totals.other] {
        clear(&mut direction.latency_ns);
    }
    clear(&mut totals.latency_ns);
    if let Some(paced) = &mut totals.paced {
        clear(&mut paced.service_ns);
        clear(&mut paced.lag_ns);
    }
    for worker in &mut result.workers {
        clear(&mut worker.latency_ns);
        for direction in [&mut worker.read, &mut worker.write, &mut worker.other] {
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
    let why = "percentiles: not calibrated; calibrate a profile with runs of the drive";
    for check in result.checks.iter_mut().filter(|check| check.code == "H12") {
        *check = Check::new("H12", &check.name, Verdict::Unknown, why);
    }
    result.class = Class::of(&result.checks);
    result.warnings.push(why.to_owned());
}

/// Follows a route to all its visits, whatever holds or forks on the way.
fn for_each_stop(route: &mut [Step], each: &mut impl FnMut(&mut Vec<StationId>)) {
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
