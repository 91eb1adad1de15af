//! The load generator: workers keep I/Os in flight on volumes, and record every latency.
//!
//! A [`JobSpec`](job::spec::JobSpec) describes groups of workers and their workloads. [`Engine`]
//! runs one of its steps, [`Prepared`], on the cores of this host and returns a
//! [`RunResult`](stats::RunResult). This crate is independent of protocols and kinds of volumes.
#![forbid(unsafe_code)]

mod activity;
mod agenda;
mod ceiling;
mod content;
mod engine;
mod equals;
mod fewer;
mod handover;
mod judge;
mod lateness;
mod ledger;
mod meter;
mod outcome;
mod pacing;
mod patience;
mod pattern;
mod recheck;
mod records;
mod run;
mod runner;
mod simulation;
mod stamp;
mod sync;
mod witness;
mod worker;

pub use crate::activity::Recording;
pub use crate::ceiling::{SECONDS as CEILING_SECONDS, StandIn, on_stand_ins, stand_ins};
pub use crate::content::FirstContent;
pub use crate::engine::Stop;
pub use crate::fewer::{may_repeat, on_cores};
pub use crate::ledger::{Finding, FindingKind};
pub use crate::recheck::{Asked, Recheck, judge_read_back, recheck};
pub use crate::records::{Scribe, SharedScribe};
pub use crate::run::{Prepared, TargetThreads};
pub use crate::runner::{Engine, Gate, RunError, Runner, Shared};
pub use crate::simulation::{Part, Simulation, Storage, tied};
pub use crate::witness::inspect;
