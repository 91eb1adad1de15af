//! The protocol of a port: the only module of this crate that knows protocols.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use block::Nanos;
use proto::iscsi::{Directory, IscsiTarget, TargetConfig, TargetEntry};
use proto::nbd::{NbdExport, NbdExports, NbdTarget, NbdTargetConfig};
use proto::nvme::{
    ControllerLimits, Controllers, Namespace, NvmeTarget, NvmeTargetConfig, Portal, Subsystem,
    Subsystems, check_nqn,
};
use proto::scsi::{Identity, Unit};
use proto::{Instance, Instances, Peers, Target, UnitId};

use crate::config::{Export, ServeConfig};
use crate::host_lists::HostLists;
use crate::hosts;
use crate::server::ServeError;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// iSCSI.
    Iscsi,
    /// NVMe over TCP.
    NvmeTcp,
    /// NBD.
    Nbd,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Iscsi => "iSCSI",
            Protocol::NvmeTcp => "NVMe/TCP",
            Protocol::Nbd => "NBD",
        })
    }
}

/// Configuration from which the endpoints of all protocols are created.
pub struct Protocols {
    exports: Vec<Export>,
    host_lists: HostLists,
    iscsi: Arc<TargetConfig>,
    directory: Arc<Directory>,
    nvme: Arc<NvmeTargetConfig>,
    subsystems: Arc<Subsystems>,
    controllers: Arc<Controllers>,
    nbd: NbdTargetConfig,
    nbd_exports: Arc<NbdExports>,
    /// Addresses that iSCSI discovery reports, besides the one that was asked.
    iscsi_portals: Arc<[String]>,
    /// Connected peers, and the state of former ones.
    peers: Arc<Peers>,
    /// By unit: instance by which clients recognise a lost cache.
    instances: Vec<Instance>,
}

impl Protocols {
    /// Creates the protocols for the exports of `config`; a unit's id is its index there.
    /// `iscsi_tcp` and `nvme_tcp` are the addresses that discovery reports.
    ///
    /// # Errors
    ///
    /// Invalid or duplicate names and numbers of exports.
    pub fn new(
        config: &ServeConfig,
        iscsi_tcp: &[SocketAddr],
        nvme_tcp: &[SocketAddr],
    ) -> Result<Protocols, ServeError> {
        let ServeConfig { exports, limits, host_lists, .. } = config;
        host_lists.check(config)?;
        let iscsi = TargetConfig {
            max_commands: limits.commands,
            login_timeout: limits.login_timeout,
            ..TargetConfig::default()
        };
        let nvme = NvmeTargetConfig {
            max_queue_depth: limits.commands.saturating_add(1).clamp(32, 1024),
            connect_timeout: limits.login_timeout,
            ..NvmeTargetConfig::default()
        };
        let with_nvme = !nvme_tcp.is_empty();
        let portals = nvme_tcp.iter().map(|address| Portal {
            address: address.ip().to_string(),
            port: address.port().to_string(),
        });
        // Several addresses are several paths to each disk.
        let shared = config.shared || nvme_tcp.len() > 1;
        let all = Instances::new(config.instance);
        let instances: Vec<Instance> = exports.iter().map(|_| all.unit()).collect();
        let subsystems =
            if with_nvme { subsystems(exports, &instances, shared)? } else { Vec::new() };
        let subsystems = Subsystems::new(subsystems)?.with_portals(portals.collect());
        let subsystems = host_lists.nvme.iter().try_fold(subsystems, restrict)?;
        let closed = |export: &&Export| {
            host_lists.restrict(export) && !host_lists.has(Protocol::NvmeTcp, export)
        };
        let subsystems = exports
            .iter()
            .filter(closed)
            .fold(subsystems, |all, export| all.allow_only(&export.subsystem, Vec::new()));
        let controllers = Controllers::new(ControllerLimits::default());
        let controllers = controllers.beginning_at(config.first_controller);
        let controllers = controllers.drawn_from(config.instance);
        let directory = directory(exports, &instances, host_lists)?;
        // NBD names matter only if NBD is served.
        let nbd_exports =
            if config.nbd.is_empty() { Vec::new() } else { nbd_exports(exports, &instances) };
        let nbd_exports = NbdExports::new(nbd_exports)?;
        let nbd = NbdTargetConfig { login_timeout: limits.login_timeout, ..Default::default() };
        Ok(Protocols {
            exports: exports.clone(),
            host_lists: host_lists.clone(),
            nbd,
            nbd_exports: Arc::new(nbd_exports),
            iscsi: Arc::new(iscsi),
            directory: Arc::new(directory),
            nvme: Arc::new(nvme),
            subsystems: Arc::new(subsystems),
            controllers: Arc::new(controllers),
            iscsi_portals: portals_of(iscsi_tcp),
            peers: Arc::default(),
            instances,
        })
    }

