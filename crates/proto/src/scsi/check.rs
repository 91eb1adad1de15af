//! Commands that compare data with what the volume holds, merge both, or read back what they wrote:
//! VERIFY, WRITE AND VERIFY, COMPARE AND WRITE, ORWRITE.

use block::Pool;

use super::field::{be16, be32, be64};
use super::transfer::limit;
use super::{Cdb, Plan, Sense, Unit};

/// RDPROTECT, WRPROTECT or VRPROTECT in byte 1.
const PROTECT: u8 = 0xe0;
/// Force unit access in byte 1.
const FUA: u8 = 0x08;

/// Work on a range of blocks that looks at what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Action on each block.
    pub kind: CheckKind,
    /// Offset on the volume.
    pub offset: u64,
    /// Length on the volume, not zero, at most [`Unit::TRANSFER_BYTES_MAX`].
    pub len: u32,
    /// Make writes durable before GOOD.
    pub fua: bool,
}

/// Action of a [`Check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// Reads, without data-out: the medium is readable.
    Medium,
    /// Compares with data-out of the same length.
    Compare,
    /// Compares every block with the one block of data-out.
    CompareSame,
    /// Writes data-out, then reads it back.
    WriteRead,
    /// Writes data-out, reads it back, and compares.
    WriteCompare,
    /// Compares with the first half of data-out, and if all are equal, writes the second half.
    CompareWrite,
    /// Writes what the blocks hold, combined by OR with data-out.
    Or,
}

impl CheckKind {
    /// Whether data-out has the length of the range, and may be handled in parts.
    pub(crate) fn streams(self) -> bool {
        matches!(self, CheckKind::Compare | CheckKind::WriteRead | CheckKind::WriteCompare)
    }

    /// Whether the work must not be interrupted by another of this kind on the same blocks.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, CheckKind::CompareWrite | CheckKind::Or)
    }
}

/// A range in a CDB: address, number of blocks, and the byte of the latter.
type Range = (u64, u64, u16);

//= SBC-4 §VERIFY (10) command
pub(super) fn verify_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    verify(unit, cdb, range_10(cdb))
}

//= SBC-4 §VERIFY (12) command
pub(super) fn verify_12(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    verify(unit, cdb, range_12(cdb))
}

//= SBC-4 §VERIFY (16) command
pub(super) fn verify_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    verify(unit, cdb, range_16(cdb))
}

/// VERIFY with one block of data-out.
pub(super) fn verify_block(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Sense> {
    let range = match cdb[0] >> 5 {
        1 => range_10(cdb),
        5 => range_12(cdb),
        _ => range_16(cdb),
    };
    plan(unit, CheckKind::CompareSame, range, false)
}

//= SBC-4 §WRITE AND VERIFY (10) command
pub(super) fn write_and_verify_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    write_and_verify(unit, cdb, range_10(cdb))
}

//= SBC-4 §WRITE AND VERIFY (12) command
pub(super) fn write_and_verify_12(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    write_and_verify(unit, cdb, range_12(cdb))
}

//= SBC-4 §WRITE AND VERIFY (16) command
pub(super) fn write_and_verify_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    write_and_verify(unit, cdb, range_16(cdb))
}

/// MAXIMUM COMPARE AND WRITE LENGTH in blocks: both halves of the data fit one buffer.
//= SBC-4 §COMPARE AND WRITE command: NUMBER OF LOGICAL BLOCKS has one byte.
pub(super) fn compare_blocks_max(unit: &Unit) -> u8 {
    (Pool::LARGE_BYTES as u64 / 2 / unit.block_bytes()).min(255) as u8
}

//= SBC-4 §COMPARE AND WRITE command
pub(super) fn compare_and_write(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    match compare_write_plan(unit, cdb)? {
        Plan::Check(Check { len, .. }) => Ok(Plan::Collect { len: 2 * len }),
        plan => Ok(plan),
    }
}

/// COMPARE AND WRITE with its data-out.
pub(super) fn compare_and_write_data(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Sense> {
    compare_write_plan(unit, cdb)
}

fn compare_write_plan(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    unprotected(cdb)?;
    unit.writable()?;
    //= SBC-4 §COMPARE AND WRITE command: more than the maximum is an invalid field in the CDB.
    if cdb[13] > compare_blocks_max(unit) {
        return Err(Sense::cdb_field(13));
    }
    let range = (be64(cdb, 2), cdb[13].into(), 13);
    plan(unit, CheckKind::CompareWrite, range, cdb[1] & FUA != 0)
}

//= SBC-4 §ORWRITE (16) command
pub(super) fn orwrite_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    match or_plan(unit, cdb)? {
        Plan::Check(Check { len, .. }) => Ok(Plan::Collect { len }),
        plan => Ok(plan),
    }
}

