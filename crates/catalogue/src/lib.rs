//! Catalogue of parts: published figures of drives, adapters, links, servers and software.
//!
//! The figures are in `data/*.toml`, compiled in. A figure has a value, an interval, a unit, the
//! condition of its measurement, its kind of knowledge, and a source: a figure without a source is
//! refused. Figures of sources that contradict each other are all kept; the first one is used, and
//! the interval in use covers all of them. A figure without a document is recalled, and its
//! [`Basis`] says so.
//!
//! ```
//! let catalogue = catalogue::Catalogue::shipped();
//! let drive = catalogue.part("cd6").expect("it is known");
//! assert_eq!(drive.value("read_iops"), Some(1e6));
//! ```

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use block::mistakes;
use serde::Serialize;

pub mod line;
pub mod read;
pub mod unit;

mod basis;
mod like;
mod model;
mod part;
mod pretty;
mod prices;
mod profile;
mod quantity;
mod shipped;

pub use basis::Basis;
pub use like::{is_disk, sure};
pub use part::{Class, Figure, INTERFACES, Known, Part, Sold, Source, TODAY, interface_named};
pub use pretty::{digits, pretty};
pub use prices::{PriceTag, price_words};
pub use profile::NoProfile;
pub use quantity::{QUANTITIES, Quantity, quantity_named};
pub use read::CatalogueError;
pub use shipped::evidence;
pub use stats::Kind;

/// Parts and sources. A copy shares its tables until one of both changes: searches copy the
/// catalogue into hundreds of bills.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Catalogue {
    /// Parts by their ids.
    pub parts: Arc<BTreeMap<String, Arc<Part>>>,
    /// Sources by their keys.
    pub sources: Arc<BTreeMap<String, Source>>,
    /// Quantities that were removed from parts, since no document has them.
    #[serde(skip)]
    left_out: Arc<BTreeMap<String, BTreeSet<String>>>,
    /// Whether figures that no document has were removed: nothing is assumed in their place.
    #[serde(skip)]
    sourced: bool,
}

impl Catalogue {
    /// Returns the built-in catalogue.
    ///
    /// # Panics
    ///
    /// If a compiled-in file is invalid, which a test of this crate rules out.
    pub fn shipped() -> Catalogue {
        static READ: OnceLock<Catalogue> = OnceLock::new();
        let read = || {
            let mut catalogue = Catalogue::default();
            for file in shipped::FILES {
                let loaded = catalogue.add(file.name, &file.text());
                assert!(loaded.is_ok(), "{loaded:?}");
            }
            catalogue
        };
        READ.get_or_init(read).clone()
    }

    /// Adds the sources and parts of a file, called `name` in messages. A part with the id of a
    /// known one replaces it, so that users can correct parts.
    ///
    /// # Errors
    ///
    /// [`CatalogueError`] with file, line and reason; the catalogue is unchanged then.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), CatalogueError> {
        read::add(self, name, text)
    }

    /// Adds prices, in dollars, which replace the known prices of their parts. The text has a table
    /// `[price]` with a line per part, `source`, the origin of the prices, and `date`, the day,
    /// month or year for which they are valid.
    ///
    /// # Errors
    ///
    /// [`CatalogueError`] with file, line and reason; the catalogue is unchanged then.
    pub fn add_prices(&mut self, name: &str, text: &str) -> Result<(), CatalogueError> {
        prices::add(self, name, text)
    }

    /// Replaces the price of a part by the user's own, in dollars.
    ///
    /// # Errors
    ///
    /// A message with the reason.
    pub fn set_price(&mut self, part: &str, dollars: f64) -> Result<(), String> {
        prices::set(self, part, dollars)
    }

    /// The part of this id or alias, whatever its case and what stands between its words, or the
    /// drive of this name if the catalogue has one capacity of it. A drive is also found by the
    /// name that it reports, with its manufacturer's number or capacity.
    ///
    /// # Errors
    ///
    /// [`UnknownPart`], with the capacities of the drive, or with names that resemble it.
    pub fn part(&self, name: &str) -> Result<&Part, UnknownPart> {
        let name = name.trim();
        if let Some(part) = self.parts.get(name) {
            return Ok(part);
        }
        let lower = name.to_lowercase();
        // Without a copy of every name in lower case.
        let same = |other: &String| match other.is_ascii() {
            true => other.eq_ignore_ascii_case(&lower),
            false => other.to_lowercase() == lower,
        };
        let found = self.parts.values().find(|p| same(&p.id) || p.aliases.iter().any(same));
        if let Some(part) = found {
            return Ok(part);
        }
        let mut capacities = self.capacities(&lower);
        if capacities.is_empty() {
            capacities = self.spelled_otherwise(&letters(&lower));
        }
        if capacities.is_empty() {
            capacities = model::drives(self, name);
        }
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

    /// The parts whose id or alias has the same letters and digits, with any separators, or
    /// else the drives of that name or full name without a capacity: `980pro`, `Samsung 980 PRO`.
    fn spelled_otherwise(&self, sought: &str) -> Vec<&Part> {
        let parts = || self.parts.values().map(|part| &**part);
        let same = |part: &&Part| {
            letters(&part.id) == sought || part.aliases.iter().any(|name| letters(name) == sought)
        };
        let found: Vec<&Part> = parts().filter(same).collect();
        if sought.is_empty() || !found.is_empty() {
            return found;
        }
        let drives = parts().filter(|part| part.class == Class::Drive);
        let of_name = |part: &&Part| {
            let id = part.id.rsplit_once('-').filter(|(_, end)| end.parse::<u64>().is_ok());
            let full = part.name.split_once(',').map_or(&*part.name, |(name, _)| name);
            id.is_some_and(|(id, _)| letters(id) == sought) || letters(full) == sought
        };
        drives.filter(of_name).collect()
    }

    /// Returns the ids of parts similar to a name, at most five.
    fn near(&self, lower: &str) -> Vec<String> {
        resembling(lower, self.parts.values().map(|part| &**part))
    }

    /// Returns the ids of drives similar to a name, at most five, for messages.
    pub fn drives_near(&self, name: &str) -> Vec<String> {
        let drives = self.parts.values().filter(|part| part.class == Class::Drive);
        resembling(&name.trim().to_lowercase(), drives.map(|part| &**part))
    }
}

/// Returns the letters and digits of a name, in lower case.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns at most five ids similar to a lower-case name: first ids within two typing errors of the
/// name, or that begin with it, then those with most of its words in the id or the full name.
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
        // Ranks after all ids within two typing errors.
        (missing < words.len()).then_some(10 + missing)
    };
    let ranked = parts.filter_map(|part| Some((rank(part)?, &part.id)));
    let mut near: Vec<(usize, &String)> = ranked.collect();
    near.sort();
    near.into_iter().take(5).map(|(_, id)| id.clone()).collect()
}

/// Error of a lookup: no part has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no part is called '{name}'{}; `drumfire catalogue list` names all",
    hint(.near, .capacities)
)]
pub struct UnknownPart {
    /// Name looked up.
    pub name: String,
    /// Ids similar to the name.
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
