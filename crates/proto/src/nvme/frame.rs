//! Splits a byte stream into PDUs: whole headers, and data in parts as received.
//!
//! A header that was received as a whole is used in place; one that is split over two receives is
//! collected. Data is never collected here: the caller takes each part where it is. Both digests
//! are checked, and all fields of the common header: PDU type, lengths, flags, offset.

use crate::crc32c::crc32c;
use crate::flow::{Collector, DIGEST_BYTES, DataEnd, DataSegment};
use crate::{Ending, Outbox, Violation};

use super::pdu::{
    COMMON_BYTES, Common, INIT_BYTES, OFFENDER_MAX_BYTES, Terminate, fatal, flag, header_len, kind,
};

/// A header that was received in parts, padded with zeroes.
pub(super) type Collected = [u8; INIT_BYTES];

/// PDU types that a controller accepts: a bit each.
//= NVMe-TCP §3.6.1: each kind of PDU goes in one direction.
pub(super) const FROM_HOST: u16 =
    1 << kind::IC_REQ | 1 << kind::H2C_TERM_REQ | 1 << kind::CAPSULE_CMD | 1 << kind::H2C_DATA;
/// PDU types that a host accepts.
pub(super) const FROM_CONTROLLER: u16 = 1 << kind::IC_RESP
    | 1 << kind::C2H_TERM_REQ
    | 1 << kind::CAPSULE_RESP
    | 1 << kind::C2H_DATA
    | 1 << kind::R2T;

/// A fatal transport error: the content of a TermReq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fatal {
    /// One of [`fatal`].
    pub(super) status: u16,
    /// Fatal error information; its meaning depends on the status.
    pub(super) information: u32,
    /// The clause.
    pub(super) rule: &'static str,
    /// Offset in the PDU, in bytes.
    pub(super) at: usize,
}

impl Fatal {
    /// Invalid header field at that offset.
    #[cold]
    pub(super) fn field(at: usize, rule: &'static str) -> Fatal {
        Fatal { status: fatal::INVALID_HEADER_FIELD, information: at as u32, rule, at }
    }

    /// PDU sequence error.
    #[cold]
    pub(super) fn sequence(rule: &'static str) -> Fatal {
        Fatal { status: fatal::SEQUENCE_ERROR, information: 0, rule, at: 0 }
    }

    /// Sends a TermReq of this `kind`. `offender` is the header of the PDU in error.
    //= NVMe-TCP §3.5: on a fatal error either end sends a TermReq and takes nothing more.
    #[cold]
    pub(super) fn terminate(self, kind: u8, offender: &[u8], out: &mut Outbox) -> Ending {
        let len = offender.first().and_then(|kind| header_len(*kind)).unwrap_or(COMMON_BYTES);
        let offender = &offender[..offender.len().min(len)];
        let Fatal { status, information, rule, at } = self;
        let offender_len = offender.len() as u32;
        out.bytes(&Terminate { kind, status, information, offender_len }.build());
        out.bytes(offender);
        Ending::Violation(Violation { rule, at })
    }
}

/// State of the incoming stream.
#[derive(Debug)]
pub(super) struct Frame {
    kinds: u16,
    header_digest: bool,
    data_digest: bool,
    /// Bytes of a header that was received in parts.
    head: Collector,
    /// Bytes between a header and its data to come.
    gap: u8,
    segment: DataSegment,
}

/// The next header.
pub(super) enum Next<'a> {
    /// The PDU is in the received bytes.
    Whole(&'a [u8]),
    /// Collected.
    Collected(Collected),
    /// Incomplete.
    Partial,
}

impl Frame {
    /// Returns a frame for the start of a stream, without digests, until both ends have negotiated
    /// them.
    pub(super) fn new(kinds: u16) -> Frame {
        Frame {
            kinds,
            header_digest: false,
            data_digest: false,
            head: Collector::new(INIT_BYTES + DIGEST_BYTES),
            gap: 0,
            segment: DataSegment::none(),
        }
    }

    /// Applies the negotiated digests from the next PDU on.
    pub(super) fn configure(&mut self, header_digest: bool, data_digest: bool) {
        self.header_digest = header_digest;
        self.data_digest = data_digest;
    }

    /// Whether data is in flight, so that [`data`](Self::data) is to be called.
    #[inline(always)]
    pub(super) fn in_data(&self) -> bool {
        self.segment.is_open()
    }

