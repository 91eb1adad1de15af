//! C2HTermReq: a fatal transport error.

use crate::{Ending, Outbox, Violation};

use super::super::frame::Fatal;
use super::super::pdu::{COMMON_BYTES, Terminate, header_len, kind};
use super::NvmeTarget;

impl NvmeTarget {
    /// Sends a C2HTermReq. `offender` is the header of the PDU in error.
    //= NVMe-TCP §3.5: on a fatal error the controller sends a C2HTermReq and takes nothing more.
    #[cold]
    pub(super) fn give_up(&mut self, fatal: Fatal, offender: &[u8], out: &mut Outbox) -> Ending {
        let len = offender.first().and_then(|kind| header_len(*kind)).unwrap_or(COMMON_BYTES);
        let offender = &offender[..offender.len().min(len)];
        let Fatal { status, information, rule, at } = fatal;
        let offender_len = offender.len() as u32;
        let terminate = Terminate { kind: kind::C2H_TERM_REQ, status, information, offender_len };
        out.bytes(&terminate.build());
        out.bytes(offender);
        self.finished = true;
        Ending::Violation(Violation { rule, at })
    }
}
