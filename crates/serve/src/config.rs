//! What to serve, where and how much of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use block::Nanos;
use volume::Volume;

/// What a server does.
pub struct ServeConfig {
    /// Addresses on which iSCSI is spoken. Port 0 picks a free one.
    pub iscsi: Vec<SocketAddr>,
    /// The same for NVMe/TCP.
    pub nvme_tcp: Vec<SocketAddr>,
    /// What is served, by every protocol.
    pub exports: Vec<Export>,
    /// Who may use a subsystem: NQNs of hosts, by the name of the subsystem. One that is not named
    /// here is open to every host. iSCSI has no such list: its targets are open to every initiator.
    pub nvme_hosts: BTreeMap<String, Vec<String>>,
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
    /// Serial number that the unit shows: printable ASCII, at most 36 characters.
    pub serial: String,
}

/// Most of everything. Exceeding one refuses the newcomer or ends the offender, and says so.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. One host may have half of what others leave.
    pub connections: usize,
    /// Connections at once that have not said who they are; one more ends the oldest of them.
    pub half_open: usize,
    /// Commands under way on one connection.
    pub commands: u16,
    /// Bytes that a peer may leave unread before it is cut off, beyond what its commands answer.
    pub unread_bytes: usize,
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
            login_timeout: Nanos::from_secs(15),
            memory_bytes: None,
        }
    }
}
