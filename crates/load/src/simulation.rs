//! A run in virtual time: the same workers on lanes of simulated storage.

use block::{Lane, Nanos};
use stats::live::{About, Action, Live, LiveCpu, Phase, Snapshot};
use stats::{Class, Collector, Cpu, Origin, RunResult, SCHEMA_VERSION};

use crate::engine::Stop;
use crate::equals::names;
use crate::judge;
use crate::outcome::{self, MissedDemands};
use crate::run::Prepared;
use crate::runner::{OVERTIME_SECONDS, RunError, check, patience, steadiness, unanswered_ios};
use crate::worker::{Order, Trouble, outlasts};
use job::spec::{RunSpec, Watch};

mod hands;
mod section;

pub use hands::Part;
use hands::{Hands, Here, Threads};
use section::Bindings;

/// Start of a virtual run, which has no wall clock.
const STARTED: &str = "1970-01-01T00:00:00Z";

/// Simulated storage, advanced between the workers' steps.
pub trait Storage {
    /// Time of the next event; `None` without I/Os in flight.
    fn next(&mut self) -> Option<Nanos>;

    /// Advances to `now`, and appends the workers whose lanes have completions, as indices into the
    /// spec's.
    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>);

    /// Whether reads return written data, so that they can be verified.
    fn keeps_data(&self) -> bool {
        false
    }
}

/// Runs specs without a clock. The spec, its seed and the storage determine the result, to the last
/// bit.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Ends the run early.
    pub stop: Stop,
}

impl Simulation {
    /// Runs it on `lanes`, one per worker in order. Its volumes only provide geometry and kind:
    /// they get no I/O, and nothing is verified.
    ///
    /// # Errors
    ///
    /// [`RunError`] as for a real run, and if I/Os take no time at all.
    pub fn run(
        &self,
        prepared: &Prepared,
        lanes: Vec<Box<dyn Lane>>,
        storage: &mut dyn Storage,
        live: &mut dyn Live,
    ) -> Result<RunResult, RunError> {
        let spec = &prepared.spec;
        if lanes.len() != spec.workers.len() {
            return Err(RunError::Nothing("a simulated worker needs a lane"));
        }
        let data = storage.keeps_data();
        refuse(prepared, data)?;
        let all = (0..lanes.len()).collect();
        let section = Bindings::of(prepared)?.section(all, lanes, data, self.stop.clone())?;
        self.go(prepared, &mut Here { section, storage, spare: None }, live)
    }

    /// Runs independent parts on this many threads, with bit-identical results. Workers that wait
    /// for each other, or share a flow, must be in one part.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run), and errors of the parts.
    pub fn run_apart(
        &self,
        prepared: &Prepared,
        parts: Vec<Part<'_>>,
        threads: usize,
        live: &mut dyn Live,
    ) -> Result<RunResult, RunError> {
        refuse(prepared, false)?;
        let workers = parts.iter().map(|part| part.workers.len()).sum::<usize>();
        if workers != prepared.spec.workers.len() {
            return Err(RunError::Nothing("each simulated worker is of one part"));
        }
        std::thread::scope(|scope| {
            let mut threads = Threads::start(scope, prepared, parts, threads, &self.stop)?;
            self.go(prepared, &mut threads, live)
        })
    }

    fn go(
        &self,
        prepared: &Prepared,
        hands: &mut dyn Hands,
        live: &mut dyn Live,
    ) -> Result<RunResult, RunError> {
        let spec = &prepared.spec;
        let mut run = Run {
            prepared,
            spec,
            stop: self.stop.clone(),
            hands,
            unanswered: 0,
            collected: Box::new(Collector::new(names(spec))),
            now: Nanos(0),
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
        let outcome = run.go(live).and_then(|()| run.drain(live));
        live.end();
        outcome?;
        Ok(run.result())
    }
}

/// Whether workers wait for each other: then they must be simulated in one part.
pub fn tied(spec: &RunSpec) -> bool {
    let alone = |worker: &job::spec::WorkerSpec| {
        worker.workload.flow.is_none()
            && worker.shift.when == Default::default()
            && worker.shift.after.is_empty()
    };
    outlasts(spec) || spec.ends_with_first || !spec.workers.iter().all(alone)
}

/// Refuses specs that cannot run in virtual time.
fn refuse(prepared: &Prepared, data: bool) -> Result<(), RunError> {
    check(prepared)?;
    let spec = &prepared.spec;
    let verifies = spec.workers.iter().filter_map(|worker| worker.workload.verify);
    if !data && verifies.clone().count() > 0 {
        return Err(RunError::Nothing("simulated storage stores no data: remove verify"));
    }
    if verifies.clone().any(|verify| verify.fill) {
        return Err(RunError::Nothing("simulated storage stores no data: remove fill"));
    }
    if spec.workers.iter().any(|worker| worker.workload.until_full) {
        let why = "simulated storage never becomes full: remove until_full (fill_device)";
        return Err(RunError::Nothing(why));
    }
    Ok(())
}

/// A run in progress.
struct Run<'a> {
    prepared: &'a Prepared,
    spec: &'a RunSpec,
    stop: Stop,
    /// Steps the workers.
    hands: &'a mut dyn Hands,
    /// I/Os that never completed.
    unanswered: u64,
    collected: Box<Collector>,
    now: Nanos,
    errors: u64,
    trouble: Option<String>,
    /// Read data was wrong.
    mismatch: bool,
    missed: MissedDemands,
    /// Depths were found, and are being measured.
    measured: bool,
    steady_at_s: Option<f64>,
    watch: Watch,
}

