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

/// Steps between polls of the view, apart from the ends of seconds.
const STEPS: u32 = 1 << 16;
/// Successive steps without time passing after which it never will.
const STUCK: u32 = 1 << 22;

/// Some workers of a run in progress.
pub(super) struct Section {
    /// Indices of the workers in the spec.
    places: Vec<usize>,
    workers: Vec<Worker>,
    /// Times at which workers are stepped, and the valid entry of each.
    wakes: BinaryHeap<Reverse<(Nanos, usize)>>,
    planned: Vec<Option<Nanos>>,
    /// Workers to be stepped now.
    awake: Vec<usize>,
    stop: Stop,
    now: Nanos,
    stuck: u32,
}

/// State of a section's workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub now: Nanos,
    /// All have finished.
    pub finished: bool,
    /// All have found the depth they searched.
    pub found: bool,
    /// No worker has I/Os in flight.
    pub drained: bool,
}

impl Told {
    /// The state of both together.
    pub fn and(self, other: Told) -> Told {
        Told {
            now: self.now.max(other.now),
            finished: self.finished && other.finished,
            found: self.found && other.found,
            drained: self.drained && other.drained,
        }
    }
}

/// Ties between workers, taken by their sections.
pub(super) struct Bindings<'a> {
    prepared: &'a Prepared,
    ties: Vec<Ties>,
    ledgers: Vec<Option<Arc<Ledger>>>,
}

impl<'a> Bindings<'a> {
    pub fn of(prepared: &'a Prepared) -> Result<Bindings<'a>, RunError> {
        Ok(Bindings { prepared, ties: ties(&prepared.spec), ledgers: ledgers(prepared)? })
    }

    /// The workers with these indices in the spec, each with its lane, about to start.
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
    /// An empty interval for its workers.
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

    /// Runs until `tick`, or until the order ends it; `ask` is called periodically.
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
                return Err(RunError::Nothing(
                    "simulated I/Os complete in no time: add service \
                    times",
                ));
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

    /// Steps each worker with a reason.
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

    /// The window is over: from now on only I/Os planned in it count.
    pub fn close_window(&mut self) {
        let now = self.now;
        self.workers.iter_mut().for_each(|worker| worker.close_window(now));
        self.awake.extend(0..self.workers.len());
    }

    /// Adds results since the last call, using a spare interval.
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

    /// Adds late results; returns how many I/Os never completed.
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

    /// Troubles since the last call, with the workers' indices.
    pub fn troubles(&mut self) -> Vec<(usize, Trouble)> {
        let each = self.places.iter().zip(&mut self.workers);
        each.filter_map(|(place, worker)| Some((*place, worker.take_trouble()?))).collect()
    }
}
