//! Moments of a keeper that a network meets rarely, made step by step over legs in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use block::{Cause, Done, Fault, Geometry, Io, Op};

use super::super::map::Event;
use super::super::superblock::{Member, TAIL_BYTES};
use super::super::{
    Array, DATA_OFFSET, Found, Region, SUPERBLOCK_BYTES, assemble, blank_pages, copies_of,
    page_slots, region_bytes,
};
use super::*;
use crate::mirror::{Opened, Rules};

const ARRAY: u128 = 7;
const BYTES: u64 = 256 << 10;
const LEG_BYTES: u64 = DATA_OFFSET + BYTES + TAIL_BYTES;
/// Maximum steps within which all due work is done.
const STEPS: u32 = 400;

/// A leg's host, and the behaviour of its connections.
struct Host {
    data: Vec<u8>,
    /// Number of connections so far, of silent and of lost ones.
    opened: usize,
    silent: Vec<usize>,
    lost: Vec<usize>,
    /// Writes are not answered for now.
    holds: bool,
    /// Time until which writes are in doubt, and the number of such events.
    until: Option<Nanos>,
    doubts: u64,
}

type Hosts = Rc<RefCell<Vec<Host>>>;

/// A connection, which completes I/Os when polled.
struct Wire {
    hosts: Hosts,
    leg: usize,
    number: usize,
    queue: Vec<Io>,
    is_lost: bool,
}

impl Wire {
    fn open(hosts: &Hosts, leg: usize) -> Box<dyn Lane> {
        let host = &mut hosts.borrow_mut()[leg];
        host.opened += 1;
        let number = host.opened - 1;
        Box::new(Wire { hosts: Rc::clone(hosts), leg, number, queue: Vec::new(), is_lost: false })
    }
}

impl Lane for Wire {
    fn geometry(&self) -> Geometry {
        Geometry::new(LEG_BYTES, 512)
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        self.queue.extend(ios.drain(..));
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        let host = &mut self.hosts.borrow_mut()[self.leg];
        self.is_lost |= host.lost.contains(&self.number);
        if self.is_lost {
            return done.extend(self.queue.drain(..).map(|io| io.failed(Fault::Unanswered)));
        }
        if host.silent.contains(&self.number) {
            return;
        }
        let held = |io: &Io| host.holds && io.op == Op::Write;
        let (held, answered) = std::mem::take(&mut self.queue).into_iter().partition(held);
        self.queue = held;
        for mut io in answered {
            let place = io.offset as usize..(io.offset + u64::from(io.len)) as usize;
            match (io.op, &mut io.buf) {
                (Op::Read, Some(buf)) => buf[..place.len()].copy_from_slice(&host.data[place]),
                (Op::Write, Some(buf)) => {
                    host.data[place.clone()].copy_from_slice(&buf[..place.len()])
                }
                _ => {}
            }
            done.push(Done { tag: io.tag, result: Ok(()), cause: Cause::NONE, buf: io.buf });
        }
    }

    fn wake(&self) -> Option<Nanos> {
        None
    }

    fn broken(&self) -> Option<&str> {
        self.is_lost.then_some("its connection is lost")
    }

    fn in_doubt_until(&self) -> Option<Nanos> {
        self.hosts.borrow()[self.leg].until
    }

    fn doubts(&self) -> u64 {
        self.hosts.borrow()[self.leg].doubts
    }
}

/// An open array with its keeper.
struct Rig {
    hosts: Hosts,
    array: Array,
    keeper: Keeper,
    now: Nanos,
}

