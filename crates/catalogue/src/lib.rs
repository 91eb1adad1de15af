//! Parts: what drives, adapters, links, servers and software are known to do.
//!
//! The figures stand in `data/*.toml` and are compiled in. A figure has a value, an interval, a
//! unit, the condition it holds under, what kind of knowledge it is, and a source: without a
//! source it does not load. Sources that contradict each other stand side by side; the first is
//! the one that is used, and the interval in use spans them all. What nobody published is absent,
//! never guessed.
//!
//! ```
//! let catalogue = catalogue::Catalogue::shipped();
//! let drive = catalogue.part("cd6").expect("it is known");
//! assert_eq!(drive.value("read_iops"), Some(1e6));
//! ```

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use block::mistakes;
use serde::Serialize;

pub mod line;
pub mod read;
pub mod unit;

mod part;
mod pretty;
mod prices;
mod profile;
mod quantity;

pub use part::{Class, Figure, INTERFACES, Known, Part, Sold, Source, TODAY, interface_named};
pub use pretty::{digits, pretty};
pub use profile::NoProfile;
pub use quantity::{QUANTITIES, Quantity, quantity_named};
pub use read::CatalogueError;
pub use stats::Kind;

/// Parts and sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Catalogue {
    /// By their ids.
    pub parts: BTreeMap<String, Arc<Part>>,
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
    ("volumes.toml", include_str!("../data/volumes.toml")),
    ("processors.toml", include_str!("../data/processors.toml")),
    ("classes.toml", include_str!("../data/classes.toml")),
    ("software.toml", include_str!("../data/software.toml")),
    ("flushes.toml", include_str!("../data/flushes.toml")),
    ("remembered.toml", include_str!("../data/remembered.toml")),
    ("ratings.toml", include_str!("../data/ratings.toml")),
    ("latencies.toml", include_str!("../data/latencies.toml")),
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
        read::add(self, name, text)
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

    /// The part of this id or alias, whatever its case, or the drive of this name if the catalogue
    /// has one capacity of it.
    ///
    /// # Errors
    ///
    /// [`UnknownPart`], with the capacities of the drive, or with names that resemble it.
    pub fn part(&self, name: &str) -> Result<&Part, UnknownPart> {
        let lower = name.trim().to_lowercase();
        let same = |other: &String| other.to_lowercase() == lower;
        let found = self.parts.values().find(|p| same(&p.id) || p.aliases.iter().any(same));
        if let Some(part) = found {
            return Ok(part);
        }
        let capacities = self.capacities(&lower);
        if let [one] = capacities[..] {
            return Ok(one);
        }
        let capacities = capacities.into_iter().map(|part| part.id.clone()).collect();
        Err(UnknownPart { name: name.to_owned(), near: self.near(&lower), capacities })
    }

    /// The drives whose id is a name in lower case and a capacity, the smallest first:
    /// `980-pro-1000` of `980-pro`.
    fn capacities(&self, lower: &str) -> Vec<&Part> {
        let capacity = |part: &Part| -> Option<u64> {
            part.id.strip_prefix(lower)?.strip_prefix('-')?.parse().ok()
        };
        let drives = self.parts.values().filter(|part| part.class == Class::Drive);
        let mut found: Vec<(u64, &Part)> =
            drives.filter_map(|part| Some((capacity(part)?, &**part))).collect();
        found.sort_unstable_by_key(|(capacity, _)| *capacity);
        found.into_iter().map(|(_, part)| part).collect()
    }

    /// Ids of parts that resemble a name.
    fn near(&self, lower: &str) -> Vec<String> {
        resembling(lower, self.parts.values().map(|part| &**part))
    }

    /// The drives whose ids resemble a name, for messages.
    pub fn drives_near(&self, name: &str) -> Vec<String> {
        let drives = self.parts.values().filter(|part| part.class == Class::Drive);
        resembling(&name.trim().to_lowercase(), drives.map(|part| &**part))
    }
}

/// At most five ids that resemble a name in lower case: those a typing mistake or two away and
/// those that begin with the name, then those with most of its words in their id or full name.
fn resembling<'a>(lower: &str, parts: impl Iterator<Item = &'a Part>) -> Vec<String> {
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).collect();
    let rank = |part: &Part| {
        if lower.len() > 1 && part.id.starts_with(lower) {
            return Some(1);
        }
        let mistakes = mistakes(lower, &part.id);
        if mistakes <= 2 && mistakes < lower.len().min(part.id.len()) {
            return Some(mistakes);
        }
        let name = part.name.to_lowercase();
        let missing = |word: &&&str| !part.id.contains(**word) && !name.contains(**word);
        let missing = words.iter().filter(missing).count();
        // More than any typing mistakes that count.
        (missing < words.len()).then_some(10 + missing)
    };
    let ranked = parts.filter_map(|part| Some((rank(part)?, &part.id)));
    let mut near: Vec<(usize, &String)> = ranked.collect();
    near.sort();
    near.into_iter().take(5).map(|(_, id)| id.clone()).collect()
}

/// No part has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no part is called '{name}'{}; `drumfire catalogue list` names all",
    hint(.near, .capacities)
)]
pub struct UnknownPart {
    /// What was asked for.
    pub name: String,
    /// Ids that resemble it.
    pub near: Vec<String>,
    /// Ids of the drive of this name, one for each capacity: none, or two at least.
    pub capacities: Vec<String>,
}

fn hint(near: &[String], capacities: &[String]) -> String {
    match (near, capacities) {
        (_, [_, ..]) => format!(": choose a capacity, {}", capacities.join(", ")),
        ([], []) => String::new(),
        (near, []) => format!(", but {} are known", near.join(", ")),
    }
}

#[cfg(test)]
mod test;
