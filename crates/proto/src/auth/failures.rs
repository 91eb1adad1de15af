//! Wrong proofs, whose refusals come later and later.
//!
//! Only refusals wait: whoever knows the secret is let in at once, whatever others try.

use std::collections::BTreeMap;

use block::Nanos;

/// Refusals that come at once: a host may try its secrets in turn, or have a typing error.
const AT_ONCE: u32 = 5;
/// The first delay, and the longest one; each failure doubles it.
const FIRST: Nanos = Nanos::from_millis(500);
const LONGEST: Nanos = Nanos::from_secs(8);
/// Failures are forgotten when there was none for this long.
const FORGOTTEN: Nanos = Nanos::from_secs(60);

/// Failed proofs for each target. A wrong user is counted like a wrong secret: one that guesses
/// may call itself anything.
#[derive(Debug, Default)]
pub(crate) struct Failures(BTreeMap<String, Failed>);

#[derive(Clone, Copy, Debug, Default)]
struct Failed {
    count: u32,
    last: Nanos,
}

impl Failures {
    /// Counts a failure, and returns for how long its refusal is held back. `target` is one that
    /// is served: the list is as long as that of the targets.
    pub(crate) fn note(&mut self, target: &str, now: Nanos) -> Nanos {
        let failed = self.0.entry(target.to_owned()).or_default();
        if now.since(failed.last) >= FORGOTTEN {
            failed.count = 0;
        }
        failed.count = failed.count.saturating_add(1);
        failed.last = now.max(failed.last);
        match failed.count.checked_sub(AT_ONCE + 1) {
            None => Nanos(0),
            Some(beyond) => Nanos(FIRST.0 << beyond.min(8)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn delays_begin_after_several_failures_and_are_forgotten() {
        let mut failures = Failures::default();
        let at = Nanos::from_secs;
        let mut ms = |target: &str, now| failures.note(target, now).0 / 1_000_000;
        let delays: Vec<u64> = (0..12).map(|_| ms("a", at(1000))).collect();
        assert_eq!(delays, [0, 0, 0, 0, 0, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(ms("b", at(1000)), 0, "another target");
        for _ in 0..100 {
            assert_eq!(ms("a", at(1059)), 8000);
        }
        assert_eq!(ms("a", at(1118)), 8000);
        assert_eq!(ms("a", at(1178)), 0);
        // Clocks of cores may differ a little.
        assert_eq!(ms("a", at(1177)), 0);
    }
}
