//! A part and its figures.

use std::collections::BTreeMap;

use block::hint;
use serde::Serialize;
use stats::Kind;

use crate::line::shown;
use crate::{Basis, quantity_named};

/// A figure that one source gives for a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Value in base units: bytes, seconds, per second, dollars, watts.
    pub value: f64,
    /// Lower end of the interval, in base units.
    pub low: f64,
    /// Upper end of the interval, in base units.
    pub high: f64,
    /// Value in the source's unit.
    pub given: f64,
    /// The source's unit.
    pub unit: String,
    /// Condition of the measurement: size, mix, depth, state of the drive.
    pub condition: String,
    /// Kind of knowledge.
    pub kind: Kind,
    /// Key of its source.
    pub source: String,
    /// Words of the source that have the figure; empty if they are not at hand.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub quote: String,
    /// Basis of the figure.
    pub basis: Basis,
    /// Date of publication of the figure; "unknown" if the source has none.
    pub date: String,
    /// File and line of the figure.
    pub at: String,
}

/// Source of figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// Author, title, page.
    pub title: String,
    /// Address; empty if it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Date of publication of the source; "unknown" if it has none.
    pub date: String,
    /// True if the source is second-hand or anonymous.
    pub weak: bool,
    /// True if there is no document: memory, or an assumption.
    pub recalled: bool,
}

/// Class of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Storage device.
    Drive,
    /// Adapter that connects drives, or a storage network, to a host.
    Adapter,
    /// Network adapter of a host.
    Nic,
    /// Type of link, with the data rate of a lane or port.
    Link,
    /// Host.
    Server,
    /// Software stack, which sets the CPU time of an I/O.
    Software,
}

impl Class {
    /// Returns the class in lower case, as in data files.
    pub fn word(self) -> &'static str {
        match self {
            Class::Drive => "drive",
            Class::Adapter => "adapter",
            Class::Nic => "nic",
            Class::Link => "link",
            Class::Server => "server",
            Class::Software => "software",
        }
    }

    /// Returns the class with its article: "a drive", "an adapter".
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Class::Drive => "a drive",
            Class::Adapter => "an adapter",
            Class::Nic => "a NIC",
            Class::Link => "a link",
            Class::Server => "a server",
            Class::Software => "software",
        }
    }
}

/// A part with all its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Id of the part on command lines and in bills.
    pub id: String,
    /// Other names of the part.
    pub aliases: Vec<String>,
    /// Full name.
    pub name: String,
    /// Class of the part.
    pub class: Class,
    /// Interface of a drive, one of [`INTERFACES`]; empty for other parts.
    pub interface: String,
    /// Remarks on the figures.
    pub note: String,
    /// Years in which the part was sold new; `None` if unknown, as for parts that users define.
    pub sold: Option<Sold>,
    /// Figures by quantity, the one in use first.
    pub figures: BTreeMap<String, Vec<Figure>>,
}

/// Interfaces of drives.
pub const INTERFACES: [&str; 6] = ["sata", "sas", "pcie", "network", "usb", "mmc"];

/// Other names of interfaces, with the name in [`INTERFACES`].
const CALLED: [(&str, &str); 5] =
    [("nvme", "pcie"), ("m.2", "pcie"), ("u.2", "pcie"), ("sd", "mmc"), ("emmc", "mmc")];

/// Returns the interface of this name, ignoring case.
///
/// # Errors
///
/// A message that lists all names.
pub fn interface_named(word: &str) -> Result<&'static str, String> {
    let lower = word.to_ascii_lowercase();
    let called = CALLED.iter().find(|(other, _)| *other == lower);
    let meant = called.map_or(lower.as_str(), |(_, meant)| meant);
    INTERFACES.into_iter().find(|known| *known == meant).ok_or_else(|| {
        let others: Vec<&str> = CALLED.iter().map(|(other, _)| *other).collect();
        let near = hint(word, INTERFACES.into_iter().chain(others.iter().copied()));
        let (known, others) = (INTERFACES.join(", "), others.join(", "));
        format!("'{}' is none of {known} ({others}){near}", shown(word))
    })
}

