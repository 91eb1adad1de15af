//! The timer that checks the deadlines of connections.

use block::Nanos;

/// Period of the checks: time-outs are seconds long.
const PAUSE: Nanos = Nanos::from_millis(500);
/// A check this late means that the core was not scheduled.
const STOOD_STILL: Nanos = Nanos::from_secs(1);
/// Grace period after such a stall.
const GRACE: Nanos = Nanos::from_secs(5);

/// The deadline timer of a core. After a stall, of the whole host or in a debugger, peers on this
/// host were stalled, too, and what others sent may wait in socket buffers. So the core gives all
/// of them a grace period before it checks.
#[derive(Debug)]
pub(crate) struct Sweeps {
    due: Nanos,
}

impl Sweeps {
    /// The first check is due one period after `now`.
    pub(crate) fn new(now: Nanos) -> Sweeps {
        Sweeps { due: now + PAUSE }
    }

    /// When the next check is due.
    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    /// Whether to check now. `awaited`: the core was to wake for it, as it had connections.
    pub(crate) fn begin(&mut self, now: Nanos, awaited: bool) -> bool {
        if now < self.due {
            return false;
        }
        let stood_still = awaited && now.since(self.due) >= STOOD_STILL;
        self.due = now + if stood_still { GRACE } else { PAUSE };
        !stood_still
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn who_stood_still_gives_its_peers_time_to_speak() {
        let at = Nanos::from_millis;
        let mut sweeps = Sweeps::new(at(0));
        assert!(!sweeps.begin(at(499), true) && sweeps.begin(at(500), true));
        assert!(sweeps.begin(at(1900), true) && sweeps.due() == at(2400));
        assert!(!sweeps.begin(at(60_000), true) && sweeps.due() == at(65_000));
        assert!(sweeps.begin(at(65_000), true) && sweeps.due() == at(65_500));
    }

    #[test]
    fn who_had_nobody_to_look_after_is_not_late() {
        let mut sweeps = Sweeps::new(Nanos(0));
        assert!(sweeps.begin(Nanos::from_secs(60), false));
    }
}
