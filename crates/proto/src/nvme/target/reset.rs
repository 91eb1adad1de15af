//! Resets and shutdowns, of this controller and of others. They are complete when no I/O is left of
//! the I/O queues that they end, on any core.

use crate::{Notice, Outbox};

use super::super::pdu::{Command, Status};
use super::NvmeTarget;
use super::job::NOWHERE;
use super::slot::SlotState;

/// Resets of other controllers that this one has under way, at most.
//= NVMe base §CCRL: Cross-Controller Reset Limit.
pub(super) const RESETS_MAX: u8 = 4;

/// Usual time of I/Os, in milliseconds, of a controller that has lost its host. A volume may hang
/// for longer; but then resets are not complete, and new controllers of the host wait.
//= NVMe base §CQT: the worst time that is expected.
pub(super) const QUIESCE_TIME_MS: u16 = 5000;

/// Commands that an admin queue answers when nothing is left of I/O queues that have ended.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// A reset is under way; CSTS.RDY stays 1.
    pub(super) resets: bool,
    /// CC, of a host that enables the controller before its reset is complete.
    pub(super) enables: Option<u32>,
    /// A shutdown is under way, and has not begun to flush.
    pub(super) shuts_down: bool,
    /// Slots of Cross-Controller Reset commands.
    pub(super) others: Vec<u16>,
}

impl Settling {
    /// Whether anything is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.resets || self.shuts_down || !self.others.is_empty()
    }
}

impl NvmeTarget {
    /// Ends the I/O queues of the controller.
    pub(super) fn end_queues(&mut self) {
        self.member.iter().for_each(|member| member.enable(false));
        self.tell(Notice::ControllerEnded);
    }

    /// Continues resets and a shutdown when the queues that they end have no I/O left.
    pub(super) fn settle(&mut self, out: &mut Outbox) {
        let Some(admin) = self.admin.as_ref().filter(|admin| admin.settling.is_under_way()) else {
            return;
        };
        let Some(member) = &self.member else { return };
        let others = !admin.settling.others.is_empty() && !member.host_has_leftovers();
        let own = !member.has_leftovers();
        if others {
            self.others_are_reset(out);
        }
        if own {
            self.own_queues_are_gone();
        }
    }

    fn own_queues_are_gone(&mut self) {
        let Some(admin) = &mut self.admin else { return };
        let settling = &mut admin.settling;
        if std::mem::take(&mut settling.resets) {
            let enables = settling.enables.take();
            admin.status = 0;
            enables.into_iter().for_each(|configuration| self.enable(configuration));
        } else if std::mem::take(&mut settling.shuts_down) {
            self.confirm_losses();
            self.flush_all();
        }
    }

    /// Handles Cross-Controller Reset.
    //= NVMe base §Cross-Controller Reset command: ICID and CIU in Dword 10, CIRN in Dwords 12 and 13.
    pub(super) fn reset_other(&mut self, command: Command<'_>) -> Result<(), Status> {
        let (id, ciu) = (command.word(10) as u16, (command.word(10) >> 16) as u8);
        let cirn = u64::from(command.word(12)) | u64::from(command.word(13)) << 32;
        let Some(admin) = self.admin.as_ref().filter(|admin| !admin.discovery) else {
            return Err(Status::INVALID_OPCODE);
        };
        if admin.settling.others.len() >= usize::from(RESETS_MAX) {
            return Err(Status::RESET_LIMIT_EXCEEDED);
        }
        //= NVMe base §Cross-Controller Reset command: a controller does not reset itself so.
        let ended = self.member.as_ref().is_some_and(|member| member.end_other(id, (ciu, cirn)));
        if !ended {
            return Err(Status::INVALID_FIELD);
        }
        let slot = self.begin(command, NOWHERE, SlotState::Resetting);
        let slot = slot.ok_or(Status::INTERNAL_ERROR)?;
        self.admin.iter_mut().for_each(|admin| admin.settling.others.push(slot));
        self.tell(Notice::ControllerEnded);
        Ok(())
    }

    //= NVMe base §Cross-Controller Reset command: bit 0 of Dword 0 is Immediate Reset Successful.
    fn others_are_reset(&mut self, out: &mut Outbox) {
        let slots = self.admin.as_mut().map(|admin| std::mem::take(&mut admin.settling.others));
        for slot in slots.into_iter().flatten() {
            let id = self.slots[slot].id;
            self.slots.release(slot);
            self.answer_result(id, Status::SUCCESS, 1, out);
        }
    }
}
