//! Spread of repeated measurements.

use serde::{Deserialize, Serialize};

/// Confidence of an interval.
const CONFIDENCE: f64 = 0.95;
/// Number of values from which the binomial distribution is approximated by a normal one.
const MANY: usize = 500;

/// Median and confidence interval of repeated measurements, without an assumption about their
/// distribution.
///
/// The interval lies between two of the values themselves (order statistics): the narrowest
/// symmetric pair that covers the median of all possible measurements with 95 % confidence. Fewer
/// than six values cannot reach that: then the interval is their range, and `confidence` is lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of values.
    pub n: usize,
    /// The median of the values.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Share of such intervals that cover the true median, 0 to 1; 0 for a single value.
    pub confidence: f64,
}

impl Spread {
    /// Computes the spread of the finite values; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let last = n.checked_sub(1)?;
        let (cut, confidence) = cut(n);
        Some(Spread {
            n,
            median: (sorted[last / 2] + sorted[n / 2]) / 2.0,
            low: sorted[cut],
            high: sorted[last - cut],
            confidence,
        })
    }

    /// Returns the width of the interval as a share of the median; 0 if the median is 0.
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / self.median.abs() }
    }
}

/// Returns the number of values to leave out at each end of `n` sorted ones, and the confidence of
/// the rest.
fn cut(n: usize) -> (usize, f64) {
    if n >= MANY {
        let half = 1.96 * (n as f64).sqrt() / 2.0;
        return (((n as f64 / 2.0 - half) as usize).saturating_sub(1), CONFIDENCE);
    }
    // The k-th value from below exceeds the median if fewer than k of n tosses are low.
    let mut term = 0.5_f64.powi(n as i32);
    let mut below = term;
    let (mut cut, mut confidence) = (0, 1.0 - 2.0 * below);
    for k in 1..n / 2 {
        term *= (n - k + 1) as f64 / k as f64;
        below += term;
        if 1.0 - 2.0 * below < CONFIDENCE {
            break;
        }
        (cut, confidence) = (k, 1.0 - 2.0 * below);
    }
    (cut, confidence.max(0.0))
}

#[cfg(test)]
mod test {
    use super::*;

    fn of(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn few_values_have_a_range_and_little_confidence() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
        let one = of(&[5.0]);
        assert_eq!((one.low, one.median, one.high, one.confidence), (5.0, 5.0, 5.0, 0.0));
        let three = of(&[3.0, 1.0, 2.0]);
        assert_eq!((three.low, three.median, three.high, three.confidence), (1.0, 2.0, 3.0, 0.75));
        assert_eq!(of(&[1.0, 2.0, 4.0, 8.0]).median, 3.0);
        assert_eq!(of(&[1.0; 5]).confidence, 0.9375);
        assert_eq!(of(&[1.0; 6]).confidence, 0.96875);
    }

    #[test]
    fn ends_are_those_of_the_tables() {
        // Tables of the sign test: the 2nd and the 9th of 10 values, the 6th and the 15th of 20.
        let ends = |n: usize| {
            let spread = Spread::of((1..=n).map(|i| i as f64)).unwrap();
            (spread.low, spread.high)
        };
        assert_eq!([ends(6), ends(9), ends(10)], [(1.0, 6.0), (2.0, 8.0), (2.0, 9.0)]);
        assert_eq!([ends(20), ends(50)], [(6.0, 15.0), (18.0, 33.0)]);
        let (exact, normal) = (ends(499), ends(501));
        assert!((exact.0 - normal.0).abs() <= 2.0 && (exact.1 - normal.1).abs() <= 4.0);
    }

    #[test]
    fn an_interval_covers_the_median_as_often_as_it_says() {
        // Skewed values, far from normal; the true median is 0.25.
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
            unit * unit
        };
        for n in [3, 6, 15] {
            let covered = (0..4000).filter(|_| {
                let spread = Spread::of((0..n).map(|_| draw())).unwrap();
                spread.low <= 0.25 && 0.25 <= spread.high
            });
            let share = covered.count() as f64 / 4000.0;
            let says = cut(n).1;
            assert!((share - says).abs() < 0.02, "{n}: {share} instead of {says}");
        }
    }
}
