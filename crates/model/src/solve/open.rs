//! Open classes, alone or together with closed ones (mixed networks: Lazowska et al. 1984, section
//! 7.4).

use super::Solution;
use super::demand::Demands;
use crate::check::visits;
use crate::queue::birth_death;
use crate::{ModelError, Network, Servers, Service, Source, Step, Visit};

/// Load of open classes on a station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Offered work, in servers.
    pub offered: f64,
    /// Offered work as a share of the station's capacity; 0 for a delay.
    pub used: f64,
}

/// # Errors
///
/// [`ModelError::Overload`] if a station is saturated.
pub(super) fn load(network: &Network, demands: &Demands) -> Result<Vec<Load>, ModelError> {
    let mut loads = Vec::new();
    for (index, station) in network.stations.iter().enumerate() {
        let mut offered = 0.0;
        for (class, source) in network.classes.iter().map(|class| &class.source).enumerate() {
            if let Source::Open { gap } = source {
                offered += demands.demand_s(class, index) / gap.mean_s;
            }
        }
        // The last rate applies to any longer queue.
        let used = match &station.servers {
            Servers::Infinite => 0.0,
            servers => offered / servers.speed(u32::MAX),
        };
        if used >= 1.0 {
            let station = station.name.clone();
            return Err(ModelError::Overload { station, utilisation: used });
        }
        loads.push(Load { offered, used });
    }
    Ok(loads)
}

/// Adds the open classes to a solution of the closed ones.
pub(super) fn add(network: &Network, demands: &Demands, load: &[Load], solution: &mut Solution) {
    if network.classes.iter().all(|class| matches!(class.source, Source::Closed { .. })) {
        return;
    }
    let closed: Vec<Crowd> =
        (0..network.stations.len()).map(|station| Crowd::of(station, demands, solution)).collect();
    let first_come: Vec<Option<FirstCome>> =
        (0..network.stations.len()).map(|station| first_come(network, station)).collect();
    for (class, source) in network.classes.iter().map(|class| &class.source).enumerate() {
        let Source::Open { gap } = source else { continue };
        solution.classes[class].throughput_per_s = 1.0 / gap.mean_s;
        for (index, station) in network.stations.iter().enumerate() {
            let demand_s = demands.demand_s(class, index);
            if demand_s == 0.0 {
                continue;
            }
            let residence_s = &mut solution.stations[index].residence_s[class];
            *residence_s = if let Some(first) = &first_come[index] {
                let times = demands.visits(class, index);
                demand_s + times * first.work_s / (1.0 - load[index].used)
            } else {
                demand_s * stretch(&station.servers, load[index], closed[index])
            };
        }
    }
}

/// A station with one server that all its requests visit first, with Poisson arrivals: it does not
/// depend on other stations, so the Pollaczek–Khinchine formula is exact for any service.
pub(super) struct FirstCome {
    /// Mean residual work of the service in progress, in seconds of waiting.
    work_s: f64,
}

/// Returns the station's residual work; `None` if the station is not of this kind.
pub(super) fn first_come(network: &Network, station: usize) -> Option<FirstCome> {
    if network.stations[station].servers != Servers::Count(1) {
        return None;
    }
    let mut found = FirstCome { work_s: 0.0 };
    for class in &network.classes {
        let (first, rest) = class.route.split_first()?;
        let mut again = 0.0;
        visits(rest, 1.0, &mut |visit, chance| again += chance * share_of(visit, station));
        if again > 0.0 {
            return None;
        }
        let chance = chance_of(first, station);
        match (first, &class.source) {
            (Step::Visit(visit), Source::Open { gap }) if gap.is_exponential() => {
                let Service { mean_s, shape } = &visit.service;
                found.work_s += chance / gap.mean_s * mean_s * mean_s * (1.0 + shape.scv()) / 2.0;
            }
            _ if chance > 0.0 => return None,
            _ => {}
        }
    }
    Some(found)
}

/// Returns the mean number of services at `station` in this step.
fn chance_of(step: &Step, station: usize) -> f64 {
    let mut times = 0.0;
    visits(std::slice::from_ref(step), 1.0, &mut |visit, chance| {
        times += chance * share_of(visit, station);
    });
    times
}

fn share_of(visit: &Visit, station: usize) -> f64 {
    visit.at.iter().filter(|at| at.0 as usize == station).count() as f64 / visit.at.len() as f64
}

/// Closed requests at a station.
#[derive(Clone, Copy)]
struct Crowd {
    present: f64,
    /// Work of the closed requests, in servers.
    offered: f64,
}

impl Crowd {
    /// Returns the requests of all classes that have a throughput so far.
    fn of(station: usize, demands: &Demands, solution: &Solution) -> Crowd {
        let mut crowd = Crowd { present: 0.0, offered: 0.0 };
        for (class, result) in solution.classes.iter().enumerate() {
            let residence_s = solution.stations[station].residence_s[class];
            crowd.present += result.throughput_per_s * residence_s;
            crowd.offered += result.throughput_per_s * demands.demand_s(class, station);
        }
        crowd
    }
}

/// Returns residence time over service time, for open requests that find a `closed` crowd.
fn stretch(servers: &Servers, load: Load, closed: Crowd) -> f64 {
    if matches!(servers, Servers::Infinite) {
        return 1.0;
    }
    if closed.present == 0.0 {
        return birth_death(servers, load.offered) / load.offered;
    }
    // Model: one fast server and a delay; exact for one server.
    let (slow, fast) = (servers.speed(1), servers.speed(u32::MAX));
    let split = 1.0 / slow - 1.0 / fast;
    let waiting = (closed.present - closed.offered * split).max(0.0);
    split + (1.0 + waiting) / fast / (1.0 - load.used)
}
