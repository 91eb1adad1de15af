//! Numbers of the live lanes of a mirror. No two live lanes have the same number: they would share
//! claims.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of a lane: 0 marks an unclaimed granule, and 65,535 is the keeper's.
const NUMBER_MAX: u16 = u16::MAX - 1;

/// Hands out the numbers from 1 to 65,534.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<Issued>);

#[derive(Default)]
struct Issued {
    /// The largest number ever issued.
    last: u16,
    /// Numbers up to `last` that were given back.
    free: BTreeSet<u16>,
}

/// A number of a live lane, given back when this is dropped.
pub(crate) struct Number {
    value: u16,
    of: Arc<Numbers>,
}

impl Numbers {
    /// An unused number; `None` if 65,534 lanes are alive.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Number> {
        let mut issued = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = match issued.free.pop_first() {
            Some(value) => value,
            None if issued.last < NUMBER_MAX => {
                issued.last += 1;
                issued.last
            }
            None => return None,
        };
        Some(Number { value, of: Arc::clone(self) })
    }
}

impl Number {
    pub(crate) fn get(&self) -> u16 {
        self.value
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut issued = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        issued.free.insert(self.value);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn live_lanes_never_share_a_number_however_many_came_before() {
        let numbers = Arc::new(Numbers::default());
        let kept = numbers.take().unwrap();
        for _ in 0..200_000 {
            assert_ne!(numbers.take().unwrap().get(), kept.get());
        }
        let all: Vec<Number> = std::iter::from_fn(|| numbers.take()).collect();
        assert_eq!(all.len(), usize::from(NUMBER_MAX) - 1);
        let mut values: Vec<u16> = all.iter().map(Number::get).chain([kept.get()]).collect();
        values.sort_unstable();
        assert_eq!(values, (1..=NUMBER_MAX).collect::<Vec<_>>(), "neither 0 nor the keeper's");
        drop(all);
        assert!(numbers.take().is_some());
    }
}
