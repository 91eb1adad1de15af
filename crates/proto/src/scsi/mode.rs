//! MODE SENSE: the mode pages, of which `mode_select` changes one bit.

use super::field::{be16, put};
use super::{Cdb, Plan, Sense, Unit, data};

/// Disable block descriptors, in byte 1.
const DBD: u8 = 0x08;
/// Long LBA accepted, in byte 1 of MODE SENSE (10).
const LLBAA: u8 = 0x10;
/// Write protected, in the device-specific parameter.
const WP: u8 = 0x80;
/// DPO and FUA are supported, in the device-specific parameter.
const DPOFUA: u8 = 0x10;

/// Software write protect, in byte 4 of the Control mode page.
pub(super) const SWP: u8 = 0x08;
/// Changeable bits of byte 4 of the Control mode page; all other bits are fixed.
pub(super) const CHANGEABLE: u8 = SWP;

/// Code of the Control mode page.
pub(super) const CONTROL_PAGE: u8 = 0x0a;

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// A page: its code, its total length, and the function that fills it in.
type Page = (u8, u8, fn(&Unit, &mut [u8]));

//= SPC-4 §MODE SENSE (6) command: pages are returned in ascending order.
const PAGES: [Page; 2] = [(0x08, 20, caching), (CONTROL_PAGE, 12, control)];

//= SPC-4 §MODE SENSE (6) command
pub(super) fn mode_sense_6(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let pages = pages(unit, cdb)?;
    let descriptor = block_descriptor(unit, cdb, false);
    //= SPC-4 §Mode parameter header formats: the length does not count itself.
    let mut bytes = vec![0, 0, device_specific(unit), descriptor.len() as u8];
    bytes.extend(descriptor);
    bytes.extend(pages);
    bytes[0] = (bytes.len() - 1) as u8;
    data(bytes, cdb[4])
}

//= SPC-4 §MODE SENSE (10) command
pub(super) fn mode_sense_10(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let pages = pages(unit, cdb)?;
    let long = cdb[1] & LLBAA != 0;
    let descriptor = block_descriptor(unit, cdb, long);
    let long_descriptor = long && !descriptor.is_empty();
    let mut bytes = vec![0; 8];
    bytes[3] = device_specific(unit);
    bytes[4] = u8::from(long_descriptor); // LONGLBA
    bytes[7] = descriptor.len() as u8;
    bytes.extend(descriptor);
    bytes.extend(pages);
    let len = bytes.len() as u16 - 2;
    put(&mut bytes, 0, len.to_be_bytes());
    data(bytes, be16(cdb, 7))
}

//= SBC-4 §Mode parameter header DEVICE-SPECIFIC PARAMETER field
fn device_specific(unit: &Unit) -> u8 {
    let protected = unit.geometry.read_only || unit.state.is_protected();
    DPOFUA | if protected { WP } else { 0 }
}

