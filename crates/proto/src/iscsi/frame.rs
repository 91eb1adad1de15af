//! Splits a byte stream into PDUs: whole headers, and data segments in parts as received.
//!
//! A header that was received as a whole is used in place; one that is split over two receives, or
//! has additional segments, is collected. Data is never collected here: the caller takes each part
//! where it is. Both digests are checked.

use crate::Violation;
use crate::crc32c::crc32c;
use crate::flow::{Collector, DIGEST_BYTES, DataEnd, DataSegment};

use super::pdu::{HEADER_BYTES, Header, additional_len, data_len};

/// State of the incoming stream.
#[derive(Debug)]
pub(super) struct Frame {
    /// Bytes of a header that was received in parts.
    head: Collector,
    header_digest: bool,
    data_digest: bool,
    /// MaxRecvDataSegmentLength.
    max_data: u32,
    segment: DataSegment,
}

/// The next header.
pub(super) enum Next<'a> {
    /// The PDU is in the received bytes, without additional header segments.
    Whole(&'a Header),
    /// Collected; its additional header segments were skipped.
    Collected(Header),
    /// Incomplete.
    Partial,
}

impl Frame {
    /// Returns a frame for the start of a stream, without digests, as during login.
    pub(super) fn new(max_data: u32) -> Frame {
        Frame {
            head: Collector::new(HEADER_BYTES + 1020 + DIGEST_BYTES),
            header_digest: false,
            data_digest: false,
            max_data,
            segment: DataSegment::none(),
        }
    }

    /// Applies the negotiated parameters from the next PDU on.
    pub(super) fn configure(&mut self, header_digest: bool, data_digest: bool, max_data: u32) {
        self.header_digest = header_digest;
        self.data_digest = data_digest;
        self.max_data = max_data;
    }

    /// Whether a data segment is in flight, so that [`data`](Self::data) is to be called.
    #[inline(always)]
    pub(super) fn in_data(&self) -> bool {
        self.segment.is_open()
    }

    /// Whether a PDU begins with the next byte.
    pub(super) fn at_start(&self) -> bool {
        !self.in_data() && self.head.is_empty()
    }

    /// Takes the next header off `bytes`.
    #[inline(always)]
    pub(super) fn header<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Next<'a>, Violation> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return self.collect(bytes);
        };
        if !self.head.is_empty() || additional_len(header) != 0 || self.header_digest {
            return self.header_with_digest(bytes);
        }
        *bytes = rest;
        self.begin(header)?;
        Ok(Next::Whole(header))
    }

    /// Takes the next header, with its digest; collects a split or extended one.
    fn header_with_digest<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Next<'a>, Violation> {
        let whole = HEADER_BYTES + DIGEST_BYTES;
        let plain = self.head.is_empty() && bytes[4] == 0 && self.header_digest;
        if !plain || bytes.len() < whole {
            return self.collect(bytes);
        }
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().expect("length checked");
        let (digest, rest) = rest.split_first_chunk::<DIGEST_BYTES>().expect("length checked");
        check_digest(header, *digest)?;
        *bytes = rest;
        self.begin(header)?;
        Ok(Next::Whole(header))
    }

    /// Collects a header that came in parts, with its additional segments and digest.
    #[cold]
    fn collect<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Next<'a>, Violation> {
        let digest = if self.header_digest { DIGEST_BYTES } else { 0 };
        // TotalAHSLength is the fifth byte.
        if !self.head.fill(bytes, 5) {
            return Ok(Next::Partial);
        }
        let additional = usize::from(self.head.bytes()[4]) * 4;
        if !self.head.fill(bytes, HEADER_BYTES + additional + digest) {
            return Ok(Next::Partial);
        }
        let (head, tail) = self.head.bytes().split_at(HEADER_BYTES + additional);
        if let Some(tail) = tail.first_chunk() {
            check_digest(head, *tail)?;
        }
        let header = *head.first_chunk().expect("collected to its length");
        self.begin(&header)?;
        Ok(Next::Collected(header))
    }

    /// Returns the additional header segments of the header that was just collected. None of our
    /// commands supports any, so only their framing matters.
    #[cfg(test)]
    pub(super) fn additional(&self) -> &[u8] {
        let head = self.head.bytes();
        let end = head.len() - if self.header_digest { DIGEST_BYTES } else { 0 };
        head.get(HEADER_BYTES..end).unwrap_or_default()
    }

    /// The header that was collected last, until it is handled.
    pub(super) fn collected(&self) -> Option<&Header> {
        self.head.bytes().first_chunk()
    }

    /// Must be called when a collected header was handled.
    pub(super) fn forget_header(&mut self) {
        self.head.clear();
    }

    #[inline(always)]
    fn begin(&mut self, header: &Header) -> Result<(), Violation> {
        let len = data_len(header);
        if len == 0 {
            return Ok(());
        }
        self.begin_data(len)
    }

    fn begin_data(&mut self, len: u32) -> Result<(), Violation> {
        if len > self.max_data {
            let rule = "RFC 7143 §13.12: data segments are at most MaxRecvDataSegmentLength";
            return Err(Violation { rule, at: 5 });
        }
        //= RFC 7143 §11.2.4: the data segment is padded to whole words.
        let padding = (len.wrapping_neg() & 3) as u8;
        self.segment.begin(len, padding, self.data_digest);
        Ok(())
    }

    /// Takes the next part of the data segment off `bytes`, and says whether that was all.
    #[inline(always)]
    pub(super) fn data<'a>(&mut self, bytes: &mut &'a [u8]) -> (&'a [u8], DataEnd) {
        self.segment.take(bytes)
    }
}

