//! The world of a fleet: events in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{Nanos, Rng};
use fleet::{BEAT, Event, GATHERING, Leader, Message, SILENCE};

use super::host::{Host, HostClock, Work};
use super::story::{FleetStory, Mishap};
use super::truth::Truth;

/// A time that never comes.
const NEVER: Nanos = Nanos(u64::MAX);

/// The outcome of a story.
#[derive(Clone, Debug, Default)]
pub struct FleetReport {
    /// Rounds with a result.
    pub rounds: u64,
    /// Number of these with a lost rank.
    pub partial: u64,
    /// Rounds that a rank refused.
    pub refused: u64,
    /// Windows of ranks whose bound holds the truth.
    pub bounds_held: u64,
    /// Windows whose bound does not.
    pub bounds_missed: u64,
    /// Ranks that served, and were told to end.
    pub released: u64,
}

impl FleetReport {
    /// Counts by name.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("rounds", self.rounds),
            ("partial", self.partial),
            ("refused", self.refused),
            ("bounds held", self.bounds_held),
            ("bounds missed", self.bounds_missed),
            ("released", self.released),
        ]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Mishap(usize),
    ToLeader(u32, Vec<u8>),
    ToHost(u32, Vec<u8>),
    WakeLeader,
    WakeHost(u32),
}

/// The program of rank 0.
#[derive(Debug)]
pub(super) struct Head {
    pub leader: Leader,
    pub clock: HostClock,
    pub round: u64,
    pub own: Work,
    /// Ranks that said their words before the start.
    words: Vec<u32>,
    /// A rank that serves is lost.
    hurries: bool,
    pub is_gone: bool,
    paused_until: Nanos,
    pub is_stopped: bool,
    pub left: Option<Nanos>,
    wake: Nanos,
}

/// A fleet in virtual time.
pub(super) struct World<'a> {
    story: &'a FleetStory,
    rng: Rng,
    now: Nanos,
    number: u64,
    queue: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    head: Head,
    hosts: Vec<Host>,
    /// Last arrival on each way: to a host, and from it.
    arrivals: Vec<[Nanos; 2]>,
    truth: Truth,
}

