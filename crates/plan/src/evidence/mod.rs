//! Published results of third parties, and the errors of predictions for them: the source of
//! intervals.
//!
//! `evidence.toml` of the catalogue has published results with source, date and system. The
//! bottleneck puts a system into a [`Class`]. Within a class, the errors of known results determine
//! the interval of the next prediction: split conformal prediction (Vovk, Gammerman and Shafer
//! 2005) over publishers, on the logarithm of published over predicted. As a test, each row is
//! predicted without its own document, and once more without its publisher.

mod learn;
mod read;
mod recorded;
mod table;
mod tail;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::bill::Bill;
use crate::predict::{BUSY, Prediction, predict};
use crate::search::on_all_cores;
use crate::system::{Level, PlanError, Tweak};
use catalogue::Catalogue;

pub(crate) use learn::middle;
pub use learn::{Alike, Learned, interval, learn};
pub use read::{Evidence, EvidenceError, Given, Row, Source, TailRow, What};
use recorded::learned;
pub use table::{Asked, Table, Total, table};
pub use tail::{Tail, tail};

/// Class of a system, by its bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// One drive with too few I/Os in flight to keep it busy.
    DriveLowDepth,
    /// One drive at its limit.
    DriveAtLimit,
    /// An adapter or its slot.
    AdapterBound,
    /// CPUs, or a resource that all slots of a host share.
    HostBound,
    /// A network, or its target.
    WireBound,
    /// Several drives of one host.
    Array,
    /// Writes with flushes.
    Flushed,
    /// Several hosts.
    Cluster,
}

impl Class {
    /// All classes.
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

    /// Returns the title of the class.
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
        learned(alike).map_or(1.0, |learned| interval(learned).1)
    }

    /// Evidence of a bill, by the class of its answer.
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

/// A row with the model's prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Position in the table.
    pub row: usize,
    /// Similarity to other rows.
    #[serde(flatten)]
    pub alike: Alike,
    /// Key of the document.
    pub source: String,
    /// Publisher of the document.
    pub publisher: String,
    /// Published value, in base units.
    pub published: f64,
    /// Value of the model, in base units.
    pub model: f64,
    /// Logarithm of published over predicted, as a rate: a latency has the opposite sign.
    pub residual: f64,
    /// Residual of a blind prediction, made before the published value was seen, by the model of
    /// that day; `None` for rows with which the model was made.
    pub asked_blind: Option<f64>,
}

/// Predicts every row.
///
/// # Errors
///
/// The row without a prediction, with the reason.
pub fn samples(evidence: &Evidence, catalogue: &Catalogue) -> Result<Vec<Sample>, EvidenceError> {
    let others = evidence.others(catalogue);
    let one = |(at, row): &(usize, &Row)| {
        let at = *at;
        let wrong = |reason: String| EvidenceError { row: at, name: row.name(), reason };
        let catalogue = others.get(row.source.as_str()).unwrap_or(catalogue);
        let bill = evidence.bill_of(row, catalogue).map_err(wrong)?;
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
    let rows = evidence.rows.iter().enumerate().filter(|(_, row)| !row.recalled);
    on_all_cores(&rows.collect::<Vec<_>>(), one).into_iter().collect()
}

/// Uncertainty of a prediction: the middle, and the interval that eight of ten published results
/// are in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sure {
    /// Class of the system.
    pub class: Class,
    /// Results of learning from its rows; `None` if there are none.
    pub learned: Option<Learned>,
    /// Factor from the network's value to the middle.
    pub middle: f64,
    /// Factors from the network's value to the ends; `None` without evidence.
    pub ends: Option<(f64, f64)>,
}

/// Returns the uncertainty of a prediction. `spread` is p10 and p90 of the draws over p50: a
/// prediction from uncertain figures is no more certain than they are.
///
/// # Errors
///
/// Errors of [`predict`].
pub fn sure(bill: &Bill, found: &Prediction, spread: (f64, f64)) -> Result<Sure, PlanError> {
    let class = Class::of(bill, found);
    let learned = learned(Alike::of(class, found)).cloned();
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
    middles().1
}

/// The smallest and the largest factor of any class from what its network says to the middle of
/// the answer: 1 is between them.
pub(crate) fn middles() -> (f64, f64) {
    static ENDS: OnceLock<(f64, f64)> = OnceLock::new();
    *ENDS.get_or_init(|| {
        let middles = || Class::ALL.into_iter().map(Class::middle);
        (middles().fold(1.0, f64::min), middles().fold(1.0, f64::max))
    })
}

#[cfg(test)]
mod test;
