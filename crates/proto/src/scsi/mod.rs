//! SCSI as a logical unit sees it: a CDB goes in, a [`Plan`] or [`Sense`] comes out.
//!
//! No I/O happens here and no transport is known: `iscsi` moves the data that a plan asks for.
//! A command is one row of `table.rs`, which also answers REPORT SUPPORTED OPERATION CODES, and
//! one function in the file of its family. What an initiator needs to ask and to understand a
//! logical unit is in [`cdb`] and in the parsers beside it.
//!
//! Clauses of the standards are cited by title, because their numbers differ between revisions.

mod answer;
mod capacity;
pub mod cdb;
mod condition;
mod field;
mod inquiry;
mod lun;
mod mode;
mod opcode;
mod provisioning;
mod sense;
mod sense_text;
mod supported;
mod table;
mod transfer;

use block::{Geometry, Memory, Op};

use crate::{DiskId, UnitId};

pub(crate) use answer::{
    Capacity, ModeFlags, parse_mode_sense6, parse_product, parse_read_capacity10,
    parse_read_capacity16,
};
pub use lun::{LUN_MAX, encode_lun};
pub(crate) use lun::{absent, decode_lun, report_luns};
pub use sense::{FieldPointer, Key, Sense, decode_sense, sense_of_codes};

/// A logical unit: a volume with a SCSI face.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Which volume is behind.
    pub id: UnitId,
    /// Its shape.
    pub geometry: Geometry,
    /// The volume's bytes, if they are memory of this process: reads and writes happen there and
    /// then, and are never requested. As long as the volume.
    pub memory: Option<Memory>,
    /// What INQUIRY says about it.
    pub identity: Identity,
}

/// Names of a logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which disk it is: serial number and designators are made of it.
    pub disk: DiskId,
    /// What the product identification shows, at most 16 characters: the kind of volume.
    pub product: String,
}

/// What a command asks for, once its CDB is understood and allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing to move: GOOD.
    Good,
    /// Answer with these bytes, already cut to the allocation length.
    Data(Vec<u8>),
    /// Read from the volume. Offset and length in bytes, inside the volume.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes; zero is legal and means GOOD without data.
        len: u64,
    },
    /// Write data-out of `len` bytes to the volume.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Durable before GOOD.
        fua: bool,
    },
    /// Make everything durable.
    Flush,
    /// Collect `len` bytes of data-out, then ask [`Unit::plan_with`].
    Collect {
        /// How many bytes the command brings.
        len: u32,
    },
    /// Trim or zero these ranges of (offset, length) in bytes.
    Clear {
        /// [`Op::Trim`] or [`Op::WriteZeroes`].
        op: Op,
        /// Non-empty ranges inside the volume.
        ranges: Vec<(u64, u64)>,
    },
    /// Write `pattern`, one block, over a range.
    Fill {
        /// First byte.
        offset: u64,
        /// Number of bytes, a multiple of the block.
        len: u64,
        /// One block of data.
        pattern: Vec<u8>,
    },
}

/// A CDB; shorter ones are padded with zeroes.
type Cdb = [u8; 16];

impl Unit {
    /// Longest READ or WRITE in bytes, which the Block Limits page tells in blocks.
    ///
    /// Twice what the greediest initiator known sends (ESXi: 32 MiB), and a bound on what one
    /// command can keep a connection busy with.
    pub const TRANSFER_BYTES_MAX: u64 = 64 << 20;

    /// A logical unit on the volume `id`.
    ///
    /// Of the names in `identity`, what is too long for its field is cut, and what is not
    /// printable ASCII is shown as dots. Panics when the blocks of `geometry` are not a power of
    /// two from 512 to 65536 bytes, or when its capacity in bytes exceeds 2⁶⁴−1.
    pub fn new(id: UnitId, geometry: Geometry, memory: Option<Memory>, identity: Identity) -> Unit {
        let Geometry { block_bytes, blocks, .. } = geometry;
        assert!(block_bytes.is_power_of_two() && (512..=65536).contains(&block_bytes));
        assert!(blocks.checked_mul(block_bytes.into()).is_some(), "{blocks} × {block_bytes} bytes");
        Unit { id, geometry, memory, identity }
    }

