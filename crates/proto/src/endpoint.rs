//! The interface of a protocol end: initiator or target of one connection.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Allocation, Backing, Cause, Done, Geometry, Io, Nanos, Op, Pool};

use crate::scsi::{Effects, Nexus, Sense};
use crate::{Arrival, Outbox};

/// One end of one connection.
pub trait Endpoint {
    /// Takes the next bytes of the stream, split anywhere, and appends the answers to `out`.
    ///
    /// After an error the connection must end: send the content of `out`, then close.
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending>;

    /// Returns the time at which [`tick`](Self::tick) must be called next: time-outs, keep-alive.
    fn deadline(&self) -> Option<Nanos>;

    /// Does the work due at `now`.
    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending>;
}

/// The initiator's end; NVMe calls it host, NBD client.
pub trait Initiator: Endpoint {
    /// State of the connection. I/Os may be submitted when it is [`Phase::Ready`].
    fn phase(&self) -> Phase;

    /// Number of I/Os that may be submitted now.
    fn room(&self) -> usize;

    /// Sends an I/O. Only with [`room`](Self::room).
    fn submit(&mut self, now: Nanos, io: Io, out: &mut Outbox);

    /// Completed I/Os, for the caller to drain.
    fn done(&mut self) -> &mut Vec<Done>;

    /// Product name of the volume, once it is open: vendor and product, or the model.
    fn product(&self) -> Option<&str> {
        None
    }

    /// Backing store of the volume, once it is open, where a server of this project says so.
    fn backing(&self) -> Option<&Backing> {
        None
    }

    /// Text of the [`Cause`] of a failed I/O, in the words of the standard.
    fn words_of(&self, _cause: Cause) -> Option<String> {
        None
    }

    /// Returns offset and length in bytes of the changes (writes, trims, zeroing) that were sent
    /// and are unanswered. Call this before [`abandon`](Self::abandon).
    ///
    /// The list leaves out commands that the peer did not execute, such as a command to repeat
    /// because the peer was busy, and acknowledged writes whose flush is in flight.
    fn in_doubt(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }

    /// Number of changes that have succeeded so far, and are durable only after a flush.
    fn changes(&self) -> u64 {
        0
    }

    /// The fate of changes sent on earlier connections. Valid in [`Phase::Ready`].
    fn fence(&self) -> Fence {
        Fence::After(Nanos(0))
    }

    /// Returns a number that changes whenever the peer's volatile cache may have been lost, if the
    /// peer reports one: a server of this project does. The number differs in each process, and
    /// after each failed flush.
    fn instance(&self) -> Option<u64> {
        None
    }

    /// Returns the name of the disk, if the peer reports one: unique in the world, or nearly so.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Returns whether the peer reported, during the opening, that its power and so its volatile
    /// cache was lost; `None` without such a report.
    fn power_was_lost(&self) -> Option<bool> {
        None
    }

    /// Queries the peer for the holes in a range: `offset` and `len` in bytes, whole blocks, `len`
    /// at least 1. Only in [`Phase::Ready`], without I/Os in flight, and one query at a time.
    /// False, and nothing is sent, if the protocol has no such query.
    fn ask_allocation(&mut self, _offset: u64, _len: u64, _out: &mut Outbox) -> bool {
        false
    }

    /// The answer to [`ask_allocation`](Self::ask_allocation), once, when it has come: of a first
    /// part of the range, at least one byte. None in it if the peer refused.
    fn take_allocation(&mut self) -> Option<Option<Allocation>> {
        None
    }

    /// Logs out or disconnects. The phase becomes [`Phase::Closed`] when the peer has confirmed.
    fn close(&mut self, now: Nanos, out: &mut Outbox);

    /// The connection is lost: every I/O in flight fails in [`done`](Self::done), those that timed
    /// out with [`Fault::Unanswered`](block::Fault::Unanswered), all others with
    /// [`Fault::Disconnected`](block::Fault::Disconnected).
    fn abandon(&mut self);
}

