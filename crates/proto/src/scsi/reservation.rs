//! Reservations of a logical unit: who may do what, and who hears of a change.
//!
//! A state machine without I/O or locks; `state` shares one for all sessions of a unit, and
//! `reserve_in` and `reserve_out` are its commands. Registrations and persistent reservations
//! outlive sessions. They outlive the server, too, if a host asks for it and a [`Keeper`] saves
//! them, as a `record`.

use super::Sense;
use super::conflict::Class;

#[cfg(test)]
mod model;
mod record;
#[cfg(test)]
mod test;

pub use self::record::RecordError;

/// Saves the registrations and the reservation of a unit.
pub trait Keeper: Send + Sync + std::fmt::Debug {
    /// Saves a record in place of the one before. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// The record before is still there. The keeper has told the user.
    fn save(&self, record: &str) -> Result<(), NotSaved>;
}

/// A record was not saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reservations were not saved")]
pub struct NotSaved;

/// A party that registers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nexus {
    /// An initiator port over iSCSI as a target port sees it. There is one target port for each
    /// target.
    Port {
        /// Name of the initiator, in lower case.
        name: String,
        /// The initiator's part of the session identifier.
        isid: [u8; 6],
    },
    /// A host over NVMe: the host identifier of its controllers. Zero is no host's.
    Host([u8; 16]),
}

/// Type of a persistent reservation.
//= SPC-4 §Persistent reservations type: the six that are not obsolete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // The names are those of the table.
pub enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrantsOnly = 5,
    ExclusiveAccessRegistrantsOnly = 6,
    WriteExclusiveAllRegistrants = 7,
    ExclusiveAccessAllRegistrants = 8,
}

/// A service action of PERSISTENT RESERVE OUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// REGISTER, or REGISTER AND IGNORE EXISTING KEY.
    Register {
        /// Whatever key is registered.
        ignore: bool,
    },
    /// Reservation Register of NVMe, with the action Register: another key is a conflict.
    Join,
    /// Reservation Register with the action Unregister.
    Leave {
        /// Whatever key is registered.
        ignore: bool,
    },
    /// Reservation Register with the action Replace.
    Replace {
        /// Whatever key is registered, even none.
        ignore: bool,
    },
    /// RESERVE.
    Reserve,
    /// RELEASE.
    Release,
    /// CLEAR.
    Clear,
    /// PREEMPT, or PREEMPT AND ABORT.
    Preempt {
        /// Commands of those who are preempted end.
        abort: bool,
    },
}

/// A PERSISTENT RESERVE OUT command with its parameter list, or what NVMe has in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveOut {
    /// Service action.
    pub action: Action,
    /// Type, if it is a valid one.
    pub kind: Option<Kind>,
    /// RESERVATION KEY.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY; NVMe: NRKEY or PRKEY.
    pub service_key: u64,
    /// APTPL, or CPTPL: whether registrations and reservation outlive the server from now on.
    pub persist: Option<bool>,
}

/// Consequences for others of a command that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Unit attentions.
    pub attentions: Vec<(Nexus, Sense)>,
    /// Sessions whose commands end.
    pub aborted: Vec<Nexus>,
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Status RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION with this sense data.
    Check(Sense),
}

/// The rights of a nexus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// All commands.
    All,
    /// Commands that neither read nor change blocks, or also those that read.
    Some { reads: bool },
    /// The few commands that an SPC-2 reservation of another session allows.
    Few,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Registration {
    nexus: Nexus,
    key: u64,
}

/// A persistent reservation. The holder of a type for all registrants is of no interest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    kind: Kind,
    holder: Nexus,
}

/// Registrations and reservations of a unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    registrations: Vec<Registration>,
    held: Option<Held>,
    /// The session with an SPC-2 reservation.
    legacy: Option<u32>,
    generation: u32,
    /// PTPL_A: registrations and reservation outlive the server.
    persists: bool,
}