    /// Writes to a unit that were acknowledged may be lost: the next flush of every connection
    /// fails.
    pub(crate) fn lose(&self, unit: usize) {
        self.instances[unit].lose();
    }

    /// The endpoint of a connection accepted at `local`.
    pub(crate) fn end(
        &self,
        protocol: Protocol,
        local: SocketAddr,
        peer: IpAddr,
        connection: u32,
        now: Nanos,
    ) -> Box<dyn Target> {
        let (peers, host) = (Arc::clone(&self.peers), hosts::number_of(peer));
        match protocol {
            Protocol::Iscsi => Box::new(
                IscsiTarget::new(
                    Arc::clone(&self.iscsi),
                    self.directory_for(peer),
                    &portal_of(&local),
                    connection,
                    now,
                )
                .with_portals(Arc::clone(&self.iscsi_portals))
                .among(peers),
            ),
            Protocol::NvmeTcp => Box::new(
                NvmeTarget::new(
                    Arc::clone(&self.nvme),
                    Arc::clone(&self.subsystems),
                    Arc::clone(&self.controllers),
                    &local.ip().to_string(),
                    &local.port().to_string(),
                    now,
                )
                .from_peer(host)
                .among(peers),
            ),
            Protocol::Nbd => {
                let exports = self.nbd_exports_for(peer);
                Box::new(NbdTarget::new(exports, self.nbd, now).among(peers, host))
            }
        }
    }

    /// The iSCSI targets that a peer may use.
    fn directory_for(&self, peer: IpAddr) -> Arc<Directory> {
        if self.host_lists.are_none() {
            return Arc::clone(&self.directory);
        }
        let may_use = |entry: &&TargetEntry| {
            let export = self.exports.iter().find(|export| export.target == entry.name);
            export.is_some_and(|one| self.host_lists.allow(Protocol::Iscsi, one, peer))
        };
        let entries = self.directory.targets().iter().filter(may_use).cloned().collect();
        // Some of several valid, distinct names are valid and distinct.
        let directory = Directory::new(entries).expect("they were valid");
        Arc::new(directory.with_discovery_chap(self.directory.discovery_chap().cloned()))
    }

    /// The NBD exports that a peer may use.
    fn nbd_exports_for(&self, peer: IpAddr) -> Arc<NbdExports> {
        if self.host_lists.are_none() {
            return Arc::clone(&self.nbd_exports);
        }
        let may_use = |export: &&NbdExport| {
            let of = self.exports.get(export.id.0 as usize);
            of.is_some_and(|one| self.host_lists.allow(Protocol::Nbd, one, peer))
        };
        let list = self.nbd_exports.list().iter().filter(may_use).cloned().collect();
        Arc::new(NbdExports::new(list).expect("they were valid"))
    }
}

/// Address of a portal of the only portal group.
fn portal_of(address: &SocketAddr) -> String {
    format!("{address},1")
}

/// Portals that hosts can reach: a wildcard is no address, and the host knows the one it used.
fn portals_of(addresses: &[SocketAddr]) -> Arc<[String]> {
    let named = addresses.iter().filter(|address| !address.ip().is_unspecified());
    named.map(portal_of).collect()
}

