//! The order of rank 0: volumes to serve, or a job of one step, and what each rank may do with it.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use anyhow::Result;
use job::spec::{Group, JobSpec, LaidOut, Serving};
use serde::{Deserialize, Serialize};

use super::served::{self, Served, Share, WHOLE};
use crate::bench::Allowed;
use crate::exit::UsageError;
use crate::layout::Manner;
use crate::part;

/// Words of a volume's name that each rank replaces.
const RANK: &str = "{rank}";
const HOST: &str = "{host}";

/// The work of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handed {
    /// Serve, until the next order to serve.
    Serve(Serve),
    /// Drive.
    Drive(Box<Order>),
}

/// Ranks that serve, and their volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// Names of all ranks.
    pub names: Vec<String>,
    pub serve: Vec<Serving>,
}

/// Volumes that all ranks drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The job, with one step.
    pub job: JobSpec,
    /// Names of all ranks.
    pub names: Vec<String>,
    /// Volumes that hold data and may be overwritten.
    pub destroy: Vec<String>,
    /// Handling of files that ranks lay out; `None` if they must exist.
    #[serde(default)]
    pub layout: Option<Manner>,
    /// Only a sample of the written data is read back.
    #[serde(default)]
    pub samples: bool,
    /// Random offsets are read before and after the run (H25).
    pub cold_reads: bool,
    /// Volumes of ranks that serve.
    #[serde(default)]
    pub served: Vec<Served>,
}

impl Serve {
    /// Volumes of a rank that serves.
    pub fn of(&self, rank: u32) -> impl Iterator<Item = &Serving> {
        let name = self.names[rank as usize].as_str();
        let is_here = move |of: &&Serving| of.hosts.iter().any(|host| is_named(host, rank, name));
        self.serve.iter().filter(is_here)
    }

    /// An argument as a rank reads it.
    pub fn named(&self, word: &str, rank: u32) -> String {
        named(word, rank, &self.names[rank as usize]).into_owned()
    }

    /// Ranks that serve.
    ///
    /// # Errors
    ///
    /// Hosts that no rank is; and rank 0, which leads.
    pub fn ranks(&self) -> Result<Vec<u32>, UsageError> {
        self.serve.iter().try_for_each(|of| check(&of.hosts, &self.names))?;
        let all = 0..self.names.len() as u32;
        let ranks: Vec<u32> = all.filter(|rank| self.of(*rank).next().is_some()).collect();
        match ranks.first() {
            Some(0) => Err(UsageError(
                "serve: rank 0 leads the run, so others serve: name the hosts that serve after \
                 the first one"
                    .to_owned(),
            )),
            _ => Ok(ranks),
        }
    }
}

impl Order {
    pub fn new(job: &JobSpec, allowed: &Allowed, names: &[String]) -> Order {
        Order {
            job: job.clone(),
            names: names.to_vec(),
            destroy: allowed.destroy.clone(),
            layout: allowed.layout,
            samples: allowed.samples,
            cold_reads: false,
            served: Vec::new(),
        }
    }

    /// Ranks that serve and do not drive.
    pub fn serving(&self) -> Vec<u32> {
        let groups = || self.job.steps.iter().flat_map(|step| &step.groups);
        let drives = |rank: u32| groups().any(|group| self.has(group, rank));
        self.served.iter().map(|of| of.rank).filter(|rank| !drives(*rank)).collect()
    }

    /// Ranks that drive, but for rank 0.
    pub fn driving(&self) -> Vec<u32> {
        let groups = || self.job.steps.iter().flat_map(|step| &step.groups);
        let drives = |rank: &u32| groups().any(|group| self.has(group, *rank));
        (1..self.names.len() as u32).filter(drives).collect()
    }

    /// Whether a rank has a group: those that serve have one only if it names them.
    pub(super) fn has(&self, group: &Group, rank: u32) -> bool {
        let name = &self.names[rank as usize];
        match group.hosts.is_empty() {
            true => self.served.iter().all(|of| of.rank != rank),
            false => group.hosts.iter().any(|wanted| is_named(wanted, rank, name)),
        }
    }

    /// Share of a rank in what all ranks of a group drive.
    fn share(&self, group: &Group, rank: u32) -> Share {
        let all = || (0..self.names.len() as u32).filter(|rank| self.has(group, *rank));
        (all().take_while(|other| *other < rank).count(), all().count().max(1))
    }

