//! CPU time of a run's threads and of the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::Nanos;
use os::SharedTime;
use os::sample::{self, HostCpu, ThreadUse};
use stats::live::LiveCpu;
use stats::{Cpu, Processor};

/// The threads of a run.
pub(crate) struct Threads {
    /// Threads of the workers.
    pub(crate) initiators: Vec<i32>,
    /// SQPOLL threads of the initiators.
    pub(crate) pollers: Vec<i32>,
    /// Threads of targets in this process; some may be workers' threads, too.
    pub(crate) targets: Option<Vec<i32>>,
    /// Time split of threads shared by workers and targets.
    pub(crate) shared_time: Vec<Arc<SharedTime>>,
}

/// Reads the counters of a run's threads and of the host.
pub(crate) struct Meter {
    threads: Threads,
    /// io_uring worker threads of both ends.
    helpers: [Helpers; 2],
}

/// Kernel threads that come and go, with the CPU time of each when last seen.
#[derive(Default)]
struct Helpers {
    seen: BTreeMap<i32, Nanos>,
    /// CPU time of threads whose ids were reused.
    gone: Nanos,
}

/// A reading of all counters.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    at: Nanos,
    initiator: Nanos,
    poll: Nanos,
    io_workers: Nanos,
    used: ThreadUse,
    /// Threads of the workers.
    threads: usize,
    target: Option<Nanos>,
    /// CPU time of the thread that collects and shows results.
    collector: Nanos,
    /// CPU time of the threads shared by workers and targets.
    shared: Nanos,
    /// Clock time of these threads: of the targets, and in total.
    split: [Nanos; 2],
    host: HostCpu,
    each: Vec<HostCpu>,
}

impl Meter {
    /// For these threads.
    pub(crate) fn new(threads: Threads) -> Meter {
        Meter { threads, helpers: Default::default() }
    }

    /// Reads the counters. Helpers that started and ended between two readings are missed; they
    /// live for seconds, so reading every second sees all.
    pub(crate) fn read(&mut self, now: Nanos) -> Reading {
        let [io_workers, target_helpers] = self.read_helpers();
        let Threads { initiators, pollers, targets, shared_time } = &self.threads;
        let poll = sum(pollers);
        let mut used = used(initiators.iter().chain(pollers));
        used.system_s += io_workers.as_secs_f64();
        let add = |of: fn(&SharedTime) -> Nanos| {
            shared_time.iter().fold(Nanos(0), |sum, time| sum + of(time))
        };
        let both = targets.iter().flatten().filter(|thread| initiators.contains(thread));
        let own = |targets: &Vec<i32>| {
            let apart = targets.iter().filter(|thread| !initiators.contains(thread));
            sum(apart) + target_helpers
        };
        Reading {
            at: now,
            initiator: sum(initiators) + poll + io_workers,
            poll,
            io_workers,
            used,
            threads: initiators.len() + pollers.len(),
            target: targets.as_ref().map(own),
            collector: sum(&[sample::thread_id()]),
            shared: sum(both),
            split: [add(SharedTime::companion), add(SharedTime::awake)],
            host: HostCpu::now(),
            each: HostCpu::each_now(),
        }
    }
}

impl Meter {
    /// CPU time of the helpers of initiators, and of targets.
    fn read_helpers(&mut self) -> [Nanos; 2] {
        let Threads { initiators, pollers, targets, .. } = &self.threads;
        // An SQPOLL thread has separate helpers.
        let initiators = [&initiators[..], pollers].concat();
        let apart = targets.iter().flatten().filter(|thread| !initiators.contains(thread));
        let targets: Vec<i32> = apart.copied().collect();
        let [initiators, targets] = [initiators, targets].map(|owners| os::io_workers(&owners));
        [self.helpers[0].read(&initiators), self.helpers[1].read(&targets)]
    }
}

impl Helpers {
    fn read(&mut self, alive: &[i32]) -> Nanos {
        for thread in alive {
            if let Ok(used) = sample::thread_cpu(*thread) {
                self.note(*thread, used);
            }
        }
        self.seen.values().fold(self.gone, |sum, used| sum + *used)
    }

    fn note(&mut self, thread: i32, used: Nanos) {
        let before = self.seen.insert(thread, used);
        self.gone = self.gone + before.filter(|before| *before > used).unwrap_or(Nanos(0));
    }
}

fn sum<'a>(threads: impl IntoIterator<Item = &'a i32>) -> Nanos {
    let used = threads.into_iter().filter_map(|thread| sample::thread_cpu(*thread).ok());
    used.fold(Nanos(0), |sum, used| sum + used)
}

/// The kernel's counters of all these threads.
fn used<'a>(threads: impl Iterator<Item = &'a i32>) -> ThreadUse {
    let each = threads.filter_map(|thread| ThreadUse::of(*thread));
    let none = ThreadUse { waited_s: Some(0.0), ..ThreadUse::default() };
    each.fold(none, |sum, used| ThreadUse {
        system_s: sum.system_s + used.system_s,
        switches: sum.switches + used.switches,
        minor_faults: sum.minor_faults + used.minor_faults,
        major_faults: sum.major_faults + used.major_faults,
        waited_s: sum.waited_s.zip(used.waited_s).map(|(sum, more)| sum + more),
    })
}

