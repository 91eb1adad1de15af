//! Progress of a backup or restore: reported at each tenth, and of long ones in between.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use block::Nanos;
use os::Clock;

/// Longest silence while bytes are processed.
const SILENCE: Nanos = Nanos::from_secs(5);

/// Progress so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whole percent.
    pub percent: u32,
    /// A tenth is complete; otherwise nothing was reported for some seconds.
    pub is_tenth: bool,
    /// Bytes processed: read, or found to be a hole, truncated or unreadable.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Receives the progress.
pub type Tell<'a> = &'a (dyn Fn(Progress) + Sync);

/// Counts processed bytes.
pub(crate) struct Meter<'a> {
    tell: Tell<'a>,
    clock: Clock,
    total_bytes: u64,
    done_bytes: AtomicU64,
    tenths: AtomicU32,
    /// Time of the last report, in nanoseconds.
    told_at: AtomicU64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(total_bytes: u64, tell: Tell<'a>) -> Meter<'a> {
        let clock = Clock::get();
        let told_at = AtomicU64::new(clock.now().0);
        let (done_bytes, tenths) = (AtomicU64::new(0), AtomicU32::new(0));
        Meter { tell, clock, total_bytes, done_bytes, tenths, told_at }
    }

    /// Adds processed bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.add_at(bytes, self.clock.now().0);
    }

    fn add_at(&self, bytes: u64, now: u64) {
        let done = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let tenth = self.share_of(done, 10);
        let told = self.tenths.fetch_max(tenth, Ordering::Relaxed);
        for tenth in told + 1..=tenth {
            self.told_at.store(now, Ordering::Relaxed);
            self.say(10 * tenth, true, done);
        }
        let last = self.told_at.load(Ordering::Relaxed);
        let is_late = now.saturating_sub(last) > SILENCE.0;
        let order = Ordering::Relaxed;
        if is_late && self.told_at.compare_exchange(last, now, order, order).is_ok() {
            self.say(self.share_of(done, 100), false, done);
        }
    }

    /// Reports the end, if it was not reported.
    pub(crate) fn end(&self) {
        if self.tenths.swap(10, Ordering::Relaxed) < 10 {
            self.say(100, true, self.total_bytes);
        }
    }

    fn share_of(&self, done: u64, parts: u32) -> u32 {
        let whole = u128::from(self.total_bytes.max(1));
        (u128::from(done) * u128::from(parts) / whole).min(u128::from(parts)) as u32
    }

    fn say(&self, percent: u32, is_tenth: bool, done_bytes: u64) {
        let total_bytes = self.total_bytes;
        (self.tell)(Progress { percent, is_tenth, done_bytes, total_bytes });
    }
}

#[cfg(test)]
mod test {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_tenth_is_told_once_and_long_ones_in_between() {
        let told = Mutex::new(Vec::new());
        let tell = |progress: Progress| {
            told.lock().unwrap().push((progress.percent, progress.is_tenth));
        };
        let meter = Meter::new(1000, &tell);
        let begin = meter.told_at.load(Ordering::Relaxed);
        meter.add_at(99, begin);
        meter.add_at(1, begin + 1);
        meter.add_at(250, begin + 2);
        assert_eq!(*told.lock().unwrap(), [(10, true), (20, true), (30, true)]);
        let late = begin + 2 + SILENCE.0;
        meter.add_at(7, late);
        meter.add_at(7, late + 1);
        meter.add_at(7, late + 2);
        assert_eq!(told.lock().unwrap()[3..], [(36, false)]);
        meter.end();
        meter.end();
        assert_eq!(told.lock().unwrap()[4..], [(100, true)]);
    }
}
