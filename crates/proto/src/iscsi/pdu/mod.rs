//! The layouts of iSCSI's PDUs: one type each, with a parser and a builder of its 48-byte header.
//!
//! Types and accessors are small enough to vanish when they are inlined: a parser costs the fields
//! that are used. [`Pdu`] is what can be sent. Lengths and flags are as they stand on the wire;
//! whether they make sense here and now is for the two ends to say. Multi-byte fields are
//! big-endian throughout.

mod command;
mod data;
mod login;
mod talk;

pub use command::{Command, Response, TaskRequest, TaskResponse};
pub use data::{DataIn, DataOut, ReadyToTransfer};
pub use login::{LoginRequest, LoginResponse, LogoutRequest, LogoutResponse};
pub use talk::{AsyncMessage, NopIn, NopOut, Reject, TextRequest, TextResponse};

/// A basic header segment.
pub type Header = [u8; HEADER_BYTES];

/// Length of a basic header segment.
//= RFC 7143 §11.2: the BHS is 48 bytes.
pub const HEADER_BYTES: usize = 48;

/// A task tag or transfer tag that names nothing.
//= RFC 7143 §11.2.1.8: the value 0xffffffff is reserved.
pub const NO_TAG: u32 = u32::MAX;

/// First bytes of headers, without the bit for immediate delivery.
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

/// The bit of the first byte that asks for immediate delivery.
//= RFC 7143 §11.2.1.1
const IMMEDIATE: u8 = 0x40;
/// The bit of the second byte that marks the last PDU of a sequence.
const FINAL: u8 = 0x80;
/// The bit of the second byte that says that text goes on in the next PDU.
const CONTINUE: u8 = 0x40;

/// How far the data moved fell short of, or went beyond, what the initiator expected.
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

/// The opcode of a PDU, without the immediate bit.
#[inline(always)]
pub fn opcode_of(header: &Header) -> u8 {
    header[0] & 0x3f
}

/// Whether a request asks for immediate delivery.
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

/// The initiator's task tag.
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

/// The counters that every answer of a target carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// StatSN. Reserved in Data-In without status; the next one, not used up, in R2T and in
    /// NOP-In without a task tag.
    pub status: u32,
    /// ExpCmdSN: the next command number that is wanted.
    pub expected: u32,
    /// MaxCmdSN: the last one that may be used.
    pub max: u32,
}

impl Numbers {
    /// The counters of any answer.
    #[inline(always)]
    pub fn parse(header: &Header) -> Numbers {
        Numbers { status: get32(header, 24), expected: get32(header, 28), max: get32(header, 32) }
    }

    #[inline(always)]
    fn put(self, layout: Layout<'_>) {
        layout.put32(24, self.status).put32(28, self.expected).put32(32, self.max);
    }
}

/// What can be sent: it writes its header.
pub trait Pdu {
    /// Fills in all of `header`.
    fn write(&self, header: &mut Header);

    /// The header by value. Where it has a place already, [`write`](Self::write) there is much
    /// faster: a header is filled in by small pieces, and a processor that copies it in large ones
    /// right afterwards has to wait for them.
    fn build(&self) -> Header {
        let mut header = [0; HEADER_BYTES];
        self.write(&mut header);
        header
    }
}

/// A header under construction.
struct Layout<'a>(&'a mut Header);

impl<'a> Layout<'a> {
    /// First two bytes, rest zero.
    #[inline(always)]
    fn new(header: &'a mut Header, opcode: u8, flags: u8) -> Layout<'a> {
        *header = [0; HEADER_BYTES];
        header[0] = opcode;
        header[1] = flags;
        Layout(header)
    }

    #[inline(always)]
    fn put<const N: usize>(self, at: usize, bytes: [u8; N]) -> Layout<'a> {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    #[inline(always)]
    fn put32(self, at: usize, value: u32) -> Layout<'a> {
        self.put(at, value.to_be_bytes())
    }

    /// The length of the data segment; there are never additional headers.
    #[inline(always)]
    fn data_len(self, len: u32) -> Layout<'a> {
        debug_assert!(len < 1 << 24, "{len} bytes of data do not fit into a PDU");
        self.put32(4, len)
    }
}

/// `flag` if `condition`.
#[inline(always)]
fn flag(condition: bool, flag: u8) -> u8 {
    if condition { flag } else { 0 }
}

#[cfg(test)]
mod test {
    use super::*;

    pub(super) const LUN: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
    pub(super) const NUMBERS: Numbers = Numbers { status: 0x21, expected: 0x22, max: 0x23 };

    /// The first 24 bytes as given, the counters, and the last twelve.
    pub(super) fn answer(first: &str, last: [u8; 12]) -> Header {
        let mut expect = header(first);
        expect[24..36].copy_from_slice(&[0, 0, 0, 0x21, 0, 0, 0, 0x22, 0, 0, 0, 0x23]);
        expect[36..].copy_from_slice(&last);
        expect
    }

    /// The first 24 bytes of a header in hexadecimal, rest zero.
    pub(super) fn header(hexadecimal: &str) -> Header {
        let digits: Vec<u8> = hexadecimal.bytes().filter(|byte| *byte != b' ').collect();
        let mut header = [0; HEADER_BYTES];
        for (byte, pair) in header.iter_mut().zip(digits.chunks(2)) {
            let text = std::str::from_utf8(pair).unwrap();
            *byte = u8::from_str_radix(text, 16).unwrap();
        }
        header
    }

    /// Checks both directions against the bytes.
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
