//! Everything but I/O: login, NOPs, asynchronous messages, logout, time-outs.

use block::Nanos;

use crate::flow::{PingTimeout, later, ping_timeout};
use crate::{Ending, Outbox};

use super::super::pdu::{
    AsyncMessage, Header, LoginRequest, LoginResponse, LogoutRequest, LogoutResponse, NO_TAG,
    NopIn, NopOut, Reject, TaskResponse, data_len, opcode, opcode_of, task_tag,
};
use super::login::{Step, refused};
use super::{IscsiInitiator, Stage, violation};

/// Task tags of pings and of the logout end like this, as no slot's do.
const PING: u32 = 0xfffd;
const LOGOUT: u32 = 0xfffc;

const SILENT: &str = "the target does not answer pings";

//= RFC 7143 §11.9.1: asynchronous events.
mod event {
    pub(super) const LOGOUT: u8 = 1;
    pub(super) const DROPPED: u8 = 2;
    pub(super) const ALL_DROPPED: u8 = 3;
    pub(super) const NEGOTIATE: u8 = 4;
}

impl IscsiInitiator {
    /// A PDU that is not I/O. It is handled now if it has no data, otherwise when its data is
    /// complete.
    #[cold]
    pub(super) fn control(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        let logging_in = matches!(self.stage, Stage::Login(_) | Stage::Idle(_));
        if logging_in != (opcode_of(header) == opcode::LOGIN_RESPONSE) {
            //= RFC 7143 §6.3: only login PDUs before, and none in, the full feature phase.
            return Err(violation("RFC 7143 §6.3: a login, and only a login, begins a session", 0));
        }
        self.gathered.clear();
        self.gathering = *header;
        if data_len(header) == 0 { self.gathered(out) } else { Ok(()) }
    }

    /// A PDU that is not I/O is complete.
    #[cold]
    pub(super) fn gathered(&mut self, out: &mut Outbox) -> Result<(), Ending> {
        let header = self.gathering;
        match opcode_of(&header) {
            opcode::LOGIN_RESPONSE => self.login_response(out),
            opcode::DATA_IN => self.opening_data(out),
            opcode::RESPONSE if self.is_question(task_tag(&header)) => self.opening_response(out),
            opcode::RESPONSE => {
                let data = std::mem::take(&mut self.gathered);
                let result = self.bad_response(&header, &data, out);
                self.gathered = data;
                result
            }
            opcode::READY_TO_TRANSFER => self.ready_to_transfer(&header, out),
            opcode::NOP_IN => self.nop_in(&NopIn::parse(&header), out),
            opcode::ASYNC_MESSAGE => self.news(&AsyncMessage::parse(&header), out),
            opcode::LOGOUT_RESPONSE => self.logout_response(&LogoutResponse::parse(&header)),
            opcode::TASK_RESPONSE => {
                let response = TaskResponse::parse(&header);
                if !self.answers_reset(&response) {
                    return Err(violation("RFC 7143 §11.6: it answers a request of ours", 16));
                }
                self.count_status(response.numbers)?;
                self.was_reset(&response, out);
                Ok(())
            }
            opcode::REJECT if self.is_resetting() => {
                self.count_status(Reject::parse(&header).numbers)?;
                let rejected = std::mem::take(&mut self.gathered);
                let ours = self.reset_was_rejected(&rejected, out);
                self.gathered = rejected;
                if ours { Ok(()) } else { Err(refused("the target rejected a PDU")) }
            }
            opcode::REJECT => {
                let reason = Reject::parse(&header).reason;
                //= RFC 7143 §11.17: at recovery level 0 the rejected PDU is lost, and the session.
                Err(Ending::Refused(format!("the target rejected a PDU (reason {reason:#04x})")))
            }
            _ => Err(violation("RFC 7143 §11.2.1.2: opcodes of a target are known", 0)),
        }
    }

