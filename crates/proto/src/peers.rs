//! Who uses a server: the connections of each peer, and what is left of those that are gone.
//!
//! A connection may end while a volume works on its I/Os, and they are executed nevertheless. A peer
//! that comes back writes anew; what it wrote before must not be executed after that. So a login
//! waits here for what is left of connections of the same peer. Shared by all connections on all
//! cores; locked when one of them begins or ends, never for an I/O.
//!
//! Nobody waits for a connection that lives, unless it takes the place of that one. Each waits for
//! older ones only, so no two wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Plant, planted};

/// Most peers that are remembered after they have left. The longest gone are forgotten first, and
/// are new then.
const REMEMBERED_MAX: usize = 4096;

/// The peers of a server.
#[derive(Debug, Default)]
pub struct Peers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    present: HashMap<PeerName, Vec<Entry>>,
    /// Those that have left, by name and number.
    gone: HashMap<(PeerName, Number), Gone>,
    /// Counts who came and who went.
    time: u64,
}

/// A peer, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PeerName {
    /// Name of an initiator, in lower case, and index of a target.
    Iscsi(String, usize),
    /// Names of a host and of a subsystem.
    Nvme(String, String),
    /// Address of a host, and index of an export.
    Nbd(u128, usize),
}

/// A peer's number for a connection of its own: the ISID of an iSCSI session, the identifier of an
/// NVMe queue, else zero.
pub(crate) type Number = [u8; 6];

#[derive(Debug)]
struct Entry {
    number: Number,
    came: u64,
    /// It is gone, but for what it left behind.
    has_ended: bool,
}

/// What is remembered of a peer that has left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gone {
    when: u64,
    /// Failed flushes up to then.
    pub(crate) losses: u64,
    /// Units, by their number of the peer's: those that said that their power was lost, and the
    /// peer was told.
    pub(crate) told: [u64; 4],
}

/// A connection in the list, until this is dropped: when nothing of it is left.
#[derive(Debug)]
pub(crate) struct Presence {
    peers: Arc<Peers>,
    name: PeerName,
    number: Number,
    came: u64,
}

impl Peers {
    /// Nobody.
    pub fn new() -> Peers {
        Peers::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The lists are consistent between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection of a peer.
    pub(crate) fn enter(self: &Arc<Self>, name: PeerName, number: Number) -> Presence {
        let mut state = self.lock();
        state.time += 1;
        let came = state.time;
        let entry = Entry { number, came, has_ended: false };
        state.present.entry(name.clone()).or_default().push(entry);
        drop(state);
        Presence { peers: Arc::clone(self), name, number, came }
    }

    /// What is remembered of a peer's last connection of that number.
    pub(crate) fn recall(&self, name: &PeerName, number: Number) -> Option<Gone> {
        self.lock().gone.get(&(name.clone(), number)).copied()
    }

    /// Remembers this of a peer for when it comes back.
    pub(crate) fn remember(&self, name: PeerName, number: Number, losses: u64, told: [u64; 4]) {
        let mut state = self.lock();
        state.time += 1;
        let gone = Gone { when: state.time, losses, told };
        let key = (name, number);
        if state.gone.len() >= REMEMBERED_MAX && !state.gone.contains_key(&key) {
            let longest = state.gone.iter().min_by_key(|(_, gone)| gone.when);
            if let Some(longest) = longest.map(|(key, _)| key.clone()) {
                state.gone.remove(&longest);
            }
        }
        state.gone.insert(key, gone);
    }
}

impl Presence {
    /// Whether something is left of a connection before this one: of one that has ended, or with
    /// `instead` also of one of the same number.
    pub(crate) fn must_wait(&self, instead: bool) -> bool {
        if planted(Plant::AnswerReinstatementEarly) {
            return false;
        }
        let state = self.peers.lock();
        let others = state.present.get(&self.name).into_iter().flatten();
        others
            .filter(|other| other.came < self.came)
            .any(|other| other.has_ended || instead && other.number == self.number)
    }

    /// What is remembered of the peer's last connection of that number.
    pub(crate) fn recall(&self) -> Option<Gone> {
        self.peers.recall(&self.name, self.number)
    }

    /// The connection is gone, but not what it left behind.
    pub(crate) fn end(&self) {
        let mut state = self.peers.lock();
        let entries = state.present.get_mut(&self.name);
        let entry = entries.into_iter().flatten().find(|entry| entry.came == self.came);
        if let Some(entry) = entry {
            entry.has_ended = true;
        }
    }

    /// Remembers this of the peer for when it comes back.
    pub(crate) fn remember(&self, losses: u64, told: [u64; 4]) {
        self.peers.remember(self.name.clone(), self.number, losses, told);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.peers.lock();
        if let Some(entries) = state.present.get_mut(&self.name) {
            entries.retain(|entry| entry.came != self.came);
            if entries.is_empty() {
                state.present.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn initiator(name: &str, target: usize) -> PeerName {
        PeerName::Iscsi(name.to_owned(), target)
    }

    #[test]
    fn a_login_waits_for_what_its_peer_left_behind() {
        let peers = Arc::new(Peers::new());
        let enter = |name: &str, target, number| peers.enter(initiator(name, target), [number; 6]);
        let other = enter("a", 0, 2);
        let first = enter("a", 0, 1);
        assert!(!first.must_wait(true) && !other.must_wait(true), "it lives, and is another one");
        let instead = enter("a", 0, 1);
        assert!(instead.must_wait(true) && !instead.must_wait(false));
        first.end();
        assert!(enter("a", 0, 3).must_wait(true) && enter("a", 0, 3).must_wait(false));
        assert!(!other.must_wait(true), "it came earlier");
        for stranger in [enter("b", 0, 1), enter("a", 1, 1)] {
            assert!(!stranger.must_wait(true));
        }
        drop(first);
        assert!(!instead.must_wait(true));
        drop((other, instead));
        assert!(peers.lock().present.is_empty());
    }

    #[test]
    fn two_that_come_instead_of_one_wait_for_each_other_in_one_direction() {
        let peers = Arc::new(Peers::new());
        let enter = || peers.enter(initiator("a", 0), [1; 6]);
        let [first, second, third] = [enter(), enter(), enter()];
        assert_eq!([&first, &second, &third].map(|it| it.must_wait(true)), [false, true, true]);
        drop(first);
        assert_eq!([&second, &third].map(|it| it.must_wait(true)), [false, true]);
    }

    #[test]
    fn the_longest_gone_are_forgotten() {
        let peers = Arc::new(Peers::new());
        for number in 0..REMEMBERED_MAX as u64 + 10 {
            let presence = peers.enter(PeerName::Nbd(number.into(), 0), [0; 6]);
            assert!(presence.recall().is_none());
            presence.remember(number, [0; 4]);
        }
        let known = |number: u64| {
            let presence = peers.enter(PeerName::Nbd(number.into(), 0), [0; 6]);
            presence.recall().map(|gone| gone.losses)
        };
        assert_eq!((known(9), known(10)), (None, Some(10)));
        assert_eq!(known(REMEMBERED_MAX as u64), Some(REMEMBERED_MAX as u64));
        assert_eq!(peers.lock().gone.len(), REMEMBERED_MAX);
    }
}
