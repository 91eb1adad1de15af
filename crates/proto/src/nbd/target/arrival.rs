//! Coming and going. The choice of an export is answered when nothing is left of connections of the
//! same host that have ended. A connection that is lost stays known until its own changes have come
//! back.

use block::{Done, Nanos};

use crate::flow::{Leftover, Leftovers, later};
use crate::instance::{Instance, KnownLosses};
use crate::peers::{Meeting, PeerName};
use crate::{Arrival, Ending, Notice, Outbox};

use super::super::wire::{option, reply};
use super::command::Work;
use super::negotiate::{asked_of, say};
use super::{NbdTarget, Stage, violation};
use block::Op;

/// The choice of an export, which is not answered yet.
#[derive(Debug)]
pub(super) struct Held {
    kind: u32,
    data: Vec<u8>,
    /// Bytes that came after the choice.
    late: Vec<u8>,
    /// Time of the next check of the choice.
    look_at: Nanos,
    was_told: bool,
}

/// A choice that waits for longer is worth a line.
const LONG: Nanos = Nanos::from_secs(1);
/// Most bytes that a client may send before its choice is answered: it has nothing to say then.
const LATE_MAX_BYTES: usize = 64 << 10;

impl NbdTarget {
    /// Returns whether this choice of an export must wait. If so, it is held.
    pub(super) fn must_hold(&mut self, now: Nanos, kind: u32, data: &[u8]) -> bool {
        let name = match kind {
            option::EXPORT_NAME => Some(data),
            option::GO => asked_of(data).map(|(name, _)| name),
            _ => None,
        };
        let exports = self.exports.now();
        let Some(export) = name.and_then(|name| exports.find(name)) else { return false };
        let name = PeerName::Nbd(self.peer, export.name.clone());
        let presence = self.presence.insert(self.peers.enter(name, [0; 6], false));
        self.notices.extend(presence.arrival().map(Notice::PeerCame));
        if !presence.must_wait() {
            return false;
        }
        let (data, late, look_at) = (data.to_vec(), Vec::new(), later(now, LONG));
        self.held = Some(Box::new(Held { kind, data, late, look_at, was_told: false }));
        true
    }

    /// Handles the start of a connection of the same host: reports that this one is alive.
    pub(super) fn meet(&mut self, new: &Arrival, is_there: &mut dyn FnMut() -> bool) {
        let Some(presence) = &self.presence else { return };
        if presence.meet(new) != Meeting::None && is_there() {
            presence.live(new);
        }
    }

    /// Stores the bytes after a choice that is not answered yet.
    pub(super) fn keep_for_later(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        let Some(held) = &mut self.held else { return Ok(()) };
        held.late.extend_from_slice(bytes);
        if held.late.len() > LATE_MAX_BYTES {
            return Err(violation(
                "NBD §Option haggling: a client awaits the answer to its choice",
            ));
        }
        Ok(())
    }

    /// Answers a choice that waits, if nothing is left of connections before it.
    pub(super) fn answer_held(&mut self, now: Nanos, out: &mut Outbox) {
        if self.held.is_none() || self.finished {
            return;
        }
        if self.presence.as_ref().is_some_and(|presence| presence.must_wait()) {
            return;
        }
        let Some(held) = self.held.take() else { return };
        let answered = self.answer_now(held.kind, &held.data, out);
        if answered.and_then(|()| self.take(now, &held.late, out)).is_err() {
            self.finished = true;
        }
    }

    /// Recalls the failed flushes that the client of the chosen export knows about.
    pub(super) fn recall_losses(&mut self) {
        let gone = self.presence.as_mut().and_then(|presence| presence.recall());
        let losses = self.export().instance.as_ref().map_or(0, Instance::losses);
        self.losses = gone.map_or_else(|| KnownLosses::up_to(losses), |gone| gone.losses);
    }

    /// Time of the next check of a waiting choice.
    pub(super) fn held_deadline(&self) -> Option<Nanos> {
        self.held.as_ref().map(|held| held.look_at)
    }

    /// A choice waits: says so when it takes long.
    pub(super) fn look_at_held(&mut self, now: Nanos) {
        let Some(held) = self.held.as_mut().filter(|held| now >= held.look_at) else { return };
        held.look_at = later(now, LONG);
        if !std::mem::replace(&mut held.was_told, true) {
            let why = "its choice of an export waits for I/Os that an earlier connection of its \
                       host left behind";
            self.remark = Some(why.to_owned());
        }
        // Once more, in case that a mailbox was full.
        let arrival = self.presence.as_ref().and_then(|presence| presence.arrival());
        self.notices.extend(arrival.map(Notice::PeerCame));
    }

    /// The client has chosen no export in time, or was not let in.
    pub(super) fn give_up_negotiating(&mut self, out: &mut Outbox) -> Ending {
        let Some(held) = self.held.take() else {
            return Ending::TimedOut("the client has chosen no export");
        };
        let why = "I/Os that an earlier connection left behind did not end in time";
        if held.kind == option::GO {
            say(held.kind, reply::POLICY, why.as_bytes(), out);
        }
        Ending::TimedOut(why)
    }

    /// The connection is lost. Its changes that are with a volume are awaited.
    pub(super) fn depart(&mut self) {
        let unit = self.export.id;
        let commands = self.slots.iter().filter_map(|(slot, held)| {
            let flushes = match held.work {
                Work::Write => false,
                Work::Other(op) => op == Op::Flush || held.flushes,
                Work::Read | Work::Status | Work::None => return None,
            };
            let count = held.flying.iter().flatten().map(|(count, _)| count).sum();
            Some(Leftover { slot, unit, count, flushes })
        });
        self.leftovers = Leftovers::new(commands, &self.backlog.requests);
        if let Some(presence) = &self.presence {
            if matches!(self.stage, Stage::Serving | Stage::Leaving) {
                presence.remember(&self.losses, [0; 4]);
            }
            presence.end();
        }
        self.held = None;
        self.depart_if_done();
    }

    fn depart_if_done(&mut self) {
        if self.leftovers.have_no_changes() {
            self.presence = None;
        }
    }

    /// Handles a completed I/O of a lost connection.
    #[cold]
    pub(super) fn left_over_came(&mut self, slot: u16, done: &Done) {
        if self.leftovers.came(slot).is_some() {
            let instance = &self.export().instance;
            instance.iter().for_each(|instance| instance.note_flush(done.result));
        }
        self.depart_if_done();
    }
}
