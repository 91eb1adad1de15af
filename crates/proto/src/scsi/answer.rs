//! What a logical unit answered, as an initiator understands it.
//!
//! A unit is not trusted: what is too short or cannot be true is `None`.

use super::field::{be16, be32, be64};
use super::lun::decode_lun;

/// What READ CAPACITY says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of logical blocks, at least 1. In bytes they are at most 2⁶⁴−1.
    pub blocks: u64,
    /// Size of one logical block in bytes: a power of two from 512 to 65536.
    pub block_bytes: u32,
    /// Logical blocks per physical block, as a power of two: 0 to 15.
    pub physical_exponent: u8,
    /// UNMAP or WRITE SAME with UNMAP may be used (LBPME).
    pub can_trim: bool,
    /// Trimmed blocks read as zeroes (LBPRZ).
    pub trimmed_reads_zero: bool,
}

/// What MODE SENSE says about caching and protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeFlags {
    /// Writes are refused (WP).
    pub write_protected: bool,
    /// Force unit access may be asked for (DPOFUA).
    pub can_force_unit_access: bool,
    /// There is a volatile write cache (WCE); `None` if the caching page is not in the answer.
    pub write_cache: Option<bool>,
}

/// What the Block Limits page says; zero means that the unit names no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Longest READ or WRITE in blocks.
    pub transfer_blocks_max: u32,
    /// Most blocks in one UNMAP; `u32::MAX` is no limit.
    pub unmap_blocks_max: u32,
    /// Most descriptors in one UNMAP; `u32::MAX` is no limit.
    pub unmap_descriptors_max: u32,
    /// Longest WRITE SAME in blocks.
    pub write_same_blocks_max: u64,
}

/// Understands the answer to READ CAPACITY (16), of which 12 bytes suffice.
///
/// Without the rest the unit cannot trim.
//= SBC-4 §READ CAPACITY (16) parameter data
pub fn parse_read_capacity16(bytes: &[u8]) -> Option<Capacity> {
    if bytes.len() < 12 {
        return None;
    }
    let blocks = be64(bytes, 0).checked_add(1)?;
    let (physical, provisioning) = match bytes {
        [_, _, _, _, _, _, _, _, _, _, _, _, _, physical, provisioning, ..] => {
            (*physical, *provisioning)
        }
        _ => (0, 0),
    };
    let capacity = Capacity {
        blocks,
        block_bytes: be32(bytes, 8),
        physical_exponent: physical & 0x0f,
        can_trim: provisioning & 0x80 != 0,
        trimmed_reads_zero: provisioning & 0x40 != 0,
    };
    capacity.is_possible().then_some(capacity)
}

/// Understands the answer to READ CAPACITY (10).
///
/// Also `None` when the unit has more blocks than fit there: ask with READ CAPACITY (16).
//= SBC-4 §READ CAPACITY (10) parameter data
pub fn parse_read_capacity10(bytes: &[u8]) -> Option<Capacity> {
    if bytes.len() < 8 {
        return None;
    }
    let capacity = Capacity {
        blocks: be32(bytes, 0).checked_add(1)?.into(),
        block_bytes: be32(bytes, 4),
        physical_exponent: 0,
        can_trim: false,
        trimmed_reads_zero: false,
    };
    capacity.is_possible().then_some(capacity)
}

impl Capacity {
    fn is_possible(&self) -> bool {
        let size = self.block_bytes;
        let size_is_possible = size.is_power_of_two() && (512..=65536).contains(&size);
        size_is_possible && self.blocks.checked_mul(size.into()).is_some()
    }
}

/// Understands the answer to MODE SENSE (6), whatever pages are in it.
//= SPC-4 §Mode parameter header formats
pub fn parse_mode_sense6(bytes: &[u8]) -> Option<ModeFlags> {
    let [length, _, device, descriptors, ..] = *bytes else { return None };
    mode_flags(bytes, device, 1 + usize::from(length), 4 + usize::from(descriptors))
}

/// Understands the answer to MODE SENSE (10), whatever pages are in it.
//= SPC-4 §Mode parameter header formats
pub fn parse_mode_sense10(bytes: &[u8]) -> Option<ModeFlags> {
    if bytes.len() < 8 {
        return None;
    }
    let (length, descriptors) = (be16(bytes, 0), be16(bytes, 6));
    mode_flags(bytes, bytes[3], 2 + usize::from(length), 8 + usize::from(descriptors))
}

/// The flags, given where the answer ends by its own word and where its pages begin.
fn mode_flags(bytes: &[u8], device: u8, end: usize, pages_at: usize) -> Option<ModeFlags> {
    let mut rest = bytes.get(pages_at..end.min(bytes.len())).unwrap_or_default();
    let mut write_cache = None;
    //= SPC-4 §Mode page and subpage formats and page codes: SPF has a longer header.
    while let [code, second, third, ..] = *rest {
        let long = code & 0x40 != 0;
        if code & 0x7f == 0x08 && second >= 1 {
            write_cache = Some(third & 0x04 != 0);
        }
        let len = match rest.get(3) {
            Some(low) if long => 4 + usize::from(u16::from_be_bytes([third, *low])),
            _ => 2 + usize::from(second),
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    Some(ModeFlags {
        write_protected: device & 0x80 != 0,
        can_force_unit_access: device & 0x10 != 0,
        write_cache,
    })
}

/// Understands the Block Limits page of vital product data.
///
/// What an old unit leaves out counts as not limited.
//= SBC-4 §Block Limits VPD page
pub fn parse_block_limits(bytes: &[u8]) -> Option<BlockLimits> {
    if bytes.len() < 4 || bytes[1] != 0xb0 {
        return None;
    }
    let mut page = [0; 64];
    let len = bytes.len().min(4 + usize::from(be16(bytes, 2))).min(64);
    page[..len].copy_from_slice(&bytes[..len]);
    Some(BlockLimits {
        transfer_blocks_max: be32(&page, 8),
        unmap_blocks_max: be32(&page, 20),
        unmap_descriptors_max: be32(&page, 24),
        write_same_blocks_max: be64(&page, 36),
    })
}

/// Understands the answer to REPORT LUNS, as far as it goes. Units with an address that
/// [`decode_lun`] does not know are left out.
//= SPC-4 §REPORT LUNS parameter data
pub fn parse_report_luns(bytes: &[u8]) -> Option<Vec<u16>> {
    let (header, list) = bytes.split_at_checked(8)?;
    let list = &list[..list.len().min(be32(header, 0) as usize)];
    let lun = |field: &[u8]| decode_lun(field.try_into().expect("chunks of eight"));
    Some(list.chunks_exact(8).filter_map(lun).collect())
}
