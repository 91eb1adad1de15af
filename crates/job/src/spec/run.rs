//! What an engine runs: a step of a job, with its workers told apart. It opens nothing, so that it
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

/// Shortest time for which depths that were found are measured.
const LEAST_WINDOW_SECONDS: f64 = 0.1;

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// What kind of job it is, in the words that results are compared by.
    pub job: Job,
    /// The document that the run can be repeated from; goes into the result.
    pub document: Value,
    /// Who drives what.
    pub workers: Vec<WorkerSpec>,
    /// Length of the measured window.
    pub seconds: f64,
    /// Time before it.
    pub ramp_seconds: f64,
    /// It ends as soon as the first worker has done all that it was to do.
    pub ends_with_first: bool,
    /// It ends when this holds.
    pub steady: Option<Steady>,
    /// Decides every pattern, with the number of the worker.
    pub seed: u64,
    /// Processors for the workers, one thread on each; workers are dealt out in turn.
    pub cores: Vec<usize>,
    /// Folder that keeps what verified volumes should hold, for a look after a crash; memory if
    /// there is none.
    pub ledgers: Option<PathBuf>,
}

impl RunSpec {
    /// Where every worker searches its depth, how long the depths that were found are measured, in
    /// seconds: nothing else is. `None` where some worker goes on or searches nothing.
    pub fn search_window(&self) -> Option<f64> {
        let window = |worker: &WorkerSpec| {
            let search = worker.workload.depth_search.filter(|search| !search.goes_on)?;
            // One that is shorter than a view of it says nothing.
            Some((search.window_us as f64 / 1e6).max(LEAST_WINDOW_SECONDS))
        };
        let windows: Option<Vec<f64>> = self.workers.iter().map(window).collect();
        windows?.into_iter().reduce(f64::max)
    }

    /// The workers of each volume, as indices, in the order of the first of each.
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
    /// As "manager 1 worker 3".
    pub name: String,
    /// Which of the run's volumes it drives, from 0: workers with one number share one.
    pub volume: usize,
    /// The volume's name.
    pub uri: String,
    /// Target that serves it; empty for local storage.
    pub target: String,
    /// What it does.
    pub workload: Arc<Workload>,
    /// Its number among the workers of all hosts: with the seed it decides what the worker does.
    pub number: u64,
    /// Its share of the volume's workers, or of those of its group.
    pub part: Part,
    /// When and where it works.
    pub shift: Shift,
}

impl WorkerSpec {
    /// The first worker of a run, on its first volume, from its beginning to its end.
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

/// When within a run a worker works, and on which processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    /// Which group it belongs to.
    pub group: usize,
    /// The job of another tool's file that it works for, if that wants logs.
    pub job: Option<u32>,
    /// Groups whose workers must have ended before it begins.
    pub after: Vec<usize>,
    /// When it begins and ends.
    pub when: When,
    /// Processors that it may be on; empty for all of the run.
    pub cores: Vec<usize>,
    /// What the kernel is told of its file.
    pub cache: Cache,
}

/// One of several workers of a volume, on all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Which, from 0.
    pub index: u64,
    /// How many there are.
    pub of: u64,
}

impl Part {
    /// The only one.
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Where this part of `count` things begins; the next one begins where it ends.
    pub fn begin(self, count: u64) -> u64 {
        (u128::from(count) * u128::from(self.index) / u128::from(self.of)) as u64
    }

    /// Where this part of `count` things ends.
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
