//! A part and its figures.

use std::collections::BTreeMap;

use block::hint;
use serde::Serialize;
use stats::Kind;

use crate::line::shown;
use crate::quantity_named;

/// A figure that one source gives for a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// In base units: bytes, seconds, per second, dollars, watts.
    pub value: f64,
    /// Lower end of the interval, in base units.
    pub low: f64,
    /// Upper end of the interval, in base units.
    pub high: f64,
    /// The value in the source's unit.
    pub given: f64,
    /// The source's unit.
    pub unit: String,
    /// Condition: size, mix, depth, state of the drive.
    pub condition: String,
    /// Kind of knowledge.
    pub kind: Kind,
    /// Key of its source.
    pub source: String,
    /// When it was published; "unknown" if the source does not say.
    pub date: String,
    /// File and line.
    pub at: String,
}

/// Where figures come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// Author, title, address, page.
    pub title: String,
    /// When it was published; "unknown" if it does not say.
    pub date: String,
    /// Second-hand or anonymous.
    pub weak: bool,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Stores.
    Drive,
    /// Connects drives, or a storage network, to a host.
    Adapter,
    /// Connects a host to a network.
    Nic,
    /// A kind of wire: what a lane or a port of it carries.
    Link,
    /// A host.
    Server,
    /// Software stack, which sets the CPU time of an I/O.
    Software,
}

impl Class {
    /// The word for it.
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

    /// The word with its article: "a drive", "an adapter".
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
    /// Its name on command lines and in bills.
    pub id: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// In full.
    pub name: String,
    /// What it is.
    pub class: Class,
    /// What a drive is connected by, one of [`INTERFACES`]; empty for other parts.
    pub interface: String,
    /// Remarks on the figures.
    pub note: String,
    /// When it could be bought new; `None` if that is not told, as of a part of one's own.
    pub sold: Option<Sold>,
    /// By quantity, the figure in use first.
    pub figures: BTreeMap<String, Vec<Figure>>,
}

/// What a drive may be connected by.
pub const INTERFACES: [&str; 6] = ["sata", "sas", "pcie", "network", "usb", "mmc"];

/// Other words for them, as people say them.
const CALLED: [(&str, &str); 5] =
    [("nvme", "pcie"), ("m.2", "pcie"), ("u.2", "pcie"), ("sd", "mmc"), ("emmc", "mmc")];

/// The interface that a word names, in any case; the error says which words do.
///
/// # Errors
///
/// All words.
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

/// The year that the catalogue was last looked through for what is still sold.
pub const TODAY: u32 = 2026;

/// When a part could be bought new, as far as is known to the year. Documents say it as files do:
/// `2009-2011`, `2024-`, `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sold {
    /// From a year on, to another one if its maker has ended it.
    Years {
        /// First year.
        from: u32,
        /// Last year; `None` if it still is.
        to: Option<u32>,
    },
    /// A prototype, or a name that stands for what a bill describes itself.
    Never,
}

impl Sold {
    /// Reads `2009-2011`, `2024-`, `2012` or `never`; `None` for what is neither.
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

    /// Whether it was sold in that year.
    pub fn in_year(self, year: u32) -> bool {
        match self {
            Sold::Years { from, to } => from <= year && to.is_none_or(|to| year <= to),
            Sold::Never => false,
        }
    }

    /// In words.
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

/// A figure as calculations use it: the first source's value, the interval of all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// In base units.
    pub value: f64,
    /// The lowest that a source allows.
    pub low: f64,
    /// The highest that a source allows.
    pub high: f64,
    /// How the value is known.
    pub kind: Kind,
    /// Key of the source of the value.
    pub source: String,
}

impl Part {
    /// Whether it could be bought new in that year: what does not say so could be.
    pub fn sold_in(&self, year: u32) -> bool {
        self.sold.is_none_or(|sold| sold.in_year(year))
    }

    /// The figure of `quantity`, one of [`QUANTITIES`]; `None` if nothing is.
    pub fn known(&self, quantity: &str) -> Option<Known> {
        let Some(all) = self.figures.get(quantity) else {
            debug_assert!(quantity_named(quantity).is_some(), "{quantity} is no quantity");
            return None;
        };
        let first = all.first()?;
        let low = all.iter().map(|figure| figure.low).fold(first.low, f64::min);
        let high = all.iter().map(|figure| figure.high).fold(first.high, f64::max);
        let source = first.source.clone();
        Some(Known { value: first.value, low, high, kind: first.kind, source })
    }

    /// The value of a quantity, in base units.
    pub fn value(&self, quantity: &str) -> Option<f64> {
        self.known(quantity).map(|known| known.value)
    }
}
