//! ICReq and ICResp, PDUs that are neither commands nor data, and C2HTermReq.

use crate::{Ending, Outbox};

use super::super::frame::Fatal;
use super::super::pdu::{INIT_BYTES, InitRequest, InitResponse, Terminate, fatal, kind};
use super::super::wire::{ALIGNMENT_MAX, Wire};
use super::{NvmeTarget, Stage};

/// Longest in-capsule data on an admin queue.
//= NVMe-TCP §3.3.1: admin queues accept 8192 bytes of in-capsule data, regardless of IOCCSZ.
pub(super) const ADMIN_CAPSULE_BYTES: u32 = 8192;

impl NvmeTarget {
    /// A PDU that is neither command nor data.
    #[cold]
    pub(super) fn rare_pdu(&mut self, header: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        match header[0] {
            kind::H2C_TERM_REQ => {
                let terminate = Terminate::parse(header.first_chunk().expect("24 bytes at least"));
                //= NVMe-TCP §3.5: a host that sends a TermReq expects the connection to be closed.
                let reason = fatal::name(terminate.status);
                Err(Ending::Refused(format!("the host gave up: {reason}")))
            }
            kind::IC_REQ => {
                let header = header.first_chunk().expect("an ICReq has 128 bytes");
                self.init_request(header, out)
            }
            _ => {
                let fatal = Fatal::field(0, "NVMe-TCP §3.6.1: PDU types of this direction");
                Err(self.give_up(fatal, header, out))
            }
        }
    }

    fn init_request(&mut self, header: &[u8; INIT_BYTES], out: &mut Outbox) -> Result<(), Ending> {
        if self.stage != Stage::Fresh {
            let fatal = Fatal::sequence("NVMe-TCP §3.2: a connection has one ICReq, its first PDU");
            return Err(self.give_up(fatal, header, out));
        }
        let request = InitRequest::parse(header);
        let unsupported = |at: usize, rule| {
            let (status, information) = (fatal::UNSUPPORTED_PARAMETER, at as u32);
            Fatal { status, information, rule, at }
        };
        if request.version != 0 {
            let fatal = unsupported(8, "NVMe-TCP §3.6.2.2: PFV is 0");
            return Err(self.give_up(fatal, header, out));
        }
        if request.alignment > ALIGNMENT_MAX {
            let fatal = Fatal::field(10, "NVMe-TCP §3.6.2.2: HPDA is 0 to 31");
            return Err(self.give_up(fatal, header, out));
        }
        //= NVMe-TCP §3.6.2.3: digests are the requested ones, if our settings allow them.
        let header_digest = request.header_digest && self.config.allow_header_digest;
        let data_digest = request.data_digest && self.config.allow_data_digest;
        let response = InitResponse {
            version: 0,
            alignment: 0,
            header_digest,
            data_digest,
            max_data: self.max_host_data(),
        };
        out.bytes(&response.build());
        self.frame.configure(header_digest, data_digest);
        self.wire = Wire::new(header_digest, data_digest, request.alignment);
        self.stage = Stage::Unconnected;
        Ok(())
    }

    /// MAXH2CDATA.
    //= NVMe-TCP §3.6.2.3: MAXH2CDATA is at least 4096 and a multiple of 4.
    pub(super) fn max_host_data(&self) -> u32 {
        (self.config.max_h2c_data_bytes & !3).max(4096)
    }

    /// A PDU before the ICReq, or too much in-capsule data.
    #[cold]
    pub(super) fn too_much_in_capsule(&mut self, header: &[u8], out: &mut Outbox) -> Ending {
        if self.stage == Stage::Fresh {
            return self.too_early(header, out);
        }
        let rule = "NVMe-TCP §3.3.1: in-capsule data fits into IOCCSZ";
        let status = fatal::LIMIT_EXCEEDED;
        self.give_up(Fatal { status, information: 0, rule, at: 4 }, header, out)
    }

    /// Sends a C2HTermReq, and takes nothing more. `offender` is the header of the PDU in error.
    #[cold]
    pub(super) fn give_up(&mut self, fatal: Fatal, offender: &[u8], out: &mut Outbox) -> Ending {
        self.finished = true;
        fatal.terminate(kind::C2H_TERM_REQ, offender, out)
    }

    /// A PDU before the ICReq.
    #[cold]
    pub(super) fn too_early(&mut self, header: &[u8], out: &mut Outbox) -> Ending {
        let fatal = Fatal::sequence("NVMe-TCP §3.2: the first PDU of a connection is an ICReq");
        self.give_up(fatal, header, out)
    }
}
