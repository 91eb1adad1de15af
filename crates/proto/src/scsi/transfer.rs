//! Commands that name a range of blocks and move or check it: READ, WRITE, VERIFY, PRE-FETCH,
//! SYNCHRONIZE CACHE.
//!
//! READ and WRITE run for every I/O: they allocate nothing and are a few instructions when
//! inlined. DPO is advice that needs no action. FUA of a read needs none either: no cache of ours
//! holds anything that the volume would not return.

use super::field::{be16, be24, be32, be64};
use super::{Cdb, Plan, Sense, Unit};

/// RDPROTECT, WRPROTECT or VRPROTECT in byte 1.
const PROTECT: u8 = 0xe0;
/// Force unit access in byte 1.
const FUA: u8 = 0x08;
/// Normal auto contingent allegiance in the CONTROL byte.
const NACA: u8 = 0x04;
/// Byte check in byte 1 of VERIFY.
const BYTE_CHECK: u8 = 0x06;

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

//= SBC-4 §VERIFY (10) command
pub(super) fn verify_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    verify(unit, cdb, be32(cdb, 2).into(), be16(cdb, 7).into())
}

//= SBC-4 §VERIFY (12) command
pub(super) fn verify_12(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    verify(unit, cdb, be32(cdb, 2).into(), be32(cdb, 6).into())
}

//= SBC-4 §VERIFY (16) command
pub(super) fn verify_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    verify(unit, cdb, be64(cdb, 2), be32(cdb, 10).into())
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

/// Refuses protection information, which no volume has, and what [`control`] refuses.
//= SBC-4 §READ (10) command: RDPROTECT other than zero without protection is an invalid field.
#[inline]
fn flags(cdb: &Cdb, control_at: usize) -> Result<(), Sense> {
    if cdb[1] & PROTECT != 0 {
        return Err(Sense::cdb_bit(1, 7));
    }
    control(cdb, control_at)
}

/// Refuses what the CONTROL byte may not say.
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
fn limit(len: u64, length_at: u16) -> Result<(), Sense> {
    if len > Unit::TRANSFER_BYTES_MAX { Err(Sense::cdb_field(length_at)) } else { Ok(()) }
}

fn verify(unit: &Unit, cdb: &Cdb, lba: u64, blocks: u64) -> Result<Plan, Sense> {
    if cdb[1] & PROTECT != 0 {
        return Err(Sense::cdb_bit(1, 7));
    }
    // Comparing with data-out is not offered, and the usage mask says so.
    if cdb[1] & BYTE_CHECK != 0 {
        return Err(Sense::cdb_bit(1, 2));
    }
    // Without a comparison the medium is only asked whether it is readable, and a volume knows no
    // unreadable blocks before it reads them.
    unit.extent(lba, blocks)?;
    Ok(Plan::Good)
}

fn pre_fetch(unit: &Unit, lba: u64, blocks: u64) -> Result<Plan, Sense> {
    unit.extent(lba, blocks)?;
    //= SBC-4 §PRE-FETCH (10) command: GOOD says that the cache had no room for all blocks.
    Ok(Plan::Good)
}

fn synchronize_cache(unit: &Unit, lba: u64, blocks: u64) -> Result<Plan, Sense> {
    //= SBC-4 §SYNCHRONIZE CACHE (10) command: zero blocks means up to the end.
    unit.extent(lba, blocks)?;
    // Everything is flushed, whatever the range. IMMED may be set, and status still waits for the
    // flush: a failed one can then be told, which a deferred error is seldom heard to do.
    Ok(Plan::Flush)
}
