//! An admin queue, of an I/O or discovery controller: connecting, enabling, one command at a time,
//! Keep Alive and shutdown.

mod life;

use block::Nanos;

use crate::flow::{DataEnd, PingTimeout, later, ping_timeout};
use crate::{Ending, Outbox};

use self::life::{STATUS, Step, property_get};

use super::super::frame::{Fatal, Next};
use super::super::pdu::{CommandBuilder, Completion, Data, Status, admin, fatal, kind};
use super::NvmeInitiatorConfig;
use super::connect::Connect;
use super::link::{Link, terminated};

/// An admin queue.
#[derive(Debug)]
pub(super) struct Control {
    link: Link,
    connect: Connect,
    step: Step,
    /// The identifier of the command in flight, and of the last one.
    id: u16,
    asking: bool,
    /// Data received for it, its maximum length, and whether a digest was wrong.
    data: Vec<u8>,
    data_max: u32,
    corrupt: bool,
    /// The incoming data has the SUCCESS flag.
    success: bool,
    awaits_events: bool,
    facts: Facts,
    rhythm: Rhythm,
    /// Time of the next Keep Alive, unless one is outstanding, and the time-out of that one.
    next_beat: Option<Nanos>,
    beat: Option<PingTimeout>,
    closing: bool,
    /// Time-out of the awaited event, and its length.
    until: Nanos,
    patience: Nanos,
    /// Time of the next query whether the controller is ready, or shut down.
    ask_again: Option<Nanos>,
    give_up_waiting: Nanos,
}

/// Keep Alive timing of an association.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rhythm {
    /// Interval of Keep Alives; zero: never.
    interval: Nanos,
    /// Time-out of a Keep Alive.
    limit: Nanos,
}

impl Rhythm {
    /// No Keep Alives.
    pub(super) const NONE: Rhythm = Rhythm { interval: Nanos(0), limit: Nanos(0) };

    pub(super) fn new(config: &NvmeInitiatorConfig) -> Rhythm {
        let interval = config.beat_interval.min(Nanos(config.keep_alive.0 / 2));
        Rhythm { interval, limit: ping_timeout(config.io_timeout, config.beat_timeout) }
    }
}

/// Properties and identity of the controller.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) cntlid: u16,
    /// The property CAP.
    pub(super) capabilities: u64,
    /// The Identify Controller data structure, 4096 bytes.
    pub(super) controller: Vec<u8>,
}

/// An event on an admin queue.
#[derive(Debug)]
pub(super) enum Reply {
    /// The controller is ready for commands.
    Opened,
    /// Answer to [`Control::ask`], with its data.
    Answer(Completion, Vec<u8>),
}

/// Identifiers of asynchronous event requests and Keep Alives.
const EVENT_ID: u16 = 0x2000;
const BEAT_ID: u16 = 0x2001;

/// Longest data of an answer.
const PAGE_BYTES: u32 = 4096;

impl Control {
    pub(super) fn new(
        connect: Connect,
        link: Link,
        rhythm: Rhythm,
        connect_timeout: Nanos,
        patience: Nanos,
        now: Nanos,
    ) -> Control {
        Control {
            link,
            connect,
            step: Step::Fresh,
            id: 0,
            asking: false,
            data: Vec::new(),
            data_max: 0,
            corrupt: false,
            success: false,
            awaits_events: false,
            facts: Facts::default(),
            rhythm,
            next_beat: None,
            beat: None,
            closing: false,
            until: later(now, connect_timeout),
            patience,
            ask_again: Some(now),
            give_up_waiting: Nanos(u64::MAX),
        }
    }

    /// Properties and identity of the controller.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether the controller was shut down, or never was connected to.
    pub(super) fn is_closed(&self) -> bool {
        self.step == Step::Closed
    }

