//! Submission queue entries.

use super::{CAPSULE_BYTES, Common, Entry, get16, get32, get64, kind};

/// Operation codes on an admin queue.
//= NVMe base §5: Admin Command Set.
pub mod admin {
    #![allow(missing_docs)] // The names are those of the standard.
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNC_EVENT: u8 = 0x0c;
    pub const KEEP_ALIVE: u8 = 0x18;
    pub const CROSS_CONTROLLER_RESET: u8 = 0x38;
    pub const FABRICS: u8 = 0x7f;
}

/// Operation codes on an I/O queue.
//= NVMe base §7: I/O Commands, and those of the NVM Command Set.
pub mod io {
    #![allow(missing_docs)] // The names are those of the standard.
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    pub const VERIFY: u8 = 0x0c;
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    pub const RESERVATION_REPORT: u8 = 0x0e;
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    pub const RESERVATION_RELEASE: u8 = 0x15;
    pub const COPY: u8 = 0x19;
}

/// Types of fabrics commands (FCTYPE).
//= NVMe-oF §Fabrics Command Set
pub mod fabrics {
    #![allow(missing_docs)] // The names are those of the standard.
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const DISCONNECT: u8 = 0x08;
}

/// The location of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SglKind {
    /// In the capsule.
    //= NVMe-TCP §3.3.1: in-capsule data is an SGL Data Block descriptor with an offset.
    InCapsule,
    /// In separate PDUs.
    //= NVMe-TCP §3.3.2: all other data is a Transport SGL Data Block descriptor, sub type Ah.
    Transport,
    /// Unknown.
    Other,
}

/// Byte of an SGL descriptor with its type and sub type.
const IN_CAPSULE: u8 = 0x01;
const TRANSPORT: u8 = 0x5a;

/// PSDT 01b: pointers are SGLs, as always over fabrics.
//= NVMe base §3.3.3.1: PSDT is bits 15:14 of Dword 0.
const SGL: u8 = 0x40;

/// A submission queue entry in place.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a>(pub &'a Entry);

impl<'a> Command<'a> {
    /// The entry in a command capsule.
    #[inline(always)]
    pub fn of(capsule: &'a [u8; CAPSULE_BYTES]) -> Command<'a> {
        Command(capsule[8..].first_chunk().expect("a capsule has 72 bytes"))
    }

    /// Operation code.
    #[inline(always)]
    pub fn opcode(self) -> u8 {
        self.0[0]
    }

    /// Whether it is not fused and its pointers are SGLs.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        matches!(self.0[1] & 0xc3, 0x40 | 0x80)
    }

    /// FUSE: 1 for the first command of a fused operation, 2 for the second.
    //= NVMe base §3.3.3.1: FUSE is bits 9:8 of Dword 0.
    pub fn fuse(self) -> u8 {
        self.0[1] & 3
    }

    /// The entry without FUSE.
    pub fn unfused(self) -> Entry {
        let mut entry = *self.0;
        entry[1] &= !3;
        entry
    }

    /// Command identifier.
    #[inline(always)]
    pub fn id(self) -> u16 {
        get16(self.0, 2)
    }

    /// Namespace identifier.
    #[inline(always)]
    pub fn namespace(self) -> u32 {
        get32(self.0, 4)
    }

    /// Type of a fabrics command.
    #[inline(always)]
    pub fn fabrics_type(self) -> u8 {
        self.0[4]
    }

    /// The location of the data.
    #[inline(always)]
    pub fn sgl_kind(self) -> SglKind {
        match self.0[39] {
            IN_CAPSULE => SglKind::InCapsule,
            TRANSPORT => SglKind::Transport,
            _ => SglKind::Other,
        }
    }

    /// Returns the offset of in-capsule data after the entry.
    #[inline(always)]
    pub fn sgl_offset(self) -> u64 {
        get64(self.0, 24)
    }

    /// SGL length: the data that the host expects to move.
    #[inline(always)]
    pub fn sgl_len(self) -> u32 {
        get32(self.0, 32)
    }

    /// Dword 10 to 15.
    #[inline(always)]
    pub fn word(self, number: usize) -> u32 {
        get32(self.0, number * 4)
    }

    /// Dwords 10 and 11: the first block of an I/O.
    #[inline(always)]
    pub fn start_block(self) -> u64 {
        get64(self.0, 40)
    }

    /// Blocks of an I/O, 1 to 65536.
    #[inline(always)]
    pub fn block_count(self) -> u32 {
        u32::from(get16(self.0, 48)) + 1
    }

    /// Force unit access.
    //= NVMe base §7: FUA is bit 30 of Dword 12 of reads, writes and Write Zeroes.
    #[inline(always)]
    pub fn fua(self) -> bool {
        self.0[51] & 0x40 != 0
    }

    /// The 8-bit field of a fabrics command at `offset`.
    pub fn field8(self, offset: usize) -> u8 {
        self.0[offset]
    }

    /// The 16-bit field at `offset`.
    pub fn field16(self, offset: usize) -> u16 {
        get16(self.0, offset)
    }

    /// The 32-bit field at `offset`.
    pub fn field32(self, offset: usize) -> u32 {
        get32(self.0, offset)
    }
}

/// Builds a submission queue entry.
#[derive(Clone, Copy, Debug)]
pub struct CommandBuilder(Entry);

