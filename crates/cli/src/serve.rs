//! `drumfire serve`: be a target.

mod access;
mod doors;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use ::serve::{Export, Limits, Log, OpCounts, ServeConfig, Server, VolumeCounts};
use anyhow::Result;
use block::{Nanos, parse_size};
use report::watch::Served;
use serde::Deserialize;
use stats::live::{Counts, DirectionCounts};
use volume::{DataLocation, Lifetime, OpenError, Purpose, Uri, Volume};

use crate::args::Serve;
use crate::exit::{Exit, UsageError};
use crate::identity::{self, Identity};
use crate::news::News;
use crate::output::{note, print_line};
use crate::watch::Watch;
use crate::{opened, placement, settings, signal};

/// Common part of the names of targets and subsystems.
const NAMING_AUTHORITY: &str = "2026-11.io.drumfire";
/// LUN of a single volume: the first that most initiators try.
const DEFAULT_LUN: u8 = 1;
const DEFAULT_PORTAL: &str = "127.0.0.1:3260";

/// The settings of `serve` as a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    iscsi: Vec<SocketAddr>,
    nvme_tcp: Vec<SocketAddr>,
    nbd: Vec<SocketAddr>,
    volume: Vec<String>,
    id: Option<String>,
    cores: Vec<usize>,
    /// Memory for connections, as 512m.
    memory: Option<String>,
    /// NQNs of the only hosts that may use a volume over NVMe/TCP, by the NAME of the volume.
    nvme_hosts: BTreeMap<String, Vec<String>>,
    /// Hosts over iSCSI, likewise: addresses or networks.
    iscsi_hosts: BTreeMap<String, Vec<String>>,
    /// Hosts over NBD, likewise.
    nbd_hosts: BTreeMap<String, Vec<String>>,
    /// Files with secrets that iSCSI initiators have to prove, by the NAME of the volume.
    iscsi_chap: BTreeMap<String, PathBuf>,
    /// File with secrets that iSCSI discovery has to prove.
    discovery_chap: Option<PathBuf>,
}

/// A server that is about to start: its volumes are open.
pub struct Prepared {
    config: ServeConfig,
    /// Names of its volumes.
    pub exports: Vec<Shown>,
    /// Volumes as the user names them.
    volumes: Vec<(String, Arc<dyn Volume>)>,
}

/// Names of a served volume.
pub struct Shown {
    /// Name on the command line.
    pub name: String,
    /// Name of the iSCSI target.
    pub target: String,
    /// Name of the NVMe subsystem.
    pub subsystem: String,
    /// Logical unit number.
    pub lun: u8,
    /// Capacity.
    pub bytes: u64,
}

/// The settings of a server: flags before those of a file.
struct Chosen {
    file: Config,
    iscsi: Vec<SocketAddr>,
    nvme_tcp: Vec<SocketAddr>,
    nbd: Vec<SocketAddr>,
}

impl Chosen {
    fn of(serve: &Serve) -> Result<Chosen> {
        let file = serve.config.as_deref().map(settings::read).transpose()?;
        let mut file: Config = file.unwrap_or_default();
        let chosen = |flags: &[SocketAddr], file: &mut Vec<SocketAddr>| match flags {
            [] => std::mem::take(file),
            flags => flags.to_vec(),
        };
        Ok(Chosen {
            iscsi: chosen(&serve.iscsi, &mut file.iscsi),
            nvme_tcp: chosen(&serve.nvme_tcp, &mut file.nvme_tcp),
            nbd: chosen(&serve.nbd, &mut file.nbd),
            file,
        })
    }
}

