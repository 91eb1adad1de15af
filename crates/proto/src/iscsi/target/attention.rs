//! Unit attention conditions: reported by the next command for their logical unit.

use crate::scsi::{Plan, Sense, Unit, encode_lun};

use super::super::pdu::Command;

/// Pending unit attentions of this session.
#[derive(Debug, Default)]
pub(super) struct Attentions {
    pending: Vec<([u8; 8], Sense)>,
    /// A bit for each pending unit, by the low bits of its number.
    concerned: u64,
    /// Bit set of units that have reported their power-on to this initiator port.
    pub(super) told: [u64; 4],
}

/// Commands that do not report unit attentions: INQUIRY, REPORT LUNS and the like.
const INQUIRY: u8 = 0x12;
const REPORT_LUNS: u8 = 0xa0;
/// The one that is answered by it.
const REQUEST_SENSE: u8 = 0x03;

/// Descriptor format, in byte 1 of REQUEST SENSE.
const DESCRIPTOR: u8 = 0x01;

/// Maximum number of pending attentions of a session; units beyond 64 with many each lose some.
const PENDING_MAX: usize = 512;

/// The bit of a LUN field: that of the low bits of the number, wherever its method puts the rest.
#[inline(always)]
fn bit(lun: [u8; 8]) -> u64 {
    1 << (lun[1] % 64)
}

impl Attentions {
    /// Whether surely no unit attention is pending for the unit with that LUN field. A session that
    /// uses one of many units has those of the others pending for ever.
    #[inline(always)]
    pub(super) fn spare(&self, lun: [u8; 8]) -> bool {
        self.concerned & bit(lun) == 0
    }

    /// Establishes a unit attention for the unit with that LUN field; a pending one is not
    /// repeated.
    pub(super) fn establish(&mut self, lun: [u8; 8], sense: Sense) {
        if self.pending.len() < PENDING_MAX && !self.pending.contains(&(lun, sense)) {
            self.pending.push((lun, sense));
            self.concerned |= bit(lun);
        }
    }

    /// The list of logical units has changed: existing units say so, new ones that they were switched
    /// on, and those that are gone say nothing.
    //= SPC-4 §REPORT LUNS command: REPORTED LUNS DATA HAS CHANGED.
    pub(super) fn renew(&mut self, before: &[Option<Unit>], now: &[Option<Unit>]) {
        let id = |units: &[Option<Unit>], lun: usize| Some(units.get(lun)?.as_ref()?.id);
        for lun in 0..before.len().max(now.len()) {
            let field = encode_lun(lun as u16);
            let (old, new) = (id(before, lun), id(now, lun));
            if old == new {
                if new.is_some() {
                    self.establish(field, Sense::REPORTED_LUNS_CHANGED);
                }
                continue;
            }
            self.forget(|(other, _)| *other == field);
            if new.is_some() {
                self.told[lun / 64 % 4] &= !bit(field);
                self.begin(lun as u16);
            }
        }
    }

    /// The initiator has the list of logical units.
    pub(super) fn luns_reported(&mut self) {
        self.forget(|(_, sense)| *sense == Sense::REPORTED_LUNS_CHANGED);
    }

    fn forget(&mut self, which: impl Fn(&([u8; 8], Sense)) -> bool) {
        self.pending.retain(|one| !which(one));
        self.concerned = self.pending.iter().fold(0, |bits, (lun, _)| bits | bit(*lun));
    }

    /// Adds an attention for a logical unit that is new to this session: power on, or I_T nexus
    /// loss if the same initiator port had the power-on report on an earlier connection.
    //= SAM-5 §Unit attention conditions: power on, and I_T nexus loss.
    pub(super) fn begin(&mut self, lun: u16) {
        let field = encode_lun(lun);
        let told = self.told[usize::from(lun / 64) % 4] & bit(field) != 0;
        self.establish(field, if told { Sense::NEXUS_LOSS } else { Sense::POWER_ON_RESET });
    }

    /// Whether a command reports an attention, or returns it.
    pub(super) fn concern(&self, command: &Command) -> bool {
        let exempt = matches!(command.cdb[0], INQUIRY | REPORT_LUNS);
        !exempt && self.pending.iter().any(|(lun, _)| *lun == command.lun)
    }

    /// The plan of a command, or the unit attention that it reports instead.
    //= SAM-5 §Unit attention conditions: INQUIRY and REPORT LUNS pass, REQUEST SENSE returns it.
    pub(super) fn before(
        &mut self,
        command: &Command,
        plan: Result<Plan, Sense>,
    ) -> Result<Plan, Sense> {
        if matches!(command.cdb[0], INQUIRY | REPORT_LUNS) {
            return plan;
        }
        let found = self.pending.iter().position(|(lun, _)| *lun == command.lun);
        let Some(at) = found else { return plan };
        let (lun, sense) = self.pending.remove(at);
        if sense == Sense::POWER_ON_RESET {
            self.told[usize::from(lun[1] / 64)] |= bit(lun);
        }
        self.concerned = self.pending.iter().fold(0, |bits, (lun, _)| bits | bit(*lun));
        if command.cdb[0] != REQUEST_SENSE {
            return Err(sense);
        }
        let descriptor = command.cdb[1] & DESCRIPTOR != 0;
        let mut bytes =
            if descriptor { sense.encode_descriptor() } else { sense.encode_fixed().to_vec() };
        bytes.truncate(command.cdb[4].into());
        Ok(Plan::Data(bytes))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn news_of_one_unit_does_not_concern_another() {
        let mut attentions = Attentions::default();
        let lun = |number: u8| [0, number, 0, 0, 0, 0, 0, 0];
        attentions.establish(lun(1), Sense::POWER_ON_RESET);
        attentions.establish(lun(2), Sense::POWER_ON_RESET);
        attentions.establish(lun(2), Sense::LUN_RESET);
        assert_eq!([1, 2, 3].map(|number| attentions.spare(lun(number))), [false, false, true]);
        let read = Command { lun: lun(2), cdb: [0x88; 16], ..Command::default() };
        let mut told = || attentions.before(&read, Err(Sense::INTERNAL_TARGET_FAILURE)).err();
        assert_eq!(told(), Some(Sense::POWER_ON_RESET));
        assert_eq!(told(), Some(Sense::LUN_RESET));
        assert_eq!(told(), Some(Sense::INTERNAL_TARGET_FAILURE), "nothing more to tell");
        assert_eq!([1, 2].map(|number| attentions.spare(lun(number))), [false, true]);
    }

    #[test]
    fn a_unit_says_once_that_it_was_switched_on() {
        let mut attentions = Attentions::default();
        let told = |attentions: &mut Attentions, lun: u16| {
            let command = Command { lun: encode_lun(lun), cdb: [0x88; 16], ..Command::default() };
            attentions.before(&command, Ok(Plan::Good)).err()
        };
        [0, 64, 255].into_iter().for_each(|lun| attentions.begin(lun));
        assert_eq!(told(&mut attentions, 64), Some(Sense::POWER_ON_RESET));
        assert_eq!(told(&mut attentions, 64), None);
        // Next session of the same port: one unit has reported the power-on, the others have not.
        let mut next = Attentions { told: attentions.told, ..Attentions::default() };
        [0, 64, 255].into_iter().for_each(|lun| next.begin(lun));
        let said = [0, 64, 255].map(|lun| told(&mut next, lun).unwrap());
        assert_eq!(said, [Sense::POWER_ON_RESET, Sense::NEXUS_LOSS, Sense::POWER_ON_RESET]);
    }
}
