//! Sense data.

use block::{Fault, Op};

use super::field::{be16, be32, be64, put};
use super::sense_text;

/// The sense key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // The names are those of SPC-4, table "Sense key descriptions".
pub enum Key {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    BlankCheck = 0x8,
    VendorSpecific = 0x9,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Reserved = 0xc,
    VolumeOverflow = 0xd,
    Miscompare = 0xe,
    Completed = 0xf,
}

/// The field in error of a CDB or parameter list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// In the CDB; otherwise in the parameter list.
    pub in_cdb: bool,
    /// The first byte of the field, from zero.
    pub byte: u16,
    /// The most significant bit of the field, if it does not fill its byte.
    pub bit: Option<u8>,
}

/// Sense data, which goes with CHECK CONDITION.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sense {
    /// Sense key.
    pub key: Key,
    /// Additional sense code.
    pub asc: u8,
    /// Additional sense code qualifier.
    pub ascq: u8,
    /// The INFORMATION field: a block address or an offset, depending on the command.
    pub information: Option<u64>,
    /// The field in error of an ILLEGAL REQUEST.
    pub field: Option<FieldPointer>,
}

#[allow(missing_docs)] // Each is named by the phrase that SPC-4 gives to its code.
impl Sense {
    pub const NO_SENSE: Sense = Sense::new(Key::NoSense, 0x00, 0x00);
    pub const BECOMING_READY: Sense = Sense::new(Key::NotReady, 0x04, 0x01);
    pub const MEDIUM_NOT_PRESENT: Sense = Sense::new(Key::NotReady, 0x3a, 0x00);
    pub const WRITE_ERROR: Sense = Sense::new(Key::MediumError, 0x0c, 0x00);
    pub const UNRECOVERED_READ_ERROR: Sense = Sense::new(Key::MediumError, 0x11, 0x00);
    pub const INTERNAL_TARGET_FAILURE: Sense = Sense::new(Key::HardwareError, 0x44, 0x00);
    pub const PARAMETER_LIST_LENGTH_ERROR: Sense = Sense::new(Key::IllegalRequest, 0x1a, 0x00);
    pub const INVALID_OPCODE: Sense = Sense::new(Key::IllegalRequest, 0x20, 0x00);
    pub const LBA_OUT_OF_RANGE: Sense = Sense::new(Key::IllegalRequest, 0x21, 0x00);
    pub const INVALID_FIELD_IN_CDB: Sense = Sense::new(Key::IllegalRequest, 0x24, 0x00);
    pub const LOGICAL_UNIT_NOT_SUPPORTED: Sense = Sense::new(Key::IllegalRequest, 0x25, 0x00);
    pub const INVALID_FIELD_IN_PARAMETER_LIST: Sense = Sense::new(Key::IllegalRequest, 0x26, 0x00);
    pub const SAVING_PARAMETERS_NOT_SUPPORTED: Sense = Sense::new(Key::IllegalRequest, 0x39, 0x00);
    pub const MEDIUM_REMOVAL_PREVENTED: Sense = Sense::new(Key::IllegalRequest, 0x53, 0x02);
    pub const INVALID_RELEASE: Sense = Sense::new(Key::IllegalRequest, 0x26, 0x04);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Sense =
        Sense::new(Key::IllegalRequest, 0x55, 0x04);
    pub const MEDIUM_MAY_HAVE_CHANGED: Sense = Sense::new(Key::UnitAttention, 0x28, 0x00);
    pub const POWER_ON_RESET: Sense = Sense::new(Key::UnitAttention, 0x29, 0x00);
    pub const LUN_RESET: Sense = Sense::new(Key::UnitAttention, 0x29, 0x03);
    pub const NEXUS_LOSS: Sense = Sense::new(Key::UnitAttention, 0x29, 0x07);
    pub const MODE_PARAMETERS_CHANGED: Sense = Sense::new(Key::UnitAttention, 0x2a, 0x01);
    pub const RESERVATIONS_PREEMPTED: Sense = Sense::new(Key::UnitAttention, 0x2a, 0x03);
    pub const RESERVATIONS_RELEASED: Sense = Sense::new(Key::UnitAttention, 0x2a, 0x04);
    pub const REGISTRATIONS_PREEMPTED: Sense = Sense::new(Key::UnitAttention, 0x2a, 0x05);
    pub const COMMANDS_CLEARED: Sense = Sense::new(Key::UnitAttention, 0x2f, 0x00);
    pub const CAPACITY_CHANGED: Sense = Sense::new(Key::UnitAttention, 0x2a, 0x09);
    pub const REPORTED_LUNS_CHANGED: Sense = Sense::new(Key::UnitAttention, 0x3f, 0x0e);
    pub const WRITE_PROTECTED: Sense = Sense::new(Key::DataProtect, 0x27, 0x00);
    pub const SOFTWARE_WRITE_PROTECTED: Sense = Sense::new(Key::DataProtect, 0x27, 0x02);
    pub const SPACE_ALLOCATION_FAILED: Sense = Sense::new(Key::DataProtect, 0x27, 0x07);
    pub const ABORTED_COMMAND: Sense = Sense::new(Key::AbortedCommand, 0x00, 0x00);
    pub const COMMUNICATION_FAILURE: Sense = Sense::new(Key::AbortedCommand, 0x08, 0x00);
    pub const DATA_OUT_CRC_ERROR: Sense = Sense::new(Key::AbortedCommand, 0x47, 0x05);
    pub const UNEXPECTED_UNSOLICITED_DATA: Sense = Sense::new(Key::AbortedCommand, 0x0c, 0x0c);
    pub const NOT_ENOUGH_UNSOLICITED_DATA: Sense = Sense::new(Key::AbortedCommand, 0x0c, 0x0d);
    pub const MISCOMPARE: Sense = Sense::new(Key::Miscompare, 0x1d, 0x00);
}

