//! INQUIRY: identity and capabilities of the logical unit.

use super::capacity::physical_exponent;
use super::field::{be16, put, put_ascii};
use super::{Cdb, Plan, Sense, Unit, data};
use super::{check, copy, ports, provisioning};
use crate::Instance;

/// T10 vendor identification.
pub(crate) const VENDOR: &str = "DRUMFIRE";
/// Stands before the server's instance, 16 hexadecimal digits, in the bytes that belong to vendors.
pub(super) const RUN: &str = "RUN=";
/// Product revision level: major and minor version.
const REVISION: &str =
    concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
/// Peripheral qualifier 011b, device type 1Fh: no such logical unit.
pub(super) const NO_UNIT: u8 = 0x7f;

/// 3PC, in byte 5 of INQUIRY data: EXTENDED COPY is supported.
const THIRD_PARTY_COPY: u8 = 0x08;

const ENABLE_VITAL_PRODUCT_DATA: u8 = 0x01;
const COMMAND_SUPPORT_DATA: u8 = 0x02;

/// A VPD page: its code, and the function that appends to its 4-byte header.
type Page = (u8, fn(&Unit, &mut Vec<u8>));

/// Page code of the backing store.
//= SPC-4 §Vital product data page codes: C0h to FFh are vendor specific.
pub(crate) const BACKING_PAGE: u8 = 0xc0;

//= SPC-4 §Supported VPD Pages VPD page: in ascending order.
const PAGES: [Page; 9] = [
    (0x00, supported_pages),
    (0x80, serial_number),
    (0x83, device_identification),
    (0x86, extended_inquiry),
    (0x8f, copy::third_party_page),
    (0xb0, block_limits),
    (0xb1, characteristics),
    (0xb2, provisioning_page),
    (BACKING_PAGE, backing),
];

//= SPC-4 §INQUIRY command: the allocation length has 16 bits.
pub(super) fn inquiry(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let allocation = be16(cdb, 3);
    if !vital(cdb)? {
        let instance = unit.instance.as_ref().map(Instance::number);
        let mut bytes = standard(0, &unit.identity.product, instance);
        bytes[1] = if unit.state.is_removable() { REMOVABLE } else { 0 };
        return data(bytes, allocation);
    }
    let page = PAGES.iter().find(|page| page.0 == cdb[2]).ok_or(Sense::cdb_field(2))?;
    data(vital_page(0, page.0, |bytes| page.1(unit, bytes)), allocation)
}

/// INQUIRY data for an absent logical unit.
//= SPC-4 §INQUIRY command: qualifier 011b and type 1Fh for a logical unit that is not supported.
pub(super) fn inquiry_absent(cdb: &Cdb) -> Result<Plan, Sense> {
    let allocation = be16(cdb, 3);
    if !vital(cdb)? {
        return data(standard(NO_UNIT, "", None), allocation);
    }
    if cdb[2] != 0 {
        return Err(Sense::cdb_field(2));
    }
    data(vital_page(NO_UNIT, 0x00, |bytes| bytes.push(0x00)), allocation)
}

/// Whether a VPD page is requested.
//= SPC-4 §INQUIRY command: EVPD zero with a PAGE CODE is an invalid field; CMDDT is obsolete.
fn vital(cdb: &Cdb) -> Result<bool, Sense> {
    if cdb[1] & COMMAND_SUPPORT_DATA != 0 {
        return Err(Sense::cdb_bit(1, 1));
    }
    let vital = cdb[1] & ENABLE_VITAL_PRODUCT_DATA != 0;
    if !vital && cdb[2] != 0 { Err(Sense::cdb_field(2)) } else { Ok(vital) }
}

/// RMB in byte 1: the medium is removable.
const REMOVABLE: u8 = 0x80;

