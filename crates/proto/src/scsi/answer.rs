//! Parses responses of a logical unit, for the initiator.
//!
//! The unit is not trusted: data too short or impossible is `None`.

use block::Backing;

use super::field::{be16, be32, be64};
use super::inquiry::{BACKING_PAGE, RUN, VENDOR};
use crate::ascii::printable;

/// The result of READ CAPACITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of logical blocks, at least 1; their bytes fit into 64 bits.
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

/// Caching and protection, from MODE SENSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeFlags {
    /// Writes are refused (WP).
    pub write_protected: bool,
    /// Force unit access is supported (DPOFUA).
    pub can_force_unit_access: bool,
    /// Whether there is a volatile write cache (WCE); `None` without a caching mode page.
    pub write_cache: Option<bool>,
}

/// Parses READ CAPACITY (16) data, of which 12 bytes suffice.
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

/// Parses READ CAPACITY (10) data.
///
/// Also `None` if the capacity needs READ CAPACITY (16).
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

/// Parses MODE SENSE (6) data, with any pages.
//= SPC-4 §Mode parameter header formats
pub fn parse_mode_sense6(bytes: &[u8]) -> Option<ModeFlags> {
    let [length, _, device, descriptors, ..] = *bytes else { return None };
    mode_flags(bytes, device, 1 + usize::from(length), 4 + usize::from(descriptors))
}

/// Vendor and product of INQUIRY data.
//= SPC-4 §Standard INQUIRY data: vendor in bytes 8 to 15, product in 16 to 31.
pub fn parse_product(bytes: &[u8]) -> Option<String> {
    let (vendor, product) = (printable(bytes.get(8..16)?), printable(bytes.get(16..32)?));
    let name = format!("{vendor} {product}").trim().to_owned();
    Some(name).filter(|name| !name.is_empty())
}

