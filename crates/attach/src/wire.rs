//! FUSE messages as in `linux/fuse.h`: the subset that a single file needs.

/// Major version of the protocol; only the minor version changes.
pub(crate) const MAJOR: u32 = 7;
/// Newest supported minor version: Linux 6.14, with 64-bit flags, mmap of direct I/O files and
/// io_uring.
const MINOR: u32 = 42;
pub(crate) const HEADER_BYTES: usize = 40;
/// Header and arguments of a write; its data follows.
pub(crate) const HEAD_BYTES: usize = HEADER_BYTES + 40;
pub(crate) const ANSWER_BYTES: usize = 16;
/// Maximum bytes of a read or write: with both ends extended to blocks it fits a large buffer.
pub(crate) const IO_MAX_BYTES: u32 = 128 << 10;
/// Maximum background requests (asynchronous I/O, readahead) that the kernel has in flight.
const BACKGROUND: u16 = 1024;
const PAGE_BYTES: u32 = 4096;

const ASYNC_READ: u64 = 1;
const BIG_WRITES: u64 = 1 << 5;
const ASYNC_DIO: u64 = 1 << 15;
const MAX_PAGES: u64 = 1 << 22;
const INIT_EXT: u64 = 1 << 30;
const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
const OVER_IO_URING: u64 = 1 << 41;

/// `open` flags of an answer.
pub(crate) const FOPEN_DIRECT_IO: u32 = 1;
pub(crate) const FOPEN_KEEP_CACHE: u32 = 1 << 1;
pub(crate) const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// `FATTR_…`: attributes that a SETATTR sets.
const SET_MODE: u32 = 1;
const SET_UID: u32 = 2;
const SET_GID: u32 = 4;
const SET_SIZE: u32 = 8;

/// A request from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) unique: u64,
    pub(crate) ask: Ask,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Init {
        major: u32,
        minor: u32,
        readahead: u32,
        flags: u64,
    },
    GetAttr,
    SetAttr(SetAttr),
    Open {
        flags: u32,
    },
    Read {
        offset: u64,
        size: u32,
    },
    Write {
        direct: bool,
        offset: u64,
        size: u32,
    },
    Fsync,
    Allocate {
        offset: u64,
        len: u64,
        mode: u32,
    },
    StatFs,
    /// Answered with success, without data.
    Nod,
    /// A request that gets no reply.
    Silent,
    /// Unknown or malformed.
    Unknown,
}

/// Attributes that a SETATTR changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetAttr {
    pub(crate) size: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

/// The file's attributes, as `stat` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since 1970.
    pub(crate) since: u64,
}

impl Request {
    /// Decodes a request: its header, and the bytes after it in two pieces. The data of a write are
    /// the second piece.
    pub(crate) fn parse(header: &[u8; HEADER_BYTES], arguments: &[u8], data: &[u8]) -> Request {
        let body = Body { arguments, data };
        let (opcode, unique) = (u32_at(header, 4), u64_at(header, 8));
        let least = match opcode {
            14 => 8,
            15 | 16 => 40,
            26 => 16,
            43 => 28,
            4 => 84,
            _ => 0,
        };
        let len = arguments.len() + data.len();
        Request { unique, ask: if len < least { Ask::Unknown } else { body.ask(opcode) } }
    }

    /// Decodes a message of `len` bytes that was read from a channel: its beginning is in `head`,
    /// the rest in `rest`.
    pub(crate) fn parse_message(
        head: &[u8; HEAD_BYTES],
        rest: &[u8],
        len: usize,
    ) -> Option<Request> {
        let (header, arguments) = head.split_first_chunk()?;
        let arguments = &arguments[..len.checked_sub(HEADER_BYTES)?.min(arguments.len())];
        let data = &rest[..len.saturating_sub(HEAD_BYTES).min(rest.len())];
        Some(Request::parse(header, arguments, data))
    }
}

/// Bytes after the header.
struct Body<'a> {
    arguments: &'a [u8],
    data: &'a [u8],
}

