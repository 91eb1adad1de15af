//! The rank that leads: orders, the instant at which all begin, signs of life, and the parts.

mod looks;
mod member;

use std::collections::VecDeque;

use block::{Nanos, Plant, planted};

use self::looks::Looks;
use self::member::Member;
use crate::clocks::{Bounded, Relation};
use crate::follower::silence;
use crate::message::Message;
use crate::{BEAT, GATHERING, SILENCE};

/// Time between the order to start and the start, and what each rank adds to it: enough for the
/// order to arrive everywhere, and for each to be awake by then.
const LEAD: Nanos = Nanos::from_millis(60);
const LEAD_EACH: Nanos = Nanos(200_000);
/// Time limit for parts once the user asked for an end. A launcher that lost a rank kills all
/// others a second later.
const STOPPING: Nanos = Nanos::from_millis(250);

/// Events of a leader.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// All ranks are there: the facts about their hosts, by rank from 1.
    Gathered {
        /// The facts.
        facts: Vec<Vec<u8>>,
    },
    /// The round cannot be: a rank refused it, or was lost before the start.
    Refused {
        /// The rank.
        rank: u32,
        /// Why.
        why: String,
    },
    /// Words of a rank before the start.
    Word {
        /// The rank.
        rank: u32,
        /// The words.
        body: Vec<u8>,
    },
    /// All begin at one instant.
    Began(Began),
    /// Figures of a rank's past second.
    Second {
        /// The rank.
        rank: u32,
        /// The figures.
        body: Vec<u8>,
    },
    /// The part of a rank so far, and its window by the leader's clock.
    Draft {
        /// The rank.
        rank: u32,
        /// The window.
        window: (Bounded, Bounded),
        /// The part.
        body: Vec<u8>,
    },
    /// A rank is gone; the others go on.
    Lost {
        /// The rank.
        rank: u32,
        /// Why.
        why: String,
    },
    /// The round is over: what became of each rank, from 1.
    Over(Vec<Outcome>),
}

/// The beginning of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    /// The instant, by the leader's clock.
    pub at: Nanos,
    /// Maximum distance of another rank's beginning because clocks differ: the largest bound.
    pub bound: Nanos,
}

/// The outcome of a rank's round.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Rank.
    pub rank: u32,
    /// The rank's part, if any, and whether the part is whole.
    pub fate: Fate,
    /// The rank's measured window, by the leader's clock; `None` without a part.
    pub window: Option<(Bounded, Bounded)>,
    /// Relation of the rank's clock to the leader's; `None` if the rank was lost before.
    pub relation: Option<Relation>,
}

/// The part of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Whole.
    Part(Vec<u8>),
    /// The rank was lost: what it had sent by then, and why.
    Lost {
        /// The last draft.
        draft: Option<Vec<u8>>,
        /// Why.
        why: String,
    },
}

/// Stages of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// All ranks to say hello.
    Gathering,
    /// An order.
    Idle,
    /// All ranks to be ready.
    Preparing,
    /// Clocks to be read before the start.
    Before(Looks),
    /// Parts.
    Running,
    /// Clocks to be read after the run.
    After(Looks),
}

/// State of the rank that leads.
#[derive(Debug)]
pub struct Leader {
    members: Vec<Member>,
    stage: Stage,
    round: u32,
    /// Time between the order to start and the measured window that the round needs: its ramp.
    ramp: Nanos,
    /// The leader's own workers are ready, or have ended.
    own: Own,
    gathers_until: Nanos,
    /// Ranks that serve were told that nobody drives any more.
    is_released: bool,
    /// Parts are no longer waited for then.
    stops_at: Option<Nanos>,
    spoke_at: Nanos,
    out: VecDeque<(u32, Message)>,
    events: VecDeque<Event>,
}

/// The leader's own part of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Preparing,
    Ready,
    Done,
}

