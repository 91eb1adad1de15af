//! Builds CDBs for the initiator, padded to 16 bytes.
//!
//! Flags without an argument are zero.

use super::field::put;
use super::opcode::*;

/// TEST UNIT READY.
pub fn test_unit_ready() -> [u8; 16] {
    code(TEST_UNIT_READY)
}

/// INQUIRY for `len` bytes of standard data, or of a VPD page.
pub fn inquiry(page: Option<u8>, len: u16) -> [u8; 16] {
    let mut cdb = code(INQUIRY);
    cdb[1] = page.is_some().into();
    cdb[2] = page.unwrap_or(0);
    put(&mut cdb, 3, len.to_be_bytes());
    cdb
}

/// REQUEST SENSE for `len` bytes in fixed format.
pub fn request_sense(len: u8) -> [u8; 16] {
    let mut cdb = code(REQUEST_SENSE);
    cdb[4] = len;
    cdb
}

/// MODE SENSE (6) for `len` bytes of a page's current values, without block descriptors.
pub fn mode_sense6(page: u8, len: u8) -> [u8; 16] {
    let mut cdb = code(MODE_SENSE_6);
    cdb[1] = 0x08;
    cdb[2] = page & 0x3f;
    cdb[4] = len;
    cdb
}

/// MODE SENSE (10) for `len` bytes of a page's current values, without block descriptors.
pub fn mode_sense10(page: u8, len: u16) -> [u8; 16] {
    let mut cdb = code(MODE_SENSE_10);
    cdb[1] = 0x08;
    cdb[2] = page & 0x3f;
    put(&mut cdb, 7, len.to_be_bytes());
    cdb
}

/// READ CAPACITY (10), which returns 8 bytes.
pub fn read_capacity10() -> [u8; 16] {
    code(READ_CAPACITY_10)
}

/// READ CAPACITY (16) for `len` bytes; the full data is 32.
pub fn read_capacity16(len: u32) -> [u8; 16] {
    let mut cdb = code(SERVICE_ACTION_IN_16);
    cdb[1] = SA_READ_CAPACITY_16;
    put(&mut cdb, 10, len.to_be_bytes());
    cdb
}

/// GET LBA STATUS from `lba` on, for `len` bytes: 8, and 16 for each extent.
pub fn get_lba_status(lba: u64, len: u32) -> [u8; 16] {
    let mut cdb = code(SERVICE_ACTION_IN_16);
    cdb[1] = SA_GET_LBA_STATUS;
    put(&mut cdb, 2, lba.to_be_bytes());
    put(&mut cdb, 10, len.to_be_bytes());
    cdb
}

/// REPORT LUNS for `len` bytes: 8, and 8 for each unit.
pub fn report_luns(len: u32) -> [u8; 16] {
    let mut cdb = code(REPORT_LUNS);
    put(&mut cdb, 6, len.to_be_bytes());
    cdb
}

/// READ (10).
#[inline]
pub fn read10(lba: u32, blocks: u16) -> [u8; 16] {
    range_10(READ_10, lba, blocks)
}

/// READ (16).
#[inline]
pub fn read16(lba: u64, blocks: u32) -> [u8; 16] {
    range_16(READ_16, lba, blocks)
}

/// WRITE (10), durable before GOOD if `fua`.
#[inline]
pub fn write10(lba: u32, blocks: u16, fua: bool) -> [u8; 16] {
    let mut cdb = range_10(WRITE_10, lba, blocks);
    cdb[1] = u8::from(fua) << 3;
    cdb
}

/// WRITE (16), durable before GOOD if `fua`.
#[inline]
pub fn write16(lba: u64, blocks: u32, fua: bool) -> [u8; 16] {
    let mut cdb = range_16(WRITE_16, lba, blocks);
    cdb[1] = u8::from(fua) << 3;
    cdb
}

/// SYNCHRONIZE CACHE (10) of the whole unit.
pub fn synchronize_cache10() -> [u8; 16] {
    code(SYNCHRONIZE_CACHE_10)
}

/// SYNCHRONIZE CACHE (16) of the whole unit.
pub fn synchronize_cache16() -> [u8; 16] {
    code(SYNCHRONIZE_CACHE_16)
}