/// Returns the instance of a server of ours, from its INQUIRY data.
pub fn parse_instance(bytes: &[u8]) -> Option<u64> {
    let ours = printable(bytes.get(8..16)?) == VENDOR;
    let digits = bytes.get(36..56)?.strip_prefix(RUN.as_bytes()).filter(|_| ours)?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns the backing store from the vendor specific page of a server of ours.
pub fn parse_backing(bytes: &[u8]) -> Option<Backing> {
    let [_, BACKING_PAGE, _, _, ..] = *bytes else { return None };
    let end = 4 + usize::from(be16(bytes, 2));
    Backing::parse(&String::from_utf8_lossy(bytes.get(4..end)?))
}

/// Returns the name of a logical unit in its Device Identification page: the best available one.
//= SPC-4 §Device Identification VPD page: code set; association, designator type; length.
pub fn parse_designation(bytes: &[u8]) -> Option<String> {
    const LOGICAL_UNIT: u8 = 0;
    let [_, 0x83, high, low, ..] = *bytes else { return None };
    let end = 4 + usize::from(u16::from_be_bytes([high, low]));
    let mut rest = bytes.get(4..end.min(bytes.len()))?;
    let mut best: Option<(usize, String)> = None;
    while let [set, kind, _, len, ..] = *rest {
        let Some(value) = rest.get(4..4 + usize::from(len)) else { break };
        let digits = || value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let binary = set & 0x0f == 1;
        let named = match kind & 0x0f {
            3 if binary => Some((3, format!("naa.{}", digits()))),
            2 if binary => Some((2, format!("eui.{}", digits()))),
            8 => Some((1, printable(value))),
            1 => Some((0, format!("t10.{}", printable(value)))),
            _ => None,
        };
        let named = named.filter(|_| kind >> 4 & 3 == LOGICAL_UNIT);
        let named = named.filter(|_| value.iter().any(|byte| !matches!(byte, 0 | b' ')));
        if let Some(named) = named.filter(|(rank, _)| best.as_ref().is_none_or(|(it, _)| rank > it))
        {
            best = Some(named);
        }
        rest = &rest[4 + usize::from(len)..];
    }
    best.map(|(_, name)| name)
}

/// The serial number of a logical unit in its page.
//= SPC-4 §Unit Serial Number VPD page
pub fn parse_serial(bytes: &[u8]) -> Option<String> {
    let [_, 0x80, _, _, ..] = *bytes else { return None };
    let end = 4 + usize::from(be16(bytes, 2));
    let serial = printable(bytes.get(4..end.min(bytes.len()))?);
    Some(serial).filter(|serial| !serial.is_empty())
}

/// Parses the pages from `pages_at` up to `end`, the length given in the header.
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

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::super::cdb;
    use crate::Instances;

    use super::super::Unit;
    use super::super::test::{answer, protected, unit};
    use super::*;

    #[test]
    fn a_product_is_vendor_and_name() {
        let mut bytes = [0; 36];
        bytes[8..32].copy_from_slice(b"DRUMFIRERAM             ");
        assert_eq!(parse_product(&bytes).as_deref(), Some("DRUMFIRE RAM"));
        bytes[8..32].copy_from_slice(b"LIO-ORG RAMDISK-MCP     ");
        assert_eq!(parse_product(&bytes).as_deref(), Some("LIO-ORG RAMDISK-MCP"));
        assert_eq!(parse_product(&[0; 36]), None);
        assert_eq!(parse_product(&bytes[..31]), None);
    }

    #[test]
    fn names_of_our_own_unit() {
        let mut unit = unit(1 << 30, 512);
        let page = |unit: &Unit, page| answer(unit, &cdb::inquiry(page, 255));
        let name = parse_designation(&page(&unit, Some(0x83)));
        assert_eq!(name.as_deref(), Some("naa.3303132333435863"));
        let serial = parse_serial(&page(&unit, Some(0x80)));
        assert_eq!(serial.as_deref(), Some("3031323334358637b839"));
        assert_eq!(parse_instance(&page(&unit, None)), None);
        let instance = Instances::new(7).unit();
        let number = instance.number();
        unit.instance = Some(instance);
        let mut bytes = page(&unit, None);
        assert_eq!(parse_instance(&bytes), Some(number));
        assert_eq!(bytes[36..56], *format!("RUN={number:016x}").as_bytes());
        assert_eq!(parse_instance(&bytes[..55]), None);
        bytes[8] = b'E';
        assert_eq!(parse_instance(&bytes), None, "of somebody else");
    }

    #[test]
    fn the_best_name_of_the_unit_itself_counts() {
        let page = |designators: &[(u8, u8, &[u8])]| {
            let mut bytes = vec![0, 0x83, 0, 0];
            for (set, kind, value) in designators {
                bytes.extend([*set, *kind, 0, value.len() as u8]);
                bytes.extend(*value);
            }
            bytes[3] = (bytes.len() - 4) as u8;
            bytes
        };
        type Designator<'a> = (u8, u8, &'a [u8]);
        let t10: Designator<'_> = (2, 0x01, b"IET     00010001");
        let eui: Designator<'_> = (1, 0x02, &[0xab, 0, 1]);
        let port: Designator<'_> = (1, 0x13, &[0x60; 16]);
        let found = |designators: &[Designator<'_>]| parse_designation(&page(designators));
        assert_eq!(found(&[port, t10]).as_deref(), Some("t10.IET 00010001"));
        assert_eq!(found(&[t10, eui, port]).as_deref(), Some("eui.ab0001"));
        assert_eq!(found(&[port, (1, 0x03, &[0; 8])]), None, "zeroes are no name");
        let mut cut = page(&[t10, eui]);
        cut.pop();
        assert_eq!(parse_designation(&cut).as_deref(), Some("t10.IET 00010001"));
        assert_eq!(parse_serial(&[0, 0x80, 0, 9, b'a', b'b', 0]).as_deref(), Some("ab"));
        assert_eq!((parse_serial(&[0, 0x80, 0, 0]), parse_serial(&[0, 0x83, 0, 0])), (None, None));
    }

    #[test]
    fn capacity_of_our_own_unit() {
        let unit = unit(1 << 40, 4096);
        let full = Capacity {
            blocks: 1 << 28,
            block_bytes: 4096,
            physical_exponent: 0,
            can_trim: true,
            trimmed_reads_zero: true,
        };
        let bytes = answer(&unit, &cdb::read_capacity16(32));
        assert_eq!(parse_read_capacity16(&bytes), Some(full));
        let short = Capacity { can_trim: false, trimmed_reads_zero: false, ..full };
        assert_eq!(parse_read_capacity16(&bytes[..12]), Some(short));
        assert_eq!(parse_read_capacity16(&bytes[..11]), None);
        let bytes = answer(&unit, &cdb::read_capacity10());
        assert_eq!(parse_read_capacity10(&bytes), Some(short));
        assert_eq!(parse_read_capacity10(&bytes[..7]), None);
    }

    #[test]
    fn impossible_capacities() {
        let sixteen = |last: u64, block: u32| {
            let bytes = [&last.to_be_bytes()[..], &block.to_be_bytes(), &[0; 20]].concat();
            parse_read_capacity16(&bytes)
        };
        assert!(sixteen(0, 512).is_some());
        for (last, block) in [(u64::MAX, 512), (u64::MAX >> 9, 512), (9, 0), (9, 520), (9, 256)] {
            assert_eq!(sixteen(last, block), None, "{last} {block}");
        }
        assert_eq!(sixteen(9, 131_072), None);
        assert_eq!(parse_read_capacity10(&[0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]), None);
    }

    #[test]
    fn mode_flags_of_our_own_unit() {
        let mut unit = protected(1 << 30, 512);
        let mut expect = ModeFlags {
            write_protected: true,
            can_force_unit_access: true,
            write_cache: Some(false),
        };
        for volatile in [false, true] {
            unit.geometry.volatile = volatile;
            expect.write_cache = Some(volatile);
            let with_descriptor = [0x1a, 0, 0x3f, 0, 255];
            for cdb in [&cdb::mode_sense6(0x3f, 255)[..], &with_descriptor] {
                assert_eq!(parse_mode_sense6(&answer(&unit, cdb)), Some(expect));
            }
        }
        let control = answer(&unit, &cdb::mode_sense6(0x0a, 255));
        assert_eq!(parse_mode_sense6(&control).unwrap().write_cache, None);
        assert_eq!(parse_mode_sense6(&control[..3]), None);
    }

    #[test]
    fn a_subpage_before_the_caching_page_is_stepped_over() {
        let bytes = [15, 0, 0, 0, 0x41, 0x01, 0, 2, 0x08, 0x04, 0x88, 4, 0x04, 0, 0, 0];
        assert_eq!(parse_mode_sense6(&bytes).unwrap().write_cache, Some(true));
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes: Vec<u8>) {
            let _ = parse_read_capacity10(&bytes);
            let _ = parse_read_capacity16(&bytes);
            let _ = parse_mode_sense6(&bytes);
            let _ = parse_instance(&bytes);
        }

        #[test]
        fn any_page_is_survived(mut bytes: Vec<u8>) {
            for code in [0x80, 0x83] {
                bytes.splice(..0, [0, code]);
                let _ = (parse_designation(&bytes), parse_serial(&bytes));
            }
        }
    }
}
