//! Peers that speak no protocol: silent ones, and ones that send garbage.

use block::{Nanos, Rng};
use serve::Protocol;

use crate::net::Side;
use crate::world::Dialer;

/// A peer that opens connections and does not log in.
pub(crate) struct Raw {
    protocol: Protocol,
    /// The client sends garbage.
    speaks: bool,
    host: u8,
    conns: Vec<usize>,
    next: Nanos,
    /// Mean time between its actions.
    pace: Nanos,
    rng: Rng,
}

impl Raw {
    pub(crate) fn new(protocol: Protocol, speaks: bool, host: u8, rng: Rng) -> Raw {
        let pace = Nanos::from_millis(100);
        Raw { protocol, speaks, host, conns: Vec::new(), next: Nanos(0), pace, rng }
    }

    /// Sets the mean time between its actions.
    pub(crate) fn set_pace(&mut self, pace: Nanos) {
        self.pace = pace;
    }

    pub(crate) fn wake(&self) -> Nanos {
        self.next
    }

    /// Opens connections, and sends garbage on some of them.
    pub(crate) fn step(&mut self, dialer: &Dialer) {
        let now = dialer.machine.borrow().net.now;
        if now < self.next {
            return;
        }
        self.next = now + Nanos(1_000_000 + self.rng.below(2 * self.pace.0));
        if self.conns.len() < 12
            && let Some(conn) = dialer.dial(self.protocol, self.host, None)
        {
            self.conns.push(conn);
        }
        let mut machine = dialer.machine.borrow_mut();
        let rng = &mut self.rng;
        for conn in &self.conns {
            if self.speaks && rng.below(4) == 0 {
                let len = 1 + rng.below(300);
                let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8 & 0x87).collect();
                machine.net.send(*conn, Side::Client, vec![bytes]);
            }
        }
        self.conns.retain(|conn| {
            let over = machine.net.ended(*conn, Side::Client).is_some();
            if over {
                machine.net.close(*conn, Side::Client);
            }
            !over
        });
    }

    /// Leaves for good.
    pub(crate) fn leave(&mut self, dialer: &Dialer) {
        let mut machine = dialer.machine.borrow_mut();
        self.conns.drain(..).for_each(|conn| machine.net.close(conn, Side::Client));
        self.next = Nanos(u64::MAX);
    }
}