impl<'a> World<'a> {
    pub fn new(story: &'a FleetStory) -> World<'a> {
        let mut rng = Rng::new(story.seed, 1);
        let clock = HostClock::drawn(&mut rng);
        let others = story.ranks as usize - 1;
        let mut hosts: Vec<Host> = (0..others)
            .map(|_| {
                let starts = Nanos::from_millis(rng.below(2000));
                Host::new(starts, HostClock::drawn(&mut rng))
            })
            .collect();
        let first = others - others.min(story.servers as usize);
        hosts[first..].iter_mut().for_each(|host| host.serves = true);
        let head = Head {
            leader: Leader::new(clock.read(Nanos(0)), story.ranks as u32),
            clock,
            round: 0,
            own: Work::Idle,
            words: Vec::new(),
            hurries: false,
            is_gone: false,
            paused_until: Nanos(0),
            is_stopped: false,
            left: None,
            wake: Nanos(0),
        };
        let mut world = World {
            story,
            rng,
            now: Nanos(0),
            number: 0,
            queue: BinaryHeap::new(),
            head,
            arrivals: vec![[Nanos(0); 2]; others],
            truth: Truth::new(others),
            hosts,
        };
        world.plan();
        world
    }

    /// Plans the first calls, and the mishaps.
    fn plan(&mut self) {
        self.at(Nanos(0), What::WakeLeader);
        for rank in 1..=self.hosts.len() as u32 {
            self.at(self.hosts[rank as usize - 1].starts, What::WakeHost(rank));
        }
        let whole_ms = 2500 + self.story.rounds * (self.story.length_ms + 400);
        for (at, mishap) in self.story.mishaps.iter().enumerate() {
            let early = matches!(mishap, Mishap::Absent | Mishap::Refuse | Mishap::Fail);
            let when = if early || *mishap == Mishap::Slow { 0 } else { self.rng.below(whole_ms) };
            self.at(Nanos::from_millis(when), What::Mishap(at));
        }
    }

    fn at(&mut self, at: Nanos, what: What) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number, what)));
    }

    /// Runs to the end; an error is the first violation.
    pub fn run(mut self, say: fn(&str)) -> Result<FleetReport, String> {
        let length = Nanos::from_millis(self.story.length_ms);
        let round = length + SILENCE + SILENCE + Nanos::from_secs(45);
        let limit = GATHERING + Nanos(round.0 * (self.story.rounds + 1));
        while let Some(Reverse((at, _, what))) = self.queue.pop() {
            if at > limit {
                break;
            }
            self.now = at;
            match what {
                What::Mishap(index) => {
                    let mishap = self.story.mishaps[index];
                    say(&format!("{:.6} {mishap:?}", at.as_secs_f64()));
                    self.mishap(mishap);
                }
                What::ToLeader(from, bytes) => self.reach_leader(from, bytes)?,
                What::ToHost(rank, bytes) => self.reach_host(rank, bytes)?,
                What::WakeLeader if self.head.wake == at => self.step_leader()?,
                What::WakeHost(rank) if self.hosts[rank as usize - 1].wake == at => {
                    self.step_host(rank)?;
                }
                What::WakeLeader | What::WakeHost(_) => {}
            }
            if self.is_over() {
                break;
            }
        }
        self.truth.end(&self.head, &self.hosts, self.now)?;
        Ok(self.truth.report)
    }

    /// Whether nobody does anything more.
    fn is_over(&self) -> bool {
        let head = self.head.is_gone || self.head.left.is_some();
        head && self.hosts.iter().all(|host| host.is_gone || host.ended.is_some())
    }

    fn mishap(&mut self, mishap: Mishap) {
        let others = self.hosts.len() as u64;
        let for_good = self.rng.below(2) == 0;
        let while_ms = 1 + self.rng.below(9_000);
        let until = if for_good { NEVER } else { self.now + Nanos::from_millis(while_ms) };
        match mishap {
            Mishap::LeaderDies => self.head.is_gone = self.head.left.is_none(),
            Mishap::LeaderPauses => {
                self.head.paused_until = self.now + Nanos::from_millis(while_ms);
                self.truth.unsettled(0);
                self.at(self.head.paused_until, What::WakeLeader);
                self.head.wake = self.head.paused_until;
            }
            Mishap::Stop => {
                self.head.is_stopped = true;
                self.head.leader.stop(self.head.clock.read(self.now));
                if matches!(self.head.own, Work::Running { .. } | Work::Due(_)) {
                    self.head.own = Work::Running { since: self.now, next: self.now };
                } else if self.head.own != Work::Idle {
                    self.head.leader.done(self.head.clock.read(self.now));
                    self.head.own = Work::Idle;
                    self.leave();
                }
                self.head.wake = self.now + Nanos(1);
                self.at(self.head.wake, What::WakeLeader);
            }
            _ if others == 0 => {}
            Mishap::HostDies => {
                let (from, count) = (self.rng.below(others), 1 + self.rng.below(4));
                for at in from..(from + count).min(others) {
                    self.kill(at as usize);
                }
            }
            _ => {
                let at = self.rng.below(others) as usize;
                self.mishap_of(mishap, at, until);
            }
        }
    }

    fn kill(&mut self, at: usize) {
        self.hosts[at].is_gone = true;
        self.truth.killed(at, self.now);
    }

    /// A mishap of one rank.
    fn mishap_of(&mut self, mishap: Mishap, at: usize, until: Nanos) {
        let host = &mut self.hosts[at];
        match mishap {
            Mishap::Absent if host.ended.is_none() => {
                (host.is_gone, host.starts) = (true, NEVER);
                self.truth.killed(at, self.now);
            }
            Mishap::Kill => self.kill(at),
            Mishap::Refuse => host.refuses = true,
            Mishap::Fail => host.fails = true,
            Mishap::Slow => host.is_slow = true,
            Mishap::Hostile => host.is_hostile = true,
            Mishap::Cut => {
                // A way that is cut for good stays so.
                host.cut_until = host.cut_until.max(until);
                self.truth.unsettled(at + 1);
            }
            Mishap::Pause => {
                host.paused_until = until;
                host.is_gone |= until == NEVER;
                self.truth.unsettled(at + 1);
                if until != NEVER {
                    host.wake = until.max(host.starts);
                    let wake = host.wake;
                    self.at(wake, What::WakeHost(at as u32 + 1));
                }
            }
            // No two looks find a clock that is set, and set back before the next look.
            Mishap::SetClock if host.clock.set.is_none() => {
                let by_ns = 1_000_000 + self.rng.below(1_000_000_000) as i64;
                let sign = if self.rng.below(2) == 0 { 1 } else { -1 };
                self.hosts[at].clock.set = Some((self.now, sign * by_ns));
                self.truth.set(at);
            }
            _ => {}
        }
    }

    /// Sends a message on its way.
    fn send(&mut self, rank: u32, is_to_host: bool, bytes: Vec<u8>) {
        let jitter_us = match self.story.jitter_us {
            0 => 0,
            most => self.rng.below(most + 1),
        };
        let way = Nanos((self.story.way_us + jitter_us) * 1000);
        let at = rank as usize - 1;
        let cut = self.hosts[at].cut_until;
        if cut == NEVER {
            return;
        }
        let last = self.arrivals[at][usize::from(is_to_host)];
        let arrives =
            (self.now.max(if cut > self.now { cut } else { self.now }) + way).max(last + Nanos(1));
        self.arrivals[at][usize::from(is_to_host)] = arrives;
        let what = match is_to_host {
            true => What::ToHost(rank, bytes),
            false => What::ToLeader(rank, bytes),
        };
        self.at(arrives, what);
    }

    fn reach_leader(&mut self, from: u32, bytes: Vec<u8>) -> Result<(), String> {
        // Messages in flight when the path is cut for good are lost.
        if self.head.is_gone || self.head.left.is_some() {
            return Ok(());
        }
        if self.now < self.head.paused_until {
            self.at(self.head.paused_until, What::ToLeader(from, bytes));
            return Ok(());
        }
        self.head.leader.hear(self.head.clock.read(self.now), from, &bytes);
        self.step_leader()
    }

    fn reach_host(&mut self, rank: u32, bytes: Vec<u8>) -> Result<(), String> {
        let host = &mut self.hosts[rank as usize - 1];
        if host.is_gone || host.ended.is_some() {
            return Ok(());
        }
        if !host.acts(self.now) {
            let until = host.paused_until.max(host.starts);
            self.at(until, What::ToHost(rank, bytes));
            return Ok(());
        }
        host.follower.hear(host.clock.read(self.now), &bytes);
        self.step_host(rank)
    }

    fn step_host(&mut self, rank: u32) -> Result<(), String> {
        let length = Nanos::from_millis(self.story.length_ms);
        let host = &mut self.hosts[rank as usize - 1];
        if host.ended.is_some() {
            return Ok(());
        }
        if !host.acts(self.now) {
            if !host.is_gone {
                host.wake = host.paused_until.max(host.starts);
                let wake = host.wake;
                self.at(wake, What::WakeHost(rank));
            }
            return Ok(());
        }
        host.wake = host.step(self.now, length, &mut self.rng);
        let (wake, released) = (host.wake, host.released);
        let mut out = Vec::new();
        while let Some(message) = host.follower.next_message() {
            out.push(message.encode());
        }
        if host.is_hostile && self.rng.below(8) == 0 {
            out.push((0..self.rng.below(40)).map(|_| self.rng.below(256) as u8).collect());
            self.truth.unsettled(rank as usize);
        }
        out.into_iter().for_each(|bytes| self.send(rank, false, bytes));
        self.at(wake, What::WakeHost(rank));
        match released {
            true => self.truth.released(rank, &self.head, &self.hosts),
            false => Ok(()),
        }
    }

    fn step_leader(&mut self) -> Result<(), String> {
        if self.head.is_gone || self.head.left.is_some() {
            return Ok(());
        }
        if self.now < self.head.paused_until {
            self.head.wake = self.head.paused_until;
            self.at(self.head.wake, What::WakeLeader);
            return Ok(());
        }
        let mut wake = self.now;
        while wake <= self.now {
            self.work_of_leader();
            let reads = self.head.clock.read(self.now);
            wake = self.head.clock.truth(self.head.leader.step(reads), self.now);
            wake = wake.max(self.now + Nanos(1));
            while let Some(event) = self.head.leader.next_event() {
                self.told(event)?;
                wake = self.now;
            }
            match self.head.own {
                Work::Opening(at) | Work::Due(at) => wake = wake.min(at),
                Work::Running { next, .. } => wake = wake.min(next),
                Work::Idle | Work::Open => {}
            }
        }
        let reads = self.head.clock.read(self.now);
        while let Some((rank, message)) = self.head.leader.next_message(reads) {
            self.send(rank, true, message.encode());
        }
        self.head.wake = wake.min(self.now + BEAT);
        self.at(self.head.wake, What::WakeLeader);
        Ok(())
    }

    /// Rank 0's own workers.
    fn work_of_leader(&mut self) {
        let (now, reads) = (self.now, self.head.clock.read(self.now));
        match self.head.own {
            Work::Opening(at) if now >= at => {
                self.head.leader.ready(reads);
                self.head.own = Work::Open;
            }
            Work::Due(at) if now >= at => {
                let next = now + Nanos::from_millis(self.story.length_ms);
                self.head.own = Work::Running { since: now, next };
            }
            Work::Running { next, .. } if now >= next => {
                self.head.leader.done(reads);
                self.head.own = Work::Idle;
                self.hurry();
            }
            _ => {}
        }
    }

    /// After the window nobody waits for the I/Os of a server that is lost.
    fn hurry(&mut self) {
        if self.head.hurries && self.head.own == Work::Idle {
            self.head.hurries = false;
            self.head.leader.hurry();
        }
    }

    /// The program of rank 0 is told something.
    fn told(&mut self, event: Event) -> Result<(), String> {
        let reads = self.head.clock.read(self.now);
        match event {
            Event::Gathered { .. } => self.order(),
            Event::Began(began) => {
                self.truth.began(began);
                self.head.own = Work::Due(self.head.clock.truth(began.at, self.now));
                if self.head.is_stopped {
                    self.head.own = Work::Running { since: self.now, next: self.now };
                }
            }
            Event::Refused { rank, why } => {
                self.truth.refused(rank, &why, &self.head, &self.hosts)?;
                if self.head.own != Work::Idle {
                    self.head.leader.done(reads);
                    self.head.own = Work::Idle;
                }
                self.leave();
            }
            Event::Lost { rank, .. } => {
                self.truth.lost(rank, &self.hosts, &self.head, self.now)?;
                self.head.hurries |= self.hosts[rank as usize - 1].serves;
                self.hurry();
            }
            Event::Word { rank, body } => self.word(rank, &body)?,
            Event::Second { .. } | Event::Draft { .. } => {}
            Event::Over(outcomes) => {
                self.truth.over(&outcomes, &self.head, &self.hosts)?;
                match self.head.round < self.story.rounds && !self.head.is_stopped {
                    true => self.order(),
                    false => self.leave(),
                }
            }
        }
        Ok(())
    }

    /// Answers the words of all ranks that drive, once they are there.
    fn word(&mut self, rank: u32, body: &[u8]) -> Result<(), String> {
        let round = (self.head.round as u32).to_le_bytes();
        if body != round || self.head.words.contains(&rank) {
            return Err(format!("rank {rank} said {body:?} in round {}", self.head.round));
        }
        self.head.words.push(rank);
        let driving = self.hosts.iter().filter(|host| !host.serves).count();
        if self.head.words.len() == driving {
            let ranks = std::mem::take(&mut self.head.words);
            ranks.into_iter().for_each(|rank| self.head.leader.say(rank, round.to_vec()));
        }
        Ok(())
    }

    fn order(&mut self) {
        if self.head.is_stopped {
            return self.leave();
        }
        self.head.round += 1;
        self.head.words.clear();
        self.head.hurries = false;
        let reads = self.head.clock.read(self.now);
        let serving: Vec<u32> =
            (1..).zip(&self.hosts).filter(|(_, host)| host.serves).map(|(rank, _)| rank).collect();
        self.head.leader.order(reads, b"work", Nanos(0), &serving);
        self.head.own = Work::Opening(self.now + Nanos::from_millis(1 + self.rng.below(300)));
    }

    fn leave(&mut self) {
        if self.head.left.is_some() {
            return;
        }
        self.head.leader.leave();
        let reads = self.head.clock.read(self.now);
        while let Some((rank, message)) = self.head.leader.next_message(reads) {
            debug_assert!(!matches!(message, Message::Hello { .. }));
            self.send(rank, true, message.encode());
        }
        self.head.left = Some(self.now);
    }
}
