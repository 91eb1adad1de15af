//! The universal scalability law (Gunther 1993): throughput of n workers, ports or devices.

/// X(n) = γ n / (1 + σ (n − 1) + κ n (n − 1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// γ: throughput of one worker, per second.
    pub single_per_s: f64,
    /// σ: share of the work that is serial, at least 0.
    pub contention: f64,
    /// κ: cost of coherence, at least 0.
    pub coherence: f64,
}

impl Scalability {
    /// Returns the throughput of `n` workers together, per second; `n` must be at least 1.
    pub fn throughput_per_s(&self, n: f64) -> f64 {
        self.single_per_s * n / (1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0))
    }
}
