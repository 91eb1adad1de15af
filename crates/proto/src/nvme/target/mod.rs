//! The controller's end: one connection, which is one queue of a controller.
//!
//! `open` handles the ICReq and `connect` the Connect command, which makes the connection an admin
//! or an I/O queue. `command` and `data` receive I/O commands and their data, `answer` sends data
//! and completions: the hot path. Of the other files, `admin` dispatches admin commands to
//! `property`, `identify`, `feature`, `log`, `event` and `reset`, `arrival` lets in and out, `job` handles
//! I/O commands other than read and write, `verify`, `fused` and `copy` those that read blocks to do
//! something with them, `reserve` reservations, and `end` terminates the connection. A command has a
//! slot of `slot` with one or more I/Os.

mod admin;
mod alive;
mod answer;
mod arrival;
mod command;
mod connect;
mod copy;
mod data;
mod event;
mod feature;
mod fused;
mod identify;
mod job;
mod log;
mod open;
mod property;
mod reserve;
mod reset;
mod slot;
mod verify;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Done, Landing, Memories, Nanos, Pool};

use crate::flow::{Backlog, DataEnd, Leftovers};
use crate::instance::KnownLosses;
use crate::peers::Presence;
use crate::{Ending, Endpoint, Notice, Offers, Outbox, Peers, Request, Target, UnitId};

use super::controllers::{Controllers, Membership};
use super::directory::{Portal, Subsystem, Subsystems};
use super::frame::{FROM_HOST, Frame, Next};
use super::pdu::{CAPSULE_BYTES, Command, INIT_BYTES, kind};
use super::wire::Wire;

use admin::Admin;
use alive::Alive;
use arrival::Held;
use fused::Pair;
use reserve::Reserving;
use slot::Commands;

/// Settings of the connections of a portal.
#[derive(Clone, Debug)]
pub struct NvmeTargetConfig {
    /// Entries of an I/O queue, 32 to 1024: one more than commands in flight.
    pub max_queue_depth: u16,
    /// In-capsule data of an I/O command: a multiple of 16 up to [`Pool::SMALL_BYTES`].
    pub in_capsule_bytes: u32,
    /// Longest H2CData that we accept: a multiple of 4 from 4096 on.
    pub max_h2c_data_bytes: u32,
    /// Longest read or write, a power of two from 8192 to 2²⁸ bytes.
    pub max_transfer_bytes: u32,
    /// Time limit from accepting a connection to its Connect command, and twice that to enabling
    /// its controller.
    pub connect_timeout: Nanos,
    /// Time limit without commands for hosts of the discovery service that set no KATO.
    pub discovery_timeout: Nanos,
    /// Whether hosts may use header digests.
    pub allow_header_digest: bool,
    /// Whether hosts may use data digests.
    pub allow_data_digest: bool,
    /// Set SUCCESS in the last data of a read even if the host uses SQ flow control. The host then
    /// gets an SQHD often enough to continue, but not with every command.
    pub always_shortcut: bool,
}

