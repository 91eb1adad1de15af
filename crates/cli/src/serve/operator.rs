//! The operator of a running server: carries out orders, one change at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ::serve::{OpCounts, Server, VolumeInfo, Whom};
use anyhow::{Context, Result};
use volume::{Lifetime, Volume};

use super::access;
use super::config::Config;
use super::opening::{self, Named, Opened};
use super::order::{Answer, ConnectionRow, Ios, Order, VolumeRow};
use super::reservations::ReservationFiles;
use crate::args::Serve;
use crate::exit::{self, Exit, UsageError};
use crate::identity::Identity;
use crate::output::note;
use crate::settings;

/// Time for which others that poll a removed volume may still hold it: then its files are closed
/// and its lock is free.
const HELD: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// A server and what its user has said.
pub struct Operator {
    server: Arc<Server>,
    /// The command line.
    flags: Serve,
    identity: Identity,
    /// Identity of volumes that outlive the process, if `identity` is of the process.
    kept: Option<OnceLock<Identity>>,
    /// Files with reservations, if they are to outlive the process.
    reservations: Option<ReservationFiles>,
    state: Mutex<State>,
    /// Held during a change.
    changing: Mutex<()>,
}

struct State {
    file: Config,
    volumes: Vec<Named>,
}

/// Settings of an operator, besides its server.
pub struct Beginning {
    pub(super) flags: Serve,
    pub(super) identity: Identity,
    pub(super) is_of_process: bool,
    pub(super) reservations: Option<ReservationFiles>,
    pub(super) file: Config,
    pub(super) volumes: Vec<Named>,
}

