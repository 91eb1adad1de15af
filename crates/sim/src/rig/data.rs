//! Contents of a volume, for runs that verify reads, and wrong data for corrupted reads.

use std::collections::HashMap;

use block::Rng;

use super::medium::BLOCK;

const LEN: usize = BLOCK as usize;
/// One in this many eligible reads is answered wrongly.
const RARE: u64 = 8;

/// The written blocks of a volume.
pub(super) struct Data {
    blocks: HashMap<u64, Block>,
    rng: Rng,
}

/// A block.
#[derive(Default)]
struct Block {
    now: Option<[u8; LEN]>,
    before: Option<[u8; LEN]>,
    /// Turn in which the block's last write was acknowledged.
    acknowledged: u64,
    /// Writes in flight.
    writes: u32,
    /// A write failed after the last success.
    unsure: bool,
}

/// The blocks of a range.
fn places(offset: u64, len: usize) -> impl Iterator<Item = u64> {
    (offset..offset + len as u64).step_by(LEN)
}

impl Data {
    /// An empty volume with this number.
    pub(super) fn new(number: u64) -> Data {
        Data { blocks: HashMap::new(), rng: Rng::new(number, 3) }
    }

    /// Records that a write is submitted.
    pub(super) fn begin(&mut self, offset: u64, len: u32) {
        places(offset, len as usize)
            .for_each(|place| self.blocks.entry(place).or_default().writes += 1);
    }

    /// Executes a write.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (place, bytes) in places(offset, bytes.len()).zip(bytes.chunks_exact(LEN)) {
            let block = self.blocks.entry(place).or_default();
            block.before = block.now.replace(bytes.try_into().expect("a chunk is a block"));
        }
    }

    /// Records that a write completes.
    pub(super) fn end(&mut self, offset: u64, len: u32, done: bool, turn: u64) {
        for place in places(offset, len as usize) {
            let block = self.blocks.entry(place).or_default();
            (block.writes, block.acknowledged, block.unsure) = (block.writes - 1, turn, !done);
        }
    }

    /// The volume's data; zeroes where never written.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        for (place, bytes) in places(offset, bytes.len()).zip(bytes.chunks_exact_mut(LEN)) {
            match self.blocks.get(&place).and_then(|block| block.now) {
                Some(now) => bytes.copy_from_slice(&now),
                None => bytes.fill(0),
            }
        }
    }

    /// Corrupts a read whose data its worker knows for certain, because it began, in `turn`, after
    /// the last write of each block was acknowledged. Returns whether it was corrupted.
    pub(super) fn lie(&mut self, offset: u64, bytes: &mut [u8], turn: u64) -> bool {
        let known = |place: u64| {
            let block = self.blocks.get(&place);
            let block = block.filter(|block| block.now.is_some() && !block.unsure)?;
            (block.writes == 0 && block.acknowledged < turn).then_some(block)
        };
        let blocks: Option<Vec<&Block>> = places(offset, bytes.len()).map(known).collect();
        let Some(blocks) = blocks.filter(|_| self.rng.below(RARE) == 0) else { return false };
        let at = self.rng.below(bytes.len() as u64) as usize;
        let (block, part) = (at / LEN, at / LEN * LEN..at / LEN * LEN + LEN);
        match (self.rng.below(3), blocks[block].before) {
            // A lost write, and a misdirected one.
            (0, Some(before)) => bytes[part].copy_from_slice(&before),
            (1, _) if bytes.len() > LEN => bytes.rotate_left(LEN),
            _ => bytes[at] ^= 1 << self.rng.below(8),
        }
        true
    }
}
