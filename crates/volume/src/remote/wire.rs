//! Reactor of a remote lane, which can also connect.

use block::Nanos;
use os::{Core, Reactor};

use super::attempt::Attempt;
use crate::dial::Dial;

/// A reactor that connects. The simulation has one without a kernel.
pub trait Wire: Reactor {
    /// A connection attempt.
    type Attempt;

    /// Starts to connect, and returns at once.
    fn attempt<D: Dial>(&self, now: Nanos, dial: &D) -> Self::Attempt;

    /// Result, once known: a connection, or an error. Not to be called again after a result.
    fn look<D: Dial>(
        &self,
        now: Nanos,
        attempt: &mut Self::Attempt,
        dial: &D,
    ) -> Option<Result<Self::Stream, String>>;

    /// Time of the next check of an attempt.
    fn wake(attempt: &Self::Attempt) -> Nanos;
}

impl Wire for Core {
    type Attempt = Attempt;

    fn attempt<D: Dial>(&self, now: Nanos, dial: &D) -> Attempt {
        Attempt::begin(dial, now)
    }

    fn look<D: Dial>(
        &self,
        now: Nanos,
        attempt: &mut Attempt,
        dial: &D,
    ) -> Option<Result<Self::Stream, String>> {
        attempt.look(now, dial)
    }

    fn wake(attempt: &Attempt) -> Nanos {
        attempt.wake()
    }
}