/// Restricts a subsystem to these hosts.
fn restrict(
    subsystems: Subsystems,
    (nqn, hosts): (&String, &Vec<String>),
) -> Result<Subsystems, ServeError> {
    if !subsystems.list().iter().any(|subsystem| subsystem.nqn == *nqn) {
        return Err(ServeError::HostsOfNothing(nqn.clone(), Protocol::NvmeTcp));
    }
    for host in hosts {
        check_nqn(host).map_err(|error| ServeError::HostName(host.clone(), error))?;
    }
    Ok(subsystems.allow_only(nqn, hosts.clone()))
}

/// The iSCSI targets of `exports`.
fn directory(
    exports: &[Export],
    instances: &[Instance],
    lists: &HostLists,
) -> Result<Directory, ServeError> {
    let mut targets: Vec<TargetEntry> = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        let known = targets.iter().position(|target| target.name == export.target);
        let at = known.unwrap_or_else(|| {
            let (name, alias) = (export.target.clone(), String::new());
            let chap = lists.chap.get(&name).cloned();
            targets.push(TargetEntry { name, units: Vec::new(), alias, chap });
            targets.len() - 1
        });
        let (product, backing) = (product(export), export.volume.backing());
        let identity = Identity { disk: export.disk, product };
        let (geometry, memory) = (export.volume.geometry(), export.volume.memory());
        let unit = Unit::new(UnitId(index as u32), geometry, memory, identity);
        let unit = unit.backed_by(backing).of_instance(instances[index].clone());
        let unit = unit.of_extents(export.volume.extents());
        if put(&mut targets[at].units, usize::from(export.lun), unit) {
            return Err(ServeError::DoubleLun(export.target.clone(), export.lun));
        }
    }
    Ok(Directory::new(targets)?.with_discovery_chap(lists.discovery_chap.clone()))
}

/// The NVMe subsystems of `exports`.
fn subsystems(
    exports: &[Export],
    instances: &[Instance],
    shared: bool,
) -> Result<Vec<Subsystem>, ServeError> {
    let mut list: Vec<Subsystem> = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        let known = list.iter().position(|subsystem| subsystem.nqn == export.subsystem);
        let at = known.unwrap_or_else(|| {
            list.push(Subsystem {
                nqn: export.subsystem.clone(),
                namespaces: Vec::new(),
                serial: String::new(),
                model: model(export),
                shared,
            });
            list.len() - 1
        });
        if list[at].model != model(export) {
            "Drumfire".clone_into(&mut list[at].model);
        }
        let (geometry, memory) = (export.volume.geometry(), export.volume.memory());
        let (id, instance) = (UnitId(index as u32), Some(instances[index].clone()));
        let (disk, backing) = (export.disk, export.volume.backing());
        let namespace = Namespace { id, geometry, memory, disk, backing, instance };
        let place = usize::from(export.lun).checked_sub(1);
        let place = place.ok_or_else(|| ServeError::NamespaceZero(export.subsystem.clone()))?;
        if put(&mut list[at].namespaces, place, namespace) {
            return Err(ServeError::DoubleLun(export.target.clone(), export.lun));
        }
    }
    for subsystem in &mut list {
        subsystem.serial = serial(subsystem);
    }
    Ok(list)
}

/// The model name that Identify reports for an export's subsystem.
fn model(export: &Export) -> String {
    format!("Drumfire {}", product(export))
}

/// Product name that INQUIRY reports for an export: the kind of its volume, and the word of its
/// backing store if that is no medium and the kind does not say so.
fn product(export: &Export) -> String {
    let kind = export.volume.kind().to_uppercase();
    let word = export.volume.backing().word().to_uppercase();
    let is_told = kind.contains(&word) || !["EMULATED", "FAULTY"].contains(&&*word);
    if is_told { kind } else { format!("{word} {kind}") }
}

/// Prefix of our own target names.
const OWN_TARGETS: &str = "iqn.2026-11.io.drumfire:";
/// LUN that an NBD export's name omits.
const USUAL_LUN: u8 = 1;

