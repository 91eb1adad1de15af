//! Draws from a weighted list in constant time.

use block::Rng;

/// Walker's alias table, built by Vose's method (1991): each column holds its own entry up to a
/// limit and one other beyond.
#[derive(Debug)]
pub(super) struct Alias(Vec<Column>);

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Share of the column, of 2⁶⁴, that is its own.
    own: u64,
    other: u32,
}

impl Alias {
    /// For entries with these weights, at least one of them above 0.
    pub(super) fn new(shares: impl Iterator<Item = f64>) -> Alias {
        let mut shares: Vec<f64> = shares.map(|share| share.max(0.0)).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        shares.iter_mut().for_each(|share| *share /= mean);
        let mut columns: Vec<Column> =
            (0..shares.len() as u32).map(|other| Column { own: u64::MAX, other }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..shares.len()).partition(|index| shares[*index] < 1.0);
        while let (Some(poor), Some(rich)) = (small.pop(), large.last().copied()) {
            let own = (shares[poor] * 2_f64.powi(64)) as u64;
            columns[poor] = Column { own, other: rich as u32 };
            shares[rich] -= 1.0 - shares[poor];
            if shares[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Alias(columns)
    }

    /// The index of an entry.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> usize {
        let [_] = self.0[..] else { return self.draw_of_many(rng) };
        0
    }

    #[inline]
    fn draw_of_many(&self, rng: &mut Rng) -> usize {
        // The upper half of the product is the column, the lower one the position in it.
        let product = u128::from(rng.next_u64()) * self.0.len() as u128;
        let column = self.0[(product >> 64) as usize];
        if (product as u64) < column.own { (product >> 64) as usize } else { column.other as usize }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn draws_by_shares() {
        let shares = [0.0, 50.0, 12.5, 0.5, 37.0];
        let alias = Alias::new(shares.into_iter());
        let mut rng = Rng::new(3, 0);
        let mut counts = [0_u32; 5];
        (0..1_000_000).for_each(|_| counts[alias.draw(&mut rng)] += 1);
        for (share, count) in shares.iter().zip(counts) {
            let expected = share * 10_000.0;
            assert!((f64::from(count) - expected).abs() <= 5.0 * expected.sqrt(), "{counts:?}");
        }
        assert_eq!(Alias::new([7.0].into_iter()).draw(&mut rng), 0);
    }
}
