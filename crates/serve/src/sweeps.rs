//! When the deadlines of connections are looked at.

use block::Nanos;

/// They are looked at this often: time-outs are seconds long.
const PAUSE: Nanos = Nanos::from_millis(500);
/// Who looks so late was kept from its processor.
const STOOD_STILL: Nanos = Nanos::from_secs(1);
/// So long peers may take then to say what they would have said.
const GRACE: Nanos = Nanos::from_secs(5);

/// The looks of one core. Who stood still, with its whole host or by a debugger, has itself to
/// blame for what it did not hear: peers on that host stood still, too, and what others have sent
/// may lie in a queue before it. So it gives them time before it looks.
#[derive(Debug)]
pub(crate) struct Sweeps {
    due: Nanos,
}

impl Sweeps {
    /// The first look is due a pause after `now`.
    pub(crate) fn new(now: Nanos) -> Sweeps {
        Sweeps { due: now + PAUSE }
    }

    /// When the next look is due.
    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    /// Whether to look now. `awaited`: the core was to wake for it, as it had connections.
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
