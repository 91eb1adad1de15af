//! Short repetition of a run on other CPUs: shows whether the client limits the rate (H10).

use std::sync::Arc;

use job::spec::{RunSpec, When, Workload};

use crate::run::Prepared;

/// Length of the window, and of the ramp before it, in seconds: as for an unrequested ceiling.
const SECONDS: (f64, f64) = (1.0, 0.25);

/// Returns whether a run may be repeated: it creates and fills no files, verifies no data, replays
/// no trace, searches no depth and waits for no other worker. Its writes go to places that it may
/// overwrite, and it has no ledger and no limit of written data.
pub fn may_repeat(run: &Prepared) -> bool {
    let is_plain = |workload: &Workload| {
        let access = &workload.access;
        let plain = access.trace.is_none() && access.files.is_none() && access.zoned.is_none();
        let alone = workload.verify.is_none() && workload.depth_search.is_none();
        let limited = workload.limit_bytes.is_some() || workload.limit_ios.is_some();
        plain && alone && !workload.until_full && !(limited && access.writes())
    };
    let free = run.spec.workers.iter().all(|worker| {
        is_plain(&worker.workload) && worker.shift.cores.is_empty() && worker.shift.after.is_empty()
    });
    free && run.targets.is_none()
}

/// The run on these CPUs, of all its workers from its beginning to its end.
pub fn on_cores(run: &Prepared, cores: Vec<usize>) -> Prepared {
    let (seconds, ramp_seconds) = SECONDS;
    let mut spec = RunSpec {
        seconds,
        ramp_seconds,
        ends_with_first: false,
        steady: None,
        ledgers: None,
        cores,
        ..run.spec.clone()
    };
    for worker in &mut spec.workers {
        worker.shift.when = When::default();
        worker.shift.cache = Default::default();
        let mut workload = (*worker.workload).clone();
        (workload.limit_bytes, workload.limit_ios, workload.demands) = (None, None, None);
        worker.workload = Arc::new(workload);
    }
    Prepared { spec, ..run.clone() }
}

#[cfg(test)]
mod test {
    use job::spec::{Access, Line, Verify, WorkerSpec};

    use super::*;
    use crate::run::on;

    fn prepared(workload: Workload) -> Prepared {
        let workers = vec![WorkerSpec::new(workload); 4];
        let (seconds, cores) = (100.0, vec![0, 1, 2, 3]);
        on("null:1t", RunSpec { workers, seconds, cores, ..RunSpec::default() })
    }

    fn reads() -> Workload {
        Workload::new(Access::new(4096, 100.0, 100.0), 8)
    }

    #[test]
    fn what_leaves_no_trace_is_done_again() {
        assert!(may_repeat(&prepared(reads())));
        let writes = Line::new(4096, 99.0, 100.0);
        let writes = Workload::new(Access::of(vec![writes]), 8);
        assert!(may_repeat(&prepared(writes.clone())));
        assert!(!may_repeat(&prepared(Workload { limit_ios: Some(7), ..writes })));
        assert!(!may_repeat(&prepared(Workload { until_full: true, ..reads() })));
        let verify = Some(Verify { fill: false, sample_percent: 1.0, ..Verify::default() });
        assert!(!may_repeat(&prepared(Workload { verify, ..reads() })));
        let mut pinned = prepared(reads());
        pinned.spec.workers[1].shift.cores = vec![0];
        assert!(!may_repeat(&pinned));
    }

    #[test]
    fn the_same_is_done_elsewhere() {
        let run = prepared(Workload { limit_ios: Some(7), ..reads() });
        let half = on_cores(&run, vec![0, 1]).spec;
        assert_eq!((half.cores, half.workers.len(), half.seconds), (vec![0, 1], 4, 1.0));
        let workload = &half.workers[3].workload;
        assert_eq!((workload.outstanding, workload.limit_ios), (8, None));
        assert_eq!(workload.access, run.spec.workers[3].workload.access);
    }
}
