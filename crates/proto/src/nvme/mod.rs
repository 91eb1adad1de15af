//! NVMe over TCP, both ends: the TCP transport, the fabrics commands, and as much of the NVMe base
//! and NVM command sets as block I/O needs.
//!
//! [`NvmeTarget`] is one queue of a controller; the queues of one controller are connections of
//! their own, on whichever core they land, and find each other in [`Controllers`]. It answers from
//! the [`Subsystems`] that it is given. [`NvmeAdmin`] and [`NvmeQueue`] make a volume out of one
//! namespace elsewhere: the first opens the way, the others carry I/Os. [`NvmeDiscovery`] asks a
//! portal which subsystems it has. All are fed by whoever owns the socket.
//!
//! Words: NVMe's host is our initiator, its controller our target, its namespace a unit.

mod controllers;
mod directory;
mod frame;
mod initiator;
mod name;
pub mod pdu;
mod target;
mod wire;

pub use controllers::{ControllerLimits, Controllers};
pub use directory::{Namespace, Portal, Subsystem, Subsystems, SubsystemsError};
pub use initiator::{
    Association, DiscoveryEntry, NvmeAdmin, NvmeDiscovery, NvmeInitiatorConfig, NvmeQueue,
    SubsystemKind, status_told, status_words,
};
pub use name::{DISCOVERY_NQN, NQN_MAX_BYTES, NqnError, check_nqn, check_peer_nqn};
pub use target::{NvmeTarget, NvmeTargetConfig};
