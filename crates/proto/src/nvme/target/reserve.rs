//! Reservations: Register, Acquire, Release and Report, what they forbid, and what others hear.
//!
//! The state is the unit's, for all hosts of all protocols: see `scsi::reservation`. A queue that
//! may do everything reads one word for each command, and asks again only when it has changed.

use std::cell::Cell;

use crate::scsi::{Action, Bound, Deed, Effects, Kind, Nexus, Refusal, ReserveOut, Sense};
use crate::{Fencing, Notice, Outbox, TasksEnd, UnitId};

use super::super::directory::Namespace;
use super::super::pdu::{Command, Entry, Status, io};
use super::NvmeTarget;
use super::admin::has_room_for_page;
use super::command::BlockRange;
use super::event::{REGISTRATION_PREEMPTED, RESERVATION_PREEMPTED, RESERVATION_RELEASED};
use super::job::{NOWHERE, Refused};
use super::slot::SlotState;

/// Reservations as they concern a queue.
#[derive(Debug)]
pub(super) struct Reserving {
    /// The host.
    host: Nexus,
    /// A unit on which the host may do everything while its word is this one.
    free: Cell<(UnitId, u64)>,
    /// Slots of commands that wait for those of hosts that they preempted.
    waiting: Vec<(u16, Fencing)>,
    /// Held until the commands that other hosts aborted have ended.
    held: Vec<Fencing>,
}

/// Types by their code less one.
//= NVMe base §Reservation Type encoding: 1h to 6h.
const KINDS: [Kind; 6] = [
    Kind::WriteExclusive,
    Kind::ExclusiveAccess,
    Kind::WriteExclusiveRegistrantsOnly,
    Kind::ExclusiveAccessRegistrantsOnly,
    Kind::WriteExclusiveAllRegistrants,
    Kind::ExclusiveAccessAllRegistrants,
];

/// Bits of Dword 10.
//= NVMe base §Reservation Register command: RREGA bits 2:0, IEKEY bit 3, CPTPL bits 31:30.
const IGNORE_KEY: u32 = 1 << 3;
const CPTPL_RESERVED: u32 = 1;
const CPTPL_CLEAR: u32 = 2;
const CPTPL_SET: u32 = 3;

impl Default for Reserving {
    fn default() -> Reserving {
        let host = Nexus::Host(NO_HOST);
        Reserving { host, free: Cell::default(), waiting: Vec::new(), held: Vec::new() }
    }
}

/// The identifier of hosts that have none.
const NO_HOST: [u8; 16] = [0; 16];

impl Reserving {
    /// Sets the identifier of the host.
    pub(super) fn belong_to(&mut self, host: [u8; 16]) {
        self.host = Nexus::Host(host);
    }

    /// Whether a command waits for commands of other hosts.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Nothing is left that others wait for.
    pub(super) fn open_all(&mut self) {
        self.held.clear();
    }

    /// The connection is lost, and with it its commands.
    pub(super) fn wait_no_longer(&mut self) {
        self.waiting.clear();
    }
}

impl NvmeTarget {
    /// Refuses work that a reservation of another host, or write protection, does not allow. One
    /// relaxed load if nothing binds anybody.
    //= NVMe base §8.19.1: a host that is not allowed gets Reservation Conflict.
    #[inline(always)]
    pub(super) fn check_bound(&self, namespace: &Namespace, deed: Deed) -> Result<(), Status> {
        let word = namespace.shared.word();
        if word == 0 || self.reserving.free.get() == (namespace.id, word) {
            return Ok(());
        }
        self.judge(namespace, deed)
    }

    #[cold]
    fn judge(&self, namespace: &Namespace, deed: Deed) -> Result<(), Status> {
        match namespace.shared.judge_host(&self.reserving.host, deed) {
            Ok(0) => Ok(()),
            Ok(word) => {
                self.reserving.free.set((namespace.id, word));
                Ok(())
            }
            Err(Bound::Reserved) => Err(Status::RESERVATION_CONFLICT),
            Err(Bound::Protected) => Err(Status::WRITE_PROTECTED),
            Err(Bound::Ejected) => Err(Status::NAMESPACE_NOT_READY),
            Err(Bound::Gone) => Err(Status::INVALID_NAMESPACE),
        }
    }

    /// Handles Reservation Register, Acquire and Release, whose keys are in their data.
    pub(super) fn reservation(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        let namespace = self.subsystem.active(command.namespace())?;
        if namespace.shared.is_gone() {
            return Err(Status::INVALID_NAMESPACE.into());
        }
        //= NVMe base §Host Identifier: a host without one is associated with no registration.
        if self.reserving.host == Nexus::Host(NO_HOST) {
            return Err(Status::SEQUENCE_ERROR.into());
        }
        let len = if command.opcode() == io::RESERVATION_RELEASE { 8 } else { 16 };
        if command.sgl_len() < len {
            return Err(Status::SGL_LENGTH_INVALID.into());
        }
        let place = BlockRange { unit: namespace.id, len, ..NOWHERE };
        self.collect(command, place, out)
    }