//= SPC-4 §Standard INQUIRY data
fn standard(peripheral: u8, product: &str, instance: Option<u64>) -> Vec<u8> {
    let mut bytes = vec![0; 96];
    bytes[0] = peripheral;
    bytes[2] = 0x06; // SPC-4
    bytes[3] = 0x12; // HISUP, response data format 2
    bytes[4] = 96 - 5;
    bytes[5] = if peripheral == NO_UNIT { 0 } else { ports::TPGS_IMPLICIT | THIRD_PARTY_COPY };
    bytes[7] = 0x02; // CMDQUE
    put_ascii(&mut bytes, 8, 8, VENDOR);
    put_ascii(&mut bytes, 16, 16, product);
    put_ascii(&mut bytes, 32, 4, REVISION);
    //= SPC-4 §Standard INQUIRY data: bytes 36 to 55 are vendor specific.
    if let Some(instance) = instance {
        put_ascii(&mut bytes, 36, 20, &format!("{RUN}{instance:016x}"));
    }
    //= SPC-4 §Version descriptor values: SAM-5, iSCSI, SPC-4, SBC-3, no revision claimed.
    for (i, standard) in [0x00a0_u16, 0x0960, 0x0460, 0x04c0].into_iter().enumerate() {
        put(&mut bytes, 58 + 2 * i, standard.to_be_bytes());
    }
    bytes
}

/// Builds a page and sets its length. So offsets in `bytes` are those of the standard.
fn vital_page(peripheral: u8, code: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![peripheral, code, 0, 0];
    fill(&mut bytes);
    let len = (bytes.len() - 4) as u16;
    put(&mut bytes, 2, len.to_be_bytes());
    bytes
}

fn supported_pages(_: &Unit, bytes: &mut Vec<u8>) {
    bytes.extend(PAGES.iter().map(|page| page.0));
}

//= SPC-4 §Unit Serial Number VPD page
fn serial_number(unit: &Unit, bytes: &mut Vec<u8>) {
    bytes.extend(unit.identity.disk.serial().bytes());
}

//= SPC-4 §Device Identification VPD page
fn device_identification(unit: &Unit, bytes: &mut Vec<u8>) {
    let mut serial = Vec::new();
    serial_number(unit, &mut serial);
    // ASCII, logical unit, T10 vendor ID based.
    bytes.extend([0x02, 0x01, 0, (VENDOR.len() + serial.len()) as u8]);
    bytes.extend(VENDOR.as_bytes());
    bytes.extend(&serial);
    // Binary, logical unit, NAA.
    bytes.extend([0x01, 0x03, 0, 8]);
    bytes.extend(unit.identity.disk.naa().to_be_bytes());
    ports::designators(bytes);
}

//= SPC-4 §Extended INQUIRY Data VPD page: PAGE LENGTH 3Ch.
fn extended_inquiry(unit: &Unit, bytes: &mut Vec<u8>) {
    bytes.resize(64, 0);
    bytes[5] = 0x01; // SIMPSUP: simple tasks only, lanes keep no order.
    bytes[6] = u8::from(unit.geometry.volatile); // V_SUP
}

//= SBC-4 §Block Limits VPD page: PAGE LENGTH 3Ch.
fn block_limits(unit: &Unit, bytes: &mut Vec<u8>) {
    let transfer_max = (Unit::TRANSFER_BYTES_MAX / unit.block_bytes()) as u32;
    let physical = 1_u16 << physical_exponent(unit);
    bytes.resize(64, 0);
    bytes[5] = check::compare_blocks_max(unit); // MAXIMUM COMPARE AND WRITE LENGTH
    put(bytes, 6, physical.to_be_bytes()); // OPTIMAL TRANSFER LENGTH GRANULARITY
    put(bytes, 8, transfer_max.to_be_bytes()); // MAXIMUM TRANSFER LENGTH
    put(bytes, 20, provisioning::UNMAP_BLOCKS_MAX.to_be_bytes());
    put(bytes, 24, provisioning::UNMAP_DESCRIPTORS_MAX.to_be_bytes());
    put(bytes, 28, u32::from(physical).to_be_bytes()); // OPTIMAL UNMAP GRANULARITY
    bytes[32] = 0x80; // UGAVALID, UNMAP GRANULARITY ALIGNMENT zero
    put(bytes, 36, provisioning::write_same_blocks_max(unit).to_be_bytes());
}

