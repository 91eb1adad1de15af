//! Counts of a run: in all, by worker, by second.

use block::Connection;
use serde::{Deserialize, Serialize};

use crate::buckets::Histograms;
use crate::histogram::Latency;
use crate::run::rows::WorkerRows;
use crate::series::Rates;

/// Events of the connections with targets. All zero for local storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Reconnects after a lost connection.
    pub reconnects: u64,
    /// Lost connections: reset or closed by the target, or timed out.
    pub connections_lost: u64,
    /// Failed attempts to reconnect.
    pub failed_attempts: u64,
    /// Time without a connection, in seconds; for several workers the sum.
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

/// Events of connections before the measured window. No rate and no latency includes them, yet a
/// reader who saw one happen looks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ramp {
    /// Lost connections.
    pub connections_lost: u64,
    /// Reconnects.
    pub reconnects: u64,
}

impl Ramp {
    /// Returns whether no connection was lost or restored.
    pub fn is_quiet(&self) -> bool {
        *self == Ramp::default()
    }
}

/// Unanswered I/Os when the result was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// Number of unanswered I/Os. Latencies include them with the age that they had reached.
    pub ios: u64,
    /// Age of the oldest unanswered I/O in nanoseconds.
    pub oldest_ns: u64,
}

impl Waiting {
    /// Returns whether every I/O was answered.
    pub fn is_none(&self) -> bool {
        self.ios == 0
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: Waiting) {
        self.ios += other.ios;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
    }
}

/// Totals over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Length of the measured window in seconds, as far as I/Os could happen in it: the sum of the
    /// rows.
    pub seconds: f64,
    /// I/Os completed without a fault: reads, writes and trims.
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
    /// Flushes. No other field except `errors` includes them; in documents before layout 4 they
    /// include trims.
    #[serde(default, alias = "other")]
    pub flush: Direction,
    /// Latencies of all directions in nanoseconds.
    pub latency_ns: Latency,
    /// Unanswered I/Os at the end.
    #[serde(default, skip_serializing_if = "Waiting::is_none")]
    pub waiting: Waiting,
    /// I/Os that ended in a fault before the measured window; no other field includes them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ramp_errors: u64,
    /// Connections lost and restored.
    #[serde(flatten)]
    pub connections: Connections,
    /// Connections lost and restored before the measured window.
    #[serde(default, skip_serializing_if = "Ramp::is_quiet")]
    pub ramp: Ramp,
    /// Figures of an open loop, whose latencies count from the planned starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced: Option<PacedTotals>,
}

impl Totals {
    /// Returns the I/Os and flushes completed without a fault.
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

/// Figures of an open loop in addition to its response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacedTotals {
    /// Service time: from the actual start to the end, in nanoseconds.
    pub service_ns: Latency,
    /// Lag: from the planned start to the actual one, in nanoseconds.
    pub lag_ns: Latency,
    /// I/Os that started late because the queue depth was reached.
    pub missed: u64,
    /// I/Os whose planned start passed and that never started, because the queue depth was reached.
    /// Latencies include them with the age that they had reached.
    #[serde(default, skip_serializing_if = "Waiting::is_none")]
    pub backlog: Waiting,
}

/// Figures of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// I/Os completed without a fault.
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
    /// Rates of the seconds in which the worker was active; only in rows of workers.
    #[serde(default, skip_serializing_if = "Rates::is_none")]
    pub each_second: Rates,
}

/// Results of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerResult {
    /// Name, such as "manager 1 worker 3".
    pub name: String,
    /// URI of the volume that the worker drove.
    pub volume: String,
    /// Target that served the volume; empty for local storage.
    #[serde(default)]
    pub target: String,
    /// I/Os completed without a fault.
    #[serde(default)]
    pub ios: u64,
    /// I/Os that ended in a fault.
    #[serde(default)]
    pub errors: u64,
    /// Active time in the measured window, in seconds; 0 if unknown.
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
    /// Latencies in nanoseconds, including the exact mean.
    pub latency_ns: Latency,
    /// Unanswered I/Os at the end.
    #[serde(default, skip_serializing_if = "Waiting::is_none")]
    pub waiting: Waiting,
    /// Whole seconds of the window in which the worker completed no I/O while another worker did.
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
    /// Flushes. No other field except `errors` includes them; in documents before layout 4 they
    /// include trims.
    #[serde(default, alias = "other")]
    pub flush: Direction,
    /// Connections lost and restored.
    #[serde(flatten)]
    pub connections: Connections,
    /// Every latency, in buckets.
    #[serde(default, skip_serializing_if = "Histograms::is_empty")]
    pub histograms: Histograms,
    /// Result of the worker's search for a queue depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<SearchedDepth>,
    /// Demand that ended the worker before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedDemand>,
    /// Configured time in seconds; `None` if the worker's own work, or that of others, may end it
    /// earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_seconds: Option<f64>,
    /// Second by second, beyond a limit for stretches of 2, 4, 8 … seconds; empty in documents of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "WorkerRows::is_empty")]
    pub intervals: WorkerRows,
}

/// The greatest queue depth at which latencies stay below a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedDepth {
    /// I/Os in flight.
    pub depth: u32,
    /// True if the search is complete. Otherwise `depth` is the one that was tried last.
    pub found: bool,
}

/// A demand that a worker did not meet, so that it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissedDemand {
    /// Time of the miss, in seconds since the measured window began; negative before the window.
    pub t_s: f64,
    /// Description of the demand.
    pub why: String,
    /// The errno with which fio ends such a job.
    pub errno: u32,
}

/// Counts of one second, over all workers; in a long run of a longer stretch. Rates are the counts
/// over `seconds`. A second in which no I/O could happen has no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, in seconds since the first instant of the window in which an I/O could
    /// happen.
    pub t: f64,
    /// Part of the time up to `t` that belongs to this row: that in which I/Os could happen, in
    /// seconds. The last row of work that ends by itself ends with the work. 0 in documents that
    /// lack the field: then the row begins where the previous one ends.
    #[serde(default)]
    pub seconds: f64,
    /// I/Os completed without a fault.
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
    /// Lost connections.
    #[serde(default)]
    pub connections_lost: u64,
    /// Reconnects.
    #[serde(default)]
    pub reconnects: u64,
    /// Mean number of I/Os in flight.
    #[serde(default)]
    pub mean_outstanding: f64,
    /// Exact mean latency in nanoseconds.
    #[serde(default)]
    pub mean_ns: Option<f64>,
    /// Median latency in nanoseconds, `null` if there are too few samples.
    #[serde(default)]
    pub p50_ns: Option<u64>,
    /// 99th percentile of the latency, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile of the latency, in nanoseconds.
    #[serde(default)]
    pub p99_9_ns: Option<u64>,
    /// Maximum latency in nanoseconds: of the completed I/Os, or the age of one that was unanswered
    /// at the end of the second.
    #[serde(default)]
    pub max_ns: Option<u64>,
    /// Age of the oldest unanswered I/O at the end of the second, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ns: Option<u64>,
    /// [`Latency::waiting_from`] of the last second of a run: latencies from this one on are lower
    /// bounds, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_from_ns: Option<u64>,
}
