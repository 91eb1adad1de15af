//! Completions of I/Os by volumes, decided by the seed before anything runs.

use block::{Connection, Fault, Nanos, Rng};

use super::situation::{Mishap, Situation};

/// A time span in nanoseconds, for one volume or all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The volume; `None` for all.
    volume: Option<usize>,
}

impl Stretch {
    fn holds(&self, at: u64, volume: usize) -> bool {
        (self.from..self.to).contains(&at) && self.volume.is_none_or(|this| this == volume)
    }
}

/// Fate of an I/O.
pub(super) struct Fate {
    /// Completion time, if the I/O ever completes.
    pub(super) at: Option<u64>,
    pub(super) result: Result<(), Fault>,
}

/// All decisions of the seed on completions.
#[derive(Debug)]
pub(super) struct Script {
    situation: Situation,
    /// The measured window as planned.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Mean service time at normal speed.
    pub(super) service: f64,
    slow: Vec<f64>,
    stalls: Vec<Stretch>,
    errors: Vec<Stretch>,
    reconnects: Vec<Stretch>,
    /// A volume that completes nothing from this time on.
    dead: Option<(usize, u64)>,
    starved: Option<usize>,
    time_out: Option<(usize, u64)>,
    swap: Option<u64>,
    throttle: Option<(u64, u64)>,
    bunch: Option<u64>,
    /// Reads return wrong data from this time on.
    lies_from: Option<u64>,
    /// Queue depth of a lane.
    pub(super) narrow: usize,
    /// Time at which each server of each volume is free.
    busy: Vec<Vec<u64>>,
    rng: Rng,
}

/// Time-out of an I/O, in nanoseconds.
const TIME_OUT: u64 = 300_000_000;
/// Base of the random streams, one per mishap, so that removing others does not change it.
const STREAMS: u64 = 100;

/// Converts like a job's seconds: inexact fractions lose a nanosecond.
pub(super) fn nanos(ms: u64) -> u64 {
    (ms as f64 / 1e3 * 1e9) as u64
}

impl Script {
    pub(super) fn new(situation: &Situation) -> Script {
        let (begin, window) = (nanos(situation.ramp), nanos(situation.window));
        let end = begin + window;
        let volumes = situation.volumes as usize;
        let most = |volume| {
            let workers = 0..situation.workers as usize;
            let ours = workers.filter(|worker| situation.volume_of(*worker) == volume);
            let in_flight: u64 = ours.map(|worker| situation.depth_of(worker)).sum();
            if situation.units == 0 { in_flight } else { in_flight.min(situation.units) }
        };
        let at_a_time: u64 = (0..volumes).map(most).sum();
        let service = (at_a_time * end) as f64 / situation.ios as f64;
        let mut script = Script {
            begin,
            end,
            // Service takes at most half of the window, and at least 2 µs.
            service: service.clamp(2000.0, (window / 2).max(2000) as f64),
            slow: vec![1.0; volumes],
            stalls: Vec::new(),
            errors: Vec::new(),
            reconnects: Vec::new(),
            dead: None,
            starved: None,
            time_out: None,
            swap: None,
            throttle: None,
            bunch: None,
            lies_from: None,
            narrow: usize::MAX,
            busy: vec![vec![0; situation.units as usize]; volumes],
            rng: Rng::new(situation.seed, 2),
            situation: situation.clone(),
        };
        for mishap in &situation.mishaps {
            script.prepare(*mishap);
        }
        script
    }

    /// IOPS of a worker without mishaps.
    pub(super) fn capacity(&self) -> f64 {
        self.situation.ios as f64 / (self.end as f64 / 1e9) / self.situation.workers as f64
    }

    /// Decides when and where a mishap strikes.
    fn prepare(&mut self, mishap: Mishap) {
        let number = Mishap::ALL.iter().position(|(known, _)| *known == mishap).unwrap_or(0);
        let mut rng = Rng::new(self.situation.seed, STREAMS + number as u64);
        let volume = rng.below(self.situation.volumes) as usize;
        let worker = rng.below(self.situation.workers) as usize;
        let (begin, window) = (self.begin, self.end - self.begin);
        let within = begin + rng.below(window);
        let one = Some(volume);
        match mishap {
            Mishap::StallAll => self.stalls.push(self.stretch(&mut rng, None)),
            Mishap::StallOne => self.stalls.push(self.stretch(&mut rng, one)),
            Mishap::DeadThird => {
                let length = window * (35 + rng.below(30)) / 100;
                let from = begin + rng.below(window - length + 1);
                self.stalls.push(Stretch { from, to: from + length, volume: one });
            }
            Mishap::DeadEnd => self.dead = Some((volume, within)),
            Mishap::Starve => self.starved = Some(worker),
            Mishap::TimeOut => self.time_out = Some((worker, within)),
            Mishap::Errors => self.errors.push(self.stretch(&mut rng, one)),
            Mishap::RampErrors => self.errors.push(Stretch { from: 0, to: begin, volume: None }),
            Mishap::WindowErrors => {
                self.errors.push(Stretch { from: begin, to: self.end, volume: None });
            }
            Mishap::Swap => {
                self.swap = Some(within);
                self.slow[volume] = 2.0 + 6.0 * rng.uniform();
            }
            Mishap::Throttle => {
                let period = 1 + window / (1 + rng.below(30));
                self.throttle = Some((period, period * (10 + rng.below(60)) / 100));
            }
            Mishap::Bunch => self.bunch = Some((self.service * (2.0 + rng.uniform())) as u64 + 1),
            Mishap::Reconnect => {
                for _ in 0..=rng.below(3) {
                    let stretch = self.stretch(&mut rng, one);
                    self.reconnects.push(stretch);
                }
            }
            Mishap::Narrow => self.narrow = 1 + rng.below(self.situation.depth.min(4)) as usize,
            Mishap::Lie => self.lies_from = Some(within),
            Mishap::Silent | Mishap::Drift | Mishap::Reverse => {}
        }
    }

