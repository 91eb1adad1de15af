//! A pseudo-random permutation of any size, in constant memory and time.

use block::splitmix;

/// A pseudo-random bijection of 0..count.
///
/// Rounds of invertible steps on words of b bits (addition, multiplication by an odd number,
/// xorshift) permute 0..2ᵇ. Results beyond `count` are permuted again until they fall inside: less
/// than twice on average.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); ROUNDS],
}

/// Fewer leave neighbours near each other; see the test.
const ROUNDS: usize = 4;

impl Permutation {
    /// The permutation of `count` elements, at least one, for `key`.
    pub(super) fn new(count: u64, key: u64) -> Permutation {
        let bits = (64 - (count.max(2) - 1).leading_zeros()).max(2);
        let mut state = key;
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        // Multipliers are odd, so that they are invertible, and 5 modulo 8, so that low bits
        // change.
        let round = |()| (splitmix(&mut state), splitmix(&mut state) & !7 | 5);
        Permutation { count, mask, shift: bits.div_ceil(2), rounds: [(); ROUNDS].map(round) }
    }

    /// The image of `index`, which is below the count.
    #[inline]
    pub(super) fn at(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            for (add, multiply) in self.rounds {
                value = value.wrapping_add(add).wrapping_mul(multiply) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.count {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn visits_each_once(count in 1_u64..3000, key: u64) {
            let permutation = Permutation::new(count, key);
            let mut seen = vec![false; count as usize];
            for index in 0..count {
                let place = permutation.at(index) as usize;
                prop_assert!(!std::mem::replace(&mut seen[place], true));
            }
        }

        #[test]
        fn stays_inside(count in 1_u64..=u64::MAX, index: u64, key: u64) {
            prop_assert!(Permutation::new(count, key).at(index % count) < count);
        }
    }

    #[test]
    fn has_no_pattern() {
        // Distances of neighbours, in eight classes, are as uniform as random ones; so is the
        // parity, which weak mixing of low bits would show.
        let count = 1_000_003;
        let permutation = Permutation::new(count, 1);
        let (mut classes, mut odd) = ([0_u32; 8], 0_u32);
        for index in 0..100_000 {
            let (a, b) = (permutation.at(index), permutation.at(index + 1));
            classes[((b + count - a) % count * 8 / count) as usize] += 1;
            odd += u32::from(a % 2 != b % 2);
        }
        assert!(classes.iter().all(|n| (12_000..13_000).contains(n)), "{classes:?}");
        assert!((49_200..50_800).contains(&odd), "{odd}");
    }
}
