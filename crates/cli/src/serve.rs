//! `drumfire serve`: be a target.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ::serve::{Export, Limits, Log, ServeConfig, Server};
use anyhow::Result;
use block::parse_size;
use serde::Deserialize;
use volume::{Purpose, Uri};

use crate::args::Serve;
use crate::exit::{Exit, UsageError};
use crate::output::{note, print};
use crate::{placement, settings, signal};

/// Names of targets, and of subsystems, go on like this.
const NAMING_AUTHORITY: &str = "2026-11.io.drumfire";
/// Where a lone volume stands: what most initiators try first.
const DEFAULT_LUN: u8 = 1;
const DEFAULT_PORTAL: &str = "127.0.0.1:3260";

/// The settings of `serve` as a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    iscsi: Vec<SocketAddr>,
    nvme_tcp: Vec<SocketAddr>,
    volume: Vec<String>,
    cores: Vec<usize>,
    /// Memory for connections, as 512m.
    memory: Option<String>,
    /// By the NAME of a volume: NQNs of the only hosts that may use it over NVMe/TCP.
    nvme_hosts: BTreeMap<String, Vec<String>>,
}

/// Serves until it is asked to stop.
pub fn main(serve: &Serve) -> Result<Exit> {
    let file: Config = serve.config.as_deref().map(settings::read).transpose()?.unwrap_or_default();
    let chosen = |flags: &[SocketAddr], file: Vec<SocketAddr>| match flags {
        [] => file,
        flags => flags.to_vec(),
    };
    let nvme_tcp = chosen(&serve.nvme_tcp, file.nvme_tcp);
    let mut iscsi = chosen(&serve.iscsi, file.iscsi);
    if iscsi.is_empty() && nvme_tcp.is_empty() {
        iscsi.push(DEFAULT_PORTAL.parse().expect("an address"));
    }
    let volumes: Vec<&String> = file.volume.iter().chain(&serve.volume).collect();
    if volumes.is_empty() {
        let message = "nothing to serve: give --volume NAME=URI, such as --volume disk=ram:1g";
        return Err(UsageError(message.to_owned()).into());
    }
    let cores = if serve.cores.is_empty() { &file.cores } else { &serve.cores };
    let cores = placement::chosen(cores, usize::MAX)?;
    let exports = volumes.into_iter().map(|text| export(text)).collect::<Result<Vec<_>>>()?;
    let signals = signal::on_signal()?;
    let by_name = file.nvme_hosts.into_iter();
    let nvme_hosts = by_name.map(|(name, hosts)| (subsystem_of(&name), hosts)).collect();
    let memory = file.memory.as_deref().map(|text| {
        parse_size(text).map_err(|error| UsageError(format!("memory = \"{text}\": {error}")))
    });
    let memory_bytes = serve.memory.or(memory.transpose()?);
    let limits = Limits { memory_bytes, ..Limits::default() };
    // Where the user wants it, and nowhere else.
    let idle_cores = cores.clone();
    let config = ServeConfig { iscsi, nvme_tcp, exports, nvme_hosts, cores, idle_cores, limits };
    let server = Server::start(config, Log::new(|line| note(format_args!("drumfire: {line}"))))?;
    let iscsi = server.iscsi().iter().map(|address| format!("iscsi={address}"));
    let nvme_tcp = server.nvme_tcp().iter().map(|address| format!("nvme-tcp={address}"));
    print(&format!("ready {}\n", iscsi.chain(nvme_tcp).collect::<Vec<_>>().join(" ")))?;
    // The channel only ends with the thread that feeds it, and then nobody could stop us.
    let _ = signals.recv();
    drop(server);
    Ok(Exit::Good)
}

/// `NAME=URI` or `NAME/LUN=URI`.
fn export(text: &str) -> Result<Export> {
    let wrong = |why: &str| UsageError(format!("--volume {text}: {why}"));
    let (place, uri) = text.split_once('=').ok_or_else(|| wrong("write NAME=URI"))?;
    let (name, lun) = match place.split_once('/') {
        None => (place, DEFAULT_LUN),
        Some((name, lun)) => (name, lun.parse().map_err(|_| wrong("a LUN is 0 to 255"))?),
    };
    if name.is_empty() {
        return Err(wrong("the name is missing").into());
    }
    let uri: Uri = uri.parse()?;
    let volume = volume::open(&uri, Purpose::Store)?;
    // A full name stands for itself.
    let full = ["iqn.", "eui.", "naa."].iter().any(|prefix| name.starts_with(prefix));
    let target = if full { name.to_owned() } else { format!("iqn.{NAMING_AUTHORITY}:{name}") };
    let subsystem = subsystem_of(name);
    let serial = format!("{}-{lun}", short(name));
    Ok(Export { target, subsystem, lun, volume: Arc::clone(&volume), serial })
}

/// The subsystem of volumes of this name.
fn subsystem_of(name: &str) -> String {
    format!("nqn.{NAMING_AUTHORITY}:{}", short(name))
}

/// A name without its naming authority.
fn short(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}
