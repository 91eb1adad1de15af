//! Blocks with a data pattern instead of stamps.

use block::Geometry;

use super::FindingKind;
use job::spec::{DataPattern, Workload};

/// The pattern, and the blocks in which it restarts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patterned {
    pattern: DataPattern,
    /// Offset of a block of the volume, and the block length.
    start: u64,
    block_bytes: u64,
}

impl Patterned {
    /// The pattern of a workload that verifies one.
    pub(crate) fn of(workload: &Workload, geometry: Geometry) -> Option<Patterned> {
        let pattern = workload.content.pattern.clone().filter(|_| workload.verify.is_some())?;
        // With several sizes each is a multiple of the pattern.
        let size = workload.access.size_bytes().map(u64::from);
        let block_bytes = size.unwrap_or(pattern.len_bytes());
        let (start, _) = workload.range.on(geometry);
        Some(Patterned { pattern, start: start % block_bytes, block_bytes })
    }

    /// Fills a write.
    pub(super) fn fill(&self, data: &mut [u8], offset: u64) {
        self.pattern.fill(data, offset);
    }

    /// The finding of a block, or a part of one, at `place`.
    pub(super) fn judge(&self, data: &[u8], place: u64) -> Option<FindingKind> {
        let from = (place - self.start) % self.block_bytes;
        let (at, wanted) = self.pattern.difference(data, place - from, from)?;
        Some(FindingKind::Differs { at: place + at as u64, found: data[at], wanted })
    }
}
