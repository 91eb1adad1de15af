//! What a run is: who drives what, how, for how long, and where.

use std::sync::Arc;

use serde_json::{Value, json};
use stats::Job;
use volume::Volume;

use crate::pattern::Access;

/// One run.
pub struct RunSpec {
    /// What kind of job it is, in the words that results are compared by.
    pub job: Job,
    /// The command line that asked for it.
    pub command: String,
    /// Who drives what.
    pub workers: Vec<WorkerSpec>,
    /// What each worker does to its volume.
    pub access: Access,
    /// I/Os that each worker keeps under way.
    pub outstanding: u32,
    /// Length of the measured window.
    pub seconds: f64,
    /// Time before it.
    pub ramp_seconds: f64,
    /// Decides every pattern.
    pub seed: u64,
    /// Processors for the workers, one thread on each; workers are dealt out in turn.
    pub cores: Vec<usize>,
    /// Every block is written once with content that tells its place, and every read is compared.
    pub verify: bool,
    /// Processors and threads of targets in this process, to count what they use.
    pub targets: Option<TargetThreads>,
}

/// Where targets in this process run.
#[derive(Clone, Debug, Default)]
pub struct TargetThreads {
    /// Their processors.
    pub cores: Vec<usize>,
    /// Numbers of their threads.
    pub threads: Vec<i32>,
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
}

impl RunSpec {
    /// Everything that is needed to run it again.
    pub fn to_json(&self) -> Value {
        json!({
            "command": self.command,
            "access": self.access,
            "outstanding": self.outstanding,
            "seconds": self.seconds,
            "ramp_seconds": self.ramp_seconds,
            "seed": self.seed,
            "verify": self.verify,
            "volumes": self.workers.iter().map(|w| w.uri.clone()).collect::<Vec<_>>(),
        })
    }
}
