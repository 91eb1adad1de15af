//! State of a volume's earlier connections, shared by all of its lanes.
//!
//! Two questions outlive a connection. Which changes were sent on it and never answered? They are
//! *in doubt*: the target may execute these changes until it confirms their end, or until a grace
//! period is over, so later changes of the same ranges are held back. And which acknowledged
//! changes had no flush covered? If the target was restarted, they may be gone, so the next flush
//! fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{Nanos, Plant, planted, prefetch_value};

use super::again::LONGEST_PAUSE;
use crate::events::Events;
use crate::losses::Losses;

/// One total order: all but the epoch changes only when a connection is lost or opened.
const ORDER: Ordering = Ordering::SeqCst;
/// Minimum time for which changes stay in doubt after a failed login that was to report on them:
/// until the next login is under way. A reconnecting lane pauses for up to two seconds between
/// logins.
const ASKING: Nanos = Nanos(2 * LONGEST_PAUSE.0 + Nanos::from_secs(1).0);

/// Name of a connection, by which its target knows it.
pub(crate) type Name = u64;

/// Identity of a change in doubt, for the I/O that resends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoubtId(u64);

// Lanes of all cores read this in every turn: no other written data may share its cache lines, of
// which CPUs fetch two at a time.
#[repr(align(128))]
pub(crate) struct Past {
    /// Time for which changes stay in doubt if the target does not confirm that it has ended them.
    grace: Nanos,
    /// Whether there are changes in doubt.
    doubtful: AtomicBool,
    /// Number of changes that became in doubt.
    doubts: AtomicU64,
    /// Whether there are suspicions.
    suspicious: AtomicBool,
    /// Events in which acknowledged changes may have been lost.
    losses: Losses,
    state: Mutex<State>,
    events: Events,
}

#[derive(Default)]
struct State {
    doubts: Vec<Doubt>,
    next: u64,
    /// For each connection that was lost with changes that no flush had covered: the instance of
    /// its target, if known, and its number.
    suspicions: Vec<(Option<u64>, u64)>,
    /// Number of the last suspicion.
    suspected: u64,
    /// Losses that the owner has made good.
    forgotten: u64,
    /// Instance of the target that was met last, if one was.
    met: Option<Option<u64>>,
    /// Another server was met since the owner has repaired all losses: connections whose loss is
    /// not noticed yet may have acknowledged changes that this server does not have.
    restarted: bool,
    /// Instance of the server whose data the owner has checked, if it is known.
    looked_at: Option<u64>,
    /// The user was notified that changes are held back.
    holds: bool,
}

struct Doubt {
    id: u64,
    offset: u64,
    len: u64,
    name: Name,
    /// Time of the loss, and end of the doubt.
    lost_at: Nanos,
    until: Nanos,
    /// A login under the same name is under way, whose result will resolve the doubt.
    is_asked: bool,
}

