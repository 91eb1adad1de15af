//! Bounded least squares: fits the parameters of a model to measurements.

use crate::ModelError;

/// Maximum number of steps of a fit.
const ITERATIONS_MAX: u32 = 500;
/// Maximum number of parameters; more are never identifiable.
const PARAMETERS_MAX: usize = 64;
/// Step of the central differences, as a share of a parameter's range: the cube root of the
/// precision of a double, at which central differences are most accurate.
const STEP: f64 = 6e-6;
/// Convergence criterion: the fit ends when a step reduces the sum of squares by less than this
/// share. In a flat valley, such reductions continue for ever and mean nothing.
const GAIN_MIN: f64 = 1e-8;
/// Second convergence criterion: the fit ends when a step moves by less than this share of the
/// range.
const SETTLED: f64 = 1e-12;

/// Share of a residual left by the fit below which a single point determines the fit.
const ALONE: f64 = 1e-9;

/// A parameter to be fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name of the parameter in messages.
    pub name: String,
    /// First guess, between the bounds.
    pub start: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Prior knowledge: mean and standard deviation, in the units of the parameter.
    pub prior: Option<(f64, f64)>,
}

/// Result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Parameter values, in the order given.
    pub values: Vec<f64>,
    /// Standard errors of the parameters; infinite for a parameter that the data do not determine.
    /// At a bound, the standard error of the unbounded parameter.
    pub errors: Vec<f64>,
    /// 95 % confidence intervals of the parameters, within their bounds; the whole range for
    /// undetermined parameters.
    pub intervals: Vec<(f64, f64)>,
    /// Root mean square of the residuals of the data (without the priors).
    pub rms: f64,
    /// Number of iterations.
    pub iterations: u32,
}

/// Minimises the sum of the squares of `residuals` within the bounds (Levenberg–Marquardt,
/// projected).
///
/// `residuals` writes one number per measured point: (model − measured) / measured. If a parameter
/// has a prior, the residual must be divided by the expected relative error of a point, so that
/// points and priors have their proper weights. Standard errors are then based on the expected
/// errors, or on the scatter of the residuals if that is larger. Without priors, they are based on
/// the residuals alone, whose variances may differ but which must be independent.
///
/// # Errors
///
/// [`ModelError::Invalid`] for bounds, priors or residuals that are not finite numbers,
/// [`ModelError::Diverged`] if the fit does not converge.
pub fn least_squares(
    parameters: &[Parameter],
    mut residuals: impl FnMut(&[f64], &mut Vec<f64>),
) -> Result<Fit, ModelError> {
    parameters.iter().try_for_each(check)?;
    if !(1..=PARAMETERS_MAX).contains(&parameters.len()) {
        let problem = format!("{} parameters; 1 to {PARAMETERS_MAX}", parameters.len());
        return Err(ModelError::invalid("fit", problem));
    }
    let mut problem = Problem { parameters, residuals: &mut residuals, points: 0 };
    // Parameters are scaled to their range.
    let mut at: Vec<f64> =
        parameters.iter().map(|p| (p.start - p.low) / (p.high - p.low)).collect();
    let mut rows = problem.evaluate(&at)?;
    let mut damping = 1e-3;
    for iteration in 1..=ITERATIONS_MAX {
        let slopes = problem.slopes(&at)?;
        let normal = Normal::new(&rows, &slopes, &at);
        let before = squares(&rows);
        let mut settled = true;
        while damping < 1e12 {
            let next = normal.step(&at, damping);
            let moved = next.iter().zip(&at).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let trial = problem.evaluate(&next)?;
            let gain = before - squares(&trial);
            if gain > 0.0 {
                (at, rows) = (next, trial);
                damping *= 0.2;
                settled = gain <= GAIN_MIN * before || moved <= SETTLED;
                break;
            }
            if moved <= SETTLED {
                break;
            }
            damping *= 5.0;
        }
        if settled {
            return problem.finish(&at, &rows, iteration);
        }
    }
    Err(ModelError::Diverged { what: "least squares", iterations: ITERATIONS_MAX })
}

fn check(parameter: &Parameter) -> Result<(), ModelError> {
    let Parameter { name, start, low, high, prior } = parameter;
    let range = low.is_finite() && high.is_finite() && low < high;
    let problem = if !range {
        format!("bounds {low} and {high}; two numbers, the lower first, are needed")
    } else if !(*low..=*high).contains(start) {
        format!("a start of {start} outside {low} to {high}")
    } else if prior.is_some_and(|(mean, error)| mean.is_nan() || error.is_nan() || error <= 0.0) {
        "a prior without a positive standard deviation".to_owned()
    } else {
        return Ok(());
    };
    Err(ModelError::invalid(format!("parameter '{name}'"), problem))
}

