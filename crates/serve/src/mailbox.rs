//! Notices between the cores of a server: rare, and never on the I/O path.

use proto::Notice;

use crate::sync::{AtomicBool, Mutex, MutexGuard, OnceLock, Ordering, PoisonError};

/// Maximum number of notices in a mailbox. Cores check once a turn, and each notice needs a login
/// or a LUN reset: only an attack fills the mailbox.
pub(crate) const NOTICES_MAX: usize = 4096;

/// Notices for one core from the others.
#[derive(Default)]
pub(crate) struct Mailbox {
    /// Checked in every turn of the core's loop, which takes the lock only if set.
    full: AtomicBool,
    notices: Mutex<Vec<Notice>>,
    wake: OnceLock<Wake>,
}

/// Wakes a core, from any thread.
struct Wake(Box<dyn Fn() + Send + Sync>);

impl Mailbox {
    /// Sets the function that wakes the core for a new notice.
    pub(crate) fn belongs_to(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A sender holds the lock, too: either it wakes the core, or the check that follows sees
        // its notice. Set by the only thread that reads here.
        let _notices = self.lock();
        let _ = self.wake.set(Wake(Box::new(wake)));
    }

    /// Adds a notice and wakes the core. False if the mailbox is full.
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

    /// Takes all notices, in order.
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
