//! Difference of two sides with its confidence: the ratio of two means of repeats, its interval,
//! and the change that a number of repeats would detect.
//!
//! Noise of rates and latencies is proportional to them, so their logarithms are compared: the
//! difference of two means whose variances differ (B. L. Welch, The generalization of 'Student's'
//! problem, 1947), or the mean difference of rounds. Fewer than three repeats give no estimate of
//! their own noise. Noise that the repeats of a side share is in [`Drift`].

use crate::drift::Drift;
use crate::student;

/// Share of comparisons whose interval contains the true ratio.
const CONFIDENCE: f64 = 0.95;
/// Share of comparisons that find a change of the size called detectable.
const POWER: f64 = 0.8;

/// A ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The second mean over the first.
    pub value: f64,
    /// Interval and chance; `None` if a side has too few repeats.
    pub sure: Option<Sure>,
}

/// Interval and chance of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sure {
    /// 95 % confidence interval.
    pub range: [f64; 2],
    /// p-value: chance of such a ratio, or one further from 1, if nothing changed.
    pub chance: f64,
    /// Estimated error of the logarithm, its degrees of freedom, and the number of errors that the
    /// interval allows for.
    error: f64,
    freedom: f64,
    limit: f64,
    slack: f64,
    /// Number of repeats of the side with fewer repeats.
    runs: usize,
}

impl Sure {
    /// Returns the smallest change that the same number of further repeats detects in four of five
    /// comparisons: 0.05 is a rise of 5 %. `drift` is that of the ratio.
    pub fn detectable(&self, drift: &Drift) -> f64 {
        let shift = drift.shift_found([CONFIDENCE, POWER], self.freedom, || {
            scatters(self.runs, drift.is_paired())
        });
        // A change within this interval would not have shown here.
        (shift.max(self.limit) * self.error + self.slack).exp_m1()
    }
}

/// Minimum number of repeats of a side for an interval.
pub const FEWEST: usize = 3;

/// Compares the repeats of two sides. `blur` is the share by which each value may be wrong however
/// often it is measured. `None` if a value is not above zero, where ratios mean nothing.
pub fn ratio(a: &[f64], b: &[f64], blur: f64, drift: &Drift) -> Option<Ratio> {
    let (one, other) = (Side::of(a)?, Side::of(b)?);
    let difference = other.mean - one.mean;
    let value = difference.exp();
    if one.n < FEWEST || other.n < FEWEST {
        return Some(Ratio { value, sure: None });
    }
    let (error, freedom) = match drift.is_paired() {
        true => rounds(a, b)?,
        false => welch(&one, &other),
    };
    let (slack, runs) = (blur.ln_1p(), one.n.min(other.n));
    let variances = variances(&one, &other, drift.is_paired());
    let limit = drift.limit(CONFIDENCE, freedom, variances);
    let half = limit * error + slack;
    let beyond = (difference.abs() - slack).max(0.0);
    let chance = match error > 0.0 {
        true => drift.chance(beyond / error, freedom, variances),
        // Without noise every difference is significant.
        false => f64::from(u8::from(beyond == 0.0)),
    };
    let range = [(difference - half).exp(), (difference + half).exp()];
    Some(Ratio { value, sure: Some(Sure { range, chance, error, freedom, limit, slack, runs }) })
}

/// Returns the geometric mean, which fits ratios. `None` as in [`ratio`].
pub fn mean(values: &[f64]) -> Option<f64> {
    Side::of(values).map(|side| side.mean.exp())
}

/// Limits of the assumed ratio of two sides' variances. A chance below `rare` uses the observed
/// ratio, one above `usual` uses `least`, and one in between is interpolated.
struct Unequal {
    rare: f64,
    usual: f64,
    least: f64,
}

impl Unequal {
    /// Returns the limits for the given number of runs, chosen by simulation: equal sides of which
    /// one follows its host three times as much are called changed in at most a tenth of all
    /// comparisons. Rounds remove the noise that both sides share, and with it the noise that would
    /// show how much each side follows. Limits that assumed unequal variances below a chance of
    /// 0.02 only were wrong in 19 to 28 of 100 comparisons with three to five rounds, and in 12
    /// with six. Such sides have variances with a ratio of nine.
    fn of(runs: usize, paired: bool) -> Unequal {
        let [rare, usual, least] = match (paired, runs) {
            (true, ..=3) => [0.02, 0.2, 9.0],
            (true, 4) => [0.02, 0.2, 3.0],
            (true, 5) => [0.02, 0.2, 4.0],
            (false, ..=5) => [0.3, 0.8, 1.0],
            (true, 6..=9) => [0.1, 0.5, 1.0],
            _ => [0.02, 0.2, 1.0],
        };
        Unequal { rare, usual, least }
    }

