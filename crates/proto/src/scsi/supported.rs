//! REPORT SUPPORTED OPERATION CODES, from the table that dispatches commands.

use super::field::{be16, be32};
use super::table::{COMMANDS, Supported};
use super::{Cdb, Plan, Sense, Unit, data};

/// Return command timeouts descriptors, in byte 2.
const RCTD: u8 = 0x80;

/// Not supported, in the SUPPORT field.
const NOT_SUPPORTED: u8 = 0x01;
/// Supported as standardized, in the SUPPORT field.
const SUPPORTED: u8 = 0x03;

/// A command timeouts descriptor without time-outs: length, reserved, command specific, nominal and
/// recommended.
//= SPC-4 §Supported timeouts descriptor: zero is not indicated.
const TIMEOUTS: [u8; 12] = [0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

//= SPC-4 §REPORT SUPPORTED OPERATION CODES command
pub(super) fn report_supported_operation_codes(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let timeouts = cdb[2] & RCTD != 0;
    let (code, action) = (cdb[3], be16(cdb, 4));
    let mut of_code = COMMANDS.iter().filter(|command| command.code == code);
    let first = of_code.clone().next();
    let with_actions = first.is_some_and(|command| command.action.is_some());
    let exact = of_code.find(|command| command.action.map(u16::from) == Some(action));
    let answer = match cdb[2] & 0x07 {
        0 => all(timeouts),
        //= SPC-4 §REPORTING OPTIONS 001b: an operation code with service actions is invalid.
        1 if with_actions => return Err(Sense::cdb_field(3)),
        1 => one(first, timeouts),
        //= SPC-4 §REPORTING OPTIONS 010b: an operation code without service actions is invalid.
        2 if first.is_some() && !with_actions => return Err(Sense::cdb_field(3)),
        2 => one(exact, timeouts),
        //= SPC-4 §REPORTING OPTIONS 011b: an unknown command is just not supported.
        3 if with_actions => one(exact, timeouts),
        3 => one(first.filter(|_| action == 0), timeouts),
        _ => return Err(Sense::cdb_bit(2, 2)),
    };
    data(answer, be32(cdb, 6))
}

//= SPC-4 §All_commands parameter data format
fn all(timeouts: bool) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for command in COMMANDS {
        let flags = u8::from(timeouts) << 1 | u8::from(command.action.is_some());
        let [length_high, length_low] = (command.cdb_len() as u16).to_be_bytes();
        let action = command.action.unwrap_or(0);
        bytes.extend([command.code, 0, 0, action, 0, flags, length_high, length_low]);
        if timeouts {
            bytes.extend(TIMEOUTS);
        }
    }
    let len = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

//= SPC-4 §One_command parameter data format
fn one(command: Option<&Supported>, timeouts: bool) -> Vec<u8> {
    let Some(command) = command else { return vec![0, NOT_SUPPORTED, 0, 0] };
    let mut bytes = vec![0, u8::from(timeouts) << 7 | SUPPORTED];
    bytes.extend((command.cdb_len() as u16).to_be_bytes());
    bytes.push(command.code);
    bytes.extend(command.usage);
    if timeouts {
        bytes.extend(TIMEOUTS);
    }
    bytes
}

#[cfg(test)]
mod test {
    use super::super::Unit;
    use super::super::test::{answer, cdb, refusal, unit};
    use super::*;

    fn question(options: u8, code: u8, action: u8) -> Vec<u8> {
        vec![0xa3, 0x0c, options, code, 0, action, 0, 0, 0xff, 0xff, 0, 0]
    }

    fn volume() -> Unit {
        unit(1 << 20, 512)
    }

    #[test]
    fn one_golden() {
        let ask = |options, code, action| answer(&volume(), &question(options, code, action));
        let read_10 = [0, 3, 0, 10, 0x28, 0x18, 255, 255, 255, 255, 0, 255, 255, 0];
        assert_eq!(ask(1, 0x28, 0), read_10);
        assert_eq!(ask(3, 0x28, 0), read_10);
        let mut timed = read_10.to_vec();
        timed[1] |= 0x80;
        timed.extend([0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ask(0x81, 0x28, 0), timed);
        let capacity_16 =
            [0, 3, 0, 16, 0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0];
        assert_eq!(ask(2, 0x9e, 0x10), capacity_16);
        assert_eq!(ask(3, 0x9e, 0x10), capacity_16);
        let unsupported = [0, 1, 0, 0];
        assert_eq!(ask(1, 0xff, 0), unsupported);
        assert_eq!(ask(0x82, 0xff, 1), unsupported);
        assert_eq!(ask(2, 0x9e, 0x13), unsupported);
        assert_eq!(ask(3, 0x9e, 0x13), unsupported);
        assert_eq!(ask(3, 0x28, 1), unsupported);
        assert_eq!(ask(3, 0xff, 0), unsupported);
    }

    #[test]
    fn wrong_questions() {
        let ask = |options, code, action| refusal(&volume(), &question(options, code, action));
        assert_eq!(ask(1, 0x9e, 0x10), Sense::cdb_field(3));
        assert_eq!(ask(2, 0x28, 0), Sense::cdb_field(3));
        for options in 4..8 {
            assert_eq!(ask(options, 0x28, 0), Sense::cdb_bit(2, 2));
        }
        assert_eq!(refusal(&volume(), &[0xa3, 0x0b]), Sense::cdb_bit(1, 4));
    }

    #[test]
    fn all_are_listed_and_cut() {
        let bytes = answer(&volume(), &question(0, 0, 0));
        assert_eq!(be32(&bytes, 0) as usize, bytes.len() - 4);
        assert_eq!(bytes.len(), 4 + 8 * COMMANDS.len());
        assert_eq!(bytes[4..20], [0, 0, 0, 0, 0, 0, 0, 6, 3, 0, 0, 0, 0, 0, 0, 6]);
        let action = bytes[4..].chunks(8).find(|row| row[0] == 0x9e).unwrap();
        assert_eq!(action, [0x9e, 0, 0, 0x10, 0, 1, 0, 16]);
        let timed = answer(&volume(), &question(0x80, 0, 0));
        assert_eq!(timed.len(), 4 + 20 * COMMANDS.len());
        assert_eq!(timed[4..24], [0, 0, 0, 0, 0, 2, 0, 6, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let cut = answer(&volume(), &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(cut, bytes[..5]);
    }

    #[test]
    fn what_is_said_is_what_is_done() {
        let unit = volume();
        for code in 0..=255 {
            for action in 0..32 {
                // Other commands have flags in the byte of the service action, which may be
                // refused.
                let plan = unit.plan(&cdb(&[code, action]));
                let done = plan != Err(Sense::INVALID_OPCODE) && plan != Err(Sense::cdb_bit(1, 4));
                let said = answer(&unit, &question(3, code, action))[1] == SUPPORTED;
                let with_actions =
                    COMMANDS.iter().any(|row| row.code == code && row.action.is_some());
                let flag = !with_actions && action != 0;
                assert!(done == said || flag, "{code:02x}/{action:02x}: {said} but {plan:?}");
            }
        }
    }
}
