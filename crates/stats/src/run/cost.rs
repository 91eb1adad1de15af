//! What a run cost: processors, threads of the kernel, devices.

use serde::{Deserialize, Serialize};

/// Cost in processor time. `null` where it is not known. "Cores" are CPU seconds per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Use of the whole host, 0 to 100.
    pub host_percent: Option<f64>,
    /// Of it programs, 0 to 100.
    pub user_percent: Option<f64>,
    /// Of it the kernel on behalf of programs, 0 to 100.
    pub system_percent: Option<f64>,
    /// Of it interrupts, 0 to 100.
    pub irq_percent: Option<f64>,
    /// Of it deferred interrupt work, the network stack mostly, 0 to 100.
    pub softirq_percent: Option<f64>,
    /// Time the hypervisor gave to others, 0 to 100.
    pub steal_percent: Option<f64>,
    /// Cores that the workers used.
    pub initiator_cores: Option<f64>,
    /// Of them in the kernel; counted in hundredths of a second.
    pub initiator_system_cores: Option<f64>,
    /// Of `initiator_cores` the threads of the kernel that poll for what workers submit; none of
    /// a worker's own time is in it.
    pub initiator_poll_cores: Option<f64>,
    /// Of `initiator_cores` the threads of the kernel that carry out what could not begin without
    /// a wait; likewise.
    pub initiator_io_worker_cores: Option<f64>,
    /// How often the workers' threads gave their core away.
    pub initiator_switches: Option<u64>,
    /// Pages that the workers' threads had to wait for, without a disk and with one.
    pub initiator_faults: Option<[u64; 2]>,
    /// Share of the window in which the workers' threads were ready and waited for a processor, 0
    /// to 100; of several the mean. About that share of each latency is the host's: nobody takes
    /// completions meanwhile. The rest is the volume's, and the way to it.
    pub initiator_waited_percent: Option<f64>,
    /// Cores that the targets on this host used.
    pub target_cores: Option<f64>,
    /// Core time per I/O in microseconds, initiator and target together.
    pub core_us_per_io: Option<f64>,
    /// I/Os per second for each core that was used.
    pub iops_per_core: Option<f64>,
}

impl Cpu {
    /// Fills in what follows from the cores in use: time per I/O and I/Os per core.
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

/// What measuring itself cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuringCost {
    /// A reading of the clock, in nanoseconds.
    pub clock_ns: f64,
    /// Counting an I/O with its latency, in nanoseconds.
    pub record_ns: f64,
    /// Both together for each I/O, in nanoseconds; less where I/Os of a batch share a reading.
    pub ns_per_io: f64,
    /// That of all I/Os as a share of the processor time of the workers, 0 to 100.
    pub initiator_percent: Option<f64>,
    /// Cores that collecting the numbers and showing them used, beside the workers.
    pub collector_cores: Option<f64>,
    /// How it was found out, in words.
    pub how: String,
}

impl MeasuringCost {
    /// Of a run of so many I/Os per second, whose workers used so many cores.
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

/// What one logical processor did in the measured window. Shares are 0 to 100 of its time; the rest
/// it was idle.
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
    /// Taken by the hypervisor for others.
    pub steal_percent: f64,
}

/// A thread of the kernel that worked in the measured window: for polls, interrupts and writeback
/// no program is charged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelThread {
    /// As `ksoftirqd/1`.
    pub name: String,
    /// Cores that it used; counted in hundredths of a second.
    pub cores: f64,
}

/// What a block device did in the measured window by the kernel's account, whoever asked it. Times
/// are those of all its I/Os, one added to the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUse {
    /// As `vda1`.
    pub name: String,
    /// Reads that it did.
    pub reads: u64,
    /// Writes that it did.
    pub writes: u64,
    /// Reads that became part of a neighbour before.
    pub merged_reads: u64,
    /// Writes that became part of a neighbour before.
    pub merged_writes: u64,
    /// What reads took, in milliseconds.
    pub read_ms: u64,
    /// What writes took, in milliseconds.
    pub write_ms: u64,
    /// What everything took, in milliseconds.
    pub queue_ms: u64,
    /// Share of the time in which it had anything to do, 0 to 100.
    pub busy_percent: f64,
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn measuring_has_its_part_of_the_workers_time() {
        let cost = MeasuringCost::of([8.0, 2.0], 10e6, Some(1.0), Some(0.01));
        assert_eq!((cost.ns_per_io, cost.initiator_percent), (10.0, Some(10.0)));
        // Of I/Os in batches the bound is above all there was.
        assert_eq!(
            MeasuringCost::of([40.0, 2.0], 50e6, Some(2.0), None).initiator_percent,
            Some(100.0)
        );
        assert_eq!(MeasuringCost::of([8.0, 2.0], 0.0, Some(0.0), None).initiator_percent, None);
    }
}
