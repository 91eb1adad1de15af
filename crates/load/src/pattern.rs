//! Where the next I/O goes and what it does.

use block::{Geometry, Op, print_size};
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// An access specification: what a worker does to its volume.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Length of each I/O in bytes, whole blocks.
    pub size_bytes: u32,
    /// Share of reads, 0 to 100; the rest are writes.
    pub read_percent: f64,
    /// Share of I/Os at a random place, 0 to 100; the rest follow the one before.
    pub random_percent: f64,
    /// Each I/O begins at a multiple of this; the length by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align_bytes: Option<u32>,
}

/// Why an access specification does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AccessError {
    /// No length.
    #[error("the size of an I/O must not be 0")]
    Empty,
    /// Longer than a buffer may be.
    #[error("an I/O of {} is longer than 16m", print_size(u64::from(*.0)))]
    TooLong(u32),
    /// Not whole blocks.
    #[error("{what} of {bytes} bytes is not a multiple of the volume's block of {block} bytes")]
    NotWholeBlocks {
        /// "a size" or "an alignment".
        what: &'static str,
        /// The value.
        bytes: u32,
        /// The volume's block.
        block: u32,
    },
    /// The volume is smaller than one I/O.
    #[error("a volume of {volume} bytes is smaller than one I/O of {size} bytes")]
    VolumeTooSmall {
        /// Capacity.
        volume: u64,
        /// Length of an I/O.
        size: u32,
    },
    /// Not a share.
    #[error("{what} must be 0 to 100 percent, not {value}")]
    NotAShare {
        /// Which.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// Writes to a volume that takes none.
    #[error("the volume is write-protected, and the job writes")]
    ReadOnly,
}

/// Longest I/O: 16 MiB.
const MAX_BYTES: u32 = 16 << 20;

impl Access {
    /// Whether it fits a volume of this shape.
    pub fn check(&self, geometry: Geometry) -> Result<(), AccessError> {
        let (size, block) = (self.size_bytes, geometry.block_bytes);
        match size {
            0 => return Err(AccessError::Empty),
            _ if size > MAX_BYTES => return Err(AccessError::TooLong(size)),
            _ => {}
        }
        let align = self.align_bytes.unwrap_or(size);
        for (what, bytes) in [("a size", size), ("an alignment", align)] {
            if bytes == 0 || !bytes.is_multiple_of(block) {
                return Err(AccessError::NotWholeBlocks { what, bytes, block });
            }
        }
        if geometry.bytes() < u64::from(size) {
            return Err(AccessError::VolumeTooSmall { volume: geometry.bytes(), size });
        }
        for (what, value) in [
            ("the share of reads", self.read_percent),
            ("the share of random", self.random_percent),
        ] {
            if !(0.0..=100.0).contains(&value) {
                return Err(AccessError::NotAShare { what, value });
            }
        }
        if self.writes() && geometry.read_only {
            return Err(AccessError::ReadOnly);
        }
        Ok(())
    }

    /// Whether it writes at all.
    pub fn writes(&self) -> bool {
        self.read_percent < 100.0
    }
}

/// The stream of accesses of one worker.
#[derive(Debug)]
pub(crate) struct Pattern {
    rng: Rng,
    size: u32,
    align: u64,
    /// Places where an I/O may begin, counted in alignments.
    places: u64,
    /// Place of the next sequential I/O.
    next: u64,
    /// Shares of 2³².
    reads: u64,
    randoms: u64,
}

/// A share of 100 as one of 2³².
fn share(percent: f64) -> u64 {
    (percent / 100.0 * (1_u64 << 32) as f64).round() as u64
}

impl Pattern {
    /// For a volume that the access was checked against. Sequential workers of one volume begin
    /// at places of their own: `worker` of `workers`.
    pub(crate) fn new(
        access: &Access,
        geometry: Geometry,
        rng: Rng,
        worker: u64,
        workers: u64,
    ) -> Pattern {
        let align = u64::from(access.align_bytes.unwrap_or(access.size_bytes));
        let places = (geometry.bytes() - u64::from(access.size_bytes)) / align + 1;
        let next = (u128::from(places) * u128::from(worker) / u128::from(workers)) as u64;
        let (reads, randoms) = (share(access.read_percent), share(access.random_percent));
        Pattern { rng, size: access.size_bytes, align, places, next, reads, randoms }
    }

