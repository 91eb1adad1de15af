//! A run of a sweep, as far as the sweep's document has it.

use stats::sweep::{Cell, CellRun, SweepResult};
use stats::{Check, RunResult, WorkerResult};

/// Names of an axis over the volume.
const VOLUME: [&str; 2] = ["volume", "filename"];

/// The result of a run, with the figures that the document has.
pub(super) fn of_cell_run(sweep: &SweepResult, cell: &Cell, run: &CellRun) -> RunResult {
    let checks = run.verdicts.iter().map(|(code, verdict)| Check::new(code, "", *verdict, ""));
    let volume = cell.settings.iter().filter(|setting| VOLUME.contains(&&*setting.word));
    let worker = |volume: String| WorkerResult { volume, ..WorkerResult::default() };
    let mut result = RunResult {
        origin: run.origin,
        class: run.class,
        checks: checks.collect(),
        spec: sweep.plan.job.clone(),
        workers: volume.map(|setting| worker(setting.value.clone())).collect(),
        partial: run.failed.clone(),
        ..RunResult::default()
    };
    result.totals.iops = run.iops;
    result.totals.bytes_per_second = run.bytes_per_second;
    result.totals.errors = run.errors;
    result.totals.latency_ns = run.latency_ns;
    result.cpu.core_us_per_io = run.core_us_per_io;
    result
}
