//! Reader of the table of published results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bill::Bill;
use catalogue::{Catalogue, Part};

/// Published results with their sources.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Sources by their keys.
    pub sources: BTreeMap<String, Source>,
    /// Rows in the order of the file.
    pub rows: Vec<Row>,
    /// Means with their percentiles.
    #[serde(default)]
    pub tails: Vec<TailRow>,
}

/// Mean and 99th percentile of a published run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailRow {
    /// Key of the source.
    pub source: String,
    /// Mean response time in microseconds.
    pub mean_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// Description of the run.
    pub what: String,
}

/// Source of rows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Publisher: the unit that is left out together.
    pub publisher: String,
    /// Address.
    pub url: String,
    /// Date, as far as known.
    pub date: String,
    /// Key of the same document as a source of the catalogue, whose figures are left out for its
    /// rows.
    pub figures: Option<String>,
}

/// A published result with its system.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Key of the source.
    pub source: String,
    /// I/Os per second.
    pub iops: Option<f64>,
    /// Megabytes per second.
    pub mb_s: Option<f64>,
    /// Mean latency in microseconds.
    pub latency_us: Option<f64>,
    /// The drive.
    pub drive: Option<String>,
    /// Number of drives on each card, or in each host.
    #[serde(default = "one")]
    pub drives: u32,
    /// Adapter of the drives; `None` for PCIe cards.
    pub adapter: Option<String>,
    /// Number of adapters.
    #[serde(default = "one")]
    pub adapters: u32,
    /// Link of the ports.
    pub link: Option<String>,
    /// Number of ports.
    pub ports: Option<u32>,
    /// Protocol on the link.
    pub protocol: Option<String>,
    /// RAID level.
    pub raid: Option<String>,
    /// True if the adapter has a write cache.
    #[serde(default)]
    pub write_cache: bool,
    /// Chunk size: bytes of a stripe on one drive.
    pub chunk: Option<String>,
    /// True if md has a write-intent bitmap.
    pub bitmap: Option<bool>,
    /// True if drives are attached by an expander.
    #[serde(default)]
    pub expander: bool,
    /// True if I/Os are sequential.
    #[serde(default)]
    pub sequential: bool,
    /// Server part of the host.
    pub server: Option<String>,
    /// Software part of the host.
    pub software: Option<String>,
    /// Number of submitting threads.
    pub jobs: Option<u32>,
    /// Number of hosts of a cluster.
    pub hosts: Option<u32>,
    /// Number of copies.
    pub replicas: Option<u32>,
    /// State of the flash: fresh or worn.
    pub state: Option<String>,
    /// Ports of each host.
    pub network: Option<String>,
    /// Number of cores of each host.
    pub cores: Option<u32>,
    /// Number of drives of one parity set.
    pub width: Option<u32>,
    /// Software part of the target.
    pub target_software: Option<String>,
    /// Server part of the target.
    pub target_server: Option<String>,
    /// Number of cores of the target.
    pub target_cores: Option<u32>,
    /// Number of clients of a cluster.
    pub clients: Option<u32>,
    /// I/O size.
    #[serde(default = "four")]
    pub size: String,
    /// Percentage of reads.
    #[serde(default = "all")]
    pub read: f64,
    /// Queue depth of each drive, or of each port.
    #[serde(default)]
    pub depth: u32,
    /// Total queue depth of all drives, instead of `depth`.
    pub in_flight: Option<u32>,
    /// Number of writes between two flushes.
    pub flush: Option<u32>,
    /// Record size of a file system.
    pub record: Option<String>,
    /// Bytes over which random I/Os are spread.
    pub span: Option<String>,
    /// True if memory acknowledges writes and reads ahead.
    #[serde(default)]
    pub buffered: bool,
    /// Figures that the source itself gives with the result.
    #[serde(default)]
    pub given: Vec<Given>,
    /// True if the row is recalled from memory and its source was not seen: shown, never counted.
    #[serde(default)]
    pub recalled: bool,
    /// Published over predicted, as a rate, of a blind prediction, made before the published value
    /// was seen.
    pub blind: Option<f64>,
    /// Note that is needed to read the row.
    #[serde(default)]
    pub note: String,
}

