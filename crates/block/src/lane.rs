//! The interface that every volume implements and every I/O passes.

use std::collections::VecDeque;

use crate::{Cause, Connection, Done, Fault, Geometry, Immediate, Io, Nanos, Zone, Zones};

/// One core's queue to a volume; SPDK calls it an I/O channel.
///
/// A lane never blocks and reads no clock. Its calls take a whole batch, which amortizes the
/// virtual call. Every [`Io`] taken gets exactly one [`Done`].
///
/// The owner calls [`poll`](Self::poll), then [`submit`](Self::submit) with new I/Os or an empty
/// queue, because the lane also sends its PDUs there; [`wake`](Self::wake) returns how long the
/// owner may wait.
pub trait Lane {
    /// The geometry of the volume.
    fn geometry(&self) -> Geometry;

    /// Takes I/Os from the front of `ios`, as many as fit now; the rest stays.
    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>);

    /// Appends completions.
    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>);

    /// Returns when the lane needs a poll without an event: a timer, or a past time if completions
    /// are ready, or a submit must send data that a poll queued. `None` if only events matter.
    fn wake(&self) -> Option<Nanos>;

    /// Returns the only inner lane, of a lane that delays or fails its I/Os; it provides the
    /// answers that this lane does not override.
    fn inner(&self) -> Option<&dyn Lane> {
        None
    }

    /// Returns the number of the core's only socket whose events concern this lane, apart from
    /// [`wake`](Self::wake). `None` if any event may.
    fn socket(&self) -> Option<u32> {
        None
    }

    /// Whether a read of at most [`Pool::LARGE_BYTES`](crate::Pool::LARGE_BYTES) may be submitted
    /// without a buffer: its [`Done`] then brings one of the core's pool, which the owner returns.
    ///
    /// Remote lanes lend: buffers are then in use while they hold data, not while they wait for it,
    /// and a few warm ones serve any queue depth.
    fn lends(&self) -> bool {
        self.inner().is_some_and(Lane::lends)
    }

    /// The interface for execution within the call, if all I/Os can be. A lane around others has it
    /// if all of them do.
    fn immediate(&mut self) -> Option<&mut dyn Immediate> {
        None
    }

    /// Returns whether the lane is ready for I/Os. Until then its owner polls it, according to wake
    /// and events, and submits nothing; if the opening failed, the lane is
    /// [`broken`](Self::broken).
    fn is_open(&self) -> bool {
        self.inner().is_none_or(Lane::is_open)
    }

    /// Why no I/O can succeed any more, in words for the user.
    fn broken(&self) -> Option<&str> {
        self.inner()?.broken()
    }

    /// Explains the [`Cause`] of a [`Done`] of this lane, in words of the kernel or the standard.
    /// Only called after a fault; `None` if the fault says everything.
    fn words_of(&self, cause: Cause) -> Option<String> {
        self.inner()?.words_of(cause)
    }

    /// Returns the connection counters up to `now`, for a lane that reconnects or could. A lane
    /// around others returns their counters, or their sum.
    fn connection(&self, now: Nanos) -> Connection {
        self.inner().map_or_else(Connection::default, |lane| lane.connection(now))
    }

    /// Returns until when changes that were sent on lost connections of the volume, and never
    /// answered, may still be executed; `None` if there are none. Until then a lane delays later
    /// changes of the same blocks. A lane around others returns the latest of their times.
    fn in_doubt_until(&self) -> Option<Nanos> {
        self.inner()?.in_doubt_until()
    }

    /// Returns how often changes of the volume have come to be in doubt so far. A caller that
    /// compares the count with an earlier one also learns of doubts that ended before a call of
    /// [`in_doubt_until`](Self::in_doubt_until). A lane around others returns the sum of their
    /// counts.
    fn doubts(&self) -> u64 {
        self.inner().map_or(0, Lane::doubts)
    }

    /// Declares that the owner has restored or reported acknowledged, unflushed changes that the
    /// volume may have lost until now: flushes of the volume need not fail for them. Returns
    /// whether there were any. If this lane [looks](Self::looks), the owner has seen the content of
    /// the volume: lanes that are opened later break if they meet another running server than this
    /// lane, as far as servers identify themselves.
    fn forget_losses(&self) -> bool {
        self.inner().is_some_and(Lane::forget_losses)
    }

    /// Announces that the owner will inspect the volume's content through this lane, which is not
    /// open yet: any server is the right one.
    fn looks(&self) {
        if let Some(inner) = self.inner() {
            inner.looks();
        }
    }

    /// The zones of a zoned device, as it reports them now; `None` for all other lanes, and for a
    /// lane around others.
    fn zones(&self) -> Option<Zones> {
        None
    }

    /// Resets the write pointer of a zone. Blocks until the device is done: there is no I/O for it.
    ///
    /// # Errors
    ///
    /// The fault, with a cause for [`words_of`](Self::words_of).
    fn reset_zone(&mut self, _: &Zone) -> Result<(), (Fault, Cause)> {
        Err((Fault::Unsupported, Cause::NONE))
    }

    /// Closes the lane, with a logout if the protocol has one. True once it is closed. The owner
    /// calls it, with poll and submit, until it is true or its time limit is over.
    fn close(&mut self, _now: Nanos) -> bool {
        true
    }
}

/// Interval at which a lane without I/Os is polled: targets wait some seconds for an answer to
/// their pings.
const LOOK: Nanos = Nanos::from_secs(1);

/// Returns when to poll a lane without I/Os, for an owner of many lanes that polls only busy ones
/// in each turn: at once if it is due, else within a second if it has timers at all. Not at the
/// timers themselves, which may belong to others: to an emulated drive that other cores use.
pub fn idle_look(lane: &dyn Lane, now: Nanos) -> Option<Nanos> {
    lane.wake().map(|wake| if wake <= now { now } else { now + LOOK })
}
