//! Groups of equal workers, whose results can be compared, and the planned rate of a run.

use std::sync::Arc;

use stats::WorkerName;
use stats::verdict::Plan;

use job::spec::{Pacing, RunSpec, WorkerSpec, Workload};

/// A worker with fewer IOPS may have planned seconds without one.
const SELDOM_PER_S: f64 = 20.0;
/// A pause after each I/O has the same effect from here on, in microseconds.
const LONG_PAUSE_US: u64 = 20_000;

/// The workers of a run by name, with their group of equals.
pub(crate) fn names(spec: &RunSpec) -> Vec<WorkerName> {
    let (mut kinds, mut loads): (Vec<&WorkerSpec>, Vec<&WorkerSpec>) = (Vec::new(), Vec::new());
    let mut names = Vec::with_capacity(spec.workers.len());
    for worker in &spec.workers {
        let load = number(worker, &mut loads, have_one_load);
        let group =
            same_while_it_works(worker, spec).then(|| number(worker, &mut kinds, are_alike));
        names.push(WorkerName {
            name: worker.name.clone(),
            volume: worker.uri.clone(),
            target: worker.target.clone(),
            group,
            load,
            has_turn: has_turn(worker),
            asked_us: asked_us(worker, spec),
        });
    }
    names
}

/// The number of a worker's kind among those that are known, to which it may be added.
fn number<'a>(
    worker: &'a WorkerSpec,
    known: &mut Vec<&'a WorkerSpec>,
    are_same: fn(&WorkerSpec, &WorkerSpec) -> bool,
) -> u32 {
    let place = known.iter().rposition(|kind| are_same(kind, worker)).unwrap_or_else(|| {
        known.push(worker);
        known.len() - 1
    });
    place as u32
}

/// Returns whether two workers do the same work, at any time.
fn have_one_load(one: &WorkerSpec, other: &WorkerSpec) -> bool {
    // Usually all workers of a group of the job share one.
    Arc::ptr_eq(&one.workload, &other.workload) || one.workload == other.workload
}

/// Whether two workers do the same, at the same time.
fn are_alike(one: &WorkerSpec, other: &WorkerSpec) -> bool {
    let when = one.shift.when == other.shift.when && one.shift.after == other.shift.after;
    when && have_one_load(one, other)
}

/// Returns whether a worker begins or ends at another time than the run.
fn has_turn(worker: &WorkerSpec) -> bool {
    worker.shift.when != Default::default() || !worker.shift.after.is_empty()
}

