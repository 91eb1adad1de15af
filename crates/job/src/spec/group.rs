//! A group of workers that do the same, each to one volume or to all of them as one.

use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::defaults::{is_default, is_one, one};
use super::figures::Figures;
use super::logs::Logs;
use super::size;
use super::when::When;
use super::workload::Workload;

/// Workers that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What it is called, as the name of a job of fio or of a manager; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// URIs of the volumes; at least one.
    pub volumes: Vec<String>,
    /// All volumes are one for each worker, which goes from one to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripes: Option<Stripes>,
    /// Workers for each volume, or for all of them where they are one: 1 to 4096.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub workers: u32,
    /// They share the places of a volume out among themselves alone, as if no other group were
    /// there; otherwise all workers of a volume do, of all groups of the step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_places: bool,
    /// What has an entry of its own in forms that know jobs, as fio's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reported: Reported,
    /// When they begin and end, where that is not with the step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: When,
    /// Processors that they may be on; empty for those of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
    /// What the kernel is told of their files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: Cache,
    /// What is written of it over time in fio's form.
    #[serde(default, skip_serializing_if = "is_default")]
    pub logs: Logs,
    /// What fio's forms show of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub figures: Figures,
    /// Its files are removed when the run is over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unlink: bool,
    /// What each does.
    pub workload: Workload,
}

/// Volumes in turn: the first so many bytes of the first, then of the second, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripes {
    /// Length of each stripe: no I/O goes beyond its end. A whole number of blocks.
    #[serde(deserialize_with = "size::bytes")]
    pub bytes: u64,
    /// Part of each volume that is used, from its beginning on; all that the smallest of them has
    /// by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub share_bytes: Option<u64>,
}

/// What has an entry of its own in forms that know jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reported {
    /// The group.
    #[default]
    Group,
    /// Each of its workers, as each clone of a job of fio.
    Worker,
    /// All such groups of a step that stand next to each other, as with `group_reporting`.
    Step,
}

impl Group {
    /// So many workers for each volume, all through the step, on any processor.
    pub fn new(volumes: Vec<String>, workers: u32, workload: Workload) -> Group {
        Group {
            name: String::new(),
            volumes,
            stripes: None,
            workers,
            own_places: false,
            reported: Reported::default(),
            when: When::default(),
            cores: Vec::new(),
            cache: Cache::default(),
            logs: Logs::default(),
            figures: Figures::default(),
            unlink: false,
            workload,
        }
    }

    /// Whether each worker drives all of its volumes as one: in stripes, or as those of a trace.
    pub fn is_one(&self) -> bool {
        self.stripes.is_some() || self.joins()
    }

    /// Whether its volumes are the files of a trace.
    pub fn joins(&self) -> bool {
        self.workload.access.trace.as_ref().is_some_and(|replay| replay.volumes > 1)
    }

    /// How many workers it has.
    pub(super) fn count(&self) -> u64 {
        let volumes = if self.is_one() { 1 } else { self.volumes.len() as u64 };
        volumes * u64::from(self.workers)
    }

    /// The groups before it, of a step, that it waits for: all of the name that it gives.
    pub fn waits_for<'a>(&'a self, before: &'a [Group]) -> impl Iterator<Item = usize> + 'a {
        let named = |group: &Group| !self.when.after.is_empty() && group.name == self.when.after;
        before.iter().enumerate().filter(move |(_, group)| named(group)).map(|(index, _)| index)
    }
}