    /// Sends the first login request.
    fn log_in(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.stage, Stage::Closed) {
            Stage::Idle(mut login) => {
                let (request, text) = login.first();
                self.stage = Stage::Login(login);
                self.send_login(request, &text, out);
            }
            other => self.stage = other,
        }
    }

    fn send_login(&mut self, request: LoginRequest, text: &[u8], out: &mut Outbox) {
        //= RFC 7143 §11.12.8: CmdSN stays the same during a login, as for any immediate command.
        let (command_number, expected_status) = (self.command_number, self.status);
        let request = LoginRequest { command_number, expected_status, ..request };
        self.params.put(&request, text, out);
    }

    fn login_response(&mut self, out: &mut Outbox) -> Result<(), Ending> {
        let response = LoginResponse::parse(&self.gathering);
        let Stage::Login(login) = &mut self.stage else {
            return Err(violation("RFC 7143 §6.3: a login response answers a login request", 0));
        };
        let step = login.response(&response, &self.gathered)?;
        //= RFC 7143 §11.13.4: the target's StatSN begins with its first login response.
        self.status = response.numbers.status.wrapping_add(1);
        self.command_max = response.numbers.max;
        match step {
            Step::Request(request, text) => self.send_login(request, &text, out),
            Step::Complete(params) => {
                self.params = params;
                let (header_digest, data_digest) = (params.header_digest, params.data_digest);
                self.frame.configure(header_digest, data_digest, params.receive_max);
                self.open(out);
            }
        }
        Ok(())
    }

    /// Handles a ping, or the answer to ours.
    fn nop_in(&mut self, nop: &NopIn, out: &mut Outbox) -> Result<(), Ending> {
        if nop.task_tag != NO_TAG {
            if nop.task_tag != PING {
                return Err(violation("RFC 7143 §11.19: a NOP-In answers a ping of ours", 16));
            }
            self.ping = None;
            return self.count_status(nop.numbers);
        }
        self.count(nop.numbers);
        if nop.transfer_tag == NO_TAG {
            return Ok(());
        }
        let answer = NopOut::answer(nop, self.command_number, self.status);
        self.params.put(&answer, &[], out);
        Ok(())
    }

    /// An asynchronous message.
    fn news(&mut self, news: &AsyncMessage, out: &mut Outbox) -> Result<(), Ending> {
        self.count_status(news.numbers)?;
        match news.event {
            event::LOGOUT | event::NEGOTIATE => {
                //= RFC 7143 §11.9.1: the logout must come within Parameter3 seconds. There is
                // nothing that we would negotiate, and a logout is the legal alternative.
                let seconds = u64::from(news.parameters[2].saturating_sub(1));
                if matches!(self.stage, Stage::Ready) {
                    self.stage = Stage::Draining;
                    self.logout_at = Some(self.heard + Nanos::from_secs(seconds));
                } else {
                    self.log_out(out);
                }
                Ok(())
            }
            event::DROPPED | event::ALL_DROPPED => {
                Err(refused("the target is about to drop the connection: see its own log"))
            }
            // The next command reports a SCSI event; other events are vendor specific.
            _ => Ok(()),
        }
    }

    /// Logs out when no I/O is in flight.
    #[inline(always)]
    pub(super) fn log_out_when_drained(&mut self, out: &mut Outbox) {
        if matches!(self.stage, Stage::Draining) && self.ios.is_idle() {
            self.log_out(out);
        }
    }

    /// Logs out; I/Os in flight are lost.
    pub(super) fn log_out(&mut self, out: &mut Outbox) {
        match self.stage {
            Stage::Closing | Stage::Closed => {}
            // No session exists yet.
            Stage::Idle(_) | Stage::Login(_) => self.stage = Stage::Closed,
            Stage::Opening(_) | Stage::Ready | Stage::Draining => {
                self.stage = Stage::Closing;
                self.logout_at = None;
                let request = LogoutRequest::of_session(LOGOUT, self.command_number, self.status);
                self.params.put(&request, &[], out);
            }
        }
    }

    fn logout_response(&mut self, response: &LogoutResponse) -> Result<(), Ending> {
        if !matches!(self.stage, Stage::Closing) || response.task_tag != LOGOUT {
            return Err(violation("RFC 7143 §11.15: a logout response answers a logout", 16));
        }
        // The session is over, whatever the response.
        self.stage = Stage::Closed;
        self.disconnect();
        Ok(())
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let alive = match self.ping {
            Some((at, _)) if at >= self.heard && !self.ios.is_idle() => None,
            Some((at, timeout)) if at >= self.heard => Some(timeout.until()),
            _ if self.config.nop_interval == Nanos(0) => None,
            _ => Some(later(self.heard, self.config.nop_interval)),
        };
        match &self.stage {
            Stage::Idle(_) => Some(self.began),
            Stage::Login(_) => Some(later(self.began, self.config.login_timeout)),
            Stage::Opening(opening) => {
                let end = later(self.began, self.config.login_timeout);
                Some(opening.again_at.map_or(end, |at| at.min(end)))
            }
            Stage::Ready | Stage::Draining => {
                // While the target takes no command, only an answer of its can change that.
                let retry = self.retries.iter().filter(|_| self.window() != 0);
                let retry = retry.map(|(due, _)| *due).min();
                let others = [alive, retry, self.logout_at].into_iter().flatten();
                Some(others.fold(self.ios.due(), Nanos::min))
            }
            Stage::Closing => Some(later(self.heard, self.config.nop_timeout)),
            Stage::Closed => None,
        }
    }

    pub(super) fn keep_alive(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        let over = |from: Nanos, span: Nanos| now >= later(from, span);
        match &self.stage {
            Stage::Idle(_) => self.log_in(out),
            Stage::Login(_) if over(self.began, self.config.login_timeout) => {
                return Err(Ending::TimedOut("the target does not answer the login"));
            }
            Stage::Opening(_) if over(self.began, self.config.login_timeout) => {
                return Err(Ending::TimedOut(match self.is_resetting() {
                    true => "the target did not end what an earlier session had sent",
                    false => "the volume did not become ready",
                }));
            }
            Stage::Opening(opening) if opening.again_at.is_some_and(|at| at <= now) => {
                self.ask(out);
            }
            Stage::Ready | Stage::Draining => {
                self.retry_due(now, out);
                if self.logout_at.is_some_and(|at| at <= now) {
                    self.log_out(out);
                    return Ok(());
                }
                self.ios.check_timeouts(now)?;
                return self.keep_pinging(now, out);
            }
            Stage::Closing if over(self.heard, self.config.nop_timeout) => {
                return Err(Ending::TimedOut("the target does not answer the logout"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Pings a silent target. One that does not answer is given up if no I/O is in flight;
    /// otherwise only the time-out of the I/Os decides.
    fn keep_pinging(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        let idle = self.ios.is_idle();
        if let Some((_, timeout)) = self.ping.as_mut().filter(|(at, _)| *at >= self.heard) {
            let silent = idle && timeout.has_expired(now);
            return if silent { Err(Ending::TimedOut(SILENT)) } else { Ok(()) };
        }
        if now < later(self.heard, self.config.nop_interval) || self.config.nop_interval == Nanos(0)
        {
            return Ok(());
        }
        let limit = ping_timeout(self.config.io_timeout, self.config.nop_timeout);
        self.ping = Some((now, PingTimeout::new(now, limit)));
        let ping = NopOut {
            immediate: true,
            data_len: 0,
            lun: self.lun,
            task_tag: PING,
            transfer_tag: NO_TAG,
            command_number: self.command_number,
            expected_status: self.status,
        };
        self.params.put(&ping, &[], out);
        Ok(())
    }
}
