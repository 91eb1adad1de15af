//! A run that rank 0 leads and does not drive: the result is that of the others.

use std::sync::Arc;
use std::time::Duration;

use block::Nanos;
use job::spec::{JobSpec, RunSpec, Step};
use load::{Prepared, RunError, Runner, Stop};
use os::Clock;
use stats::live::{About, Action, Live, Snapshot};
use stats::{Job, RunResult};

use super::Ranks;
use super::lead::Round;
use super::order::Order;

const SECOND: Nanos = Nanos::from_secs(1);

/// A run of all ranks but this one.
#[derive(Debug)]
pub struct Onlooker {
    ranks: Arc<Ranks>,
    order: Order,
    stop: Stop,
}

impl Onlooker {
    pub fn new(ranks: Arc<Ranks>, order: Order, stop: Stop) -> Onlooker {
        Onlooker { ranks, order, stop }
    }

    /// A run without workers, of a job of one step.
    pub fn prepared(job: &JobSpec, step: &Step) -> Prepared {
        let name = [&step.name, &job.name].into_iter().find(|name| !name.is_empty());
        let named = Job {
            name: name.map_or("run", |name| name).to_owned(),
            seconds: step.seconds,
            ramp_seconds: step.ramp_seconds,
            ..Job::default()
        };
        let spec = RunSpec {
            job: named,
            document: serde_json::to_value(job).unwrap_or_default(),
            workers: Vec::new(),
            seconds: step.seconds,
            ramp_seconds: step.ramp_seconds,
            ends_with_first: step.ends_with_first,
            steady: step.steady,
            seed: job.seed,
            cores: Vec::new(),
            ledgers: None,
        };
        Prepared { spec, volumes: Vec::new(), targets: None }
    }

    /// Waits until all others begin.
    fn await_start(&self, round: &Round, live: &mut dyn Live) -> Result<(), RunError> {
        loop {
            round.look();
            if let Some(why) = round.state().refused.take() {
                return Err(RunError::Open(why));
            }
            if round.state().began.is_some() {
                return Ok(());
            }
            let stopped = self.stop.asked() > 0;
            if stopped || self.ranks.lead().is_stuck() {
                self.ranks.lead().done();
                let why = if stopped { "stopped before it began" } else { fleet::STUCK };
                return Err(RunError::Open(why.to_owned()));
            }
            if live.poll() == Action::Stop {
                self.stop.ask();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Runner for Onlooker {
    fn run(&mut self, run: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError> {
        let round = Round::new(&self.ranks, &self.order, &self.stop);
        round.begin(&self.order, Nanos((run.spec.ramp_seconds * 1e9) as u64));
        round.state().one_volume = round.probe(None, &self.order.driving());
        self.ranks.lead().ready();
        live.start(&About { job: run.spec.job.clone(), ..About::default() });
        let begun = self.await_start(&round, live);
        if begun.is_ok() {
            self.ranks.lead().done();
        }
        let outcomes = begun.map(|()| {
            let next = Clock::get().now() + SECOND;
            round.await_all(&mut Seconds { inner: live, round: &round, next })
        });
        live.end();
        let outcomes = outcomes?;
        if let Some(why) = round.state().refused.take() {
            return Err(RunError::Open(why));
        }
        let began = round.state().began;
        round.merged(self.order.job.seed, None, began, outcomes)
    }
}

/// Shows the seconds of the others, one after the other.
struct Seconds<'a> {
    inner: &'a mut dyn Live,
    round: &'a Round,
    next: Nanos,
}

impl Seconds<'_> {
    fn second(&mut self) {
        let snapshot = self.round.second(&Snapshot::default(), false);
        if self.inner.update(&snapshot) == Action::Stop {
            self.round.stop.ask();
        }
        let is_due = self.inner.wants_result();
        if !is_due && !self.round.state().has_news() {
            return;
        }
        let cut = "cut off: the process ended without a result".to_owned();
        if let Some(all) = self.round.draft(None, Some(cut)) {
            self.inner.keep(all);
        }
    }
}

impl Live for Seconds<'_> {
    fn inner(&mut self) -> Option<&mut dyn Live> {
        Some(self.inner)
    }

    fn poll(&mut self) -> Action {
        let now = Clock::get().now();
        if now >= self.next {
            self.next = now + SECOND;
            self.second();
        }
        self.inner.poll()
    }
}
