//! Specification of work, in two forms: a [`JobSpec`] is a document that can be saved, sent and run
//! again; a [`RunSpec`] is one of its steps with individual workers, ready for an engine.
//!
//! A job has [`Step`]s that run one after the other. In a step [`Group`]s of workers run at the
//! same time; the workers of a group do the same [`Workload`], each to one volume.

mod access;
mod access_error;
mod cache;
mod check;
mod control;
mod data_pattern;
mod defaults;
mod figures;
mod file_walk;
mod group;
mod job;
#[cfg(test)]
mod keys;
mod laid_out;
mod line;
mod logs;
mod places;
mod rate;
mod replay;
mod run;
mod serving;
mod size;
mod steady;
mod when;
mod workload;
mod zone_walk;
mod zoned;

pub use access::{Access, AccessError};
pub use cache::{Cache, Expect};
pub use check::SpecError;
pub use control::{Demand, Demands, DepthSearch, Flow, Think};
pub use data_pattern::{DataPattern, PATTERN_MAX_BYTES};
pub use figures::{Directions, Figures, PERCENTILES_MAX};
pub use file_walk::FileWalk;
pub use group::{Group, Reported, Stripes};
pub use job::{JobSpec, MADE, MAKER, Step};
pub use laid_out::LaidOut;
pub use line::Line;
pub(crate) use line::MAX_BYTES as MAX_IO_BYTES;
pub use logs::{HistogramLog, Logs};
pub use places::{Places, Walk, Zone};
pub use rate::Rate;
pub use replay::{OpenTrace, Replay, Skip, TraceError, open_trace};
pub use run::{Part, RunSpec, Shift, WorkerSpec};
pub use serving::{SERVED, Serving};
pub use size::{Extent, Range};
pub use steady::Watch;
pub use steady::{Quantity, Steady};
pub use when::When;
pub use workload::{Arrivals, Content, Pacing, Verify, Workload};
pub use zone_walk::ZoneWalk;
pub use zoned::Zoned;
