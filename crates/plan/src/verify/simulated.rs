//! Verified systems, simulated with other distributions of service times.
//!
//! Theory assumes exponential times. If fixed or Erlang times meet a published figure as well, the
//! figure does not identify the distribution, and the table notes it.

use model::{Class, Network, Run, Service, Shape, Station, Step, Visit, simulate};

use super::{PlanError, root_within};
use crate::bill::Bill;
use crate::system::{System, Tweak};

const SHAPES: [(&str, Shape); 3] = [
    ("fixed times", Shape::Deterministic),
    ("Erlang of 4", Shape::Erlang(4)),
    ("exponential times", Shape::Exponential),
];
/// Length of a simulation: requests per second are within some tenths of a percent.
const RUN: Run = Run { seed: 1, warmup: 10_000, requests: 60_000 };
/// Precision of a parameter that is fitted by simulations.
const CLOSE: f64 = 1e-3;

/// Means of a simulation.
pub(super) struct Means {
    /// I/Os per second.
    pub iops: f64,
    /// Mean latency, in seconds.
    pub latency_s: f64,
}

/// Returns the means of a bill with all times of each shape.
pub(super) fn shapes(bill: &Bill) -> Result<Vec<(&'static str, Means)>, PlanError> {
    let network = System::build(bill, &Tweak::default())?.network;
    let one = |(what, shape): (&'static str, Shape)| {
        let mut network = network.clone();
        for step in network.classes.iter_mut().flat_map(|class| &mut class.route) {
            if let Step::Visit(visit) = step {
                visit.service.shape = shape.clone();
            }
        }
        Ok((what, means(&network)?))
    };
    SHAPES.into_iter().map(one).collect()
}

fn means(network: &Network) -> Result<Means, PlanError> {
    let solution = simulate(network, RUN, |_| ())?.solution;
    Ok(Means { iops: solution.throughput_per_s(), latency_s: solution.response_s() })
}

/// Returns for ports with engines that wait for the fabric, each separately: for each shape the
/// engine time that results in `reads` of 1 KiB, and the IOPS of 4 KiB that follow.
pub(super) fn engines(
    bill: &Bill,
    reads: f64,
    fabric: f64,
) -> Result<Vec<(&'static str, f64, f64)>, PlanError> {
    let one = |(what, shape): (&'static str, Shape)| {
        let at = |size: f64, engine_s: f64| {
            let mut bill = bill.clone();
            bill.work.size_bytes = size;
            Ok::<f64, PlanError>(means(&holding(&bill, engine_s, size / fabric, &shape)?)?.iops)
        };
        let engine = root_within((2e-6, 20e-6), CLOSE, |engine| Ok(reads - at(1024.0, engine)?))?;
        Ok((what, engine, at(4096.0, engine)?))
    };
    SHAPES.into_iter().map(one).collect()
}

/// Returns a network with a class for each port, with its engine held during the transfer; then the
/// cores of the bill.
fn holding(
    bill: &Bill,
    engine_s: f64,
    transfer_s: f64,
    shape: &Shape,
) -> Result<Network, PlanError> {
    let built = System::build(bill, &Tweak::default())?.network;
    let mut network = Network::default();
    let service = |mean_s| Service { mean_s, shape: shape.clone() };
    let fabric = network.add_station(Station::servers("fabric", 1));
    let cores = built.classes.iter().flat_map(|class| &class.route).find_map(|step| match step {
        Step::Visit(visit) => {
            let station = built.stations.get(visit.at.first()?.0 as usize)?;
            (station.name == "processor").then(|| (station.clone(), visit.service.mean_s))
        }
        _ => None,
    });
    let cores = cores.map(|(station, mean_s)| (network.add_station(station), mean_s));
    let visit = |at, mean_s| Visit { at: vec![at], service: service(mean_s), draws: 0.0 };
    let ports: u32 = bill.groups.iter().map(crate::bill::Group::devices).sum();
    for port in 0..ports {
        let engine = network.add_station(Station::servers(format!("engine {port}"), 1));
        let transfer = vec![Step::Visit(visit(fabric, transfer_s))];
        let mut class = Class::closed(format!("port {port}"), bill.work.outstanding)
            .step(Step::Hold(visit(engine, engine_s), transfer));
        if let Some((cores, mean_s)) = cores {
            class = class.visit(cores, service(mean_s));
        }
        network.add_class(class);
    }
    Ok(network)
}
