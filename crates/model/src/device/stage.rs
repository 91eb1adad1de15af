//! A stage of a drive: how many I/Os it serves at once, and what each takes there.

use block::Op;
use serde::{Deserialize, Serialize};

use crate::usl::Scalability;
use crate::{Head, Reserve, Servers, Shape};

/// Depth beyond which an arm is taken to gain nothing more.
const ARM_DEPTH_MAX: u32 = 512;
/// Longest time that a command or a byte takes: what longer takes is a mistake in units.
pub(super) const TIME_S_MAX: f64 = 1000.0;

/// A station on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Unique within the profile.
    pub name: String,
    /// I/Os that it serves at once.
    pub servers: Width,
    /// One for all drives; otherwise each has its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// Share of its work that its servers do one after the other, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contention: f64,
    /// What each server costs each other one, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub coherence: f64,
    /// What a read takes.
    #[serde(default)]
    pub read: Cost,
    /// What a write takes.
    #[serde(default)]
    pub write: Cost,
    /// What a flush takes; without it, as much as a write of no bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<Cost>,
    /// How times scatter around their mean.
    #[serde(default)]
    pub shape: Scatter,
    /// Bytes that writes use up and that the stage makes anew, at the cost of its speed. Theory
    /// does not see it: `plan` is of the fresh drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Reserve>,
    /// It is a disk with an arm. Theory sees accesses at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
}

/// How many I/Os a stage serves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number of servers, or \"infinite\"")]
pub enum Width {
    /// So many, 1 to 4096.
    Count(u32),
    /// All.
    Word(Infinite),
}

/// The word for a stage without a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Infinite {
    /// Nobody waits.
    Infinite,
}

/// Time of an I/O at a stage: a part for the command, and one for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Seconds, whatever the length.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub each_s: f64,
    /// Seconds for each byte.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub per_byte_s: f64,
}

/// A distribution by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scatter {
    /// Always the mean.
    Fixed,
    /// Without memory.
    #[default]
    Exponential,
    /// Sum of this many exponential phases, 1 to 1000.
    Erlang(u32),
}

impl Stage {
    /// What an operation takes; trims and zeroing are paid for as a write.
    pub fn cost(&self, op: Op) -> Cost {
        match op {
            Op::Read => self.read,
            Op::Flush => self.flush.unwrap_or(self.write),
            Op::Write | Op::Trim | Op::WriteZeroes => self.write,
        }
    }

    /// Mean seconds of an I/O of this length, at a random place of a disk.
    pub(super) fn random_s(&self, op: Op, len_bytes: u32) -> f64 {
        let arm_s = match (&self.head, op) {
            (Some(head), Op::Read | Op::Write) => head.random_s(len_bytes, op == Op::Write),
            _ => 0.0,
        };
        self.cost(op).seconds(len_bytes) + arm_s
    }

    /// The same stage for I/Os of one length at random places, without an arm.
    pub(super) fn still(&self, len_bytes: u32) -> Stage {
        if self.head.is_none() {
            return self.clone();
        }
        let mean = |op| Cost { each_s: self.random_s(op, len_bytes), per_byte_s: 0.0 };
        let (read, write, flush) = (mean(Op::Read), mean(Op::Write), Some(self.cost(Op::Flush)));
        Stage { read, write, flush, head: None, ..self.clone() }
    }

    /// How much faster a disk is with 1, 2, … `outstanding` I/Os to choose from.
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

    /// Bytes of its reserve that an I/O uses up: at most all.
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
    /// Mean time of an I/O of this length, at most what a service may take.
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
