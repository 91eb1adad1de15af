//! Rest of the CPUs of a run over its window, and naps of its disks.

use std::collections::BTreeMap;

use job::spec::Workload;
use os::Rest;
use stats::verdict::{self, Idle, Nap, PerIo, Rested};
use stats::{Check, Collector, Cpu};

use super::Witness;
use super::moment::Moment;

/// A pause in which a disk may begin to nap, in microseconds: Linux lets NVMe drives do so after
/// 100 ms at the earliest.
const NAP_US: u64 = 100_000;
/// Idle driver of virtual machines, whose CPUs idle as their host decides.
const OF_GUESTS: &str = "haltpoll";

/// Whether a job itself leaves disks idle for so long.
pub(super) fn pauses(workload: &Workload) -> bool {
    let delays = workload.access.lines.iter().any(|line| line.delay_us >= NAP_US);
    delays || workload.think.is_some_and(|think| think.pause_us >= NAP_US)
}

impl Witness {
    /// H14, for CPUs that wake late or share cores.
    pub(super) fn rested(
        &self,
        before: &Moment,
        after: &Moment,
        collected: &Collector,
        cpu: &Cpu,
    ) -> Check {
        let totals = collected.totals();
        let (ios, mean_ns) = (totals.ios, totals.latency_ns.mean);
        let per_io = PerIo { ios, mean_ns, core_us: cpu.core_us_per_io };
        let pairs = before.rests.iter().zip(&after.rests);
        let cpus = self.cores.iter().zip(pairs);
        let cpus: Vec<Rested> =
            cpus.map(|(cpu, (before, after))| over_window(*cpu, before, after)).collect();
        let tells = os::idle_driver().is_some_and(|driver| driver != OF_GUESTS);
        verdict::rested(&cpus, per_io, os::cpu::is_guest() && !tells)
    }

    /// H14, for NVMe drives of this host that may nap between I/Os.
    pub(super) fn naps(&self, collected: &Collector) -> Option<Check> {
        let seconds = collected.seconds();
        let whole = seconds.iter().filter(|second| second.seconds >= 0.5);
        let slowest = whole.map(|second| second.iops).reduce(f64::min).unwrap_or(0.0);
        let (workers, all) = (collected.workers(), collected.totals().ios.max(1) as f64);
        let mut disks: BTreeMap<&str, Nap> = BTreeMap::new();
        for seen in &self.volumes {
            let ios: u64 = seen.workers.iter().map(|worker| workers[*worker].ios).sum();
            let devices = seen.file().map_or(&[][..], |file| &file.stack.devices);
            for device in devices.iter().filter(|it| it.is_nvme() && !it.is_served()) {
                let nap = disks.entry(&device.disk).or_insert_with(|| Nap {
                    disk: device.disk.clone(),
                    wake_us: device.nap_us(),
                    ..Nap::default()
                });
                nap.slowest_iops += slowest * ios as f64 / all;
                nap.pauses |= seen.pauses;
            }
        }
        verdict::naps(&disks.into_values().collect::<Vec<_>>())
    }
}

/// Idle states of a CPU between two moments. Both have the same states, unless drivers changed.
fn over_window(cpu: usize, before: &Rest, after: &Rest) -> Rested {
    let both = before.states.as_ref().zip(after.states.as_ref());
    let same = both.filter(|(then, now)| then.len() == now.len());
    let idle = same.map(|(then, now)| {
        let states = then.iter().zip(now);
        let left = states.map(|(then, now)| Idle {
            name: now.name.clone(),
            exit_us: now.exit_us,
            times: now.entered.saturating_sub(then.entered),
        });
        left.collect()
    });
    Rested { cpu, idle, siblings: after.siblings.clone() }
}

#[cfg(test)]
mod test {
    use job::spec::{Access, Line};
    use os::IdleState;

    use super::*;

    #[test]
    fn states_are_counted_over_the_window() {
        let rest = |entered| {
            let state = IdleState { name: "C6".into(), exit_us: 133, entered };
            Rest { states: Some(vec![state]), siblings: Some(vec![0]) }
        };
        let seen = over_window(0, &rest(10), &rest(25));
        assert_eq!(seen.idle.unwrap()[0].times, 15);
        let fewer = Rest { states: Some(Vec::new()), ..rest(1) };
        assert_eq!(over_window(0, &rest(10), &fewer).idle, None, "another driver");
        assert_eq!(over_window(0, &Rest::default(), &rest(1)).idle, None);
    }

    #[test]
    fn pauses_of_a_job_are_known() {
        let of = |delay_us| {
            let line = Line { delay_us, ..Line::new(4096, 100.0, 100.0) };
            pauses(&Workload::new(Access::of(vec![line]), 1))
        };
        assert_eq!([0, 99_999, 100_000].map(of), [false, false, true]);
    }
}
