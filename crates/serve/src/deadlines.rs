//! The timer that checks the deadlines of connections.

use block::Nanos;

/// Period of the checks: time-outs are seconds long.
const PAUSE: Nanos = Nanos::from_millis(500);
/// Delay of a check that shows that the core was not scheduled.
const STALLED: Nanos = Nanos::from_secs(1);
/// Grace period after such a stall.
const GRACE: Nanos = Nanos::from_secs(5);

/// The deadline timer of a core. After a stall, of the whole host or in a debugger, peers on this
/// host were stalled, too, and data of others may wait in socket buffers. So the core gives all
/// peers a grace period before it checks.
#[derive(Debug)]
pub(crate) struct DeadlineTimer {
    due: Nanos,
}

impl DeadlineTimer {
    /// Creates a timer whose first check is due one period after `now`.
    pub(crate) fn new(now: Nanos) -> DeadlineTimer {
        DeadlineTimer { due: now + PAUSE }
    }

    /// Time at which the next check is due.
    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    /// Whether to check now. `awaited`: the core was to wake for the check, as it had connections.
    pub(crate) fn begin(&mut self, now: Nanos, awaited: bool) -> bool {
        if now < self.due {
            return false;
        }
        let stalled = awaited && now.since(self.due) >= STALLED;
        self.due = now + if stalled { GRACE } else { PAUSE };
        !stalled
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn after_a_stall_peers_have_a_grace_period() {
        let at = Nanos::from_millis;
        let mut deadlines = DeadlineTimer::new(at(0));
        assert!(!deadlines.begin(at(499), true) && deadlines.begin(at(500), true));
        assert!(deadlines.begin(at(1900), true) && deadlines.due() == at(2400));
        assert!(!deadlines.begin(at(60_000), true) && deadlines.due() == at(65_000));
        assert!(deadlines.begin(at(65_000), true) && deadlines.due() == at(65_500));
    }

    #[test]
    fn a_core_without_connections_is_not_late() {
        let mut deadlines = DeadlineTimer::new(Nanos(0));
        assert!(deadlines.begin(Nanos::from_secs(60), false));
    }
}
