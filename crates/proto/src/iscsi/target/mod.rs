//! The target: one connection of a portal, which is one session.
//!
//! `login` runs once, and `arrival` delays its answer until no I/O of earlier sessions is left.
//! Then `command` and `data_out` handle the PDUs of initiators for I/Os, `answer` sends the results
//! of volumes; these are the hot path. Other files are: `control` dispatches other PDUs, `manage`
//! aborts tasks, `text` answers text requests, `attention` stores unit attentions, `renewal` takes over changed targets, `reserve` obeys reservations, `check` compares data. A command has
//! one slot of `task`, and a slot has one or more I/Os.

mod alive;
mod answer;
mod arrival;
mod attention;
mod check;
mod command;
mod control;
mod copy;
mod data_out;
mod job;
mod login;
mod manage;
mod renewal;
mod reserve;
mod task;
mod text;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Done, Landing, Memories, Memory, Nanos, Pool};

use crate::flow::{Backlog, DataEnd, Leftovers};
use crate::instance::KnownLosses;
use crate::peers::Presence;
use crate::scsi::{Claim, Nexus, Unit};
use crate::{
    Ending, Endpoint, Fencing, Notice, Offers, Outbox, Peers, Request, Target, UnitId, Violation,
};

use super::directory::{Directory, TargetEntry};
use super::frame::{Frame, Next};
use super::params::Params;
use super::pdu::{Header, LoginRequest, Numbers, expected_status_number, opcode, opcode_of};

use alive::Alive;
use arrival::Held;
use attention::Attentions;
use copy::CopyResult;
use login::Login;
use manage::Waiting;
use task::Tasks;
use text::Exchange;

/// Settings of the connections of a portal.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Commands that a connection may have in flight, 1 to 4096: the window that CmdSN moves in.
    pub max_commands: u16,
    /// Longest data segment that we take, 512 to 2²⁴−1.
    pub max_recv_data_segment_bytes: u32,
    /// Longest solicited burst that we agree to, 512 to 2²⁴−1.
    pub max_burst_bytes: u32,
    /// Longest unsolicited burst that we agree to, 512 to [`Pool::LARGE_BYTES`].
    pub first_burst_bytes: u32,
    /// Time limit of a login.
    pub login_timeout: Nanos,
    /// Idle time after which the initiator is pinged (NOP-In). Zero: never.
    pub nop_interval: Nanos,
    /// An unanswered ping ends the connection after this time.
    pub nop_timeout: Nanos,
}

impl Default for TargetConfig {
    fn default() -> TargetConfig {
        TargetConfig {
            max_commands: 128,
            max_recv_data_segment_bytes: Pool::LARGE_BYTES as u32,
            max_burst_bytes: 1 << 20,
            first_burst_bytes: Pool::MEDIUM_BYTES as u32,
            login_timeout: Nanos::from_secs(15),
            nop_interval: Nanos::from_secs(15),
            nop_timeout: Nanos::from_secs(15),
        }
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Logging in.
    Login,
    /// In full feature phase of a discovery session.
    Discovery,
    /// In full feature phase of a normal session.
    Normal,
}

/// One connection, which is one session.
#[derive(Debug)]
pub struct IscsiTarget {
    config: Arc<TargetConfig>,
    offers: Offers<Directory>,
    portal: String,
    /// Addresses of the portal group besides that one.
    other_portals: Arc<[String]>,
    connection_id: u32,
    stage: Stage,
    login: Option<Box<Login>>,
    /// The target, in a normal session.
    target: Arc<TargetEntry>,
    initiator_name: String,
    isid: [u8; 6],
    /// Initiator and session, as reservations know them.
    nexus: Nexus,
    /// A unit, and the word of its state with which this session may do everything.
    free: (UnitId, u64),
    /// Commands of this session that others wait for, up to an epoch.
    fences: Vec<(u32, Fencing)>,
    /// CID: the initiator's number for the connection.
    connection: u16,
    params: Params,
    frame: Frame,
    incoming: Incoming,
    /// The data of a PDU that is not I/O, and its header.
    gathered: Vec<u8>,
    gathering: Header,
    /// StatSN of the next status, up to which the initiator has them, and the CmdSN that comes
    /// next.
    status: u32,
    known: u32,
    expected: u32,
    /// The highest MaxCmdSN sent.
    told: u32,
    /// Number of further commands whose unsolicited data has memory.
    affordable: u32,
    tasks: Tasks,
    backlog: Backlog,
    /// Volumes in memory that received data was written to.
    memories: Memories,
    /// Slots with unsolicited data to come, in order of their commands.
    unsolicited: Vec<u16>,
    attentions: Attentions,
    waiting: Vec<Waiting>,
    epoch: u32,
    /// CmdSN of commands that were aborted before they were received.
    aborted_ahead: Vec<u32>,
    notices: Vec<Notice>,
    exchange: Option<Exchange>,
    alive: Alive,
    /// The initiators of the server, of which this is one once it logs in.
    peers: Arc<Peers>,
    presence: Option<Presence>,
    /// A login that waits for its answer.
    held: Option<Box<Held>>,
    /// A login that is refused, and when it is told.
    refused: Option<Box<(Nanos, LoginRequest)>>,
    /// Failed flushes that the initiator knows of.
    losses: KnownLosses,
    /// I/Os that are with volumes, of a connection that is lost, and ranges that they claim.
    leftovers: Leftovers,
    left_claims: Vec<Claim>,
    /// Results of copies.
    copies: Vec<CopyResult>,
    /// A line for the log.
    remark: Option<String>,
    finished: bool,
    abandoned: bool,
}

/// Destination of the incoming data segment.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    sink: Sink,
    /// Bytes received of it.
    have: u32,
    /// The PDU ends its burst.
    last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// Data to discard.
    Discard,
    /// Data that is collected and handled as a whole.
    Gather,
    /// Data-Out of the task in this slot.
    Task(u16),
}

