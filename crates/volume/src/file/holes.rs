//! Holes of a file, for a server whose clients ask.

use std::fs::File;
use std::io;
use std::ops::Range;

use block::{Extent, Extents};

/// Pieces of data that one call looks at: those between which no whole block is a hole.
const PIECES_MAX: usize = 16;

/// The holes of a file, by `SEEK_DATA` and `SEEK_HOLE`. A file system that shows none has none.
#[derive(Debug)]
pub(super) struct Holes {
    pub(super) file: File,
    pub(super) block_bytes: u64,
}

impl Extents for Holes {
    fn at(&self, offset: u64, len: u64) -> Extent {
        first(offset, len, self.block_bytes, |range| os::next_data(&self.file, range))
    }
}

/// The first extent of whole blocks, where `next_data` says where the first data of a range are.
/// A range that cannot be examined is data.
fn first(
    offset: u64,
    len: u64,
    block_bytes: u64,
    next_data: impl Fn(Range<u64>) -> io::Result<Range<u64>>,
) -> Extent {
    let end = offset + len;
    let mut at = offset;
    for _ in 0..PIECES_MAX {
        let data = next_data(at..end).unwrap_or(at..end);
        let whole = data.start - data.start % block_bytes;
        let hole_end = if data.start >= end { end } else { whole.max(at) };
        if hole_end > at {
            let is_hole = at == offset;
            return Extent { bytes: if is_hole { hole_end } else { at } - offset, is_hole };
        }
        at = data.end.next_multiple_of(block_bytes).min(end);
        if at >= end {
            break;
        }
    }
    Extent { bytes: at - offset, is_hole: false }
}

#[cfg(test)]
mod test {
    use super::*;

    /// The extents of a range, where these parts of the file are data.
    fn all(data: &[Range<u64>], (offset, len): (u64, u64), block: u64) -> Vec<(u64, bool)> {
        let next = |range: Range<u64>| {
            let found = data.iter().find(|data| data.end > range.start);
            let found = found.cloned().unwrap_or(range.end..range.end);
            let start = found.start.clamp(range.start, range.end);
            Ok(start..found.end.clamp(start, range.end))
        };
        let (mut at, mut list) = (offset, Vec::new());
        while at < offset + len {
            let extent = first(at, offset + len - at, block, next);
            assert!(extent.bytes > 0, "no progress at {at}");
            list.push((extent.bytes, extent.is_hole));
            at += extent.bytes;
        }
        list
    }

    #[test]
    fn only_whole_blocks_are_holes() {
        let (hole, data) = (true, false);
        assert_eq!(all(&[], (0, 4096), 512), [(4096, hole)]);
        let [begin, whole] = [0..512, 0..4096];
        assert_eq!(all(&[whole], (0, 4096), 512), [(4096, data)]);
        let one = 5000..5001;
        assert_eq!(
            all(std::slice::from_ref(&one), (0, 16384), 512),
            [(4608, hole), (512, data), (11264, hole)]
        );
        assert_eq!(all(std::slice::from_ref(&one), (4608, 512), 512), [(512, data)]);
        assert_eq!(all(&[one], (0, 16384), 65536), [(16384, data)], "less than a block");
        // Two pieces in neighbouring blocks, without a block between them.
        let two = [100..200, 600..1000];
        assert_eq!(all(&two, (0, 2048), 512), [(1024, data), (1024, hole)]);
        // The end of a file to the byte.
        assert_eq!(all(&[begin], (0, 1001), 1), [(512, data), (489, hole)]);
    }

    #[test]
    fn many_pieces_end_a_call_and_not_the_progress() {
        let pieces: Vec<_> = (0..100).map(|i| i * 512..i * 512 + 100).collect();
        let list = all(&pieces, (0, 100 * 512), 512);
        assert_eq!(list.iter().map(|(bytes, _)| bytes).sum::<u64>(), 100 * 512);
        assert!(list.iter().all(|(_, is_hole)| !is_hole), "{list:?}");
        assert!(list.len() > 1, "{list:?}");
    }

    #[test]
    fn what_cannot_be_asked_is_data() {
        let fails = |_| Err(io::ErrorKind::Other.into());
        assert_eq!(first(512, 4096, 512, fails), Extent { bytes: 4096, is_hole: false });
    }
}
