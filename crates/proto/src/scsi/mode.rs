//! MODE SENSE: the mode pages, of which none can be changed.

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

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// A page: its code and what follows its two bytes of header.
type Page = (u8, fn(&Unit) -> Vec<u8>);

//= SPC-4 §MODE SENSE (6) command: pages are returned in ascending order.
const PAGES: [Page; 2] = [(0x08, caching), (0x0a, control)];

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
    DPOFUA | if unit.geometry.read_only { WP } else { 0 }
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
        // Reserved, and 24 bits of block length: at most 65536, so the first byte is the reserved.
        bytes.extend(block_bytes.to_be_bytes());
    }
    bytes
}

/// The pages that are asked for, one behind the other.
fn pages(unit: &Unit, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let (control, code, subpage) = (cdb[2] >> 6, cdb[2] & 0x3f, cdb[3]);
    //= SPC-4 §MODE SENSE (6) command: PC 11b without saved values.
    if control == 3 {
        return Err(Sense::SAVING_PARAMETERS_NOT_SUPPORTED);
    }
    // No page has subpages, so all of them is the page itself.
    if subpage != 0 && subpage != ALL_SUBPAGES {
        return Err(Sense::cdb_field(3));
    }
    let wanted = |page: &&Page| code == ALL_PAGES || code == page.0;
    let mut bytes = Vec::new();
    for (code, body) in PAGES.iter().filter(wanted) {
        let mut body = body(unit);
        //= SPC-4 §MODE SENSE (6) command: PC 01b asks for a mask of what can be changed.
        if control == 1 {
            body.fill(0);
        }
        bytes.extend([*code, body.len() as u8]);
        bytes.extend(body);
    }
    if bytes.is_empty() { Err(Sense::cdb_bit(2, 5)) } else { Ok(bytes) }
}

//= SBC-4 §Caching mode page: WCE tells of a volatile write cache.
fn caching(unit: &Unit) -> Vec<u8> {
    let mut body = vec![0; 0x12];
    body[0] = if unit.geometry.volatile { 0x04 } else { 0 };
    body
}

//= SPC-4 §Control mode page
fn control(_: &Unit) -> Vec<u8> {
    let mut body = vec![0; 0x0a];
    body[1] = 0x10; // QUEUE ALGORITHM MODIFIER: commands may overtake each other.
    body[6] = 0xff; // BUSY TIMEOUT PERIOD: unlimited.
    body[7] = 0xff;
    body
}