/// ORWRITE with its data-out.
pub(super) fn orwrite_16_data(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Sense> {
    or_plan(unit, cdb)
}

fn or_plan(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    unprotected(cdb)?;
    unit.writable()?;
    let range = range_16(cdb);
    let (_, len) = unit.extent(range.0, range.1)?;
    // Read and write are one action, so all data fits one buffer.
    if len > Pool::LARGE_BYTES as u64 {
        return Err(Sense::cdb_field(range.2));
    }
    plan(unit, CheckKind::Or, range, cdb[1] & FUA != 0)
}

fn verify(unit: &Unit, cdb: &Cdb, range: Range) -> Result<Plan, Sense> {
    unprotected(cdb)?;
    let kind = match byte_check(cdb) {
        0 => CheckKind::Medium,
        1 => CheckKind::Compare,
        //= SBC-4 §VERIFY (10) command: BYTCHK 11b compares a single block with each.
        3 => CheckKind::CompareSame,
        //= SBC-4 §VERIFY (10) command: BYTCHK 10b is reserved.
        _ => return Err(Sense::cdb_bit(1, 2)),
    };
    match plan(unit, kind, range, false)? {
        Plan::Check(_) if kind == CheckKind::CompareSame => {
            Ok(Plan::Collect { len: unit.geometry.block_bytes })
        }
        plan => Ok(plan),
    }
}

fn write_and_verify(unit: &Unit, cdb: &Cdb, range: Range) -> Result<Plan, Sense> {
    unprotected(cdb)?;
    let kind = match byte_check(cdb) {
        0 => CheckKind::WriteRead,
        1 => CheckKind::WriteCompare,
        _ => return Err(Sense::cdb_bit(1, 2)),
    };
    unit.writable()?;
    //= SBC-4 §WRITE AND VERIFY (10) command: the data is verified on the medium.
    plan(unit, kind, range, true)
}

fn plan(
    unit: &Unit,
    kind: CheckKind,
    (lba, blocks, length_at): Range,
    fua: bool,
) -> Result<Plan, Sense> {
    let (offset, len) = unit.extent(lba, blocks)?;
    limit(len, length_at)?;
    //= SBC-4 §VERIFY (10) command: zero blocks is no error.
    if len == 0 {
        return Ok(Plan::Good);
    }
    Ok(Plan::Check(Check { kind, offset, len: len as u32, fua }))
}

/// Refuses protection information, which no volume has.
fn unprotected(cdb: &Cdb) -> Result<(), Sense> {
    if cdb[1] & PROTECT != 0 { Err(Sense::cdb_bit(1, 7)) } else { Ok(()) }
}

/// BYTCHK.
fn byte_check(cdb: &Cdb) -> u8 {
    cdb[1] >> 1 & 0x03
}

fn range_10(cdb: &Cdb) -> Range {
    (be32(cdb, 2).into(), be16(cdb, 7).into(), 7)
}

fn range_12(cdb: &Cdb) -> Range {
    (be32(cdb, 2).into(), be32(cdb, 6).into(), 6)
}

fn range_16(cdb: &Cdb) -> Range {
    (be64(cdb, 2), be32(cdb, 10).into(), 10)
}

#[cfg(test)]
mod test {
    use super::super::test::{cdb, protected, unit};
    use super::*;

    const BLOCKS: u64 = 1000;

    fn planned(bytes: &[u8]) -> Result<Plan, Sense> {
        unit(BLOCKS * 512, 512).plan(&cdb(bytes))
    }

    /// The three lengths of a command on blocks 10 to 12, with these flags.
    fn three(codes: [u8; 3], flags: u8) -> [Cdb; 3] {
        [
            cdb(&[codes[0], flags, 0, 0, 0, 10, 0, 0, 3, 0]),
            cdb(&[codes[1], flags, 0, 0, 0, 10, 0, 0, 0, 3, 0, 0]),
            cdb(&[codes[2], flags, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 3, 0, 0]),
        ]
    }

    fn check(kind: CheckKind, fua: bool) -> Result<Plan, Sense> {
        Ok(Plan::Check(Check { kind, offset: 5120, len: 1536, fua }))
    }

    #[test]
    fn verify_and_write_and_verify_in_three_lengths() {
        for (flags, kind) in [(0x00, CheckKind::Medium), (0x12, CheckKind::Compare)] {
            for cdb in three([0x2f, 0xaf, 0x8f], flags) {
                assert_eq!(planned(&cdb), check(kind, false));
            }
        }
        for (flags, kind) in [(0x10, CheckKind::WriteRead), (0x02, CheckKind::WriteCompare)] {
            for cdb in three([0x2e, 0xae, 0x8e], flags) {
                assert_eq!(planned(&cdb), check(kind, true));
            }
        }
        for cdb in three([0x2f, 0xaf, 0x8f], 0x06) {
            assert_eq!(planned(&cdb), Ok(Plan::Collect { len: 512 }));
            let same = unit(BLOCKS * 512, 512).plan_with(&cdb, &[0; 512]);
            assert_eq!(same, check(CheckKind::CompareSame, false));
        }
        for code in [0x2f, 0xaf, 0x8f, 0x2e, 0xae, 0x8e] {
            assert_eq!(planned(&[code, 0x04]), Err(Sense::cdb_bit(1, 2)), "BYTCHK 10b");
            assert_eq!(planned(&[code, 0x20]), Err(Sense::cdb_bit(1, 7)));
            assert_eq!(planned(&[code, 0x00]), Ok(Plan::Good), "no blocks");
        }
        assert_eq!(planned(&[0x2e, 0x06]), Err(Sense::cdb_bit(1, 2)), "BYTCHK 11b");
    }

    #[test]
    fn compare_and_write_takes_both_halves() {
        let bytes = [0x89, 0x08, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 3];
        assert_eq!(planned(&bytes), Ok(Plan::Collect { len: 3072 }));
        let unit = unit(BLOCKS * 512, 512);
        let with = |len| unit.plan_with(&cdb(&bytes), &vec![0; len]);
        assert_eq!(with(3072), check(CheckKind::CompareWrite, true));
        assert_eq!(with(3071), Err(Sense::PARAMETER_LIST_LENGTH_ERROR));
        assert_eq!(planned(&[0x89]), Ok(Plan::Good), "no blocks");
        assert_eq!(planned(&[0x89, 0x20]), Err(Sense::cdb_bit(1, 7)));
    }

    #[test]
    fn the_most_that_is_compared_and_written() {
        for (block_bytes, most) in [(512, 255), (4096, 32), (65536, 2)] {
            let unit = unit(1 << 30, block_bytes);
            assert_eq!(compare_blocks_max(&unit), most);
            let of =
                |blocks: u8| unit.plan(&cdb(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, blocks]));
            let len = 2 * u32::from(most) * block_bytes;
            assert!(len as usize <= Pool::LARGE_BYTES);
            assert_eq!(of(most), Ok(Plan::Collect { len }));
            if most < 255 {
                assert_eq!(of(most + 1), Err(Sense::cdb_field(13)));
            }
        }
    }

    #[test]
    fn orwrite_fits_a_buffer() {
        let of = |blocks: u16| {
            let [high, low] = blocks.to_be_bytes();
            planned(&[0x8b, 0x18, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, high, low])
        };
        assert_eq!(of(3), Ok(Plan::Collect { len: 1536 }));
        assert_eq!(of(512), Ok(Plan::Collect { len: 512 * 512 }));
        assert_eq!(of(513), Err(Sense::cdb_field(10)));
        assert_eq!(of(0), Ok(Plan::Good));
        let bytes = cdb(&[0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 3]);
        let with = unit(BLOCKS * 512, 512).plan_with(&bytes, &[0; 1536]);
        assert_eq!(with, check(CheckKind::Or, true));
    }

    #[test]
    fn the_end_and_protection() {
        let unit = protected(BLOCKS * 512, 512);
        for code in [0x2e, 0xae, 0x8e, 0x89, 0x8b] {
            let mut far = [code, 0, 0, 0, 0x7f, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0];
            assert_eq!(planned(&far), Err(Sense::LBA_OUT_OF_RANGE), "{code:02x}");
            far[4] = 0;
            assert_eq!(unit.plan(&far), Err(Sense::WRITE_PROTECTED), "{code:02x}");
        }
        for code in [0x2f, 0xaf, 0x8f] {
            let far = [code, 2, 0, 0, 0x7f, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0];
            assert_eq!(planned(&far), Err(Sense::LBA_OUT_OF_RANGE), "{code:02x}");
            let inside = [code, 2, 0, 0, 0, 0, 0, 0, 0, 1];
            assert!(unit.plan(&cdb(&inside)).is_ok(), "{code:02x}");
        }
    }
}
