//! How long a service takes: a mean and a shape.

/// A service time: its mean, and how it scatters around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Mean in seconds, 0 to 10⁶.
    pub mean_s: f64,
    /// Its distribution.
    pub shape: Shape,
}

/// A distribution of mean 1, by its squared coefficient of variation (variance over mean²).
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Always the mean: 0.
    Deterministic,
    /// Sum of this many exponential stages, 1 to 1000: 1 / stages.
    Erlang(u32),
    /// Without memory: 1. What queueing theory is exact for.
    Exponential,
    /// Two exponentials with balanced means, of this squared coefficient of variation, 1 to 1000.
    Hyperexponential(f64),
    /// Drawn from these values, equally likely; scaled to the mean of the service. At most 10⁶.
    Empirical(Vec<f64>),
}

impl Service {
    /// A service that always takes `mean_s` seconds.
    pub fn fixed(mean_s: f64) -> Service {
        Service { mean_s, shape: Shape::Deterministic }
    }

    /// An exponential service with a mean of `mean_s` seconds.
    pub fn exponential(mean_s: f64) -> Service {
        Service { mean_s, shape: Shape::Exponential }
    }

    /// A service of `stages` exponential stages that together take `mean_s` seconds on average.
    pub fn erlang(stages: u32, mean_s: f64) -> Service {
        Service { mean_s, shape: Shape::Erlang(stages) }
    }
}

impl Shape {
    /// Squared coefficient of variation: variance over mean², 0 for fixed, 1 for exponential.
    pub fn scv(&self) -> f64 {
        todo!()
    }
}
