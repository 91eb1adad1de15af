//! The table of commands, for dispatch and for REPORT SUPPORTED OPERATION CODES.

use super::opcode::*;
use super::transfer::control;
use super::{Cdb, Plan, Sense, Unit};
use super::{
    capacity, check, condition, copy, inquiry, lba_status, lun, mode, mode_select, ports,
    provisioning, reports, reserve_in, reserve_out, supported, transfer,
};

/// Validates a CDB.
type Begin = fn(&Unit, &Cdb) -> Result<Plan, Sense>;
/// Validates a CDB with its data-out.
type Finish = fn(&Unit, &Cdb, &[u8]) -> Result<Plan, Sense>;

/// A supported command.
pub(super) struct Supported {
    /// Operation code, byte 0.
    pub code: u8,
    /// Service action, the low five bits of byte 1.
    pub action: Option<u8>,
    /// CDB usage map from byte 1 on: the bits that may be set. Its length is that of the CDB.
    //= SPC-4 §One_command parameter data format: CDB USAGE DATA
    pub usage: &'static [u8],
    begin: Begin,
    /// Only if `begin` may return [`Plan::Collect`].
    finish: Option<Finish>,
}

impl Supported {
    /// Length of the CDB in bytes.
    pub(super) fn cdb_len(&self) -> usize {
        1 + self.usage.len()
    }

    const fn action(self, action: u8) -> Supported {
        Supported { action: Some(action), ..self }
    }

    const fn then(self, finish: Finish) -> Supported {
        Supported { finish: Some(finish), ..self }
    }
}

