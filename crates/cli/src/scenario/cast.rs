//! Steps over the ranks of a launcher: the last ranks serve, the others drive, as one measurement.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use job::spec::{Group, JobSpec, Serving};
use load::Stop;
use report::Silent;
use serde_json::Value;

use super::file::{Scenario, Step, Way};
use crate::args::Command;
use crate::asked::{self, Asked};
use crate::bench::{Allowed, Bench, Failed};
use crate::braces::fill;
use crate::exit::UsageError;
use crate::folder::{self, Folder};
use crate::{hosts, show, signal, typed};

/// Listen address of the ranks that serve.
const ANY: &str = "0.0.0.0";

/// Roles of all ranks in a scenario.
#[derive(Clone, Debug)]
pub struct Cast {
    /// Names of all ranks.
    pub names: Vec<String>,
    /// Number of those that serve: the last ones.
    servers: usize,
}

impl Cast {
    /// Roles for the live steps of a scenario; `None` without other ranks, or without a step that
    /// has hosts of its own.
    ///
    /// # Errors
    ///
    /// Too few ranks, or more than the clients of any step.
    pub fn of(scenario: &Scenario) -> Result<Option<Cast>> {
        let Some(ranks) = hosts::ranks() else { return Ok(None) };
        let names = ranks.names()?.to_vec();
        let steps = || scenario.steps.iter().filter(|step| step.is_for_ranks());
        let servers = steps().map(|step| step.hosts).max();
        let clients = steps().map(|step| step.clients).max();
        let (Some(servers), Some(clients)) = (servers, clients) else { return Ok(None) };
        let (fewest, most) = (servers + 1, servers + clients);
        if !(fewest..=most).contains(&(names.len() as u32)) {
            let (name, count) = (&scenario.name, names.len());
            let drive =
                if clients == 1 { "1 drives".to_owned() } else { format!("1 to {clients} drive") };
            return Err(UsageError(format!(
                "{name}: {servers} of its ranks serve, and {drive}; here are {count}: start \
                 it with mpirun -n {most}, and name the hosts that serve last"
            ))
            .into());
        }
        Ok(Some(Cast { names, servers: servers as usize }))
    }

    /// Number of ranks that drive.
    fn driving(&self) -> usize {
        self.names.len() - self.servers
    }

    /// Roles of the ranks, in a line.
    pub fn line(&self) -> String {
        let (drive, serve) = self.names.split_at(self.driving());
        format!("{} drive; {} serve", drive.join(", "), serve.join(", "))
    }

    /// The network of a step, for its result.
    pub fn network(&self, step: &Step) -> String {
        let hosts = step.hosts;
        let serve =
            if hosts == 1 { "1 host serves".to_owned() } else { format!("{hosts} hosts serve") };
        format!("{serve} of {} started by one command: {}", self.names.len(), self.line())
    }

    /// Runs a step; `None` if the user has stopped it.
    pub fn run(
        &self,
        step: &Step,
        (seconds, stop, work): (f64, &Stop, &Path),
    ) -> Result<Option<Value>> {
        let (mut job, allowed, cold_reads) = self.job(step, seconds)?;
        job.name.clone_from(&step.id);
        job.check().map_err(|error| UsageError(error.to_string()))?;
        let mut bench = Bench::new(allowed, job.steps.iter());
        bench.stop = stop.clone();
        bench.cold_reads = cold_reads;
        bench.check(&job)?;
        let ready = bench.prepare(&job, &job.steps[0])?;
        let measuring = signal::Measuring::begin();
        let mut result = ready.run(&mut Silent)?;
        drop(measuring);
        if stop.asked() > 0 {
            return Ok(None);
        }
        result.tool = show::tool();
        let place = work.join("all");
        folder::write(&Folder::at(&place)?, &result)?;
        let mut text = Vec::new();
        report::json::write(&result, &mut text)?;
        let mut document: Value = serde_json::from_slice(&text).context("the result of a step")?;
        document["clients"] = step.clients.into();
        let servers = &result.servers;
        let cores: f64 = servers.iter().map(|server| f64::from(server.cores)).sum();
        let used = result.cpu.target_cores.filter(|_| cores > 0.0);
        document["cpu"]["target_percent"] = used.map(|used| 100.0 * used / cores).into();
        // Shares of the CPUs of the machines that drive.
        let mut machines: BTreeMap<&str, u32> = BTreeMap::new();
        for host in &result.hosts {
            let most = machines.entry(&host.machine).or_default();
            *most = host.cores.max(*most);
        }
        document["host"]["cores"] = machines.values().sum::<u32>().into();
        if !hosts::ranks().is_some_and(|ranks| ranks.serve_here()) {
            document["cpu"]["target_cores"] = Value::Null;
        }
        Ok(Some(document))
    }

