//! Losses of acknowledged changes that no flush had covered, and which of them were reported.
//!
//! A failed flush reports a loss: once per volume, on any of its lanes. A loss counts as reported
//! when the lane returns the answer; flushes that began earlier fail, too, since their callers may
//! have waited for the same changes.

use std::sync::atomic::{AtomicU64, Ordering};

/// One total order: both change only when something was lost.
const ORDER: Ordering = Ordering::SeqCst;

/// Losses of a volume, counted.
#[derive(Default)]
pub(crate) struct Losses {
    count: AtomicU64,
    told: AtomicU64,
}

impl Losses {
    /// Acknowledged changes may be lost.
    #[cold]
    pub(crate) fn lose(&self) {
        self.count.fetch_add(1, ORDER);
    }

    /// Number of losses.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(ORDER)
    }

    /// Number of reported losses.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(ORDER)
    }

    /// Marks all losses up to this number as reported.
    #[cold]
    pub(crate) fn tell(&self, losses: u64) {
        self.told.fetch_max(losses, ORDER);
    }
}

/// Failed flushes of one lane that report losses, until a poll returns them.
#[derive(Default)]
pub(crate) struct Telling {
    /// Last loss that an answer reports, or 0.
    answered: u64,
}

impl Telling {
    /// Records a failed flush, which reports all losses up to this one.
    #[cold]
    pub(crate) fn answer(&mut self, losses: u64) {
        self.answered = losses;
    }

    /// Counts the losses as reported, because a poll returns all answers.
    #[inline]
    pub(crate) fn returned(&mut self, losses: &Losses) {
        if self.answered != 0 {
            losses.tell(std::mem::take(&mut self.answered));
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_loss_counts_as_told_when_the_answer_is_returned() {
        let (losses, mut lane) = (Losses::default(), Telling::default());
        losses.lose();
        lane.answer(losses.count());
        losses.lose();
        assert_eq!((losses.count(), losses.told()), (2, 0), "it may never be returned");
        lane.returned(&losses);
        assert_eq!((losses.count(), losses.told()), (2, 1), "the second one is another matter");
        lane.returned(&losses);
        assert_eq!(losses.told(), 1);
    }
}
