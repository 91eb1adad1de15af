//! INQUIRY: who the logical unit is and what it can do.

use super::capacity::physical_exponent;
use super::field::{be16, put, put_ascii};
use super::provisioning;
use super::{Cdb, Plan, Sense, Unit, data};

/// T10 vendor identification.
const VENDOR: &str = "DRUMFIRE";
/// Product revision level: major and minor version.
const REVISION: &str =
    concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
/// Peripheral qualifier 011b, device type 1Fh: no such logical unit.
pub(super) const NO_UNIT: u8 = 0x7f;
/// Longest unit serial number in characters.
const SERIAL_MAX: usize = 36;

const ENABLE_VITAL_PRODUCT_DATA: u8 = 0x01;
const COMMAND_SUPPORT_DATA: u8 = 0x02;

/// A page: its code and what follows its four bytes of header.
type Page = (u8, fn(&Unit) -> Vec<u8>);

//= SPC-4 §Supported VPD Pages VPD page: in ascending order.
const PAGES: [Page; 7] = [
    (0x00, supported_pages),
    (0x80, serial_number),
    (0x83, device_identification),
    (0x86, extended_inquiry),
    (0xb0, block_limits),
    (0xb1, characteristics),
    (0xb2, provisioning_page),
];

//= SPC-4 §INQUIRY command: the allocation length has 16 bits.
pub(super) fn inquiry(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let allocation = be16(cdb, 3);
    if !vital(cdb)? {
        return data(standard(0, &unit.identity.product), allocation);
    }
    let page = PAGES.iter().find(|page| page.0 == cdb[2]).ok_or(Sense::cdb_field(2))?;
    data(vital_page(0, page.0, &page.1(unit)), allocation)
}

/// What a target says of a logical unit that it does not have.
//= SPC-4 §INQUIRY command: qualifier 011b and type 1Fh for a logical unit that is not supported.
pub(super) fn inquiry_absent(cdb: &Cdb) -> Result<Plan, Sense> {
    let allocation = be16(cdb, 3);
    if !vital(cdb)? {
        return data(standard(NO_UNIT, ""), allocation);
    }
    if cdb[2] != 0 {
        return Err(Sense::cdb_field(2));
    }
    data(vital_page(NO_UNIT, 0x00, &[0x00]), allocation)
}

/// Whether a page of vital product data is wanted.
//= SPC-4 §INQUIRY command: EVPD zero with a PAGE CODE is an invalid field; CMDDT is obsolete.
fn vital(cdb: &Cdb) -> Result<bool, Sense> {
    if cdb[1] & COMMAND_SUPPORT_DATA != 0 {
        return Err(Sense::cdb_bit(1, 1));
    }
    let vital = cdb[1] & ENABLE_VITAL_PRODUCT_DATA != 0;
    if !vital && cdb[2] != 0 { Err(Sense::cdb_field(2)) } else { Ok(vital) }
}

//= SPC-4 §Standard INQUIRY data
fn standard(peripheral: u8, product: &str) -> Vec<u8> {
    let mut bytes = vec![0; 96];
    bytes[0] = peripheral;
    bytes[2] = 0x06; // SPC-4
    bytes[3] = 0x12; // HISUP, response data format 2
    bytes[4] = 96 - 5;
    bytes[7] = 0x02; // CMDQUE
    put_ascii(&mut bytes, 8, 8, VENDOR);
    put_ascii(&mut bytes, 16, 16, product);
    put_ascii(&mut bytes, 32, 4, REVISION);
    //= SPC-4 §Version descriptor values: SAM-5, iSCSI, SPC-4, SBC-3, no revision claimed.
    for (i, standard) in [0x00a0_u16, 0x0960, 0x0460, 0x04c0].into_iter().enumerate() {
        put(&mut bytes, 58 + 2 * i, standard.to_be_bytes());
    }
    bytes
}

