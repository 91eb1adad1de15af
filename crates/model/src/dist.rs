//! Service times: a mean and a distribution.

use block::Rng;

use crate::ModelError;
use crate::time::{PER_S, Picos};

/// Maximum mean service time, in seconds: longer ones are mistakes in units.
const MEAN_S_MAX: f64 = 1e6;
/// Maximum number of Erlang stages; more are practically constant.
const STAGES_MAX: u32 = 1000;
/// Maximum squared coefficient of variation: beyond it, no simulation of sensible length converges.
const SCV_MAX: f64 = 1000.0;
/// Maximum number of values of an empirical distribution.
const VALUES_MAX: usize = 1_000_000;

/// A service time: its mean, and its distribution around the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Mean in seconds, 0 to 10⁶.
    pub mean_s: f64,
    /// Distribution of the service time.
    pub shape: Shape,
}

/// A distribution of mean 1. Variants are listed with their squared coefficient of variation
/// (variance over mean²).
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Constant: coefficient 0.
    Deterministic,
    /// Sum of this number of exponential stages, 1 to 1000: coefficient 1 / stages.
    Erlang(u32),
    /// Memoryless: coefficient 1. Queueing theory is exact for this distribution.
    Exponential,
    /// Mixture of two exponentials with balanced means, with this coefficient, 1 to 1000.
    Hyperexponential(f64),
    /// Random choice of one of these values, at most 10⁶, all equally likely, scaled to the mean of
    /// the service.
    Empirical(Vec<f64>),
}

impl Service {
    /// Returns a constant service time of `mean_s` seconds.
    pub fn fixed(mean_s: f64) -> Service {
        Service { mean_s, shape: Shape::Deterministic }
    }

    /// Returns an exponential service time with a mean of `mean_s` seconds.
    pub fn exponential(mean_s: f64) -> Service {
        Service { mean_s, shape: Shape::Exponential }
    }

    /// Returns a service time of `stages` exponential stages with a total mean of `mean_s` seconds.
    pub fn erlang(stages: u32, mean_s: f64) -> Service {
        Service { mean_s, shape: Shape::Erlang(stages) }
    }

    /// Checks a service time; `place` names the service in an error.
    pub(crate) fn check(&self, place: impl Fn() -> String) -> Result<(), ModelError> {
        if !(0.0..=MEAN_S_MAX).contains(&self.mean_s) {
            let problem = format!("a mean of {} s; 0 to {MEAN_S_MAX} is possible", self.mean_s);
            return Err(ModelError::invalid(place(), problem));
        }
        self.shape.check(place)
    }

    /// Returns a sampler of the service time.
    pub(crate) fn sampler(&self) -> Sampler {
        let mean_ps = self.mean_s * PER_S;
        match &self.shape {
            Shape::Deterministic => Sampler::Fixed(Picos::round(mean_ps)),
            Shape::Erlang(stages) => Sampler::Erlang(*stages, mean_ps / f64::from(*stages)),
            Shape::Exponential => Sampler::Exponential(mean_ps),
            Shape::Hyperexponential(scv) => {
                // Balanced means: each branch contributes half of the mean (Allen 1990).
                let share = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt());
                let means = [0.5 * mean_ps / share, 0.5 * mean_ps / (1.0 - share)];
                Sampler::Hyperexponential(share, means)
            }
            Shape::Empirical(values) => {
                let scale = mean_ps / mean(values);
                Sampler::Empirical(values.iter().map(|v| Picos::round(v * scale)).collect())
            }
        }
    }
}

impl Shape {
    /// Returns the squared coefficient of variation: variance over mean², 0 for fixed, 1 for
    /// exponential.
    pub fn scv(&self) -> f64 {
        match self {
            Shape::Deterministic => 0.0,
            Shape::Erlang(stages) => 1.0 / f64::from(*stages),
            Shape::Exponential => 1.0,
            Shape::Hyperexponential(scv) => *scv,
            Shape::Empirical(values) => {
                let mean = mean(values);
                let squares: f64 = values.iter().map(|v| (v / mean - 1.0) * (v / mean - 1.0)).sum();
                squares / values.len() as f64
            }
        }
    }

