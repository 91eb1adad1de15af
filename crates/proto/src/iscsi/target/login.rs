//! The login: names, authentication stage and negotiation of parameters.
//!
//! Requests are collected until a text is complete; its keys are then answered at once. Nothing is
//! promised before the initiator and the target are known to be real.

use std::sync::Arc;

use block::{Nanos, Pool};

use crate::peers::PeerName;
use crate::scsi::Nexus;
use crate::{Ending, Offers, Outbox, Violation};

use super::super::chap::{Keys, Verifier, Wrong};
use super::super::directory::{Directory, TargetEntry};
use super::super::name::NAME_MAX_BYTES;
use super::super::negotiate::{Key, Values};
use super::super::params::Params;
use super::super::pdu::{LoginRequest, LoginResponse, Numbers, opcode, opcode_of};
use super::super::text::{TextError, pairs, put};
use super::arrival::Held;
use super::{IscsiTarget, Stage, TargetConfig};

/// Status class and detail of a refused login.
//= RFC 7143 §11.13.5
pub(super) mod status {
    pub(super) const INITIATOR_ERROR: u16 = 0x0200;
    pub(super) const AUTHENTICATION: u16 = 0x0201;
    pub(super) const NOT_FOUND: u16 = 0x0203;
    pub(super) const VERSION: u16 = 0x0205;
    pub(super) const TOO_MANY_CONNECTIONS: u16 = 0x0206;
    pub(super) const MISSING_PARAMETER: u16 = 0x0207;
    pub(super) const SESSION_TYPE: u16 = 0x0209;
    pub(super) const NO_SUCH_SESSION: u16 = 0x020a;
    pub(super) const INVALID_REQUEST: u16 = 0x020b;
    pub(in super::super) const NOT_OPERATIONAL: u16 = 0x0301;
}

/// Stages of a login.
//= RFC 7143 §11.12.3
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Limits of a login: PDUs, keys and bytes.
const REQUESTS_MAX: u32 = 64;
const KEYS_MAX: usize = 64;
const TEXT_MAX_BYTES: usize = 64 << 10;

/// A login in progress.
#[derive(Debug)]
pub(super) struct Login {
    /// The targets when the parties became known.
    directory: Arc<Directory>,
    /// Fields that are the same in all its requests, once the first was received.
    common: Option<Common>,
    stage: u8,
    requests: u32,
    text_bytes: usize,
    /// Text that continues in the next request.
    text: Vec<u8>,
    keys: Vec<String>,
    /// Our offers, and the parameters agreed so far.
    wishes: Values,
    values: Values,
    initiator_name: Option<String>,
    target_name: Option<String>,
    discovery: bool,
    /// The parties are known and accepted.
    identified: Option<usize>,
    declared: bool,
    /// AuthMethod and the keys of CHAP of the text in progress.
    methods: Option<String>,
    chap: Keys,
    /// Progress of the initiator's proof, if the target demands one.
    verifier: Verifier,
    /// Whether nothing has to be proved any more.
    proven: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Common {
    isid: [u8; 6],
    tsih: u16,
    task_tag: u32,
    connection: u16,
    command_number: u32,
}

/// The answer to a request.
struct Answer {
    transit: bool,
    text: Vec<u8>,
}

impl Login {
    pub(super) fn new(config: &TargetConfig, _now: Nanos) -> Login {
        let mut wishes = Values::default();
        let data_max = config.max_recv_data_segment_bytes.clamp(512, (1 << 24) - 1);
        wishes.set(Key::MaxRecvDataSegmentLength, data_max);
        wishes.set(Key::MaxBurstLength, config.max_burst_bytes.clamp(512, (1 << 24) - 1));
        // Unasked data lands in the first buffer of its command.
        let longest = config.max_burst_bytes.clamp(512, Pool::LARGE_BYTES as u32);
        let first_max = config.first_burst_bytes.clamp(512, longest);
        wishes.set(Key::FirstBurstLength, first_max);
        wishes.set(Key::InitialR2T, 0);
        // No state outlives its connection.
        wishes.set(Key::DefaultTime2Wait, 0);
        wishes.set(Key::DefaultTime2Retain, 0);
        Login {
            directory: Arc::default(),
            common: None,
            stage: SECURITY,
            requests: 0,
            text_bytes: 0,
            text: Vec::new(),
            keys: Vec::new(),
            wishes,
            values: Values::default(),
            initiator_name: None,
            target_name: None,
            discovery: false,
            identified: None,
            declared: false,
            methods: None,
            chap: Keys::default(),
            verifier: Verifier::default(),
            proven: false,
        }
    }

