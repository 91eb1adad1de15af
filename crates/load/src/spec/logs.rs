//! Which logs of a job of fio are wanted. Whoever runs the job writes them from its result.

use serde::{Deserialize, Serialize};

use super::access::is_default;

/// Logs of the jobs that a group stands for. Each name is a path up to what fio puts behind it,
/// as `_bw.1.log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// Name of the log of bandwidths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
    /// Name of the log of rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<String>,
    /// Name of the logs of latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Number of the group's first job among those of all steps.
    #[serde(default = "one")]
    pub first: u32,
    /// Jobs that the group stands for: its workers belong to them in turn.
    #[serde(default = "one")]
    pub jobs: u32,
    /// Jobs whose logs have one name have one log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub joined: bool,
}

impl Default for Logs {
    fn default() -> Logs {
        let (bandwidth, iops, latency) = (None, None, None);
        Logs { bandwidth, iops, latency, first: 1, jobs: 1, joined: false }
    }
}

impl Logs {
    /// The names that are given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [&self.bandwidth, &self.iops, &self.latency].into_iter().filter_map(Option::as_deref)
    }

    /// The job of the group's n-th worker, if a log of it is wanted.
    pub fn job_of(&self, worker: usize) -> Option<u32> {
        let place = worker as u32 % self.jobs.max(1);
        self.names().next().map(|_| self.first.saturating_add(place))
    }
}

fn one() -> u32 {
    1
}
