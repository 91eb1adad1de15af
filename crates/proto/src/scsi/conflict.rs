//! Commands that a reservation of another nexus allows.

use super::Cdb;
use super::opcode::*;

/// Commands that reservations treat alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Never a conflict.
    Free,
    /// A conflict with an SPC-2 reservation only.
    Status,
    /// Allowed by write exclusive types: what reads blocks, or tells of them.
    Look,
    /// A conflict with all types.
    Change,
}

/// The class of a command.
///
/// An unsupported command conflicts with nothing: it is refused as such.
//= SPC-4 §Commands allowed in the presence of various reservations, SBC-4 the same.
pub(crate) fn class_of(cdb: &Cdb) -> Class {
    match cdb[0] {
        INQUIRY | REPORT_LUNS | REQUEST_SENSE | RELEASE_6 => Class::Free,
        READ_6 | READ_10 | READ_12 | READ_16 => Class::Look,
        VERIFY_10 | VERIFY_12 | VERIFY_16 | PRE_FETCH_10 | PRE_FETCH_16 => Class::Look,
        MODE_SENSE_6 | MODE_SENSE_10 | READ_DEFECT_DATA_10 | READ_DEFECT_DATA_12 => Class::Look,
        SERVICE_ACTION_IN_16 if action(cdb) == SA_GET_LBA_STATUS => Class::Look,
        MAINTENANCE_IN if action(cdb) == SA_REPORT_SUPPORTED_OPERATION_CODES => Class::Look,
        WRITE_6 | WRITE_10 | WRITE_12 | WRITE_16 => Class::Change,
        WRITE_AND_VERIFY_10 | WRITE_AND_VERIFY_12 | WRITE_AND_VERIFY_16 => Class::Change,
        EXTENDED_COPY | COMPARE_AND_WRITE | ORWRITE_16 | UNMAP | WRITE_SAME_10 | WRITE_SAME_16 => {
            Class::Change
        }
        SYNCHRONIZE_CACHE_10 | SYNCHRONIZE_CACHE_16 => Class::Change,
        MODE_SELECT_6 | MODE_SELECT_10 => Class::Change,
        // Starting a unit, and allowing removal, disturb nobody.
        START_STOP_UNIT if cdb[4] & 0xf1 != 0x01 => Class::Change,
        PREVENT_ALLOW_MEDIUM_REMOVAL if cdb[4] & 0x03 != 0 => Class::Change,
        // RESERVE (6) answers for itself, as does PERSISTENT RESERVE OUT.
        RESERVE_6 => Class::Free,
        _ => Class::Status,
    }
}

/// Whether a command is of no use without a medium.
pub(crate) fn needs_medium(cdb: &Cdb) -> bool {
    match cdb[0] {
        MODE_SENSE_6 | MODE_SENSE_10 | MODE_SELECT_6 | MODE_SELECT_10 => false,
        START_STOP_UNIT | PREVENT_ALLOW_MEDIUM_REMOVAL | MAINTENANCE_IN => false,
        TEST_UNIT_READY | READ_CAPACITY_10 | SERVICE_ACTION_IN_16 => true,
        _ => matches!(class_of(cdb), Class::Look | Class::Change),
    }
}

/// Whether a command changes the medium, which software write protection forbids.
pub(crate) fn writes(cdb: &Cdb) -> bool {
    let other = matches!(
        cdb[0],
        SYNCHRONIZE_CACHE_10
            | SYNCHRONIZE_CACHE_16
            | MODE_SELECT_6
            | MODE_SELECT_10
            | START_STOP_UNIT
            | PREVENT_ALLOW_MEDIUM_REMOVAL
    );
    class_of(cdb) == Class::Change && !other
}

fn action(cdb: &Cdb) -> u8 {
    cdb[1] & 0x1f
}

#[cfg(test)]
mod test {
    use super::super::table::COMMANDS;
    use super::super::test::{cdb, unit};
    use super::*;
    use crate::scsi::{Plan, Unit};

    #[test]
    fn whatever_plans_a_change_is_a_change() {
        let unit: Unit = unit(1 << 20, 512);
        for command in COMMANDS {
            let mut cdb = cdb(&[command.code, command.action.unwrap_or(0)]);
            // A block, or a parameter list of 24 bytes.
            let len = command.cdb_len();
            let list = matches!(command.code, 0x42 | 0x5f);
            cdb[len - 2] = if list { 24 } else { 1 };
            if command.code == 0x83 {
                cdb[13] = 16;
            }
            let changes = match unit.plan(&cdb) {
                Ok(Plan::Write { .. } | Plan::Clear { .. } | Plan::Fill { .. } | Plan::Flush) => {
                    true
                }
                Ok(Plan::Collect { .. }) => !matches!(command.code, 0x2f | 0xaf | 0x8f | 0x5f),
                Ok(Plan::Check(check)) => !matches!(command.code, 0x2f | 0xaf | 0x8f) || check.fua,
                _ => continue,
            };
            assert_eq!(class_of(&cdb) == Class::Change, changes, "{:02x}", command.code);
            let flush = matches!(command.code, 0x35 | 0x91 | 0x15 | 0x55);
            assert_eq!(writes(&cdb), changes && !flush, "{:02x}", command.code);
        }
    }

    #[test]
    fn starting_and_allowing_removal_disturb_nobody() {
        for (bytes, class) in [
            ([0x1b, 0, 0, 0, 0x01], Class::Status),
            ([0x1b, 0, 0, 0, 0x00], Class::Change),
            ([0x1b, 0, 0, 0, 0x21], Class::Change),
            ([0x1e, 0, 0, 0, 0], Class::Status),
            ([0x1e, 0, 0, 0, 1], Class::Change),
            ([0x9e, 0x12, 0, 0, 0], Class::Look),
            ([0x9e, 0x10, 0, 0, 0], Class::Status),
            ([0xa3, 0x0c, 0, 0, 0], Class::Look),
            ([0xff, 0, 0, 0, 0], Class::Status),
        ] {
            assert_eq!(class_of(&cdb(&bytes)), class, "{bytes:02x?}");
        }
    }
}
