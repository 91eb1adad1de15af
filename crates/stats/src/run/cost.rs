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