impl Body<'_> {
    fn ask(&self, opcode: u32) -> Ask {
        match opcode {
            3 => Ask::GetAttr,
            4 => self.set_attr(),
            14 => Ask::Open { flags: self.u32(0) },
            15 => Ask::Read { offset: self.u64(8), size: self.u32(16) },
            16 if self.data.len() == self.u32(16) as usize => {
                Ask::Write { direct: self.u64(0) != 0, offset: self.u64(8), size: self.u32(16) }
            }
            17 => Ask::StatFs,
            20 => Ask::Fsync,
            // RELEASE, ACCESS, DESTROY.
            18 | 34 | 38 => Ask::Nod,
            // FORGET, INTERRUPT, BATCH_FORGET.
            2 | 36 | 42 => Ask::Silent,
            26 => Ask::Init {
                major: self.u32(0),
                minor: self.u32(4),
                readahead: self.u32(8),
                flags: u64::from(self.u32(12)) | u64::from(self.u32(16)) << 32,
            },
            43 => Ask::Allocate { offset: self.u64(8), len: self.u64(16), mode: self.u32(24) },
            _ => Ask::Unknown,
        }
    }

    fn set_attr(&self) -> Ask {
        let valid = self.u32(0);
        let given = |bit: u32| valid & bit != 0;
        Ask::SetAttr(SetAttr {
            size: given(SET_SIZE).then(|| self.u64(16)),
            mode: given(SET_MODE).then(|| self.u32(68)),
            uid: given(SET_UID).then(|| self.u32(76)),
            gid: given(SET_GID).then(|| self.u32(80)),
        })
    }

    /// The byte at an offset; zero past the end of the message.
    fn byte(&self, at: usize) -> u8 {
        let beyond = at.wrapping_sub(self.arguments.len());
        self.arguments.get(at).or_else(|| self.data.get(beyond)).copied().unwrap_or(0)
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|i| self.byte(at + i)))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|i| self.byte(at + i)))
    }
}

