//! The initiator's side: answers the challenge, and challenges the target if that must prove
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::text::put;
use super::{Algorithm, Chap, Keys, large};
use crate::auth::{Credentials, same};

/// Secrets of an initiator, with what its logins have learned about the target.
#[derive(Clone, Debug)]
pub struct Proof {
    /// Secrets.
    pub chap: Chap,
    /// Whether MD5 is the only algorithm to offer: for targets that know nothing else, or number
    /// their algorithms differently. Set by a login that was refused with other algorithms on
    /// offer; shared by all logins to a target.
    pub only_md5: Arc<AtomicBool>,
}

/// Progress of our proof.
#[derive(Debug)]
pub(in crate::iscsi) struct Prover {
    chap: Chap,
    offers_md5_alone: bool,
    only_md5: Arc<AtomicBool>,
    at: At,
}

#[derive(Debug)]
enum At {
    /// CHAP was offered.
    Method,
    /// The algorithms were listed.
    Algorithm,
    /// Our response was sent, with this challenge, if the target must prove itself.
    Response(Option<(Algorithm, u8, Vec<u8>)>),
    /// Both have proved what they have to.
    Done,
}

impl Prover {
    /// Begins with the offer of CHAP.
    pub(in crate::iscsi) fn new(proof: Proof) -> Prover {
        let Proof { chap, only_md5 } = proof;
        Prover {
            chap,
            offers_md5_alone: only_md5.load(Ordering::Acquire),
            only_md5,
            at: At::Method,
        }
    }

    /// Handles a refusal by the target called `name`. Returns the reason, as far as it is known.
    pub(in crate::iscsi) fn refused(&self, name: &str) -> String {
        if !self.has_listed() {
            return format!(
                "{name} has no CHAP for this initiator: require it there, or remove chap="
            );
        }
        // The target may have refused the algorithms rather than the secret.
        self.only_md5.store(true, Ordering::Release);
        let user = &self.chap.initiator.user;
        format!("{name} refuses user {user}: its name, its secret or the algorithm is wrong")
    }

    /// Whether the algorithms were listed, and not all was proved since.
    pub(in crate::iscsi) fn has_listed(&self) -> bool {
        matches!(self.at, At::Algorithm | At::Response(_))
    }

    /// Whether all was proved.
    pub(in crate::iscsi) fn is_done(&self) -> bool {
        matches!(self.at, At::Done)
    }

    /// Whether our last message ended this stage for us.
    pub(in crate::iscsi) fn has_answered(&self) -> bool {
        matches!(self.at, At::Response(_) | At::Done)
    }

    /// Handles the keys of a response, and `method`, the value of AuthMethod. Appends our keys.
    pub(in crate::iscsi) fn step(
        &mut self,
        method: Option<&str>,
        keys: &Keys,
        text: &mut Vec<u8>,
    ) -> Result<(), String> {
        match &self.at {
            At::Method => {
                match method {
                    Some("CHAP") => {}
                    Some("None" | "Reject") | None => {
                        return Err(
                            "the target has no CHAP for this initiator: require it there, \
                                    or remove chap="
                                .to_owned(),
                        );
                    }
                    Some(other) => {
                        return Err(format!(
                            "the target demands authentication by {other}, which is not supported"
                        ));
                    }
                }
                let all: Vec<&str> = Algorithm::ALL.map(Algorithm::number).to_vec();
                let listed = if self.offers_md5_alone { &all[3..] } else { &all[..] };
                put(text, "CHAP_A", &listed.join(","));
                self.at = At::Algorithm;
                Ok(())
            }
            At::Algorithm => self.respond(keys, text),
            At::Response(None) => {
                self.at = At::Done;
                Ok(())
            }
            At::Response(Some((algorithm, identifier, challenge))) => {
                let target = self.chap.target.as_ref();
                let right = |target: &Credentials| {
                    algorithm.response(*identifier, target.secret.bytes(), challenge)
                };
                let sent = keys.value("CHAP_R").and_then(large::decode);
                let proven = target.zip(sent).zip(keys.value("CHAP_N"));
                let proven = proven.is_some_and(|((target, sent), name)| {
                    same(name.as_bytes(), target.user.as_bytes()) & same(&sent, &right(target))
                });
                if !proven {
                    return Err("the target does not prove that it knows target_secret: it is \
                                another one, or its secret differs"
                        .to_owned());
                }
                self.at = At::Done;
                Ok(())
            }
            At::Done => Ok(()),
        }
    }

    /// Answers the target's challenge, and sends ours.
    fn respond(&mut self, keys: &Keys, text: &mut Vec<u8>) -> Result<(), String> {
        let wrong = || "the target's challenge is invalid".to_owned();
        let algorithm = keys.value("CHAP_A").and_then(Algorithm::of).ok_or_else(wrong)?;
        if self.offers_md5_alone && algorithm != Algorithm::Md5 {
            return Err(wrong());
        }
        let (identifier, challenge) = keys.challenge().flatten().ok_or_else(wrong)?;
        let Chap { initiator, target, chance } = &self.chap;
        let response = algorithm.response(identifier, initiator.secret.bytes(), &challenge);
        put(text, "CHAP_N", &initiator.user);
        put(text, "CHAP_R", &large::encode(&response));
        let own = target.as_ref().map(|_| {
            let mut bytes = chance.bytes(1 + algorithm.bytes());
            (algorithm, bytes.remove(0), bytes)
        });
        if let Some((_, identifier, bytes)) = &own {
            //= RFC 7143 §12.1.3: the initiator's challenge differs from the target's.
            if same(bytes, &challenge) {
                return Err(wrong());
            }
            put(text, "CHAP_I", &identifier.to_string());
            put(text, "CHAP_C", &large::encode(bytes));
        }
        self.at = At::Response(own);
        Ok(())
    }
}
