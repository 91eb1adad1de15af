//! Queues: what a system of devices can do, and how long its users wait.
//!
//! A [`Network`] is stations (servers with a queue) and classes (who goes where, for how long). One
//! description has three uses: [`bounds`](laws::bounds) in no time, [`solve`] for means by queueing
//! theory, and [`simulate`] event by event for what theory cannot say: percentiles, stations held
//! while others work, forks, state. Nothing here knows hardware, does I/O or reads a clock.
//!
//! The model in two pages, with its limits: `docs/model.md`.

#![forbid(unsafe_code)]

pub mod fit;
pub mod laws;
pub mod profile;
pub mod queue;
pub mod usl;

mod check;
mod dist;
mod error;
mod network;
mod rng;
mod simulate;
mod solve;
mod time;

pub use dist::{Service, Shape};
pub use error::ModelError;
pub use network::{
    Class, ClassId, Network, Reserve, Servers, Source, Station, StationId, Step, Visit,
};
pub use rng::Rng;
pub use simulate::{Completion, Estimate, Run, Simulated, simulate};
pub use solve::{Caveat, ClassResult, Method, Solution, StationResult, solve};
pub use time::Picos;
