//! The narrow waist.

use std::collections::VecDeque;

use crate::{Cause, Connection, Done, Fault, Geometry, Immediate, Io, Nanos, Zone, Zones};

/// One core's way to a volume.
///
/// A lane never blocks and reads no clock. Its calls take a whole batch, so the price of the
/// virtual call is shared. Every [`Io`] that was taken is answered by exactly one [`Done`].
///
/// Its owner's step is: [`poll`](Self::poll), then [`submit`](Self::submit) with what is to be done
/// next, if only an empty queue, because what the lane itself has to send goes out with it; then
/// [`wake`](Self::wake) tells how long the owner may wait.
pub trait Lane {
    /// The shape of the volume behind.
    fn geometry(&self) -> Geometry;

    /// Takes I/Os from the front of `ios`, as many as fit now; the rest stays.
    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>);

    /// Appends what is finished.
    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>);

    /// When the lane wants to be polled without any event of its core: a timer, or a time that
    /// has passed if something is finished already. `None` when only an event can bring news.
    fn wake(&self) -> Option<Nanos>;

    /// Number of the only socket of its core whose events can bring this lane news, beside
    /// [`wake`](Self::wake). `None` where any event may.
    fn socket(&self) -> Option<u32> {
        None
    }

    /// Whether a read of at most [`Pool::LARGE_BYTES`](crate::Pool::LARGE_BYTES) may come without
    /// a buffer: its [`Done`] then brings one of the core's pool, and the owner gives it back.
    ///
    /// A lane that waits for others lends: buffers are then in use while they hold data, not
    /// while they wait for them, and few warm ones serve any depth.
    fn lends(&self) -> bool {
        false
    }

    /// The same way for I/Os that are done within the call, where all are. A lane around others has
    /// one if all of these do.
    fn immediate(&mut self) -> Option<&mut dyn Immediate> {
        None
    }

    /// Whether it is ready for I/Os. Until then its owner calls poll and submit with nothing, as
    /// wake and the core's events ask for; where that never helps, it is [`broken`](Self::broken).
    fn is_open(&self) -> bool {
        true
    }

    /// Why no I/O can succeed any more, in words for the user.
    fn broken(&self) -> Option<&str> {
        None
    }

    /// What the [`Cause`] of a [`Done`] of this lane says, in the words of the system or the
    /// standard that it comes from. Only asked after a fault; `None` where the fault says all.
    fn words_of(&self, _cause: Cause) -> Option<String> {
        None
    }

    /// What became of its connection by `now`, where it has one that is made again when it breaks
    /// or could be. A lane around others passes theirs on, or their sum.
    fn connection(&self, _now: Nanos) -> Connection {
        Connection::default()
    }

    /// The zones of a device that is written from write pointers on, as it tells them now; `None`
    /// for all others, and for a lane around others.
    fn zones(&self) -> Option<Zones> {
        None
    }

    /// Moves the write pointer of one of them back to its beginning. The call waits for the device:
    /// there is no I/O for it.
    ///
    /// # Errors
    ///
    /// Why not, with a cause for [`words_of`](Self::words_of).
    fn reset_zone(&mut self, _: &Zone) -> Result<(), (Fault, Cause)> {
        Err((Fault::Unsupported, Cause::NONE))
    }

    /// Asks for an orderly end of the way, if there is such a thing. True when it has ended.
    /// The owner calls it, with poll and submit, until it is true or its patience is over.
    fn close(&mut self, _now: Nanos) -> bool {
        true
    }
}
