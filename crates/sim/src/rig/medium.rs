//! The volumes of a situation: lanes that follow the script, and record every I/O.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use block::{Cause, Connection, Done, Fault, Geometry, Io, Lane, Nanos, Op};
use load::Storage;

use super::data::Data;
use super::script::Script;
use super::situation::{Mishap, Situation};

/// Block size in bytes.
pub(super) const BLOCK: u32 = 512;

/// Size of each volume in bytes: small in verifying runs, so that reads often hit written blocks.
pub(super) fn bytes(situation: &Situation) -> u64 {
    if situation.verify > 0 { 4 << 20 } else { 64 << 20 }
}

/// An I/O as the volume saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) op: Op,
    pub(super) len: u32,
    /// Time at which the worker submitted the I/O, accepted or not.
    pub(super) given: u64,
    /// Time at which the worker got the completion, if it did, and the result.
    pub(super) answer: Option<(u64, Result<(), Fault>)>,
    /// The completion had wrong data.
    pub(super) lied: bool,
    offset: u64,
    /// Turn of the I/O's submission.
    turn: u64,
}

/// Shared by all lanes of a situation.
pub(super) struct Medium {
    script: Script,
    situation: Situation,
    ways: Vec<Way>,
    /// Completions to come: time, order of submission, and lane.
    coming: BinaryHeap<Reverse<(u64, u64, usize)>>,
    asked: u64,
    /// Contents of the volumes in verifying runs.
    data: Vec<Data>,
    /// Calls of lanes so far.
    turns: u64,
}

/// A worker's lane.
#[derive(Default)]
struct Way {
    volume: usize,
    seen: Vec<Seen>,
    /// Index of the I/O in flight for each tag.
    by_tag: Vec<Option<usize>>,
    /// I/Os on the volume, with their numbers.
    held: Vec<(u64, Io, Result<(), Fault>)>,
    ready: Vec<Done>,
    taken: usize,
    lost: bool,
}

pub(super) type Shared = Rc<RefCell<Medium>>;

impl Medium {
    pub(super) fn new(situation: &Situation, script: Script) -> Shared {
        let way = |worker| Way {
            volume: situation.volume_of(worker),
            by_tag: vec![None; situation.depth_of(worker) as usize],
            ..Way::default()
        };
        Rc::new(RefCell::new(Medium {
            script,
            ways: (0..situation.workers as usize).map(way).collect(),
            situation: situation.clone(),
            coming: BinaryHeap::new(),
            asked: 0,
            data: (0..situation.volumes * situation.verify).map(Data::new).collect(),
            turns: 0,
        }))
    }

    pub(super) fn script(&self) -> &Script {
        &self.script
    }

    /// The I/Os of each worker, in order of submission.
    pub(super) fn seen(&self) -> Vec<&[Seen]> {
        self.ways.iter().map(|way| &way.seen[..]).collect()
    }

    /// Connection counters of a worker at `at`.
    pub(super) fn connection(&self, worker: usize, at: u64) -> Connection {
        self.script.connection(self.ways[worker].volume, at)
    }

    fn submit(&mut self, worker: usize, now: u64, ios: &mut VecDeque<Io>) {
        self.turns += 1;
        let way = &mut self.ways[worker];
        for Io { tag, op, offset, len, .. } in ios.iter() {
            let place = &mut way.by_tag[tag.0 as usize];
            if place.is_some() {
                continue;
            }
            *place = Some(way.seen.len());
            let (op, len, offset, turn) = (*op, *len, *offset, self.turns);
            way.seen.push(Seen { op, len, given: now, answer: None, lied: false, offset, turn });
            if let Some(data) = self.data.get_mut(way.volume).filter(|_| op == Op::Write) {
                data.begin(offset, len);
            }
        }
        while way.taken < self.script.narrow
            && let Some(io) = ios.pop_front()
        {
            way.taken += 1;
            self.asked += 1;
            let fate = self.script.fate(worker, way.volume, now);
            way.held.push((self.asked, io, fate.result));
            if let Some(at) = fate.at {
                self.coming.push(Reverse((at, self.asked, worker)));
            }
        }
    }

    fn poll(&mut self, worker: usize, now: u64, done: &mut Vec<Done>) {
        self.turns += 1;
        let way = &mut self.ways[worker];
        if self.situation.has(Mishap::Reverse) {
            way.ready.reverse();
        }
        for answer in &way.ready {
            let place = way.by_tag[answer.tag.0 as usize].take();
            let index = place.expect("only what was asked is answered");
            let seen = &mut way.seen[index];
            seen.answer = Some((now, answer.result));
            if let Some(data) = self.data.get_mut(way.volume).filter(|_| seen.op == Op::Write) {
                data.end(seen.offset, seen.len, answer.result.is_ok(), self.turns);
            }
        }
        done.append(&mut way.ready);
    }
}

/// The storage of a situation, for the loop of virtual time.
pub(super) struct Volumes(pub(super) Shared);

impl Storage for Volumes {
    fn keeps_data(&self) -> bool {
        !self.0.borrow().data.is_empty()
    }

    fn next(&mut self) -> Option<Nanos> {
        self.0.borrow().coming.peek().map(|Reverse((at, ..))| Nanos(*at))
    }

    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>) {
        let medium = &mut *self.0.borrow_mut();
        while let Some(Reverse((at, number, worker))) = medium.coming.peek().copied()
            && at <= now.0
        {
            medium.coming.pop();
            let lies = medium.script.lies(at);
            let way = &mut medium.ways[worker];
            let data = medium.data.get_mut(way.volume);
            let index = way.held.iter().position(|(this, ..)| *this == number);
            let (_, mut io, result) = way.held.swap_remove(index.expect("it is in flight"));
            if let Some(data) = data
                && let (Some(buf), Ok(())) = (&mut io.buf, result)
            {
                let index = way.by_tag[io.tag.0 as usize].expect("it is in flight");
                let seen = &mut way.seen[index];
                let bytes = &mut buf[..io.len as usize];
                match io.op {
                    Op::Write => data.write(io.offset, bytes),
                    Op::Read => {
                        data.read(io.offset, bytes);
                        seen.lied = lies && data.lie(io.offset, bytes, seen.turn);
                    }
                    _ => {}
                }
            }
            way.taken -= 1;
            way.lost |= result == Err(Fault::Unanswered);
            way.ready.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
            if workers.last() != Some(&worker) {
                workers.push(worker);
            }
        }
    }
}

/// A worker's lane to its volume.
pub(super) struct RigLane {
    pub(super) worker: usize,
    pub(super) medium: Shared,
}

impl Lane for RigLane {
    fn geometry(&self) -> Geometry {
        Geometry::new(bytes(&self.medium.borrow().situation), BLOCK)
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        self.medium.borrow_mut().submit(self.worker, now.0, ios);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.medium.borrow_mut().poll(self.worker, now.0, done);
    }

    fn wake(&self) -> Option<Nanos> {
        None
    }

    fn broken(&self) -> Option<&str> {
        self.medium.borrow().ways[self.worker].lost.then_some("no answer came in time")
    }

    fn connection(&self, now: Nanos) -> Connection {
        self.medium.borrow().connection(self.worker, now.0)
    }
}
