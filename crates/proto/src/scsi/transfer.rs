//! Commands that move a range of blocks: READ, WRITE, PRE-FETCH, SYNCHRONIZE CACHE.
//!
//! READ and WRITE run for every I/O: they allocate nothing and are a few inlined instructions. DPO
//! needs no action, nor does FUA of a read: no cache of ours holds anything but the volume's data.

use super::field::{be16, be24, be32, be64};
use super::{Cdb, Plan, Sense, Unit};

/// RDPROTECT, WRPROTECT or VRPROTECT in byte 1.
const PROTECT: u8 = 0xe0;
/// Force unit access in byte 1.
const FUA: u8 = 0x08;
/// Normal auto contingent allegiance in the CONTROL byte.
const NACA: u8 = 0x04;

//= SBC-4 §READ (6) command: TRANSFER LENGTH zero means 256 blocks.
#[inline]
pub(super) fn read_6(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    control(cdb, 5)?;
    let (lba, blocks) = range_6(cdb);
    read(unit, lba, blocks, 4)
}

//= SBC-4 §READ (10) command
#[inline]
pub(super) fn read_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    flags(cdb, 9)?;
    read(unit, be32(cdb, 2).into(), be16(cdb, 7).into(), 7)
}

//= SBC-4 §READ (12) command
#[inline]
pub(super) fn read_12(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    flags(cdb, 11)?;
    read(unit, be32(cdb, 2).into(), be32(cdb, 6).into(), 6)
}

//= SBC-4 §READ (16) command
#[inline]
pub(super) fn read_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    flags(cdb, 15)?;
    read(unit, be64(cdb, 2), be32(cdb, 10).into(), 10)
}

//= SBC-3 §WRITE (6) command: TRANSFER LENGTH zero means 256 blocks.
#[inline]
pub(super) fn write_6(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    control(cdb, 5)?;
    let (lba, blocks) = range_6(cdb);
    write(unit, lba, blocks, 4, false)
}

//= SBC-4 §WRITE (10) command
#[inline]
pub(super) fn write_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    flags(cdb, 9)?;
    write(unit, be32(cdb, 2).into(), be16(cdb, 7).into(), 7, cdb[1] & FUA != 0)
}

//= SBC-4 §WRITE (12) command
#[inline]
pub(super) fn write_12(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    flags(cdb, 11)?;
    write(unit, be32(cdb, 2).into(), be32(cdb, 6).into(), 6, cdb[1] & FUA != 0)
}

//= SBC-4 §WRITE (16) command
#[inline]
pub(super) fn write_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    flags(cdb, 15)?;
    write(unit, be64(cdb, 2), be32(cdb, 10).into(), 10, cdb[1] & FUA != 0)
}

//= SBC-4 §PRE-FETCH (10) command
pub(super) fn pre_fetch_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    pre_fetch(unit, be32(cdb, 2).into(), be16(cdb, 7).into())
}

//= SBC-4 §PRE-FETCH (16) command
pub(super) fn pre_fetch_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    pre_fetch(unit, be64(cdb, 2), be32(cdb, 10).into())
}

//= SBC-4 §SYNCHRONIZE CACHE (10) command
pub(super) fn synchronize_cache_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    synchronize_cache(unit, be32(cdb, 2).into(), be16(cdb, 7).into())
}

//= SBC-4 §SYNCHRONIZE CACHE (16) command
pub(super) fn synchronize_cache_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    synchronize_cache(unit, be64(cdb, 2), be32(cdb, 10).into())
}

/// Refuses protection information, which no volume has, and an invalid CONTROL byte.
#[inline]
fn flags(cdb: &Cdb, control_at: usize) -> Result<(), Sense> {
    control(cdb, control_at)?;
    //= SBC-4 §READ (10) command: RDPROTECT other than zero without protection is an invalid field.
    if cdb[1] & PROTECT != 0 { Err(Sense::cdb_bit(1, 7)) } else { Ok(()) }
}

/// Refuses an invalid CONTROL byte.
//= SAM-5 §CONTROL byte: NACA without ACA support is an invalid field in the CDB.
#[inline]
pub(super) fn control(cdb: &Cdb, at: usize) -> Result<(), Sense> {
    if cdb[at] & NACA != 0 { Err(Sense::cdb_bit(at as u16, 2)) } else { Ok(()) }
}

#[inline]
fn range_6(cdb: &Cdb) -> (u64, u64) {
    let blocks = if cdb[4] == 0 { 256 } else { cdb[4].into() };
    ((be24(cdb, 1) & 0x1f_ffff).into(), blocks)
}