/// Maximum number of registrations of a unit.
pub(super) const REGISTRATIONS_MAX: usize = 256;

const INVALID_TYPE: Refusal = Refusal::Check(Sense::cdb_field(2));

impl Kind {
    /// The type with this code.
    pub(super) fn of_code(code: u8) -> Option<Kind> {
        use Kind::*;
        let all = [
            WriteExclusive,
            ExclusiveAccess,
            WriteExclusiveRegistrantsOnly,
            ExclusiveAccessRegistrantsOnly,
            WriteExclusiveAllRegistrants,
            ExclusiveAccessAllRegistrants,
        ];
        all.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Whether every registrant holds it.
    fn is_of_all(self) -> bool {
        matches!(self, Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants)
    }

    /// Whether every registrant has access.
    fn admits_registrants(self) -> bool {
        !matches!(self, Kind::WriteExclusive | Kind::ExclusiveAccess)
    }

    fn allows_reads(self) -> bool {
        use Kind::*;
        matches!(
            self,
            WriteExclusive | WriteExclusiveRegistrantsOnly | WriteExclusiveAllRegistrants
        )
    }
}

impl Reservations {
    /// Whether every session may use every command.
    pub(crate) fn are_none(&self) -> bool {
        self.held.is_none() && self.legacy.is_none()
    }

    /// PRGENERATION.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// PTPL_A.
    pub(crate) fn persist(&self) -> bool {
        self.persists
    }

    /// Sets PTPL_A.
    pub(crate) fn set_persist(&mut self, persists: bool) {
        self.persists = persists;
    }

    /// Each registration: its nexus, its key, and whether it holds the reservation.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&Nexus, u64, bool)> {
        self.registrations.iter().map(|it| (&it.nexus, it.key, self.holds(&it.nexus)))
    }

    /// Type and key of the persistent reservation.
    pub(crate) fn held(&self) -> Option<(Kind, u64)> {
        let held = self.held.as_ref()?;
        //= SPC-4 §READ RESERVATION: the key is zero for all registrants.
        let key = if held.kind.is_of_all() { None } else { self.key_of(&held.holder) };
        Some((held.kind, key.unwrap_or(0)))
    }

    /// Rights of a nexus and its session.
    pub(crate) fn access(&self, nexus: &Nexus, session: u32) -> Access {
        if self.legacy.is_some_and(|holder| holder != session) {
            return Access::Few;
        }
        let Some(held) = &self.held else { return Access::All };
        let admitted = held.kind.admits_registrants() && self.key_of(nexus).is_some();
        if admitted || self.holds(nexus) {
            return Access::All;
        }
        Access::Some { reads: held.kind.allows_reads() }
    }

    fn key_of(&self, nexus: &Nexus) -> Option<u64> {
        self.registrations.iter().find(|it| it.nexus == *nexus).map(|it| it.key)
    }

    fn holds(&self, nexus: &Nexus) -> bool {
        self.held.as_ref().is_some_and(|held| match held.kind.is_of_all() {
            true => self.key_of(nexus).is_some(),
            false => held.holder == *nexus,
        })
    }

    /// RESERVE (6).
    //= SPC-2 §RESERVE (6) command: it conflicts while there is any registration.
    pub(crate) fn reserve_legacy(&mut self, session: u32) -> Result<(), Refusal> {
        let other = self.legacy.is_some_and(|holder| holder != session);
        if other || !self.registrations.is_empty() {
            return Err(Refusal::Conflict);
        }
        self.legacy = Some(session);
        Ok(())
    }

    /// RELEASE (6). Without a reservation of that session nothing happens.
    pub(crate) fn release_legacy(&mut self, session: u32) -> Result<(), Refusal> {
        if !self.registrations.is_empty() {
            return Err(Refusal::Conflict);
        }
        self.forget_legacy(Some(session));
        Ok(())
    }

