//! The end that asks.

mod answer;
mod command;
mod opening;

use block::{Buf, Cause, Done, Fault, Geometry, Io, Nanos, Op, Tag};

use crate::looks::{Age, Looks};
use crate::{Ending, Endpoint, IO_TIMEOUT, Initiator, Outbox, Phase, Unanswered, Violation};

use super::stream::Collected;
use super::wire;
use answer::Incoming;

/// What a connection is to be.
#[derive(Clone, Debug)]
pub struct NbdConfig {
    /// The export.
    pub export: String,
    /// I/Os in flight at most.
    pub max_outstanding: u16,
    /// How long the choice of the export may take.
    pub login_timeout: Nanos,
    /// How long an I/O may take before its connection counts as lost; 0 is for ever.
    pub io_timeout: Nanos,
}

impl NbdConfig {
    /// The usual, for this export.
    pub fn new(export: &str) -> NbdConfig {
        NbdConfig {
            export: export.to_owned(),
            max_outstanding: 256,
            login_timeout: Nanos::from_secs(10),
            io_timeout: IO_TIMEOUT,
        }
    }
}

/// A connection to an export.
#[derive(Debug)]
pub struct NbdInitiator {
    config: NbdConfig,
    stage: Stage,
    until: Nanos,
    looks: Looks,
    head: Collected,
    geometry: Geometry,
    /// What the export can do.
    flags: u16,
    max_request: u32,
    structured: bool,
    /// What the server says that it is.
    description: Option<String>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Rises with each command, so that no late answer is taken for another's.
    turn: u32,
    incoming: Incoming,
    done: Vec<Done>,
}

/// An I/O in flight.
#[derive(Debug)]
struct Slot {
    op: Op,
    fua: bool,
    age: Age,
    tag: Tag,
    offset: u64,
    len: u32,
    /// Bytes that earlier commands for it did, and those that the one in flight is for.
    done: u32,
    part: u32,
    /// What of a read has come: ranges in order that do not touch.
    came: Vec<(u32, u32)>,
    error: u32,
    cookie: u64,
    buf: Option<Buf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    /// The answer to an option: its head, or so many bytes behind it.
    Structured,
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
    /// A connection that opens with what the server says first.
    pub fn new(config: NbdConfig, now: Nanos) -> NbdInitiator {
        let most = usize::from(config.max_outstanding.max(1));
        NbdInitiator {
            stage: Stage::Greeting,
            until: Nanos(now.0.saturating_add(config.login_timeout.0)),
            looks: Looks::new(config.io_timeout, now),
            head: Collected::new(64),
            geometry: Geometry::new(0, 512),
            flags: 0,
            max_request: wire::REQUEST_MAX_BYTES,
            structured: false,
            description: None,
            slots: (0..most).map(|_| Slot::free()).collect(),
            free: (0..most as u16).rev().collect(),
            turn: 0,
            incoming: Incoming::Head,
            done: Vec::with_capacity(most),
            config,
        }
    }

    fn is_quiet(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    #[cold]
    fn look(&mut self, now: Nanos) -> Result<(), Ending> {
        let mut late = None;
        if self.looks.begin(now) {
            for slot in self.slots.iter_mut().filter(|slot| slot.age.is_some()) {
                slot.age.grow();
                if self.looks.is_late(slot.age) {
                    let (op, offset, len) = (slot.op, slot.offset, slot.len);
                    late.get_or_insert(Unanswered { op, offset, len, limit: self.looks.limit() });
                }
            }
        }
        late.map_or(Ok(()), |late| Err(Ending::Unanswered(late)))
    }
}

impl Slot {
    fn free() -> Slot {
        Slot {
            op: Op::Flush,
            fua: false,
            age: Age::NONE,
            tag: Tag(0),
            offset: 0,
            len: 0,
            done: 0,
            part: 0,
            came: Vec::new(),
            error: 0,
            cookie: 0,
            buf: None,
        }
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
            Stage::Open => Some(self.looks.due()),
            Stage::Closed => None,
            _ => Some(self.until),
        }
    }

    fn tick(&mut self, now: Nanos, _out: &mut Outbox) -> Result<(), Ending> {
        match self.stage {
            Stage::Open => self.look(now),
            Stage::Closed => Ok(()),
            _ if now >= self.until => Err(Ending::TimedOut("the server has not answered")),
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
        if self.stage == Stage::Open { self.free.len() } else { 0 }
    }

    #[inline]
    fn submit(&mut self, _now: Nanos, io: Io, out: &mut Outbox) {
        self.begin(io, out);
    }

    fn done(&mut self) -> &mut Vec<Done> {
        &mut self.done
    }

    fn product(&self) -> Option<&str> {
        self.description.as_deref()
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        (cause != Cause::NONE).then(|| wire::words(cause.0))
    }

    //= NBD §NBD_CMD_DISC: nothing is answered, and nothing more is sent.
    fn close(&mut self, _now: Nanos, out: &mut Outbox) {
        if self.stage == Stage::Open && self.is_quiet() {
            let kind = wire::command::DISC;
            out.bytes(&wire::Asked { flags: 0, kind, cookie: 0, offset: 0, len: 0 }.build());
        }
        if self.stage != Stage::Open || self.is_quiet() {
            self.stage = Stage::Closed;
        }
    }

    fn abandon(&mut self) {
        let late = |slot: &Slot| self.looks.is_late(slot.age);
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            if slot.age.is_some() {
                let fault = if late(slot) { Fault::Unanswered } else { Fault::Disconnected };
                slot.age = Age::NONE;
                let (tag, buf) = (slot.tag, slot.buf.take());
                self.done.push(Done { tag, result: Err(fault), cause: Cause::NONE, buf });
                self.free.push(at as u16);
            }
        }
        self.stage = Stage::Closed;
    }
}
