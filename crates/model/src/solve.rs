//! Means by queueing theory.

use crate::{ModelError, Network};

/// How a network is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Exact where that is quick, Linearizer otherwise.
    Auto,
    /// Exact mean value analysis.
    Exact,
    /// Linearizer (Chandy and Neuse 1982).
    Linearizer,
    /// Bard–Schweitzer.
    Schweitzer,
}

/// Why the means of a solution are not exact for the network as it was described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// The method itself is an approximation.
    Approximate,
    /// Service at this station was taken as exponential, which it is not.
    NotExponential(crate::StationId),
    /// Classes have different mean services at this first-come-first-served station.
    UnequalService(crate::StationId),
    /// Several servers were split into one fast server and a delay (Seidmann).
    SplitServers(crate::StationId),
    /// The station's reserve was taken as never empty.
    ReserveIgnored(crate::StationId),
}

/// Means of a network: the same figures from theory and from a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The method that was used, never [`Method::Auto`]; `None` for a simulation.
    pub method: Option<Method>,
    /// In the order of [`Network::classes`].
    pub classes: Vec<ClassResult>,
    /// In the order of [`Network::stations`].
    pub stations: Vec<StationResult>,
    /// What keeps the figures from being exact; empty: they are.
    pub caveats: Vec<Caveat>,
}

/// Means of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassResult {
    /// Requests done per second.
    pub throughput_per_s: f64,
    /// From issue to done, in seconds, thinking not included.
    pub response_s: f64,
    /// Requests between issue and done.
    pub outstanding: f64,
}

/// Means of one station.
#[derive(Clone, Debug, PartialEq)]
pub struct StationResult {
    /// Share of its servers that are busy, 0 to 1; for a delay the mean number present.
    pub utilisation: f64,
    /// Requests waiting or in service.
    pub present: f64,
    /// Requests per second that leave it.
    pub throughput_per_s: f64,
    /// Time a request spends here over its whole way, per class, in seconds.
    pub residence_s: Vec<f64>,
}

impl Solution {
    /// Requests of all classes done per second.
    pub fn throughput_per_s(&self) -> f64 {
        self.classes.iter().map(|class| class.throughput_per_s).sum()
    }

    /// Mean response over the requests of all classes, in seconds.
    pub fn response_s(&self) -> f64 {
        let outstanding: f64 = self.classes.iter().map(|class| class.outstanding).sum();
        outstanding / self.throughput_per_s()
    }
}

/// Solves a network of closed classes, open classes, or both.
///
/// # Errors
///
/// What [`Network::check`] says; [`ModelError::NotProductForm`] for routes that hold or fork;
/// [`ModelError::Overload`] for open classes; [`ModelError::TooLarge`] for [`Method::Exact`].
pub fn solve(_network: &Network, _method: Method) -> Result<Solution, ModelError> {
    todo!()
}
