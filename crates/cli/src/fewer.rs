//! Repeats a run on half of its CPUs, right after it, to find out whether the client is the
//! bottleneck (H10).

use anyhow::Result;
use load::{Engine, Prepared};
use stats::verdict::FewerCores;
use stats::{Check, RunResult, Verdict};
use volume::Uri;

use crate::output;

/// Whether half of the CPUs are to be measured, too: the ceiling leaves room, the CPUs of the run
/// were too busy to conclude that half of them suffice, and the run can be repeated.
pub fn is_needed(result: &RunResult, run: &Prepared) -> bool {
    let undecided = |check: &Check| check.code == "H10" && check.verdict == Verdict::Unknown;
    let open = result.ceiling.is_some() && result.checks.iter().any(undecided);
    // Calls that create and remove files cannot be repeated.
    let calls = |uri: &str| uri.parse().is_ok_and(|uri: Uri| uri.calls_on_files());
    let calls = run.spec.workers.iter().any(|worker| calls(&worker.uri));
    open && !calls && result.placement.initiator.len() > 1 && load::may_repeat(run)
}

/// Measures the rate on half of the CPUs, and judges `result`. An interrupted run is not judged.
pub fn judge(result: &mut RunResult, run: &Prepared, engine: &Engine) {
    if result.partial.is_some() || engine.stop.asked() > 0 {
        return;
    }
    match measure(result, run, engine) {
        Ok(Some(fewer)) => result.set_fewer_cores(fewer),
        // Interrupted: the run itself is complete.
        Ok(None) => {}
        Err(error) => output::note(format_args!(
            "drumfire: the rate with half of the CPUs was not measured: {error:#}"
        )),
    }
}

fn measure(result: &RunResult, run: &Prepared, engine: &Engine) -> Result<Option<FewerCores>> {
    let all: Vec<usize> = result.placement.initiator.iter().map(|cpu| *cpu as usize).collect();
    let half = all[..all.len().div_ceil(2)].to_vec();
    let cores = half.len() as u32;
    let mut rates = Vec::new();
    // The runs follow each other within seconds, so other programs disturb both alike.
    for cores in [half, all] {
        let measured = engine.run(load::on_cores(run, cores), &mut report::Silent)?;
        if measured.partial.is_some() {
            return Ok(None);
        }
        rates.push((measured.totals.iops, measured.totals.seconds));
    }
    let [(iops, seconds), (control_iops, _)] = rates[..] else { return Ok(None) };
    Ok(Some(FewerCores { cores, iops, control_iops, seconds }))
}
