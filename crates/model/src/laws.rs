//! Laws that hold for every system, and the bounds that follow from them.

use crate::{ModelError, Network};

/// Little's law: mean number of requests present, from their rate and their time present.
pub fn population(throughput_per_s: f64, response_s: f64) -> f64 {
    throughput_per_s * response_s
}

/// Little's law: mean time present in seconds, from the number of requests and their rate.
pub fn response_s(population: f64, throughput_per_s: f64) -> f64 {
    population / throughput_per_s
}

/// Little's law: requests per second, from the number present and the time each is present.
pub fn throughput_per_s(population: f64, response_s: f64) -> f64 {
    population / response_s
}

/// What the classes can reach at most, whatever the distributions.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Per class, in the order of [`Network::classes`].
    pub classes: Vec<ClassBounds>,
    /// Most requests per second that all classes together can reach, in whatever mix.
    pub throughput_per_s_high: f64,
}

/// Bounds of one class, as if it were alone. Open classes: the highest rate that is stable.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassBounds {
    /// Asymptotic upper bound on requests per second: min(1 / max demand, N / (demand + think)).
    pub throughput_per_s_high: f64,
    /// Balanced job lower bound on requests per second (product form); 0 for open classes.
    pub throughput_per_s_low: f64,
    /// Response without any queueing, in seconds.
    pub response_s_low: f64,
    /// The station that limits it when there are many requests.
    pub bottleneck: crate::StationId,
    /// Population from which queueing is certain: (demand + think) / max demand.
    pub knee_population: f64,
}

/// Asymptotic and balanced job bounds of each class alone (Lazowska et al. 1984, chapter 5).
///
/// # Errors
///
/// What [`Network::check`] says.
pub fn bounds(_network: &Network) -> Result<Bounds, ModelError> {
    todo!()
}