impl Operator {
    /// The operator of a server that has just started.
    pub fn new(server: Arc<Server>, begin: Beginning) -> Operator {
        let Beginning { flags, identity, is_of_process, reservations, file, volumes } = begin;
        let kept = is_of_process.then(OnceLock::new);
        let (state, changing) = (Mutex::new(State { file, volumes }), Mutex::default());
        Operator { server, flags, identity, kept, reservations, state, changing }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out an order.
    pub fn carry_out(&self, order: Order) -> Answer {
        let change = !matches!(order, Order::Volumes {} | Order::Connections {} | Order::Dump {});
        let _only = change.then(|| self.changing.lock().unwrap_or_else(PoisonError::into_inner));
        let done = match order {
            Order::Volumes {} => Ok(Answer::Volumes(self.volumes())),
            Order::Connections {} => Ok(Answer::Connections(self.connections())),
            Order::Add { volume } => self.add(&volume).map(|line| Answer::Done(vec![line])),
            Order::Remove { volume } => self.remove(&volume).map(|line| Answer::Done(vec![line])),
            Order::Disconnect { whom } => self.disconnect(&whom),
            Order::Set { volume, read_only } => {
                self.set(&volume, read_only).map(|line| Answer::Done(vec![line]))
            }
            Order::Reopen { volume } => self.reopen(&volume).map(|line| Answer::Done(vec![line])),
            Order::Reload {} => self.reload().map(Answer::Done),
            Order::Dump {} => self.dump().map(Answer::Dump),
        };
        done.unwrap_or_else(|error| {
            let usage = exit::of_error(&error) == Exit::Usage;
            Answer::Refused { why: exit::words(&error), usage }
        })
    }

    /// The volumes with the prefixes of lines about them.
    pub fn watched(&self) -> Vec<(String, Arc<dyn Volume>)> {
        let named = self.state().volumes.clone();
        let all = self.server.volumes();
        let pair = |one: &Named| {
            let mut found = all.iter().filter(|info| is_of(info, one));
            Some((format!("--volume {}", one.text), Arc::clone(&found.next()?.export.volume)))
        };
        named.iter().filter_map(pair).collect()
    }

    fn volumes(&self) -> Vec<VolumeRow> {
        let (named, connections) = (self.state().volumes.clone(), self.server.connections());
        let lists = self.server.host_lists();
        let row = |info: VolumeInfo| {
            let known = named.iter().find(|one| is_of(&info, one));
            let (name, export) = (info.export.name(), &info.export);
            let counts = info.counts.unwrap_or_default();
            VolumeRow {
                name: known.map_or_else(|| name.clone(), |one| one.name().to_owned()),
                uri: known.map_or_else(String::new, |one| one.uri().to_owned()),
                target: export.target.clone(),
                subsystem: export.subsystem.clone(),
                lun: export.lun,
                bytes: export.volume.geometry().bytes(),
                read_only: export.volume.geometry().read_only || lists.protect(export),
                connections: connections.iter().filter(|it| it.volumes.contains(&name)).count(),
                read: ios(&counts.read),
                write: ios(&counts.write),
            }
        };
        self.server.volumes().into_iter().map(row).collect()
    }

    fn connections(&self) -> Vec<ConnectionRow> {
        let named = self.state().volumes.clone();
        let short = |full: String| {
            let mut known = named.iter();
            let of = known.find(|one| format!("{}/{}", one.names.target, one.lun) == full);
            of.map_or(full, |one| one.name().to_owned())
        };
        let all = self.server.connections().into_iter();
        let row = |one: ::serve::ConnectionInfo| ConnectionRow {
            number: one.number,
            protocol: one.protocol.to_string(),
            peer: one.peer,
            host: one.host,
            volumes: one.volumes.into_iter().map(short).collect(),
            in_flight: one.in_flight,
        };
        all.map(row).collect()
    }

    /// Opens and serves a volume.
    fn add(&self, text: &str) -> Result<String> {
        let (names, lun, _) = opening::parse(text)?;
        let others = self.state().volumes.clone();
        // Before the volume is opened, which may create its file.
        if others.iter().any(|one| one.names == names && one.lun == lun) {
            let name = text.split('=').next().unwrap_or_default();
            return Err(UsageError(format!("'{name}' is served already")).into());
        }
        let opened = opening::open_one(text, others.iter())?;
        if self.server.thread_ids().len() > 1 && !opened.volume.flushes_all() {
            let why = format!(
                "{text}: its NBD server lacks MULTI_CONN, so that a flush covers one connection \
                 only, and this server has several cores: start one with --cores 0"
            );
            return Err(UsageError(why).into());
        }
        let Opened { named, lifetime, .. } = &opened;
        let (named, identity) = (named.clone(), self.identity_of(lifetime));
        // Secrets of all volumes are demanded from the first moment on.
        let file = self.state().file.clone();
        self.allow(&file, others.iter().chain([&named]))?;
        let removable = [&file.removable, &self.flags.removable];
        let removable = removable.iter().any(|names| access::means(names, &named));
        let kept = self.reservations.as_ref();
        let export = opening::export(identity, opened, kept, removable)?;
        self.server.add(export)?;
        self.state().volumes.push(named.clone());
        Ok(format!("{} is served", named.name()))
    }

    fn identity_of(&self, lifetime: &Lifetime) -> &Identity {
        match &self.kept {
            Some(kept) if *lifetime != Lifetime::Process => {
                kept.get_or_init(|| Identity::kept(|line| note(format_args!("drumfire: {line}"))))
            }
            _ => &self.identity,
        }
    }

    /// Removes a volume, and waits until nobody holds it.
    fn remove(&self, name: &str) -> Result<String> {
        let one = self.named(name)?;
        let export = self.server.remove(&one.names.target, one.lun)?;
        if let Some(export) = export {
            let mut waited = Duration::ZERO;
            while Arc::strong_count(&export.volume) > 1 && waited < HELD {
                std::thread::sleep(PAUSE);
                waited += PAUSE;
            }
            if let Some(incidents) = export.volume.incidents() {
                note(format_args!("drumfire: --volume {}: {incidents}", one.text));
            }
        }
        self.state().volumes.retain(|other| other.text != one.text);
        Ok(format!("{} is not served any more", one.name()))
    }

    /// Sets what hosts may do with a volume.
    fn set(&self, name: &str, read_only: bool) -> Result<String> {
        let one = self.named(name)?;
        let (before, all) = {
            let state = self.state();
            (state.file.clone(), state.volumes.clone())
        };
        let mut file = before.clone();
        match (read_only, access::means(&file.read_only, &one)) {
            (true, true) => return Ok(format!("{} is read-only already", one.name())),
            (false, false) => return Ok(format!("{} is writable already", one.name())),
            (true, false) => file.read_only.push(format!("{}/{}", base_of(&one), one.lun)),
            (false, true) => file.read_only.retain(|name| !access::covers(name, &one)),
        }
        self.allow(&file, all.iter())?;
        self.state().file = file;
        let count = self.server.disconnect_users(&one.names.target, one.lun)?;
        let now = if read_only { "read-only" } else { "writable" };
        Ok(format!("{} is {now}; {}", one.name(), closed(count)))
    }

    /// Closes the connections of volumes that have become read-only, or writable again.
    fn enforce(&self, volumes: &[Named], before: &Config, after: &Config) -> Result<()> {
        let changed = |one: &&Named| {
            access::means(&before.read_only, one) != access::means(&after.read_only, one)
        };
        for one in volumes.iter().filter(changed) {
            self.server.disconnect_users(&one.names.target, one.lun)?;
        }
        Ok(())
    }

    /// Closes a volume and opens it again: a file that grew has its new size then.
    fn reopen(&self, name: &str) -> Result<String> {
        let one = self.named(name)?;
        self.remove(name)?;
        let gone = || format!("{} is closed, and cannot be opened again", one.name());
        self.add(&one.text).with_context(gone)?;
        let bytes = self.volumes().into_iter().find(|row| row.name == one.name());
        let bytes = bytes.map_or(0, |row| row.bytes);
        Ok(format!("{} is opened again: {}", one.name(), block::print_size(bytes)))
    }

    fn named(&self, name: &str) -> Result<Named> {
        let found = self.state().volumes.iter().find(|one| is_called(one, name)).cloned();
        Ok(found.ok_or_else(|| UsageError(format!("no volume is called '{name}'")))?)
    }

    fn disconnect(&self, whom: &str) -> Result<Answer> {
        let meant = match whom.parse() {
            Ok(number) => Whom::Number(number),
            Err(_) => Whom::Host(whom.to_owned()),
        };
        match self.server.disconnect(&meant) {
            0 => Err(UsageError(format!("no connection is of '{whom}'")).into()),
            count => Ok(Answer::Done(vec![closed(count)])),
        }
    }

    /// Reads serve.toml again: serves the volumes that are new in it, and no more those that are in
    /// neither it nor the command line. Connections to others stay.
    fn reload(&self) -> Result<Vec<String>> {
        let none = || UsageError("the server was started without a serve.toml".to_owned());
        let path = self.flags.config.as_ref().ok_or_else(none)?;
        let mut file: Config = settings::read(path)?;
        file.read_only.extend(self.flags.read_only.iter().cloned());
        file.removable.extend(self.flags.removable.iter().cloned());
        let wanted: Vec<String> = file.volume.iter().chain(&self.flags.volume).cloned().collect();
        let mut names = BTreeMap::new();
        for text in &wanted {
            let (name, lun, _) = opening::parse(text)?;
            if names.insert((name.target.clone(), lun), name).is_some() {
                return Err(UsageError(format!("{text}: its name is given twice")).into());
            }
        }
        access::check_names(&file, names.iter().map(|((_, lun), one)| (one, *lun)))?;
        let (old, before) = {
            let state = self.state();
            (state.volumes.clone(), state.file.clone())
        };
        let lists =
            access::of(&file, self.flags.chap.as_deref(), names.values().map(|it| &*it.target))?;
        self.server.set_host_lists(lists)?;
        self.state().file = file.clone();
        self.enforce(&old, &before, &file)?;
        let mut lines = before.restart_wanted(&file);
        for one in old.iter().filter(|one| !wanted.contains(&one.text)) {
            lines.push(self.remove(one.name()).with_context(|| one.text.clone())?);
        }
        for text in wanted.iter().filter(|text| old.iter().all(|one| one.text != **text)) {
            lines.push(self.add(text).with_context(|| text.clone())?);
        }
        if lines.is_empty() {
            lines.push("nothing but lists of hosts can have changed".to_owned());
        }
        Ok(lines)
    }

    /// Sets the lists of a file for these volumes.
    fn allow<'a>(&self, file: &Config, named: impl Iterator<Item = &'a Named>) -> Result<()> {
        let targets = named.map(|one| &*one.names.target);
        let lists = access::of(file, self.flags.chap.as_deref(), targets)?;
        Ok(self.server.set_host_lists(lists)?)
    }

