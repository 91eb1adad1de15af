//! The result document: everything that is known about a run, under the names users script
//! against. `docs` call it `result.json`; every other rendering is made from it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::buckets::{Histograms, Span};
use crate::failures::Failure;
use crate::histogram::Latency;
use crate::kind::Kind;
use crate::verdict::{self, Ceiling, Check, Class};

/// Version of the document's layout. It grows when a name changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// How the numbers came about. Stands beside every figure that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Real I/O to the storage that is named.
    #[default]
    Measured,
    /// Real I/O to something that imitates the storage that is named.
    Emulated,
    /// No I/O: a model in virtual time.
    Simulated,
}

impl Origin {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Measured => "measured",
            Origin::Emulated => "emulated",
            Origin::Simulated => "simulated",
        }
    }

    /// The word for it, and after that of a model how sure its figures are: "simulated (figures:
    /// derived)".
    pub fn with(self, kind: Option<Kind>) -> String {
        match kind {
            Some(kind) => format!("{} (figures: {})", self.word(), kind.word()),
            None => self.word().to_owned(),
        }
    }
}

/// The result of one run. Rates are per second of the measured window, without ramp and drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Layout of this document: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What made it.
    pub tool: Tool,
    /// How the numbers came about.
    pub origin: Origin,
    /// The least sure kind of the figures that every number rests on, where a model said them all;
    /// `None` where I/Os were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// How far to believe it, derived from the checks.
    pub class: Class,
    /// The honesty checks.
    pub checks: Vec<Check>,
    /// What kind of job it was, in the words that results are compared by.
    #[serde(default)]
    pub job: Job,
    /// The whole job: the run can be repeated from it.
    pub spec: Value,
    /// Where it ran.
    pub host: Host,
    /// Which cores did what.
    #[serde(default)]
    pub placement: Placement,
    /// Beginning of the measured window, RFC 3339.
    pub started: String,
    /// Seed of every pattern.
    pub seed: u64,
    /// Why it is not the whole run, when it is not: "interrupted after 3 s of 10 s".
    #[serde(default)]
    pub partial: Option<String>,
    /// Everything together.
    pub totals: Totals,
    /// Cost in processor time.
    pub cpu: Cpu,
    /// What each logical processor did, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<Processor>,
    /// Threads of the kernel that worked, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_threads: Vec<KernelThread>,
    /// What the block devices below the volumes did in the measured window, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
    /// Which I/Os ended in a fault, and why: the earliest kind first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Failed I/Os of further kinds, which are only counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures_unlisted: u64,
    /// The same for each worker.
    pub workers: Vec<WorkerResult>,
    /// The same for each second; beyond 4,096 of them for stretches of 2, 4, 8 … seconds.
    pub intervals: Vec<Second>,
    /// What the generator reaches by itself, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// Every latency of the measured window, in buckets.
    #[serde(default, skip_serializing_if = "Histograms::is_empty")]
    pub histograms: Histograms,
    /// The same over time, all directions together: seconds, or longer spans of a long run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// What a reader should know, in sentences.
    pub warnings: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl RunResult {
    /// Takes a check that was made later in place of the one of the same number, and derives the
    /// class anew.
    pub fn set_check(&mut self, check: Check) {
        self.checks.retain(|old| old.code != check.code);
        self.checks.push(check);
        self.checks.sort_by(|a, b| a.code.cmp(&b.code));
        self.class = Class::of(&self.checks);
    }

    /// Takes what checks of another run of the same job came to, where that is worse: the class
    /// is then one of both.
    pub fn take_worse(&mut self, checks: &[Check]) {
        for other in checks {
            match self.checks.iter().find(|check| check.code == other.code) {
                Some(check) if check.verdict.worse(other.verdict) == check.verdict => {}
                _ => self.set_check(other.clone()),
            }
        }
    }

    /// Takes what the generator reaches by itself, and judges the rate by it (H10).
    pub fn set_ceiling(&mut self, ceiling: Ceiling) {
        self.set_check(verdict::generator_ceiling(self.totals.iops, Some(&ceiling)));
        self.ceiling = Some(ceiling);
    }
}

/// The program that made a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `drumfire`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Commit it was built from, when known.
    pub git: Option<String>,
}

/// The kind of job: what decides which results may stand side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Name of the job, as "race" or the name of its file.
    pub name: String,
    /// Length of each I/O in bytes; `null` when it varies.
    pub size_bytes: Option<u32>,
    /// Share of reads, 0 to 100.
    pub read_percent: f64,
    /// Share of random accesses, 0 to 100.
    pub random_percent: f64,
    /// Most I/Os under way at once, over all workers; `null` for a job of a given rate.
    pub outstanding: Option<u64>,
    /// Planned I/Os per second of an open-loop job; `null` for a closed loop.
    pub rate_per_s: Option<f64>,
    /// How many workers drove it.
    pub workers: u32,
    /// How many volumes were driven.
    pub volumes: u32,
    /// How many targets served them; 0 without any.
    pub targets: u32,
    /// How the I/Os got there: "iSCSI", "NVMe/TCP" or "local".
    pub transport: String,
    /// Initiator and target were one host: no wire was measured.
    pub loopback: bool,
    /// What stores: "RAM", "file", "SSD".
    pub storage: String,
    /// Planned length of the measured window in seconds.
    pub seconds: f64,
    /// Planned time before it in seconds.
    pub ramp_seconds: f64,
}

