//! Time-outs of waits in tests.

use std::thread;
use std::time::{Duration, Instant};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(10);
/// Maximum time counted per poll, however long the poll took.
const COUNTED_MAX: Duration = Duration::from_millis(100);

/// A timeout that counts only time in which the test itself ran: a suspended or overloaded host
/// does not use it up.
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

    /// Sleeps for a moment. False after the time-out.
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
        // Simulates a test that did not run for a minute.
        patience.looked = patience.looked.checked_sub(Duration::from_secs(60)).unwrap();
        assert!(patience.wait());
        assert!(patience.left >= Duration::from_millis(900), "{patience:?}");
        // The wait still ends: after at most a hundred polls of 10 ms.
        let mut looks = 0;
        while patience.wait() {
            looks += 1;
        }
        assert!(looks <= 90, "{looks}");
    }
}
