//! Whole servers in virtual time.
//!
//! One seed decides everything: the topology, the loads, and when which fault happens. The server
//! is the one that people run ([`serve::Portal`], its protocol ends, its units); below it stand a
//! core and a network that exist in memory only, beside it volumes that answer late, wrongly or
//! never, and clients that check every answer. The same seed gives the same run on any host.
//!
//! [`Plan::of_seed`] draws a world, [`World::run`] runs it and says what went wrong, and
//! [`shrink`] takes away what a failure does not need.
//!
//! Beside that [`Situation`]s: the workers of `load` measure volumes of which every I/O is known,
//! and the result must say what is true. Both are a [`Case`].
#![forbid(unsafe_code)]

pub mod array;
mod case;
mod client;
mod core;
mod disk;
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

/// Runs the world of a plan with a mistake planted, or none; what went wrong, if anything did.
/// `say` gets what the server logs.
pub fn run(plan: &Plan, plant: Option<block::Plant>, say: fn(&str)) -> Result<Report, String> {
    block::plant(plant);
    let result = World::new(plan, say).run();
    block::plant(None);
    result
}
