//! What a run shows while it runs.
//!
//! The runner calls a [`Live`] view; it does not know what the view looks like. The views are in
//! the `report` crate.

mod counts;

use crate::failures::Failure;
use crate::histogram::Latency;
use crate::kind::Kind;
use crate::run::{Job, Origin, RunResult};

pub use self::counts::{Counts, DirectionCounts, EDGES, EDGES_NS};

/// Seconds of the past that a view shows.
pub const HISTORY_SECONDS: usize = 60;

/// A view of a run in progress, called from the thread that collects: never on the I/O path.
pub trait Live {
    /// The view around which this one is, if any: it gets all calls that this one does not take.
    fn inner(&mut self) -> Option<&mut dyn Live> {
        None
    }

    /// The run is about to begin.
    fn start(&mut self, about: &About) {
        self.inner().into_iter().for_each(|view| view.start(about));
    }

    /// A second has passed. Each stop request is answered by one [`Action::Stop`]; a second one
    /// means: at once, without draining.
    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.inner().map_or(Action::Continue, |view| view.update(snapshot))
    }

    /// Called as often as the runner can, some ten times a second, so that keys are answered
    /// between updates.
    fn poll(&mut self) -> Action {
        self.inner().map_or(Action::Continue, Live::poll)
    }

    /// Whether the result as it would be now is wanted; asked each second of the measured window.
    fn wants_result(&mut self) -> bool {
        self.inner().is_some_and(Live::wants_result)
    }

    /// Keeps interim results for a process that is killed.
    fn keep(&mut self, so_far: RunResult) {
        if let Some(view) = self.inner() {
            view.keep(so_far);
        }
    }

    /// Whether each worker's own second is wanted in the next snapshot: that costs a summary of its
    /// latencies each.
    fn wants_workers(&mut self) -> bool {
        self.inner().is_some_and(Live::wants_workers)
    }

    /// How the checks stand by a result so far, of which the view gets no more than this look.
    fn judged(&mut self, so_far: &RunResult) {
        self.inner().into_iter().for_each(|view| view.judged(so_far));
    }

    /// What failed in the run that is about to end, the earliest kind first.
    fn failed(&mut self, failures: &[Failure]) {
        self.inner().into_iter().for_each(|view| view.failed(failures));
    }

    /// The run has ended: the view gives the terminal back.
    fn end(&mut self) {
        self.inner().into_iter().for_each(Live::end);
    }

    /// What it came to, with all checks; called once behind [`end`](Self::end), if at all.
    fn finished(&mut self, result: &RunResult) {
        self.inner().into_iter().for_each(|view| view.finished(result));
    }
}

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Go on.
    Continue,
    /// Stop, drain and write the result.
    Stop,
}

/// What does not change during a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// What kind of job it is.
    pub job: Job,
    /// How the numbers come about.
    pub origin: Origin,
    /// As in the result: the least sure kind of the figures that they rest on.
    pub kind: Option<Kind>,
    /// Logical processors of the host.
    pub cores: u32,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured window: caches, windows and queues fill.
    #[default]
    Ramp,
    /// In the measured window.
    Run,
    /// After it: I/Os in flight are completed.
    Drain,
}

impl Phase {
    /// The word for it.
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
    /// Which phase.
    pub phase: Phase,
    /// Seconds until the phase ends; `None` when nobody knows.
    pub seconds_left: Option<f64>,
    /// I/Os per second.
    pub iops: f64,
    /// Flushes per second, which are no I/Os.
    pub flush_iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Latencies in nanoseconds.
    pub latency_ns: Latency,
    /// What the run has done since it began, the ramp included.
    pub counts: Counts,
    /// Each target, or each volume of local storage.
    pub targets: Vec<TargetRate>,
    /// Each worker by itself; empty unless [`Live::wants_workers`].
    pub workers: Vec<WorkerSecond>,
    /// Processor time.
    pub cpu: LiveCpu,
    /// Failed I/Os since the run began.
    pub errors: u64,
    /// Connections that were lost since the run began.
    pub connections_lost: u64,
    /// Connections that were made again since the run began.
    pub reconnects: u64,
    /// Mean number of I/Os in flight.
    pub outstanding: f64,
    /// For how long the oldest I/O has had no answer, in nanoseconds; `None` while nothing waits.
    pub oldest_ns: Option<u64>,
    /// I/Os per second of up to [`HISTORY_SECONDS`] past seconds, the oldest first.
    pub history: Vec<f64>,
}

/// How fast one target was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetRate {
    /// Its name.
    pub name: String,
    /// I/Os per second.
    pub iops: f64,
}

/// What one worker did in its last second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerSecond {
    /// As "manager 1 worker 3".
    pub name: String,
    /// URI of the volume it drives.
    pub volume: String,
    /// Target that serves it; empty for local storage.
    pub target: String,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// I/Os that ended in a fault.
    pub errors: u64,
    /// Latencies in nanoseconds.
    pub latency_ns: Latency,
    /// For how long its oldest I/O has had no answer, in nanoseconds; 0 while nothing waits.
    pub oldest_ns: u64,
}

/// Processor time of the last second. "Cores" are CPU seconds per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveCpu {
    /// Cores that the workers used.
    pub initiator_cores: Option<f64>,
    /// Cores that the targets on this host used.
    pub target_cores: Option<f64>,
    /// Use of the whole host, 0 to 100.
    pub host_percent: Option<f64>,
    /// Use of each logical processor, 0 to 100.
    pub per_core_percent: Vec<f64>,
}

impl LiveCpu {
    /// Cores of initiator and target together; `None` when neither is known.
    pub fn cores(&self) -> Option<f64> {
        match (self.initiator_cores, self.target_cores) {
            (None, None) => None,
            (initiator, target) => Some(initiator.unwrap_or(0.0) + target.unwrap_or(0.0)),
        }
    }
}