    /// Returns the length of the data of the last PDU, before any of the data is taken.
    #[inline(always)]
    pub(super) fn data_len(&self) -> u32 {
        self.segment.left()
    }

    /// Takes the next header off `bytes`.
    #[inline(always)]
    pub(super) fn header<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Next<'a>, Fatal> {
        if self.head.is_empty()
            && let Some(first) = bytes.first_chunk()
        {
            let common = Common::parse(first);
            let (len, digest) = self.check_kind(&common)?;
            if bytes.len() >= len + digest {
                let (header, rest) = bytes.split_at(len);
                if digest != 0 {
                    check_digest(header, rest)?;
                }
                self.begin(&common)?;
                *bytes = &rest[digest..];
                return Ok(Next::Whole(header));
            }
        }
        self.collect(bytes)
    }

    /// Collects a header.
    #[cold]
    fn collect<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Next<'a>, Fatal> {
        if !self.head.fill(bytes, COMMON_BYTES) {
            return Ok(Next::Partial);
        }
        let first = *self.head.bytes().first_chunk().expect("so many were filled");
        let common = Common::parse(&first);
        // The length is known to be one of a few before anything is collected by it.
        let (len, digest) = self.check_kind(&common)?;
        if !self.head.fill(bytes, len + digest) {
            return Ok(Next::Partial);
        }
        let (head, behind) = self.head.bytes().split_at(len);
        if digest != 0 {
            check_digest(head, behind)?;
        }
        let mut header = [0; INIT_BYTES];
        header[..len].copy_from_slice(head);
        self.begin(&common)?;
        self.head.clear();
        Ok(Next::Collected(header))
    }

    /// The bytes received of a header that was just refused; `bytes` is where it begins if it was
    /// in place.
    pub(super) fn offender<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        let head = self.head.bytes();
        if !head.is_empty() {
            return &head[..head.len().min(OFFENDER_MAX_BYTES)];
        }
        let len = bytes.first().and_then(|kind| header_len(*kind)).unwrap_or(COMMON_BYTES);
        &bytes[..len.min(bytes.len())]
    }

    /// Lengths of the header and of its digest, if this end accepts that PDU type.
    #[inline(always)]
    fn check_kind(&self, common: &Common) -> Result<(usize, usize), Fatal> {
        let known = common.kind < 16 && self.kinds >> common.kind & 1 != 0;
        let len = header_len(common.kind).filter(|_| known);
        let Some(len) = len else {
            return Err(Fatal::field(0, "NVMe-TCP §3.6.1: PDU types of this direction"));
        };
        if usize::from(common.header_len) != len {
            return Err(Fatal::field(2, "NVMe-TCP §3.6.2: HLEN is fixed for each PDU type"));
        }
        let digest = self.header_digest && may_have_digest(common.kind);
        if (common.flags & flag::HEADER_DIGEST != 0) != digest {
            return Err(Fatal::field(1, "NVMe-TCP §3.6.1: HDGSTF is as agreed on"));
        }
        Ok((len, if digest { DIGEST_BYTES } else { 0 }))
    }

    /// Determines how much data follows.
    #[inline(always)]
    fn begin(&mut self, common: &Common) -> Result<(), Fatal> {
        let digest = if common.flags & flag::HEADER_DIGEST != 0 { DIGEST_BYTES } else { 0 };
        let head = u32::from(common.header_len) + digest as u32;
        if common.len == head && common.kind != kind::H2C_DATA && common.kind != kind::C2H_DATA {
            return Ok(());
        }
        self.begin_data(common, head)
    }

    #[inline(always)]
    fn begin_data(&mut self, common: &Common, head: u32) -> Result<(), Fatal> {
        let offset = match common.kind {
            kind::CAPSULE_CMD | kind::H2C_DATA | kind::C2H_DATA => u32::from(common.data_offset),
            kind::H2C_TERM_REQ | kind::C2H_TERM_REQ => head,
            _ => return Err(Fatal::field(4, "NVMe-TCP §3.6.2: this PDU type has no data")),
        };
        //= NVMe-TCP §3.6.1: PDO is a multiple of the requested alignment, and we request the
        // minimum: four bytes.
        if offset < head || offset % 4 != 0 {
            return Err(Fatal::field(3, "NVMe-TCP §3.6.1: data begins behind the header, aligned"));
        }
        let may_have_digest = may_have_digest(common.kind);
        let digest = self.data_digest && may_have_digest;
        if (common.flags & flag::DATA_DIGEST != 0) != digest {
            return Err(Fatal::field(1, "NVMe-TCP §3.6.1: DDGSTF is as agreed on"));
        }
        let around = offset + if digest { DIGEST_BYTES as u32 } else { 0 };
        let len = common.len.checked_sub(around).filter(|len| *len != 0);
        let Some(len) = len.filter(|len| may_have_digest || *len as usize <= OFFENDER_MAX_BYTES)
        else {
            return Err(Fatal::field(4, "NVMe-TCP §3.6.1: PLEN covers header, data and digests"));
        };
        self.gap = (offset - head) as u8;
        self.segment.begin(len, 0, digest);
        Ok(())
    }

    /// Takes the next part of the data off `bytes`, and says whether that was all.
    #[inline(always)]
    pub(super) fn data<'a>(&mut self, bytes: &mut &'a [u8]) -> (&'a [u8], DataEnd) {
        if self.gap != 0 {
            let skip = usize::from(self.gap).min(bytes.len());
            self.gap -= skip as u8;
            *bytes = &bytes[skip..];
        }
        self.segment.take(bytes)
    }
}

