//! Times in which the whole process, or its host, stood still: the collecting thread sleeps shortly
//! all the time, and when it wakes late though nobody kept it from a processor, nobody ran.
//!
//! A stop that lies within one second, or many short ones, are in no end of a second.

use block::Nanos;

/// Timers of a busy host end late by less than this.
const LATE: Nanos = Nanos::from_millis(100);

/// Looks at how late sleeps end.
#[derive(Debug, Default)]
pub(super) struct Standstills {
    began: Nanos,
    /// For how long the thread had waited for a processor then.
    waited: Option<Nanos>,
}

impl Standstills {
    /// The calling thread is about to sleep.
    pub(super) fn sleeps(&mut self, now: Nanos) {
        *self = Standstills { began: now, waited: os::sample::waited_for_processor() };
    }

    /// It has slept, and wanted to for so long: for how long nobody ran.
    pub(super) fn slept(&self, wanted: Nanos, now: Nanos) -> Nanos {
        let took = now.since(self.began);
        if took < wanted + LATE {
            return Nanos(0);
        }
        let waited = self.waited.zip(os::sample::waited_for_processor());
        // Where the system does not tell, it may have been a busy host.
        waited.map_or(Nanos(0), |(before, after)| still(wanted, took, after.since(before)))
    }
}

/// Of a sleep that took longer than it was to: what was not a wait for a processor.
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
        // Others had the processor: that is no stop.
        assert_eq!(still(ms(50), ms(450), ms(390)), ms(0));
        assert_eq!(still(ms(50), ms(450), ms(200)), ms(200));
        assert_eq!(still(ms(50), ms(149), ms(0)), ms(0));
    }

    #[test]
    fn a_sleep_in_time_is_no_stop() {
        let mut all = Standstills::default();
        all.sleeps(Nanos::from_secs(7));
        assert_eq!(all.slept(Nanos::from_millis(50), Nanos::from_millis(7_060)), Nanos(0));
        // The clock says 300 ms, and this thread has waited for no processor meanwhile.
        let late = all.slept(Nanos::from_millis(50), Nanos::from_millis(7_400_000));
        assert!(late > Nanos::from_secs(7000) || all.waited.is_none(), "{late:?}");
    }
}
