//! The Connect and Disconnect commands.

use std::sync::Arc;

use block::Nanos;

use crate::{Ending, Outbox};

use super::super::controllers::{Host, Membership, Refusal, Terms};
use super::super::directory::Subsystem;
use super::super::name::{DISCOVERY_NQN, NQN_MAX_BYTES};
use super::super::pdu::{CAPSULE_BYTES, Command, Status, admin, fabrics};
use super::admin::Admin;
use super::command::BlockRange;
use super::job::{NOWHERE, Refused};
use super::open::ADMIN_CAPSULE_BYTES;
use super::slot::Commands;
use super::{NvmeTarget, Queue, Stage};

/// Length of the data of a Connect command.
//= NVMe-oF §Connect command: the data is 1024 bytes.
const DATA_BYTES: u32 = 1024;

/// Offsets of fields in the entry and in the data.
//= NVMe-oF §Connect command: submission queue entry.
mod field {
    pub(super) const FORMAT: usize = 40;
    pub(super) const QUEUE: usize = 42;
    pub(super) const SIZE: usize = 44;
    pub(super) const ATTRIBUTES: usize = 46;
    pub(super) const KEEP_ALIVE: usize = 48;
}
//= NVMe-oF §Connect command: data.
mod data_field {
    pub(super) const HOST_ID: usize = 0;
    pub(super) const CONTROLLER: usize = 16;
    pub(super) const SUBSYSTEM: usize = 256;
    pub(super) const HOST: usize = 512;
}

/// Attribute: disable SQ flow control.
//= NVMe-oF §Connect command: CATTR bit 2 disables SQ flow control.
const NO_FLOW_CONTROL: u8 = 1 << 2;
/// SQHD that confirms that SQ flow control is disabled.
const NO_HEAD: u16 = 0xffff;

/// Controller identifier for the dynamic controller model.
//= NVMe-oF §Connect command: FFFFh in the dynamic controller model.
const ANY_CONTROLLER: u16 = 0xffff;

/// The most entries of an admin queue.
//= NVMe base §MQES: it is about I/O queues; §AQA has room for 4096 entries of an admin queue.
const ADMIN_ENTRIES_MAX: u16 = 4096;

/// Status of a refused Connect command.
enum Refuse {
    Status(Status),
    /// A field of the entry or of the data, by its offset.
    Entry(usize),
    Data(usize),
    /// Not yet: something is left of queues of this host.
    Later(String),
}

impl NvmeTarget {
    /// A command before Connect.
    #[cold]
    pub(super) fn other_command(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let result = match self.stage {
            Stage::Fresh => return Err(self.too_early(capsule, out)),
            Stage::Admin => self.admin_command(command, out),
            Stage::Fused => return self.fused(command, capsule, out),
            Stage::Unconnected | Stage::Io => self.first_command(command, out),
        };
        self.taken_up(result, command, capsule, out)
    }

    /// Answers a command that is refused, or ends the connection with a host that overran a queue.
    pub(super) fn taken_up(
        &mut self,
        result: Result<(), Refused>,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        match result {
            Ok(()) => {}
            Err(Refused::Status(status)) => self.answer(command.id(), status, out),
            Err(Refused::Overrun) => return Err(self.overrun(capsule, out)),
        }
        Ok(())
    }

    fn first_command(&mut self, command: Command<'_>, out: &mut Outbox) -> Result<(), Refused> {
        //= NVMe-oF §Connect command: the first command of a queue is Connect.
        if command.opcode() != admin::FABRICS || command.fabrics_type() != fabrics::CONNECT {
            return Err(Status::SEQUENCE_ERROR.into());
        }
        if command.sgl_len() < DATA_BYTES {
            return Err(Status::SGL_LENGTH_INVALID.into());
        }
        if self.held.is_some() {
            return Err(Status::SEQUENCE_ERROR.into());
        }
        self.collect(command, BlockRange { len: DATA_BYTES, ..NOWHERE }, out)
    }

