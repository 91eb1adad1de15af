//! Set of ranges of a file that are accounted for. Counting bytes is not enough: two equal extents
//! would cover for a missing one.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of ranges that do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Start and end of each range. Adjacent ranges are merged.
    ranges: BTreeMap<u64, u64>,
}

impl Places {
    /// Adds a range, unless it is empty or overlaps an existing one.
    #[must_use]
    pub fn claim(&mut self, range: Range<u64>) -> bool {
        let before = self.ranges.range(..=range.start).next_back().map(|(s, e)| (*s, *e));
        let after = self.ranges.range(range.start..).next().map(|(start, end)| (*start, *end));
        let overlaps = before.is_some_and(|(_, end)| end > range.start)
            || after.is_some_and(|(start, _)| start < range.end);
        if range.is_empty() || overlaps {
            return false;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((after, to)) = after.filter(|(start, _)| *start == range.end) {
            self.ranges.remove(&after);
            end = to;
        }
        if let Some((from, _)) = before.filter(|(_, end)| *end == range.start) {
            start = from;
        }
        self.ranges.insert(start, end);
        true
    }

    /// Ranges up to `end` that were not added.
    pub fn missing(&self, end: u64) -> Vec<Range<u64>> {
        let (mut at, mut missing) = (0, Vec::new());
        for (start, to) in &self.ranges {
            if at < *start && at < end {
                missing.push(at..(*start).min(end));
            }
            at = at.max(*to);
        }
        if at < end {
            missing.push(at..end);
        }
        missing
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_byte_counts_once() {
        const END: usize = 64;
        for seed in 0..200 {
            let mut state = seed;
            let mut chance = |below: usize| block::splitmix(&mut state) as usize % below;
            let (mut places, mut bytes) = (Places::default(), [false; END]);
            for _ in 0..40 {
                let start = chance(END);
                let end = (start + chance(12)).min(END);
                let is_free = start < end && bytes[start..end].iter().all(|taken| !taken);
                assert_eq!(places.claim(start as u64..end as u64), is_free, "seed {seed}");
                if is_free {
                    bytes[start..end].fill(true);
                }
                let mut missing = [false; END];
                for range in places.missing(END as u64) {
                    assert!(!range.is_empty(), "seed {seed}");
                    missing[range.start as usize..range.end as usize].fill(true);
                }
                assert!(bytes.iter().zip(missing).all(|(one, two)| *one != two), "seed {seed}");
            }
        }
        assert_eq!(Places::default().missing(0), []);
    }
}