    /// Returns whether closing was requested.
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Sends a command whose answer has at most `data_max` bytes of data, at most 4096. Only after
    /// the answer to the previous one.
    pub(super) fn ask(
        &mut self,
        now: Nanos,
        command: impl FnOnce(u16) -> CommandBuilder,
        data_max: u32,
        out: &mut Outbox,
    ) {
        let id = self.begin(now, data_max);
        self.link.command(command(id).transport(data_max), out);
    }

    fn begin(&mut self, now: Nanos, data_max: u32) -> u16 {
        debug_assert!(!self.asking && data_max <= PAGE_BYTES);
        self.id = (self.id + 1) % EVENT_ID;
        self.asking = true;
        self.corrupt = false;
        self.data.clear();
        self.data_max = data_max;
        if self.step != Step::Connecting {
            self.until = later(now, self.patience);
        }
        self.id
    }

    /// Sends an Asynchronous Event Request.
    pub(super) fn await_events(&mut self, out: &mut Outbox) {
        self.awaits_events = true;
        self.link.command(CommandBuilder::new(admin::ASYNC_EVENT, EVENT_ID, 0), out);
    }

    /// Consumes `bytes` up to the next event.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        bytes: &mut &[u8],
        out: &mut Outbox,
    ) -> Result<Option<Reply>, Ending> {
        while !bytes.is_empty() && self.step != Step::Closed {
            let reply = if self.link.frame.in_data() {
                self.gather(now, bytes, out)?
            } else {
                match self.link.frame.header(bytes) {
                    Ok(Next::Whole(header)) => self.pdu(now, header, out)?,
                    Ok(Next::Collected(header)) => self.pdu(now, &header, out)?,
                    Ok(Next::Partial) => None,
                    Err(fatal) => return Err(self.link.give_up_at(fatal, bytes, out)),
                }
            };
            if reply.is_some() {
                return Ok(reply);
            }
        }
        Ok(None)
    }

    /// Collects data of the command in flight.
    fn gather(
        &mut self,
        now: Nanos,
        bytes: &mut &[u8],
        out: &mut Outbox,
    ) -> Result<Option<Reply>, Ending> {
        let (part, end) = self.link.frame.data(bytes);
        let room = self.data_max as usize - self.data.len();
        self.data.extend_from_slice(&part[..part.len().min(room)]);
        self.corrupt |= end == DataEnd::Corrupt;
        if end == DataEnd::Open || !self.success {
            return Ok(None);
        }
        let (result, head, command, status) = (0, 0, self.id, Status::SUCCESS);
        self.answered(now, Completion { result, head, command, status }, out)
    }

    fn pdu(
        &mut self,
        now: Nanos,
        header: &[u8],
        out: &mut Outbox,
    ) -> Result<Option<Reply>, Ending> {
        if header[0] == kind::C2H_TERM_REQ {
            return Err(terminated(header));
        }
        if header[0] == kind::IC_RESP {
            self.link.opened(header.first_chunk().expect("its length is checked"), out)?;
            self.go_on(now, out);
            return Ok(None);
        }
        let short = header.first_chunk().expect("its length is checked");
        let fatal = match header[0] {
            _ if !self.link.open => {
                Fatal::sequence("NVMe-TCP §3.2: the first PDU of a connection is an ICResp")
            }
            kind::CAPSULE_RESP => {
                let completion = Completion::parse(short);
                match completion.command {
                    id if self.asking && id == self.id => {
                        return self.answered(now, completion, out);
                    }
                    BEAT_ID if self.beat.take().is_some() => {
                        self.plan_beat(now);
                        return Ok(None);
                    }
                    EVENT_ID if self.awaits_events => {
                        self.event(&completion, out);
                        return Ok(None);
                    }
                    _ => Fatal::field(20, "NVMe-TCP §3.6.2.7: CID is that of a command"),
                }
            }
            kind::C2H_DATA => match self.check_data(&Data::parse(short)) {
                Ok(()) => return Ok(None),
                Err(fatal) => fatal,
            },
            _ => Fatal::field(0, "NVMe-TCP §3.3.2: an R2T is for a command with data to send"),
        };
        Err(self.link.give_up(fatal, header, out))
    }

    /// Checks that arriving data is the requested data.
    fn check_data(&mut self, data: &Data) -> Result<(), Fatal> {
        if !self.asking || data.command != self.id {
            return Err(Fatal::field(8, "NVMe-TCP §3.6.2.9: CCCID is that of a command"));
        }
        if data.len != self.link.frame.data_len() {
            return Err(Fatal::field(16, "NVMe-TCP §3.6.2.9: DATAL is the length of the data"));
        }
        let end = u64::from(data.offset) + u64::from(data.len);
        if data.offset as usize != self.data.len() || end > u64::from(self.data_max) {
            let rule = "NVMe-TCP §3.3.2: C2HData lies in the data of its command, in order";
            return Err(Fatal { status: fatal::OUT_OF_RANGE, information: 0, rule, at: 12 });
        }
        if data.success() && !data.last() {
            return Err(Fatal::field(1, "NVMe-TCP §3.6.2.9: SUCCESS is for the last PDU"));
        }
        self.success = data.success();
        Ok(())
    }

    /// Handles an event. We enable none, so only a new event request is sent.
    fn event(&mut self, completion: &Completion, out: &mut Outbox) {
        self.awaits_events = completion.status.is_success();
        if self.awaits_events {
            self.await_events(out);
        }
    }

    /// The command in flight is done.
    fn answered(
        &mut self,
        now: Nanos,
        completion: Completion,
        out: &mut Outbox,
    ) -> Result<Option<Reply>, Ending> {
        self.asking = false;
        self.success = false;
        self.until = Nanos(u64::MAX);
        if self.corrupt {
            return Err(Ending::Refused("the data digest of an answer was wrong".to_owned()));
        }
        if self.step == Step::Open {
            if self.closing {
                self.shut_down(now, out);
                return Ok(None);
            }
            return Ok(Some(Reply::Answer(completion, std::mem::take(&mut self.data))));
        }
        self.step(now, &completion, out)
    }

    /// A sign of life is due after a pause.
    fn plan_beat(&mut self, now: Nanos) {
        let due = later(now, self.rhythm.interval);
        self.next_beat = (self.rhythm.interval != Nanos(0)).then_some(due);
    }

    /// Returns when [`tick`](Self::tick) must be called next.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        if self.step == Step::Closed {
            return None;
        }
        let waits = self.asking || self.step < Step::Capabilities;
        let until = waits.then_some(self.until);
        let dead = self.beat.map(|beat| beat.until());
        [until, self.ask_again, self.next_beat, dead].into_iter().flatten().min()
    }

    /// Does the work due at `now`.
    pub(super) fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        if self.step == Step::Closed {
            return Ok(());
        }
        if self.step == Step::Fresh {
            self.ask_again = None;
            self.go_on(now, out);
        }
        if now >= self.until && (self.asking || self.step < Step::Capabilities) {
            return self.late("the target does not answer");
        }
        if self.beat.as_mut().is_some_and(|beat| beat.has_expired(now)) {
            return self.late("the target does not answer keep-alives");
        }
        if self.ask_again.is_some_and(|at| now >= at) && !self.asking {
            if now >= self.give_up_waiting {
                return self.late("the controller does not become ready");
            }
            self.ask_again = None;
            self.ask(now, |id| property_get(id, STATUS, 0), 0, out);
        }
        if self.next_beat.is_some_and(|at| now >= at) {
            // One at a time: they share an identifier.
            self.next_beat = None;
            self.beat = Some(PingTimeout::new(now, self.rhythm.limit));
            self.link.command(CommandBuilder::new(admin::KEEP_ALIVE, BEAT_ID, 0), out);
        }
        Ok(())
    }

    /// Handles a time-out. During closing, it counts as the end.
    fn late(&mut self, what: &'static str) -> Result<(), Ending> {
        if self.closing {
            self.step = Step::Closed;
            return Ok(());
        }
        Err(Ending::TimedOut(what))
    }
}
