//! State of a unit that all its sessions share, on whichever core.
//!
//! One word says whether there is anything to ask for: zero, and nothing binds anybody. It is read
//! once for each command. Everything else is behind a lock that only reservations in force take,
//! and of those only a session that has not asked since the last change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::conflict::{Class, class_of, needs_medium, writes};
use super::reservation::{
    Access, Effects, Keeper, Nexus, RecordError, Refusal, Reservations, ReserveOut,
};
use super::{Cdb, Sense};

/// Shared state of a unit.
#[derive(Debug, Default)]
pub(crate) struct UnitState {
    /// Zero, or the number of the last change of something that binds.
    word: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    reservations: Reservations,
    /// SWP of the Control mode page.
    protected: bool,
    /// The medium can be removed, and is: hosts find none.
    removable: bool,
    ejected: bool,
    /// Sessions that prevent its removal.
    preventing: BTreeSet<u32>,
    /// The server offers the volume no longer.
    gone: bool,
    changes: u64,
    /// Saves registrations and reservation, if they may outlive the server.
    keeper: Option<Arc<dyn Keeper>>,
}

/// The session of hosts that have none: a number that no connection has.
const NO_SESSION: u32 = u32::MAX;

/// Verdict on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything, and every other command, too, until the word changes.
    Free(u64),
    /// The command is allowed.
    Allowed,
    Refused(Refusal),
}

/// The work of a command over NVMe or NBD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Reads blocks.
    Read,
    /// Changes blocks.
    Write,
    /// Makes blocks durable, which write protection allows.
    Flush,
}

/// A change of whether the medium is there, or may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The session prevents its removal.
    Prevent,
    /// The session allows its removal again.
    Allow,
    /// Hosts find no medium from now on.
    Eject,
    /// The medium is present again.
    Load,
}

/// Why a host of another protocol may not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A reservation of another host is in force.
    Reserved,
    /// Software write protection is on.
    Protected,
    /// The medium is ejected.
    Ejected,
    /// The server offers the volume no longer.
    Gone,
}

impl UnitState {
    /// A unit with the state of a record, which a keeper saves from now on.
    pub(super) fn kept(
        keeper: Arc<dyn Keeper>,
        record: Option<&str>,
    ) -> Result<UnitState, RecordError> {
        let reservations = record.map(Reservations::of_record).transpose()?;
        let state = UnitState::default();
        state.change(|inner| {
            inner.reservations = reservations.unwrap_or_default();
            inner.keeper = Some(keeper);
        });
        Ok(state)
    }

    /// Whether registrations and reservation may outlive the server.
    pub(crate) fn may_persist(&self) -> bool {
        self.lock().keeper.is_some()
    }