    /// The target, once it is known, of a normal session.
    pub(super) fn target(&self) -> Option<&Arc<TargetEntry>> {
        self.directory.targets().get(self.identified.filter(|_| !self.discovery)?)
    }

    /// Whether the target, or discovery, demands a proof.
    fn demands_proof(&self) -> bool {
        match self.target() {
            Some(target) => target.chap.is_some(),
            None => self.directory.discovery_chap().is_some(),
        }
    }

    /// Whether it is that of a discovery session.
    pub(super) fn is_discovery(&self) -> bool {
        self.discovery
    }

    /// Handles a request and its text.
    fn request(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
        offers: &Offers<Directory>,
    ) -> Result<Answer, u16> {
        self.check(request)?;
        self.requests += 1;
        self.text_bytes += text.len();
        if self.requests > REQUESTS_MAX || self.text_bytes > TEXT_MAX_BYTES {
            return Err(status::INITIATOR_ERROR);
        }
        self.text.extend_from_slice(text);
        if request.more {
            //= RFC 7143 §6.2: a text that continues is answered by an empty one.
            return Ok(Answer { transit: false, text: Vec::new() });
        }
        let text = std::mem::take(&mut self.text);
        let mut answer = Vec::new();
        self.read(&text, &mut answer)?;
        let first = self.identified.is_none();
        self.identify(offers)?;
        self.authenticate(request.transit, &mut answer)?;
        if let Some(target) = self.target().filter(|_| first) {
            //= RFC 7143 §13.9: TargetPortalGroupTag goes with the first answer to a TargetName.
            put(&mut answer, "TargetPortalGroupTag", "1");
            if !target.alias.is_empty() {
                put(&mut answer, "TargetAlias", &target.alias);
            }
        }
        if self.stage == OPERATIONAL && !self.declared {
            self.declared = true;
            self.wishes.offer(Key::MaxRecvDataSegmentLength, &mut answer);
        }
        // The answer to a challenge is awaited in this stage.
        let transit = request.transit && self.proven;
        if transit {
            self.stage = request.next_stage;
        }
        Ok(Answer { transit, text: answer })
    }

    /// Checks the fields of a header.
    fn check(&mut self, request: &LoginRequest) -> Result<(), u16> {
        let common = Common {
            isid: request.isid,
            tsih: request.tsih,
            task_tag: request.task_tag,
            connection: request.connection,
            command_number: request.command_number,
        };
        let first = self.common.is_none();
        //= RFC 7143 §11.12: ISID, TSIH, task tag, CID and CmdSN stay the same during a login.
        if *self.common.get_or_insert(common) != common {
            return Err(status::INVALID_REQUEST);
        }
        //= RFC 7143 §11.12.4: the only version is 0x00.
        if request.version_min > 0 {
            return Err(status::VERSION);
        }
        if first {
            self.stage = request.stage;
        }
        //= RFC 7143 §11.12.3: stages are 0, 1 and 3; the current one is where we are.
        let known = matches!(request.stage, SECURITY | OPERATIONAL);
        if !known || request.stage != self.stage {
            return Err(status::INVALID_REQUEST);
        }
        let onward = matches!(request.next_stage, OPERATIONAL | FULL_FEATURE)
            && request.next_stage > request.stage;
        //= RFC 7143 §11.12.2: with the C bit set the T bit is zero.
        if request.transit && (!onward || request.more) {
            return Err(status::INVALID_REQUEST);
        }
        Ok(())
    }

