//! What the engine runs: a step of a job with its volumes open.

use std::path::PathBuf;
use std::sync::Arc;

use job::spec::{Cache, Expect, Part, Shift, Steady, Workload};
use os::SharedThread;
use serde_json::Value;
use stats::Job;
use volume::{Hints, Volume};

/// Shortest time for which depths that were found are measured.
const LEAST_WINDOW_SECONDS: f64 = 0.1;

/// One run.
#[derive(Clone)]
pub struct RunSpec {
    /// What kind of job it is, in the words that results are compared by.
    pub job: Job,
    /// The document that the run can be repeated from; goes into the result.
    pub document: Value,
    /// Who drives what.
    pub workers: Vec<WorkerSpec>,
    /// Length of the measured window.
    pub seconds: f64,
    /// Time before it.
    pub ramp_seconds: f64,
    /// It ends as soon as the first worker has done all that it was to do.
    pub ends_with_first: bool,
    /// It ends when this holds.
    pub steady: Option<Steady>,
    /// Decides every pattern, with the number of the worker.
    pub seed: u64,
    /// Processors for the workers, one thread on each; workers are dealt out in turn.
    pub cores: Vec<usize>,
    /// Folder that keeps what verified volumes should hold, for a look after a crash; memory if
    /// there is none.
    pub ledgers: Option<PathBuf>,
    /// Processors and threads of targets in this process, to count what they use.
    pub targets: Option<TargetThreads>,
}

impl RunSpec {
    /// Where every worker searches its depth, how long the depths that were found are measured, in
    /// seconds: nothing else is. `None` where some worker goes on or searches nothing.
    pub(crate) fn search_window(&self) -> Option<f64> {
        let window = |worker: &WorkerSpec| {
            let search = worker.workload.depth_search.filter(|search| !search.goes_on)?;
            // One that is shorter than a view of it says nothing.
            Some((search.window_us as f64 / 1e6).max(LEAST_WINDOW_SECONDS))
        };
        let windows: Option<Vec<f64>> = self.workers.iter().map(window).collect();
        windows?.into_iter().reduce(f64::max)
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

/// One worker.
#[derive(Clone)]
pub struct WorkerSpec {
    /// As "manager 1 worker 3".
    pub name: String,
    /// What it drives.
    pub volume: Arc<dyn Volume>,
    /// The volume's name.
    pub uri: String,
    /// Target that serves it; empty for local storage.
    pub target: String,
    /// What it does.
    pub workload: Arc<Workload>,
    /// Its number among the workers of all hosts: with the seed it decides what the worker does.
    pub number: u64,
    /// Its share of the volume's workers, or of those of its group.
    pub part: Part,
    /// When and where it works.
    pub shift: Shift,
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
