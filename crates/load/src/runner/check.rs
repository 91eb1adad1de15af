//! Preconditions of a run.

use super::RunError;
use crate::ledger::Patterned;
use crate::run::Prepared;
use job::spec::{AccessError, Workload};

/// Checks that a spec can be run.
pub(crate) fn check(run: &Prepared) -> Result<(), RunError> {
    let spec = &run.spec;
    if spec.workers.is_empty() || spec.cores.is_empty() {
        return Err(RunError::Nothing("a run needs a volume and a CPU"));
    }
    if !spec.seconds.is_finite() || spec.seconds <= 0.0 {
        return Err(RunError::Nothing("a run needs a runtime above 0 s"));
    }
    for worker in &spec.workers {
        let cores = &worker.shift.cores;
        if !cores.is_empty() && !cores.iter().any(|cpu| spec.cores.contains(cpu)) {
            return Err(RunError::Nothing("a worker has no CPU of the run"));
        }
        let fits = worker.workload.fits(run.volume(worker).geometry());
        fits.map_err(|error| RunError::Access { uri: worker.uri.clone(), error })?;
    }
    spec.volumes().iter().try_for_each(|workers| check_data(run, workers))
}

/// Checks that no worker of a volume overwrites data that another one verifies.
fn check_data(run: &Prepared, workers: &[usize]) -> Result<(), RunError> {
    let spec = &run.spec;
    let first = &spec.workers[workers[0]];
    let conflict = |why| {
        let (uri, error) = (first.uri.clone(), AccessError::Conflict(why));
        Err(RunError::Access { uri, error })
    };
    let workloads = || workers.iter().map(|index| &*spec.workers[*index].workload);
    let earlier = |workload: &Workload| workload.verify.is_some_and(|verify| verify.earlier);
    if workloads().any(earlier) && workloads().any(Workload::writes) {
        return conflict("checking an earlier run needs a volume without writers");
    }
    let geometry = run.volume(first).geometry();
    let patterned = |workload: &Workload| Patterned::of(workload, geometry);
    let Some(one) = workloads().find_map(patterned) else { return Ok(()) };
    let other = |workload: &Workload| {
        let touches = workload.writes() || workload.verify.is_some();
        touches && patterned(workload).as_ref() != Some(&one)
    };
    match workloads().any(other) {
        true => conflict(
            "with verify by pattern, all workers of a volume must write and verify this pattern, \
            with one I/O size",
        ),
        false => Ok(()),
    }
}
