//! Names of sense keys and additional sense codes, for messages of our initiator.

use super::sense::Key;

/// The name of a sense key.
pub(super) fn key(key: Key) -> &'static str {
    match key {
        Key::NoSense => "no sense",
        Key::RecoveredError => "recovered error",
        Key::NotReady => "not ready",
        Key::MediumError => "medium error",
        Key::HardwareError => "hardware error",
        Key::IllegalRequest => "illegal request",
        Key::UnitAttention => "unit attention",
        Key::DataProtect => "data protect",
        Key::BlankCheck => "blank check",
        Key::VendorSpecific => "vendor specific",
        Key::CopyAborted => "copy aborted",
        Key::AbortedCommand => "aborted command",
        Key::Reserved => "reserved sense key",
        Key::VolumeOverflow => "volume overflow",
        Key::Miscompare => "miscompare",
        Key::Completed => "completed",
    }
}

/// The name of an additional sense code, for those that block devices usually send.
pub(super) fn code(asc: u8, ascq: u8) -> Option<&'static str> {
    let exact = CODES.iter().find(|row| (row.0, row.1) == (asc, ascq));
    exact.map(|row| row.2)
}

//= SPC-4 §ASC and ASCQ assignments
const CODES: &[(u8, u8, &str)] = &[
    (0x00, 0x00, "no additional sense information"),
    (0x00, 0x06, "I/O process terminated"),
    (0x02, 0x00, "no seek complete"),
    (0x03, 0x00, "peripheral device write fault"),
    (0x04, 0x00, "logical unit not ready, cause not reportable"),
    (0x04, 0x01, "logical unit is in process of becoming ready"),
    (0x04, 0x02, "logical unit not ready, initializing command required"),
    (0x04, 0x03, "logical unit not ready, manual intervention required"),
    (0x04, 0x04, "logical unit not ready, format in progress"),
    (0x04, 0x07, "logical unit not ready, operation in progress"),
    (0x04, 0x0a, "logical unit not accessible, asymmetric access state transition"),
    (0x04, 0x0b, "logical unit not accessible, target port in standby state"),
    (0x04, 0x0c, "logical unit not accessible, target port in unavailable state"),
    (0x04, 0x1b, "logical unit not ready, sanitize in progress"),
    (0x05, 0x00, "logical unit does not respond to selection"),
    (0x08, 0x00, "logical unit communication failure"),
    (0x08, 0x01, "logical unit communication time-out"),
    (0x0c, 0x00, "write error"),
    (0x0c, 0x02, "write error, auto reallocation failed"),
    (0x0c, 0x0c, "write error, unexpected unsolicited data"),
    (0x0c, 0x0d, "write error, not enough unsolicited data"),
    (0x0e, 0x03, "invalid field in command information unit"),
    (0x10, 0x00, "id CRC or ECC error"),
    (0x11, 0x00, "unrecovered read error"),
    (0x11, 0x04, "unrecovered read error, auto reallocate failed"),
    (0x14, 0x00, "recorded entity not found"),
    (0x15, 0x00, "random positioning error"),
    (0x17, 0x01, "recovered data with retries"),
    (0x18, 0x00, "recovered data with error correction applied"),
    (0x1a, 0x00, "parameter list length error"),
    (0x1b, 0x00, "synchronous data transfer error"),
    (0x1d, 0x00, "miscompare during verify operation"),
    (0x20, 0x00, "invalid command operation code"),
    (0x21, 0x00, "logical block address out of range"),
    (0x24, 0x00, "invalid field in CDB"),
    (0x25, 0x00, "logical unit not supported"),
    (0x26, 0x00, "invalid field in parameter list"),
    (0x27, 0x00, "write protected"),
    (0x27, 0x02, "logical unit software write protected"),
    (0x27, 0x07, "space allocation failed write protect"),
    (0x28, 0x00, "medium may have changed"),
    (0x29, 0x00, "power on, reset, or bus device reset occurred"),
    (0x29, 0x01, "power on occurred"),
    (0x29, 0x02, "SCSI bus reset occurred"),
    (0x29, 0x03, "bus device reset function occurred"),
    (0x29, 0x04, "device internal reset"),
    (0x29, 0x07, "I_T nexus loss occurred"),
    (0x2a, 0x01, "mode parameters changed"),
    (0x2a, 0x03, "reservations preempted"),
    (0x2a, 0x04, "reservations released"),
    (0x2a, 0x05, "registrations preempted"),
    (0x2a, 0x06, "asymmetric access state changed"),
    (0x2a, 0x09, "capacity data has changed"),
    (0x2c, 0x00, "command sequence error"),
    (0x2f, 0x00, "commands cleared by another initiator"),
    (0x31, 0x00, "medium format corrupted"),
    (0x32, 0x00, "no defect spare location available"),
    (0x38, 0x07, "thin provisioning soft threshold reached"),
    (0x39, 0x00, "saving parameters not supported"),
    (0x3a, 0x00, "medium not present"),
    (0x3e, 0x01, "logical unit failure"),
    (0x3f, 0x00, "target operating conditions have changed"),
    (0x3f, 0x03, "inquiry data has changed"),
    (0x3f, 0x0e, "reported LUNs data has changed"),
    (0x44, 0x00, "internal target failure"),
    (0x47, 0x05, "protocol service CRC error"),
    (0x49, 0x00, "invalid message error"),
    (0x4b, 0x00, "data phase error"),
    (0x4e, 0x00, "overlapped commands attempted"),
    (0x53, 0x02, "medium removal prevented"),
    (0x55, 0x00, "system resource failure"),
    (0x55, 0x03, "insufficient resources"),
    (0x55, 0x04, "insufficient registration resources"),
    (0x5d, 0x00, "failure prediction threshold exceeded"),
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn codes_rise_and_are_unique() {
        let ordered = CODES.windows(2).all(|pair| (pair[0].0, pair[0].1) < (pair[1].0, pair[1].1));
        assert!(ordered);
        assert_eq!(code(0x2a, 0x09), Some("capacity data has changed"));
        assert_eq!(code(0xff, 0xff), None);
    }
}
