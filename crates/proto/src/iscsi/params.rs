//! The negotiated parameters of a session.

use block::Pool;

use crate::Outbox;
use crate::crc32c::{Crc32c, crc32c};

use super::negotiate::{Key, Values};
use super::pdu::{HEADER_BYTES, Header, Pdu};

/// The negotiated parameters from one end's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Params {
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    /// All data beyond immediate data needs an R2T.
    pub(super) initial_r2t: bool,
    /// Commands may carry immediate data.
    pub(super) immediate_data: bool,
    /// MaxBurstLength: longest sequence of solicited data or Data-In.
    pub(super) max_burst: u32,
    /// FirstBurstLength: most unsolicited data, including immediate data.
    pub(super) first_burst: u32,
    /// Longest data segment that we may send.
    pub(super) send_max: u32,
    /// Longest data segment that we accept.
    pub(super) receive_max: u32,
}

impl Params {
    /// Parameters by the results; `values` has the peer's MaxRecvDataSegmentLength.
    pub(super) fn new(values: &Values, receive_max: u32) -> Params {
        let max_burst = values.get(Key::MaxBurstLength);
        let data_digest = values.is(Key::DataDigest);
        Params {
            header_digest: values.is(Key::HeaderDigest),
            data_digest,
            initial_r2t: values.is(Key::InitialR2T),
            immediate_data: values.is(Key::ImmediateData),
            max_burst,
            //= RFC 7143 §13.14: FirstBurstLength MUST NOT exceed MaxBurstLength.
            first_burst: values.get(Key::FirstBurstLength).min(max_burst),
            send_max: values
                .get(Key::MaxRecvDataSegmentLength)
                .min(Params::longest_segment(data_digest)),
            receive_max,
        }
    }

    /// The parameters during login.
    pub(super) fn before_login() -> Params {
        let values = Values::default();
        let longest = values.get(Key::MaxRecvDataSegmentLength);
        Params::new(&values, longest)
    }

    /// The longest data segment that we ever send: data and digest share a buffer of the outbox,
    /// and half a buffer holds whole blocks.
    pub(super) fn longest_segment(data_digest: bool) -> u32 {
        Pool::LARGE_BYTES as u32 / if data_digest { 2 } else { 1 }
    }

    /// Appends a header and its digest.
    #[inline(always)]
    pub(super) fn put_header(&self, pdu: &impl Pdu, out: &mut Outbox) {
        if self.header_digest {
            return self.put_header_with_digest(&pdu.build(), out);
        }
        let place = out.reserve(HEADER_BYTES);
        pdu.write(place.first_chunk_mut().expect("as many bytes were reserved"));
    }

    fn put_header_with_digest(&self, header: &Header, out: &mut Outbox) {
        out.bytes(header);
        out.bytes(&crc32c(header).to_le_bytes());
    }

    /// Appends a data segment with its padding and digest.
    #[inline(always)]
    pub(super) fn put_data(&self, data: &[u8], out: &mut Outbox) {
        out.bytes(data);
        if self.data_digest || !data.len().is_multiple_of(4) {
            self.put_data_tail(data, out);
        }
    }

    fn put_data_tail(&self, data: &[u8], out: &mut Outbox) {
        //= RFC 7143 §11.2.4: padding should be zeroes.
        let padding = &[0; 3][..data.len().wrapping_neg() & 3];
        out.bytes(padding);
        if !self.data_digest || data.is_empty() {
            return;
        }
        let digest = if padding.is_empty() {
            crc32c(data)
        } else {
            let mut crc = Crc32c::new();
            crc.update(data);
            crc.update(padding);
            crc.value()
        };
        out.bytes(&digest.to_le_bytes());
    }

    /// Appends a whole PDU.
    pub(super) fn put(&self, pdu: &impl Pdu, data: &[u8], out: &mut Outbox) {
        self.put_header(pdu, out);
        self.put_data(data, out);
    }
}
