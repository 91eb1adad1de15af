//! Claims on granules order overlapping writes of several lanes, without a lock and without a call
//! into another core.
//!
//! A lane claims the granules of a write before it sends anything to a leg; if another lane has
//! one, the lane retries later. Writes of one lane share its claim; the lane itself prevents
//! overlaps among them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a granule.
pub(super) const GRANULE_BYTES: u64 = 64 << 10;
/// Maximum number of entries: granules further apart than that share one.
const PLACES_MAX: u64 = 1 << 14;

/// One word per granule: its owner, the owner's writes in flight, and whether another lane is
/// waiting for it.
pub(crate) struct Claims {
    places: Box<[AtomicU64]>,
}

#[derive(Clone, Copy)]
struct Word {
    /// 0 if unowned; then the other fields are 0, too.
    owner: u16,
    wanted: bool,
    count: u32,
}

impl Word {
    const FREE: Word = Word { owner: 0, wanted: false, count: 0 };

    fn of(word: u64) -> Word {
        Word { owner: (word >> 48) as u16, wanted: word >> 32 & 1 != 0, count: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.owner) << 48 | u64::from(self.wanted) << 32 | u64::from(self.count)
    }
}

/// The entries of a range, each once, in ascending order.
fn places(offset: u64, len: u64, count: u64) -> impl DoubleEndedIterator<Item = u64> {
    let (first, last) = (offset / GRANULE_BYTES, (offset + len.max(1) - 1) / GRANULE_BYTES);
    let (from, wide) = (first % count, last - first + 1);
    // A range beyond the end of the table wraps around.
    let around = (from + wide).saturating_sub(count).min(count);
    let (low, high) =
        if wide >= count { (0..count, 0..0) } else { (0..around, from..from + wide - around) };
    low.chain(high)
}

impl Claims {
    /// Creates the claims of a volume of `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Claims {
        let count = bytes.div_ceil(GRANULE_BYTES).clamp(1, PLACES_MAX);
        Claims { places: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Claims all granules of a range for `lane`, which is not 0; none if one is taken.
    pub(crate) fn claim(&self, lane: u16, offset: u64, len: u64) -> bool {
        let count = self.places.len() as u64;
        for (claimed, place) in places(offset, len, count).enumerate() {
            if !self.claim_place(place, lane) {
                places(offset, len, count).take(claimed).for_each(|place| {
                    self.leave(place, lane);
                });
                return false;
            }
        }
        true
    }

    /// Releases the granules of a [`claim`](Self::claim). True if another lane is waiting for any
    /// of these granules: this lane must then let the other lane try before it claims again.
    pub(crate) fn release(&self, lane: u16, offset: u64, len: u64) -> bool {
        let all = places(offset, len, self.places.len() as u64);
        all.filter(|place| self.leave(*place, lane)).count() > 0
    }

    /// Whether no granule of a range is claimed.
    pub(crate) fn is_free(&self, offset: u64, len: u64) -> bool {
        let mut all = places(offset, len, self.places.len() as u64);
        all.all(|place| self.places[place as usize].load(Ordering::SeqCst) == 0)
    }

    fn claim_place(&self, place: u64, lane: u16) -> bool {
        let place = &self.places[place as usize];
        let mut seen = place.load(Ordering::Relaxed);
        loop {
            let word = Word::of(seen);
            let (new, got) = match word.owner {
                0 => (Word { owner: lane, wanted: false, count: 1 }, true),
                // While another lane waits, the owner starts no more writes in this granule.
                owner if owner == lane && !word.wanted => {
                    (Word { count: word.count + 1, ..word }, true)
                }
                owner if owner == lane => return false,
                _ => (Word { wanted: true, ..word }, false),
            };
            // The next owner sees the changes that the last owner's writes published; and a check
            // that a range is free either sees this claim, or its earlier changes are seen here.
            match place.compare_exchange_weak(seen, new.word(), Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return got,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the granule is free now and another lane is waiting for it.
    fn leave(&self, place: u64, lane: u16) -> bool {
        let place = &self.places[place as usize];
        let mut seen = place.load(Ordering::Relaxed);
        loop {
            let word = Word::of(seen);
            debug_assert!(word.owner == lane && word.count > 0, "who leaves has claimed");
            let new = match word.count.saturating_sub(1) {
                0 => Word::FREE,
                count => Word { count, ..word },
            };
            match place.compare_exchange_weak(seen, new.word(), Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return word.wanted && new.owner == 0,
                Err(now) => seen = now,
            }
        }
    }

    /// Drops the claims of a lane that is gone.
    pub(crate) fn forget(&self, lane: u16) {
        for place in &self.places {
            let own = |seen: u64| (Word::of(seen).owner == lane).then_some(Word::FREE.word());
            let _ = place.fetch_update(Ordering::SeqCst, Ordering::Relaxed, own);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_granule_of_a_range_is_claimed_once() {
        for (offset, len, count) in
            [(0, 1, 8), (65_535, 2, 8), (0, 1 << 20, 8), (7 << 16, 3 << 16, 8), (9 << 16, 512, 8)]
        {
            let all: Vec<u64> = places(offset, len, count).collect();
            let granules = offset / GRANULE_BYTES..=(offset + len - 1) / GRANULE_BYTES;
            let mut expected: Vec<u64> = granules.map(|granule| granule % count).collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(all, expected, "{offset} {len}");
        }
    }

    #[test]
    fn who_waits_gets_a_turn() {
        let claims = Claims::new(1 << 20);
        assert!(claims.claim(1, 0, 4096) && claims.claim(1, 8192, 4096));
        assert!(!claims.claim(2, 0, 4096), "taken");
        assert!(!claims.claim(1, 16_384, 4096), "another waits");
        assert!(!claims.release(1, 0, 4096), "not free yet");
        assert!(!claims.claim(2, 0, 4096));
        assert!(claims.release(1, 8192, 4096), "2 is to try first");
        assert!(claims.claim(2, 0, 4096));
        assert!(!claims.release(2, 0, 4096), "nobody waits");
        assert!(claims.claim(3, 0, 1 << 20));
        assert!(!claims.claim(4, 1 << 19, 4096));
        claims.forget(3);
        assert!(claims.claim(4, 1 << 19, 4096));
    }

    #[test]
    fn all_or_nothing() {
        let claims = Claims::new(1 << 20);
        assert!(claims.claim(1, 65_536, 1));
        assert!(!claims.claim(2, 0, 65_537));
        assert!(claims.claim(3, 0, 1), "what was claimed before it was given back");
    }
}
