//! The protocol of a port: endpoints of connections are made here.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use block::Nanos;
use proto::iscsi::{IscsiTarget, TargetConfig};
use proto::nbd::{NbdTarget, NbdTargetConfig};
use proto::nvme::{ControllerLimits, Controllers, NvmeTarget, NvmeTargetConfig, Portal};
use proto::{Offers, Peers, Target};

use crate::config::ServeConfig;
use crate::host_lists::HostLists;
use crate::hosts;
use crate::places::Places;
use crate::server::ServeError;
use crate::table::{Doors, Table};

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

/// The table of now.
type Current = Arc<Mutex<Arc<Table>>>;

/// Configuration from which the endpoints of all protocols are created.
pub struct Protocols {
    places: Places,
    current: Current,
    doors: Doors,
    iscsi: Arc<TargetConfig>,
    nvme: Arc<NvmeTargetConfig>,
    controllers: Arc<Controllers>,
    nbd: NbdTargetConfig,
    /// Addresses that iSCSI discovery reports, besides the one that was asked.
    iscsi_portals: Arc<[String]>,
    /// Connected peers, and the state of former ones.
    peers: Arc<Peers>,
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
        let portals = nvme_tcp.iter().map(|address| Portal {
            address: address.ip().to_string(),
            port: address.port().to_string(),
        });
        let doors = Doors {
            nvme_portals: portals.collect(),
            with_nbd: !config.nbd.is_empty(),
            // Several addresses are several paths to each disk.
            shared: config.shared || nvme_tcp.len() > 1,
        };
        let places = Places::new(exports, config.spare, config.instance);
        let table = Table::new(places.offered(), host_lists.clone(), &doors, 1)?;
        let controllers = Controllers::new(ControllerLimits::default());
        let controllers = controllers.beginning_at(config.first_controller);
        let controllers = controllers.drawn_from(config.instance);
        let nbd = NbdTargetConfig { login_timeout: limits.login_timeout, ..Default::default() };
        Ok(Protocols {
            places,
            current: Arc::new(Mutex::new(Arc::new(table))),
            doors,
            iscsi: Arc::new(iscsi),
            nvme: Arc::new(nvme),
            controllers: Arc::new(controllers),
            nbd,
            iscsi_portals: portals_of(iscsi_tcp),
            peers: Arc::default(),
        })
    }

    /// The places of volumes.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the table that hosts see now.
    pub(crate) fn table(&self) -> Arc<Table> {
        now(&self.current)
    }

    /// Shows hosts the volumes that are in their places now, to hosts of these lists. Connections
    /// keep what their login found.
    ///
    /// # Errors
    ///
    /// Invalid or duplicate names and numbers of volumes: nothing has changed then.
    pub(crate) fn show(&self, host_lists: HostLists) -> Result<(), ServeError> {
        let number = self.table().number + 1;
        let table = Table::new(self.places.offered(), host_lists, &self.doors, number)?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        Ok(())
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
                    self.offers(move |table| table.directory_for(peer)),
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
                    self.offers(|table| Arc::clone(&table.subsystems)),
                    Arc::clone(&self.controllers),
                    &local.ip().to_string(),
                    &local.port().to_string(),
                    now,
                )
                .from_peer(host)
                .among(peers),
            ),
            Protocol::Nbd => {
                let exports = self.offers(move |table| table.nbd_exports_for(peer));
                Box::new(NbdTarget::new(exports, self.nbd, now).among(peers, host))
            }
        }
    }

    /// A part of the table at each time that it is asked for.
    fn offers<T>(&self, part: impl Fn(&Table) -> Arc<T> + 'static) -> Offers<T> {
        let current = Arc::clone(&self.current);
        Offers::new(move || part(&now(&current)))
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

fn now(current: &Current) -> Arc<Table> {
    Arc::clone(&current.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod test {
    use proto::DiskId;
    use volume::Purpose;

    use super::*;
    use crate::config::{Export, Limits};

    fn export() -> Export {
        Export {
            target: "iqn.2026-11.io.drumfire:disk".to_owned(),
            subsystem: "nqn.2026-11.io.drumfire:disk".to_owned(),
            lun: 1,
            volume: volume::open(&"null:1m".parse().unwrap(), Purpose::Store).unwrap(),
            disk: DiskId::new([1; 16]),
            reservations: Default::default(),
        }
    }

    #[test]
    fn several_ways_are_several_addresses_or_servers() {
        let shared = |addresses: &[&str], shared| {
            let config = ServeConfig {
                counts: false,
                spare: 0,
                iscsi: Vec::new(),
                nvme_tcp: Vec::new(),
                nbd: Vec::new(),
                exports: vec![export()],
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
            protocols.table().subsystems.list()[0].shared
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
}
