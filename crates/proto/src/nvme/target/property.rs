//! Properties of a controller (registers in PCIe): enabling, reset, shutdown.

use block::{Count, Fault, Io, Op, Tag};

use crate::Outbox;

use super::super::pdu::{Command, Status};
use super::NvmeTarget;
use super::command::BlockRange;
use super::job::NOWHERE;
use super::slot::SlotState;

/// Offsets of properties.
//= NVMe base §3.1.3: controller properties.
mod at {
    pub(super) const CAPABILITIES: u32 = 0x00;
    pub(super) const VERSION: u32 = 0x08;
    pub(super) const CONFIGURATION: u32 = 0x14;
    pub(super) const STATUS: u32 = 0x1c;
    pub(super) const SUBSYSTEM_RESET: u32 = 0x20;
    pub(super) const ADMIN_QUEUE_ATTRIBUTES: u32 = 0x24;
    pub(super) const ADMIN_SUBMISSION_QUEUE: u32 = 0x28;
    pub(super) const ADMIN_COMPLETION_QUEUE: u32 = 0x30;
}

/// Version 1.4 of the base specification.
//= NVMe base §VS: major in bits 31:16, minor in bits 15:8.
pub(super) const VERSION: u32 = 0x0001_0400;

/// Bits of CC.
//= NVMe base §CC: EN, CSS, MPS, AMS, SHN, IOSQES and IOCQES.
mod cc {
    pub(super) const ENABLE: u32 = 1;
    /// Command set, page size and arbitration, which must be 0.
    pub(super) const CHOICES: u32 = 0x3ff0;
    pub(super) const SHUTDOWN: u32 = 3 << 14;
    pub(super) const SUBMISSION_SIZE: u32 = 0xf << 16;
    pub(super) const COMPLETION_SIZE: u32 = 0xf << 20;
    /// Entries of 2⁶ and 2⁴ bytes.
    pub(super) const USUAL_SIZES: u32 = 0x46 << 16;
}

/// Bits of CSTS.
//= NVMe base §CSTS: RDY, CFS and SHST.
mod csts {
    pub(super) const READY: u32 = 1;
    pub(super) const FATAL: u32 = 1 << 1;
    pub(super) const SHUTDOWN: u32 = 3 << 2;
    pub(super) const SHUTDOWN_UNDER_WAY: u32 = 1 << 2;
    pub(super) const SHUTDOWN_COMPLETE: u32 = 2 << 2;
}

/// CAP.TO: time limit to enable or disable, in units of 500 ms.
const READY_TIMEOUT: u64 = 15;

impl NvmeTarget {
    /// Whether the controller is ready.
    pub(super) fn is_ready(&self) -> bool {
        let status = self.admin.as_ref().map_or(0, |admin| admin.status);
        let resets = self.admin.as_ref().is_some_and(|admin| admin.settling.resets);
        status & (csts::READY | csts::SHUTDOWN) == csts::READY && !resets
    }

    //= NVMe base §CAP: MQES, CQR bit 16, TO bits 31:24, NVM command set bit 37; pages of 4 KiB.
    fn capabilities(&self) -> u64 {
        u64::from(self.max_entries() - 1) | 1 << 16 | READY_TIMEOUT << 24 | 1 << 37
    }

