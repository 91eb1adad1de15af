//! Commands that change many blocks with little data: UNMAP and WRITE SAME.

use block::Op;

use super::field::{be16, be32, be64};
use super::{Cdb, Plan, Sense, Unit};

/// MAXIMUM UNMAP LBA COUNT: only descriptors are limited.
//= SBC-4 §Block Limits VPD page: FFFFFFFFh is no limit.
pub(super) const UNMAP_BLOCKS_MAX: u32 = u32::MAX;
/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT: a list of 4 KiB, and the ranges of one plan.
pub(super) const UNMAP_DESCRIPTORS_MAX: u32 = 256;
/// Longest WRITE SAME in bytes: about a second of writing, and initiators send the next one soon
/// enough.
const WRITE_SAME_BYTES_MAX: u64 = 1 << 30;

/// Bytes of an UNMAP parameter list before its descriptors.
const HEADER: usize = 8;
/// Bytes of an UNMAP block descriptor.
const DESCRIPTOR: usize = 16;

const WRPROTECT: u8 = 0xe0;
const ANCHOR: u8 = 0x10;
const UNMAP: u8 = 0x08;
/// PBDATA and LBDATA, obsolete: they put addresses into the data.
const ADDRESS_DATA: u8 = 0x06;
/// No data-out buffer: write zeroes.
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
    //= SBC-4 §UNMAP parameter list: UNMAP DATA LENGTH counts all bytes after itself.
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

/// WRITE SAME (10) with its data-out.
pub(super) fn write_same_10_block(unit: &Unit, cdb: &Cdb, block: &[u8]) -> Result<Plan, Sense> {
    let range = same_range(unit, cdb, be32(cdb, 2).into(), be16(cdb, 7).into(), 7)?;
    Ok(same(unit, range, cdb, block))
}

//= SBC-4 §WRITE SAME (16) command
pub(super) fn write_same_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let range = same_range(unit, cdb, be64(cdb, 2), be32(cdb, 10).into(), 10)?;
    //= SBC-4 §WRITE SAME (16) command: NDOB is one for blocks of zeroes without data-out.
    if cdb[1] & NDOB != 0 {
        return Ok(same(unit, range, cdb, &[]));
    }
    Ok(Plan::Collect { len: unit.geometry.block_bytes })
}

/// WRITE SAME (16) with its data-out.
pub(super) fn write_same_16_block(unit: &Unit, cdb: &Cdb, block: &[u8]) -> Result<Plan, Sense> {
    let range = same_range(unit, cdb, be64(cdb, 2), be32(cdb, 10).into(), 10)?;
    Ok(same(unit, range, cdb, block))
}

/// The byte range of a valid WRITE SAME.
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

/// Writes `block` over a range; an empty one means zeroes.
fn same(unit: &Unit, (offset, len): (u64, u64), cdb: &Cdb, block: &[u8]) -> Plan {
    let zeroes = block.iter().all(|byte| *byte == 0);
    //= SBC-4 §WRITE SAME (10) command: unmapped only where the blocks read as zeroes then.
    let trim = cdb[1] & UNMAP != 0 && unit.geometry.trim_zeroes;
    match (len, zeroes) {
        (0, _) => Plan::Good,
        (_, true) => clear(if trim { Op::Trim } else { Op::WriteZeroes }, vec![(offset, len)]),
        //= SBC-4 §WRITE SAME (10) command: a pattern other than zeroes is written, never unmapped.
        (_, false) => Plan::Fill { offset, len, pattern: block.to_vec() },
    }
}

