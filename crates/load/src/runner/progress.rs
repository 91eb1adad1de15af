//! A run in progress: fill, ramp, measured window, second by second.

use std::collections::BTreeSet;
use std::time::Duration;

use block::Nanos;
use os::Clock;
use stats::live::{About, Action, Live, Phase, Snapshot};
use stats::{Buckets, Collector, RunResult, Second};
use volume::Hidden;

use super::crew::Crew;
use super::notes::origin;
use super::standstill::Standstills;
use super::{Gate, OVERTIME_SECONDS, Shared};
use crate::engine::Stop;
use crate::equals::names;
use crate::handover::Directive;
use crate::meter::{Meter, Reading, Threads};
use crate::outcome::MissedDemands;
use crate::records::Desk;
use crate::run::Prepared;
use crate::witness::{Moment, Witness};
use crate::worker::outlasts;
use job::spec::{RunSpec, Watch};

/// Interval at which the view may handle keys.
pub(super) const POLL: Duration = Duration::from_nanos(POLL_NANOS.0);
const POLL_NANOS: Nanos = Nanos::from_millis(50);
/// Histograms over time in a draft: all of a long run are tens of megabytes.
const DRAFT_SPANS: usize = 256;

/// Start of the measured window.
pub(super) struct Opening {
    /// Wall-clock time.
    pub(super) started: String,
    pub(super) witness: Witness,
    pub(super) before: (Reading, Moment),
    /// One instant on the wall clock, in Unix nanoseconds, and on that of the cores.
    pub(super) wall: (u64, Nanos),
}

/// The measured window, once over.
pub(super) struct Measured {
    opening: Opening,
    after: (Reading, Moment),
    /// Whether it was complete, and its end.
    end: (bool, Nanos),
}

/// A run in progress, as seen by the collecting thread.
pub(super) struct Run<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) spec: &'a RunSpec,
    pub(super) stop: Stop,
    /// Random places of the volumes are read before and after the run.
    pub(super) cold_reads: bool,
    /// Other hosts do a part of the run.
    pub(super) shared: Option<Shared>,
    pub(super) clock: Clock,
    pub(super) collected: Collector,
    meter: Meter,
    errors: u64,
    connections_lost: u64,
    reconnects: u64,
    pub(super) trouble: Option<String>,
    pub(super) mismatch: bool,
    pub(super) missed: MissedDemands,
    /// Depths are being searched, and nothing is measured yet.
    searching: bool,
    /// Volumes are filled before the run.
    filling: bool,
    /// Every worker has finished.
    pub(super) finished: bool,
    /// Every worker had finished when the ramp was over.
    pub(super) within_ramp: bool,
    /// Workers whose last interval was late.
    pub(super) late: usize,
    /// The threads' counters at the end of the window, before they ended.
    closing: Option<Reading>,
    /// Whether the workers start nothing more; and how often the user had requested the end by
    /// then.
    drained: bool,
    pub(super) asked: u32,
    /// I/Os that never completed.
    pub(super) unanswered: u64,
    /// The user did not wait for them.
    pub(super) hurried: bool,
    /// Time at which the rate became steady, in seconds of the measured window.
    pub(super) steady_at_s: Option<f64>,
    watch: Watch,
    standstills: Standstills,
    /// Failures that volumes which stay open had hidden before this run.
    pub(super) hidden_before: BTreeSet<Hidden>,
}

