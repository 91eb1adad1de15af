//! What an end of a connection is, whatever the protocol.

use std::collections::VecDeque;

use block::{Cause, Done, Geometry, Io, Nanos, Op, Pool};

use crate::Outbox;

/// One end of one connection.
pub trait Endpoint {
    /// Takes the next bytes of the stream, cut anywhere, and puts what they call for into `out`.
    ///
    /// After an error the connection must end: send what is in `out`, then close.
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending>;

    /// When [`tick`](Self::tick) wants to be called next: time-outs, keep-alive.
    fn deadline(&self) -> Option<Nanos>;

    /// Does what is due at `now`.
    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending>;
}

/// The end that asks.
pub trait Initiator: Endpoint {
    /// How far the connection is. I/Os may be submitted when it is [`Phase::Ready`].
    fn phase(&self) -> Phase;

    /// How many I/Os may be submitted now.
    fn room(&self) -> usize;

    /// Sends an I/O. Only with [`room`](Self::room).
    fn submit(&mut self, now: Nanos, io: Io, out: &mut Outbox);

    /// I/Os that are finished; the caller drains them.
    fn done(&mut self) -> &mut Vec<Done>;

    /// What the target calls the volume, once it is open: vendor and product, or the model.
    fn product(&self) -> Option<&str> {
        None
    }

    /// What the [`Cause`] of an I/O that failed here says, in the words of the standard.
    fn words_of(&self, _cause: Cause) -> Option<String> {
        None
    }

    /// Asks for an orderly end. The phase becomes [`Phase::Closed`] when the peer agreed.
    fn close(&mut self, now: Nanos, out: &mut Outbox);

    /// The connection is gone: every I/O in flight is answered in [`done`](Self::done), those that
    /// were not answered in time with [`Fault::Unanswered`](block::Fault::Unanswered), all others
    /// with [`Fault::Disconnected`](block::Fault::Disconnected).
    fn abandon(&mut self);
}

/// How far an initiator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Logging in, or learning the shape of the volume.
    Opening,
    /// I/Os may flow.
    Ready(Geometry),
    /// An orderly end was asked for and not yet confirmed.
    Closing,
    /// Ended in order.
    Closed,
}

/// The end that serves.
pub trait Target: Endpoint {
    /// Says what comes before any word of the peer, where the protocol has it so.
    fn begin(&mut self, _out: &mut Outbox) {}

    /// Requests that wait to be carried to their volumes, in order; the caller drains them.
    fn requests(&mut self) -> &mut VecDeque<Request>;

    /// Answers a request.
    fn complete(&mut self, now: Nanos, done: Done, out: &mut Outbox);

    /// What waited in `out` is on its way: commands that wait for room there may go on.
    fn drained(&mut self, _out: &mut Outbox) {}

    /// Whether commands wait for a buffer. They go on with the next word of the peer, the next
    /// answer of a volume, or when [`drained`](Self::drained) is called after others have given
    /// buffers back.
    fn starves(&self) -> bool {
        false
    }

    /// The data of writes to these units are not to be asked for until told so: commands wait
    /// for it as for a buffer. For faults that are meant.
    fn withhold(&mut self, _units: &[UnitId]) {}

    /// Whether the peer has yet to say who it is: such connections are few and short-lived.
    fn half_open(&self) -> bool {
        false
    }

    /// What this connection did since the last call that other connections have to learn.
    fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }

    /// Learns of what another connection did. It may be over then: see
    /// [`finished`](Self::finished).
    fn notice(&mut self, _notice: &Notice, _out: &mut Outbox) {}

    /// Asks the peer to leave in order, because the server is about to end.
    fn ask_to_leave(&mut self, _now: Nanos, _out: &mut Outbox) {}

    /// Whether the connection shall be closed once everything was sent.
    fn finished(&self) -> bool;

    /// The connection is gone: buffers go back to `pool`. Requests already taken must still be
    /// completed, into nothing.
    fn abandon(&mut self, pool: &Pool);
}

/// What happened on one connection of a server and concerns others, on whichever core they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An initiator has reset a logical unit.
    UnitReset(UnitId),
    /// An initiator has logged in: its older sessions of the same name are over.
    SessionBegan {
        /// The name of the session.
        session: SessionName,
        /// The connection that it has now.
        connection: u32,
    },
}

/// What an iSCSI session is told apart by.
//= RFC 7143 §4.4.3.2: the names of both, the initiator's number and the portal group, of which
// there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// Who logged in, in lower case.
    pub initiator: String,
    /// The initiator's number for the session.
    pub isid: [u8; 6],
    /// Where.
    pub target: String,
}

/// An I/O that a target wants done.
#[derive(Debug)]
pub struct Request {
    /// On which of the volumes that the target was given.
    pub unit: UnitId,
    /// What to do. Its tag is meaningful to the connection that made it only.
    pub io: Io,
}

/// Index of a volume in the directory that a target was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// A rule that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The clause, such as `RFC 7143 §11.2.1.5: …`.
    pub rule: &'static str,
    /// Which byte of the PDU, as far as one can be named.
    pub at: usize,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {} of a PDU breaks {}", self.at, self.rule)
    }
}

/// Why a connection has to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// The peer broke the protocol.
    #[error("protocol violation: {0}")]
    Violation(Violation),
    /// The peer refused us, in words for the user.
    #[error("{0}")]
    Refused(String),
    /// The peer did not answer in time.
    #[error("timed out: {0}")]
    TimedOut(&'static str),
    /// The peer did not answer an I/O in time, whatever else it did.
    #[error("{0}")]
    Unanswered(Unanswered),
}

/// An I/O that was not answered in time: the first that was found of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// What it was to do.
    pub op: Op,
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// How long it might have taken.
    pub limit: Nanos,
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unanswered { op, offset, len, limit } = self;
        write!(f, "a {} ", op.word())?;
        if *len != 0 {
            write!(f, "of {len} bytes at offset {offset} ")?;
        }
        write!(f, "was not answered within {} s (io_timeout)", limit.as_secs_f64())
    }
}

/// The system has no memory for data that came in.
#[cold]
pub(crate) fn out_of_memory() -> Ending {
    Ending::Refused("the system has no memory for the data that came".to_owned())
}

impl From<Violation> for Ending {
    fn from(violation: Violation) -> Ending {
        Ending::Violation(violation)
    }
}
