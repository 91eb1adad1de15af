//! Ranges of a unit on which a command reads and writes in one action.
//!
//! All sessions of all cores that serve the unit share them. Only COMPARE AND WRITE, ORWRITE and a
//! Compare fused with a Write claim: a plain write neither asks nor waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ranges that are claimed now: offset and length. At most one for each command in flight.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Vec<(u64, u64)>>);

/// A claimed range, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Arc<Claims>,
    range: (u64, u64),
}

impl Claims {
    /// Claims a range; `None` while another claim overlaps it.
    pub(crate) fn claim(self: &Arc<Self>, offset: u64, len: u64) -> Option<Claim> {
        let mut ranges = self.lock();
        let overlaps = |other: &(u64, u64)| other.0 < offset + len && offset < other.0 + other.1;
        if ranges.iter().any(overlaps) {
            return None;
        }
        ranges.push((offset, len));
        Some(Claim { claims: Arc::clone(self), range: (offset, len) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        // The list is consistent between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut ranges = self.claims.lock();
        // No two claims overlap, so no two are equal.
        ranges.retain(|range| *range != self.range);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn claims_that_overlap_exclude_each_other() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim(1000, 10).unwrap();
        let before = claims.claim(990, 10).expect("ends where the other begins");
        let after = claims.claim(1010, 1).expect("begins where the other ends");
        for (offset, len) in [(1000, 10), (1009, 1), (999, 2), (0, 2000)] {
            assert!(claims.claim(offset, len).is_none(), "{offset} {len}");
        }
        drop(first);
        let again = claims.claim(1000, 10).expect("free again");
        drop((before, after, again));
        assert!(claims.lock().is_empty());
    }
}