#[inline]
fn read(unit: &Unit, lba: u64, blocks: u64, length_at: u16) -> Result<Plan, Sense> {
    let (offset, len) = unit.extent(lba, blocks)?;
    limit(len, length_at)?;
    Ok(Plan::Read { offset, len })
}

#[inline]
fn write(unit: &Unit, lba: u64, blocks: u64, length_at: u16, fua: bool) -> Result<Plan, Sense> {
    unit.writable()?;
    let (offset, len) = unit.extent(lba, blocks)?;
    limit(len, length_at)?;
    Ok(Plan::Write { offset, len, fua })
}

//= SBC-4 §Block Limits VPD page: more than MAXIMUM TRANSFER LENGTH is an invalid field in the CDB.
#[inline]
pub(super) fn limit(len: u64, length_at: u16) -> Result<(), Sense> {
    if len > Unit::TRANSFER_BYTES_MAX { Err(Sense::cdb_field(length_at)) } else { Ok(()) }
}

fn pre_fetch(unit: &Unit, lba: u64, blocks: u64) -> Result<Plan, Sense> {
    unit.extent(lba, blocks)?;
    //= SBC-4 §PRE-FETCH (10) command: GOOD says that the cache had no room for all blocks.
    Ok(Plan::Good)
}

fn synchronize_cache(unit: &Unit, lba: u64, blocks: u64) -> Result<Plan, Sense> {
    //= SBC-4 §SYNCHRONIZE CACHE (10) command: zero blocks means up to the end.
    unit.extent(lba, blocks)?;
    // All data is flushed, whatever the range. Even with IMMED the status waits for the flush:
    // initiators rarely handle the deferred error of a failed one.
    Ok(Plan::Flush)
}

#[cfg(test)]
mod test {
    use super::super::test::{cdb, protected, refusal, unit};
    use super::super::{cdb as build, table};
    use super::*;

    const BLOCKS: u64 = 100;

    fn plan(bytes: &[u8]) -> Result<Plan, Sense> {
        unit(BLOCKS * 512, 512).plan(&cdb(bytes))
    }

    #[test]
    fn reads_in_four_lengths() {
        let expect = Ok(Plan::Read { offset: 0x0a * 512, len: 3 * 512 });
        assert_eq!(plan(&[0x08, 0, 0, 0x0a, 3, 0]), expect);
        assert_eq!(plan(&[0x28, 0, 0, 0, 0, 0x0a, 0, 0, 3, 0]), expect);
        assert_eq!(plan(&[0xa8, 0, 0, 0, 0, 0x0a, 0, 0, 0, 3, 0, 0]), expect);
        assert_eq!(plan(&[0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0, 3, 0, 0]), expect);
        assert_eq!(plan(&build::read10(10, 3)), expect);
        assert_eq!(plan(&build::read16(10, 3)), expect);
    }

    #[test]
    fn writes_in_four_lengths_with_and_without_fua() {
        let expect = |fua| Ok(Plan::Write { offset: 0x0a * 512, len: 3 * 512, fua });
        assert_eq!(plan(&[0x0a, 0, 0, 0x0a, 3, 0]), expect(false));
        for (flags, fua) in [(0x00, false), (0x08, true), (0x10, false), (0x18, true)] {
            assert_eq!(plan(&[0x2a, flags, 0, 0, 0, 0x0a, 0, 0, 3, 0]), expect(fua));
            assert_eq!(plan(&[0xaa, flags, 0, 0, 0, 0x0a, 0, 0, 0, 3, 0, 0]), expect(fua));
            let bytes = [0x8a, flags, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0, 3, 0, 0];
            assert_eq!(plan(&bytes), expect(fua));
            assert_eq!(plan(&build::write10(10, 3, fua)), expect(fua));
            assert_eq!(plan(&build::write16(10, 3, fua)), expect(fua));
        }
    }

    #[test]
    fn six_byte_commands_know_21_bits_and_256_blocks() {
        let big = unit(2 << 30, 512);
        let expect = Plan::Read { offset: 0x1f_ff00 * 512, len: 256 * 512 };
        assert_eq!(big.plan(&cdb(&[0x08, 0xff, 0xff, 0, 0, 0])), Ok(expect));
        let expect = Plan::Write { offset: 0, len: 256 * 512, fua: false };
        assert_eq!(big.plan(&cdb(&[0x0a, 0, 0, 0, 0, 0])), Ok(expect));
        assert_eq!(plan(&[0x08, 0, 0, 0, 0, 0]), Err(Sense::LBA_OUT_OF_RANGE));
    }

