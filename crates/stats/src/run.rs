//! The result document: all facts about a run, under the names that users script against. `docs`
//! call it `result.json`; every other format is derived from it.

mod cost;
mod counted;
mod host;
mod part;
mod rows;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::Bound;
use crate::buckets::{Histograms, Span};
use crate::failures::Failure;
use crate::kind::Kind;
use crate::verdict::{self, Ceiling, Check, Class, Client, FewerCores};

pub use self::cost::{Cpu, DeviceUse, KernelThread, MeasuringCost, Processor};
pub use self::counted::{
    Connections, Direction, MissedDemand, PacedTotals, Ramp, SearchedDepth, Second, Totals,
    Waiting, WorkerResult,
};
pub use self::host::{Host, Placement};
pub use self::part::{
    CommonWindow, ExactTotals, HostApart, HostResult, PART_LAYOUT, Part, ServerResult, WallClock,
};
pub use self::rows::{WorkerRow, WorkerRows};

/// Version of the document's layout. The version grows when a name changes its meaning or is
/// removed: since 2 latencies include the I/Os in flight at the end of the window; since 3 every
/// check of the [list](verdict::ALL) is present, also one that does not apply; since 4 flushes are
/// separate, in no rate and no total latency; since 5 H25 and H26 are present.
pub const SCHEMA_VERSION: u32 = 5;
/// Figures of layouts from this one on have the same meaning.
pub const SAME_FIGURES_SINCE: u32 = 2;
/// Layouts from this one on have separate flushes; without flushes earlier figures are the same.
pub const FLUSHES_APART_SINCE: u32 = 4;
/// Layouts from this one on have every check.
pub const EVERY_CHECK_SINCE: u32 = 3;

/// Momentary run: a worker was active for less than one part in this many of its configured time.
const MOMENTARY: f64 = 20.0;

/// Origin of the numbers, shown next to every figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Real I/O to the named storage.
    #[default]
    Measured,
    /// Real I/O to an imitation of the named storage.
    Emulated,
    /// No I/O: a model in virtual time.
    Simulated,
}

