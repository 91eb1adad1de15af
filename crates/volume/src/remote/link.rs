//! A connection on a core with our endpoint, whatever the protocol.

use block::{Chain, Io, Nanos, Op};
use os::{Reactor, ReactorSocket, Socket};
use proto::{Ending, Endpoint, Initiator, Outbox};

/// A lone connection receives its responses in two halves, so that the target works on the I/Os
/// that follow the first while the second is processed here: 1.5 times the IOPS with 128 reads of
/// 512 bytes in flight, 1.1 to 1.2 times with 64. Below this many responses the split would cost
/// IOPS: 0.85 times with 16 in flight.
const HALF_LEAST: usize = 32;
/// Longer responses come in parts anyway.
const HALF_MOST_BYTES: usize = 64 << 10;
/// Approximate bytes of a response in addition to its data.
const ANSWER_BYTES: usize = 48;

/// A connection with our endpoint.
pub(crate) struct Link<E, S = Socket> {
    pub(crate) end: E,
    pub(crate) socket: S,
    pub(crate) out: Outbox,
    /// Chain sent last, exchanged for the next one.
    chain: Chain,
    /// I/Os in flight.
    pub(crate) in_flight: usize,
    /// The peer has sent something.
    pub(crate) heard: bool,
}

impl<E: Endpoint, S: ReactorSocket> Link<E, S> {
    /// Takes over a connected stream. The endpoint's first PDUs are due at once.
    pub(crate) fn new<R: Reactor<Socket = S>>(
        core: &R,
        end: E,
        stream: R::Stream,
    ) -> Result<Link<E, S>, String> {
        let socket = core.adopt(stream).map_err(|error| error.to_string())?;
        let (out, chain) = (Outbox::new(core.pool().clone()), Chain::default());
        Ok(Link { end, socket, out, chain, in_flight: 0, heard: false })
    }

    /// Passes received bytes to the endpoint, and does all work that is due.
    pub(crate) fn take(&mut self, now: Nanos) -> Result<(), Ending> {
        while let Some(chunk) = self.socket.receive() {
            self.heard = true;
            self.end.receive(now, &chunk, &mut self.out)?;
        }
        if self.end.deadline().is_some_and(|deadline| deadline <= now) {
            self.end.tick(now, &mut self.out)?;
        }
        Ok(())
    }

    /// Sends queued data, as far as the socket accepts it now.
    pub(crate) fn flush(&mut self) {
        if !self.out.is_empty() && self.socket.can_send() {
            self.out.exchange_for(&mut self.chain, |chain| self.socket.lap_bytes(chain));
            self.socket.send(&mut self.chain);
        }
    }

    /// Whether there is data to send that the socket accepts now.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.out.is_empty() && self.socket.can_send()
    }
}

impl<E: Initiator, S: ReactorSocket> Link<E, S> {
    /// Submits I/Os, for which the connection has room.
    pub(crate) fn submit(&mut self, now: Nanos, ios: impl ExactSizeIterator<Item = Io>) {
        let (count, mut answers_bytes) = (ios.len(), 0);
        for io in ios {
            answers_bytes += ANSWER_BYTES + if io.op == Op::Read { io.len as usize } else { 0 };
            self.end.submit(now, io, &mut self.out);
        }
        self.in_flight += count;
        if let Some(answer_bytes) = answers_bytes.checked_div(count) {
            let half = (self.in_flight / 2).max(HALF_LEAST) * answer_bytes;
            self.socket.receive_at_most(if half <= HALF_MOST_BYTES { half } else { usize::MAX });
        }
        self.flush();
    }
}

impl<E, S> Drop for Link<E, S> {
    /// Returns the buffers of sent and unsent data to the core.
    fn drop(&mut self) {
        let pool = self.out.pool().clone();
        self.out.exchange(&mut self.chain);
        self.chain.recycle(&pool);
    }
}
