//! What of each worker and volume is judged.

use std::collections::BTreeMap;

use super::{Collector, WorkerName};
use crate::histogram::{Latencies, Latency};
use crate::interval::Interval;
use crate::verdict::{Course, Peer};

/// Who did more than this share of the I/Os cannot have half of them above the p99 of all.
const FEW: f64 = 0.02;

impl Collector {
    /// The workers as H22 holds them against each other.
    pub fn peers(&self) -> Vec<Peer> {
        let idle = self.tracks.idle_seconds().iter().enumerate();
        let each = self.names.iter().zip(&self.workers).zip(idle);
        let peer = |((name, done), (at, idle)): ((&WorkerName, &Interval), (usize, &u32))| Peer {
            name: name.name.clone(),
            volume: name.volume.clone(),
            target: name.target.clone(),
            group: name.group,
            load: name.load,
            // What came back after the window's end is no part that it had in it.
            ios: self.tracks.ios(at),
            seconds: done.seconds(),
            idle_seconds: *idle,
        };
        each.map(peer).collect()
    }

    /// The rate over time of each volume, if there are several, and of each worker, if a volume has
    /// several. Those that work by a plan of their own are left out.
    pub fn courses(&self) -> Vec<Course> {
        let volumes = self.volumes();
        let same = |workers: &[usize]| workers.iter().all(|at| self.is_constant(*at));
        let of_volumes = volumes.iter().filter(|_| volumes.len() > 1);
        let of_volumes = of_volumes.filter(|(_, workers)| same(workers));
        let of_volumes = of_volumes.map(|(name, workers)| self.tracks.course(name, workers));
        let shared = volumes.values().any(|workers| workers.len() > 1);
        let each = (0..self.names.len()).filter(|at| shared && same(&[*at]));
        let each = each.map(|at| self.tracks.course(&self.names[at].name, &[at]));
        of_volumes.chain(each).collect()
    }

    /// How many parts there are beside [those](Self::courses) with a rate of their own over time.
    pub fn parts_without_course(&self) -> u32 {
        let volumes = self.volumes();
        let shared = volumes.values().any(|workers| workers.len() > 1);
        let parts = if shared { self.names.len() } else { 0 };
        let parts = parts + if volumes.len() > 1 { volumes.len() } else { 0 };
        (parts - self.courses().len()) as u32
    }

    /// Whether a worker does the same from the first to the last second.
    fn is_constant(&self, worker: usize) -> bool {
        let WorkerName { group, has_turn, .. } = &self.names[worker];
        group.is_some() && !has_turn
    }

    /// All latencies of the closed seconds together.
    pub fn latencies(&self) -> Latencies {
        self.whole.latencies()
    }

    /// The latencies of each volume that did few of the I/Os, or of each worker where all drive
    /// one.
    pub fn few(&self) -> Vec<(String, Latency)> {
        let volumes = self.volumes();
        let parts: Vec<(&str, Vec<usize>)> = match volumes.len() {
            1 => self.names.iter().enumerate().map(|(at, name)| (&*name.name, vec![at])).collect(),
            _ => volumes.into_iter().collect(),
        };
        let all = self.whole.ios() as f64;
        let ios = |workers: &[usize]| workers.iter().map(|at| self.workers[*at].ios()).sum::<u64>();
        let few = parts.into_iter().filter(|(_, workers)| {
            let ios = ios(workers) as f64;
            ios > 0.0 && ios <= FEW * all
        });
        let summary = |workers: &[usize]| {
            let mut latencies = Latencies::new();
            workers.iter().for_each(|at| latencies.merge(&self.workers[*at].latencies()));
            latencies.summary()
        };
        few.map(|(name, workers)| (name.to_owned(), summary(&workers))).collect()
    }

    /// The workers of each volume.
    fn volumes(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut volumes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, name) in self.names.iter().enumerate() {
            volumes.entry(&name.volume).or_default().push(at);
        }
        volumes
    }
}
