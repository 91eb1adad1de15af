//! `drumfire serve`: be a target.

mod access;
mod config;
mod control;
mod doors;
mod live;
mod opening;
mod operator;
pub mod order;
mod reservations;
mod vhost;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use ::serve::{Export, Limits, Log, ServeConfig, Server};
use anyhow::Result;
use block::parse_size;
use volume::Lifetime;

use self::config::{Chosen, Config};
use self::control::Control;
use self::opening::{Named, Opened, Shown};
use self::operator::{Beginning, Operator};
use self::order::{Answer, Order};
use self::reservations::ReservationFiles;
use crate::args::Serve;
use crate::exit::{Exit, UsageError};
use crate::identity::{self, Identity};
use crate::news::News;
use crate::output::{note, print_line};
use crate::watch::Watching;
use crate::{placement, signal};

/// Prefix of our own target names.
const OWN_TARGETS: &str = "iqn.2026-11.io.drumfire:";
/// Volumes that can be added to a server with a control socket.
const SPARE: usize = 256;
const DEFAULT_PORTAL: &str = "127.0.0.1:3260";

/// A server that is about to start: its volumes are open.
pub struct Prepared {
    config: ServeConfig,
    /// Names of its volumes.
    pub exports: Vec<Shown>,
    /// Volumes as the user names them.
    named: Vec<Named>,
    identity: Identity,
    /// All volumes end with the process, and no identity is saved.
    is_of_process: bool,
    log_connections: bool,
    reservations: Option<ReservationFiles>,
    file: Config,
}

/// Serves until a stop is requested.
pub fn main(serve: &Serve) -> Result<Exit> {
    if let Some(folder) = &serve.vhost_user {
        return vhost::main(serve, folder);
    }
    let mut prepared = Prepared::new(serve, DEFAULT_PORTAL.parse().expect("an address"))?;
    let signals = signal::on_signal()?;
    let (watching, control) = (prepared.watching(serve), prepared.control(serve));
    let watch = watching.open()?;
    prepared.config.counts = watch.is_on() || control.is_some();
    prepared.config.spare = if control.is_some() { SPARE } else { 0 };
    let doors = doors::lines(&prepared.config);
    let begin = prepared.beginning(serve);
    let server = Arc::new(prepared.start()?);
    doors.iter().for_each(|line| note(format_args!("drumfire: {line}")));
    let operator = Arc::new(Operator::new(Arc::clone(&server), begin));
    let hang_ups = control.is_some().then(signal::on_hang_up);
    let control = control.map(|path| Control::open(&path, &operator)).transpose()?;
    let portals = portals(&server);
    print_line(format_args!("ready {}", portals.join(" ")))?;
    let of_news = Arc::clone(&operator);
    let news = News::of(move || of_news.watched())?;
    let reloads = hang_ups.map(|hang_ups| reload_on(hang_ups, &operator)).transpose()?;
    live::until_signal(&signals, &server, &watch, portals);
    let volumes = operator.watched();
    server.stop();
    drop((reloads, control, news, operator, server));
    for (name, volume) in &volumes {
        if let Some(incidents) = volume.incidents() {
            note(format_args!("drumfire: {name}: {incidents}"));
        }
    }
    Ok(Exit::Good)
}

/// Reads serve.toml again at each SIGHUP.
fn reload_on(hang_ups: Receiver<()>, operator: &Arc<Operator>) -> Result<Reloads> {
    let operator = Arc::downgrade(operator);
    let body = move || {
        while hang_ups.recv().is_ok() {
            let Some(operator) = operator.upgrade() else { return };
            match operator.carry_out(Order::Reload {}) {
                Answer::Done(lines) => {
                    lines.iter().for_each(|line| note(format_args!("drumfire: reload: {line}")));
                }
                Answer::Refused { why, .. } => note(format_args!("drumfire: reload: {why}")),
                Answer::Volumes(_) | Answer::Connections(_) | Answer::Dump(_) => {}
            }
        }
    };
    let thread = std::thread::Builder::new().name("reload".to_owned()).spawn(body)?;
    Ok(Reloads(Some(thread)))
}

