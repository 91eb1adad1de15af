//! A run on this host: what is to be done, and what it is done to.

use std::sync::Arc;

use job::spec::{Cache, Expect, RunSpec, WorkerSpec};
use os::SharedThread;
use volume::{Hints, Volume};

/// A run with its volumes open.
#[derive(Clone)]
pub struct Prepared {
    /// What is to be done.
    pub spec: RunSpec,
    /// The volumes, in the order of their numbers in the spec's workers.
    pub volumes: Vec<Arc<dyn Volume>>,
    /// Processors and threads of targets in this process, to count what they use.
    pub targets: Option<TargetThreads>,
}

impl Prepared {
    /// The volume that a worker of it drives.
    pub fn volume(&self, worker: &WorkerSpec) -> &Arc<dyn Volume> {
        &self.volumes[worker.volume]
    }

    /// The volume of each worker, in their order.
    pub(crate) fn driven(&self) -> impl Iterator<Item = &Arc<dyn Volume>> {
        self.spec.workers.iter().map(|worker| self.volume(worker))
    }
}

/// Where targets in this process run.
#[derive(Clone, Debug, Default)]
pub struct TargetThreads {
    /// Their processors.
    pub cores: Vec<usize>,
    /// Numbers of their threads.
    pub threads: Vec<i32>,
    /// Those of the threads that drive as well: workers on the processor of one run on it.
    pub shared: Vec<SharedThread>,
}

impl TargetThreads {
    /// The thread on a processor that drives as well.
    pub(crate) fn shared_on(&self, cpu: usize) -> Option<SharedThread> {
        self.shared.iter().find(|thread| thread.cpu() == cpu).cloned()
    }
}

/// What a volume is told of how a worker uses its file.
pub(crate) fn hints(cache: Cache) -> Hints {
    let random = match cache.expect {
        Expect::Unknown => None,
        Expect::Random => Some(true),
        Expect::Sequential => Some(false),
    };
    Hints { drop_cached: cache.drop, random }
}

/// A run of tests, all of whose workers drive one volume.
#[cfg(test)]
pub(crate) fn on(uri: &str, spec: RunSpec) -> Prepared {
    let volume = volume::open(&uri.parse().unwrap(), volume::Purpose::Write).unwrap();
    Prepared { spec, volumes: vec![volume], targets: None }
}