/// Serves until a stop is requested.
pub fn main(serve: &Serve) -> Result<Exit> {
    let mut prepared = Prepared::new(serve, DEFAULT_PORTAL.parse().expect("an address"))?;
    let signals = signal::on_signal()?;
    let watch = serve.watch.open()?;
    prepared.config.counts = watch.is_on();
    let volumes = prepared.volumes.clone();
    let doors = doors::lines(&prepared.config);
    let server = prepared.start()?;
    doors.iter().for_each(|line| note(format_args!("drumfire: {line}")));
    let portals = portals(&server);
    print_line(format_args!("ready {}", portals.join(" ")))?;
    let sizes = volumes.iter().map(|(text, volume)| shown(text, volume)).collect();
    let of = Served { portals, volumes: sizes, ..Served::default() };
    let watched = volumes.iter().map(|(text, volume)| (format!("--volume {text}"), volume.clone()));
    let news = News::of(watched.collect())?;
    until_told(&signals, &server, &watch, of);
    drop(server);
    drop(news);
    for (text, volume) in &volumes {
        if let Some(incidents) = volume.incidents() {
            note(format_args!("drumfire: --volume {text}: {incidents}"));
        }
    }
    Ok(Exit::Good)
}

/// Portals of a server, each as protocol and address.
fn portals(server: &Server) -> Vec<String> {
    let iscsi = server.iscsi().iter().map(|address| format!("iscsi={address}"));
    let nvme_tcp = server.nvme_tcp().iter().map(|address| format!("nvme-tcp={address}"));
    let nbd = server.nbd().iter().map(|address| format!("nbd={address}"));
    iscsi.chain(nvme_tcp).chain(nbd).collect()
}

impl Prepared {
    /// Opens the volumes of a server; without an address it listens for iSCSI on `portal`.
    pub fn new(serve: &Serve, portal: SocketAddr) -> Result<Prepared> {
        let Chosen { file, mut iscsi, nvme_tcp, nbd } = Chosen::of(serve)?;
        if iscsi.is_empty() && nvme_tcp.is_empty() && nbd.is_empty() {
            iscsi.push(portal);
        }
        let texts: Vec<&String> = file.volume.iter().chain(&serve.volume).collect();
        if texts.is_empty() {
            let message =
                "no volume to serve: give --volume NAME=URI, such as --volume disk=ram:1g";
            return Err(UsageError(message.to_owned()).into());
        }
        let cores = if serve.cores.is_empty() { &file.cores } else { &serve.cores };
        let cores = placement::chosen(cores, usize::MAX)?;
        let given = serve.id.as_ref().or(file.id.as_ref());
        let given = given.map(|text| Identity::given(text)).transpose()?;
        let opened = open(&texts)?;
        let cores = placement::of_lanes(cores, opened.iter().map(|one| (one.text, &*one.volume)));
        let identity = given.unwrap_or_else(|| own(&opened));
        warn_of_memory(&identity, &opened);
        let volumes = opened.iter().map(|one| (one.text.to_owned(), one.volume.clone())).collect();
        let names = opened.iter().map(Opened::shown).collect();
        let exports: Vec<Export> =
            opened.into_iter().map(|volume| export(&identity, volume)).collect();
        let host_lists = access::of(&file, serve.chap.as_deref(), &exports)?;
        let memory = file.memory.as_deref().map(memory_of).transpose()?;
        let limits = Limits { memory_bytes: serve.memory.or(memory), ..Limits::default() };
        let config = ServeConfig {
            iscsi,
            nvme_tcp,
            nbd,
            exports,
            counts: false,
            spare: 0,
            host_lists,
            shared: identity.is_given(),
            first_controller: identity::first_controller(),
            instance: identity::instance(),
            // CPUs go idle only if the user allows it.
            idle_cores: cores.clone(),
            cores,
            limits,
        };
        Ok(Prepared { config, exports: names, volumes })
    }

    /// Starts the server.
    pub fn start(self) -> Result<Server> {
        let log = Log::new(|line| note(format_args!("drumfire: {line}")));
        let server = Server::start(self.config, log)?;
        end_with(&server);
        Ok(server)
    }
}

fn memory_of(text: &str) -> Result<u64, UsageError> {
    parse_size(text).map_err(|error| UsageError(format!("memory = \"{text}\": {error}")))
}

/// Ends this program with an error as soon as a core of its server cannot serve any more.
pub(crate) fn end_with(server: &Server) {
    server.on_failure(|why| {
        note(format_args!("drumfire: {why}: the server stops"));
        std::process::exit(Exit::Failed.number().into());
    });
}