impl Rig {
    /// An array of legs in these states.
    fn open(states: &[LegState]) -> Rig {
        let member = |leg: usize| Member {
            uuid: 100 + leg as u128,
            state: states[leg],
            empty: false,
            left: Generation { number: 1, tag: 1 },
        };
        let block = Superblock {
            array: ARRAY,
            name: "a".to_owned(),
            leg: 100,
            generation: Generation { number: 1, tag: 1 },
            bytes: BYTES,
            block_bytes: 512,
            region_bytes: region_bytes(BYTES),
            copies: states.len() as u32,
            members: (0..states.len()).map(member).collect(),
            history: Vec::new(),
        };
        let host = |leg: usize| {
            let mut data = vec![0; LEG_BYTES as usize];
            let mut put = |at: u64, bytes: &[u8]| {
                data[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
            };
            for at in copies_of(LEG_BYTES) {
                put(at, &block.encode(100 + leg as u128));
            }
            let pages = blank_pages(ARRAY, BYTES);
            pages.iter().enumerate().for_each(|(page, bytes)| put(page_slots(page)[0], bytes));
            let (opened, silent, lost) = (0, Vec::new(), Vec::new());
            Host { data, opened, silent, lost, holds: false, until: None, doubts: 0 }
        };
        let hosts: Hosts = Rc::new(RefCell::new((0..states.len()).map(host).collect()));
        let found = |leg: usize| {
            let host = &hosts.borrow()[leg];
            let copy = |at: u64| host.data[at as usize..][..SUPERBLOCK_BYTES].to_vec();
            let copies = copies_of(LEG_BYTES).map(|at| Some(copy(at)));
            Found { name: format!("leg {leg}"), bytes: LEG_BYTES, block_bytes: 512, copies }
        };
        let found: Vec<Found> = (0..states.len()).map(found).collect();
        let assembly = assemble("a", &found, &[], false).unwrap();
        let names = found.iter().map(|leg| leg.name.clone()).collect();
        let geometry = Geometry::new(BYTES, 512);
        let array = Array::new(&assembly, names, &Vec::new(), geometry, Nanos::from_secs(5));
        let lanes = (0..states.len()).map(|leg| Some(Wire::open(&hosts, leg))).collect();
        let source: Ways = {
            let hosts = Rc::clone(&hosts);
            Box::new(move |leg| Ok(Wire::open(&hosts, leg)))
        };
        let places = vec![copies_of(LEG_BYTES); states.len()];
        let (pool, rng) = (Pool::new(64, 16), Rng::new(1, 2));
        let keeper = array.keeper(&assembly, places, pool, rng, (lanes, source), Nanos(0));
        Rig { hosts, array, keeper, now: Nanos::from_secs(1) }
    }

    fn step(&mut self) {
        self.now = self.now + Nanos::from_millis(10);
        self.keeper.step(self.now);
    }

    /// Steps until something is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Rig) -> bool) {
        for _ in 0..STEPS {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: never");
    }

    fn shared(&self) -> &Shared {
        &self.array.shared
    }

    fn first_byte(&self, leg: usize) -> u8 {
        self.hosts.borrow()[leg].data[DATA_OFFSET as usize]
    }

    fn put(&self, leg: usize, byte: u8) {
        self.hosts.borrow_mut()[leg].data[DATA_OFFSET as usize] = byte;
    }
}

/// Batches in flight on the old connection failed with it.
#[test]
fn what_failed_before_the_last_leg_was_accepted_is_not_held_against_it() {
    let mut rig = Rig::open(&[LegState::In]);
    rig.hosts.borrow_mut()[0].silent = vec![0];
    rig.step();
    assert!(!rig.shared().start.shows(), "the opening is on no leg");
    // A client has lost its connection; the keeper has not noticed yet.
    rig.shared().lost(0);
    rig.step();
    rig.step();
    assert!(rig.shared().is_lost(0), "the leg is being looked at");
    rig.hosts.borrow_mut()[0].lost = vec![0];
    rig.step();
    assert!(!rig.shared().is_lost(0), "accepted in the step in which the batches fail");
    assert!(!rig.shared().start.shows(), "shown before the opening is recorded");
    assert_eq!(rig.shared().opens(0, 512), Opened::Wait, "nothing has failed on this connection");
    rig.until("recorded", |rig| rig.shared().start.shows() && rig.shared().is_ready());
    // A failure on the new connection counts.
    let mut rig = Rig::open(&[LegState::In]);
    rig.hosts.borrow_mut()[0].lost = vec![0];
    rig.until("refused", |rig| rig.shared().start.shows());
    assert_eq!(rig.shared().opens(0, 512), Opened::Fails);
}

/// The last leg has returned and holds back writes that earlier ones may overtake: I/Os that need
/// the map wait as long.
#[test]
fn nothing_fails_while_the_last_leg_holds_writes_back() {
    let mut rig = Rig::open(&[LegState::In]);
    rig.until("ready", |rig| rig.shared().is_ready());
    for event in [Event::Look, Event::Flushed] {
        rig.shared().map.tell(0, event);
    }
    assert_eq!(rig.shared().map.get(0), Region::Clean);
    rig.hosts.borrow_mut()[0].lost = (0..100).collect();
    rig.shared().opens(0, 512);
    rig.until("refused", |rig| rig.shared().opens(0, 512) == Opened::Fails);
    (rig.hosts.borrow_mut()[0].holds, rig.hosts.borrow_mut()[0].lost) = (true, Vec::new());
    rig.until("tried again", |rig| rig.shared().opens(0, 512) == Opened::Wait);
    for _ in 0..STEPS {
        rig.step();
        assert_eq!(rig.shared().opens(0, 512), Opened::Wait);
    }
    rig.hosts.borrow_mut()[0].holds = false;
    rig.until("written", |rig| rig.shared().opens(0, 512) == Opened::Yes);
}

/// Opens an array whose first leg joins again, with a region written, until the superblock that
/// records it as in is being written.
fn being_recorded() -> Rig {
    let mut rig = Rig::open(&[LegState::Out, LegState::In]);
    rig.until("ready", |rig| rig.shared().is_ready());
    rig.shared().opens(0, 512);
    rig.until("marked", |rig| rig.shared().map.get(0) == Region::Dirty);
    rig.put(1, 1);
    rig.until("being recorded", |rig| {
        rig.keeper.superblock().in_state(LegState::In) == 3 && rig.keeper.recorded() == 2
    });
    assert_eq!(rig.first_byte(0), 1, "all was copied");
    rig
}

#[test]
fn a_leg_is_read_as_soon_as_it_is_recorded_as_in() {
    let mut rig = being_recorded();
    rig.until("recorded", |rig| rig.keeper.recorded() == 3);
    assert_eq!(rig.shared().in_it(), 3);
}

/// A write that the last leg executes late, and that was read there, is on the other leg before
/// that leg is read.
#[test]
fn a_leg_that_is_recorded_as_in_waits_for_writes_in_doubt() {
    let mut rig = being_recorded();
    {
        let host = &mut rig.hosts.borrow_mut()[1];
        (host.until, host.doubts) = (Some(Nanos::from_secs(100)), 1);
    }
    rig.until("recorded", |rig| rig.keeper.recorded() == 3);
    (0..STEPS).for_each(|_| rig.step());
    assert_eq!(rig.shared().in_it(), 2, "the last leg alone is read");
    rig.put(1, 2);
    rig.hosts.borrow_mut()[1].until = None;
    rig.until("in", |rig| rig.shared().in_it() == 3);
    assert_eq!(rig.first_byte(0), 2);
    assert_eq!(rig.shared().map.get(0).bits(), 3, "and marked");
}

/// The doubt is over when the keeper looks: a lane has logged in again by then.
#[test]
fn a_doubt_that_nobody_saw_is_noticed() {
    let mut rig = being_recorded();
    rig.hosts.borrow_mut()[1].doubts = 1;
    rig.put(1, 2);
    rig.until("in", |rig| rig.shared().in_it() == 3);
    assert_eq!(rig.first_byte(0), 2);
}
