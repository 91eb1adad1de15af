//! What the cores of a server tell each other: seldom, and never on the way of an I/O.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use proto::Notice;

/// Notices that wait for a core at most. A core looks once a turn, and each notice takes a login or
/// a reset of a unit: this many never wait unless somebody tries.
const NOTICES_MAX: usize = 4096;

/// Where one core finds what others have told it.
#[derive(Default)]
pub(crate) struct Mailbox {
    /// Looked at in every turn of the core's loop, so that it need not take the lock for nothing.
    full: AtomicBool,
    notices: Mutex<Vec<Notice>>,
    wake: OnceLock<Wake>,
}

/// Wakes a core, from any thread.
struct Wake(Box<dyn Fn() + Send + Sync>);

impl Mailbox {
    /// What wakes the core for what is put in here.
    pub(crate) fn belongs_to(&self, wake: impl Fn() + Send + Sync + 'static) {
        // Set by the one thread that reads here.
        let _ = self.wake.set(Wake(Box::new(wake)));
    }

    /// Puts a notice in and wakes the core. False if there is no room.
    pub(crate) fn put(&self, notice: &Notice) -> bool {
        let mut notices = self.lock();
        if notices.contains(notice) {
            return true;
        }
        if notices.len() >= NOTICES_MAX {
            return false;
        }
        notices.push(notice.clone());
        self.full.store(true, Ordering::Release);
        if let Some(Wake(wake)) = self.wake.get() {
            wake();
        }
        true
    }

    /// Takes out what is there, in order.
    pub(crate) fn take(&self) -> Vec<Notice> {
        if !self.full.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut notices = self.lock();
        self.full.store(false, Ordering::Release);
        std::mem::take(&mut notices)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Notice>> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proto::UnitId;

    #[test]
    fn keeps_the_order_takes_nothing_twice_and_has_an_end() {
        let mailbox = Mailbox::default();
        assert!(mailbox.take().is_empty());
        let reset = |unit| Notice::UnitReset(UnitId(unit));
        for unit in [2, 1, 2] {
            assert!(mailbox.put(&reset(unit)));
        }
        assert_eq!(mailbox.take(), [reset(2), reset(1)]);
        assert!(mailbox.take().is_empty());
        let all = NOTICES_MAX as u32;
        assert!((0..all).all(|unit| mailbox.put(&reset(unit))));
        assert!(!mailbox.put(&reset(all)) && mailbox.put(&reset(0)));
        assert_eq!(mailbox.take().len(), NOTICES_MAX);
        assert!(mailbox.put(&reset(all)));
    }
}
