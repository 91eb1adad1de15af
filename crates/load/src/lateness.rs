//! Waits of a worker's thread for a processor, by the scheduler's count: time in which the thread
//! was ready to run and did not.
//!
//! The count is read only after turns that took longer than [`LONG`], so that busy loops never read
//! it. Shorter waits are in the next reading.

use block::Nanos;
use os::sample::RunDelay;

use crate::worker::Worker;

/// Turns up to this long are not looked at.
const LONG: Nanos = Nanos(100_000);

/// The waits of a thread.
pub(crate) struct Lateness {
    delay: Option<RunDelay>,
    /// End of the last turn.
    at: Nanos,
}

impl Lateness {
    /// The waits of this thread from now on.
    pub(crate) fn new(now: Nanos) -> Lateness {
        Lateness { delay: RunDelay::of_this_thread(), at: now }
    }

    /// Adds the wait of a turn that has just ended to the I/Os that were in flight.
    #[inline]
    pub(crate) fn count(&mut self, now: Nanos, workers: &mut [Worker]) {
        let took = now.since(std::mem::replace(&mut self.at, now));
        if took > LONG {
            self.read(workers);
        }
    }

    #[cold]
    fn read(&mut self, workers: &mut [Worker]) {
        let waited = self.delay.as_mut().and_then(RunDelay::take).unwrap_or_default();
        if waited > Nanos(0) {
            workers.iter_mut().for_each(|worker| worker.count_wait(waited));
        }
    }
}