impl<'a> Run<'a> {
    pub(super) fn new(prepared: &'a Prepared, crew: &Crew, stop: Stop) -> Run<'a> {
        let spec = &prepared.spec;
        let targets = prepared.targets.as_ref().map(|targets| targets.threads.clone());
        let threads = Threads {
            initiators: crew.ids.clone(),
            pollers: crew.pollers.clone(),
            targets,
            shared_time: crew.shared_time.clone(),
        };
        Run {
            prepared,
            spec,
            stop,
            cold_reads: false,
            shared: None,
            clock: Clock::get(),
            collected: Collector::new(names(spec)),
            meter: Meter::new(threads),
            errors: 0,
            connections_lost: 0,
            reconnects: 0,
            trouble: None,
            mismatch: false,
            missed: MissedDemands::default(),
            searching: false,
            filling: false,
            finished: false,
            within_ramp: false,
            late: 0,
            drained: false,
            closing: None,
            asked: 0,
            unanswered: 0,
            hurried: false,
            steady_at_s: None,
            watch: Watch::new(spec.steady),
            standstills: Standstills::default(),
            hidden_before: prepared.driven().flat_map(|volume| volume.hidden()).collect(),
        }
    }

    /// Runs until the measured window is over and I/Os in flight should complete.
    pub(super) fn go(
        &mut self,
        crew: &Crew,
        desk: Option<&Desk>,
        gate: Option<&dyn Gate>,
        live: &mut dyn Live,
    ) -> Measured {
        let spec = self.spec;
        let cores = os::cpu::allowed().len() as u32;
        let origin = origin(self.prepared);
        live.start(&About { job: spec.job.clone(), kind: None, origin, cores });
        // Data must exist before the first read, or after the fill.
        let mut witness = (!fills(spec)).then(|| Witness::look(self.prepared, self.cold_reads));
        if fills(spec) {
            self.fill(crew, live);
            witness = Some(Witness::look(self.prepared, self.cold_reads));
        }
        let witness = witness.expect("looked before or after the filling");
        let stop = self.stop.clone();
        let named = gate.and_then(|gate| gate.wait(&stop, &mut || self.poll(live)));
        let planned = self.await_start(named, crew, live);
        // Before the first I/O: on a busy host this thread may not run again for a while.
        self.collected.restart();
        let mut opening = self.opening(witness);
        let commanded = self.clock.now();
        crew.command(Directive::Run);
        let mut begin = planned.unwrap_or_else(|| self.clock.now());
        if let Some(desk) = desk {
            let ramp = nanos(spec.ramp_seconds);
            let opening = if ramp > Nanos(0) { begin + ramp } else { commanded };
            desk.open(commanded, opening, begin + ramp + nanos(spec.seconds + overtime(spec)));
        }
        if spec.ramp_seconds > 0.0 {
            begin = self.phase(None, spec.ramp_seconds, begin, crew, live).1;
        }
        // As in fio, a run that ends within the ramp has the results of the ramp.
        self.within_ramp = spec.ramp_seconds > 0.0 && self.finished && self.stop.asked() == 0;
        if spec.ramp_seconds > 0.0 && !self.within_ramp {
            self.collected.restart();
            opening = self.opening(opening.witness);
        }
        self.searching = spec.search_window().is_some();
        let mut end = self.phase(Some(&opening), spec.seconds, begin, crew, live);
        if let Some(window) = spec.search_window().filter(|_| self.searching && crew.has_found()) {
            end = self.measure_found(&mut opening, window, (begin, end), crew, live);
        }
        if !self.drained {
            // The reason for the window's end was known when its last second was over.
            self.asked = self.stop.asked();
            self.closing = Some(self.meter.read(self.clock.now()));
            self.collect(crew, true);
            let begin = self.collected.whole().start;
            self.collected.extend_second(self.clock.now().since(begin).as_secs_f64());
        }
        let reading = self.closing.take().unwrap_or_else(|| self.meter.read(self.clock.now()));
        let after = (reading, opening.witness.now());
        Measured { opening, after, end }
    }

    /// Returns the state at the start of the measured window.
    fn opening(&mut self, witness: Witness) -> Opening {
        let started = jiff::Timestamp::now().to_string();
        let wall = os::wall::beside(self.clock);
        let before = (self.meter.read(self.clock.now()), witness.now());
        Opening { started, witness, before, wall }
    }

    /// Inspects the volumes once more, when every I/O of the run has completed. Not after a request
    /// to end, nor after an interrupted run.
    pub(super) fn look_again(&self, measured: &Measured) {
        let whole = measured.end.0 && self.unanswered == 0 && self.trouble.is_none();
        if whole && self.stop.asked() == 0 {
            measured.opening.witness.look_again();
        }
    }

    /// Everything that can complete has: shows failures, and sums up.
    pub(super) fn end(&self, measured: &Measured, live: &mut dyn Live) -> RunResult {
        let Measured { opening, after, end } = measured;
        live.failed(&self.collected.failures().0);
        live.end();
        self.result(opening, after, *end, usize::MAX)
    }

    /// Handles keys.
    pub(super) fn poll(&self, live: &mut dyn Live) {
        if live.poll() == Action::Stop {
            self.stop.ask();
        }
    }

    /// Restarts the measured window once all depths are found, to measure them.
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
        opening.wall = os::wall::beside(self.clock);
        opening.before = (self.meter.read(self.clock.now()), opening.witness.now());
        self.phase(Some(opening), window.min(left), self.clock.now(), crew, live)
    }

    /// Passes on a draft of the result, if the view requests it.
    fn keep(&mut self, opening: &Opening, t_s: f64, live: &mut dyn Live) {
        if t_s >= self.spec.seconds || !live.wants_result() {
            return;
        }
        let now = self.clock.now();
        let after = (self.meter.read(now), opening.witness.now());
        let mut so_far = self.result(opening, &after, (true, now), DRAFT_SPANS);
        let asked_s = self.spec.seconds;
        let cut = || {
            format!(
                "cut off after at least {t_s:.1} of {asked_s} s: the process ended \
            without a result"
            )
        };
        so_far.partial.get_or_insert_with(cut);
        so_far.count_waiting(self.collected.oldest_ns());
        live.keep(so_far);
    }