struct Problem<'a, F> {
    parameters: &'a [Parameter],
    residuals: &'a mut F,
    /// Number of residuals of the data; the residuals of the priors follow them.
    points: usize,
}

impl<F: FnMut(&[f64], &mut Vec<f64>)> Problem<'_, F> {
    fn values(&self, at: &[f64]) -> Vec<f64> {
        let value = |(p, share): (&Parameter, &f64)| {
            (p.low + share * (p.high - p.low)).clamp(p.low, p.high)
        };
        self.parameters.iter().zip(at).map(value).collect()
    }

    fn evaluate(&mut self, at: &[f64]) -> Result<Vec<f64>, ModelError> {
        let values = self.values(at);
        let mut rows = Vec::new();
        (self.residuals)(&values, &mut rows);
        self.points = rows.len();
        for (parameter, value) in self.parameters.iter().zip(&values) {
            rows.extend(parameter.prior.map(|(mean, error)| (value - mean) / error));
        }
        if rows.is_empty() || rows.iter().any(|row| !row.is_finite()) {
            let problem = format!("residuals that are no numbers at {values:?}");
            return Err(ModelError::invalid("fit", problem));
        }
        Ok(rows)
    }

    /// Returns the derivatives of the residuals, parameter by parameter.
    fn slopes(&mut self, at: &[f64]) -> Result<Vec<Vec<f64>>, ModelError> {
        let mut slopes = Vec::new();
        for index in 0..at.len() {
            let (mut low, mut high) = (at.to_vec(), at.to_vec());
            low[index] = (at[index] - STEP).max(0.0);
            high[index] = (at[index] + STEP).min(1.0);
            let width = high[index] - low[index];
            let (low, high) = (self.evaluate(&low)?, self.evaluate(&high)?);
            slopes.push(high.iter().zip(&low).map(|(high, low)| (high - low) / width).collect());
        }
        Ok(slopes)
    }

    fn finish(&mut self, at: &[f64], rows: &[f64], iterations: u32) -> Result<Fit, ModelError> {
        let slopes = self.slopes(at)?;
        // A bound limits a parameter but does not determine its value.
        let mut normal = Normal::new(rows, &slopes, at);
        normal.free.fill(true);
        let data = &rows[..self.points];
        let freedom = data.len().saturating_sub(self.parameters.len());
        let scatter = match freedom {
            0 => f64::INFINITY,
            freedom => squares(data) / freedom as f64,
        };
        let priors = self.parameters.iter().any(|p| p.prior.is_some());
        // Standard error and interval width, scaled to the range. With priors the expected error of
        // a point is given; without them, it is estimated by the point's residual.
        let told: Vec<(f64, f64)> = (0..at.len())
            .map(|index| match (priors, freedom) {
                (true, 0) => (normal.error(index, 1.0), 1.96),
                (true, _) => (normal.error(index, scatter.max(1.0)), 1.96),
                (false, 0) => (f64::INFINITY, 1.96),
                (false, _) => normal.unequal_error(index, data, &slopes, freedom),
            })
            .collect();
        let values = self.values(at);
        let (mut errors, mut intervals) = (Vec::new(), Vec::new());
        for ((p, value), (error, wide)) in self.parameters.iter().zip(&values).zip(told) {
            let error = error * (p.high - p.low);
            errors.push(error);
            intervals.push(((value - wide * error).max(p.low), (value + wide * error).min(p.high)));
        }
        let rms = (squares(data) / data.len().max(1) as f64).sqrt();
        Ok(Fit { values, errors, intervals, rms, iterations })
    }
}

fn squares(rows: &[f64]) -> f64 {
    rows.iter().map(|row| row * row).sum()
}

/// Gradient and normal matrix at a point, with the parameters that are free there, that is, not
/// fixed by a bound.
struct Normal {
    free: Vec<bool>,
    gradient: Vec<f64>,
    matrix: Vec<Vec<f64>>,
}

impl Normal {
    fn new(rows: &[f64], slopes: &[Vec<f64>], at: &[f64]) -> Normal {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let gradient: Vec<f64> = slopes.iter().map(|slope| dot(slope, rows)).collect();
        // A parameter at a bound is fixed if the gradient points beyond the bound.
        let stuck = |(at, g): (&f64, &f64)| (*at <= 0.0 && *g > 0.0) || (*at >= 1.0 && *g < 0.0);
        let free: Vec<bool> = at.iter().zip(&gradient).map(|pair| !stuck(pair)).collect();
        let matrix = slopes.iter().map(|a| slopes.iter().map(|b| dot(a, b)).collect()).collect();
        Normal { free, gradient, matrix }
    }

