//! Host of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Host of the run. `null` and 0 if unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// Logical CPUs available to this run.
    pub cores: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// Further facts.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Logical CPUs of the workers and the targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// CPUs of the workers.
    pub initiator: Vec<u32>,
    /// CPUs of the targets, if they were on this host.
    pub target: Vec<u32>,
    /// True if threads were pinned to these CPUs.
    pub pinned: bool,
    /// True if workers and targets of a CPU took turns on one thread: the clock splits the CPU time
    /// between them.
    pub shared_threads: bool,
}