impl Leader {
    /// The leader of a fleet of `size` ranks.
    pub fn new(now: Nanos, size: u32) -> Leader {
        let mut leader = Leader {
            members: (1..size).map(|_| Member::new(now)).collect(),
            stage: Stage::Gathering,
            round: 0,
            ramp: Nanos(0),
            own: Own::Preparing,
            gathers_until: now + GATHERING,
            is_released: false,
            stops_at: None,
            spoke_at: now,
            out: VecDeque::new(),
            events: VecDeque::new(),
        };
        leader.advance(now);
        leader
    }

    /// Takes a message that arrived at `now`.
    pub fn hear(&mut self, now: Nanos, from: u32, bytes: &[u8]) {
        let Some(member) = from.checked_sub(1).and_then(|at| self.members.get_mut(at as usize))
        else {
            return;
        };
        if member.lost.is_some() {
            return;
        }
        member.heard_at = now;
        let round = self.round;
        match Message::decode(bytes) {
            Some(Message::Hello { body }) if member.facts.is_none() => member.facts = Some(body),
            Some(Message::Pong { number, clock }) => {
                if let Stage::Before(looks) | Stage::After(looks) = &mut self.stage {
                    looks.answer(now, from, number, clock);
                }
            }
            Some(Message::Beat) => {}
            // Messages of an earlier round are late.
            Some(Message::Ready { round: of }) if of <= round => member.is_ready |= of == round,
            Some(Message::Word { round: of, body }) if of <= round => {
                if of == round && self.stage == Stage::Preparing {
                    self.events.push_back(Event::Word { rank: from, body });
                }
            }
            Some(Message::Second { round: of, body }) if of <= round => {
                if of == round {
                    self.events.push_back(Event::Second { rank: from, body });
                }
            }
            Some(Message::Draft { round: of, window, body }) if of <= round => {
                if of == round && member.part.is_none() {
                    if let Some(by) = member.relation {
                        let window = (by.own(window.0), by.own(window.1));
                        let body = body.clone();
                        self.events.push_back(Event::Draft { rank: from, window, body });
                    }
                    member.draft = Some((window, body));
                }
            }
            Some(Message::Part { round: of, window, body }) if of <= round => {
                if of == round && member.part.is_none() {
                    member.part = Some((window, body));
                }
            }
            Some(Message::Refused { round: of, why }) if of <= round => {
                if of == round {
                    self.refused(now, from, why);
                }
            }
            _ => self.lose(from, "it sent what no follower sends".to_owned()),
        }
        self.advance(now);
    }

    /// Begins a round: hands out work. Its measured window begins no sooner than `ramp` after the
    /// start. Ranks of `serving` serve the others, and are released once those have ended.
    pub fn order(&mut self, now: Nanos, body: &[u8], ramp: Nanos, serving: &[u32]) {
        if let Some((rank, why)) = self.first_lost() {
            self.events.push_back(Event::Refused { rank, why });
            return;
        }
        self.round += 1;
        (self.ramp, self.own, self.stops_at) = (ramp, Own::Preparing, None);
        (self.stage, self.is_released) = (Stage::Preparing, false);
        for (rank, member) in (1..).zip(&mut self.members) {
            member.begin_round(serving.contains(&rank));
        }
        let order = Message::Order { round: self.round, body: body.to_vec() };
        self.tell_all(&order);
        self.advance(now);
    }

    /// Says something to a rank before the start.
    pub fn say(&mut self, rank: u32, body: Vec<u8>) {
        if self.stage == Stage::Preparing {
            self.out.push_back((rank, Message::Word { round: self.round, body }));
        }
    }

    /// Says that the leader's own workers are ready.
    pub fn ready(&mut self, now: Nanos) {
        self.own = Own::Ready;
        self.advance(now);
    }

    /// Says that the leader's own part is whole, or will never be.
    pub fn done(&mut self, now: Nanos) {
        self.own = Own::Done;
        match self.stage {
            // No rank has begun.
            Stage::Preparing | Stage::Before(_) => self.cancel(),
            _ => self.advance(now),
        }
    }

