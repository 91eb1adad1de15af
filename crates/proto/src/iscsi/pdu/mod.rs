//! The iSCSI PDUs: a type each, which is a table of the fields of its 48-byte header.
//!
//! Types and accessors are small enough to be inlined away: a parser costs only the fields that are
//! used. [`Pdu`] can be sent. Lengths and flags are as on the wire; the endpoints check them.
//! Multi-byte fields are big-endian.

mod command;
mod data;
mod layout;
mod login;
mod talk;

use layout::Place as _;

pub use command::{Command, Response, TaskRequest, TaskResponse};
pub use data::{DataIn, DataOut, ReadyToTransfer};
pub use login::{LoginRequest, LoginResponse, LogoutRequest, LogoutResponse};
pub use talk::{AsyncMessage, NopIn, NopOut, Reject, TextRequest, TextResponse};

/// A basic header segment (BHS).
pub type Header = [u8; HEADER_BYTES];

/// Length of a basic header segment.
//= RFC 7143 §11.2: the BHS is 48 bytes.
pub const HEADER_BYTES: usize = 48;

/// The reserved task tag or transfer tag, which means no tag.
//= RFC 7143 §11.2.1.8: the value 0xffffffff is reserved.
pub const NO_TAG: u32 = u32::MAX;

/// Opcodes of headers, without the I bit.
//= RFC 7143 §11.2.1.2
pub mod opcode {
    #![allow(missing_docs)] // The names are those of the standard.
    pub const NOP_OUT: u8 = 0x00;
    pub const COMMAND: u8 = 0x01;
    pub const TASK_REQUEST: u8 = 0x02;
    pub const LOGIN_REQUEST: u8 = 0x03;
    pub const TEXT_REQUEST: u8 = 0x04;
    pub const DATA_OUT: u8 = 0x05;
    pub const LOGOUT_REQUEST: u8 = 0x06;
    pub const SNACK: u8 = 0x10;
    pub const NOP_IN: u8 = 0x20;
    pub const RESPONSE: u8 = 0x21;
    pub const TASK_RESPONSE: u8 = 0x22;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const TEXT_RESPONSE: u8 = 0x24;
    pub const DATA_IN: u8 = 0x25;
    pub const LOGOUT_RESPONSE: u8 = 0x26;
    pub const READY_TO_TRANSFER: u8 = 0x31;
    pub const ASYNC_MESSAGE: u8 = 0x32;
    pub const REJECT: u8 = 0x3f;
}

/// Immediate delivery (I bit), in byte 0.
//= RFC 7143 §11.2.1.1
const IMMEDIATE: u8 = 0x40;
/// Last PDU of a sequence (F bit), in byte 1.
const FINAL: u8 = 0x80;
/// The text continues in the next PDU (C bit), in byte 1.
const CONTINUE: u8 = 0x40;

/// Residual flags (O and U bits), in byte 1.
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

/// The opcode of a PDU, without the I bit.
#[inline(always)]
pub fn opcode_of(header: &Header) -> u8 {
    header[0] & 0x3f
}

/// Whether a request has the I bit.
#[inline(always)]
pub fn is_immediate(header: &Header) -> bool {
    header[0] & IMMEDIATE != 0
}

/// Length of the data segment in bytes, without padding and digest: at most 2²⁴−1.
#[inline(always)]
pub fn data_len(header: &Header) -> u32 {
    get32(header, 4) & 0xff_ffff
}

/// Length of the additional header segments in bytes: at most 1020.
//= RFC 7143 §11.2.1.5: TotalAHSLength counts words of four bytes.
#[inline(always)]
pub fn additional_len(header: &Header) -> usize {
    usize::from(header[4]) * 4
}

/// The CmdSN of a request.
#[inline(always)]
pub fn command_number(header: &Header) -> u32 {
    get32(header, 24)
}

/// The ExpStatSN of a request.
#[inline(always)]
pub fn expected_status_number(header: &Header) -> u32 {
    get32(header, 28)
}

/// The command descriptor block of a SCSI command.
#[inline(always)]
pub fn cdb(header: &Header) -> &[u8; 16] {
    header.last_chunk().expect("a header has 48 bytes")
}

/// The LUN field.
#[inline(always)]
pub fn lun(header: &Header) -> [u8; 8] {
    get_lun(header)
}

/// The initiator task tag (ITT).
#[inline(always)]
pub fn task_tag(header: &Header) -> u32 {
    get32(header, 16)
}

#[inline(always)]
fn get16(header: &Header, at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

#[inline(always)]
fn get32(header: &Header, at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[inline(always)]
fn get_lun(header: &Header) -> [u8; 8] {
    *header[8..].first_chunk().expect("a header has 48 bytes")
}

/// The sequence numbers of every target PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// StatSN. Reserved in Data-In without status; in R2T, and in NOP-In without an ITT, the next
    /// one, which is not consumed.
    pub status: u32,
    /// ExpCmdSN: the next CmdSN that the target expects.
    pub expected: u32,
    /// MaxCmdSN: the last CmdSN of the command window.
    pub max: u32,
}

impl Numbers {
    /// The sequence numbers of any target PDU.
    #[inline(always)]
    pub fn parse(header: &Header) -> Numbers {
        layout::At(24).get(header)
    }
}

/// A PDU that can be sent.
pub trait Pdu {
    /// Fills in all of `header`.
    fn write(&self, header: &mut Header);

    /// Returns the header by value. [`write`](Self::write) into its final place is much faster: the
    /// fields are stored one by one, and a wide copy right afterwards misses store forwarding.
    fn build(&self) -> Header {
        let mut header = [0; HEADER_BYTES];
        self.write(&mut header);
        header
    }
}

#[cfg(test)]
mod test {
    use super::*;

    pub(super) const LUN: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
    pub(super) const NUMBERS: Numbers = Numbers { status: 0x21, expected: 0x22, max: 0x23 };

    /// The first 24 bytes as given, the sequence numbers, and the last twelve bytes.
    pub(super) fn answer(first: &str, last: [u8; 12]) -> Header {
        let mut expect = header(first);
        expect[24..36].copy_from_slice(&[0, 0, 0, 0x21, 0, 0, 0, 0x22, 0, 0, 0, 0x23]);
        expect[36..].copy_from_slice(&last);
        expect
    }

    /// The first 24 bytes of a header in hexadecimal, the rest zero.
    pub(super) fn header(hexadecimal: &str) -> Header {
        let digits: Vec<u8> = hexadecimal.bytes().filter(|byte| *byte != b' ').collect();
        let mut header = [0; HEADER_BYTES];
        for (byte, pair) in header.iter_mut().zip(digits.chunks(2)) {
            let text = std::str::from_utf8(pair).unwrap();
            *byte = u8::from_str_radix(text, 16).unwrap();
        }
        header
    }

    /// Checks parser and builder against the bytes.
    pub(super) fn golden<P: PartialEq + std::fmt::Debug>(
        pdu: P,
        build: impl Fn(&P) -> Header,
        parse: impl Fn(&Header) -> P,
        expect: Header,
    ) {
        assert_eq!(build(&pdu), expect);
        assert_eq!(parse(&expect), pdu);
    }

    #[test]
    fn lengths_share_a_word() {
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&[3, 1, 2, 4]);
        assert_eq!((additional_len(&header), data_len(&header)), (12, 0x01_0204));
    }
}
