//! The initiator: a remote logical unit as a volume.
//!
//! `login` and then `opening` run once, until the unit's geometry is known; `fence` then makes sure
//! that an older session's tasks have ended. `command` sends I/Os and `answer` handles the
//! responses, which is the hot path; `attention` decides which unit attentions end the session, and
//! `control` has the rest: pings, logouts. An I/O has one slot, and its task tag is the slot's
//! number and a generation, so that an answer to a former use of the slot is noticed.

mod answer;
mod attention;
mod command;
mod control;
mod fence;
pub(super) mod login;
mod opening;
mod reason;
mod slot;

use std::collections::VecDeque;

use block::{Allocation, Backing, Cause, Done, Geometry, Io, Nanos};

use crate::flow::{DataEnd, IoTable, PingTimeout, Stamps};
use crate::scsi::encode_lun;
use crate::{Ending, Endpoint, Fence, Initiator, Outbox, Phase, Violation};

use super::chap::Proof;
use super::frame::{Frame, Next};
use super::params::Params;
use super::pdu::{Header, Numbers, opcode, opcode_of};

use login::Login;
pub use login::new_isid;
use opening::{Facts, Opening};
use slot::Progress;

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct InitiatorConfig {
    /// InitiatorName.
    pub initiator_name: String,
    /// TargetName.
    pub target_name: String,
    /// Logical unit number, at most [`scsi::LUN_MAX`](crate::scsi::LUN_MAX).
    pub lun: u16,
    /// Protect headers by CRC-32C; a target that cannot is refused.
    pub header_digest: bool,
    /// Protect data by CRC-32C; a target that cannot is refused.
    pub data_digest: bool,
    /// I/Os in flight at most, 1 to 4096.
    pub max_outstanding: u16,
    /// Time limit of login and the first commands.
    pub login_timeout: Nanos,
    /// Idle time after which the target is pinged (NOP-Out). Zero: never.
    pub nop_interval: Nanos,
    /// A ping unanswered for so long ends a session on which no I/O is in flight, or one that is
    /// logging out. It may take as long as an I/O, if that is longer.
    pub nop_timeout: Nanos,
    /// Time-out of an I/O, regardless of pings. A session with an I/O that takes longer ends, by at
    /// most a quarter of this, or a second, later. Zero: never.
    pub io_timeout: Nanos,
    /// The session's ISID; none: a new one. With that of a session that is dead for us, the target
    /// ends it.
    pub isid: Option<[u8; 6]>,
    /// Whether an earlier session has unanswered commands: before the session is ready, ensure that
    /// the target executes none of them any more, as far as the target can tell.
    pub fence: bool,
    /// Secrets by which we prove ourselves, and the target has to.
    pub proof: Option<Proof>,
}

impl InitiatorConfig {
    /// The usual settings: no digests, 128 outstanding, 15 s for the login, pings after 5 s,
    /// 30 s for an I/O.
    pub fn new(initiator_name: &str, target_name: &str, lun: u16) -> InitiatorConfig {
        InitiatorConfig {
            initiator_name: initiator_name.to_owned(),
            target_name: target_name.to_owned(),
            lun,
            header_digest: false,
            data_digest: false,
            max_outstanding: 128,
            login_timeout: Nanos::from_secs(15),
            nop_interval: Nanos::from_secs(5),
            nop_timeout: Nanos::from_secs(10),
            io_timeout: crate::IO_TIMEOUT,
            isid: None,
            fence: false,
            proof: None,
        }
    }
}

/// One session of one connection with one logical unit.
#[derive(Debug)]
pub struct IscsiInitiator {
    config: InitiatorConfig,
    lun: [u8; 8],
    stage: Stage,
    geometry: Geometry,
    /// Blocks as a power of two.
    block_shift: u32,
    /// Optional commands of the unit.
    can_trim: bool,
    trimmed_reads_zero: bool,
    can_force_unit_access: bool,
    /// Facts of the unit other than its geometry.
    facts: Facts,
    fence: Fence,
    /// The tag of the last command that was no I/O.
    question_tag: u32,
    /// An answer about allocation that was not taken yet.
    allocation: Option<Option<Allocation>>,
    params: Params,
    frame: Frame,
    incoming: Incoming,
    /// The data of a PDU that is not I/O, and its header.
    gathered: Vec<u8>,
    gathering: Header,
    /// CmdSN of the next command, the last that may be used, and the StatSN that comes next.
    command_number: u32,
    command_max: u32,
    status: u32,
    ios: IoTable<Progress>,
    stamps: Stamps,
    /// Slots whose command got BUSY or TASK SET FULL, and when to retry it.
    retries: VecDeque<(Nanos, u16)>,
    began: Nanos,
    heard: Nanos,
    /// Time of the unanswered ping, and its deadline.
    ping: Option<(Nanos, PingTimeout)>,
    /// Time of a logout even though I/Os are in flight.
    logout_at: Option<Nanos>,
}

