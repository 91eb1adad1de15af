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
    let code = format!("{asc:02x} {ascq:02x} ");
    CODES.lines().find_map(|line| line.strip_prefix(&code))
}

/// A line a code: ASC, ASCQ and name.
//= SPC-4 §ASC and ASCQ assignments
const CODES: &str = include_str!("sense-codes.txt");

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn codes_rise_and_are_unique() {
        let codes: Vec<&str> = CODES.lines().map(|line| &line[..5]).collect();
        assert!(codes.is_sorted_by(|a, b| a < b) && codes.len() > 70);
        assert_eq!(code(0x2a, 0x09), Some("capacity data has changed"));
        assert_eq!(code(0xff, 0xff), None);
    }
}
