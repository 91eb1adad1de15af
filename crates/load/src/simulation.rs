//! A run in virtual time: the same workers, on lanes of storage that exists as a model only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{Lane, Nanos, Pool};
use stats::live::{About, Action, Live, LiveCpu, Phase, Snapshot};
use stats::{Class, Collector, Cpu, Interval, Origin, RunResult, SCHEMA_VERSION};

use crate::engine::Stop;
use crate::equals::names;
use crate::judge;
use crate::outcome::{self, MissedDemands};
use crate::run::Prepared;
use crate::runner::{
    OVERTIME_SECONDS, RunError, check, ledgers, patience, steadiness, unanswered_ios,
};
use crate::worker::{Identity, Order, Trouble, Worker, outlasts, ties};
use job::spec::{RunSpec, Watch};

/// Steps after which the view and the user are asked, beside the ends of seconds.
const STEPS: u32 = 1 << 16;
/// Instants in a row at which everybody wants to go on without time passing: then it never will.
const STUCK: u32 = 1 << 22;
/// When a virtual run begins: there is no other time in it.
const STARTED: &str = "1970-01-01T00:00:00Z";

/// What goes on between the steps of workers: storage that exists as a model.
pub trait Storage {
    /// When something happens next by itself; `None` while nothing is in flight.
    fn next(&mut self) -> Option<Nanos>;

    /// Lets everything happen up to `now`, and appends the workers whose lanes have news, as
    /// indices into the spec's.
    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>);

    /// Whether reads return what was written, so that they can be compared.
    fn keeps_data(&self) -> bool {
        false
    }
}

/// Runs specs without a clock. Nothing but the spec, its seed and the storage decides the result,
/// to the last bit.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Ends the run early.
    pub stop: Stop,
}

impl Simulation {
    /// Runs what is prepared, but on `lanes`, one for each worker in their order. Its volumes
    /// say shape and kind only: no I/O goes there, and nothing is compared.
    ///
    /// # Errors
    ///
    /// [`RunError`] as for a real run, and when I/Os take no time at all.
    pub fn run(
        &self,
        prepared: &Prepared,
        lanes: Vec<Box<dyn Lane>>,
        storage: &mut dyn Storage,
        live: &mut dyn Live,
    ) -> Result<RunResult, RunError> {
        check(prepared)?;
        let spec = &prepared.spec;
        if lanes.len() != spec.workers.len() {
            return Err(RunError::Nothing("a simulated worker needs a lane"));
        }
        let data = storage.keeps_data();
        let verifies = spec.workers.iter().filter_map(|worker| worker.workload.verify);
        if !data && verifies.clone().count() > 0 {
            return Err(RunError::Nothing("simulated storage keeps no data: remove verify"));
        }
        if verifies.clone().any(|verify| verify.fill) {
            return Err(RunError::Nothing("simulated storage keeps no data: remove fill"));
        }
        let ledgers = ledgers(prepared)?;
        if spec.workers.iter().any(|worker| worker.workload.until_full) {
            let why = "simulated storage never becomes full: remove until_full (fill_device)";
            return Err(RunError::Nothing(why));
        }
        let mut workers = Vec::new();
        let pool = Pool::new(1, 1);
        let workers_of = spec.workers.iter().zip(lanes).zip(ties(spec)).zip(ledgers);
        for (((this, lane), ties), ledger) in workers_of {
            let (seed, number, part) = (spec.seed, this.number, this.part);
            let who = Identity { seed, number, part, data };
            let worker = Worker::new(lane, &this.workload, who, ledger, &pool)?;
            workers.push(worker.tied(ties));
        }
        let mut run = Run {
            prepared,
            spec,
            stop: self.stop.clone(),
            planned: vec![None; workers.len()],
            order: Order::Run,
            unanswered: 0,
            workers,
            wakes: BinaryHeap::new(),
            awake: Vec::new(),
            collected: Collector::new(names(spec)),
            empty: None,
            now: Nanos(0),
            stuck: 0,
            errors: 0,
            trouble: None,
            mismatch: false,
            missed: MissedDemands::default(),
            measured: false,
            steady_at_s: None,
            watch: Watch::new(spec.steady),
        };
        live.start(&About {
            job: spec.job.clone(),
            kind: None,
            origin: Origin::Simulated,
            cores: 0,
        });
        let outcome = run.go(storage, live).and_then(|()| run.drain(storage, live));
        live.end();
        outcome?;
        Ok(run.result())
    }
}

