//! The target's side: demands CHAP, challenges, verifies.

use super::super::text::put;
use super::{Algorithm, Chap, Keys, large};
use crate::auth::{Credentials, Secret, same};

/// Progress of an initiator's proof.
#[derive(Debug, Default)]
pub(in crate::iscsi) enum Verifier {
    /// The initiator has to offer CHAP.
    #[default]
    Method,
    /// The initiator has to list its algorithms.
    Algorithm,
    /// The initiator has to answer this challenge.
    Response(Challenge),
    /// The initiator has proved that it knows the secret.
    Proven,
}

/// A challenge that was sent.
#[derive(Debug)]
pub(in crate::iscsi) struct Challenge {
    algorithm: Algorithm,
    identifier: u8,
    bytes: Vec<u8>,
}

/// Why a proof failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::iscsi) enum Wrong {
    /// The initiator proves nothing, or the wrong thing.
    Proof,
    /// The keys do not follow the protocol.
    Keys,
}

impl Verifier {
    /// Whether the initiator may go on.
    pub(in crate::iscsi) fn is_satisfied(&self) -> bool {
        matches!(self, Verifier::Proven)
    }

    /// Handles the keys of a text, and `methods`, the value of AuthMethod. Appends to the answer.
    /// `onward`: the initiator wants to leave this stage.
    pub(in crate::iscsi) fn step(
        &mut self,
        chap: &Chap,
        methods: Option<&str>,
        keys: &Keys,
        onward: bool,
        answer: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let silent = methods.is_none() && keys.names().next().is_none();
        match self {
            Verifier::Proven if silent => Ok(()),
            // A text without keys asks for the rest of ours, and all of it was sent; but one that
            // demands the next stage will not prove anything.
            _ if silent => {
                if onward {
                    Err(Wrong::Proof)
                } else {
                    Ok(())
                }
            }
            Verifier::Method => {
                let offers = |methods: &str| methods.split(',').any(|method| method == "CHAP");
                if !methods.is_some_and(offers) {
                    return Err(Wrong::Proof);
                }
                put(answer, "AuthMethod", "CHAP");
                *self = Verifier::Algorithm;
                // An initiator that lists its algorithms at once saves a round trip.
                let listed = keys.value("CHAP_A").is_some();
                if listed { self.challenge(chap, keys, answer) } else { Ok(()) }
            }
            _ if methods.is_some() => Err(Wrong::Keys),
            Verifier::Algorithm => self.challenge(chap, keys, answer),
            Verifier::Response(challenge) => {
                challenge.verify(&chap.initiator, keys)?;
                challenge.prove(chap.target.as_ref(), &chap.initiator.secret, keys, answer)?;
                *self = Verifier::Proven;
                Ok(())
            }
            Verifier::Proven => Err(Wrong::Keys),
        }
    }

    /// Chooses the first algorithm that both know, and sends a challenge.
    fn challenge(&mut self, chap: &Chap, keys: &Keys, answer: &mut Vec<u8>) -> Result<(), Wrong> {
        let listed = keys.value("CHAP_A").ok_or(Wrong::Keys)?;
        let algorithm = listed.split(',').find_map(Algorithm::of).ok_or(Wrong::Proof)?;
        let mut bytes = chap.chance.bytes(1 + algorithm.bytes());
        let identifier = bytes.remove(0);
        put(answer, "CHAP_A", algorithm.number());
        put(answer, "CHAP_I", &identifier.to_string());
        put(answer, "CHAP_C", &large::encode(&bytes));
        *self = Verifier::Response(Challenge { algorithm, identifier, bytes });
        Ok(())
    }
}

impl Challenge {
    fn verify(&self, initiator: &Credentials, keys: &Keys) -> Result<(), Wrong> {
        let (Some(name), Some(response)) = (keys.value("CHAP_N"), keys.value("CHAP_R")) else {
            return Err(Wrong::Keys);
        };
        let response = large::decode(response).ok_or(Wrong::Keys)?;
        let right = self.algorithm.response(self.identifier, initiator.secret.bytes(), &self.bytes);
        // Both comparisons are made, whatever the first one says.
        let known = same(name.as_bytes(), initiator.user.as_bytes());
        if known & same(&response, &right) { Ok(()) } else { Err(Wrong::Proof) }
    }

    /// Answers the initiator's own challenge, if there is one.
    fn prove(
        &self,
        own: Option<&Credentials>,
        initiators: &Secret,
        keys: &Keys,
        answer: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let Some(theirs) = keys.challenge() else { return Ok(()) };
        let (identifier, challenge) = theirs.ok_or(Wrong::Keys)?;
        //= RFC 7143 §12.1.3: a challenge that comes back is refused, and so is one secret for both
        // directions: either would let an initiator use us to answer our own challenge.
        if same(&challenge, &self.bytes) {
            return Err(Wrong::Proof);
        }
        let own = own.filter(|own| !own.secret.equals(initiators)).ok_or(Wrong::Proof)?;
        let response = self.algorithm.response(identifier, own.secret.bytes(), &challenge);
        put(answer, "CHAP_N", &own.user);
        put(answer, "CHAP_R", &large::encode(&response));
        Ok(())
    }
}
