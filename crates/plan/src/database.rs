//! A database on a drive: the demands of its transactions on host and drive, and its commits per
//! second on a drive on which it was never measured.
//!
//! The description is derived from the database on any one drive, preferably memory, with the
//! counters of the block device and of the database ([`Database`]). The drive is a
//! [`Profile`](model::device::Profile). Both are simulated in virtual time: clients read pages one
//! after another, one write of the log and one flush commit all waiting clients, dirty pages are
//! written in the background, checkpoints catch up.

mod host;
mod restart;
mod world;

#[cfg(test)]
mod test;

use model::device::Profile;
use serde::{Deserialize, Serialize};

use crate::simulate::SimulateError;

/// A database, described by its load on the drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Name of the database.
    pub name: String,
    /// Number of clients, each with one transaction at a time; 1 to 10,000.
    pub clients: u32,
    /// Number of cores of the host, 1 to 1024.
    pub cores: u32,
    /// Size of the data files in bytes; their pages are read and written at random.
    pub data_bytes: f64,
    /// Capacity of the drive in bytes.
    pub drive_bytes: f64,
    /// Size of a page in bytes.
    #[serde(default = "page")]
    pub page_bytes: u32,
    /// The transaction.
    pub transaction: Transaction,
    /// Background writes.
    pub writeback: Writeback,
    /// Crash recovery; not predicted without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// Mean demands of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// CPU seconds: of database, client, kernel and everything in between.
    pub cpu_s: f64,
    /// Number of cache misses: pages read one after another.
    pub reads: f64,
    /// Bytes of log.
    pub log_bytes: f64,
    /// Number of pages made dirty, which are written in the background.
    pub writes: f64,
    /// Number of hot rows, of which each transaction locks one until its commit; 0 for none.
    #[serde(default)]
    pub hot_rows: u32,
}

/// Write-back of dirty pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writeback {
    /// Number of writes in flight between checkpoints.
    pub depth: u32,
    /// Number of pages gathered before they are written together, as PostgreSQL has the kernel do
    /// it (`bgwriter_flush_after`, `checkpoint_flush_after`).
    #[serde(default = "one")]
    pub burst: u32,
    /// Number of writes in flight when a checkpoint waits for them.
    pub sync_depth: u32,
    /// Maximum number of dirty pages; above it clients wait.
    pub pages_max: u32,
    /// Seconds from the start of a checkpoint to that of the next.
    pub checkpoint_s: f64,
    /// Bytes of log that start the next one earlier; never if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_log_bytes: Option<f64>,
    /// Number of flushes at the end of a checkpoint, one after the other, one for each file.
    pub files: u32,
}

/// Crash recovery, per byte of log since the start of the last checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// CPU seconds per byte of log.
    pub cpu_s_per_byte: f64,
    /// Reads of log and pages per byte of log.
    pub reads_per_byte: f64,
    /// Size of a read in bytes.
    pub read_bytes: u32,
    /// Number of reads in flight.
    pub read_depth: u32,
    /// Writes per byte of log.
    pub writes_per_byte: f64,
    /// Size of a write in bytes.
    pub write_bytes: u32,
    /// Number of flushes, one after another, whatever the length of the log.
    pub flushes: u32,
    /// Fixed seconds, whatever the log and the drive.
    pub fixed_s: f64,
}

/// The simulated window, in seconds of virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    /// Ramp time before the window.
    pub warmup_s: f64,
    /// Length of the window.
    pub seconds: f64,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Predicted performance of a database on a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Commits per second.
    pub tps: f64,
    /// Latency of a transaction.
    pub transaction: Times,
    /// Latency of the commit.
    pub commit: Times,
    /// Number of transactions per flush (group commit).
    pub group: f64,
    /// CPU usage, as a share of all cores.
    pub cpu_share: f64,
    /// Peak number of dirty pages.
    pub backlog_pages: u32,
    /// Bytes of log that crash recovery at the end reads.
    pub redo_bytes: f64,
    /// Seconds of crash recovery at the end, if described.
    pub recovery_s: Option<f64>,
}