impl Origin {
    /// Returns the word for the origin.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Measured => "measured",
            Origin::Emulated => "emulated",
            Origin::Simulated => "simulated",
        }
    }

    /// Returns the word for the origin and, for a model, the certainty of its figures: "simulated
    /// (figures: derived)".
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
    /// Program that made the result.
    pub tool: Tool,
    /// Origin of the numbers.
    pub origin: Origin,
    /// Least certain kind of the figures used for the numbers, if a model computed them; `None` if
    /// I/Os were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Class of the result, derived from the checks.
    pub class: Class,
    /// The honesty checks.
    pub checks: Vec<Check>,
    /// Bounds that the user set, with their verdicts, which determined the exit code.
    #[serde(rename = "gates", alias = "bounds")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// Kind of the job, in the terms by which results are compared.
    #[serde(default)]
    pub job: Job,
    /// The whole job, from which the run can be repeated.
    pub spec: Value,
    /// Host of the run.
    pub host: Host,
    /// Placement of workers and targets on CPUs.
    #[serde(default)]
    pub placement: Placement,
    /// Beginning of the measured window, RFC 3339.
    pub started: String,
    /// Seed of every pattern.
    pub seed: u64,
    /// Reason why the run is incomplete, if it is: "interrupted after 3 s of 10 s".
    #[serde(default)]
    pub partial: Option<String>,
    /// Totals over all workers.
    pub totals: Totals,
    /// Cost in CPU time.
    pub cpu: Cpu,
    /// Part of that cost that measuring caused, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MeasuringCost>,
    /// Usage of each logical CPU, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<Processor>,
    /// Kernel threads that used CPU time, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_threads: Vec<KernelThread>,
    /// Activity of the block devices below the volumes in the measured window, by device name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
    /// I/Os that ended in a fault, with the cause: the earliest kind first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Failed I/Os of further kinds, which are only counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures_unlisted: u64,
    /// Results of each worker.
    pub workers: Vec<WorkerResult>,
    /// Rows of each second; beyond 4,096 rows, of stretches of 2, 4, 8 … seconds.
    pub intervals: Vec<Second>,
    /// Rate that the generator reaches without storage, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// Rate with half of the client's CPUs, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewer_cores: Option<FewerCores>,
    /// Every latency of the measured window, in buckets.
    #[serde(default, skip_serializing_if = "Histograms::is_empty")]
    pub histograms: Histograms,
    /// Histograms over time, all directions together: seconds, or longer spans of a long run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// Data for a merge with the results of other hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Hosts of a merged result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostResult>,
    /// Hosts that served the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerResult>,
    /// Time between the first and the last host's start in a merged result, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew_ns: Option<u64>,
    /// Time in which all hosts of a merged result measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_window: Option<CommonWindow>,
    /// Warnings to the reader, in sentences.
    pub warnings: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl RunResult {
    /// Replaces the check of the same number with one that was made later, and derives the class
    /// again.
    pub fn set_check(&mut self, check: Check) {
        self.checks.retain(|old| old.code != check.code);
        self.checks.push(check);
        self.checks.sort_by(|a, b| a.code.cmp(&b.code));
        self.class = self.judged();
    }

    /// Returns the class that results from the checks, by the rule of the document's layout.
    pub fn judged(&self) -> Class {
        match self.schema_version < EVERY_CHECK_SINCE {
            true => Class::of_earlier(&self.checks),
            false => Class::of_layout(self.schema_version, &self.checks),
        }
    }

    /// Merges the checks of another run of the same job, the worse verdict of each: the class is
    /// then that of both runs.
    pub fn take_worse(&mut self, checks: &[Check]) {
        let lacks = |code: &str| !checks.iter().any(|check| check.code == code);
        let lacking = verdict::of_layout(self.schema_version).filter(|listed| lacks(listed.code));
        let unmade: Vec<Check> = match self.schema_version < EVERY_CHECK_SINCE {
            true => Vec::new(),
            false => lacking
                .map(|it| Check::unknown(it.code, "not made in one of the merged runs"))
                .collect(),
        };
        for other in checks.iter().chain(&unmade) {
            match self.checks.iter().find(|check| check.code == other.code) {
                Some(check) if check.verdict.worse(other.verdict) == check.verdict => {}
                _ => self.set_check(other.clone()),
            }
        }
    }

    /// Counts unanswered I/Os of a run that is not over: for each worker the oldest one, of this
    /// age in nanoseconds, if it is older than all completed ones.
    pub fn count_waiting(&mut self, oldest_ns: &[u64]) {
        for (worker, oldest_ns) in self.workers.iter_mut().zip(oldest_ns) {
            let latency = &mut worker.latency_ns;
            if *oldest_ns == 0 || Some(*oldest_ns) <= latency.max {
                continue;
            }
            let waiting = Waiting { ios: 1, oldest_ns: *oldest_ns };
            worker.waiting.add(waiting);
            self.totals.waiting.add(waiting);
            for latency in [latency, &mut self.totals.latency_ns] {
                latency.max = latency.max.max(Some(*oldest_ns));
                let from = latency.waiting_from.map_or(*oldest_ns, |ns| ns.min(*oldest_ns));
                latency.waiting_from = Some(from);
            }
        }
    }

    /// Returns the length as a repeat (H20), in seconds: the configured one, if at least half of it
    /// was measured, as a busy host begins late. Otherwise the measured one: the work was complete,
    /// or the run was interrupted.
    pub fn repeat_seconds(&self) -> f64 {
        let (asked_s, measured_s) = (self.job.seconds, self.totals.seconds);
        let whole = self.partial.is_none() && measured_s >= asked_s / 2.0;
        if whole { measured_s.max(asked_s) } else { measured_s }
    }

    /// Returns the reason why the run is no repeat of a longer one: a worker was active for less
    /// than a twentieth of its configured time. On a very busy host a worker may begin when the run
    /// is nearly over.
    pub fn momentary(&self) -> Option<String> {
        let is_short = |worker: &&WorkerResult| {
            worker.asked_seconds.is_some_and(|asked_s| worker.seconds < asked_s / MOMENTARY)
        };
        let worker = self.workers.iter().find(is_short)?;
        Some(format!(
            "{} was active for {:.2} of {:.2} s, which is too short for a repeat",
            worker.name,
            worker.seconds,
            worker.asked_seconds.unwrap_or_default(),
        ))
    }

    /// Sets the rate that the generator reaches without storage, and judges the rate by it (H10).
    pub fn set_ceiling(&mut self, ceiling: Ceiling) {
        self.ceiling = Some(ceiling);
        self.judge_client();
    }

    /// Sets the rate with half of the client's CPUs, and judges the rate by it, too (H10).
    pub fn set_fewer_cores(&mut self, fewer: FewerCores) {
        self.fewer_cores = Some(fewer);
        self.judge_client();
    }

    fn judge_client(&mut self) {
        let iops = self.totals.iops;
        let mut checks = vec![verdict::generator_ceiling(iops, self.ceiling.as_ref())];
        if let Some(ceiling) = &self.ceiling {
            checks.push(verdict::client(iops, ceiling, &self.client()));
        }
        verdict::joined(checks).into_iter().for_each(|check| self.set_check(check));
    }

    /// Returns the usage of the workers' CPUs.
    fn client(&self) -> Client {
        let own = &self.placement.initiator;
        let busy = |cpu: &u32| {
            let one = self.processors.get(*cpu as usize)?;
            let programs = one.user_percent + one.system_percent;
            Some((programs + one.irq_percent + one.softirq_percent) / 100.0)
        };
        let fewer = self.fewer_cores.clone();
        Client { cores: own.len() as u32, busy: own.iter().map(busy).sum(), fewer }
    }
}

/// The program that made a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `drumfire`.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Commit of the build, if known.
    pub git: Option<String>,
}

/// The kind of job, which determines the results that may be compared with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Name of the job: "race" or the name of its file.
    pub name: String,
    /// I/O size in bytes; `null` if it varies.
    pub size_bytes: Option<u32>,
    /// Share of reads, 0 to 100.
    pub read_percent: f64,
    /// Share of random accesses, 0 to 100.
    pub random_percent: f64,
    /// Maximum number of I/Os in flight, over all workers; `null` for a job of a given rate.
    pub outstanding: Option<u64>,
    /// Planned I/Os per second of an open-loop job; `null` for a closed loop.
    pub rate_per_s: Option<f64>,
    /// Number of workers.
    pub workers: u32,
    /// Number of volumes.
    pub volumes: u32,
    /// Number of targets that served the volumes; 0 for local storage.
    pub targets: u32,
    /// Transport of the I/Os: "iSCSI", "NVMe/TCP" or "local".
    pub transport: String,
    /// True if initiator and target were one host: no wire was measured.
    pub loopback: bool,
    /// Storage medium: "RAM", "file", "SSD".
    pub storage: String,
    /// Planned length of the measured window in seconds.
    pub seconds: f64,
    /// Planned ramp time before the window, in seconds.
    pub ramp_seconds: f64,
}