    /// Ends the round early: the user asked for it.
    pub fn stop(&mut self, now: Nanos) {
        if self.stops_at.is_none() {
            self.stops_at = Some(now + STOPPING);
            self.tell_all(&Message::Stop { round: self.round });
        }
        self.advance(now);
    }

    /// Ends the work of the ranks that drive, whose parts are waited for: what they wait for will
    /// not come.
    pub fn hurry(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        for (rank, member) in (1..).zip(&self.members) {
            if !member.serves && !member.is_settled() {
                self.out.push_back((rank, Message::Stop { round: self.round }));
            }
        }
    }

    /// Sends all ranks home.
    pub fn leave(&mut self) {
        self.tell_all(&Message::Leave);
    }

    /// Passes time: sends signs of life, and misses those of others. Returns when it must be called
    /// next.
    pub fn step(&mut self, now: Nanos) -> Nanos {
        let gathers = self.stage == Stage::Gathering;
        let mut wake = self.spoke_at + BEAT;
        for rank in 1..=self.members.len() as u32 {
            let member = &self.members[rank as usize - 1];
            if member.lost.is_some() {
                continue;
            }
            // Until its hello a rank may be about to start.
            let until = match gathers && member.facts.is_none() {
                true => self.gathers_until,
                false => member.heard_at + SILENCE,
            };
            match now >= until && !planted(Plant::TrustSilence) {
                true => self.lose(rank, silence(now.since(member.heard_at))),
                false => wake = wake.min(until.max(now + BEAT)),
            }
        }
        if let Some(at) = self.stops_at.filter(|_| self.stage == Stage::Running) {
            wake = wake.min(at.max(now + Nanos(1)));
        }
        if let Stage::Before(looks) | Stage::After(looks) = &mut self.stage {
            wake = wake.min(looks.step(now));
        }
        self.advance(now);
        if now.since(self.spoke_at) >= BEAT {
            self.spoke_at = now;
            self.tell_all(&Message::Beat);
        }
        wake
    }

