//! Groups of equal workers, whose results can be compared, and the planned rate of a run.

use stats::WorkerName;

use job::spec::{Pacing, RunSpec, WorkerSpec, Workload};

/// A worker with fewer IOPS may have planned seconds without one.
const SELDOM_PER_S: f64 = 20.0;
/// A pause after each I/O has the same effect from here on, in microseconds.
const LONG_PAUSE_US: u64 = 20_000;

/// The workers of a run by name, with their group of equals.
pub(crate) fn names(spec: &RunSpec) -> Vec<WorkerName> {
    let mut kinds: Vec<&Workload> = Vec::new();
    let mut names = Vec::with_capacity(spec.workers.len());
    for worker in &spec.workers {
        let workload = &*worker.workload;
        let group = same_all_the_time(worker, spec).then(|| {
            // Usually all workers of a group of the job share one.
            let alike = |kind: &&Workload| std::ptr::eq(*kind, workload) || *kind == workload;
            kinds.iter().rposition(alike).unwrap_or_else(|| {
                kinds.push(workload);
                kinds.len() - 1
            })
        });
        names.push(WorkerName {
            name: worker.name.clone(),
            volume: worker.uri.clone(),
            target: worker.target.clone(),
            group: group.map(|group| group as u32),
        });
    }
    names
}

/// Whether a worker's load is constant from the first to the last second: no start or end of its
/// own, no limit, no pauses.
fn same_all_the_time(worker: &WorkerSpec, spec: &RunSpec) -> bool {
    let work = &*worker.workload;
    let whole = worker.shift.when == Default::default() && worker.shift.after.is_empty();
    let ends = work.limit_bytes.is_some() || work.limit_ios.is_some() || work.until_full;
    let ends = ends || spec.ends_with_first || work.demands.is_some();
    let steered = work.think.is_some() || work.depth_search.is_some() || work.flow.is_some();
    let pauses = work.access.lines.iter().any(|line| line.delay_us >= LONG_PAUSE_US);
    let seldom = per_second(work).is_some_and(|rate| rate < SELDOM_PER_S);
    whole && !ends && !steered && !pauses && !seldom && work.access.trace.is_none()
}

/// Planned IOPS of a workload, if it is paced.
fn per_second(workload: &Workload) -> Option<f64> {
    match workload.pacing {
        Pacing::Closed => None,
        Pacing::Ios { per_second, .. } => Some(per_second),
        Pacing::Bytes { per_second, .. } => Some(per_second / workload.access.mean_bytes()),
    }
}

/// Planned IOPS of a run; `None` unless all of it is paced.
pub(crate) fn planned_iops(spec: &RunSpec) -> Option<f64> {
    let planned = |worker: &WorkerSpec| {
        let all = per_second(&worker.workload)?;
        let whole = worker.shift.when == Default::default() && worker.shift.after.is_empty();
        let work = &*worker.workload;
        let ends = work.limit_bytes.is_some() || work.limit_ios.is_some() || work.until_full;
        let steered = work.think.is_some() || work.flow.is_some() || work.demands.is_some();
        let sized = matches!(work.pacing, Pacing::Ios { .. }) || work.access.lines.len() == 1;
        // Flushes and trims in between are I/Os beyond the plan.
        let plain = work.access.flush_every == 0 && work.access.trace.is_none();
        (whole && !ends && !steered && sized && plain && !spec.ends_with_first).then_some(all)
    };
    let each: Option<Vec<f64>> = spec.workers.iter().map(planned).collect();
    each.map(|rates| rates.iter().sum()).filter(|sum| *sum > 0.0)
}

#[cfg(test)]
mod test {

    use super::*;
    use job::spec::{Access, Arrivals, Think};

    fn spec(workloads: &[Workload]) -> RunSpec {
        let worker = |workload: &Workload| WorkerSpec {
            name: "worker".to_owned(),
            uri: "null:1g".to_owned(),
            ..WorkerSpec::new(workload.clone())
        };
        let workers = workloads.iter().map(worker).collect();
        RunSpec { workers, seconds: 1.0, seed: 1, cores: vec![0], ..RunSpec::default() }
    }

    fn paced(per_second: f64) -> Workload {
        let mut open = reads(8);
        open.pacing = Pacing::Ios { per_second, arrivals: Arrivals::Constant };
        open
    }

    fn reads(outstanding: u32) -> Workload {
        Workload::new(Access::new(4096, 100.0, 100.0), outstanding)
    }

    #[test]
    fn who_does_the_same_is_in_one_group() {
        let mut limited = reads(8);
        limited.limit_ios = Some(10);
        let mut thinks = reads(8);
        thinks.think = Some(Think {
            pause_us: 1,
            spin_us: 0,
            after_ios: 1,
            after_us: 0,
            counts_begun: false,
            shifts_rate: false,
        });
        let mut slow = reads(8);
        slow.access.lines[0].delay_us = LONG_PAUSE_US;
        let all = [
            reads(8),
            reads(8),
            reads(1),
            limited,
            thinks,
            slow,
            paced(5.0),
            paced(20.0),
            reads(8),
        ];
        let mut spec = spec(&all);
        spec.workers[8].shift.when.delay_seconds = 1.0;
        let groups: Vec<_> = names(&spec).into_iter().map(|name| name.group).collect();
        let [none, own] = [None, Some(2)];
        assert_eq!(groups, [Some(0), Some(0), Some(1), none, none, none, none, own, none]);
        spec.ends_with_first = true;
        assert!(names(&spec).iter().all(|name| name.group.is_none()));
    }

    #[test]
    fn only_what_is_planned_as_a_whole_is_a_plan() {
        assert_eq!(planned_iops(&spec(&[paced(100.0), paced(50.0)])), Some(150.0));
        assert_eq!(planned_iops(&spec(&[paced(100.0), reads(1)])), None);
        let mut limited = paced(100.0);
        limited.limit_bytes = Some(1 << 20);
        assert_eq!(planned_iops(&spec(&[limited])), None);
        let mut bytes = reads(1);
        bytes.pacing = Pacing::Bytes { per_second: 409_600.0, arrivals: Arrivals::Poisson };
        assert_eq!(planned_iops(&spec(&[bytes])), Some(100.0));
    }
}
