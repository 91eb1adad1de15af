//! Commands on the state of the logical unit: TEST UNIT READY, REQUEST SENSE, START STOP UNIT,
//! PREVENT ALLOW MEDIUM REMOVAL.

use super::state::Medium;
use super::{Cdb, Plan, Sense, Unit, data};

/// Descriptor format, in byte 1 of REQUEST SENSE.
const DESC: u8 = 0x01;

//= SPC-4 §TEST UNIT READY command
pub(super) fn test_unit_ready(unit: &Unit, _: &Cdb) -> Result<Plan, Sense> {
    ready(unit).map(|()| Plan::Good)
}

/// Knows of no unit attentions: the caller reports those before.
//= SPC-4 §REQUEST SENSE command
pub(super) fn request_sense(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    sense_data(cdb, Sense::NO_SENSE)
}

/// Returns `sense` as parameter data, in the format requested by REQUEST SENSE.
pub(super) fn sense_data(cdb: &Cdb, sense: Sense) -> Result<Plan, Sense> {
    let descriptor = cdb[1] & DESC != 0;
    let bytes = if descriptor { sense.encode_descriptor() } else { sense.encode_fixed().to_vec() };
    data(bytes, cdb[4])
}

/// A volume is always active. Its medium can be ejected and loaded if it is removable.
//= SBC-4 §START STOP UNIT command
pub(super) fn start_stop_unit(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let (condition, load_eject, start) = (cdb[4] >> 4, cdb[4] & 0x02 != 0, cdb[4] & 0x01 != 0);
    if condition != 0 {
        // Power conditions may change how fast a medium responds, not whether. START and LOEJ are
        // ignored with them.
        return Ok(Plan::Good);
    }
    let removable = unit.state.is_removable();
    match (load_eject, start) {
        (true, _) if !removable => Err(Sense::cdb_bit(4, 1)),
        (true, true) => Ok(Plan::Medium(Medium::Load)),
        (true, false) => Ok(Plan::Medium(Medium::Eject)),
        (false, true) => Ok(Plan::Good),
        // One initiator must not stop a volume for all others. A removable one becomes durable.
        (false, false) if removable => Ok(Plan::Flush),
        (false, false) => Err(Sense::cdb_bit(4, 0)),
    }
}

/// Preventing the removal of a medium that is fixed always succeeds.
//= SPC-4 §PREVENT ALLOW MEDIUM REMOVAL command: PREVENT 10b and 11b are obsolete.
pub(super) fn prevent_allow_medium_removal(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    match cdb[4] & 0x03 {
        0 | 1 if !unit.state.is_removable() => Ok(Plan::Good),
        0 => Ok(Plan::Medium(Medium::Allow)),
        1 => Ok(Plan::Medium(Medium::Prevent)),
        _ => Err(Sense::cdb_bit(4, 1)),
    }
}

/// Checks that there is a medium: a volume without blocks has none.
pub(super) fn ready(unit: &Unit) -> Result<(), Sense> {
    if unit.geometry.blocks == 0 { Err(Sense::MEDIUM_NOT_PRESENT) } else { Ok(()) }
}

#[cfg(test)]
mod test {
    use super::super::cdb as build;
    use super::super::test::{answer, cdb, refusal, unit};
    use super::*;

    #[test]
    fn ready_unless_empty() {
        assert_eq!(unit(512, 512).plan(&build::test_unit_ready()), Ok(Plan::Good));
        assert_eq!(refusal(&unit(0, 512), &[0x00]), Sense::MEDIUM_NOT_PRESENT);
    }

    #[test]
    fn request_sense_in_both_formats() {
        let unit = unit(1 << 20, 512);
        let expect = [0x70, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(answer(&unit, &build::request_sense(252)), expect);
        assert_eq!(answer(&unit, &build::request_sense(4)), expect[..4]);
        assert_eq!(answer(&unit, &[0x03, 1, 0, 0, 252]), [0x72, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn starts_but_neither_stops_nor_ejects() {
        let unit = unit(1 << 20, 512);
        assert_eq!(unit.plan(&cdb(&[0x1b, 1, 0, 0, 0x01])), Ok(Plan::Good));
        assert_eq!(refusal(&unit, &[0x1b, 0, 0, 0, 0x00]), Sense::cdb_bit(4, 0));
        assert_eq!(refusal(&unit, &[0x1b, 0, 0, 0, 0x02]), Sense::cdb_bit(4, 1));
        assert_eq!(refusal(&unit, &[0x1b, 0, 0, 0, 0x03]), Sense::cdb_bit(4, 1));
        for condition in 1..16 {
            assert_eq!(unit.plan(&cdb(&[0x1b, 1, 0, 0, condition << 4 | 2])), Ok(Plan::Good));
        }
    }

    #[test]
    fn a_removable_medium_is_ejected_and_loaded() {
        let unit = unit(1 << 20, 512);
        unit.state.make_removable();
        let plan = |code: u8, byte: u8| unit.plan(&cdb(&[code, 0, 0, 0, byte]));
        let medium = |change| Ok(Plan::Medium(change));
        assert_eq!([2, 3].map(|it| plan(0x1b, it)), [Medium::Eject, Medium::Load].map(medium));
        assert_eq!([0, 1].map(|it| plan(0x1b, it)), [Ok(Plan::Flush), Ok(Plan::Good)]);
        assert_eq!([0, 1].map(|it| plan(0x1e, it)), [Medium::Allow, Medium::Prevent].map(medium));
        assert_eq!(answer(&unit, &build::inquiry(None, 2)), [0, 0x80]);
    }

    #[test]
    fn removal_may_be_prevented() {
        let unit = unit(1 << 20, 512);
        for (prevent, expect) in [(0, true), (1, true), (2, false), (3, false)] {
            let plan = unit.plan(&cdb(&[0x1e, 0, 0, 0, prevent]));
            let refused = Err(Sense::cdb_bit(4, 1));
            assert_eq!(plan, if expect { Ok(Plan::Good) } else { refused });
        }
    }
}
