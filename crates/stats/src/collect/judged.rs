//! Input of the checks for each worker and volume.

use std::collections::BTreeMap;

use super::{Collector, WorkerName};
use crate::histogram::{Latencies, Latency};
use crate::interval::Interval;
use crate::verdict::{Course, Peer};

/// A part with more than this share of the I/Os cannot have half of them above the p99 of all.
const FEW: f64 = 0.02;

impl Collector {
    /// Returns the workers for the comparison of H22.
    pub fn peers(&self) -> Vec<Peer> {
        let idle = self.tracks.idle_seconds().iter().enumerate();
        let each = self.names.iter().zip(&self.workers).zip(idle);
        let peer = |((name, done), (at, idle)): ((&WorkerName, &Interval), (usize, &u32))| Peer {
            name: name.name.clone(),
            volume: name.volume.clone(),
            target: name.target.clone(),
            group: name.group,
            load: name.load,
            // Completions after the window's end are not part of the worker's share of it.
            ios: self.tracks.ios(at),
            seconds: done.seconds(),
            idle_seconds: *idle,
        };
        each.map(peer).collect()
    }

    /// Returns the rate over time of each volume, if there are several, and of each worker, if a
    /// volume has several. Workers with a plan of their own are left out.
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

    /// Returns the number of parts with a rate of their own over time that are not
    /// [courses](Self::courses).
    pub fn parts_without_course(&self) -> u32 {
        let volumes = self.volumes();
        let shared = volumes.values().any(|workers| workers.len() > 1);
        let parts = if shared { self.names.len() } else { 0 };
        let parts = parts + if volumes.len() > 1 { volumes.len() } else { 0 };
        (parts - self.courses().len()) as u32
    }

    /// Returns whether a worker does the same work from the first to the last second.
    fn is_constant(&self, worker: usize) -> bool {
        let WorkerName { group, has_turn, .. } = &self.names[worker];
        group.is_some() && !has_turn
    }

    /// Returns the latencies of all closed seconds.
    pub fn latencies(&self) -> Latencies {
        self.whole.latencies()
    }

    /// Returns the latencies of each volume with few of the I/Os, or of each such worker if all
    /// workers drive one volume.
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

    /// Returns the workers of each volume.
    fn volumes(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut volumes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, name) in self.names.iter().enumerate() {
            volumes.entry(&name.volume).or_default().push(at);
        }
        volumes
    }
}
