//! Runs a spec on this host: starts the threads, collects every second, judges at the end.

mod check;
mod crew;
mod gather;
mod notes;
mod read_in;
mod result;
mod standstill;
mod under_way;

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
use self::under_way::Run;
use crate::activity::Recording;
use crate::engine::Stop;
use crate::records::{Desk, SharedScribe};
use crate::run::Prepared;
use job::spec::AccessError;

/// How long a run may go on after its time for the flushes that it ends with: a day in seconds.
pub(crate) const OVERTIME_SECONDS: f64 = 86_400.0;

/// Runs specs: on this host, or in a model of one.
pub trait Runner {
    /// Runs it and shows it in `live`.
    ///
    /// # Errors
    ///
    /// [`RunError`] when there is no result at all.
    fn run(&mut self, run: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError>;
}

/// Runs specs on the cores of this host.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// Ends the run early.
    pub stop: Stop,
    /// Writes down the I/Os of workers whose job wants that.
    pub scribe: Option<SharedScribe>,
    /// Writes down what the cores do.
    pub recording: Option<Recording>,
    /// Called when all lanes are open and the first I/O of the job could begin: who measures in
    /// several processes lets them begin together.
    pub gate: Option<fn()>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The access specification does not fit a volume.
    #[error("{uri}: {error}")]
    Access {
        /// Which volume.
        uri: String,
        /// Why.
        error: AccessError,
    },
    /// Nothing to do.
    #[error("{0}")]
    Nothing(&'static str),
    /// A lane or a core could not be opened.
    #[error("{0}")]
    Open(String),
    /// What volumes should hold cannot be kept.
    #[error("the ledger of what was written, {path}: {error}")]
    Ledger {
        /// Where it is.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A system that exists as a model only cannot do this.
    #[error("cannot be simulated: {0}")]
    Model(String),
    /// A thread could not be started.
    #[error("cannot start")]
    Start(#[from] std::io::Error),
}

impl Engine {
    /// Runs it and shows it in `live`. A run that ends early has a result too: its `partial`
    /// says why.
    pub fn run(&self, prepared: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError> {
        check(&prepared)?;
        let cached = read_in::read_in(&prepared, &self.stop)?;
        let prepared = Arc::new(prepared);
        let desk = Desk::start(&prepared.spec, self.scribe.as_ref())?;
        let mut crew = Crew::start(&prepared, desk.as_ref(), self.recording.as_ref())?;
        let mut run = Run::new(&prepared, &crew, self.stop.clone());
        let measured = run.go(&crew, desk.as_ref(), self.gate, live);
        let waits = (patience(&prepared), run.asked);
        let (rests, hurried) = crew.join(&self.stop, waits, &mut || run.poll(live));
        run.take(rests, hurried);
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

/// How long I/Os in flight at the end are waited for: a little longer than the volumes wait for
/// answers, so that these tell what is wrong. The kernel gives a device as long by itself.
pub(crate) fn patience(run: &Prepared) -> Nanos {
    const OF_DEVICES: Nanos = Nanos::from_secs(30);
    const LONGER: Nanos = Nanos::from_secs(1);
    let own = |volume: &Arc<dyn Volume>| volume.io_timeout().unwrap_or(OF_DEVICES);
    run.driven().map(own).max().unwrap_or(OF_DEVICES) + LONGER
}

/// Where the ledger of the n-th volume of a run is kept.
pub(crate) fn ledger_path(folder: &Path, volume: usize) -> PathBuf {
    folder.join(format!("volume-{}.ledger", volume + 1))
}
