//! ICReq, ICResp and TermReqs.

use super::{Common, INIT_BYTES, Layout, SHORT_BYTES, Short, get16, get32, kind};

/// Bits of the digest byte.
//= NVMe-TCP §3.6.2.2: DGST, bit 0 for headers and bit 1 for data.
const HEADER: u8 = 1;
const DATA: u8 = 2;

#[inline(always)]
fn digests(header: bool, data: bool) -> u8 {
    let header = if header { HEADER } else { 0 };
    header | if data { DATA } else { 0 }
}

/// ICReq.
//= NVMe-TCP §3.6.2.2: Initialize Connection Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitRequest {
    /// PDU format version (PFV): 0.
    pub version: u16,
    /// Alignment of data sent to the host (HPDA): 0 to 31, for multiples of 4 to 128 bytes.
    pub alignment: u8,
    /// Request header digests.
    pub header_digest: bool,
    /// Request data digests.
    pub data_digest: bool,
    /// Outstanding R2Ts of a command, less one (MAXR2T).
    pub max_r2t: u32,
}

impl InitRequest {
    /// Parses the PDU.
    pub fn parse(bytes: &[u8; INIT_BYTES]) -> InitRequest {
        InitRequest {
            version: get16(bytes, 8),
            alignment: bytes[10],
            header_digest: bytes[11] & HEADER != 0,
            data_digest: bytes[11] & DATA != 0,
            max_r2t: get32(bytes, 12),
        }
    }

    /// Builds the PDU.
    pub fn build(&self) -> [u8; INIT_BYTES] {
        let layout = Layout::new(kind::IC_REQ).put16(8, self.version).put(10, [self.alignment]);
        let digests = digests(self.header_digest, self.data_digest);
        layout.put(11, [digests]).put32(12, self.max_r2t).0
    }
}

/// ICResp.
//= NVMe-TCP §3.6.2.3: Initialize Connection Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitResponse {
    /// PDU format version (PFV): 0.
    pub version: u16,
    /// Alignment of data sent to the controller (CPDA): 0 to 31, for multiples of 4 to 128 bytes.
    pub alignment: u8,
    /// Header digests are enabled.
    pub header_digest: bool,
    /// Data digests are enabled.
    pub data_digest: bool,
    /// Longest data of an H2CData (MAXH2CDATA): a multiple of 4 from 4096 on.
    pub max_data: u32,
}

impl InitResponse {
    /// Parses the PDU.
    pub fn parse(bytes: &[u8; INIT_BYTES]) -> InitResponse {
        InitResponse {
            version: get16(bytes, 8),
            alignment: bytes[10],
            header_digest: bytes[11] & HEADER != 0,
            data_digest: bytes[11] & DATA != 0,
            max_data: get32(bytes, 12),
        }
    }

    /// Builds the PDU.
    pub fn build(&self) -> [u8; INIT_BYTES] {
        let layout = Layout::new(kind::IC_RESP).put16(8, self.version).put(10, [self.alignment]);
        let digests = digests(self.header_digest, self.data_digest);
        layout.put(11, [digests]).put32(12, self.max_data).0
    }
}

/// H2CTermReq or C2HTermReq: terminates the connection. The header of the PDU in error may follow.
//= NVMe-TCP §3.6.2.4: Host to Controller Terminate Connection Request.
//= NVMe-TCP §3.6.2.5: Controller to Host Terminate Connection Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// [`kind::H2C_TERM_REQ`] or [`kind::C2H_TERM_REQ`].
    pub kind: u8,
    /// One of [`fatal`](super::fatal).
    pub status: u16,
    /// Fatal error information; depends on the status.
    pub information: u32,
    /// Length of the header in error.
    pub offender_len: u32,
}

impl Terminate {
    /// Parses the header.
    pub fn parse(bytes: &Short) -> Terminate {
        Terminate {
            kind: bytes[0],
            status: get16(bytes, 8),
            information: get32(bytes, 10),
            offender_len: get32(bytes, 4).saturating_sub(SHORT_BYTES as u32),
        }
    }

    /// Builds the header.
    pub fn build(&self) -> Short {
        let len = SHORT_BYTES as u32 + self.offender_len;
        let header_len = SHORT_BYTES as u8;
        let common = Common { kind: self.kind, flags: 0, header_len, data_offset: 0, len };
        let layout = Layout::new(self.kind).common(common);
        layout.put16(8, self.status).put32(10, self.information).0
    }
}

#[cfg(test)]
mod test {
    use super::super::fatal;
    use super::super::test::hexadecimal;
    use super::*;

    #[test]
    fn init_request_golden() {
        let request = InitRequest {
            version: 0,
            alignment: 31,
            header_digest: true,
            data_digest: false,
            max_r2t: 0x0102,
        };
        let bytes = hexadecimal("00 00 80 00 80000000 0000 1f 01 02010000");
        assert_eq!(request.build(), bytes);
        assert_eq!(InitRequest::parse(&bytes), request);
        let both = InitRequest { data_digest: true, ..request };
        assert_eq!(both.build()[11], 3);
    }

    #[test]
    fn init_response_golden() {
        let response = InitResponse {
            version: 0,
            alignment: 0,
            header_digest: false,
            data_digest: true,
            max_data: 0x40000,
        };
        let bytes = hexadecimal("01 00 80 00 80000000 0000 00 02 00000400");
        assert_eq!(response.build(), bytes);
        assert_eq!(InitResponse::parse(&bytes), response);
    }

    #[test]
    fn terminate_golden() {
        let terminate = Terminate {
            kind: kind::C2H_TERM_REQ,
            status: fatal::INVALID_HEADER_FIELD,
            information: 4,
            offender_len: 72,
        };
        let bytes = hexadecimal("03 00 18 00 60000000 0100 04000000");
        assert_eq!(terminate.build(), bytes);
        assert_eq!(Terminate::parse(&bytes), terminate);
        let host = Terminate { kind: kind::H2C_TERM_REQ, offender_len: 0, ..terminate };
        assert_eq!(host.build(), hexadecimal("02 00 18 00 18000000 0100 04000000"));
    }

    #[test]
    fn every_error_has_a_name() {
        let mut names: Vec<_> = (1..=7).map(fatal::name).collect();
        names.dedup();
        assert_eq!(names.len(), 7);
    }
}