/// State of the session.
#[derive(Debug)]
enum Stage {
    /// Nothing has been sent.
    Idle(Box<Login>),
    Login(Box<Login>),
    /// Reading the unit's geometry.
    Opening(Opening),
    Ready,
    /// A logout waits until the I/Os in flight have ended.
    Draining,
    /// A logout was sent.
    Closing,
    Closed,
}

/// Destination of the incoming data segment.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    sink: Sink,
    /// Bytes received of it.
    have: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// Data that is collected and handled as a whole.
    Gather,
    /// Data of the read in this slot.
    Slot(u16),
}

/// Longest data segment during login.
//= RFC 7143 §13.12: the default of MaxRecvDataSegmentLength is 8192.
const LOGIN_DATA_BYTES: u32 = 8192;

/// Longest data segment of a PDU that is not I/O: sense data, pings, the answers of opening.
const GATHER_MAX_BYTES: usize = 8192;

impl IscsiInitiator {
    /// A session that logs in at its first [`tick`](Endpoint::tick), due at once.
    ///
    /// Panics when the LUN is above [`scsi::LUN_MAX`](crate::scsi::LUN_MAX).
    pub fn new(config: InitiatorConfig, now: Nanos) -> IscsiInitiator {
        let digests = [config.header_digest, config.data_digest];
        let isid = config.isid.unwrap_or_else(|| new_isid(now));
        let login = Login::new(&config.initiator_name, Some(&config.target_name), digests, isid)
            .proving(config.proof.clone());
        let ios = IoTable::new(config.max_outstanding.clamp(1, 4096), config.io_timeout, now);
        IscsiInitiator {
            lun: encode_lun(config.lun),
            stage: Stage::Idle(Box::new(login)),
            geometry: Geometry { read_only: true, volatile: true, ..Geometry::new(0, 512) },
            block_shift: 9,
            can_trim: false,
            trimmed_reads_zero: false,
            can_force_unit_access: false,
            facts: Facts::default(),
            fence: Fence::After(Nanos(0)),
            question_tag: opening::QUESTION,
            allocation: None,
            params: Params::before_login(),
            frame: Frame::new(LOGIN_DATA_BYTES),
            incoming: Incoming { sink: Sink::Gather, have: 0 },
            gathered: Vec::new(),
            gathering: [0; 48],
            command_number: 1,
            command_max: 0,
            status: 0,
            retries: VecDeque::with_capacity(ios.max()),
            ios,
            stamps: Stamps::default(),
            began: now,
            heard: now,
            ping: None,
            logout_at: None,
            config,
        }
    }

    /// Updates the command window from an answer.
    #[inline(always)]
    fn count(&mut self, numbers: Numbers) {
        //= RFC 7143 §4.2.2.1: MaxCmdSN never goes back; an older one is ignored.
        if numbers.max.wrapping_sub(self.command_max) < 1 << 31 {
            self.command_max = numbers.max;
        }
    }

    /// Updates window and StatSN from a status.
    #[inline(always)]
    fn count_status(&mut self, numbers: Numbers) -> Result<(), Ending> {
        self.count(numbers);
        //= RFC 7143 §4.2.2.2: StatSN rises by one; a gap at recovery level 0 ends the session.
        if numbers.status != self.status {
            return Err(violation(
                "RFC 7143 §4.2.2.2: StatSN rises by one from status to status",
                24,
            ));
        }
        self.status = self.status.wrapping_add(1);
        Ok(())
    }

    /// Number of commands that the target accepts now.
    #[inline(always)]
    fn window(&self) -> usize {
        let open = self.command_max.wrapping_sub(self.command_number).wrapping_add(1) as i32;
        open.max(0) as usize
    }

    /// Handles the header of a PDU; its data, if any, follows.
    #[inline(always)]
    fn pdu(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        self.incoming = Incoming { sink: Sink::Gather, have: 0 };
        match opcode_of(header) {
            opcode::DATA_IN => self.data_in(header),
            opcode::RESPONSE => self.response(header, out),
            _ => self.control(header, out),
        }
    }