impl Sense {
    /// Length of fixed-format sense data in bytes.
    pub const FIXED_BYTES: usize = 18;

    /// Sense data without details.
    pub const fn new(key: Key, asc: u8, ascq: u8) -> Sense {
        Sense { key, asc, ascq, information: None, field: None }
    }

    /// The CDB is invalid in the field that begins at `byte`.
    pub const fn cdb_field(byte: u16) -> Sense {
        let field = Some(FieldPointer { in_cdb: true, byte, bit: None });
        Sense { field, ..Sense::INVALID_FIELD_IN_CDB }
    }

    /// The CDB is invalid in the field whose most significant bit is `bit` of `byte`.
    pub const fn cdb_bit(byte: u16, bit: u8) -> Sense {
        let field = Some(FieldPointer { in_cdb: true, byte, bit: Some(bit & 7) });
        Sense { field, ..Sense::INVALID_FIELD_IN_CDB }
    }

    /// The parameter list is invalid in the field that begins at `byte`.
    pub const fn parameter_field(byte: u16) -> Sense {
        let field = Some(FieldPointer { in_cdb: false, byte, bit: None });
        Sense { field, ..Sense::INVALID_FIELD_IN_PARAMETER_LIST }
    }

    /// Returns the sense data with the INFORMATION field set.
    pub const fn with_information(self, information: u64) -> Sense {
        Sense { information: Some(information), ..self }
    }