/// UNMAP with a parameter list of `len` bytes, as [`unmap_list`] builds it.
pub fn unmap(len: u16) -> [u8; 16] {
    let mut cdb = code(UNMAP);
    put(&mut cdb, 7, len.to_be_bytes());
    cdb
}

/// WRITE SAME (16) with one block of data-out; with `unmap` the unit may trim zeroes.
pub fn write_same16(lba: u64, blocks: u32, unmap: bool) -> [u8; 16] {
    let mut cdb = range_16(WRITE_SAME_16, lba, blocks);
    cdb[1] = u8::from(unmap) << 3;
    cdb
}

/// The parameter list of an UNMAP of these ranges of (LBA, number of blocks).
///
/// Panics above 4095 ranges, the limit of its length field.
//= SBC-4 §UNMAP parameter list
pub fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    assert!(ranges.len() <= 4095, "{} ranges in an UNMAP", ranges.len());
    let len = 16 * ranges.len() as u16;
    let mut list = Vec::with_capacity(8 + usize::from(len));
    list.extend((6 + len).to_be_bytes());
    list.extend(len.to_be_bytes());
    list.extend([0; 4]);
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn code(code: u8) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = code;
    cdb
}

#[inline]
fn range_10(code: u8, lba: u32, blocks: u16) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = code;
    put(&mut cdb, 2, lba.to_be_bytes());
    put(&mut cdb, 7, blocks.to_be_bytes());
    cdb
}

#[inline]
fn range_16(code: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = code;
    put(&mut cdb, 2, lba.to_be_bytes());
    put(&mut cdb, 10, blocks.to_be_bytes());
    cdb
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn golden() {
        assert_eq!(test_unit_ready(), [0; 16]);
        assert_eq!(inquiry(None, 0x1ff)[..6], [0x12, 0, 0, 1, 0xff, 0]);
        assert_eq!(inquiry(Some(0x83), 252)[..6], [0x12, 1, 0x83, 0, 252, 0]);
        assert_eq!(request_sense(252)[..6], [3, 0, 0, 0, 252, 0]);
        assert_eq!(mode_sense6(0x3f, 192)[..6], [0x1a, 8, 0x3f, 0, 192, 0]);
        assert_eq!(mode_sense10(0x08, 0x102)[..10], [0x5a, 8, 8, 0, 0, 0, 0, 1, 2, 0]);
        assert_eq!(read_capacity10()[..10], [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read_capacity16(32), [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]);
        assert_eq!(report_luns(0x1000)[..12], [0xa0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0]);
        assert_eq!(read10(0x0102_0304, 0x0506)[..10], [0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0]);
        assert_eq!(write10(0x0102_0304, 0x0506, true)[..10], [0x2a, 8, 1, 2, 3, 4, 0, 5, 6, 0]);
        let (lba, blocks) = (0x0102_0304_0506_0708, 0x090a_0b0c);
        let expect = [0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0];
        assert_eq!(read16(lba, blocks), expect);
        let expect = [0x8a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0];
        assert_eq!(write16(lba, blocks, true), expect);
        let expect = [0x93, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0];
        assert_eq!(write_same16(lba, blocks, true), expect);
        assert_eq!(synchronize_cache10()[..2], [0x35, 0]);
        assert_eq!(synchronize_cache16()[..2], [0x91, 0]);
        assert_eq!(unmap(0x18)[..10], [0x42, 0, 0, 0, 0, 0, 0, 0, 0x18, 0]);
    }

    #[test]
    fn unmap_list_golden() {
        assert_eq!(unmap_list(&[]), [0, 6, 0, 0, 0, 0, 0, 0]);
        let mut expect = vec![0, 38, 0, 32, 0, 0, 0, 0];
        expect.extend([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0]);
        expect.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(unmap_list(&[(0x0102_0304_0506_0708, 0x090a_0b0c), (1, 2)]), expect);
        let most = unmap_list(&vec![(0, 0); 4095]);
        assert_eq!((most.len(), &most[..4]), (65528, &[0xff, 0xf6, 0xff, 0xf0][..]));
    }

    #[test]
    #[should_panic(expected = "4096 ranges")]
    fn an_unmap_list_has_an_end() {
        unmap_list(&vec![(0, 0); 4096]);
    }
}