    /// Zero if nothing binds anybody.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Whether a nexus may execute a command.
    #[cold]
    pub(crate) fn judge(&self, nexus: &Nexus, session: u32, cdb: &Cdb) -> Verdict {
        let inner = self.lock();
        if inner.gone {
            return Verdict::Refused(Refusal::Check(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
        }
        let access = inner.reservations.access(nexus, session);
        if access == Access::All && !inner.protected && !inner.ejected {
            return Verdict::Free(self.word());
        }
        if !access.allows(class_of(cdb)) {
            return Verdict::Refused(Refusal::Conflict);
        }
        if inner.ejected && needs_medium(cdb) {
            return Verdict::Refused(Refusal::Check(Sense::MEDIUM_NOT_PRESENT));
        }
        //= SPC-4 §Control mode page: with SWP the unit refuses all commands that change the medium.
        if inner.protected && writes(cdb) {
            return Verdict::Refused(Refusal::Check(Sense::SOFTWARE_WRITE_PROTECTED));
        }
        Verdict::Allowed
    }

    /// Judges a command of a host over NVMe. The result is the word, if the host may do everything
    /// until the word changes, and zero if only this is allowed.
    #[cold]
    pub(crate) fn judge_host(&self, host: &Nexus, deed: Deed) -> Result<u64, Bound> {
        let inner = self.lock();
        if inner.gone {
            return Err(Bound::Gone);
        }
        let access = inner.reservations.access(host, NO_SESSION);
        //= NVMe base §8.19.1: Flush is in the group of writes.
        let class = if deed == Deed::Read { Class::Look } else { Class::Change };
        match access {
            access if !access.allows(class) => Err(Bound::Reserved),
            _ if inner.ejected => Err(Bound::Ejected),
            _ if inner.protected && deed == Deed::Write => Err(Bound::Protected),
            Access::All if !inner.protected => Ok(self.word()),
            _ => Ok(0),
        }
    }

    /// Bond of a client over NBD, which cannot register, and so holds nothing.
    #[cold]
    pub(crate) fn outsider(&self, changes: bool) -> Option<Bound> {
        let deed = if changes { Deed::Write } else { Deed::Read };
        self.judge_host(&Nexus::Host([0; 16]), deed).err()
    }

    /// Reads the reservations.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Reservations) -> T) -> T {
        read(&self.lock().reservations)
    }

    /// PERSISTENT RESERVE OUT, or what NVMe has in its place.
    pub(crate) fn reserve(&self, nexus: &Nexus, out: &ReserveOut) -> Result<Effects, Refusal> {
        self.change_and_save(|inner| inner.reservations.change(nexus, out))
    }

    /// Sets whether registrations and reservation outlive the server, which has a keeper.
    pub(crate) fn set_persist(&self, persists: bool) -> Result<(), Refusal> {
        self.change_and_save(|inner| {
            inner.reservations.set_persist(persists);
            Ok(())
        })
    }

    /// Changes the reservations. If they persist, the change is saved, or else undone.
    fn change_and_save<T>(
        &self,
        change: impl FnOnce(&mut Inner) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.change(|inner| {
            let Some(keeper) = inner.keeper.clone() else {
                let result = change(inner);
                inner.reservations.set_persist(false);
                return result;
            };
            let before = inner.reservations.clone();
            let result = change(inner)?;
            let (old, new) = (before.record(), inner.reservations.record());
            if old != new && keeper.save(&new).is_err() {
                inner.reservations = before;
                return Err(Refusal::Check(Sense::INTERNAL_TARGET_FAILURE));
            }
            Ok(result)
        })
    }

    /// RESERVE (6), or RELEASE (6).
    pub(crate) fn legacy(&self, session: u32, reserve: bool) -> Result<(), Refusal> {
        self.change(|inner| match reserve {
            true => inner.reservations.reserve_legacy(session),
            false => inner.reservations.release_legacy(session),
        })
    }

    /// A session has ended, or with `None` the unit was reset: its SPC-2 reservation ends, and it
    /// prevents no removal of the medium.
    //= SPC-4 §PREVENT ALLOW MEDIUM REMOVAL command: it ends with the nexus, and with a reset.
    pub(crate) fn forget_session(&self, session: Option<u32>) {
        if self.word() != 0 {
            self.change(|inner| {
                inner.reservations.forget_legacy(session);
                inner.preventing.retain(|one| session.is_some_and(|gone| gone != *one));
            });
        }
    }

    /// Makes the medium removable.
    pub(super) fn make_removable(&self) {
        self.change(|inner| inner.removable = true);
    }

    /// Whether the medium can be removed.
    pub(crate) fn is_removable(&self) -> bool {
        self.lock().removable
    }

    /// Changes whether the medium is there. Returns whether it was loaded just now.
    //= SBC-4 §START STOP UNIT command: with LOEJ it is MEDIUM REMOVAL PREVENTED while that is so.
    pub(crate) fn change_medium(&self, session: u32, change: Medium) -> Result<bool, Refusal> {
        self.change(|inner| {
            match change {
                Medium::Prevent => {
                    inner.preventing.insert(session);
                }
                Medium::Allow => {
                    inner.preventing.remove(&session);
                }
                Medium::Eject | Medium::Load if !inner.preventing.is_empty() => {
                    return Err(Refusal::Check(Sense::MEDIUM_REMOVAL_PREVENTED));
                }
                Medium::Eject => inner.ejected = true,
                Medium::Load => return Ok(std::mem::replace(&mut inner.ejected, false)),
            }
            Ok(false)
        })
    }

    /// Whether software write protection is on.
    pub(crate) fn is_protected(&self) -> bool {
        self.lock().protected
    }

    /// Sets software write protection. Returns whether it changed.
    pub(crate) fn protect(&self, protected: bool) -> bool {
        self.change(|inner| std::mem::replace(&mut inner.protected, protected) != protected)
    }

    /// Whether the server offers the volume no longer. One relaxed load if nothing binds anybody.
    #[inline(always)]
    pub(crate) fn is_gone(&self) -> bool {
        self.word() != 0 && self.lock().gone
    }

    /// Refuses commands from now on: the server offers the volume no longer.
    pub(crate) fn withdraw(&self) {
        self.change(|inner| inner.gone = true);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner);
        inner.changes += 1;
        let removal = inner.ejected || !inner.preventing.is_empty();
        let binds = !inner.reservations.are_none() || inner.protected || inner.gone || removal;
        self.word.store(if binds { inner.changes } else { 0 }, Ordering::Release);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A change of the state has no step that may panic halfway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod test {
    use std::sync::atomic::AtomicBool;

    use super::super::reservation::{Action, Kind, NotSaved};
    use super::*;

    fn nexus(number: u8) -> Nexus {
        Nexus::Port { name: format!("iqn.2026-01.test:{number}"), isid: [number; 6] }
    }

    #[test]
    fn the_word_is_zero_unless_something_binds() {
        let state = UnitState::default();
        let out = |action, service_key| ReserveOut {
            action,
            kind: Some(Kind::WriteExclusive),
            key: 7,
            service_key,
            persist: None,
        };
        let register = out(Action::Register { ignore: true }, 7);
        state.reserve(&nexus(1), &register).unwrap();
        assert_eq!(state.word(), 0, "a registration binds nobody");
        state.reserve(&nexus(1), &out(Action::Reserve, 0)).unwrap();
        let word = state.word();
        assert_ne!(word, 0);
        let (read, write) = ([0x28; 16], [0x2a; 16]);
        assert_eq!(state.judge(&nexus(1), 1, &write), Verdict::Free(word));
        assert_eq!(state.judge(&nexus(2), 2, &read), Verdict::Allowed);
        let conflict = Verdict::Refused(Refusal::Conflict);
        assert_eq!(state.judge(&nexus(2), 2, &write), conflict);
        state.reserve(&nexus(1), &out(Action::Release, 0)).unwrap();
        assert_eq!(state.word(), 0);
        assert!(state.protect(true) && !state.protect(true));
        let protected = Verdict::Refused(Refusal::Check(Sense::SOFTWARE_WRITE_PROTECTED));
        assert_eq!(state.judge(&nexus(1), 1, &write), protected);
        assert_eq!(state.judge(&nexus(1), 1, &read), Verdict::Allowed);
        assert!(state.protect(false));
        assert_eq!(state.word(), 0);
    }

    #[test]
    fn hosts_of_other_protocols_are_bound_like_those_that_never_registered() {
        for (kind, reads) in [
            (Kind::WriteExclusive, true),
            (Kind::ExclusiveAccess, false),
            (Kind::WriteExclusiveRegistrantsOnly, true),
            (Kind::ExclusiveAccessRegistrantsOnly, false),
            (Kind::WriteExclusiveAllRegistrants, true),
            (Kind::ExclusiveAccessAllRegistrants, false),
        ] {
            let state = UnitState::default();
            let out = |action| {
                let (key, service_key, persist) = (7, 7, None);
                ReserveOut { action, kind: Some(kind), key, service_key, persist }
            };
            state.reserve(&nexus(1), &out(Action::Register { ignore: true })).unwrap();
            assert_eq!(state.outsider(true), None);
            state.reserve(&nexus(1), &out(Action::Reserve)).unwrap();
            assert_eq!(state.outsider(true), Some(Bound::Reserved), "{kind:?}");
            assert_eq!(state.outsider(false).is_none(), reads, "{kind:?}");
        }
        let state = UnitState::default();
        state.legacy(5, true).unwrap();
        assert_eq!([true, false].map(|it| state.outsider(it)), [Some(Bound::Reserved); 2]);
        state.forget_session(None);
        state.protect(true);
        assert_eq!((state.outsider(true), state.outsider(false)), (Some(Bound::Protected), None));
    }

    /// A keeper in memory, which fails while told to.
    #[derive(Debug, Default)]
    struct Shelf {
        record: Mutex<Option<String>>,
        saves: AtomicU64,
        fails: AtomicBool,
    }

    impl Keeper for Shelf {
        fn save(&self, record: &str) -> Result<(), NotSaved> {
            if self.fails.load(Ordering::Relaxed) {
                return Err(NotSaved);
            }
            self.saves.fetch_add(1, Ordering::Relaxed);
            *self.record.lock().unwrap() = Some(record.to_owned());
            Ok(())
        }
    }

    #[test]
    fn reservations_outlive_the_server_if_a_host_says_so() {
        let shelf = Arc::new(Shelf::default());
        let start = || {
            let record = shelf.record.lock().unwrap().clone();
            UnitState::kept(Arc::clone(&shelf) as Arc<dyn Keeper>, record.as_deref()).unwrap()
        };
        let out = |action, persist| {
            let (kind, key, service_key) = (Some(Kind::WriteExclusive), 7, 7);
            ReserveOut { action, kind, key, service_key, persist }
        };
        let register = |persist| out(Action::Register { ignore: true }, persist);
        let saves = || shelf.saves.load(Ordering::Relaxed);
        let state = start();
        state.reserve(&nexus(1), &register(Some(false))).unwrap();
        state.reserve(&nexus(1), &out(Action::Reserve, None)).unwrap();
        assert_eq!((saves(), start().word()), (0, 0), "nobody has asked for it");
        state.reserve(&nexus(1), &register(Some(true))).unwrap();
        assert_eq!(saves(), 1);
        let again = start();
        let conflict = Verdict::Refused(Refusal::Conflict);
        assert_eq!(again.judge(&nexus(2), 2, &[0x2a; 16]), conflict);
        assert!(matches!(again.judge(&nexus(1), 1, &[0x2a; 16]), Verdict::Free(_)));
        again.reserve(&nexus(2), &register(None)).unwrap();
        assert_eq!((saves(), again.read(|it| it.list().count())), (2, 2));
        // Without a place to save it, a change does not happen.
        shelf.fails.store(true, Ordering::Relaxed);
        let failure = Err(Refusal::Check(Sense::INTERNAL_TARGET_FAILURE));
        assert_eq!(again.reserve(&nexus(1), &out(Action::Clear, None)), failure);
        assert_eq!(again.read(|it| it.list().count()), 2);
        shelf.fails.store(false, Ordering::Relaxed);
        again.set_persist(false).unwrap();
        assert_eq!(start().read(|it| it.list().count()), 0);
        again.reserve(&nexus(1), &out(Action::Clear, None)).unwrap();
        assert_eq!(saves(), 3, "what does not persist is not saved");
        let damaged = UnitState::kept(Arc::clone(&shelf) as Arc<dyn Keeper>, Some("?"));
        assert_eq!(damaged.unwrap_err().line, 1);
    }

    #[test]
    fn a_medium_is_ejected_unless_a_session_prevents_it() {
        let state = UnitState::default();
        state.make_removable();
        assert!(state.is_removable() && state.word() == 0);
        let prevented = Err(Refusal::Check(Sense::MEDIUM_REMOVAL_PREVENTED));
        for session in [1, 2] {
            assert_eq!(state.change_medium(session, Medium::Prevent), Ok(false));
        }
        assert_eq!(state.change_medium(1, Medium::Allow), Ok(false));
        assert_eq!(state.change_medium(1, Medium::Eject), prevented, "the other one prevents it");
        state.forget_session(Some(2));
        assert_eq!((state.word(), state.change_medium(1, Medium::Eject)), (0, Ok(false)));
        let judge = |code: u8| state.judge(&nexus(1), 1, &[code; 16]);
        let absent = Verdict::Refused(Refusal::Check(Sense::MEDIUM_NOT_PRESENT));
        assert_eq!([0x00, 0x25, 0x28, 0x2a, 0x35, 0x9e].map(judge), [absent; 6]);
        assert_eq!([0x03, 0x12, 0x1a, 0x1b, 0x1e, 0x5e].map(judge), [Verdict::Allowed; 6]);
        assert_eq!(state.outsider(false), Some(Bound::Ejected));
        state.change_medium(2, Medium::Prevent).unwrap();
        assert_eq!(state.change_medium(3, Medium::Load), prevented);
        state.change_medium(2, Medium::Allow).unwrap();
        assert_eq!(state.change_medium(3, Medium::Load), Ok(true));
        assert_eq!((state.change_medium(3, Medium::Load), state.word()), (Ok(false), 0));
        state.change_medium(1, Medium::Prevent).unwrap();
        state.forget_session(None);
        assert_eq!(state.change_medium(3, Medium::Eject), Ok(false), "a reset allows it");
    }

    #[test]
    fn an_spc_2_reservation_ends_with_its_session() {
        let state = UnitState::default();
        state.legacy(5, true).unwrap();
        assert_eq!(state.legacy(6, true), Err(Refusal::Conflict));
        assert_eq!(state.legacy(6, false), Ok(()), "which releases nothing");
        let judge = |session, code| state.judge(&nexus(1), session, &[code; 16]);
        assert!(matches!(judge(5, 0x2a), Verdict::Free(_)));
        let refused = Verdict::Refused(Refusal::Conflict);
        assert_eq!([0x00, 0x1a, 0x28, 0x5e].map(|code| judge(6, code)), [refused; 4]);
        assert_eq!([0x03, 0x12, 0xa0].map(|code| judge(6, code)), [Verdict::Allowed; 3]);
        state.forget_session(Some(6));
        assert_ne!(state.word(), 0);
        state.forget_session(Some(5));
        assert_eq!(state.word(), 0);
    }
}