impl Past {
    pub(crate) fn new(grace: Nanos) -> Past {
        Past {
            grace,
            doubtful: AtomicBool::new(false),
            doubts: AtomicU64::new(0),
            suspicious: AtomicBool::new(false),
            losses: Losses::default(),
            state: Mutex::default(),
            events: Events::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events since the last call, a line each.
    pub(crate) fn news(&self) -> Vec<String> {
        self.events.news()
    }

    /// The first and the last events.
    pub(crate) fn all_events(&self) -> Vec<String> {
        self.events.all()
    }

    /// Prefetches the state for [`has_doubts`](Self::has_doubts): between two turns of a lane the
    /// CPU's caches are full of data, and a submit would wait for memory (5 ns for each of 32
    /// I/Os).
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_value(&self.doubtful);
    }

    /// Whether anything is in doubt.
    #[inline]
    pub(crate) fn has_doubts(&self) -> bool {
        self.doubtful.load(Ordering::Relaxed)
    }

    /// Records that the connection `name` was lost with this change unanswered. `before`: the same
    /// change is in doubt already, as it was sent again; its doubt is extended.
    #[cold]
    pub(crate) fn doubt(
        &self,
        now: Nanos,
        name: Name,
        (offset, len): (u64, u64),
        before: Option<DoubtId>,
    ) -> DoubtId {
        let mut state = self.state();
        let until = now + self.grace;
        let known = |doubt: &&mut Doubt| before == Some(DoubtId(doubt.id)) && doubt.name == name;
        let id = match state.doubts.iter_mut().find(known) {
            Some(doubt) => {
                (doubt.lost_at, doubt.until) = (now, until);
                doubt.id
            }
            None => {
                // The I/O was sent on connections of two names: its owner may send it again over
                // both.
                let id = before.map_or(state.next, |DoubtId(id)| id);
                let doubt = Doubt { id, offset, len, name, lost_at: now, until, is_asked: false };
                state.next = state.next.max(id + 1);
                state.doubts.push(doubt);
                id
            }
        };
        self.doubtful.store(true, ORDER);
        self.doubts.fetch_add(1, ORDER);
        DoubtId(id)
    }

    /// Number of changes that have become in doubt so far.
    pub(crate) fn doubts(&self) -> u64 {
        self.doubts.load(ORDER)
    }

    /// Name of the connection whose changes have been in doubt for the longest time.
    pub(crate) fn oldest(&self) -> Option<Name> {
        if !self.has_doubts() {
            return None;
        }
        self.state().doubts.iter().find(|doubt| !doubt.is_asked).map(|doubt| doubt.name)
    }

    /// Notes the start or end of a login under this name: until its end, the doubts stay.
    pub(crate) fn asks(&self, now: Nanos, name: Name, begins: bool) {
        if !self.has_doubts() {
            return;
        }
        for doubt in self.state().doubts.iter_mut().filter(|doubt| doubt.name == name) {
            doubt.is_asked = begins;
            if !begins {
                doubt.until = doubt.until.max(now + ASKING);
            }
        }
    }

    /// Notes that the target executes no more I/Os of these connections.
    pub(crate) fn ended(&self, now: Nanos, names: impl Fn(Name) -> bool) {
        if self.has_doubts() {
            self.clear(now, |doubt| names(doubt.name));
        }
    }

    /// Notes that the target of these connections needs at least this time after a loss.
    pub(crate) fn takes(&self, names: impl Fn(Name) -> bool, time: Nanos) {
        if !self.has_doubts() {
            return;
        }
        for doubt in self.state().doubts.iter_mut().filter(|doubt| names(doubt.name)) {
            doubt.until = doubt.until.max(doubt.lost_at + time);
            doubt.is_asked = false;
        }
    }

    fn clear(&self, now: Nanos, is_over: impl Fn(&Doubt) -> bool) {
        let mut state = self.state();
        let over = |doubt: &Doubt| is_over(doubt) || !doubt.is_asked && now >= doubt.until;
        state.doubts.retain(|doubt| !over(doubt));
        if state.doubts.is_empty() {
            self.doubtful.store(false, ORDER);
            if std::mem::take(&mut state.holds) {
                self.events.say("held-back writes resume".to_owned());
            }
        }
    }

    /// Whether a change must wait: an earlier one of the same range is in doubt. `own` is the doubt
    /// of the change itself, if the change is being sent again: writing the same data twice is
    /// harmless.
    #[cold]
    pub(crate) fn holds(
        &self,
        now: Nanos,
        (offset, len): (u64, u64),
        own: Option<DoubtId>,
    ) -> bool {
        if planted(Plant::SendOverDoubt) {
            return false;
        }
        self.clear(now, |_| false);
        let mut state = self.state();
        let crosses = |doubt: &&Doubt| {
            let meets = doubt.offset < offset + len && offset < doubt.offset + doubt.len;
            meets && own != Some(DoubtId(doubt.id))
        };
        let Some(doubt) = state.doubts.iter().filter(crosses).max_by_key(|doubt| doubt.until)
        else {
            return false;
        };
        let wait = doubt.until.since(now).as_secs_f64();
        if !std::mem::replace(&mut state.holds, true) {
            self.events.say(format!(
                "writes are held back for up to {wait:.0} s: earlier writes to the same blocks, \
                sent on a lost connection, may still be executed"
            ));
        }
        true
    }

    /// Time until which changes are in doubt.
    pub(crate) fn in_doubt_until(&self) -> Option<Nanos> {
        if !self.has_doubts() {
            return None;
        }
        self.state().doubts.iter().map(|doubt| doubt.until).max()
    }

    /// Drops doubts that have ended.
    pub(crate) fn look(&self, now: Nanos) {
        if self.has_doubts() {
            self.clear(now, |_| false);
        }
    }

    /// Records that a connection was lost with acknowledged changes that no flush had covered.
    /// `instance` is that of its target.
    #[cold]
    pub(crate) fn suspect(&self, instance: Option<u64>) {
        if planted(Plant::ReviveSilently) {
            return;
        }
        let mut state = self.state();
        state.suspected += 1;
        let number = state.suspected;
        state.suspicions.retain(|(known, _)| *known != instance);
        state.suspicions.push((instance, number));
        self.suspicious.store(true, ORDER);
    }

    /// Records that a connection to a target of this instance was opened.
    #[cold]
    pub(crate) fn meet(&self, instance: Option<u64>) {
        let mut state = self.state();
        let known = state.met.replace(instance);
        state.restarted |= known.is_some_and(|known| known.is_none() || known != instance);
    }

    /// Records that the owner has checked the data of the server with this instance.
    #[cold]
    pub(crate) fn look_at(&self, instance: Option<u64>) {
        self.state().looked_at = instance;
    }

    /// Whether a new connection has met another server than the owner has looked at.
    #[cold]
    pub(crate) fn is_exchanged(&self, instance: Option<u64>) -> bool {
        let known = self.state().looked_at.zip(instance);
        known.is_some_and(|(known, found)| known != found)
    }

    /// Suspicions so far.
    pub(crate) fn suspicions(&self) -> u64 {
        self.state().suspected
    }

    /// Resolves suspicions when a connection was opened, or has completed a flush: whether the
    /// target is the one that was lost, by its instance, or because the connection is older than
    /// the loss. `since` is the number of [`suspicions`](Self::suspicions) when the connection was
    /// opened, and `power_lost` the target's own report. Returns whether suspected losses turned
    /// out to be none.
    pub(crate) fn resolve(
        &self,
        instance: Option<u64>,
        power_lost: Option<bool>,
        since: u64,
    ) -> bool {
        if !self.suspicious.load(ORDER) {
            return false;
        }
        let suspicions = {
            let mut state = self.state();
            self.suspicious.store(false, ORDER);
            std::mem::take(&mut state.suspicions)
        };
        let is_same = |(known, number): &(Option<u64>, u64)| match (known, instance) {
            // A target reports its start to each new session, however long ago it was.
            (Some(known), Some(instance)) => *known == instance,
            _ => *number > since && power_lost != Some(true),
        };
        let is_lost = !suspicions.iter().all(is_same);
        if is_lost {
            let why = match (power_lost, instance) {
                (Some(true), _) => "reported a power loss",
                (_, Some(_)) => "was restarted",
                (_, None) => "does not report whether it was restarted",
            };
            self.lose(why);
        }
        !is_lost
    }

    /// Acknowledged changes may be lost.
    #[cold]
    pub(crate) fn lose(&self, why: &str) {
        self.losses.lose();
        self.events.say(format!(
            "its target {why}: acknowledged writes since the last flush may be lost, and the next \
            flush fails"
        ));
    }

    /// Events in which acknowledged changes may have been lost, and their reports.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Forgets losses: the owner has repaired all of them, or reports them. Returns whether there
    /// were any, or the target may be another than the one that acknowledged the last changes.
    pub(crate) fn forget(&self) -> bool {
        let mut state = self.state();
        let restarted = std::mem::take(&mut state.restarted);
        let losses = self.losses.count();
        // A flush of the owner may have reported the loss, and the owner reports to no client.
        let any = restarted || state.forgotten < losses;
        self.suspicious.store(false, ORDER);
        state.suspicions.clear();
        state.forgotten = losses;
        self.losses.tell(losses);
        any
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(100 + seconds)
    }

    #[test]
    fn a_change_in_doubt_holds_others_of_its_place_back_until_its_grace_is_over() {
        let past = Past::new(Nanos::from_secs(30));
        assert!(!past.has_doubts() && past.in_doubt_until().is_none() && past.oldest().is_none());
        assert_eq!(past.doubts(), 0);
        let own = past.doubt(at(0), 7, (4096, 8192), None);
        for (place, held) in
            [((0, 4096), false), ((0, 4097), true), ((8192, 512), true), ((12_288, 512), false)]
        {
            assert_eq!(past.holds(at(1), place, None), held, "{place:?}");
        }
        assert!(!past.holds(at(1), (4096, 8192), Some(own)), "the same again does no harm");
        assert_eq!((past.oldest(), past.in_doubt_until()), (Some(7), Some(at(30))));
        assert_eq!(past.news().len(), 1, "told once");
        past.look(at(30));
        assert_eq!(past.doubts(), 1, "also when it is over");
        assert!(!past.has_doubts() && !past.holds(at(30), (4096, 512), None));
        assert_eq!(past.news().len(), 1);
    }

    #[test]
    fn a_change_that_is_sent_again_and_lost_again_is_one_change_in_doubt() {
        let past = Past::new(Nanos::from_secs(30));
        let first = past.doubt(at(0), 7, (0, 512), None);
        let second = past.doubt(at(5), 7, (0, 512), Some(first));
        assert_eq!((first, past.in_doubt_until()), (second, Some(at(35))));
        let other = past.doubt(at(6), 8, (0, 512), Some(first));
        assert!(!past.holds(at(6), (0, 512), Some(other)));
        // Another change of the same range is independent.
        past.doubt(at(7), 7, (0, 512), None);
        assert!(past.holds(at(8), (0, 512), Some(first)));
    }

    #[test]
    fn a_target_that_says_so_ends_the_doubt_and_one_that_is_asked_prolongs_it() {
        let past = Past::new(SECOND);
        past.doubt(at(0), 7, (0, 512), None);
        past.doubt(at(0), 8, (4096, 512), None);
        past.asks(at(0), 7, true);
        past.look(at(50));
        assert!(past.holds(at(50), (0, 512), None), "the login tells");
        assert!(!past.holds(at(50), (4096, 512), None), "only time helps");
        past.asks(at(50), 7, false);
        let longest = at(50) + LONGEST_PAUSE;
        assert!(past.holds(longest, (0, 512), None), "asked again after a pause");
        past.ended(at(50), |name| name == 7);
        assert!(!past.has_doubts());
        past.doubt(at(60), 9, (0, 512), None);
        past.takes(|name| name == 9, Nanos::from_secs(40));
        assert_eq!(past.in_doubt_until(), Some(at(100)));
    }

    #[test]
    fn another_server_than_the_one_that_was_looked_at_is_noticed() {
        let past = Past::new(SECOND);
        assert!(!past.is_exchanged(Some(1)), "nobody has looked");
        past.look_at(Some(1));
        assert!(!past.is_exchanged(Some(1)) && past.is_exchanged(Some(2)));
        assert!(!past.is_exchanged(None), "it does not say");
        past.look_at(None);
        assert!(!past.is_exchanged(Some(2)), "nor did it");
    }

    #[test]
    fn what_no_flush_has_covered_is_told_when_the_target_was_restarted() {
        let past = Past::new(SECOND);
        past.suspect(Some(1));
        assert!(past.resolve(Some(1), None, 1));
        assert!(!past.resolve(Some(1), None, 1), "there is nothing left");
        past.suspect(None);
        assert!(past.resolve(None, None, 1), "a connection from before the loss still works");
        past.suspect(Some(1));
        assert!(past.resolve(Some(1), Some(true), 2), "each new session hears of the start");
        assert_eq!(past.losses().count(), 0, "it is the same target");
        for (known, found, power) in [
            (Some(1), Some(2), None),
            (Some(1), None, None),
            (None, None, None),
            (None, None, Some(true)),
        ] {
            let before = past.losses().count();
            past.suspect(known);
            past.resolve(found, power, past.suspicions());
            assert_eq!(past.losses().count(), before + 1, "{known:?} {found:?} {power:?}");
            past.resolve(found, power, past.suspicions());
            assert_eq!(past.losses().count(), before + 1, "once");
        }
        assert_eq!(past.losses().told(), 0);
        past.losses().tell(4);
        assert!(past.forget(), "the owner has not made them good");
        past.lose("fails");
        assert!(past.forget() && !past.forget());
        assert_eq!(past.losses().told(), past.losses().count());
    }
}
