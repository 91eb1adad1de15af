//! The geometry of a volume.

use crate::{Fault, Io, Op};

/// Capacity, block size and capabilities of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of a logical block in bytes: a power of two from 512 to 65536, or 1 for a file with
    /// byte granularity.
    pub block_bytes: u32,
    /// Number of logical blocks.
    pub blocks: u64,
    /// Writes are refused with [`Fault::ReadOnly`].
    pub read_only: bool,
    /// Acknowledged writes may be lost in a power cut until a flush: a volatile write cache.
    pub volatile: bool,
    /// Trimmed blocks read as zeroes. Otherwise they may still hold their old data.
    pub trim_zeroes: bool,
}

impl Geometry {
    /// Returns a writable volume of `bytes`, rounded down to whole blocks of `block_bytes`, without
    /// a volatile cache, whose trimmed blocks read as zeroes.
    pub fn new(bytes: u64, block_bytes: u32) -> Geometry {
        let device = block_bytes.is_power_of_two() && (512..=65536).contains(&block_bytes);
        assert!(device || block_bytes == 1);
        let blocks = bytes / u64::from(block_bytes);
        Geometry { block_bytes, blocks, read_only: false, volatile: false, trim_zeroes: true }
    }

    /// Capacity in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_bytes)
    }

    /// Checks that `io` lies inside the volume on whole blocks and is allowed.
    ///
    /// Every lane calls this first.
    pub fn check(&self, io: &Io) -> Result<(), Fault> {
        if io.op == Op::Flush {
            return Ok(());
        }
        let mask = u64::from(self.block_bytes) - 1;
        let end = io.offset.checked_add(u64::from(io.len)).ok_or(Fault::OutOfRange)?;
        if (io.offset | u64::from(io.len)) & mask != 0 || end > self.bytes() {
            return Err(Fault::OutOfRange);
        }
        if self.read_only && io.op != Op::Read {
            return Err(Fault::ReadOnly);
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Tag;

    fn io(op: Op, offset: u64, len: u32) -> Io {
        Io { tag: Tag(0), op, offset, len, fua: false, buf: None }
    }

    #[test]
    fn checks_range_alignment_and_access() {
        let mut g = Geometry::new(10_000, 512);
        assert_eq!((g.blocks, g.bytes()), (19, 9728));
        assert_eq!(g.check(&io(Op::Read, 9216, 512)), Ok(()));
        assert_eq!(g.check(&io(Op::Read, 9216, 1024)), Err(Fault::OutOfRange));
        assert_eq!(g.check(&io(Op::Read, 1, 512)), Err(Fault::OutOfRange));
        assert_eq!(g.check(&io(Op::Read, u64::MAX - 511, 512)), Err(Fault::OutOfRange));
        g.read_only = true;
        assert_eq!(g.check(&io(Op::Trim, 0, 512)), Err(Fault::ReadOnly));
        assert_eq!(g.check(&io(Op::Flush, 0, 0)), Ok(()));
        let bytes = Geometry::new(10_000, 1);
        assert_eq!((bytes.bytes(), bytes.check(&io(Op::Read, 7, 9993))), (10_000, Ok(())));
        assert_eq!(bytes.check(&io(Op::Read, 8, 9993)), Err(Fault::OutOfRange));
    }
}
