//! The server: listens on portals and serves volumes as a target.
//!
//! Each core has a thread with its own reactor, listeners on the same ports (SO_REUSEPORT),
//! connections, and a lane to every volume in use. Cores share only counters, and mailboxes for
//! notices about sessions of other cores; the connections of one target spread over all of them.
#![forbid(unsafe_code)]

mod change;
mod config;
mod connection;
mod connections;
mod counts;
mod deadlines;
mod faults;
mod host_lists;
mod hosts;
mod log;
mod mailbox;
#[cfg(test)]
mod mailbox_test;
mod memory;
mod orders;
mod places;
mod portal;
mod protocol;
mod server;
mod shared;
mod sync;
mod table;
mod thread;
mod units;
mod vhost;

pub use crate::config::{Export, Limits, ServeConfig};
pub use crate::counts::{OpCounts, VolumeCounts};
pub use crate::host_lists::{HostLists, Network};
pub use crate::log::Log;
pub use crate::orders::{ConnectionInfo, Departure, Whom};
pub use crate::portal::Portal;
pub use crate::protocol::{Protocol, Protocols};
pub use crate::server::{ServeError, Server};
pub use crate::shared::{Shared, VolumeInfo};
pub use crate::units::LaneSource;
pub use crate::vhost::{VhostConfig, VhostError, VhostServer, VhostVolume};
pub use proto::DiskId;
pub use proto::iscsi::Chap;
pub use proto::scsi::{Keeper, NotSaved, UnitShared};