    fn check(&self, place: impl Fn() -> String) -> Result<(), ModelError> {
        let problem = match self {
            Shape::Erlang(stages) if !(1..=STAGES_MAX).contains(stages) => {
                format!("{stages} stages; 1 to {STAGES_MAX} are possible")
            }
            Shape::Hyperexponential(scv) if !(1.0..=SCV_MAX).contains(scv) => {
                format!("an scv of {scv}; 1 to {SCV_MAX} is possible")
            }
            Shape::Empirical(values) if !(1..=VALUES_MAX).contains(&values.len()) => {
                format!("{} values; 1 to {VALUES_MAX} are possible", values.len())
            }
            Shape::Empirical(values) => {
                match values.iter().find(|v| !(0.0..=MEAN_S_MAX).contains(*v)) {
                    Some(v) => format!("a value of {v}; 0 to {MEAN_S_MAX} is possible"),
                    None if mean(values) < 1e-12 => "values that are all zero".to_owned(),
                    None => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        Err(ModelError::invalid(place(), problem))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A sampler of service times, in picoseconds.
#[derive(Clone, Debug)]
pub(crate) enum Sampler {
    Fixed(Picos),
    Exponential(f64),
    Erlang(u32, f64),
    /// Probability of the first branch, and the mean of each branch.
    Hyperexponential(f64, [f64; 2]),
    Empirical(Vec<Picos>),
}

impl Sampler {
    /// Draws a service time.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> Picos {
        match self {
            Sampler::Fixed(span) => *span,
            Sampler::Exponential(mean) => Picos::round(mean * rng.exponential()),
            Sampler::Erlang(stages, mean) => Picos::round(mean * rng.erlang(*stages)),
            Sampler::Hyperexponential(share, means) => {
                let mean = means[usize::from(rng.uniform() >= *share)];
                Picos::round(mean * rng.exponential())
            }
            Sampler::Empirical(spans) => spans[rng.below(spans.len() as u64) as usize],
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn draws_have_mean_and_variation() {
        let shapes = [
            Shape::Deterministic,
            Shape::Erlang(4),
            Shape::Erlang(1000),
            Shape::Exponential,
            Shape::Hyperexponential(4.0),
            Shape::Empirical(vec![1.0, 2.0, 9.0]),
        ];
        for shape in shapes {
            let service = Service { mean_s: 1e-4, shape };
            service.check(|| "here".to_owned()).unwrap();
            let (sampler, mut rng) = (service.sampler(), Rng::new(5, 0));
            let draws: Vec<f64> =
                (0..50_000).map(|_| sampler.draw(&mut rng).as_secs_f64() / 1e-4).collect();
            let found = mean(&draws);
            let scv = draws.iter().map(|x| (x / found - 1.0).powi(2)).sum::<f64>() / 5e4;
            let expected = service.shape.scv();
            // Tolerance of the mean: five standard errors; the variance needs more, because of the
            // kurtosis.
            assert!((found - 1.0).abs() <= 5.0 * (expected / 5e4).sqrt() + 1e-7, "{service:?}");
            assert!((scv - expected).abs() <= 0.1 * expected, "{service:?}: {scv}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let wrong = [
            Service::fixed(f64::NAN),
            Service::fixed(-1e-9),
            Service::fixed(1e7),
            Service::erlang(0, 1.0),
            Service { mean_s: 1.0, shape: Shape::Hyperexponential(0.5) },
            Service { mean_s: 1.0, shape: Shape::Empirical(vec![]) },
            Service { mean_s: 1.0, shape: Shape::Empirical(vec![0.0]) },
            Service { mean_s: 1.0, shape: Shape::Empirical(vec![1.0, f64::INFINITY]) },
        ];
        for service in wrong {
            assert!(service.check(|| "here".to_owned()).is_err(), "{service:?}");
        }
    }
}
