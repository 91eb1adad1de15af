//! One I/O in time, for jobs that want logs of single I/Os.

use block::{Nanos, Op};

/// A moment of one I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was.
    pub at: Nanos,
    /// How long the I/O took, once it is done: in an open loop from its planned start on.
    pub latency: Nanos,
    /// Where the I/O goes on its volume, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Which worker does it, by its place in the run.
    pub worker: u32,
    /// What it does.
    pub op: Op,
    /// Which moment.
    pub moment: Moment,
}

/// Moments of an I/O, and one of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The worker's turn begins; nothing is said of an I/O.
    Turn,
    /// It is submitted.
    Begun,
    /// It was done without a fault.
    Done,
}