    /// The sense data of an I/O that failed with `fault`.
    ///
    /// The only mapping of faults to SCSI.
    pub fn from_fault(fault: Fault, op: Op) -> Sense {
        match fault {
            // A failed flush must not become a success by a second one, which may find nothing left
            // to do. Linux automatically repeats most of MEDIUM ERROR and ABORTED COMMAND, and
            // nothing of HARDWARE ERROR (`scsi_check_sense`).
            Fault::Medium | Fault::Disconnected | Fault::Unanswered if op == Op::Flush => {
                Sense::INTERNAL_TARGET_FAILURE
            }
            Fault::Medium if op == Op::Read => Sense::UNRECOVERED_READ_ERROR,
            Fault::Medium => Sense::WRITE_ERROR,
            Fault::OutOfRange => Sense::LBA_OUT_OF_RANGE,
            Fault::ReadOnly => Sense::WRITE_PROTECTED,
            //= SBC-4 §Thin provisioned logical units: a write that finds no room ends in DATA
            // PROTECT, SPACE ALLOCATION FAILED WRITE PROTECT.
            Fault::NoSpace => Sense::SPACE_ALLOCATION_FAILED,
            Fault::Unsupported => Sense::INVALID_OPCODE,
            Fault::Miscompare => Sense::MISCOMPARE,
            // Initiators retry ABORTED COMMAND, and the connection to the volume may be back by
            // then.
            Fault::Disconnected | Fault::Unanswered => Sense::COMMUNICATION_FAILURE,
            Fault::Aborted => Sense::ABORTED_COMMAND,
        }
    }

    /// Encodes current, fixed-format sense data.
    //= SPC-4 §Fixed format sense data
    pub fn encode_fixed(&self) -> [u8; 18] {
        let mut bytes = [0; Sense::FIXED_BYTES];
        bytes[0] = 0x70;
        bytes[2] = self.key as u8;
        // A 64-bit INFORMATION does not fit, and half of one would mislead.
        //= SPC-4 §Fixed format sense data: VALID is zero if INFORMATION does not fit.
        if let Some(information) = self.information.and_then(|i| u32::try_from(i).ok()) {
            bytes[0] |= 0x80;
            put(&mut bytes, 3, information.to_be_bytes());
        }
        bytes[7] = (Sense::FIXED_BYTES - 8) as u8;
        bytes[12] = self.asc;
        bytes[13] = self.ascq;
        put(&mut bytes, 15, self.key_specific());
        bytes
    }

    /// Encodes current, descriptor-format sense data of 8 to 28 bytes.
    //= SPC-4 §Descriptor format sense data
    pub fn encode_descriptor(&self) -> Vec<u8> {
        let mut bytes = vec![0x72, self.key as u8, self.asc, self.ascq, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0]);
            bytes.extend(information.to_be_bytes());
        }
        if self.field.is_some() {
            let [a, b, c] = self.key_specific();
            bytes.extend([0x02, 0x06, 0, 0, a, b, c, 0]);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }

    /// The sense key specific bytes; zero without a field pointer.
    //= SPC-4 §Field pointer sense key specific data: SKSV, C/D, BPV, BIT POINTER, FIELD POINTER.
    fn key_specific(&self) -> [u8; 3] {
        let Some(field) = self.field else { return [0; 3] };
        let place = if field.in_cdb { 0x40 } else { 0x00 };
        let bit = field.bit.map_or(0, |bit| 0x08 | bit & 0x07);
        let [high, low] = field.byte.to_be_bytes();
        [0x80 | place | bit, high, low]
    }
}

/// Decodes sense data in fixed or descriptor format, current or deferred, however short.
///
/// `None` if it is not sense data. Fields that were cut off are absent.
pub fn decode_sense(bytes: &[u8]) -> Option<Sense> {
    match bytes.first()? & 0x7f {
        0x70 | 0x71 => decode_fixed(bytes),
        0x72 | 0x73 => decode_descriptor(bytes),
        _ => None,
    }
}

fn decode_fixed(bytes: &[u8]) -> Option<Sense> {
    let code = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mut sense = Sense::new(key_of(*bytes.get(2)?), code(12), code(13));
    if bytes[0] & 0x80 != 0 && bytes.len() >= 7 {
        sense.information = Some(be32(bytes, 3).into());
    }
    if let Some(specific) = bytes.get(15..18) {
        sense.field = field_of(sense.key, specific);
    }
    Some(sense)
}

