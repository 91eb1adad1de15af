//! Detects stalls of the process or host: the collecting thread repeats short sleeps; if it wakes
//! late without having waited for a CPU, nothing ran.
//!
//! A stall within one second, or many short ones, are not visible at the ends of seconds.

use block::Nanos;

/// Timers of a busy host are late by less than this.
const LATE: Nanos = Nanos::from_millis(100);

/// Measures how late sleeps end.
#[derive(Debug, Default)]
pub(super) struct Standstills {
    began: Nanos,
    /// The thread's run-queue wait time at that point.
    waited: Option<Nanos>,
}

impl Standstills {
    /// Notes that the calling thread is about to sleep.
    pub(super) fn sleeps(&mut self, now: Nanos) {
        *self = Standstills { began: now, waited: os::sample::waited_for_processor() };
    }

    /// Notes that the thread has slept, for `wanted` as planned; returns the length of the stall.
    pub(super) fn slept(&self, wanted: Nanos, now: Nanos) -> Nanos {
        let took = now.since(self.began);
        if took < wanted + LATE {
            return Nanos(0);
        }
        let waited = self.waited.zip(os::sample::waited_for_processor());
        // Without that information the host may have been busy.
        waited.map_or(Nanos(0), |(before, after)| still(wanted, took, after.since(before)))
    }
}

/// The excess of a sleep that was not a wait for a CPU.
fn still(wanted: Nanos, took: Nanos, waited: Nanos) -> Nanos {
    let late = took.since(wanted).since(waited);
    if late >= LATE { late } else { Nanos(0) }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn late_is_who_could_not_have_run() {
        let ms = Nanos::from_millis;
        assert_eq!(still(ms(50), ms(450), ms(0)), ms(400));
        // Others had the CPU: not a stall.
        assert_eq!(still(ms(50), ms(450), ms(390)), ms(0));
        assert_eq!(still(ms(50), ms(450), ms(200)), ms(200));
        assert_eq!(still(ms(50), ms(149), ms(0)), ms(0));
    }

    #[test]
    fn a_sleep_in_time_is_no_stop() {
        let mut all = Standstills::default();
        all.sleeps(Nanos::from_secs(7));
        assert_eq!(all.slept(Nanos::from_millis(50), Nanos::from_millis(7_060)), Nanos(0));
        // The clock says 300 ms, and this thread has not waited for a CPU.
        let late = all.slept(Nanos::from_millis(50), Nanos::from_millis(7_400_000));
        assert!(late > Nanos::from_secs(7000) || all.waited.is_none(), "{late:?}");
    }
}
