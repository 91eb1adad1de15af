//! The universal scalability law (Gunther 1993): what n workers, ports or devices reach together.

use crate::ModelError;

/// X(n) = γ n / (1 + σ (n − 1) + κ n (n − 1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// γ: throughput of one, per second.
    pub single_per_s: f64,
    /// σ: share of the work that is serial, at least 0.
    pub contention: f64,
    /// κ: cost of agreeing with each other, at least 0.
    pub coherence: f64,
}

/// A fitted law with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalabilityFit {
    /// The best law.
    pub law: Scalability,
    /// Lower ends of the 95 % intervals, parameter by parameter.
    pub low: Scalability,
    /// Upper ends of the 95 % intervals, parameter by parameter.
    pub high: Scalability,
    /// Root mean square of the relative errors at the points of the fit.
    pub rms: f64,
    /// Whether `coherence` was fitted; with fewer than five points it is held at 0.
    pub coherence_fitted: bool,
    draws: Vec<Scalability>,
}

impl Scalability {
    /// Throughput of `n` together, per second.
    pub fn throughput_per_s(&self, _n: f64) -> f64 {
        todo!()
    }

    /// The `n` with the highest throughput; `None` when more always helps.
    pub fn peak(&self) -> Option<f64> {
        todo!()
    }
}

impl ScalabilityFit {
    /// The 95 % interval of the throughput of `n` together, per second.
    pub fn interval_per_s(&self, _n: f64) -> (f64, f64) {
        let _ = &self.draws;
        todo!()
    }
}

/// Fits the law to points (n, throughput per second) by relative least squares, contention and
/// coherence at least 0; the intervals come from a bootstrap of the residuals with `seed`.
///
/// # Errors
///
/// [`ModelError::Invalid`] for fewer than two points or values that are not positive.
pub fn fit(_points: &[(f64, f64)], _seed: u64) -> Result<ScalabilityFit, ModelError> {
    todo!()
}