/// Every command, by ascending operation code and service action.
pub(super) static COMMANDS: &[Supported] = &[
    row(TEST_UNIT_READY, &[0, 0, 0, 0, 0], condition::test_unit_ready),
    row(REQUEST_SENSE, &[0x01, 0, 0, 0xff, 0], condition::request_sense),
    row(READ_6, &[0x1f, 0xff, 0xff, 0xff, 0], transfer::read_6),
    row(WRITE_6, &[0x1f, 0xff, 0xff, 0xff, 0], transfer::write_6),
    row(INQUIRY, &[0x01, 0xff, 0xff, 0xff, 0], inquiry::inquiry),
    row(MODE_SELECT_6, &[0x10, 0, 0, 0xff, 0], mode_select::mode_select_6)
        .then(mode_select::mode_list_6),
    row(RESERVE_6, &[0, 0, 0, 0, 0], reserve_out::reserve_6),
    row(RELEASE_6, &[0, 0, 0, 0, 0], reserve_out::release_6),
    row(MODE_SENSE_6, &[0x08, 0xff, 0xff, 0xff, 0], mode::mode_sense_6),
    row(START_STOP_UNIT, &[0x01, 0, 0x0f, 0xf5, 0], condition::start_stop_unit),
    row(PREVENT_ALLOW_MEDIUM_REMOVAL, &[0, 0, 0, 0x01, 0], condition::prevent_allow_medium_removal),
    row(READ_CAPACITY_10, &[0; 9], capacity::read_capacity_10),
    row(READ_10, RANGE_10, transfer::read_10),
    row(WRITE_10, RANGE_10, transfer::write_10),
    row(WRITE_AND_VERIFY_10, VERIFY_RANGE_10, check::write_and_verify_10),
    row(VERIFY_10, VERIFY_RANGE_10, check::verify_10).then(check::verify_block),
    row(PRE_FETCH_10, CACHE_10, transfer::pre_fetch_10),
    row(SYNCHRONIZE_CACHE_10, CACHE_10, transfer::synchronize_cache_10),
    row(READ_DEFECT_DATA_10, &[0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0], reports::read_defect_data_10),
    row(
        WRITE_SAME_10,
        &[0x08, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0],
        provisioning::write_same_10,
    )
    .then(provisioning::write_same_10_block),
    row(UNMAP, &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0], provisioning::unmap)
        .then(provisioning::unmap_list),
    row(LOG_SENSE, &[0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0], reports::log_sense),
    row(MODE_SELECT_10, &[0x10, 0, 0, 0, 0, 0, 0xff, 0xff, 0], mode_select::mode_select_10)
        .then(mode_select::mode_list_10),
    row(MODE_SENSE_10, &[0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0], mode::mode_sense_10),
    reserve_in_row(SA_READ_KEYS, &[0, 0, 0, 0, 0, 0, 255, 255, 0], reserve_in::read_keys),
    reserve_in_row(
        SA_READ_RESERVATION,
        &[1, 0, 0, 0, 0, 0, 255, 255, 0],
        reserve_in::read_reservation,
    ),
    reserve_in_row(
        SA_REPORT_CAPABILITIES,
        &[2, 0, 0, 0, 0, 0, 255, 255, 0],
        reserve_in::report_capabilities,
    ),
    reserve_in_row(
        SA_READ_FULL_STATUS,
        &[3, 0, 0, 0, 0, 0, 255, 255, 0],
        reserve_in::read_full_status,
    ),
    reserve_out_row(SA_REGISTER, &[0, 0, 0, 0, 255, 255, 255, 255, 0]),
    reserve_out_row(SA_RESERVE, &[1, 255, 0, 0, 255, 255, 255, 255, 0]),
    reserve_out_row(SA_RELEASE, &[2, 255, 0, 0, 255, 255, 255, 255, 0]),
    reserve_out_row(SA_CLEAR, &[3, 0, 0, 0, 255, 255, 255, 255, 0]),
    reserve_out_row(SA_PREEMPT, &[4, 255, 0, 0, 255, 255, 255, 255, 0]),
    reserve_out_row(SA_PREEMPT_AND_ABORT, &[5, 255, 0, 0, 255, 255, 255, 255, 0]),
    reserve_out_row(SA_REGISTER_AND_IGNORE, &[6, 0, 0, 0, 255, 255, 255, 255, 0]),
    row(EXTENDED_COPY, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0], copy::extended_copy)
        .action(SA_EXTENDED_COPY_LID1)
        .then(copy::extended_copy_list),
    row(
        RECEIVE_COPY_RESULTS,
        &[0, 255, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0],
        copy::copy_status,
    )
    .action(SA_COPY_STATUS),
    row(
        RECEIVE_COPY_RESULTS,
        &[3, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0],
        copy::operating_parameters,
    )
    .action(SA_OPERATING_PARAMETERS),
    row(READ_16, &range_16(0x18), transfer::read_16),
    row(
        COMPARE_AND_WRITE,
        &[0x18, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 255, 0, 0],
        check::compare_and_write,
    )
    .then(check::compare_and_write_data),
    row(WRITE_16, &range_16(0x18), transfer::write_16),
    row(ORWRITE_16, &range_16(0x18), check::orwrite_16).then(check::orwrite_16_data),
    row(WRITE_AND_VERIFY_16, &range_16(0x16), check::write_and_verify_16),
    row(VERIFY_16, &range_16(0x16), check::verify_16).then(check::verify_block),
    row(PRE_FETCH_16, &range_16(0x02), transfer::pre_fetch_16),
    row(SYNCHRONIZE_CACHE_16, &range_16(0x02), transfer::synchronize_cache_16),
    row(WRITE_SAME_16, &range_16(0x09), provisioning::write_same_16)
        .then(provisioning::write_same_16_block),
    row(
        SERVICE_ACTION_IN_16,
        &[SA_READ_CAPACITY_16, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        capacity::read_capacity_16,
    )
    .action(SA_READ_CAPACITY_16),
    row(
        SERVICE_ACTION_IN_16,
        &[SA_GET_LBA_STATUS, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0],
        lba_status::get_lba_status,
    )
    .action(SA_GET_LBA_STATUS),
    row(REPORT_LUNS, &[0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], lun::report_luns_alone),
    row(
        MAINTENANCE_IN,
        &[0x2a, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0],
        ports::report_target_port_groups,
    )
    .action(SA_REPORT_TARGET_PORT_GROUPS),
    row(
        MAINTENANCE_IN,
        &[
            SA_REPORT_SUPPORTED_OPERATION_CODES,
            0x87,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0,
            0,
        ],
        supported::report_supported_operation_codes,
    )
    .action(SA_REPORT_SUPPORTED_OPERATION_CODES),
    row(READ_12, RANGE_12, transfer::read_12),
    row(WRITE_12, RANGE_12, transfer::write_12),
    row(WRITE_AND_VERIFY_12, VERIFY_RANGE_12, check::write_and_verify_12),
    row(VERIFY_12, VERIFY_RANGE_12, check::verify_12).then(check::verify_block),
    row(
        READ_DEFECT_DATA_12,
        &[0x1f, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0],
        reports::read_defect_data_12,
    ),
];