impl CommandBuilder {
    /// A command without data.
    #[inline(always)]
    pub fn new(opcode: u8, id: u16, namespace: u32) -> CommandBuilder {
        let mut entry = [0; 64];
        entry[0] = opcode;
        entry[1] = SGL;
        entry[39] = TRANSPORT;
        CommandBuilder(entry).field(2, id.to_le_bytes()).field(4, namespace.to_le_bytes())
    }

    /// A fabrics command without data.
    pub fn fabrics(fabrics_type: u8, id: u16) -> CommandBuilder {
        CommandBuilder::new(admin::FABRICS, id, u32::from(fabrics_type))
    }

    /// Sets a descriptor for data in separate PDUs.
    #[inline(always)]
    pub fn transport(self, len: u32) -> CommandBuilder {
        self.field(32, len.to_le_bytes())
    }

    /// With in-capsule data.
    #[inline(always)]
    pub fn in_capsule(self, len: u32) -> CommandBuilder {
        self.field(32, len.to_le_bytes()).field(39, [IN_CAPSULE])
    }

    /// Dword 10 to 15.
    #[inline(always)]
    pub fn word(self, number: usize, value: u32) -> CommandBuilder {
        self.field(number * 4, value.to_le_bytes())
    }

    /// Sets the range of an I/O: `count` is 1 to 65536 blocks.
    #[inline(always)]
    pub fn range(self, start: u64, count: u32) -> CommandBuilder {
        let count = (count - 1) as u16;
        self.field(40, start.to_le_bytes()).field(48, count.to_le_bytes())
    }

    /// Sets force unit access.
    #[inline(always)]
    pub fn fua(self, fua: bool) -> CommandBuilder {
        self.field(51, [u8::from(fua) * 0x40])
    }

    /// Sets a field by its offset.
    #[inline(always)]
    pub fn field<const N: usize>(mut self, at: usize, bytes: [u8; N]) -> CommandBuilder {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    /// The entry.
    #[inline(always)]
    pub fn build(self) -> Entry {
        self.0
    }

    /// Returns the header of a command capsule of `len` bytes whose data, if any, begins at
    /// `data_offset`.
    #[inline(always)]
    pub fn capsule(self, flags: u8, data_offset: u8, len: u32) -> [u8; CAPSULE_BYTES] {
        let header_len = CAPSULE_BYTES as u8;
        let common = Common { kind: kind::CAPSULE_CMD, flags, header_len, data_offset, len };
        let mut capsule = [0; CAPSULE_BYTES];
        capsule[..8].copy_from_slice(&common.build());
        capsule[8..].copy_from_slice(&self.0);
        capsule
    }
}

#[cfg(test)]
mod test {
    use super::super::test::hexadecimal;
    use super::*;

    #[test]
    fn write_golden() {
        let builder = CommandBuilder::new(io::WRITE, 0x0102, 3).range(0x0807_0605_0403_0201, 8);
        let capsule = builder.in_capsule(4096).fua(true).capsule(0, 72, 72 + 4096);
        let bytes = hexadecimal(
            "04 00 48 48 48100000 01 40 0201 03000000 0000000000000000 0000000000000000
             0000000000000000 00100000 000000 01 0102030405060708 0700 0040"
                .replace('\n', "")
                .as_str(),
        );
        assert_eq!(capsule, bytes);
        let command = Command::of(&bytes);
        assert_eq!((command.opcode(), command.id(), command.namespace()), (io::WRITE, 0x0102, 3));
        assert_eq!((command.start_block(), command.block_count()), (0x0807_0605_0403_0201, 8));
        assert!(command.fua() && command.is_plain());
        assert_eq!((command.sgl_kind(), command.sgl_offset()), (SglKind::InCapsule, 0));
        assert_eq!(command.sgl_len(), 4096);
    }

    #[test]
    fn read_golden() {
        let entry = CommandBuilder::new(io::READ, 9, 1).range(5, 65536).transport(1 << 20).build();
        let command = Command(&entry);
        assert_eq!((entry[39], &entry[32..36]), (0x5a, &[0, 0, 0x10, 0][..]));
        assert_eq!((command.sgl_kind(), command.block_count()), (SglKind::Transport, 65536));
        assert!(!command.fua());
    }

    #[test]
    fn connect_golden() {
        let entry = CommandBuilder::fabrics(fabrics::CONNECT, 0).in_capsule(1024);
        let entry = entry.field(42, 7_u16.to_le_bytes()).field(44, 127_u16.to_le_bytes());
        let entry = entry.field(46, [4]).field(48, 5000_u32.to_le_bytes()).build();
        assert_eq!(entry[..8], [0x7f, 0x40, 0, 0, 1, 0, 0, 0]);
        let command = Command(&entry);
        assert_eq!((command.fabrics_type(), command.field16(42)), (fabrics::CONNECT, 7));
        assert_eq!((command.field16(44), command.field8(46)), (127, 4));
        assert_eq!((command.field32(48), command.word(12)), (5000, 5000));
    }

    #[test]
    fn fused_commands_and_pages_are_not_plain() {
        let mut entry = CommandBuilder::new(io::READ, 9, 1).build();
        for (flags, plain) in [(0x40, true), (0x80, true), (0, false), (0x41, false), (0xc0, false)]
        {
            entry[1] = flags;
            assert_eq!(Command(&entry).is_plain(), plain, "{flags:#x}");
        }
    }
}
