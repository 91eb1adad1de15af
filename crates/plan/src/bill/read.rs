//! Reads bills of material from TOML.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::{
    Bill, BillError, CHUNK_BYTES, Group, IN_FLIGHT_MAX, Layer, Raid, Setup, Stream, View, Work,
    check::LONGEST,
    layer::{self, RawLayer},
    memory, payload,
    setup::RawSetup,
};
use crate::wire::Protocol;
use catalogue::read::{RawFigure, RawPart, RawParts, RawSource, line_of, syntax};
use catalogue::{Catalogue, Class, Part};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBill {
    #[serde(deserialize_with = "catalogue::line::read")]
    name: String,
    server: Option<Spanned<String>>,
    software: Option<Spanned<String>>,
    size: Spanned<String>,
    #[serde(default = "reads")]
    read: f64,
    outstanding: Option<u32>,
    /// Total queue depth of all drives, instead of `outstanding` for each.
    in_flight: Option<u32>,
    /// Number of writes between two flushes.
    #[serde(alias = "fsync", alias = "fdatasync")]
    flush: Option<u32>,
    jobs: Option<u32>,
    hosts: Option<u32>,
    replicas: Option<u32>,
    state: Option<super::setup::FlashState>,
    cache_hit: Option<f64>,
    cache_latency_us: Option<f64>,
    target_software: Option<String>,
    target_server: Option<String>,
    target_cores: Option<u32>,
    /// Volume type on the target.
    target_volume: Option<String>,
    /// Virtual disk of a guest, and the threads that serve it.
    guest: Option<String>,
    guest_threads: Option<u32>,
    width: Option<u32>,
    #[serde(default)]
    spares: u32,
    #[serde(default)]
    down_drives: u32,
    #[serde(default)]
    down_hosts: u32,
    #[serde(default)]
    sequential: bool,
    erasure: Option<String>,
    #[serde(default)]
    rebuild: f64,
    /// Cores of each host.
    cores: Option<u32>,
    /// Ports of each host, such as "2x25GbE".
    network: Option<String>,
    /// Number of client machines or volumes of a cluster.
    clients: Option<u32>,
    /// Daemons of a cluster on each drive.
    #[serde(default = "one")]
    daemons: u32,
    /// Record size of a file system.
    record: Option<Spanned<String>>,
    /// Bytes over which random I/Os are spread.
    span: Option<Spanned<String>>,
    buffered: Option<bool>,
    /// True if flushes write the journal of a file system.
    #[serde(default)]
    journal: bool,
    /// Number of files with unwritten extents.
    #[serde(default)]
    unwritten: u32,
    group: Vec<Spanned<RawGroup>>,
    /// Further layers of I/Os.
    #[serde(default)]
    layer: Vec<Spanned<RawLayer>>,
    /// Further concurrent workloads.
    #[serde(default)]
    stream: Vec<Spanned<RawStream>>,
    #[serde(default)]
    extra: Vec<RawExtra>,
    /// Sources, parts and figures of the bill itself.
    #[serde(default)]
    source: BTreeMap<String, RawSource>,
    #[serde(default)]
    part: Vec<RawPart>,
    #[serde(default)]
    figure: Vec<Spanned<RawFigure>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExtra {
    #[serde(deserialize_with = "catalogue::line::read")]
    what: String,
    price: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStream {
    size: String,
    #[serde(default = "reads")]
    read: f64,
    outstanding: u32,
    #[serde(alias = "fsync", alias = "fdatasync")]
    flush: Option<u32>,
    #[serde(default)]
    sequential: bool,
}

impl RawStream {
    fn checked(self) -> Result<Stream, String> {
        let size_bytes = block::parse_size(&self.size).map_err(|error| error.to_string())? as f64;
        let (read_share, outstanding) = (self.read / 100.0, self.outstanding);
        let work = Work { size_bytes, read_share, outstanding, flush: self.flush };
        work.check().map(|()| Stream { work, sequential: self.sequential })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    adapter: Option<String>,
    #[serde(default = "one")]
    count: u32,
    drive: Option<String>,
    drives: Option<u32>,
    ports: Option<u32>,
    link: Option<String>,
    protocol: Option<String>,
    #[serde(default)]
    tcp_options: u32,
    #[serde(default)]
    raid: Raid,
    #[serde(default)]
    write_cache: bool,
    /// Chunk size, such as "64k".
    chunk: Option<String>,
    bitmap: Option<bool>,
    #[serde(default)]
    expander: bool,
    #[serde(default)]
    view: View,
    #[serde(default)]
    contention: f64,
    #[serde(default = "one")]
    contexts: u32,
    #[serde(default = "payload")]
    payload_max: u32,
    #[serde(default)]
    short_addresses: bool,
}

/// Software of a cluster if a bill names none.
pub(crate) const ANY_CLUSTER: &str = "any-cluster";
/// Maximum number of concurrent workloads other than that of the bill.
const STREAMS_MAX: usize = 7;

fn reads() -> f64 {
    100.0
}

fn one() -> u32 {
    1
}

impl Bill {
    /// Reads a bill, called `file` in messages. Tables `[[part]]` and `[source.x]` in the bill are
    /// added to `catalogue` for this bill, and `[[figure]]` inserts a figure before those of a
    /// known part.
    ///
    /// # Errors
    ///
    /// [`BillError`] with line and reason.
    pub fn read(file: &str, text: &str, catalogue: &Catalogue) -> Result<Bill, BillError> {
        let refuse = |line, reason| BillError { file: file.to_owned(), line, reason };
        let unread = |error: toml::de::Error| {
            let (line, reason) = syntax(text, &error);
            refuse(line, reason)
        };
        let mut raw: RawBill = toml::from_str(text).map_err(unread)?;
        let mut catalogue = catalogue.clone();
        let layers = raw
            .add_parts(file, text, &mut catalogue)
            .map_err(|(line, reason)| refuse(line, reason))?;
        let at = |spanned: &Spanned<String>| line_of(text, spanned.span().start);
        let part = |name: &Option<Spanned<String>>, class| match name {
            None => Ok(None),
            Some(name) => named(&catalogue, name.get_ref(), class)
                .map(|part| Some(part.id.clone()))
                .map_err(|reason| refuse(at(name), reason)),
        };
        let server = part(&raw.server, Class::Server)?;
        let assumed = raw.cluster_software();
        let software = assumed.map_or_else(|| part(&raw.software, Class::Software), Ok)?;
        let size = block::parse_size(raw.size.get_ref());
        let size = size.map_err(|error| refuse(at(&raw.size), error.to_string()))?;
        let mut groups = Vec::new();
        for group in std::mem::take(&mut raw.group) {
            let line = line_of(text, group.span().start);
            let group = group.into_inner().checked(&catalogue, line);
            groups.push(group.map_err(|reason| refuse(line, reason))?);
        }
        let mut setup: Setup =
            raw.setup().checked(&catalogue).map_err(|reason| refuse(1, reason))?;
        let streams = streams(text, std::mem::take(&mut raw.stream))
            .map_err(|(line, reason)| refuse(line, reason))?;
        setup.streams = streams;
        setup.layers = layers;
        setup.buffered = raw.buffered;
        setup.journal = raw.journal;
        setup.unwritten = raw.unwritten;
        let record = raw
            .record
            .as_ref()
            .map(|text| memory::record(text.get_ref()).map_err(|reason| refuse(at(text), reason)));
        setup.record = record.transpose()?;
        let span = raw
            .span
            .as_ref()
            .map(|text| memory::span(text.get_ref()).map_err(|reason| refuse(at(text), reason)));
        setup.span = span.transpose()?;
        let work = Work {
            size_bytes: size as f64,
            read_share: raw.read / 100.0,
            outstanding: 1,
            flush: raw.flush,
        };
        let extras = raw.extra.into_iter().map(|extra| (extra.what, extra.price)).collect();
        let name = raw.name;
        let mut bill = Bill { name, server, software, work, groups, catalogue, setup, extras };
        bill.set_in_flight(raw.outstanding, raw.in_flight).map_err(|reason| refuse(1, reason))?;
        bill.wait_for_memory();
        bill.check().map_err(|(line, reason)| refuse(line, reason))?;
        Ok(bill)
    }
}

impl RawBill {
    /// Adds the parts and figures of the bill to `catalogue`, including those of its layers. The
    /// error is a line and the reason.
    fn add_parts(
        &mut self,
        file: &str,
        text: &str,
        catalogue: &mut Catalogue,
    ) -> Result<Vec<Layer>, (usize, String)> {
        let (mut sources, mut parts) =
            (std::mem::take(&mut self.source), std::mem::take(&mut self.part));
        let layers = layer::layers(text, std::mem::take(&mut self.layer))?;
        let (layers, held): (Vec<_>, Vec<_>) = layers.into_iter().unzip();
        sources.extend((!held.is_empty()).then(layer::source));
        parts.extend(held);
        let figures = std::mem::take(&mut self.figure);
        let own = RawParts { file, text, sources, parts, figures };
        own.add_to(catalogue).map_err(|error| (error.line, error.reason))?;
        both_ways(catalogue);
        Ok(layers)
    }

    fn setup(&self) -> RawSetup {
        RawSetup {
            jobs: self.jobs,
            hosts: self.hosts,
            replicas: self.replicas,
            state: self.state,
            cache_hit: self.cache_hit,
            cache_latency_us: self.cache_latency_us,
            target_software: self.target_software.clone(),
            target_server: self.target_server.clone(),
            target_cores: self.target_cores,
            width: self.width,
            spares: self.spares,
            down_drives: self.down_drives,
            down_hosts: self.down_hosts,
            sequential: self.sequential,
            erasure: self.erasure.clone(),
            rebuild: self.rebuild,
            cores: self.cores,
            network: self.network.clone(),
            clients: self.clients,
            daemons: self.daemons,
            target_volume: self.target_volume.clone(),
            guest: self.guest.clone(),
            guest_threads: self.guest_threads,
        }
    }

    /// Returns the software if no part is named for it: none if the bill says so, and that of some
    /// cluster if hosts store copies; `None` if a part is named.
    fn cluster_software(&self) -> Option<Option<String>> {
        match self.software.as_ref().map(|name| name.get_ref().as_str()) {
            Some("none") => Some(None),
            None if self.copies() => Some(Some(ANY_CLUSTER.to_owned())),
            _ => None,
        }
    }

    /// Returns whether hosts store copies for each other and no software is named for that.
    fn copies(&self) -> bool {
        let several = self.hosts.is_some_and(|hosts| hosts > 1);
        let held = self.replicas.is_some_and(|copies| copies > 1) || self.erasure.is_some();
        several && held && self.target_software.is_none()
    }
}

impl Bill {
    /// Sets the queue depth, of each drive or of all together.
    ///
    /// # Errors
    ///
    /// The reason: none or both are given, or the value is too large.
    pub fn set_in_flight(&mut self, each: Option<u32>, all: Option<u32>) -> Result<(), String> {
        (self.work.outstanding, self.setup.in_flight) = match (each, all) {
            (Some(each), None) => (each, None),
            (None, Some(all)) if (1..=IN_FLIGHT_MAX).contains(&all) => {
                let devices =
                    self.groups.iter().fold(0u32, |sum, g| sum.saturating_add(g.devices()));
                let devices = devices.saturating_mul(self.setup.up()).max(1);
                // Sequential I/Os use drives in turn.
                let turns = self.setup.sequential && all >= devices;
                (all.div_ceil(devices), (!turns).then_some(all))
            }
            (None, Some(all)) => return Err(format!("in_flight {all}: 1 to {IN_FLIGHT_MAX}")),
            (Some(_), Some(_)) | (None, None) => {
                let why = "give outstanding, I/Os in flight on each drive, or in_flight, on all \
                           drives together: one of the two";
                return Err(why.to_owned());
            }
        };
        if all.is_some() && !self.setup.streams.is_empty() {
            return Err(
                "in_flight is of one kind of work: with streams give outstanding".to_owned()
            );
        }
        Ok(())
    }
}

/// Applies a drive's bandwidth without a direction to both reads and writes.
fn both_ways(catalogue: &mut Catalogue) {
    let both = |part: &Part| part.class == Class::Drive && part.figures.contains_key("bandwidth");
    if !catalogue.parts.values().any(|part| both(part)) {
        return;
    }
    let parts = Arc::make_mut(&mut catalogue.parts).values_mut();
    for drive in parts.filter(|part| both(part)) {
        let figures = &mut Arc::make_mut(drive).figures;
        let Some(both) = figures.get("bandwidth").cloned() else { continue };
        for way in ["read_bandwidth", "write_bandwidth"] {
            figures.entry(way.to_owned()).or_default().splice(0..0, both.iter().cloned());
        }
    }
}

/// Reads the concurrent workloads; the error is a line and the reason.
fn streams(text: &str, raw: Vec<Spanned<RawStream>>) -> Result<Vec<Stream>, (usize, String)> {
    if raw.len() > STREAMS_MAX {
        let reason = format!("{} streams besides the first: maximum {STREAMS_MAX}", raw.len());
        return Err((1, reason));
    }
    let checked = |stream: Spanned<RawStream>| {
        let line = line_of(text, stream.span().start);
        stream.into_inner().checked().map_err(|reason| (line, reason))
    };
    raw.into_iter().map(checked).collect()
}

fn named<'a>(catalogue: &'a Catalogue, name: &str, class: Class) -> Result<&'a Part, String> {
    let part = catalogue.part(name).map_err(|error| error.to_string())?;
    match part.class == class {
        true => Ok(part),
        false => Err(format!("{} is a {}, no {}", part.id, part.class.word(), class.word())),
    }
}

/// Returns the interface of a drive's link, `None` for a network.
fn family(link: &str) -> Option<&'static str> {
    ["sata", "sas", "pcie", "usb"].into_iter().find(|bus| link.starts_with(bus))
}