/// Whether PDUs of that type have digests where these were negotiated.
//= NVMe-TCP §3.4.1.4: ICReq, ICResp and TermReqs have no digests.
#[inline(always)]
fn may_have_digest(kind: u8) -> bool {
    kind >= kind::CAPSULE_CMD
}

fn check_digest(header: &[u8], behind: &[u8]) -> Result<(), Fatal> {
    let digest = behind.first_chunk().copied().unwrap_or([0; DIGEST_BYTES]);
    if crc32c(header).to_le_bytes() == digest {
        return Ok(());
    }
    let information = u32::from_le_bytes(digest);
    let rule = "NVMe-TCP §3.4.1.4: the header digest is the CRC-32C of the header";
    Err(Fatal { status: fatal::HEADER_DIGEST_ERROR, information, rule, at: header.len() })
}

#[cfg(test)]
mod test {
    use super::*;

    /// Parts of a stream: (header, data, intact).
    type Seen = Vec<(Vec<u8>, Vec<u8>, bool)>;

    fn feed(frame: &mut Frame, stream: &[u8], chunk: usize) -> Result<Seen, Fatal> {
        let mut seen: Seen = Vec::new();
        for mut bytes in stream.chunks(chunk) {
            while !bytes.is_empty() {
                if frame.in_data() {
                    let (part, end) = frame.data(&mut bytes);
                    let last = seen.last_mut().unwrap();
                    last.1.extend_from_slice(part);
                    last.2 = end == DataEnd::Intact;
                    continue;
                }
                match frame.header(&mut bytes)? {
                    Next::Whole(header) => seen.push((header.to_vec(), Vec::new(), true)),
                    Next::Collected(header) => {
                        let len = header_len(header[0]).unwrap();
                        seen.push((header[..len].to_vec(), Vec::new(), true));
                    }
                    Next::Partial => assert!(bytes.is_empty()),
                }
            }
        }
        Ok(seen)
    }

    /// Returns a PDU of `kind` whose data begins `gap` bytes after the header.
    fn pdu(kind: u8, gap: usize, data: &[u8], digests: [bool; 2]) -> (Vec<u8>, Vec<u8>) {
        let digests = digests.map(|digest| digest && kind >= kind::CAPSULE_CMD);
        let header_len = header_len(kind).unwrap();
        let has_data = !data.is_empty();
        let digest_len = if digests[0] { 4 } else { 0 };
        let mut len = header_len + digest_len;
        let offset = if has_data { len + gap } else { 0 };
        let mut flags = if digests[0] { flag::HEADER_DIGEST } else { 0 };
        if has_data {
            len += gap + data.len();
            if digests[1] {
                flags |= flag::DATA_DIGEST;
                len += 4;
            }
        }
        let (header_len, data_offset, len) = (header_len as u8, offset as u8, len as u32);
        let common = Common { kind, flags, header_len, data_offset, len };
        let mut header = common.build().to_vec();
        header.resize(usize::from(header_len), kind ^ 0x5a);
        let mut bytes = header.clone();
        if digests[0] {
            bytes.extend(crc32c(&header).to_le_bytes());
        }
        if has_data {
            bytes.resize(bytes.len() + gap, 0);
            bytes.extend(data);
        }
        if has_data && digests[1] {
            bytes.extend(crc32c(data).to_le_bytes());
        }
        (bytes, header)
    }