impl Default for NvmeTargetConfig {
    fn default() -> NvmeTargetConfig {
        NvmeTargetConfig {
            max_queue_depth: 1024,
            in_capsule_bytes: 16 << 10,
            max_h2c_data_bytes: Pool::LARGE_BYTES as u32,
            max_transfer_bytes: 1 << 20,
            connect_timeout: Nanos::from_secs(15),
            discovery_timeout: Nanos::from_secs(120),
            allow_header_digest: true,
            allow_data_digest: true,
            always_shortcut: true,
        }
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for the ICReq.
    Fresh,
    /// Waiting for Connect.
    Unconnected,
    /// An admin queue.
    Admin,
    /// An I/O queue.
    Io,
    /// An I/O queue whose last command is the first of two fused ones.
    Fused,
}

/// One connection, which is one queue of a controller.
#[derive(Debug)]
pub struct NvmeTarget {
    config: Arc<NvmeTargetConfig>,
    subsystems: Offers<Subsystems>,
    controllers: Arc<Controllers>,
    portal: Portal,
    /// The host's address, if known.
    peer: Option<u128>,
    stage: Stage,
    frame: Frame,
    wire: Wire,
    incoming: Incoming,
    /// Without namespaces before Connect, and for the discovery service.
    subsystem: Arc<Subsystem>,
    member: Option<Membership>,
    admin: Option<Box<Admin>>,
    queue: Queue,
    slots: Commands,
    backlog: Backlog,
    /// Memory volumes with received data.
    memories: Memories,
    alive: Alive,
    notices: Vec<Notice>,
    /// The hosts of the server, of which this is one once it is connected.
    peers: Arc<Peers>,
    presence: Option<Presence>,
    /// A Connect command that waits for its answer.
    held: Option<Box<Held>>,
    /// Failed flushes that the host knows of.
    losses: KnownLosses,
    /// Fused commands.
    pairs: Vec<Pair>,
    /// Reservations as they concern this queue.
    reserving: Reserving,
    /// I/Os that are with volumes, of a connection that is lost.
    leftovers: Leftovers,
    /// A line for the log.
    remark: Option<String>,
    /// The connection ends once no command is in flight.
    leaving: bool,
    finished: bool,
    abandoned: bool,
}

/// State of the submission queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    entries: u16,
    /// SQHD: index of the next entry.
    head: u16,
    /// Number of commands received.
    came: u32,
    /// The host uses SQ flow control (SQHD).
    flow_control: bool,
    /// Reads completed since SQHD was last sent, and their maximum.
    untold: u16,
    untold_max: u16,
    /// Longest in-capsule data.
    in_capsule_max: u32,
    /// Longest read or write.
    transfer_max: u32,
}

/// Destination of the incoming data.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    sink: Sink,
    /// Bytes received of it.
    have: u32,
    /// Whether the data is the last of an R2T.
    last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// Data that are dropped.
    Discard,
    /// For the command in this slot.
    Slot(u16),
}

/// Slots before Connect: for Connect itself.
const UNCONNECTED_SLOTS: u16 = 1;

impl NvmeTarget {
    /// A new connection.
    ///
    /// `traddr` and `trsvcid` are the portal's address and port for discovery.
    pub fn new(
        config: Arc<NvmeTargetConfig>,
        subsystems: impl Into<Offers<Subsystems>>,
        controllers: Arc<Controllers>,
        traddr: &str,
        trsvcid: &str,
        now: Nanos,
    ) -> NvmeTarget {
        NvmeTarget {
            portal: Portal { address: traddr.to_owned(), port: trsvcid.to_owned() },
            peer: None,
            stage: Stage::Fresh,
            frame: Frame::new(FROM_HOST),
            wire: Wire::new(false, false, 0),
            incoming: Incoming { sink: Sink::Discard, have: 0, last: false },
            subsystem: Arc::new(Subsystem::empty()),
            member: None,
            admin: None,
            queue: Queue::before_connect(),
            slots: Commands::new(UNCONNECTED_SLOTS),
            backlog: Backlog::default(),
            memories: Memories::new(),
            alive: Alive::new(&config, now),
            notices: Vec::new(),
            peers: Arc::default(),
            presence: None,
            held: None,
            losses: KnownLosses::default(),
            pairs: Vec::new(),
            reserving: Reserving::default(),
            leftovers: Leftovers::default(),
            remark: None,
            leaving: false,
            finished: false,
            abandoned: false,
            config,
            subsystems: subsystems.into(),
            controllers,
        }
    }

    /// Sets the address of the host, as a number that identifies it, to limit its controllers.
    pub fn from_peer(self, address: u128) -> NvmeTarget {
        NvmeTarget { peer: Some(address), ..self }
    }

    /// Shares a server's list of peers with its other connections.
    pub fn among(self, peers: Arc<Peers>) -> NvmeTarget {
        NvmeTarget { peers, ..self }
    }

    /// NQN of the host, once known.
    pub fn host_nqn(&self) -> Option<&str> {
        Some(&self.member.as_ref()?.controller().host.nqn)
    }

