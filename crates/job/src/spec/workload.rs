//! What one worker does to its volume: how deep, how fast, where, with which data.

use block::Geometry;
use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::control::{Demands, DepthSearch, Flow, Think};
use super::data_pattern::DataPattern;
use super::defaults::{hundred, is_default, one, yes};
use super::size::{self, Range};

/// What one worker does to its volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Queue depth, 1 to 65536: a closed loop always has this many I/Os in flight.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Once so many are in flight, no more begin until only this many are; `None` begins one for
    /// each that is done. For closed loops only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill_at: Option<u32>,
    /// When I/Os begin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pacing: Pacing,
    /// What they are and where they go.
    pub access: Access,
    /// The part of the volume that is used.
    #[serde(default, skip_serializing_if = "Range::is_whole")]
    pub range: Range,
    /// What is written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: Content,
    /// Writes are stamped and reads compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// The worker stops when it has started this many bytes. Those of the ramp count, those that
    /// fill a volume for verification do not.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub limit_bytes: Option<u64>,
    /// The worker stops when it has started this many I/Os; flushes between them do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ios: Option<u64>,
    /// The worker ends with a flush, which it waits for: the measured window lasts until then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_flush: bool,
    /// The worker stops when a write finds no room on the file system below; that is no failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub until_full: bool,
    /// Pauses between I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// What ends it before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demands: Option<Demands>,
    /// The depth is searched, up to the outstanding I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_search: Option<DepthSearch>,
    /// It keeps to its share of the I/Os of several workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
}

/// When I/Os begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Pacing {
    /// When another one is done: the volume sets the pace.
    #[default]
    Closed,
    /// Open loop: I/Os per second of each worker, whatever the volume does. Response time counts
    /// from the planned start.
    Ios {
        /// I/Os per second.
        per_second: f64,
        /// When each is due.
        #[serde(default)]
        arrivals: Arrivals,
    },
    /// Open loop: bytes per second of each worker.
    Bytes {
        /// Bytes per second.
        per_second: f64,
        /// When each is due.
        #[serde(default)]
        arrivals: Arrivals,
    },
}

/// How the planned starts of an open loop are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Constant,
    /// Independent of each other: distances are distributed exponentially.
    Poisson,
}

/// What is written. By default nothing can compress or share it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Share of each chunk that a compressor can take away, 0 to 100.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compress_percent: f64,
    /// Length of a chunk: 512 bytes to 1 MiB, whole 512 bytes, and 4 KiB by default. With
    /// duplicates it is 4 KiB.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub chunk_bytes: Option<u32>,
    /// Share of 4 KiB blocks that equal one of few others, 0 to 100.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dedupe_percent: f64,
    /// How many others: 1 and more, 64 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_blocks: Option<u64>,
    /// The bytes of a buffer come again in its next write, but for a new number in each 512. Only
    /// for storage that compresses nothing: it saves a pass over the data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeats: bool,
    /// Every write is this from its beginning on; with `compress_percent` only that share of each
    /// chunk is, behind what is random. Text of at most 512 bytes: `0xdeadbeef`, `"abcd"`, `12`,
    /// `%o` for the place of the write, where data are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<DataPattern>,
}

/// How data are compared.
///
/// Every 512 bytes that are written carry their place, how often that place was written, and a
/// checksum; with a `content.pattern` they hold that and nothing else. What was never written is
/// not compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The range is written once before the run, so that every read has something to compare.
    #[serde(default = "yes")]
    pub fill: bool,
    /// Share of reads that are compared, 0 to 100. With 0 nothing is, and what is only written is
    /// not looked at when the run is over either: a later run may do it.
    #[serde(default = "hundred")]
    pub sample_percent: f64,
    /// What is read was written by an earlier run, of which only the data are known: each block
    /// holds the pattern, or stamps of its place that belong together. For workloads that only
    /// read, without `fill`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier: bool,
    /// After so many bytes, and at its end, a worker reads again what it wrote, in the same
    /// order; 0: it does not. For closed loops, sequential or with places that come once.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "super::size::bytes")]
    pub read_back_bytes: u64,
}

impl Default for Verify {
    fn default() -> Verify {
        Verify { fill: true, sample_percent: 100.0, earlier: false, read_back_bytes: 0 }
    }
}

impl Workload {
    /// A closed loop at this queue depth over the whole volume.
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

    /// Whether it changes anything on the volume.
    pub fn writes(&self) -> bool {
        self.access.writes() || self.verify.is_some_and(|verify| verify.fill)
    }

    /// Whether a ledger knows what it writes and reads.
    pub fn has_ledger(&self) -> bool {
        self.verify.is_some_and(|verify| !verify.earlier)
    }

    /// Whether it writes what is to be compared, and reads nothing of it.
    pub fn is_unread(&self) -> bool {
        let compares = self.verify.is_some_and(|verify| verify.sample_percent > 0.0);
        compares && self.access.read_percent() == 0.0 && !self.reads_back()
    }

    /// Whether workers read again what they wrote while the run goes on.
    pub fn reads_back(&self) -> bool {
        self.verify.is_some_and(|verify| verify.read_back_bytes > 0)
    }

    /// Whether it fits a volume of this shape, and its settings each other.
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

    /// Changes a planned rate by a factor.
    pub(crate) fn scale_pacing(&mut self, factor: f64) {
        match &mut self.pacing {
            Pacing::Closed => {}
            Pacing::Ios { per_second, .. } | Pacing::Bytes { per_second, .. } => {
                *per_second *= factor;
            }
        }
    }
}
