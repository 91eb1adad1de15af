//! The narrow waist.

use std::collections::VecDeque;

use crate::{Done, Geometry, Io, Memory, Nanos};

/// One core's way to a volume.
///
/// A lane never blocks and reads no clock. Both calls take a whole batch, so the price of the
/// virtual call is shared. Every [`Io`] that was taken is answered by exactly one [`Done`].
pub trait Lane {
    /// The shape of the volume behind.
    fn geometry(&self) -> Geometry;

    /// Takes I/Os from the front of `ios`, as many as fit now; the rest stays.
    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>);

    /// Appends what is finished. Returns when the lane next wants to be polled without any event
    /// of its own (a timer); `None` when only an event or a submission can bring news.
    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) -> Option<Nanos>;

    /// The volume's bytes, if they are plain memory that may be answered from in place.
    ///
    /// With memory, a [`Read`](crate::Op::Read) without a buffer is legal: its [`Done`] says that
    /// the bytes at its offset may now be copied out of the memory.
    fn memory(&self) -> Option<&Memory> {
        None
    }
}