/// A figure that the source gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Part of the figure; the drive by default.
    pub part: Option<String>,
    /// Name of the quantity.
    pub is: String,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: String,
}

/// Quantity of a published result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Seconds.
    Latency,
}

/// Error of a row without a prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row} ({name}): {reason}")]
pub struct EvidenceError {
    /// Position in the table, from 0.
    pub row: usize,
    /// Name of the row.
    pub name: String,
    /// Reason.
    pub reason: String,
}

fn one() -> u32 {
    1
}

fn four() -> String {
    "4k".to_owned()
}

fn all() -> f64 {
    100.0
}

impl Evidence {
    /// Returns the built-in table.
    ///
    /// # Panics
    ///
    /// If the table does not load, which a test rules out.
    pub fn shipped() -> Evidence {
        Evidence::read(&catalogue::evidence())
            .unwrap_or_else(|error| panic!("evidence.toml: {error}"))
    }

    /// Reads a table.
    ///
    /// # Errors
    ///
    /// The error as text.
    pub fn read(text: &str) -> Result<Evidence, String> {
        let read: Evidence = toml::from_str(text).map_err(|error| error.to_string())?;
        for (at, row) in read.rows.iter().enumerate() {
            let wrong = |reason: &str| Err(format!("row {at} ({}): {reason}", row.name()));
            if !read.sources.contains_key(&row.source) {
                return wrong("its source is not in the table");
            }
            let given = [row.iops, row.mb_s, row.latency_us];
            if given.iter().flatten().count() != 1 {
                return wrong("one of iops, mb_s and latency_us");
            }
            if given.iter().flatten().any(|value| !(1e-3..1e12).contains(value)) {
                return wrong("its value makes no sense");
            }
            if row.blind.is_some_and(|blind| !(1e-3..1e3).contains(&blind)) {
                return wrong("blind is published over predicted, 0.001 to 1000");
            }
        }
        for tail in &read.tails {
            let TailRow { source, mean_us, p99_us, what } = tail;
            if !read.sources.contains_key(source) {
                return Err(format!("{what}: its source is not in the table"));
            }
            if !(*mean_us > 0.0 && p99_us.is_finite() && p99_us >= mean_us) {
                return Err(format!("{what}: a 99th percentile is not below the mean"));
            }
        }
        Ok(read)
    }

    /// Returns the bill of a row.
    ///
    /// # Errors
    ///
    /// The reason why there is none, as text.
    pub fn bill(&self, row: &Row, catalogue: &Catalogue) -> Result<Bill, String> {
        let own = self.sources[&row.source].figures.as_deref();
        let others = own.map(|own| without(catalogue, own));
        self.bill_of(row, others.as_ref().unwrap_or(catalogue))
    }

    /// Returns the bill of a row with the figures of this catalogue.
    pub(super) fn bill_of(&self, row: &Row, catalogue: &Catalogue) -> Result<Bill, String> {
        Bill::read("evidence", &self.text(row), catalogue).map_err(|error| error.to_string())
    }

    /// Returns, by the keys of sources, the catalogue without the source's own figures. Other
    /// sources have none.
    pub(super) fn others(&self, catalogue: &Catalogue) -> BTreeMap<&str, Catalogue> {
        let with = self.sources.iter().filter_map(|(key, source)| {
            Some((key.as_str(), without(catalogue, source.figures.as_deref()?)))
        });
        with.collect()
    }

