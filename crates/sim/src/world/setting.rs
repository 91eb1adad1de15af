//! The server of a world: its limits, volumes and settings.

use std::net::SocketAddr;
use std::sync::Arc;

use block::{Geometry, Memory};
use serve::{DiskId, Export, HostLists, Limits, Log, Protocols, ServeConfig, Shared};

use super::address::{Address, address};
use crate::disk::{SharedDisk, volume};
use crate::plan::Plan;

/// Bytes served on a connection in a row.
pub(super) const SHARE_BYTES: usize = 16 << 10;

/// Connection limit: twice as many as good clients need, and some for those whose end is not
/// noticed yet. One host gets at most half.
pub(super) fn places(plan: &Plan) -> usize {
    2 * (plan.iscsi + 2 * plan.nvme) as usize + 16
}

/// Whether a unit is memory of the server. The last unit is for hostile peers.
pub(super) fn is_memory(plan: &Plan, unit: usize) -> bool {
    unit >= plan.disks as usize && unit < (plan.disks + plan.memories) as usize
}

/// Shared state of a new server's cores.
pub(super) fn shared(
    plan: &Plan,
    geometry: Geometry,
    disks: &[SharedDisk],
    instance: u64,
    say: fn(&str),
) -> Arc<Shared> {
    let memory = |(unit, disk): (usize, &SharedDisk)| {
        is_memory(plan, unit).then(|| disk.borrow().bytes.clone())
    };
    let memories: Vec<Option<Memory>> = disks.iter().enumerate().map(memory).collect();
    let config = ServeConfig { instance, ..config(plan, geometry, &memories) };
    let protocols =
        Protocols::new(&config, &config.iscsi, &config.nvme_tcp).expect("names are good");
    Arc::new(Shared::new(protocols, &config, Log::new(say)).expect("there is memory enough"))
}

/// A disk as the server serves it.
pub(super) fn export(
    together: u64,
    disk: usize,
    geometry: Geometry,
    memory: Option<Memory>,
) -> Export {
    let Address { target, lun } = address(together, disk);
    Export {
        target: format!("iqn.{target}"),
        subsystem: format!("nqn.{target}"),
        lun,
        volume: volume(geometry, memory),
        disk: DiskId::new([disk as u8; 16]),
        reservations: Default::default(),
    }
}

/// The server's settings.
fn config(plan: &Plan, geometry: Geometry, memories: &[Option<Memory>]) -> ServeConfig {
    let memories = memories.iter().enumerate();
    let exports =
        memories.map(|(disk, memory)| export(plan.together, disk, geometry, memory.clone()));
    ServeConfig {
        counts: false,
        spare: 0,
        iscsi: vec![SocketAddr::from(([127, 0, 0, 1], 3260))],
        nvme_tcp: vec![SocketAddr::from(([127, 0, 0, 1], 4420))],
        nbd: Vec::new(),
        exports: exports.collect(),
        host_lists: HostLists::default(),
        shared: false,
        first_controller: 1,
        instance: 1,
        cores: (0..plan.cores as usize).collect(),
        idle_cores: Vec::new(),
        limits: Limits {
            connections: places(plan),
            half_open: 8,
            share_bytes: SHARE_BYTES,
            memory_bytes: Some((8 + 18 * plan.cores + plan.memory) << 20),
            ..Limits::default()
        },
    }
}
