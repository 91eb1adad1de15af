//! Workload of one worker: queue depth, pacing, access and data.

use block::Geometry;
use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::control::{Demands, DepthSearch, Flow, Think};
use super::data_pattern::DataPattern;
use super::defaults::{hundred, is_default, one, yes};
use super::size::{self, Range};

/// Workload of one worker on its volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Queue depth, 1 to 65536: a closed loop always has this many I/Os in flight.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Low watermark: once the queue depth is reached, no I/O starts until only this many are in
    /// flight; `None` starts one for each that completes. For closed loops only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill_at: Option<u32>,
    /// Start times of I/Os.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pacing: Pacing,
    /// Operations, sizes and offsets of I/Os.
    pub access: Access,
    /// Used part of the volume.
    #[serde(default, skip_serializing_if = "Range::is_whole")]
    pub range: Range,
    /// Data to write.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: Content,
    /// Verification: writes are stamped and reads compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Bytes after which the worker stops. Bytes of the ramp count, those that fill a volume for
    /// verification do not.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub limit_bytes: Option<u64>,
    /// Number of I/Os after which the worker stops; flushes between them do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ios: Option<u64>,
    /// True if the worker ends with a flush, which it waits for: the measured window lasts until
    /// then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_flush: bool,
    /// True if the worker stops when a write finds no space on the file system; that is no failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub until_full: bool,
    /// Think time between I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Demands that end the worker early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demands: Option<Demands>,
    /// Search for the queue depth, up to the outstanding I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_search: Option<DepthSearch>,
    /// Flow control: the worker's share of the I/Os of several workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
}

/// Start times of I/Os.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Pacing {
    /// Closed loop: an I/O starts when another one completes, so the volume sets the pace.
    #[default]
    Closed,
    /// Open loop: I/Os per second of each worker, whatever the volume does. Response time counts
    /// from the planned start.
    Ios {
        /// I/Os per second.
        per_second: f64,
        /// Distribution of the planned starts.
        #[serde(default)]
        arrivals: Arrivals,
    },
    /// Open loop: bytes per second of each worker.
    Bytes {
        /// Bytes per second.
        per_second: f64,
        /// Distribution of the planned starts.
        #[serde(default)]
        arrivals: Arrivals,
    },
}

/// Distribution of the planned starts of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Equidistant.
    #[default]
    Constant,
    /// Poisson process: intervals are independent and distributed exponentially.
    Poisson,
}

/// Data to write. Incompressible and unique by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Compressible share of each chunk, 0 to 100.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compress_percent: f64,
    /// Size of a chunk in bytes: 512 to 1 MiB, a multiple of 512, and 4 KiB by default. With
    /// duplicates it is 4 KiB.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub chunk_bytes: Option<u32>,
    /// Share of 4 KiB blocks that are duplicates of one of `dedupe_blocks` blocks, 0 to 100.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dedupe_percent: f64,
    /// Number of different blocks that are duplicated, at least 1; 64 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_blocks: Option<u64>,
    /// True if the bytes of a buffer repeat in its next write, except for a new number in each 512.
    /// Only for storage without compression: it saves a pass over the data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeats: bool,
    /// Pattern of every write, from its beginning; with `compress_percent` only of that share of
    /// each chunk, after random data. Text of at most 512 bytes: `0xdeadbeef`, `"abcd"`, `12`, `%o`
    /// for the offset of the write, if data are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<DataPattern>,
}

/// Verification of data.
///
/// Every 512 bytes of a write contain their offset, the number of writes to that offset, and a
/// checksum; with a `content.pattern` only the pattern. Data that were never written are not
/// compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// True if the range is written once before the run, so that every read can be compared.
    #[serde(default = "yes")]
    pub fill: bool,
    /// Share of reads that are compared, 0 to 100. With 0 nothing is compared, and data that are
    /// only written are not read at the end of the run either: a later run may do it.
    #[serde(default = "hundred")]
    pub sample_percent: f64,
    /// True if an earlier run wrote the data, of which nothing else is known: each block has the
    /// pattern, or consistent stamps of its offset. For workloads that only read, without `fill`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier: bool,
    /// Bytes after which, and at its end, a worker reads back its writes, in the same order; 0 for
    /// never. For closed loops, sequential or with offsets that are visited once.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "super::size::bytes")]
    pub read_back_bytes: u64,
}

impl Default for Verify {
    fn default() -> Verify {
        Verify { fill: true, sample_percent: 100.0, earlier: false, read_back_bytes: 0 }
    }
}

impl Workload {
    /// Creates a closed loop at this queue depth over the whole volume.
    pub fn new(access: Access, outstanding: u32) -> Workload {
        Workload {
            outstanding,
            pacing: Pacing::Closed,
            access,
            range: Range::WHOLE,
            content: Content::default(),
            verify: None,
            limit_bytes: None,
            limit_ios: None,
            end_flush: false,
            until_full: false,
            refill_at: None,
            think: None,
            demands: None,
            depth_search: None,
            flow: None,
        }
    }

    /// Returns whether the workload changes data on the volume.
    pub fn writes(&self) -> bool {
        self.access.writes() || self.verify.is_some_and(|verify| verify.fill)
    }

    /// Returns whether a ledger tracks its writes and reads.
    pub fn has_ledger(&self) -> bool {
        self.verify.is_some_and(|verify| !verify.earlier)
    }

    /// Returns whether the workload writes data to be verified, and reads none of them.
    pub fn is_unread(&self) -> bool {
        let compares = self.verify.is_some_and(|verify| verify.sample_percent > 0.0);
        compares && self.access.read_percent() == 0.0 && !self.reads_back()
    }

    /// Returns whether workers read back their writes during the run.
    pub fn reads_back(&self) -> bool {
        self.verify.is_some_and(|verify| verify.read_back_bytes > 0)
    }

    /// Checks that the workload fits a volume of this geometry, and that its settings are
    /// compatible.
    pub fn fits(&self, geometry: Geometry) -> Result<(), AccessError> {
        self.access.fits(&self.range, geometry)?;
        if self.verify.is_some() && geometry.block_bytes < 512 {
            return Err(AccessError::Conflict("verify needs blocks of 512 bytes or more"));
        }
        match self.writes() && geometry.read_only {
            true => Err(AccessError::ReadOnly),
            false => Ok(()),
        }
    }

    /// Multiplies a planned rate by a factor.
    pub fn scale_pacing(&mut self, factor: f64) {
        match &mut self.pacing {
            Pacing::Closed => {}
            Pacing::Ios { per_second, .. } | Pacing::Bytes { per_second, .. } => {
                *per_second *= factor;
            }
        }
    }
}
