//! A discovery session: SendTargets.

use block::Nanos;

use crate::flow::{DataEnd, later};
use crate::{Ending, Endpoint, Outbox, Violation};

use super::chap::Proof;
use super::frame::{Frame, Next};
use super::initiator::login::{Login, Step, new_isid, refused};
use super::params::Params;
use super::pdu::{
    Header, LoginRequest, LoginResponse, LogoutRequest, NO_TAG, NopIn, NopOut, TextRequest,
    TextResponse, data_len, opcode, opcode_of,
};
use super::text::{pairs, put};

/// A discovery session that sends `SendTargets=All` and logs out.
#[derive(Debug)]
pub struct Discovery {
    stage: Stage,
    began: Nanos,
    params: Params,
    frame: Frame,
    header: Header,
    data: Vec<u8>,
    answer: Vec<u8>,
    /// CmdSN of our next request, and the next StatSN.
    command_number: u32,
    status: u32,
}

#[derive(Debug)]
enum Stage {
    Idle(Box<Login>),
    Login(Box<Login>),
    Asking,
    /// The list is complete; a logout was sent.
    Leaving,
    Closed,
}

/// Time-out of the whole session.
const TIMEOUT: Nanos = Nanos::from_secs(15);

/// Longest list that is accepted: some ten thousand targets.
const ANSWER_MAX_BYTES: usize = 4 << 20;

/// ITTs of the two requests.
const QUESTION: u32 = 1;
const LOGOUT: u32 = 2;

/// Longest data segment during login.
//= RFC 7143 §13.12: the default of MaxRecvDataSegmentLength is 8192.
const LOGIN_DATA_BYTES: u32 = 8192;

impl Discovery {
    /// A session that logs in at its first [`tick`](Endpoint::tick), due at once.
    pub fn new(initiator_name: &str, now: Nanos) -> Discovery {
        let login = Login::new(initiator_name, None, [false; 2], new_isid(now));
        Discovery {
            stage: Stage::Idle(Box::new(login)),
            began: now,
            params: Params::before_login(),
            frame: Frame::new(LOGIN_DATA_BYTES),
            header: [0; 48],
            data: Vec::new(),
            answer: Vec::new(),
            command_number: 1,
            status: 0,
        }
    }

    /// Proves that we know a secret.
    #[must_use]
    pub fn proving(mut self, proof: Option<Proof>) -> Discovery {
        if let Stage::Idle(login) = self.stage {
            self.stage = Stage::Idle(Box::new(login.proving(proof)));
        }
        self
    }

    /// The list, once complete: names of targets with their addresses, such as `192.0.2.1:3260,1`.
    pub fn targets(&self) -> Option<Vec<(String, Vec<String>)>> {
        if !matches!(self.stage, Stage::Leaving | Stage::Closed) {
            return None;
        }
        let mut targets: Vec<(String, Vec<String>)> = Vec::new();
        for (key, value) in pairs(&self.answer).flatten() {
            //= RFC 7143 §C: each TargetName is followed by the addresses of that target.
            match (key, targets.last_mut()) {
                ("TargetName", _) => targets.push((value.to_owned(), Vec::new())),
                ("TargetAddress", Some(target)) => target.1.push(value.to_owned()),
                _ => {}
            }
        }
        Some(targets)
    }

