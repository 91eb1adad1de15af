//! Peers of a server: their connections, and the I/Os left of lost connections.
//!
//! A volume executes the I/Os of a connection even after the connection ends. A peer that
//! reconnects writes again, and its earlier writes must not be executed after that. So a login
//! waits here for the I/Os of ended connections of the same peer. All connections on all cores
//! share the list; it is locked when a connection starts or ends, never for an I/O.
//!
//! No login waits for a live connection, unless it replaces that one. But a peer may have closed a
//! connection, with commands that are still to be read, before the connection's core has noticed.
//! So all other connections of the same peer are asked whether they are alive ([`Arrival`]), and
//! each new one waits for their answers. Each waits for older ones only, so there is no deadlock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Nanos, Plant, planted};

use crate::auth::Failures;
use crate::instance::KnownLosses;

/// Maximum number of disconnected peers in memory. The oldest ones are forgotten first, and count
/// as new then.
const REMEMBERED_MAX: usize = 4096;

/// The peers of a server.
#[derive(Debug, Default)]
pub struct Peers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    present: BTreeMap<PeerName, Vec<Entry>>,
    /// Peers that have left, by name and number.
    gone: BTreeMap<(PeerName, Number), Gone>,
    /// Counts arrivals and departures.
    time: u64,
    failures: Failures,
}

/// Start of a connection of a peer: older ones of the same peer are asked whether they are alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    name: PeerName,
    number: Number,
    came: u64,
    instead: bool,
}

/// Meaning of an arrival for an older connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Nothing.
    None,
    /// The older connection reports if it is alive.
    Asked,
    /// The older connection ends: the new one has its place.
    Replaced,
}

/// A peer, and the target, subsystem or export that it uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerName {
    /// Names of an initiator and of a target, in lower case.
    Iscsi(String, String),
    /// Names of a host and of a subsystem.
    Nvme(String, String),
    /// Address of a host, and name of an export.
    Nbd(u128, String),
}

/// A peer's number for a connection: the ISID of an iSCSI session, the identifier of an NVMe queue,
/// else zero.
pub(crate) type Number = [u8; 6];

#[derive(Debug)]
struct Entry {
    number: Number,
    came: u64,
    /// The latest arrival at which the connection was alive.
    lived_at: u64,
    /// Handle of the session, in protocols where the peer may name it.
    session: u16,
    /// Whether the connection is lost, while its I/Os may be left.
    has_ended: bool,
}

/// Memory of a peer that has left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    when: u64,
    /// Failed flushes that it knows of.
    pub(crate) losses: KnownLosses,
    /// Bit set of units, by LUN, whose power loss was reported to the peer.
    pub(crate) told: [u64; 4],
}

/// A connection in the list, until this is dropped: when nothing of it is left.
#[derive(Debug)]
pub(crate) struct Presence {
    peers: Arc<Peers>,
    arrival: Arrival,
    /// Time at which the connection recalled its peer's memory.
    recalled: u64,
}

impl Peers {
    /// Returns an empty list.
    pub fn new() -> Peers {
        Peers::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The lists are consistent between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a wrong proof for a target that is served; returns for how long its refusal is held
    /// back.
    pub(crate) fn failed(&self, target: &str, now: Nanos) -> Nanos {
        self.lock().failures.note(target, now)
    }

    /// Adds a connection of a peer, which takes the place of older ones of the same number if it
    /// comes `instead`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        name: PeerName,
        number: Number,
        instead: bool,
    ) -> Presence {
        let mut state = self.lock();
        let presence = self.arrive(&mut state, name, number, instead);
        let Arrival { name, number, came, .. } = presence.arrival.clone();
        let entry = Entry { number, came, lived_at: came, session: 0, has_ended: false };
        state.present.entry(name).or_default().push(entry);
        presence
    }

    /// Adds a connection that never leaves I/Os, and so is in no list.
    pub(crate) fn pass(self: &Arc<Self>, name: PeerName) -> Presence {
        let mut state = self.lock();
        self.arrive(&mut state, name, [u8::MAX; 6], false)
    }

    /// Whether a peer has a live session with this number and handle.
    pub(crate) fn have_session(&self, name: &PeerName, number: Number, session: u16) -> bool {
        let state = self.lock();
        let mut same = state.present.get(name).into_iter().flatten();
        same.any(|it| it.number == number && it.session == session && !it.has_ended)
    }