    /// Fills every volume. Nothing of the job starts before that: the fill counts neither against a
    /// worker's limit nor in its schedule.
    fn fill(&mut self, crew: &Crew, live: &mut dyn Live) {
        crew.command(Directive::Fill);
        self.filling = true;
        let mut begin = self.clock.now();
        while crew.is_filling() && self.stop.asked() == 0 && self.trouble.is_none() {
            begin = self.phase(None, 1.0, begin, crew, live).1;
        }
        self.filling = false;
    }

    /// Runs for `seconds` from `begin`; returns whether it was complete, and when it ended. With an
    /// opening it is measured.
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
            // A remainder below half a second joins the last second.
            let next = tick + Nanos::from_secs(1);
            tick = if next + Nanos::from_millis(500) > end { end } else { next };
            let early = self.wait_until(tick, crew, live);
            // A worker that ends while intervals are handed over has more to hand over.
            self.finished = crew.is_finished();
            let over = tick >= end || self.finished || self.stop.asked() > 0;
            self.drained = opening.is_some() && over;
            self.asked = self.stop.asked();
            let reading = self.take_second(crew, live.wants_workers());
            let t_s = self.clock.now().since(begin).as_secs_f64();
            let (second, latencies) = self.collected.end_second(t_s);
            let cpu = reading.live_since(&before, &reading.since(&before, 0));
            before = reading;
            self.count(&second);
            let snapshot = Snapshot {
                t_s,
                phase: opening.map_or(Phase::Ramp, |_| Phase::Run),
                seconds_left: Some((seconds - t_s).max(0.0)),
                iops: second.iops,
                flush_iops: second.flush_iops,
                bytes_per_second: second.bytes_per_second,
                latency_ns: latencies.summary(),
                buckets: live.wants_buckets().then(|| Buckets::of(&latencies)),
                counts: self.collected.counts().clone(),
                targets: self.collected.target_rates(),
                slower: Vec::new(),
                workers: self.collected.worker_seconds(),
                cpu,
                errors: self.errors,
                connections_lost: self.connections_lost,
                reconnects: self.reconnects,
                outstanding: second.mean_outstanding,
                oldest_ns: second.oldest_ns,
                history: self.collected.history(),
            };
            if live.update(&snapshot) == Action::Stop {
                self.stop.ask();
            }
            if let Some(opening) = opening {
                opening.witness.glance(&opening.before.1);
                self.keep(opening, t_s, live);
            }
            if opening.is_some() && self.watch.is_steady(second) {
                self.steady_at_s = Some(t_s);
                return (true, self.clock.now());
            }
            let is_done = self.finished && self.stop.asked() == 0 && self.trouble.is_none();
            if is_done || self.searching && crew.has_found() {
                return (true, self.clock.now());
            }
            if early || self.stop.asked() > 0 || self.trouble.is_some() {
                return (tick >= end && self.trouble.is_none(), self.clock.now());
            }
        }
        (true, end)
    }

    /// Counts the errors of a second.
    fn count(&mut self, second: &Second) {
        self.errors += second.errors;
        self.connections_lost += second.connections_lost;
        self.reconnects += second.reconnects;
    }

    /// Takes the results of the workers for a second. Their threads' counters are read first: a
    /// thread that has handed over its last interval may be gone. `each`: stores every worker's
    /// results for a view.
    fn take_second(&mut self, crew: &Crew, each: bool) -> Reading {
        self.collected.watch(each);
        let reading = self.meter.read(self.clock.now());
        self.collect(crew, self.drained);
        self.closing = self.drained.then(|| reading.clone());
        reading
    }

    /// Waits, handling keys. True if the run is to end early.
    fn wait_until(&mut self, tick: Nanos, crew: &Crew, live: &mut dyn Live) -> bool {
        loop {
            let now = self.clock.now();
            self.standstills.sleeps(now);
            let left = tick.since(now);
            if left == Nanos(0) {
                return false;
            }
            std::thread::sleep(Duration::from_nanos(left.0).min(POLL));
            let still = self.standstills.slept(left.min(POLL_NANOS), self.clock.now());
            self.collected.note_standstill(still.as_secs_f64());
            self.poll(live);
            let filled = self.filling && !crew.is_filling();
            let found = self.searching && crew.has_found();
            if self.stop.asked() > 0 || crew.is_finished() || filled || found {
                return true;
            }
        }
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// Returns how long a run may continue after its time, in seconds.
fn overtime(spec: &RunSpec) -> f64 {
    if outlasts(spec) { OVERTIME_SECONDS } else { 0.0 }
}

/// Whether any volume is filled before the run.
fn fills(spec: &RunSpec) -> bool {
    let mut verified = spec.workers.iter().filter_map(|worker| worker.workload.verify);
    verified.any(|verify| verify.fill)
}
