//! Building of PDUs by an end in its outbox, with the negotiated digests and padding.

use crate::Outbox;
use crate::crc32c::crc32c;

use super::pdu::{DIGEST_BYTES, Data, SHORT_BYTES, Short, flag};

/// The negotiated format of sent PDUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    /// Alignment of data in bytes.
    alignment: u8,
    /// Offset of the data in data PDUs.
    data_start: u8,
}

/// Maximum of HPDA and CPDA.
//= NVMe-TCP §3.6.2.2: HPDA and CPDA are 0 to 31.
pub(super) const ALIGNMENT_MAX: u8 = 31;

impl Wire {
    /// `alignment` is HPDA or CPDA.
    pub(super) fn new(header_digest: bool, data_digest: bool, alignment: u8) -> Wire {
        debug_assert!(alignment <= ALIGNMENT_MAX);
        //= NVMe-TCP §3.6.2.2: the alignment counts dwords, less one.
        let alignment = (alignment + 1) * 4;
        let mut wire = Wire { header_digest, data_digest, alignment, data_start: 0 };
        wire.data_start = wire.start(SHORT_BYTES);
        wire
    }

    /// Offset of data after a header of `len` bytes.
    pub(super) fn start(&self, len: usize) -> u8 {
        let head = len + if self.header_digest { DIGEST_BYTES } else { 0 };
        head.next_multiple_of(usize::from(self.alignment)) as u8
    }

    /// The digest flags of a PDU.
    #[inline(always)]
    pub(super) fn flags(&self, has_data: bool) -> u8 {
        let header = if self.header_digest { flag::HEADER_DIGEST } else { 0 };
        let data = if self.data_digest && has_data { flag::DATA_DIGEST } else { 0 };
        header | data
    }

    /// Length of the data digest.
    #[inline(always)]
    pub(super) fn tail(&self) -> u32 {
        if self.data_digest { DIGEST_BYTES as u32 } else { 0 }
    }

    /// Appends a PDU that is a header only.
    #[inline(always)]
    pub(super) fn short(&self, header: Short, out: &mut Outbox) {
        if self.header_digest {
            return self.short_with_digest(header, out);
        }
        out.reserve(SHORT_BYTES).copy_from_slice(&header);
    }

    fn short_with_digest(&self, mut header: Short, out: &mut Outbox) {
        const WHOLE: usize = SHORT_BYTES + DIGEST_BYTES;
        header[1] |= flag::HEADER_DIGEST;
        header[4] = WHOLE as u8;
        self.head(&header, WHOLE, out);
    }

    /// Appends the header of a data PDU whose data follows. Sets the offset of the data, the length
    /// of the PDU and the digest flags of `data`.
    #[inline(always)]
    pub(super) fn data(&self, data: Data, out: &mut Outbox) {
        let start = self.data_start;
        let header = Data {
            flags: data.flags | self.flags(true),
            data_offset: start,
            pdu_len: u32::from(start) + data.len + self.tail(),
            ..data
        };
        let header = header.build();
        if usize::from(start) == SHORT_BYTES {
            return out.reserve(SHORT_BYTES).copy_from_slice(&header);
        }
        self.head(&header, usize::from(start), out);
    }

    /// Appends a header of any length with its digest, and zeroes up to `whole` bytes.
    pub(super) fn head(&self, header: &[u8], whole: usize, out: &mut Outbox) {
        let (head, behind) = out.reserve(whole).split_at_mut(header.len());
        head.copy_from_slice(header);
        behind.fill(0);
        if self.header_digest {
            behind[..DIGEST_BYTES].copy_from_slice(&crc32c(header).to_le_bytes());
        }
    }

    /// Appends data and its digest.
    pub(super) fn bytes(&self, bytes: &[u8], out: &mut Outbox) {
        out.bytes(bytes);
        if self.data_digest {
            out.bytes(&crc32c(bytes).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod test {
    use block::{Chain, Piece, Pool};

    use super::super::frame::{FROM_CONTROLLER, Frame, Next};
    use super::super::pdu::{Completion, Status, kind};
    use super::*;

    fn sent(out: &mut Outbox) -> Vec<u8> {
        let mut chain = Chain::default();
        out.exchange(&mut chain);
        chain.pieces().iter().map(Piece::to_vec).collect::<Vec<_>>().concat()
    }

    #[test]
    fn what_is_sent_is_understood_with_every_setting() {
        for alignment in 0..=ALIGNMENT_MAX {
            for (header_digest, data_digest) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let wire = Wire::new(header_digest, data_digest, alignment);
                let mut out = Outbox::new(Pool::new(1, 1));
                let (command, status) = (7, Status::SUCCESS);
                let completion = Completion { result: 0, head: 0, command, status };
                wire.short(completion.build(), &mut out);
                let len = 5;
                let (data_offset, pdu_len, transfer_tag, offset) = (0, 0, 0, 0);
                let flags = flag::LAST;
                let kind = kind::C2H_DATA;
                let data =
                    Data { kind, flags, data_offset, pdu_len, command, transfer_tag, offset, len };
                wire.data(data, &mut out);
                wire.bytes(b"hello", &mut out);
                let bytes = sent(&mut out);
                let start = bytes[if header_digest { 31 } else { 27 }];
                assert_eq!(usize::from(start) % ((usize::from(alignment) + 1) * 4), 0);
                let mut frame = Frame::new(FROM_CONTROLLER);
                frame.configure(header_digest, data_digest);
                let mut rest = &bytes[..];
                assert!(
                    matches!(frame.header(&mut rest), Ok(Next::Whole(header)) if header[0] == 5)
                );
                assert!(
                    matches!(frame.header(&mut rest), Ok(Next::Whole(header)) if header[0] == 7)
                );
                assert_eq!(frame.data(&mut rest).0, b"hello");
                assert!(rest.is_empty() && !frame.in_data());
            }
        }
    }
}