    fn arrive(
        self: &Arc<Self>,
        state: &mut State,
        name: PeerName,
        number: Number,
        instead: bool,
    ) -> Presence {
        state.time += 1;
        let arrival = Arrival { name, number, came: state.time, instead };
        Presence { peers: Arc::clone(self), arrival, recalled: 0 }
    }

    /// Stores the losses that a peer knows, for its next connection; the peer recalled at
    /// `recalled`.
    fn remember(&self, arrival: Arrival, recalled: u64, losses: &KnownLosses, told: [u64; 4]) {
        let mut state = self.lock();
        state.time += 1;
        let Arrival { name, number, .. } = arrival;
        let key = (name, number);
        // Both connections existed at the same time, and either may reconnect.
        let twin = state.gone.get(&key).filter(|gone| gone.when > recalled);
        let losses = losses.when_back(twin.map(|twin| &twin.losses));
        let gone = Gone { when: state.time, losses, told };
        if state.gone.len() >= REMEMBERED_MAX && !state.gone.contains_key(&key) {
            let longest = state.gone.iter().min_by_key(|(_, gone)| gone.when);
            if let Some(longest) = longest.map(|(key, _)| key.clone()) {
                state.gone.remove(&longest);
            }
        }
        state.gone.insert(key, gone);
    }

    /// All connections of a peer have ended in order.
    pub(crate) fn confirm(&self, name: &PeerName) {
        let mut state = self.lock();
        let from = (name.clone(), Number::default());
        let of_peer = state.gone.range_mut(from..).take_while(|((other, _), _)| other == name);
        of_peer.for_each(|(_, gone)| gone.losses.confirm());
    }
}

impl Presence {
    /// The notice for the other connections, if there are any.
    pub(crate) fn arrival(&self) -> Option<Arrival> {
        let state = self.peers.lock();
        let mut same = state.present.get(&self.arrival.name).into_iter().flatten();
        let others = same.any(|other| other.came < self.arrival.came);
        others.then(|| self.arrival.clone())
    }

    /// Returns whether I/Os may be left of older connections of the same peer: of one that has
    /// ended, of one that must end, or of one that has not reported to be alive.
    pub(crate) fn must_wait(&self) -> bool {
        if planted(Plant::AnswerReinstatementEarly) {
            return false;
        }
        let Arrival { name, number, came, instead } = &self.arrival;
        let state = self.peers.lock();
        let mut older =
            state.present.get(name).into_iter().flatten().filter(|other| other.came < *came);
        older.any(|other| {
            other.has_ended || other.lived_at < *came || *instead && other.number == *number
        })
    }

    /// Returns the effect of a new connection on this one.
    pub(crate) fn meet(&self, new: &Arrival) -> Meeting {
        if new.name != self.arrival.name || new.came <= self.arrival.came {
            return Meeting::None;
        }
        let replaced = new.instead && new.number == self.arrival.number;
        if replaced { Meeting::Replaced } else { Meeting::Asked }
    }

    /// Notes that this connection is alive, so that the new one need not wait for it.
    pub(crate) fn live(&self, new: &Arrival) {
        self.change(|entry| entry.lived_at = entry.lived_at.max(new.came));
    }

    /// Sets the handle of the session.
    pub(crate) fn is_session(&self, session: u16) {
        self.change(|entry| entry.session = session);
    }

    /// Notes that the connection is lost, but not its I/Os.
    pub(crate) fn end(&self) {
        self.change(|entry| entry.has_ended = true);
    }

    fn change(&self, change: impl FnMut(&mut Entry)) {
        let mut state = self.peers.lock();
        let entries = state.present.get_mut(&self.arrival.name);
        let came = self.arrival.came;
        let entry = entries.into_iter().flatten().find(|entry| entry.came == came);
        entry.into_iter().for_each(change);
    }

    /// Recalls the memory of the peer's last connection of that number. The queues of an NVMe host
    /// are treated as one.
    pub(crate) fn recall(&mut self) -> Option<Gone> {
        let mut state = self.peers.lock();
        state.time += 1;
        self.recalled = state.time;
        let Arrival { name, number, .. } = self.arrival.clone();
        let key = (name, number);
        let mut gone = state.gone.get(&key)?.clone();
        if matches!(key.0, PeerName::Nvme(..)) {
            let from = (key.0.clone(), Number::default());
            let of_peer = state.gone.range(from..).take_while(|((other, _), _)| *other == key.0);
            gone.losses = gone.losses.with_queues(of_peer.map(|(_, gone)| &gone.losses));
        }
        Some(gone)
    }

