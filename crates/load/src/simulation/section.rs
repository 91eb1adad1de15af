//! Workers that share no storage with others, stepped on one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use block::{Lane, Nanos, Pool};
use stats::{Collector, Interval};

use super::Storage;
use crate::engine::Stop;
use crate::ledger::Ledger;
use crate::run::Prepared;
use crate::runner::{RunError, ledgers};
use crate::worker::{Identity, Order, Ties, Trouble, Worker, ties};

/// Steps after which the view and the user are asked, beside the ends of seconds.
const STEPS: u32 = 1 << 16;
/// Instants in a row at which everybody wants to go on without time passing: then it never will.
const STUCK: u32 = 1 << 22;

/// Some workers of a run in progress.
pub(super) struct Section {
    /// Their places in the spec.
    places: Vec<usize>,
    workers: Vec<Worker>,
    /// When workers want to be stepped, and for each the entry that counts.
    wakes: BinaryHeap<Reverse<(Nanos, usize)>>,
    planned: Vec<Option<Nanos>>,
    /// Workers that have a reason to be stepped now.
    awake: Vec<usize>,
    stop: Stop,
    now: Nanos,
    stuck: u32,
}

/// How the workers of a section stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub now: Nanos,
    /// All are at the end of what they do.
    pub finished: bool,
    /// All have found the depth that they searched.
    pub found: bool,
    /// Nothing of theirs is in flight.
    pub drained: bool,
}

impl Told {
    /// What is so of both.
    pub fn and(self, other: Told) -> Told {
        Told {
            now: self.now.max(other.now),
            finished: self.finished && other.finished,
            found: self.found && other.found,
            drained: self.drained && other.drained,
        }
    }
}

/// What binds workers to others, taken by the sections that they come into.
pub(super) struct Bindings<'a> {
    prepared: &'a Prepared,
    ties: Vec<Ties>,
    ledgers: Vec<Option<Arc<Ledger>>>,
}

impl<'a> Bindings<'a> {
    pub fn of(prepared: &'a Prepared) -> Result<Bindings<'a>, RunError> {
        Ok(Bindings { prepared, ties: ties(&prepared.spec), ledgers: ledgers(prepared)? })
    }

    /// The workers at these places of the spec, each with its lane, about to begin.
    pub fn section(
        &mut self,
        places: Vec<usize>,
        lanes: Vec<Box<dyn Lane>>,
        data: bool,
        stop: Stop,
    ) -> Result<Section, RunError> {
        let spec = &self.prepared.spec;
        let pool = Pool::new(1, 1);
        let mut workers = Vec::new();
        for (place, lane) in places.iter().zip(lanes) {
            let this = &spec.workers[*place];
            let who = Identity { seed: spec.seed, number: this.number, part: this.part, data };
            let worker =
                Worker::new(lane, &this.workload, who, self.ledgers[*place].take(), &pool)?;
            let mut worker = worker.tied(std::mem::take(&mut self.ties[*place]));
            let paced = worker.is_paced();
            let interval = if paced { Interval::paced() } else { Interval::new() };
            worker.begin(Nanos(0), Box::new(interval));
            worker.start(Nanos(0));
            workers.push(worker);
        }
        Ok(Section {
            planned: vec![None; workers.len()],
            awake: (0..workers.len()).collect(),
            places,
            workers,
            wakes: BinaryHeap::new(),
            stop,
            now: Nanos(0),
            stuck: 0,
        })
    }
}

impl Section {
    /// An interval as its workers need it.
    pub fn empty(&self) -> Box<Interval> {
        let paced = self.workers.first().is_some_and(Worker::is_paced);
        Box::new(if paced { Interval::paced() } else { Interval::new() })
    }

    pub fn told(&self) -> Told {
        Told {
            now: self.now,
            finished: self.workers.iter().all(Worker::is_finished),
            found: self.workers.iter().all(Worker::has_found),
            drained: self.workers.iter().all(Worker::is_drained),
        }
    }

    /// Goes on until `tick`, or until it is asked to stop; `ask` is called now and then.
    pub fn until(
        &mut self,
        tick: Nanos,
        order: Order,
        storage: &mut dyn Storage,
        ask: &mut dyn FnMut(),
    ) -> Result<(), RunError> {
        let mut steps = 0_u32;
        loop {
            self.step_awake(order);
            let planned = self.wakes.peek().map(|Reverse((at, _))| *at);
            let next = match (storage.next(), planned) {
                (Some(a), Some(b)) => a.min(b),
                (a, b) => a.or(b).unwrap_or(tick),
            };
            if next >= tick {
                self.now = tick;
                return Ok(());
            }
            self.stuck = if next > self.now { 0 } else { self.stuck + 1 };
            if self.stuck > STUCK {
                return Err(RunError::Nothing("simulated I/Os take no time: add service times"));
            }
            self.now = self.now.max(next);
            storage.advance(self.now, &mut self.awake);
            while let Some(Reverse((at, worker))) = self.wakes.peek().copied()
                && at <= self.now
            {
                self.wakes.pop();
                self.planned[worker] = self.planned[worker].filter(|planned| *planned != at);
                self.awake.push(worker);
            }
            steps += 1;
            if steps.is_multiple_of(STEPS) {
                ask();
                if self.stop.asked() > 0 {
                    return Ok(());
                }
            }
        }
    }

    /// The step of each worker that has a reason.
    fn step_awake(&mut self, order: Order) {
        for index in self.awake.drain(..) {
            let wake = self.workers[index].step(self.now, order);
            if let Some(at) = wake
                && self.planned[index] != Some(at)
            {
                self.planned[index] = Some(at);
                self.wakes.push(Reverse((at, index)));
            }
        }
    }

    /// The window is over: from now on nothing counts but what was planned in it.
    pub fn close_window(&mut self) {
        let now = self.now;
        self.workers.iter_mut().for_each(|worker| worker.close_window(now));
        self.awake.extend(0..self.workers.len());
    }

    /// Adds what was done since it was asked before, with an interval to spare.
    pub fn collect(
        &mut self,
        collected: &mut Collector,
        mut empty: Box<Interval>,
    ) -> Box<Interval> {
        for (place, worker) in self.places.iter().zip(&mut self.workers) {
            let mut full = worker.take_interval(self.now, empty);
            collected.add(*place, &full);
            full.clear();
            empty = full;
        }
        empty
    }

    /// Adds what came after the window, and says how many I/Os never came back.
    pub fn give_up(&mut self, collected: &mut Collector) -> u64 {
        let mut never = 0;
        for (place, worker) in self.places.iter().zip(&mut self.workers) {
            let (late, unanswered) = worker.give_up(self.now);
            collected.add_late(*place, &late);
            collected.add_late_failures(*place, &unanswered);
            never += unanswered.errors();
        }
        never
    }

    /// What went wrong since it was asked before, with the places of the workers.
    pub fn troubles(&mut self) -> Vec<(usize, Trouble)> {
        let each = self.places.iter().zip(&mut self.workers);
        each.filter_map(|(place, worker)| Some((*place, worker.take_trouble()?))).collect()
    }
}
