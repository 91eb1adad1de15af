//! The linear program for the bound on all classes together.

/// Maximum number of classes.
const CLASSES_MAX: usize = 256;
/// Maximum number of pivots; a program of this size needs a few times its number of rows.
const PIVOTS_MAX: usize = 20_000;

/// Returns the maximum sum of rates x with Σ x·cost ≤ limit at each station and x ≤ most for each
/// class.
///
/// `costs` has a row per class. Beyond the limits of this file, the sum of `most` is returned,
/// which is also a bound.
pub(super) fn maximum(costs: &[Vec<f64>], limits: &[f64], most: &[f64]) -> f64 {
    let sum = most.iter().sum();
    if most.len() > CLASSES_MAX || f64::is_infinite(sum) {
        return sum;
    }
    let mut table = Table::new(costs, limits, most);
    for _ in 0..PIVOTS_MAX {
        let Some(column) = table.entering() else { return table.value() };
        let Some(row) = table.leaving(column) else { return sum };
        table.pivot(row, column);
    }
    sum
}

/// A simplex tableau of rates, each scaled by its own bound: all numbers are about 1.
struct Table {
    /// Constraints, with the objective last; the right-hand side is the last column.
    rows: Vec<Vec<f64>>,
    /// Variables by position: first those of the columns, then those of the rows.
    columns: Vec<usize>,
    basis: Vec<usize>,
}

/// Rounding error below which a number counts as zero, among numbers of about 1.
const TINY: f64 = 1e-11;

impl Table {
    fn new(costs: &[Vec<f64>], limits: &[f64], most: &[f64]) -> Table {
        let classes = most.len();
        let mut rows = Vec::new();
        for (station, limit) in limits.iter().enumerate() {
            let share = |class: usize| costs[class][station] * most[class] / limit;
            let mut row: Vec<f64> = (0..classes).map(share).collect();
            // A station that all classes together cannot saturate adds no constraint.
            if row.iter().sum::<f64>() > 1.0 {
                row.push(1.0);
                rows.push(row);
            }
        }
        for class in 0..classes {
            let mut row = vec![0.0; classes + 1];
            (row[class], row[classes]) = (1.0, 1.0);
            rows.push(row);
        }
        let basis = (classes..classes + rows.len()).collect();
        rows.push(most.iter().map(|most| -most).chain([0.0]).collect());
        Table { rows, columns: (0..classes).collect(), basis }
    }

    fn gain(&self) -> &[f64] {
        &self.rows[self.rows.len() - 1]
    }

    fn value(&self) -> f64 {
        self.gain()[self.columns.len()]
    }

    /// Returns the entering column: the one of the lowest variable (Bland's rule, which never
    /// cycles).
    fn entering(&self) -> Option<usize> {
        let largest = self.gain().iter().fold(0.0_f64, |most, gain| most.max(gain.abs()));
        let gains = |column: &usize| self.gain()[*column] < -TINY * largest;
        (0..self.columns.len()).filter(gains).min_by_key(|column| self.columns[*column])
    }

    fn leaving(&self, column: usize) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for (row, variable) in self.basis.iter().enumerate() {
            if self.rows[row][column] > TINY {
                let ratio = self.rows[row][self.columns.len()] / self.rows[row][column];
                let better = best.is_none_or(|(least, other)| {
                    ratio < least || ratio == least && *variable < self.basis[other]
                });
                if better {
                    best = Some((ratio, row));
                }
            }
        }
        best.map(|(_, row)| row)
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let factor = 1.0 / self.rows[row][column];
        self.rows[row][column] = 1.0;
        self.rows[row].iter_mut().for_each(|x| *x *= factor);
        let pivot = self.rows[row].clone();
        for (index, other) in self.rows.iter_mut().enumerate() {
            let factor = other[column];
            if index != row && factor != 0.0 {
                other[column] = 0.0;
                other.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
            }
        }
        std::mem::swap(&mut self.basis[row], &mut self.columns[column]);
    }
}
