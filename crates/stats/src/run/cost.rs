//! Cost of a run: CPUs, kernel threads, devices.

use serde::{Deserialize, Serialize};

/// Cost in CPU time. `null` if unknown. "Cores" are CPU seconds per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// CPU usage of the whole host, 0 to 100.
    pub host_percent: Option<f64>,
    /// Share spent in programs, 0 to 100.
    pub user_percent: Option<f64>,
    /// Share spent in the kernel on behalf of programs, 0 to 100.
    pub system_percent: Option<f64>,
    /// Share spent in interrupts, 0 to 100.
    pub irq_percent: Option<f64>,
    /// Share spent in deferred interrupt work, mostly the network stack, 0 to 100.
    pub softirq_percent: Option<f64>,
    /// Steal time: share that the hypervisor gave to others, 0 to 100.
    pub steal_percent: Option<f64>,
    /// CPU cores that the workers used.
    pub initiator_cores: Option<f64>,
    /// Part of `initiator_cores` spent in the kernel; counted in hundredths of a second.
    pub initiator_system_cores: Option<f64>,
    /// Part of `initiator_cores` used by kernel threads that poll for the workers' submissions; it
    /// includes none of a worker's own time.
    pub initiator_poll_cores: Option<f64>,
    /// Part of `initiator_cores` used by kernel threads that carry out I/Os which could not start
    /// without blocking; it includes none of a worker's own time.
    pub initiator_io_worker_cores: Option<f64>,
    /// Context switches of the workers' threads.
    pub initiator_switches: Option<u64>,
    /// Page faults of the workers' threads: minor and major.
    pub initiator_faults: Option<[u64; 2]>,
    /// Share of the window in which the workers' threads were ready and waited for a CPU, 0 to 100;
    /// for several workers the mean. About this share of each latency is due to the host: no thread
    /// reaps completions meanwhile. The rest is due to the volume and its transport.
    pub initiator_waited_percent: Option<f64>,
    /// CPU cores that the targets on this host used, or on the hosts that served the run.
    pub target_cores: Option<f64>,
    /// Core time per I/O in microseconds, initiator and target together.
    pub core_us_per_io: Option<f64>,
    /// IOPS per used core.
    pub iops_per_core: Option<f64>,
}

impl Cpu {
    /// Fills in the figures that follow from the cores in use: time per I/O and I/Os per core.
    pub fn derive(mut self, iops: f64) -> Cpu {
        let used = match (self.initiator_cores, self.target_cores) {
            (None, None) => None,
            (initiator, target) => Some(initiator.unwrap_or(0.0) + target.unwrap_or(0.0)),
        };
        let used = used.filter(|cores| *cores > 0.0 && iops > 0.0);
        self.core_us_per_io = used.map(|cores| cores * 1e6 / iops);
        self.iops_per_core = used.map(|cores| iops / cores);
        self
    }
}

/// Cost of measuring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuringCost {
    /// A reading of the clock, in nanoseconds.
    pub clock_ns: f64,
    /// Counting an I/O with its latency, in nanoseconds.
    pub record_ns: f64,
    /// Sum of both for each I/O, in nanoseconds; less if I/Os of a batch share a clock reading.
    pub ns_per_io: f64,
    /// Cost of all I/Os as a share of the CPU time of the workers, 0 to 100.
    pub initiator_percent: Option<f64>,
    /// CPU cores used to collect and display the numbers, in addition to those of the workers.
    pub collector_cores: Option<f64>,
    /// Method of the measurement, as text.
    pub how: String,
}

impl MeasuringCost {
    /// Returns the cost in a run of `iops` I/Os per second whose workers used `initiator_cores`.
    pub fn of(
        [clock_ns, record_ns]: [f64; 2],
        iops: f64,
        initiator_cores: Option<f64>,
        collector_cores: Option<f64>,
    ) -> MeasuringCost {
        let ns_per_io = clock_ns + record_ns;
        let cores = initiator_cores.filter(|cores| *cores > 0.0);
        let share = |cores: f64| (ns_per_io * iops / 1e9 / cores * 100.0).min(100.0);
        MeasuringCost {
            clock_ns,
            record_ns,
            ns_per_io,
            initiator_percent: cores.map(share),
            collector_cores,
            how: "readings of the clock and records of a histogram were timed on this host after \
                  the run, one of each for each I/O, which is an upper bound; the processor time \
                  of the collecting thread was counted in the window"
                .to_owned(),
        }
    }
}

/// Usage of one logical CPU in the measured window. Shares are 0 to 100 of its time; the rest was
/// idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// Programs.
    pub user_percent: f64,
    /// The kernel on behalf of programs.
    pub system_percent: f64,
    /// Interrupts.
    pub irq_percent: f64,
    /// Deferred interrupt work, the network stack mostly.
    pub softirq_percent: f64,
    /// Steal time.
    pub steal_percent: f64,
}

/// A kernel thread that used CPU time in the measured window: polls, interrupts and writeback are
/// charged to no program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelThread {
    /// Name, such as `ksoftirqd/1`.
    pub name: String,
    /// CPU cores that the thread used; counted in hundredths of a second.
    pub cores: f64,
}

/// Activity of a block device in the measured window by the kernel's count, from any program. Times
/// are sums over all I/Os of the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUse {
    /// Name, such as `vda1`.
    pub name: String,
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Reads merged with a neighbour before they reached the device.
    pub merged_reads: u64,
    /// Writes merged with a neighbour before they reached the device.
    pub merged_writes: u64,
    /// Time spent in reads, in milliseconds.
    pub read_ms: u64,
    /// Time spent in writes, in milliseconds.
    pub write_ms: u64,
    /// Time spent in all I/Os, in milliseconds.
    pub queue_ms: u64,
    /// Share of the time in which the device was busy, 0 to 100.
    pub busy_percent: f64,
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn measuring_has_its_part_of_the_workers_time() {
        let cost = MeasuringCost::of([8.0, 2.0], 10e6, Some(1.0), Some(0.01));
        assert_eq!((cost.ns_per_io, cost.initiator_percent), (10.0, Some(10.0)));
        // For I/Os in batches the bound exceeds the total CPU time.
        assert_eq!(
            MeasuringCost::of([40.0, 2.0], 50e6, Some(2.0), None).initiator_percent,
            Some(100.0)
        );
        assert_eq!(MeasuringCost::of([8.0, 2.0], 0.0, Some(0.0), None).initiator_percent, None);
    }
}
