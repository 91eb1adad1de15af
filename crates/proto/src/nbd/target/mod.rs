//! The server's end.

mod arrival;
mod command;
mod negotiate;
mod read;
mod status;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Buf, Done, Nanos, Pool};

use crate::flow::{Backlog, Collector, Leftovers, Slots, later};
use crate::instance::KnownLosses;
use crate::peers::Presence;
use crate::{Ending, Endpoint, Notice, Offers, Outbox, Peers, Request, Target, UnitId, Violation};

use super::export::{NbdExport, NbdExports};
use super::wire::{Asked, GREETING_BYTES, MAGIC, OPTION_MAGIC, REQUEST_BYTES, hello};
use arrival::Held;
use command::Slot;

/// Settings of the target.
#[derive(Clone, Copy, Debug)]
pub struct NbdTargetConfig {
    /// Time limit of the negotiation.
    pub login_timeout: Nanos,
    /// Commands in flight on a connection. NBD cannot announce it: a client that exceeds it is
    /// disconnected.
    pub max_commands: u16,
}

impl Default for NbdTargetConfig {
    fn default() -> NbdTargetConfig {
        NbdTargetConfig { login_timeout: Nanos::from_secs(30), max_commands: 1024 }
    }
}

/// A connection of a client.
#[derive(Debug)]
pub struct NbdTarget {
    exports: Offers<NbdExports>,
    config: NbdTargetConfig,
    stage: Stage,
    until: Nanos,
    head: Collector,
    /// Number of options received.
    options: u32,
    no_zeroes: bool,
    structured: bool,
    /// The export of which the client has selected `base:allocation`.
    context: Option<UnitId>,
    /// The chosen export.
    export: Arc<NbdExport>,
    slots: Slots<Slot>,
    /// Write whose data comes next.
    sink: Option<u16>,
    backlog: Backlog,
    /// The clients of the server, of which this is one once it chooses an export, and the number of
    /// its host.
    peers: Arc<Peers>,
    presence: Option<Presence>,
    peer: u128,
    notices: Vec<Notice>,
    /// A choice that waits for its answer.
    held: Option<Box<Held>>,
    /// Failed flushes that the client knows of.
    losses: KnownLosses,
    /// I/Os that are with volumes, of a connection that is lost.
    leftovers: Leftovers,
    /// A line for the log.
    remark: Option<String>,
    /// The connection is closed.
    gone: bool,
    finished: bool,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for the client's flags.
    Hello,
    /// Waiting for an option.
    Option,
    /// Waiting for an option's data: option and number of bytes.
    OptionData(u32, u32),
    /// Transmission: commands are served.
    Serving,
    /// No more commands: the connection ends once all are answered.
    Leaving,
}

fn violation(rule: &'static str) -> Ending {
    Ending::Violation(Violation { rule, at: 0 })
}

impl NbdTarget {
    /// A new connection. Its greeting comes with [`begin`](Target::begin).
    pub fn new(
        exports: impl Into<Offers<NbdExports>>,
        config: NbdTargetConfig,
        now: Nanos,
    ) -> NbdTarget {
        NbdTarget {
            exports: exports.into(),
            config,
            stage: Stage::Hello,
            until: later(now, config.login_timeout),
            head: Collector::new(REQUEST_BYTES),
            options: 0,
            no_zeroes: false,
            structured: false,
            context: None,
            export: Arc::new(NbdExport::none()),
            slots: Slots::new(config.max_commands),
            sink: None,
            backlog: Backlog::default(),
            peers: Arc::default(),
            presence: None,
            peer: 0,
            notices: Vec::new(),
            held: None,
            losses: KnownLosses::default(),
            leftovers: Leftovers::default(),
            remark: None,
            gone: false,
            finished: false,
        }
    }

    /// Shares a server's list of peers with its other connections. `peer` is the client's address,
    /// as a number that identifies a host.
    pub fn among(self, peers: Arc<Peers>, peer: u128) -> NbdTarget {
        NbdTarget { peers, peer, ..self }
    }

