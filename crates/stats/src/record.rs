//! Events of single I/Os, for jobs that log them.

use block::{Nanos, Op};

/// An event of one I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time of the event.
    pub at: Nanos,
    /// Latency of the completed I/O: in an open loop from its planned start.
    pub latency: Nanos,
    /// Offset on the volume, in bytes.
    pub offset: u64,
    /// Size of the I/O in bytes.
    pub len: u32,
    /// Index of the worker in the run.
    pub worker: u32,
    /// Operation of the I/O.
    pub op: Op,
    /// Kind of the event.
    pub moment: Moment,
}

/// Events of an I/O, and one of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The worker's turn begins; the fields of the I/O are unused.
    Turn,
    /// The I/O is submitted.
    Begun,
    /// The I/O completed without a fault.
    Done,
}