//= SBC-4 §Mode parameter block descriptors: a count that does not fit is all ones.
fn block_descriptor(unit: &Unit, cdb: &Cdb, long: bool) -> Vec<u8> {
    let (blocks, block_bytes) = (unit.geometry.blocks, unit.geometry.block_bytes);
    let mut bytes = Vec::new();
    if cdb[1] & DBD != 0 {
        return bytes;
    }
    if long {
        bytes.extend(blocks.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(block_bytes.to_be_bytes());
    } else {
        bytes.extend(u32::try_from(blocks).unwrap_or(u32::MAX).to_be_bytes());
        // The first byte is reserved: block lengths are at most 65536.
        bytes.extend(block_bytes.to_be_bytes());
    }
    bytes
}

/// The requested pages.
fn pages(unit: &Unit, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let (control, code, subpage) = (cdb[2] >> 6, cdb[2] & 0x3f, cdb[3]);
    //= SPC-4 §MODE SENSE (6) command: PC 11b without saved values.
    if control == 3 {
        return Err(Sense::SAVING_PARAMETERS_NOT_SUPPORTED);
    }
    // No page has subpages, so "all subpages" is the page itself.
    if subpage != 0 && subpage != ALL_SUBPAGES {
        return Err(Sense::cdb_field(3));
    }
    let wanted = |page: &&Page| code == ALL_PAGES || code == page.0;
    let mut bytes = Vec::new();
    for (code, len, fill) in PAGES.iter().filter(wanted) {
        let at = bytes.len();
        bytes.resize(at + usize::from(*len), 0);
        bytes[at] = *code;
        bytes[at + 1] = len - 2;
        //= SPC-4 §MODE SENSE (6) command: PC 01b requests a mask of the changeable fields.
        if control != 1 {
            fill(unit, &mut bytes[at..]);
        }
        if *code == CONTROL_PAGE {
            bytes[at + 4] = match control {
                0 if unit.state.is_protected() => SWP,
                1 => CHANGEABLE,
                _ => 0,
            };
        }
    }
    if bytes.is_empty() { Err(Sense::cdb_bit(2, 5)) } else { Ok(bytes) }
}

/// The current values of a page.
pub(super) fn current_page(unit: &Unit, code: u8) -> Option<Vec<u8>> {
    let mut cdb = [0; 16];
    cdb[2] = code;
    pages(unit, &cdb).ok().filter(|_| code != ALL_PAGES)
}

//= SBC-4 §Caching mode page: WCE reports a volatile write cache.
fn caching(unit: &Unit, page: &mut [u8]) {
    page[2] = if unit.geometry.volatile { 0x04 } else { 0 };
}

//= SPC-4 §Control mode page
fn control(_: &Unit, page: &mut [u8]) {
    page[3] = 0x10; // QUEUE ALGORITHM MODIFIER: commands may overtake each other.
    put(page, 8, 0xffff_u16.to_be_bytes()); // BUSY TIMEOUT PERIOD: unlimited.
}

#[cfg(test)]
mod test {
    use super::super::cdb as build;
    use super::super::test::{answer, protected, refusal, unit};
    use super::*;

    const CACHING: [u8; 20] = [8, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const CONTROL: [u8; 12] = [10, 10, 0, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0, 0];

    #[test]
    fn six_golden() {
        let unit = unit(1 << 30, 512);
        let all = [&[43, 0, 0x10, 8, 0, 0x20, 0, 0, 0, 0, 2, 0][..], &CACHING, &CONTROL].concat();
        assert_eq!(answer(&unit, &[0x1a, 0, 0x3f, 0, 255]), all);
        assert_eq!(answer(&unit, &[0x1a, 0, 0x3f, 0xff, 255]), all);
        assert_eq!(answer(&unit, &[0x1a, 0, 0x3f, 0, 4]), all[..4]);
        let caching = [&[23, 0, 0x10, 0][..], &CACHING].concat();
        assert_eq!(answer(&unit, &build::mode_sense6(0x08, 255)), caching);
        let control = [&[15, 0, 0x10, 0][..], &CONTROL].concat();
        assert_eq!(answer(&unit, &[0x1a, 8, 0x0a, 0xff, 255]), control);
        assert_eq!(answer(&unit, &[0x1a, 8, 0x8a, 0, 255]), control);
    }

    #[test]
    fn ten_golden() {
        let unit = unit(0x1_0000_0000 * 4096, 4096);
        let header = [0, 46, 0, 0x10, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0];
        let all = [&header[..], &CACHING, &CONTROL].concat();
        assert_eq!(answer(&unit, &[0x5a, 0, 0x3f, 0, 0, 0, 0, 2, 0]), all);
        let header = [0, 34, 0, 0x10, 1, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0];
        let control = [&header[..], &[0, 0, 0, 0, 0, 0, 0x10, 0], &CONTROL].concat();
        assert_eq!(answer(&unit, &[0x5a, 0x10, 0x0a, 0, 0, 0, 0, 2, 0]), control);
        let bare = [&[0, 18, 0, 0x10, 0, 0, 0, 0][..], &CONTROL].concat();
        assert_eq!(answer(&unit, &[0x5a, 0x18, 0x0a, 0, 0, 0, 0, 2, 0]), bare);
        assert_eq!(answer(&unit, &build::mode_sense10(0x0a, 9)), bare[..9]);
    }

    #[test]
    fn flags_follow_the_geometry() {
        let mut unit = protected(1 << 30, 512);
        unit.geometry.volatile = true;
        let bytes = answer(&unit, &build::mode_sense6(0x08, 255));
        assert_eq!((bytes[2], bytes[6]), (0x90, 0x04));
        assert_eq!(answer(&unit, &build::mode_sense10(0x08, 255))[3], 0x90);
    }

    #[test]
    fn only_software_write_protection_can_be_changed() {
        let mut unit = unit(1 << 30, 512);
        unit.geometry.volatile = true;
        let mut bytes = answer(&unit, &[0x1a, 8, 0x7f, 0, 255]);
        assert_eq!((bytes[4], bytes[5], bytes[24], bytes[25]), (8, 18, 10, 10));
        assert_eq!(bytes[28], SWP);
        bytes[28] = 0;
        assert!(bytes[6..24].iter().chain(&bytes[26..]).all(|byte| *byte == 0));
    }

    #[test]
    fn wrong_questions() {
        let unit = unit(1 << 30, 512);
        for code in [0x1a, 0x5a] {
            let saved = Sense::SAVING_PARAMETERS_NOT_SUPPORTED;
            assert_eq!(refusal(&unit, &[code, 0, 0xff]), saved);
            assert_eq!(refusal(&unit, &[code, 0, 0x0a, 1]), Sense::cdb_field(3));
            assert_eq!(refusal(&unit, &[code, 0, 0x00, 0]), Sense::cdb_bit(2, 5));
            assert_eq!(refusal(&unit, &[code, 0, 0x1c, 0xff]), Sense::cdb_bit(2, 5));
        }
    }
}