impl Run<'_> {
    fn go(&mut self, live: &mut dyn Live) -> Result<(), RunError> {
        let ramp = Nanos((self.spec.ramp_seconds * 1e9) as u64);
        if ramp > Nanos(0) {
            self.phase(Phase::Ramp, ramp, live)?;
        }
        self.collected.restart();
        let overtime = if outlasts(self.spec) { OVERTIME_SECONDS } else { 0.0 };
        let seconds = Nanos(((self.spec.seconds + overtime) * 1e9) as u64);
        let end = self.now + seconds;
        self.phase(Phase::Run, end, live)?;
        match self.spec.search_window().filter(|_| self.has_found() && self.now < end) {
            None => Ok(()),
            Some(window) => {
                self.measured = true;
                self.collected.restart();
                let window = self.now + Nanos((window * 1e9) as u64);
                self.phase(Phase::Run, window.min(end), live)
            }
        }
    }

    /// Whether all workers search a depth and have found it.
    fn has_found(&self) -> bool {
        self.spec.search_window().is_some() && self.hands.told().found
    }

    /// Runs until `end`, a second at a time.
    fn phase(&mut self, phase: Phase, end: Nanos, live: &mut dyn Live) -> Result<(), RunError> {
        let begin = self.now;
        while self.now < end && self.stop.asked() == 0 && self.trouble.is_none() {
            // A remainder below half a second joins the last second.
            let next = self.now + Nanos::from_secs(1);
            let tick = if next + Nanos::from_millis(500) > end { end } else { next };
            self.until(tick, Order::Run, live)?;
            self.collected.watch(live.wants_workers());
            self.collect()?;
            let t_s = self.now.since(begin).as_secs_f64();
            let (second, latencies) = self.collected.end_second(t_s);
            self.errors += second.errors;
            let snapshot = Snapshot {
                t_s,
                phase,
                seconds_left: Some(end.since(self.now).as_secs_f64()),
                iops: second.iops,
                flush_iops: second.flush_iops,
                bytes_per_second: second.bytes_per_second,
                latency_ns: latencies.summary(),
                buckets: None,
                counts: self.collected.counts().clone(),
                targets: self.collected.target_rates(),
                slower: Vec::new(),
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
            if found || self.hands.told().finished {
                break;
            }
        }
        Ok(())
    }

    /// Runs until `tick`, or until the user stops it.
    fn until(&mut self, tick: Nanos, order: Order, live: &mut dyn Live) -> Result<(), RunError> {
        self.hands.until(tick, order, live, &self.stop)?;
        self.now = self.hands.told().now;
        Ok(())
    }

    /// The window is over: I/Os in flight complete, and planned ones start, as long as a real run
    /// would wait. They count in the window.
    fn drain(&mut self, live: &mut dyn Live) -> Result<(), RunError> {
        let end = self.now + patience(self.prepared);
        self.hands.close_window();
        let asked = self.stop.asked();
        while self.now < end && !self.hands.told().drained {
            let tick = end.min(self.now + Nanos::from_secs(1));
            self.until(tick, Order::Drain, live)?;
            if self.stop.asked() > asked {
                break;
            }
        }
        let collected = self.lend();
        let (collected, unanswered) = self.hands.give_up(collected)?;
        (self.collected, self.unanswered) = (collected, unanswered);
        self.note_troubles();
        Ok(())
    }

    /// Returns the collector, for callers that add to it.
    fn lend(&mut self) -> Box<Collector> {
        std::mem::replace(&mut self.collected, Box::new(Collector::new(Vec::new())))
    }

    fn collect(&mut self) -> Result<(), RunError> {
        let collected = self.lend();
        self.collected = self.hands.collect(collected)?;
        self.note_troubles();
        Ok(())
    }

    fn note_troubles(&mut self) {
        for (index, trouble) in self.hands.troubles() {
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

/// Requested features that simulations lack.
fn unlogged(spec: &RunSpec) -> Option<String> {
    let wanted = spec.workers.iter().any(|worker| worker.shift.job.is_some());
    wanted.then(|| "a simulation writes no per-I/O logs".to_owned())
}

#[cfg(test)]
mod test;
