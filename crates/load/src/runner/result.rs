//! The result of a run, with checks and warnings.

use block::{Nanos, Op};
use os::Clock;
use stats::{
    Class, Cpu, Host, Interval, MeasuringCost, Placement, Processor, RunResult, SCHEMA_VERSION,
    Totals, WorkerResult,
};

use super::crew::seats;
use super::notes::{
    displaced, earlier, emulated, hidden, incidents, not_waited_for, origin, steadiness,
    unanswered_ios, within_ramp,
};
use super::progress::{Opening, Run};
use crate::judge::{self, Facts};
use crate::meter::Reading;
use crate::outcome;
use crate::run::Prepared;
use crate::witness::Moment;

impl Run<'_> {
    pub(super) fn result(
        &self,
        opening: &Opening,
        (after, last): &(Reading, Moment),
        (whole, _): (bool, Nanos),
        spans: usize,
    ) -> RunResult {
        let spec = self.spec;
        let Opening { started, witness, before: (before, first), .. } = opening;
        let mut totals = self.collected.totals();
        let (failures, failures_unlisted) = self.collected.failures();
        let cpu = after.since(before, totals.ios);
        let waited = cpu.initiator_waited_percent.and(self.collected.whole().mean_wait_ns());
        totals.latency_ns.set_waited_for_cpu(waited);
        let testimony = witness.testify(first, last, &self.collected, &cpu);
        let processors = after.processors_since(before);
        let taken: Vec<usize> = seats(spec).into_iter().map(|(cpu, _)| cpu).collect();
        let facts = Facts {
            cpu: &cpu,
            taken: busy_of(&processors, self.prepared, &taken),
            testimony: &testimony,
            mismatch: self.mismatch,
            hidden: &hidden(self.prepared, &self.hidden_before),
        };
        let checks = judge::checks(spec, &self.collected, &facts);
        let mut workers = self.collected.workers();
        self.missed.write(&mut workers, self.collected.whole().start);
        RunResult {
            schema_version: SCHEMA_VERSION,
            origin: origin(self.prepared),
            class: Class::of(&checks),
            checks,
            job: match self.within_ramp {
                true => stats::Job { ramp_seconds: 0.0, ..spec.job.clone() },
                false => spec.job.clone(),
            },
            spec: spec.document.clone(),
            host: host(),
            placement: placement(self.prepared, &taken),
            started: started.clone(),
            seed: spec.seed,
            partial: self.partial(&totals, whole),
            totals,
            cpu,
            cost: Some(measuring(totals.iops, &cpu, after.collector_cores_since(before))),
            processors,
            kernel_threads: testimony.threads,
            devices: testimony.devices,
            failures,
            failures_unlisted,
            warnings: self.warnings(&workers),
            workers,
            intervals: self.collected.seconds(),
            histograms: self.collected.histograms(),
            spans: self.collected.spans(spans),
            part: self.part(opening),
            ..RunResult::default()
        }
    }

    /// Why the result is partial, if it is.
    fn partial(&self, totals: &Totals, whole: bool) -> Option<String> {
        let spec = self.spec;
        let partial = self.trouble.clone().or_else(|| self.missed.words(spec)).or_else(|| {
            let cut = || format!("interrupted after {:.1} of {} s", totals.seconds, spec.seconds);
            (!whole).then(cut)
        });
        let partial = partial.or_else(|| {
            let none = || "all workers ended without an I/O".to_owned();
            (self.finished && totals.completed() + totals.errors == 0).then(none)
        });
        let partial = partial.or_else(|| {
            let of = spec.workers.len();
            let late = || format!("{} of {of} workers did not report in time", self.late);
            (self.late > 0).then(late)
        });
        partial
            .or_else(|| unanswered_ios(self.prepared, self.unanswered))
            .or_else(|| not_waited_for(totals.waiting).filter(|_| self.hurried))
    }

    /// Warnings for the reader.
    fn warnings(&self, workers: &[WorkerResult]) -> Vec<String> {
        let steady = self.spec.steady.map(|steady| steadiness(&steady, self.steady_at_s));
        emulated(self.prepared)
            .chain(incidents(self.prepared))
            .chain(displaced(&self.collected))
            .chain(part_of_the_host())
            .chain(earlier(self.spec))
            .chain(self.within_ramp.then(|| within_ramp(self.spec)))
            .chain(steady)
            .chain(outcome::searches(self.spec, workers))
            .collect()
    }
}

