//! A group of identical workers, each on one volume or on all of them as one.

use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::defaults::{is_default, is_one, one};
use super::figures::Figures;
use super::logs::Logs;
use super::size;
use super::when::When;
use super::workload::Workload;

/// Identical workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name, such as that of a fio job or of a manager; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// URIs of the volumes; at least one.
    pub volumes: Vec<String>,
    /// Stripes, if all volumes are one for each worker, which goes from one to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripes: Option<Stripes>,
    /// Number of workers for each volume, or for all of them if they are one: 1 to 4096.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub workers: u32,
    /// True if the workers divide the offsets of a volume among themselves only, as if there were
    /// no other group; otherwise all workers of a volume do, of all groups of the step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_places: bool,
    /// Unit of reporting in formats with jobs, such as fio's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reported: Reported,
    /// Start and end, if not those of the step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: When,
    /// Hosts that have this group in a run of many: ranks ("0", "1-3") or names of hosts; empty
    /// for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// CPUs of the workers; empty for those of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
    /// Page cache options of their files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: Cache,
    /// Logs in fio's format.
    #[serde(default, skip_serializing_if = "is_default")]
    pub logs: Logs,
    /// Figures that fio's formats show.
    #[serde(default, skip_serializing_if = "is_default")]
    pub figures: Figures,
    /// True if the files are removed after the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unlink: bool,
    /// Workload of each worker.
    pub workload: Workload,
}

/// Volumes in turn: `bytes` bytes of the first, then of the second, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripes {
    /// Length of each stripe in bytes, which no I/O crosses: a whole number of blocks.
    #[serde(deserialize_with = "size::bytes")]
    pub bytes: u64,
    /// Part of each volume that is used, from its beginning, in bytes; by default the size of the
    /// smallest.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub share_bytes: Option<u64>,
}

/// Unit of reporting in formats with jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reported {
    /// The group.
    #[default]
    Group,
    /// Each worker, like each clone of a fio job.
    Worker,
    /// All adjacent groups of a step with this value, as with `group_reporting`.
    Step,
}

impl Group {
    /// Creates a group with `workers` workers for each volume, throughout the step, on any CPU.
    pub fn new(volumes: Vec<String>, workers: u32, workload: Workload) -> Group {
        Group {
            name: String::new(),
            volumes,
            stripes: None,
            workers,
            own_places: false,
            reported: Reported::default(),
            when: When::default(),
            hosts: Vec::new(),
            cores: Vec::new(),
            cache: Cache::default(),
            logs: Logs::default(),
            figures: Figures::default(),
            unlink: false,
            workload,
        }
    }

    /// Returns whether each worker drives all of its volumes as one: striped, or as those of a
    /// trace.
    pub fn is_one(&self) -> bool {
        self.stripes.is_some() || self.joins()
    }

    /// Returns whether the volumes are the files of a trace.
    pub fn joins(&self) -> bool {
        self.workload.access.trace.as_ref().is_some_and(|replay| replay.volumes > 1)
    }

    /// Returns the number of workers.
    pub(super) fn count(&self) -> u64 {
        let volumes = if self.is_one() { 1 } else { self.volumes.len() as u64 };
        volumes * u64::from(self.workers)
    }

    /// Returns the previous groups of a step that this group waits for: all with the given name.
    pub fn waits_for<'a>(&'a self, before: &'a [Group]) -> impl Iterator<Item = usize> + 'a {
        let named = |group: &Group| !self.when.after.is_empty() && group.name == self.when.after;
        before.iter().enumerate().filter(move |(_, group)| named(group)).map(|(index, _)| index)
    }
}