/// Interval at which viewers are updated.
const SECOND: Duration = Duration::from_secs(1);

/// Serves, and shows the served volumes to viewers.
fn until_told(signals: &Receiver<()>, server: &Server, watch: &Watch, of: Served) {
    if !watch.is_on() {
        // The channel closes only with the thread that sends to it; then no signal could stop the
        // server.
        let _ = signals.recv();
        return;
    }
    let used = || -> Option<u64> {
        let threads = server.thread_ids().into_iter();
        threads.map(|thread| Some(os::sample::thread_cpu(thread).ok()?.0)).sum()
    };
    let mut before = used();
    for seconds in 0.. {
        let now = used();
        let cores =
            now.zip(before).map(|(now, before)| Nanos(now.saturating_sub(before)).as_secs_f64());
        before = now;
        watch.serves(Served {
            connections: server.connection_count(),
            memory_bytes: server.memory_bytes(),
            cores: cores.filter(|_| seconds > 0),
            seconds,
            counts: server.volumes().into_iter().filter_map(|one| one.counts).map(counts).collect(),
            ..of.clone()
        });
        if signals.recv_timeout(SECOND) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Counters of a volume in the form that metrics have.
fn counts(of: VolumeCounts) -> Counts {
    let direction = |of: OpCounts| DirectionCounts {
        ios: of.ios,
        errors: of.errors,
        bytes: of.bytes,
        buckets: of.buckets,
        samples: of.ios,
        latency_ns: of.latency_ns.into(),
    };
    Counts {
        read: direction(of.read),
        write: direction(of.write),
        trim: direction(of.trim),
        flush: direction(of.flush),
    }
}

/// A volume for the page: its name, without the location of its data, and its size in bytes.
fn shown(text: &str, volume: &Arc<dyn Volume>) -> (String, u64) {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    (name.to_owned(), volume.geometry().bytes())
}

/// A volume to serve.
struct Opened<'a> {
    /// URI as the user wrote it.
    text: &'a str,
    names: Names,
    lun: u8,
    volume: Arc<dyn Volume>,
    lifetime: Lifetime,
    /// Location of its data, if other processes can name them.
    place: Option<DataLocation>,
}

impl Opened<'_> {
    fn shown(&self) -> Shown {
        let name = self.text.split(['/', '=']).next().unwrap_or_default();
        Shown {
            name: name.to_owned(),
            target: self.names.target.clone(),
            subsystem: self.names.subsystem.clone(),
            lun: self.lun,
            bytes: self.volume.geometry().bytes(),
        }
    }
}

