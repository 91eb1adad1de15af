//! Limits the memory of a server's buffers over all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::plant::{Plant, planted};

/// A limit in bytes, and how much of it is taken. Clones share both.
///
/// Each core's [`Pool`](crate::Pool) takes and returns steps of [`STEP_BYTES`](Budget::STEP_BYTES),
/// so that no I/O touches state shared by the cores.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Sums>);

/// A separate cache line: all cores read it, and only steps of [`Budget::STEP_BYTES`] write it.
#[derive(Debug)]
#[repr(align(64))]
struct Sums {
    limit_bytes: u64,
    held_bytes: AtomicU64,
    refusals: AtomicU32,
}

impl Budget {
    /// Bytes that a pool takes at a time: a huge page.
    pub const STEP_BYTES: u64 = 2 << 20;

    /// A budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Budget {
        let (held_bytes, refusals) = (AtomicU64::new(0), AtomicU32::new(0));
        Budget(Arc::new(Sums { limit_bytes, held_bytes, refusals }))
    }

    /// A budget without a limit.
    pub fn unlimited() -> Budget {
        Budget::new(u64::MAX)
    }

    /// Takes `bytes`. False, with nothing taken, if fewer are left.
    pub fn take(&self, bytes: u64) -> bool {
        self.take_up_to(self.0.limit_bytes, bytes)
    }

    /// Takes memory, but leaves a quarter of the limit to new connections, so that existing ones do
    /// not lock them out.
    pub fn take_shared(&self, bytes: u64) -> bool {
        self.take_up_to(self.shared_limit_bytes(), bytes)
    }

    fn shared_limit_bytes(&self) -> u64 {
        self.0.limit_bytes - self.0.limit_bytes / 4
    }

    fn take_up_to(&self, limit: u64, bytes: u64) -> bool {
        let limit = if planted(Plant::HoldAll) { u64::MAX } else { limit };
        let more = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= limit);
        let order = Ordering::Relaxed;
        let taken = self.0.held_bytes.fetch_update(order, order, more).is_ok();
        if !taken {
            self.0.refusals.fetch_add(1, order);
        }
        taken
    }

    /// Returns bytes. Panics if more than are taken.
    pub fn give(&self, bytes: u64) {
        let less = |held: u64| held.checked_sub(bytes);
        let given = self.0.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        assert!(given.is_ok(), "more is given back than was taken");
    }

    /// The limit in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    /// Bytes taken.
    pub fn held_bytes(&self) -> u64 {
        self.0.held_bytes.load(Ordering::Relaxed)
    }

    /// Bytes left.
    #[inline]
    pub fn left_bytes(&self) -> u64 {
        self.0.limit_bytes.saturating_sub(self.held_bytes())
    }

    /// Bytes left beyond those reserved for new connections, in whole steps.
    #[inline]
    pub fn shared_left_bytes(&self) -> u64 {
        let left = self.shared_limit_bytes().saturating_sub(self.held_bytes());
        left / Budget::STEP_BYTES * Budget::STEP_BYTES
    }

    /// Changes after a refusal: then others should return unused memory.
    pub fn refusals(&self) -> u32 {
        self.0.refusals.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_budget_is_kept_from_all_sides() {
        let budget = Budget::new(1000);
        let taken: u64 = std::thread::scope(|scope| {
            let take = || (0..100).filter(|_| budget.take(7)).count() as u64 * 7;
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((taken, budget.held_bytes(), budget.left_bytes()), (994, 994, 6));
        assert_eq!(budget.refusals(), 400 - 142);
        budget.give(994);
        assert!(budget.take(1000) && !budget.take(1) && !budget.take(u64::MAX));
    }

    #[test]
    #[should_panic(expected = "more is given back than was taken")]
    fn a_budget_never_holds_less_than_nothing() {
        let budget = Budget::new(1000);
        assert!(budget.take(10));
        budget.give(11);
    }
}
