//! The universal scalability law (Gunther 1993): throughput of n workers, ports or devices.

use block::Rng;

use crate::ModelError;

/// Fewest points to fit coherence: with fewer it follows the noise, and extrapolates far worse than
/// a law without it.
const POINTS_FOR_COHERENCE: usize = 5;
/// Maximum number of points.
const POINTS_MAX: usize = 10_000;
/// Bootstrap samples: the ends of a 95 % interval are the 25th and the 975th.
const DRAWS: usize = 999;

/// X(n) = γ n / (1 + σ (n − 1) + κ n (n − 1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// γ: throughput of one, per second.
    pub single_per_s: f64,
    /// σ: share of the work that is serial, at least 0.
    pub contention: f64,
    /// κ: cost of coherence, at least 0.
    pub coherence: f64,
}

/// A fitted law with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalabilityFit {
    /// The best law.
    pub law: Scalability,
    /// Lower ends of the 95 % intervals, parameter by parameter.
    pub low: Scalability,
    /// Upper ends of the 95 % intervals, parameter by parameter; infinite without more points than
    /// parameters.
    pub high: Scalability,
    /// Root mean square of the relative errors at the points of the fit.
    pub rms: f64,
    /// Whether `coherence` was fitted; with fewer than five points it is 0.
    pub coherence_fitted: bool,
    draws: Vec<Scalability>,
}

impl Scalability {
    /// Throughput of `n` together, per second; `n` at least 1.
    pub fn throughput_per_s(&self, n: f64) -> f64 {
        self.single_per_s * n / (1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0))
    }

    /// The `n` with the highest throughput; `None` if more always helps.
    pub fn peak(&self) -> Option<f64> {
        (self.coherence > 0.0)
            .then(|| ((1.0 - self.contention).max(0.0) / self.coherence).sqrt().max(1.0))
    }
}

impl ScalabilityFit {
    /// The 95 % interval of the throughput of `n` together, per second; from 0 to infinity without
    /// more points than parameters.
    pub fn interval_per_s(&self, n: f64) -> (f64, f64) {
        interval(&self.draws, |law| law.throughput_per_s(n))
    }
}

/// Fits the law to points (n, throughput per second) by relative least squares, contention and
/// coherence at least 0; the intervals come from a bootstrap of the residuals with `seed`, widened
/// as Student's t asks for few points.
///
/// # Errors
///
/// [`ModelError::Invalid`] for fewer than two different n or values that are not positive.
pub fn fit(points: &[(f64, f64)], seed: u64) -> Result<ScalabilityFit, ModelError> {
    check(points)?;
    let coherence_fitted = points.len() >= POINTS_FOR_COHERENCE;
    let law = best(points, coherence_fitted);
    let residuals: Vec<f64> =
        points.iter().map(|(n, y)| law.throughput_per_s(*n) / y - 1.0).collect();
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let freedom = points.len().saturating_sub(2 + usize::from(coherence_fitted));
    let mut draws = Vec::new();
    if freedom > 0 {
        // Residuals are smaller than errors by the degrees of freedom used.
        let widen = (points.len() as f64 / freedom as f64).sqrt() * student(freedom) / 1.96;
        let mut rng = Rng::new(seed, 0);
        for _ in 0..DRAWS {
            let draw = |(n, _): &(f64, f64)| {
                let error = residuals[rng.below(residuals.len() as u64) as usize] * widen;
                (*n, law.throughput_per_s(*n) / (1.0 + error).max(0.1))
            };
            let drawn: Vec<(f64, f64)> = points.iter().map(draw).collect();
            draws.push(best(&drawn, coherence_fitted));
        }
    }
    let ends = |value: fn(&Scalability) -> f64| interval(&draws, value);
    let single = ends(|law| law.single_per_s);
    let contention = ends(|law| law.contention);
    let coherence = if coherence_fitted { ends(|law| law.coherence) } else { (0.0, 0.0) };
    let corner = |end: fn((f64, f64)) -> f64| Scalability {
        single_per_s: end(single),
        contention: end(contention),
        coherence: end(coherence),
    };
    Ok(ScalabilityFit {
        law,
        low: corner(|ends| ends.0),
        high: corner(|ends| ends.1),
        rms: (squares / points.len() as f64).sqrt(),
        coherence_fitted,
        draws,
    })
}

fn check(points: &[(f64, f64)]) -> Result<(), ModelError> {
    let sane = |(n, y): &(f64, f64)| (1.0..=1e9).contains(n) && (1e-12..=1e15).contains(y);
    let problem = if let Some((n, y)) = points.iter().find(|point| !sane(point)) {
        format!("the point ({n}, {y}): n from 1 and a positive throughput are needed")
    } else if points.len() > POINTS_MAX {
        format!("{} points; {POINTS_MAX} are possible", points.len())
    } else if points.iter().all(|(n, _)| *n == points[0].0) {
        "points at two different n are needed".to_owned()
    } else {
        return Ok(());
    };
    Err(ModelError::invalid("scalability", problem))
}