//= SBC-4 §Block Device Characteristics VPD page: PAGE LENGTH 3Ch.
fn characteristics(_: &Unit, bytes: &mut Vec<u8>) {
    bytes.resize(64, 0);
    bytes[5] = 0x01; // MEDIUM ROTATION RATE 0001h: non-rotating.
}

//= SBC-4 §Logical Block Provisioning VPD page: PAGE LENGTH 4 without a group descriptor.
fn provisioning_page(unit: &Unit, bytes: &mut Vec<u8>) {
    bytes.resize(8, 0);
    let zeroes = if unit.geometry.trim_zeroes { 0x04 } else { 0 }; // LBPRZ 001b
    bytes[5] = 0x80 | 0x40 | 0x20 | zeroes; // LBPU, LBPWS, LBPWS10
    bytes[6] = 0x02; // PROVISIONING TYPE: thin.
}

/// The backing store, as a line of text.
fn backing(unit: &Unit, bytes: &mut Vec<u8>) {
    bytes.extend(unit.backing.line().as_bytes());
}

#[cfg(test)]
mod test {
    use block::Backing;

    use super::super::cdb as build;
    use super::super::parse_backing;
    use super::super::test::{answer, cdb, refusal, unit};
    use super::*;
    use crate::DiskId;

    fn page(unit: &Unit, code: u8) -> Vec<u8> {
        answer(unit, &build::inquiry(Some(code), 512))
    }

    #[test]
    fn standard_golden() {
        let mut expect = [0; 96];
        expect[..8].copy_from_slice(&[0, 0, 6, 0x12, 91, 0x18, 0, 2]);
        expect[8..32].copy_from_slice(b"DRUMFIREram             ");
        expect[32..36].copy_from_slice(format!("{REVISION:<4}").as_bytes());
        expect[58..66].copy_from_slice(&[0x00, 0xa0, 0x09, 0x60, 0x04, 0x60, 0x04, 0xc0]);
        let unit = unit(1 << 30, 512);
        assert_eq!(answer(&unit, &build::inquiry(None, 512)), expect);
        assert_eq!(answer(&unit, &build::inquiry(None, 511)), expect);
        assert_eq!(answer(&unit, &build::inquiry(None, 36)), expect[..36]);
        assert_eq!(answer(&unit, &build::inquiry(None, 0)), []);
    }

    #[test]
    fn a_product_is_cut_and_printable() {
        let mut unit = unit(1 << 30, 512);
        unit.identity.product = "a product with\na name that is too long".to_owned();
        assert_eq!(&answer(&unit, &build::inquiry(None, 36))[16..32], b"a product with.a");
    }

    #[test]
    fn pages_golden() {
        let unit = unit(1 << 30, 512);
        let supported = [0, 0, 0, 9, 0x00, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2, 0xc0];
        assert_eq!(page(&unit, 0x00), supported);
        assert_eq!(page(&unit, 0x80), *b"\x00\x80\x00\x143031323334358637b839");
        let mut expect = b"\x00\x83\x00\x3c\x02\x01\x00\x1cDRUMFIRE".to_vec();
        expect.extend(b"3031323334358637b839");
        expect.extend([0x01, 0x03, 0, 8, 0x33, 0x03, 0x13, 0x23, 0x33, 0x43, 0x58, 0x63]);
        expect.extend([0x51, 0x94, 0, 4, 0, 0, 0, 1, 0x51, 0x95, 0, 4, 0, 0, 0, 1]);
        assert_eq!(page(&unit, 0x83), expect);
        let mut expect = [0; 64];
        expect[..8].copy_from_slice(&[0, 0x86, 0, 0x3c, 0, 1, 0, 0]);
        assert_eq!(page(&unit, 0x86), expect);
        let mut expect = [0; 64];
        expect[..6].copy_from_slice(&[0, 0xb1, 0, 0x3c, 0, 1]);
        assert_eq!(page(&unit, 0xb1), expect);
        assert_eq!(page(&unit, 0xb2), [0, 0xb2, 0, 4, 0, 0xe4, 2, 0]);
    }