    /// Returns the next message, and whom it is for. `now` is when it is sent.
    pub fn next_message(&mut self, now: Nanos) -> Option<(u32, Message)> {
        if let Some(next) = self.out.pop_front() {
            return Some(next);
        }
        match &mut self.stage {
            Stage::Before(looks) | Stage::After(looks) => looks.ask(now),
            _ => None,
        }
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns whether clocks are being read: answers are worth being fetched at once.
    pub fn is_looking(&self) -> bool {
        matches!(self.stage, Stage::Before(_) | Stage::After(_))
    }

    /// Returns whether no rank was lost.
    pub fn is_whole(&self) -> bool {
        self.first_lost().is_none()
    }

    fn first_lost(&self) -> Option<(u32, String)> {
        let lost = |(at, member): (usize, &Member)| Some((at as u32 + 1, member.lost.clone()?));
        self.members.iter().enumerate().find_map(lost)
    }

    fn tell_all(&mut self, message: &Message) {
        for (at, member) in self.members.iter().enumerate() {
            if member.lost.is_none() {
                self.out.push_back((at as u32 + 1, message.clone()));
            }
        }
    }

    /// A rank cannot do the work: nobody does.
    fn refused(&mut self, now: Nanos, rank: u32, why: String) {
        match self.stage {
            Stage::Preparing | Stage::Before(_) => {
                self.cancel();
                self.events.push_back(Event::Refused { rank, why });
            }
            // The rank failed after the start: others may have begun.
            _ => {
                self.members[rank as usize - 1].failed.get_or_insert(why);
                self.advance(now);
            }
        }
    }

    fn lose(&mut self, rank: u32, why: String) {
        self.members[rank as usize - 1].lost = Some(why.clone());
        if let Stage::Before(looks) | Stage::After(looks) = &mut self.stage {
            looks.leave_out(rank);
        }
        match self.stage {
            Stage::Preparing | Stage::Before(_) => {
                self.cancel();
                self.events.push_back(Event::Refused { rank, why });
            }
            _ => self.events.push_back(Event::Lost { rank, why }),
        }
    }

    /// Ends a round that has not begun.
    fn cancel(&mut self) {
        self.tell_all(&Message::Stop { round: self.round });
        self.stage = Stage::Idle;
    }

    /// Moves on as far as it can.
    fn advance(&mut self, now: Nanos) {
        match &self.stage {
            Stage::Gathering => {
                if self.members.iter().all(Member::is_known) {
                    self.stage = Stage::Idle;
                    let facts = |member: &Member| member.facts.clone().unwrap_or_default();
                    let facts = self.members.iter().map(facts).collect();
                    self.events.push_back(Event::Gathered { facts });
                }
            }
            Stage::Preparing => {
                let ready = self.own == Own::Ready;
                if ready && self.members.iter().all(|member| member.is_ready) {
                    self.stage = Stage::Before(self.looks(now));
                    self.advance(now);
                }
            }
            Stage::Before(looks) if looks.are_done() => self.start(now),
            Stage::Running => {
                let late = self.stops_at.is_some_and(|at| now >= at);
                let own = self.own == Own::Done;
                if own && !self.is_released && self.have_driven() {
                    self.release();
                }
                if own && (late || self.members.iter().all(Member::is_settled)) {
                    match self.stops_at {
                        Some(_) => self.finish(),
                        None => {
                            self.stage = Stage::After(self.looks(now));
                            self.advance(now);
                        }
                    }
                }
            }
            Stage::After(looks) if looks.are_done() || self.stops_at.is_some() => {
                let found = looks.found();
                for (rank, offset) in found {
                    if let Some(relation) = &mut self.members[rank as usize - 1].relation {
                        relation.after = Some(offset);
                    }
                }
                self.finish();
            }
            Stage::Idle | Stage::Before(_) | Stage::After(_) => {}
        }
    }

    /// Whether no rank drives any more.
    fn have_driven(&self) -> bool {
        let mut driving = self.members.iter().filter(|member| !member.serves);
        match planted(Plant::ReleaseEarly) {
            true => driving.any(Member::is_settled),
            false => driving.all(Member::is_settled),
        }
    }

    /// Tells the ranks that serve to end.
    fn release(&mut self) {
        self.is_released = true;
        for (rank, member) in (1..).zip(&self.members) {
            if member.serves && !member.is_settled() {
                self.out.push_back((rank, Message::Stop { round: self.round }));
            }
        }
    }

    /// Looks at the clocks of all ranks that are there.
    fn looks(&self, now: Nanos) -> Looks {
        let there = self.members.iter().enumerate().filter(|(_, member)| member.lost.is_none());
        Looks::new(now, there.map(|(at, _)| at as u32 + 1).collect())
    }

    /// Names the instant.
    fn start(&mut self, now: Nanos) {
        let Stage::Before(looks) = &self.stage else { return };
        let found = looks.found();
        let each = Nanos(LEAD_EACH.0 * self.members.len() as u64);
        let at = now + LEAD + each + self.ramp;
        let mut bound = Nanos(0);
        for (rank, offset) in found {
            let relation = Relation::new(offset);
            let mut theirs = relation.theirs(at);
            if planted(Plant::ForgetOffset) {
                theirs = at;
            }
            bound = bound.max(relation.own(theirs).bound);
            self.members[rank as usize - 1].relation = Some(relation);
            let start = Message::Start { round: self.round, at: theirs };
            self.out.push_back((rank, start));
        }
        self.stage = Stage::Running;
        self.events.push_back(Event::Began(Began { at, bound }));
        self.advance(now);
    }

    /// Hands over what came.
    fn finish(&mut self) {
        self.stage = Stage::Idle;
        let each = self.members.iter_mut().enumerate();
        let outcomes = each.map(|(at, member)| member.outcome(at as u32 + 1)).collect();
        self.events.push_back(Event::Over(outcomes));
    }
}

#[cfg(test)]
mod test;