/// The longest data segment during login.
//= RFC 7143 §13.12: the default of MaxRecvDataSegmentLength is 8192.
const LOGIN_DATA_BYTES: u32 = 8192;

/// With less free memory than this, the command window is limited to what fits.
const PLENTY_BYTES: usize = 8 << 20;

/// Data kept of a PDU that is not I/O: enough for any ping, and more than any valid text.
const GATHER_MAX_BYTES: usize = 64 << 10;

impl IscsiTarget {
    /// Creates a fresh connection.
    ///
    /// `portal` is the address of every target in SendTargets, `host:port,tag`, such as
    /// `192.0.2.1:3260,1`. `connection_id` distinguishes connections: their sessions' TSIH.
    pub fn new(
        config: Arc<TargetConfig>,
        directory: impl Into<Offers<Directory>>,
        portal: &str,
        connection_id: u32,
        now: Nanos,
    ) -> IscsiTarget {
        let tasks = Tasks::new(config.max_commands);
        IscsiTarget {
            portal: portal.to_owned(),
            other_portals: Arc::default(),
            connection_id,
            stage: Stage::Login,
            login: Some(Box::new(Login::new(&config, now))),
            target: Arc::default(),
            initiator_name: String::new(),
            isid: [0; 6],
            nexus: Nexus::Port { name: String::new(), isid: [0; 6] },
            free: (UnitId(0), 0),
            fences: Vec::new(),
            connection: 0,
            params: Params::before_login(),
            frame: Frame::new(LOGIN_DATA_BYTES),
            incoming: Incoming { sink: Sink::Discard, have: 0, last: false },
            gathered: Vec::new(),
            gathering: [0; 48],
            status: 0,
            known: 0,
            expected: 0,
            told: 0,
            affordable: 0,
            tasks,
            backlog: Backlog::default(),
            memories: Memories::new(),
            unsolicited: Vec::new(),
            attentions: Attentions::default(),
            waiting: Vec::new(),
            epoch: 0,
            aborted_ahead: Vec::new(),
            notices: Vec::new(),
            exchange: None,
            alive: Alive::new(&config, now),
            peers: Arc::default(),
            presence: None,
            held: None,
            refused: None,
            losses: KnownLosses::default(),
            leftovers: Leftovers::default(),
            left_claims: Vec::new(),
            copies: Vec::new(),
            remark: None,
            finished: false,
            abandoned: false,
            config,
            offers: directory.into(),
        }
    }

    /// Shares a server's list of peers with its other connections.
    pub fn among(self, peers: Arc<Peers>) -> IscsiTarget {
        IscsiTarget { peers, ..self }
    }

    /// Adds the other addresses of the portal group, in the form of `portal`: SendTargets lists
    /// them after the address that the initiator has used.
    pub fn with_portals(self, other_portals: Arc<[String]>) -> IscsiTarget {
        IscsiTarget { other_portals, ..self }
    }

