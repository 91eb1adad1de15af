//! The current zone, one after the other (zonemode=strided).

use super::general::LineState;
use job::spec::{Access, Part, ZoneWalk};

/// The zone of one worker.
#[derive(Debug)]
pub(super) struct Zones {
    walk: ZoneWalk,
    /// Number of zones, at least one.
    count: u64,
    /// The current one, from 0.
    index: u64,
    /// Bytes read and written in it.
    moved: u64,
    /// Length of each except the last.
    bytes: u64,
    /// Lines of the other kind of zone: of the last one, which the end of the range cuts short, or,
    /// while that is current, of the whole ones. Empty if none is cut.
    others: Vec<LineState>,
    /// The lines in use are those of the last zone.
    in_last: bool,
}

impl Zones {
    /// For a range of this length. Workers of a volume start in zones of their own.
    pub(super) fn new(walk: ZoneWalk, access: &Access, bytes: u64, seed: u64, part: Part) -> Zones {
        let longest = u64::from(access.longest_bytes());
        let distance = walk.distance_bytes();
        let count = (bytes - longest) / distance + 1;
        let rest = bytes - (count - 1) * distance;
        let range = walk.range_bytes.min(bytes);
        let cut = |line| LineState::new(line, access, rest, seed, Part::WHOLE);
        let others: Vec<LineState> = match rest < range {
            true => access.lines.iter().map(cut).collect(),
            false => Vec::new(),
        };
        // With more workers than zones some share a start.
        let index = part.begin(count).min(count - 1);
        Zones { walk, count, index, moved: 0, bytes: range, others, in_last: false }
    }

    /// Length of a whole zone.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Offset of the zone within the range.
    pub(super) fn begin(&self) -> u64 {
        self.index * self.walk.distance_bytes()
    }

    /// Counts an I/O of this length, and moves on to the next zone if this one had its share. True
    /// on a restart.
    pub(super) fn advance(&mut self, lines: &mut Vec<LineState>, size: u32) -> bool {
        let next = self.moved >= self.walk.transfer_bytes;
        if next {
            self.moved = 0;
            self.index = (self.index + 1) % self.count;
            lines.iter_mut().chain(&mut self.others).for_each(LineState::restart);
        }
        let last = !self.others.is_empty() && self.index == self.count - 1;
        if last != self.in_last {
            self.in_last = last;
            std::mem::swap(lines, &mut self.others);
        }
        self.moved += u64::from(size);
        next
    }
}

#[cfg(test)]
mod test {
    use std::collections::BTreeSet;

    use super::*;
    use crate::pattern::Pattern;
    use crate::pattern::test::pattern;
    use job::spec::Places;

    const BLOCK: u64 = 4096;

    fn access(random: f64, [transfer, range, skip]: [u64; 3]) -> Access {
        let zones = ZoneWalk {
            transfer_bytes: transfer * BLOCK,
            range_bytes: range * BLOCK,
            skip_bytes: skip * BLOCK,
        };
        Access { zones: Some(zones), ..Access::new(4096, 100.0, random) }
    }

    fn blocks(pattern: &mut Pattern, count: usize) -> Vec<u64> {
        (0..count).map(|_| pattern.next().unwrap().offset / BLOCK).collect()
    }

    #[test]
    fn a_part_of_each_zone_is_read_and_the_last_is_followed_by_the_first() {
        let mut pattern = pattern(access(0.0, [2, 4, 3]), 16 * BLOCK);
        assert_eq!(blocks(&mut pattern, 8), [0, 1, 7, 8, 14, 15, 0, 1]);
    }

    #[test]
    fn a_zone_is_read_again_before_the_next() {
        let mut forward = pattern(access(0.0, [5, 2, 2]), 8 * BLOCK);
        assert_eq!(blocks(&mut forward, 11), [0, 1, 0, 1, 0, 4, 5, 4, 5, 4, 0]);
        let access = Access { random: Places::Once, ..access(100.0, [8, 4, 4]) };
        let mut once = pattern(access, 24 * BLOCK);
        for zone in blocks(&mut once, 60).chunks(8).enumerate() {
            let (index, visited) = zone;
            let begin = index as u64 % 3 * 8;
            for pass in visited.chunks_exact(4) {
                let seen: BTreeSet<u64> = pass.iter().copied().collect();
                assert_eq!(seen, (begin..begin + 4).collect(), "{visited:?}");
            }
        }
    }

    #[test]
    fn a_zone_that_the_end_cuts_is_used_as_far_as_it_goes() {
        let mut forward = pattern(access(0.0, [5, 5, 0]), 7 * BLOCK);
        assert_eq!(blocks(&mut forward, 12), [0, 1, 2, 3, 4, 5, 6, 5, 6, 5, 0, 1]);
        for random in [Places::Once, Places::Uniform] {
            let access = Access { random, ..access(100.0, [5, 5, 0]) };
            let mut pattern = pattern(access, 7 * BLOCK);
            for (index, zone) in blocks(&mut pattern, 100).chunks(5).enumerate() {
                let inside = if index % 2 == 0 { 0..5 } else { 5..7 };
                assert!(zone.iter().all(|block| inside.contains(block)), "{zone:?}");
            }
        }
    }

    #[test]
    fn a_range_shorter_than_a_zone_is_one() {
        let mut pattern = pattern(access(0.0, [9, 9, 1]), 3 * BLOCK);
        assert_eq!(blocks(&mut pattern, 4), [0, 1, 2, 0]);
    }
}
