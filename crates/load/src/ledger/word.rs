//! A block's word in a ledger: the last acknowledged change (31 bits), the last begun change (31
//! bits), and whether that is in flight.
//!
//! The bytes of a memory volume carry no order between writes and reads, so fences order a claim
//! before its write, and a read before the lookup of begun changes. On x86-64 both only constrain
//! the compiler.

use crate::sync::{AtomicU64, Ordering, fence};

pub(crate) const GENERATION: u64 = (1 << 31) - 1;
const BUSY: u64 = 1 << 63;

/// The last acknowledged change of a word.
pub(crate) fn acknowledged(word: u64) -> u32 {
    (word & GENERATION) as u32
}

/// The last begun change of a word.
pub(crate) fn begun(word: u64) -> u32 {
    (word >> 31 & GENERATION) as u32
}

/// Claims blocks for a change; false if one is in flight on any of them.
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

/// Undoes a claim. Only the claimer changes a claimed word.
fn give_back(block: &AtomicU64) {
    let word = block.load(Ordering::Acquire);
    let before = u64::from(begun(word)).wrapping_sub(1) & GENERATION;
    block.store(word & GENERATION | before << 31, Ordering::Release);
}

/// Orders a claim before its write: a thread that sees the write sees the claim.
pub(crate) fn before_write() {
    fence(Ordering::Release);
}

/// Between a read and the lookup of begun changes.
pub(crate) fn after_read() {
    fence(Ordering::Acquire);
}

/// Ends a change of claimed blocks; it is acknowledged if `done`.
pub(crate) fn release(blocks: &[AtomicU64], done: bool) {
    for block in blocks {
        // Only the claimer changes a claimed word.
        let word = block.load(Ordering::Acquire);
        let acknowledged = if done { word >> 31 } else { word } & GENERATION;
        block.store(word & GENERATION << 31 | acknowledged, Ordering::Release);
    }
}
