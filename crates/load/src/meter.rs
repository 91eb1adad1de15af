//! What a run costs: processor time of its threads and of the host.

use block::Nanos;
use os::sample::{self, HostCpu, ThreadUse};
use stats::live::LiveCpu;
use stats::{Cpu, Processor};

/// Reads the counters of a run's threads and of the host.
pub(crate) struct Meter {
    initiators: Vec<i32>,
    /// Threads of the kernel that poll for what the initiators submit.
    pollers: Vec<i32>,
    targets: Option<Vec<i32>>,
}

/// One reading.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    at: Nanos,
    initiator: Nanos,
    poll: Nanos,
    used: ThreadUse,
    target: Option<Nanos>,
    host: HostCpu,
    each: Vec<HostCpu>,
}

impl Meter {
    /// For the threads of the workers, those that poll for them and, if they are in this process,
    /// those of the targets.
    pub(crate) fn new(initiators: Vec<i32>, pollers: Vec<i32>, targets: Option<Vec<i32>>) -> Meter {
        Meter { initiators, pollers, targets }
    }

    /// The counters now.
    pub(crate) fn read(&self, now: Nanos) -> Reading {
        let poll = sum(&self.pollers);
        let threads = self.initiators.iter().chain(&self.pollers);
        Reading {
            at: now,
            initiator: sum(&self.initiators) + poll,
            poll,
            used: used(threads),
            target: self.targets.as_deref().map(sum),
            host: HostCpu::now(),
            each: HostCpu::each_now(),
        }
    }
}

fn sum(threads: &[i32]) -> Nanos {
    let used = threads.iter().filter_map(|thread| sample::thread_cpu(*thread).ok());
    used.fold(Nanos(0), |sum, used| sum + used)
}

/// What the system counts for all these threads.
fn used<'a>(threads: impl Iterator<Item = &'a i32>) -> ThreadUse {
    let each = threads.filter_map(|thread| ThreadUse::of(*thread));
    each.fold(ThreadUse::default(), |sum, used| ThreadUse {
        system_s: sum.system_s + used.system_s,
        switches: sum.switches + used.switches,
        minor_faults: sum.minor_faults + used.minor_faults,
        major_faults: sum.major_faults + used.major_faults,
    })
}

impl Reading {
    /// Cost between `earlier` and here.
    pub(crate) fn since(&self, earlier: &Reading, iops: f64) -> Cpu {
        let seconds = self.at.since(earlier.at).as_secs_f64().max(1e-9);
        let cores = |now: Nanos, then: Nanos| now.since(then).as_secs_f64() / seconds;
        let host = self.host.since(&earlier.host);
        let share = |part: f64| (host.total() > 0.0).then(|| part / host.total() * 100.0);
        let target = self.target.zip(earlier.target);
        let (used, before) = (self.used, earlier.used);
        let minor = used.minor_faults.saturating_sub(before.minor_faults);
        let major = used.major_faults.saturating_sub(before.major_faults);
        Cpu {
            host_percent: share(host.busy()),
            user_percent: share(host.user),
            system_percent: share(host.system),
            irq_percent: share(host.irq),
            softirq_percent: share(host.softirq),
            steal_percent: share(host.steal),
            initiator_cores: Some(cores(self.initiator, earlier.initiator)),
            initiator_system_cores: Some(((used.system_s - before.system_s) / seconds).max(0.0)),
            initiator_poll_cores: Some(cores(self.poll, earlier.poll)),
            initiator_switches: Some(used.switches.saturating_sub(before.switches)),
            initiator_faults: Some([minor, major]),
            target_cores: target.map(|(now, then)| cores(now, then)),
            ..Cpu::default()
        }
        .derive(iops)
    }
}

impl Reading {
    /// What each processor did between `earlier` and here.
    pub(crate) fn processors_since(&self, earlier: &Reading) -> Vec<Processor> {
        let used = self.each.iter().zip(&earlier.each).map(|(now, then)| now.since(then));
        let shares = used.map(|used| {
            let share = |part: f64| part / used.total().max(1e-9) * 100.0;
            Processor {
                user_percent: share(used.user),
                system_percent: share(used.system),
                irq_percent: share(used.irq),
                softirq_percent: share(used.softirq),
                steal_percent: share(used.steal),
            }
        });
        shares.collect()
    }

    /// The same for a live view.
    pub(crate) fn live_since(&self, earlier: &Reading, cpu: &Cpu) -> LiveCpu {
        let used = self.each.iter().zip(&earlier.each).map(|(now, then)| now.since(then));
        let share = |used: HostCpu| used.busy() / used.total().max(1e-9) * 100.0;
        LiveCpu {
            initiator_cores: cpu.initiator_cores,
            target_cores: cpu.target_cores,
            host_percent: cpu.host_percent,
            per_core_percent: used.map(share).collect(),
        }
    }
}
