//! Tracks whether a volume has unflushed writes.

use crate::sync::{AtomicU64, Ordering};

/// Unflushed writes to one volume by all lanes.
///
/// Flushes are numbered as they begin. A completed write gets the number of the next flush, the
/// first to cover it; so a successful flush covers all writes with its number or a lower one, and
/// none that completed after it began. Further writes with the same number store nothing, so cores
/// seldom write the shared cache line.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Number of flushes begun.
    flushes: AtomicU64,
    /// Number of the last write; 0 for none.
    last: AtomicU64,
    /// Number of the last successful flush.
    durable: AtomicU64,
}

impl Written {
    /// Records a completed write that needs a flush. To be called before the write is acknowledged.
    pub(super) fn write_done(&self) {
        // After the write's completion was seen: a flush that began later is counted already.
        let number = self.flushes.load(Ordering::SeqCst) + 1;
        if self.last.load(Ordering::Relaxed) < number {
            self.last.fetch_max(number, Ordering::SeqCst);
        }
    }

    /// Whether an acknowledged write is unflushed.
    pub(super) fn is_dirty(&self) -> bool {
        self.last.load(Ordering::SeqCst) > self.durable.load(Ordering::SeqCst)
    }

    /// Counts the start of a flush; returns its number. To be called before the flush is submitted.
    pub(super) fn flush_begins(&self) -> u64 {
        self.flushes.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The flush with this number succeeded.
    pub(super) fn flush_done(&self, number: u64) {
        self.durable.fetch_max(number, Ordering::SeqCst);
    }
}