/// The law with the least squares of (measured / law − 1).
///
/// n / X = (1 + σ (n − 1) + κ n (n − 1)) / γ is a sum of three terms with non-negative factors, so
/// the best is found among few: with and without each.
fn best(points: &[(f64, f64)], with_coherence: bool) -> Scalability {
    let terms = |(n, y): &(f64, f64)| [1.0, n - 1.0, n * (n - 1.0)].map(|term| term * y / n);
    let rows: Vec<[f64; 3]> = points.iter().map(terms).collect();
    let choices: &[&[usize]] =
        if with_coherence { &[&[0], &[0, 1], &[0, 2], &[0, 1, 2]] } else { &[&[0], &[0, 1]] };
    let mut least = (f64::INFINITY, [1.0, 0.0, 0.0]);
    for choice in choices {
        let Some(factors) = regress(&rows, choice) else { continue };
        let off = |row: &[f64; 3]| {
            let law: f64 = row.iter().zip(&factors).map(|(term, factor)| term * factor).sum();
            (law - 1.0) * (law - 1.0)
        };
        let sum: f64 = rows.iter().map(off).sum();
        // Further terms must improve beyond rounding.
        if sum < least.0 * (1.0 - 1e-9) {
            least = (sum, factors);
        }
    }
    let [one, serial, agree] = least.1;
    Scalability { single_per_s: 1.0 / one, contention: serial / one, coherence: agree / one }
}

/// Factors of the chosen terms that bring the rows closest to 1; `None` if one is not positive.
fn regress(rows: &[[f64; 3]], choice: &[usize]) -> Option<[f64; 3]> {
    // Gram–Schmidt, which keeps digits that normal equations lose.
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut upper = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for (j, term) in choice.iter().enumerate() {
        let mut column: Vec<f64> = rows.iter().map(|row| row[*term]).collect();
        let whole = dot(&column, &column).sqrt();
        for (i, unit) in basis.iter().enumerate() {
            upper[i][j] = dot(unit, &column);
            column.iter_mut().zip(unit).for_each(|(c, u)| *c -= upper[i][j] * u);
        }
        let length = dot(&column, &column).sqrt();
        if length <= 1e-12 * whole {
            return None;
        }
        upper[j][j] = length;
        column.iter_mut().for_each(|c| *c /= length);
        right[j] = column.iter().sum();
        basis.push(column);
    }
    let mut factors = [0.0; 3];
    for j in (0..choice.len()).rev() {
        let known: f64 = (j + 1..choice.len()).map(|k| upper[j][k] * factors[choice[k]]).sum();
        factors[choice[j]] = (right[j] - known) / upper[j][j];
    }
    choice.iter().all(|term| factors[*term] > 0.0).then_some(factors)
}

fn interval(draws: &[Scalability], value: impl Fn(&Scalability) -> f64) -> (f64, f64) {
    if draws.is_empty() {
        return (0.0, f64::INFINITY);
    }
    let mut values: Vec<f64> = draws.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let tail = (values.len() + 1) / 40;
    (values[tail - 1], values[values.len() - tail])
}

/// Student's t, 2.5 % on either side.
pub(crate) fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    // Beyond the table the expansion of Fisher and Cornish is right to 0.1 %.
    let tail = 1.96 + 2.37 / freedom as f64 + 2.8 / (freedom * freedom) as f64;
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(tail)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn finds_its_own_law() {
        let law = Scalability { single_per_s: 1e5, contention: 0.02, coherence: 3e-4 };
        let points: Vec<(f64, f64)> =
            [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|n| (n, law.throughput_per_s(n))).to_vec();
        let found = fit(&points, 1).unwrap();
        assert!((found.law.single_per_s / 1e5 - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.law.contention / 0.02 - 1.0).abs() < 1e-6, "{found:?}");
        assert!((found.law.coherence / 3e-4 - 1.0).abs() < 1e-6, "{found:?}");
        assert!((law.peak().unwrap() - (0.98_f64 / 3e-4).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn through_two_points_it_is_amdahls() {
        // 93 000 alone and 730 000 of eight: σ = (8·93/730 − 1)/7.
        let found = fit(&[(1.0, 93e3), (8.0, 730e3)], 1).unwrap();
        assert!((found.law.contention - (744.0 / 730.0 - 1.0) / 7.0).abs() < 1e-12);
        assert!(!found.coherence_fitted && found.law.peak().is_none());
        assert_eq!(found.interval_per_s(16.0), (0.0, f64::INFINITY));
    }

    #[test]
    fn gains_beyond_linear_count_as_none() {
        let found = fit(&[(1.0, 100.0), (2.0, 210.0), (4.0, 430.0)], 1).unwrap();
        assert_eq!((found.law.contention, found.law.coherence), (0.0, 0.0));
    }

    #[test]
    fn intervals_hold_the_law_that_made_the_points() {
        let law = Scalability { single_per_s: 1e5, contention: 0.05, coherence: 1e-3 };
        let (mut held, rounds) = (0, 30);
        for seed in 0..rounds {
            let mut rng = Rng::new(seed, 9);
            // Errors of ±2 %, evenly spread.
            let mut noisy =
                |n: f64| (n, law.throughput_per_s(n) * (1.0 + 0.04 * (rng.uniform() - 0.5)));
            let points: Vec<(f64, f64)> = (1..=10).map(|n| noisy(f64::from(n))).collect();
            let (low, high) = fit(&points, seed).unwrap().interval_per_s(16.0);
            held += u32::from((low..=high).contains(&law.throughput_per_s(16.0)));
        }
        // 95 % of 30 are 28.5; a standard deviation is 1.2.
        assert!((26..=30).contains(&held), "{held} of {rounds}");
    }

    #[test]
    fn nonsense_is_refused() {
        for points in
            [&[][..], &[(1.0, 1.0)], &[(1.0, 1.0), (1.0, 2.0)], &[(1.0, 1.0), (2.0, -1.0)]]
        {
            assert!(fit(points, 1).is_err(), "{points:?}");
        }
        assert!(fit(&[(1.0, f64::NAN), (2.0, 1.0)], 1).is_err());
    }
}
