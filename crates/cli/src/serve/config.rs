//! The settings of `serve` as a file, and flags before them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::args::Serve;
use crate::settings;

/// The settings of `serve` as a file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    pub(super) iscsi: Vec<SocketAddr>,
    pub(super) nvme_tcp: Vec<SocketAddr>,
    pub(super) nbd: Vec<SocketAddr>,
    pub(super) volume: Vec<String>,
    pub(super) id: Option<String>,
    pub(super) cores: Vec<usize>,
    /// Volumes that no host may change, by NAME or NAME/LUN.
    pub(super) read_only: Vec<String>,
    /// Log logins and ends of connections.
    pub(super) log_connections: bool,
    /// Volumes whose medium initiators can eject, likewise.
    pub(super) removable: Vec<String>,
    /// Keep reservations over restarts, where hosts ask for it.
    pub(super) keep_reservations: bool,
    /// Control socket.
    pub(super) control: Option<PathBuf>,
    /// Address of the live page and the metrics, and file with the token of viewers.
    pub(super) listen: Option<SocketAddr>,
    pub(super) listen_token: Option<PathBuf>,
    /// Memory for connections, as 512m.
    pub(super) memory: Option<String>,
    /// NQNs of the only hosts that may use a volume over NVMe/TCP, by the NAME of the volume.
    pub(super) nvme_hosts: BTreeMap<String, Vec<String>>,
    /// Hosts over iSCSI, likewise: addresses or networks.
    pub(super) iscsi_hosts: BTreeMap<String, Vec<String>>,
    /// Hosts over NBD, likewise.
    pub(super) nbd_hosts: BTreeMap<String, Vec<String>>,
    /// Files with secrets that iSCSI initiators have to prove, by the NAME of the volume.
    pub(super) iscsi_chap: BTreeMap<String, PathBuf>,
    /// File with secrets that iSCSI discovery has to prove.
    pub(super) discovery_chap: Option<PathBuf>,
}

/// The settings of a server: flags before those of a file.
pub(super) struct Chosen {
    pub(super) file: Config,
    pub(super) iscsi: Vec<SocketAddr>,
    pub(super) nvme_tcp: Vec<SocketAddr>,
    pub(super) nbd: Vec<SocketAddr>,
}

impl Config {
    /// Lines about settings that differ in `new` and that only a restart changes.
    pub(super) fn restart_wanted(&self, new: &Config) -> Vec<String> {
        let differs = [
            ("iscsi", self.iscsi != new.iscsi),
            ("nvme_tcp", self.nvme_tcp != new.nvme_tcp),
            ("nbd", self.nbd != new.nbd),
            ("id", self.id != new.id),
            ("cores", self.cores != new.cores),
            ("log_connections", self.log_connections != new.log_connections),
            ("keep_reservations", self.keep_reservations != new.keep_reservations),
            ("removable", self.removable != new.removable),
            ("control", self.control != new.control),
            ("listen", (&self.listen, &self.listen_token) != (&new.listen, &new.listen_token)),
            ("memory", self.memory != new.memory),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(key, _)| format!("{key} has changed: restart the server for it")).collect()
    }

    /// These settings with the flags of the command line before them.
    pub(super) fn with(&self, flags: &Serve) -> Config {
        let mut all = self.clone();
        all.id = flags.id.clone().or(all.id);
        all.log_connections |= flags.log_connections;
        all.keep_reservations |= flags.keep_reservations;
        all.control = flags.control.clone().or(all.control);
        all.listen = flags.watch.listen.or(all.listen);
        all.listen_token = flags.watch.listen_token.clone().or(all.listen_token);
        all.memory = flags.memory.map(|bytes| bytes.to_string()).or(all.memory);
        if !flags.cores.is_empty() {
            all.cores.clone_from(&flags.cores);
        }
        all
    }
}

impl Chosen {
    pub(super) fn of(serve: &Serve) -> Result<Chosen> {
        let file = serve.config.as_deref().map(settings::read).transpose()?;
        let file: Config = file.unwrap_or_default();
        let chosen = |flags: &[SocketAddr], file: &[SocketAddr]| match flags {
            [] => file.to_vec(),
            flags => flags.to_vec(),
        };
        Ok(Chosen {
            iscsi: chosen(&serve.iscsi, &file.iscsi),
            nvme_tcp: chosen(&serve.nvme_tcp, &file.nvme_tcp),
            nbd: chosen(&serve.nbd, &file.nbd),
            file,
        })
    }
}
