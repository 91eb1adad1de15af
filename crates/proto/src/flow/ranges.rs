//! Ranges of a volume for a command without data from the peer: trims, zeroing, flushes.

use block::Op;

/// Longest trim or zeroing in one I/O: a multiple of any block.
pub(crate) const CLEAR_BYTES_MAX: u32 = 1 << 30;

/// Ranges, and the progress of the volume's requests for them.
#[derive(Debug)]
pub(crate) struct Ranges {
    pub(crate) op: Op,
    /// Offset and length in bytes.
    list: Vec<(u64, u64)>,
    /// The first range that is not all with the volume, and how much of it is.
    index: usize,
    at: u64,
}

impl Ranges {
    /// Work that is to be done on each of these.
    pub(crate) fn new(op: Op, list: Vec<(u64, u64)>) -> Ranges {
        Ranges { op, list, index: 0, at: 0 }
    }

    /// Returns the offset of the next I/O, and the bytes left in its range.
    pub(crate) fn next(&self) -> Option<(u64, u64)> {
        let (offset, len) = self.list.get(self.index)?;
        Some((offset + self.at, len - self.at))
    }

    /// The index of the first range that is not all with the volume.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Notes that the next `len` bytes, at most the rest of the range, were handed to the volume.
    pub(crate) fn advance(&mut self, len: u32) {
        self.at += u64::from(len);
        if self.list.get(self.index).is_some_and(|(_, all)| *all == self.at) {
            (self.index, self.at) = (self.index + 1, 0);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ranges_are_cut_and_a_flush_is_one() {
        let mut ranges = Ranges::new(Op::Trim, vec![(0, 0), (8, 6), (100, 4)]);
        let mut seen = Vec::new();
        while let Some((offset, left)) = ranges.next() {
            let len = left.min(4) as u32;
            seen.push((offset, len));
            ranges.advance(len);
        }
        assert_eq!(seen, [(0, 0), (8, 4), (12, 2), (100, 4)]);
    }
}
