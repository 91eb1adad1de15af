//! Where a core that nobody asks anything sleeps: on the processor on which its news come in.
//!
//! Waking a processor from its sleep takes an interrupt from another one, and in a virtual machine
//! a change of the host's, 100 µs and more; a thread of the processor that is awake anyway starts
//! within a few. That one is the peer's on loopback, and the one that a network card interrupts
//! otherwise. Who comes to work there is in the way, so a core with more than a little to do goes
//! home again.

use std::os::fd::AsRawFd;

use block::Nanos;

use crate::core::{Core, CoreState, Slot};
use crate::cpu;
use crate::reference::incoming_cpu;

/// Idle time after which a core sleeps as a guest.
const IDLE: Nanos = Nanos::from_millis(10);
/// A sleep of this length says that there is little to do.
const REST: Nanos = Nanos::from_millis(1);
/// A guest that did not rest for this long goes home.
const STAY: Nanos = Nanos::from_millis(1);

/// Where a core is, of one that may be a guest elsewhere.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) home: usize,
    /// The processor that it is on.
    at: usize,
    /// Those that it may sleep on.
    among: Vec<usize>,
    /// Its last sleep was a long one.
    idle: bool,
    /// Knows where to sleep, as nothing came since it looked.
    settled: bool,
    /// When it was last known to have little to do.
    rested: Nanos,
    /// The slot that had news last.
    heard: u32,
}

impl Guest {
    fn is_away(&self) -> bool {
        self.at != self.home
    }

    /// Goes to a processor, if it may.
    fn go(&mut self, there: usize) {
        let may = there == self.home || self.among.contains(&there);
        if may && there != self.at && cpu::pin(there).is_ok() {
            self.at = there;
        }
    }
}

impl Core {
    /// From now on this core, whose processor is `home`, sleeps where its peers are, if that is
    /// one of `among`. For a core that only answers: of two that wait for each other only one can
    /// follow.
    pub fn follow_peers(&self, home: usize, among: &[usize]) {
        let among = among.to_vec();
        let (idle, settled) = (false, true);
        let guest = Guest { home, at: home, among, idle, settled, rested: Nanos(0), heard: 0 };
        self.state.borrow_mut().guest = Some(guest);
    }

    /// Ends a visit that has become work.
    #[inline]
    pub(crate) fn end_visit(&self, state: &mut CoreState) {
        let Some(guest) = &mut state.guest else { return };
        if let Some(last) = state.ready.last() {
            (guest.heard, guest.settled) = (*last, false);
        }
        if guest.is_away() && self.now().since(guest.rested) > STAY {
            guest.go(guest.home);
            guest.idle = false;
        }
    }
}

impl CoreState {
    /// Whether this core is on another's processor, which it must not keep busy by waiting.
    pub(crate) fn is_guest(&self) -> bool {
        self.guest.as_ref().is_some_and(Guest::is_away)
    }

    /// How long to sleep before it is time to look where.
    pub(crate) fn sleep_span(&self, left: Option<Nanos>) -> Option<Nanos> {
        let looks = self.guest.as_ref().is_some_and(|guest| !guest.is_away() && !guest.settled);
        if looks && self.company.is_none() {
            Some(left.map_or(IDLE, |left| left.min(IDLE)))
        } else {
            left
        }
    }

    /// The core slept for so long, until `now`.
    pub(crate) fn slept(&mut self, span: Nanos, now: Nanos) {
        let Some(guest) = &mut self.guest else { return };
        guest.idle = span >= IDLE;
        if span >= REST {
            guest.rested = now;
        }
    }

    /// The core is about to sleep: an idle one goes to where its news come in. Not when it wakes,
    /// as somebody waits for its answer then.
    pub(crate) fn choose_place(&mut self) {
        let Some(guest) = &mut self.guest else { return };
        // A companion's loop sleeps here, too, and has its own peers.
        if guest.settled || !guest.idle || self.company.is_some() {
            return;
        }
        guest.settled = true;
        let Slot::Socket(socket) = &self.slots[guest.heard as usize] else { return };
        if let Some(there) = incoming_cpu(socket.fd.as_raw_fd()) {
            guest.go(there);
        }
    }
}