fn vital_page(peripheral: u8, code: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![peripheral, code];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn supported_pages(_: &Unit) -> Vec<u8> {
    PAGES.iter().map(|page| page.0).collect()
}

//= SPC-4 §Unit Serial Number VPD page
fn serial_number(unit: &Unit) -> Vec<u8> {
    let len = unit.identity.serial.len().min(SERIAL_MAX);
    let mut bytes = vec![0; len];
    put_ascii(&mut bytes, 0, len, &unit.identity.serial);
    bytes
}

//= SPC-4 §Device Identification VPD page
fn device_identification(unit: &Unit) -> Vec<u8> {
    let serial = serial_number(unit);
    let mut bytes = Vec::new();
    // ASCII, of the logical unit, T10 vendor ID based.
    bytes.extend([0x02, 0x01, 0, (VENDOR.len() + serial.len()) as u8]);
    bytes.extend(VENDOR.as_bytes());
    bytes.extend(&serial);
    // Binary, of the logical unit, NAA.
    bytes.extend([0x01, 0x03, 0, 8]);
    bytes.extend(locally_assigned_name(&serial).to_be_bytes());
    bytes
}

/// A name of 60 bits that follows from the serial number, so it survives a restart and is the
/// same over every path.
//= SPC-4 §NAA Locally Assigned designator format: NAA 3h.
fn locally_assigned_name(serial: &[u8]) -> u64 {
    // FNV-1a, and the finalizer of MurmurHash3 to spread short serials over all bits.
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let mut hash = serial.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash = hash ^ hash >> 33;
    0x3 << 60 | hash >> 4
}

//= SPC-4 §Extended INQUIRY Data VPD page
fn extended_inquiry(unit: &Unit) -> Vec<u8> {
    let mut bytes = vec![0; 0x3c];
    bytes[5 - 4] = 0x01; // SIMPSUP: simple tasks only, lanes keep no order.
    bytes[6 - 4] = u8::from(unit.geometry.volatile); // V_SUP
    bytes
}

//= SBC-4 §Block Limits VPD page: PAGE LENGTH 3Ch.
fn block_limits(unit: &Unit) -> Vec<u8> {
    let transfer_max = (Unit::TRANSFER_BYTES_MAX / unit.block_bytes()) as u32;
    let physical = 1_u32 << physical_exponent(unit);
    let mut bytes = vec![0; 4 + 0x3c];
    put(&mut bytes, 6, (physical as u16).to_be_bytes()); // OPTIMAL TRANSFER LENGTH GRANULARITY
    put(&mut bytes, 8, transfer_max.to_be_bytes()); // MAXIMUM TRANSFER LENGTH
    put(&mut bytes, 20, provisioning::UNMAP_BLOCKS_MAX.to_be_bytes());
    put(&mut bytes, 24, provisioning::UNMAP_DESCRIPTORS_MAX.to_be_bytes());
    put(&mut bytes, 28, physical.to_be_bytes()); // OPTIMAL UNMAP GRANULARITY
    put(&mut bytes, 32, 0x8000_0000_u32.to_be_bytes()); // UGAVALID, alignment 0
    put(&mut bytes, 36, provisioning::write_same_blocks_max(unit).to_be_bytes());
    bytes.split_off(4)
}

//= SBC-4 §Block Device Characteristics VPD page: MEDIUM ROTATION RATE 0001h, non-rotating.
fn characteristics(_: &Unit) -> Vec<u8> {
    let mut bytes = vec![0; 0x3c];
    bytes[5 - 4] = 0x01;
    bytes
}

//= SBC-4 §Logical Block Provisioning VPD page
fn provisioning_page(_: &Unit) -> Vec<u8> {
    // LBPU, LBPWS, LBPWS10, LBPRZ 001b: what is trimmed reads as zeroes. Thin provisioned.
    vec![0, 0x80 | 0x40 | 0x20 | 0x04, 0x02, 0]
}