    /// State of the connection.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Name of the initiator, once known.
    pub fn initiator_name(&self) -> Option<&str> {
        Some(self.initiator_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Name of the target, in a normal session.
    pub fn target_name(&self) -> Option<&str> {
        (self.stage == Stage::Normal).then(|| self.target.name.as_str())
    }

    /// The target of this session, or of its login.
    fn chosen(&self) -> &TargetEntry {
        let login = self.login.as_ref();
        login.and_then(|login| login.target()).unwrap_or(&self.target)
    }

    /// The logical unit that a LUN field names.
    fn unit(&self, lun: [u8; 8]) -> Option<&Unit> {
        self.target.unit(lun)
    }

    /// The bytes of a logical unit, if they are memory.
    #[inline(always)]
    fn memory(&self, lun: [u8; 8]) -> Option<&Memory> {
        self.unit(lun)?.memory.as_ref()
    }

    /// The counters, without a status.
    #[inline(always)]
    fn numbers(&mut self) -> Numbers {
        // With no command in flight, no answer would reopen the window.
        let least = u32::from(self.tasks.are_free());
        let window = self.tasks.room().min(self.affordable.max(least));
        let max = self.expected.wrapping_add(window).wrapping_sub(1);
        //= RFC 7143 §4.2.2.1: MaxCmdSN never goes back.
        if max.wrapping_sub(self.told) as i32 > 0 {
            self.told = max;
        }
        Numbers { status: self.status, expected: self.expected, max: self.told }
    }

    /// The counters for an answer that is a status.
    #[inline(always)]
    fn next_status(&mut self) -> Numbers {
        let numbers = self.numbers();
        self.status = self.status.wrapping_add(1);
        numbers
    }

    /// Updates how many commands there is memory for.
    #[inline(always)]
    fn reckon(&mut self, out: &Outbox) {
        let plenty = !out.is_short(PLENTY_BYTES);
        self.affordable = if plenty { u32::MAX } else { out.affordable(Pool::MEDIUM_BYTES) };
    }

    /// Frees the slot of a task that has ended.
    #[inline(always)]
    fn release(&mut self, slot: u16) {
        if !self.backlog.starving.is_empty() {
            self.forget_starving(slot);
        }
        self.tasks.release(slot);
    }

    /// Handles received bytes until all are consumed or the connection ends.
    fn take<'a>(
        &mut self,
        now: Nanos,
        mut bytes: &'a [u8],
        landing: &mut Landing<'a>,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        while !bytes.is_empty() && !self.finished {
            if self.frame.in_data() {
                self.data(now, &mut bytes, landing, out)?;
                continue;
            }
            let begun = bytes;
            match self.frame.header(&mut bytes) {
                Ok(Next::Whole(header)) => self.pdu(header, out)?,
                Ok(Next::Collected(header)) => self.collected(&header, out)?,
                Ok(Next::Partial) => break,
                Err(violation) => return Err(self.broke(violation, begun, out)),
            }
        }
        Ok(())
    }

    /// Handles the header of a PDU; its data, if any, follows.
    #[inline(always)]
    fn pdu(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        self.incoming = Incoming { sink: Sink::Discard, have: 0, last: false };
        if self.params.data_digest {
            self.gathering = *header;
        }
        if self.stage == Stage::Normal {
            self.known = expected_status_number(header);
            match opcode_of(header) {
                opcode::COMMAND => return self.command(header, out),
                opcode::DATA_OUT => return self.data_out(header, out),
                _ => {}
            }
        }
        self.control(header, out)
    }

    /// Handles a PDU whose header was collected: it may have additional header segments.
    #[cold]
    fn collected(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        let normal = self.stage == Stage::Normal;
        let result = if normal && opcode_of(header) == opcode::COMMAND && header[4] != 0 {
            self.long_command(header, out)
        } else {
            self.pdu(header, out)
        };
        self.frame.forget_header();
        result
    }