    /// Understands a command.
    ///
    /// Errors are what goes with CHECK CONDITION. [`Plan::Collect`] wants the data-out of the
    /// command and [`plan_with`](Self::plan_with) then.
    #[inline]
    pub fn plan(&self, cdb: &[u8; 16]) -> Result<Plan, Sense> {
        // These eight are nearly all that ever comes; each has its row in the table, too.
        match cdb[0] {
            opcode::READ_10 => transfer::read_10(self, cdb),
            opcode::WRITE_10 => transfer::write_10(self, cdb),
            opcode::READ_16 => transfer::read_16(self, cdb),
            opcode::WRITE_16 => transfer::write_16(self, cdb),
            opcode::READ_6 => transfer::read_6(self, cdb),
            opcode::WRITE_6 => transfer::write_6(self, cdb),
            opcode::READ_12 => transfer::read_12(self, cdb),
            opcode::WRITE_12 => transfer::write_12(self, cdb),
            _ => table::plan(self, cdb),
        }
    }

    /// Understands a command together with its data-out, all the bytes that
    /// [`Plan::Collect`] asked for.
    ///
    /// The same as [`plan`](Self::plan) for a command that does not ask. Any other number of bytes
    /// than asked for is a parameter list length error.
    pub fn plan_with(&self, cdb: &[u8; 16], data: &[u8]) -> Result<Plan, Sense> {
        table::plan_with(self, cdb, data)
    }

    /// The block size as a 64-bit number.
    #[inline]
    fn block_bytes(&self) -> u64 {
        self.geometry.block_bytes.into()
    }

    /// Offset and length in bytes of `blocks` from `lba` on, if they lie inside the volume.
    ///
    /// No block at the very end lies inside.
    #[inline]
    fn extent(&self, lba: u64, blocks: u64) -> Result<(u64, u64), Sense> {
        let capacity = self.geometry.blocks;
        //= SBC-4 §Logical block addressing: what exceeds the capacity is out of range.
        if lba > capacity || blocks > capacity - lba {
            return Err(Sense::LBA_OUT_OF_RANGE);
        }
        // Neither product overflows, because the capacity in bytes does not.
        Ok((lba * self.block_bytes(), blocks * self.block_bytes()))
    }

    /// Whether the volume may be changed.
    #[inline]
    fn writable(&self) -> Result<(), Sense> {
        if self.geometry.read_only { Err(Sense::WRITE_PROTECTED) } else { Ok(()) }
    }
}

