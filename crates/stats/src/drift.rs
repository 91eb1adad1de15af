//! Noise of consecutive repeats on one host: the additional difference between two sides beyond
//! that of their repeats.
//!
//! Repeats share the state of their host. A slow change, such as that of other guests, shows
//! between the sides and not within them, where the error is estimated. Few repeats cannot show how
//! slow the change is. So every correlation of neighbouring repeats from 0 to [`MOST`] is assumed
//! in turn, decreasing with their distance in time (a Gauss–Markov process). For each correlation
//! the ratio of the error to its estimate and the degrees of freedom of the estimate are known (F.
//! E. Satterthwaite, An approximate distribution of estimates of variance components, 1946).

use std::sync::OnceLock;

use crate::student;

/// Maximum correlation of neighbouring repeats that an interval allows for. Above it, a host
/// changes less between two repeats than they differ by chance.
pub(crate) const MOST: f64 = 0.9;
/// Number of correlations to evaluate.
const STEPS: u32 = 9;

/// Error of a difference between two sides, relative to the error with independent repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// Covariances of repeats, for each correlation.
    laws: Vec<Law>,
    /// True if repeats are pairs: a change common to both repeats of a round is no error.
    paired: bool,
    /// Detectable shift, with the degrees of freedom for which it was computed.
    shift: OnceLock<(f64, f64)>,
}

/// Covariances of the repeats of a side with each other and with those of the other side.
#[derive(Clone, Debug, PartialEq)]
struct Law {
    aa: Block,
    bb: Block,
    ab: Block,
}

impl Drift {
    /// Returns no drift, for independent repeats such as those of a simulation.
    pub fn none() -> Drift {
        Drift { laws: Vec::new(), paired: false, shift: OnceLock::new() }
    }

    /// Returns the drift of two sides whose repeats ran at these times, in any unit.
    pub fn of_sides(a_s: &[f64], b_s: &[f64]) -> Drift {
        let unit = unit(a_s, b_s);
        let each = |correlation: f64| {
            let law = |from: f64, to: f64| correlation.powf((from - to).abs() / unit);
            let [aa, bb] = [a_s, b_s].map(|side| Block::of(side, side, law));
            Law { aa, bb, ab: Block::of(a_s, b_s, law) }
        };
        Drift { laws: correlations().map(each).collect(), ..Drift::none() }
    }

    /// Returns the drift of two sides whose repeats alternate: the first repeats of both sides form
    /// a round, and so on.
    pub fn of_rounds(a_s: &[f64], b_s: &[f64]) -> Drift {
        Drift { paired: true, ..Drift::of_sides(a_s, b_s) }
    }

    /// Returns whether repeats are compared by rounds.
    pub(crate) fn is_paired(&self) -> bool {
        self.paired
    }

    /// Returns the maximum difference at `confidence`, in estimated errors; with independent
    /// repeats the estimate has `freedom` degrees of freedom. `variances` are those of each side.
    pub(crate) fn limit(&self, confidence: f64, freedom: f64, variances: [f64; 2]) -> f64 {
        let share = f64::midpoint(1.0, confidence);
        let one = |(times, has): (f64, f64)| student::quantile(share, has) * times.sqrt();
        self.degrees(freedom, variances).map(one).fold(0.0, f64::max)
    }

    /// Returns the chance of a difference of at least `errors` estimated errors if the sides do not
    /// differ.
    pub(crate) fn chance(&self, errors: f64, freedom: f64, variances: [f64; 2]) -> f64 {
        let one = |(times, has): (f64, f64)| student::tails(errors / times.sqrt(), has);
        self.degrees(freedom, variances).map(one).fold(0.0, f64::max)
    }

    /// Returns the shift, in errors as one comparison estimates them, that another comparison
    /// detects with `power` if repeats are independent and both sides have the same variance.
    /// `scatters` are variances that the sides appear to have by chance, each with its share of all
    /// comparisons.
    pub(crate) fn shift_found(
        &self,
        [confidence, power]: [f64; 2],
        freedom: f64,
        scatters: impl Fn() -> Vec<([f64; 2], f64)>,
    ) -> f64 {
        let find = || {
            let limit = |variances| self.limit(confidence, freedom, variances);
            let limits: Vec<(f64, f64)> = match self.laws.is_empty() {
                true => vec![(limit([1.0, 1.0]), 1.0)],
                false => scatters().into_iter().map(|(of, share)| (limit(of), share)).collect(),
            };
            (freedom, student::shift_found(&limits, freedom, power))
        };
        match *self.shift.get_or_init(find) {
            (of, shift) if of == freedom => shift,
            _ => find().1,
        }
    }