    /// The volumes that a rank may overwrite though they hold data.
    pub fn destroy_of(&self, rank: u32) -> Result<Vec<String>> {
        let name = &self.names[rank as usize];
        let served = served::reached(&self.served)?;
        let of = |volume: &String| served::resolved(&named(volume, rank, name), &served, WHOLE);
        let all = self.destroy.iter().map(of).collect::<Result<Vec<_>, UsageError>>()?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The job of this process, which has a rank: with a seed of its own, its groups, and its
    /// volumes. Hosts that serve are reached.
    ///
    /// # Errors
    ///
    /// A group that names a host which is not there, or volumes that nobody serves; and a host that
    /// cannot be reached.
    pub fn part_of(&self, rank: u32) -> Result<JobSpec> {
        let mut served = self.served.clone();
        let groups = || self.job.steps.iter().flat_map(|step| &step.groups);
        if groups().any(|group| self.has(group, rank)) {
            served = served::reached(&served)?;
        }
        Ok(self.part(rank, &served)?)
    }

    /// The job with the files of a rank, by their names there; volumes that others serve stay.
    pub fn files_of(&self, rank: u32) -> JobSpec {
        let name = &self.names[rank as usize];
        let mut job = self.job.clone();
        let is_shared =
            job.steps.iter().flat_map(|step| &step.groups).all(|of| of.hosts.is_empty());
        for step in &mut job.steps {
            step.groups.retain(|group| self.has(group, rank));
            for volume in step.groups.iter_mut().flat_map(|group| &mut group.volumes) {
                *volume = named(volume, rank, name).into_owned();
            }
        }
        for file in &mut job.laid_out {
            file.path = named(&file.path, rank, name).into_owned();
        }
        let mut laid_out = std::mem::take(&mut job.laid_out);
        let groups = || job.steps.iter().flat_map(|step| &step.groups);
        let is_here = |file: &LaidOut| {
            groups().flat_map(|group| &group.volumes).any(|volume| volume.contains(&file.path))
        };
        laid_out.retain(|file| is_shared || is_here(file));
        JobSpec { laid_out, ..job }
    }

    /// The job of a rank that reaches served volumes as `served` says.
    fn part(&self, rank: u32, served: &[Served]) -> Result<JobSpec, UsageError> {
        let name = &self.names[rank as usize];
        let mut job = self.job.clone();
        job.seed = part::seed(job.seed, name);
        for step in &mut job.steps {
            step.groups.iter().try_for_each(|group| check(&group.hosts, &self.names))?;
            step.groups.retain(|group| self.has(group, rank));
            for group in &mut step.groups {
                let share = self.share(group, rank);
                let volumes = group.volumes.iter().map(|volume| named(volume, rank, name));
                let each = volumes.map(|volume| served::resolved(&volume, served, share));
                let all = each.collect::<Result<Vec<_>, _>>()?;
                let (before, volumes) = (group.volumes.len(), all.into_iter().flatten());
                group.volumes = volumes.collect();
                // The rate of all workers stays.
                if before != group.volumes.len() {
                    let share = before as f64 / group.volumes.len().max(1) as f64;
                    group.workload.scale_pacing(share);
                }
            }
        }
        Ok(job)
    }
}

/// Refuses hosts that no rank is.
fn check(hosts: &[String], names: &[String]) -> Result<(), UsageError> {
    let last = names.len() as u32 - 1;
    let is_there = |wanted: &String| match range(wanted) {
        Some(range) => !range.is_empty() && *range.end() <= last,
        None => (0..).zip(names).any(|(rank, name)| is_named(wanted, rank, name)),
    };
    match hosts.iter().find(|wanted| !is_there(wanted)) {
        Some(wanted) => {
            let first = &names[0];
            Err(UsageError(format!(
                "hosts: no rank is '{wanted}': use a rank from 0 to {last}, a range such as \
                 0-{last}, or a host such as {first}"
            )))
        }
        None => Ok(()),
    }
}

/// A volume of a job as a rank names it.
pub(super) fn named<'a>(volume: &'a str, rank: u32, name: &str) -> Cow<'a, str> {
    match volume.contains(RANK) || volume.contains(HOST) {
        true => volume.replace(RANK, &rank.to_string()).replace(HOST, host_of(name)).into(),
        false => Cow::Borrowed(volume),
    }
}

/// The host of a rank's name.
fn host_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// Whether a word of a job names a rank: by its number, a range of numbers, its name or its host.
fn is_named(wanted: &str, rank: u32, name: &str) -> bool {
    range(wanted).is_some_and(|range| range.contains(&rank))
        || wanted.parse() == Ok(rank)
        || wanted == name
        || wanted == host_of(name)
}

/// A range of ranks, such as "1-3".
fn range(wanted: &str) -> Option<RangeInclusive<u32>> {
    let (from, to) = wanted.split_once('-')?;
    Some(from.parse().ok()?..=to.parse().ok()?)
}

#[cfg(test)]
mod test {
    use super::*;
    use job::spec::{Access, Group, Workload};