    /// Length of every I/O.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Whether any I/O writes.
    pub(crate) fn writes(&self) -> bool {
        self.reads < 1 << 32
    }

    /// Operation and offset of the next I/O. Constant time.
    #[inline]
    pub(crate) fn next(&mut self) -> (Op, u64) {
        const ALL: u64 = 1 << 32;
        let op = match self.reads {
            ALL => Op::Read,
            0 => Op::Write,
            reads if self.rng.chance(reads) => Op::Read,
            _ => Op::Write,
        };
        let random = self.randoms == ALL || (self.randoms > 0 && self.rng.chance(self.randoms));
        let place = if random { self.rng.below(self.places) } else { self.next };
        // A sequential I/O follows whatever was done before it.
        let step = if self.align == u64::from(self.size) { 1 } else { self.steps() };
        self.next = if place + step >= self.places { 0 } else { place + step };
        (op, place * self.align)
    }

    #[cold]
    fn steps(&self) -> u64 {
        u64::from(self.size).div_ceil(self.align)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::{prop_assert, proptest};

    const ACCESS: Access =
        Access { size_bytes: 4096, read_percent: 70.0, random_percent: 100.0, align_bytes: None };

    fn pattern(access: Access, bytes: u64) -> Pattern {
        let geometry = Geometry::new(bytes, 512);
        access.check(geometry).unwrap();
        Pattern::new(&access, geometry, Rng::new(1, 2), 0, 1)
    }

    #[test]
    fn says_what_does_not_fit() {
        let g = Geometry::new(1 << 20, 4096);
        let size = |size_bytes| Access { size_bytes, ..ACCESS }.check(g).unwrap_err().to_string();
        assert!(size(0).contains("must not be 0"));
        assert!(size(512).contains("not a multiple of the volume's block of 4096"));
        assert!(size(2 << 20).contains("smaller than one I/O"));
        assert!(size(32 << 20).contains("longer than 16m"));
        let access = Access { read_percent: f64::NAN, ..ACCESS };
        assert!(access.check(g).unwrap_err().to_string().contains("share of reads"));
        let protected = Geometry { read_only: true, ..g };
        assert_eq!(ACCESS.check(protected), Err(AccessError::ReadOnly));
    }

    #[test]
    fn keeps_the_mix_and_reaches_every_place() {
        let mut pattern = pattern(ACCESS, 64 << 10);
        let mut seen = [0_u32; 16];
        let mut reads = 0;
        for _ in 0..16_000 {
            let (op, offset) = pattern.next();
            seen[(offset / 4096) as usize] += 1;
            reads += u32::from(op == Op::Read);
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert!((11_000..11_400).contains(&reads), "{reads}");
    }

    #[test]
    fn runs_through_and_begins_again() {
        let access = Access { random_percent: 0.0, ..ACCESS };
        let mut forward = pattern(access, 5 * 4096);
        let offsets: Vec<u64> = (0..7).map(|_| forward.next().1 / 4096).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 0, 1]);
        let fine = Access { align_bytes: Some(512), ..access };
        let mut fine = pattern(fine, 3 * 4096 + 512);
        let offsets: Vec<u64> = (0..5).map(|_| fine.next().1).collect();
        assert_eq!(offsets, [0, 4096, 8192, 0, 4096]);
    }

    proptest! {
        #[test]
        fn stays_inside_and_aligned(
            size in 1_u32..64, align in 1_u32..64, blocks in 64_u64..10_000, random in 0.0..=100.0,
            seed: u64,
        ) {
            let access = Access {
                size_bytes: size * 512,
                read_percent: 50.0,
                random_percent: random,
                align_bytes: Some(align * 512),
            };
            let geometry = Geometry::new(blocks * 512, 512);
            let mut pattern = Pattern::new(&access, geometry, Rng::new(seed, 0), 1, 3);
            for _ in 0..200 {
                let (_, offset) = pattern.next();
                prop_assert!(offset % u64::from(align * 512) == 0);
                prop_assert!(offset + u64::from(size * 512) <= geometry.bytes());
            }
        }
    }
}