/// Opens all volumes. No data may have two names: hosts would treat them as two disks, and each
/// would overwrite the other's data.
fn open<'a>(texts: &[&'a String]) -> Result<Vec<Opened<'a>>> {
    let mut opened: Vec<Opened<'a>> = Vec::new();
    let mut refused = None;
    for text in texts {
        let (names, lun, uri) = parse(text)?;
        // Located before opening, which already claims a device.
        let place = DataLocation::of(&uri);
        let taken = |other: &&Opened<'a>| match (&place, &other.place) {
            (Some(place), Some(other)) => place.overlaps(other),
            _ => false,
        };
        if let Some(other) = opened.iter().find(taken) {
            let message = format!(
                "--volume {text}: same data as --volume {}, which hosts would see as two disks: \
                serve it once; for several paths, repeat --iscsi or --nvme-tcp",
                other.text
            );
            return Err(UsageError(message).into());
        }
        let volume = match opened::open(&uri.to_the_byte(), Purpose::Store) {
            Ok(volume) => volume,
            // The others do not suffer by legs that were lost.
            Err(error @ OpenError::Array(_)) if texts.len() > 1 => {
                note(format_args!("drumfire: --volume {text} is not served: {error}"));
                refused = Some(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let lifetime = Lifetime::of(&uri, &*volume);
        // The file may have been created just now.
        let place = place.or_else(|| DataLocation::of(&uri));
        opened.push(Opened { text, names, lun, volume, lifetime, place });
    }
    match refused {
        Some(error) if opened.is_empty() => Err(error.into()),
        _ => Ok(opened),
    }
}

/// `NAME=URI` or `NAME/LUN=URI`.
fn parse(text: &str) -> Result<(Names, u8, Uri)> {
    let wrong = |why: &str| UsageError(format!("--volume {text}: {why}"));
    let (place, uri) = text.split_once('=').ok_or_else(|| wrong("write NAME=URI"))?;
    let (name, lun) = match place.split_once('/') {
        None => (place, DEFAULT_LUN),
        Some((name, lun)) => (name, lun.parse().map_err(|_| wrong("a LUN is from 0 to 255"))?),
    };
    if name.is_empty() {
        return Err(wrong("the name is missing").into());
    }
    Ok((Names::of(name), lun, uri.parse()?))
}

/// Identity of this server. If all volumes end with the process, nothing is saved.
fn own(volumes: &[Opened<'_>]) -> Identity {
    let ends = |volume: &Opened<'_>| volume.lifetime == Lifetime::Process;
    match volumes.iter().all(ends) {
        true => Identity::of_process(),
        false => Identity::kept(|line| note(format_args!("drumfire: {line}"))),
    }
}

/// Warns if memory gets a given identity: two processes never have the same memory.
fn warn_of_memory(identity: &Identity, volumes: &[Opened<'_>]) {
    let ends = |volume: &&Opened<'_>| volume.lifetime == Lifetime::Process;
    if let Some(volume) = volumes.iter().find(ends).filter(|_| identity.is_given()) {
        note(format_args!(
            "drumfire: --volume {}: its data is private to this process, but with --id hosts \
            treat it as the same disk as on other servers",
            volume.text
        ));
    }
}

fn export(identity: &Identity, opened: Opened<'_>) -> Export {
    let Opened { names: Names { target, subsystem }, lun, volume, lifetime, .. } = opened;
    let disk = identity.disk(&target, lun, &lifetime);
    Export { target, subsystem, lun, volume, disk }
}

/// Names of the volumes with one NAME in each protocol.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    target: String,
    subsystem: String,
}

impl Names {
    /// Names for `name`: a full name is used unchanged, and gives the other protocol's name its
    /// ending.
    fn of(name: &str) -> Names {
        let own = |kind: &str| format!("{kind}.{NAMING_AUTHORITY}:{name}");
        if let Some(rest) = name.strip_prefix("nqn.") {
            return Names { target: format!("iqn.{rest}"), subsystem: name.to_owned() };
        }
        let subsystem = match name.strip_prefix("iqn.") {
            // An NQN of this form needs the colon.
            Some(rest) if rest.contains(':') => format!("nqn.{rest}"),
            _ => own("nqn"),
        };
        let full = ["iqn.", "eui.", "naa."].iter().any(|prefix| name.starts_with(prefix));
        Names { target: if full { name.to_owned() } else { own("iqn") }, subsystem }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_name_is_one_of_ours_or_stands_for_itself() {
        for (name, target, subsystem) in [
            ("disk", "iqn.2026-11.io.drumfire:disk", "nqn.2026-11.io.drumfire:disk"),
            ("a:b", "iqn.2026-11.io.drumfire:a:b", "nqn.2026-11.io.drumfire:a:b"),
            ("iqn.2001-04.org.x:a:b", "iqn.2001-04.org.x:a:b", "nqn.2001-04.org.x:a:b"),
            ("nqn.2001-04.org.x:a", "iqn.2001-04.org.x:a", "nqn.2001-04.org.x:a"),
            ("iqn.2001-04.org.x", "iqn.2001-04.org.x", "nqn.2026-11.io.drumfire:iqn.2001-04.org.x"),
            (
                "naa.3000000000000001",
                "naa.3000000000000001",
                "nqn.2026-11.io.drumfire:naa.3000000000000001",
            ),
        ] {
            let names = Names { target: target.to_owned(), subsystem: subsystem.to_owned() };
            assert_eq!(Names::of(name), names);
        }
    }
}