    /// Reads a text and answers its keys.
    fn read(&mut self, text: &[u8], answer: &mut Vec<u8>) -> Result<(), u16> {
        for pair in pairs(text) {
            let (key, value) = pair.map_err(|_: TextError| status::INITIATOR_ERROR)?;
            //= RFC 7143 §6.2: a key is declared or negotiated at most once in a login.
            if self.keys.len() == KEYS_MAX || self.keys.iter().any(|other| other == key) {
                return Err(status::INITIATOR_ERROR);
            }
            self.keys.push(key.to_owned());
            match Key::named(key) {
                Some(known) => self.negotiate(known, value, answer),
                None => self.read_other(key, value, answer)?,
            }
        }
        let [first, most] = [Key::FirstBurstLength, Key::MaxBurstLength].map(|key| {
            let said = self.keys.iter().any(|other| other == key.name());
            said.then(|| self.values.get(key))
        });
        //= RFC 7143 §13.14: FirstBurstLength MUST NOT exceed MaxBurstLength.
        if first.zip(most).is_some_and(|(first, most)| first > most) {
            return Err(status::INITIATOR_ERROR);
        }
        Ok(())
    }

    fn negotiate(&mut self, key: Key, value: &str, answer: &mut Vec<u8>) {
        match self.wishes.answer(key, value) {
            None => put(answer, key.name(), "Reject"),
            Some((outcome, text)) => {
                self.values.set(key, outcome);
                text.into_iter().for_each(|text| put(answer, key.name(), &text));
            }
        }
    }

    /// A key without a place in the table.
    fn read_other(&mut self, key: &str, value: &str, answer: &mut Vec<u8>) -> Result<(), u16> {
        match key {
            "InitiatorName" => {
                // Initiators choose their names, and not all by the rules: QEMU takes any name of
                // a machine. What can be shown will do, since nothing depends on it.
                let odd = value.is_empty() || value.len() > NAME_MAX_BYTES;
                if odd || value.chars().any(char::is_control) {
                    return Err(status::INITIATOR_ERROR);
                }
                self.initiator_name = Some(value.to_owned());
            }
            "TargetName" => self.target_name = Some(value.to_owned()),
            "SessionType" => {
                self.discovery = match value {
                    "Discovery" => true,
                    "Normal" => false,
                    _ => return Err(status::SESSION_TYPE),
                };
            }
            "InitiatorAlias" => {}
            // Answered once the target is known.
            "AuthMethod" => self.methods = Some(value.to_owned()),
            _ if self.chap.store(key, value) => {}
            //= RFC 7143 §13.23: the only way of reporting tasks that we have.
            "TaskReporting" if value.split(',').any(|way| way == "RFC3720") => {
                put(answer, key, "RFC3720");
            }
            //= RFC 7143 §13.25: markers are obsolete, and must not be called unknown.
            "IFMarker" | "OFMarker" => put(answer, key, "No"),
            "IFMarkInt" | "OFMarkInt" => put(answer, key, "Reject"),
            // Keys that are not for an initiator to say, or not here.
            "TargetAlias"
            | "TargetAddress"
            | "TargetPortalGroupTag"
            | "SendTargets"
            | "TaskReporting" => put(answer, key, "Reject"),
            //= RFC 7143 §6.2: an unknown key is answered with NotUnderstood.
            _ => put(answer, key, "NotUnderstood"),
        }
        Ok(())
    }

    /// Demands what the target or the portal demands, and answers AuthMethod.
    fn authenticate(&mut self, onward: bool, answer: &mut Vec<u8>) -> Result<(), u16> {
        let (methods, keys) = (self.methods.take(), std::mem::take(&mut self.chap));
        let door = match self.target() {
            Some(target) => target.chap.clone(),
            None => self.directory.discovery_chap().cloned(),
        };
        let Some(chap) = door else {
            //= RFC 7143 §12.1: an initiator that insists on another method is refused.
            if methods.as_ref().is_some_and(|all| !all.split(',').any(|method| method == "None")) {
                return Err(status::AUTHENTICATION);
            }
            methods.iter().for_each(|_| put(answer, "AuthMethod", "None"));
            keys.names().for_each(|key| put(answer, key, "NotUnderstood"));
            self.proven = true;
            return Ok(());
        };
        //= RFC 7143 §6.3: a login without the security stage claims that nothing is demanded.
        if self.stage != SECURITY && !self.proven {
            return Err(status::AUTHENTICATION);
        }
        let step = self.verifier.step(&chap, methods.as_deref(), &keys, onward, answer);
        step.map_err(|wrong| match wrong {
            Wrong::Proof => status::AUTHENTICATION,
            Wrong::Keys => status::INITIATOR_ERROR,
        })?;
        self.proven = self.verifier.is_satisfied();
        Ok(())
    }

