//! PERSISTENT RESERVE OUT, and RESERVE and RELEASE (6) of SPC-2. The session, which knows whose
//! they are, executes them.

use super::field::{be32, be64};
use super::reservation::{Action, Kind, ReserveOut};
use super::{Cdb, Plan, Sense, Unit, opcode};

/// Length of a parameter list without TransportIDs.
const LIST_BYTES: u32 = 24;
/// SPEC_I_PT, other initiator ports, and APTPL, reservations that survive a loss of power, in byte
/// 20 of the parameter list.
const SPEC_I_PT: u8 = 0x08;
const APTPL: u8 = 0x01;

/// The service actions that are supported, by code.
const ACTIONS: [(u8, Action); 7] = [
    (opcode::SA_REGISTER, Action::Register { ignore: false }),
    (opcode::SA_RESERVE, Action::Reserve),
    (opcode::SA_RELEASE, Action::Release),
    (opcode::SA_CLEAR, Action::Clear),
    (opcode::SA_PREEMPT, Action::Preempt { abort: false }),
    (opcode::SA_PREEMPT_AND_ABORT, Action::Preempt { abort: true }),
    (opcode::SA_REGISTER_AND_IGNORE, Action::Register { ignore: true }),
];

//= SPC-4 §PERSISTENT RESERVE OUT command: other lengths are a parameter list length error.
pub(super) fn reserve_out(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    match be32(cdb, 5) {
        LIST_BYTES => Ok(Plan::Collect { len: LIST_BYTES }),
        _ => Err(Sense::PARAMETER_LIST_LENGTH_ERROR),
    }
}

//= SPC-4 §PERSISTENT RESERVE OUT parameter list
pub(super) fn reserve_out_list(unit: &Unit, cdb: &Cdb, list: &[u8]) -> Result<Plan, Sense> {
    let code = cdb[1] & 0x1f;
    let action = ACTIONS.iter().find(|action| action.0 == code).ok_or(Sense::cdb_bit(1, 4))?.1;
    let (scope, kind) = (cdb[2] >> 4, Kind::of_code(cdb[2] & 0x0f));
    let registers = matches!(action, Action::Register { .. });
    //= SPC-4 §PERSISTENT RESERVE OUT command: the only scope is the logical unit; scope and type
    // are ignored where nothing is reserved or released.
    let reserves = !registers && action != Action::Clear;
    if reserves && scope != 0 || action == Action::Reserve && kind.is_none() {
        return Err(Sense::cdb_field(2));
    }
    //= SPC-4 §PERSISTENT RESERVE OUT parameter list: APTPL without PTPL_C, SPEC_I_PT without SIP_C.
    let persists = list[20] & APTPL != 0;
    if registers && (list[20] & SPEC_I_PT != 0 || persists && !unit.state.may_persist()) {
        return Err(Sense::parameter_field(20));
    }
    let (key, service_key) = (be64(list, 0), be64(list, 8));
    let persist = registers.then_some(persists);
    Ok(Plan::Reserve(ReserveOut { action, kind, key, service_key, persist }))
}

//= SPC-2 §RESERVE (6) command: third-party and extent reservations are obsolete.
pub(super) fn reserve_6(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    whole(cdb)?;
    Ok(Plan::ReserveUnit { reserve: true })
}

//= SPC-2 §RELEASE (6) command
pub(super) fn release_6(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    whole(cdb)?;
    Ok(Plan::ReserveUnit { reserve: false })
}

/// Refuses reservations for others, and of parts.
fn whole(cdb: &Cdb) -> Result<(), Sense> {
    match cdb[1] & 0x11 {
        0 => Ok(()),
        0x01 => Err(Sense::cdb_bit(1, 0)),
        _ => Err(Sense::cdb_bit(1, 4)),
    }
}

#[cfg(test)]
mod test {
    use super::super::test::{cdb, refusal, unit};
    use super::*;

    fn out(action: u8, scope_type: u8, flags: u8) -> Result<Plan, Sense> {
        let mut list = [0; 24];
        list[..8].copy_from_slice(&0x11_u64.to_be_bytes());
        list[8..16].copy_from_slice(&0x22_u64.to_be_bytes());
        list[20] = flags;
        unit(1 << 20, 512).plan_with(&cdb(&[0x5f, action, scope_type, 0, 0, 0, 0, 0, 24]), &list)
    }

    #[test]
    fn lists_are_24_bytes() {
        let unit = unit(1 << 20, 512);
        let ask = |len: u8| unit.plan(&cdb(&[0x5f, 0, 0, 0, 0, 0, 0, 0, len]));
        assert_eq!(ask(24), Ok(Plan::Collect { len: 24 }));
        for len in [0, 23, 25, 32] {
            assert_eq!(ask(len), Err(Sense::PARAMETER_LIST_LENGTH_ERROR));
        }
        assert_eq!(refusal(&unit, &[0x5f, 7]), Sense::cdb_bit(1, 4), "REGISTER AND MOVE");
    }

    #[test]
    fn service_actions_and_types() {
        for (code, action) in ACTIONS {
            let kind = Some(Kind::ExclusiveAccessRegistrantsOnly);
            let (key, service_key) = (0x11, 0x22);
            let persist = matches!(action, Action::Register { .. }).then_some(false);
            let expect = ReserveOut { action, kind, key, service_key, persist };
            assert_eq!(out(code, 0x06, 0), Ok(Plan::Reserve(expect)), "{action:?}");
            let scoped = out(code, 0x26, 0);
            let free = matches!(action, Action::Register { .. } | Action::Clear);
            assert_eq!(scoped.is_ok(), free, "{action:?}");
        }
        for code in 0..16 {
            let valid = matches!(code, 1 | 3 | 5..=8);
            assert_eq!(out(1, code, 0).is_ok(), valid, "type {code}");
        }
        assert_eq!(out(1, 0, 0), Err(Sense::cdb_field(2)));
    }

    #[test]
    fn what_would_survive_or_concern_others_is_refused() {
        for (flags, fits) in [(0x00, true), (0x04, true), (0x01, false), (0x08, false)] {
            for action in [0, 6] {
                assert_eq!(out(action, 0, flags).is_ok(), fits, "{flags:02x}");
            }
        }
        let unit = unit(1 << 20, 512);
        let reserve = |reserve| Ok(Plan::ReserveUnit { reserve });
        assert_eq!(unit.plan(&cdb(&[0x16])), reserve(true));
        assert_eq!(unit.plan(&cdb(&[0x17])), reserve(false));
        assert_eq!(refusal(&unit, &[0x16, 0x10]), Sense::cdb_bit(1, 4));
        assert_eq!(refusal(&unit, &[0x17, 0x01]), Sense::cdb_bit(1, 0));
    }
}