    /// Routes the next part of a data segment to its destination.
    #[inline(always)]
    fn data(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let (part, end) = self.frame.data(bytes);
        match self.incoming.sink {
            Sink::Slot(slot) => self.place(slot, part, out.pool())?,
            Sink::Gather => self.gather(part)?,
        }
        self.incoming.have += part.len() as u32;
        match end {
            DataEnd::Open => Ok(()),
            DataEnd::Intact => match self.incoming.sink {
                Sink::Slot(slot) => self.placed(slot),
                Sink::Gather => self.gathered(out),
            },
            //= RFC 7143 §7.8: at recovery level 0 a data digest error ends the session.
            DataEnd::Corrupt => {
                Err(violation("RFC 7143 §11.2.3: the data digest is the CRC-32C of the data", 48))
            }
        }
    }

    fn gather(&mut self, part: &[u8]) -> Result<(), Ending> {
        if self.gathered.len() + part.len() > GATHER_MAX_BYTES {
            return Err(violation("an answer that is not data of a read is short", 5));
        }
        self.gathered.extend_from_slice(part);
        Ok(())
    }
}

impl Endpoint for IscsiInitiator {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        self.heard = now;
        let mut bytes = bytes;
        while !bytes.is_empty() && !matches!(self.stage, Stage::Closed) {
            if self.frame.in_data() {
                self.data(&mut bytes, out)?;
                continue;
            }
            match self.frame.header(&mut bytes)? {
                Next::Whole(header) => self.pdu(header, out)?,
                Next::Collected(header) => {
                    self.frame.forget_header();
                    self.pdu(&header, out)?;
                }
                Next::Partial => break,
            }
        }
        self.stamps.acknowledge(out);
        if !self.retries.is_empty() && !matches!(self.stage, Stage::Opening(_)) {
            self.retry_due(now, out);
        }
        self.log_out_when_drained(out);
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        self.next_deadline()
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        self.keep_alive(now, out)
    }
}

impl Initiator for IscsiInitiator {
    fn product(&self) -> Option<&str> {
        self.facts.product.as_deref()
    }

    fn backing(&self) -> Option<&Backing> {
        self.facts.backing.as_ref()
    }

    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Opening(ref opening) if opening.question.is_about_identity() => {
                Phase::Ready(self.geometry)
            }
            Stage::Idle(_) | Stage::Login(_) | Stage::Opening(_) => Phase::Opening,
            Stage::Ready => Phase::Ready(self.geometry),
            Stage::Draining | Stage::Closing => Phase::Closing,
            Stage::Closed => Phase::Closed,
        }
    }

    #[inline]
    fn room(&self) -> usize {
        if !matches!(self.stage, Stage::Ready) {
            return 0;
        }
        self.ios.room().min(self.window().saturating_sub(self.retries.len()))
    }

    #[inline]
    fn submit(&mut self, _now: Nanos, io: Io, out: &mut Outbox) {
        self.start(io, out);
    }

    fn done(&mut self) -> &mut Vec<Done> {
        &mut self.ios.done
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        reason::words(cause)
    }

    fn changes(&self) -> u64 {
        self.ios.changes
    }

    fn in_doubt(&self) -> Vec<(u64, u64)> {
        self.ios.in_doubt(|io| io.own.busy.then_some((io.offset, io.len.into())))
    }

    fn fence(&self) -> Fence {
        self.fence
    }

    fn instance(&self) -> Option<u64> {
        self.facts.instance
    }

    fn identity(&self) -> Option<String> {
        self.facts.identity.clone()
    }

    fn power_was_lost(&self) -> Option<bool> {
        self.facts.power_was_lost
    }

    fn ask_allocation(&mut self, offset: u64, len: u64, out: &mut Outbox) -> bool {
        let is_ready = matches!(self.stage, Stage::Ready) && self.ios.is_idle();
        let blocks = len >> self.block_shift;
        if !is_ready || self.window() == 0 || blocks == 0 {
            return false;
        }
        self.allocation = None;
        self.ask_status(offset >> self.block_shift, blocks, out);
        true
    }

    fn take_allocation(&mut self) -> Option<Option<Allocation>> {
        self.allocation.take()
    }

    fn close(&mut self, _now: Nanos, out: &mut Outbox) {
        self.log_out(out);
    }

    fn abandon(&mut self) {
        self.stage = Stage::Closed;
        self.disconnect();
    }
}

/// A violation that ends the session.
fn violation(rule: &'static str, at: usize) -> Ending {
    Ending::Violation(Violation { rule, at })
}