    /// Property Get.
    //= NVMe-oF §Property Get command: ATTRIB has the size, OFST the property.
    pub(super) fn get_property(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<u64, Status> {
        self.settle(out);
        let admin = self.admin.as_ref().ok_or(Status::INVALID_FIELD)?;
        let (offset, eight) = (command.field32(44), command.field8(40) & 7);
        let (value, size) = match offset {
            at::CAPABILITIES => (self.capabilities(), 1),
            at::VERSION => (u64::from(VERSION), 0),
            at::CONFIGURATION => (u64::from(admin.configuration), 0),
            at::STATUS => (u64::from(admin.status), 0),
            at::SUBSYSTEM_RESET | at::ADMIN_QUEUE_ATTRIBUTES => (0, 0),
            at::ADMIN_SUBMISSION_QUEUE | at::ADMIN_COMPLETION_QUEUE => (0, 1),
            _ => return Err(Status::INVALID_FIELD),
        };
        if size == eight { Ok(value) } else { Err(Status::INVALID_FIELD) }
    }

    /// Property Set: only CC is writable.
    pub(super) fn set_property(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Status> {
        if command.field32(44) != at::CONFIGURATION || command.field8(40) & 7 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        let Some(admin) = &mut self.admin else { return Err(Status::INVALID_FIELD) };
        let new = command.field32(48);
        let old = std::mem::replace(&mut admin.configuration, new);
        let turned = old ^ new;
        if turned & cc::ENABLE != 0 {
            let enables = (new & cc::ENABLE != 0).then_some(new);
            match enables {
                // A host should have waited for the end of the reset.
                Some(_) if admin.settling.resets => admin.settling.enables = enables,
                Some(new) => self.enable(new),
                None => self.reset(),
            }
        }
        if turned & cc::SHUTDOWN != 0 && new & cc::SHUTDOWN != 0 {
            self.shut_down();
        }
        self.settle(out);
        Ok(())
    }

    pub(super) fn enable(&mut self, configuration: u32) {
        let Some(admin) = &mut self.admin else { return };
        //= NVMe base §CC: the sizes are set before there are I/O queues, so each may still be 0.
        let sizes = [cc::SUBMISSION_SIZE, cc::COMPLETION_SIZE].iter().all(|mask| {
            matches!(configuration & mask, size if size == 0 || size == cc::USUAL_SIZES & mask)
        });
        if configuration & cc::CHOICES != 0 || !(sizes || admin.discovery) {
            //= NVMe base §CC: a configuration that is not supported is a fatal error.
            admin.status |= csts::FATAL;
            return;
        }
        admin.status = csts::READY;
        self.member.iter().for_each(|member| member.enable(true));
    }

    //= NVMe base §Controller reset: I/O queues are deleted, the admin queue is unchanged. RDY is 0
    // when none of their commands is executed any more.
    fn reset(&mut self) {
        let Some(admin) = &mut self.admin else { return };
        admin.status &= !(csts::SHUTDOWN | csts::FATAL);
        admin.reset();
        (admin.settling.resets, admin.settling.shuts_down) = (true, false);
        admin.settling.enables = None;
        self.end_queues();
    }

    /// Ends the I/O queues, and flushes every volume when nothing of them is left, before the
    /// shutdown is complete.
    //= NVMe base §3.6.2: a shutdown is complete when nothing is lost if power is.
    fn shut_down(&mut self) {
        let Some(admin) = &mut self.admin else { return };
        admin.status = admin.status & !csts::SHUTDOWN | csts::SHUTDOWN_UNDER_WAY;
        admin.settling.shuts_down = true;
        self.end_queues();
    }

    /// Flushes every volume for a shutdown.
    pub(super) fn flush_all(&mut self) {
        let volatile: Vec<_> = self.subsystem.namespaces.iter().flatten().collect();
        let units: Vec<_> = volatile
            .iter()
            .filter(|namespace| namespace.geometry.volatile)
            .map(|namespace| namespace.id)
            .collect();
        let slot = if units.is_empty() { None } else { self.slots.take() };
        let Some(slot) = slot else {
            return self.shutdown_complete(true);
        };
        let BlockRange { unit, offset, len, .. } = NOWHERE;
        let flush = &mut self.slots[slot];
        (flush.state, flush.data.unit, flush.data.offset, flush.data.len) =
            (SlotState::ShuttingDown, unit, offset, len);
        flush.status = Status::SUCCESS;
        flush.data.in_flight = units.len() as u16;
        for unit in units {
            let tag = Tag(u64::from(slot));
            let io = Io { tag, op: Op::Flush, fua: false, len: 0, offset: 0, buf: None };
            self.backlog.request(unit, io);
        }
    }

    /// A flush for the shutdown has completed or failed.
    pub(super) fn flushed_for_shutdown(&mut self, slot: u16, result: Result<(), Fault>) {
        let flush = &mut self.slots[slot];
        flush.data.in_flight.lower(1);
        if result.is_err() {
            flush.spoil(Status::INTERNAL_ERROR);
            // The answer does not say which of them it was.
            let namespaces = self.subsystem.namespaces.iter().flatten();
            namespaces.filter_map(|it| it.instance.as_ref()).for_each(|it| it.note_flush(result));
        }
        if flush.data.in_flight == 0 {
            let well = !flush.fails();
            self.slots.release(slot);
            self.shutdown_complete(well);
        }
    }

    fn shutdown_complete(&mut self, well: bool) {
        let Some(admin) = &mut self.admin else { return };
        // A reset meanwhile cancels the shutdown.
        if admin.status & csts::SHUTDOWN == csts::SHUTDOWN_UNDER_WAY {
            let fatal = if well { 0 } else { csts::FATAL };
            admin.status = admin.status & !csts::SHUTDOWN | csts::SHUTDOWN_COMPLETE | fatal;
        }
    }
}
