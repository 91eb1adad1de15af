//! Start and end of sessions. The target answers a login when no I/O is left of earlier sessions:
//! of the session that it replaces, and of ended sessions of the same initiator. A lost connection
//! stays in the list until its changes have completed.
//!
//! The initiator may write again after that: none of its earlier commands is executed later.

use block::{Done, Nanos};

use crate::flow::{Leftover, Leftovers, later, slot_of};
use crate::instance::KnownLosses;
use crate::peers::{Meeting, PeerName};
use crate::{Arrival, Ending, Notice, Outbox};

use super::super::pdu::LoginRequest;
use super::login::{Login, session_handle, status};
use super::{IscsiTarget, Stage};

/// The last request of a login, which is not answered yet.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) login: Box<Login>,
    pub(super) request: LoginRequest,
    /// The text of the answer.
    pub(super) text: Vec<u8>,
    /// Time of the next check.
    look_at: Nanos,
    was_told: bool,
}

/// A login that waits for longer is worth a line. It is looked at so often, too.
const LONG: Nanos = Nanos::from_secs(1);

impl IscsiTarget {
    /// The last request of a login has come: answers it, now or later.
    pub(super) fn arrive(
        &mut self,
        now: Nanos,
        login: Box<Login>,
        request: LoginRequest,
        text: Vec<u8>,
        out: &mut Outbox,
    ) {
        self.identify(&login);
        let held =
            Box::new(Held { login, request, text, look_at: later(now, LONG), was_told: false });
        if held.login.is_discovery() {
            return self.complete_login(*held, out);
        }
        //= RFC 7143 §4.2.7.1: names are compared as if they were in lower case.
        let name = PeerName::Iscsi(
            self.initiator_name.to_ascii_lowercase(),
            self.target.name.to_ascii_lowercase(),
        );
        //= RFC 7143 §6.3.5: the session that has this one's names and ISID ends.
        let presence = self.peers.enter(name, self.isid, true);
        presence.is_session(session_handle(self.connection_id));
        self.presence = Some(presence);
        self.tell_of_arrival();
        self.held = Some(held);
        self.answer_held(out);
    }

    /// Answers a login that waits, if nothing is left of sessions before it.
    pub(super) fn answer_held(&mut self, out: &mut Outbox) {
        if self.held.is_none() || self.finished {
            return;
        }
        if self.presence.as_ref().is_some_and(|presence| presence.must_wait()) {
            return;
        }
        let gone = self.presence.as_mut().and_then(|presence| presence.recall());
        let units = self.target.units.iter().flatten();
        let losses = units.filter_map(|unit| unit.instance.as_ref()).map(|it| it.losses()).max();
        let gone = gone.map(|gone| (gone.losses, gone.told));
        let new = || (KnownLosses::up_to(losses.unwrap_or(0)), [0; 4]);
        (self.losses, self.attentions.told) = gone.unwrap_or_else(new);
        if let Some(held) = self.held.take() {
            self.complete_login(*held, out);
            self.announce_power_on();
        }
    }

    /// Handles the start of another connection: ends if that one replaces this one, otherwise
    /// reports that this one is alive.
    pub(super) fn meet(
        &mut self,
        new: &Arrival,
        is_there: &mut dyn FnMut() -> bool,
        out: &mut Outbox,
    ) {
        let Some(presence) = &self.presence else { return };
        match presence.meet(new) {
            Meeting::None => {}
            Meeting::Asked if is_there() => presence.live(new),
            Meeting::Asked => {}
            Meeting::Replaced => self.end_session(out),
        }
    }

    /// Time of the next check of a waiting login.
    pub(super) fn held_deadline(&self) -> Option<Nanos> {
        self.held.as_ref().map(|held| held.look_at)
    }

    /// A login waits: says so when it takes long.
    pub(super) fn look_at_held(&mut self, now: Nanos) {
        let Some(held) = self.held.as_mut().filter(|held| now >= held.look_at) else { return };
        held.look_at = later(now, LONG);
        if !std::mem::replace(&mut held.was_told, true) {
            let name = &self.initiator_name;
            self.remark = Some(format!(
                "the login of {name} waits for I/Os that an earlier session left behind"
            ));
        }
        // Once more, in case that a mailbox was full.
        self.tell_of_arrival();
    }

    fn tell_of_arrival(&mut self) {
        if let Some(arrival) = self.presence.as_ref().and_then(|presence| presence.arrival()) {
            self.tell(Notice::PeerCame(arrival));
        }
    }

    /// A login has waited for too long.
    pub(super) fn refuse_held(&mut self, out: &mut Outbox) -> Ending {
        let Some(held) = self.held.take() else {
            return Ending::TimedOut("the login took too long");
        };
        self.send_login_response(&held.request, false, status::NOT_OPERATIONAL, &[], out);
        Ending::TimedOut("I/Os that an earlier session left behind did not end in time")
    }

    /// The connection is lost. Its changes that are with a volume are awaited.
    pub(super) fn depart(&mut self) {
        let commands = self.tasks.iter().filter(|(_, task)| !task.reads);
        let commands = commands.map(|(slot, task)| Leftover {
            slot,
            unit: task.data.unit,
            count: task.data.in_flight.into(),
            flushes: task.flushes(),
        });
        self.leftovers = Leftovers::new(commands, &self.backlog.requests);
        self.keep_claims();
        if let Some(presence) = self.presence.as_mut().filter(|_| self.stage == Stage::Normal) {
            presence.remember(&self.losses, self.attentions.told);
            presence.end();
        }
        if self.stage == Stage::Normal {
            self.forget_reserved_units();
        }
        self.held = None;
        self.depart_if_done();
    }

    fn depart_if_done(&mut self) {
        if self.leftovers.have_no_changes() {
            self.presence = None;
            self.left_claims.clear();
            self.fences.clear();
        }
    }

    /// Handles a completed I/O of a lost connection.
    #[cold]
    pub(super) fn left_over_came(&mut self, done: &Done) {
        if let Some(unit) = self.leftovers.came(slot_of(done.tag)) {
            let mut units = self.target.units.iter().flatten();
            let instance = units.find(|other| other.id == unit).and_then(|it| it.instance.as_ref());
            instance.into_iter().for_each(|instance| instance.note_flush(done.result));
        }
        self.depart_if_done();
    }
}
