//! Configuration of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use block::Nanos;
use proto::DiskId;
use proto::scsi::UnitShared;
use volume::Volume;

use crate::host_lists::HostLists;

/// Configuration of a server.
pub struct ServeConfig {
    /// Listen addresses for iSCSI. Port 0 picks a free one.
    pub iscsi: Vec<SocketAddr>,
    /// Listen addresses for NVMe/TCP.
    pub nvme_tcp: Vec<SocketAddr>,
    /// Listen addresses for NBD.
    pub nbd: Vec<SocketAddr>,
    /// Volumes served, by every protocol.
    pub exports: Vec<Export>,
    /// Number of volumes that can be added while the server runs.
    pub spare: usize,
    /// Hosts that may use a volume.
    pub host_lists: HostLists,
    /// Other servers may serve the same disks under the same names and identities: hosts are told
    /// to use these servers as paths of one device (multipath). Implied by several NVMe/TCP
    /// addresses.
    pub shared: bool,
    /// Identifier of the first NVMe controller; further ones count up. A host refuses equal
    /// identifiers from servers that share a subsystem name, so choose it at random. 0 and reserved
    /// identifiers count as 1.
    pub first_controller: u16,
    /// Random number, unique to each run of a server. Clients that reconnect use it to notice a
    /// restart of the server, which loses its volatile caches.
    pub instance: u64,
    /// CPUs to serve on, one thread each.
    pub cores: Vec<usize>,
    /// Further CPUs on which idle cores may sleep: those of the peers, if they run on this host.
    pub idle_cores: Vec<usize>,
    /// Resource limits.
    pub limits: Limits,
    /// Count the I/Os of each volume, for [`Server::counts`](crate::Server::counts).
    pub counts: bool,
}

/// A volume to serve, with its names.
#[derive(Clone)]
pub struct Export {
    /// Name of the iSCSI target; exports of equal name share it.
    pub target: String,
    /// Name of the NVMe subsystem; exports of equal name share it.
    pub subsystem: String,
    /// Logical unit number, 0 to 255, and also the namespace identifier: LUN 0 is not available
    /// over NVMe/TCP.
    pub lun: u8,
    /// The volume.
    pub volume: Arc<dyn Volume>,
    /// Identity of the disk to hosts that reach it by several paths: serial numbers and worldwide
    /// names derive from it. Unique per volume, across servers.
    pub disk: DiskId,
    /// Reservations of the volume, which may outlive the server; see [`UnitShared::kept`].
    pub reservations: UnitShared,
}

impl Export {
    /// Name of the export: target and LUN.
    pub fn name(&self) -> String {
        format!("{}/{}", self.target, self.lun)
    }
}

/// Resource limits. Beyond one of them the server refuses the new connection or ends the offending
/// one, and logs it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections. One host may have at most half of the connections that other
    /// hosts do not use.
    pub connections: usize,
    /// Maximum number of connections not logged in; one more ends the oldest of them.
    pub half_open: usize,
    /// Maximum commands in flight on one connection.
    pub commands: u16,
    /// Maximum bytes that a peer may leave unread beyond the responses to its commands.
    pub unread_bytes: usize,
    /// Bytes received on a connection before the others are served. By default two receive buffers
    /// of a core: 64 writes of 4 KiB.
    pub share_bytes: usize,
    /// Time limit of a login.
    pub login_timeout: Nanos,
    /// Memory in bytes for connections, their buffers and unsent responses. `None`: a quarter of
    /// the memory that the host or cgroup has available at the start, at most 4 GiB. Volumes in
    /// memory are not included.
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
