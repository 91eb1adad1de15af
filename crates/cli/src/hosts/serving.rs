//! A rank that serves: its server, which stays until rank 0 hands out another role, and what it
//! used in the window of a run.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use block::Nanos;
use job::spec::Serving;
use os::Clock;
use os::sample::{HostCpu, thread_cpu};
use serve::Server;
use stats::ServerResult;
use stats::live::HostSecond;

use super::order::Serve;
use super::served::{Export, Portal, Served, Whereabouts};
use crate::args::Command;
use crate::braces::expand;
use crate::exit::UsageError;
use crate::{exit, scenario, typed};

/// The server of this rank.
pub(super) struct Held {
    server: Server,
    pub served: Served,
}

/// CPU time of a server and its host at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub at: Nanos,
    server: Option<Nanos>,
    host: HostCpu,
}

impl Held {
    /// Starts the server that an order has for this rank, if it has one.
    pub fn start(order: &Serve, rank: u32) -> Result<Option<Held>> {
        let of: Vec<&Serving> = order.of(rank).collect();
        if of.is_empty() {
            return Ok(None);
        }
        let files: Vec<(&String, &String)> = of.iter().flat_map(|one| &one.files).collect();
        let there = (!files.is_empty()).then(|| Files::write(&files)).transpose()?;
        let args = of.iter().flat_map(|one| &one.args);
        let args = args.flat_map(|word| expand(&order.named(word, rank)));
        let words: Vec<String> = std::iter::once("serve".to_owned()).chain(args).collect();
        let Command::Serve(serve) = typed::of_words(&words)?.command else {
            return Err(UsageError(format!("'{}' is no serve", words.join(" "))).into());
        };
        if serve.watch.listen.is_some() {
            let why = "--listen is of the run, not of a rank that serves";
            return Err(UsageError(why.to_owned()).into());
        }
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let in_vain = |why| UsageError(format!("serve: {}", exit::words(&why)));
        let prepared = crate::serve::Prepared::new(&serve, any).map_err(in_vain)?;
        let volumes = prepared.exports.iter().map(|one| Export {
            name: one.name.clone(),
            target: one.target.clone(),
            subsystem: one.subsystem.clone(),
            lun: one.lun,
            bytes: one.bytes,
        });
        let volumes = volumes.collect();
        let server = prepared.start().map_err(in_vain)?;
        drop(there);
        let served = Served {
            rank,
            name: order.names[rank as usize].clone(),
            whereabouts: Whereabouts::of_this(),
            portals: portals(&server),
            volumes,
        };
        Ok(Some(Held { server, served }))
    }

    /// CPU time used so far.
    pub fn used(&self) -> Used {
        let threads = self.server.thread_ids().into_iter();
        let each = threads.map(|thread| Some(thread_cpu(thread).ok()?.0));
        let server = each.sum::<Option<u64>>().map(Nanos);
        Used { at: Clock::get().now(), server, host: HostCpu::now() }
    }

    /// The second since `before`, for the view of rank 0.
    pub fn second(&self, before: Used) -> HostSecond {
        let used = self.used();
        HostSecond {
            target_cores: used.cores(before),
            host_percent: used.host_percent(before),
            ..HostSecond::default()
        }
    }

    /// Connections now.
    pub fn connections(&self) -> u64 {
        self.server.connection_count() as u64
    }

    /// The row of this rank in the result, of a window between two instants.
    pub fn row(&self, from: Used, to: Used) -> ServerResult {
        let portal = |one: &Portal| format!("{}={}", one.protocol, one.address);
        ServerResult {
            name: self.served.name.clone(),
            cpu: os::cpu::model(),
            cores: os::cpu::allowed().len() as u32,
            portals: self.served.portals.iter().map(portal).collect(),
            volumes: self.served.volumes.iter().map(|one| one.name.clone()).collect(),
            target_cores: to.cores(from),
            cpu_percent: to.host_percent(from),
            ..ServerResult::default()
        }
    }
}

impl Used {
    fn seconds(&self, before: Used) -> Option<f64> {
        Some(self.at.since(before.at).as_secs_f64()).filter(|seconds| *seconds > 0.0)
    }

    fn cores(&self, before: Used) -> Option<f64> {
        let used = self.server?.since(before.server?).as_secs_f64();
        Some(used / self.seconds(before)?)
    }

    fn host_percent(&self, before: Used) -> Option<f64> {
        let since = self.host.since(&before.host);
        Some(100.0 * since.busy() / since.total()).filter(|percent| percent.is_finite())
    }
}

fn portals(server: &Server) -> Vec<Portal> {
    let all = [("iscsi", server.iscsi()), ("nvme-tcp", server.nvme_tcp()), ("nbd", server.nbd())];
    let of = |(protocol, addresses): (&str, &[SocketAddr])| {
        let one =
            |address: &SocketAddr| Portal { protocol: protocol.to_owned(), address: *address };
        addresses.iter().map(one).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(of).collect()
}

/// A folder with the files that the arguments of a server name, which is the working folder until
/// the volumes are open.
struct Files {
    folder: PathBuf,
    before: PathBuf,
}

impl Files {
    fn write(files: &[(&String, &String)]) -> Result<Files> {
        let before = std::env::current_dir().context("the working folder")?;
        let folder = std::env::temp_dir().join(format!("drumfire-serve-{}", std::process::id()));
        let in_it = |error| format!("{}: {error}", folder.display());
        std::fs::create_dir(&folder).map_err(in_it).map_err(UsageError)?;
        let files_of = Files { folder: folder.clone(), before };
        for (name, text) in files {
            if !scenario::is_plain(name) {
                let why = format!("serve: files: '{name}': letters, digits, - _ . alone");
                return Err(UsageError(why).into());
            }
            let write = |path: &Path| std::fs::write(path, text.as_bytes());
            write(&folder.join(name)).with_context(|| format!("cannot write {name}"))?;
        }
        std::env::set_current_dir(&folder).context("cannot enter the folder of files")?;
        Ok(files_of)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A working folder that was removed meanwhile stays unreachable.
        let _ = std::env::set_current_dir(&self.before);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
