//! MODE SELECT: software write protection is the only thing to change.

use super::field::{be16, be32, be64};
use super::mode::{CHANGEABLE, CONTROL_PAGE, SWP, current_page};
use super::{Cdb, Plan, Sense, Unit};

/// Save pages, in byte 1.
const SAVE: u8 = 0x01;

/// The parts of a mode parameter header.
struct Head {
    medium: u8,
    long: bool,
    descriptors: usize,
    bytes: usize,
}

//= SPC-4 §MODE SELECT (6) command
pub(super) fn mode_select_6(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    begin(cdb, cdb[4].into(), 4)
}

//= SPC-4 §MODE SELECT (10) command
pub(super) fn mode_select_10(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    begin(cdb, be16(cdb, 7), 8)
}

fn begin(cdb: &Cdb, len: u16, header: u16) -> Result<Plan, Sense> {
    //= SPC-4 §MODE SELECT (6) command: SP without saved pages is an invalid field in the CDB.
    if cdb[1] & SAVE != 0 {
        return Err(Sense::cdb_bit(1, 0));
    }
    match len {
        //= SPC-4 §MODE SELECT (6) command: a parameter list length of zero is no error.
        0 => Ok(Plan::Good),
        len if len < header => Err(Sense::PARAMETER_LIST_LENGTH_ERROR),
        len => Ok(Plan::Collect { len: len.into() }),
    }
}

/// MODE SELECT (6) with its parameter list.
pub(super) fn mode_list_6(unit: &Unit, _: &Cdb, list: &[u8]) -> Result<Plan, Sense> {
    let head = Head { medium: 1, long: false, descriptors: list[3].into(), bytes: 4 };
    select(unit, list, &head)
}

/// MODE SELECT (10) with its parameter list.
pub(super) fn mode_list_10(unit: &Unit, _: &Cdb, list: &[u8]) -> Result<Plan, Sense> {
    let (long, descriptors) = (list[4] & 0x01 != 0, be16(list, 6).into());
    select(unit, list, &Head { medium: 2, long, descriptors, bytes: 8 })
}

//= SPC-4 §Mode parameter list format: header, block descriptors, pages.
fn select(unit: &Unit, list: &[u8], head: &Head) -> Result<Plan, Sense> {
    if list[usize::from(head.medium)] != 0 {
        return Err(Sense::parameter_field(head.medium.into()));
    }
    let mut at = head.bytes + head.descriptors;
    let descriptors = list.get(head.bytes..at).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    check_descriptor(unit, descriptors, head)?;
    let mut protected = None;
    while at < list.len() {
        let [code, len, ..] = list[at..] else { return Err(Sense::PARAMETER_LIST_LENGTH_ERROR) };
        let end = at + 2 + usize::from(len);
        let page = list.get(at..end).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
        check_page(unit, page, at)?;
        if code & 0x3f == CONTROL_PAGE {
            protected = Some(page[4] & SWP != 0);
        }
        at = end;
    }
    Ok(protected.map_or(Plan::Good, |protected| Plan::Protect { protected }))
}

//= SBC-4 §Mode parameter block descriptors: zero blocks, or all ones, leave the capacity as it is.
fn check_descriptor(unit: &Unit, bytes: &[u8], head: &Head) -> Result<(), Sense> {
    let at = head.bytes as u16;
    let (blocks, most, block_bytes) = match (bytes.len(), head.long) {
        (0, _) => return Ok(()),
        (8, false) => (be32(bytes, 0).into(), u32::MAX.into(), be32(bytes, 4) & 0x00ff_ffff),
        (16, true) => (be64(bytes, 0), u64::MAX, be32(bytes, 12)),
        // The field before the descriptors has their length.
        _ => return Err(Sense::parameter_field(at - 1)),
    };
    if blocks != 0 && blocks != most && blocks != unit.geometry.blocks {
        return Err(Sense::parameter_field(at));
    }
    if block_bytes != unit.geometry.block_bytes {
        return Err(Sense::parameter_field(at + bytes.len() as u16 - 4));
    }
    Ok(())
}

