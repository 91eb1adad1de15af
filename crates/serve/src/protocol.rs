//! What is spoken on a port: the only place here that knows protocols.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use block::Nanos;
use proto::iscsi::{Directory, IscsiTarget, TargetConfig, TargetEntry};
use proto::nvme::{
    ControllerLimits, Controllers, Namespace, NvmeTarget, NvmeTargetConfig, Portal, Subsystem,
    Subsystems, check_nqn,
};
use proto::scsi::{Identity, Unit};
use proto::{Target, UnitId};

use crate::config::{Export, ServeConfig};
use crate::hosts;
use crate::server::ServeError;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// iSCSI.
    Iscsi,
    /// NVMe over TCP.
    NvmeTcp,
}

/// What the ends of all protocols answer from.
pub(crate) struct Protocols {
    iscsi: Arc<TargetConfig>,
    directory: Arc<Directory>,
    nvme: Arc<NvmeTargetConfig>,
    subsystems: Arc<Subsystems>,
    controllers: Arc<Controllers>,
}

impl Protocols {
    /// For the exports of `config`; a unit's id is its place in their list. `nvme_tcp` is where
    /// NVMe/TCP will be spoken, which its discovery tells.
    pub(crate) fn new(
        config: &ServeConfig,
        nvme_tcp: &[SocketAddr],
    ) -> Result<Protocols, ServeError> {
        let ServeConfig { exports, limits, nvme_hosts, .. } = config;
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
        let subsystems = if with_nvme { subsystems(exports)? } else { Vec::new() };
        let subsystems = Subsystems::new(subsystems)?.with_portals(portals.collect());
        let subsystems = nvme_hosts.iter().try_fold(subsystems, restrict)?;
        Ok(Protocols {
            iscsi: Arc::new(iscsi),
            directory: Arc::new(directory(exports)?),
            nvme: Arc::new(nvme),
            subsystems: Arc::new(subsystems),
            controllers: Arc::new(Controllers::new(ControllerLimits::default())),
        })
    }

    /// Our end of a connection that came in at `local`.
    pub(crate) fn end(
        &self,
        protocol: Protocol,
        local: SocketAddr,
        peer: IpAddr,
        connection: u32,
        now: Nanos,
    ) -> Box<dyn Target> {
        match protocol {
            Protocol::Iscsi => Box::new(IscsiTarget::new(
                Arc::clone(&self.iscsi),
                Arc::clone(&self.directory),
                // The only portal group there is.
                &format!("{local},1"),
                connection,
                now,
            )),
            Protocol::NvmeTcp => Box::new(
                NvmeTarget::new(
                    Arc::clone(&self.nvme),
                    Arc::clone(&self.subsystems),
                    Arc::clone(&self.controllers),
                    &local.ip().to_string(),
                    &local.port().to_string(),
                    connection,
                    now,
                )
                .from_peer(hosts::number_of(peer)),
            ),
        }
    }
}

/// Lets only these hosts use a subsystem.
fn restrict(
    subsystems: Subsystems,
    (nqn, hosts): (&String, &Vec<String>),
) -> Result<Subsystems, ServeError> {
    if !subsystems.list().iter().any(|subsystem| subsystem.nqn == *nqn) {
        return Err(ServeError::HostsOfNothing(nqn.clone()));
    }
    for host in hosts {
        check_nqn(host).map_err(|error| ServeError::HostName(host.clone(), error))?;
    }
    Ok(subsystems.allow_only(nqn, hosts.clone()))
}

/// The iSCSI targets that `exports` name.
fn directory(exports: &[Export]) -> Result<Directory, ServeError> {
    let mut targets: Vec<TargetEntry> = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        let known = targets.iter().position(|target| target.name == export.target);
        let at = known.unwrap_or_else(|| {
            let (name, alias) = (export.target.clone(), String::new());
            targets.push(TargetEntry { name, units: Vec::new(), alias });
            targets.len() - 1
        });
        let product = export.volume.kind().to_uppercase();
        let identity = Identity { serial: export.serial.clone(), product };
        let (geometry, memory) = (export.volume.geometry(), export.volume.memory());
        let unit = Unit::new(UnitId(index as u32), geometry, memory, identity);
        if put(&mut targets[at].units, usize::from(export.lun), unit) {
            return Err(ServeError::DoubleLun(export.target.clone(), export.lun));
        }
    }
    Ok(Directory::new(targets)?)
}

/// The NVMe subsystems that `exports` name.
fn subsystems(exports: &[Export]) -> Result<Vec<Subsystem>, ServeError> {
    let mut list: Vec<Subsystem> = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        let known = list.iter().position(|subsystem| subsystem.nqn == export.subsystem);
        let at = known.unwrap_or_else(|| {
            list.push(Subsystem {
                nqn: export.subsystem.clone(),
                namespaces: Vec::new(),
                serial: serial(&export.serial),
                model: "Drumfire".to_owned(),
            });
            list.len() - 1
        });
        let (geometry, memory) = (export.volume.geometry(), export.volume.memory());
        let namespace = Namespace { id: UnitId(index as u32), geometry, memory };
        let place = usize::from(export.lun).checked_sub(1);
        let place = place.ok_or_else(|| ServeError::NamespaceZero(export.subsystem.clone()))?;
        if put(&mut list[at].namespaces, place, namespace) {
            return Err(ServeError::DoubleLun(export.target.clone(), export.lun));
        }
    }
    Ok(list)
}

/// The last 20 characters, which tell apart what has a common beginning.
fn serial(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(20);
    text.chars().skip(skip).collect()
}

/// Puts `unit` at `index` of a list with holes; true if one was there.
fn put<T: Clone>(list: &mut Vec<Option<T>>, index: usize, unit: T) -> bool {
    if list.len() <= index {
        list.resize(index + 1, None);
    }
    list[index].replace(unit).is_some()
}