    /// Stores the peer's losses for its next connection.
    pub(crate) fn remember(&self, losses: &KnownLosses, told: [u64; 4]) {
        self.peers.remember(self.arrival.clone(), self.recalled, losses, told);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.peers.lock();
        let Arrival { name, came, .. } = &self.arrival;
        if let Some(entries) = state.present.get_mut(name) {
            entries.retain(|entry| entry.came != *came);
            if entries.is_empty() {
                state.present.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn initiator(name: &str, target: usize) -> PeerName {
        PeerName::Iscsi(name.to_owned(), target.to_string())
    }

    /// A session of that ISID.
    fn session(peers: &Arc<Peers>, name: &str, target: usize, isid: u8) -> Presence {
        peers.enter(initiator(name, target), [isid; 6], true)
    }

    #[test]
    fn a_login_waits_for_what_its_peer_left_behind() {
        let peers = Arc::new(Peers::new());
        let enter = |name, target, isid| session(&peers, name, target, isid);
        let first = enter("a", 0, 1);
        assert!(!first.must_wait());
        let instead = enter("a", 0, 1);
        assert_eq!(first.arrival(), None, "nobody is to be asked");
        first.live(&instead.arrival);
        assert!(instead.must_wait(), "it lives, but has its place");
        first.end();
        assert!(enter("a", 0, 3).must_wait() && instead.must_wait());
        for stranger in [enter("b", 0, 1), enter("a", 1, 1)] {
            assert!(!stranger.must_wait());
        }
        drop(first);
        assert!(!instead.must_wait());
        drop(instead);
        assert!(peers.lock().present.is_empty());
    }

    #[test]
    fn who_comes_waits_until_the_others_say_that_they_live() {
        let peers = Arc::new(Peers::new());
        let [one, other] = [1, 2].map(|isid| session(&peers, "a", 0, isid));
        other.live(&other.arrival);
        let new = session(&peers, "a", 0, 3);
        assert!(new.must_wait());
        assert_eq!([&one, &other].map(|it| it.meet(&new.arrival().unwrap())), [Meeting::Asked; 2]);
        assert_eq!(new.meet(&one.arrival), Meeting::None, "that one came earlier");
        one.live(&new.arrival);
        assert!(new.must_wait());
        // A connection that has closed does not report; it ends on its own.
        other.end();
        assert!(new.must_wait());
        drop(other);
        assert!(!new.must_wait());
        // A connection that leaves no I/Os blocks no other.
        let passing = peers.pass(initiator("a", 0));
        assert!(passing.must_wait());
        [&one, &new].into_iter().for_each(|it| it.live(&passing.arrival));
        assert!(!passing.must_wait());
        let next = session(&peers, "a", 0, 3);
        assert_eq!(new.meet(&next.arrival), Meeting::Replaced);
        assert_eq!(new.meet(&session(&peers, "b", 0, 3).arrival), Meeting::None);
    }

    #[test]
    fn of_several_that_come_instead_each_waits_for_older_ones_only() {
        let peers = Arc::new(Peers::new());
        let all = [(); 3].map(|()| session(&peers, "a", 0, 1));
        assert_eq!([0, 1, 2].map(|at: usize| all[at].must_wait()), [false, true, true]);
        let [first, second, third] = all;
        drop(first);
        assert_eq!([&second, &third].map(Presence::must_wait), [false, true]);
    }

    #[test]
    fn the_longest_gone_are_forgotten() {
        let peers = Arc::new(Peers::new());
        let enter =
            |number: u64| peers.enter(PeerName::Nbd(number.into(), String::new()), [0; 6], false);
        for number in 0..REMEMBERED_MAX as u64 + 10 {
            let mut presence = enter(number);
            assert!(presence.recall().is_none());
            presence.remember(&KnownLosses::up_to(number), [0; 4]);
        }
        let known = |number: u64| enter(number).recall().map(|gone| gone.losses);
        let up_to = |number| Some(KnownLosses::up_to(number));
        assert_eq!((known(9), known(10)), (None, up_to(10)));
        assert_eq!(known(REMEMBERED_MAX as u64), up_to(REMEMBERED_MAX as u64));
        assert_eq!(peers.lock().gone.len(), REMEMBERED_MAX);
    }
}
