//! What parts are known to do.
//!
//! The figures stand in `data/*.toml` and are compiled in. A figure has a value, an interval, a
//! unit, the condition it holds under, what kind of knowledge it is, and a source: without a
//! source it does not load. Sources that contradict each other stand side by side; the first is
//! the one that is used, and the interval in use spans them all. What nobody published is absent,
//! never guessed.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Serialize;

use crate::unit::Unit;

mod load;
mod prices;
mod quantity;

pub use load::CatalogueError;
pub(crate) use load::{Own, RawFigure, RawPart, RawSource, line_of, syntax};
pub use quantity::{QUANTITIES, Quantity, quantity_named};
pub use stats::Kind;

/// One thing that one source says about a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// In base units: bytes, seconds, per second, dollars, watts.
    pub value: f64,
    /// Lower end of what the value may be, in base units.
    pub low: f64,
    /// Upper end, in base units.
    pub high: f64,
    /// The value as the source gives it.
    pub given: f64,
    /// Its unit there.
    pub unit: String,
    /// What it holds for: size, mix, depth, state of the drive.
    pub condition: String,
    /// How it is known.
    pub kind: Kind,
    /// Key of its source.
    pub source: String,
    /// When it was published; "unknown" if the source does not say.
    pub date: String,
    /// File and line that it stands at.
    pub at: String,
}

/// Where figures come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// Author, title, address, page.
    pub title: String,
    /// When it was published; "unknown" if it does not say.
    pub date: String,
    /// Second-hand, or without a name that stands for it.
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
    /// What an I/O costs in processor time.
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
}

/// A part with everything that is known about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// What it is called on command lines and in bills.
    pub id: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// In full.
    pub name: String,
    /// What it is.
    pub class: Class,
    /// What a drive is connected by: `sata`, `sas` or `pcie`; empty for other parts.
    pub interface: String,
    /// What must be known to read the figures.
    pub note: String,
    /// When it could be bought new; `None` if that is not told, as of a part of one's own.
    pub sold: Option<Sold>,
    /// By quantity, the figure in use first.
    pub figures: BTreeMap<String, Vec<Figure>>,
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

    /// What is known of `quantity`, one of [`QUANTITIES`]; `None` if nothing is.
    pub fn known(&self, quantity: &str) -> Option<Known> {
        debug_assert!(quantity_named(quantity).is_some(), "{quantity} is no quantity");
        let all = self.figures.get(quantity)?;
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

/// Parts and sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Catalogue {
    /// By their ids.
    pub parts: BTreeMap<String, Part>,
    /// By their keys.
    pub sources: BTreeMap<String, Source>,
}

/// The files that are compiled in, by name.
const FILES: &[(&str, &str)] = &[
    ("sources.toml", include_str!("../data/sources.toml")),
    ("drives.toml", include_str!("../data/drives.toml")),
    ("adapters.toml", include_str!("../data/adapters.toml")),
    ("links.toml", include_str!("../data/links.toml")),
    ("servers.toml", include_str!("../data/servers.toml")),
    ("reviewed.toml", include_str!("../data/reviewed.toml")),
];

impl Catalogue {
    /// The one that is compiled in.
    ///
    /// # Panics
    ///
    /// If it does not load, which a test of this crate rules out.
    pub fn shipped() -> Catalogue {
        static READ: OnceLock<Catalogue> = OnceLock::new();
        let read = || {
            let mut catalogue = Catalogue::default();
            for (name, text) in FILES {
                let loaded = catalogue.add(name, text);
                assert!(loaded.is_ok(), "{loaded:?}");
            }
            catalogue
        };
        READ.get_or_init(read).clone()
    }

    /// Adds the sources and parts of a file, called `name` in messages. A part that is known
    /// already is replaced, so that users can correct one.
    ///
    /// # Errors
    ///
    /// [`CatalogueError`] with file, line and reason; nothing is added then.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), CatalogueError> {
        load::add(self, name, text)
    }

    /// Puts prices before those that are known: `[price]` with a part and dollars in each line,
    /// under `source`, where they are from, and `date`, when they held.
    ///
    /// # Errors
    ///
    /// [`CatalogueError`] with file, line and reason; nothing is added then.
    pub fn add_prices(&mut self, name: &str, text: &str) -> Result<(), CatalogueError> {
        prices::add(self, name, text)
    }

    /// Puts a price of one's own before those that are known, in dollars.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn set_price(&mut self, part: &str, dollars: f64) -> Result<(), String> {
        prices::set(self, part, dollars)
    }

    /// The part of this id or alias, whatever its case.
    ///
    /// # Errors
    ///
    /// [`UnknownPart`], with names that resemble it.
    pub fn part(&self, name: &str) -> Result<&Part, UnknownPart> {
        let lower = name.trim().to_lowercase();
        let same = |other: &String| other.to_lowercase() == lower;
        let found = self.parts.values().find(|p| same(&p.id) || p.aliases.iter().any(same));
        found.ok_or_else(|| UnknownPart { name: name.to_owned(), near: self.near(&lower) })
    }

    /// Ids that hold a word of this name, for messages.
    fn near(&self, lower: &str) -> Vec<String> {
        let words: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).collect();
        let holds = |id: &&String| words.iter().any(|word| id.contains(word));
        self.parts.keys().filter(holds).take(5).cloned().collect()
    }
}

/// No part has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no part is called '{name}'{}; `drumfire catalogue list` names all", hint(.near))]
pub struct UnknownPart {
    /// What was asked for.
    pub name: String,
    /// Ids that resemble it.
    pub near: Vec<String>,
}

fn hint(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(", but {} are known", near.join(", ")) }
}

/// A value in a unit that people read, chosen by size: `35.0k IOPS`, `880 µs`, `4.00 GB/s`.
pub fn pretty(value: f64, quantity: &Quantity) -> String {
    use crate::unit::Dimension;
    let scaled = |steps: &[(f64, &str)]| {
        let step = steps.iter().find(|(size, _)| value >= *size * 0.9995).or(steps.last());
        let (size, name) = step.copied().unwrap_or((1.0, ""));
        format!("{} {name}", digits(value / size)).trim_end().to_owned()
    };
    match quantity.dimension {
        Dimension::TIME => scaled(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
        Dimension::BYTES => {
            scaled(&[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
        }
        Dimension::BYTE_RATE => scaled(&[(1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")]),
        Dimension::BIT_RATE => scaled(&[(1e9, "Gb/s"), (1e6, "Mb/s")]),
        Dimension::TRANSFERS => scaled(&[(1e9, "GT/s")]),
        Dimension::RATE if quantity.name == "clock" => scaled(&[(1e9, "GHz"), (1e6, "MHz")]),
        Dimension::RATE => format!("{} IOPS", block::Rate(value)),
        Dimension::MONEY => format!("${value:.0}"),
        Dimension::POWER => format!("{} W", digits(value)),
        Dimension::HEIGHT => format!("{value} U"),
        _ => digits(value),
    }
}

/// Three or four figures, without zeros that say nothing.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v == v.round() && v < 1e6 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// A unit must fit its quantity; the loader and the auditor both ask.
pub(crate) fn fits(unit: &Unit, quantity: &Quantity) -> bool {
    unit.dimension == quantity.dimension
}

#[cfg(test)]
mod test;
