//! Choice of the leg that serves a read.

use block::splitmix;

/// The leg that serves reads of a granule. Reads of whole granules are spread over the legs, and so
/// are aligned reads of two, four or more granules: over two legs within each pair, over more legs
/// by a hash.
pub(super) fn turn_of(granule: u64, legs: u32) -> u32 {
    let number = u64::from(legs);
    match legs {
        2 => granule.count_ones() % 2,
        _ => ((granule + splitmix(&mut (granule / number)) % number) % number) as u32,
    }
}

#[cfg(test)]
mod test {
    use super::turn_of;

    #[test]
    fn reads_of_any_length_use_all_legs_alike() {
        for legs in 1..=16 {
            for length in [1, 2, 3, 4, 6, 8, 16, 64, 1024] {
                let mut reads = vec![0; legs as usize];
                let many = 1000 * u64::from(legs);
                (0..many).for_each(|read| reads[turn_of(read * length, legs) as usize] += 1);
                // Multiples of three have even parity more often.
                let slack = if legs == 2 && length % 3 == 0 { 300 } else { 150 };
                let right = reads.iter().all(|count| (1000 - slack..1000 + slack).contains(count));
                assert!(right, "{legs} legs, reads of {length} granules: {reads:?}");
            }
        }
    }

    #[test]
    fn neighbours_take_turns() {
        for legs in 1..=16_u32 {
            for first in (0..64).map(|first| first * u64::from(legs)) {
                let all = (0..u64::from(legs)).map(|next| turn_of(first + next, legs));
                let mut all: Vec<u32> = all.collect();
                all.sort_unstable();
                assert_eq!(all, (0..legs).collect::<Vec<_>>());
            }
        }
        for length in [2, 4, 8, 16] {
            let pair =
                |read: u64| (turn_of(2 * read * length, 2), turn_of((2 * read + 1) * length, 2));
            assert!((0..500).map(pair).all(|(one, other)| one != other));
        }
    }
}
