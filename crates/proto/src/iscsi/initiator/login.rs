//! The initiator's login: security and operational negotiation, and the reasons for failure.

use std::sync::atomic::{AtomicU16, Ordering};

use block::{Nanos, Pool};

use crate::{Ending, Moved};

use super::super::chap::{Keys, Proof, Prover};
use super::super::negotiate::{Key, Values};
use super::super::params::Params;
use super::super::pdu::{LoginRequest, LoginResponse};
use super::super::text::{TextError, pairs, put};

/// A login in progress.
#[derive(Debug)]
pub(in crate::iscsi) struct Login {
    initiator_name: String,
    /// `None` for a discovery session.
    target_name: Option<String>,
    isid: [u8; 6],
    stage: u8,
    requests: u32,
    /// Text that continues in the next response, and our response to the target's own offers.
    text: Vec<u8>,
    reply: Vec<u8>,
    moved_to: Option<String>,
    wishes: Values,
    values: Values,
    /// Our proof, if we have secrets, with the keys of the response in progress.
    prover: Option<Prover>,
    method: Option<String>,
    chap: Keys,
}

/// The next step after a response.
pub(in crate::iscsi) enum Step {
    /// Send this request with its text.
    Request(LoginRequest, Vec<u8>),
    /// Enter the full feature phase.
    Complete(Params),
}

/// Stages of a login.
//= RFC 7143 §11.12.3
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Limit of requests in one login: a target beyond it never finishes.
const REQUESTS_MAX: u32 = 32;
/// Longest text of a response, over all its PDUs.
const TEXT_MAX_BYTES: usize = 64 << 10;

/// The ITT of a login.
const LOGIN_TAG: u32 = 0;

/// MaxOutstandingR2T that we offer.
const READY_MAX: u32 = 16;

/// Keys that we offer, in this order. A discovery session needs none for data of commands.
const OFFERED: [Key; 14] = [
    Key::HeaderDigest,
    Key::DataDigest,
    Key::ErrorRecoveryLevel,
    Key::MaxRecvDataSegmentLength,
    Key::DefaultTime2Wait,
    Key::DefaultTime2Retain,
    Key::MaxConnections,
    Key::InitialR2T,
    Key::ImmediateData,
    Key::MaxBurstLength,
    Key::FirstBurstLength,
    Key::MaxOutstandingR2T,
    Key::DataPduInOrder,
    Key::DataSequenceInOrder,
];
const OFFERED_IN_DISCOVERY: usize = 6;

impl Login {
    /// A login to a target, or to a portal for a discovery session.
    pub(in crate::iscsi) fn new(
        initiator_name: &str,
        target_name: Option<&str>,
        digests: [bool; 2],
        isid: [u8; 6],
    ) -> Login {
        let mut wishes = Values::default();
        wishes.set(Key::HeaderDigest, digests[0].into());
        wishes.set(Key::DataDigest, digests[1].into());
        wishes.set(Key::MaxRecvDataSegmentLength, Pool::LARGE_BYTES as u32);
        wishes.set(Key::InitialR2T, 0);
        wishes.set(Key::MaxBurstLength, 16 << 20 >> 1);
        wishes.set(Key::FirstBurstLength, Pool::LARGE_BYTES as u32);
        wishes.set(Key::MaxOutstandingR2T, READY_MAX);
        wishes.set(Key::DefaultTime2Wait, 0);
        wishes.set(Key::DefaultTime2Retain, 0);
        Login {
            initiator_name: initiator_name.to_owned(),
            target_name: target_name.map(str::to_owned),
            isid,
            stage: SECURITY,
            requests: 0,
            text: Vec::new(),
            reply: Vec::new(),
            moved_to: None,
            wishes,
            values: Values::default(),
            prover: None,
            method: None,
            chap: Keys::default(),
        }
    }

    /// Proves that we know a secret.
    pub(in crate::iscsi) fn proving(mut self, proof: Option<Proof>) -> Login {
        self.prover = proof.map(Prover::new);
        self
    }

    /// The first request with its text.
    pub(in crate::iscsi) fn first(&mut self) -> (LoginRequest, Vec<u8>) {
        let mut text = Vec::new();
        put(&mut text, "InitiatorName", &self.initiator_name);
        match &self.target_name {
            Some(name) => {
                put(&mut text, "SessionType", "Normal");
                put(&mut text, "TargetName", name);
            }
            None => put(&mut text, "SessionType", "Discovery"),
        }
        put(&mut text, "AuthMethod", if self.prover.is_some() { "CHAP" } else { "None" });
        (self.request(&text), text)
    }