    fn stream(digests: [bool; 2]) -> (Vec<u8>, Seen) {
        let mut bytes = Vec::new();
        let mut seen = Seen::new();
        for (kind, gap, len) in [
            (kind::IC_REQ, 0, 0),
            (kind::CAPSULE_CMD, 0, 0),
            (kind::CAPSULE_CMD, 0, 64),
            (kind::H2C_DATA, 8, 13),
            (kind::CAPSULE_CMD, 4, 1),
            (kind::H2C_DATA, 0, 4),
            (kind::H2C_TERM_REQ, 0, 24),
            (kind::H2C_TERM_REQ, 0, 0),
        ] {
            let data: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x55).collect();
            let (pdu, header) = pdu(kind, gap, &data, digests);
            bytes.extend(pdu);
            seen.push((header, data, true));
        }
        (bytes, seen)
    }

    const DIGESTS: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

    fn frame(digests: [bool; 2]) -> Frame {
        let mut frame = Frame::new(FROM_HOST);
        frame.configure(digests[0], digests[1]);
        frame
    }

    #[test]
    fn cuts_the_same_whatever_the_split() {
        for digests in DIGESTS {
            let (bytes, expect) = stream(digests);
            for chunk in 1..=bytes.len() {
                let mut frame = frame(digests);
                let seen = feed(&mut frame, &bytes, chunk).unwrap();
                assert!(seen == expect, "digests {digests:?} chunk {chunk}");
                assert!(!frame.in_data() && frame.head.is_empty());
            }
        }
    }

    #[test]
    fn notices_every_flipped_bit() {
        let both = [true, true];
        let parts = [(kind::CAPSULE_CMD, 32), (kind::H2C_DATA, 13), (kind::CAPSULE_CMD, 0)];
        let bytes: Vec<u8> =
            parts.iter().flat_map(|(kind, len)| pdu(*kind, 0, &vec![7; *len], both).0).collect();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            for chunk in [7, 4096] {
                let Ok(seen) = feed(&mut frame(both), &bad, chunk) else { continue };
                assert!(seen.iter().any(|pdu| !pdu.2), "byte {at} chunk {chunk}");
            }
        }
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        let good = pdu(kind::CAPSULE_CMD, 0, &[1; 8], [false, false]).0;
        for (at, value, field) in [
            (0, 0x05, 0), // a response from a host
            (0, 0x08, 0), // no such kind
            (0, 0xff, 0), // the same
            (1, 0x01, 1), // a header digest that was not agreed on
            (1, 0x02, 1), // the same for data
            (2, 71, 2),   // too short
            (2, 73, 2),   // too long
            (3, 68, 3),   // data inside the header
            (3, 74, 3),   // not aligned
            (3, 80, 4),   // data begins where the PDU ends
            (3, 84, 4),   // and behind it
            (4, 71, 4),   // shorter than its header
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            for chunk in [1, 4096] {
                let error = feed(&mut frame([false, false]), &bad, chunk).unwrap_err();
                assert_eq!((error.status, error.at), (1, field), "byte {at} = {value}");
                assert_eq!(error.information, field as u32);
            }
        }
        // Data that the kind cannot have, or too much of it.
        for (kind, len) in [(kind::IC_REQ, 136), (kind::H2C_TERM_REQ, 153), (kind::H2C_DATA, 24)] {
            let mut bad = pdu(kind, 0, &[], [false, false]).0;
            bad[4] = len;
            bad[3] = 24;
            let error = feed(&mut frame([false, false]), &bad, 4096).unwrap_err();
            assert_eq!(error.at, 4, "kind {kind}");
        }
    }

    #[test]
    fn a_missing_digest_is_noticed() {
        let plain = pdu(kind::CAPSULE_CMD, 0, &[1; 8], [false, false]).0;
        for digests in &DIGESTS[1..] {
            let error = feed(&mut frame(*digests), &plain, 4096).unwrap_err();
            assert_eq!(error.at, 1);
        }
    }
}
