//! Constants and headers of the protocol, all big-endian.

use block::Fault;

use crate::{Ending, Violation};

pub(super) const MAGIC: u64 = 0x4e42_444d_4147_4943;
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(super) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(super) const CHUNK_MAGIC: u32 = 0x668e_33ef;

pub(super) const GREETING_BYTES: usize = 18;
pub(super) const OPTION_BYTES: usize = 16;
pub(super) const OPTION_REPLY_BYTES: usize = 20;
pub(super) const REQUEST_BYTES: usize = 28;
pub(super) const SIMPLE_BYTES: usize = 16;
pub(super) const CHUNK_BYTES: usize = 20;

/// Longest read or write by default.
//= NBD §Block size constraints: without them, requests are at most 32 MiB.
pub(super) const REQUEST_MAX_BYTES: u32 = 32 << 20;

/// Handshake flags.
pub(super) mod hello {
    pub(in super::super) const FIXED_NEWSTYLE: u16 = 1;
    pub(in super::super) const NO_ZEROES: u16 = 2;
}

/// The flags with which a client answers a greeting.
//= NBD §Newstyle negotiation: NBDMAGIC, IHAVEOPT, and the flags of the server.
pub(super) fn client_flags(greeting: &[u8; GREETING_BYTES]) -> Result<u32, Ending> {
    if u64_at(greeting, 0) != MAGIC {
        let rule = "NBD §Newstyle negotiation: a server says NBDMAGIC first";
        return Err(Ending::Violation(Violation { rule, at: 0 }));
    }
    let flags = u16_at(greeting, 16);
    if u64_at(greeting, 8) != OPTION_MAGIC || flags & hello::FIXED_NEWSTYLE == 0 {
        let why = "the server speaks an old NBD protocol, not fixed newstyle";
        return Err(Ending::Refused(why.to_owned()));
    }
    Ok(u32::from(flags & (hello::FIXED_NEWSTYLE | hello::NO_ZEROES)))
}

/// Options.
pub(super) mod option {
    pub(in super::super) const EXPORT_NAME: u32 = 1;
    pub(in super::super) const ABORT: u32 = 2;
    pub(in super::super) const LIST: u32 = 3;
    pub(in super::super) const INFO: u32 = 6;
    pub(in super::super) const GO: u32 = 7;
    pub(in super::super) const STRUCTURED_REPLY: u32 = 8;
    pub(in super::super) const LIST_META_CONTEXT: u32 = 9;
    pub(in super::super) const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub(super) mod reply {
    pub(in super::super) const ACK: u32 = 1;
    pub(in super::super) const SERVER: u32 = 2;
    pub(in super::super) const INFO: u32 = 3;
    pub(in super::super) const META_CONTEXT: u32 = 4;
    pub(in super::super) const ERROR: u32 = 1 << 31;
    pub(in super::super) const UNSUPPORTED: u32 = ERROR | 1;
    pub(in super::super) const POLICY: u32 = ERROR | 2;
    pub(in super::super) const INVALID: u32 = ERROR | 3;
    pub(in super::super) const TLS_REQUIRED: u32 = ERROR | 5;
    pub(in super::super) const UNKNOWN: u32 = ERROR | 6;
    pub(in super::super) const TOO_BIG: u32 = ERROR | 9;
}

/// Information items of GO and INFO.
pub(super) mod info {
    pub(in super::super) const EXPORT: u16 = 0;
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const DESCRIPTION: u16 = 2;
    pub(in super::super) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub(super) mod flag {
    pub(in super::super) const HAS_FLAGS: u16 = 1;
    pub(in super::super) const READ_ONLY: u16 = 1 << 1;
    pub(in super::super) const FLUSH: u16 = 1 << 2;
    pub(in super::super) const FUA: u16 = 1 << 3;
    pub(in super::super) const TRIM: u16 = 1 << 5;
    pub(in super::super) const WRITE_ZEROES: u16 = 1 << 6;
    pub(in super::super) const MULTI_CONN: u16 = 1 << 8;
}

/// Commands.
pub(super) mod command {
    pub(in super::super) const READ: u16 = 0;
    pub(in super::super) const WRITE: u16 = 1;
    pub(in super::super) const DISC: u16 = 2;
    pub(in super::super) const FLUSH: u16 = 3;
    pub(in super::super) const TRIM: u16 = 4;
    pub(in super::super) const WRITE_ZEROES: u16 = 6;
    pub(in super::super) const BLOCK_STATUS: u16 = 7;