    /// Routes the next part of a data segment to its destination.
    #[inline(always)]
    fn data<'a>(
        &mut self,
        now: Nanos,
        bytes: &mut &'a [u8],
        landing: &mut Landing<'a>,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let (part, end) = self.frame.data(bytes);
        match self.incoming.sink {
            Sink::Task(slot) if end == DataEnd::Intact && self.lands(slot, part.len()) => {
                self.incoming.sink = Sink::Discard;
                self.land(slot, part, landing, out);
                return Ok(());
            }
            Sink::Task(slot) => self.place(slot, part, out),
            Sink::Gather => {
                let room = GATHER_MAX_BYTES - self.gathered.len();
                self.gathered.extend_from_slice(&part[..part.len().min(room)]);
            }
            Sink::Discard => {}
        }
        self.incoming.have += part.len() as u32;
        if end == DataEnd::Open {
            return Ok(());
        }
        let sink = std::mem::replace(&mut self.incoming.sink, Sink::Discard);
        match sink {
            Sink::Task(slot) => {
                self.placed(slot, end == DataEnd::Intact, out);
                Ok(())
            }
            Sink::Gather => self.gathered(now, end == DataEnd::Intact, out),
            Sink::Discard => Ok(()),
        }
    }
}

impl Endpoint for IscsiTarget {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        self.alive.heard(now);
        if self.stage == Stage::Login {
            self.check_first(bytes)?;
        }
        self.reckon(out);
        let mut landing = Landing::new(std::mem::take(&mut self.memories));
        let before = self.status;
        let result = self.take(now, bytes, &mut landing, out);
        self.memories = landing.finish();
        if self.status != before {
            out.stamp(self.status.wrapping_sub(1));
        }
        result?;
        // An initiator that acknowledges a status has read its header and all bytes before it; the
        // data after that header may still be in flight.
        //= RFC 7143 §11.3.5: ExpStatSN acknowledges every status before it.
        out.acknowledge(self.known.wrapping_sub(2));
        self.retry_starving(out);
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        self.next_deadline()
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        self.retry_starving(out);
        self.keep_alive(now, out)
    }
}

impl Target for IscsiTarget {
    fn requests(&mut self) -> &mut VecDeque<Request> {
        &mut self.backlog.requests
    }

    fn complete(&mut self, _now: Nanos, done: Done, out: &mut Outbox) {
        let before = self.status;
        if self.affordable != u32::MAX {
            self.reckon(out);
        }
        self.completed(done, out);
        if self.status != before {
            out.stamp(self.status.wrapping_sub(1));
        }
        self.retry_starving(out);
    }

    fn drained(&mut self, _now: Nanos, out: &mut Outbox) {
        if self.held.is_some() {
            self.answer_held(out);
        }
        if self.is_fenced() {
            self.answer_waiting(out);
        }
        self.retry_starving(out);
    }

    fn withhold(&mut self, units: &[UnitId]) {
        self.backlog.withhold(units);
    }

    fn starves(&self) -> bool {
        !self.backlog.starving.is_empty() || self.held.is_some() || self.is_fenced()
    }

    fn take_remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    fn half_open(&self) -> bool {
        self.stage == Stage::Login
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, notice: &Notice, is_there: &mut dyn FnMut() -> bool, out: &mut Outbox) {
        if let (Notice::TasksEnd(end), Stage::Normal) = (notice, self.stage) {
            return self.tasks_end(end, out);
        }
        if self.finished || self.stage != Stage::Normal && self.held.is_none() {
            return;
        }
        match notice {
            Notice::UnitNews(unit, told) => self.hear(*unit, told),
            Notice::UnitChanged(unit, sense) => self.hear_change(*unit, *sense),
            Notice::UnitReset(unit) => self.unit_was_reset(*unit, out),
            Notice::PeerCame(new) => self.meet(new, is_there, out),
            Notice::ControllerEnded | Notice::TasksEnd(_) => {}
        }
    }

    fn renew(&mut self, _out: &mut Outbox) -> bool {
        self.take_over()
    }

    fn uses(&self, unit: UnitId) -> bool {
        self.chosen().units.iter().flatten().any(|one| one.id == unit)
    }

    fn peer_name(&self) -> Option<&str> {
        self.initiator_name()
    }

    fn ask_to_leave(&mut self, now: Nanos, out: &mut Outbox) {
        self.ask_logout(now, out);
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn abandon(&mut self, pool: &Pool) {
        if self.abandoned {
            return;
        }
        self.finished = true;
        self.abandoned = true;
        self.depart();
        self.backlog.abandon(pool);
        self.tasks.clear(pool);
        self.unsolicited.clear();
        self.waiting.clear();
        if self.leftovers.have_no_changes() {
            self.fences.clear();
        }
    }
}

/// A violation that ends the connection.
fn violation(rule: &'static str, at: usize) -> Ending {
    Ending::Violation(Violation { rule, at })
}