    /// Returns the ratio of the variance to its estimate, and the degrees of freedom of the
    /// estimate: for independent repeats, and for each correlation.
    fn degrees(&self, freedom: f64, variances: [f64; 2]) -> impl Iterator<Item = (f64, f64)> + '_ {
        let of = move |law: &Law| {
            let (times, has) = law.beside_estimate(variances, self.paired);
            (times, has.min(freedom))
        };
        std::iter::once((1.0, freedom)).chain(self.laws.iter().map(of))
    }
}

impl Law {
    /// Returns the ratio of the difference's variance to its estimate, and the degrees of freedom
    /// of the estimate. A side with a greater variance is assumed to follow the host in proportion.
    fn beside_estimate(&self, variances: [f64; 2], paired: bool) -> (f64, f64) {
        let [a, b] = self.scales(variances);
        let Law { aa, bb, ab } = self;
        let variance = a * a * aa.mean + b * b * bb.mean - 2.0 * a * b * ab.mean;
        let shares = [aa.around.len(), bb.around.len()].map(|n| 1.0 / (n * (n - 1)) as f64);
        let (estimate, squares) = match paired {
            true => {
                let n = aa.around.len();
                let round = |i: usize, j: usize| {
                    let crossed = ab.around[i][j] + ab.around[j][i];
                    a * a * aa.around[i][j] + b * b * bb.around[i][j] - a * b * crossed
                };
                let trace: f64 = (0..n).map(|i| round(i, i)).sum();
                let all = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
                let squares: f64 = all.map(|(i, j)| round(i, j).powi(2)).sum();
                (shares[0] * trace, shares[0].powi(2) * squares)
            }
            false => {
                let [a, b] = [a * a * shares[0], b * b * shares[1]];
                let within = a * a * aa.squares() + b * b * bb.squares();
                (a * aa.trace() + b * bb.trace(), within + 2.0 * a * b * ab.squares())
            }
        };
        (variance / estimate, estimate * estimate / squares)
    }

    /// Returns the standard deviations of single repeats, from the spread within each side.
    fn scales(&self, variances: [f64; 2]) -> [f64; 2] {
        let whole = |variance: f64, block: &Block| {
            let seen = block.trace() / (block.around.len() - 1) as f64;
            (variance / seen).sqrt()
        };
        match [whole(variances[0], &self.aa), whole(variances[1], &self.bb)] {
            [a, b] if a + b > 0.0 => [a / (a + b), b / (a + b)],
            _ => [0.5, 0.5],
        }
    }
}

fn correlations() -> impl Iterator<Item = f64> {
    (1..=STEPS).map(|step| MOST * f64::from(step) / f64::from(STEPS))
}

/// Returns the median distance between neighbouring repeats.
fn unit(a_s: &[f64], b_s: &[f64]) -> f64 {
    let mut all: Vec<f64> = a_s.iter().chain(b_s).copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    let gaps = all.windows(2).map(|pair| pair[1] - pair[0]);
    let mut gaps: Vec<f64> = gaps.filter(|gap| *gap > 0.0).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    gaps.get(gaps.len() / 2).copied().unwrap_or(1.0)
}

/// Covariances of some repeats with others.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    /// Covariance of the two means.
    mean: f64,
    /// Covariances left after the means are removed.
    around: Vec<Vec<f64>>,
}

impl Block {
    fn of(rows: &[f64], columns: &[f64], law: impl Fn(f64, f64) -> f64) -> Block {
        let (n, m) = (rows.len(), columns.len());
        let row = |from: &f64| columns.iter().map(|to| law(*from, *to)).collect::<Vec<f64>>();
        let all: Vec<Vec<f64>> = rows.iter().map(row).collect();
        let of_row: Vec<f64> = all.iter().map(|row| row.iter().sum::<f64>() / m as f64).collect();
        let of_column: Vec<f64> =
            (0..m).map(|j| all.iter().map(|row| row[j]).sum::<f64>() / n as f64).collect();
        let mean = of_row.iter().sum::<f64>() / n as f64;
        let left = |i: usize, j: usize| all[i][j] - of_row[i] - of_column[j] + mean;
        let around = (0..n).map(|i| (0..m).map(|j| left(i, j)).collect()).collect();
        Block { mean, around }
    }

    /// Returns the sum of the diagonal.
    fn trace(&self) -> f64 {
        self.around.iter().enumerate().map(|(i, row)| row[i]).sum()
    }

    /// Returns the sum of all squares.
    fn squares(&self) -> f64 {
        self.around.iter().flatten().map(|value| value * value).sum()
    }
}
