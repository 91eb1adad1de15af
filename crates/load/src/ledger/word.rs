//! A block's word in a ledger: the change that was acknowledged last (31 bits), the one that was
//! begun last (31 bits), and whether that is still in flight.
//!
//! The bytes of a volume in memory say nothing of the order in which they were written and read, so
//! a fence stands between a claim and the write, and between a read and the question what had been
//! begun. On x86-64 both only bind the compiler.

use crate::sync::{AtomicU64, Ordering, fence};

pub(crate) const GENERATION: u64 = (1 << 31) - 1;
const BUSY: u64 = 1 << 63;

/// The change that a word says was acknowledged last.
pub(crate) fn acknowledged(word: u64) -> u32 {
    (word & GENERATION) as u32
}

/// The change that a word says was begun last.
pub(crate) fn begun(word: u64) -> u32 {
    (word >> 31 & GENERATION) as u32
}

/// Claims blocks for a change; false when one is in flight on any of them.
pub(crate) fn claim(blocks: &[AtomicU64]) -> bool {
    for (index, block) in blocks.iter().enumerate() {
        let claimed = block.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let begun = (u64::from(begun(word)) + 1) & GENERATION;
            (word & BUSY == 0).then_some(word & GENERATION | begun << 31 | BUSY)
        });
        if claimed.is_err() {
            blocks[..index].iter().for_each(give_back);
            return false;
        }
    }
    true
}

/// Takes back a claim of which nothing came. Nobody else changes a word that is claimed.
fn give_back(block: &AtomicU64) {
    let word = block.load(Ordering::Acquire);
    let before = u64::from(begun(word)).wrapping_sub(1) & GENERATION;
    block.store(word & GENERATION | before << 31, Ordering::Release);
}

/// To be called between a claim and what is then written: whoever sees the latter sees the former.
pub(crate) fn before_write() {
    fence(Ordering::Release);
}

/// To be called between what was read and the question what had been begun.
pub(crate) fn after_read() {
    fence(Ordering::Acquire);
}

/// Ends a change of claimed blocks: it is acknowledged if it was `done`.
pub(crate) fn release(blocks: &[AtomicU64], done: bool) {
    for block in blocks {
        // Nobody else changes a word that is claimed.
        let word = block.load(Ordering::Acquire);
        let acknowledged = if done { word >> 31 } else { word } & GENERATION;
        block.store(word & GENERATION << 31 | acknowledged, Ordering::Release);
    }
}
