//! Time-outs: login, NOP-In pings, and logouts that were requested.

use block::Nanos;

use crate::flow::later;
use crate::{Ending, Outbox};

use super::super::pdu::{AsyncMessage, NO_TAG, NopIn};
use super::{IscsiTarget, Stage, TargetConfig};

/// Liveness of the initiator.
#[derive(Debug)]
pub(super) struct Alive {
    heard: Nanos,
    ticked: Nanos,
    login_until: Nanos,
    /// Transfer tag and time of the ping that waits for an answer.
    ping: Option<(u32, Nanos)>,
    next_tag: u32,
    logout_until: Option<Nanos>,
}

/// Time limit of an initiator for a logout that we request.
const LOGOUT_SECONDS: u16 = 5;

//= RFC 7143 §11.9.1: event 1 is "target requests logout", Parameter3 has the time limit.
const EVENT_LOGOUT: u8 = 1;

impl Alive {
    pub(super) fn new(config: &TargetConfig, now: Nanos) -> Alive {
        let login_until = later(now, config.login_timeout);
        Alive { heard: now, ticked: now, login_until, ping: None, next_tag: 0, logout_until: None }
    }

    /// Bytes were received.
    #[inline(always)]
    pub(super) fn heard(&mut self, now: Nanos) {
        self.heard = now;
    }

    /// Time at which bytes were last received.
    pub(super) fn last_heard(&self) -> Nanos {
        self.heard
    }

    /// Takes the answer to a ping. Whether there ever was that ping.
    pub(super) fn answered(&mut self, tag: u32) -> bool {
        self.ping = self.ping.filter(|(pinged, _)| *pinged != tag);
        tag < self.next_tag
    }
}

impl IscsiTarget {
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        if self.finished {
            return None;
        }
        let alive = &self.alive;
        if self.stage == Stage::Login {
            let held = self.held_deadline().into_iter().chain(self.refused_at());
            return held.chain([alive.login_until]).min();
        }
        let ping = match alive.ping {
            // A ping is answered by anything that comes after it.
            Some((_, at)) if at >= alive.heard => Some(later(at, self.config.nop_timeout)),
            _ if self.config.nop_interval == Nanos(0) => None,
            _ => Some(later(alive.heard, self.config.nop_interval)),
        };
        let fed = alive.heard.max(alive.ticked);
        let starving = self.backlog.retry_at(fed);
        [ping, starving, alive.logout_until].into_iter().flatten().min()
    }

    pub(super) fn keep_alive(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        self.alive.ticked = now;
        if self.finished {
            return Ok(());
        }
        if self.stage == Stage::Login {
            if now >= self.alive.login_until {
                return Err(self.refuse_held(out));
            }
            self.answer_refused(now, out);
            self.look_at_held(now);
            self.answer_held(out);
            return Ok(());
        }
        if self.alive.logout_until.is_some_and(|until| now >= until) {
            return Err(Ending::TimedOut("the initiator was asked to log out and did not"));
        }
        let unanswered = self.alive.ping.filter(|(_, at)| *at >= self.alive.heard);
        if unanswered.is_some_and(|(_, at)| now >= later(at, self.config.nop_timeout)) {
            return Err(Ending::TimedOut("the initiator does not answer pings"));
        }
        let silent = now >= later(self.alive.heard, self.config.nop_interval);
        if unanswered.is_none() && silent && self.config.nop_interval != Nanos(0) {
            self.ping(now, out);
        }
        Ok(())
    }

    fn ping(&mut self, now: Nanos, out: &mut Outbox) {
        let transfer_tag = self.alive.next_tag;
        self.alive.next_tag = (transfer_tag + 1) % (NO_TAG - 1);
        self.alive.ping = Some((transfer_tag, now));
        //= RFC 7143 §11.19: our ping has no task tag and does not consume its StatSN.
        let numbers = self.numbers();
        let nop = NopIn { data_len: 0, lun: [0; 8], task_tag: NO_TAG, transfer_tag, numbers };
        self.send(&nop, &[], out);
    }

    /// Asks the initiator to log out, because the portal is about to close. One that is still
    /// logging in is cut off; one that does not obey within 5 s ends in a time-out.
    pub fn ask_logout(&mut self, now: Nanos, out: &mut Outbox) {
        if self.stage == Stage::Login {
            self.finished = true;
            return;
        }
        if self.finished || self.alive.logout_until.is_some() {
            return;
        }
        self.alive.logout_until = Some(later(now, Nanos::from_secs(LOGOUT_SECONDS.into())));
        let message = AsyncMessage {
            numbers: self.next_status(),
            event: EVENT_LOGOUT,
            parameters: [0, 0, LOGOUT_SECONDS],
            ..AsyncMessage::default()
        };
        self.send(&message, &[], out);
    }

    /// Retries commands that wait for a buffer, in order.
    #[inline(always)]
    pub(super) fn retry_starving(&mut self, out: &mut Outbox) {
        if !self.backlog.starving.is_empty() {
            self.retry_all(out);
        }
    }
}