/// Times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Mean.
    pub mean_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Maximum.
    pub max_s: f64,
}

impl Database {
    /// Parses a description.
    ///
    /// # Errors
    ///
    /// The reason, with line or key.
    pub fn parse(text: &str) -> Result<Database, String> {
        let database: Database = toml::from_str(text).map_err(|error| error.to_string())?;
        database.check()?;
        Ok(database)
    }

    /// Checks every value.
    ///
    /// # Errors
    ///
    /// Key and range.
    pub fn check(&self) -> Result<(), String> {
        let of = |key: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(format!("{key} = {value}: {low} to {high}")),
        };
        let Database { transaction: own, writeback: behind, .. } = self;
        of("clients", self.clients.into(), 1.0, 10_000.0)?;
        of("cores", self.cores.into(), 1.0, 1024.0)?;
        of("page_bytes", self.page_bytes.into(), 512.0, 1_048_576.0)?;
        of("data_bytes", self.data_bytes, self.page_bytes.into(), 1e18)?;
        of("drive_bytes", self.drive_bytes, self.data_bytes, 1e18)?;
        of("transaction.cpu_s", own.cpu_s, 1e-7, 100.0)?;
        of("transaction.reads", own.reads, 0.0, 10_000.0)?;
        of("transaction.log_bytes", own.log_bytes, 1.0, 1e8)?;
        of("transaction.writes", own.writes, 0.0, 10_000.0)?;
        of("transaction.hot_rows", own.hot_rows.into(), 0.0, 1e6)?;
        of("writeback.depth", behind.depth.into(), 1.0, 4096.0)?;
        of("writeback.burst", behind.burst.into(), 1.0, 1e6)?;
        of("writeback.sync_depth", behind.sync_depth.into(), 1.0, 4096.0)?;
        of("writeback.pages_max", behind.pages_max.into(), 1.0, 1e9)?;
        of("writeback.checkpoint_s", behind.checkpoint_s, 1e-3, 1e6)?;
        let log = behind.checkpoint_log_bytes.unwrap_or(1.0);
        of("writeback.checkpoint_log_bytes", log, 1.0, 1e15)?;
        of("writeback.files", behind.files.into(), 0.0, 1e5)?;
        let Some(after) = &self.recovery else { return Ok(()) };
        of("recovery.cpu_s_per_byte", after.cpu_s_per_byte, 0.0, 1.0)?;
        of("recovery.reads_per_byte", after.reads_per_byte, 0.0, 1.0)?;
        of("recovery.writes_per_byte", after.writes_per_byte, 0.0, 1.0)?;
        of("recovery.read_depth", after.read_depth.into(), 1.0, 4096.0)?;
        of("recovery.flushes", after.flushes.into(), 0.0, 1e6)?;
        of("recovery.read_bytes", after.read_bytes.into(), 512.0, 16_777_216.0)?;
        of("recovery.write_bytes", after.write_bytes.into(), 512.0, 16_777_216.0)?;
        of("recovery.fixed_s", after.fixed_s, 0.0, 1e5)
    }

    /// Simulates the database on a drive of this profile, event by event.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Access`] for an invalid description or a watch without a commit,
    /// [`SimulateError::Model`] if the drive refuses the load.
    pub fn on(&self, drive: &Profile, watch: Watch) -> Result<Forecast, SimulateError> {
        self.check().map_err(SimulateError::Access)?;
        let mut forecast = world::run(self, drive, watch)?;
        if let Some(after) = &self.recovery {
            let redo = forecast.redo_bytes;
            forecast.recovery_s = Some(restart::run(self, after, drive, redo, watch.seed)?);
        }
        Ok(forecast)
    }
}

fn one() -> u32 {
    1
}

fn page() -> u32 {
    8192
}
