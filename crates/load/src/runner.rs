//! Runs a spec on this host: starts the threads, collects every second, judges at the end.

mod check;
mod crew;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use block::Nanos;
use os::Clock;
use stats::live::{About, Action, Live, Phase, Snapshot};
use stats::{
    Class, Collector, Host, Placement, RunResult, SCHEMA_VERSION, WorkerName, WorkerResult,
};

pub(crate) use self::check::{check, volumes};
use self::crew::{Crew, seats};
pub(crate) use self::words::steadiness;
use self::words::{displaced, earlier, emulated, origin};
use crate::engine::Stop;
use crate::handover::Command;
use crate::judge;
use crate::meter::{Meter, Reading, Threads};
use crate::outcome::{self, MissedDemands};
use crate::patience::Patience;
use crate::records::{Desk, SharedScribe};
use crate::spec::{AccessError, RunSpec, Watch};
use crate::witness::{Moment, Witness};
use crate::worker::{Trouble, outlasts};

/// How often the view may answer keys.
const POLL: Duration = Duration::from_millis(50);
/// Histograms over time in what is kept while it runs: all of a long run are tens of megabytes.
const DRAFT_SPANS: usize = 256;
/// How long a run may go on after its time for the flushes that it ends with: a day in seconds.
pub(crate) const OVERTIME_SECONDS: f64 = 86_400.0;

/// Runs specs: on this host, or in a model of one.
pub trait Runner {
    /// Runs `spec` and shows it in `live`.
    ///
    /// # Errors
    ///
    /// [`RunError`] when there is no result at all.
    fn run(&mut self, spec: RunSpec, live: &mut dyn Live) -> Result<RunResult, RunError>;
}