/// The host that ran it. `null` and 0 where unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Processor as it calls itself.
    pub cpu: String,
    /// Logical processors this run could use.
    pub cores: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Hypervisor, when there is one.
    pub hypervisor: Option<String>,
    /// Further facts.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Which logical processors did what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// Where the workers ran.
    pub initiator: Vec<u32>,
    /// Where the targets ran, when they were on this host.
    pub target: Vec<u32>,
    /// Threads were pinned to them.
    pub pinned: bool,
    /// Workers and targets of a processor took turns on one thread: what of its time was whose is
    /// known by the clock.
    pub shared_threads: bool,
}

/// Everything together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Length of the measured window in seconds.
    pub seconds: f64,
    /// I/Os done without a fault.
    pub ios: u64,
    /// I/Os that ended in a fault.
    pub errors: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second, read and written.
    pub bytes_per_second: f64,
    /// Mean number of I/Os under way.
    pub mean_outstanding: f64,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// Flushes and trims.
    #[serde(default)]
    pub other: Direction,
    /// Latencies of all directions in nanoseconds.
    pub latency_ns: Latency,
    /// Of an open loop, whose latencies count from the planned starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced: Option<PacedTotals>,
}

/// What an open loop knows beside its response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacedTotals {
    /// From the actual start to the end, in nanoseconds.
    pub service_ns: Latency,
    /// From the planned start to the actual one, in nanoseconds.
    pub lag_ns: Latency,
    /// I/Os that began late because all that may be outstanding were.
    pub missed: u64,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// I/Os done without a fault.
    pub ios: u64,
    /// I/Os that ended in a fault.
    #[serde(default)]
    pub errors: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Bytes moved.
    #[serde(default)]
    pub bytes: u64,
    /// Latencies in nanoseconds.
    pub latency_ns: Latency,
}

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

/// What one worker did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerResult {
    /// As "manager 1 worker 3".
    pub name: String,
    /// URI of the volume it drove.
    pub volume: String,
    /// Target that served it; empty for local storage.
    #[serde(default)]
    pub target: String,
    /// I/Os done without a fault.
    #[serde(default)]
    pub ios: u64,
    /// I/Os that ended in a fault.
    #[serde(default)]
    pub errors: u64,
    /// How long it worked in the measured window; 0 where that is not known.
    #[serde(default)]
    pub seconds: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    #[serde(default)]
    pub bytes_per_second: f64,
    /// Mean number of I/Os under way.
    #[serde(default)]
    pub mean_outstanding: f64,
    /// Latencies in nanoseconds, exact mean among them.
    pub latency_ns: Latency,
    /// Reads.
    #[serde(default)]
    pub read: Direction,
    /// Writes.
    #[serde(default)]
    pub write: Direction,
    /// Flushes and trims.
    #[serde(default)]
    pub other: Direction,
    /// Every latency, in buckets.
    #[serde(default, skip_serializing_if = "Histograms::is_empty")]
    pub histograms: Histograms,
    /// The depth that it searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<SearchedDepth>,
    /// Why it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedDemand>,
}

/// The greatest depth at which latencies stay below a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedDepth {
    /// I/Os under way.
    pub depth: u32,
    /// The search had come to its end. Otherwise it is the depth that was tried last.
    pub found: bool,
}

/// A demand that a worker did not keep, so that it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissedDemand {
    /// When, in seconds since the measured window began; below 0 before it.
    pub t_s: f64,
    /// What it was.
    pub why: String,
    /// The errno with which fio ends such a job.
    pub errno: u32,
}

/// What happened in one second, over all workers; in a long run in a longer stretch, which ends at
/// `t` and begins where the one before ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, in seconds since the measured window began.
    pub t: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Reads per second.
    #[serde(default)]
    pub read_iops: f64,
    /// Writes per second.
    #[serde(default)]
    pub write_iops: f64,
    /// Bytes read per second.
    #[serde(default)]
    pub read_bytes_per_second: f64,
    /// Bytes written per second.
    #[serde(default)]
    pub write_bytes_per_second: f64,
    /// I/Os that ended in a fault.
    #[serde(default)]
    pub errors: u64,
    /// Mean number of I/Os under way.
    #[serde(default)]
    pub mean_outstanding: f64,
    /// Exact mean latency in nanoseconds.
    #[serde(default)]
    pub mean_ns: Option<f64>,
    /// Median latency in nanoseconds, `null` where too few samples.
    #[serde(default)]
    pub p50_ns: Option<u64>,
    /// 99 % took no longer, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// 99.9 % took no longer, in nanoseconds.
    #[serde(default)]
    pub p99_9_ns: Option<u64>,
    /// The longest, in nanoseconds.
    #[serde(default)]
    pub max_ns: Option<u64>,
}
