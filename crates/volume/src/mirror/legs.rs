//! What all lanes of a mirror share: which legs are in it, and what became of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Most legs of a mirror.
pub(crate) const LEGS_MAX: usize = 16;
/// A leg with more read errors than this leaves: it is not worth its repairs.
const READ_ERRORS_MAX: u64 = 64;

/// The legs of a mirror, each by its number.
pub(super) struct Legs {
    names: Vec<String>,
    /// A bit for each that is in.
    in_it: AtomicU32,
    read_errors: Vec<AtomicU64>,
    repaired: AtomicU64,
    /// Who left, and why, in the order in which they did.
    left: Mutex<Vec<(usize, String)>>,
    /// How many of those were asked for as news.
    told: AtomicUsize,
}

impl Legs {
    pub(super) fn new(names: Vec<String>) -> Legs {
        debug_assert!((1..=LEGS_MAX).contains(&names.len()));
        Legs {
            in_it: AtomicU32::new((1 << names.len()) - 1),
            read_errors: names.iter().map(|_| AtomicU64::new(0)).collect(),
            repaired: AtomicU64::new(0),
            left: Mutex::new(Vec::new()),
            told: AtomicUsize::new(0),
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

    /// Takes a leg out for good, before anyone is told that a write it missed is done. The last one
    /// stays: what it says is what the mirror says. Whether the leg is out now.
    pub(super) fn leave(&self, leg: usize, why: impl FnOnce() -> String) -> bool {
        let without = |legs: u32| {
            let rest = legs & !(1 << leg);
            (legs & 1 << leg != 0 && rest != 0).then_some(rest)
        };
        let left = self.in_it.fetch_update(Ordering::AcqRel, Ordering::Acquire, without);
        if left.is_ok() {
            let mut all = self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            all.push((leg, why()));
        }
        !self.has(leg)
    }

    /// Counts a read error; one too many, and the leg leaves.
    pub(super) fn read_failed(&self, leg: usize) {
        let before = self.read_errors[leg].fetch_add(1, Ordering::Relaxed);
        if before >= READ_ERRORS_MAX {
            self.leave(leg, || format!("more than {READ_ERRORS_MAX} read errors"));
        }
    }

    /// Counts a block that was written back where it could not be read.
    pub(super) fn repaired(&self) {
        self.repaired.fetch_add(1, Ordering::Relaxed);
    }

    /// A line for each that left, but for the first so many.
    fn left_since(&self, told: usize) -> Vec<String> {
        let left = self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        left.iter()
            .skip(told)
            .map(|(leg, why)| format!("mirror: leg {} ({}) left: {why}", leg + 1, self.names[*leg]))
            .collect()
    }

    /// The same for those that left since this was last asked.
    pub(super) fn news(&self) -> Vec<String> {
        let news = self.left_since(self.told.load(Ordering::Relaxed));
        self.told.fetch_add(news.len(), Ordering::Relaxed);
        news
    }

    /// What happened so far, in a sentence; `None` if nothing did.
    pub(super) fn words(&self) -> Option<String> {
        let mut said = self.left_since(0);
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
        (!said.is_empty()).then(|| said.join("; "))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_last_leg_stays() {
        let legs = Legs::new(vec!["ram:1m".into(), "file:b".into()]);
        assert_eq!(legs.words(), None);
        assert!(legs.leave(1, || "write failed: medium error".into()));
        assert!(legs.leave(1, || "again".into()), "it is out");
        assert!(!legs.leave(0, || "write failed".into()));
        assert!(legs.has(0) && !legs.has(1));
        let words = legs.words().unwrap();
        assert_eq!(words, "mirror: leg 2 (file:b) left: write failed: medium error");
    }

    #[test]
    fn a_leg_with_too_many_read_errors_leaves() {
        let legs = Legs::new(vec!["a".into(), "b".into()]);
        (0..READ_ERRORS_MAX).for_each(|_| legs.read_failed(0));
        assert!(legs.has(0));
        legs.read_failed(0);
        assert!(!legs.has(0));
        assert!(legs.words().unwrap().contains("had 65 read errors"));
    }
}