    #[test]
    fn the_end_is_the_end() {
        let last = BLOCKS as u32 - 1;
        assert!(plan(&build::read10(last, 1)).is_ok());
        assert_eq!(plan(&build::read10(last, 2)), Err(Sense::LBA_OUT_OF_RANGE));
        assert_eq!(plan(&build::read10(last + 1, 1)), Err(Sense::LBA_OUT_OF_RANGE));
        assert_eq!(plan(&build::read10(u32::MAX, u16::MAX)), Err(Sense::LBA_OUT_OF_RANGE));
        assert_eq!(plan(&build::read16(u64::MAX, u32::MAX)), Err(Sense::LBA_OUT_OF_RANGE));
        assert_eq!(plan(&build::write16(u64::MAX, 1, false)), Err(Sense::LBA_OUT_OF_RANGE));
        assert_eq!(plan(&build::write16(1 << 55, 1, false)), Err(Sense::LBA_OUT_OF_RANGE));
    }

    #[test]
    fn no_block_is_no_error_inside() {
        let expect = Plan::Read { offset: BLOCKS * 512, len: 0 };
        assert_eq!(plan(&build::read16(BLOCKS, 0)), Ok(expect));
        assert_eq!(plan(&build::read16(BLOCKS + 1, 0)), Err(Sense::LBA_OUT_OF_RANGE));
        assert!(plan(&build::write10(0, 0, false)).is_ok());
    }

    #[test]
    fn the_longest_transfer() {
        let big = unit(1 << 45, 512);
        let blocks = (Unit::TRANSFER_BYTES_MAX / 512) as u32;
        assert!(big.plan(&build::read16(0, blocks)).is_ok());
        assert_eq!(big.plan(&build::read16(0, blocks + 1)), Err(Sense::cdb_field(10)));
        assert_eq!(big.plan(&build::write16(0, u32::MAX, false)), Err(Sense::cdb_field(10)));
        assert_eq!(unit(1 << 40, 4096).plan(&build::read10(0, 16385)), Err(Sense::cdb_field(7)));
    }

    #[test]
    fn protection_information_is_refused() {
        for code in [0x28, 0x2a, 0xa8, 0xaa, 0x88, 0x8a, 0x2f, 0xaf, 0x8f] {
            for protect in 1..8 {
                assert_eq!(plan(&[code, protect << 5]), Err(Sense::cdb_bit(1, 7)), "{code:02x}");
            }
        }
    }

    #[test]
    fn naca_is_refused_everywhere() {
        for command in table::COMMANDS {
            let at = command.cdb_len() - 1;
            let mut bytes = cdb(&[command.code, command.action.unwrap_or(0)]);
            bytes[at] = 0x04;
            assert_eq!(plan(&bytes), Err(Sense::cdb_bit(at as u16, 2)), "{:02x}", command.code);
        }
    }

    #[test]
    fn a_protected_volume_refuses_writes() {
        let unit = protected(1 << 20, 512);
        for code in [0x0a, 0x2a, 0xaa, 0x8a] {
            assert_eq!(refusal(&unit, &[code]), Sense::WRITE_PROTECTED);
        }
        assert!(unit.plan(&build::read10(0, 1)).is_ok());
        assert_eq!(unit.plan(&build::synchronize_cache10()), Ok(Plan::Flush));
    }

    #[test]
    fn cache_commands_check_the_range() {
        for (ten, sixteen, expect) in [(0x34, 0x90, Plan::Good), (0x35, 0x91, Plan::Flush)] {
            for immediate in [0, 2] {
                let bytes = [ten, immediate, 0, 0, 0, 99, 0, 0, 1, 0];
                assert_eq!(plan(&bytes), Ok(expect.clone()));
                assert_eq!(plan(&[sixteen, immediate]), Ok(expect.clone()));
            }
            let beyond = Err(Sense::LBA_OUT_OF_RANGE);
            assert_eq!(plan(&[ten, 0, 0, 0, 0, 99, 3, 0, 2, 0]), beyond);
            assert_eq!(plan(&[ten, 0, 0xff, 0xff, 0xff, 0xff]), beyond);
            let bytes = [sixteen, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
            assert_eq!(plan(&bytes), beyond);
        }
        assert_eq!(plan(&build::synchronize_cache16()), Ok(Plan::Flush));
    }
}