/// Reasons why a host looks different from this process: it has other namespaces.
fn part_of_the_host() -> Option<String> {
    let words = |kind: &os::namespaces::Kind| match kind {
        os::namespaces::Kind::User => "root is an ordinary user of the host",
        os::namespaces::Kind::Pid => "processes outside are not visible",
        os::namespaces::Kind::Cgroup => "control groups above are not visible",
    };
    let own: Vec<&str> = os::namespaces::own().iter().map(words).collect();
    (!own.is_empty()).then(|| format!("runs in its own namespaces: {}", own.join(", ")))
}

fn placement(run: &Prepared, taken: &[usize]) -> Placement {
    let cores = |cores: &[usize]| cores.iter().map(|core| *core as u32).collect();
    let targets = run.targets.as_ref();
    Placement {
        initiator: cores(taken),
        target: targets.map_or_else(Vec::new, |targets| cores(&targets.cores)),
        pinned: true,
        shared_threads: targets
            .is_some_and(|targets| taken.iter().any(|cpu| targets.shared_on(*cpu).is_some())),
    }
}

/// Number of CPUs of the workers and of targets in this process, and how many of them were busy.
fn busy_of(processors: &[Processor], run: &Prepared, workers: &[usize]) -> Option<(u32, f64)> {
    let mut taken = workers.to_vec();
    taken.extend(run.targets.iter().flat_map(|targets| &targets.cores));
    taken.sort_unstable();
    taken.dedup();
    let busy = |one: &Processor| {
        let programs = one.user_percent + one.system_percent;
        (programs + one.irq_percent + one.softirq_percent) / 100.0
    };
    let each: Option<Vec<f64>> = taken.iter().map(|cpu| processors.get(*cpu).map(busy)).collect();
    Some((taken.len() as u32, each?.iter().sum()))
}

/// Cost of measuring at this rate.
fn measuring(iops: f64, cpu: &Cpu, collector_cores: f64) -> MeasuringCost {
    const RECORDS: u32 = 1000;
    let (clock, mut interval) = (Clock::get(), Interval::new());
    let mut once = || {
        let begin = clock.now();
        for number in 0..RECORDS {
            // Latencies of a drive, so that buckets vary as in a run.
            let latency = Nanos(u64::from(60_000 + number * 7919 % 60_000));
            std::hint::black_box(&mut interval).record(Op::Read, 4096, latency);
        }
        clock.now().since(begin)
    };
    // The fastest of several: others were preempted.
    let record = (0..10).map(|_| once()).min().unwrap_or(Nanos(0));
    let each = [clock.cost_ns(), record.0 as f64 / f64::from(RECORDS)];
    MeasuringCost::of(each, iops, cpu.initiator_cores, Some(collector_cores))
}

fn host() -> Host {
    let clock =
        os::counters::clock_source().map(|source| ("clock_source".to_owned(), source.into()));
    // A host without namespaces shows all of itself.
    let namespaces: Vec<&str> = os::namespaces::own().iter().map(|kind| kind.word()).collect();
    let namespaces =
        (!namespaces.is_empty()).then(|| ("namespaces".to_owned(), namespaces.join(", ").into()));
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Host {
        name: name.trim().to_owned(),
        cpu: os::cpu::model(),
        cores: os::cpu::allowed().len() as u32,
        memory_bytes: os::sample::memory_total_bytes().unwrap_or(0),
        kernel: format!("Linux {}", os::sample::kernel_release()),
        more: clock.into_iter().chain(namespaces).collect(),
        ..Host::default()
    }
}
