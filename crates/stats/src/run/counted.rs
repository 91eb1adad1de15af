//! What was counted: in all, by each worker, in each second.

use block::Connection;
use serde::{Deserialize, Serialize};

use crate::buckets::Histograms;
use crate::histogram::Latency;
use crate::run::rows::WorkerRows;
use crate::series::Rates;

/// What became of the connections with targets. All zero for local storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Connections that were made again after they had been lost.
    pub reconnects: u64,
    /// Connections that were lost: reset or closed by the target, or given up by a time-out.
    pub connections_lost: u64,
    /// Attempts to make one again that failed.
    pub failed_attempts: u64,
    /// How long there was none, in seconds; of several workers in all.
    pub disconnected_seconds: f64,
}

impl From<Connection> for Connections {
    fn from(counted: Connection) -> Connections {
        Connections {
            reconnects: counted.reconnects,
            connections_lost: counted.lost,
            failed_attempts: counted.failed_attempts,
            disconnected_seconds: counted.disconnected.as_secs_f64(),
        }
    }
}

/// What became of connections before the measured window. It is in no rate and no latency, yet a
/// reader who saw it go by looks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ramp {
    /// Connections that were lost.
    pub connections_lost: u64,
    /// Connections that were made again.
    pub reconnects: u64,
}

impl Ramp {
    /// Whether none was lost or made again.
    pub fn is_quiet(&self) -> bool {
        *self == Ramp::default()
    }
}

/// I/Os that had no answer when the result was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// How many. They count in the latencies with the age that they had reached.
    pub ios: u64,
    /// Age of the oldest in nanoseconds.
    pub oldest_ns: u64,
}

impl Waiting {
    /// Whether everything was answered.
    pub fn is_none(&self) -> bool {
        self.ios == 0
    }

    /// Counts those of `other`, too.
    pub fn add(&mut self, other: Waiting) {
        self.ios += other.ios;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
    }
}

/// Everything together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Length of the measured window in seconds, as far as I/Os could happen in it: the sum of the
    /// rows.
    pub seconds: f64,
    /// I/Os done without a fault: reads, writes and trims.
    pub ios: u64,
    /// I/Os and flushes that ended in a fault.
    pub errors: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second, read and written.
    pub bytes_per_second: f64,
    /// Mean number of I/Os in flight.
    pub mean_outstanding: f64,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// Trims.
    #[serde(default)]
    pub trim: Direction,
    /// Flushes, which are in none of the other numbers but `errors`; of documents before layout 4
    /// trims, too.
    #[serde(default, alias = "other")]
    pub flush: Direction,
    /// Latencies of all directions in nanoseconds.
    pub latency_ns: Latency,
    /// I/Os that had no answer at the end.
    #[serde(default, skip_serializing_if = "Waiting::is_none")]
    pub waiting: Waiting,
    /// I/Os that ended in a fault before the measured window: in no other number here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ramp_errors: u64,
    /// Connections lost and made again.
    #[serde(flatten)]
    pub connections: Connections,
    /// Connections lost and made again before the measured window.
    #[serde(default, skip_serializing_if = "Ramp::is_quiet")]
    pub ramp: Ramp,
    /// Of an open loop, whose latencies count from the planned starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced: Option<PacedTotals>,
}

impl Totals {
    /// I/Os and flushes done without a fault.
    pub fn completed(&self) -> u64 {
        self.ios + self.flush.ios
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_none(count: &u32) -> bool {
    *count == 0
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
    /// I/Os whose planned start came, and that never began, because all that may be outstanding
    /// were. They count in the latencies with the age that they had reached.
    #[serde(default, skip_serializing_if = "Waiting::is_none")]
    pub backlog: Waiting,
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
    /// Rates of the seconds in which a worker was there; of workers only.
    #[serde(default, skip_serializing_if = "Rates::is_none")]
    pub each_second: Rates,
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
    /// Mean number of I/Os in flight.
    #[serde(default)]
    pub mean_outstanding: f64,
    /// Latencies in nanoseconds, exact mean among them.
    pub latency_ns: Latency,
    /// I/Os that had no answer at the end.
    #[serde(default, skip_serializing_if = "Waiting::is_none")]
    pub waiting: Waiting,
    /// Whole seconds of the window in which it finished no I/O while another worker did.
    #[serde(default, skip_serializing_if = "is_none")]
    pub idle_seconds: u32,
    /// Reads.
    #[serde(default)]
    pub read: Direction,
    /// Writes.
    #[serde(default)]
    pub write: Direction,
    /// Trims.
    #[serde(default)]
    pub trim: Direction,
    /// Flushes, which are in none of the other numbers but `errors`; of documents before layout 4
    /// trims, too.
    #[serde(default, alias = "other")]
    pub flush: Direction,
    /// Connections lost and made again.
    #[serde(flatten)]
    pub connections: Connections,
    /// Every latency, in buckets.
    #[serde(default, skip_serializing_if = "Histograms::is_empty")]
    pub histograms: Histograms,
    /// The depth that it searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<SearchedDepth>,
    /// Why it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedDemand>,
    /// For how long it was to be measured; `None` where its work, or that of others, may end it
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_seconds: Option<f64>,
    /// Second by second, beyond a limit for stretches of 2, 4, 8 … seconds; empty in documents of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "WorkerRows::is_empty")]
    pub intervals: WorkerRows,
}

/// The greatest depth at which latencies stay below a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedDepth {
    /// I/Os in flight.
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

/// What happened in one second, over all workers; in a long run in a longer stretch. Rates are the
/// counts over `seconds`. A second in which no I/O could happen has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, in seconds since the first instant of the window in which an I/O could
    /// happen.
    pub t: f64,
    /// How much of the time up to `t` is of this row: that in which I/Os could happen, in seconds.
    /// The last row of work that ends by itself ends with it. 0 in documents from before it was
    /// told: then the row begins where the one before ends.
    #[serde(default)]
    pub seconds: f64,
    /// I/Os done without a fault.
    #[serde(default)]
    pub ios: u64,
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
    /// Flushes per second, which are no I/Os.
    #[serde(default)]
    pub flush_iops: f64,
    /// Bytes read per second.
    #[serde(default)]
    pub read_bytes_per_second: f64,
    /// Bytes written per second.
    #[serde(default)]
    pub write_bytes_per_second: f64,
    /// I/Os that ended in a fault.
    #[serde(default)]
    pub errors: u64,
    /// Connections that were lost.
    #[serde(default)]
    pub connections_lost: u64,
    /// Connections that were made again.
    #[serde(default)]
    pub reconnects: u64,
    /// Mean number of I/Os in flight.
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
    /// The longest, in nanoseconds: of those that were done, or the age of one that still had no
    /// answer when the second ended.
    #[serde(default)]
    pub max_ns: Option<u64>,
    /// Age of the oldest I/O that had no answer when the second ended, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ns: Option<u64>,
    /// As [`Latency::waiting_from`], in the last second of a run: latencies from here on are lower
    /// bounds, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_from_ns: Option<u64>,
}
