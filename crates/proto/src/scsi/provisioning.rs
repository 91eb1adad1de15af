//! Commands that change many blocks with few bytes: UNMAP and WRITE SAME.

use block::Op;

use super::field::{be16, be32, be64};
use super::{Cdb, Plan, Sense, Unit};

/// MAXIMUM UNMAP LBA COUNT: no limit but the descriptors'.
//= SBC-4 §Block Limits VPD page: FFFFFFFFh is no limit.
pub(super) const UNMAP_BLOCKS_MAX: u32 = u32::MAX;
/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT: a list of 4 KiB, and the ranges of one plan.
pub(super) const UNMAP_DESCRIPTORS_MAX: u32 = 256;
/// Longest WRITE SAME in bytes: filling that much takes about a second, and initiators send the
/// next one soon enough.
const WRITE_SAME_BYTES_MAX: u64 = 1 << 30;

/// Bytes of an UNMAP parameter list before its descriptors.
const HEADER: usize = 8;
/// Bytes of an UNMAP block descriptor.
const DESCRIPTOR: usize = 16;

const WRPROTECT: u8 = 0xe0;
const ANCHOR: u8 = 0x10;
const UNMAP: u8 = 0x08;
/// PBDATA and LBDATA, obsolete: they would put addresses into the data.
const ADDRESS_DATA: u8 = 0x06;
/// No data-out buffer: blocks of zeroes.
const NDOB: u8 = 0x01;

/// MAXIMUM WRITE SAME LENGTH in blocks.
pub(super) fn write_same_blocks_max(unit: &Unit) -> u64 {
    WRITE_SAME_BYTES_MAX / unit.block_bytes()
}

//= SBC-4 §UNMAP command
pub(super) fn unmap(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    //= SBC-4 §UNMAP command: ANCHOR without ANC_SUP is an invalid field in the CDB.
    if cdb[1] & 0x01 != 0 {
        return Err(Sense::cdb_bit(1, 0));
    }
    unit.writable()?;
    match be16(cdb, 7) {
        //= SBC-4 §UNMAP command: PARAMETER LIST LENGTH zero is no error.
        0 => Ok(Plan::Good),
        len if usize::from(len) < HEADER => Err(Sense::PARAMETER_LIST_LENGTH_ERROR),
        len => Ok(Plan::Collect { len: len.into() }),
    }
}

//= SBC-4 §UNMAP parameter list
pub(super) fn unmap_list(unit: &Unit, _: &Cdb, list: &[u8]) -> Result<Plan, Sense> {
    let (header, descriptors) =
        list.split_at_checked(HEADER).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    let (data_len, descriptors_len) = (be16(header, 0), usize::from(be16(header, 2)));
    //= SBC-4 §UNMAP parameter list: UNMAP DATA LENGTH counts everything behind itself.
    if usize::from(data_len) < HEADER - 2 + descriptors_len {
        return Err(Sense::parameter_field(0));
    }
    //= SBC-4 §UNMAP parameter list: descriptors must not be cut by the length of the list.
    let descriptors =
        descriptors.get(..descriptors_len).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    //= SBC-4 §UNMAP parameter list: an incomplete last descriptor is ignored.
    let descriptors = descriptors.chunks_exact(DESCRIPTOR);
    if descriptors.len() > UNMAP_DESCRIPTORS_MAX as usize {
        return Err(Sense::parameter_field(2));
    }
    let mut ranges = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        let range = unit.extent(be64(descriptor, 0), be32(descriptor, 8).into())?;
        //= SBC-4 §UNMAP block descriptor: zero blocks is no error.
        if range.1 != 0 {
            ranges.push(range);
        }
    }
    Ok(clear(Op::Trim, ranges))
}

//= SBC-4 §WRITE SAME (10) command
pub(super) fn write_same_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    same_range(unit, cdb, be32(cdb, 2).into(), be16(cdb, 7).into(), 7)?;
    Ok(Plan::Collect { len: unit.geometry.block_bytes })
}

/// WRITE SAME (10) with its block.
pub(super) fn write_same_10_block(unit: &Unit, cdb: &Cdb, block: &[u8]) -> Result<Plan, Sense> {
    let range = same_range(unit, cdb, be32(cdb, 2).into(), be16(cdb, 7).into(), 7)?;
    Ok(same(range, cdb, block))
}

//= SBC-4 §WRITE SAME (16) command
pub(super) fn write_same_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let range = same_range(unit, cdb, be64(cdb, 2), be32(cdb, 10).into(), 10)?;
    //= SBC-4 §WRITE SAME (16) command: NDOB is one for blocks of zeroes without data-out.
    if cdb[1] & NDOB != 0 {
        return Ok(same(range, cdb, &[]));
    }
    Ok(Plan::Collect { len: unit.geometry.block_bytes })
}

/// WRITE SAME (16) with its block.
pub(super) fn write_same_16_block(unit: &Unit, cdb: &Cdb, block: &[u8]) -> Result<Plan, Sense> {
    let range = same_range(unit, cdb, be64(cdb, 2), be32(cdb, 10).into(), 10)?;
    Ok(same(range, cdb, block))
}

/// The range in bytes, once everything in the CDB of a WRITE SAME is found valid.
fn same_range(
    unit: &Unit,
    cdb: &Cdb,
    lba: u64,
    blocks: u64,
    length_at: u16,
) -> Result<(u64, u64), Sense> {
    if cdb[1] & WRPROTECT != 0 {
        return Err(Sense::cdb_bit(1, 7));
    }
    //= SBC-4 §WRITE SAME (10) command: ANCHOR without ANC_SUP is an invalid field in the CDB.
    if cdb[1] & ANCHOR != 0 {
        return Err(Sense::cdb_bit(1, 4));
    }
    if cdb[1] & ADDRESS_DATA != 0 {
        return Err(Sense::cdb_bit(1, 2));
    }
    unit.writable()?;
    let (offset, mut len) = unit.extent(lba, blocks)?;
    //= SBC-4 §WRITE SAME (10) command: with WSNZ zero, zero blocks means up to the end.
    if blocks == 0 {
        len = unit.geometry.bytes() - offset;
    }
    //= SBC-4 §WRITE SAME (10) command: more than MAXIMUM WRITE SAME LENGTH is an invalid field.
    if len > WRITE_SAME_BYTES_MAX {
        return Err(Sense::cdb_field(length_at));
    }
    Ok((offset, len))
}

/// Writes `block` over a range; an empty one stands for zeroes.
fn same((offset, len): (u64, u64), cdb: &Cdb, block: &[u8]) -> Plan {
    let zeroes = block.iter().all(|byte| *byte == 0);
    let trim = cdb[1] & UNMAP != 0;
    match (len, zeroes) {
        (0, _) => Plan::Good,
        (_, true) => clear(if trim { Op::Trim } else { Op::WriteZeroes }, vec![(offset, len)]),
        //= SBC-4 §WRITE SAME (10) command: with LBPRZ, blocks that would read differently when
        //= unmapped are written.
        (_, false) => Plan::Fill { offset, len, pattern: block.to_vec() },
    }
}

fn clear(op: Op, ranges: Vec<(u64, u64)>) -> Plan {
    if ranges.is_empty() { Plan::Good } else { Plan::Clear { op, ranges } }
}
