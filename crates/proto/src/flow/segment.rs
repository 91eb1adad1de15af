//! Data of a PDU in a stream that is split anywhere, followed by padding and digest.
//!
//! Data is never collected: its parts go straight to the caller's destination.

use crate::crc32c::{Crc32c, crc32c};

/// Length of a digest.
//= RFC 7143 §11.2.3: a digest is four bytes. NVMe/TCP has the same.
pub(crate) const DIGEST_BYTES: usize = 4;

/// The data of the PDU that comes in.
#[derive(Debug)]
pub(crate) struct DataSegment {
    /// Bytes of data to come.
    left: u32,
    /// Bytes of padding and digest after the data, and those received so far.
    tail_len: u8,
    tail_have: u8,
    tail: [u8; 3 + DIGEST_BYTES],
    has_digest: bool,
    /// Digest of data that arrives in parts, from its first part on.
    crc: Crc32c,
    in_parts: bool,
}

/// Outcome of the data of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataEnd {
    /// More data is to come.
    Open,
    /// All of it came.
    Intact,
    /// All of it came, and the digest differs.
    Corrupt,
}

impl DataSegment {
    /// No data is to come.
    pub(crate) fn none() -> DataSegment {
        DataSegment {
            left: 0,
            tail_len: 0,
            tail_have: 0,
            tail: [0; 3 + DIGEST_BYTES],
            has_digest: false,
            crc: Crc32c::new(),
            in_parts: false,
        }
    }

    /// Expects `len` bytes, followed by `padding`, at most three bytes, and a digest if
    /// `has_digest`.
    #[inline(always)]
    pub(crate) fn begin(&mut self, len: u32, padding: u8, has_digest: bool) {
        self.left = len;
        self.tail_len = padding + if has_digest { DIGEST_BYTES as u8 } else { 0 };
        self.tail_have = 0;
        self.has_digest = has_digest;
    }

    /// Bytes of data to come.
    #[inline(always)]
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Returns whether data, padding or a digest is to come.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.left != 0 || self.tail_len != 0
    }

    /// Takes the next part of the data off `bytes`, and says whether that was all.
    #[inline(always)]
    pub(crate) fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> (&'a [u8], DataEnd) {
        if self.has_digest {
            return self.take_with_digest(bytes);
        }
        let part = self.part(bytes);
        if self.left != 0 {
            return (part, DataEnd::Open);
        }
        if self.tail_len == 0 {
            return (part, DataEnd::Intact);
        }
        (part, self.end(bytes))
    }

    #[inline(always)]
    fn part<'a>(&mut self, bytes: &mut &'a [u8]) -> &'a [u8] {
        let len = bytes.len().min(self.left as usize);
        let (part, rest) = bytes.split_at(len);
        *bytes = rest;
        self.left -= len as u32;
        part
    }

    /// Takes the next part of data with a digest.
    fn take_with_digest<'a>(&mut self, bytes: &mut &'a [u8]) -> (&'a [u8], DataEnd) {
        let (len, tail_len) = (self.left as usize, usize::from(self.tail_len));
        if !self.in_parts && bytes.len() >= len + tail_len {
            // All of it is here.
            let (segment, rest) = bytes.split_at(len + tail_len);
            *bytes = rest;
            (self.left, self.tail_len) = (0, 0);
            //= RFC 7143 §11.2.3: the data digest covers the padding.
            let (padded, digest) = segment.split_at(segment.len() - DIGEST_BYTES);
            let intact = crc32c(padded).to_le_bytes() == digest;
            let end = if intact { DataEnd::Intact } else { DataEnd::Corrupt };
            return (&segment[..len], end);
        }
        let part = self.part(bytes);
        if !self.in_parts {
            self.in_parts = true;
            self.crc = Crc32c::new();
        }
        self.crc.update(part);
        let end = if self.left == 0 { self.end(bytes) } else { DataEnd::Open };
        (part, end)
    }

    /// Collects padding and digest.
    fn end(&mut self, bytes: &mut &[u8]) -> DataEnd {
        let (have, len) = (usize::from(self.tail_have), usize::from(self.tail_len));
        let (now, rest) = bytes.split_at((len - have).min(bytes.len()));
        self.tail[have..have + now.len()].copy_from_slice(now);
        *bytes = rest;
        self.tail_have += now.len() as u8;
        if self.tail_have < self.tail_len {
            return DataEnd::Open;
        }
        self.tail_len = 0;
        if !std::mem::take(&mut self.in_parts) {
            return DataEnd::Intact;
        }
        let (padding, digest) = self.tail[..len].split_at(len - DIGEST_BYTES);
        self.crc.update(padding);
        let intact = self.crc.value().to_le_bytes() == digest;
        if intact { DataEnd::Intact } else { DataEnd::Corrupt }
    }
}