    /// The SPC-2 reservation ends with its session, and with a reset of the unit.
    pub(crate) fn forget_legacy(&mut self, session: Option<u32>) {
        if session.is_none() || self.legacy == session {
            self.legacy = None;
        }
    }

    /// PERSISTENT RESERVE OUT, and Reservation Register, Acquire and Release.
    pub(crate) fn change(&mut self, nexus: &Nexus, out: &ReserveOut) -> Result<Effects, Refusal> {
        let key = self.key_of(nexus);
        if self.legacy.is_some() {
            return Err(Refusal::Conflict);
        }
        let fits = match out.action {
            //= SPC-4 §Registering: a nexus that is not registered has the key zero.
            Action::Register { ignore } => ignore || key.unwrap_or(0) == out.key,
            //= NVMe base §8.19.3: a registrant may register only the key that it has.
            Action::Join => key.is_none_or(|key| key == out.service_key),
            Action::Leave { ignore } => key.is_some() && (ignore || key == Some(out.key)),
            Action::Replace { ignore } => ignore || key == Some(out.key),
            _ => key == Some(out.key),
        };
        if !fits {
            return Err(Refusal::Conflict);
        }
        let persists = out.persist.unwrap_or(self.persists);
        let effects = self.carry_out(nexus, out)?;
        //= SPC-4 §PERSISTENT RESERVE OUT parameter list: the last APTPL that was accepted counts.
        self.persists = persists;
        Ok(effects)
    }

    fn carry_out(&mut self, nexus: &Nexus, out: &ReserveOut) -> Result<Effects, Refusal> {
        match out.action {
            Action::Register { .. } | Action::Join | Action::Replace { .. } => {
                self.register(nexus, out.service_key)
            }
            Action::Leave { .. } => self.register(nexus, 0),
            Action::Reserve => self.reserve(nexus, out.kind),
            Action::Release => self.release(nexus, out.kind),
            Action::Clear => Ok(self.clear(nexus)),
            Action::Preempt { abort } => {
                let mut effects = self.preempt(nexus, out)?;
                effects.aborted.retain(|_| abort);
                Ok(effects)
            }
        }
    }

