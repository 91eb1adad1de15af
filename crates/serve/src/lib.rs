//! Be a target: listen on portals and answer from volumes.
//!
//! Each core that serves has a thread with its own reactor, its own listeners on the same ports,
//! its own connections and its own lane to every volume it was asked for. Nothing is shared
//! between cores but counters, and a mailbox for what concerns sessions of others, so the
//! connections of one target name spread over all of them.
#![forbid(unsafe_code)]

mod config;
mod connection;
mod connections;
mod faults;
mod hosts;
mod log;
mod mailbox;
#[cfg(test)]
mod mailbox_test;
mod memory;
mod portal;
mod protocol;
mod server;
mod shared;
mod sweeps;
mod sync;
mod thread;
mod units;

pub use crate::config::{Export, Limits, ServeConfig};
pub use crate::log::Log;
pub use crate::portal::Portal;
pub use crate::protocol::{Protocol, Protocols};
pub use crate::server::{ServeError, Server};
pub use crate::shared::Shared;
pub use crate::units::LaneSource;
pub use proto::DiskId;