    /// The state as a file that starts it again.
    fn dump(&self) -> Result<String> {
        let state = self.state();
        let mut file = state.file.with(&self.flags);
        file.iscsi = self.server.iscsi().to_vec();
        file.nvme_tcp = self.server.nvme_tcp().to_vec();
        file.nbd = self.server.nbd().to_vec();
        file.volume = state.volumes.iter().map(|one| one.text.clone()).collect();
        if let Some(chap) = &self.flags.chap {
            for one in &state.volumes {
                let name = one.text.split(['/', '=']).next().unwrap_or_default();
                file.iscsi_chap.entry(name.to_owned()).or_insert_with(|| chap.clone());
            }
            file.discovery_chap.get_or_insert_with(|| chap.clone());
        }
        Ok(toml::to_string(&file)?)
    }
}

fn is_of(info: &VolumeInfo, named: &Named) -> bool {
    info.export.target == named.names.target && info.export.lun == named.lun
}

/// Whether a volume is meant by NAME, NAME/LUN, or the name of its target with a LUN.
fn is_called(named: &Named, name: &str) -> bool {
    let full = |name: &str| opening::parse(&format!("{name}=null:1m")).ok();
    named.name() == name
        || full(name).is_some_and(|(names, lun, _)| names == named.names && lun == named.lun)
}

fn closed(count: usize) -> String {
    match count {
        1 => "1 connection is closed".to_owned(),
        count => format!("{count} connections are closed"),
    }
}

/// The NAME without its LUN.
fn base_of(named: &Named) -> &str {
    named.name().split('/').next().unwrap_or_default()
}

fn ios(counts: &OpCounts) -> Ios {
    Ios { ios: counts.ios, bytes: counts.bytes, errors: counts.errors }
}
