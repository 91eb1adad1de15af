//! Unit attentions: news about a logical unit that its next command is told.

use crate::scsi::{Plan, Sense};

use super::super::pdu::Command;

/// What is pending in this session, unit by unit.
#[derive(Debug, Default)]
pub(super) struct Attentions {
    pending: Vec<([u8; 8], Sense)>,
}

/// Operation codes that are answered in spite of a unit attention.
const INQUIRY: u8 = 0x12;
const REPORT_LUNS: u8 = 0xa0;
/// The one that is answered by it.
const REQUEST_SENSE: u8 = 0x03;

/// Descriptor format, in byte 1 of REQUEST SENSE.
const DESCRIPTOR: u8 = 0x01;

/// So many are kept for one session; units beyond 64 with news each are told less of it.
const PENDING_MAX: usize = 512;

impl Attentions {
    /// Whether no command needs to be told anything.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The unit with that LUN field has news. The same twice is told once.
    pub(super) fn establish(&mut self, lun: [u8; 8], sense: Sense) {
        if self.pending.len() < PENDING_MAX && !self.pending.contains(&(lun, sense)) {
            self.pending.push((lun, sense));
        }
    }

    /// What becomes of a command in view of what is pending for its unit.
    //= SAM-5 §Unit attention conditions: INQUIRY and REPORT LUNS pass, REQUEST SENSE returns it.
    pub(super) fn before(
        &mut self,
        command: &Command,
        plan: Result<Plan, Sense>,
    ) -> Result<Plan, Sense> {
        if matches!(command.cdb[0], INQUIRY | REPORT_LUNS) {
            return plan;
        }
        let found = self.pending.iter().position(|(lun, _)| *lun == command.lun);
        let Some(at) = found else { return plan };
        let (_, sense) = self.pending.remove(at);
        if command.cdb[0] != REQUEST_SENSE {
            return Err(sense);
        }
        let descriptor = command.cdb[1] & DESCRIPTOR != 0;
        let mut bytes =
            if descriptor { sense.encode_descriptor() } else { sense.encode_fixed().to_vec() };
        bytes.truncate(command.cdb[4].into());
        Ok(Plan::Data(bytes))
    }
}
