//! State that all lanes of a mirror share: which legs are in, and their events.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use block::Nanos;

use crate::Hidden;
use crate::events::Events;

/// Maximum number of legs.
pub(crate) const LEGS_MAX: usize = 16;
/// Maximum read errors of a leg before it fails: repairs cost more than the leg is worth.
const READ_ERRORS_MAX: u64 = 64;

/// The legs of a mirror, each by its number.
pub(super) struct Legs {
    names: Vec<String>,
    /// A bit for each that is in.
    in_it: AtomicU32,
    read_errors: Vec<AtomicU64>,
    repaired: AtomicU64,
    events: Events,
    patience: Nanos,
}

impl Legs {
    /// Creates the legs; `patience` is the maximum time for which a leg may leave an I/O
    /// unanswered.
    pub(super) fn new(names: Vec<String>, patience: Nanos) -> Legs {
        debug_assert!((1..=LEGS_MAX).contains(&names.len()));
        Legs {
            in_it: AtomicU32::new((1 << names.len()) - 1),
            read_errors: names.iter().map(|_| AtomicU64::new(0)).collect(),
            repaired: AtomicU64::new(0),
            events: Events::default(),
            patience,
            names,
        }
    }

    /// A bit for each leg that is in.
    pub(super) fn in_it(&self) -> u32 {
        self.in_it.load(Ordering::Acquire)
    }

    pub(super) fn has(&self, leg: usize) -> bool {
        self.in_it() & 1 << leg != 0
    }

    /// Fails a leg for good, before any write that it missed is acknowledged. The last leg stays:
    /// its answers are the mirror's. Returns whether the leg is out now.
    pub(super) fn leave(&self, leg: usize, why: impl FnOnce() -> String) -> bool {
        let without = |legs: u32| {
            let rest = legs & !(1 << leg);
            (legs & 1 << leg != 0 && rest != 0).then_some(rest)
        };
        let left = self.in_it.fetch_update(Ordering::AcqRel, Ordering::Acquire, without);
        if left.is_ok() {
            self.say(leg, &format!("left: {}", why()));
        }
        !self.has(leg)
    }

    /// Adds a line about a leg for the user.
    pub(super) fn say(&self, leg: usize, words: &str) {
        self.events.say(format!("mirror: leg {} ({}) {words}", leg + 1, self.names[leg]));
    }

    pub(super) fn patience(&self) -> Nanos {
        self.patience
    }

    /// Counts a read error; beyond the limit the leg fails.
    pub(super) fn read_failed(&self, leg: usize) {
        let before = self.read_errors[leg].fetch_add(1, Ordering::Relaxed);
        if before >= READ_ERRORS_MAX {
            self.leave(leg, || format!("more than {READ_ERRORS_MAX} read errors"));
        }
    }

    /// Counts a block that was repaired.
    pub(super) fn repaired(&self) {
        self.repaired.fetch_add(1, Ordering::Relaxed);
    }

    /// Events since the last call, a line each.
    pub(super) fn news(&self) -> Vec<String> {
        self.events.news()
    }

    /// Events so far, in a sentence; `None` without any.
    pub(super) fn words(&self) -> Option<String> {
        let mut said = self.events.all();
        said.extend(self.made_good());
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// Failed legs, and reads that other legs served.
    pub(super) fn hidden(&self) -> Vec<Hidden> {
        let said = self.events.all();
        let out = (0..self.names.len()).filter(|leg| !self.has(*leg)).map(|leg| {
            let leg = format!("mirror: leg {} ({}) left", leg + 1, self.names[leg]);
            let line = said.iter().find(|line| line.starts_with(&leg));
            Hidden::lasting(line.cloned().unwrap_or(leg))
        });
        out.chain(self.made_good().into_iter().map(Hidden::over)).collect()
    }

    /// Read errors that the mirror made good.
    fn made_good(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (leg, errors) in self.read_errors.iter().enumerate() {
            let errors = errors.load(Ordering::Relaxed);
            if errors > 0 {
                let name = &self.names[leg];
                said.push(format!("mirror: leg {} ({name}) had {errors} read errors", leg + 1));
            }
        }
        let repaired = self.repaired.load(Ordering::Relaxed);
        if repaired > 0 {
            said.push(format!("mirror: {repaired} reads were repaired from another leg"));
        }
        said
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_last_leg_stays() {
        let legs = Legs::new(vec!["ram:1m".into(), "file:b".into()], Nanos(0));
        assert_eq!((legs.words(), legs.hidden()), (None, Vec::new()));
        assert!(legs.leave(1, || "write failed: medium error".into()));
        assert!(legs.leave(1, || "again".into()), "it is out");
        assert!(!legs.leave(0, || "write failed".into()));
        assert!(legs.has(0) && !legs.has(1));
        let words = legs.words().unwrap();
        assert_eq!(words, "mirror: leg 2 (file:b) left: write failed: medium error");
        assert_eq!(legs.hidden(), [Hidden::lasting(words)]);
    }

    #[test]
    fn a_leg_with_too_many_read_errors_leaves() {
        let legs = Legs::new(vec!["a".into(), "b".into()], Nanos(0));
        (0..READ_ERRORS_MAX).for_each(|_| legs.read_failed(0));
        assert!(legs.has(0));
        legs.read_failed(0);
        assert!(!legs.has(0));
        assert!(legs.words().unwrap().contains("had 65 read errors"));
        assert_eq!(legs.hidden().iter().map(|one| one.lasts).collect::<Vec<_>>(), [true, false]);
    }
}
