//! Writes that no flush has covered yet, from the view of a client.

use std::cell::Cell;
use std::rc::Rc;

use block::Fault;

/// A client's knowledge of the durability of its writes.
pub(super) struct Flushed {
    /// Failed flushes of the client's unit.
    pub(super) losses: Rc<Cell<u64>>,
    /// Number of failed flushes when the first unflushed write was acknowledged.
    pub(super) since: Option<u64>,
    /// Number of failed flushes, likewise, for writes after the flush in flight began.
    pub(super) next: Option<u64>,
    /// The client checks the server's reported instance; others, like kernels, do not.
    pub(super) looks: bool,
    pub(super) instance: Option<u64>,
}

impl Flushed {
    /// Records that a write was acknowledged.
    pub(super) fn wrote(&mut self) {
        let now = self.losses.get();
        self.since.get_or_insert(now);
        self.next.get_or_insert(now);
    }

    /// Handles the end of a flush that began when `begun` flushes had failed. A failed flush
    /// reports the loss of all writes that were acknowledged by then.
    pub(super) fn ended(&mut self, begun: u64, result: Result<(), Fault>) -> Result<(), String> {
        if result.is_err() {
            self.forget();
            return Ok(());
        }
        let since = std::mem::replace(&mut self.since, self.next.take());
        match since.filter(|since| *since < begun) {
            None => Ok(()),
            Some(_) => Err("it is done, though one has failed since data were written".to_owned()),
        }
    }

    /// Notes that the client knows of possible losses, or has no record of its writes.
    pub(super) fn forget(&mut self) {
        (self.since, self.next) = (None, None);
    }
}