/// An answer, cut to the allocation length.
//= SPC-4 §Allocation length: what is longer is cut, and that is no error.
fn data(mut bytes: Vec<u8>, allocation: impl Into<u64>) -> Result<Plan, Sense> {
    bytes.truncate(usize::try_from(allocation.into()).unwrap_or(usize::MAX));
    Ok(Plan::Data(bytes))
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    /// A unit as the tests of all families use it.
    pub(super) fn unit(bytes: u64, block_bytes: u32) -> Unit {
        let disk = DiskId::new(*b"0123456789abcdef");
        let identity = Identity { disk, product: "ram".to_owned() };
        Unit::new(UnitId(7), Geometry::new(bytes, block_bytes), None, identity)
    }

    /// The same, read-only.
    pub(super) fn protected(bytes: u64, block_bytes: u32) -> Unit {
        let mut unit = unit(bytes, block_bytes);
        unit.geometry.read_only = true;
        unit
    }

    /// A CDB from its first bytes.
    pub(super) fn cdb(bytes: &[u8]) -> Cdb {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        cdb
    }

    /// The bytes of an answer.
    pub(super) fn answer(unit: &Unit, bytes: &[u8]) -> Vec<u8> {
        match unit.plan(&cdb(bytes)) {
            Ok(Plan::Data(bytes)) => bytes,
            other => panic!("{bytes:02x?} gave {other:?}"),
        }
    }

    /// The sense of a refusal.
    pub(super) fn refusal(unit: &Unit, bytes: &[u8]) -> Sense {
        match unit.plan(&cdb(bytes)) {
            Err(sense) => sense,
            Ok(plan) => panic!("{bytes:02x?} gave {plan:?}"),
        }
    }

    fn units() -> Vec<Unit> {
        let mut volatile = unit(1 << 30, 512);
        volatile.geometry.volatile = true;
        let mut most = unit(0, 512);
        most.geometry.blocks = u64::MAX >> 9;
        vec![
            volatile,
            unit(1 << 30, 4096),
            unit(0, 512),
            unit(512, 512),
            unit(65536 * 3, 65536),
            unit(1 << 63, 512),
            unit(1 << 63, 4096),
            protected(1 << 20, 512),
            most,
        ]
    }

    #[test]
    #[should_panic(expected = "bytes")]
    fn a_capacity_beyond_64_bits_is_no_unit() {
        let geometry = Geometry { blocks: 1 << 55, ..Geometry::new(0, 512) };
        let identity = Identity { disk: DiskId::new([0; 16]), product: String::new() };
        Unit::new(UnitId(0), geometry, None, identity);
    }

    #[test]
    fn answers_are_cut_to_the_allocation_length() {
        let bytes = vec![1, 2, 3];
        assert_eq!(data(bytes.clone(), 2_u8), Ok(Plan::Data(vec![1, 2])));
        assert_eq!(data(bytes.clone(), 0_u8), Ok(Plan::Data(vec![])));
        assert_eq!(data(bytes.clone(), u32::MAX), Ok(Plan::Data(bytes)));
    }

    /// What whoever carries a plan out relies on.
    fn check(unit: &Unit, plan: &Plan) {
        let inside = |offset: u64, len: u64| {
            let end = offset.checked_add(len).expect("ends within 64 bits");
            assert!(end <= unit.geometry.bytes());
            assert_eq!((offset | len) % unit.block_bytes(), 0);
        };
        match plan {
            Plan::Good | Plan::Flush => {}
            Plan::Data(bytes) => assert!(bytes.len() <= 4096),
            Plan::Collect { len } => assert!((1..=65536).contains(len)),
            Plan::Read { offset, len } => inside(*offset, *len),
            Plan::Write { offset, len, .. } => {
                inside(*offset, *len);
                assert!(!unit.geometry.read_only);
            }
            Plan::Clear { op, ranges } => {
                assert!(matches!(op, Op::Trim | Op::WriteZeroes) && !unit.geometry.read_only);
                assert!((1..=256).contains(&ranges.len()));
                for (offset, len) in ranges {
                    inside(*offset, *len);
                    assert_ne!(*len, 0);
                }
            }
            Plan::Fill { offset, len, pattern } => {
                inside(*offset, *len);
                assert!(*len != 0 && !unit.geometry.read_only);
                assert_eq!(pattern.len() as u64, unit.block_bytes());
            }
        }
    }

    /// A CDB that is likely to be understood.
    fn any_cdb() -> impl Strategy<Value = Cdb> {
        let code = 0..table::COMMANDS.len() * 2;
        (code, any::<[u8; 16]>(), any::<u64>(), any::<bool>()).prop_map(
            |(index, mut cdb, mask, small)| {
                // Clear whole bytes by chance, so that not every flag and address is set.
                let bytes = cdb.iter_mut().enumerate();
                bytes.filter(|(i, _)| mask >> i & 1 != 0).for_each(|(_, byte)| *byte = 0);
                if small {
                    cdb[2..9].fill(0);
                }
                if let Some(command) = table::COMMANDS.get(index) {
                    cdb[0] = command.code;
                    cdb[1] = command.action.unwrap_or(cdb[1]);
                }
                cdb
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_command_panics_or_leaves_the_volume(cdb in any_cdb(), mut list: Vec<u8>) {
            for unit in units() {
                let Ok(plan) = unit.plan(&cdb) else { continue };
                check(&unit, &plan);
                if let Ok(plan) = unit.plan_with(&cdb, &list) {
                    check(&unit, &plan);
                }
                if let Plan::Collect { len } = plan {
                    list.resize(len as usize, 0);
                    if let Ok(plan) = unit.plan_with(&cdb, &list) {
                        check(&unit, &plan);
                    }
                }
            }
        }

        #[test]
        fn the_short_cut_agrees_with_the_table(cdb in any_cdb()) {
            for unit in units() {
                prop_assert_eq!(unit.plan(&cdb), table::plan(&unit, &cdb));
            }
        }

        #[test]
        fn any_cdb_to_an_absent_unit(
            cdb in any_cdb(),
            luns in prop::collection::vec(0..=LUN_MAX, 0..9),
        ) {
            let _ = absent(&cdb, &luns);
            let _ = report_luns(&cdb, &luns);
        }
    }
}