    /// Command flags.
    pub(in super::super) const FUA: u16 = 1;
    pub(in super::super) const NO_HOLE: u16 = 2;
    pub(in super::super) const REQ_ONE: u16 = 8;
}

/// The metadata context that says which parts of an export are allocated.
pub(super) mod allocation {
    pub(in super::super) const NAME: &[u8] = b"base:allocation";
    /// All contexts of its namespace, in a list.
    pub(in super::super) const NAMESPACE: &[u8] = b"base:";
    /// Bytes of a descriptor: length, status flags.
    pub(in super::super) const DESCRIPTOR_BYTES: usize = 8;
    pub(in super::super) const HOLE: u32 = 1;
    pub(in super::super) const ZERO: u32 = 2;
}

/// Chunks of structured replies.
pub(super) mod chunk {
    pub(in super::super) const DONE: u16 = 1;
    pub(in super::super) const NONE: u16 = 0;
    pub(in super::super) const DATA: u16 = 1;
    pub(in super::super) const HOLE: u16 = 2;
    pub(in super::super) const BLOCK_STATUS: u16 = 5;
    pub(in super::super) const ERROR: u16 = 1 << 15 | 1;
    pub(in super::super) const ERROR_OFFSET: u16 = 1 << 15 | 2;
}

/// Errors.
pub(super) mod error {
    pub(in super::super) const PERM: u32 = 1;
    pub(in super::super) const IO: u32 = 5;
    pub(in super::super) const NOMEM: u32 = 12;
    pub(in super::super) const INVAL: u32 = 22;
    pub(in super::super) const NOSPC: u32 = 28;
    pub(in super::super) const NOTSUP: u32 = 95;
    pub(in super::super) const SHUTDOWN: u32 = 108;
}

/// The NBD error of a fault.
pub(super) fn error_of(fault: Fault) -> u32 {
    match fault {
        Fault::OutOfRange => error::INVAL,
        Fault::ReadOnly => error::PERM,
        Fault::NoSpace => error::NOSPC,
        Fault::Unsupported => error::NOTSUP,
        Fault::Medium
        | Fault::Miscompare
        | Fault::Disconnected
        | Fault::Aborted
        | Fault::Unanswered => error::IO,
    }
}

/// The fault of an NBD error.
pub(super) fn fault_of(number: u32) -> Fault {
    match number {
        error::PERM => Fault::ReadOnly,
        error::NOSPC => Fault::NoSpace,
        error::NOTSUP => Fault::Unsupported,
        error::SHUTDOWN => Fault::Disconnected,
        _ => Fault::Medium,
    }
}

/// An error in words.
pub(super) fn words(number: u32) -> String {
    let name = match number {
        error::PERM => "NBD_EPERM: not permitted",
        error::IO => "NBD_EIO: I/O error",
        error::NOMEM => "NBD_ENOMEM: no memory",
        error::INVAL => "NBD_EINVAL: invalid request",
        error::NOSPC => "NBD_ENOSPC: no space left",
        75 => "NBD_EOVERFLOW: the reply would be too long",
        error::NOTSUP => "NBD_ENOTSUP: not supported",
        error::SHUTDOWN => "NBD_ESHUTDOWN: the server is shutting down",
        _ => return format!("error {number}"),
    };
    name.to_owned()
}

/// Start of every description of ours.
const OURS: &str = "Drumfire ";
/// Stands before the instance in a description, 16 hexadecimal digits.
const RUN: &str = ", run ";

/// A description with an instance.
//= NBD §NBD_INFO_DESCRIPTION: words for people. There is no other place for it.
pub(super) fn with_instance(description: &str, instance: u64) -> String {
    format!("{description}{RUN}{instance:016x}")
}

/// Returns a description without its instance, and the instance if the server is ours.
pub(super) fn without_instance(description: &str) -> (&str, Option<u64>) {
    let split = description.rsplit_once(RUN).filter(|_| description.starts_with(OURS));
    let split = split.filter(|(_, digits)| digits.len() == 16);
    let number = split.and_then(|(_, digits)| u64::from_str_radix(digits, 16).ok());
    match (split, number) {
        (Some((words, _)), Some(number)) => (words, Some(number)),
        _ => (description, None),
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) flags: u16,
    pub(super) kind: u16,
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl Asked {
    /// `None` if the magic number is wrong.
    #[inline]
    pub(super) fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Asked> {
        (u32_at(bytes, 0) == REQUEST_MAGIC).then(|| Asked {
            flags: u16_at(bytes, 4),
            kind: u16_at(bytes, 6),
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            len: u32_at(bytes, 24),
        })
    }

    #[inline]
    pub(super) fn build(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

#[inline]
pub(super) fn simple_reply(cookie: u64, error: u32) -> [u8; SIMPLE_BYTES] {
    let mut bytes = [0; SIMPLE_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

#[inline]
pub(super) fn chunk_head(flags: u16, kind: u16, cookie: u64, len: u32) -> [u8; CHUNK_BYTES] {
    let mut bytes = [0; CHUNK_BYTES];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn request_golden() {
        let asked = Asked { flags: 1, kind: 1, cookie: 0x0102, offset: 4096, len: 512 };
        let bytes = asked.build();
        let golden = [
            0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0x10, 0,
            0, 0, 2, 0,
        ];
        assert_eq!((bytes, Asked::parse(&bytes)), (golden, Some(asked)));
        assert_eq!(Asked::parse(&[0; REQUEST_BYTES]), None);
        assert_eq!(simple_reply(7, 5)[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5]);
        let head = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 2, 8];
        assert_eq!(chunk_head(chunk::DONE, chunk::DATA, 7, 520), head);
    }

    #[test]
    fn an_instance_stands_behind_the_words() {
        let told = with_instance("Drumfire RAM", 0x1f);
        assert_eq!(told, "Drumfire RAM, run 000000000000001f");
        assert_eq!(without_instance(&told), ("Drumfire RAM", Some(0x1f)));
        for strange in ["", "Drumfire RAM", "Drumfire RAM, run 1", "a disk, run 000000000000001f"] {
            assert_eq!(without_instance(strange), (strange, None));
        }
    }

    #[test]
    fn an_error_stays_what_it_was() {
        for fault in [Fault::ReadOnly, Fault::NoSpace, Fault::Unsupported, Fault::Medium] {
            assert_eq!(fault_of(error_of(fault)), fault);
        }
    }
}