    /// Determines initiator, target and session type, once the first text is complete.
    fn identify(&mut self, offers: &Offers<Directory>) -> Result<(), u16> {
        if self.identified.is_some() {
            return Ok(());
        }
        //= RFC 7143 §6.3: the first text has InitiatorName, and TargetName in a normal session.
        if self.initiator_name.is_none() {
            return Err(status::MISSING_PARAMETER);
        }
        self.directory = offers.now();
        let target = match &self.target_name {
            _ if self.discovery => 0,
            None => return Err(status::MISSING_PARAMETER),
            Some(name) => self.directory.find(name).ok_or(status::NOT_FOUND)?,
        };
        // With MaxConnections=1, no connection can join a session.
        match self.common.map_or(0, |common| common.tsih) {
            0 => {}
            _ if self.discovery => return Err(status::NO_SUCH_SESSION),
            _ => return Err(status::TOO_MANY_CONNECTIONS),
        }
        self.identified = Some(target);
        Ok(())
    }
}

impl IscsiTarget {
    /// A login request is complete.
    #[cold]
    pub(super) fn login_request(&mut self, now: Nanos, out: &mut Outbox) {
        let request = LoginRequest::parse(&self.gathering);
        let Some(mut login) = self.login.take() else { return };
        if login.common.is_none() {
            self.status = request.expected_status;
            self.expected = request.command_number;
            self.told = self.expected.wrapping_sub(1);
        }
        let text = std::mem::take(&mut self.gathered);
        let result = login.request(&request, &text, &self.offers);
        self.gathered = text;
        match result {
            Err(status) => {
                let status = self.status_of(&login, &request, status);
                if status == status::AUTHENTICATION && login.demands_proof() {
                    return self.refuse_proof(now, &login, request, out);
                }
                self.send_login_response(&request, false, status, &[], out);
                self.finished = true;
            }
            Ok(Answer { transit, text }) => {
                if transit && request.next_stage == FULL_FEATURE {
                    return self.arrive(now, login, request, text, out);
                }
                self.send_login_response(&request, transit, 0, &text, out);
                self.login = Some(login);
            }
        }
    }

    /// Refuses a login without the proof that is demanded: at once, or after others, later.
    fn refuse_proof(&mut self, now: Nanos, login: &Login, request: LoginRequest, out: &mut Outbox) {
        let target = login.target().map_or("", |target| &target.name);
        let delay = self.peers.failed(&target.to_ascii_lowercase(), now);
        let host = login.initiator_name.as_deref().unwrap_or("an initiator without a name");
        let what = if target.is_empty() { "discovery" } else { target };
        let later = match delay {
            Nanos(0) => String::new(),
            delay => format!(", as the last ones were: answered after {} s", delay.as_secs_f64()),
        };
        self.remark = Some(format!("{host} did not prove the CHAP secret of {what}{later}"));
        self.refused = Some(Box::new((now + delay, request)));
        self.answer_refused(now, out);
    }

    /// Time at which the delayed refusal is due.
    pub(super) fn refused_at(&self) -> Option<Nanos> {
        self.refused.as_ref().map(|refused| refused.0)
    }

    /// Sends a refusal that is due.
    pub(super) fn answer_refused(&mut self, now: Nanos, out: &mut Outbox) {
        if let Some(refused) = self.refused.take_if(|refused| refused.0 <= now) {
            self.send_login_response(&refused.1, false, status::AUTHENTICATION, &[], out);
            self.finished = true;
        }
    }

