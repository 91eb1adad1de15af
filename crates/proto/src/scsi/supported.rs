//! REPORT SUPPORTED OPERATION CODES, read off the table that also dispatches.

use super::field::{be16, be32};
use super::table::{COMMANDS, Command};
use super::{Cdb, Plan, Sense, Unit, data};

/// Return command timeouts descriptors, in byte 2.
const RCTD: u8 = 0x80;

/// Not supported, in the SUPPORT field.
const NOT_SUPPORTED: u8 = 0x01;
/// Supported as a standard says, in the SUPPORT field.
const SUPPORTED: u8 = 0x03;

/// A command timeouts descriptor that names no time-out: length, reserved, command specific,
/// nominal and recommended.
//= SPC-4 §Command timeouts descriptor: zero is not indicated.
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
        //= SPC-4 §REPORTING OPTIONS 011b: what does not exist is only not supported.
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
fn one(command: Option<&Command>, timeouts: bool) -> Vec<u8> {
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