fn decode_descriptor(bytes: &[u8]) -> Option<Sense> {
    let head = bytes.get(..8)?;
    let mut sense = Sense::new(key_of(head[1]), head[2], head[3]);
    let end = bytes.len().min(8 + usize::from(head[7]));
    let mut rest = &bytes[8..end];
    while rest.len() >= 2 {
        let len = 2 + usize::from(rest[1]);
        let Some(descriptor) = rest.get(..len) else { break };
        match (descriptor[0], len) {
            (0x00, 12) if descriptor[2] & 0x80 != 0 => {
                sense.information = Some(be64(descriptor, 4));
            }
            (0x02, 8) => sense.field = field_of(sense.key, &descriptor[4..7]),
            _ => {}
        }
        rest = &rest[len..];
    }
    Some(sense)
}

/// The field pointer, which only ILLEGAL REQUEST has.
fn field_of(key: Key, specific: &[u8]) -> Option<FieldPointer> {
    if key != Key::IllegalRequest || specific[0] & 0x80 == 0 {
        return None;
    }
    let bit = (specific[0] & 0x08 != 0).then_some(specific[0] & 0x07);
    Some(FieldPointer { in_cdb: specific[0] & 0x40 != 0, byte: be16(specific, 1), bit })
}

/// Sense data of these codes: the key is in the low half of its byte.
pub fn sense_of_codes(key: u8, asc: u8, ascq: u8) -> Sense {
    Sense::new(key_of(key), asc, ascq)
}

