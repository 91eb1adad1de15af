//! The blocks that a ledger covers.

use block::Geometry;

use crate::stamp::SECTOR;
use job::spec::{FileWalk, Workload};

/// The blocks of a ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Offset of the first block on the volume.
    pub(super) start: u64,
    /// End of the last block.
    pub(super) end: u64,
    /// Block length in bytes.
    pub(super) unit: u64,
    /// Number of blocks.
    pub(super) count: usize,
    /// Whether there are words for erasures, too.
    pub(super) erases: bool,
}

impl Frame {
    /// The frame of all workloads of a volume.
    pub(super) fn of(workloads: &[&Workload], geometry: Geometry) -> Frame {
        let ranges = workloads.iter().map(|workload| workload.range.on(geometry));
        let start = ranges.clone().map(|(start, _)| start).min().unwrap_or(0);
        let end = ranges.map(|(start, bytes)| start + bytes).max().unwrap_or(0);
        let unit = unit(workloads, geometry, start);
        let count = (end - start).div_ceil(unit).max(1);
        let mut lines = workloads.iter().flat_map(|workload| &workload.access.lines);
        let erases = lines.any(|line| line.trim_percent > 0.0 || line.zero_percent > 0.0);
        let count = usize::try_from(count).unwrap_or(usize::MAX / 2);
        Frame { start, end, unit, count, erases }
    }

    /// Number of words, without the run's own.
    pub(super) fn words(&self) -> usize {
        self.count.saturating_mul(if self.erases { 2 } else { 1 }).min(usize::MAX - 1)
    }
}

/// The length that all I/Os and their offsets are multiples of.
fn unit(workloads: &[&Workload], geometry: Geometry, start: u64) -> u64 {
    let mut unit = 0;
    for workload in workloads {
        let (begin, _) = workload.range.on(geometry);
        unit = gcd(unit, begin - start);
        unit = gcd(unit, workload.access.zones.map_or(0, |zones| zones.distance_bytes()));
        let (_, bytes) = workload.range.on(geometry);
        let share = |files: &FileWalk| files.share_bytes(bytes, &workload.access);
        unit = gcd(unit, workload.access.files.as_ref().map_or(0, share));
        for line in &workload.access.lines {
            for bytes in [line.size_bytes, line.align(), line.reply_bytes] {
                unit = gcd(unit, u64::from(bytes));
            }
        }
    }
    // The fill writes the end of the volume, too.
    let rest = workloads.iter().map(|workload| workload.range.on(geometry).1);
    rest.fold(unit, gcd).max(u64::from(geometry.block_bytes.min(SECTOR as u32)))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
