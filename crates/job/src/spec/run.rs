//! Specification of a run: a step of a job, with individual workers. It opens nothing, so that it
//! can be sent to another host.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stats::Job;

use super::cache::Cache;
use super::steady::Steady;
use super::when::When;
use super::workload::Workload;

/// Minimum time for which the found queue depths are measured, in seconds.
const LEAST_WINDOW_SECONDS: f64 = 0.1;

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Kind of the job, in the terms by which results are compared.
    pub job: Job,
    /// Document from which the run can be repeated; part of the result.
    pub document: Value,
    /// Workers with their volumes.
    pub workers: Vec<WorkerSpec>,
    /// Length of the measured window in seconds.
    pub seconds: f64,
    /// Ramp time before the window in seconds.
    pub ramp_seconds: f64,
    /// True if the run ends as soon as the first worker has reached its limit.
    pub ends_with_first: bool,
    /// Steady-state criterion that ends the run early.
    pub steady: Option<Steady>,
    /// Seed of every pattern, together with the number of the worker.
    pub seed: u64,
    /// CPUs for the workers, one thread on each; workers are assigned in turn.
    pub cores: Vec<usize>,
    /// Folder for the expected contents of verified volumes, for a check after a crash; memory if
    /// there is none.
    pub ledgers: Option<PathBuf>,
}

impl RunSpec {
    /// Returns the time in seconds for which the found queue depths are measured, if every worker
    /// searches its depth: nothing else is measured. `None` if a worker continues its search or has
    /// none.
    pub fn search_window(&self) -> Option<f64> {
        let window = |worker: &WorkerSpec| {
            let search = worker.workload.depth_search.filter(|search| !search.goes_on)?;
            // A window shorter than an update of the view shows nothing.
            Some((search.window_us as f64 / 1e6).max(LEAST_WINDOW_SECONDS))
        };
        let windows: Option<Vec<f64>> = self.workers.iter().map(window).collect();
        windows?.into_iter().reduce(f64::max)
    }

    /// Returns the workers of each volume, as indices, in the order of the first of each.
    pub fn volumes(&self) -> Vec<Vec<usize>> {
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut all: Vec<Vec<usize>> = Vec::new();
        for (index, worker) in self.workers.iter().enumerate() {
            let number = *numbers.entry(worker.volume).or_insert(all.len());
            if number == all.len() {
                all.push(Vec::new());
            }
            all[number].push(index);
        }
        all
    }
}

/// One worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSpec {
    /// Name, such as "manager 1 worker 3".
    pub name: String,
    /// Number of the run's volume that the worker drives, from 0: workers with the same number
    /// share a volume.
    pub volume: usize,
    /// Name of the volume.
    pub uri: String,
    /// Target that serves the volume; empty for local storage.
    pub target: String,
    /// Workload of the worker.
    pub workload: Arc<Workload>,
    /// Number among the workers of all hosts, which together with the seed determines the worker's
    /// I/Os.
    pub number: u64,
    /// Share of the volume's workers, or of those of its group.
    pub part: Part,
    /// Times and CPUs of the worker.
    pub shift: Shift,
}

impl WorkerSpec {
    /// Creates the first worker of a run, on its first volume, from its beginning to its end.
    pub fn new(workload: impl Into<Arc<Workload>>) -> WorkerSpec {
        WorkerSpec {
            name: String::new(),
            volume: 0,
            uri: String::new(),
            target: String::new(),
            workload: workload.into(),
            number: 0,
            part: Part::WHOLE,
            shift: Shift::default(),
        }
    }
}

/// Times of a worker within a run, and its CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    /// Index of the worker's group.
    pub group: usize,
    /// Number of the job in another tool's file that the worker belongs to, if that job has logs.
    pub job: Option<u32>,
    /// Groups whose workers must end before this one begins.
    pub after: Vec<usize>,
    /// Start and end of the worker.
    pub when: When,
    /// CPUs of the worker; empty for all of the run.
    pub cores: Vec<usize>,
    /// Page cache options of its file.
    pub cache: Cache,
}

/// Index of a worker among those of a volume, on all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Index, from 0.
    pub index: u64,
    /// Number of workers.
    pub of: u64,
}

impl Part {
    /// Part of a single worker.
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Returns the beginning of this part of `count` things; the next part begins at the end of
    /// this one.
    pub fn begin(self, count: u64) -> u64 {
        (u128::from(count) * u128::from(self.index) / u128::from(self.of)) as u64
    }

    /// Returns the end of this part of `count` things.
    pub fn end(self, count: u64) -> u64 {
        Part { index: self.index + 1, ..self }.begin(count)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::spec::{Access, Verify};

    #[test]
    fn it_is_the_same_on_another_host() {
        let mut workload = Workload::new(Access::new(4096, 70.0, 100.0), 32);
        workload.verify = Some(Verify::default());
        let shift = Shift { cores: vec![1], job: Some(2), after: vec![0], ..Shift::default() };
        let worker = |number| WorkerSpec {
            uri: "nvme+tcp://h/nqn.2026-11.x:d/1".to_owned(),
            volume: number as usize / 2,
            number,
            part: Part { index: number, of: 3 },
            shift: shift.clone(),
            ..WorkerSpec::new(workload.clone())
        };
        let spec = RunSpec {
            workers: (0..3).map(worker).collect(),
            seconds: 1.5,
            seed: 1 << 62,
            cores: vec![0, 1],
            ledgers: Some("kept".into()),
            ..RunSpec::default()
        };
        let sent = serde_json::to_string(&spec).unwrap();
        let taken: RunSpec = serde_json::from_str(&sent).unwrap();
        assert_eq!(format!("{taken:?}"), format!("{spec:?}"));
        assert_eq!(taken.volumes(), [vec![0, 1], vec![2]]);
    }

    #[test]
    fn parts_meet() {
        let parts = (0..3).map(|index| Part { index, of: 3 });
        let bounds: Vec<_> = parts.map(|part| (part.begin(10), part.end(10))).collect();
        assert_eq!(bounds, [(0, 3), (3, 6), (6, 10)]);
    }
}
