//! Where a run ran.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The host that ran it. `null` and 0 where unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Processor as it calls itself.
    pub cpu: String,
    /// Logical processors this run could use.
    pub cores: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Hypervisor, when there is one.
    pub hypervisor: Option<String>,
    /// Further facts.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Which logical processors did what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// Where the workers ran.
    pub initiator: Vec<u32>,
    /// Where the targets ran, when they were on this host.
    pub target: Vec<u32>,
    /// Threads were pinned to them.
    pub pinned: bool,
    /// Workers and targets of a processor took turns on one thread: what of its time was whose is
    /// known by the clock.
    pub shared_threads: bool,
}
