//! One connection: a socket, an end of a protocol, and what waits to be sent.

use block::{Chain, Done, Nanos};
use os::{End, ReactorSocket};
use proto::{Ending, Outbox, Target};

use crate::hosts::Seat;

/// A peer that reads nothing is given so long to take our last words.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Why a connection ends whose answers found no room.
const NO_MEMORY: &str = "out of memory for its responses: raise --memory";

/// A connection of one core.
pub(crate) struct Connection<S> {
    pub(crate) socket: S,
    pub(crate) end: Box<dyn Target>,
    pub(crate) out: Outbox,
    /// No other connection of the server has it.
    pub(crate) number: u32,
    /// What was sent last; exchanged for what to send next.
    chain: Chain,
    /// I/Os that are with a volume.
    pub(crate) under_way: usize,
    /// It stands on the list of those that are to be served in this turn.
    pub(crate) is_queued: bool,
    /// It stands on the list of those that wait for a buffer of the core.
    pub(crate) is_hungry: bool,
    /// Who is there, for the log.
    pub(crate) peer: String,
    /// Its place among the connections of the server.
    _seat: Seat,
    /// When the connection is over, whether the peer took our last words or not.
    farewell: Option<Nanos>,
    gone: bool,
    /// Why it ended, until that is told.
    why: Option<String>,
}

/// What became of a connection.
pub(crate) enum Outcome {
    /// It goes on.
    Open,
    /// It goes on, and what was sent made room for more to be done at once.
    Again,
    /// It is over, for this reason if it is worth a line.
    Over(Option<String>),
}

impl<S: ReactorSocket> Connection<S> {
    pub(crate) fn new(
        socket: S,
        end: Box<dyn Target>,
        out: Outbox,
        number: u32,
        peer: String,
        seat: Seat,
    ) -> Connection<S> {
        Connection {
            socket,
            end,
            out,
            number,
            chain: Chain::default(),
            under_way: 0,
            is_queued: false,
            is_hungry: false,
            peer,
            _seat: seat,
            farewell: None,
            gone: false,
            why: None,
        }
    }

    /// Hands to the protocol what has come, until that were `most` bytes or more, and counts them.
    /// Whether there may be more. An error ends the connection after its last words.
    pub(crate) fn receive(
        &mut self,
        now: Nanos,
        most: usize,
        bytes: &mut usize,
    ) -> Result<bool, Ending> {
        while let Some(chunk) = self.socket.receive() {
            *bytes += chunk.len();
            if self.farewell.is_none() {
                self.end.receive(now, &chunk, &mut self.out)?;
            }
            if *bytes >= most {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Answers a request.
    #[inline]
    pub(crate) fn complete(&mut self, now: Nanos, done: Done) {
        self.under_way = self.under_way.checked_sub(1).expect("a request is answered once");
        self.end.complete(now, done, &mut self.out);
    }

    /// Ends it without a further word, with a reset if `reset`: for faults that are meant.
    #[cold]
    pub(crate) fn break_off(&mut self, now: Nanos, reset: bool) {
        if reset {
            self.socket.reset_at_end();
        }
        self.say_farewell(now);
        self.leave();
        self.why.get_or_insert_with(|| "a volume fault ended it".to_owned());
    }

    /// No further word of the peer counts; what was said to it is still sent.
    pub(crate) fn say_farewell(&mut self, now: Nanos) {
        self.farewell.get_or_insert(now + FAREWELL);
    }

    /// Sends what waits, and says whether the connection goes on.
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
            // Who waits for room must not wait for the peer's next word.
            self.end.drained(&mut self.out);
            again = !self.out.is_empty() || !self.end.requests().is_empty();
        }
        let unread = self.out.len_bytes() > unread_limit;
        if unread || self.out.failed() {
            self.leave();
            let why = if unread { "the peer stopped reading its responses" } else { NO_MEMORY };
            return self.over(Some(why.to_owned()));
        }
        if self.end.finished() {
            self.say_farewell(now);
        }
        let Some(farewell) = self.farewell else {
            return if again { Outcome::Again } else { Outcome::Open };
        };
        let all_said = self.out.is_empty() && self.socket.can_send();
        if all_said || now >= farewell {
            self.leave();
            return self.over(None);
        }
        Outcome::Open
    }

    /// The peer is gone: its buffers go back to the pool, and what is with a volume comes back into
    /// nothing. Once is enough.
    pub(crate) fn leave(&mut self) {
        if self.gone {
            return;
        }
        let pool = self.out.pool().clone();
        self.end.abandon(&pool);
        self.out.exchange(&mut self.chain);
        self.chain.recycle(&pool);
        self.gone = true;
    }

    /// Over at once, or as soon as the volumes gave everything back.
    fn over(&mut self, why: Option<String>) -> Outcome {
        self.why = self.why.take().or(why);
        if self.under_way == 0 { Outcome::Over(self.why.take()) } else { Outcome::Open }
    }
}