    /// Returns the next point; with more damping, the step is shorter and closer to steepest
    /// descent.
    fn step(&self, at: &[f64], damping: f64) -> Vec<f64> {
        let damped = |i: usize| self.matrix[i][i] * (1.0 + damping) + 1e-300;
        let down: Vec<f64> = self.gradient.iter().map(|g| -g).collect();
        let step = self.solve(&damped, &down);
        at.iter().zip(step).map(|(at, step)| (at + step).clamp(0.0, 1.0)).collect()
    }

    /// Returns a column of the inverse; zeroes if the matrix is singular.
    fn inverse(&self, index: usize) -> Vec<f64> {
        let mut unit = vec![0.0; self.gradient.len()];
        unit[index] = 1.0;
        self.solve(&|i| self.matrix[i][i], &unit)
    }

    /// Returns the standard error of a parameter if all residuals have this variance.
    fn error(&self, index: usize, variance: f64) -> f64 {
        let inverse = self.inverse(index)[index];
        if inverse > 0.0 { (variance * inverse).sqrt() } else { f64::INFINITY }
    }

    /// Returns the standard error of a parameter if the variances of the points differ, and the
    /// quantile of Student's t. Squared residuals are divided by the share of the residual left by
    /// the fit (HC2). If few points determine a parameter, the error is itself uncertain, so
    /// Student's t has the degrees of freedom of Bell and McCaffrey. Both as in Imbens and Kolesár,
    /// "Robust Standard Errors in Small Samples", 2016. For points of equal weight, as for a mean,
    /// the result is the textbook formula.
    fn unequal_error(
        &self,
        index: usize,
        residuals: &[f64],
        slopes: &[Vec<f64>],
        freedom: usize,
    ) -> (f64, f64) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let inverse = self.inverse(index);
        if inverse[index] <= 0.0 {
            return (f64::INFINITY, student(freedom));
        }
        let row = |i: usize| slopes.iter().map(|slope| slope[i]).collect::<Vec<f64>>();
        let rows: Vec<Vec<f64>> = (0..residuals.len()).map(row).collect();
        let solved: Vec<Vec<f64>> =
            rows.iter().map(|row| self.solve(&|i| self.matrix[i][i], row)).collect();
        let scatter = squares(residuals) / freedom as f64;
        let (mut variance, mut weights) = (0.0, Vec::new());
        for (i, residual) in residuals.iter().enumerate() {
            let weight = dot(&rows[i], &inverse).powi(2);
            let left = 1.0 - dot(&rows[i], &solved[i]);
            // If the fit passes exactly through a point, the error of that point is estimated from
            // the other points.
            let own = left > ALONE;
            variance += weight * if own { residual * residual / left } else { scatter };
            weights.push(if own { weight / left } else { 0.0 });
        }
        let (mut trace, mut square) = (0.0, 0.0);
        for i in 0..rows.len() {
            for j in 0..rows.len() {
                let rest = f64::from(u8::from(i == j)) - dot(&rows[i], &solved[j]);
                trace += if i == j { weights[i] * rest } else { 0.0 };
                square += weights[i] * weights[j] * rest * rest;
            }
        }
        let own = if square > 0.0 { (trace * trace / square) as usize } else { freedom };
        (variance.sqrt(), student(own.clamp(1, freedom)))
    }

    /// Solves the equations of the free parameters by Cholesky decomposition, with this diagonal.
    /// Parameters without influence are 0.
    fn solve(&self, diagonal: &dyn Fn(usize) -> f64, right: &[f64]) -> Vec<f64> {
        let n = right.len();
        let mut lower = vec![vec![0.0; n]; n];
        let mut x = vec![0.0; n];
        for i in 0..n {
            if !self.free[i] {
                continue;
            }
            let mut y = right[i];
            for j in 0..i {
                let dot: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                if lower[j][j] > 0.0 {
                    lower[i][j] = (self.matrix[i][j] - dot) / lower[j][j];
                }
                y -= lower[i][j] * x[j];
            }
            let whole = diagonal(i);
            let rest = whole - lower[i].iter().map(|l| l * l).sum::<f64>();
            if rest > 1e-14 * whole {
                lower[i][i] = rest.sqrt();
                x[i] = y / lower[i][i];
            }
        }
        for i in (0..n).rev() {
            if lower[i][i] > 0.0 {
                let dot: f64 = (i + 1..n).map(|k| lower[k][i] * x[k]).sum();
                x[i] = (x[i] - dot) / lower[i][i];
            }
        }
        x
    }
}