/// Checks that a drive can be attached to a link other than a network; the error is the reason.
fn hangs(drive: Option<&Part>, link: &str, networked: bool) -> Result<(), String> {
    let bus = family(link).unwrap_or_default();
    let Some(drive) = drive else {
        return Err(format!("{link} is what a drive hangs on: name the drive"));
    };
    if networked {
        return Err(format!("{link} is no network: ports and protocol are of one"));
    }
    match (bus, drive.interface.as_str()) {
        // A SAS adapter accepts SATA drives, and HDDs of one class are made with either interface.
        ("sas" | "sata", "sas" | "sata") => Ok(()),
        // A bridge, or a tunnel, in an enclosure.
        ("usb", "sata" | "pcie") => Ok(()),
        (bus, drive) if bus == drive => Ok(()),
        (_, other) => Err(format!("{} is a drive of {other}: no {link}", drive.id)),
    }
}

impl Bill {
    /// Sets the bus of all drives. Returns false if the link is a network.
    ///
    /// # Errors
    ///
    /// The reason why a drive cannot be attached to it.
    pub fn hang_on(&mut self, link: &str) -> Result<bool, String> {
        if family(link).is_none() {
            return Ok(false);
        }
        for group in self.groups.iter_mut().filter(|group| group.drive.is_some()) {
            let drive = group.drive.as_ref().map(|id| &*self.catalogue.parts[id]);
            hangs(drive, link, false)?;
            group.bus = Some(link.to_owned());
        }
        Ok(true)
    }
}