/// Header of an answer with `len` bytes of data; `errno` is 0 or positive.
pub(crate) fn answer_head(unique: u64, errno: i32, len: usize) -> [u8; ANSWER_BYTES] {
    let mut head = [0; ANSWER_BYTES];
    head[..4].copy_from_slice(&((ANSWER_BYTES + len) as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// Features agreed on with the kernel in INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed(u64);

impl Agreed {
    /// All supported features; requests over io_uring if `ring`.
    pub(crate) fn on(offered: u64, ring: bool) -> Agreed {
        let known = ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES | INIT_EXT;
        let ring = if ring { OVER_IO_URING } else { 0 };
        Agreed((known | DIRECT_IO_ALLOW_MMAP | ring) & offered)
    }

    /// Requests come over io_uring.
    pub(crate) fn has_ring(self) -> bool {
        self.0 & OVER_IO_URING != 0
    }
}

/// The answer to INIT.
pub(crate) fn init_answer(minor: u32, readahead: u32, Agreed(agreed): Agreed) -> [u8; 64] {
    let mut out = Put::<64>::new();
    out.u32(MAJOR).u32(MINOR.min(minor)).u32(readahead).u32(agreed as u32);
    out.u16(BACKGROUND).u16(BACKGROUND / 4 * 3).u32(IO_MAX_BYTES).u32(1);
    out.u16((IO_MAX_BYTES / PAGE_BYTES) as u16).u16(0).u32((agreed >> 32) as u32);
    out.bytes
}

impl Attr {
    /// The answer to GETATTR and SETATTR, valid for an hour: only writes change attributes.
    pub(crate) fn answer(&self) -> [u8; 104] {
        let mut out = Put::<104>::new();
        out.u64(3600).u64(0);
        out.u64(1).u64(self.size).u64(self.size / 512);
        out.u64(self.since).u64(self.since).u64(self.since).u32(0).u32(0).u32(0);
        out.u32(self.mode).u32(1).u32(self.uid).u32(self.gid).u32(0).u32(PAGE_BYTES).u32(0);
        out.bytes
    }

    /// The answer to STATFS: a file system filled by the file.
    pub(crate) fn stat_fs(&self) -> [u8; 80] {
        let mut out = Put::<80>::new();
        let blocks = self.size / u64::from(PAGE_BYTES);
        out.u64(blocks).u64(0).u64(0).u64(1).u64(0).u32(PAGE_BYTES).u32(255).u32(PAGE_BYTES);
        out.bytes
    }
}

/// The answer to OPEN.
pub(crate) fn open_answer(handle: u64, flags: u32) -> [u8; 16] {
    let mut out = Put::<16>::new();
    out.u64(handle).u32(flags);
    out.bytes
}

/// Concatenates fields; the rest of the answer is zero.
struct Put<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Put<N> {
    fn new() -> Put<N> {
        Put { bytes: [0; N], at: 0 }
    }

    fn put(&mut self, field: &[u8]) -> &mut Put<N> {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    fn u16(&mut self, value: u16) -> &mut Put<N> {
        self.put(&value.to_ne_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Put<N> {
        self.put(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Put<N> {
        self.put(&value.to_ne_bytes())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod test {
    use super::*;

    fn message(opcode: u32, body: &[u8]) -> ([u8; HEAD_BYTES], Vec<u8>, usize) {
        let len = HEADER_BYTES + body.len();
        let mut bytes = Vec::from((len as u32).to_ne_bytes());
        bytes.extend(opcode.to_ne_bytes());
        bytes.extend(77_u64.to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(body);
        bytes.resize(bytes.len().max(HEAD_BYTES), 0);
        let head = bytes[..HEAD_BYTES].try_into().unwrap();
        (head, bytes[HEAD_BYTES..].to_vec(), len)
    }

    fn parse(opcode: u32, body: &[u8]) -> Ask {
        let (head, rest, len) = message(opcode, body);
        let request = Request::parse_message(&head, &rest, len).unwrap();
        assert_eq!(request.unique, 77);
        request.ask
    }

    #[test]
    fn a_write_is_as_long_as_its_data() {
        let mut body = vec![0; 40];
        body[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
        body[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        body.extend([1, 2, 3]);
        assert_eq!(parse(16, &body), Ask::Write { direct: false, offset: 4096, size: 3 });
        body.push(4);
        assert_eq!(parse(16, &body), Ask::Unknown);
        assert_eq!(parse(16, &body[..20]), Ask::Unknown);
    }

    #[test]
    fn attributes_are_set_beyond_the_first_bytes() {
        let mut body = vec![0; 88];
        body[..4].copy_from_slice(&(SET_MODE | SET_GID | SET_SIZE).to_ne_bytes());
        body[16..24].copy_from_slice(&5_u64.to_ne_bytes());
        body[68..72].copy_from_slice(&0o640_u32.to_ne_bytes());
        body[80..84].copy_from_slice(&9_u32.to_ne_bytes());
        let set = SetAttr { size: Some(5), mode: Some(0o640), uid: None, gid: Some(9) };
        assert_eq!(parse(4, &body), Ask::SetAttr(set));
        assert_eq!(parse(4, &body[..80]), Ask::Unknown);
    }

    #[test]
    fn no_message_panics() {
        for opcode in 0..60 {
            for len in 0..120 {
                parse(opcode, &vec![0xff; len]);
            }
        }
        assert_eq!(Request::parse_message(&[0; HEAD_BYTES], &[], 39), None);
    }

    #[test]
    fn answers_lie_where_the_kernel_looks() {
        assert_eq!(answer_head(1, 5, 8)[..8], [24, 0, 0, 0, 0xfb, 0xff, 0xff, 0xff]);
        let agreed = Agreed::on(u64::MAX, false);
        let init = init_answer(45, 131_072, agreed);
        assert_eq!(u32_at(&init, 4), 42);
        assert_eq!((u32_at(&init, 20), u32_at(&init, 32)), (IO_MAX_BYTES, 1 << 4));
        assert!(!agreed.has_ring() && !Agreed::on(u64::MAX >> 32, true).has_ring());
        let over_rings = Agreed::on(u64::MAX, true);
        assert!(over_rings.has_ring());
        assert_eq!(u32_at(&init_answer(45, 0, over_rings), 32), 1 << 4 | 1 << 9);
        let attr = Attr { size: 1 << 20, mode: 0o100600, uid: 1, gid: 2, since: 0 }.answer();
        assert_eq!((u64_at(&attr, 24), u64_at(&attr, 32)), (1 << 20, 2048));
        assert_eq!((u32_at(&attr, 76), u32_at(&attr, 84)), (0o100600, 1));
    }
}
