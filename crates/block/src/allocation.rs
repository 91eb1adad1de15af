//! Allocation: the parts of a volume that have storage. Reads of a hole never reach a medium.

use std::fmt::Debug;

/// A part of a volume in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, at least 1.
    pub bytes: u64,
    /// No storage is allocated, and the extent reads as zeroes.
    pub is_hole: bool,
}

/// The extents of a volume. A server answers its clients' questions from them: NBD block status,
/// SCSI GET LBA STATUS.
pub trait Extents: Debug + Send + Sync {
    /// The extent that begins at `offset`, cut to `len` bytes. Both are multiples of the block, or
    /// end with the volume, and so is the answer's length; `len` is at least 1.
    ///
    /// The call may look at metadata of a file system, and returns in microseconds to
    /// milliseconds. An extent whose state is not known is no hole; it may be shorter than it could
    /// be.
    fn at(&self, offset: u64, len: u64) -> Extent;
}

/// Extents of `extents` from `offset` on, at most `len` bytes and `most` extents, with neighbours
/// of the same state merged.
pub fn extents_of(extents: &dyn Extents, offset: u64, len: u64, most: usize) -> Vec<Extent> {
    let (mut list, mut done) = (Vec::<Extent>::new(), 0);
    // Merged neighbours may be many extents, so there may be that many calls.
    for _ in 0..most {
        if done >= len {
            break;
        }
        let next = extents.at(offset + done, len - done);
        let next = Extent { bytes: next.bytes.clamp(1, len - done), ..next };
        done += next.bytes;
        match list.last_mut() {
            Some(last) if last.is_hole == next.is_hole => last.bytes += next.bytes,
            _ => list.push(next),
        }
    }
    list
}

/// A server's report on ranges of a volume, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Everything that the server has reported on.
    pub bytes: u64,
    /// Bytes without storage.
    pub holes: u64,
    /// Bytes with storage that are known to read as zeroes.
    pub zeroes: u64,
}

impl Allocation {
    /// Adds a part.
    pub fn add(&mut self, other: Allocation) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.holes = self.holes.saturating_add(other.holes);
        self.zeroes = self.zeroes.saturating_add(other.zeroes);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Every second block of 4096 bytes is a hole, each extent in pieces of 1024 bytes.
    #[derive(Debug)]
    struct Striped;

    impl Extents for Striped {
        fn at(&self, offset: u64, len: u64) -> Extent {
            let left = 1024 - offset % 1024;
            Extent { bytes: left.min(len), is_hole: offset / 4096 % 2 == 1 }
        }
    }

    #[test]
    fn neighbours_are_merged_and_nothing_lies_outside() {
        let of = |offset, len, most| extents_of(&Striped, offset, len, most);
        let extent = |bytes, is_hole| Extent { bytes, is_hole };
        let all = [extent(2048, false), extent(4096, true), extent(512, false)];
        assert_eq!(of(2048, 6656, 64), all);
        assert_eq!(of(0, 1 << 20, 5), [extent(4096, false), extent(1024, true)]);
        assert_eq!(of(4096, 1, 64), [extent(1, true)]);
        assert_eq!(of(0, 0, 64), []);
    }

    #[test]
    fn parts_add_up() {
        let mut sum = Allocation { bytes: 10, holes: 4, zeroes: 1 };
        sum.add(Allocation { bytes: u64::MAX, holes: 1, zeroes: 0 });
        assert_eq!(sum, Allocation { bytes: u64::MAX, holes: 5, zeroes: 1 });
    }
}
