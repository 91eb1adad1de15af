//! Many draws at the price of a few: a response surface through exact solutions.
//!
//! A search draws the figures of a hundred bills. Solving each of them 10,000 times would take
//! minutes. The intervals of figures are narrow, so the logarithm of the rate is close to a
//! quadratic polynomial in the figures. Some draws are solved, least squares fits the polynomial,
//! and the polynomial is evaluated for the other draws. Its error is measured on draws that it was
//! not fitted to. If the error is too large, all draws are solved.

use block::Rng;
use model::Method;
use serde::Serialize;

use crate::bill::Bill;
use crate::chance::{Spread, slices, spread};
use crate::predict::{Prediction, predict, rate_by};
use crate::system::{PlanError, Tweak};

/// Number of draws that measure the error of the surface.
const CHECKS: usize = 16;
/// Number of solved draws for each coefficient of the surface.
const EACH: usize = 2;
/// Maximum error of a surface.
const OFF_MAX: f64 = 0.02;
/// Number of samples to solve exactly if no surface fits.
const SOLVED: usize = 400;

/// Results of draws, most of them evaluated on a surface.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Surface {
    /// I/Os per second of the network alone.
    pub iops: Spread,
    /// Number of draws.
    pub draws: u32,
    /// Number of draws that were solved.
    pub solved: u32,
    /// Maximum error of the surface among its checks; 0 if none was used.
    pub off: f64,
}

/// The ends of eight draws of ten around the prediction of a bill, as factors of their middle.
///
/// # Errors
///
/// As [`predict`].
pub(crate) fn spread_of(
    bill: &Bill,
    found: &Prediction,
    draws: u32,
    seed: u64,
) -> Result<(f64, f64), PlanError> {
    let Spread { p10, p50, p90 } = around(bill, found, draws, seed)?.iops;
    Ok((p10 / p50, p90 / p50))
}

/// Draws the figures of a bill, solves some and reads the others off a surface. The same bill and
/// seed give the same bits.
///
/// # Errors
///
/// As [`predict`].
pub fn surface(bill: &Bill, draws: u32, seed: u64) -> Result<Surface, PlanError> {
    around(bill, &predict(bill, &Tweak::default())?, draws, seed)
}

/// Returns the surface of a bill that is solved already.
fn around(bill: &Bill, found: &Prediction, draws: u32, seed: u64) -> Result<Surface, PlanError> {
    let mut open: Vec<_> = found.inputs.iter().filter(|i| i.known.low < i.known.high).collect();
    // A figure that is certain within a thousandth has no effect.
    open.retain(|input| input.known.high / input.known.low > 1.001);
    let rate = quick(bill, found.iops);
    let solve = |at: &[f64]| {
        let value = |(input, at): (&&crate::system::Input, &f64)| {
            let (low, high) = (input.known.low, input.known.high);
            ((input.part.clone(), input.quantity), low + (high - low) * at)
        };
        let values = open.iter().zip(at).map(value).collect();
        rate(&Tweak { values, ..Tweak::default() })
    };
    let terms = (open.len() + 1) * (open.len() + 2) / 2;
    let (fits, draws) = (terms * EACH, draws.max(10) as usize);
    let place = |count: usize, stream: u64| {
        let column = |at| slices(count as u32, Rng::new(seed, stream + at as u64));
        let columns: Vec<Vec<f64>> = (0..open.len()).map(column).collect();
        (0..count).map(|n| columns.iter().map(|c| c[n]).collect()).collect::<Vec<Vec<f64>>>()
    };
    let told = |rates: Vec<f64>, solved: usize, off: f64| {
        let draws = rates.len() as u32;
        Surface { iops: spread(rates), draws, solved: solved as u32, off }
    };
    let through = place(fits, 0);
    if let Some((fit, off)) = fitted(&through, &place(CHECKS, 1000), terms, solve)? {
        let all = place(draws, 2000).iter().map(|at| value(&fit, at).exp()).collect();
        return Ok(told(all, fits + CHECKS, off));
    }
    let few = place(draws.min(SOLVED), 3000);
    let all: Vec<f64> = few.iter().map(|at| solve(at)).collect::<Result<_, _>>()?;
    let solved = fits + CHECKS + all.len();
    Ok(told(all, solved, 0.0))
}

