//! Unit attentions of a logical unit, and their effect on a session.
//!
//! For most conditions the initiator only repeats the command that reported it. After the others,
//! our knowledge of the unit may be wrong or commands in flight may be gone: the session ends, and
//! the next one queries the unit again. After a change of the list of units, this one is asked for
//! its identity: the session goes on if it is the same disk.

use crate::Attention;
use crate::scsi::{Key, Sense};

/// POWER ON, RESET, OR BUS DEVICE RESET OCCURRED, and the kinds of it.
//= SPC-4 §ASC and ASCQ assignments: 29h; 07h is I_T NEXUS LOSS OCCURRED.
const RESET: u8 = 0x29;
const NEXUS_LOSS: u8 = 0x07;

/// The attention, if the session ends by it.
pub(super) fn that_ends(sense: Sense) -> Option<Attention> {
    let code = (sense.asc, sense.ascq);
    //= SPC-4 §ASC and ASCQ assignments: 2Ah/01h mode parameters, 2Ah/09h capacity, 2Fh commands
    // cleared, 3Fh/03h INQUIRY data.
    let ends = matches!(code, (RESET | 0x2f, _) | (0x2a, 0x01 | 0x09) | (0x3f, 0x03));
    let lost_power = lost_power(sense) == Some(true);
    (sense.key == Key::UnitAttention && ends).then_some(Attention { code, lost_power })
}

/// The attention, if the list of units has changed: this one may be another disk.
pub(super) fn of_units(sense: Sense) -> Option<Attention> {
    let code = (sense.asc, sense.ascq);
    let is_it = sense.key == Key::UnitAttention && code == (0x3f, 0x0e);
    is_it.then_some(Attention { code, lost_power: false })
}

/// Whether the unit says that its volatile cache may be lost; none if it speaks of something else.
pub(super) fn lost_power(sense: Sense) -> Option<bool> {
    let reset = sense.key == Key::UnitAttention && sense.asc == RESET;
    reset.then_some(sense.ascq != NEXUS_LOSS)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn news_that_end_a_session_and_news_that_do_not() {
        let ends = |asc, ascq| {
            let ends = that_ends(Sense::new(Key::UnitAttention, asc, ascq));
            ends.map(|attention| attention.lost_power)
        };
        for (code, lost_power) in [
            ((0x29, 0x00), true),
            ((0x29, 0x01), true),
            ((0x29, 0x03), true),
            ((0x29, 0x04), true),
            ((0x29, 0x07), false),
            ((0x2a, 0x01), false),
            ((0x2a, 0x09), false),
            ((0x2f, 0x00), false),
            ((0x3f, 0x03), false),
        ] {
            assert_eq!(ends(code.0, code.1), Some(lost_power), "{code:02x?}");
        }
        // Asymmetric access, thin provisioning thresholds, microcode, mode parameters of others.
        for code in [(0x2a, 0x06), (0x38, 0x07), (0x3f, 0x01), (0x3f, 0x0e), (0x28, 0x00)] {
            assert_eq!(ends(code.0, code.1), None, "{code:02x?}");
        }
        let elsewhere = Sense::new(Key::NotReady, 0x29, 0x00);
        assert_eq!((that_ends(elsewhere), lost_power(elsewhere)), (None, None));
        let told = that_ends(Sense::POWER_ON_RESET).unwrap().to_string();
        assert!(told.starts_with("unit attention: power on, reset, or bus device reset occurred"));
        assert!(told.ends_with("may be lost"), "{told}");
    }
}
