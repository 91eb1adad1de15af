//! Drive storage: workers with outstanding I/Os on volumes, every latency recorded.
//!
//! A [`RunSpec`] says who drives what and how; [`Engine`] runs it on the cores of this host and
//! returns a [`RunResult`](stats::RunResult). Nothing here knows a protocol or a kind of volume.
#![forbid(unsafe_code)]

mod content;
mod engine;
mod handover;
mod judge;
mod meter;
mod pattern;
mod rng;
mod runner;
mod spec;
mod worker;

pub use crate::engine::Stop;
pub use crate::pattern::{Access, AccessError};
pub use crate::runner::{Engine, RunError};
pub use crate::spec::{RunSpec, TargetThreads, WorkerSpec};
