//! A rank that follows: answers the leader, and says that it lives.

use std::collections::VecDeque;

use block::{Nanos, Plant, planted};

use crate::message::Message;
use crate::{BEAT, SILENCE};

/// Time between two steps from which a rank had no processor: it asks for one step a beat.
const AWAY: Nanos = Nanos(4 * BEAT.0);

/// The leader, to a follower.
pub(crate) const LEADER: u32 = 0;

/// Events of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Do this work: open what it needs, and say ready.
    Order {
        /// Round.
        round: u32,
        /// The work.
        body: Vec<u8>,
    },
    /// Words of the leader before the start.
    Word {
        /// Round.
        round: u32,
        /// The words.
        body: Vec<u8>,
    },
    /// Begin at this instant of the own clock.
    Start {
        /// Round.
        round: u32,
        /// The instant.
        at: Nanos,
    },
    /// End the round early, with a part of what there is.
    Stop {
        /// Round.
        round: u32,
    },
    /// The work is done.
    Leave,
    /// The leader is gone: no part can be given to it.
    LeaderLost {
        /// Why.
        why: String,
    },
}

/// State of a rank that follows.
#[derive(Debug)]
pub struct Follower {
    heard_at: Nanos,
    spoke_at: Nanos,
    /// Last step: further back than a beat if this rank had no processor.
    stepped_at: Nanos,
    out: VecDeque<Message>,
    events: VecDeque<Heard>,
    is_over: bool,
    is_pinged: bool,
}

impl Follower {
    /// A follower with facts about its host for the leader.
    pub fn new(now: Nanos, facts: Vec<u8>) -> Follower {
        Follower {
            heard_at: now,
            spoke_at: now,
            stepped_at: now,
            out: VecDeque::from([Message::Hello { body: facts }]),
            events: VecDeque::new(),
            is_over: false,
            is_pinged: false,
        }
    }

    /// Takes a message of the leader that arrived at `now`.
    pub fn hear(&mut self, now: Nanos, bytes: &[u8]) {
        if self.is_over {
            return;
        }
        self.heard_at = now;
        match Message::decode(bytes) {
            Some(Message::Ping { number }) => {
                self.is_pinged = true;
                self.say(Message::Pong { number, clock: now });
            }
            Some(Message::Order { round, body }) => {
                self.events.push_back(Heard::Order { round, body });
            }
            Some(Message::Word { round, body }) => {
                self.events.push_back(Heard::Word { round, body });
            }
            Some(Message::Start { round, at }) => {
                self.events.push_back(Heard::Start { round, at });
            }
            Some(Message::Stop { round }) => self.events.push_back(Heard::Stop { round }),
            Some(Message::Leave) => self.end(Heard::Leave),
            Some(Message::Beat) => {}
            _ => self.end(Heard::LeaderLost { why: "it sent what no leader sends".to_owned() }),
        }
    }

    /// Says something to the leader: words, ready, refused, a second, a draft or the part.
    pub fn say(&mut self, message: Message) {
        if !self.is_over {
            self.out.push_back(message);
        }
    }

    /// Passes time: sends signs of life, and misses the leader's. Returns when it must be called
    /// next.
    pub fn step(&mut self, now: Nanos) -> Nanos {
        if self.is_over {
            return now + SILENCE;
        }
        self.listen_on(now);
        let silent = now.since(self.heard_at);
        if silent >= SILENCE && !planted(Plant::TrustLeader) {
            self.end(Heard::LeaderLost { why: silence(silent) });
            return now + SILENCE;
        }
        if now.since(self.spoke_at) >= BEAT && self.out.is_empty() {
            self.out.push_back(Message::Beat);
        }
        if !self.out.is_empty() {
            self.spoke_at = now;
        }
        (self.spoke_at + BEAT).min((self.heard_at + SILENCE).max(now + BEAT))
    }

    /// Leaves out of the leader's silence the time in which this rank had no processor, and so
    /// heard nothing: messages of that time may arrive with the next turns.
    fn listen_on(&mut self, now: Nanos) {
        let away = now.since(self.stepped_at);
        self.stepped_at = now;
        if away >= AWAY {
            self.heard_at = (self.heard_at + away).min(now);
        }
    }

    /// Returns the next message to the leader.
    pub fn next_message(&mut self) -> Option<Message> {
        self.out.pop_front()
    }

    /// Returns what it was told next.
    pub fn next_event(&mut self) -> Option<Heard> {
        self.events.pop_front()
    }

    /// Returns whether the leader asked for the time since the last call: it asks again at once.
    pub fn was_pinged(&mut self) -> bool {
        std::mem::take(&mut self.is_pinged)
    }

    fn end(&mut self, last: Heard) {
        self.is_over = true;
        self.events.push_back(last);
    }
}

/// Words for a rank that said nothing.
pub(crate) fn silence(silent: Nanos) -> String {
    format!("silent for {:.1} s", silent.as_secs_f64())
}

#[cfg(test)]
mod test {
    use super::*;

    fn lost(follower: &mut Follower) -> bool {
        matches!(follower.next_event(), Some(Heard::LeaderLost { .. }))
    }

    #[test]
    fn a_leader_is_silent_only_while_its_follower_listens() {
        let mut now = Nanos::from_secs(1);
        let mut follower = Follower::new(now, Vec::new());
        follower.hear(now, &Message::Beat.encode());
        // No processor for a minute: what the leader said meanwhile arrives with the next turns.
        now = now + Nanos::from_secs(60);
        follower.step(now);
        assert!(!lost(&mut follower));
        follower.hear(now + Nanos(1), &Message::Beat.encode());
        // From here on it listens, and the leader is gone.
        let mut steps = 0;
        while !lost(&mut follower) {
            now = now + BEAT;
            follower.step(now);
            steps += 1;
            assert!(steps <= SILENCE.0 / BEAT.0 + 1, "a leader that is gone is lost in time");
        }
        assert!(steps >= SILENCE.0 / BEAT.0 - 1, "{steps}");
    }
}
