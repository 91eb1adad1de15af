//! What the cores of a run did for a while, and some of its I/Os.

use block::{Nanos, Op, Stretch};

/// What one core did in a span of time.
#[derive(Clone, Debug)]
pub struct CoreActivity {
    /// Which processor it was.
    pub cpu: usize,
    /// Its workers by name: [`Stretch::worker`] counts them from 0.
    pub workers: Vec<String>,
    /// Beginning and end of what is told.
    pub span: (Nanos, Nanos),
    /// What it did, in the order in which it ended.
    pub stretches: Vec<Stretch>,
    /// How many stretches before these there was no room for.
    pub left_out: u64,
    /// Some I/Os of its workers, in no order.
    pub ios: Vec<SampledIo>,
    /// How many I/Os ended, and how many were in flight, in the order of time.
    pub counts: Vec<Counted>,
}

/// One of the I/Os of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledIo {
    /// Whose it was, by its place on the core.
    pub worker: u32,
    /// Of so many I/Os of that worker one was taken.
    pub every: u64,
    /// What it did.
    pub op: Op,
    /// Where on the volume, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// What its latency counts from.
    pub start: Nanos,
    /// When its worker got it back.
    pub end: Nanos,
    /// It ended in a fault.
    pub failed: bool,
}

/// What was counted at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// When.
    pub at: Nanos,
    /// I/Os that ended since the span began.
    pub ios: u64,
    /// I/Os in flight then.
    pub outstanding: u64,
}
