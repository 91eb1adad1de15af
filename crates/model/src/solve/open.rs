//! Open classes, alone or beside closed ones (mixed networks: Lazowska et al. 1984, section 7.4).

use super::Solution;
use super::demand::Demands;
use crate::queue::birth_death;
use crate::{ModelError, Network, Servers, Source};

/// What open classes do to a station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Work that arrives, in servers.
    pub offered: f64,
    /// Share of what the station can do that this is; 0 for a delay.
    pub used: f64,
}

/// # Errors
///
/// [`ModelError::Overload`] when a station is asked for all it can do, or more.
pub(super) fn load(network: &Network, demands: &Demands) -> Result<Vec<Load>, ModelError> {
    let mut loads = Vec::new();
    for (index, station) in network.stations.iter().enumerate() {
        let mut offered = 0.0;
        for (class, source) in network.classes.iter().map(|class| &class.source).enumerate() {
            if let Source::Open { gap } = source {
                offered += demands.demand_s(class, index) / gap.mean_s;
            }
        }
        // However many wait, the last of the rates holds.
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

/// Adds the open classes to a solution that has the closed ones.
pub(super) fn add(network: &Network, demands: &Demands, load: &[Load], solution: &mut Solution) {
    let closed: Vec<Crowd> =
        (0..network.stations.len()).map(|station| Crowd::of(station, demands, solution)).collect();
    for (class, source) in network.classes.iter().map(|class| &class.source).enumerate() {
        let Source::Open { gap } = source else { continue };
        solution.classes[class].throughput_per_s = 1.0 / gap.mean_s;
        for (index, station) in network.stations.iter().enumerate() {
            let demand_s = demands.demand_s(class, index);
            if demand_s > 0.0 {
                let stretch = stretch(&station.servers, load[index], closed[index]);
                solution.stations[index].residence_s[class] = demand_s * stretch;
            }
        }
    }
}

/// Closed requests at a station.
#[derive(Clone, Copy)]
struct Crowd {
    present: f64,
    /// Their work, in servers.
    offered: f64,
}

impl Crowd {
    /// Of the classes that have a throughput so far.
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

/// Time at a station over service time, for open requests that find a `closed` crowd.
fn stretch(servers: &Servers, load: Load, closed: Crowd) -> f64 {
    if matches!(servers, Servers::Infinite) {
        return 1.0;
    }
    if closed.present == 0.0 {
        return birth_death(servers, load.offered).present / load.offered;
    }
    // One fast server and a delay; exact for one server.
    let (slow, fast) = (servers.speed(1), servers.speed(u32::MAX));
    let split = 1.0 / slow - 1.0 / fast;
    let waiting = (closed.present - closed.offered * split).max(0.0);
    split + (1.0 + waiting) / fast / (1.0 - load.used)
}