fn clear(op: Op, ranges: Vec<(u64, u64)>) -> Plan {
    if ranges.is_empty() { Plan::Good } else { Plan::Clear { op, ranges } }
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::super::cdb as build;
    use super::super::test::{cdb, protected, refusal, unit};
    use super::*;

    const BLOCK: u64 = 512;

    fn volume() -> Unit {
        unit(1000 * BLOCK, 512)
    }

    fn unmap_with(list: &[u8]) -> Result<Plan, Sense> {
        volume().plan_with(&build::unmap(list.len() as u16), list)
    }

    #[test]
    fn unmap_trims_the_ranges() {
        let list = build::unmap_list(&[(0, 1), (5, 0), (990, 10), (1000, 0)]);
        let len = list.len() as u16;
        assert_eq!(volume().plan(&build::unmap(len)), Ok(Plan::Collect { len: len.into() }));
        let ranges = vec![(0, BLOCK), (990 * BLOCK, 10 * BLOCK)];
        assert_eq!(unmap_with(&list), Ok(Plan::Clear { op: Op::Trim, ranges }));
    }

    #[test]
    fn unmap_of_nothing_is_good() {
        assert_eq!(volume().plan(&build::unmap(0)), Ok(Plan::Good));
        assert_eq!(unmap_with(&build::unmap_list(&[])), Ok(Plan::Good));
        assert_eq!(unmap_with(&build::unmap_list(&[(1000, 0)])), Ok(Plan::Good));
        // Half a descriptor.
        let mut list = build::unmap_list(&[(0, 1)]);
        list[3] = 15;
        assert_eq!(unmap_with(&list), Ok(Plan::Good));
    }

    #[test]
    fn unmap_refuses() {
        assert_eq!(refusal(&volume(), &[0x42, 1, 0, 0, 0, 0, 0, 0, 24]), Sense::cdb_bit(1, 0));
        let length = Sense::PARAMETER_LIST_LENGTH_ERROR;
        assert_eq!(refusal(&volume(), &build::unmap(7)), length);
        for ranges in [&[(1001, 0)][..], &[(999, 2)], &[(0, 1), (u64::MAX, u32::MAX)]] {
            let list = build::unmap_list(ranges);
            assert_eq!(unmap_with(&list), Err(Sense::LBA_OUT_OF_RANGE));
        }
        let list = build::unmap_list(&[(0, 1), (1, 1)]);
        let short = &list[..list.len() - 1];
        assert_eq!(unmap_with(short), Err(length), "truncated");
        assert_eq!(volume().plan_with(&build::unmap(40), short), Err(length), "fewer than asked");
        let mut list = list.clone();
        list[1] = 37;
        assert_eq!(unmap_with(&list), Err(Sense::parameter_field(0)));
    }

    #[test]
    fn unmap_has_a_limit_of_descriptors() {
        let most = UNMAP_DESCRIPTORS_MAX as usize;
        let list = build::unmap_list(&vec![(0, 1); most]);
        assert!(
            matches!(unmap_with(&list), Ok(Plan::Clear { ranges, .. }) if ranges.len() == most)
        );
        let list = build::unmap_list(&vec![(0, 1); most + 1]);
        assert_eq!(unmap_with(&list), Err(Sense::parameter_field(2)));
    }

    /// Trimmed blocks of some volumes read as anything.
    #[test]
    fn zeroes_are_written_where_a_trim_does_not_promise_them() {
        let mut volume = volume();
        volume.geometry.trim_zeroes = false;
        let cdb = build::write_same16(10, 3, true);
        let clear = Plan::Clear { op: Op::WriteZeroes, ranges: vec![(10 * BLOCK, 3 * BLOCK)] };
        assert_eq!(volume.plan_with(&cdb, &[0; 512]), Ok(clear));
    }

    #[test]
    fn write_same_zeroes_trims_and_fills() {
        let (zeroes, pattern) = (vec![0; 512], vec![0xa6; 512]);
        let range = (10 * BLOCK, 3 * BLOCK);
        let clear = |op| Ok(Plan::Clear { op, ranges: vec![range] });
        let (offset, len) = range;
        let fill = || Ok(Plan::Fill { offset, len, pattern: pattern.clone() });
        for unmap in [false, true] {
            let op = if unmap { Op::Trim } else { Op::WriteZeroes };
            let flags = u8::from(unmap) << 3;
            let ten = cdb(&[0x41, flags, 0, 0, 0, 10, 0, 0, 3, 0]);
            let sixteen = build::write_same16(10, 3, unmap);
            for cdb in [ten, sixteen] {
                assert_eq!(volume().plan(&cdb), Ok(Plan::Collect { len: 512 }));
                assert_eq!(volume().plan_with(&cdb, &zeroes), clear(op));
                assert_eq!(volume().plan_with(&cdb, &pattern), fill());
                let wrong = volume().plan_with(&cdb, &zeroes[..511]);
                assert_eq!(wrong, Err(Sense::PARAMETER_LIST_LENGTH_ERROR));
            }
            let mut without_data = sixteen;
            without_data[1] |= NDOB;
            assert_eq!(volume().plan(&without_data), clear(op));
            assert_eq!(volume().plan_with(&without_data, &[]), clear(op));
        }
    }

    #[test]
    fn write_same_of_zero_blocks_goes_to_the_end() {
        let cdb = build::write_same16(990, 0, true);
        let ranges = vec![(990 * BLOCK, 10 * BLOCK)];
        let expect = Plan::Clear { op: Op::Trim, ranges };
        assert_eq!(volume().plan_with(&cdb, &[0; 512]), Ok(expect));
        let end = build::write_same16(1000, 0, true);
        assert_eq!(volume().plan_with(&end, &[0; 512]), Ok(Plan::Good));
        let beyond = build::write_same16(1001, 0, true);
        assert_eq!(volume().plan(&beyond), Err(Sense::LBA_OUT_OF_RANGE));
    }

    #[test]
    fn write_same_refuses() {
        for code in [0x41, 0x93] {
            assert_eq!(refusal(&volume(), &[code, 0x20]), Sense::cdb_bit(1, 7));
            assert_eq!(refusal(&volume(), &[code, 0x10]), Sense::cdb_bit(1, 4));
            assert_eq!(refusal(&volume(), &[code, 0x18]), Sense::cdb_bit(1, 4));
            assert_eq!(refusal(&volume(), &[code, 0x02]), Sense::cdb_bit(1, 2));
            assert_eq!(refusal(&volume(), &[code, 0x04]), Sense::cdb_bit(1, 2));
            let far = [code, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0];
            assert_eq!(refusal(&volume(), &far), Sense::LBA_OUT_OF_RANGE);
        }
        let all = build::write_same16(u64::MAX, u32::MAX, false);
        assert_eq!(refusal(&volume(), &all), Sense::LBA_OUT_OF_RANGE);
    }

    #[test]
    fn write_same_has_a_longest() {
        let big = unit(1 << 40, 512);
        let most = write_same_blocks_max(&big) as u32;
        let collect = Ok(Plan::Collect { len: 512 });
        assert_eq!(big.plan(&build::write_same16(0, most, false)), collect);
        let more = build::write_same16(0, most + 1, false);
        assert_eq!(refusal(&big, &more), Sense::cdb_field(10));
        assert_eq!(refusal(&big, &build::write_same16(0, 0, true)), Sense::cdb_field(10));
        assert_eq!(refusal(&big, &[0x41]), Sense::cdb_field(7));
    }

    #[test]
    fn a_protected_volume_refuses_before_the_data() {
        let unit = protected(1 << 20, 512);
        for cdb in [build::unmap(24), build::write_same16(0, 1, true), cdb(&[0x41])] {
            assert_eq!(refusal(&unit, &cdb), Sense::WRITE_PROTECTED);
        }
    }

    proptest! {
        #[test]
        fn an_unmap_list_never_leaves_the_volume(
            ranges in prop::collection::vec((0..1200_u64, 0..20_u32), 0..260),
            cut in 0..20_usize,
        ) {
            let list = build::unmap_list(&ranges);
            let list = &list[..list.len().saturating_sub(cut)];
            match unmap_with(list) {
                Ok(Plan::Clear { ranges, .. }) => {
                    for (offset, len) in ranges {
                        prop_assert!(len != 0 && offset + len <= 1000 * BLOCK);
                    }
                }
                Ok(plan) => prop_assert_eq!(plan, Plan::Good),
                Err(sense) => prop_assert_eq!(sense.key, super::super::Key::IllegalRequest),
            }
        }
    }
}
