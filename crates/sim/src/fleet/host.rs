//! A host of a fleet: its clock, its mishaps, and the program that runs there.

use block::{Nanos, Rng};
use fleet::{Follower, Heard, Message};

/// A clock that is ahead, drifts, and may be set once.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostClock {
    ahead_ns: i64,
    drift: f64,
    /// True time at which it is set, and by how much.
    pub set: Option<(Nanos, i64)>,
}

/// All clocks are beyond this when a story begins, so that none is before zero.
const EPOCH_NS: i64 = 10_000_000_000;

impl HostClock {
    /// A clock up to a second off, with up to 200 ppm.
    pub fn drawn(rng: &mut Rng) -> HostClock {
        let ahead_ns = EPOCH_NS + rng.below(2_000_000_001) as i64 - 1_000_000_000;
        HostClock { ahead_ns, drift: (rng.uniform() * 2.0 - 1.0) * 200e-6, set: None }
    }

    /// Whether it is set by more than that.
    pub fn is_set_beyond(&self, most: Nanos) -> bool {
        self.set.is_some_and(|(_, by_ns)| by_ns.unsigned_abs() > most.0)
    }

    /// The reading at a true time.
    pub fn read(&self, truth: Nanos) -> Nanos {
        let set_ns = self.set.filter(|(at, _)| truth >= *at).map_or(0, |(_, by)| by);
        let own_ns = truth.0 as i64 + (truth.0 as f64 * self.drift) as i64;
        Nanos(u64::try_from(own_ns + self.ahead_ns + set_ns).unwrap_or(0))
    }

    /// True time at which it reads an instant, not before `now`.
    pub fn truth(&self, reads: Nanos, now: Nanos) -> Nanos {
        let (mut from, mut to) = (now.0, now.0 + 200_000_000_000);
        if self.read(now) >= reads {
            return now;
        }
        while from + 1 < to {
            let middle = from.midpoint(to);
            match self.read(Nanos(middle)) >= reads {
                true => to = middle,
                false => from = middle,
            }
        }
        Nanos(to)
    }
}

/// The behaviour of a rank in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Idle,
    /// Opens volumes until then.
    Opening(Nanos),
    /// Waits for the instant.
    Open,
    /// Begins then.
    Due(Nanos),
    /// Measures since then; the next second ends at the second instant.
    Running {
        since: Nanos,
        next: Nanos,
    },
}

/// A rank that follows.
#[derive(Debug)]
pub(super) struct Host {
    pub follower: Follower,
    pub clock: HostClock,
    pub work: Work,
    pub round: u32,
    /// Takes part no more: killed, dead, or stopped for good.
    pub is_gone: bool,
    /// Stands still until then.
    pub paused_until: Nanos,
    /// The time until which the path to the leader is cut.
    pub cut_until: Nanos,
    /// Starts then.
    pub starts: Nanos,
    pub refuses: bool,
    pub fails: bool,
    pub is_slow: bool,
    pub is_hostile: bool,
    /// Whether the rank serves the others, until the leader releases it.
    pub serves: bool,
    /// Was told in the last call to end while it served.
    pub released: bool,
    /// Seconds that it told the leader in this round.
    pub told: u32,
    /// Time at which the host was asked to leave, or missed the leader.
    pub ended: Option<(Nanos, bool)>,
    /// True beginning of its window.
    pub began: Nanos,
    /// Time of the host's next call.
    pub wake: Nanos,
}

impl Host {
    pub fn new(starts: Nanos, clock: HostClock) -> Host {
        Host {
            follower: Follower::new(clock.read(starts), b"facts".to_vec()),
            clock,
            work: Work::Idle,
            round: 0,
            is_gone: false,
            paused_until: Nanos(0),
            cut_until: Nanos(0),
            starts,
            refuses: false,
            fails: false,
            is_slow: false,
            is_hostile: false,
            serves: false,
            released: false,
            told: 0,
            ended: None,
            began: Nanos(0),
            wake: starts,
        }
    }

    /// Whether it acts at a true time.
    pub fn acts(&self, now: Nanos) -> bool {
        !self.is_gone && now >= self.paused_until && now >= self.starts
    }

