//! Views of a run in progress.
//!
//! The runner calls a [`Live`] view without knowledge of its form. The views are in the `report`
//! crate.

mod counts;
mod hosts;
mod outliers;

use serde::{Deserialize, Serialize};

use crate::buckets::Buckets;
use crate::failures::Failure;
use crate::histogram::Latency;
use crate::kind::Kind;
use crate::run::{Job, Origin, RunResult};

pub use self::counts::{Counts, DirectionCounts};
pub use self::hosts::HostSecond;
pub use self::outliers::Outliers;
pub use block::{EDGES, EDGES_NS};

/// Length of the history that a view shows, in seconds.
pub const HISTORY_SECONDS: usize = 60;

/// A view of a run in progress, called from the thread that collects: never on the I/O path.
pub trait Live {
    /// Returns the wrapped view, if any: it receives all calls that this view does not override.
    fn inner(&mut self) -> Option<&mut dyn Live> {
        None
    }

    /// Announces that the run is about to begin.
    fn start(&mut self, about: &About) {
        self.inner().into_iter().for_each(|view| view.start(about));
    }

    /// Reports the past second. Each stop request is answered by one [`Action::Stop`]; a second one
    /// stops the run at once, without draining.
    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.inner().map_or(Action::Continue, |view| view.update(snapshot))
    }

    /// Polls for keys: called as often as the runner can, about ten times a second, so that keys
    /// are answered between updates.
    fn poll(&mut self) -> Action {
        self.inner().map_or(Action::Continue, Live::poll)
    }

    /// Returns whether the view requests the interim result; called each second of the measured
    /// window.
    fn wants_result(&mut self) -> bool {
        self.inner().is_some_and(Live::wants_result)
    }

    /// Saves interim results in case the process is killed.
    fn keep(&mut self, so_far: RunResult) {
        if let Some(view) = self.inner() {
            view.keep(so_far);
        }
    }

    /// Returns whether the view requests each worker's second in the next snapshot, at the cost of
    /// one latency summary per worker.
    fn wants_workers(&mut self) -> bool {
        self.inner().is_some_and(Live::wants_workers)
    }

    /// Returns whether the view requests the histogram of each second.
    fn wants_buckets(&mut self) -> bool {
        self.inner().is_some_and(Live::wants_buckets)
    }

    /// Shows the honesty checks of an interim result. The view must not retain the result.
    fn judged(&mut self, so_far: &RunResult) {
        self.inner().into_iter().for_each(|view| view.judged(so_far));
    }

    /// Reports the failures of the run that is about to end, the earliest kind first.
    fn failed(&mut self, failures: &[Failure]) {
        self.inner().into_iter().for_each(|view| view.failed(failures));
    }

    /// Reports that the run has ended: the view releases the terminal.
    fn end(&mut self) {
        self.inner().into_iter().for_each(Live::end);
    }

    /// Reports the final result with all checks; called at most once, after [`end`](Self::end).
    fn finished(&mut self, result: &RunResult) {
        self.inner().into_iter().for_each(|view| view.finished(result));
    }
}

/// Request of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Continue the run.
    Continue,
    /// Stop, drain and write the result.
    Stop,
}

/// Facts that do not change during a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Kind of the job.
    pub job: Job,
    /// Origin of the numbers.
    pub origin: Origin,
    /// Least certain kind of the figures used for the numbers, as in the result.
    pub kind: Option<Kind>,
    /// Number of logical CPUs of the host.
    pub cores: u32,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before the measured window: caches, windows and queues fill.
    #[default]
    Ramp,
    /// In the measured window.
    Run,
    /// After the measured window: I/Os in flight are completed.
    Drain,
}

impl Phase {
    /// Returns the word for the phase.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Ramp => "ramp",
            Phase::Run => "run",
            Phase::Drain => "drain",
        }
    }
}

/// The last second of a run in progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Seconds since the phase began.
    pub t_s: f64,
    /// Phase of the run.
    pub phase: Phase,
    /// Seconds until the phase ends; `None` if unknown.
    pub seconds_left: Option<f64>,
    /// I/Os per second.
    pub iops: f64,
    /// Flushes per second, which are no I/Os.
    pub flush_iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Latencies in nanoseconds.
    pub latency_ns: Latency,
    /// Histogram of the latencies; only if [`Live::wants_buckets`].
    pub buckets: Option<Buckets>,
    /// Counters since the run began, the ramp included.
    pub counts: Counts,
    /// Rate of each target, or of each volume of local storage.
    pub targets: Vec<TargetRate>,
    /// Hosts that are slower than the others by more than noise, each with the likely reason.
    pub slower: Vec<String>,
    /// Second of each worker; empty unless [`Live::wants_workers`].
    pub workers: Vec<WorkerSecond>,
    /// CPU time.
    pub cpu: LiveCpu,
    /// Failed I/Os since the run began.
    pub errors: u64,
    /// Connections that were lost since the run began.
    pub connections_lost: u64,
    /// Reconnects since the run began.
    pub reconnects: u64,
    /// Mean number of I/Os in flight.
    pub outstanding: f64,
    /// Age of the oldest unanswered I/O, in nanoseconds; `None` if no I/O is in flight.
    pub oldest_ns: Option<u64>,
    /// I/Os per second of up to [`HISTORY_SECONDS`] past seconds, the oldest first.
    pub history: Vec<f64>,
}

/// Rate of one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetRate {
    /// Name of the target.
    pub name: String,
    /// I/Os per second.
    pub iops: f64,
}

/// Latest second of one worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerSecond {
    /// Name, such as "manager 1 worker 3".
    pub name: String,
    /// URI of the volume that the worker drives.
    pub volume: String,
    /// Target that serves the volume; empty for local storage.
    pub target: String,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// I/Os that ended in a fault.
    pub errors: u64,
    /// Latencies in nanoseconds.
    pub latency_ns: Latency,
    /// Age of the worker's oldest unanswered I/O, in nanoseconds; 0 if no I/O is in flight.
    pub oldest_ns: u64,
}

/// CPU time of the last second. "Cores" are CPU seconds per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveCpu {
    /// CPU cores that the workers used.
    pub initiator_cores: Option<f64>,
    /// CPU cores that the targets on this host used.
    pub target_cores: Option<f64>,
    /// CPU usage of the whole host, 0 to 100.
    pub host_percent: Option<f64>,
    /// Usage of each logical CPU, 0 to 100.
    pub per_core_percent: Vec<f64>,
}

impl LiveCpu {
    /// Returns the cores of initiator and target together; `None` if neither is known.
    pub fn cores(&self) -> Option<f64> {
        match (self.initiator_cores, self.target_cores) {
            (None, None) => None,
            (initiator, target) => Some(initiator.unwrap_or(0.0) + target.unwrap_or(0.0)),
        }
    }
}
