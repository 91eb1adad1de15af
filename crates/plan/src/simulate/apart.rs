//! Parallel simulation of parts without shared stations on all cores: hosts, and drives of a
//! profile without shared stages. Each has its own random streams, so any number of threads results
//! in the same bits.

use std::sync::{Arc, Mutex, PoisonError};

use block::{Lane, Nanos};
use load::{Part, Prepared, RunError, Simulation, Storage};
use model::ModelError;
use model::device::{Machine, Profile, Way};
use stats::RunResult;
use stats::live::Live;
use volume::delay::simulated;

use super::Drive;
use super::parts::Parts;

/// Machines of a system.
pub(super) enum Machines {
    /// All drives of a profile in one machine.
    Together(Profile, u32),
    /// One machine per drive.
    Drives(Profile, u32),
    /// One machine per host, all with the same parts.
    Hosts(Arc<Mutex<Parts>>, u32),
}

impl Machines {
    pub fn of_profile(profile: &Profile, drives: u32, apart: bool) -> Machines {
        let shared = profile.stages.iter().any(|stage| stage.shared);
        match apart && !shared && drives > 1 {
            true => Machines::Drives(profile.clone(), drives),
            false => Machines::Together(profile.clone(), drives),
        }
    }

    pub fn of_bill(parts: Parts, hosts: u32) -> Machines {
        Machines::Hosts(Arc::new(Mutex::new(parts)), hosts)
    }

    fn count(&self) -> usize {
        match self {
            Machines::Together(..) => 1,
            Machines::Drives(_, count) | Machines::Hosts(_, count) => *count as usize,
        }
    }

    /// Returns the machine of a drive, and the drive's index in it.
    fn place(&self, drive: &Drive) -> (usize, u32) {
        match self {
            Machines::Together(..) => (0, drive.at),
            Machines::Drives(..) => (drive.at as usize, 0),
            Machines::Hosts(..) => (drive.host as usize, drive.at),
        }
    }

    /// Creates one of the machines, idle. The first has the seed itself, each other one a derived
    /// seed.
    pub fn make(&self, at: usize, seed: u64) -> Result<Machine, ModelError> {
        let seed = seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let of_profile = |profile: &Profile, drives: u32| {
            let own = profile.clone();
            let ways = move |way: Way| Ok(own.route(drives, way.drive, way.op, way.len_bytes));
            Machine::new(profile.network(drives), Box::new(ways), seed)
        };
        match self {
            Machines::Together(profile, drives) => of_profile(profile, *drives),
            Machines::Drives(profile, _) => of_profile(profile, 1),
            Machines::Hosts(parts, _) => {
                let shared = parts.clone();
                let lock = |parts: &Mutex<Parts>, way| {
                    parts.lock().unwrap_or_else(PoisonError::into_inner).way(way)
                };
                let stations = parts.lock().unwrap_or_else(PoisonError::into_inner).stations();
                Machine::new(stations, Box::new(move |way| lock(&shared, way)), seed)
            }
        }
    }
}

/// Runs a prepared run, each worker on its drive, on at most `threads` threads.
pub(super) fn run(
    simulation: &Simulation,
    run: &Prepared,
    (machines, threads): (&Machines, usize),
    driven: &[&Drive],
    live: &mut dyn Live,
) -> Result<RunResult, RunError> {
    let mut of: Vec<Vec<(usize, u32, u32)>> = vec![Vec::new(); machines.count()];
    for (worker, drive) in driven.iter().enumerate() {
        let (machine, place) = machines.place(drive);
        of[machine].push((worker, place, drive.depth));
    }
    let seed = run.spec.seed;
    // Lanes of one thread, in the order of `of`, on a separate machine.
    let make = |at: usize, lanes: &[(usize, u32, u32)]| {
        let machine = machines.make(at, seed).map_err(|e| RunError::Model(e.to_string()))?;
        let machine = Arc::new(machine);
        let lane = |(worker, place, depth): &(usize, u32, u32)| {
            let geometry = run.volume(&run.spec.workers[*worker]).geometry();
            simulated(&machine, *place, *depth, geometry)
        };
        let lanes: Vec<Box<dyn Lane>> = lanes.iter().map(lane).collect();
        Ok::<_, RunError>((lanes, machine))
    };
    let used = || of.iter().enumerate().filter(|(_, lanes)| !lanes.is_empty());
    if load::tied(&run.spec) || used().count() == 1 {
        let mut all: Vec<Option<Box<dyn Lane>>> = driven.iter().map(|_| None).collect();
        let mut storage = Shared(Vec::new());
        for (at, workers) in used() {
            let (lanes, machine) = make(at, workers)?;
            let numbers: Vec<usize> = workers.iter().map(|(worker, ..)| *worker).collect();
            for (worker, lane) in numbers.iter().zip(lanes) {
                all[*worker] = Some(lane);
            }
            storage.0.push((machine, numbers));
        }
        let lanes = all.into_iter().flatten().collect();
        return simulation.run(run, lanes, &mut storage, live);
    }
    let part = |(at, workers): (usize, &Vec<(usize, u32, u32)>)| {
        let own = workers.clone();
        let make = &make;
        Part {
            workers: own.iter().map(|(worker, ..)| *worker).collect(),
            make: Box::new(move || {
                let (lanes, machine) = make(at, &own)?;
                let numbers = (0..own.len()).collect();
                Ok((lanes, Box::new(Shared(vec![(machine, numbers)])) as Box<dyn Storage>))
            }),
        }
    };
    simulation.run_apart(run, used().map(part).collect(), threads, live)
}

/// Machines as `load` uses them: each with the indices of the workers of its lanes, in the order in
/// which these were created.
struct Shared(Vec<(Arc<Machine>, Vec<usize>)>);

impl Storage for Shared {
    fn next(&mut self) -> Option<Nanos> {
        self.0.iter().filter_map(|(machine, _)| machine.next()).min()
    }

    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>) {
        for (machine, numbers) in &self.0 {
            let before = workers.len();
            machine.advance(now, workers);
            workers[before..].iter_mut().for_each(|lane| *lane = numbers[*lane]);
        }
    }
}
