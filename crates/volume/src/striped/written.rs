//! Whether a volume holds writes that no flush has made durable yet.

use crate::sync::{AtomicU64, Ordering};

/// What is known of the writes to one volume by all lanes.
///
/// Flushes are numbered as they begin. A write that is done gets the number of the next one, which
/// is the first to cover it; so a flush that succeeds covers all writes with its number and lower
/// ones, and none that was done after it began. A write changes nothing while others since the last
/// flush have the same number, so lanes on several cores share a line that is seldom written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// How many flushes have begun.
    flushes: AtomicU64,
    /// The number of the last write; 0 for none.
    last: AtomicU64,
    /// The number of the last flush that succeeded.
    durable: AtomicU64,
}

impl Written {
    /// A write that may need a flush is done. To be called before it is acknowledged.
    pub(super) fn write_done(&self) {
        // After the completion of the write was seen: a flush that began later has counted already.
        let number = self.flushes.load(Ordering::SeqCst) + 1;
        if self.last.load(Ordering::Relaxed) < number {
            self.last.fetch_max(number, Ordering::SeqCst);
        }
    }

    /// Whether some write was acknowledged that no flush covers.
    pub(super) fn is_dirty(&self) -> bool {
        self.last.load(Ordering::SeqCst) > self.durable.load(Ordering::SeqCst)
    }

    /// A flush begins; its number. To be called before the volume hears of it.
    pub(super) fn flush_begins(&self) -> u64 {
        self.flushes.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The flush with this number has succeeded.
    pub(super) fn flush_done(&self, number: u64) {
        self.durable.fetch_max(number, Ordering::SeqCst);
    }
}
