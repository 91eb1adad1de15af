//! Ensures that a target no longer executes commands of an older session.
//!
//! The session was opened with the ISID of the older one, which ends that session. Some targets
//! answer such a login only when the I/Os of the older session have ended. Other targets do not, or
//! this is unknown: then the unit is reset, which is answered when all its tasks have ended. See
//! decision 0039.

use block::Nanos;

use crate::Fence;
use crate::Outbox;

use super::super::pdu::{Header, NO_TAG, TaskRequest, TaskResponse, opcode, opcode_of};
use super::opening::Question;
use super::{IscsiInitiator, Stage};

//= RFC 7143 §11.5.1: 5 is LOGICAL UNIT RESET.
const RESET: u8 = 5;
//= RFC 7143 §11.6.1: 0 is "function complete".
const COMPLETE: u8 = 0;

/// The ITT of the reset, as no slot and no other request has.
const RESET_TAG: u32 = 0xfffb;

/// Vendors of targets that answer a login with an old ISID only when the storage has completed the
/// commands of the session that it ends, according to their source code: LIO (Linux), CTL
/// (FreeBSD), SCST.
const PATIENT: [&str; 4] = ["LIO-ORG ", "FREEBSD ", "SCST_FIO ", "SCST_BIO "];

impl IscsiInitiator {
    /// The unit is known: resets it if something an older session sent may still be executed.
    pub(super) fn make_sure(&mut self, out: &mut Outbox) {
        let product = self.facts.product.as_deref().unwrap_or_default();
        let patient = self.facts.instance.is_some()
            || PATIENT.iter().any(|vendor| product.starts_with(vendor));
        if patient && self.config.isid.is_some() {
            self.fence = Fence::Ended;
        }
        if self.fence == Fence::Ended || !self.config.fence {
            self.stage = Stage::Ready;
            return;
        }
        let Stage::Opening(opening) = &mut self.stage else { return };
        opening.question = Question::Reset;
        let request = TaskRequest {
            immediate: true,
            function: RESET,
            lun: self.lun,
            task_tag: RESET_TAG,
            referenced_tag: NO_TAG,
            command_number: self.command_number,
            expected_status: self.status,
            ..TaskRequest::default()
        };
        self.params.put(&request, &[], out);
    }

    /// Whether the unit is being reset.
    pub(super) fn is_resetting(&self) -> bool {
        matches!(&self.stage, Stage::Opening(opening) if opening.question == Question::Reset)
    }

    /// The answer to the reset.
    pub(super) fn was_reset(&mut self, response: &TaskResponse, out: &mut Outbox) {
        let done = response.response == COMPLETE;
        self.fence = if done { Fence::Ended } else { Fence::After(Nanos(0)) };
        self.go_on(Question::Settled, out);
    }

    /// Whether a response is that to the reset.
    pub(super) fn answers_reset(&self, response: &TaskResponse) -> bool {
        self.is_resetting() && response.task_tag == RESET_TAG
    }

    /// Whether the header that was rejected is that of the reset. If so, only time helps.
    pub(super) fn reset_was_rejected(&mut self, rejected: &[u8], out: &mut Outbox) -> bool {
        let header: Option<&Header> = rejected.first_chunk();
        let ours = header.is_some_and(|header| opcode_of(header) == opcode::TASK_REQUEST);
        if ours && self.is_resetting() {
            self.go_on(Question::Settled, out);
        }
        ours
    }
}