    /// Draws a span across the start or end of the window, within the window or anywhere.
    fn stretch(&self, rng: &mut Rng, volume: Option<usize>) -> Stretch {
        let (begin, end) = (self.begin, self.end);
        let window = end - begin;
        let length = 1 + rng.below(window * 6 / 10 + 1);
        let from = match rng.below(4) {
            0 => begin.saturating_sub(rng.below(length)),
            1 => end - rng.below(length).min(window),
            2 => begin + rng.below(window),
            _ => rng.below(end),
        };
        // Later than time zero, at which the lane must be open.
        let from = from.max(1);
        Stretch { from, to: from + length, volume }
    }

    /// The fate of an I/O submitted at `now`.
    pub(super) fn fate(&mut self, worker: usize, volume: usize, now: u64) -> Fate {
        let service = (self.draw() * self.slowness(volume, now)).max(1.0) as u64;
        let mut at = match self.busy[volume].iter_mut().min() {
            None => now + service,
            Some(free) => {
                *free = now.max(*free) + service;
                *free
            }
        };
        let dead = self.dead.is_some_and(|(this, from)| this == volume && at >= from);
        let silent = self.situation.has(Mishap::Silent) && self.rng.below(400) == 0;
        if dead || silent || self.starved == Some(worker) {
            return Fate { at: None, result: Ok(()) };
        }
        if self.time_out.is_some_and(|(this, from)| this == worker && now >= from) {
            self.time_out = None;
            return Fate { at: Some(now + TIME_OUT), result: Err(Fault::Unanswered) };
        }
        if let Some(bunch) = self.bunch {
            at = at.next_multiple_of(bunch);
        }
        // One span may end within another.
        let held = |at: u64| {
            let mut all = self.stalls.iter().chain(&self.reconnects);
            all.find(|stretch| stretch.holds(at, volume)).map(|stretch| stretch.to)
        };
        while let Some(later) = held(at) {
            at = later;
        }
        let failing = self.errors.iter().any(|stretch| stretch.holds(at, volume));
        let fails = failing && self.rng.below(100) < 40;
        Fate { at: Some(at), result: if fails { Err(Fault::Medium) } else { Ok(()) } }
    }

    /// Whether a read that completes at `now` may be corrupted.
    pub(super) fn lies(&self, now: u64) -> bool {
        self.lies_from.is_some_and(|from| now >= from)
    }

    /// A service time at normal speed.
    fn draw(&mut self) -> f64 {
        let part = match self.situation.service {
            0 => 1.0,
            1 => 0.5 + self.rng.uniform(),
            2 => self.rng.exponential(),
            3 if self.rng.below(10) == 0 => 5.5,
            3 => 0.5,
            _ if self.rng.below(200) == 0 => 40.0 * self.rng.exponential(),
            _ => 0.8,
        };
        part * self.service
    }

    fn slowness(&self, volume: usize, now: u64) -> f64 {
        let mut slow = self.slow[volume];
        if self.swap.is_some_and(|at| now >= at) {
            slow = self.slow[(volume + 1) % self.slow.len()];
        }
        if self.situation.has(Mishap::Drift) {
            slow *= 1.0 + 2.0 * now as f64 / self.end as f64;
        }
        if self.throttle.is_some_and(|(period, slow)| now % period < slow) {
            slow *= 6.0;
        }
        slow
    }

    /// Connection counters of a volume at `now`.
    pub(super) fn connection(&self, volume: usize, now: u64) -> Connection {
        let mut sum = Connection::default();
        let ours = |stretch: &&Stretch| stretch.volume == Some(volume) && stretch.from <= now;
        for stretch in self.reconnects.iter().filter(ours) {
            sum.lost += 1;
            sum.reconnects += u64::from(stretch.to <= now);
            sum.failed_attempts += u64::from((stretch.from + stretch.to) / 2 <= now);
            sum.disconnected = sum.disconnected + Nanos(stretch.to.min(now) - stretch.from);
        }
        sum
    }

    /// Whether a volume completed nothing in a contiguous third of `[begin, end)`, whatever was
    /// submitted.
    pub(super) fn was_dead_for_a_third(&self, volume: usize, begin: u64, end: u64) -> bool {
        let third = (end - begin) / 3;
        let long = |from: u64, to: u64| to.min(end).saturating_sub(from.max(begin)) > third;
        let stalls = self.stalls.iter().chain(&self.reconnects);
        let ours = |stretch: &&Stretch| stretch.volume.is_none_or(|this| this == volume);
        stalls.filter(ours).any(|stretch| long(stretch.from, stretch.to))
            || self.dead.is_some_and(|(this, from)| this == volume && long(from, end))
    }
}
