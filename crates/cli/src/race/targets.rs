//! The targets of a race.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use load::TargetThreads;
use serve::{Export, Log, Server, VhostConfig, VhostServer, VhostVolume};

use super::{subsystem_name, target_threads};
use crate::exit::Exit;
use crate::output::note;

/// Targets, until this is dropped.
pub enum Targets {
    /// Targets on loopback.
    Network(Server),
    /// Devices in shared memory.
    InMemory(VhostServer, Sockets),
}

/// A folder of sockets for this user, removed on drop.
pub struct Sockets(PathBuf);

impl Drop for Sockets {
    fn drop(&mut self) {
        // Something else in it is not ours.
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Targets {
    /// Starts vhost-user devices for these volumes.
    pub(super) fn in_memory(exports: Vec<Export>, cores: Vec<usize>) -> Result<Targets> {
        let name = format!("drumfire-race-{}-{:x}", std::process::id(), os::random());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| folder.display().to_string())?;
        let sockets = Sockets(folder.clone());
        let volume = |export: Export| {
            let name = socket_name(&export.target, export.lun);
            VhostVolume { name, export, read_only: false }
        };
        let volumes = exports.into_iter().map(volume).collect();
        let log = Log::new(|line| note(format_args!("target: {line}")));
        let server = VhostServer::start(VhostConfig { volumes, folder, cores }, log, |why| {
            note(format_args!("drumfire: {why}: the race stops"));
            std::process::exit(Exit::Failed.number().into());
        })?;
        Ok(Targets::InMemory(server, sockets))
    }

    /// URIs of volumes, each by target and LUN.
    pub(super) fn uris(&self, volumes: &[(String, u8)]) -> Vec<String> {
        let uri = |(target, lun): &(String, u8)| match self {
            Targets::Network(server) => match server.iscsi().first() {
                Some(portal) => format!("iscsi://{portal}/{target}/{lun}"),
                None => {
                    let portal = server.nvme_tcp()[0];
                    format!("nvme+tcp://{portal}/{}/{lun}", subsystem_name(target))
                }
            },
            Targets::InMemory(_, Sockets(folder)) => {
                let name = format!("{}.sock", socket_name(target, *lun));
                format!("vhost-user:{}", folder.join(name).display())
            }
        };
        volumes.iter().map(uri).collect()
    }

    /// Threads of the targets, which drive as well.
    pub(super) fn threads(&self, cores: Vec<usize>) -> TargetThreads {
        match self {
            Targets::Network(server) => target_threads(server, cores),
            Targets::InMemory(server, _) => TargetThreads {
                cores,
                threads: server.thread_ids(),
                shared: server.shared_threads(),
            },
        }
    }
}

/// Name of a volume's socket.
fn socket_name(target: &str, lun: u8) -> String {
    let name = target.rsplit(':').next().unwrap_or(target);
    format!("{name}-{lun}")
}