/// Runs specs on the cores of this host.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// Ends the run early.
    pub stop: Stop,
    /// Writes down the I/Os of workers whose job wants that.
    pub scribe: Option<SharedScribe>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The access specification does not fit a volume.
    #[error("{uri}: {error}")]
    Access {
        /// Which volume.
        uri: String,
        /// Why.
        error: AccessError,
    },
    /// Nothing to do.
    #[error("{0}")]
    Nothing(&'static str),
    /// A lane or a core could not be opened.
    #[error("{0}")]
    Open(String),
    /// What volumes should hold cannot be kept.
    #[error("the ledger of what was written, {path}: {error}")]
    Ledger {
        /// Where it is.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A system that exists as a model only cannot do this.
    #[error("cannot be simulated: {0}")]
    Model(String),
    /// A thread could not be started.
    #[error("cannot start")]
    Start(#[from] std::io::Error),
}

impl Engine {
    /// Runs `spec` and shows it in `live`. A run that ends early has a result too: its `partial`
    /// says why.
    pub fn run(&self, spec: RunSpec, live: &mut dyn Live) -> Result<RunResult, RunError> {
        check(&spec)?;
        let spec = Arc::new(spec);
        let desk = Desk::start(&spec, self.scribe.as_ref())?;
        let mut crew = Crew::start(&spec, desk.as_ref())?;
        let run = Run::new(&spec, &crew, self.stop.clone());
        let mut result = run.go(&crew, desk.as_ref(), live);
        crew.join(&self.stop);
        result.warnings.extend(desk.map(Desk::finish).unwrap_or_default());
        Ok(result)
    }
}

impl Runner for Engine {
    fn run(&mut self, spec: RunSpec, live: &mut dyn Live) -> Result<RunResult, RunError> {
        Engine::run(self, spec, live)
    }
}

/// Where the ledger of the n-th volume of a run is kept.
pub(crate) fn ledger_path(folder: &Path, volume: usize) -> PathBuf {
    folder.join(format!("volume-{}.ledger", volume + 1))
}

/// The beginning of the measured window.
struct Opening {
    /// By the clock on the wall.
    started: String,
    witness: Witness,
    before: (Reading, Moment),
}

/// One run under way, as the collecting thread sees it.
struct Run<'a> {
    spec: &'a RunSpec,
    stop: Stop,
    clock: Clock,
    collected: Collector,
    meter: Meter,
    errors: u64,
    trouble: Option<String>,
    mismatch: bool,
    missed: MissedDemands,
    /// Depths are searched, and nothing else is done.
    searching: bool,
    /// Volumes are written once before the run.
    filling: bool,
    /// Every worker has done all that it was to do.
    finished: bool,
    /// Workers whose last numbers did not come in time.
    late: usize,
    /// When it was steady, in seconds of the measured window.
    steady_at_s: Option<f64>,
    watch: Watch,
}

impl<'a> Run<'a> {
    fn new(spec: &'a RunSpec, crew: &Crew, stop: Stop) -> Run<'a> {
        let names = spec.workers.iter().map(|worker| WorkerName {
            name: worker.name.clone(),
            volume: worker.uri.clone(),
            target: worker.target.clone(),
        });
        let targets = spec.targets.as_ref().map(|targets| targets.threads.clone());
        let threads = Threads {
            initiators: crew.ids.clone(),
            pollers: crew.pollers.clone(),
            targets,
            companions_ns: crew.companions_ns.clone(),
        };
        Run {
            spec,
            stop,
            clock: Clock::get(),
            collected: Collector::new(names.collect()),
            meter: Meter::new(threads),
            errors: 0,
            trouble: None,
            mismatch: false,
            missed: MissedDemands::default(),
            searching: false,
            filling: false,
            finished: false,
            late: 0,
            steady_at_s: None,
            watch: Watch::new(spec.steady),
        }
    }

    fn go(mut self, crew: &Crew, desk: Option<&Desk>, live: &mut dyn Live) -> RunResult {
        let spec = self.spec;
        let cores = os::cpu::allowed().len() as u32;
        live.start(&About { job: spec.job.clone(), kind: None, origin: origin(spec), cores });
        // What is read must be there before the first read, or after the filling.
        let mut witness = (!fills(spec)).then(|| Witness::look(spec));
        if fills(spec) {
            self.fill(crew, live);
            witness = Some(Witness::look(spec));
        }
        let witness = witness.expect("looked before or after the filling");
        let commanded = self.clock.now();
        crew.command(Command::Run);
        let mut begin = self.clock.now();
        if let Some(desk) = desk {
            let ramp = nanos(spec.ramp_seconds);
            let opening = if ramp > Nanos(0) { begin + ramp } else { commanded };
            desk.open(commanded, opening, begin + ramp + nanos(spec.seconds + overtime(spec)));
        }
        if spec.ramp_seconds > 0.0 {
            begin = self.phase(None, spec.ramp_seconds, begin, crew, live).1;
        }
        self.collected.restart();
        let started = jiff::Timestamp::now().to_string();
        let before = (self.meter.read(self.clock.now()), witness.now());
        let mut opening = Opening { started, witness, before };
        self.searching = spec.search_window().is_some();
        let mut end = self.phase(Some(&opening), spec.seconds, begin, crew, live);
        if let Some(window) = spec.search_window().filter(|_| self.searching && crew.has_found()) {
            end = self.measure_found(&mut opening, window, (begin, end), crew, live);
        }
        let after = (self.meter.read(self.clock.now()), opening.witness.now());
        crew.command(Command::Drain);
        live.failed(&self.collected.failures().0);
        live.end();
        self.result(&opening, &after, end, usize::MAX)
    }

    /// Begins the measured window anew when all depths are found, and measures them.
    fn measure_found(
        &mut self,
        opening: &mut Opening,
        window: f64,
        (begin, end): (Nanos, (bool, Nanos)),
        crew: &Crew,
        live: &mut dyn Live,
    ) -> (bool, Nanos) {
        let over = self.stop.asked() > 0 || self.trouble.is_some() || self.finished;
        let left = self.spec.seconds - end.1.since(begin).as_secs_f64();
        if over || !end.0 || left <= 0.0 {
            return end;
        }
        self.searching = false;
        self.collected.restart();
        opening.started = jiff::Timestamp::now().to_string();
        opening.before = (self.meter.read(self.clock.now()), opening.witness.now());
        self.phase(Some(opening), window.min(left), self.clock.now(), crew, live)
    }

    /// Hands over what was measured so far, if anybody wants it.
    fn keep(&mut self, opening: &Opening, t_s: f64, live: &mut dyn Live) {
        if t_s >= self.spec.seconds || !live.wants_result() {
            return;
        }
        let now = self.clock.now();
        let after = (self.meter.read(now), opening.witness.now());
        let mut so_far = self.result(opening, &after, (true, now), DRAFT_SPANS);
        let asked_s = self.spec.seconds;
        let cut = || format!("cut after {t_s:.1} of {asked_s} s or later: nobody ended it");
        so_far.partial.get_or_insert_with(cut);
        live.keep(so_far);
    }

    /// Writes every volume once. Nothing of the job itself is begun before all are: it counts
    /// neither against a worker's limit nor in its schedule.
    fn fill(&mut self, crew: &Crew, live: &mut dyn Live) {
        crew.command(Command::Fill);
        self.filling = true;
        let mut begin = self.clock.now();
        while crew.is_filling() && self.stop.asked() == 0 && self.trouble.is_none() {
            begin = self.phase(None, 1.0, begin, crew, live).1;
        }
        self.filling = false;
    }

    /// Runs for `seconds` from `begin`; returns whether it went through, and when it ended. What
    /// has an opening is measured.
    fn phase(
        &mut self,
        opening: Option<&Opening>,
        seconds: f64,
        begin: Nanos,
        crew: &Crew,
        live: &mut dyn Live,
    ) -> (bool, Nanos) {
        let overtime = if opening.is_some() { overtime(self.spec) } else { 0.0 };
        let end = begin + nanos(seconds + overtime);
        let mut tick = begin;
        let mut before = self.meter.read(self.clock.now());
        while tick < end {
            // A rest shorter than half a second joins the last second.
            let next = tick + Nanos::from_secs(1);
            tick = if next + Nanos::from_millis(500) > end { end } else { next };
            let early = self.wait_until(tick, crew, live);
            // Who ends while intervals are handed over has more to hand over.
            self.finished = crew.is_finished();
            self.collect(crew);
            let t_s = self.clock.now().since(begin).as_secs_f64();
            let (second, latency_ns) = self.collected.end_second(t_s);
            let reading = self.meter.read(self.clock.now());
            let cpu = reading.live_since(&before, &reading.since(&before, 0));
            before = reading;
            self.errors += second.errors;
            let snapshot = Snapshot {
                t_s,
                phase: if opening.is_some() { Phase::Run } else { Phase::Ramp },
                seconds_left: Some((seconds - t_s).max(0.0)),
                iops: second.iops,
                bytes_per_second: second.bytes_per_second,
                latency_ns,
                targets: self.collected.target_rates(),
                cpu,
                errors: self.errors,
                outstanding: second.mean_outstanding,
                history: self.collected.history(),
            };
            if live.update(&snapshot) == Action::Stop {
                self.stop.ask();
            }
            if let Some(opening) = opening {
                self.keep(opening, t_s, live);
            }
            if opening.is_some() && self.watch.is_steady(second) {
                self.steady_at_s = Some(t_s);
                return (true, self.clock.now());
            }
            if self.searching && crew.has_found() {
                return (true, self.clock.now());
            }
            if self.finished && self.stop.asked() == 0 && self.trouble.is_none() {
                return (true, self.clock.now());
            }
            if early || self.stop.asked() > 0 || self.trouble.is_some() {
                return (tick >= end && self.trouble.is_none(), self.clock.now());
            }
        }
        (true, end)
    }

    /// Waits, answering keys. True when the run is to end before.
    fn wait_until(&mut self, tick: Nanos, crew: &Crew, live: &mut dyn Live) -> bool {
        loop {
            let left = tick.since(self.clock.now());
            if left == Nanos(0) {
                return false;
            }
            std::thread::sleep(Duration::from_nanos(left.0).min(POLL));
            if live.poll() == Action::Stop {
                self.stop.ask();
            }
            let filled = self.filling && !crew.is_filling();
            let found = self.searching && crew.has_found();
            if self.stop.asked() > 0 || crew.is_finished() || filled || found {
                return true;
            }
        }
    }

    /// Asks all workers for their intervals and merges them.
    fn collect(&mut self, crew: &Crew) {
        crew.ask();
        let mut patience = Patience::new(self.clock.now());
        let mut missing: Vec<usize> = crew.handovers.iter().map(|it| it.workers).collect();
        loop {
            for (handover, missing) in crew.handovers.iter().zip(&mut missing) {
                while let Some((worker, interval)) = handover.take_full() {
                    self.collected.add(worker, &interval);
                    handover.put_empty(interval);
                    *missing = missing.saturating_sub(1);
                }
                while let Some((worker, trouble)) = handover.troubles.pop() {
                    self.note(worker, trouble);
                }
            }
            let late = || crew.ids.iter().zip(&missing).filter(|(_, missing)| **missing > 0);
            let starved = || late().any(|(id, _)| os::sample::is_runnable(*id));
            let all = missing.iter().all(|missing| *missing == 0);
            if all || self.stop.asked() > 1 || patience.is_over(self.clock.now(), starved) {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        self.late = missing.iter().sum();
    }

    fn note(&mut self, worker: usize, trouble: Trouble) {
        let WorkerNames { name, uri } = names(self.spec, worker);
        let words = match trouble {
            Trouble::Missed(missed) => return self.missed.note(worker, missed),
            Trouble::Lost(why) => format!("{name} lost {uri}: {why}"),
            Trouble::Mismatch(finding) => {
                self.mismatch = true;
                format!("{name} read other data than were written: {uri}, {finding}")
            }
        };
        self.trouble.get_or_insert(words);
    }

    fn result(
        &self,
        opening: &Opening,
        (after, last): &(Reading, Moment),
        (whole, _): (bool, Nanos),
        spans: usize,
    ) -> RunResult {
        let spec = self.spec;
        let Opening { started, witness, before: (before, first) } = opening;
        let totals = self.collected.totals();
        let (failures, failures_unlisted) = self.collected.failures();
        let cpu = after.since(before, totals.ios);
        let testimony = witness.testify(first, last, &self.collected, &cpu);
        let data = self.verdict_of_data();
        let checks = judge::checks(&spec.job, &self.collected, &cpu, &testimony, data);
        let partial = self.trouble.clone().or_else(|| self.missed.words(spec)).or_else(|| {
            let cut = || format!("interrupted after {:.1} of {} s", totals.seconds, spec.seconds);
            (!whole).then(cut)
        });
        let partial = partial.or_else(|| {
            let early = || format!("all was done within the ramp of {} s", spec.ramp_seconds);
            (self.finished && totals.ios + totals.errors == 0).then(early)
        });
        let partial = partial.or_else(|| {
            let of = spec.workers.len();
            let late = || format!("{} of {of} workers did not report in time", self.late);
            (self.late > 0).then(late)
        });
        let cores = |cores: &[usize]| cores.iter().map(|core| *core as u32).collect();
        let mut workers = self.collected.workers();
        self.missed.write(&mut workers, self.collected.whole().start);
        let taken: Vec<usize> = seats(spec).into_iter().map(|(cpu, _)| cpu).collect();
        RunResult {
            schema_version: SCHEMA_VERSION,
            origin: origin(spec),
            class: Class::of(&checks),
            checks,
            job: spec.job.clone(),
            spec: spec.document.clone(),
            host: host(),
            placement: Placement {
                initiator: cores(&taken),
                target: spec.targets.as_ref().map_or_else(Vec::new, |t| cores(&t.cores)),
                pinned: true,
                shared_threads: spec
                    .targets
                    .as_ref()
                    .is_some_and(|t| taken.iter().any(|cpu| t.shared_on(*cpu).is_some())),
            },
            started: started.clone(),
            seed: spec.seed,
            partial,
            totals,
            cpu,
            processors: after.processors_since(before),
            kernel_threads: testimony.threads,
            devices: testimony.devices,
            failures,
            failures_unlisted,
            warnings: self.warnings(&workers),
            workers,
            intervals: self.collected.seconds(),
            histograms: self.collected.histograms(),
            spans: self.collected.spans(spans),
            ..RunResult::default()
        }
    }

    /// What a reader should know.
    fn warnings(&self, workers: &[WorkerResult]) -> Vec<String> {
        let steady = self.spec.steady.map(|steady| steadiness(&steady, self.steady_at_s));
        emulated(self.spec)
            .map(str::to_owned)
            .chain(displaced(&self.collected))
            .chain(earlier(self.spec))
            .chain(steady)
            .chain(outcome::searches(self.spec, workers))
            .collect()
    }

    fn verdict_of_data(&self) -> Option<bool> {
        verifies(self.spec).then_some(!self.mismatch)
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// How long a run may go on after its time, in seconds.
fn overtime(spec: &RunSpec) -> f64 {
    if outlasts(spec) { OVERTIME_SECONDS } else { 0.0 }
}

/// Whether any volume is written once before the run.
fn fills(spec: &RunSpec) -> bool {
    let mut verified = spec.workers.iter().filter_map(|worker| worker.workload.verify);
    verified.any(|verify| verify.fill)
}

/// Whether what is read is compared while it runs.
fn verifies(spec: &RunSpec) -> bool {
    let mut workloads = spec.workers.iter().map(|worker| &worker.workload);
    workloads.any(|workload| workload.verify.is_some_and(|verify| verify.sample_percent > 0.0))
}

struct WorkerNames<'a> {
    name: &'a str,
    uri: &'a str,
}

fn names(spec: &RunSpec, worker: usize) -> WorkerNames<'_> {
    let worker = &spec.workers[worker];
    WorkerNames { name: &worker.name, uri: &worker.uri }
}

fn host() -> Host {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Host {
        name: name.trim().to_owned(),
        cpu: os::cpu::model(),
        cores: os::cpu::allowed().len() as u32,
        memory_bytes: os::sample::memory_total_bytes().unwrap_or(0),
        kernel: format!("Linux {}", os::sample::kernel_release()),
        ..Host::default()
    }
}
