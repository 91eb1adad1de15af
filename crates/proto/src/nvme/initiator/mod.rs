//! The host's end: an admin queue and the I/O queues of its association.
//!
//! An association is one [`NvmeAdmin`] and any number of [`NvmeQueue`]s, each with its own
//! connection. A ready admin queue provides an [`Association`], from which queues with identifiers
//! from 1 to [`Association::queues`] are made. Drive the admin queue as long as its queues are
//! used, because it sends the Keep Alives. Close the queues first, then the admin queue.

mod admin;
mod connect;
mod control;
mod discovery;
mod io;
mod link;
mod names;
mod queue;
mod replace;
mod slot;

use block::{Backing, Geometry, Nanos};

use crate::Fence;

pub use admin::NvmeAdmin;
pub use discovery::{DiscoveryEntry, NvmeDiscovery, SubsystemKind};
pub use io::{status_from_kernel, words as status_words};
pub use queue::NvmeQueue;

/// Settings of an association.
#[derive(Clone, Debug)]
pub struct NvmeInitiatorConfig {
    /// NQN of this host.
    pub host_nqn: String,
    /// Host identifier: the same for all associations of one host, not zero.
    pub host_id: [u8; 16],
    /// NQN of the subsystem.
    pub subsystem_nqn: String,
    /// NSID of the namespace.
    pub nsid: u32,
    /// I/O queues to request, 1 to 1024.
    pub queues: u16,
    /// Protect headers by CRC-32C.
    pub header_digest: bool,
    /// Protect data by CRC-32C.
    pub data_digest: bool,
    /// Queue depth, 1 to 1023. The controller may allow less.
    pub queue_depth: u16,
    /// Keep Alive Timeout (KATO): without a Keep Alive for this long, the controller ends the
    /// association. Zero: none, and no Keep Alives are sent.
    pub keep_alive: Nanos,
    /// Interval of Keep Alives; at most half of the time-out.
    pub beat_interval: Nanos,
    /// An unanswered Keep Alive ends the association after this time, or after that of a command if
    /// that is longer.
    pub beat_timeout: Nanos,
    /// Time-out until a queue is ready.
    pub connect_timeout: Nanos,
    /// Time-out of an admin command.
    pub admin_timeout: Nanos,
    /// Time-out of a command. A queue with an expired command ends, up to a quarter of this or a
    /// second later. Zero: none.
    pub io_timeout: Nanos,
}

impl NvmeInitiatorConfig {
    /// Default settings: one I/O queue of depth 128, no digests, 15 s to connect, 30 s for a
    /// command; a Keep Alive every 5 s with a KATO of 30 s.
    pub fn new(
        host_nqn: &str,
        host_id: [u8; 16],
        subsystem_nqn: &str,
        nsid: u32,
    ) -> NvmeInitiatorConfig {
        NvmeInitiatorConfig {
            host_nqn: host_nqn.to_owned(),
            host_id,
            subsystem_nqn: subsystem_nqn.to_owned(),
            nsid,
            queues: 1,
            header_digest: false,
            data_digest: false,
            queue_depth: 128,
            keep_alive: Nanos::from_secs(30),
            beat_interval: Nanos::from_secs(5),
            beat_timeout: Nanos::from_secs(10),
            connect_timeout: Nanos::from_secs(15),
            admin_timeout: Nanos::from_secs(10),
            io_timeout: crate::IO_TIMEOUT,
        }
    }
}

/// A controller as the subsystem's other controllers know it.
//= NVMe base §5.1.13.2.1 Identify Controller data structure: CNTLID, CIU and CIRN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerInstance {
    /// Controller identifier.
    pub id: u16,
    /// Controller Instance Uniquifier; zero if the controller has none.
    pub ciu: u8,
    /// Controller Instance Random Number.
    pub cirn: u64,
}

/// Facts that an I/O queue needs about its controller and namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association {
    /// Model number of the controller, without the spaces around it.
    pub model: String,
    /// The controller. A later association names it to have it reset.
    pub controller: ControllerInstance,
    /// The fate of the commands of the controller that this one [replaces](NvmeAdmin::replacing);
    /// none where it replaces none.
    pub fence: Option<Fence>,
    /// The instance of the namespaces, of a server of this project.
    pub instance: Option<u64>,
    /// The backing store at a server of this project.
    pub backing: Option<Backing>,
    /// NGUID, EUI64 or UUID of the namespace.
    pub identity: Option<String>,
    /// Geometry of the namespace.
    pub geometry: Geometry,
    /// I/O queues that may be opened, with identifiers from 1.
    pub queues: u16,
    /// Entries that an I/O queue may have.
    pub max_queue_entries: u32,
    /// Longest read or write in one command. Longer I/Os become several commands in turn.
    pub max_transfer_bytes: u32,
    /// Longest in-capsule data.
    pub in_capsule_bytes: u32,
    /// Longest zeroing in one command.
    pub max_zeroes_bytes: u64,
    /// Longest trim in one command.
    pub max_trim_bytes: u64,
    /// Whether the target supports Write Zeroes.
    pub write_zeroes: bool,
    /// Whether the target supports deallocation.
    pub trim: bool,
    /// Whether the target supports Disconnect.
    pub disconnect: bool,
}

impl Association {
    /// The fate of changes that were sent earlier: on a queue of the same identifier, which a
    /// controller lets in again only when nothing of the old queue is left, and to the controller
    /// that this one replaces.
    pub(super) fn fence(&self) -> Fence {
        self.fence.unwrap_or(Fence::Ended)
    }
}