    /// Returns variances of this ratio, drawn together if chance explains it.
    fn variances(&self, ratio: f64, chance: f64) -> [f64; 2] {
        let weight = ((self.usual - chance) / (self.usual - self.rare)).clamp(0.0, 1.0);
        if !(ratio.is_finite() && ratio > 0.0) {
            return [1.0, 1.0];
        }
        let apart = match ratio.powf(weight) {
            apart if ratio < 1.0 => apart.min(1.0 / self.least),
            apart => apart.max(self.least),
        };
        [apart.sqrt().recip(), apart.sqrt()]
    }
}

/// Returns the variances of both sides, as far as they differ by more than chance.
fn variances(a: &Side, b: &Side, paired: bool) -> [f64; 2] {
    let ratio = b.variance / a.variance;
    let chance = match paired {
        // Sum and difference of sides with shared noise and equal variances are uncorrelated (E. J.
        // G. Pitman, A note on normal correlation, 1939).
        true => {
            let both = a.logs.iter().zip(&b.logs);
            let shared: f64 = both.map(|(x, y)| (x - a.mean) * (y - b.mean)).sum();
            let shared = shared / (a.n - 1) as f64;
            let whole = (a.variance + b.variance).powi(2) - 4.0 * shared * shared;
            let like = (b.variance - a.variance).powi(2) / whole;
            let freedom = (a.n - 2) as f64;
            student::tails((like / (1.0 - like) * freedom).sqrt(), freedom)
        }
        false => student::unequal(ratio, [(b.n - 1) as f64, (a.n - 1) as f64]),
    };
    Unequal::of(a.n.min(b.n), paired).variances(ratio, chance)
}

/// Returns variances that sides of equal variance appear to have, each with its share of all
/// comparisons.
fn scatters(runs: usize, paired: bool) -> Vec<([f64; 2], f64)> {
    const PARTS: u32 = 10;
    let rule = Unequal::of(runs, paired);
    let freedom = (runs - 2) as f64;
    let part = |part: u32| {
        let chance = rule.usual * (f64::from(part) + 0.5) / f64::from(PARTS);
        let t = student::quantile(1.0 - chance / 2.0, freedom);
        let like = (t * t / (freedom + t * t)).sqrt();
        let ratio = (1.0 + like) / (1.0 - like);
        (rule.variances(ratio, chance), rule.usual / f64::from(PARTS))
    };
    let others = (rule.variances(1.0, 1.0), 1.0 - rule.usual);
    let either = |([a, b], share): ([f64; 2], f64)| [([a, b], share / 2.0), ([b, a], share / 2.0)];
    (0..PARTS).map(part).chain([others]).flat_map(either).collect()
}

/// Returns the error of the difference of two means, and its degrees of freedom.
fn welch(a: &Side, b: &Side) -> (f64, f64) {
    let (va, vb) = (a.variance / a.n as f64, b.variance / b.n as f64);
    let freedom = match va * va / (a.n - 1) as f64 + vb * vb / (b.n - 1) as f64 {
        share if share > 0.0 => (va + vb).powi(2) / share,
        // Values without any spread leave no error in their mean.
        _ => (a.n + b.n - 2) as f64,
    };
    ((va + vb).sqrt(), freedom)
}

/// Returns the error of the mean difference of rounds, and its degrees of freedom.
fn rounds(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| b / a).collect();
    let side = Side::of(&ratios)?;
    Some(((side.variance / side.n as f64).sqrt(), (side.n - 1) as f64))
}

/// Logarithms of one side.
struct Side {
    n: usize,
    logs: Vec<f64>,
    mean: f64,
    variance: f64,
}

impl Side {
    fn of(values: &[f64]) -> Option<Side> {
        let usable = |value: &f64| value.is_finite() && *value > 0.0;
        if values.is_empty() || !values.iter().all(usable) {
            return None;
        }
        let n = values.len();
        // Logarithms are relative to the first value, so that equal values have exactly no spread.
        let from = values[0].ln();
        let logs: Vec<f64> = values.iter().map(|value| value.ln() - from).collect();
        let mean = logs.iter().sum::<f64>() / n as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let variance = squares / n.saturating_sub(1).max(1) as f64;
        Some(Side {
            n,
            logs: logs.iter().map(|log| from + log).collect(),
            mean: from + mean,
            variance,
        })
    }
}

#[cfg(test)]
mod test;