/// DPO, FUA, a 32-bit address and a 16-bit length.
const RANGE_10: &[u8] = &[0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
/// DPO, FUA, a 32-bit address and length.
const RANGE_12: &[u8] = &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
/// DPO, BYTCHK, a 32-bit address and a 16-bit length.
const VERIFY_RANGE_10: &[u8] = &[0x16, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
/// DPO, BYTCHK, a 32-bit address and length.
const VERIFY_RANGE_12: &[u8] = &[0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
/// IMMED, a 32-bit address and a 16-bit length.
const CACHE_10: &[u8] = &[0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];

/// `flags` of byte 1, a 64-bit address and a 32-bit length.
const fn range_16(flags: u8) -> [u8; 15] {
    let f = 0xff;
    [flags, f, f, f, f, f, f, f, f, f, f, f, f, 0, 0]
}

const fn row(code: u8, usage: &'static [u8], begin: Begin) -> Supported {
    Supported { code, action: None, usage, begin, finish: None }
}

/// A service action of PERSISTENT RESERVE IN.
const fn reserve_in_row(action: u8, usage: &'static [u8], begin: Begin) -> Supported {
    row(PERSISTENT_RESERVE_IN, usage, begin).action(action)
}

/// A service action of PERSISTENT RESERVE OUT.
const fn reserve_out_row(action: u8, usage: &'static [u8]) -> Supported {
    let row = row(PERSISTENT_RESERVE_OUT, usage, reserve_out::reserve_out).action(action);
    row.then(reserve_out::reserve_out_list)
}

/// Validates any command.
pub(super) fn plan(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    begin(unit, cdb).map(|(_, plan)| plan)
}

/// Validates any command with its data-out.
pub(super) fn plan_with(unit: &Unit, cdb: &Cdb, data: &[u8]) -> Result<Plan, Sense> {
    let (command, plan) = begin(unit, cdb)?;
    match (plan, command.finish) {
        (Plan::Collect { len }, Some(finish)) if len as usize == data.len() => {
            finish(unit, cdb, data)
        }
        (Plan::Collect { .. }, _) => Err(Sense::PARAMETER_LIST_LENGTH_ERROR),
        (plan, _) => Ok(plan),
    }
}

fn begin(unit: &Unit, cdb: &Cdb) -> Result<(&'static Supported, Plan), Sense> {
    let command = find(cdb)?;
    control(cdb, command.cdb_len() - 1)?;
    Ok((command, (command.begin)(unit, cdb)?))
}

/// The row of a CDB.
fn find(cdb: &Cdb) -> Result<&'static Supported, Sense> {
    let mut known = false;
    for command in COMMANDS.iter().filter(|command| command.code == cdb[0]) {
        if command.action.is_none_or(|action| action == cdb[1] & 0x1f) {
            return Ok(command);
        }
        known = true;
    }
    //= SPC-4 §Service action: one that is not supported is an invalid field in the CDB.
    Err(if known { Sense::cdb_bit(1, 4) } else { Sense::INVALID_OPCODE })
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::super::test::unit;
    use super::*;

    #[test]
    fn rows_rise_and_are_unique() {
        let key = |command: &Supported| (command.code, command.action);
        assert!(COMMANDS.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
        for pair in COMMANDS.windows(2).filter(|pair| pair[0].code == pair[1].code) {
            assert!(pair[0].action.is_some(), "{:02x} with and without actions", pair[0].code);
        }
    }

    //= SAM-5 §OPERATION CODE byte: the group code gives the length.
    #[test]
    fn lengths_follow_the_group_code() {
        for command in COMMANDS {
            let expect = match command.code >> 5 {
                0 => 6,
                1 | 2 => 10,
                4 => 16,
                5 => 12,
                group => panic!("group {group}"),
            };
            assert_eq!(command.cdb_len(), expect, "{:02x}", command.code);
        }
    }

    #[test]
    fn usage_names_the_service_action() {
        for command in COMMANDS {
            if let Some(action) = command.action {
                assert_eq!(command.usage[0] & 0x1f, action);
            }
        }
    }

    #[test]
    fn only_what_collects_finishes() {
        let unit = unit(1 << 20, 512);
        for command in COMMANDS {
            let mut cdb = [0; 16];
            cdb[..2].copy_from_slice(&[command.code, command.action.unwrap_or(0)]);
            // The longest parameter list or range.
            cdb[command.cdb_len() - 3..command.cdb_len() - 1].fill(1);
            if let Ok(Plan::Collect { .. }) = plan(&unit, &cdb) {
                assert!(command.finish.is_some(), "{:02x}", command.code);
            }
        }
    }

    proptest! {
        #[test]
        fn no_bit_of_the_usage_is_said_to_be_reserved(index in 0..COMMANDS.len(), noise: [u8; 16]) {
            let command = &COMMANDS[index];
            let mut cdb = [0; 16];
            cdb[0] = command.code;
            for (i, mask) in command.usage.iter().enumerate() {
                cdb[i + 1] = noise[i + 1] & mask;
            }
            cdb[1] = command.action.unwrap_or(cdb[1]);
            if let Err(Sense { field: Some(field), .. }) = plan(&unit(1 << 20, 512), &cdb) {
                let mask = command.usage[usize::from(field.byte) - 1];
                let said = field.bit.map_or(mask != 0, |bit| mask >> bit & 1 != 0);
                prop_assert!(field.in_cdb && said, "{:02x}: {field:?}", command.code);
            }
        }
    }
}