    /// The data of a Connect command is complete.
    pub(super) fn connect(
        &mut self,
        now: Nanos,
        command: Command<'_>,
        data: &[u8],
        out: &mut Outbox,
    ) {
        let refuse = match self.try_connect(now, command, data, out) {
            Ok(cntlid) => {
                // The Connect command used the first entry of the queue.
                self.queue.head = 1 % self.queue.entries;
                //= NVMe-oF §Connect command: SQHD FFFFh says that SQ flow control is disabled.
                let head = if self.queue.flow_control { self.queue.head } else { NO_HEAD };
                let result = u64::from(cntlid);
                return self.complete_command(command.id(), Status::SUCCESS, result, head, out);
            }
            Err(refuse) => refuse,
        };
        //= NVMe-oF §Connect command: IPO is the offset of the field, IATTR says where it is.
        let (status, result) = match refuse {
            Refuse::Status(status) => (status, 0),
            Refuse::Entry(at) => (Status::CONNECT_INVALID_PARAMETERS, at as u64),
            Refuse::Data(at) => (Status::CONNECT_INVALID_PARAMETERS, at as u64 | 1 << 16),
            Refuse::Later(host) => return self.hold(now, command, data, &host),
        };
        self.answer_result(command.id(), status, result, out);
    }

    fn try_connect(
        &mut self,
        now: Nanos,
        command: Command<'_>,
        data: &[u8],
        out: &Outbox,
    ) -> Result<u16, Refuse> {
        if command.field16(field::FORMAT) != 0 {
            return Err(Refuse::Status(Status::CONNECT_INCOMPATIBLE_FORMAT));
        }
        let queue = command.field16(field::QUEUE);
        let size = command.field16(field::SIZE);
        let most = if queue == 0 { ADMIN_ENTRIES_MAX } else { self.max_entries() };
        if size == 0 || size >= most {
            return Err(Refuse::Entry(field::SIZE));
        }
        // Any name is accepted: SPDK's perf tool has none.
        let nqn = text(data, data_field::HOST).ok_or(Refuse::Data(data_field::HOST))?.to_owned();
        let id = *data[data_field::HOST_ID..].first_chunk().expect("the data has 1024 bytes");
        let host = Host { nqn, id, address: self.peer };
        let name = text(data, data_field::SUBSYSTEM).ok_or(Refuse::Data(data_field::SUBSYSTEM))?;
        let subsystem = match name {
            DISCOVERY_NQN => None,
            name => {
                let subsystems = self.subsystems.now();
                let found = subsystems.find(name);
                let found = found.ok_or(Refuse::Data(data_field::SUBSYSTEM))?;
                if !subsystems.admits(found, &host.nqn) {
                    return Err(Refuse::Status(Status::CONNECT_INVALID_HOST));
                }
                Some(Arc::clone(found))
            }
        };
        let controller = [data[data_field::CONTROLLER], data[data_field::CONTROLLER + 1]];
        let controller = u16::from_le_bytes(controller);
        let keep_alive_ms = command.field32(field::KEEP_ALIVE);
        let with_queues = subsystem.as_ref().filter(|_| queue == 0).map(|it| it.nqn.clone());
        if with_queues.is_some_and(|subsystem| self.must_hold(&host.nqn, &subsystem)) {
            return Err(Refuse::Later(host.nqn));
        }
        let member = if queue == 0 {
            // With little memory, writes are solicited by R2Ts once there is a buffer.
            let short = out.is_short(usize::from(size) * block::Pool::SMALL_BYTES);
            let terms = Terms {
                memory_bytes: u64::from(ADMIN_CAPSULE_BYTES) * u64::from(size),
                in_capsule_bytes: if short { 0 } else { self.longest_in_capsule() },
                keeps_alive: keep_alive_ms != 0,
            };
            self.connect_admin(subsystem.clone(), host, controller, terms)?
        } else {
            let memory = u64::from(self.longest_in_capsule()) * u64::from(size);
            self.connect_io(subsystem.as_ref(), &host, controller, queue, memory)?
        };
        let in_capsule_max = match queue {
            0 => ADMIN_CAPSULE_BYTES,
            _ => member.controller().in_capsule_bytes,
        };
        if queue != 0 && in_capsule_max != 0 {
            out.promise_unsolicited(size);
        }
        let discovery = subsystem.is_none();
        self.subsystem = subsystem.unwrap_or_else(|| Arc::new(Subsystem::discovery()));
        let flow_control = command.field8(field::ATTRIBUTES) & NO_FLOW_CONTROL == 0;
        self.become_queue(size + 1, flow_control, in_capsule_max);
        if queue == 0 {
            self.admin = Some(Box::new(Admin::new(discovery, keep_alive_ms)));
            self.restart_keep_alive(now);
        }
        self.stage = if queue == 0 { Stage::Admin } else { Stage::Io };
        let id = member.controller().id;
        self.reserving.belong_to(member.controller().host.id);
        self.member = Some(member);
        self.take_place();
        Ok(id)
    }