/// Returns the 97.5 % quantile of Student's t.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    // Beyond the table the Cornish–Fisher expansion is accurate to 0.1 %.
    let tail = 1.96 + 2.37 / freedom as f64 + 2.8 / (freedom * freedom) as f64;
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(tail)
}

#[cfg(test)]
mod test {
    use super::*;

    fn parameter(start: f64, low: f64, high: f64) -> Parameter {
        Parameter { name: "p".to_owned(), start, low, high, prior: None }
    }

    #[test]
    fn finds_a_curve_that_is_no_line() {
        // Model: y = a·exp(−b·x), without noise.
        let points: Vec<(f64, f64)> =
            (0..8).map(|x| (f64::from(x), 5.0 * (-0.3 * f64::from(x)).exp())).collect();
        let parameters = [parameter(1.0, 0.1, 100.0), parameter(2.0, 0.0, 10.0)];
        let fit = least_squares(&parameters, |p, rows| {
            rows.extend(points.iter().map(|(x, y)| p[0] * (-p[1] * x).exp() / y - 1.0));
        });
        let fit = fit.unwrap();
        assert!((fit.values[0] - 5.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.values[1] - 0.3).abs() < 1e-6, "{fit:?}");
        assert!(fit.rms < 1e-6 && fit.errors.iter().all(|error| *error < 1e-5), "{fit:?}");
    }

    #[test]
    fn errors_are_those_of_a_mean() {
        // A constant through 1, 2, 3, 4 is 2.5, with a standard error of √(5/3/4).
        let fit = least_squares(&[parameter(0.0, -10.0, 10.0)], |p, rows| {
            rows.extend([1.0, 2.0, 3.0, 4.0].map(|y| p[0] - y));
        });
        let fit = fit.unwrap();
        assert!((fit.values[0] - 2.5).abs() < 1e-8, "{fit:?}");
        let error = (5.0_f64 / 12.0).sqrt();
        assert!((fit.errors[0] - error).abs() < 1e-6, "{fit:?}");
        // Student's t for three degrees of freedom.
        assert!((fit.intervals[0].1 - 2.5 - 3.182 * error).abs() < 1e-5, "{fit:?}");
    }

    #[test]
    fn bounds_hold_and_priors_pull() {
        let slope = |p: &[f64], rows: &mut Vec<f64>| {
            rows.extend([1.0, 2.0, 3.0].map(|x| p[0] * x - 2.0 * x));
        };
        let fit = least_squares(&[parameter(0.5, 0.0, 1.0)], slope).unwrap();
        assert_eq!(fit.values[0], 1.0);
        // The minimum is beyond the bound, and the standard error is reported as if the parameter
        // were free. A point at x has a leverage of x²/14 and an error of x, of which the fit left
        // the share 1 − x²/14.
        let term = |x: f64| x.powi(4) / 196.0 / (1.0 - x * x / 14.0);
        let error = [1.0, 2.0, 3.0].map(term).iter().sum::<f64>().sqrt();
        assert!((fit.errors[0] - error).abs() < 1e-6, "{fit:?}");
        assert_eq!(fit.intervals[0], (0.0, 1.0));
        // One point at 2 ± 1 and a prior of 4 ± 1 give 3, with a standard error of √½.
        let prior = Parameter { prior: Some((4.0, 1.0)), ..parameter(5.0, 0.0, 10.0) };
        let fit = least_squares(&[prior], |p, rows| rows.push(p[0] - 2.0)).unwrap();
        assert!((fit.values[0] - 3.0).abs() < 1e-8, "{fit:?}");
        assert!((fit.errors[0] - 0.5_f64.sqrt()).abs() < 1e-6, "{fit:?}");
    }

    #[test]
    fn what_the_data_do_not_say_is_unknown() {
        let parameters = [parameter(1.0, 0.0, 10.0), parameter(1.0, 0.0, 10.0)];
        let fit = least_squares(&parameters, |p, rows| {
            rows.extend([2.0, 2.1, 1.9].map(|y| p[0] - y));
        });
        let fit = fit.unwrap();
        assert_eq!((fit.errors[1], fit.intervals[1]), (f64::INFINITY, (0.0, 10.0)));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(least_squares(&[parameter(2.0, 0.0, 1.0)], |_, rows| rows.push(0.0)).is_err());
        assert!(least_squares(&[parameter(0.0, 0.0, f64::NAN)], |_, r| r.push(0.0)).is_err());
        assert!(least_squares(&[parameter(0.0, 0.0, 1.0)], |_, r| r.push(f64::NAN)).is_err());
        assert!(least_squares(&[], |_, rows| rows.push(0.0)).is_err());
    }
}
