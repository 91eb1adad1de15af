//! Waiting for something that must happen some time.

use std::thread;
use std::time::{Duration, Instant};

/// How often somebody looks whether it has happened.
const LOOK: Duration = Duration::from_millis(10);
/// So much of the time between two looks counts, whatever went by.
const COUNTED_MAX: Duration = Duration::from_millis(100);

/// How long somebody still waits. Only time in which the test itself ran is counted: a host that
/// stops all of us for a minute, or is too busy to let anybody run, uses up no patience.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    /// Patience of this length, beginning now.
    pub fn new(limit: Duration) -> Patience {
        Patience { left: limit, looked: Instant::now() }
    }

    /// Waits for a moment. False when it is over.
    pub fn wait(&mut self) -> bool {
        thread::sleep(LOOK);
        let now = Instant::now();
        let gone = now.duration_since(self.looked).min(COUNTED_MAX);
        (self.left, self.looked) = (self.left.saturating_sub(gone), now);
        !self.left.is_zero()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_time_in_which_somebody_looks_is_counted() {
        let mut patience = Patience::new(Duration::from_secs(1));
        // As if nothing had run for a minute.
        patience.looked = patience.looked.checked_sub(Duration::from_secs(60)).unwrap();
        assert!(patience.wait());
        assert!(patience.left >= Duration::from_millis(900), "{patience:?}");
        // It is over all the same: at most a hundred looks of 10 ms.
        let mut looks = 0;
        while patience.wait() {
            looks += 1;
        }
        assert!(looks <= 90, "{looks}");
    }
}