    /// Whether the session has logged out.
    pub fn finished(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    /// A PDU is complete.
    fn pdu(&mut self, out: &mut Outbox) -> Result<(), Ending> {
        let opcode = opcode_of(&self.header);
        let logging_in = matches!(self.stage, Stage::Login(_));
        if logging_in != (opcode == opcode::LOGIN_RESPONSE) {
            return Err(refused("the portal sends a PDU that is not allowed now"));
        }
        match opcode {
            opcode::LOGIN_RESPONSE => self.login_response(out),
            opcode::TEXT_RESPONSE => self.text_response(out),
            opcode::NOP_IN => {
                self.nop_in(out);
                Ok(())
            }
            opcode::LOGOUT_RESPONSE => {
                self.stage = Stage::Closed;
                Ok(())
            }
            opcode::ASYNC_MESSAGE => {
                self.status = self.status.wrapping_add(1);
                Ok(())
            }
            opcode::REJECT => Err(refused("the portal rejects SendTargets")),
            _ => Err(refused("the portal sends a PDU that is not allowed in a discovery session")),
        }
    }

    fn login_response(&mut self, out: &mut Outbox) -> Result<(), Ending> {
        let response = LoginResponse::parse(&self.header);
        let Stage::Login(login) = &mut self.stage else { return Ok(()) };
        let step = login.response(&response, &self.data)?;
        self.status = response.numbers.status.wrapping_add(1);
        match step {
            Step::Request(request, text) => self.send_login(request, &text, out),
            Step::Complete(params) => {
                self.params = params;
                self.frame.configure(params.header_digest, params.data_digest, params.receive_max);
                self.stage = Stage::Asking;
                let mut text = Vec::new();
                put(&mut text, "SendTargets", "All");
                self.send_text(NO_TAG, &text, out);
            }
        }
        Ok(())
    }

    fn send_login(&mut self, request: LoginRequest, text: &[u8], out: &mut Outbox) {
        let (command_number, expected_status) = (self.command_number, self.status);
        let request = LoginRequest { command_number, expected_status, ..request };
        self.params.put(&request, text, out);
    }

    fn send_text(&mut self, transfer_tag: u32, text: &[u8], out: &mut Outbox) {
        let request = TextRequest {
            immediate: true,
            last: true,
            more: false,
            data_len: text.len() as u32,
            lun: [0; 8],
            task_tag: QUESTION,
            transfer_tag,
            command_number: self.command_number,
            expected_status: self.status,
        };
        self.params.put(&request, text, out);
    }

    fn text_response(&mut self, out: &mut Outbox) -> Result<(), Ending> {
        let response = TextResponse::parse(&self.header);
        if response.task_tag != QUESTION || !matches!(self.stage, Stage::Asking) {
            return Err(refused("the portal answers a request that was not sent"));
        }
        self.status = response.numbers.status.wrapping_add(1);
        if self.answer.len() + self.data.len() > ANSWER_MAX_BYTES {
            return Err(refused("the portal's list of targets is longer than 4 MiB"));
        }
        self.answer.extend_from_slice(&self.data);
        if !response.last {
            //= RFC 7143 §11.10.4: the transfer tag requests the rest.
            self.send_text(response.transfer_tag, &[], out);
            return Ok(());
        }
        self.stage = Stage::Leaving;
        let request = LogoutRequest::of_session(LOGOUT, self.command_number, self.status);
        self.params.put(&request, &[], out);
        Ok(())
    }

    fn nop_in(&mut self, out: &mut Outbox) {
        let nop = NopIn::parse(&self.header);
        if nop.transfer_tag == NO_TAG {
            return;
        }
        let answer = NopOut::answer(&nop, self.command_number, self.status);
        self.params.put(&answer, &[], out);
    }

    fn header(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        self.header = *header;
        self.data.clear();
        if data_len(header) == 0 { self.pdu(out) } else { Ok(()) }
    }
}

impl Endpoint for Discovery {
    fn receive(&mut self, _now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        while !bytes.is_empty() && !self.finished() {
            if self.frame.in_data() {
                // Bounded by our MaxRecvDataSegmentLength.
                let (part, end) = self.frame.data(&mut bytes);
                self.data.extend_from_slice(part);
                match end {
                    DataEnd::Open => {}
                    DataEnd::Intact => self.pdu(out)?,
                    DataEnd::Corrupt => {
                        let rule = "RFC 7143 §11.2.3: the data digest is the CRC-32C of the data";
                        return Err(Violation { rule, at: 48 }.into());
                    }
                }
                continue;
            }
            match self.frame.header(&mut bytes)? {
                Next::Whole(header) => self.header(header, out)?,
                Next::Collected(header) => {
                    self.frame.forget_header();
                    self.header(&header, out)?;
                }
                Next::Partial => break,
            }
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Idle(_) => Some(self.began),
            Stage::Closed => None,
            _ => Some(later(self.began, TIMEOUT)),
        }
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        if now.since(self.began) >= TIMEOUT && !self.finished() {
            return Err(Ending::TimedOut("the portal does not answer"));
        }
        match std::mem::replace(&mut self.stage, Stage::Closed) {
            Stage::Idle(mut login) => {
                let (request, text) = login.first();
                self.stage = Stage::Login(login);
                self.send_login(request, &text, out);
            }
            other => self.stage = other,
        }
        Ok(())
    }
}
