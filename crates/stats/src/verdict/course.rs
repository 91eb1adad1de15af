//! A rate over time, with its statistics.

use crate::interval::per;

/// The rate of a worker or a volume over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Name of the worker or volume.
    pub name: String,
    /// Stretches of time: the end of each in seconds since the window began, and IOPS.
    pub rates: Vec<(f64, f64)>,
}

/// Returns the rate and the length in seconds of each of `N` windows up to the end. If `N` does not
/// divide the number of stretches, the first ones are left out.
pub(super) fn windows<const N: usize>(rates: &[(f64, f64)]) -> Option<[(f64, f64); N]> {
    let width = rates.len() / N;
    let from = rates.len().checked_sub(width * N).filter(|_| width > 0)?;
    let mut begin = from.checked_sub(1).map_or(0.0, |before| rates[before].0);
    let mut chunks = rates[from..].chunks_exact(width);
    Some(std::array::from_fn(|_| {
        let (first, mut amount) = (begin, 0.0);
        for (t, rate) in chunks.next().unwrap_or_default() {
            amount += rate * (t - begin);
            begin = *t;
        }
        (per(amount, begin - first), begin - first)
    }))
}

/// Returns the mean of all stretches weighted by their length, and their standard deviation as a
/// share of it; zero without a mean.
pub(super) fn deviation(rates: &[(f64, f64)]) -> (f64, f64) {
    let all_s = rates.last().map_or(0.0, |(t, _)| *t);
    let sum = |of: &dyn Fn(f64) -> f64| {
        let mut from_s = 0.0;
        let each = rates.iter().map(|(t, rate)| {
            let length_s = t - std::mem::replace(&mut from_s, *t);
            of(*rate) * length_s
        });
        per(each.sum::<f64>(), all_s)
    };
    let mean = sum(&|rate| rate);
    let square = sum(&|rate| (rate - mean).powi(2));
    (mean, per(square.sqrt(), mean))
}

/// Returns the minimum and the maximum.
pub(super) fn ends(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    (least, values.iter().copied().fold(f64::MIN, f64::max))
}