    fn group(hosts: &[&str], volume: &str) -> Group {
        let workload = Workload::new(Access::new(4096, 100.0, 100.0), 1);
        let mut group = Group::new(vec![volume.to_owned()], 1, workload);
        group.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        group
    }

    fn order(groups: Vec<Group>) -> Order {
        let mut job = JobSpec::of(7, 1.0, 0.0, groups[0].clone());
        job.steps[0].groups = groups;
        let names = ["node1/1", "node1/2", "node2"].map(str::to_owned);
        Order::new(&job, &Allowed::default(), &names)
    }

    fn volumes(order: &Order, rank: u32) -> Vec<String> {
        let job = order.part_of(rank).unwrap();
        job.steps[0].groups.iter().flat_map(|group| group.volumes.clone()).collect()
    }

    #[test]
    fn each_rank_has_its_groups_and_volumes() {
        let all = order(vec![
            group(&[], "file:/data/{host}-{rank}"),
            group(&["1-2"], "ram:1m"),
            group(&["node1", "2"], "ram:2m"),
        ]);
        assert_eq!(volumes(&all, 0), ["file:/data/node1-0", "ram:2m"]);
        assert_eq!(volumes(&all, 1), ["file:/data/node1-1", "ram:1m", "ram:2m"]);
        assert_eq!(volumes(&all, 2), ["file:/data/node2-2", "ram:1m", "ram:2m"]);
        let seeds: Vec<u64> = (0..3).map(|rank| all.part_of(rank).unwrap().seed).collect();
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2], "{seeds:?}");
    }

    /// A rank lays out the files of its groups, by their names on its host.
    #[test]
    fn each_rank_has_its_files() {
        let file = |path: &str| -> LaidOut {
            serde_json::from_value(serde_json::json!({ "path": path, "size_bytes": 4096 })).unwrap()
        };
        let mut all = order(vec![group(&[], "file:/d/{host}-{rank}"), group(&["1"], "file:/e/x")]);
        all.job.laid_out = vec![file("/d/{host}-{rank}"), file("/e/x")];
        let paths = |rank: u32| -> Vec<String> {
            all.files_of(rank).laid_out.iter().map(|file| file.path.clone()).collect()
        };
        assert_eq!(paths(0), ["/d/node1-0"]);
        assert_eq!(paths(1), ["/d/node1-1", "/e/x"]);
        assert_eq!(all.files_of(2).steps[0].groups[0].volumes, ["file:/d/node2-2"]);
    }

    #[test]
    fn who_serves_drives_only_by_name() {
        let mut all = order(vec![group(&[], "served"), group(&["2"], "ram:1m")]);
        let serve = |hosts: &[&str]| Serving {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            args: vec!["--iscsi=10.0.0.{rank}:3260".to_owned()],
            files: Default::default(),
        };
        let serve = |hosts: &[&str]| Serve { names: all.names.clone(), serve: vec![serve(hosts)] };
        assert_eq!(serve(&["1-2"]).ranks().unwrap(), [1, 2]);
        assert!(serve(&["node1"]).ranks().unwrap_err().to_string().contains("rank 0 leads"));
        assert!(serve(&["7"]).ranks().unwrap_err().to_string().contains("no rank is '7'"));
        let args = &serve(&["2"]).serve[0].args;
        assert_eq!(serve(&["2"]).named(&args[0], 2), "--iscsi=10.0.0.2:3260");
        all.served = serde_json::from_str(
            r#"[{"rank":1,"name":"node1/2",
                 "whereabouts":{"machine":"m","network":"n","addresses":[]},
                 "portals":[{"protocol":"nbd","address":"10.0.0.1:1"}],
                 "volumes":[{"name":"a","target":"t","subsystem":"s","lun":1,"bytes":1},
                            {"name":"b","target":"u","subsystem":"s","lun":1,"bytes":1}]}]"#,
        )
        .unwrap();
        assert_eq!(all.serving(), [1]);
        assert_eq!(volumes(&all, 0), ["nbd://10.0.0.1:1/t", "nbd://10.0.0.1:1/u"]);
        assert!(volumes(&all, 1).is_empty());
        assert_eq!(volumes(&all, 2).len(), 3);
        all.job.steps[0].groups[1].hosts = vec!["1".to_owned()];
        assert_eq!((all.serving(), volumes(&all, 1)), (vec![], vec!["ram:1m".to_owned()]));
    }

    #[test]
    fn hosts_that_are_not_there_are_refused() {
        for wrong in ["3", "node3", "1-3", "2-1", "node1/3", ""] {
            let why = order(vec![group(&[wrong], "ram:1m")]).part_of(0).unwrap_err().to_string();
            assert!(why.contains(&format!("no rank is '{wrong}'")), "{why}");
        }
    }
}