    /// Does what is due, and returns when it must be called next.
    pub fn step(&mut self, now: Nanos, length: Nanos, rng: &mut Rng) -> Nanos {
        let wake = self.clock.truth(self.follower.step(self.clock.read(now)), now);
        let mut wake = wake.max(now + Nanos(1));
        self.released = false;
        while let Some(heard) = self.follower.next_event() {
            self.heard(now, heard, rng);
        }
        self.work(now, length);
        match self.work {
            Work::Opening(at) | Work::Due(at) => wake = wake.min(at),
            Work::Running { next, .. } => wake = wake.min(next),
            Work::Idle | Work::Open => {}
        }
        wake
    }

    fn heard(&mut self, now: Nanos, heard: Heard, rng: &mut Rng) {
        match heard {
            Heard::Order { round, .. } => {
                (self.round, self.told) = (round, 0);
                let most_ms = if self.is_slow { 30_000 } else { 300 };
                self.work = Work::Opening(now + Nanos::from_millis(1 + rng.below(most_ms)));
            }
            Heard::Start { round, at } if round == self.round => {
                if self.work == Work::Open {
                    self.work = Work::Due(self.clock.truth(at, now));
                }
            }
            Heard::Stop { round } if round == self.round => match self.work {
                Work::Running { since, .. } => {
                    self.released = self.serves;
                    self.part(now, since);
                }
                // A host that stood still learns of the start and of the end at once.
                Work::Due(at) if self.serves => {
                    (self.released, self.began) = (true, at);
                    self.part(now, at);
                }
                Work::Idle => {}
                _ => {
                    let why = "stopped before it began".to_owned();
                    self.follower.say(Message::Refused { round, why });
                    self.work = Work::Idle;
                }
            },
            // The leader knows the words of all: the work may begin.
            Heard::Word { round, .. } if round == self.round => {
                if self.work == Work::Open {
                    self.follower.say(Message::Ready { round });
                }
            }
            Heard::Start { .. } | Heard::Stop { .. } | Heard::Word { .. } => {}
            Heard::Leave => self.ended = Some((now, true)),
            Heard::LeaderLost { .. } => self.ended = Some((now, false)),
        }
    }

    fn work(&mut self, now: Nanos, length: Nanos) {
        let round = self.round;
        match self.work {
            Work::Opening(at) if now >= at && self.refuses => {
                self.follower.say(Message::Refused { round, why: "no such volume".to_owned() });
                self.work = Work::Idle;
            }
            Work::Opening(at) if now >= at => {
                let body = round.to_le_bytes().to_vec();
                self.follower.say(match self.serves {
                    true => Message::Ready { round },
                    false => Message::Word { round, body },
                });
                self.work = Work::Open;
            }
            Work::Due(at) if now >= at => {
                self.began = now;
                let next = now + Nanos::from_secs(1).min(length);
                self.work = Work::Running { since: now, next };
            }
            Work::Running { since, next } if self.serves && now >= next => {
                let over = now >= since + length && self.fails;
                self.work = Work::Running { since, next: now + Nanos::from_secs(1) };
                if over {
                    let why = "the server failed".to_owned();
                    self.follower.say(Message::Refused { round, why });
                    self.work = Work::Idle;
                }
            }
            Work::Running { .. } if self.serves => {}
            Work::Running { since, .. } if now >= since + length && self.fails => {
                let why = "no I/O came back".to_owned();
                self.follower.say(Message::Refused { round, why });
                self.work = Work::Idle;
            }
            Work::Running { since, .. } if now >= since + length => self.part(now, since),
            Work::Running { since, next } if now >= next => {
                self.told += 1;
                let body = self.told.to_le_bytes().to_vec();
                self.follower.say(Message::Second { round, body: body.clone() });
                let window = (self.clock.read(since), self.clock.read(now));
                self.follower.say(Message::Draft { round, window, body });
                let next = (next + Nanos::from_secs(1)).min(since + length);
                self.work = Work::Running { since, next: next.max(now + Nanos(1)) };
            }
            _ => {}
        }
    }

    fn part(&mut self, now: Nanos, since: Nanos) {
        let (round, window) = (self.round, (self.clock.read(since), self.clock.read(now)));
        self.follower.say(Message::Part { round, window, body: round.to_le_bytes().to_vec() });
        self.work = Work::Idle;
    }
}