    fn request(&mut self, text: &[u8]) -> LoginRequest {
        self.requests += 1;
        let next_stage = if self.stage == SECURITY { OPERATIONAL } else { FULL_FEATURE };
        //= RFC 7143 §12.1.3: the last keys of CHAP ask for the next stage, earlier ones do not.
        let transit =
            self.stage != SECURITY || self.prover.as_ref().is_none_or(Prover::has_answered);
        LoginRequest {
            transit,
            stage: self.stage,
            next_stage: if transit { next_stage } else { 0 },
            data_len: text.len() as u32,
            isid: self.isid,
            task_tag: LOGIN_TAG,
            ..LoginRequest::default()
        }
    }

    /// Handles a response. The caller sets the sequence numbers of the next request.
    pub(in crate::iscsi) fn response(
        &mut self,
        response: &LoginResponse,
        text: &[u8],
    ) -> Result<Step, Ending> {
        self.text.extend_from_slice(text);
        if self.requests >= REQUESTS_MAX || self.text.len() > TEXT_MAX_BYTES {
            return Err(refused("the target does not finish the login"));
        }
        if response.task_tag != LOGIN_TAG {
            return Err(refused("the target answers a login request that was not sent"));
        }
        if response.more && response.status == 0 {
            //= RFC 7143 §6.2: an empty request asks for the rest of a text.
            let request = LoginRequest { transit: false, next_stage: 0, ..self.request(&[]) };
            return Ok(Step::Request(request, Vec::new()));
        }
        let text = std::mem::take(&mut self.text);
        if response.status != 0 {
            return Err(self.explain(response.status, &text));
        }
        self.read(&text)?;
        self.prove()?;
        if response.transit {
            //= RFC 7143 §11.13: a target moves on to the requested stage only.
            let asked = if self.stage == SECURITY { OPERATIONAL } else { FULL_FEATURE };
            if response.stage != self.stage || response.next_stage != asked {
                return Err(refused("the target moves to another login stage than requested"));
            }
            if self.prover.as_ref().is_some_and(|prover| !prover.is_done()) {
                return Err(refused("the target ended the authentication too early"));
            }
            self.stage = asked;
        }
        if self.stage == FULL_FEATURE {
            let receive_max = self.wishes.get(Key::MaxRecvDataSegmentLength);
            return Ok(Step::Complete(Params::new(&self.values, receive_max)));
        }
        let mut text = std::mem::take(&mut self.reply);
        if response.transit {
            self.offer(&mut text);
        }
        Ok(Step::Request(self.request(&text), text))
    }

    /// Handles the keys of authentication.
    fn prove(&mut self) -> Result<(), Ending> {
        let (method, keys) = (self.method.take(), std::mem::take(&mut self.chap));
        let Some(prover) = &mut self.prover else { return Ok(()) };
        if self.stage == SECURITY {
            prover.step(method.as_deref(), &keys, &mut self.reply).map_err(Ending::Refused)?;
        }
        Ok(())
    }

    fn offer(&self, text: &mut Vec<u8>) {
        let count = if self.target_name.is_some() { OFFERED.len() } else { OFFERED_IN_DISCOVERY };
        OFFERED[..count].iter().for_each(|key| self.wishes.offer(*key, text));
    }

