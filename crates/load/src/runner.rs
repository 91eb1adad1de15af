//! Runs a spec on this host: starts threads, collects every second, judges at the end.

mod check;
mod crew;
mod gather;
mod notes;
mod progress;
mod read_in;
mod result;
mod shared;
mod standstill;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::Nanos;
use stats::RunResult;
use stats::live::Live;
use volume::Volume;

pub(crate) use self::check::check;
use self::crew::Crew;
pub(crate) use self::crew::ledgers;
pub(crate) use self::notes::{steadiness, unanswered_ios};
use self::progress::Run;
use crate::activity::Recording;
use crate::engine::Stop;
use crate::records::{Desk, SharedScribe};
use crate::run::Prepared;
use job::spec::AccessError;

/// Time limit of the final flushes after a run, in seconds: a day.
pub(crate) const OVERTIME_SECONDS: f64 = 86_400.0;

/// Time limit for I/Os in flight once the user requested an end.
const STOPPING: Nanos = Nanos::from_millis(800);

/// Runs specs: on this host, or in a model.
pub trait Runner {
    /// Runs the prepared run, with `live` as its view.
    ///
    /// # Errors
    ///
    /// [`RunError`] if there is no result at all.
    fn run(&mut self, run: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError>;
}

/// Runs specs on the cores of this host.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// Ends the run early.
    pub stop: Stop,
    /// Writes logs of I/Os, for jobs that request them.
    pub scribe: Option<SharedScribe>,
    /// Records the cores' activity.
    pub recording: Option<Recording>,
    /// Holds the run back once all lanes are open: lets several processes start together.
    pub gate: Option<Arc<dyn Gate>>,
    /// Reads random places of the volumes before and after the run, to detect whether a cache
    /// served them (H25).
    pub cold_reads: bool,
    /// Makes the result one of several hosts'.
    pub shared: Option<Shared>,
}

/// Holds a run back until others are ready, too.
pub trait Gate: std::fmt::Debug + Send + Sync {
    /// Waits, called once all lanes are open and before the first I/O of the job, until others are
    /// ready or `stop` is asked; `poll` handles keys. Returns the instant of the clock of the cores
    /// at which the measured window is to begin, if one is planned.
    fn wait(&self, stop: &Stop, poll: &mut dyn FnMut()) -> Option<Nanos>;
}

/// A run of which other hosts do a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Instant at which the measured window begins, in Unix nanoseconds; the ramp comes before it.
    pub start_ns: Option<u64>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The access specification does not fit a volume.
    #[error("{uri}: {error}")]
    Access {
        /// The volume.
        uri: String,
        /// Why.
        error: AccessError,
    },
    /// The run has no work.
    #[error("{0}")]
    Nothing(&'static str),
    /// A lane or a core could not be opened.
    #[error("{0}")]
    Open(String),
    /// A ledger cannot be kept.
    #[error("the ledger of writes, {path}: {error}")]
    Ledger {
        /// Path of the ledger.
        path: String,
        /// Cause.
        error: std::io::Error,
    },
    /// A simulated system does not support this.
    #[error("cannot be simulated: {0}")]
    Model(String),
    /// A thread could not be started.
    #[error("cannot start")]
    Start(#[from] std::io::Error),
}

impl Engine {
    /// Runs the prepared run, with `live` as its view. A run that ends early has a result, too,
    /// with the reason in `partial`.
    pub fn run(&self, prepared: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError> {
        check(&prepared)?;
        let cached = read_in::read_in(&prepared, &self.stop)?;
        let prepared = Arc::new(prepared);
        let desk = Desk::start(&prepared.spec, self.scribe.as_ref())?;
        let mut crew = Crew::start(&prepared, desk.as_ref(), self.recording.as_ref())?;
        let mut run = Run::new(&prepared, &crew, self.stop.clone());
        run.cold_reads = self.cold_reads;
        run.shared = self.shared;
        let measured = run.go(&crew, desk.as_ref(), self.gate.as_deref(), live);
        let patience = patience(&prepared);
        // After a request to end, a volume that hangs delays the end only for a short time.
        let waits = (if run.asked > 0 { patience.min(STOPPING) } else { patience }, run.asked);
        let (rests, hurried) = crew.join(&self.stop, waits, &mut || run.poll(live));
        run.take(rests, hurried);
        run.look_again(&measured);
        let mut result = run.end(&measured, live);
        result.warnings.extend(cached);
        result.warnings.extend(desk.map(Desk::finish).unwrap_or_default());
        Ok(result)
    }
}

impl Runner for Engine {
    fn run(&mut self, run: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError> {
        Engine::run(self, run, live)
    }
}

/// Time limit for I/Os in flight at the end: a little longer than the volumes' time-outs, so that
/// these report the cause. The kernel's time-out of a device is as long.
pub(crate) fn patience(run: &Prepared) -> Nanos {
    const OF_DEVICES: Nanos = Nanos::from_secs(30);
    const LONGER: Nanos = Nanos::from_secs(1);
    let own = |volume: &Arc<dyn Volume>| volume.io_timeout().unwrap_or(OF_DEVICES);
    run.driven().map(own).max().unwrap_or(OF_DEVICES) + LONGER
}

/// Path of the ledger of the n-th volume of a run.
pub(crate) fn ledger_path(folder: &Path, volume: usize) -> PathBuf {
    folder.join(format!("volume-{}.ledger", volume + 1))
}