/// The fate of changes that were sent on earlier connections and never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The peer executes none of them any more.
    Ended,
    /// Only time helps. The peer says that it takes so long; zero where it says nothing.
    After(Nanos),
}

/// State of an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Logging in, or reading the geometry of the volume.
    Opening,
    /// Ready for I/Os.
    Ready(Geometry),
    /// A logout or disconnect was sent and is not yet confirmed.
    Closing,
    /// Logged out or disconnected.
    Closed,
}

/// The target's end; NVMe calls it controller, NBD server.
pub trait Target: Endpoint {
    /// Sends the greeting, in protocols where the target speaks first.
    fn begin(&mut self, _out: &mut Outbox) {}

    /// Requests to volumes, in order, for the caller to drain.
    fn requests(&mut self) -> &mut VecDeque<Request>;

    /// Completes a request.
    fn complete(&mut self, now: Nanos, done: Done, out: &mut Outbox);

    /// Continues waiting work: `out` was sent, or other connections may have made progress.
    fn drained(&mut self, _now: Nanos, _out: &mut Outbox) {}

    /// Whether something waits that no event of this connection may end: commands for a buffer, or
    /// a login, or a reset, for I/Os of other connections. It continues with the next PDU of the
    /// peer, the next completion of a volume, or when [`drained`](Self::drained) is called, as it
    /// is to be now and then.
    fn starves(&self) -> bool {
        false
    }

    /// Withholds R2Ts of writes to these units until the next call: the commands wait as if for a
    /// buffer. For fault injection.
    fn withhold(&mut self, _units: &[UnitId]) {}

    /// A line for the log of the server, without the name of the connection.
    fn take_remark(&mut self) -> Option<String> {
        None
    }

    /// Whether the peer has not logged in yet. The server limits number and age of such
    /// connections.
    fn half_open(&self) -> bool {
        false
    }

    /// Events on this connection since the last call, for the other connections.
    fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }

    /// Handles an event on another connection. It may end this one: see
    /// [`finished`](Self::finished). `is_there` returns whether the peer has not closed the
    /// connection, even if not all of its earlier data was received.
    fn notice(&mut self, _notice: &Notice, _is_there: &mut dyn FnMut() -> bool, _out: &mut Outbox) {
    }

    /// Takes over changes of the server's offers, as soon as commands in flight allow: until then
    /// this end still [uses](Self::uses) a volume that is gone. Returns whether the peer may stay:
    /// the server still offers what it has chosen.
    fn renew(&mut self, _out: &mut Outbox) -> bool {
        false
    }

    /// Whether the peer has chosen this volume, and may send I/Os to it now or after its login.
    fn uses(&self, _unit: UnitId) -> bool {
        false
    }

    /// The name that the peer gives itself, once it has said one.
    fn peer_name(&self) -> Option<&str> {
        None
    }

    /// Asks the peer to log out, because the server or a volume of the peer goes away.
    fn ask_to_leave(&mut self, _now: Nanos, _out: &mut Outbox) {}

    /// Whether the connection is to be closed once the outbox was sent.
    fn finished(&self) -> bool;

    /// The connection is lost, or nothing more is to be done on it: buffers go back to `pool`.
    /// Requests already taken must still be completed; their answers are dropped, and until they
    /// are here, a login of the same peer may wait. Twice is as good as once.
    fn abandon(&mut self, pool: &Pool);
}

/// An event on one connection of a server that concerns its other connections, on any core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An initiator has reset a logical unit.
    UnitReset(UnitId),
    /// A peer has connected: older sessions of its name end, and other connections of the peer
    /// report whether they are alive.
    PeerCame(Arrival),
    /// These initiators and hosts are to hear of a change of a logical unit.
    UnitNews(UnitId, Vec<(Nexus, Sense)>),
    /// All other initiators are to hear of a change of a logical unit.
    UnitChanged(UnitId, Sense),
    /// Commands on a logical unit end.
    TasksEnd(TasksEnd),
    /// An NVMe controller was reset, was shut down, or has ended: its I/O queues end.
    ControllerEnded,
}