    /// Returns the bill of a row as a file, for use with `plan`.
    pub fn text(&self, row: &Row) -> String {
        let mut text = String::new();
        let mut say = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        };
        let quoted = |text: &Option<String>| text.as_ref().map(|text| format!("{text:?}"));
        say("name", Some(format!("{:?}", row.name())));
        say("size", Some(format!("{:?}", row.size)));
        say("read", Some(row.read.to_string()));
        say("outstanding", (row.depth > 0).then(|| row.depth.to_string()));
        say("in_flight", row.in_flight.map(|n| n.to_string()));
        say("flush", row.flush.map(|n| n.to_string()));
        say("record", quoted(&row.record));
        say("span", quoted(&row.span));
        say("buffered", row.buffered.then(|| "true".to_owned()));
        say("server", quoted(&row.server));
        say("software", quoted(&row.software));
        say("target_server", quoted(&row.target_server));
        say("target_software", quoted(&row.target_software));
        say("target_cores", row.target_cores.map(|n| n.to_string()));
        say("clients", row.clients.map(|n| n.to_string()));
        say("state", quoted(&row.state));
        say("network", quoted(&row.network));
        say("cores", row.cores.map(|n| n.to_string()));
        say("width", row.width.map(|n| n.to_string()));
        say("jobs", row.jobs.map(|n| n.to_string()));
        say("hosts", row.hosts.map(|n| n.to_string()));
        say("replicas", row.replicas.map(|n| n.to_string()));
        say("sequential", row.sequential.then(|| "true".to_owned()));
        say("[[group]]\ncount", Some(row.cards().to_string()));
        say("adapter", quoted(&row.adapter));
        say("drive", quoted(&row.drive));
        let each = if row.adapter.is_some() || row.link.is_some() { row.drives } else { 1 };
        say("drives", row.drive.as_ref().map(|_| each.to_string()));
        say("link", quoted(&row.link));
        say("ports", row.ports.map(|n| n.to_string()));
        say("protocol", quoted(&row.protocol));
        say("raid", quoted(&row.raid));
        say("write_cache", row.write_cache.then(|| "true".to_owned()));
        say("chunk", quoted(&row.chunk));
        say("bitmap", row.bitmap.map(|kept| kept.to_string()));
        say("expander", row.expander.then(|| "true".to_owned()));
        let source = &self.sources[&row.source];
        let _ = writeln!(text, "[source.here]\ntitle = {:?}\ndate = {:?}", source.url, source.date);
        for given in &row.given {
            let part = given.part.as_ref().or(row.drive.as_ref());
            let _ = writeln!(
                text,
                "[[figure]]\npart = {:?}\nis = {:?}\nvalue = {:?}\nunit = {:?}\nkind = 'measured'\n\
                 source = 'here'",
                part.map_or("", String::as_str),
                given.is,
                given.value,
                given.unit
            );
        }
        text
    }
}

impl Row {
    /// Returns a short name.
    pub fn name(&self) -> String {
        let what = self.drive.as_deref().or(self.link.as_deref()).unwrap_or("nothing");
        let count = self.drives * self.adapters * self.hosts.unwrap_or(1);
        let depth = match self.in_flight {
            Some(all) => format!("{all} in flight"),
            None => format!("depth {}", self.depth),
        };
        format!("{}: {count} x {what}, {} {} % reads, {depth}", self.source, self.size, self.read)
    }

    fn cards(&self) -> u32 {
        match self.adapter.is_some() || self.link.is_some() {
            true => self.adapters,
            false => self.drives,
        }
    }

    /// Returns the published value, in base units.
    pub fn published(&self) -> (What, f64) {
        match (self.iops, self.mb_s, self.latency_us) {
            (Some(iops), ..) => (What::Iops, iops),
            (_, Some(mb), _) => (What::Bandwidth, mb * 1e6),
            (.., us) => (What::Latency, us.unwrap_or(f64::NAN) * 1e-6),
        }
    }
}

/// Returns a catalogue without the figures of a source.
fn without(catalogue: &Catalogue, source: &str) -> Catalogue {
    let mut others = catalogue.clone();
    let has = |part: &Part| part.figures.values().flatten().any(|figure| figure.source == source);
    for part in Arc::make_mut(&mut others.parts).values_mut().filter(|part| has(part)) {
        Arc::make_mut(part).figures.retain(|_, figures| {
            figures.retain(|figure| figure.source != source);
            !figures.is_empty()
        });
    }
    others
}
