//! What is written, so that nothing can compress or share it, and so that reads can be compared.

use crate::rng::{Rng, splitmix};

/// Blocks are told apart in units of this.
const UNIT: usize = 512;

/// Fills a buffer with random data.
pub(crate) fn fill_random(bytes: &mut [u8], rng: &mut Rng) {
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&rng.next().to_le_bytes()[..word.len()]);
    }
}

/// Fills a buffer with the content that belongs to `offset` under `seed`.
pub(crate) fn stamp(bytes: &mut [u8], offset: u64, seed: u64) {
    for (index, unit) in bytes.chunks_exact_mut(UNIT).enumerate() {
        let mut state = first(offset, index, seed);
        for word in unit.chunks_exact_mut(8) {
            word.copy_from_slice(&splitmix(&mut state).to_le_bytes());
        }
    }
}

/// Compares a buffer with the content that belongs to `offset` under `seed`: where it first
/// differs, if it does.
pub(crate) fn check(bytes: &[u8], offset: u64, seed: u64) -> Option<u64> {
    for (index, unit) in bytes.chunks_exact(UNIT).enumerate() {
        let mut state = first(offset, index, seed);
        for (place, word) in unit.chunks_exact(8).enumerate() {
            if *word != splitmix(&mut state).to_le_bytes() {
                return Some(offset + (index * UNIT + place * 8) as u64);
            }
        }
    }
    None
}

/// Where the numbers of a unit begin: places that are near each other begin far apart.
fn first(offset: u64, index: usize, seed: u64) -> u64 {
    let mut state = seed ^ (offset + (index * UNIT) as u64);
    splitmix(&mut state)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn tells_every_place_and_every_byte_apart() {
        let mut bytes = vec![0; 4096];
        stamp(&mut bytes, 8192, 5);
        assert_eq!(check(&bytes, 8192, 5), None);
        assert_eq!(check(&bytes[512..], 8704, 5), None);
        assert_eq!(check(&bytes, 8704, 5), Some(8704));
        assert_eq!(check(&bytes, 8192, 6), Some(8192));
        bytes[2047] ^= 1;
        assert_eq!(check(&bytes, 8192, 5), Some(8192 + 2040));
    }
}