    /// Executes a reservation command whose data is complete.
    pub(super) fn reserve(&mut self, slot: u16, entry: &Entry, data: &[u8], out: &mut Outbox) {
        let command = Command(entry);
        match self.change_reservations(command, data) {
            Err(status) => self.slots[slot].spoil(status),
            Ok((unit, effects)) => {
                let (notices, fence) = Notice::of_effects(unit, effects);
                self.notices.extend(notices);
                if let Some(fence) = fence {
                    //= NVMe base §8.19.7: Preempt and Abort completes after the aborted commands.
                    self.slots[slot].state = SlotState::Fenced;
                    self.reserving.waiting.push((slot, fence));
                    return;
                }
            }
        }
        self.finish(slot, out);
    }

    fn change_reservations(
        &self,
        command: Command<'_>,
        data: &[u8],
    ) -> Result<(UnitId, Effects), Status> {
        let request = request_of(command, data)?;
        let namespace = self.subsystem.active(command.namespace())?;
        match namespace.shared.reserve(&self.reserving.host, &request) {
            Ok(effects) => Ok((namespace.id, effects)),
            Err(Refusal::Conflict) => Err(Status::RESERVATION_CONFLICT),
            Err(Refusal::Check(
                Sense::INSUFFICIENT_REGISTRATION_RESOURCES | Sense::INTERNAL_TARGET_FAILURE,
            )) => Err(Status::INTERNAL_ERROR),
            Err(Refusal::Check(_)) => Err(Status::INVALID_FIELD),
        }
    }

    /// Completes commands that wait for commands of other hosts which have ended.
    pub(super) fn pass_fences(&mut self, out: &mut Outbox) {
        if !self.reserving.waits() {
            return;
        }
        let waiting = std::mem::take(&mut self.reserving.waiting);
        let (open, waiting) = waiting.into_iter().partition(|(_, fence)| fence.is_open());
        self.reserving.waiting = waiting;
        let open: Vec<(u16, Fencing)> = open;
        open.into_iter().for_each(|(slot, _)| self.finish(slot, out));
    }

    /// Handles Reservation Report.
    pub(super) fn report(&mut self, command: Command<'_>, out: &mut Outbox) -> Result<(), Refused> {
        if !has_room_for_page(out) {
            return self.wait_for_room(command);
        }
        Ok(self.report_now(command, out)?)
    }

