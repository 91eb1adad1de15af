//! A run on this host: its specification with open volumes.

use std::sync::Arc;

use job::spec::{Cache, Expect, RunSpec, WorkerSpec};
use os::SharedThread;
use volume::{Hints, Volume};

/// A run with its volumes open.
#[derive(Clone)]
pub struct Prepared {
    /// The specification.
    pub spec: RunSpec,
    /// The volumes, by their numbers in the spec's workers.
    pub volumes: Vec<Arc<dyn Volume>>,
    /// CPUs and threads of targets in this process, to count their CPU time.
    pub targets: Option<TargetThreads>,
}

impl Prepared {
    /// The volume of one of its workers.
    pub fn volume(&self, worker: &WorkerSpec) -> &Arc<dyn Volume> {
        &self.volumes[worker.volume]
    }

    /// The volume of each worker, in order.
    pub(crate) fn driven(&self) -> impl Iterator<Item = &Arc<dyn Volume>> {
        self.spec.workers.iter().map(|worker| self.volume(worker))
    }
}

/// Threads of targets in this process.
#[derive(Clone, Debug, Default)]
pub struct TargetThreads {
    /// CPUs of the threads.
    pub cores: Vec<usize>,
    /// Ids of the threads.
    pub threads: Vec<i32>,
    /// Threads to be shared: workers on such a thread's CPU run on it.
    pub shared: Vec<SharedThread>,
}

impl TargetThreads {
    /// The shared thread on a CPU.
    pub(crate) fn shared_on(&self, cpu: usize) -> Option<SharedThread> {
        self.shared.iter().find(|thread| thread.cpu() == cpu).cloned()
    }
}

/// Hints on a worker's use of its file.
pub(crate) fn hints(cache: Cache) -> Hints {
    let random = match cache.expect {
        Expect::Unknown => None,
        Expect::Random => Some(true),
        Expect::Sequential => Some(false),
    };
    Hints { drop_cached: cache.drop, random }
}

/// Returns a test run whose workers share one volume.
#[cfg(test)]
pub(crate) fn on(uri: &str, spec: RunSpec) -> Prepared {
    let volume = volume::open(&uri.parse().unwrap(), volume::Purpose::Write).unwrap();
    Prepared { spec, volumes: vec![volume], targets: None }
}
