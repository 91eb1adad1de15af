//! What remains of a run: its result, with checks and warnings.

use block::Nanos;
use stats::{Class, Host, Placement, RunResult, SCHEMA_VERSION, Totals, WorkerResult};

use super::crew::seats;
use super::under_way::{Opening, Run};
use super::words::{
    displaced, earlier, emulated, not_waited_for, origin, steadiness, unanswered_ios,
};
use crate::judge;
use crate::meter::Reading;
use crate::outcome;
use crate::spec::RunSpec;
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
        let Opening { started, witness, before: (before, first) } = opening;
        let totals = self.collected.totals();
        let (failures, failures_unlisted) = self.collected.failures();
        let cpu = after.since(before, totals.ios);
        let testimony = witness.testify(first, last, &self.collected, &cpu);
        let data = self.verdict_of_data();
        let checks = judge::checks(&spec.job, &self.collected, &cpu, &testimony, data);
        let partial = self.partial(&totals, whole);
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

    /// Why it is not the result of the whole run, if it is not.
    fn partial(&self, totals: &Totals, whole: bool) -> Option<String> {
        let spec = self.spec;
        let partial = self.trouble.clone().or_else(|| self.missed.words(spec)).or_else(|| {
            let cut = || format!("interrupted after {:.1} of {} s", totals.seconds, spec.seconds);
            (!whole).then(cut)
        });
        let partial = partial.or_else(|| {
            let own = spec.workers.iter().map(|worker| worker.shift.when.ramp_seconds);
            let ramp = own.fold(spec.ramp_seconds, f64::max);
            let early = || format!("all was done within the ramp of {ramp} s");
            (self.finished && totals.ios + totals.errors == 0).then(early)
        });
        let partial = partial.or_else(|| {
            let of = spec.workers.len();
            let late = || format!("{} of {of} workers did not report in time", self.late);
            (self.late > 0).then(late)
        });
        partial
            .or_else(|| unanswered_ios(spec, self.unanswered))
            .or_else(|| not_waited_for(totals.waiting).filter(|_| self.hurried))
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

/// Whether what is read is compared while it runs.
fn verifies(spec: &RunSpec) -> bool {
    let mut workloads = spec.workers.iter().map(|worker| &worker.workload);
    workloads.any(|workload| workload.verify.is_some_and(|verify| verify.sample_percent > 0.0))
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