    /// The status of a login that is refused. One that names a session which is there has too many
    /// connections.
    //= RFC 7143 §11.13.5: 020Ah is "session does not exist".
    fn status_of(&self, login: &Login, request: &LoginRequest, status: u16) -> u16 {
        if status != status::TOO_MANY_CONNECTIONS {
            return status;
        }
        let name = login.initiator_name.as_deref().unwrap_or_default().to_ascii_lowercase();
        let target = login.target_name.as_deref().unwrap_or_default().to_ascii_lowercase();
        let name = PeerName::Iscsi(name, target);
        let is_there = self.peers.have_session(&name, request.isid, request.tsih);
        if is_there { status } else { status::NO_SUCH_SESSION }
    }

    /// Answers the last request of a login.
    pub(super) fn complete_login(&mut self, held: Held, out: &mut Outbox) {
        let Held { login, request, text, .. } = held;
        self.stage = if login.discovery { Stage::Discovery } else { Stage::Normal };
        self.send_login_response(&request, true, 0, &text, out);
        // The answer still went without digests.
        self.params = Params::new(&login.values, self.receive_max(&login));
        let Params { header_digest, data_digest, receive_max, .. } = self.params;
        self.frame.configure(header_digest, data_digest, receive_max);
    }

    /// A malformed PDU. During login the initiator gets a status before the connection ends.
    #[cold]
    pub(super) fn broke(&mut self, rule: Violation, bytes: &[u8], out: &mut Outbox) -> Ending {
        let header = self.frame.collected().or_else(|| bytes.first_chunk());
        if self.stage == Stage::Login
            && let Some(header) = header.filter(|header| opcode_of(header) == opcode::LOGIN_REQUEST)
        {
            let request = LoginRequest::parse(header);
            self.send_login_response(&request, false, status::INITIATOR_ERROR, &[], out);
        }
        Ending::Violation(rule)
    }

    /// Returns the longest data segment that we accept: the declared one, once we had the chance to
    /// declare it.
    fn receive_max(&self, login: &Login) -> u32 {
        let source = if login.declared { &login.wishes } else { &login.values };
        if login.declared {
            source.get(Key::MaxRecvDataSegmentLength)
        } else {
            super::LOGIN_DATA_BYTES
        }
    }

    /// Stores the initiator's name and target.
    pub(super) fn identify(&mut self, login: &Login) {
        self.target = login.target().cloned().unwrap_or_default();
        // The target may have changed during the login.
        let offered = self.offers.now();
        if let Some(at) = offered.find(&self.target.name) {
            self.target = Arc::clone(&offered.targets()[at]);
        }
        self.initiator_name = login.initiator_name.clone().unwrap_or_default();
        if let Some(common) = login.common {
            (self.isid, self.connection) = (common.isid, common.connection);
        }
        let name = self.initiator_name.to_ascii_lowercase();
        self.nexus = Nexus::Port { name, isid: self.isid };
    }

    pub(super) fn send_login_response(
        &mut self,
        request: &LoginRequest,
        transit: bool,
        status: u16,
        text: &[u8],
        out: &mut Outbox,
    ) {
        let complete = transit && request.next_stage == FULL_FEATURE;
        let numbers: Numbers = self.next_status();
        let response = LoginResponse {
            transit,
            more: false,
            stage: request.stage,
            next_stage: if transit { request.next_stage } else { 0 },
            version_max: 0,
            version_active: 0,
            data_len: text.len() as u32,
            isid: request.isid,
            //= RFC 7143 §11.13.3: a new session gets its TSIH, not zero, with the last response.
            tsih: if complete { session_handle(self.connection_id) } else { request.tsih },
            task_tag: request.task_tag,
            numbers,
            status,
        };
        self.send(&response, text, out);
    }
}

/// TSIH of the session on a connection: 1 to 65535.
pub(super) fn session_handle(connection_id: u32) -> u16 {
    (connection_id % 65535 + 1) as u16
}