/// The NBD exports of `exports`: by the short name of a target of ours, and by its full name.
fn nbd_exports(exports: &[Export], instances: &[Instance]) -> Vec<NbdExport> {
    let export = |(index, export): (usize, &Export)| {
        let short = export.target.strip_prefix(OWN_TARGETS).filter(|name| !name.is_empty());
        let numbered = |name: &str| match export.lun {
            USUAL_LUN => name.to_owned(),
            lun => format!("{name}/{lun}"),
        };
        NbdExport {
            name: numbered(short.unwrap_or(&export.target)),
            alias: numbered(&export.target),
            description: format!("{}, {}", model(export), export.volume.backing().line()),
            id: UnitId(index as u32),
            geometry: export.volume.byte_geometry(),
            memory: export.volume.memory(),
            instance: Some(instances[index].clone()),
            extents: export.volume.extents(),
        }
    };
    exports.iter().enumerate().map(export).collect()
}

/// A subsystem's serial number: that of its first namespace. Unrelated subsystems of equal name
/// have different serial numbers, which stay when namespaces are added.
fn serial(subsystem: &Subsystem) -> String {
    let first = subsystem.namespaces.iter().flatten().next();
    first.map(|namespace| namespace.disk.serial()).unwrap_or_default()
}

/// Puts `unit` at `index` of a sparse list; true if the index was taken.
fn put<T: Clone>(list: &mut Vec<Option<T>>, index: usize, unit: T) -> bool {
    if list.len() <= index {
        list.resize(index + 1, None);
    }
    list[index].replace(unit).is_some()
}

#[cfg(test)]
mod test {
    use proto::DiskId;
    use volume::Purpose;

    use super::*;
    use crate::Limits;

    fn export(lun: u8, disk: u8) -> Export {
        Export {
            target: "iqn.2026-11.io.drumfire:disk".to_owned(),
            subsystem: "nqn.2026-11.io.drumfire:disk".to_owned(),
            lun,
            volume: volume::open(&"null:1m".parse().unwrap(), Purpose::Store).unwrap(),
            disk: DiskId::new([disk; 16]),
        }
    }

    #[test]
    fn several_ways_are_several_addresses_or_servers() {
        let shared = |addresses: &[&str], shared| {
            let config = ServeConfig {
                counts: false,
                iscsi: Vec::new(),
                nvme_tcp: Vec::new(),
                nbd: Vec::new(),
                exports: vec![export(1, 1)],
                host_lists: HostLists::default(),
                shared,
                first_controller: 1,
                instance: 1,
                cores: Vec::new(),
                idle_cores: Vec::new(),
                limits: Limits::default(),
            };
            let addresses: Vec<SocketAddr> =
                addresses.iter().map(|address| address.parse().unwrap()).collect();
            let protocols = Protocols::new(&config, &[], &addresses).unwrap();
            protocols.subsystems.list()[0].shared
        };
        assert!(!shared(&["192.0.2.1:4420"], false));
        assert!(shared(&["192.0.2.1:4420"], true));
        assert!(shared(&["192.0.2.1:4420", "192.0.2.2:4420"], false));
    }

    #[test]
    fn a_wildcard_is_no_address_for_hosts() {
        let addresses = ["192.0.2.1:3260", "0.0.0.0:3260", "[2001:db8::1]:3261", "[::]:3260"];
        let portals = portals_of(&addresses.map(|address| address.parse().unwrap()));
        assert_eq!(portals[..], ["192.0.2.1:3260,1", "[2001:db8::1]:3261,1"]);
    }

    #[test]
    fn subsystems_have_the_serial_number_of_their_first_namespace() {
        let serial = |exports: &[Export]| {
            let all = Instances::new(1);
            let instances: Vec<Instance> = exports.iter().map(|_| all.unit()).collect();
            subsystems(exports, &instances, false).unwrap()[0].serial.clone()
        };
        let first = DiskId::new([1; 16]).serial();
        assert_eq!(serial(&[export(3, 1)]), first);
        assert_eq!(serial(&[export(9, 2), export(3, 1)]), first, "in whichever order");
        assert_ne!(serial(&[export(3, 2), export(9, 1)]), first);
    }
}
