//! Operation codes and service actions by name.
//= SPC-4 §Operation codes (annex), SBC-4 §Commands for direct access block devices

pub(super) const TEST_UNIT_READY: u8 = 0x00;
pub(super) const REQUEST_SENSE: u8 = 0x03;
pub(super) const READ_6: u8 = 0x08;
pub(super) const WRITE_6: u8 = 0x0a;
pub(super) const INQUIRY: u8 = 0x12;
pub(super) const MODE_SELECT_6: u8 = 0x15;
pub(super) const RESERVE_6: u8 = 0x16;
pub(super) const RELEASE_6: u8 = 0x17;
pub(super) const MODE_SENSE_6: u8 = 0x1a;
pub(super) const START_STOP_UNIT: u8 = 0x1b;
pub(super) const PREVENT_ALLOW_MEDIUM_REMOVAL: u8 = 0x1e;
pub(super) const READ_CAPACITY_10: u8 = 0x25;
pub(super) const READ_10: u8 = 0x28;
pub(super) const WRITE_10: u8 = 0x2a;
pub(super) const WRITE_AND_VERIFY_10: u8 = 0x2e;
pub(super) const VERIFY_10: u8 = 0x2f;
pub(super) const PRE_FETCH_10: u8 = 0x34;
pub(super) const SYNCHRONIZE_CACHE_10: u8 = 0x35;
pub(super) const READ_DEFECT_DATA_10: u8 = 0x37;
pub(super) const WRITE_SAME_10: u8 = 0x41;
pub(super) const UNMAP: u8 = 0x42;
pub(super) const LOG_SENSE: u8 = 0x4d;
pub(super) const MODE_SELECT_10: u8 = 0x55;
pub(super) const MODE_SENSE_10: u8 = 0x5a;
pub(super) const PERSISTENT_RESERVE_IN: u8 = 0x5e;
pub(super) const PERSISTENT_RESERVE_OUT: u8 = 0x5f;
pub(super) const EXTENDED_COPY: u8 = 0x83;
pub(super) const RECEIVE_COPY_RESULTS: u8 = 0x84;
pub(super) const READ_16: u8 = 0x88;
pub(super) const COMPARE_AND_WRITE: u8 = 0x89;
pub(super) const WRITE_16: u8 = 0x8a;
pub(super) const ORWRITE_16: u8 = 0x8b;
pub(super) const WRITE_AND_VERIFY_16: u8 = 0x8e;
pub(super) const VERIFY_16: u8 = 0x8f;
pub(super) const PRE_FETCH_16: u8 = 0x90;
pub(super) const SYNCHRONIZE_CACHE_16: u8 = 0x91;
pub(super) const WRITE_SAME_16: u8 = 0x93;
pub(super) const SERVICE_ACTION_IN_16: u8 = 0x9e;
pub(super) const REPORT_LUNS: u8 = 0xa0;
pub(super) const MAINTENANCE_IN: u8 = 0xa3;
pub(super) const READ_12: u8 = 0xa8;
pub(super) const WRITE_12: u8 = 0xaa;
pub(super) const WRITE_AND_VERIFY_12: u8 = 0xae;
pub(super) const VERIFY_12: u8 = 0xaf;
pub(super) const READ_DEFECT_DATA_12: u8 = 0xb7;

/// READ CAPACITY (16), of SERVICE ACTION IN (16).
pub(super) const SA_READ_CAPACITY_16: u8 = 0x10;
/// GET LBA STATUS, of SERVICE ACTION IN (16).
pub(super) const SA_GET_LBA_STATUS: u8 = 0x12;
/// REPORT TARGET PORT GROUPS, of MAINTENANCE IN.
pub(super) const SA_REPORT_TARGET_PORT_GROUPS: u8 = 0x0a;
/// REPORT SUPPORTED OPERATION CODES, of MAINTENANCE IN.
pub(super) const SA_REPORT_SUPPORTED_OPERATION_CODES: u8 = 0x0c;

/// EXTENDED COPY (LID1), of EXTENDED COPY.
pub(super) const SA_EXTENDED_COPY_LID1: u8 = 0x00;
/// RECEIVE COPY STATUS (LID1), of RECEIVE COPY RESULTS.
pub(super) const SA_COPY_STATUS: u8 = 0x00;
/// RECEIVE COPY OPERATING PARAMETERS, of RECEIVE COPY RESULTS.
pub(super) const SA_OPERATING_PARAMETERS: u8 = 0x03;
/// READ KEYS, of PERSISTENT RESERVE IN.
pub(super) const SA_READ_KEYS: u8 = 0x00;
/// READ RESERVATION, of PERSISTENT RESERVE IN.
pub(super) const SA_READ_RESERVATION: u8 = 0x01;
/// REPORT CAPABILITIES, of PERSISTENT RESERVE IN.
pub(super) const SA_REPORT_CAPABILITIES: u8 = 0x02;
/// READ FULL STATUS, of PERSISTENT RESERVE IN.
pub(super) const SA_READ_FULL_STATUS: u8 = 0x03;
/// REGISTER, of PERSISTENT RESERVE OUT.
pub(super) const SA_REGISTER: u8 = 0x00;
/// RESERVE, of PERSISTENT RESERVE OUT.
pub(super) const SA_RESERVE: u8 = 0x01;
/// RELEASE, of PERSISTENT RESERVE OUT.
pub(super) const SA_RELEASE: u8 = 0x02;
/// CLEAR, of PERSISTENT RESERVE OUT.
pub(super) const SA_CLEAR: u8 = 0x03;
/// PREEMPT, of PERSISTENT RESERVE OUT.
pub(super) const SA_PREEMPT: u8 = 0x04;
/// PREEMPT AND ABORT, of PERSISTENT RESERVE OUT.
pub(super) const SA_PREEMPT_AND_ABORT: u8 = 0x05;
/// REGISTER AND IGNORE EXISTING KEY, of PERSISTENT RESERVE OUT.
pub(super) const SA_REGISTER_AND_IGNORE: u8 = 0x06;