    /// Takes bytes of the client, as far as its choice of an export is answered.
    fn take(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        while !self.finished && self.held.is_none() && self.step(now, &mut bytes, out)? {}
        self.keep_for_later(bytes)
    }

    fn export(&self) -> &NbdExport {
        &self.export
    }

    /// Handles as much as possible; true while there may be more.
    #[inline(always)]
    fn step(&mut self, now: Nanos, bytes: &mut &[u8], out: &mut Outbox) -> Result<bool, Ending> {
        match self.stage {
            Stage::Serving if self.sink.is_some() => {
                self.data(bytes, out);
                Ok(!bytes.is_empty())
            }
            Stage::Serving => {
                let Some(request) = self.head.take(bytes) else { return Ok(false) };
                let Some(asked) = Asked::parse(&request) else {
                    return Err(violation("NBD §Request message: it begins with its magic number"));
                };
                self.command(asked, out)?;
                Ok(true)
            }
            Stage::Leaving => {
                *bytes = &[];
                Ok(false)
            }
            Stage::Hello | Stage::Option | Stage::OptionData(..) => self.negotiate(now, bytes, out),
        }
    }

    fn is_quiet(&self) -> bool {
        self.slots.used() == 0
    }

    fn end_when_quiet(&mut self) {
        self.finished |= self.stage == Stage::Leaving && self.is_quiet();
    }
}

impl Endpoint for NbdTarget {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        self.take(now, bytes, out)?;
        self.retry_starving(out);
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        let until = self.half_open().then_some(self.until);
        self.held_deadline().into_iter().chain(until).min()
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        if self.half_open() && now >= self.until {
            return Err(self.give_up_negotiating(out));
        }
        self.look_at_held(now);
        self.answer_held(now, out);
        Ok(())
    }
}

impl Target for NbdTarget {
    fn begin(&mut self, out: &mut Outbox) {
        let mut greeting = [0; GREETING_BYTES];
        greeting[..8].copy_from_slice(&MAGIC.to_be_bytes());
        greeting[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        let flags = hello::FIXED_NEWSTYLE | hello::NO_ZEROES;
        greeting[16..].copy_from_slice(&flags.to_be_bytes());
        out.bytes(&greeting);
    }

    fn requests(&mut self) -> &mut VecDeque<Request> {
        &mut self.backlog.requests
    }

    fn complete(&mut self, _now: Nanos, done: Done, out: &mut Outbox) {
        self.completed(done, out);
        if !self.gone {
            self.retry_starving(out);
        }
        self.end_when_quiet();
    }

    fn drained(&mut self, now: Nanos, out: &mut Outbox) {
        if self.held.is_some() {
            self.answer_held(now, out);
        }
        self.retry_starving(out);
        self.end_when_quiet();
    }

    fn starves(&self) -> bool {
        !self.backlog.starving.is_empty() || self.held.is_some()
    }

    fn take_remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    fn half_open(&self) -> bool {
        !matches!(self.stage, Stage::Serving | Stage::Leaving)
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, notice: &Notice, is_there: &mut dyn FnMut() -> bool, _out: &mut Outbox) {
        if let Notice::PeerCame(new) = notice {
            self.meet(new, is_there);
        }
    }

    fn uses(&self, unit: UnitId) -> bool {
        self.export.id == unit
    }

    fn ask_to_leave(&mut self, _now: Nanos, _out: &mut Outbox) {
        // NBD has no way to ask a client to leave: commands in flight are answered, then the
        // connection ends.
        self.stage = Stage::Leaving;
        self.held = None;
        self.slots.iter_mut().for_each(|(_, slot)| slot.cut_short());
        if let Some(slot) = self.sink.take() {
            self.release(slot);
        }
        self.end_when_quiet();
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn abandon(&mut self, pool: &Pool) {
        if self.gone {
            return;
        }
        self.depart();
        (self.stage, self.gone) = (Stage::Leaving, true);
        self.sink = None;
        self.backlog.abandon(pool);
        for (_, slot) in self.slots.iter_mut() {
            let bufs: Vec<Buf> = slot.take_bufs();
            bufs.into_iter().for_each(|buf| pool.give(buf));
        }
    }
}
