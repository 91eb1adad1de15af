//! One connection: a socket, a protocol endpoint, and data waiting to be sent.

use block::{Chain, Done, Nanos};
use os::{End, ReactorSocket};
use proto::{Ending, Outbox, Target};

use crate::hosts::Seat;
use crate::protocol::Protocol;

/// Time limit to send the last PDUs to a peer that does not read.
const CLOSE_TIMEOUT: Nanos = Nanos::from_secs(2);

/// Reason for the end of a connection whose responses found no memory.
const NO_MEMORY: &str = "out of memory for its responses: raise --memory";

/// A connection of one core.
pub(crate) struct Connection<S> {
    pub(crate) socket: S,
    pub(crate) end: Box<dyn Target>,
    pub(crate) out: Outbox,
    pub(crate) protocol: Protocol,
    /// Unique among the connections of the server.
    pub(crate) number: u32,
    /// The chain sent last, exchanged for the next one.
    chain: Chain,
    /// I/Os in flight on volumes.
    pub(crate) in_flight: usize,
    /// The connection is on the list of those to serve in this turn.
    pub(crate) is_queued: bool,
    /// The connection is on the list of those that wait for a buffer.
    pub(crate) is_starving: bool,
    /// The peer, for the log.
    pub(crate) peer: String,
    /// The login is yet to be logged.
    pub(crate) is_unlogged: bool,
    /// The host, as its login was logged.
    pub(crate) logged: Option<String>,
    /// Slot in the connection limit.
    _seat: Seat,
    /// Time at which the connection is closed, whether or not the peer has read the last PDUs.
    closing_until: Option<Nanos>,
    /// The endpoint has been shut down.
    is_over: bool,
    /// The endpoint may have notices for other connections.
    pub(crate) has_news: bool,
    gone: bool,
    /// Reason for the end, until it is logged.
    why: Option<String>,
}

/// State of a connection after a turn.
pub(crate) enum Outcome {
    /// The connection continues.
    Open,
    /// The connection continues, and the send made room to continue at once.
    Again,
    /// The connection ended, for this reason if worth a log line.
    Over(Option<String>),
}

impl<S: ReactorSocket> Connection<S> {
    pub(crate) fn new(
        socket: S,
        (end, protocol): (Box<dyn Target>, Protocol),
        out: Outbox,
        number: u32,
        peer: String,
        seat: Seat,
    ) -> Connection<S> {
        Connection {
            socket,
            end,
            out,
            protocol,
            number,
            chain: Chain::default(),
            in_flight: 0,
            is_queued: false,
            is_starving: false,
            peer,
            is_unlogged: false,
            logged: None,
            _seat: seat,
            closing_until: None,
            is_over: false,
            has_news: false,
            gone: false,
            why: None,
        }
    }

    /// Protocol, address and name of the host, for the log.
    pub(crate) fn host(&self) -> String {
        let name = self.end.peer_name().map_or(String::new(), |name| format!(", {name}"));
        format!("{} {}{name}", self.protocol, self.peer)
    }

    /// Passes received bytes to the protocol, `most` bytes or a little more, and counts them.
    /// Returns whether there may be more. An error ends the connection after its last PDUs.
    pub(crate) fn receive(
        &mut self,
        now: Nanos,
        most: usize,
        bytes: &mut usize,
    ) -> Result<bool, Ending> {
        while let Some(chunk) = self.socket.receive() {
            *bytes += chunk.len();
            if self.closing_until.is_none() {
                self.end.receive(now, &chunk, &mut self.out)?;
            }
            if *bytes >= most {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Completes a request.
    #[inline]
    pub(crate) fn complete(&mut self, now: Nanos, done: Done) {
        self.in_flight = self.in_flight.checked_sub(1).expect("a request is answered once");
        self.end.complete(now, done, &mut self.out);
    }

    /// Closes the connection without further PDUs, with a TCP reset if `reset`: for injected
    /// faults.
    #[cold]
    pub(crate) fn break_off(&mut self, now: Nanos, reset: bool) {
        if reset {
            self.socket.reset_at_end();
        }
        self.start_closing(now);
        self.leave();
        self.why.get_or_insert_with(|| "closed by an injected fault of a volume".to_owned());
    }

    /// Closes the connection, once its last PDUs are sent.
    #[cold]
    pub(crate) fn turn_away(&mut self, why: &str, now: Nanos) {
        self.why.get_or_insert_with(|| why.to_owned());
        self.start_closing(now);
    }

    /// Stops receiving; queued PDUs are still sent. No further I/O goes to a volume, so that a new
    /// connection of the peer need not wait for the end of this one.
    pub(crate) fn start_closing(&mut self, now: Nanos) {
        self.closing_until.get_or_insert(now + CLOSE_TIMEOUT);
        self.give_up();
    }

    /// Drops the endpoint's I/Os in flight: its buffers return to the pool, and I/Os in volumes
    /// complete without a receiver.
    fn give_up(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            let pool = self.out.pool().clone();
            self.end.abandon(&pool);
            self.has_news = true;
        }
    }

    /// Sends queued data; returns the state of the connection.
    pub(crate) fn flush(&mut self, now: Nanos, unread_limit: usize) -> Outcome {
        if self.gone {
            return self.over(None);
        }
        if let Some(end) = self.socket.ended() {
            self.leave();
            return self.over(match end {
                End::Closed => None,
                End::Broken(_) => Some(end.to_string()),
            });
        }
        let mut again = false;
        if !self.out.is_empty() && self.socket.can_send() {
            self.out.exchange_for(&mut self.chain, |chain| self.socket.lap_bytes(chain));
            self.socket.send(&mut self.chain);
            // A command that waits for room must not wait for the peer's next PDU.
            self.end.drained(now, &mut self.out);
            again = !self.out.is_empty() || !self.end.requests().is_empty();
        }
        let unread = self.out.len_bytes() > unread_limit;
        if unread || self.out.failed() {
            self.leave();
            let why = if unread { "the peer stopped reading its responses" } else { NO_MEMORY };
            return self.over(Some(why.to_owned()));
        }
        if self.end.finished() {
            self.start_closing(now);
        }
        let Some(closing_until) = self.closing_until else {
            return if again { Outcome::Again } else { Outcome::Open };
        };
        let all_said = self.out.is_empty() && self.socket.can_send();
        if all_said || now >= closing_until {
            self.leave();
            return self.over(None);
        }
        Outcome::Open
    }

    /// Drops unsent data, and the endpoint's I/Os in flight. Idempotent.
    pub(crate) fn leave(&mut self) {
        if self.gone {
            return;
        }
        self.give_up();
        let pool = self.out.pool().clone();
        self.out.exchange(&mut self.chain);
        self.chain.recycle(&pool);
        self.gone = true;
    }

    /// Ends at once, or when the volumes have completed everything.
    fn over(&mut self, why: Option<String>) -> Outcome {
        self.why = self.why.take().or(why);
        if self.in_flight == 0 { Outcome::Over(self.why.take()) } else { Outcome::Open }
    }
}
