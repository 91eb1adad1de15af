//! Start and end of connections. The Connect command of an admin queue is answered when no I/O is
//! left of ended queues of the same host. A queue whose connection is lost retains its place and
//! its identifier until its changes have completed.

use block::{Done, Nanos};

use crate::flow::{Leftover, Leftovers, later, slot_of};
use crate::instance::{Instance, KnownLosses};
use crate::peers::{Meeting, PeerName};
use crate::{Arrival, Ending, Notice, Outbox, UnitId};

use super::super::pdu::{Command, Entry, Status};
use super::slot::SlotState;
use super::{NvmeTarget, Stage};

/// A Connect command that is not answered yet.
#[derive(Debug)]
pub(super) struct Held {
    entry: Entry,
    data: Vec<u8>,
    host: String,
    /// Time of the next check.
    look_at: Nanos,
    was_told: bool,
}

/// A Connect command that waits for longer is worth a line.
const LONG: Nanos = Nanos::from_secs(1);

impl NvmeTarget {
    /// Whether the Connect command of an admin queue must wait.
    pub(super) fn must_hold(&mut self, host: &str, subsystem: &str) -> bool {
        if self.presence.is_none() {
            let name = PeerName::Nvme(host.to_owned(), subsystem.to_owned());
            self.presence = Some(self.peers.pass(name));
            self.tell_of_arrival();
        }
        self.presence.as_ref().is_some_and(|presence| presence.must_wait())
    }

    /// Handles the start of an admin queue of the same host: reports that this I/O queue is alive.
    pub(super) fn meet(&mut self, new: &Arrival, is_there: &mut dyn FnMut() -> bool) {
        let Some(presence) = &self.presence else { return };
        if presence.meet(new) != Meeting::None && self.is_member() && is_there() {
            self.presence.iter().for_each(|presence| presence.live(new));
        }
    }

    /// Holds a Connect command of this host until nothing is left of queues before it.
    pub(super) fn hold(&mut self, now: Nanos, command: Command<'_>, data: &[u8], host: &str) {
        let entry = *command.0;
        let look_at = later(now, LONG);
        let was_told = false;
        let host = host.to_owned();
        self.held = Some(Box::new(Held { entry, data: data.to_vec(), host, look_at, was_told }));
    }

    /// Tries a Connect command again that waits.
    pub(super) fn retry_held(&mut self, now: Nanos, out: &mut Outbox) {
        let Some(held) = self.held.take() else { return };
        self.connect(now, Command(&held.entry), &held.data, out);
        if let Some(again) = &mut self.held {
            (again.look_at, again.was_told) = (held.look_at, held.was_told);
        }
    }

    /// Time of the next check of a waiting Connect command.
    pub(super) fn held_deadline(&self) -> Option<Nanos> {
        self.held.as_ref().map(|held| held.look_at)
    }

    /// A Connect command waits: says so when it takes long.
    pub(super) fn look_at_held(&mut self, now: Nanos) {
        let Some(held) = self.held.as_mut().filter(|held| now >= held.look_at) else { return };
        held.look_at = later(now, LONG);
        if !std::mem::replace(&mut held.was_told, true) {
            let host = &held.host;
            self.remark = Some(format!(
                "the connection of {host} waits for I/Os that an earlier controller left behind"
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

    /// The host did not connect in time, or was not let in.
    pub(super) fn give_up_connecting(&mut self, out: &mut Outbox) -> Ending {
        let Some(held) = self.held.take() else {
            return Ending::TimedOut("the host did not connect in time");
        };
        self.answer(Command(&held.entry).id(), Status::CONNECT_CONTROLLER_BUSY, out);
        Ending::TimedOut("I/Os that an earlier controller left behind did not end in time")
    }

    /// The queue has begun. What its host knows of failed flushes, if it carries I/Os.
    pub(super) fn take_place(&mut self) {
        self.presence = None;
        let Some((name, number)) = self.peer_name() else { return };
        let mut presence = self.peers.enter(name, number, false);
        let gone = presence.recall();
        self.presence = Some(presence);
        let instances = self.subsystem.namespaces.iter().flatten();
        let losses = instances.filter_map(|it| it.instance.as_ref()).map(Instance::losses).max();
        let new = || KnownLosses::up_to(losses.unwrap_or(0));
        self.losses = gone.map_or_else(new, |gone| gone.losses);
    }

    /// The name of the host's queue, if this is an I/O queue.
    fn peer_name(&self) -> Option<(PeerName, [u8; 6])> {
        let member = self.member.as_ref().filter(|_| self.is_io_queue())?;
        let [high, low] = member.queue().to_be_bytes();
        let host = member.controller().host.nqn.clone();
        Some((PeerName::Nvme(host, self.subsystem.nqn.clone()), [0, 0, 0, 0, high, low]))
    }

    /// Remembers the failed flushes that the host knows of, if this is an I/O queue.
    pub(super) fn remember_losses(&self) {
        let presence = self.presence.as_ref().filter(|_| self.is_io_queue());
        presence.into_iter().for_each(|presence| presence.remember(&self.losses, [0; 4]));
    }

    /// Handles the host's shutdown of the controller after its I/O queues: the host has seen all
    /// answers.
    pub(super) fn confirm_losses(&self) {
        let Some(member) = &self.member else { return };
        let host = member.controller().host.nqn.clone();
        self.peers.confirm(&PeerName::Nvme(host, self.subsystem.nqn.clone()));
    }

    /// The connection is lost. Its changes that are with a volume are awaited.
    pub(super) fn depart(&mut self) {
        self.remember_losses();
        let commands = self.slots.iter().filter_map(|(slot, command)| {
            let flushes = match command.state {
                SlotState::Writing | SlotState::Working => false,
                SlotState::Pasting | SlotState::Fused => false,
                SlotState::Flushing => true,
                _ => return None,
            };
            let (unit, count) = (command.data.unit, command.data.in_flight.into());
            Some(Leftover { slot, unit, count, flushes })
        });
        self.leftovers = Leftovers::new(commands, &self.backlog.requests);
        self.held = None;
        self.reserving.wait_no_longer();
        match (&self.member, self.stage) {
            (Some(_), Stage::Admin) => self.end_membership(),
            (Some(member), _) => member.end(),
            (None, _) => {}
        }
        self.presence.iter().for_each(|presence| presence.end());
        self.depart_if_done();
    }

    fn depart_if_done(&mut self) {
        if self.leftovers.have_no_changes() {
            self.reserving.open_all();
            self.pairs.clear();
            (self.member, self.presence) = (None, None);
        }
    }

    /// Ends the controller, and notifies its I/O queues on other cores.
    pub(super) fn end_membership(&mut self) {
        let had_queues = self.member.take().is_some_and(|member| member.has_queues());
        if had_queues {
            self.tell(Notice::ControllerEnded);
        }
    }

    /// Queues a notice for other connections.
    pub(super) fn tell(&mut self, notice: Notice) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// Handles a completed I/O of a lost connection.
    #[cold]
    pub(super) fn left_over_came(&mut self, done: &Done) {
        if let Some(unit) = self.leftovers.came(slot_of(done.tag)) {
            let instance = self.instance_of(unit);
            instance.into_iter().for_each(|instance| instance.note_flush(done.result));
        }
        self.depart_if_done();
    }

    /// The instance of a unit.
    #[cold]
    fn instance_of(&self, unit: UnitId) -> Option<&Instance> {
        let mut namespaces = self.subsystem.namespaces.iter().flatten();
        namespaces.find(|namespace| namespace.id == unit)?.instance.as_ref()
    }
}