    #[test]
    fn the_backing_store_has_a_page() {
        let unit = unit(1 << 30, 512);
        assert_eq!(page(&unit, 0xc0), *b"\0\xc0\0\x0fbacking=unknown");
        let backing = Backing::Emulated("emulates cd6".to_owned());
        let bytes = page(&unit.backed_by(backing.clone()), 0xc0);
        assert_eq!(parse_backing(&bytes), Some(backing));
        assert_eq!(parse_backing(&bytes[..8]), None);
        assert_eq!(parse_backing(&[0, 0xc1, 0, 14]), None);
    }

    #[test]
    fn block_limits_golden() {
        let limits = |block_bytes, compared: u8, physical: u8, transfer: [u8; 4], same: [u8; 4]| {
            let mut expect = [0; 64];
            expect[..8].copy_from_slice(&[0, 0xb0, 0, 0x3c, 0, compared, 0, physical]);
            expect[8..12].copy_from_slice(&transfer);
            expect[20..28].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0]);
            expect[28..36].copy_from_slice(&[0, 0, 0, physical, 0x80, 0, 0, 0]);
            expect[40..44].copy_from_slice(&same);
            assert_eq!(page(&unit(1 << 30, block_bytes), 0xb0), expect);
        };
        limits(512, 255, 8, [0, 2, 0, 0], [0, 0x20, 0, 0]);
        limits(4096, 32, 1, [0, 0, 0x40, 0], [0, 4, 0, 0]);
    }

    #[test]
    fn a_volatile_cache_shows() {
        let mut unit = unit(1 << 30, 512);
        unit.geometry.volatile = true;
        assert_eq!(page(&unit, 0x86)[6], 1);
    }

    #[test]
    fn every_listed_page_is_there_and_no_other() {
        let unit = unit(1 << 30, 4096);
        let listed = page(&unit, 0x00).split_off(4);
        assert!(listed.is_sorted());
        for code in 0..=255 {
            if listed.contains(&code) {
                let bytes = page(&unit, code);
                assert_eq!(bytes[1], code);
                assert_eq!(usize::from(be16(&bytes, 2)), bytes.len() - 4);
                assert_eq!(answer(&unit, &build::inquiry(Some(code), 6)), bytes[..6]);
            } else {
                let cdb = build::inquiry(Some(code), 512);
                assert_eq!(refusal(&unit, &cdb), Sense::cdb_field(2), "{code:02x}");
            }
        }
    }

    #[test]
    fn wrong_questions() {
        let unit = unit(1 << 30, 512);
        assert_eq!(refusal(&unit, &[0x12, 0, 0x80, 0, 96]), Sense::cdb_field(2));
        assert_eq!(refusal(&unit, &[0x12, 2, 0, 0, 96]), Sense::cdb_bit(1, 1));
    }

    #[test]
    fn another_disk_has_other_names() {
        let [mut a, mut b] = [unit(1 << 30, 512), unit(1 << 30, 512)];
        a.identity.disk = DiskId::new([1; 16]);
        b.identity.disk = DiskId::new([2; 16]);
        for code in [0x80, 0x83] {
            assert_eq!(page(&a, code), page(&a, code));
            assert_ne!(page(&a, code), page(&b, code));
        }
        let naa = |unit: &Unit| page(unit, 0x83)[4 + 4 + 8 + 20 + 4..][..8].to_vec();
        assert_ne!(naa(&a), naa(&b));
    }

    #[test]
    fn an_absent_unit_has_one_page() {
        let ask = |bytes: &[u8]| inquiry_absent(&cdb(bytes));
        let Ok(Plan::Data(bytes)) = ask(&build::inquiry(None, 96)) else { panic!() };
        assert_eq!(bytes[..5], [0x7f, 0, 6, 0x12, 91]);
        assert_eq!(&bytes[8..32], b"DRUMFIRE                ");
        let expect = Plan::Data(vec![0x7f, 0, 0, 1, 0]);
        assert_eq!(ask(&build::inquiry(Some(0), 96)), Ok(expect));
        assert_eq!(ask(&build::inquiry(Some(0x80), 96)), Err(Sense::cdb_field(2)));
        assert_eq!(ask(&[0x12, 0, 1]), Err(Sense::cdb_field(2)));
    }
}
