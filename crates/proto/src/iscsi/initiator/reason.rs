//! Encodes why a command failed as a [`Cause`], and explains it.
//!
//! Only for failures.

use block::Cause;

use crate::scsi::{Sense, sense_of_codes};

/// Status GOOD with a residual count.
pub(super) const SHORT: Cause = Cause(SHORT_KIND << 24);

// The top byte is the kind; none is zero.
const SHORT_KIND: u32 = 1;
const STATUS: u32 = 2;
const SENSE: u32 = 3;
const RESPONSE: u32 = 4;

/// A SCSI status without sense data.
pub(super) fn of_status(status: u8) -> Cause {
    Cause(STATUS << 24 | u32::from(status))
}

/// Sense data: key, code and qualifier.
pub(super) fn of_sense(sense: Sense) -> Cause {
    Cause(SENSE << 24 | u32::from_be_bytes([0, sense.key as u8, sense.asc, sense.ascq]))
}

/// An iSCSI response code.
pub(super) fn of_response(response: u8) -> Cause {
    Cause(RESPONSE << 24 | u32::from(response))
}

/// Explains it in the words of the standards.
pub(super) fn words(cause: Cause) -> Option<String> {
    let [kind, key, asc, low] = cause.0.to_be_bytes();
    Some(match u32::from(kind) {
        SHORT_KIND => "good status, but not all data moved (residual count)".to_owned(),
        STATUS => format!("SCSI status {} ({low:02x}h)", status(low)),
        SENSE => sense_of_codes(key, asc, low).to_string(),
        RESPONSE => format!("iSCSI response {} ({low:02x}h)", response(low)),
        _ => return None,
    })
}

//= SAM-5 §Status codes
fn status(code: u8) -> &'static str {
    match code {
        0x02 => "check condition, without sense data",
        0x04 => "condition met",
        0x08 => "busy",
        0x18 => "reservation conflict",
        0x28 => "task set full",
        0x30 => "ACA active",
        0x40 => "task aborted",
        _ => "unknown",
    }
}

//= RFC 7143 §11.4.3: Response.
fn response(code: u8) -> &'static str {
    if code == 1 { "target failure" } else { "vendor specific or reserved" }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::scsi::Key;

    #[test]
    fn speaks_the_words_of_the_standards() {
        for (cause, says) in [
            (
                of_sense(Sense::UNRECOVERED_READ_ERROR),
                "medium error: unrecovered read error (11/00)",
            ),
            (
                of_sense(Sense::LBA_OUT_OF_RANGE),
                "illegal request: logical block address out of range (21/00)",
            ),
            (
                of_sense(Sense::new(Key::VendorSpecific, 0x81, 0x02)),
                "vendor specific: additional sense 81/02",
            ),
            (of_status(0x18), "SCSI status reservation conflict (18h)"),
            (of_status(0x40), "SCSI status task aborted (40h)"),
            (of_response(1), "iSCSI response target failure (01h)"),
        ] {
            assert_eq!(words(cause).as_deref(), Some(says));
        }
        assert!(words(SHORT).unwrap().contains("not all data moved"));
        assert_eq!(words(Cause::NONE), None);
    }
}
