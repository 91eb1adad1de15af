//! Offers of a server: its targets, subsystems or exports now, which it may change while hosts
//! are connected.

use std::fmt;
use std::sync::Arc;

/// A source of the current list, read when a host logs in or lists what there is. A connection
/// keeps what its login found, and no I/O reads anything that changes.
pub struct Offers<T>(Box<dyn Fn() -> Arc<T>>);

impl<T> Offers<T> {
    /// A list that `current` returns.
    pub fn new(current: impl Fn() -> Arc<T> + 'static) -> Offers<T> {
        Offers(Box::new(current))
    }

    /// The list now.
    pub fn now(&self) -> Arc<T> {
        (self.0)()
    }
}

impl<T: 'static> From<Arc<T>> for Offers<T> {
    /// A list that never changes.
    fn from(list: Arc<T>) -> Offers<T> {
        Offers::new(move || Arc::clone(&list))
    }
}

impl<T> fmt::Debug for Offers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Offers")
    }
}
