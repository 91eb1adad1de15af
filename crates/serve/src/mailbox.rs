//! Notices between the cores of a server, and orders of its owner: rare, and never on the I/O path.

use proto::Notice;

use crate::sync::{AtomicBool, Mutex, MutexGuard, OnceLock, Ordering, PoisonError};

/// Maximum number of notices in a mailbox. Cores check once a turn, and each notice needs a login
/// or a LUN reset: only an attack fills the mailbox.
pub(crate) const NOTICES_MAX: usize = 4096;

/// Notices for one core from the others, and orders of type `O`.
pub(crate) struct Mailbox<O> {
    /// Checked in every turn of the core's loop, which takes the lock only if set.
    full: AtomicBool,
    mail: Mutex<Mail<O>>,
    wake: OnceLock<Wake>,
}

/// Content of a mailbox, in order.
#[derive(Debug, PartialEq)]
pub(crate) struct Mail<O> {
    pub(crate) notices: Vec<Notice>,
    pub(crate) orders: Vec<O>,
}

impl<O> Default for Mail<O> {
    fn default() -> Mail<O> {
        Mail { notices: Vec::new(), orders: Vec::new() }
    }
}

impl<O> Default for Mailbox<O> {
    fn default() -> Mailbox<O> {
        let (full, mail) = (AtomicBool::new(false), Mutex::new(Mail::default()));
        Mailbox { full, mail, wake: OnceLock::default() }
    }
}

/// Wakes a core, from any thread.
struct Wake(Box<dyn Fn() + Send + Sync>);

impl<O> Mailbox<O> {
    /// Sets the function that wakes the core for a new notice.
    pub(crate) fn belongs_to(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A sender holds the lock, too: either it wakes the core, or the check that follows sees
        // its notice. Set by the only thread that reads here.
        let _mail = self.lock();
        let _ = self.wake.set(Wake(Box::new(wake)));
    }

    /// Adds a notice and wakes the core. False if the mailbox is full.
    pub(crate) fn put(&self, notice: &Notice) -> bool {
        let mut mail = self.lock();
        if mail.notices.contains(notice) {
            return true;
        }
        if mail.notices.len() >= NOTICES_MAX {
            return false;
        }
        mail.notices.push(notice.clone());
        self.has_come();
        true
    }

    /// Adds an order and wakes the core. The owner waits for most of its orders, so there are few.
    pub(crate) fn order(&self, order: O) {
        let mut mail = self.lock();
        mail.orders.push(order);
        self.has_come();
    }

    /// Wakes the core; the caller holds the lock.
    fn has_come(&self) {
        self.full.store(true, Ordering::Release);
        if let Some(Wake(wake)) = self.wake.get() {
            wake();
        }
    }

    /// Takes all there is.
    pub(crate) fn take(&self) -> Mail<O> {
        if !self.full.load(Ordering::Acquire) {
            return Mail::default();
        }
        let mut mail = self.lock();
        self.full.store(false, Ordering::Release);
        std::mem::take(&mut mail)
    }

    fn lock(&self) -> MutexGuard<'_, Mail<O>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
