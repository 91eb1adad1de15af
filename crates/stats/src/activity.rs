//! Activity of the cores of a run over a span of time, with a sample of their I/Os.

use block::{Nanos, Op, Stretch};

/// Activity of one core in a span of time.
#[derive(Clone, Debug)]
pub struct CoreActivity {
    /// Number of the CPU.
    pub cpu: usize,
    /// Names of the core's workers: [`Stretch::worker`] is an index into this list.
    pub workers: Vec<String>,
    /// Beginning and end of the recorded span.
    pub span: (Nanos, Nanos),
    /// Stretches of work of the core, in the order in which they ended.
    pub stretches: Vec<Stretch>,
    /// Number of earlier stretches that were dropped for lack of space.
    pub left_out: u64,
    /// Sample of the I/Os of the core's workers, in no order.
    pub ios: Vec<SampledIo>,
    /// Counts of completed I/Os and I/Os in flight, in the order of time.
    pub counts: Vec<Counted>,
}

/// One of the I/Os of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledIo {
    /// Index of the worker on the core.
    pub worker: u32,
    /// Sampling interval: one of this many I/Os of the worker was recorded.
    pub every: u64,
    /// Operation of the I/O.
    pub op: Op,
    /// Offset on the volume, in bytes.
    pub offset: u64,
    /// Size of the I/O in bytes.
    pub len: u32,
    /// Start of the I/O, from which its latency counts.
    pub start: Nanos,
    /// Time at which the worker received the completion.
    pub end: Nanos,
    /// True if the I/O ended in a fault.
    pub failed: bool,
}

/// Counts at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Instant of the counts.
    pub at: Nanos,
    /// I/Os completed since the span began.
    pub ios: u64,
    /// I/Os in flight at that instant.
    pub outstanding: u64,
}
