//! Event by event: what theory cannot say.

use crate::{ClassId, ModelError, Network, Picos, Solution};

/// How long a simulation runs, and its chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Same seed, same network: same bits, on every machine.
    pub seed: u64,
    /// Requests done before anything counts.
    pub warmup: u64,
    /// Requests done while it counts, at least 100.
    pub requests: u64,
}

/// A request that is done, for a histogram or a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its class.
    pub class: ClassId,
    /// When it was done.
    pub at: Picos,
    /// From issue to done.
    pub latency: Picos,
}

/// A mean and the half width of its 99 % confidence interval, by batch means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The interval is `mean` ± this.
    pub half_width: f64,
}

/// What a simulation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// The means.
    pub solution: Solution,
    /// Simulated time that counted.
    pub span: Picos,
    /// Requests done per second with their interval, per class.
    pub throughput_per_s: Vec<Estimate>,
    /// Mean response in seconds with its interval, per class.
    pub response_s: Vec<Estimate>,
}

/// Runs `network`; `done` sees every request that counts, in the order of time.
///
/// # Errors
///
/// What [`Network::check`] says, and [`ModelError::Overload`] or [`ModelError::TooLarge`] when
/// open classes pile up.
pub fn simulate(
    _network: &Network,
    _run: Run,
    _done: impl FnMut(Completion),
) -> Result<Simulated, ModelError> {
    todo!()
}
