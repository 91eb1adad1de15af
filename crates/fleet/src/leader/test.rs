use super::*;
use crate::follower::{Follower, Heard};

const MS: Nanos = Nanos::from_millis(1);

/// A leader and followers whose messages arrive at once, on one clock.
struct Small {
    now: Nanos,
    leader: Leader,
    followers: Vec<Follower>,
    heard: Vec<Vec<Heard>>,
    told: Vec<Event>,
}

impl Small {
    fn new(size: u32) -> Small {
        let now = Nanos::from_secs(1);
        let followers: Vec<Follower> = (1..size).map(|_| Follower::new(now, vec![7])).collect();
        let heard = vec![Vec::new(); followers.len()];
        let mut small =
            Small { now, leader: Leader::new(now, size), followers, heard, told: Vec::new() };
        small.pass(MS);
        small
    }

    /// Passes time in milliseconds; ranks in `silent` say nothing.
    fn pass_without(&mut self, time: Nanos, silent: &[usize]) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + MS;
            self.leader.step(self.now);
            for _ in 0..64 {
                let mut moved = false;
                while let Some((to, message)) = self.leader.next_message(self.now) {
                    self.followers[to as usize - 1].hear(self.now, &message.encode());
                    moved = true;
                }
                for at in 0..self.followers.len() {
                    self.followers[at].step(self.now);
                    while let Some(message) = self.followers[at].next_message() {
                        if !silent.contains(&(at + 1)) {
                            self.leader.hear(self.now, at as u32 + 1, &message.encode());
                            moved = true;
                        }
                    }
                    while let Some(heard) = self.followers[at].next_event() {
                        self.heard[at].push(heard);
                    }
                }
                while let Some(event) = self.leader.next_event() {
                    self.told.push(event);
                }
                if !moved {
                    break;
                }
            }
        }
    }

    fn pass(&mut self, time: Nanos) {
        self.pass_without(time, &[]);
    }

    /// Orders a round that all are ready for, and passes its start.
    fn begun(size: u32) -> Small {
        let mut small = Small::new(size);
        small.leader.order(small.now, b"work", Nanos(0), &[]);
        small.pass(MS);
        small.followers.iter_mut().for_each(|of| of.say(Message::Ready { round: 1 }));
        small.leader.ready(small.now);
        small.pass(Nanos::from_millis(100));
        assert!(small.told.iter().any(|event| matches!(event, Event::Began(_))));
        small
    }

    fn part(&mut self, rank: usize, round: u32) {
        let window = (Nanos(1), self.now);
        self.followers[rank - 1].say(Message::Part { round, window, body: vec![rank as u8] });
    }

    fn over(&self) -> Option<&Vec<Outcome>> {
        self.told.iter().rev().find_map(|event| match event {
            Event::Over(outcomes) => Some(outcomes),
            _ => None,
        })
    }
}

#[test]
fn a_round_of_three_goes_through() {
    let mut small = Small::begun(3);
    assert_eq!(small.told[0], Event::Gathered { facts: vec![vec![7], vec![7]] });
    let starts = |heard: &Vec<Heard>| heard.iter().any(|of| matches!(of, Heard::Start { .. }));
    assert!(small.heard.iter().all(starts));
    (1..3).for_each(|rank| small.part(rank, 1));
    small.pass(MS);
    assert!(small.over().is_none(), "rank 0 still measures");
    small.leader.done(small.now);
    small.pass(Nanos::from_millis(5));
    let over = small.over().unwrap();
    assert_eq!(over.len(), 2);
    assert!(over.iter().all(|of| of.fate == Fate::Part(vec![of.rank as u8])));
    assert!(over.iter().all(|of| of.relation.is_some_and(|of| of.after.is_some())));
    small.leader.leave();
    small.pass(MS);
    assert!(small.heard.iter().all(|heard| heard.last() == Some(&Heard::Leave)));
}

#[test]
fn what_one_rank_refuses_nobody_begins() {
    let mut small = Small::new(3);
    small.leader.order(small.now, b"work", Nanos(0), &[]);
    small.pass(MS);
    small.followers[1].say(Message::Refused { round: 1, why: "no such file".to_owned() });
    small.pass(MS);
    let why = "no such file".to_owned();
    assert_eq!(small.told.last(), Some(&Event::Refused { rank: 2, why }));
    assert_eq!(small.heard[0].last(), Some(&Heard::Stop { round: 1 }));
    // The next order is a new round.
    small.leader.order(small.now, b"work", Nanos(0), &[]);
    small.pass(MS);
    assert!(matches!(small.heard[1].last(), Some(Heard::Order { round: 2, .. })));
}

