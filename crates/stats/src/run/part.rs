//! Data that one of several hosts adds to its result for a lossless merge, and the row of each host
//! in a merged result.

use serde::{Deserialize, Serialize};

use crate::histogram::{Complete, Exact, Latency};
use crate::verdict::Class;

/// Layout of [`Part`].
pub const PART_LAYOUT: u32 = 1;

/// A result as one of several hosts'.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// Layout: [`PART_LAYOUT`].
    pub layout: u32,
    /// Name of the host in a merged result.
    pub host: String,
    /// The running kernel: containers of one machine have the same one.
    pub machine: String,
    /// Version and commit of the program.
    pub build: String,
    /// Requested seed, from which this host derived its own.
    pub base_seed: u64,
    /// The clock that the instants are of.
    pub clock: WallClock,
    /// Instant at which the measured window was to begin, in Unix nanoseconds; `None` if the run
    /// began as soon as it could.
    pub planned_ns: Option<u64>,
    /// Beginning of the measured window, in Unix nanoseconds.
    pub started_ns: u64,
    /// End of the measured window, in Unix nanoseconds.
    pub ended_ns: u64,
    /// Data that the histograms of the result lack.
    pub exact: ExactTotals,
    /// The measured window by the monotonic clock of the process, in nanoseconds: only within it.
    #[serde(skip)]
    pub window: Option<(u64, u64)>,
}

/// The clock of instants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WallClock {
    /// The kernel's clock source: `tsc`.
    pub source: String,
    /// Whether something disciplines it; `None` if unknown.
    pub synchronised: Option<bool>,
    /// Bound of its error in nanoseconds: the kernel's, if disciplined, or that of round trips.
    pub error_ns: Option<u64>,
    /// True if the instants are those of another host's clock, by round trips to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_round_trips: bool,
    /// Drift against that clock during the run, in ppm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_ppm: Option<f64>,
}

/// Exact sums and moments of a result's totals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExactTotals {
    /// All directions together.
    pub all: Exact,
    /// Reads.
    pub read: Exact,
    /// Writes.
    pub write: Exact,
    /// Trims.
    pub trim: Exact,
    /// Flushes.
    pub flush: Exact,
    /// Service times of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Complete>,
    /// Lags of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<Complete>,
}

/// One host of a merged result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostResult {
    /// Name.
    pub name: String,
    /// The running kernel, as in [`Part::machine`].
    pub machine: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// Logical CPUs available to the run.
    pub cores: u32,
    /// Kernel name and release.
    pub kernel: String,
    /// Clock of the host.
    pub clock: WallClock,
    /// Seed of its patterns.
    pub seed: u64,
    /// Beginning of its measured window, RFC 3339.
    pub started: String,
    /// Beginning after the earliest host's, in nanoseconds.
    pub start_skew_ns: u64,
    /// End before the latest host's, in nanoseconds.
    pub end_skew_ns: u64,
    /// Beginning after the planned instant in nanoseconds; negative if before. `None` if none was
    /// planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<i64>,
    /// Length of its measured window in seconds.
    pub seconds: f64,
    /// I/Os completed without a fault.
    pub ios: u64,
    /// I/Os and flushes that ended in a fault.
    pub errors: u64,
    /// I/Os per second of the host's window.
    pub iops: f64,
    /// Bytes per second of the host's window.
    pub bytes_per_second: f64,
    /// Latencies in nanoseconds.
    pub latency_ns: Latency,
    /// CPU usage of the whole host, 0 to 100.
    pub cpu_percent: Option<f64>,
    /// CPU cores that the workers used.
    pub initiator_cores: Option<f64>,
    /// Class of the host's result.
    pub class: Class,
    /// Difference from the hosts with the same work, if it is more than noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<HostApart>,
    /// Reason why its result is incomplete, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

/// Difference of a host from those that did the same work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostApart {
    /// Rate of the host over that of the others, less 100.
    pub off_percent: f64,
    /// Difference that the noise of the host's seconds explains.
    pub noise_percent: f64,
    /// The likely reason.
    pub why: String,
}

/// A host that served the others of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerResult {
    /// Name.
    pub name: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// Logical CPUs available to the server.
    pub cores: u32,
    /// Portals, each as protocol and address.
    pub portals: Vec<String>,
    /// Names of the served volumes.
    pub volumes: Vec<String>,
    /// Most connections at a time.
    pub connections: u64,
    /// CPU cores that the server used in the window.
    pub target_cores: Option<f64>,
    /// CPU usage of the whole host, 0 to 100.
    pub cpu_percent: Option<f64>,
    /// Reason why it did not serve to the end, if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// The time in which all hosts measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommonWindow {
    /// Beginning in Unix nanoseconds: the latest of all.
    pub started_ns: u64,
    /// End in Unix nanoseconds: the earliest of all.
    pub ended_ns: u64,
    /// Length in seconds; 0 if there is none.
    pub seconds: f64,
    /// Share of the longest window of a host, 0 to 100.
    pub overlap_percent: f64,
    /// Between the earliest and the latest beginning, in nanoseconds.
    pub start_skew_ns: u64,
    /// Between the earliest and the latest end, in nanoseconds.
    pub end_skew_ns: u64,
    /// Maximum error of both because clocks differ, in nanoseconds; `None` if a clock is not
    /// disciplined. 0 on one machine, which has one clock.
    pub clock_bound_ns: Option<u64>,
}
