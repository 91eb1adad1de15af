//! Acknowledged changes that a flush has covered, over all lanes of a volume or of one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const ORDER: Ordering = Ordering::SeqCst;

/// Flush coverage. Flushes are counted as they begin. A change is covered by a flush that begins
/// after it has completed, and succeeds.
#[derive(Default)]
pub(crate) struct Cover {
    /// Number of flushes started.
    begun: AtomicU64,
    /// Changes that completed when fewer flushes than this had begun are durable.
    covered: AtomicU64,
    /// One more than the number of flushes started when the last change completed.
    changed: AtomicU64,
}

/// Changes that each running server has acknowledged, by its instance: a lost connection does not
/// affect changes that a successor has acknowledged meanwhile. Servers without an instance count as
/// one.
#[derive(Default)]
pub(crate) struct Covers(Mutex<Vec<(Option<u64>, Arc<Cover>)>>);

impl Covers {
    /// Coverage of the server with this instance.
    pub(crate) fn of(&self, instance: Option<u64>) -> Arc<Cover> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Drop servers without connections.
        all.retain(|(known, cover)| *known == instance || Arc::strong_count(cover) > 1);
        if let Some((_, cover)) = all.iter().find(|(known, _)| *known == instance) {
            return Arc::clone(cover);
        }
        let cover = Arc::default();
        all.push((instance, Arc::clone(&cover)));
        cover
    }
}

impl Cover {
    /// Changes have completed. Stores only after a flush, as all lanes share the line.
    #[inline]
    pub(crate) fn change(&self) {
        let now = self.begun.load(ORDER) + 1;
        if self.changed.load(Ordering::Relaxed) < now {
            self.changed.fetch_max(now, ORDER);
        }
    }

    /// Counts the start of a flush; returns its number.
    pub(crate) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, ORDER)
    }

    /// Records that the flush of this number succeeded.
    pub(crate) fn end(&self, number: u64) {
        self.covered.fetch_max(number + 1, ORDER);
    }

    /// Claims the changes that no flush has covered: whether there were any. Later calls do not
    /// return these changes again, but those that came after.
    pub(crate) fn take_open(&self) -> bool {
        let changed = self.changed.load(ORDER);
        let is_open = self.covered.fetch_max(changed, ORDER) < changed;
        if is_open {
            // Counted as a flush, so that the next change has a larger number than these.
            self.begun.fetch_add(1, ORDER);
        }
        is_open
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_change_is_covered_by_a_flush_that_begins_after_it() {
        let cover = Cover::default();
        assert!(!cover.take_open());
        cover.change();
        let flush = cover.begin();
        cover.end(flush);
        assert!(!cover.take_open());
        let flush = cover.begin();
        cover.change();
        cover.end(flush);
        assert!(cover.take_open(), "it completed after the flush began");
        assert!(!cover.take_open(), "once");
        cover.change();
        assert!(cover.take_open(), "one that came after");
        cover.change();
        let [first, second] = [cover.begin(), cover.begin()];
        cover.end(second);
        cover.end(first);
        assert!(!cover.take_open());
    }

    #[test]
    fn each_server_has_its_own_changes() {
        let covers = Covers::default();
        let (old, new) = (covers.of(Some(1)), covers.of(Some(2)));
        new.change();
        assert!(!old.take_open(), "the new server has acknowledged it");
        old.change();
        assert!(covers.of(Some(1)).take_open() && covers.of(Some(2)).take_open());
        old.change();
        drop(old);
        drop(covers.of(Some(2)));
        assert!(!covers.of(Some(1)).take_open(), "nobody was connected to it any more");
        assert!(Arc::ptr_eq(&covers.of(None), &covers.of(None)));
    }
}
