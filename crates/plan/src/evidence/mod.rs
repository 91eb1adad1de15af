//! Published results of others, and how far predictions are off them: the source of intervals.
//!
//! `data/evidence.toml` holds published results with source, date and system. The limiting resource
//! puts a system into a [`Class`]. Within a class, the errors of known results say how far the next
//! prediction may be off: split conformal prediction (Vovk, Gammerman and Shafer 2005) over
//! publishers, on the logarithm of published over predicted. To test it, each row is predicted
//! without its own document, and once more without its publisher.

mod learn;
mod read;
mod table;
mod tail;

use std::sync::OnceLock;

use serde::Serialize;

use crate::bill::Bill;
use crate::predict::{BUSY, Prediction, predict};
use crate::system::{Level, PlanError, Tweak};
use catalogue::Catalogue;

pub(crate) use learn::middle;
pub use learn::{Alike, Learned, interval, learn};
pub use read::{Evidence, EvidenceError, Given, Row, Source, TailRow, What};
pub use table::{Asked, Table, Total, table};
pub use tail::{Tail, tail};

/// What kind of system a bill is about, by what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// One drive with too few I/Os in flight to keep it busy.
    DriveLowDepth,
    /// One drive that does what it can.
    DriveAtLimit,
    /// An adapter or its slot.
    AdapterBound,
    /// Processors, or what all slots of a host share.
    HostBound,
    /// A network, or what is at its far side.
    WireBound,
    /// Several drives of one host.
    Array,
    /// Writes with flushes.
    Flushed,
    /// Several hosts.
    Cluster,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 8] = [
        Class::DriveLowDepth,
        Class::DriveAtLimit,
        Class::AdapterBound,
        Class::HostBound,
        Class::WireBound,
        Class::Array,
        Class::Flushed,
        Class::Cluster,
    ];

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Class::DriveLowDepth => "a drive at low depth",
            Class::DriveAtLimit => "a drive at its limit",
            Class::AdapterBound => "adapter-bound",
            Class::HostBound => "host-bound",
            Class::WireBound => "over a network",
            Class::Array => "an array",
            Class::Flushed => "writes with flushes",
            Class::Cluster => "a cluster",
        }
    }

    /// Factor from what a network says to the middle of an answer; 1 without evidence.
    pub(crate) fn middle(self) -> f64 {
        let alike = Alike { class: self, guessed: false };
        learn(shipped(), alike, |_| true).map_or(1.0, |learned| interval(&learned).1)
    }

    /// Of a bill, by what its answer says.
    pub fn of(bill: &Bill, found: &Prediction) -> Class {
        if bill.setup.hosts > 1 {
            return Class::Cluster;
        }
        if bill.work.flush.is_some() && bill.work.read_share < 1.0 {
            return Class::Flushed;
        }
        let devices: u32 = bill.groups.iter().map(crate::bill::Group::devices).sum();
        let busiest = found.bottleneck();
        let idle = busiest.is_none_or(|busiest| busiest.utilisation < BUSY);
        match busiest.map(|busiest| busiest.level) {
            Some(Level::Processor | Level::Fabric | Level::Layer) if !idle => Class::HostBound,
            _ if bill.is_remote() => Class::WireBound,
            _ if idle && devices == 1 => Class::DriveLowDepth,
            _ if idle => Class::Array,
            Some(Level::Port) => Class::WireBound,
            Some(Level::Adapter | Level::Slot) => Class::AdapterBound,
            _ if devices == 1 => Class::DriveAtLimit,
            _ => Class::Array,
        }
    }
}

/// A row with what the model says of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Position in the table.
    pub row: usize,
    /// What makes it like others.
    #[serde(flatten)]
    pub alike: Alike,
    /// Which document it stands in.
    pub source: String,
    /// Who published that.
    pub publisher: String,
    /// The number as published, in base units.
    pub published: f64,
    /// What the model says, in base units.
    pub model: f64,
    /// Logarithm of published over predicted, as a rate: a latency counts the other way round.
    pub residual: f64,
    /// The same when it was asked before its answer was seen, by the model of that day; `None` for
    /// what the model was made with.
    pub asked_blind: Option<f64>,
}

/// Asks the model about every row.
///
/// # Errors
///
/// The row that has no answer, and why.
pub fn samples(evidence: &Evidence, catalogue: &Catalogue) -> Result<Vec<Sample>, EvidenceError> {
    let one = |(at, row): (usize, &Row)| {
        let wrong = |reason: String| EvidenceError { row: at, name: row.name(), reason };
        let bill = evidence.bill(row, catalogue).map_err(wrong)?;
        let found = predict(&bill, &Tweak::default()).map_err(|e| wrong(e.to_string()))?;
        let (what, published) = row.published();
        let (model, sign) = match what {
            What::Iops => (found.iops, 1.0),
            What::Bandwidth => (found.bytes_per_s, 1.0),
            What::Latency => (found.latency_s, -1.0),
        };
        let residual = sign * (published / model).ln();
        let publisher = evidence.sources[&row.source].publisher.clone();
        let alike = Alike::of(Class::of(&bill, &found), &found);
        let (source, asked_blind) = (row.source.clone(), row.blind.map(f64::ln));
        Ok(Sample { row: at, alike, source, publisher, published, model, residual, asked_blind })
    };
    evidence.rows.iter().enumerate().filter(|(_, row)| !row.recalled).map(one).collect()
}

/// What an answer is worth: the middle and where eight of ten published results would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sure {
    /// Class of the system.
    pub class: Class,
    /// What its rows taught; `None` where there are none.
    pub learned: Option<Learned>,
    /// Factor from what the network says to the middle.
    pub middle: f64,
    /// Factors from what the network says to the ends; `None` without evidence.
    pub ends: Option<(f64, f64)>,
}

/// The rows that come along, asked once.
fn shipped() -> &'static [Sample] {
    static ASKED: OnceLock<Vec<Sample>> = OnceLock::new();
    ASKED.get_or_init(|| {
        // A test asks them all.
        samples(&Evidence::shipped(), &Catalogue::shipped()).unwrap_or_default()
    })
}

/// How sure an answer is. `spread` is p10 and p90 of the draws over p50: an answer that rests on
/// wide figures is no surer than they are.
///
/// # Errors
///
/// As [`predict`].
pub fn sure(bill: &Bill, found: &Prediction, spread: (f64, f64)) -> Result<Sure, PlanError> {
    let class = Class::of(bill, found);
    let learned = learn(shipped(), Alike::of(class, found), |_| true);
    let Some(known) = &learned else {
        return Ok(Sure { class, learned: None, middle: 1.0, ends: None });
    };
    let (low, middle, high) = interval(known);
    let ends = (low.min(middle * spread.0), high.max(middle * spread.1));
    Ok(Sure { class, learned, middle, ends: Some(ends) })
}

/// The largest factor of any class from what its network says to the middle of the answer, at
/// least 1.
pub(crate) fn largest_middle() -> f64 {
    static LARGEST: OnceLock<f64> = OnceLock::new();
    *LARGEST.get_or_init(|| Class::ALL.into_iter().map(Class::middle).fold(1.0, f64::max))
}

#[cfg(test)]
mod test;
