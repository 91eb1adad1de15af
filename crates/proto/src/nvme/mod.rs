//! NVMe/TCP, both ends: the TCP transport, fabrics commands, and the part of the NVMe base and NVM
//! command sets that block I/O needs.
//!
//! [`NvmeTarget`] is one queue of a controller; a controller's queues are separate connections on
//! any core, which meet in [`Controllers`]. It serves the given [`Subsystems`]. [`NvmeAdmin`] and
//! [`NvmeQueue`] open a remote namespace: the first is the admin queue, the others carry I/Os.
//! [`NvmeDiscovery`] lists a portal's subsystems. The owner of the socket drives them.
//!
//! In our words the host is an initiator, the controller a target, a namespace a unit.

mod controllers;
mod directory;
mod frame;
mod initiator;
mod name;
pub mod pdu;
mod target;
mod wire;

use block::{BACKING_BYTES_MAX, Backing};

pub use controllers::{ControllerLimits, Controllers};
pub use directory::{Namespace, Portal, Subsystem, Subsystems, SubsystemsError};
pub use initiator::{
    Association, ControllerInstance, DiscoveryEntry, NvmeAdmin, NvmeDiscovery, NvmeInitiatorConfig,
    NvmeQueue, SubsystemKind, status_from_kernel, status_words,
};
pub use name::{DISCOVERY_NQN, NQN_MAX_BYTES, NqnError, check_nqn, check_peer_nqn};
pub use target::{NvmeTarget, NvmeTargetConfig};

/// Start of the vendor specific bytes of Identify Controller at our servers; the instance follows.
const INSTANCE_MAGIC: [u8; 8] = *b"DRUMFIRE";

/// The vendor specific bytes of Identify Controller, with an instance.
//= NVMe base §Identify Controller data structure: bytes 4095:3072 are vendor specific.
fn instance_bytes(instance: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&INSTANCE_MAGIC);
    bytes[8..].copy_from_slice(&instance.to_le_bytes());
    bytes
}

/// Offset of the backing store's line in Identify Namespace data of our servers.
//= NVMe NVM command set §Identify Namespace data structure: bytes 4095:384 are vendor specific.
const BACKING_AT: usize = 384;

/// Returns the backing store that Identify Namespace data of our servers report.
fn backing_of(page: &[u8]) -> Option<Backing> {
    let line = page.get(BACKING_AT..BACKING_AT + BACKING_BYTES_MAX)?;
    Backing::parse(&String::from_utf8_lossy(line))
}

/// The instance in the vendor specific bytes of Identify Controller.
fn instance_of(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(&INSTANCE_MAGIC)?;
    rest.first_chunk().map(|number| u64::from_le_bytes(*number))
}
