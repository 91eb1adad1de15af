//! The keys of operational negotiation, with their functions and defaults in one table.
//!
//! Values are numbers: No and Yes are 0 and 1, a digest is 0 for None and 1 for CRC32C. Both ends
//! compute the result with the same function.

use super::text::{boolean, number, put, yes_no};

/// A negotiated key. The login handles names of initiators and targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    HeaderDigest,
    DataDigest,
    MaxConnections,
    InitialR2T,
    ImmediateData,
    MaxRecvDataSegmentLength,
    MaxBurstLength,
    FirstBurstLength,
    DefaultTime2Wait,
    DefaultTime2Retain,
    MaxOutstandingR2T,
    DataPduInOrder,
    DataSequenceInOrder,
    ErrorRecoveryLevel,
    ProtocolLevel,
}

/// Rule by which the result follows from both ends' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The first of the originator's list that the responder supports.
    Digest,
    /// Boolean AND.
    And,
    /// Boolean OR.
    Or,
    /// The minimum of two numbers in this range.
    Smaller(u32, u32),
    /// The maximum.
    Larger(u32, u32),
    /// Declarative: each end states its own value, in this range.
    Declared(u32, u32),
}

/// Maximum of a 24-bit length field.
const LEN_MAX: u32 = (1 << 24) - 1;

//= RFC 7143 §13: the keys of the operational stage, their functions, ranges and defaults.
const TABLE: [(Key, &str, Rule, u32); 15] = [
    (Key::HeaderDigest, "HeaderDigest", Rule::Digest, 0),
    (Key::DataDigest, "DataDigest", Rule::Digest, 0),
    (Key::MaxConnections, "MaxConnections", Rule::Smaller(1, 65535), 1),
    (Key::InitialR2T, "InitialR2T", Rule::Or, 1),
    (Key::ImmediateData, "ImmediateData", Rule::And, 1),
    (Key::MaxRecvDataSegmentLength, "MaxRecvDataSegmentLength", Rule::Declared(512, LEN_MAX), 8192),
    (Key::MaxBurstLength, "MaxBurstLength", Rule::Smaller(512, LEN_MAX), 262_144),
    (Key::FirstBurstLength, "FirstBurstLength", Rule::Smaller(512, LEN_MAX), 65_536),
    (Key::DefaultTime2Wait, "DefaultTime2Wait", Rule::Larger(0, 3600), 2),
    (Key::DefaultTime2Retain, "DefaultTime2Retain", Rule::Smaller(0, 3600), 20),
    (Key::MaxOutstandingR2T, "MaxOutstandingR2T", Rule::Smaller(1, 65535), 1),
    (Key::DataPduInOrder, "DataPDUInOrder", Rule::Or, 1),
    (Key::DataSequenceInOrder, "DataSequenceInOrder", Rule::Or, 1),
    (Key::ErrorRecoveryLevel, "ErrorRecoveryLevel", Rule::Smaller(0, 2), 0),
    //= RFC 7143 §13.24: iSCSIProtocolLevel; 1 is RFC 7143 itself.
    (Key::ProtocolLevel, "iSCSIProtocolLevel", Rule::Smaller(0, 31), 1),
];

impl Key {
    /// The key with this name, which is case-sensitive.
    pub(super) fn named(name: &str) -> Option<Key> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the key's name on the wire.
    pub(super) fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    fn rule(self) -> Rule {
        TABLE[self as usize].2
    }

    /// Formats a value of this key.
    fn print(self, value: u32) -> String {
        match self.rule() {
            Rule::Digest => (if value == 0 { "None" } else { "CRC32C" }).to_owned(),
            Rule::And | Rule::Or => yes_no(value != 0).to_owned(),
            Rule::Smaller(..) | Rule::Larger(..) | Rule::Declared(..) => value.to_string(),
        }
    }

    /// Parses a value of this key, not a list.
    fn read(self, text: &str) -> Option<u32> {
        match self.rule() {
            Rule::Digest => match text {
                "None" => Some(0),
                "CRC32C" => Some(1),
                _ => None,
            },
            Rule::And | Rule::Or => boolean(text).map(u32::from),
            Rule::Smaller(low, high) | Rule::Larger(low, high) | Rule::Declared(low, high) => {
                number(text).filter(|value| (low..=high).contains(value))
            }
        }
    }
}

/// A value for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Values([u32; TABLE.len()]);

impl Default for Values {
    /// The defaults of the standard.
    fn default() -> Values {
        Values(TABLE.map(|row| row.3))
    }
}

impl Values {
    /// The value of a key.
    pub(super) fn get(&self, key: Key) -> u32 {
        self.0[key as usize]
    }

    /// Whether a key is Yes, or CRC32C.
    pub(super) fn is(&self, key: Key) -> bool {
        self.get(key) != 0
    }

    /// Sets a value.
    pub(super) fn set(&mut self, key: Key, value: u32) {
        self.0[key as usize] = value;
    }

    /// Appends our offer for a key to a text.
    pub(super) fn offer(&self, key: Key, text: &mut Vec<u8>) {
        put(text, key.name(), &key.print(self.get(key)));
    }

