//! The transport of one connection: ICReq, ICResp, capsules, and H2CTermReq.

use crate::{Ending, Outbox};

use super::super::frame::{FROM_CONTROLLER, Fatal, Frame};
use super::super::pdu::{
    CAPSULE_BYTES, CommandBuilder, INIT_BYTES, InitRequest, InitResponse, Terminate, fatal, kind,
};
use super::super::wire::{ALIGNMENT_MAX, Wire};

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) frame: Frame,
    pub(super) wire: Wire,
    /// Longest data of one H2CData.
    pub(super) max_data: u32,
    /// ICReq and ICResp are exchanged.
    pub(super) open: bool,
    header_digest: bool,
    data_digest: bool,
}

impl Link {
    pub(super) fn new(header_digest: bool, data_digest: bool) -> Link {
        let (frame, wire) = (Frame::new(FROM_CONTROLLER), Wire::new(false, false, 0));
        Link { frame, wire, max_data: 0, open: false, header_digest, data_digest }
    }

    /// Sends the ICReq.
    pub(super) fn start(&self, out: &mut Outbox) {
        let (header_digest, data_digest) = (self.header_digest, self.data_digest);
        //= NVMe-TCP §3.6.2.2: PFV 0, no alignment beyond four bytes, one R2T for a command.
        let request =
            InitRequest { version: 0, alignment: 0, header_digest, data_digest, max_r2t: 0 };
        out.bytes(&request.build());
    }

    /// Handles the ICResp.
    pub(super) fn opened(
        &mut self,
        header: &[u8; INIT_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let response = InitResponse::parse(header);
        if self.open {
            let fatal = Fatal::sequence("NVMe-TCP §3.2: a connection has one ICResp");
            return Err(self.give_up(fatal, header, out));
        }
        if let Err(fatal) = self.check(&response) {
            return Err(self.give_up(fatal, header, out));
        }
        let denied = [
            (self.header_digest && !response.header_digest, "header"),
            (self.data_digest && !response.data_digest, "data"),
        ];
        if let Some((_, which)) = denied.iter().find(|(denied, _)| *denied) {
            let why = format!("the target has no {which} digests: do without them");
            return Err(Ending::Refused(why));
        }
        self.frame.configure(self.header_digest, self.data_digest);
        self.wire = Wire::new(self.header_digest, self.data_digest, response.alignment);
        self.max_data = response.max_data;
        self.open = true;
        Ok(())
    }

    fn check(&self, response: &InitResponse) -> Result<(), Fatal> {
        if response.version != 0 {
            return Err(Fatal::field(8, "NVMe-TCP §3.6.2.3: PFV is 0"));
        }
        if response.alignment > ALIGNMENT_MAX {
            return Err(Fatal::field(10, "NVMe-TCP §3.6.2.3: CPDA is 0 to 31"));
        }
        let unsolicited = response.header_digest && !self.header_digest
            || response.data_digest && !self.data_digest;
        if unsolicited {
            return Err(Fatal::field(11, "NVMe-TCP §3.6.2.3: only digests that were asked for"));
        }
        if response.max_data < 4096 || !response.max_data.is_multiple_of(4) {
            let rule = "NVMe-TCP §3.6.2.3: MAXH2CDATA is at least 4096 and a multiple of 4";
            return Err(Fatal::field(12, rule));
        }
        Ok(())
    }

    /// Sends a command without in-capsule data.
    #[inline(always)]
    pub(super) fn command(&self, command: CommandBuilder, out: &mut Outbox) {
        if self.wire.header_digest {
            let whole = CAPSULE_BYTES + 4;
            let capsule = command.capsule(self.wire.flags(false), 0, whole as u32);
            return self.wire.head(&capsule, whole, out);
        }
        let capsule = command.capsule(0, 0, CAPSULE_BYTES as u32);
        out.reserve(CAPSULE_BYTES).copy_from_slice(&capsule);
    }

    /// Sends a command with `data` in its capsule.
    #[inline(always)]
    pub(super) fn command_with(&self, command: CommandBuilder, data: &[u8], out: &mut Outbox) {
        let start = self.wire.start(CAPSULE_BYTES);
        let len = u32::from(start) + data.len() as u32 + self.wire.tail();
        let command = command.in_capsule(data.len() as u32);
        let capsule = command.capsule(self.wire.flags(true), start, len);
        if len as usize == CAPSULE_BYTES + data.len() && data.len() <= Outbox::BY_REFERENCE_BYTES {
            // No digest and no padding: header and data in one piece.
            let (head, behind) = out.reserve(len as usize).split_at_mut(CAPSULE_BYTES);
            head.copy_from_slice(&capsule);
            return behind.copy_from_slice(data);
        }
        self.wire.head(&capsule, usize::from(start), out);
        self.wire.bytes(data, out);
    }

    /// Sends an H2CTermReq. `offender` is the header of the PDU in error.
    #[cold]
    pub(super) fn give_up(&self, fatal: Fatal, offender: &[u8], out: &mut Outbox) -> Ending {
        fatal.terminate(kind::H2C_TERM_REQ, offender, out)
    }

    /// Gives up the connection after a PDU that the frame refused; `bytes` is the PDU's start.
    #[cold]
    pub(super) fn give_up_at(&self, fatal: Fatal, bytes: &[u8], out: &mut Outbox) -> Ending {
        let offender = self.frame.offender(bytes).to_vec();
        self.give_up(fatal, &offender, out)
    }
}

/// The message of a C2HTermReq, for the user.
#[cold]
pub(super) fn terminated(header: &[u8]) -> Ending {
    let terminate = Terminate::parse(header.first_chunk().expect("24 bytes at least"));
    let (reason, at) = (fatal::name(terminate.status), terminate.information);
    Ending::Refused(format!("the target gave up: {reason} ({at:#x})"))
}
