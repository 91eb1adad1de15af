//! What is to be done, in two shapes: a [`JobSpec`] is a document that can be kept, sent and run
//! again; a [`RunSpec`] is one of its steps with its volumes open, ready for the engine.
//!
//! A job has [`Step`]s that run one after the other. In a step [`Group`]s of workers run at the
//! same time; the workers of a group do the same [`Workload`], each to one volume.

mod access;
mod cache;
mod check;
mod control;
mod data_pattern;
mod figures;
mod job;
mod logs;
mod replay;
mod run;
mod size;
mod steady;
mod when;
mod words;
mod zone_walk;

pub(crate) use access::MAX_BYTES as MAX_IO_BYTES;
pub use access::{Access, AccessError, Line, Places, Walk, Zone};
pub use cache::{Cache, Expect};
pub use check::SpecError;
pub use control::{Demand, Demands, DepthSearch, Flow, Think};
#[cfg(test)]
pub(crate) use data_pattern::data_pattern;
pub use data_pattern::{DataPattern, PATTERN_MAX_BYTES};
pub use figures::{Directions, Figures, PERCENTILES_MAX};
pub use job::{
    Arrivals, Content, Group, JobSpec, MADE, MAKER, Pacing, Reported, Step, Stripes, Verify,
    Workload,
};
pub use logs::{HistogramLog, Logs};
pub use replay::{OpenTrace, Replay, Skip, TraceError, open_trace};
pub use run::{Part, RunSpec, Shift, TargetThreads, WorkerSpec};
pub use size::{Extent, Range};
pub(crate) use steady::Watch;
pub use steady::{Quantity, Steady};
pub use when::When;
pub use words::Rate;
pub use zone_walk::ZoneWalk;