    /// The responder's part: `self` are our own values. Returns the result of an offer and the
    /// response to send, if one is due; `None` to reject the offer.
    pub(super) fn answer(&self, key: Key, offered: &str) -> Option<(u32, Option<String>)> {
        if key.rule() == Rule::Digest {
            //= RFC 7143 §6.2.1: the first value of the list that is understood and accepted.
            let first = offered.split(',').find_map(|one| key.read(one))?;
            return Some((first, Some(key.print(first))));
        }
        let theirs = key.read(offered)?;
        if matches!(key.rule(), Rule::Declared(..)) {
            return Some((theirs, None));
        }
        let outcome = self.outcome(key, theirs);
        Some((outcome, Some(key.print(outcome))))
    }

    /// The originator's part: `self` are the values offered. Returns the result of a response;
    /// `None` if that is invalid.
    pub(super) fn settle(&self, key: Key, answered: &str) -> Option<u32> {
        let theirs = key.read(answered)?;
        match key.rule() {
            Rule::Declared(..) => Some(theirs),
            //= RFC 7143 §6.2.1: the responder chooses from the list, and we offer one value.
            Rule::Digest => (theirs == self.get(key)).then_some(theirs),
            //= RFC 7143 §6.2.2: the answer is the outcome, so it cannot exceed the offer.
            _ => (self.outcome(key, theirs) == theirs).then_some(theirs),
        }
    }

    fn outcome(&self, key: Key, theirs: u32) -> u32 {
        let ours = self.get(key);
        match key.rule() {
            Rule::And | Rule::Smaller(..) => ours.min(theirs),
            Rule::Or | Rule::Larger(..) => ours.max(theirs),
            Rule::Digest | Rule::Declared(..) => theirs,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_table_is_indexed_by_key() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
            assert_eq!(Key::named(row.1), Some(row.0));
        }
        assert_eq!(Key::named("initialr2t"), None);
    }

    #[test]
    fn answers_by_each_rule() {
        let mut ours = Values::default();
        ours.set(Key::InitialR2T, 0);
        ours.set(Key::MaxBurstLength, 1 << 20);
        ours.set(Key::DefaultTime2Retain, 0);
        for (key, offered, outcome, answer) in [
            (Key::InitialR2T, "No", 0, Some("No")),
            (Key::InitialR2T, "Yes", 1, Some("Yes")),
            (Key::ImmediateData, "No", 0, Some("No")),
            (Key::ImmediateData, "Yes", 1, Some("Yes")),
            (Key::MaxBurstLength, "16776192", 1 << 20, Some("1048576")),
            (Key::MaxBurstLength, "0x1000", 4096, Some("4096")),
            (Key::DefaultTime2Wait, "0", 2, Some("2")),
            (Key::DefaultTime2Retain, "20", 0, Some("0")),
            (Key::MaxRecvDataSegmentLength, "65536", 65536, None),
            (Key::HeaderDigest, "CRC32C,None", 1, Some("CRC32C")),
            (Key::HeaderDigest, "None,CRC32C", 0, Some("None")),
            (Key::HeaderDigest, "X-md5,CRC32C", 1, Some("CRC32C")),
            (Key::ErrorRecoveryLevel, "2", 0, Some("0")),
        ] {
            let expect = Some((outcome, answer.map(str::to_owned)));
            assert_eq!(ours.answer(key, offered), expect, "{key:?}={offered}");
        }
        for (key, offered) in [
            (Key::InitialR2T, "yes"),
            (Key::ImmediateData, ""),
            (Key::MaxBurstLength, "511"),
            (Key::MaxBurstLength, "16777216"),
            (Key::MaxRecvDataSegmentLength, "0"),
            (Key::DefaultTime2Wait, "3601"),
            (Key::DataDigest, "crc32c"),
            (Key::DataDigest, ""),
            (Key::ErrorRecoveryLevel, "3"),
        ] {
            assert_eq!(ours.answer(key, offered), None, "{key:?}={offered}");
        }
    }

    #[test]
    fn settles_legal_answers_only() {
        let mut ours = Values::default();
        ours.set(Key::InitialR2T, 0);
        ours.set(Key::HeaderDigest, 1);
        assert_eq!(ours.settle(Key::InitialR2T, "Yes"), Some(1));
        assert_eq!(ours.settle(Key::InitialR2T, "No"), Some(0));
        assert_eq!(ours.settle(Key::FirstBurstLength, "512"), Some(512));
        assert_eq!(ours.settle(Key::FirstBurstLength, "65537"), None);
        assert_eq!(ours.settle(Key::DefaultTime2Wait, "1"), None);
        assert_eq!(ours.settle(Key::HeaderDigest, "CRC32C"), Some(1));
        assert_eq!(ours.settle(Key::HeaderDigest, "None"), None);
        assert_eq!(ours.settle(Key::HeaderDigest, "Reject"), None);
        assert_eq!(ours.settle(Key::MaxRecvDataSegmentLength, "512"), Some(512));
        ours.set(Key::ImmediateData, 0);
        assert_eq!(ours.settle(Key::ImmediateData, "Yes"), None);
    }
}