/// The thread that reads serve.toml again, until this is dropped.
struct Reloads(Option<JoinHandle<()>>);

impl Drop for Reloads {
    fn drop(&mut self) {
        signal::ignore_hang_ups();
        if let Some(thread) = self.0.take() {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
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
        let Chosen { mut file, mut iscsi, nvme_tcp, nbd } = Chosen::of(serve)?;
        if iscsi.is_empty() && nvme_tcp.is_empty() && nbd.is_empty() {
            iscsi.push(portal);
        }
        let texts: Vec<&String> = file.volume.iter().chain(&serve.volume).collect();
        let control = serve.control.as_ref().or(file.control.as_ref());
        if texts.is_empty() && control.is_none() {
            let message =
                "no volume to serve: give --volume NAME=URI, such as --volume disk=ram:1g";
            return Err(UsageError(message.to_owned()).into());
        }
        let cores = if serve.cores.is_empty() { &file.cores } else { &serve.cores };
        let cores = placement::chosen(cores, usize::MAX)?;
        let given = serve.id.as_ref().or(file.id.as_ref());
        let given = given.map(|text| Identity::given(text)).transpose()?;
        let opened = opening::open(&texts)?;
        let lanes = opened.iter().map(|one| (&*one.named.text, &*one.volume));
        let cores = placement::of_lanes(cores, lanes);
        let ends = |one: &Opened| one.lifetime == Lifetime::Process;
        let is_of_process = given.is_none() && opened.iter().all(ends);
        let identity = given.unwrap_or_else(|| opening::own(&opened));
        opening::warn_of_memory(&identity, &opened);
        let named: Vec<Named> = opened.iter().map(|one| one.named.clone()).collect();
        let names = opened.iter().map(Opened::shown).collect();
        let keeps = serve.keep_reservations || file.keep_reservations;
        let reservations = keeps.then(ReservationFiles::open).transpose()?;
        file.removable.extend(serve.removable.iter().cloned());
        let export = |volume: Opened| {
            let removable = access::means(&file.removable, &volume.named);
            opening::export(&identity, volume, reservations.as_ref(), removable)
        };
        let exports: Vec<Export> = opened.into_iter().map(export).collect::<Result<_>>()?;
        let targets = named.iter().map(|one| &*one.names.target);
        file.read_only.extend(serve.read_only.iter().cloned());
        access::check_names(&file, named.iter().map(|one| (&one.names, one.lun)))?;
        let host_lists = access::of(&file, serve.chap.as_deref(), targets)?;
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
        let log_connections = serve.log_connections || file.log_connections;
        Ok(Prepared {
            config,
            exports: names,
            named,
            identity,
            is_of_process,
            log_connections,
            reservations,
            file,
        })
    }

    /// Address of the live page.
    fn watching(&self, serve: &Serve) -> Watching {
        let all = self.file.with(serve);
        Watching { listen: all.listen, listen_token: all.listen_token }
    }

    /// Path of the control socket.
    fn control(&self, serve: &Serve) -> Option<PathBuf> {
        self.file.with(serve).control
    }

    /// Takes what the operator needs.
    fn beginning(&mut self, serve: &Serve) -> Beginning {
        Beginning {
            flags: serve.clone(),
            identity: std::mem::replace(&mut self.identity, Identity::of_process()),
            is_of_process: self.is_of_process,
            reservations: self.reservations.take(),
            file: self.file.clone(),
            volumes: std::mem::take(&mut self.named),
        }
    }

    /// Starts the server.
    pub fn start(self) -> Result<Server> {
        let log = Log::new(|line| note(format_args!("drumfire: {line}")));
        let log = log.with_connections(self.log_connections);
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