    /// NQN of the subsystem, once known.
    pub fn subsystem_nqn(&self) -> Option<&str> {
        self.member.as_ref().map(|_| self.subsystem.nqn.as_str())
    }

    /// Identifier of the controller, once connected.
    pub fn controller_id(&self) -> Option<u16> {
        Some(self.member.as_ref()?.controller().id)
    }

    /// Queue identifier, 0 for the admin queue, once connected.
    pub fn queue_id(&self) -> Option<u16> {
        Some(self.member.as_ref()?.queue())
    }

    /// Whether this is an I/O queue.
    #[inline(always)]
    fn is_io_queue(&self) -> bool {
        matches!(self.stage, Stage::Io | Stage::Fused)
    }

    /// Handles received bytes until all are consumed or the connection ends.
    fn take<'a>(
        &mut self,
        now: Nanos,
        bytes: &mut &'a [u8],
        landing: &mut Landing<'a>,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        while !bytes.is_empty() && !self.finished {
            if self.frame.in_data() {
                self.data(now, bytes, landing, out)?;
                continue;
            }
            match self.frame.header(bytes) {
                Ok(Next::Whole(header)) => self.pdu(header, out)?,
                Ok(Next::Collected(header)) => self.collected(&header, out)?,
                Ok(Next::Partial) => break,
                Err(fatal) => {
                    let offender = self.frame.offender(bytes).to_vec();
                    return Err(self.give_up(fatal, &offender, out));
                }
            }
        }
        Ok(())
    }

    /// Handles the header of a PDU; its data, if any, follows.
    #[inline(always)]
    fn pdu(&mut self, header: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        self.incoming = Incoming { sink: Sink::Discard, have: 0, last: false };
        if header[0] == kind::CAPSULE_CMD
            && let Some(capsule) = header.first_chunk::<CAPSULE_BYTES>()
        {
            return self.capsule(capsule, out);
        }
        if header[0] == kind::H2C_DATA
            && let Some(header) = header.first_chunk()
        {
            return self.host_data(header, out);
        }
        self.rare_pdu(header, out)
    }

    /// A PDU with a collected header.
    #[cold]
    fn collected(&mut self, header: &[u8; INIT_BYTES], out: &mut Outbox) -> Result<(), Ending> {
        self.pdu(header, out)
    }

    /// A command capsule; its in-capsule data, if any, follows.
    #[inline(always)]
    fn capsule(&mut self, capsule: &[u8; CAPSULE_BYTES], out: &mut Outbox) -> Result<(), Ending> {
        if self.frame.data_len() > self.queue.in_capsule_max {
            return Err(self.too_much_in_capsule(capsule, out));
        }
        self.queue.advance();
        let command = Command::of(capsule);
        if self.stage == Stage::Io {
            return self.io_command(command, capsule, out);
        }
        self.other_command(command, capsule, out)
    }

    /// Routes the next part of data to its destination.
    #[inline(always)]
    fn data<'a>(
        &mut self,
        now: Nanos,
        bytes: &mut &'a [u8],
        landing: &mut Landing<'a>,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let (part, end) = self.frame.data(bytes);
        if let Sink::Slot(slot) = self.incoming.sink {
            if end == DataEnd::Intact && self.lands(slot, part.len()) {
                self.incoming.sink = Sink::Discard;
                self.land(slot, part, landing, out);
                return Ok(());
            }
            self.place(slot, part, out);
        }
        self.incoming.have += part.len() as u32;
        if end == DataEnd::Open {
            return Ok(());
        }
        match std::mem::replace(&mut self.incoming.sink, Sink::Discard) {
            Sink::Slot(slot) => self.placed(now, slot, end == DataEnd::Intact, out),
            Sink::Discard => {}
        }
        Ok(())
    }
}

impl Queue {
    fn before_connect() -> Queue {
        Queue {
            entries: UNCONNECTED_SLOTS,
            head: 0,
            came: 0,
            flow_control: true,
            untold: 0,
            untold_max: 0,
            in_capsule_max: open::ADMIN_CAPSULE_BYTES,
            transfer_max: 0,
        }
    }