/// One run in progress.
struct Run<'a> {
    prepared: &'a Prepared,
    spec: &'a RunSpec,
    stop: Stop,
    workers: Vec<Worker>,
    /// When workers want to be stepped, and for each the entry that counts.
    wakes: BinaryHeap<Reverse<(Nanos, usize)>>,
    planned: Vec<Option<Nanos>>,
    /// Workers that have a reason to be stepped now.
    awake: Vec<usize>,
    order: Order,
    /// I/Os that never came back.
    unanswered: u64,
    collected: Collector,
    empty: Option<Box<Interval>>,
    now: Nanos,
    stuck: u32,
    errors: u64,
    trouble: Option<String>,
    /// Data were not what was written.
    mismatch: bool,
    missed: MissedDemands,
    /// Depths are found, and are being measured.
    measured: bool,
    steady_at_s: Option<f64>,
    watch: Watch,
}

impl Run<'_> {
    fn go(&mut self, storage: &mut dyn Storage, live: &mut dyn Live) -> Result<(), RunError> {
        for worker in &mut self.workers {
            let paced = worker.is_paced();
            let interval = || Box::new(if paced { Interval::paced() } else { Interval::new() });
            self.empty.get_or_insert_with(interval);
            worker.begin(Nanos(0), interval());
            worker.start(Nanos(0));
        }
        self.awake.extend(0..self.workers.len());
        let ramp = Nanos((self.spec.ramp_seconds * 1e9) as u64);
        if ramp > Nanos(0) {
            self.phase(Phase::Ramp, ramp, storage, live)?;
        }
        self.collected.restart();
        let overtime = if outlasts(self.spec) { OVERTIME_SECONDS } else { 0.0 };
        let seconds = Nanos(((self.spec.seconds + overtime) * 1e9) as u64);
        let end = self.now + seconds;
        self.phase(Phase::Run, end, storage, live)?;
        match self.spec.search_window().filter(|_| self.has_found() && self.now < end) {
            None => Ok(()),
            Some(window) => {
                self.measured = true;
                self.collected.restart();
                let window = self.now + Nanos((window * 1e9) as u64);
                self.phase(Phase::Run, window.min(end), storage, live)
            }
        }
    }

    /// Whether every worker has found the depth that it searched, if all do.
    fn has_found(&self) -> bool {
        self.spec.search_window().is_some() && self.workers.iter().all(Worker::has_found)
    }

    /// Goes on until `end`, a second at a time.
    fn phase(
        &mut self,
        phase: Phase,
        end: Nanos,
        storage: &mut dyn Storage,
        live: &mut dyn Live,
    ) -> Result<(), RunError> {
        let begin = self.now;
        while self.now < end && self.stop.asked() == 0 && self.trouble.is_none() {
            // A rest shorter than half a second joins the last second.
            let next = self.now + Nanos::from_secs(1);
            let tick = if next + Nanos::from_millis(500) > end { end } else { next };
            self.until(tick, storage, live)?;
            self.collected.watch(live.wants_workers());
            self.collect();
            let t_s = self.now.since(begin).as_secs_f64();
            let (second, latency_ns) = self.collected.end_second(t_s);
            self.errors += second.errors;
            let snapshot = Snapshot {
                t_s,
                phase,
                seconds_left: Some(end.since(self.now).as_secs_f64()),
                iops: second.iops,
                bytes_per_second: second.bytes_per_second,
                latency_ns,
                targets: self.collected.target_rates(),
                workers: self.collected.worker_seconds(),
                cpu: LiveCpu::default(),
                errors: self.errors,
                connections_lost: 0,
                reconnects: 0,
                outstanding: second.mean_outstanding,
                oldest_ns: second.oldest_ns,
                history: self.collected.history(),
            };
            if live.update(&snapshot) == Action::Stop {
                self.stop.ask();
            }
            if phase == Phase::Run && self.watch.is_steady(second) {
                self.steady_at_s = Some(t_s);
                break;
            }
            let found = self.has_found() && !self.measured;
            if found || self.workers.iter().all(Worker::is_finished) {
                break;
            }
        }
        Ok(())
    }

    /// Goes on until `tick`, or until the user has seen enough.
    fn until(
        &mut self,
        tick: Nanos,
        storage: &mut dyn Storage,
        live: &mut dyn Live,
    ) -> Result<(), RunError> {
        let mut steps = 0_u32;
        loop {
            self.step_awake();
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
                if live.poll() == Action::Stop {
                    self.stop.ask();
                }
                if self.stop.asked() > 0 {
                    return Ok(());
                }
            }
        }
    }

    /// The window is over: what is in flight comes back, and what was planned in it is begun, as
    /// long as a real run would wait. What it comes to counts in the window.
    fn drain(&mut self, storage: &mut dyn Storage, live: &mut dyn Live) -> Result<(), RunError> {
        let (end, now) = (self.now + patience(self.prepared), self.now);
        self.order = Order::Drain;
        self.workers.iter_mut().for_each(|worker| worker.close_window(now));
        self.awake.extend(0..self.workers.len());
        let asked = self.stop.asked();
        while self.now < end && !self.workers.iter().all(Worker::is_drained) {
            let tick = end.min(self.now + Nanos::from_secs(1));
            self.until(tick, storage, live)?;
            if self.stop.asked() > asked {
                break;
            }
        }
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let (late, unanswered) = worker.give_up(self.now);
            self.collected.add_late(index, &late);
            self.collected.add_late_failures(index, &unanswered);
            self.unanswered += unanswered.errors();
        }
        self.note_troubles();
        Ok(())
    }

    /// The step of each worker that has a reason.
    fn step_awake(&mut self) {
        for index in self.awake.drain(..) {
            let wake = self.workers[index].step(self.now, self.order);
            if let Some(at) = wake
                && self.planned[index] != Some(at)
            {
                self.planned[index] = Some(at);
                self.wakes.push(Reverse((at, index)));
            }
        }
    }

    fn collect(&mut self) {
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let empty = self.empty.take().expect("one is always there");
            let mut full = worker.take_interval(self.now, empty);
            self.collected.add(index, &full);
            full.clear();
            self.empty = Some(full);
        }
        self.note_troubles();
    }

    fn note_troubles(&mut self) {
        for (index, worker) in self.workers.iter_mut().enumerate() {
            if let Some(trouble) = worker.take_trouble() {
                let this = &self.spec.workers[index];
                self.mismatch |= matches!(trouble, Trouble::Mismatch(_));
                match trouble {
                    Trouble::Missed(missed) => self.missed.note(index, missed),
                    other => {
                        self.trouble.get_or_insert(other.words(&this.name, &this.uri));
                    }
                }
            }
        }
    }

    fn result(self) -> RunResult {
        let spec = self.spec;
        let totals = self.collected.totals();
        let (failures, failures_unlisted) = self.collected.failures();
        let mut workers = self.collected.workers();
        self.missed.write(&mut workers, self.collected.whole().start);
        let checks = judge::of_simulation(spec, &self.collected, self.mismatch);
        let cut = || format!("ended after {:.1} of {} s", totals.seconds, spec.seconds);
        let missed = self.missed.words(spec);
        let partial = self.trouble.or(missed).or_else(|| (self.stop.asked() > 0).then(cut));
        let partial = partial.or_else(|| unanswered_ios(self.prepared, self.unanswered));
        RunResult {
            schema_version: SCHEMA_VERSION,
            origin: Origin::Simulated,
            class: Class::of(&checks),
            checks,
            job: spec.job.clone(),
            spec: spec.document.clone(),
            started: STARTED.to_owned(),
            seed: spec.seed,
            partial,
            totals,
            cpu: Cpu::default(),
            failures,
            failures_unlisted,
            warnings: unlogged(spec)
                .into_iter()
                .chain(spec.steady.map(|steady| steadiness(&steady, self.steady_at_s)))
                .chain(outcome::searches(spec, &workers))
                .collect(),
            workers,
            intervals: self.collected.seconds(),
            histograms: self.collected.histograms(),
            spans: self.collected.spans(usize::MAX),
            ..RunResult::default()
        }
    }
}

/// What is not there that the job asks for.
fn unlogged(spec: &RunSpec) -> Option<String> {
    let wanted = spec.workers.iter().any(|worker| worker.shift.job.is_some());
    wanted.then(|| "simulations write no logs of single I/Os".to_owned())
}

#[cfg(test)]
mod test;