    /// The job of a step, what it may do, and whether it reads random offsets before and after.
    fn job(&self, step: &Step, seconds: f64) -> Result<(JobSpec, Allowed, bool)> {
        let mut allowed = Allowed::default();
        let mut whole: Option<JobSpec> = None;
        let mut cold_reads = true;
        for client in 1..=step.clients {
            let Command::Run(run) = typed::of_words(&step.words_of(client))?.command else {
                return Err(Failed(format!("step {}: not a run", step.id)).into());
            };
            let Asked { job, cores } = asked::of(&run)?;
            if !cores.is_empty() {
                let why = format!("step {}: --cores is not for several hosts", step.id);
                return Err(UsageError(why).into());
            }
            cold_reads &= !run.drive.no_cold_reads;
            allowed.destroy.extend(run.destroy.iter().cloned());
            let groups = job.steps.iter().flat_map(|step| step.groups.clone());
            let groups: Vec<Group> =
                groups.flat_map(|group| self.placed(group, client, step.clients)).collect();
            match &mut whole {
                Some(whole) => whole.steps[0].groups.extend(groups),
                None => {
                    let mut first = job;
                    first.steps.truncate(1);
                    first.steps[0].groups = groups;
                    first.steps[0].seconds = seconds * step.times;
                    whole = Some(first);
                }
            }
        }
        let mut whole = whole.context("a step without clients")?;
        whole.serve = (1..=step.hosts).map(|host| self.serving(step, host)).collect();
        Ok((whole, allowed, cold_reads))
    }

    /// Groups of a client on their ranks. Clients are dealt to the ranks that drive; the volumes of
    /// a lone client are.
    fn placed(&self, group: Group, client: u32, clients: u32) -> Vec<Group> {
        let of = self.driving();
        let on = |rank: usize, group: Group| Group { hosts: vec![rank.to_string()], ..group };
        if clients > 1 || of == 1 {
            return vec![on((client as usize - 1) % of, group)];
        }
        let share = |rank: usize| -> Vec<String> {
            group.volumes.iter().skip(rank).step_by(of).cloned().collect()
        };
        let shares = (0..of).map(|rank| (rank, share(rank)));
        let shares = shares.filter(|(_, volumes)| !volumes.is_empty());
        shares.map(|(rank, volumes)| on(rank, Group { volumes, ..group.clone() })).collect()
    }

    /// Volumes that the rank of a step's host serves.
    fn serving(&self, step: &Step, host: u32) -> Serving {
        let words: BTreeMap<String, String> =
            [("host".to_owned(), host.to_string()), ("address".to_owned(), ANY.to_owned())].into();
        Serving {
            hosts: vec![(self.driving() + host as usize - 1).to_string()],
            args: step.serve.iter().map(|word| fill(word, &words)).collect(),
            files: step.files.clone(),
        }
    }
}

impl Step {
    /// Whether the hosts of the step may be ranks: a shaped wire is one of this machine's own.
    pub fn is_for_ranks(&self) -> bool {
        let runs = self.run.first().is_some_and(|command| command == "run");
        self.way == Way::Live && runs && !self.serve.is_empty() && self.wire_bits.is_none()
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::scenario::file;

    fn cast(ranks: usize, servers: usize) -> Cast {
        Cast { names: (0..ranks).map(|rank| format!("node{rank}")).collect(), servers }
    }

    fn step(scenario: &str, id: &str) -> Step {
        let scenario = file::read(scenario).unwrap();
        scenario.steps.into_iter().find(|step| step.id == id).unwrap()
    }

    #[test]
    fn six_clients_have_four_portals_each() {
        let (job, allowed, _) = cast(7, 1).job(&step("third-io-iris", "iris-4k"), 2.0).unwrap();
        job.check().unwrap();
        let groups = &job.steps[0].groups;
        let hosts: Vec<&str> = groups.iter().map(|group| group.hosts[0].as_str()).collect();
        assert_eq!(hosts, ["0", "1", "2", "3", "4", "5"]);
        let volumes: Vec<&String> = groups.iter().flat_map(|group| &group.volumes).collect();
        assert_eq!(volumes.len(), 24);
        assert_eq!(volumes[23], "iscsi://{iscsi:24}/iqn.2026-11.io.drumfire:iris/1");
        assert_eq!((job.steps[0].workers(), job.steps[0].seconds), (48, 2.0));
        assert_eq!(job.serve[0].hosts, ["6"]);
        assert!(job.serve[0].args[0].contains("{24*0.0.0.0:0}"), "{:?}", job.serve);
        assert!(!allowed.destroy.is_empty());
    }

    #[test]
    fn clients_and_volumes_are_dealt_to_those_that_drive() {
        let (job, ..) = cast(3, 1).job(&step("third-io-iris", "iris-512"), 1.0).unwrap();
        let hosts = |job: &JobSpec| -> Vec<String> {
            job.steps[0].groups.iter().flat_map(|group| group.hosts.clone()).collect()
        };
        assert_eq!(hosts(&job), ["0", "1", "0", "1", "0", "1"]);
        let ports = |n: &str| cast(7, 1).job(&step("third-io-iris", n), 1.0).unwrap().0;
        let counts = |job: &JobSpec| -> Vec<usize> {
            job.steps[0].groups.iter().map(|group| group.volumes.len()).collect()
        };
        assert_eq!(counts(&ports("ports-24")), [4; 6]);
        assert_eq!(
            (counts(&ports("ports-1")), hosts(&ports("ports-1"))),
            (vec![1], vec!["0".into()])
        );
        let (intel, ..) = cast(11, 10).job(&step("intel-iscsi", "hosts-512"), 1.0).unwrap();
        assert_eq!((hosts(&intel), counts(&intel)), (vec!["0".into(); 2], vec![25; 2]));
        let serve: Vec<&str> = intel.serve.iter().map(|of| of.hosts[0].as_str()).collect();
        assert_eq!((serve[0], serve[9]), ("1", "10"));
        assert_eq!(intel.steps[0].groups[1].volumes[24].matches("{iscsi-10}").count(), 1);
    }
}
