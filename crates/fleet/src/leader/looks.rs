//! Reading the clocks of others: some round trips to each, the shortest of which counts.

use std::collections::HashMap;

use block::Nanos;

use crate::clocks::{Offset, Trip};
use crate::message::Message;

/// Round trips to a rank, unless they take long.
const TRIPS: u32 = 24;
/// After this time with one rank, and a few trips, the next one is asked.
const LONG: Nanos = Nanos::from_millis(100);
const FEW: u32 = 3;
/// Ranks asked at a time, for each 64 of them.
const EACH: usize = 64;

/// Looks at the clocks of some ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// Ranks to ask after those.
    queue: Vec<u32>,
    asked: Vec<Look>,
    found: HashMap<u32, Offset>,
    width: usize,
    number: u32,
}

/// A look at a rank's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    rank: u32,
    began: Nanos,
    /// The question under way: its number, and when it was sent.
    sent: Option<(u32, Nanos)>,
    trips: u32,
    best: Option<Trip>,
}

impl Looks {
    pub fn new(now: Nanos, mut ranks: Vec<u32>) -> Looks {
        ranks.reverse();
        let width = 1 + ranks.len() / EACH;
        let mut looks =
            Looks { queue: ranks, asked: Vec::new(), found: HashMap::new(), width, number: 0 };
        looks.fill(now);
        looks
    }

    /// Returns the next question, sent now.
    pub fn ask(&mut self, now: Nanos) -> Option<(u32, Message)> {
        let look = self.asked.iter_mut().find(|look| look.sent.is_none())?;
        self.number = self.number.wrapping_add(1);
        look.sent = Some((self.number, now));
        Some((look.rank, Message::Ping { number: self.number }))
    }

    /// Takes an answer.
    pub fn answer(&mut self, now: Nanos, from: u32, number: u32, theirs: Nanos) {
        let asked = |look: &Look| look.rank == from;
        let Some(look) = self.asked.iter_mut().find(|look| asked(look)) else { return };
        let Some((_, sent)) = look.sent.filter(|(of, _)| *of == number) else { return };
        let trip = Trip { sent, theirs, back: now };
        look.sent = None;
        look.trips += 1;
        if look.best.is_none_or(|best| trip.took() < best.took()) {
            look.best = Some(trip);
        }
        let long = look.trips >= FEW && now.since(look.began) >= LONG;
        if let Some(best) = look.best.filter(|_| long || look.trips >= TRIPS) {
            self.found.insert(from, best.offset());
            self.leave(from);
            self.fill(now);
        }
    }

    /// Asks a rank no more: it is gone.
    pub fn leave_out(&mut self, rank: u32) {
        self.queue.retain(|other| *other != rank);
        self.leave(rank);
    }

    pub fn step(&mut self, now: Nanos) -> Nanos {
        self.fill(now);
        now + LONG
    }

    pub fn are_done(&self) -> bool {
        self.queue.is_empty() && self.asked.is_empty()
    }

    /// Returns the offset of each rank, in order.
    pub fn found(&self) -> Vec<(u32, Offset)> {
        let mut found: Vec<(u32, Offset)> = self.found.iter().map(|(r, o)| (*r, *o)).collect();
        found.sort_unstable_by_key(|(rank, _)| *rank);
        found
    }

    fn leave(&mut self, rank: u32) {
        self.asked.retain(|look| look.rank != rank);
    }

    fn fill(&mut self, now: Nanos) {
        while self.asked.len() < self.width {
            let Some(rank) = self.queue.pop() else { return };
            self.asked.push(Look { rank, began: now, sent: None, trips: 0, best: None });
        }
    }
}
