//! Counts, amounts, latencies, and the checks of their validity.
//!
//! A worker records into an [`Interval`]; a [`Collector`] merges the intervals of all workers,
//! second by second; a [`RunResult`] is the outcome. Histograms are merged, and percentiles are
//! computed from the merged histogram, never averaged. The honesty checks in [`verdict`] are
//! functions of numbers. Nothing here does I/O or reads a clock.

#![forbid(unsafe_code)]

mod activity;
mod bounds;
mod buckets;
mod collect;
mod drift;
mod failures;
mod histogram;
mod interval;
mod kind;
pub mod live;
pub mod merge;
mod moments;
mod packed;
pub mod ratio;
mod record;
mod run;
mod series;
mod spread;
mod student;
pub mod sweep;
mod timeline;
pub mod verdict;

pub use crate::activity::{CoreActivity, Counted, SampledIo};
pub use crate::bounds::{Bound, Kept};
pub use crate::buckets::{Buckets, Histograms, Span};
pub use crate::collect::{Collector, WorkerName};
pub use crate::drift::Drift;
pub use crate::failures::{Failed, Failure, Failures, FirstFailure};
pub use crate::histogram::{Bucket, Complete, Exact, Latencies, Latency, WaitedForCpu, supports};
pub use crate::interval::{Interval, Paced, Tally};
pub use crate::kind::Kind;
pub use crate::moments::{MOMENTS_ABOVE, TailMoments, moment};
pub use crate::record::{Moment, Record};
pub use crate::run::{
    CommonWindow, Connections, Cpu, DeviceUse, Direction, EVERY_CHECK_SINCE, ExactTotals,
    FLUSHES_APART_SINCE, Host, HostApart, HostResult, Job, KernelThread, MeasuringCost,
    MissedDemand, Origin, PART_LAYOUT, PacedTotals, Part, Placement, Processor, Ramp, RunResult,
    SAME_FIGURES_SINCE, SCHEMA_VERSION, SearchedDepth, Second, ServerResult, Tool, Totals, Waiting,
    WallClock, WorkerResult, WorkerRow, WorkerRows,
};
pub use crate::series::{Rates, Series};
pub use crate::spread::Spread;
pub use crate::verdict::{Check, Class, Verdict};
