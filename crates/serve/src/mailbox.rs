//! What the cores of a server tell each other: seldom, and never on the way of an I/O.

use proto::Notice;

use crate::sync::{AtomicBool, Mutex, MutexGuard, OnceLock, Ordering, PoisonError};

/// Notices that wait for a core at most. A core looks once a turn, and each notice takes a login or
/// a reset of a unit: this many never wait unless somebody tries.
pub(crate) const NOTICES_MAX: usize = 4096;

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
        // Whoever puts something in holds the lock, too: either it wakes the core, or what it put
        // is seen by the look that follows. Set by the one thread that reads here.
        let _notices = self.lock();
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