#[test]
fn a_rank_lost_on_the_way_leaves_its_draft() {
    let mut small = Small::begun(3);
    let window = (Nanos(1), Nanos(2));
    small.followers[0].say(Message::Draft { round: 1, window, body: vec![9] });
    small.pass(Nanos::from_secs(1));
    small.part(2, 1);
    small.leader.done(small.now);
    small.pass_without(SILENCE + Nanos::from_secs(1), &[1]);
    assert!(small.told.iter().any(|event| matches!(event, Event::Lost { rank: 1, .. })));
    let over = small.over().unwrap();
    let Fate::Lost { draft, why } = &over[0].fate else { panic!("{over:?}") };
    assert_eq!((draft, &**why), (&Some(vec![9]), "silent for 6.0 s"));
    assert!(over[0].window.is_some());
    assert_eq!(over[1].fate, Fate::Part(vec![2]));
    // With a rank lost there is no further round.
    small.leader.order(small.now, b"work", Nanos(0), &[]);
    assert!(matches!(small.leader.next_event(), Some(Event::Refused { rank: 1, .. })));
}

#[test]
fn a_rank_that_never_comes_is_missed_after_a_minute() {
    let now = Nanos::from_secs(1);
    let mut leader = Leader::new(now, 2);
    leader.step(now + GATHERING - Nanos::from_secs(1));
    assert_eq!(leader.next_event(), None);
    leader.step(now + GATHERING);
    assert!(matches!(leader.next_event(), Some(Event::Lost { rank: 1, .. })));
    assert!(matches!(leader.next_event(), Some(Event::Gathered { .. })));
    assert!(!leader.is_whole());
}

#[test]
fn strangers_and_other_rounds_are_not_believed() {
    let mut small = Small::begun(3);
    small.leader.hear(small.now, 2, &[200, 1, 2]);
    small.leader.hear(small.now, 9, &Message::Beat.encode());
    let lost = small.leader.next_event();
    assert!(matches!(lost, Some(Event::Lost { rank: 2, .. })), "{lost:?}");
    // A part of a round that is not there yet.
    let window = (Nanos(0), Nanos(1));
    let early = Message::Part { round: 2, window, body: vec![1] };
    small.leader.hear(small.now, 1, &early.encode());
    assert!(matches!(small.leader.next_event(), Some(Event::Lost { rank: 1, .. })));
}

#[test]
fn a_user_who_stops_gets_what_there_is() {
    let mut small = Small::begun(3);
    let window = (Nanos(1), Nanos(2));
    small.followers[0].say(Message::Draft { round: 1, window, body: vec![9] });
    small.pass(MS);
    small.leader.stop(small.now);
    small.leader.done(small.now);
    small.pass(MS);
    assert_eq!(small.heard[1].last(), Some(&Heard::Stop { round: 1 }));
    small.part(2, 1);
    small.pass(STOPPING + MS);
    let over = small.over().unwrap();
    let why = "sent no part in time".to_owned();
    assert_eq!(over[0].fate, Fate::Lost { draft: Some(vec![9]), why });
    assert_eq!(over[1].fate, Fate::Part(vec![2]));
}

/// The leader releases a serving rank after all driving ranks have ended, and not before.
#[test]
fn who_serves_ends_last() {
    let mut small = Small::new(4);
    small.leader.order(small.now, b"work", Nanos(0), &[2]);
    small.pass(MS);
    small.followers.iter_mut().for_each(|of| of.say(Message::Ready { round: 1 }));
    small.leader.ready(small.now);
    small.pass(Nanos::from_millis(100));
    let stop = Heard::Stop { round: 1 };
    small.part(1, 1);
    small.leader.done(small.now);
    small.pass(MS);
    assert!(!small.heard[1].contains(&stop), "rank 3 still drives");
    small.part(3, 1);
    small.pass(MS);
    assert!(small.heard[1].contains(&stop) && !small.heard[0].contains(&stop));
    assert!(small.over().is_none(), "rank 2 has not ended");
    small.part(2, 1);
    small.pass(Nanos::from_millis(5));
    assert!(small.over().unwrap().iter().all(|of| of.fate == Fate::Part(vec![of.rank as u8])));
    // The next round may have other roles.
    small.leader.order(small.now, b"work", Nanos(0), &[]);
    small.pass(MS);
    assert!(matches!(small.heard[1].last(), Some(Heard::Order { round: 2, .. })));
}

/// A rank that serves and is lost does not hold up the round.
#[test]
fn who_served_and_is_lost_is_named() {
    let mut small = Small::new(3);
    small.leader.order(small.now, b"work", Nanos(0), &[2]);
    small.pass(MS);
    small.followers.iter_mut().for_each(|of| of.say(Message::Ready { round: 1 }));
    small.leader.ready(small.now);
    small.pass(Nanos::from_millis(100));
    small.pass_without(SILENCE + Nanos::from_secs(1), &[2]);
    assert!(matches!(small.told.last(), Some(Event::Lost { rank: 2, .. })));
    // The rank that drives waits for I/Os of the lost one.
    small.leader.hurry();
    small.pass_without(MS, &[2]);
    assert_eq!(small.heard[0].last(), Some(&Heard::Stop { round: 1 }));
    assert!(!small.heard[1].contains(&Heard::Stop { round: 1 }));
    small.part(1, 1);
    small.leader.done(small.now);
    small.pass_without(Nanos::from_millis(5), &[2]);
    let over = small.over().unwrap();
    assert_eq!(over[0].fate, Fate::Part(vec![1]));
    assert!(matches!(&over[1].fate, Fate::Lost { draft: None, .. }), "{over:?}");
}
