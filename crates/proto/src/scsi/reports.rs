//! Reports of what a volume has none of: LOG SENSE, READ DEFECT DATA.

use super::field::{be16, be32};
use super::{Cdb, Plan, Sense, Unit, data};

/// REQ_PLIST, REQ_GLIST and the format of the list.
const LIST: u8 = 0x1f;
/// Parameter pointer control and save parameters, in byte 1 of LOG SENSE.
const SAVE: u8 = 0x01;
/// All subpages.
const ALL_SUBPAGES: u8 = 0xff;

/// The list of pages, and the list of pages and subpages, are the only ones: nothing is counted
/// that is not also known better to `/metrics`, and no temperature is measured.
//= SPC-4 §LOG SENSE command, §Supported Log Pages log page
pub(super) fn log_sense(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    if cdb[1] & SAVE != 0 {
        return Err(Sense::cdb_bit(1, 0));
    }
    if cdb[2] & 0x3f != 0 {
        return Err(Sense::cdb_bit(2, 5));
    }
    let pages: &[u8] = match cdb[3] {
        0 => &[0x00, 0, 0, 1, 0x00],
        //= SPC-4 §Supported Log Pages and Subpages log page: SPF, and two bytes for each page.
        ALL_SUBPAGES => &[0x40, ALL_SUBPAGES, 0, 4, 0x00, 0x00, 0x00, ALL_SUBPAGES],
        _ => return Err(Sense::cdb_field(3)),
    };
    //= SPC-4 §LOG SENSE command: a pointer beyond the last parameter is an invalid field.
    if be16(cdb, 5) != 0 {
        return Err(Sense::cdb_field(5));
    }
    data(pages.to_vec(), be16(cdb, 7))
}

/// No block is defective, in whatever format.
//= SBC-4 §READ DEFECT DATA (10) command: a header, and a list of length zero.
pub(super) fn read_defect_data_10(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    data(vec![0, cdb[2] & LIST, 0, 0], be16(cdb, 7))
}

//= SBC-4 §READ DEFECT DATA (12) command
pub(super) fn read_defect_data_12(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    data(vec![0, cdb[1] & LIST, 0, 0, 0, 0, 0, 0], be32(cdb, 6))
}

#[cfg(test)]
mod test {
    use super::super::test::{answer, refusal, unit};
    use super::*;

    #[test]
    fn golden() {
        let unit = unit(1 << 20, 512);
        assert_eq!(answer(&unit, &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 255, 0]), [0, 0, 0, 1, 0]);
        let both = [0x40, 0xff, 0, 4, 0, 0, 0, 0xff];
        assert_eq!(answer(&unit, &[0x4d, 0, 0x40, 0xff, 0, 0, 0, 0, 255, 0]), both);
        assert_eq!(answer(&unit, &[0x37, 0, 0x1d, 0, 0, 0, 0, 0, 255, 0]), [0, 0x1d, 0, 0]);
        let twelve = [0, 0x0c, 0, 0, 0, 0, 0, 0];
        assert_eq!(answer(&unit, &[0xb7, 0x0c, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0]), twelve);
        assert_eq!(refusal(&unit, &[0x4d, 1]), Sense::cdb_bit(1, 0));
        assert_eq!(refusal(&unit, &[0x4d, 0, 0x0d]), Sense::cdb_bit(2, 5));
        assert_eq!(refusal(&unit, &[0x4d, 0, 0x40, 1]), Sense::cdb_field(3));
        assert_eq!(refusal(&unit, &[0x4d, 0, 0x40, 0, 0, 0, 1]), Sense::cdb_field(5));
    }
}