    /// Returns the reservation status data structure.
    //= NVMe base §Reservation Report command: NUMD is Dword 10, EDS bit 0 of Dword 11. Without EDS a
    // host with an identifier of 128 bits is refused.
    pub(super) fn report_now(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Status> {
        let namespace = self.subsystem.active(command.namespace())?;
        if namespace.shared.is_gone() {
            return Err(Status::INVALID_NAMESPACE);
        }
        if command.word(11) & 1 == 0 {
            return Err(Status::HOST_IDENTIFIER_FORMAT);
        }
        let len = (u64::from(command.word(10)) + 1) * 4;
        if len > u64::from(self.queue.transfer_max) {
            return Err(Status::INVALID_FIELD);
        }
        let mut page = status_of(namespace);
        page.truncate(len as usize);
        self.answer_page(command, &page, len as usize, out)
    }

    /// Notes for the host that another one has changed reservations.
    pub(super) fn hear(&mut self, unit: UnitId, told: &[(Nexus, Sense)], out: &mut Outbox) {
        let Some(admin) = &mut self.admin else { return };
        let of_unit = |id: &u32| self.subsystem.namespace(*id).is_some_and(|it| it.id == unit);
        for id in self.subsystem.ids().filter(of_unit) {
            let mask = admin.features.reservation_mask.of(id);
            let kinds = told.iter().filter(|(host, _)| *host == self.reserving.host);
            for kind in kinds.filter_map(|(_, sense)| kind_of(*sense)) {
                if mask & 1 << kind == 0 {
                    admin.events.note(kind, id);
                }
            }
        }
        self.announce(out);
    }

    /// Another host has preempted this one, and ends its commands.
    //= NVMe base §8.19.7: they end with Command Aborted due to Preempt and Abort.
    pub(super) fn tasks_end(&mut self, end: &TasksEnd, out: &mut Outbox) {
        // Task sets, whose end concerns everybody, are SCSI's.
        if !end.of.as_ref().is_some_and(|of| of.contains(&self.reserving.host)) {
            return;
        }
        self.reserving.held.push(end.fence.clone());
        if self.abandoned {
            // I/Os that a lost connection has left with the volume are awaited, too.
            if self.leftovers.have_no_changes() {
                self.reserving.open_all();
            }
            return;
        }
        let concerned = self.slots.iter().filter(|(_, command)| {
            command.namespace != 0 && end.units.contains(&command.data.unit)
        });
        let concerned: Vec<u16> = concerned.map(|(slot, _)| slot).collect();
        for slot in concerned {
            self.slots[slot].status = Status::PREEMPTED_AND_ABORTED;
            self.fail_when_drained(slot, out);
        }
        self.open_fences();
    }

    /// Opens the fences of others once no aborted command has I/Os with a volume.
    pub(super) fn open_fences(&mut self) {
        if self.reserving.held.is_empty() {
            return;
        }
        let aborted = |(_, command): (u16, &super::slot::Slot)| {
            command.status == Status::PREEMPTED_AND_ABORTED && command.data.in_flight != 0
        };
        if !self.slots.iter().any(aborted) {
            self.reserving.open_all();
        }
    }
}

/// The entry of the log that a change leads to.
fn kind_of(sense: Sense) -> Option<u8> {
    match sense {
        Sense::REGISTRATIONS_PREEMPTED => Some(REGISTRATION_PREEMPTED),
        Sense::RESERVATIONS_RELEASED => Some(RESERVATION_RELEASED),
        Sense::RESERVATIONS_PREEMPTED => Some(RESERVATION_PREEMPTED),
        _ => None,
    }
}

/// The change that a command and its keys ask for.
//= NVMe base §Reservation Register, Acquire and Release commands: actions bits 2:0, type bits 15:8 of
// Dword 10; the current key, then the new one, or that to preempt.
fn request_of(command: Command<'_>, data: &[u8]) -> Result<ReserveOut, Status> {
    let word = command.word(10);
    let ignore = word & IGNORE_KEY != 0;
    let registers = command.opcode() == io::RESERVATION_REGISTER;
    let action = match (command.opcode(), word & 7) {
        (io::RESERVATION_REGISTER, 0) => Action::Join,
        (io::RESERVATION_REGISTER, 1) => Action::Leave { ignore },
        (io::RESERVATION_REGISTER, 2) => Action::Replace { ignore },
        (io::RESERVATION_ACQUIRE, 0) => Action::Reserve,
        (io::RESERVATION_ACQUIRE, 1) => Action::Preempt { abort: false },
        (io::RESERVATION_ACQUIRE, 2) => Action::Preempt { abort: true },
        (io::RESERVATION_RELEASE, 0) => Action::Release,
        (io::RESERVATION_RELEASE, 1) => Action::Clear,
        _ => return Err(Status::INVALID_FIELD),
    };
    //= NVMe base §Reservation Acquire command: IEKEY set to 1 is an invalid field.
    if ignore && !registers {
        return Err(Status::INVALID_FIELD);
    }
    let code = (word >> 8) as u8;
    let kind = KINDS.get(usize::from(code).wrapping_sub(1)).copied();
    if kind.is_none() && !registers && action != Action::Clear {
        return Err(Status::INVALID_FIELD);
    }
    let key = |at: usize| data[at..].first_chunk().map_or(0, |key| u64::from_le_bytes(*key));
    let service_key = if data.len() == 16 { key(8) } else { 0 };
    // Zero stands for a host without a key.
    let names = matches!(action, Action::Join | Action::Replace { .. });
    if registers && word >> 30 == CPTPL_RESERVED || names && service_key == 0 {
        return Err(Status::INVALID_FIELD);
    }
    //= NVMe base §Reservation Register command: CPTPL. Without RESCAP bit 0 it has no effect.
    let persist = match word >> 30 {
        CPTPL_CLEAR if registers => Some(false),
        CPTPL_SET if registers => Some(true),
        _ => None,
    };
    Ok(ReserveOut { action, kind, key: key(0), service_key, persist })
}

/// The reservation status extended data structure.
//= NVMe base §Reservation Status Extended data structure: GEN, RTYPE, REGCTL, PTPLS, and from byte 64
// on CNTLID, RCSTS, RKEY and HOSTID of each. CNTLID FFFFh is the dynamic controller model.
fn status_of(namespace: &Namespace) -> Vec<u8> {
    namespace.shared.read(|reservations| {
        let kind = reservations.held().map(|(kind, _)| kind);
        let code = kind.and_then(|kind| KINDS.iter().position(|it| *it == kind));
        let mut page = vec![0; 64];
        page[..4].copy_from_slice(&reservations.generation().to_le_bytes());
        page[4] = code.map_or(0, |code| code as u8 + 1);
        let mut count = 0_u16;
        for (nexus, key, holds) in reservations.list() {
            let mut entry = [0; 64];
            entry[..3].copy_from_slice(&[0xff, 0xff, u8::from(holds)]);
            entry[8..16].copy_from_slice(&key.to_le_bytes());
            entry[16..32].copy_from_slice(&host_id(nexus));
            page.extend(entry);
            count += 1;
        }
        page[5..7].copy_from_slice(&count.to_le_bytes());
        page[9] = u8::from(reservations.persist());
        page
    })
}

/// Host identifier of a party. That of an iSCSI initiator port is its ISID and a hash of its name.
fn host_id(nexus: &Nexus) -> [u8; 16] {
    match nexus {
        Nexus::Host(id) => *id,
        Nexus::Port { name, isid } => {
            let mut seed = name.bytes().fold(0, |hash: u64, byte| {
                let mut mixed = hash ^ u64::from(byte);
                block::splitmix(&mut mixed)
            });
            let mut id = [0; 16];
            id[..6].copy_from_slice(isid);
            id[6..14].copy_from_slice(&block::splitmix(&mut seed).to_le_bytes());
            // Letters that say what it is.
            id[14..].copy_from_slice(b"is");
            id
        }
    }
}
