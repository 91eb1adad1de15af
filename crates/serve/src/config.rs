//! What to serve, where and how much of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use block::Nanos;
use proto::DiskId;
use volume::Volume;

/// What a server does.
pub struct ServeConfig {
    /// Addresses on which iSCSI is spoken. Port 0 picks a free one.
    pub iscsi: Vec<SocketAddr>,
    /// The same for NVMe/TCP.
    pub nvme_tcp: Vec<SocketAddr>,
    /// The same for NBD.
    pub nbd: Vec<SocketAddr>,
    /// What is served, by every protocol.
    pub exports: Vec<Export>,
    /// Who may use a subsystem: NQNs of hosts, by the name of the subsystem. One that is not named
    /// here is open to every host. iSCSI has no such list: its targets are open to every initiator.
    pub nvme_hosts: BTreeMap<String, Vec<String>>,
    /// Other servers may be ways to the same disks: they give them the same names and identities.
    /// Hosts are then told to join them. A server with several addresses for NVMe/TCP says so
    /// anyway.
    pub shared: bool,
    /// Identifier of the first NVMe controller; those after it count on. A host takes no two
    /// controllers of one identifier from servers that share a subsystem's name, so let it be
    /// chance. 0 and what NVMe reserves count as 1.
    pub first_controller: u16,
    /// Processors that serve, one thread on each.
    pub cores: Vec<usize>,
    /// Processors on which idle cores may sleep, beside their own: where the peers are, if those
    /// are on this host.
    pub idle_cores: Vec<usize>,
    /// How much of everything.
    pub limits: Limits,
}

/// A volume under a name.
#[derive(Clone)]
pub struct Export {
    /// Name of the iSCSI target, the same for all units of one target.
    pub target: String,
    /// Name of the NVMe subsystem, the same for all units of one target.
    pub subsystem: String,
    /// Logical unit number, 0 to 255. It is the namespace identifier too, so a unit 0 cannot be
    /// had over NVMe/TCP.
    pub lun: u8,
    /// The volume.
    pub volume: Arc<dyn Volume>,
    /// Which disk it is, to hosts that find it on several ways: serial numbers and all worldwide
    /// names are made of it. No two volumes may have the same, of whichever server.
    pub disk: DiskId,
}

/// Most of everything. Exceeding one refuses the newcomer or ends the offender, and says so.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. One host may have half of what others leave.
    pub connections: usize,
    /// Connections at once that have not said who they are; one more ends the oldest of them.
    pub half_open: usize,
    /// Commands in flight on one connection.
    pub commands: u16,
    /// Bytes that a peer may leave unread before it is cut off, beyond what its commands answer.
    pub unread_bytes: usize,
    /// A connection that has sent so many bytes is served again when the others were. By default
    /// two receive buffers of a core: what a peer with 64 writes of 4 KiB in flight sends.
    pub share_bytes: usize,
    /// How long a login may take.
    pub login_timeout: Nanos,
    /// Bytes of memory for connections, their buffers and what waits to be sent. `None`: a quarter
    /// of what the host or the cgroup has available at the start, and at most 4 GiB. Volumes in
    /// memory count elsewhere.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 32_768,
            half_open: 256,
            commands: 128,
            unread_bytes: 64 << 20,
            share_bytes: 256 << 10,
            login_timeout: Nanos::from_secs(15),
            memory_bytes: None,
        }
    }
}