/// Year in which the catalogue's sales dates were last reviewed.
pub const TODAY: u32 = 2026;

/// Years in which a part was sold new, as far as known. In documents and data files: `2009-2011`,
/// `2024-`, `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sold {
    /// Sold from one year to another, or still sold.
    Years {
        /// First year of sale.
        from: u32,
        /// Last year of sale; `None` if the part is still sold.
        to: Option<u32>,
    },
    /// Never sold: a prototype, or a name for parts that a bill describes itself.
    Never,
}

impl Sold {
    /// Parses `2009-2011`, `2024-`, `2012` or `never`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Sold> {
        let year = |text: &str| text.parse().ok().filter(|year| (1950..=2100).contains(year));
        match text.split_once('-') {
            _ if text == "never" => Some(Sold::Never),
            None => year(text).map(|from| Sold::Years { from, to: Some(from) }),
            Some((from, "")) => year(from).map(|from| Sold::Years { from, to: None }),
            Some((from, to)) => {
                let (from, to) = (year(from)?, year(to)?);
                (from <= to).then_some(Sold::Years { from, to: Some(to) })
            }
        }
    }

    /// Returns whether the part was sold in this year.
    pub fn in_year(self, year: u32) -> bool {
        match self {
            Sold::Years { from, to } => from <= year && to.is_none_or(|to| year <= to),
            Sold::Never => false,
        }
    }

    /// Returns the years of sale in words.
    pub fn words(self) -> String {
        match self {
            Sold::Years { from, to: None } => format!("sold since {from}"),
            Sold::Years { from, to: Some(to) } if from == to => format!("sold in {from}"),
            Sold::Years { from, to: Some(to) } => format!("sold from {from} to {to}"),
            Sold::Never => "never sold".to_owned(),
        }
    }
}

impl Serialize for Sold {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Sold::Years { from, to: None } => to.collect_str(&format_args!("{from}-")),
            Sold::Years { from, to: Some(last) } => to.collect_str(&format_args!("{from}-{last}")),
            Sold::Never => to.serialize_str("never"),
        }
    }
}

/// A figure as calculations use it: the value of the first source, the interval of all sources.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// Value in base units.
    pub value: f64,
    /// Lower end of the sources' intervals, in base units.
    pub low: f64,
    /// Upper end of the sources' intervals, in base units.
    pub high: f64,
    /// Kind of knowledge of the value.
    pub kind: Kind,
    /// Basis of the value.
    pub basis: Basis,
    /// Key of the source of the value.
    pub source: String,
}

impl Known {
    /// Returns an assumption: a value that no document has, with its range.
    pub fn assumed(value: f64, (low, high): (f64, f64), source: String) -> Known {
        Known { value, low, high, kind: Kind::Guess, basis: Basis::Recalled, source }
    }
}

impl Part {
    /// Returns whether the part was sold new in this year; true if its years of sale are unknown.
    pub fn sold_in(&self, year: u32) -> bool {
        self.sold.is_none_or(|sold| sold.in_year(year))
    }

    /// Returns the figure of `quantity`, one of [`QUANTITIES`]; `None` if the part has none.
    pub fn known(&self, quantity: &str) -> Option<Known> {
        let Some(all) = self.figures.get(quantity) else {
            debug_assert!(quantity_named(quantity).is_some(), "{quantity} is no quantity");
            return None;
        };
        let first = all.first()?;
        let low = all.iter().map(|figure| figure.low).fold(first.low, f64::min);
        let high = all.iter().map(|figure| figure.high).fold(first.high, f64::max);
        let Figure { value, kind, basis, .. } = *first;
        Some(Known { value, low, high, kind, basis, source: first.source.clone() })
    }

    /// Returns the value of a quantity, in base units; `None` if the part has none.
    pub fn value(&self, quantity: &str) -> Option<f64> {
        let all = self.figures.get(quantity);
        debug_assert!(all.is_some() || quantity_named(quantity).is_some(), "{quantity}");
        all?.first().map(|figure| figure.value)
    }
}
