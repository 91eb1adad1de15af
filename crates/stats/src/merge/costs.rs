//! Sums over all hosts: their CPUs, and the size of the job.

use super::Host;
use crate::run::{Cpu, Job, RunResult};

/// Figures of hosts that add up.
#[derive(Debug)]
pub(super) struct Costs {
    cpu: Cpu,
    job: Job,
    model: String,
    kernel: String,
    cores: u32,
    memory_bytes: u64,
}

impl Costs {
    /// Whether another host does the same work, on volumes of its own or not.
    pub fn is_same_work(&self, other: &Costs) -> bool {
        let work = |of: &Costs| {
            let Job { size_bytes, workers, volumes, outstanding, .. } = of.job;
            (size_bytes, workers, volumes, outstanding, of.job.rate_per_s.map(f64::to_bits))
        };
        let mix = |of: &Costs| [of.job.read_percent, of.job.random_percent].map(f64::to_bits);
        (work(self), mix(self)) == (work(other), mix(other))
    }

    pub fn of(result: &RunResult) -> Costs {
        Costs {
            cpu: result.cpu,
            job: result.job.clone(),
            model: result.host.cpu.clone(),
            kernel: result.host.kernel.clone(),
            cores: result.host.cores,
            memory_bytes: result.host.memory_bytes,
        }
    }
}

/// Writes job, host and cost of all hosts into a result that has those of the first.
pub(super) fn put(hosts: &[Host], result: &mut RunResult) {
    let all = || hosts.iter().map(|host| &host.costs);
    let job = &mut result.job;
    let sum = |of: fn(&Job) -> u32| all().map(|it| of(&it.job)).fold(0, u32::saturating_add);
    (job.workers, job.volumes, job.targets) =
        (sum(|job| job.workers), sum(|job| job.volumes), sum(|job| job.targets));
    let outstanding: Option<Vec<u64>> = all().map(|it| it.job.outstanding).collect();
    job.outstanding = outstanding.map(|each| each.into_iter().fold(0, u64::saturating_add));
    let rates: Option<Vec<f64>> = all().map(|it| it.job.rate_per_s).collect();
    job.rate_per_s = rates.map(|rates| rates.iter().sum());
    job.loopback = all().any(|it| it.job.loopback);
    let host = &mut result.host;
    let names: Vec<&str> = hosts.iter().map(|host| &*host.row.name).collect();
    host.name = match names.len() {
        1..=4 => names.join(", "),
        many => format!("{many} hosts"),
    };
    host.cpu = common(all().map(|it| &*it.model));
    host.kernel = common(all().map(|it| &*it.kernel));
    host.cores = all().map(|it| it.cores).fold(0, u32::saturating_add);
    host.memory_bytes = all().map(|it| it.memory_bytes).fold(0, u64::saturating_add);
    let clock = host.more.remove("clock_source");
    host.more = clock.map(|clock| ("clock_source".to_owned(), clock)).into_iter().collect();
    result.cpu = cpu(hosts).derive(result.totals.iops);
}

/// Returns the value that all hosts share, or "several kinds".
fn common<'a>(mut all: impl Iterator<Item = &'a str>) -> String {
    let Some(first) = all.next() else { return String::new() };
    if all.all(|it| it == first) { first.to_owned() } else { "several kinds".to_owned() }
}

/// Cores add up; shares are of all cores together. What one host does not know is unknown.
fn cpu(hosts: &[Host]) -> Cpu {
    let cores: f64 = hosts.iter().map(|host| f64::from(host.costs.cores)).sum();
    let sum = |of: fn(&Cpu) -> Option<f64>| -> Option<f64> {
        hosts.iter().map(|host| of(&host.costs.cpu)).sum()
    };
    let share = |of: fn(&Cpu) -> Option<f64>| -> Option<f64> {
        let weighed = hosts
            .iter()
            .map(|host| of(&host.costs.cpu).map(|percent| percent * f64::from(host.costs.cores)));
        weighed.sum::<Option<f64>>().filter(|_| cores > 0.0).map(|sum| sum / cores)
    };
    let waited = hosts.iter().map(|host| host.costs.cpu.initiator_waited_percent);
    let waited: Option<Vec<f64>> = waited.collect();
    Cpu {
        host_percent: share(|cpu| cpu.host_percent),
        user_percent: share(|cpu| cpu.user_percent),
        system_percent: share(|cpu| cpu.system_percent),
        irq_percent: share(|cpu| cpu.irq_percent),
        softirq_percent: share(|cpu| cpu.softirq_percent),
        steal_percent: share(|cpu| cpu.steal_percent),
        initiator_cores: sum(|cpu| cpu.initiator_cores),
        initiator_system_cores: sum(|cpu| cpu.initiator_system_cores),
        initiator_poll_cores: sum(|cpu| cpu.initiator_poll_cores),
        initiator_io_worker_cores: sum(|cpu| cpu.initiator_io_worker_cores),
        initiator_waited_percent: waited
            .map(|each| each.iter().sum::<f64>() / each.len().max(1) as f64),
        target_cores: sum(|cpu| cpu.target_cores),
        ..Cpu::default()
    }
}
