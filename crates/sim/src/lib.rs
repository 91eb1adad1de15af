//! Deterministic simulation of whole servers in virtual time.
//!
//! One seed decides everything: topology, load, and the time of each fault. The server is the real
//! one ([`serve::Portal`], its endpoints, its units), on a simulated core and network, with volumes
//! that complete late, wrongly or never, and clients that check every completion. The same seed
//! gives the same run on any host.
//!
//! [`Plan::of_seed`] draws a world, [`World::run`] runs it and reports violations, and [`shrink`]
//! minimizes a failing case.
//!
//! [`Situation`]s test measurements: the workers of `load` run on volumes whose every I/O is known,
//! and the result must be true. Both are a [`Case`].
#![forbid(unsafe_code)]

pub mod array;
mod case;
mod client;
mod core;
mod disk;
pub mod fleet;
mod link;
mod net;
mod plan;
mod raw;
mod region;
mod rig;
mod shrink;
mod world;

pub use crate::case::Case;
pub use crate::plan::{Fault, Plan};
pub use crate::rig::{Mishap, Situation, Told};
pub use crate::shrink::shrink;
pub use crate::world::{Report, World};

/// Runs the world of a plan with a planted mistake, or none; an error is the first violation. `say`
/// gets the server's log.
pub fn run(plan: &Plan, plant: Option<block::Plant>, say: fn(&str)) -> Result<Report, String> {
    block::plant(plant);
    let result = World::new(plan, say).run();
    block::plant(None);
    result
}
