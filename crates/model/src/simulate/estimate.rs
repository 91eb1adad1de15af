//! Confidence intervals of simulated means.

/// Number of batches of a run. Batches must be long compared with the memory of the queues, and
/// numerous enough for a variance: 32 is common practice (Law 2015, section 9.5.3).
pub(super) const BATCHES: u64 = 32;
/// Quantile of Student's t for 31 degrees of freedom, 0.5 % on either side.
const T_99: f64 = 2.744;

/// A mean with the half width of its 99 % confidence interval, by batch means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean value.
    pub mean: f64,
    /// Half width of the interval around the mean; infinite if a batch saw no request.
    pub half_width: f64,
}

impl Estimate {
    /// Returns whether the interval contains `value`.
    pub fn holds(&self, value: f64) -> bool {
        (self.mean - value).abs() <= self.half_width
    }
}

/// Returns the ratio of two sums over a run, from the sums at the ends of its batches.
///
/// Ratio estimator: the variance is that of `above − mean · below` over the batches, which is valid
/// for batches of different lengths.
pub(super) fn batch_means<T>(
    marks: &[T],
    above: impl Fn(&T) -> f64,
    below: impl Fn(&T) -> f64,
) -> Estimate {
    let (first, last) = (&marks[0], &marks[marks.len() - 1]);
    let whole = below(last) - below(first);
    if whole <= 0.0 {
        return Estimate { mean: 0.0, half_width: f64::INFINITY };
    }
    let mean = (above(last) - above(first)) / whole;
    let count = (marks.len() - 1) as f64;
    let mut squares = 0.0;
    for pair in marks.windows(2) {
        let part = below(&pair[1]) - below(&pair[0]);
        if part <= 0.0 {
            return Estimate { mean, half_width: f64::INFINITY };
        }
        let off = above(&pair[1]) - above(&pair[0]) - mean * part;
        squares += off * off;
    }
    let deviation = (squares / (count - 1.0) / count).sqrt() / (whole / count);
    Estimate { mean, half_width: T_99 * deviation }
}
