//! Queueing networks of drives.

use block::Op;

use super::Profile;
use super::check::TOTAL_S_MIN;
use crate::{Class, Network, Servers, Service, Shape, Station, StationId, Step, Visit};

impl Profile {
    /// Returns the stations of several drives, without classes.
    pub fn network(&self, drives: u32) -> Network {
        let mut network = Network::default();
        for stage in &self.stages {
            let copies = if stage.shared { 1 } else { drives };
            for copy in 0..copies {
                let name = match stage.shared {
                    true => stage.name.clone(),
                    false => format!("{} {copy}", stage.name),
                };
                network.add_station(Station {
                    name,
                    servers: stage.station(),
                    reserve: stage.reserve.clone(),
                    head: stage.head.clone(),
                });
            }
        }
        network
    }

    /// Returns the route of an I/O of drive number `drive` of `drives` through the stations of
    /// [`network`](Self::network). I/Os without data have the time of a write of no bytes.
    pub fn route(&self, drives: u32, drive: u32, op: Op, len_bytes: u32) -> Vec<Step> {
        let mut first = 0;
        let mut route = Vec::new();
        for stage in &self.stages {
            let at = if stage.shared { first } else { first + drive };
            first += if stage.shared { 1 } else { drives };
            let len_bytes = if matches!(op, Op::Read | Op::Write) { len_bytes } else { 0 };
            let moves = stage.head.is_some() && len_bytes > 0;
            let own_s = stage.cost(op).seconds(len_bytes);
            // The arm adds the access time at run time.
            let mean_s = if moves { own_s.max(TOTAL_S_MIN) } else { own_s };
            if mean_s > 0.0 {
                let service = Service { mean_s, shape: stage.shape.shape() };
                let draws = stage.draws(op, len_bytes);
                route.push(Step::Visit(Visit { at: vec![StationId(at)], service, draws }));
            }
        }
        if route.is_empty() {
            // A route needs at least one visit, even without service time.
            let service = Service { mean_s: TOTAL_S_MIN, shape: Shape::Deterministic };
            route.push(Step::Visit(Visit { at: vec![StationId(0)], service, draws: 0.0 }));
        }
        route
    }

    /// Returns the network of `drives` drives with `outstanding` I/Os on each, `read_share` of them
    /// reads, all of the same length. Disks serve random offsets, at their speed for this queue
    /// depth.
    pub fn closed(
        &self,
        drives: u32,
        outstanding: u32,
        read_share: f64,
        len_bytes: u32,
    ) -> Network {
        let stages = self.stages.iter().map(|stage| stage.still(len_bytes)).collect();
        let still = Profile { stages, ..self.clone() };
        let mut network = still.network(drives);
        let inside = self.queue_depth.map_or(outstanding, |depth| depth.min(outstanding));
        let mut first = 0;
        for stage in &self.stages {
            let count = if stage.shared { 1 } else { drives };
            if let Some(speeds) = stage.speeds(inside, read_share, len_bytes) {
                for station in &mut network.stations[first..first + count as usize] {
                    station.servers = Servers::Rates(speeds.clone());
                }
            }
            first += count as usize;
        }
        for drive in 0..drives {
            let mut class = Class::closed(format!("drive {drive}"), inside);
            let way = |op| still.route(drives, drive, op, len_bytes);
            class.route = match read_share {
                1.0 => way(Op::Read),
                0.0 => way(Op::Write),
                share => {
                    let ways = vec![(share, way(Op::Read)), (1.0 - share, way(Op::Write))];
                    vec![Step::Choose(ways)]
                }
            };
            network.add_class(class);
        }
        network
    }
}