impl Notice {
    /// Notices of a change of reservations, and a fence that opens when the commands of those who
    /// were preempted have ended, if they are to.
    pub(crate) fn of_effects(unit: UnitId, effects: Effects) -> (Vec<Notice>, Option<Fencing>) {
        let Effects { attentions, aborted } = effects;
        let mut notices = Vec::new();
        if !attentions.is_empty() {
            notices.push(Notice::UnitNews(unit, attentions));
        }
        if aborted.is_empty() {
            return (notices, None);
        }
        let fence = Fencing::default();
        notices.push(Notice::TasksEnd(TasksEnd {
            units: vec![unit],
            of: Some(aborted),
            told: Some(Sense::COMMANDS_CLEARED),
            fence: fence.clone(),
        }));
        (notices, Some(fence))
    }
}

/// Commands that end because another session says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TasksEnd {
    /// The logical units.
    pub units: Vec<UnitId>,
    /// Sessions whose commands end; `None`: all.
    pub of: Option<Vec<Nexus>>,
    /// Attention of holders, beyond other news.
    pub told: Option<Sense>,
    /// Held until they have ended.
    pub fence: Fencing,
}

/// Held by everybody who has I/Os that somebody waits for: open when only one who waits is left.
#[derive(Clone, Debug, Default)]
pub struct Fencing(Arc<()>);

impl Fencing {
    /// Whether nobody else holds it.
    pub(crate) fn is_open(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl PartialEq for Fencing {
    fn eq(&self, other: &Fencing) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Fencing {}

/// An I/O that a target requests of a volume.
#[derive(Debug)]
pub struct Request {
    /// The volume.
    pub unit: UnitId,
    /// The I/O. Its tag is private to the connection.
    pub io: Io,
}

/// Index of a volume in the directory that a target was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// A rule of the protocol that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The clause, such as `RFC 7143 §11.2.1.5: …`.
    pub rule: &'static str,
    /// Offset in the PDU, where the rule is about one field.
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
    /// The peer refused the connection: a message for the user.
    #[error("{0}")]
    Refused(String),
    /// The volume is at another address: connect there.
    #[error("{}", .0.words)]
    Moved(Moved),
    /// The peer did not answer in time.
    #[error("timed out: {0}")]
    TimedOut(&'static str),
    /// An I/O timed out, even if the peer still answers others.
    #[error("{0}")]
    Unanswered(Unanswered),
    /// The peer reports that the volume has changed: open it again, and resend the unanswered I/Os.
    #[error("{0}")]
    Attention(Attention),
}

impl Ending {
    /// Returns whether the peer reported that its volatile cache may be lost.
    pub fn lost_power(&self) -> bool {
        matches!(self, Ending::Attention(attention) if attention.lost_power)
    }
}

/// Another address of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Host and port.
    pub address: String,
    /// A message for the user, if nobody goes there.
    pub words: String,
}

/// A condition of a volume after which nothing that was learned of it is sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Additional sense code and its qualifier.
    pub code: (u8, u8),
    /// The volatile cache may be lost.
    pub lost_power: bool,
}

impl std::fmt::Display for Attention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (asc, ascq) = self.code;
        let sense = crate::scsi::sense_of_codes(crate::scsi::Key::UnitAttention as u8, asc, ascq);
        write!(f, "{sense}")?;
        if self.lost_power {
            f.write_str(": what was written and not flushed may be lost")?;
        }
        Ok(())
    }
}

/// An I/O that timed out: the first one found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Operation.
    pub op: Op,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// The time-out.
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

/// Out of memory for received data.
#[cold]
pub(crate) fn out_of_memory() -> Ending {
    Ending::Refused("the system has no memory for the data that came".to_owned())
}

impl From<Violation> for Ending {
    fn from(violation: Violation) -> Ending {
        Ending::Violation(violation)
    }
}