/// Refuses a page that is unknown, or changes what cannot be changed.
//= SPC-4 §MODE SELECT (6) command: either is an invalid field in the parameter list.
fn check_page(unit: &Unit, page: &[u8], at: usize) -> Result<(), Sense> {
    let field = |offset: usize| Sense::parameter_field((at + offset) as u16);
    let (code, subpages) = (page[0] & 0x3f, page[0] & 0x40 != 0);
    let current = current_page(unit, code).filter(|_| !subpages).ok_or(field(0))?;
    if page.len() != current.len() {
        return Err(field(1));
    }
    let differs = |offset: &usize| {
        let fixed = if code == CONTROL_PAGE && *offset == 4 { !CHANGEABLE } else { 0xff };
        (page[*offset] ^ current[*offset]) & fixed != 0
    };
    (2..page.len()).find(differs).map_or(Ok(()), |offset| Err(field(offset)))
}

#[cfg(test)]
mod test {
    use super::super::test::{answer, cdb, refusal, unit};
    use super::*;

    fn select(unit: &Unit, list: &[u8]) -> Result<Plan, Sense> {
        unit.plan_with(&cdb(&[0x15, 0x10, 0, 0, list.len() as u8]), list)
    }

    fn protect(protected: bool) -> Result<Plan, Sense> {
        Ok(Plan::Protect { protected })
    }

    #[test]
    fn swp_is_set_and_cleared_with_either_length() {
        let unit = unit(1 << 30, 512);
        // The data of MODE SENSE may be sent back, with SWP added.
        let mut six = answer(&unit, &[0x1a, 0, 0x3f, 0, 255]);
        six[0] = 0;
        assert_eq!(select(&unit, &six), protect(false));
        let swp = six.len() - 12 + 4;
        six[swp] |= SWP;
        assert_eq!(select(&unit, &six), protect(true));
        for flags in [0x00, 0x10] {
            let mut ten = answer(&unit, &[0x5a, flags, 0x0a, 0, 0, 0, 0, 1, 0]);
            ten[..2].fill(0);
            let at = ten.len() - 12 + 4;
            ten[at] |= SWP;
            let plan = unit.plan_with(&cdb(&[0x55, 0x10, 0, 0, 0, 0, 0, 0, ten.len() as u8]), &ten);
            assert_eq!(plan, protect(true));
        }
    }

    #[test]
    fn mode_sense_shows_what_was_set() {
        let unit = unit(1 << 30, 512);
        let control = |pc: u8| answer(&unit, &[0x1a, 8, pc << 6 | 0x0a, 0, 255]);
        assert_eq!((control(0)[2], control(0)[8], control(1)[8]), (0x10, 0x00, SWP));
        unit.state.protect(true);
        assert_eq!((control(0)[2], control(0)[8]), (0x90, SWP));
        assert_eq!(control(2)[8], 0, "by default");
    }

    #[test]
    fn nothing_else_changes() {
        let unit = unit(1 << 30, 512);
        let list = answer(&unit, &[0x1a, 0, 0x3f, 0, 255]);
        for at in [1, 4, 11, 12, 13, 14, 32, 33, 34, 35, 41, 43] {
            let mut other = list.clone();
            other[0] = 0;
            other[at] ^= 0x04;
            let Err(sense) = select(&unit, &other) else { panic!("byte {at} changes something") };
            assert_eq!((sense.asc == 0x26 || sense.asc == 0x1a, sense.ascq), (true, 0), "{at}");
        }
        for len in 1..list.len() {
            let cut = select(&unit, &list[..len]);
            let whole = matches!(len, 4 | 12 | 32);
            assert_eq!(cut.is_ok(), whole && len != 4, "{len} bytes: {cut:?}");
        }
        assert_eq!(select(&unit, &[]), Ok(Plan::Good));
        assert_eq!(refusal(&unit, &[0x15, 0x11, 0, 0, 24]), Sense::cdb_bit(1, 0));
        assert_eq!(
            refusal(&unit, &[0x55, 0x10, 0, 0, 0, 0, 0, 0, 7]),
            Sense::PARAMETER_LIST_LENGTH_ERROR
        );
    }
}
