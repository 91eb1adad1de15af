//! Placement of an idle core's sleep: on the CPU where its events arrive.
//!
//! Waking an idle CPU takes an IPI, and in a virtual machine a VM exit, 100 µs and more; a thread
//! on the CPU that is awake anyway starts within a few. On loopback this is the peer's CPU,
//! otherwise the CPU of the network interrupt. A busy core would disturb that CPU, so the core
//! returns to its home CPU.

use std::os::fd::AsRawFd;

use block::Nanos;

use crate::core::{Core, CoreState, Slot};
use crate::cpu;
use crate::reference::incoming_cpu;

/// Idle time after which a core sleeps as a guest.
const IDLE: Nanos = Nanos::from_millis(10);
/// Minimum sleep of a core with little work.
const REST: Nanos = Nanos::from_millis(1);
/// A guest without such a sleep for this long returns home.
const STAY: Nanos = Nanos::from_millis(1);

/// Placement of a core that may sleep on other CPUs.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) home: usize,
    /// Current CPU of the thread.
    at: usize,
    /// CPUs on which the core may sleep.
    among: Vec<usize>,
    /// The last sleep was long.
    idle: bool,
    /// Nothing arrived since the placement was chosen.
    settled: bool,
    /// Time at which the core last had little work.
    rested: Nanos,
    /// The slot with the last event.
    heard: u32,
}

impl Guest {
    fn is_away(&self) -> bool {
        self.at != self.home
    }

    /// Moves to a CPU, if allowed.
    fn go(&mut self, there: usize) {
        let may = there == self.home || self.among.contains(&there);
        if may && there != self.at && cpu::pin(there).is_ok() {
            self.at = there;
        }
    }
}

impl Core {
    /// Makes this core, at home on CPU `home`, sleep on the CPU of its peers from now on, if that
    /// is one of `among`. For cores that only respond: of two cores that wait for each other only
    /// one can follow.
    pub fn follow_peers(&self, home: usize, among: &[usize]) {
        let among = among.to_vec();
        let (idle, settled) = (false, true);
        let guest = Guest { home, at: home, among, idle, settled, rested: Nanos(0), heard: 0 };
        self.state.borrow_mut().guest = Some(guest);
    }

    /// Returns to the home CPU once there is work.
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
    /// Whether this core is on another's CPU, on which it must not spin.
    pub(crate) fn is_guest(&self) -> bool {
        self.guest.as_ref().is_some_and(Guest::is_away)
    }

    /// Time to sleep before the placement is checked.
    pub(crate) fn sleep_span(&self, left: Option<Nanos>) -> Option<Nanos> {
        let looks = self.guest.as_ref().is_some_and(|guest| !guest.is_away() && !guest.settled);
        if looks && self.company.is_none() {
            Some(left.map_or(IDLE, |left| left.min(IDLE)))
        } else {
            left
        }
    }

    /// The core slept for `span`, until `now`.
    pub(crate) fn slept(&mut self, span: Nanos, now: Nanos) {
        let Some(guest) = &mut self.guest else { return };
        guest.idle = span >= IDLE;
        if span >= REST {
            guest.rested = now;
        }
    }

    /// Moves an idle core to the CPU of its events, before a sleep. Not on waking, as a peer then
    /// waits for its response.
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