    /// Advances SQHD by one entry.
    #[inline(always)]
    fn advance(&mut self) {
        self.came = self.came.wrapping_add(1);
        self.head += 1;
        if self.head >= self.entries {
            self.head = 0;
        }
    }
}

impl Endpoint for NvmeTarget {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        self.alive.heard(now);
        let mut bytes = bytes;
        if self.is_io_queue() && !self.is_member() {
            return Ok(());
        }
        let mut landing = Landing::new(std::mem::take(&mut self.memories));
        let result = self.take(now, &mut bytes, &mut landing, out);
        self.memories = landing.finish();
        // The host never has more commands in flight than the queue has entries, whether it counts
        // completions or follows SQHD. So it has read everything that was sent before the command
        // one queue size ago arrived.
        //= NVMe base §3.3.1: a full queue has one entry less than its size.
        out.acknowledge(self.queue.came.wrapping_sub(u32::from(self.queue.entries)));
        out.stamp(self.queue.came);
        self.retry_starving(out);
        result
    }

    fn deadline(&self) -> Option<Nanos> {
        self.next_deadline()
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        self.alive.ticked(now);
        self.retry_starving(out);
        self.look(now, out)
    }
}

impl Target for NvmeTarget {
    fn requests(&mut self) -> &mut VecDeque<Request> {
        &mut self.backlog.requests
    }

    fn complete(&mut self, _now: Nanos, done: Done, out: &mut Outbox) {
        self.completed(done, out);
        out.stamp(self.queue.came);
        self.retry_starving(out);
    }

    fn drained(&mut self, now: Nanos, out: &mut Outbox) {
        if self.held.is_some() {
            self.retry_held(now, out);
        }
        self.settle(out);
        self.pass_fences(out);
        self.retry_starving(out);
    }

    fn withhold(&mut self, units: &[UnitId]) {
        self.backlog.withhold(units);
    }

    fn starves(&self) -> bool {
        let settles = self.admin.as_ref().is_some_and(|admin| admin.settling.is_under_way());
        let waits = settles || self.reserving.waits();
        !self.backlog.starving.is_empty() || self.held.is_some() || waits
    }

    fn take_remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, notice: &Notice, is_there: &mut dyn FnMut() -> bool, out: &mut Outbox) {
        match notice {
            Notice::ControllerEnded if self.is_io_queue() => {
                self.is_member();
            }
            Notice::PeerCame(new) if self.is_io_queue() => self.meet(new, is_there),
            Notice::UnitNews(unit, told) if self.stage == Stage::Admin => {
                self.hear(*unit, told, out);
            }
            Notice::TasksEnd(end) if self.is_io_queue() => self.tasks_end(end, out),
            Notice::ControllerEnded
            | Notice::UnitReset(_)
            | Notice::UnitNews(..)
            | Notice::UnitChanged(..)
            | Notice::TasksEnd(_)
            | Notice::PeerCame(_) => {}
        }
    }

    fn half_open(&self) -> bool {
        matches!(self.stage, Stage::Fresh | Stage::Unconnected)
    }

    fn renew(&mut self, out: &mut Outbox) -> bool {
        let stays = self.take_over();
        self.announce(out);
        stays
    }

    fn uses(&self, unit: UnitId) -> bool {
        self.subsystem.namespaces.iter().flatten().any(|one| one.id == unit)
    }

    fn peer_name(&self) -> Option<&str> {
        self.host_nqn()
    }

    fn ask_to_leave(&mut self, _now: Nanos, _out: &mut Outbox) {
        // NVMe 1.4 has no way to ask a host to leave: end once no command is in flight.
        self.leaving = true;
        self.end_between_commands();
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
        // The queue ends; if it is the admin queue, the controller does, too.
        self.depart();
        self.backlog.abandon(pool);
        self.slots.clear(pool);
        self.admin = None;
    }
}
