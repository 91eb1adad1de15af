//! Results of controlled workers: missed demands, and searched depths.

use block::Nanos;
use stats::{MissedDemand, SearchedDepth, WorkerResult};

use crate::worker::Missed;
use job::spec::{DepthSearch, RunSpec};

/// Workers that ended because they missed a demand, each once.
#[derive(Debug, Default)]
pub(crate) struct MissedDemands(Vec<(usize, Missed)>);

impl MissedDemands {
    /// Notes a worker's report, which may be repeated.
    pub(crate) fn note(&mut self, worker: usize, missed: Missed) {
        if self.0.iter().all(|(other, _)| *other != worker) {
            self.0.push((worker, missed));
        }
    }

    /// Why the result is partial, if it is.
    pub(crate) fn words(&self, spec: &RunSpec) -> Option<String> {
        let (worker, missed) = self.0.first()?;
        let also = match self.0.len() - 1 {
            0 => String::new(),
            others => format!("; {others} more workers ended the same way"),
        };
        Some(format!("{} ended: {}{also}", spec.workers[*worker].name, missed.why))
    }

    /// Adds it to each worker's result. `begin`: start of the measured window.
    pub(crate) fn write(&self, workers: &mut [WorkerResult], begin: Nanos) {
        for (worker, Missed { why, errno, at }) in &self.0 {
            let t_s = (at.0 as f64 - begin.0 as f64) / 1e9;
            if let Some(worker) = workers.get_mut(*worker) {
                worker.missed = Some(MissedDemand { t_s, why: why.clone(), errno: *errno });
            }
        }
    }
}

/// The result of each search, in sentences.
pub(crate) fn searches(spec: &RunSpec, workers: &[WorkerResult]) -> Vec<String> {
    let each = spec.workers.iter().zip(workers);
    let with = each.filter_map(|(worker, result)| {
        let search = worker.workload.depth_search?;
        let depths = (search, worker.workload.outstanding);
        Some(format!("{}: {}", worker.name, sentence(depths, result.searched?)))
    });
    with.collect()
}

fn sentence((search, most): (DepthSearch, u32), searched: SearchedDepth) -> String {
    let SearchedDepth { depth, found } = searched;
    let DepthSearch { latency_us, percent, goes_on, .. } = search;
    let target = format!("{percent} % of the I/Os within {latency_us} us");
    match (found, goes_on) {
        (true, _) if depth >= most => {
            format!(
                "queue depth {depth}, the maximum of the job, meets {target}: a larger one \
                may, too"
            )
        }
        (true, _) => format!("{depth} is the largest queue depth that meets {target}"),
        (false, true) => format!("queue depth {depth} at the end, to meet {target}"),
        (false, false) => format!(
            "the run ended before the queue depth that meets {target} was found; the last one \
            tried was {depth}"
        ),
    }
}