impl Reading {
    /// The cost of this many I/Os since `earlier`.
    pub(crate) fn since(&self, earlier: &Reading, ios: u64) -> Cpu {
        let seconds = self.at.since(earlier.at).as_secs_f64().max(1e-9);
        let cores = |now: Nanos, then: Nanos| now.since(then).as_secs_f64() / seconds;
        let host = self.host.since(&earlier.host);
        let share = |part: f64| (host.total() > 0.0).then(|| part / host.total() * 100.0);
        let whole = self.initiator.since(earlier.initiator);
        let shared = self.targets_part_since(earlier);
        let initiator = whole.since(shared);
        // System time of a shared thread is split like its CPU time.
        let own = if shared == Nanos(0) { 1.0 } else { initiator.0 as f64 / whole.0.max(1) as f64 };
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
            initiator_cores: Some(cores(initiator, Nanos(0))),
            initiator_system_cores: Some(
                ((used.system_s - before.system_s) / seconds * own).max(0.0),
            ),
            initiator_poll_cores: Some(cores(self.poll, earlier.poll)),
            initiator_io_worker_cores: Some(cores(self.io_workers, earlier.io_workers)),
            initiator_switches: Some(used.switches.saturating_sub(before.switches)),
            initiator_faults: Some([minor, major]),
            initiator_waited_percent: self.waited_since(earlier, seconds),
            target_cores: target
                .map(|(now, then)| cores(now, then) + cores(whole.since(initiator), Nanos(0))),
            ..Cpu::default()
        }
        .derive(ios as f64 / seconds)
    }
}

impl Reading {
    /// Returns the targets' part of the CPU time of shared threads. The clock continues while such
    /// a thread is preempted, in the turns of both ends alike, so CPU time is split in proportion
    /// to clock time.
    fn targets_part_since(&self, earlier: &Reading) -> Nanos {
        let used = self.shared.since(earlier.shared);
        let [targets, both] = [0, 1].map(|part| self.split[part].since(earlier.split[part]));
        let stretched = both.0 as f64 / used.0.max(1) as f64;
        Nanos((targets.0 as f64 / stretched.max(1.0)) as u64)
    }

    /// Share of the time in which the workers' threads waited for a processor, in percent.
    fn waited_since(&self, earlier: &Reading, seconds: f64) -> Option<f64> {
        let waited_s = self.used.waited_s? - earlier.used.waited_s?;
        let threads = self.threads.max(1) as f64;
        Some((waited_s / seconds / threads * 100.0).clamp(0.0, 100.0))
    }

    /// Cores used by the collecting thread since `earlier`.
    pub(crate) fn collector_cores_since(&self, earlier: &Reading) -> f64 {
        let seconds = self.at.since(earlier.at).as_secs_f64().max(1e-9);
        self.collector.since(earlier.collector).as_secs_f64() / seconds
    }

    /// Activity of each CPU since `earlier`.
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

    /// Returns the CPU use since an earlier reading for a live view.
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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn helpers_that_are_gone_stay_counted() {
        let mut helpers = Helpers::default();
        helpers.note(7, Nanos(100));
        helpers.note(8, Nanos(10));
        helpers.note(7, Nanos(150));
        assert_eq!(helpers.read(&[]), Nanos(160));
        // The id of an ended thread, reused by a new one.
        helpers.note(7, Nanos(5));
        assert_eq!(helpers.read(&[]), Nanos(165));
        let own = sample::thread_id();
        assert!(helpers.read(&[own, -5]) > Nanos(165));
    }

    #[test]
    fn what_targets_take_of_a_shared_thread_is_theirs() {
        let reading = |ms: u64, shared_ms: [u64; 2]| Reading {
            at: Nanos::from_millis(10 * ms),
            initiator: Nanos::from_millis(ms),
            poll: Nanos(0),
            io_workers: Nanos(0),
            used: ThreadUse {
                system_s: ms as f64 / 2e3,
                waited_s: Some(ms as f64 / 4e3),
                ..ThreadUse::default()
            },
            threads: 2,
            target: Some(Nanos::from_millis(ms / 10)),
            collector: Nanos(0),
            shared: Nanos::from_millis(ms),
            split: shared_ms.map(Nanos::from_millis),
            host: HostCpu::default(),
            each: Vec::new(),
        };
        let near = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-9, "{a:?}, {b}");
        let cpu = reading(1000, [600, 1000]).since(&reading(0, [0, 0]), 10);
        near(cpu.core_us_per_io, 110_000.0);
        near(cpu.initiator_cores, 0.04);
        near(cpu.target_cores, 0.07);
        near(cpu.initiator_system_cores, 0.02);
        // Two threads together waited for 0.25 s of 10.
        near(cpu.initiator_waited_percent, 1.25);
        // The clock continues while a thread is preempted, at both ends.
        let cpu = reading(1000, [6000, 10_000]).since(&reading(0, [0, 0]), 10);
        near(cpu.initiator_cores, 0.04);
        near(cpu.target_cores, 0.07);
        // The thread's counters may be slightly low.
        let cpu = reading(1000, [600, 990]).since(&reading(0, [0, 0]), 10);
        near(cpu.initiator_cores, 0.04);
        // Without shared threads nothing is split.
        let cpu = reading(1000, [0, 0]).since(&reading(0, [0, 0]), 10);
        near(cpu.initiator_cores, 0.1);
        near(cpu.initiator_system_cores, 0.05);
    }
}