    fn connect_admin(
        &mut self,
        subsystem: Option<Arc<Subsystem>>,
        host: Host,
        controller: u16,
        terms: Terms,
    ) -> Result<Membership, Refuse> {
        if controller != ANY_CONTROLLER {
            return Err(Refuse::Data(data_field::CONTROLLER));
        }
        let begun = self.controllers.begin(subsystem, host, terms);
        begun.map_err(|_| Refuse::Status(Status::CONNECT_CONTROLLER_BUSY))
    }

    fn connect_io(
        &mut self,
        subsystem: Option<&Arc<Subsystem>>,
        host: &Host,
        controller: u16,
        queue: u16,
        memory: u64,
    ) -> Result<Membership, Refuse> {
        //= NVMe-oF §Discovery controller: it has no I/O queues.
        let subsystem = subsystem.ok_or(Refuse::Entry(field::QUEUE))?;
        let joined = self.controllers.join(controller, subsystem, host, queue, memory);
        joined.map_err(|refusal| match refusal {
            Refusal::Busy => Refuse::Status(Status::CONNECT_CONTROLLER_BUSY),
            Refusal::Controller => Refuse::Data(data_field::CONTROLLER),
            Refusal::HostName => Refuse::Data(data_field::HOST),
            Refusal::HostId => Refuse::Data(data_field::HOST_ID),
            Refusal::Queue => Refuse::Entry(field::QUEUE),
            Refusal::Sequence => Refuse::Status(Status::SEQUENCE_ERROR),
        })
    }

    /// Turns the connection into a queue of `entries` entries.
    fn become_queue(&mut self, entries: u16, flow_control: bool, in_capsule_max: u32) {
        // A quarter of the entries may be freed without an SQHD, but never all.
        let untold_max = if self.config.always_shortcut { entries / 4 } else { 0 };
        self.queue = Queue {
            entries,
            head: 0,
            came: self.queue.came,
            flow_control,
            untold: 0,
            untold_max,
            in_capsule_max,
            transfer_max: self.max_transfer(),
        };
        self.slots = Commands::new(entries);
    }

    /// Disconnects an I/O queue.
    pub(super) fn disconnect(&mut self, command: Command<'_>, out: &mut Outbox) {
        //= NVMe-oF §Disconnect command: RECFMT is 0.
        if command.field16(field::FORMAT) != 0 {
            return self.answer(command.id(), Status::CONNECT_INCOMPATIBLE_FORMAT, out);
        }
        self.losses.confirm();
        self.remember_losses();
        // The queue identifier is free before the host sees the completion, unless commands are in
        // flight.
        if self.slots.are_free() {
            self.member = None;
        }
        self.answer(command.id(), Status::SUCCESS, out);
        self.finished = true;
    }

    /// Whether the queue still belongs to its controller. If not, the connection ends.
    #[inline(always)]
    pub(super) fn is_member(&mut self) -> bool {
        let lives = self.member.as_ref().is_some_and(Membership::lives);
        if !lives {
            self.finished = true;
        }
        lives
    }

    /// Maximum number of entries of a queue.
    pub(super) fn max_entries(&self) -> u16 {
        self.config.max_queue_depth.clamp(32, 1024)
    }

    /// Longest in-capsule data on an I/O queue.
    pub(super) fn in_capsule_bytes(&self) -> u32 {
        let member = self.member.as_ref();
        member.map_or(0, |member| member.controller().in_capsule_bytes)
    }

    fn longest_in_capsule(&self) -> u32 {
        (self.config.in_capsule_bytes & !15).min(block::Pool::SMALL_BYTES as u32)
    }

    /// Longest read or write: a power of two.
    //= NVMe base §MDTS: 0 is no limit, so the lowest limit is two pages.
    pub(super) fn max_transfer(&self) -> u32 {
        1 << self.config.max_transfer_bytes.clamp(8192, 1 << 28).ilog2()
    }
}

/// A null-terminated name in the data.
fn text(data: &[u8], at: usize) -> Option<&str> {
    let field = &data[at..at + 256];
    let len = field.iter().position(|byte| *byte == 0).filter(|len| *len <= NQN_MAX_BYTES)?;
    std::str::from_utf8(&field[..len]).ok()
}