/// Returns the coefficients of a surface through the rates at some points, and its maximum error at
/// others; `None` if it is not good enough. A rate of 0 or NaN has no logarithm: a surface through
/// such rates is invalid, whatever its error.
fn fitted(
    through: &[Vec<f64>],
    checks: &[Vec<f64>],
    terms: usize,
    solve: impl Fn(&[f64]) -> Result<f64, PlanError>,
) -> Result<Option<(Vec<f64>, f64)>, PlanError> {
    let log = |at: &Vec<f64>| Ok(solve(at)?.ln());
    let logs: Vec<f64> = through.iter().map(log).collect::<Result<_, PlanError>>()?;
    let Some(fit) = least_squares(through, &logs, terms) else { return Ok(None) };
    let mut off = 0.0_f64;
    for at in checks {
        let one = (value(&fit, at) - log(at)?).abs().exp_m1();
        // Not `max`, which ignores NaN.
        if !one.is_finite() {
            return Ok(None);
        }
        off = off.max(one);
    }
    Ok((off <= OFF_MAX).then_some((fit, off)))
}

/// Returns rates by Linearizer, all scaled by the ratio of the exact solution to it at the centre:
/// the effect of the figures' intervals is far greater than the difference between the two methods,
/// and an exact solution of some milliseconds, thousands of times, is not fast.
fn quick(bill: &Bill, exact: f64) -> impl Fn(&Tweak) -> Result<f64, PlanError> {
    let by = move |method: Method| move |tweak: &Tweak| rate_by(bill, tweak, method);
    // If Linearizer refuses the network or its rate is not a normal number, the exact method is
    // used.
    let middle = by(Method::Linearizer)(&Tweak::default()).ok().filter(|rate| rate.is_normal());
    let (method, off) = middle.map_or((Method::Auto, 1.0), |m| (Method::Linearizer, exact / m));
    move |tweak: &Tweak| Ok(by(method)(tweak)? * off)
}

/// Calls `each` with the products of degree two and less of a draw's coordinates, relative to the
/// centre.
fn products(at: &[f64], mut each: impl FnMut(usize, f64)) {
    let from_middle = |place: f64| place - 0.5;
    let mut term = 0;
    let mut next = |value: f64| {
        each(term, value);
        term += 1;
    };
    next(1.0);
    for (n, one) in at.iter().enumerate() {
        next(from_middle(*one));
        for other in &at[..=n] {
            next(from_middle(*one) * from_middle(*other));
        }
    }
}

fn value(fit: &[f64], at: &[f64]) -> f64 {
    let mut sum = 0.0;
    products(at, |term, value| sum += fit[term] * value);
    sum
}

