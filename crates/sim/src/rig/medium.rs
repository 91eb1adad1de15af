//! The volumes of a situation: lanes that answer by the script, and write down every I/O.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use block::{Cause, Connection, Done, Fault, Geometry, Io, Lane, Nanos, Op};
use load::Storage;

use super::script::Script;
use super::situation::{Mishap, Situation};

/// Size of every volume in bytes, and of its blocks.
pub(super) const BYTES: u64 = 64 << 20;
pub(super) const BLOCK: u32 = 512;

/// One I/O as the volume saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) op: Op,
    pub(super) len: u32,
    /// When the worker gave it to its way, taken or not.
    pub(super) given: u64,
    /// When the worker got its answer, if it did, and what that was.
    pub(super) answer: Option<(u64, Result<(), Fault>)>,
}

/// What all ways of a situation share.
pub(super) struct Medium {
    script: Script,
    situation: Situation,
    ways: Vec<Way>,
    /// Answers to come: when, in which order they were asked for, and for whom.
    coming: BinaryHeap<Reverse<(u64, u64, usize)>>,
    asked: u64,
}

/// One worker's way.
#[derive(Default)]
struct Way {
    volume: usize,
    seen: Vec<Seen>,
    /// By tag: which of those seen is under way by that name.
    by_tag: Vec<Option<usize>>,
    /// I/Os with the volume, each under the number it was asked with.
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
        }))
    }

    pub(super) fn script(&self) -> &Script {
        &self.script
    }

    /// The I/Os of each worker in the order in which it gave them away.
    pub(super) fn seen(&self) -> Vec<&[Seen]> {
        self.ways.iter().map(|way| &way.seen[..]).collect()
    }

    /// What became of a worker's connection by `at`.
    pub(super) fn connection(&self, worker: usize, at: u64) -> Connection {
        self.script.connection(self.ways[worker].volume, at)
    }

    fn submit(&mut self, worker: usize, now: u64, ios: &mut VecDeque<Io>) {
        let way = &mut self.ways[worker];
        for io in ios.iter() {
            let place = &mut way.by_tag[io.tag.0 as usize];
            if place.is_none() {
                *place = Some(way.seen.len());
                way.seen.push(Seen { op: io.op, len: io.len, given: now, answer: None });
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
        let way = &mut self.ways[worker];
        if self.situation.has(Mishap::Reverse) {
            way.ready.reverse();
        }
        for answer in &way.ready {
            let place = way.by_tag[answer.tag.0 as usize].take();
            let index = place.expect("only what was asked is answered");
            way.seen[index].answer = Some((now, answer.result));
        }
        done.append(&mut way.ready);
    }
}

/// The storage of a situation, as the loop of virtual time knows it.
pub(super) struct Volumes(pub(super) Shared);

impl Storage for Volumes {
    fn next(&mut self) -> Option<Nanos> {
        self.0.borrow().coming.peek().map(|Reverse((at, ..))| Nanos(*at))
    }

    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>) {
        let mut medium = self.0.borrow_mut();
        while let Some(Reverse((at, number, worker))) = medium.coming.peek().copied()
            && at <= now.0
        {
            medium.coming.pop();
            let way = &mut medium.ways[worker];
            let index = way.held.iter().position(|(this, ..)| *this == number);
            let (_, io, result) = way.held.swap_remove(index.expect("it is under way"));
            way.taken -= 1;
            way.lost |= result == Err(Fault::Unanswered);
            way.ready.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
            if workers.last() != Some(&worker) {
                workers.push(worker);
            }
        }
    }
}

/// A worker's way to its volume.
pub(super) struct RigLane {
    pub(super) worker: usize,
    pub(super) medium: Shared,
}

impl Lane for RigLane {
    fn geometry(&self) -> Geometry {
        Geometry::new(BYTES, BLOCK)
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