/// Times at which workers begin or end by the plan of the job, in seconds since the window began.
pub(crate) fn changes_s(spec: &RunSpec) -> Vec<f64> {
    let of = |worker: &WorkerSpec| {
        let when = &worker.shift.when;
        let begins_s = when.delay_seconds + when.ramp_seconds;
        [Some(begins_s), when.seconds.map(|seconds| begins_s + seconds)]
    };
    let mut all: Vec<f64> = spec.workers.iter().flat_map(of).flatten().collect();
    all.retain(|at_s| *at_s > 0.0 && *at_s < spec.seconds);
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Time that a worker is to be measured, in microseconds, unless something else may end it.
fn asked_us(worker: &WorkerSpec, spec: &RunSpec) -> Option<u64> {
    let when = &worker.shift.when;
    let searches = worker.workload.depth_search.is_some() || spec.search_window().is_some();
    let ends = ends(&worker.workload, spec) || spec.steady.is_some() || searches;
    if ends || !worker.shift.after.is_empty() || worker.workload.access.trace.is_some() {
        return None;
    }
    let left_s = spec.seconds - when.delay_seconds - when.ramp_seconds;
    let asked_s = when.seconds.map_or(left_s, |seconds| seconds.min(left_s));
    Some((asked_s.max(0.0) * 1e6) as u64)
}

/// Whether a worker's work may end before its time.
fn ends(work: &Workload, spec: &RunSpec) -> bool {
    let ends = work.limit_bytes.is_some() || work.limit_ios.is_some() || work.until_full;
    ends || spec.ends_with_first || work.demands.is_some()
}

/// Whether a worker's load is constant for as long as it works: no limit, no pauses.
fn same_while_it_works(worker: &WorkerSpec, spec: &RunSpec) -> bool {
    let work = &*worker.workload;
    let steered = work.think.is_some() || work.depth_search.is_some() || work.flow.is_some();
    let pauses = work.access.lines.iter().any(|line| line.delay_us >= LONG_PAUSE_US);
    let seldom = per_second(work).is_some_and(|rate| rate < SELDOM_PER_S);
    !ends(work, spec) && !steered && !pauses && !seldom && work.access.trace.is_none()
}

/// Planned IOPS of a workload, if it is paced.
fn per_second(workload: &Workload) -> Option<f64> {
    match workload.pacing {
        Pacing::Closed => None,
        Pacing::Ios { per_second, .. } => Some(per_second),
        Pacing::Bytes { per_second, .. } => Some(per_second / workload.access.mean_bytes()),
    }
}

/// Returns the planned work of a run per second.
pub(crate) fn plan(spec: &RunSpec) -> Plan {
    match planned_iops(spec) {
        Some(iops) => Plan::Iops(iops),
        None if plans(spec) => Plan::Varies,
        None => Plan::Closed,
    }
}

/// Whether any I/O of it has a planned start.
pub(crate) fn plans(spec: &RunSpec) -> bool {
    spec.workers.iter().any(|worker| worker.workload.pacing != Pacing::Closed)
}

/// Planned IOPS of a run; `None` unless all of it is paced.
fn planned_iops(spec: &RunSpec) -> Option<f64> {
    let planned = |worker: &WorkerSpec| {
        let all = per_second(&worker.workload)?;
        let whole = !has_turn(worker);
        let work = &*worker.workload;
        let steered = work.think.is_some() || work.flow.is_some();
        let sized = matches!(work.pacing, Pacing::Ios { .. }) || work.access.lines.len() == 1;
        // Flushes between the planned I/Os take their places.
        let plain = work.access.flush_every == 0 && work.access.trace.is_none();
        (whole && !ends(work, spec) && !steered && sized && plain).then_some(all)
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
        // A worker that begins later is compared with those that begin with it.
        assert_eq!(groups, [Some(0), Some(0), Some(1), none, none, none, none, own, Some(3)]);
        let turns: Vec<bool> = names(&spec).into_iter().map(|name| name.has_turn).collect();
        assert_eq!(turns.iter().filter(|turn| **turn).count(), 1);
        assert!(turns[8]);
        spec.ends_with_first = true;
        assert!(names(&spec).iter().all(|name| name.group.is_none()));
    }

    #[test]
    fn a_time_is_asked_of_those_that_nothing_else_ends() {
        let mut limited = reads(8);
        limited.limit_bytes = Some(1 << 20);
        let mut spec = spec(&[reads(8), limited, reads(8), reads(8)]);
        spec.seconds = 10.0;
        spec.workers[2].shift.when.delay_seconds = 4.0;
        spec.workers[3].shift.when.seconds = Some(3.0);
        let asked = |spec: &RunSpec| -> Vec<_> {
            names(spec).into_iter().map(|name| name.asked_us.map(|us| us / 1_000_000)).collect()
        };
        assert_eq!(asked(&spec), [Some(10), None, Some(6), Some(3)]);
        spec.ends_with_first = true;
        assert_eq!(asked(&spec), [None; 4]);
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
        let late = |delay_seconds| {
            let mut late = spec(&[paced(100.0)]);
            late.workers[0].shift.when.delay_seconds = delay_seconds;
            plan(&late)
        };
        assert_eq!([0.0, 1.0].map(late), [Plan::Iops(100.0), Plan::Varies]);
        assert_eq!(plan(&spec(&[paced(100.0), reads(1)])), Plan::Varies);
        assert_eq!(plan(&spec(&[reads(1)])), Plan::Closed);
    }
}
