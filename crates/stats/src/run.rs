//! The result document: everything that is known about a run, under the names users script
//! against. `docs` call it `result.json`; every other rendering is made from it.

mod cost;
mod counted;
mod host;
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
pub use self::rows::{WorkerRow, WorkerRows};

/// Version of the document's layout. It grows when a name changes its meaning or goes away: since 2
/// latencies have the I/Os, too, that were in flight when the window ended, since 3 every check of
/// the [list](verdict::ALL) is there, also one that does not apply, since 4 flushes are apart: in
/// no rate and no latency of all, and since 5 H25 and H26 are there.
pub const SCHEMA_VERSION: u32 = 5;
/// Figures of layouts from this one on have the same meaning.
pub const SAME_FIGURES_SINCE: u32 = 2;
/// Layouts from this one on have flushes apart; without flushes earlier figures are the same.
pub const FLUSHES_APART_SINCE: u32 = 4;
/// Layouts from this one on have every check.
pub const EVERY_CHECK_SINCE: u32 = 3;

/// A run of less than one part in so many of its time is a moment.
const MOMENTARY: f64 = 20.0;

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
    /// Bounds that the user set, and whether they were kept: the exit code followed from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
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
    /// What measuring cost of that, as far as it was found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MeasuringCost>,
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
    /// What half of the client's processors reach, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewer_cores: Option<FewerCores>,
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
        self.class = self.judged();
    }

    /// The class that its checks come to, by the rule of its layout.
    pub fn judged(&self) -> Class {
        match self.schema_version < EVERY_CHECK_SINCE {
            true => Class::of_earlier(&self.checks),
            false => Class::of_layout(self.schema_version, &self.checks),
        }
    }

    /// Takes what checks of another run of the same job came to, where that is worse: the class
    /// is then one of both.
    pub fn take_worse(&mut self, checks: &[Check]) {
        let lacks = |code: &str| !checks.iter().any(|check| check.code == code);
        let lacking = verdict::of_layout(self.schema_version).filter(|listed| lacks(listed.code));
        let unmade: Vec<Check> = match self.schema_version < EVERY_CHECK_SINCE {
            true => Vec::new(),
            false => lacking.map(|it| Check::unknown(it.code, "not made in another run")).collect(),
        };
        for other in checks.iter().chain(&unmade) {
            match self.checks.iter().find(|check| check.code == other.code) {
                Some(check) if check.verdict.worse(other.verdict) == check.verdict => {}
                _ => self.set_check(other.clone()),
            }
        }
    }

    /// Counts what waits in a run that is not over: with each worker its oldest I/O without an
    /// answer, of this age in nanoseconds, if that is older than all that came back.
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

    /// For how long it counts as a repeat (H20), in seconds: as long as was asked for, if at least
    /// half of it was measured, for a busy host begins late. Else as long as was measured: its work
    /// was done, or it was cut.
    pub fn repeat_seconds(&self) -> f64 {
        let (asked_s, measured_s) = (self.job.seconds, self.totals.seconds);
        let whole = self.partial.is_none() && measured_s >= asked_s / 2.0;
        if whole { measured_s.max(asked_s) } else { measured_s }
    }

    /// Why it is no repeat of a longer run: a worker was there for less than a twentieth of the
    /// time that was asked for. On a host that is busy enough it begins when all is nearly over.
    pub fn momentary(&self) -> Option<String> {
        let is_short = |worker: &&WorkerResult| {
            worker.asked_seconds.is_some_and(|asked_s| worker.seconds < asked_s / MOMENTARY)
        };
        let worker = self.workers.iter().find(is_short)?;
        Some(format!(
            "{} worked for {:.2} of {:.2} s: a moment is no repeat",
            worker.name,
            worker.seconds,
            worker.asked_seconds.unwrap_or_default(),
        ))
    }

    /// Takes what the generator reaches by itself, and judges the rate by it (H10).
    pub fn set_ceiling(&mut self, ceiling: Ceiling) {
        self.ceiling = Some(ceiling);
        self.judge_client();
    }

    /// Takes what half of the client's processors reach, and judges the rate by it, too (H10).
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

    /// What is known of the workers' processors.
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
    /// Most I/Os in flight at once, over all workers; `null` for a job of a given rate.
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