/// Returns the least-squares coefficients, by Cholesky factorisation of the normal equations;
/// `None` if the draws do not determine them.
fn least_squares(places: &[Vec<f64>], values: &[f64], terms: usize) -> Option<Vec<f64>> {
    let mut normal = vec![vec![0.0; terms]; terms];
    let mut right = vec![0.0; terms];
    let mut row = vec![0.0; terms];
    for (at, value) in places.iter().zip(values) {
        products(at, |term, product| row[term] = product);
        for i in 0..terms {
            right[i] += row[i] * value;
            for j in 0..=i {
                normal[i][j] += row[i] * row[j];
            }
        }
    }
    for i in 0..terms {
        for j in 0..=i {
            let done: f64 = (0..j).map(|k| normal[i][k] * normal[j][k]).sum();
            let left = normal[i][j] - done;
            normal[i][j] = match i == j {
                true if left <= 1e-12 => return None,
                true => left.sqrt(),
                false => left / normal[j][j],
            };
        }
    }
    for i in 0..terms {
        let done: f64 = (0..i).map(|k| normal[i][k] * right[k]).sum();
        right[i] = (right[i] - done) / normal[i][i];
    }
    for i in (0..terms).rev() {
        let done: f64 = (i + 1..terms).map(|k| normal[k][i] * right[k]).sum();
        right[i] = (right[i] - done) / normal[i][i];
    }
    Some(right)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::chance::chance;
    use catalogue::Catalogue;

    #[test]
    fn a_rate_that_has_no_logarithm_has_no_surface() {
        let places = |count: u32, from: f64| -> Vec<Vec<f64>> {
            (0..count).map(|n| vec![from + f64::from(n) / f64::from(count)]).collect()
        };
        // Three coefficients; the checks are between the others.
        let (through, checks) = (places(6, 0.0), places(6, 0.05));
        let of = |solve: &dyn Fn(f64) -> f64| {
            fitted(&through, &checks, 3, |at| Ok(solve(at[0]))).unwrap()
        };
        let good = |at: f64| 1000.0 * (1.0 + at).exp();
        let (_, off) = of(&good).expect("an exponential is one of first degree");
        assert!(off < 1e-9, "{off}");
        // One point of the fit, the first and the last check.
        for place in [through[2][0], checks[0][0], checks[5][0]] {
            for bad in [0.0, f64::NAN, -1.0, f64::INFINITY] {
                let solve = |at: f64| if at == place { bad } else { good(at) };
                assert_eq!(of(&solve), None, "{bad} at {place}");
            }
        }
        for all in [0.0, f64::NAN] {
            assert_eq!(of(&|_| all), None, "{all}");
        }
        assert_eq!(of(&|at| if at > 0.5 { 2.0 } else { 1.0 }), None, "a step is no polynomial");
    }

    #[test]
    fn it_says_what_solving_every_draw_says() {
        let catalogue = Catalogue::shipped();
        for text in [
            "name = 'x'\nsize = '4k'\noutstanding = 32\n[[group]]\ndrive = 'x25-m'\n",
            "name = 'x'\nsize = '4k'\nread = 70\noutstanding = 16\nsoftware = 'linux-libaio'\n\
             jobs = 4\n[[group]]\ndrive = 'micron-9550-max-6400'\ncount = 2\n",
            include_str!("../systems/intel-ssd.toml"),
        ] {
            let bill = Bill::read("b.toml", text, &catalogue).unwrap();
            let exact = chance(&bill, 1000, 3, None).unwrap();
            let found = surface(&bill, 10_000, 3).unwrap();
            assert!(found.off <= OFF_MAX, "{found:?}");
            assert!(found.draws < 10_000 || found.solved < 500, "{found:?}");
            for (a, b) in [
                (found.iops.p10, exact.iops.p10),
                (found.iops.p50, exact.iops.p50),
                (found.iops.p90, exact.iops.p90),
            ] {
                assert!((a / b - 1.0).abs() < 0.01, "{}: {a} for {b}", bill.name);
            }
            assert_eq!(found, surface(&bill, 10_000, 3).unwrap());
        }
    }

    #[test]
    fn a_polynomial_of_second_degree_is_met() {
        let places: Vec<Vec<f64>> =
            (0..20).map(|n| vec![f64::from(n % 5) / 4.0, f64::from(n / 5) / 3.0]).collect();
        let truth = |at: &[f64]| 3.0 + at[0] - 2.0 * at[1] * at[0] + at[1] * at[1];
        let values: Vec<f64> = places.iter().map(|at| truth(at)).collect();
        let fit = least_squares(&places, &values, 6).unwrap();
        for at in [[0.1, 0.9], [0.7, 0.3]] {
            assert!((value(&fit, &at) - truth(&at)).abs() < 1e-9);
        }
        // One point does not determine six coefficients.
        assert_eq!(least_squares(&[vec![0.5, 0.5]], &[1.0], 6), None);
    }
}
