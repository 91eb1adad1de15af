//! A stage of a drive: its servers and service times.

use block::Op;
use serde::{Deserialize, Serialize};

use crate::usl::Scalability;
use crate::{Head, Reserve, Servers, Shape};

/// Queue depth beyond which an arm is not faster.
const ARM_DEPTH_MAX: u32 = 512;
/// Maximum time of a command or byte, in seconds: longer times are mistakes in units.
pub(super) const TIME_S_MAX: f64 = 1000.0;

/// A stage: a station on the path of I/Os.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Name of the stage, unique within the profile.
    pub name: String,
    /// Number of servers.
    pub servers: Width,
    /// True if all drives share the stage; otherwise each drive has its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// Serial share of the stage's work, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contention: f64,
    /// Cost of coherence between servers, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub coherence: f64,
    /// Time of a read.
    #[serde(default)]
    pub read: Cost,
    /// Time of a write.
    #[serde(default)]
    pub write: Cost,
    /// Time of a flush; by default the time of a write of no bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<Cost>,
    /// Distribution of the times around their mean.
    #[serde(default)]
    pub shape: Scatter,
    /// Bytes that writes consume and that the stage reclaims at a lower speed. Queueing theory
    /// ignores the reserve: `plan` assumes a fresh drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Reserve>,
    /// Mechanics of a disk with an arm. Queueing theory assumes random accesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
}

/// Number of servers of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number of servers, or \"infinite\"")]
pub enum Width {
    /// Number of servers, 1 to 4096.
    Count(u32),
    /// Unlimited number of servers.
    Word(Infinite),
}

/// Number of servers of a stage without a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Infinite {
    /// Unlimited: no I/O waits.
    Infinite,
}

/// Time of an I/O at a stage: per command, and per byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Seconds per command.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub each_s: f64,
    /// Seconds per byte.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub per_byte_s: f64,
}

/// Distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scatter {
    /// Constant: always the mean.
    Fixed,
    /// Exponential (memoryless).
    #[default]
    Exponential,
    /// Sum of this number of exponential phases, 1 to 1000.
    Erlang(u32),
}

impl Stage {
    /// Returns the time of an operation; trims and zeroing count as writes.
    pub fn cost(&self, op: Op) -> Cost {
        match op {
            Op::Read => self.read,
            Op::Flush => self.flush.unwrap_or(self.write),
            Op::Write | Op::Trim | Op::WriteZeroes => self.write,
        }
    }

    /// Returns the mean time of an I/O of this length at a random offset, in seconds.
    pub(super) fn random_s(&self, op: Op, len_bytes: u32) -> f64 {
        let arm_s = match (&self.head, op) {
            (Some(head), Op::Read | Op::Write) => head.random_s(len_bytes, op == Op::Write),
            _ => 0.0,
        };
        self.cost(op).seconds(len_bytes) + arm_s
    }

    /// Returns the stage without its arm, with the mean times of I/Os of this length at random
    /// offsets.
    pub(super) fn still(&self, len_bytes: u32) -> Stage {
        if self.head.is_none() {
            return self.clone();
        }
        let mean = |op| Cost { each_s: self.random_s(op, len_bytes), per_byte_s: 0.0 };
        let (read, write, flush) = (mean(Op::Read), mean(Op::Write), Some(self.cost(Op::Flush)));
        Stage { read, write, flush, head: None, ..self.clone() }
    }

    /// Returns the speedups of a disk at queue depths 1, 2, … `outstanding`; `None` without an arm.
    pub(super) fn speeds(
        &self,
        outstanding: u32,
        read_share: f64,
        len_bytes: u32,
    ) -> Option<Vec<f64>> {
        let head = self.head.as_ref()?;
        let of = |op| self.cost(op).seconds(len_bytes);
        let besides_s = read_share * of(Op::Read) + (1.0 - read_share) * of(Op::Write);
        let depth = outstanding.clamp(1, ARM_DEPTH_MAX);
        Some(head.speeds(len_bytes, 1.0 - read_share, besides_s, depth))
    }

    /// Returns the bytes of the reserve that an I/O consumes, at most the capacity.
    pub(super) fn draws(&self, op: Op, len_bytes: u32) -> f64 {
        match &self.reserve {
            Some(reserve) if op == Op::Write => f64::from(len_bytes).min(reserve.capacity),
            _ => 0.0,
        }
    }

    pub(super) fn station(&self) -> Servers {
        let Width::Count(count) = self.servers else { return Servers::Infinite };
        if self.contention == 0.0 && self.coherence == 0.0 {
            return Servers::Count(count);
        }
        let (contention, coherence) = (self.contention, self.coherence);
        let law = Scalability { single_per_s: 1.0, contention, coherence };
        Servers::Rates((1..=count).map(|n| law.throughput_per_s(f64::from(n))).collect())
    }
}

impl Cost {
    /// Returns the mean time of an I/O of this length, in seconds, at most the maximum of a
    /// service.
    pub fn seconds(&self, len_bytes: u32) -> f64 {
        (self.each_s + self.per_byte_s * f64::from(len_bytes)).min(TIME_S_MAX)
    }
}

impl Scatter {
    pub(super) fn shape(self) -> Shape {
        match self {
            Scatter::Fixed => Shape::Deterministic,
            Scatter::Exponential => Shape::Exponential,
            Scatter::Erlang(stages) => Shape::Erlang(stages),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