fn key_of(byte: u8) -> Key {
    use Key::*;
    [
        NoSense,
        RecoveredError,
        NotReady,
        MediumError,
        HardwareError,
        IllegalRequest,
        UnitAttention,
        DataProtect,
        BlankCheck,
        VendorSpecific,
        CopyAborted,
        AbortedCommand,
        Reserved,
        VolumeOverflow,
        Miscompare,
        Completed,
    ][usize::from(byte & 0x0f)]
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, asc, ascq) = (sense_text::key(self.key), self.asc, self.ascq);
        match sense_text::code(asc, ascq) {
            Some(code) => write!(f, "{key}: {code} ({asc:02x}/{ascq:02x})")?,
            None => write!(f, "{key}: additional sense {asc:02x}/{ascq:02x}")?,
        }
        if let Some(field) = self.field {
            let place = if field.in_cdb { "CDB" } else { "parameter list" };
            write!(f, ", {place} byte {}", field.byte)?;
            if let Some(bit) = field.bit {
                write!(f, " bit {bit}")?;
            }
        }
        if let Some(information) = self.information {
            write!(f, ", information {information:#x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fixed_format_golden() {
        let expect = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcf, 0, 1];
        assert_eq!(Sense::cdb_bit(1, 7).encode_fixed(), expect);
        let expect = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xc0, 0, 2];
        assert_eq!(Sense::cdb_field(2).encode_fixed(), expect);
        let expect = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x26, 0, 0, 0x80, 1, 4];
        assert_eq!(Sense::parameter_field(260).encode_fixed(), expect);
        let expect = [0xf0, 0, 14, 0, 0, 2, 1, 10, 0, 0, 0, 0, 0x1d, 0, 0, 0, 0, 0];
        assert_eq!(Sense::MISCOMPARE.with_information(513).encode_fixed(), expect);
        let expect = [0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 3, 0, 0, 0, 0];
        assert_eq!(Sense::LUN_RESET.encode_fixed(), expect);
    }

    #[test]
    fn fixed_format_drops_what_does_not_fit() {
        let bytes = Sense::UNRECOVERED_READ_ERROR.with_information(1 << 32).encode_fixed();
        assert_eq!((bytes[0], &bytes[3..7]), (0x70, &[0; 4][..]));
    }

    #[test]
    fn descriptor_format_golden() {
        assert_eq!(Sense::WRITE_PROTECTED.encode_descriptor(), [0x72, 7, 0x27, 0, 0, 0, 0, 0]);
        let both = Sense::cdb_field(2).with_information(0x1_0000_0002).encode_descriptor();
        let expect = [
            0x72, 5, 0x24, 0, 0, 0, 0, 20, // header
            0, 10, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 2, // information
            2, 6, 0, 0, 0xc0, 0, 2, 0, // field pointer
        ];
        assert_eq!(both, expect);
    }

    #[test]
    fn faults_have_their_own_reasons() {
        use Fault::*;
        let all = [
            (Medium, Op::Read, Sense::UNRECOVERED_READ_ERROR),
            (Medium, Op::Write, Sense::WRITE_ERROR),
            (Medium, Op::Flush, Sense::INTERNAL_TARGET_FAILURE),
            (OutOfRange, Op::Read, Sense::LBA_OUT_OF_RANGE),
            (ReadOnly, Op::Trim, Sense::WRITE_PROTECTED),
            (NoSpace, Op::Write, Sense::SPACE_ALLOCATION_FAILED),
            (NoSpace, Op::Flush, Sense::SPACE_ALLOCATION_FAILED),
            (Unsupported, Op::Trim, Sense::INVALID_OPCODE),
            (Miscompare, Op::Write, Sense::MISCOMPARE),
            (Disconnected, Op::Read, Sense::COMMUNICATION_FAILURE),
            (Disconnected, Op::Flush, Sense::INTERNAL_TARGET_FAILURE),
            (Unanswered, Op::Flush, Sense::INTERNAL_TARGET_FAILURE),
            (Aborted, Op::Flush, Sense::ABORTED_COMMAND),
            (Unanswered, Op::Write, Sense::COMMUNICATION_FAILURE),
            (Aborted, Op::Write, Sense::ABORTED_COMMAND),
        ];
        for (fault, op, sense) in all {
            assert_eq!(Sense::from_fault(fault, op), sense, "{fault:?} {op:?}");
        }
    }

    #[test]
    fn short_and_foreign_bytes() {
        assert_eq!(decode_sense(&[]), None);
        assert_eq!(decode_sense(&[0x70, 0]), None);
        assert_eq!(decode_sense(&[0x12; 18]), None);
        assert_eq!(decode_sense(&[0xf0, 0, 2]), Some(Sense::new(Key::NotReady, 0, 0)));
        assert_eq!(decode_sense(&[0x72, 2, 4, 1]), None);
        let deferred = [0x71, 0, 3, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0x0c, 0];
        assert_eq!(decode_sense(&deferred), Some(Sense::WRITE_ERROR));
    }

    #[test]
    fn speaks_in_words() {
        let text = Sense::cdb_bit(1, 7).to_string();
        assert_eq!(text, "illegal request: invalid field in CDB (24/00), CDB byte 1 bit 7");
        let text = Sense::UNRECOVERED_READ_ERROR.with_information(16).to_string();
        assert_eq!(text, "medium error: unrecovered read error (11/00), information 0x10");
        let text = Sense::new(Key::VendorSpecific, 0x80, 1).to_string();
        assert_eq!(text, "vendor specific: additional sense 80/01");
    }

    prop_compose! {
        fn any_sense()(key in 0..16_u8, asc: u8, ascq: u8, information: Option<u32>,
                       field: Option<(bool, u16, Option<u8>)>) -> Sense {
            let key = key_of(key);
            let field = field.filter(|_| key == Key::IllegalRequest);
            let pointer = |(in_cdb, byte, bit): (bool, u16, Option<u8>)| {
                FieldPointer { in_cdb, byte, bit: bit.map(|bit| bit & 7) }
            };
            let information = information.map(u64::from);
            Sense { key, asc, ascq, information, field: field.map(pointer) }
        }
    }

    proptest! {
        #[test]
        fn both_formats_round_trip(sense in any_sense(), high: u32) {
            prop_assert_eq!(decode_sense(&sense.encode_fixed()), Some(sense));
            let information = sense.information.map(|low| low | u64::from(high) << 32);
            let wide = Sense { information, ..sense };
            prop_assert_eq!(decode_sense(&wide.encode_descriptor()), Some(wide));
        }

        #[test]
        fn any_bytes_are_survived(mut bytes: Vec<u8>, format in 0x70..0x74_u8) {
            let _ = decode_sense(&bytes);
            bytes.insert(0, format);
            let _ = decode_sense(&bytes).map(|sense| sense.to_string());
        }
    }
}
