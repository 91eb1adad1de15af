//! Clock of the data path: the TSC if it is reliable.

use std::sync::OnceLock;
use std::time::Duration;

use block::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// A monotonic clock whose zero is the same for all threads of the process.
///
/// Reading the TSC takes about 8 ns, the system clock 20 ns or more. The TSC is used if it is the
/// kernel's clock source, as it then runs at one rate on all CPUs. Both are read without the C
/// library, whose clock a preloaded library may replace.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Nanos,
    counter: Option<Counter>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    start: u64,
    /// Nanoseconds per tick, times 2³².
    ns_per_tick_q32: u64,
}

/// Before an instant a thread that waits for it spins for this long.
const SPIN: Duration = Duration::from_micros(300);
/// Duration of the comparison of the TSC with the system clock: an error of 100 ns in a reading is
/// 5 ppm.
const CALIBRATION: Duration = Duration::from_millis(20);

impl Clock {
    /// The clock of this process. The first call calibrates it for 20 ms.
    pub fn get() -> Clock {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Clock::calibrate)
    }

    /// Time since the first [`get`](Self::get) of the process.
    #[inline]
    pub fn now(&self) -> Nanos {
        match self.counter {
            Some(counter) => {
                let ticks = ticks().wrapping_sub(counter.start);
                Nanos(((u128::from(ticks) * u128::from(counter.ns_per_tick_q32)) >> 32) as u64)
            }
            None => system().since(self.start),
        }
    }

    /// Sleeps towards an instant, for at most `most`; spins for the last third of a millisecond,
    /// as sleeps end late. Returns whether the instant has come.
    pub fn approach(&self, instant: Nanos, most: Duration) -> bool {
        let left = Duration::from_nanos(instant.since(self.now()).0);
        if left > SPIN {
            std::thread::sleep((left - SPIN).min(most));
            return false;
        }
        while self.now() < instant {
            std::hint::spin_loop();
        }
        true
    }

    /// Whether the time-stamp counter is used.
    pub fn uses_counter(&self) -> bool {
        self.counter.is_some()
    }

    /// Mean cost of a reading in nanoseconds, of ten thousand.
    pub fn cost_ns(&self) -> f64 {
        const READINGS: u32 = 10_000;
        let begin = self.now();
        (0..READINGS).for_each(|_| {
            std::hint::black_box(self.now());
        });
        self.now().since(begin).0 as f64 / f64::from(READINGS)
    }

    fn calibrate() -> Clock {
        let (start, first) = reading();
        if !counter_is_trusted() {
            return Clock { start, counter: None };
        }
        std::thread::sleep(CALIBRATION);
        let (end, last) = reading();
        let ns = u128::from(end.since(start).0);
        let ticks = u128::from(last.wrapping_sub(first).max(1));
        let ns_per_tick_q32 = ((ns << 32) / ticks) as u64;
        Clock { start, counter: Some(Counter { start: first, ns_per_tick_q32 }) }
    }
}

/// The kernel's monotonic clock.
fn system() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Readings of both clocks at the same moment: the least interrupted of several.
fn reading() -> (Nanos, u64) {
    let one = || {
        let before = ticks();
        let at = system();
        let after = ticks();
        (after.wrapping_sub(before), at, before.wrapping_add(after.wrapping_sub(before) / 2))
    };
    let best = (0..16).map(|_| one()).min_by_key(|(gap, _, _)| *gap);
    let (_, at, ticks) = best.expect("sixteen readings");
    (at, ticks)
}

fn counter_is_trusted() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(path).is_ok_and(|source| source.trim() == "tsc")
}

#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reading the time-stamp counter touches no memory; Linux never forbids it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}

#[cfg(test)]
mod test {
    use std::time::Instant;

    use super::*;

    #[test]
    fn agrees_with_the_system_and_never_goes_back() {
        let clock = Clock::get();
        // Our reading between two of the system clock: a preemption between them widens the bounds
        // instead of failing the test.
        let both = || (Instant::now(), clock.now(), Instant::now());
        let begin = both();
        let mut last = begin.1;
        while begin.2.elapsed() < Duration::from_millis(50) {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        let end = both();
        let ours = end.1.since(begin.1).0 as f64;
        let least = end.0.duration_since(begin.2).as_nanos() as f64;
        let most = end.2.duration_since(begin.0).as_nanos() as f64;
        let agrees = ours > least * 0.99 && ours < most * 1.01;
        assert!(agrees, "{ours} ns here, {least} to {most} ns there");
    }
}
