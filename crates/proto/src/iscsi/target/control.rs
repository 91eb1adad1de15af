//! Everything that is not I/O: where each PDU goes, pings, logouts, and rejections.

use block::Nanos;

use crate::{Ending, Outbox};

use super::super::pdu::{
    Header, LogoutRequest, LogoutResponse, NO_TAG, NopIn, NopOut, Numbers, Reject, TaskRequest,
    data_len, opcode, opcode_of,
};
use super::manage::{Answer, Waiting};
use super::{IscsiTarget, Sink, Stage, violation};

/// Why a PDU is rejected.
//= RFC 7143 §11.17.1
pub(super) mod reason {
    pub(crate) const DATA_DIGEST: u8 = 0x02;
    pub(crate) const SNACK: u8 = 0x03;
    pub(crate) const PROTOCOL: u8 = 0x04;
    pub(crate) const NOT_SUPPORTED: u8 = 0x05;
    pub(crate) const TOO_MANY_IMMEDIATE: u8 = 0x06;
    pub(crate) const INVALID_FIELD: u8 = 0x09;
    pub(crate) const OUT_OF_RESOURCES: u8 = 0x0a;
}

/// The first PDU of a connection.
const LOGIN_FIRST: &str = "RFC 7143 §6.3: a login, and only a login, begins a session";

impl IscsiTarget {
    /// Before login the first byte identifies peers that speak another protocol.
    #[cold]
    pub(super) fn check_first(&self, bytes: &[u8]) -> Result<(), Ending> {
        let login = bytes.first().is_none_or(|byte| byte & 0x3f == opcode::LOGIN_REQUEST);
        if login || !self.frame.at_start() { Ok(()) } else { Err(violation(LOGIN_FIRST, 0)) }
    }

    /// A PDU that is not I/O. It is handled now if it has no data, otherwise when its data is
    /// complete.
    #[cold]
    pub(super) fn control(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        let opcode = opcode_of(header);
        let logging_in = self.stage == Stage::Login;
        if logging_in != (opcode == opcode::LOGIN_REQUEST) {
            //= RFC 7143 §6.3: only login PDUs before, and none in, the full feature phase.
            return Err(violation(LOGIN_FIRST, 0));
        }
        self.gathered.clear();
        self.gathering = *header;
        if data_len(header) == 0 {
            let now = self.alive.last_heard();
            return self.gathered(now, true, out);
        }
        self.incoming.sink = Sink::Gather;
        Ok(())
    }

    /// A PDU that is not I/O is complete.
    #[cold]
    pub(super) fn gathered(
        &mut self,
        now: Nanos,
        intact: bool,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let header = self.gathering;
        if !intact {
            //= RFC 7143 §7.8: a PDU with a wrong data digest is rejected and discarded.
            self.reject(&header, reason::DATA_DIGEST, out);
            return Ok(());
        }
        if opcode_of(&header) == opcode::LOGIN_REQUEST {
            self.login_request(now, out);
            return Ok(());
        }
        let discovery = self.stage == Stage::Discovery;
        match opcode_of(&header) {
            opcode::NOP_OUT => return self.nop_out(&header, out),
            opcode::TEXT_REQUEST => {
                if self.in_order(&header)? {
                    self.text_request(&header, out);
                }
            }
            opcode::LOGOUT_REQUEST => {
                if self.in_order(&header)? {
                    self.logout_request(&header, out);
                }
            }
            opcode::TASK_REQUEST if !discovery => {
                if self.in_order(&header)? {
                    self.task_request(&TaskRequest::parse(&header), out);
                }
            }
            //= RFC 7143 §7.1.5: there is no SNACK at ErrorRecoveryLevel 0.
            opcode::SNACK => self.reject(&header, reason::SNACK, out),
            //= RFC 7143 §4.3: a discovery session has text, pings and logout only.
            _ => self.reject(&header, reason::NOT_SUPPORTED, out),
        }
        Ok(())
    }

    /// Handles a ping, or the answer to ours.
    fn nop_out(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        let nop = NopOut::parse(header);
        if nop.task_tag == NO_TAG {
            //= RFC 7143 §11.18: without a task tag it is an answer, or only acknowledges StatSN.
            if nop.transfer_tag != NO_TAG && !self.alive.answered(nop.transfer_tag) {
                self.reject(header, reason::INVALID_FIELD, out);
            }
            return Ok(());
        }
        if !self.in_order(header)? {
            return Ok(());
        }
        if nop.transfer_tag != NO_TAG {
            //= RFC 7143 §11.18.2: a ping of the initiator's has no transfer tag.
            self.reject(header, reason::INVALID_FIELD, out);
            return Ok(());
        }
        let data = std::mem::take(&mut self.gathered);
        //= RFC 7143 §11.18.3: the data is returned, as much of it as the initiator can accept.
        let echo = &data[..data.len().min(self.params.send_max as usize)];
        let answer = NopIn {
            data_len: echo.len() as u32,
            lun: [0; 8],
            task_tag: nop.task_tag,
            transfer_tag: NO_TAG,
            numbers: self.next_status(),
        };
        self.send(&answer, echo, out);
        self.gathered = data;
        Ok(())
    }

    fn logout_request(&mut self, header: &Header, out: &mut Outbox) {
        let request = LogoutRequest::parse(header);
        let response = match request.reason {
            0 => 0,
            //= RFC 7143 §11.15.1: 1 is "CID not found".
            1 => u8::from(request.connection != self.connection),
            //= RFC 7143 §11.15.1: 2 is "connection recovery is not supported".
            2 => 2,
            _ => return self.reject(header, reason::INVALID_FIELD, out),
        };
        if response != 0 {
            return self.send_logout_response(request.task_tag, response, out);
        }
        //= RFC 7143 §11.14: commands in flight end without a status before the logout is answered.
        self.abort_where(|_| true, out);
        self.wait_for_aborted(Waiting {
            answer: Answer::Logout,
            task_tag: request.task_tag,
            epoch: self.epoch,
            fence: None,
        });
        self.answer_waiting(out);
    }

    /// Answers a logout; the connection ends if it is granted.
    pub(super) fn send_logout_response(&mut self, tag: u32, response: u8, out: &mut Outbox) {
        let answer = LogoutResponse {
            response,
            task_tag: tag,
            numbers: self.next_status(),
            time_to_wait: 0,
            time_to_retain: 0,
        };
        self.send(&answer, &[], out);
        if response == 0 {
            self.losses.confirm();
            if self.stage == Stage::Normal {
                self.forget_reserved_units();
            }
            self.finished = true;
        }
    }

    /// Sends a Reject with the header.
    #[cold]
    pub(super) fn reject(&mut self, header: &Header, reason: u8, out: &mut Outbox) {
        let data_len = header.len() as u32;
        let numbers: Numbers = self.next_status();
        self.send(&Reject { reason, data_len, numbers }, header, out);
    }
}