impl RawGroup {
    fn check_numbers(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.contention) {
            return Err(format!("contention {}: a share from 0 to 1", self.contention));
        }
        if !(1..=16).contains(&self.contexts) {
            return Err(format!("contexts {}: 1 to 16", self.contexts));
        }
        if !(64..=4096).contains(&self.payload_max) {
            return Err(format!("payload_max {}: 64 to 4096", self.payload_max));
        }
        if self.tcp_options > 40 {
            return Err(format!("tcp_options {}: 0 to 40 bytes", self.tcp_options));
        }
        Ok(())
    }

    /// Checks the RAID level of the drives, and their bus; the error is the reason.
    fn check_set(&self) -> Result<(), String> {
        if self.raid != Raid::None && self.drive.is_none() {
            return Err("raid is of drives: name one".to_owned());
        }
        let drives = self.count.saturating_mul(self.drives.unwrap_or(1));
        if let Some(least) = self.raid.least().filter(|least| drives < *least) {
            return Err(format!("raid {}: {least} drives at least", self.raid.word()));
        }
        let both = self.drive.is_some() && self.adapter.is_some();
        if self.write_cache && !both {
            return Err("write_cache is of an adapter with drives: name both".to_owned());
        }
        match self.expander && !both {
            true => Err("expander is between an adapter and drives: name both".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the chunk size in bytes; the error is the reason.
    fn chunk_bytes(&self) -> Result<f64, String> {
        let Some(text) = &self.chunk else { return Ok(CHUNK_BYTES) };
        let bytes = block::parse_size(text).map_err(|error| format!("chunk: {error}"))? as f64;
        match (4096.0..=LONGEST).contains(&bytes) {
            true => Ok(bytes),
            false => Err(format!("chunk = \"{text}\": 4k to 1g are possible")),
        }
    }

    /// Returns the group, with parts by their ids; the error is the reason.
    fn checked(self, catalogue: &Catalogue, line: usize) -> Result<Group, String> {
        let card = |name: &String| {
            let part = catalogue.part(name).map_err(|error| error.to_string())?;
            match part.class {
                Class::Adapter | Class::Nic => Ok(part.id.clone()),
                other => Err(format!("{} is a {}, no adapter", part.id, other.word())),
            }
        };
        let adapter = self.adapter.as_ref().map(card).transpose()?;
        let id = |name: &String, class| named(catalogue, name, class).map(|part| part.id.clone());
        let drive = self.drive.as_ref().map(|name| id(name, Class::Drive)).transpose()?;
        let link = self.link.as_ref().map(|name| id(name, Class::Link)).transpose()?;
        let (bus, link) = match link {
            Some(link) if family(&link).is_some() => {
                let drive = drive.as_ref().map(|id| &*catalogue.parts[id]);
                let networked = self.protocol.is_some() || self.ports.is_some();
                hangs(drive, &link, networked)?;
                (Some(link), None)
            }
            link => (None, link),
        };
        self.check_numbers()?;
        let leads = self.protocol.is_some() || self.ports.is_some();
        if drive.is_some() && link.is_none() && leads {
            let why = "ports that lead to drives: name their link, such as ethernet-100";
            return Err(why.to_owned());
        }
        self.check_set()?;
        let chunk = self.chunk_bytes()?;
        if drive.is_none() && self.drives.is_some() {
            return Err("drives without a drive: name one".to_owned());
        }
        if drive.is_none() && self.ports.is_none() {
            return Err("a group has a drive, ports, or ports that lead to drives".to_owned());
        }
        if self.protocol.as_deref().is_some_and(|name| Protocol::named(name).is_none()) {
            return Err(format!("protocol: {}", Protocol::NAMES.join(" or ")));
        }
        let drive_link = drive.is_some() && link.is_some();
        Ok(Group {
            adapter,
            count: self.count,
            drive,
            drives: self.drives.unwrap_or(1),
            ports: self.ports.unwrap_or(u32::from(drive_link)),
            link,
            bus,
            protocol: self.protocol,
            tcp_options: self.tcp_options,
            raid: self.raid,
            write_cache: self.write_cache,
            chunk,
            bitmap: self.bitmap,
            expander: self.expander,
            view: self.view,
            contention: self.contention,
            contexts: self.contexts,
            payload_max: self.payload_max,
            long_addresses: !self.short_addresses,
            line,
        })
    }
}
