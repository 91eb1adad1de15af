//! Logical unit numbers: the LUN field, REPORT LUNS, and responses for absent units.

use super::condition::sense_data;
use super::field::be32;
use super::inquiry::inquiry_absent;
use super::{Cdb, Plan, Sense, data, opcode};

/// The highest LUN: 14 bits, as in flat space addressing.
pub const LUN_MAX: u16 = 0x3fff;

/// Returns the number in a single-level LUN field with peripheral or flat addressing.
///
/// `None` for all other fields, as none of our units has such a LUN.
//= SAM-5 §Peripheral device addressing, §Flat space addressing
pub fn decode_lun(field: [u8; 8]) -> Option<u16> {
    let [high, low, rest @ ..] = field;
    let lun = u16::from_be_bytes([high & 0x3f, low]);
    match high >> 6 {
        _ if rest != [0; 6] => None,
        // We have only bus identifier zero.
        0 if lun > 0xff => None,
        0 | 1 => Some(lun),
        _ => None,
    }
}

/// The LUN field of a number: peripheral addressing up to 255, flat addressing above.
///
/// Panics above [`LUN_MAX`].
pub fn encode_lun(lun: u16) -> [u8; 8] {
    assert!(lun <= LUN_MAX, "LUN {lun} has more than 14 bits");
    let [high, low] = lun.to_be_bytes();
    let method = if lun > 0xff { 0x40 } else { 0x00 };
    [method | high, low, 0, 0, 0, 0, 0, 0]
}

/// REPORT LUNS data, cut to the allocation length. `luns` are those visible to the initiator, each
/// at most [`LUN_MAX`].
///
/// An unknown SELECT REPORT is an invalid field in the CDB.
//= SPC-4 §REPORT LUNS command
pub fn report_luns(cdb: &[u8; 16], luns: &[u16]) -> Result<Vec<u8>, Sense> {
    let luns = match cdb[2] {
        0x00 | 0x02 => luns,
        // Well known logical units only: there are none.
        0x01 => &[],
        _ => return Err(Sense::cdb_field(2)),
    };
    let mut bytes = Vec::with_capacity(8 + 8 * luns.len());
    bytes.extend((8 * luns.len() as u32).to_be_bytes());
    bytes.extend([0; 4]);
    luns.iter().for_each(|lun| bytes.extend(encode_lun(*lun)));
    bytes.truncate(usize::try_from(be32(cdb, 6)).unwrap_or(usize::MAX));
    Ok(bytes)
}

/// The response to a command for an absent logical unit. `luns` are those that exist.
//= SAM-5 §Incorrect logical unit numbers for I_T_L nexuses
pub fn absent(cdb: &[u8; 16], luns: &[u16]) -> Result<Plan, Sense> {
    match cdb[0] {
        opcode::INQUIRY => inquiry_absent(cdb),
        opcode::REPORT_LUNS => report_luns(cdb, luns).map(Plan::Data),
        opcode::REQUEST_SENSE => sense_data(cdb, Sense::LOGICAL_UNIT_NOT_SUPPORTED),
        _ => Err(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}

/// REPORT LUNS of a single unit, LUN 0. A session knows the list, and calls [`report_luns`] itself.
pub(super) fn report_luns_alone(_: &super::Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    data(report_luns(cdb, &[0])?, u32::MAX)
}

#[cfg(test)]
mod test {
    use super::super::cdb as build;
    use super::super::test::{answer, unit};
    use super::*;

    #[test]
    fn both_addressing_methods() {
        assert_eq!(encode_lun(0), [0; 8]);
        assert_eq!(encode_lun(255), [0, 255, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encode_lun(256), [0x41, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encode_lun(LUN_MAX), [0x7f, 0xff, 0, 0, 0, 0, 0, 0]);
        assert!((0..=LUN_MAX).all(|lun| decode_lun(encode_lun(lun)) == Some(lun)));
        assert_eq!(decode_lun([0x40, 5, 0, 0, 0, 0, 0, 0]), Some(5));
    }

    #[test]
    fn other_addresses_are_nobody() {
        assert_eq!(decode_lun([0x01, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode_lun([0x80, 1, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode_lun([0xc1, 1, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode_lun([0, 1, 0, 1, 0, 0, 0, 0]), None);
    }

    #[test]
    #[should_panic(expected = "more than 14 bits")]
    fn fifteen_bits_are_too_many() {
        encode_lun(LUN_MAX + 1);
    }

    #[test]
    fn the_list_golden() {
        let cdb = build::report_luns(4096);
        let mut expect = vec![0, 0, 0, 16, 0, 0, 0, 0];
        expect.extend([0, 1, 0, 0, 0, 0, 0, 0, 0x41, 0x2c, 0, 0, 0, 0, 0, 0]);
        assert_eq!(report_luns(&cdb, &[1, 300]), Ok(expect.clone()));
        let mut all = cdb;
        all[2] = 2;
        assert_eq!(report_luns(&all, &[1, 300]), Ok(expect.clone()));
        assert_eq!(report_luns(&build::report_luns(9), &[1, 300]), Ok(expect[..9].to_vec()));
        let mut well_known = cdb;
        well_known[2] = 1;
        assert_eq!(report_luns(&well_known, &[1, 300]), Ok(vec![0; 8]));
        let mut administrative = cdb;
        administrative[2] = 0x10;
        assert_eq!(report_luns(&administrative, &[1]), Err(Sense::cdb_field(2)));
    }

    #[test]
    fn a_unit_alone_is_lun_0() {
        let expect = [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(answer(&unit(512, 512), &build::report_luns(4096)), expect);
    }

    #[test]
    fn an_absent_unit_answers_three_commands() {
        let luns = [3];
        let absent = |cdb: Cdb| absent(&cdb, &luns);
        let list = report_luns(&build::report_luns(64), &luns).unwrap();
        assert_eq!(absent(build::report_luns(64)), Ok(Plan::Data(list)));
        let sense = Sense::LOGICAL_UNIT_NOT_SUPPORTED;
        let fixed = Plan::Data(sense.encode_fixed().to_vec());
        assert_eq!(absent(build::request_sense(252)), Ok(fixed));
        assert!(matches!(absent(build::inquiry(None, 96)), Ok(Plan::Data(b)) if b[0] == 0x7f));
        for cdb in [build::test_unit_ready(), build::read16(0, 1), [0xff; 16]] {
            assert_eq!(absent(cdb), Err(sense));
        }
    }
}
