//! Layouts of NVMe/TCP PDUs and of their entries: parsers and builders.
//!
//! Builders leave digests out; the sender appends them and sets the flags. Lengths and flags are as
//! on the wire; the endpoints check them. Multi-byte fields are little-endian.

mod command;
mod completion;
mod data;
mod init;

pub use command::{Command, CommandBuilder, SglKind, admin, fabrics, io};
pub use completion::{Completion, Status};
pub use data::{Data, ReadyToTransfer};
pub use init::{InitRequest, InitResponse, Terminate};

/// PDU types, in byte 0.
//= NVMe-TCP §3.6.1: PDU types.
pub mod kind {
    #![allow(missing_docs)] // The names are those of the standard.
    pub const IC_REQ: u8 = 0x00;
    pub const IC_RESP: u8 = 0x01;
    pub const H2C_TERM_REQ: u8 = 0x02;
    pub const C2H_TERM_REQ: u8 = 0x03;
    pub const CAPSULE_CMD: u8 = 0x04;
    pub const CAPSULE_RESP: u8 = 0x05;
    pub const H2C_DATA: u8 = 0x06;
    pub const C2H_DATA: u8 = 0x07;
    pub const R2T: u8 = 0x09;
}

/// Flags, in byte 1.
//= NVMe-TCP §3.6.1: HDGSTF and DDGSTF of all PDUs, LAST_PDU and SUCCESS of data PDUs.
pub mod flag {
    #![allow(missing_docs)] // The names are those of the standard.
    pub const HEADER_DIGEST: u8 = 0x01;
    pub const DATA_DIGEST: u8 = 0x02;
    pub const LAST: u8 = 0x04;
    pub const SUCCESS: u8 = 0x08;
}

/// Fatal error status.
//= NVMe-TCP §3.6.2.5: fatal error status.
pub mod fatal {
    /// Invalid PDU header field; the information is its offset.
    pub const INVALID_HEADER_FIELD: u16 = 0x01;
    /// PDU sequence error.
    pub const SEQUENCE_ERROR: u16 = 0x02;
    /// Header digest error; the information is the digest received.
    pub const HEADER_DIGEST_ERROR: u16 = 0x03;
    /// Data transfer out of range.
    pub const OUT_OF_RANGE: u16 = 0x04;
    /// Data transfer limit or R2T limit exceeded.
    pub const LIMIT_EXCEEDED: u16 = 0x05;
    /// Unsupported parameter; the information is its offset.
    pub const UNSUPPORTED_PARAMETER: u16 = 0x06;

    /// The error in words.
    pub fn name(status: u16) -> &'static str {
        match status {
            INVALID_HEADER_FIELD => "invalid field in a PDU header",
            SEQUENCE_ERROR => "PDU out of sequence",
            HEADER_DIGEST_ERROR => "wrong header digest",
            OUT_OF_RANGE => "data out of range",
            LIMIT_EXCEEDED => "limit exceeded",
            UNSUPPORTED_PARAMETER => "unsupported parameter",
            _ => "unknown error",
        }
    }
}

/// Length of the common header.
//= NVMe-TCP §3.6.1: the common header is eight bytes.
pub const COMMON_BYTES: usize = 8;
/// Length of the headers of ICReq and ICResp.
pub const INIT_BYTES: usize = 128;
/// Length of the header of a command capsule.
pub const CAPSULE_BYTES: usize = 72;
/// Length of all other headers.
pub const SHORT_BYTES: usize = 24;
/// Length of a digest.
//= NVMe-TCP §3.4.1.4: digests are CRC-32C, four bytes.
pub const DIGEST_BYTES: usize = 4;
/// Longest header in error that a TermReq carries.
//= NVMe-TCP §3.6.2.5: a TermReq is at most 152 bytes long.
pub const OFFENDER_MAX_BYTES: usize = 128;

/// The header of all PDUs but four.
pub type Short = [u8; SHORT_BYTES];
/// A submission queue entry.
pub type Entry = [u8; 64];

/// Header length of a PDU type, if the type exists.
#[inline(always)]
pub fn header_len(kind: u8) -> Option<usize> {
    match kind {
        kind::CAPSULE_CMD => Some(CAPSULE_BYTES),
        kind::IC_REQ | kind::IC_RESP => Some(INIT_BYTES),
        0x00..=0x07 | kind::R2T => Some(SHORT_BYTES),
        _ => None,
    }
}

/// The common header of all PDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// One of [`kind`].
    pub kind: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Length of the header without its digest.
    pub header_len: u8,
    /// Offset of the data; zero without data.
    pub data_offset: u8,
    /// Length of the whole PDU.
    pub len: u32,
}

impl Common {
    /// Parses the header.
    #[inline(always)]
    pub fn parse(bytes: &[u8; COMMON_BYTES]) -> Common {
        let [kind, flags, header_len, data_offset, ..] = *bytes;
        Common { kind, flags, header_len, data_offset, len: get32(bytes, 4) }
    }

    /// Builds the header.
    #[inline(always)]
    pub fn build(&self) -> [u8; COMMON_BYTES] {
        let [a, b, c, d] = self.len.to_le_bytes();
        [self.kind, self.flags, self.header_len, self.data_offset, a, b, c, d]
    }
}

#[inline(always)]
pub(super) fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(super) fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
pub(super) fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from(get32(bytes, at)) | u64::from(get32(bytes, at + 4)) << 32
}

/// A header under construction.
struct Layout<const N: usize>([u8; N]);

impl<const N: usize> Layout<N> {
    /// A PDU without data, the rest zero.
    #[inline(always)]
    fn new(kind: u8) -> Layout<N> {
        let len = N as u32;
        Layout([0; N]).common(Common { kind, flags: 0, header_len: N as u8, data_offset: 0, len })
    }

    #[inline(always)]
    fn common(self, common: Common) -> Layout<N> {
        self.put(0, common.build())
    }

    #[inline(always)]
    fn put<const M: usize>(mut self, at: usize, bytes: [u8; M]) -> Layout<N> {
        self.0[at..at + M].copy_from_slice(&bytes);
        self
    }

    #[inline(always)]
    fn put16(self, at: usize, value: u16) -> Layout<N> {
        self.put(at, value.to_le_bytes())
    }

    #[inline(always)]
    fn put32(self, at: usize, value: u32) -> Layout<N> {
        self.put(at, value.to_le_bytes())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Bytes from hexadecimal, zero-filled.
    pub(super) fn hexadecimal<const N: usize>(text: &str) -> [u8; N] {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let text = std::str::from_utf8(pair).unwrap();
            *byte = u8::from_str_radix(text, 16).unwrap();
        }
        bytes
    }

    #[test]
    fn common_header_is_laid_out_as_the_standard_says() {
        let common =
            Common { kind: 4, flags: 3, header_len: 72, data_offset: 76, len: 0x0001_0203 };
        let bytes = hexadecimal("04 03 48 4c 03020100");
        assert_eq!(common.build(), bytes);
        assert_eq!(Common::parse(&bytes), common);
    }

    #[test]
    fn every_kind_has_its_length() {
        let lens: Vec<_> = (0..=10).map(header_len).collect();
        let [short, long] = [Some(24), Some(128)];
        let expect = [long, long, short, short, Some(72), short, short, short, None, short, None];
        assert_eq!(lens, expect);
    }
}