    fn register(&mut self, nexus: &Nexus, key: u64) -> Result<Effects, Refusal> {
        let mut effects = Effects::default();
        let at = self.registrations.iter().position(|it| it.nexus == *nexus);
        match (at, key) {
            (None, 0) => return Ok(effects),
            (None, _) if self.registrations.len() >= REGISTRATIONS_MAX => {
                return Err(Refusal::Check(Sense::INSUFFICIENT_REGISTRATION_RESOURCES));
            }
            (None, _) => self.registrations.push(Registration { nexus: nexus.clone(), key }),
            (Some(at), 0) => {
                let held = self.holds(nexus);
                self.registrations.remove(at);
                if held {
                    effects = self.holder_left();
                }
            }
            (Some(at), _) => self.registrations[at].key = key,
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(effects)
    }

    /// A holder is registered no longer.
    //= SPC-4 §Unregistering: the reservation ends, for all registrants with the last of them.
    fn holder_left(&mut self) -> Effects {
        let kind = self.held.as_ref().map(|held| held.kind);
        if kind.is_some_and(Kind::is_of_all) && !self.registrations.is_empty() {
            return Effects::default();
        }
        self.held = None;
        let told = kind.is_some_and(Kind::admits_registrants);
        if told {
            self.tell_all_but(None, Sense::RESERVATIONS_RELEASED)
        } else {
            Effects::default()
        }
    }

    fn reserve(&mut self, nexus: &Nexus, kind: Option<Kind>) -> Result<Effects, Refusal> {
        let kind = kind.ok_or(INVALID_TYPE)?;
        match &self.held {
            //= SPC-4 §Reserving: the holder may repeat the command, and nobody may change it.
            Some(held) if held.kind != kind || !self.holds(nexus) => Err(Refusal::Conflict),
            Some(_) => Ok(Effects::default()),
            None => {
                self.held = Some(Held { kind, holder: nexus.clone() });
                Ok(Effects::default())
            }
        }
    }

    fn release(&mut self, nexus: &Nexus, kind: Option<Kind>) -> Result<Effects, Refusal> {
        //= SPC-4 §Releasing: one who holds nothing releases nothing, which is no error.
        let Some(held) = self.held.as_ref().filter(|_| self.holds(nexus)) else {
            return Ok(Effects::default());
        };
        if Some(held.kind) != kind {
            return Err(Refusal::Check(Sense::INVALID_RELEASE));
        }
        let told = held.kind.admits_registrants();
        self.held = None;
        let told = told.then(|| self.tell_all_but(Some(nexus), Sense::RESERVATIONS_RELEASED));
        Ok(told.unwrap_or_default())
    }

    fn clear(&mut self, nexus: &Nexus) -> Effects {
        let effects = self.tell_all_but(Some(nexus), Sense::RESERVATIONS_PREEMPTED);
        self.held = None;
        self.registrations.clear();
        self.generation = self.generation.wrapping_add(1);
        effects
    }

    fn preempt(&mut self, nexus: &Nexus, out: &ReserveOut) -> Result<Effects, Refusal> {
        let (victim, of_all) = match &self.held {
            Some(held) => (self.key_of(&held.holder), held.kind.is_of_all()),
            None => (None, false),
        };
        //= SPC-4 §Preempting: zero means all registrants where they hold the reservation.
        let takes = if of_all { out.service_key == 0 } else { victim == Some(out.service_key) };
        if !takes && out.service_key == 0 {
            return Err(Refusal::Check(Sense::parameter_field(8)));
        }
        let kind = if takes { Some(out.kind.ok_or(INVALID_TYPE)?) } else { None };
        let fits = |it: &Registration| of_all && takes || it.key == out.service_key;
        let removed: Vec<Nexus> =
            self.registrations.iter().filter(|it| fits(it)).map(|it| it.nexus.clone()).collect();
        //= SPC-4 §Removing registrations: a key that nobody has registered is a conflict.
        if removed.is_empty() {
            return Err(Refusal::Conflict);
        }
        let keeps = |it: &Registration| !removed.contains(&it.nexus) || takes && it.nexus == *nexus;
        self.registrations.retain(keeps);
        let others = removed.iter().filter(|it| *it != nexus).cloned();
        let aborted: Vec<Nexus> = others.collect();
        let told = |it: &Nexus| (it.clone(), Sense::REGISTRATIONS_PREEMPTED);
        let mut effects = Effects { attentions: aborted.iter().map(told).collect(), aborted };
        match kind {
            Some(kind) => {
                let before = self.held.replace(Held { kind, holder: nexus.clone() });
                //= SPC-4 §Preempting: registrants that are left hear of another type.
                if before.is_some_and(|before| before.kind != kind) {
                    let told = self.tell_all_but(Some(nexus), Sense::RESERVATIONS_RELEASED);
                    effects.attentions.extend(told.attentions);
                }
            }
            None if self.registrations.is_empty() => self.held = None,
            None => {}
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(effects)
    }

    fn tell_all_but(&self, nexus: Option<&Nexus>, sense: Sense) -> Effects {
        let others = self.registrations.iter().filter(|it| Some(&it.nexus) != nexus);
        let attentions = others.map(|it| (it.nexus.clone(), sense)).collect();
        Effects { attentions, aborted: Vec::new() }
    }
}

impl Access {
    /// Whether commands of this class are allowed.
    pub(crate) fn allows(self, class: Class) -> bool {
        match (self, class) {
            (Access::All, _) | (_, Class::Free) => true,
            (Access::Some { .. }, Class::Status) => true,
            (Access::Some { reads }, Class::Look) => reads,
            (Access::Some { .. }, Class::Change) | (Access::Few, _) => false,
        }
    }
}
