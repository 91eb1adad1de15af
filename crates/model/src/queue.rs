//! Single stations with known formulas.

use crate::ModelError;

/// Means of one open station.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Share of time that a server is busy.
    pub utilisation: f64,
    /// Mean number of requests waiting or in service.
    pub present: f64,
    /// Mean time waiting and in service, in seconds.
    pub response_s: f64,
    /// Probability that an arrival has to wait.
    pub waits: f64,
}

/// M/M/c: Poisson arrivals, exponential service, `servers` servers (Erlang's C formula).
///
/// # Errors
///
/// [`ModelError::Overload`] at or beyond saturation, [`ModelError::Invalid`] for absurd values.
pub fn mmc(_rate_per_s: f64, _service_s: f64, _servers: u32) -> Result<Means, ModelError> {
    todo!()
}

/// M/G/1: Poisson arrivals, one server, service of squared coefficient of variation `scv`
/// (Pollaczek–Khinchine).
///
/// # Errors
///
/// As [`mmc`].
pub fn mg1(_rate_per_s: f64, _service_s: f64, _scv: f64) -> Result<Means, ModelError> {
    todo!()
}

/// Machine repairman: `population` machines that run for `think_s`, one repairman that takes
/// `service_s`; the throughput in repairs per second.
///
/// # Errors
///
/// [`ModelError::Invalid`] for absurd values.
pub fn repairman(_population: u32, _think_s: f64, _service_s: f64) -> Result<f64, ModelError> {
    todo!()
}
