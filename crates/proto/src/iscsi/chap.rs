//! CHAP: an initiator proves that it knows a secret, and a target too, if asked.
//!
//! Both ends are state machines over the keys of complete texts; the logins carry the texts.
//= RFC 1994 §4.1: the response is the hash of identifier, secret and challenge.

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;
use sha3::Sha3_256;

use crate::auth::{Chance, Credentials};

mod large;
mod prove;
mod verify;

pub use prove::Proof;
pub(super) use prove::Prover;
pub(super) use verify::{Verifier, Wrong};

pub(super) use large::LARGE_MAX_BYTES;

/// Secrets of a login.
#[derive(Clone, Debug)]
pub struct Chap {
    /// Credentials of the initiator.
    pub initiator: Credentials,
    /// Credentials of the target, which proves itself to an initiator that asks. An initiator with
    /// these always asks.
    pub target: Option<Credentials>,
    /// Source of challenges.
    pub chance: Chance,
}

/// Hash algorithm of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha1,
    Sha256,
    Sha3_256,
}

impl Algorithm {
    /// All algorithms, the strongest first.
    const ALL: [Algorithm; 4] =
        [Algorithm::Sha3_256, Algorithm::Sha256, Algorithm::Sha1, Algorithm::Md5];

    /// Value of the key CHAP_A.
    //= RFC 7143 §12.1.3: 5 is MD5; IANA has the other numbers.
    fn number(self) -> &'static str {
        match self {
            Algorithm::Md5 => "5",
            Algorithm::Sha1 => "6",
            Algorithm::Sha256 => "7",
            Algorithm::Sha3_256 => "8",
        }
    }

    fn of(number: &str) -> Option<Algorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.number() == number)
    }

    /// Length of a response and of our challenges, in bytes.
    fn bytes(self) -> usize {
        match self {
            Algorithm::Md5 => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 | Algorithm::Sha3_256 => 32,
        }
    }

    fn response(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            parts.into_iter().fold(D::new(), Digest::chain_update).finalize().to_vec()
        }
        let parts = [&[identifier][..], secret, challenge];
        match self {
            Algorithm::Md5 => hash::<Md5>(parts),
            Algorithm::Sha1 => hash::<Sha1>(parts),
            Algorithm::Sha256 => hash::<Sha256>(parts),
            Algorithm::Sha3_256 => hash::<Sha3_256>(parts),
        }
    }
}

/// The keys of CHAP in one text.
#[derive(Debug, Default)]
pub(super) struct Keys {
    values: [Option<String>; NAMES.len()],
}

const NAMES: [&str; 5] = ["CHAP_A", "CHAP_I", "CHAP_C", "CHAP_N", "CHAP_R"];

impl Keys {
    /// Stores a value if `key` is one of CHAP's.
    pub(super) fn store(&mut self, key: &str, value: &str) -> bool {
        let at = NAMES.iter().position(|name| *name == key);
        if let Some(at) = at {
            self.values[at] = Some(value.to_owned());
        }
        at.is_some()
    }

    /// Names of the keys that the text has.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        NAMES
            .into_iter()
            .zip(&self.values)
            .filter_map(|(name, value)| value.is_some().then_some(name))
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.values[NAMES.iter().position(|name| *name == key)?].as_deref()
    }

    /// Identifier and challenge; `None` without both, `Some(None)` if one is invalid.
    fn challenge(&self) -> Option<Option<(u8, Vec<u8>)>> {
        let (identifier, challenge) = (self.value("CHAP_I"), self.value("CHAP_C"));
        if identifier.is_none() && challenge.is_none() {
            return None;
        }
        let identifier = identifier.and_then(super::text::number);
        let identifier = identifier.and_then(|number| u8::try_from(number).ok());
        //= RFC 7143 §12.1.3: a challenge has 1 to 1024 bytes.
        let challenge = challenge.and_then(large::decode).filter(|bytes| !bytes.is_empty());
        Some(identifier.zip(challenge))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn responses_are_hashes_of_all_three() {
        let hex = |bytes: Vec<u8>| large::encode(&bytes);
        // By hashlib of Python, over b"\x2a" + b"a secret of 96+ bits" + bytes(range(16)).
        let challenge: Vec<u8> = (0..16).collect();
        for (algorithm, expected) in [
            (Algorithm::Md5, MD5),
            (Algorithm::Sha1, SHA1),
            (Algorithm::Sha256, SHA256),
            (Algorithm::Sha3_256, SHA3_256),
        ] {
            let response = algorithm.response(0x2a, b"a secret of 96+ bits", &challenge);
            assert_eq!(response.len(), algorithm.bytes());
            assert_eq!(hex(response), expected, "{algorithm:?}");
            assert_eq!(Algorithm::of(algorithm.number()), Some(algorithm));
        }
        assert_eq!(Algorithm::of("9"), None);
    }

    const MD5: &str = "0x8a4bd623a1af04646ff00424969a06e5";
    const SHA1: &str = "0x61fd7c11ddf211f07ca9a69ab0374bea7523ca8d";
    const SHA256: &str = "0xd2a41b9889b9d48d159f3f6f1a925eb23b285341b74225e177bea124f6d543ea";
    const SHA3_256: &str = "0xfd4bca0c0579c8df55396f12c1c56ff14e2c9be09212eddbd70d9e7f7f60ecf9";
}
