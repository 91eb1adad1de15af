//! Think times: all I/Os in flight complete, then nothing starts for a while.

use block::Nanos;

use super::Gate;
use crate::pacing::Schedule;
use job::spec::Think;

/// The think times of one worker.
#[derive(Debug)]
pub(super) struct Thinking {
    think: Think,
    spins: bool,
    state: ThinkState,
    begun: u64,
    done: u64,
    /// The count when the last pause was due, and when that ended.
    last: u64,
    last_at: Nanos,
    /// An I/O has started since.
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThinkState {
    /// I/Os start.
    Goes,
    /// A pause is due, and the next one counts from here.
    Due(u64),
    /// The pause began at this time.
    Pauses(Nanos, u64),
}

impl Thinking {
    pub(super) fn new(think: Think, spins: bool) -> Thinking {
        let (state, last_at) = (ThinkState::Goes, Nanos(0));
        Thinking { think, spins, state, begun: 0, done: 0, last: 0, last_at, fresh: false }
    }

    pub(super) fn begin(&mut self, now: Nanos) {
        self.last_at = now;
    }

    pub(super) fn begun(&mut self) {
        self.begun += 1;
        self.fresh = true;
    }

    pub(super) fn done(&mut self) {
        self.done += 1;
    }

    /// Whether the next may start. After each pause one starts before another is due.
    pub(super) fn gate(&mut self, now: Nanos, idle: bool, schedule: Option<&mut Schedule>) -> Gate {
        if self.state == ThinkState::Goes {
            let count = if self.think.counts_begun { self.begun } else { self.done };
            let Some(counted) = self.due(now, count).filter(|_| self.fresh) else {
                return Gate::Open;
            };
            self.state = ThinkState::Due(counted);
        }
        if let ThinkState::Due(count) = self.state {
            if !idle {
                return Gate::Shut(None);
            }
            self.state = ThinkState::Pauses(now, count);
        }
        let ThinkState::Pauses(from, count) = self.state else { return Gate::Open };
        let after = |us: u64| from + Nanos(us * 1000);
        if self.spins && now < after(self.think.spin_us) {
            // A spinning worker never sleeps, and others on the core continue.
            return Gate::Shut(Some(now));
        }
        let end = after(self.think.pause_us);
        if now < end {
            return Gate::Shut(Some(end));
        }
        (self.state, self.last, self.last_at, self.fresh) = (ThinkState::Goes, count, now, false);
        if let (Some(schedule), true) = (schedule, self.think.shifts_rate) {
            schedule.shift(now.since(from));
        }
        Gate::Open
    }

    /// The count for the next pause, if one is due. Simultaneous completions are counted in turn:
    /// those beyond one pause count towards the next.
    fn due(&self, now: Nanos, count: u64) -> Option<u64> {
        let (ios, time) = (u64::from(self.think.after_ios), Nanos(self.think.after_us * 1000));
        if time > Nanos(0) && now.since(self.last_at) >= time {
            return Some(count);
        }
        (ios > 0 && count >= self.last + ios).then_some(self.last + ios)
    }
}
