//! The client's end.

mod answer;
mod command;
mod opening;
mod status;

use block::{Allocation, Backing, Cause, Done, Geometry, Io, Nanos};

use crate::flow::{Collector, IoTable, later};
use crate::{Ending, Endpoint, IO_TIMEOUT, Initiator, Outbox, Phase, Violation};

use super::wire::{self, flag};
use answer::Incoming;
use status::Query;

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct NbdConfig {
    /// The export.
    pub export: String,
    /// Maximum number of I/Os in flight.
    pub max_outstanding: u16,
    /// Time limit of the negotiation.
    pub login_timeout: Nanos,
    /// Time-out of an I/O, after which the connection counts as lost; 0 for none.
    pub io_timeout: Nanos,
    /// Select the metadata context `base:allocation`, so that
    /// [`ask_allocation`](Initiator::ask_allocation) works.
    pub asks_allocation: bool,
}

impl NbdConfig {
    /// Default settings for this export.
    pub fn new(export: &str) -> NbdConfig {
        NbdConfig {
            export: export.to_owned(),
            max_outstanding: 256,
            login_timeout: Nanos::from_secs(10),
            io_timeout: IO_TIMEOUT,
            asks_allocation: false,
        }
    }
}

/// A connection to an export.
#[derive(Debug)]
pub struct NbdInitiator {
    config: NbdConfig,
    stage: Stage,
    until: Nanos,
    head: Collector,
    geometry: Geometry,
    /// Length of the export, which may be no multiple of a block.
    told_bytes: u64,
    /// Transmission flags of the export.
    flags: u16,
    max_request: u32,
    structured: bool,
    /// The server's description of the export, and the instance in it, if the server is ours.
    description: Option<String>,
    /// Backing store in the description, if the server is ours.
    backing: Option<Backing>,
    instance: Option<u64>,
    ios: IoTable<Progress>,
    /// Incremented by each command, so that a late reply never matches another command.
    turn: u32,
    incoming: Incoming,
    /// Number of the metadata context `base:allocation`, if the server has it.
    context: Option<u32>,
    /// The last question about allocation.
    query: Option<Box<Query>>,
}

/// Progress of an I/O.
#[derive(Debug, Default)]
struct Progress {
    /// Bytes done by earlier commands, and bytes of the one in flight.
    done: u32,
    part: u32,
    /// Received ranges of a read, in order and merged.
    came: Vec<(u32, u32)>,
    error: u32,
    cookie: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    /// A reply to an option: its header, or this many bytes of its data.
    Structured,
    Contexts,
    Going,
    OptionData {
        option: u32,
        kind: u32,
        len: u32,
    },
    Open,
    Closed,
}

fn violation(rule: &'static str, at: usize) -> Ending {
    Ending::Violation(Violation { rule, at })
}

impl NbdInitiator {
    /// A new connection, which waits for the server's greeting.
    pub fn new(config: NbdConfig, now: Nanos) -> NbdInitiator {
        NbdInitiator {
            stage: Stage::Greeting,
            until: later(now, config.login_timeout),
            head: Collector::new(64),
            geometry: Geometry::new(0, 512),
            told_bytes: 0,
            flags: 0,
            max_request: wire::REQUEST_MAX_BYTES,
            structured: false,
            description: None,
            backing: None,
            instance: None,
            ios: IoTable::new(config.max_outstanding.max(1), config.io_timeout, now),
            turn: 0,
            incoming: Incoming::Head,
            context: None,
            query: None,
            config,
        }
    }
}

impl NbdInitiator {
    /// Whether a flush on this connection covers writes that completed on others. Trivially so for
    /// an export that is read-only.
    //= NBD §Transmission flags: MULTI_CONN promises that a flush on one connection is good for all.
    pub fn flushes_all(&self) -> bool {
        self.flags & (flag::MULTI_CONN | flag::READ_ONLY) != 0
    }

    /// Length of the export, if a rest of it is shorter than a block and therefore left out.
    pub fn odd_bytes(&self) -> Option<u64> {
        Some(self.told_bytes).filter(|bytes| *bytes > self.geometry.bytes())
    }
}

impl Endpoint for NbdInitiator {
    fn receive(&mut self, _now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        loop {
            let goes_on = match self.stage {
                Stage::Open => self.answer(&mut bytes, out)?,
                Stage::Closed => return Ok(()),
                _ => self.open(&mut bytes, out)?,
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Open => Some(self.ios.due()),
            Stage::Closed => None,
            _ => Some(self.until),
        }
    }

    fn tick(&mut self, now: Nanos, _out: &mut Outbox) -> Result<(), Ending> {
        match self.stage {
            Stage::Open => self.ios.check_timeouts(now),
            Stage::Closed => Ok(()),
            Stage::Greeting if now >= self.until => Err(Ending::TimedOut(
                "the server sent no greeting: it may serve one client at a time (qemu-nbd \
                 --shared=8 allows more)",
            )),
            _ if now >= self.until => Err(Ending::TimedOut("the server does not answer")),
            _ => Ok(()),
        }
    }
}

impl Initiator for NbdInitiator {
    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Open => Phase::Ready(self.geometry),
            Stage::Closed => Phase::Closed,
            _ => Phase::Opening,
        }
    }

    fn room(&self) -> usize {
        if self.stage == Stage::Open { self.ios.room() } else { 0 }
    }

    #[inline]
    fn submit(&mut self, _now: Nanos, io: Io, out: &mut Outbox) {
        self.begin(io, out);
    }

    fn done(&mut self) -> &mut Vec<Done> {
        &mut self.ios.done
    }

    fn product(&self) -> Option<&str> {
        self.description.as_deref()
    }

    fn backing(&self) -> Option<&Backing> {
        self.backing.as_ref()
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        (cause != Cause::NONE).then(|| wire::words(cause.0))
    }

    fn changes(&self) -> u64 {
        self.ios.changes
    }

    fn in_doubt(&self) -> Vec<(u64, u64)> {
        self.ios.in_doubt(|io| Some((io.offset + u64::from(io.own.done), io.own.part.into())))
    }

    // `fence` has its default: NBD has no command to end the commands of another connection.
    fn instance(&self) -> Option<u64> {
        self.instance
    }

    fn ask_allocation(&mut self, offset: u64, len: u64, out: &mut Outbox) -> bool {
        self.query_allocation(offset, len, out)
    }

    fn take_allocation(&mut self) -> Option<Option<Allocation>> {
        self.take_answer()
    }

    //= NBD §NBD_CMD_DISC: nothing is answered, and nothing more is sent.
    fn close(&mut self, _now: Nanos, out: &mut Outbox) {
        if self.stage == Stage::Open && self.ios.is_idle() {
            let kind = wire::command::DISC;
            out.bytes(&wire::Asked { flags: 0, kind, cookie: 0, offset: 0, len: 0 }.build());
        }
        if self.stage != Stage::Open || self.ios.is_idle() {
            self.stage = Stage::Closed;
        }
    }

    fn abandon(&mut self) {
        self.ios.fail_all();
        self.stage = Stage::Closed;
    }
}
