//! A time-out for each command that costs it one byte: no clock, no list, no timer of its own.
//!
//! Now and then an initiator looks at all commands in flight and counts, for each, how many of
//! these looks it has lived to see. Between two of them lies a pause at least, so what has seen so
//! many was in flight for one pause less, and a process that stood still, which looks late and only
//! once, finds what was answered meanwhile before it gives anything up.

use block::Nanos;

/// How long a command may take if nobody says otherwise, as Linux has it: `nvme_core.io_timeout`,
/// and `timeout` of SCSI devices.
pub const IO_TIMEOUT: Nanos = Nanos::from_secs(30);
/// The least time between two looks.
const LEAST_PAUSE: Nanos = Nanos::from_millis(500);
/// A limit is looked after so often: a command is given up when it is over by two pauses at most.
const PAUSES: u64 = 8;
/// Whoever looks so late stood still, or was kept from its processor.
const STOOD_STILL: Nanos = Nanos::from_secs(1);
/// So long it then waits for what may lie in a queue before it.
const GRACE: Nanos = Nanos::from_secs(1);

/// Whether a command is in flight, and how many looks it has seen: all that the time-out takes of
/// its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(u8);

impl Age {
    /// None is in flight.
    pub(crate) const NONE: Age = Age(0);
    /// It has seen no look yet.
    pub(crate) const NEW: Age = Age(1);

    /// Whether a command is in flight.
    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self != Age::NONE
    }

    /// It sees a look.
    pub(crate) fn grow(&mut self) {
        self.0 = self.0.saturating_add(1);
    }
}

/// When to look, and what is late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    limit: Nanos,
    pause: Nanos,
    /// What is as old is late.
    late: Age,
    due: Nanos,
}

impl Looks {
    /// For commands that may take as long as `limit`; zero: for ever.
    pub(crate) fn new(limit: Nanos, now: Nanos) -> Looks {
        let pause = pause(limit);
        // One look more than there are pauses, of which there are nine at most.
        let late = Age(Age::NEW.0 + limit.0.div_ceil(pause.0) as u8 + 1);
        let never = limit == Nanos(0);
        let due = if never { Nanos(u64::MAX) } else { Nanos(now.0.saturating_add(pause.0)) };
        Looks { limit, pause, late, due }
    }

    /// When the next look is due.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    /// Whether to look at `now`; if so, the next look is due a pause later.
    pub(crate) fn begin(&mut self, now: Nanos) -> bool {
        let looks = now >= self.due;
        if looks {
            self.due = Nanos(now.0.saturating_add(self.pause.0));
        }
        looks
    }

    /// Whether a command of this age is late.
    pub(crate) fn is_late(&self, age: Age) -> bool {
        age.0 >= self.late.0
    }

    /// How long a command may take.
    pub(crate) fn limit(&self) -> Nanos {
        self.limit
    }
}

fn pause(limit: Nanos) -> Nanos {
    Nanos(limit.0 / PAUSES).max(LEAST_PAUSE)
}

/// How long a peer may leave a ping unanswered, `least` at least: as long as a command that may
/// take `limit` can be in flight, so that no ping decides sooner than a command would. Without a
/// limit, `least`.
pub(crate) fn ping_limit(limit: Nanos, least: Nanos) -> Nanos {
    if limit == Nanos(0) {
        return least;
    }
    Nanos(limit.0.saturating_add(3 * pause(limit).0)).max(least)
}

/// The wait for the answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    until: Nanos,
    put_off: bool,
}

impl Wait {
    /// From `now` on for so long.
    pub(crate) fn new(now: Nanos, span: Nanos) -> Wait {
        Wait { until: Nanos(now.0.saturating_add(span.0)), put_off: false }
    }

    /// When to look whether it is over.
    pub(crate) fn until(&self) -> Nanos {
        self.until
    }

    /// Whether it is over. It lasts a little longer for those who stood still when it ended: the
    /// answer may have come meanwhile.
    pub(crate) fn is_over(&mut self, now: Nanos) -> bool {
        if now < self.until {
            return false;
        }
        let stood_still = now.since(self.until) >= STOOD_STILL;
        if stood_still && !self.put_off {
            (self.until, self.put_off) = (now + GRACE, true);
            return false;
        }
        true
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn who_stood_still_waits_a_little_longer_and_once() {
        let seconds = Nanos::from_secs;
        let mut wait = Wait::new(seconds(5), seconds(10));
        assert!(!wait.is_over(seconds(14)) && { wait }.is_over(seconds(15)));
        assert!(!wait.is_over(seconds(40)) && wait.until() == seconds(41));
        assert!(!wait.is_over(seconds(40)) && wait.is_over(seconds(60)));
    }

    #[test]
    fn no_ping_decides_sooner_than_a_command() {
        for limit in [1, 5, 30, 86_400].map(Nanos::from_secs) {
            let most = lasts(limit, Nanos(0));
            assert!(ping_limit(limit, Nanos(0)) >= most && ping_limit(limit, most) >= most);
        }
        assert_eq!(ping_limit(Nanos(0), Nanos(7)), Nanos(7));
    }

    /// How long a command is in flight that begins `after` a look, until it is late.
    fn lasts(limit: Nanos, after: Nanos) -> Nanos {
        let mut looks = Looks::new(limit, Nanos(0));
        let began = looks.due() + after;
        assert!(looks.begin(looks.due()) && !looks.begin(began));
        let mut age = Age::NEW;
        loop {
            let now = looks.due();
            assert!(looks.begin(now));
            age.grow();
            if looks.is_late(age) {
                return Nanos(now.0 - began.0);
            }
        }
    }

    #[test]
    fn nothing_is_late_before_its_limit_nor_long_after_it() {
        let seconds = Nanos::from_secs;
        for limit in [1, 2, 3, 7, 30, 86_400].map(seconds).into_iter().chain([Nanos(800_000_001)]) {
            let more = Nanos(limit.0 / PAUSES + 1).max(LEAST_PAUSE);
            for after in [Nanos(0), Nanos(1), Nanos(more.0 / 2), Nanos(more.0 - 2)] {
                let lasts = lasts(limit, after);
                assert!(lasts >= limit, "{limit:?}: {lasts:?}");
                assert!(lasts.0 <= limit.0 + 2 * more.0, "{limit:?}: {lasts:?}");
            }
        }
    }

    #[test]
    fn without_a_limit_nobody_looks() {
        let mut looks = Looks::new(Nanos(0), Nanos(5));
        assert!(!looks.begin(Nanos::from_secs(1_000_000)));
    }

    /// Who stood still for long has looked once, not as often as there was time for.
    #[test]
    fn a_late_look_is_one_look() {
        let mut looks = Looks::new(Nanos::from_secs(30), Nanos(0));
        let late = Nanos::from_secs(1000);
        assert!(looks.begin(late) && !looks.begin(late));
        let mut age = Age::NEW;
        age.grow();
        assert!(!looks.is_late(age) && looks.due() > late);
    }
}
