//! The wall clock: which instant it is, whether something disciplines it, and waiting for an
//! instant. Hosts that begin together have no other clock in common.

use std::time::Duration;

use block::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::Clock;

/// Before an instant a thread that waits for it spins for this long: sleeps end late.
const SPIN: Duration = Duration::from_millis(1);

/// Quality of the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// Whether something disciplines the clock.
    pub synchronised: bool,
    /// The kernel's bound of the error; grows by 500 ppm between two corrections.
    pub error: Duration,
}

/// Now, in Unix nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// One instant on both clocks: in Unix nanoseconds, and by [`Clock`]. The least interrupted of
/// several readings.
pub fn beside(clock: Clock) -> (u64, Nanos) {
    let one = || {
        let before = clock.now();
        let wall = now_ns();
        let gap = clock.now().since(before);
        (gap, wall, before + Nanos(gap.0 / 2))
    };
    let best = (0..16).map(|_| one()).min_by_key(|(gap, _, _)| *gap);
    let (_, wall, at) = best.expect("sixteen readings");
    (wall, at)
}

/// Sleeps towards an instant in Unix nanoseconds, for at most `most`; spins for the last
/// millisecond. Returns whether the instant has come. Reads the clock again after each sleep, so
/// that a clock that is set meanwhile is followed.
pub fn approach(instant_ns: u64, most: Duration) -> bool {
    let left = Duration::from_nanos(instant_ns.saturating_sub(now_ns()));
    if left > SPIN {
        std::thread::sleep((left - SPIN).min(most));
        return false;
    }
    while now_ns() < instant_ns {
        std::hint::spin_loop();
    }
    true
}

/// Quality of the kernel's clock; `None` if it does not say.
pub fn discipline() -> Option<Discipline> {
    // SAFETY: all-zero bytes are a valid `timex`: it has integers only.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: without modes the call only writes to the structure, which outlives it.
    let state = unsafe { libc::adjtimex(&mut timex) };
    (state >= 0).then(|| Discipline {
        synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
        error: Duration::from_micros(u64::try_from(timex.maxerror).unwrap_or(u64::MAX)),
    })
}

/// The running kernel's own number: equal in all containers of a machine. `None` if hidden.
pub fn machine() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_instant_is_awaited_and_not_missed_by_much() {
        let instant_ns = now_ns() + 3_000_000;
        while !approach(instant_ns, Duration::from_millis(1)) {}
        assert!(now_ns() >= instant_ns);
        // A past instant has been reached.
        assert!(approach(instant_ns, Duration::from_secs(60)));
    }

    #[test]
    fn both_clocks_run_alike() {
        let clock = Clock::get();
        let (one, other) = (beside(clock), beside(clock));
        let (wall, own) = (other.0.saturating_sub(one.0), other.1.since(one.1).0);
        assert!(wall.abs_diff(own) < 10_000_000, "{wall} and {own} ns");
    }

    #[test]
    fn the_kernel_is_one_machine() {
        assert_eq!(machine(), machine());
        if let Some(known) = discipline() {
            assert!(known.synchronised || known.error > Duration::ZERO);
        }
    }
}