//= RFC 7143 §7.8: a header digest error leaves no way to find the next PDU but a new connection.
fn check_digest(head: &[u8], digest: [u8; DIGEST_BYTES]) -> Result<(), Violation> {
    if crc32c(head).to_le_bytes() == digest {
        return Ok(());
    }
    Err(Violation { rule: "RFC 7143 §11.2.3: the header digest is the CRC-32C", at: HEADER_BYTES })
}

#[cfg(test)]
mod test {
    use super::*;

    /// Parts of a stream: (header, additional segments, data, intact).
    type Seen = Vec<(Header, Vec<u8>, Vec<u8>, bool)>;

    fn feed(frame: &mut Frame, stream: &[u8], chunk: usize) -> Result<Seen, Violation> {
        let mut seen: Seen = Vec::new();
        for mut bytes in stream.chunks(chunk) {
            while !bytes.is_empty() {
                if frame.in_data() {
                    let (part, end) = frame.data(&mut bytes);
                    let last = seen.last_mut().unwrap();
                    last.2.extend_from_slice(part);
                    last.3 = end == DataEnd::Intact;
                    continue;
                }
                match frame.header(&mut bytes)? {
                    Next::Whole(header) => seen.push((*header, Vec::new(), Vec::new(), true)),
                    Next::Collected(header) => {
                        seen.push((header, frame.additional().to_vec(), Vec::new(), true));
                        frame.forget_header();
                    }
                    Next::Partial => assert!(bytes.is_empty()),
                }
            }
        }
        Ok(seen)
    }

    /// Three PDUs: plain, with additional segments, with odd data.
    fn stream(header_digest: bool, data_digest: bool) -> (Vec<u8>, Seen) {
        let mut bytes = Vec::new();
        let mut seen = Seen::new();
        for (words, len) in [(0_usize, 0_usize), (3, 0), (0, 13), (255, 1), (0, 64), (0, 0)] {
            let mut header = [seen.len() as u8; HEADER_BYTES];
            header[4..8].copy_from_slice(&[words as u8, 0, 0, len as u8]);
            let mut head = header.to_vec();
            let additional: Vec<u8> = (0..words * 4).map(|i| i as u8).collect();
            head.extend(&additional);
            bytes.extend(&head);
            if header_digest {
                bytes.extend(crc32c(&head).to_le_bytes());
            }
            let data: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x55).collect();
            let mut padded = data.clone();
            padded.resize(len.next_multiple_of(4), 0xee);
            bytes.extend(&padded);
            if data_digest && len != 0 {
                bytes.extend(crc32c(&padded).to_le_bytes());
            }
            seen.push((header, additional, data, true));
        }
        (bytes, seen)
    }

    #[test]
    fn cuts_the_same_whatever_the_split() {
        for digests in 0..4 {
            let (header_digest, data_digest) = (digests & 1 != 0, digests & 2 != 0);
            let (bytes, expect) = stream(header_digest, data_digest);
            for chunk in 1..=bytes.len() {
                let mut frame = Frame::new(64);
                frame.configure(header_digest, data_digest, 64);
                let seen = feed(&mut frame, &bytes, chunk).unwrap();
                assert!(seen == expect, "digests {digests} chunk {chunk}");
                assert!(!frame.in_data() && frame.head.is_empty());
            }
        }
    }

    #[test]
    fn notices_every_flipped_bit() {
        let (bytes, expect) = stream(true, true);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            for chunk in [7, 4096] {
                let mut frame = Frame::new(64);
                frame.configure(true, true, 64);
                let Ok(seen) = feed(&mut frame, &bad, chunk) else { continue };
                let noticed = seen.iter().any(|pdu| !pdu.3) || seen.len() < expect.len();
                assert!(noticed, "byte {at} chunk {chunk}");
            }
        }
    }

    #[test]
    fn refuses_data_longer_than_agreed() {
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&[0, 0, 0, 65]);
        for chunk in [1, 48] {
            let error = feed(&mut Frame::new(64), &header, chunk).unwrap_err();
            assert_eq!(error.at, 5);
        }
    }
}
