//! The server's end.

mod command;
mod negotiate;
mod read;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Buf, Done, Nanos, Pool};

use crate::flow::{Backlog, Collector, Slots, later};
use crate::{Ending, Endpoint, Outbox, Request, Target, Violation};

use super::export::{NbdExport, NbdExports};
use super::wire::{Asked, GREETING_BYTES, MAGIC, OPTION_MAGIC, REQUEST_BYTES, hello};
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
    exports: Arc<NbdExports>,
    config: NbdTargetConfig,
    stage: Stage,
    until: Nanos,
    head: Collector,
    /// Number of options received.
    options: u32,
    no_zeroes: bool,
    structured: bool,
    /// Index of the chosen export.
    export: usize,
    slots: Slots<Slot>,
    /// The write whose data comes next.
    sink: Option<u16>,
    backlog: Backlog,
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
    pub fn new(exports: Arc<NbdExports>, config: NbdTargetConfig, now: Nanos) -> NbdTarget {
        NbdTarget {
            exports,
            config,
            stage: Stage::Hello,
            until: later(now, config.login_timeout),
            head: Collector::new(REQUEST_BYTES),
            options: 0,
            no_zeroes: false,
            structured: false,
            export: 0,
            slots: Slots::new(config.max_commands),
            sink: None,
            backlog: Backlog::default(),
            gone: false,
            finished: false,
        }
    }

    fn export(&self) -> &NbdExport {
        &self.exports.list()[self.export]
    }

    /// Handles as much as possible; true while there may be more.
    #[inline(always)]
    fn step(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> Result<bool, Ending> {
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
            Stage::Hello | Stage::Option | Stage::OptionData(..) => self.negotiate(bytes, out),
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
    fn receive(&mut self, _now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        while !self.finished && self.step(&mut bytes, out)? {}
        self.retry_starving(out);
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        self.half_open().then_some(self.until)
    }

    fn tick(&mut self, now: Nanos, _out: &mut Outbox) -> Result<(), Ending> {
        match self.half_open() && now >= self.until {
            true => Err(Ending::TimedOut("the client has chosen no export")),
            false => Ok(()),
        }
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

    fn drained(&mut self, out: &mut Outbox) {
        self.retry_starving(out);
        self.end_when_quiet();
    }

    fn starves(&self) -> bool {
        !self.backlog.starving.is_empty()
    }

    fn half_open(&self) -> bool {
        !matches!(self.stage, Stage::Serving | Stage::Leaving)
    }

    fn ask_to_leave(&mut self, _now: Nanos, _out: &mut Outbox) {
        // NBD has no way to ask a client to leave: commands in flight are answered, then the
        // connection ends.
        self.stage = Stage::Leaving;
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
        (self.stage, self.gone) = (Stage::Leaving, true);
        self.sink = None;
        self.backlog.abandon(pool);
        for (_, slot) in self.slots.iter_mut() {
            let bufs: Vec<Buf> = slot.take_bufs();
            bufs.into_iter().for_each(|buf| pool.give(buf));
        }
    }
}
