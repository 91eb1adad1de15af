//! Time-outs of commands at one byte per command: without a clock, list or timer for each.
//!
//! An initiator periodically scans the commands in flight and counts, for each command, the scans
//! during its flight. Scans are at least an interval apart, so a command that has seen `n` scans
//! was in flight for at least `n - 1` intervals. A process that was stopped scans late and only
//! once, and takes in the answers that arrived meanwhile before it gives up a command.

use block::Nanos;

/// Default time limit of a command, as in Linux: `nvme_core.io_timeout`, and `timeout` of SCSI
/// devices.
pub const IO_TIMEOUT: Nanos = Nanos::from_secs(30);
/// The shortest time between two scans.
const INTERVAL_MIN: Nanos = Nanos::from_millis(500);
/// Scans within a limit: a command is given up at most two intervals after it is over.
const SCANS_PER_LIMIT: u64 = 8;
/// Lateness of a check that shows that the process was stopped or had no CPU.
const STALLED: Nanos = Nanos::from_secs(1);
/// Time that the process then waits for answers that may already be in its queue.
const GRACE: Nanos = Nanos::from_secs(1);

/// Whether a command is in flight, and how many scans it has seen: all that the time-out needs in
/// its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(u8);

impl Age {
    /// No command is in flight.
    pub(crate) const NONE: Age = Age(0);
    /// The command has seen no scan yet.
    pub(crate) const NEW: Age = Age(1);

    /// Whether a command is in flight.
    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self != Age::NONE
    }

    /// Counts a scan.
    pub(crate) fn grow(&mut self) {
        self.0 = self.0.saturating_add(1);
    }
}

/// The time-out of the commands on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoTimeout {
    limit: Nanos,
    interval: Nanos,
    /// A command of this age is late.
    late: Age,
    due: Nanos,
}

impl IoTimeout {
    /// For commands that may take as long as `limit`; zero: for ever.
    pub(crate) fn new(limit: Nanos, now: Nanos) -> IoTimeout {
        let interval = scan_interval(limit);
        // One scan more than there are intervals, of which there are nine at most.
        let late = Age(Age::NEW.0 + limit.0.div_ceil(interval.0) as u8 + 1);
        let never = limit == Nanos(0);
        let due = if never { Nanos(u64::MAX) } else { later(now, interval) };
        IoTimeout { limit, interval, late, due }
    }

    /// Time at which the next scan is due.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    /// Whether to scan at `now`; if so, the next scan is due an interval later.
    pub(crate) fn begin_scan(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = later(now, self.interval);
        }
        is_due
    }

    /// Whether a command of this age is late.
    pub(crate) fn is_late(&self, age: Age) -> bool {
        age.0 >= self.late.0
    }

    /// Time limit of a command.
    pub(crate) fn limit(&self) -> Nanos {
        self.limit
    }
}

/// `span` after `at`. A span of a setting may be as long as it likes.
pub(crate) fn later(at: Nanos, span: Nanos) -> Nanos {
    Nanos(at.0.saturating_add(span.0))
}

fn scan_interval(limit: Nanos) -> Nanos {
    Nanos(limit.0 / SCANS_PER_LIMIT).max(INTERVAL_MIN)
}

/// Time limit for the answer to a ping, at least `least`: as long as a command that may take
/// `limit` can be in flight, so that no ping gives up sooner than a command would. Without a limit,
/// `least`.
pub(crate) fn ping_timeout(limit: Nanos, least: Nanos) -> Nanos {
    if limit == Nanos(0) {
        return least;
    }
    Nanos(limit.0.saturating_add(3 * scan_interval(limit).0)).max(least)
}

/// The time-out of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PingTimeout {
    until: Nanos,
    extended: bool,
}

impl PingTimeout {
    /// A ping sent at `now` that may stay unanswered for `span`.
    pub(crate) fn new(now: Nanos, span: Nanos) -> PingTimeout {
        PingTimeout { until: later(now, span), extended: false }
    }

    /// Time of the next check whether the timer has expired.
    pub(crate) fn until(&self) -> Nanos {
        self.until
    }

    /// Returns whether the ping has expired. The time-out is extended once for a process that was
    /// stopped when it expired: the answer may have arrived meanwhile.
    pub(crate) fn has_expired(&mut self, now: Nanos) -> bool {
        if now < self.until {
            return false;
        }
        let stalled = now.since(self.until) >= STALLED;
        if stalled && !self.extended {
            (self.until, self.extended) = (now + GRACE, true);
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
        let mut wait = PingTimeout::new(seconds(5), seconds(10));
        assert!(!wait.has_expired(seconds(14)) && { wait }.has_expired(seconds(15)));
        assert!(!wait.has_expired(seconds(40)) && wait.until() == seconds(41));
        assert!(!wait.has_expired(seconds(40)) && wait.has_expired(seconds(60)));
    }

    #[test]
    fn no_ping_gives_up_sooner_than_a_command() {
        for limit in [1, 5, 30, 86_400].map(Nanos::from_secs) {
            let most = lasts(limit, Nanos(0));
            assert!(ping_timeout(limit, Nanos(0)) >= most && ping_timeout(limit, most) >= most);
        }
        assert_eq!(ping_timeout(Nanos(0), Nanos(7)), Nanos(7));
    }

    /// Time until a command that begins `after` a scan is late.
    fn lasts(limit: Nanos, after: Nanos) -> Nanos {
        let mut timeout = IoTimeout::new(limit, Nanos(0));
        let began = timeout.due() + after;
        assert!(timeout.begin_scan(timeout.due()) && !timeout.begin_scan(began));
        let mut age = Age::NEW;
        loop {
            let now = timeout.due();
            assert!(timeout.begin_scan(now));
            age.grow();
            if timeout.is_late(age) {
                return Nanos(now.0 - began.0);
            }
        }
    }

    #[test]
    fn nothing_is_late_before_its_limit_nor_long_after_it() {
        let seconds = Nanos::from_secs;
        for limit in [1, 2, 3, 7, 30, 86_400].map(seconds).into_iter().chain([Nanos(800_000_001)]) {
            let more = Nanos(limit.0 / SCANS_PER_LIMIT + 1).max(INTERVAL_MIN);
            for after in [Nanos(0), Nanos(1), Nanos(more.0 / 2), Nanos(more.0 - 2)] {
                let lasts = lasts(limit, after);
                assert!(lasts >= limit, "{limit:?}: {lasts:?}");
                assert!(lasts.0 <= limit.0 + 2 * more.0, "{limit:?}: {lasts:?}");
            }
        }
    }

    #[test]
    fn without_a_limit_nothing_is_scanned() {
        let mut timeout = IoTimeout::new(Nanos(0), Nanos(5));
        assert!(!timeout.begin_scan(Nanos::from_secs(1_000_000)));
    }

    /// A process that was stopped for long scans once, not once per interval.
    #[test]
    fn a_late_scan_is_one_scan() {
        let mut timeout = IoTimeout::new(Nanos::from_secs(30), Nanos(0));
        let late = Nanos::from_secs(1000);
        assert!(timeout.begin_scan(late) && !timeout.begin_scan(late));
        let mut age = Age::NEW;
        age.grow();
        assert!(!timeout.is_late(age) && timeout.due() > late);
    }
}