    fn read(&mut self, text: &[u8]) -> Result<(), Ending> {
        for pair in pairs(text) {
            let (key, value) = pair.map_err(|_: TextError| {
                refused("the target's login text is not a list of key=value pairs")
            })?;
            if let Some(known) = Key::named(key) {
                self.settle(known, value)?;
                continue;
            }
            match key {
                "AuthMethod" if self.prover.is_none() && value != "None" => {
                    let text = format!(
                        "the target demands authentication by {value}: give its secrets by \
                         chap=FILE"
                    );
                    return Err(Ending::Refused(text));
                }
                "AuthMethod" => self.method = Some(value.to_owned()),
                _ if self.prover.is_some() && self.chap.store(key, value) => {}
                "TargetAlias" | "TargetPortalGroupTag" => {}
                "TargetAddress" => self.moved_to = Some(value.to_owned()),
                //= RFC 7143 §6.2: an unknown key is answered with NotUnderstood, an answer is not.
                _ if matches!(value, "NotUnderstood" | "Reject" | "Irrelevant") => {}
                _ if self.reply.len() < TEXT_MAX_BYTES / 16 => {
                    put(&mut self.reply, key, "NotUnderstood");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn settle(&mut self, key: Key, value: &str) -> Result<(), Ending> {
        if let Some(outcome) = self.wishes.settle(key, value) {
            self.values.set(key, outcome);
            return Ok(());
        }
        let optional = !matches!(key, Key::HeaderDigest | Key::DataDigest);
        // The key keeps its default, which every target supports.
        if optional && matches!(value, "NotUnderstood" | "Reject" | "Irrelevant") {
            return Ok(());
        }
        let name = key.name();
        let text = match key {
            Key::HeaderDigest | Key::DataDigest => {
                format!("the target answers {name}={value}: request the digests that it supports")
            }
            _ => format!("the target answers {name}={value}, which was not offered"),
        };
        Err(Ending::Refused(text))
    }

    /// The reason of a failed authentication.
    fn explain_authentication(&self) -> String {
        let name = self.target_name.as_deref().unwrap_or("the portal");
        match &self.prover {
            None => format!("{name} demands authentication: give its secrets by chap=FILE"),
            Some(prover) => prover.refused(name),
        }
    }

    /// The reason of a login status, with the remedy.
    //= RFC 7143 §11.13.5: login response status codes.
    fn explain(&mut self, status: u16, text: &[u8]) -> Ending {
        // A redirection has the new address; other texts are ignored.
        let _ = self.read(text);
        let name = self.target_name.as_deref().unwrap_or("the portal");
        let moved = self.moved_to.as_deref().unwrap_or("another address");
        let words = match status {
            0x0101 | 0x0102 => format!("{name} has moved to {moved}: connect to that address"),
            // A target that numbers its algorithms differently calls our keys invalid.
            0x0200 if self.prover.as_ref().is_some_and(Prover::has_listed) => {
                self.explain_authentication()
            }
            0x0201 => self.explain_authentication(),
            0x0202 => format!(
                "{name} does not allow initiator {}: add it to the target's access list",
                self.initiator_name
            ),
            0x0203 => format!("target {name} not found: check its name against the portal's list"),
            0x0204 => format!("target {name} was removed and will not come back"),
            0x0205 => format!("{name} speaks another version of iSCSI"),
            0x0206 => format!("{name} has too many connections in this session"),
            0x0207 => format!("{name} misses a login parameter"),
            0x0208 => format!("{name} cannot serve this session on this portal: try another"),
            0x0209 => format!("{name} does not offer this kind of session"),
            0x020a => format!("{name} does not know this session"),
            0x020b => format!("{name} calls the login request invalid"),
            0x0301 => format!("{name} is not operational now: try again later"),
            0x0302 => format!("{name} is out of resources: close other sessions, or try later"),
            _ if status >> 8 == 3 => format!("{name} failed: see its own log"),
            _ => format!("{name} refuses the login"),
        };
        let words = format!("{words} (login status {status:#06x})");
        //= RFC 7143 §11.13.5: 0101h is "moved temporarily", 0102h "moved permanently".
        let moved = self.moved_to.as_deref().filter(|_| matches!(status, 0x0101 | 0x0102));
        match moved.and_then(address_of) {
            Some(address) => Ending::Moved(Moved { address, words }),
            None => Ending::Refused(words),
        }
    }
}

/// Host and port of a TargetAddress; `None` if it is none.
//= RFC 7143 §13.8: domainname[:port][,portal-group-tag], with the default port 3260.
fn address_of(value: &str) -> Option<String> {
    const LONGEST: usize = 300;
    let address = value.split_once(',').map_or(value, |(address, _)| address);
    let (host, port) = match address.rsplit_once(':') {
        // The colons of an IPv6 address are in brackets.
        Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()?),
        _ => (address, 3260),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    let fits = !bare.is_empty() && host.len() <= LONGEST && port != 0 && bare.chars().all(good);
    fits.then(|| format!("{host}:{port}"))
}

/// The target refused the login or a later request.
pub(in crate::iscsi) fn refused(words: &str) -> Ending {
    Ending::Refused(words.to_owned())
}

/// Returns an ISID that differs from that of every other session: a target ends an older session
/// with the same name and ISID. To do just that, use the old ISID again.
//= RFC 7143 §11.12.5: type 10b, 24 bits of chance and 16 bits to tell our own sessions apart.
pub fn new_isid(now: Nanos) -> [u8; 6] {
    static SESSIONS: AtomicU16 = AtomicU16::new(0);
    let [high, low] = SESSIONS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    // Two processes rarely start in the same 256 ns of a 4 s cycle.
    let [.., a, b, c, _] = now.0.to_be_bytes();
    [0x80, a, b, c, high, low]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_perhaps_a_port() {
        for (value, expect) in [
            ("192.0.2.7:3261,1", Some("192.0.2.7:3261")),
            ("192.0.2.7", Some("192.0.2.7:3260")),
            ("[2001:db8::7]:860,2", Some("[2001:db8::7]:860")),
            ("[2001:db8::7]", Some("[2001:db8::7]:3260")),
            ("storage.example,1", Some("storage.example:3260")),
            ("", None),
            (":3260", None),
            ("[]:3260", None),
            ("192.0.2.7:0", None),
            ("192.0.2.7:70000", None),
            ("host name:3260", None),
            ("a\u{1b}[2J:3260", None),
        ] {
            assert_eq!(address_of(value).as_deref(), expect, "{value:?}");
        }
        assert_eq!(address_of(&"a".repeat(301)), None);
    }
}
