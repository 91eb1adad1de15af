//! Noise of repeats that follow each other on one host: how much further apart two sides may lie
//! than their repeats do.
//!
//! Repeats share the state of their host: what changes slowly between them, as other guests do,
//! lies between the sides and not within them, where the error is estimated. Few repeats cannot
//! say how slowly it changes. So every correlation of neighbouring repeats from 0 to [`MOST`] is
//! allowed for, which falls with their distance in time (a Gauss–Markov process): for each it is
//! known how far the error is from its estimate, and how many degrees of freedom the estimate has
//! (F. E. Satterthwaite, An approximate distribution of estimates of variance components, 1946).

use std::sync::OnceLock;

use crate::student;

/// Strongest correlation of neighbouring repeats that an interval allows for. At more, a host
/// changes less between two repeats than they differ by chance.
pub(crate) const MOST: f64 = 0.9;
/// Correlations that are looked at.
const STEPS: u32 = 9;

/// Error of a difference between two sides, beside the error that independent repeats would have.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// Covariances of repeats, for each correlation.
    laws: Vec<Law>,
    /// Repeats are pairs: what both of a round share is no error.
    paired: bool,
    /// Shift that is found as often as is said, beside the degrees of freedom that it is for.
    shift: OnceLock<(f64, f64)>,
}

/// Covariances of the repeats of a side with each other, and with those of the other side.
#[derive(Clone, Debug, PartialEq)]
struct Law {
    aa: Block,
    bb: Block,
    ab: Block,
}

impl Drift {
    /// None, for repeats that have nothing in common, as those of a simulation.
    pub fn none() -> Drift {
        Drift { laws: Vec::new(), paired: false, shift: OnceLock::new() }
    }

    /// Drift of two sides whose repeats were made at these times, in any unit.
    pub fn of_sides(a_s: &[f64], b_s: &[f64]) -> Drift {
        let unit = unit(a_s, b_s);
        let each = |correlation: f64| {
            let law = |from: f64, to: f64| correlation.powf((from - to).abs() / unit);
            let [aa, bb] = [a_s, b_s].map(|side| Block::of(side, side, law));
            Law { aa, bb, ab: Block::of(a_s, b_s, law) }
        };
        Drift { laws: correlations().map(each).collect(), ..Drift::none() }
    }

    /// Drift of two sides whose repeats alternate: the first of each was made in one round, and so
    /// on.
    pub fn of_rounds(a_s: &[f64], b_s: &[f64]) -> Drift {
        Drift { paired: true, ..Drift::of_sides(a_s, b_s) }
    }

    /// Tells whether repeats are compared by rounds.
    pub(crate) fn is_paired(&self) -> bool {
        self.paired
    }

    /// Errors, as they are estimated, that a difference may have with `confidence`; independent
    /// repeats would give the estimate `freedom` degrees. `variances` are those of each side.
    pub(crate) fn limit(&self, confidence: f64, freedom: f64, variances: [f64; 2]) -> f64 {
        let share = f64::midpoint(1.0, confidence);
        let one = |(times, has): (f64, f64)| student::quantile(share, has) * times.sqrt();
        self.degrees(freedom, variances).map(one).fold(0.0, f64::max)
    }

    /// Chance of a difference of so many estimated errors or more where there is none.
    pub(crate) fn chance(&self, errors: f64, freedom: f64, variances: [f64; 2]) -> f64 {
        let one = |(times, has): (f64, f64)| student::tails(errors / times.sqrt(), has);
        self.degrees(freedom, variances).map(one).fold(0.0, f64::max)
    }

    /// Shift, in errors as one comparison estimates them, that another one finds with `power` where
    /// repeats are independent and both sides scatter alike. `scatters` are variances that they
    /// seem to have by chance, each with its share of all comparisons.
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

    /// Variance over its estimate, and degrees of freedom of the estimate: of independent repeats,
    /// and of each correlation.
    fn degrees(&self, freedom: f64, variances: [f64; 2]) -> impl Iterator<Item = (f64, f64)> + '_ {
        let of = move |law: &Law| {
            let (times, has) = law.beside_estimate(variances, self.paired);
            (times, has.min(freedom))
        };
        std::iter::once((1.0, freedom)).chain(self.laws.iter().map(of))
    }
}

impl Law {
    /// The variance of the difference over its estimate, and degrees of freedom of the estimate. A
    /// side that scatters more is taken to follow the host by as much more.
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

    /// Deviations of single repeats, from what the repeats of each side show of them.
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

/// The usual distance of two neighbouring repeats.
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
    /// Covariance of both means.
    mean: f64,
    /// Rest of each around the means.
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

    /// Sum of the diagonal.
    fn trace(&self) -> f64 {
        self.around.iter().enumerate().map(|(i, row)| row[i]).sum()
    }

    /// Sum of all squares.
    fn squares(&self) -> f64 {
        self.around.iter().flatten().map(|value| value * value).sum()
    }
}
