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

    /// The part of this id or alias, whatever its case.
    ///
    /// # Errors
    ///
    /// [`UnknownPart`], with names that resemble it.
    pub fn part(&self, name: &str) -> Result<&Part, UnknownPart> {
        let lower = name.trim().to_lowercase();
        let same = |other: &String| other.to_lowercase() == lower;
        let found = self.parts.values().find(|p| same(&p.id) || p.aliases.iter().any(same));
        found
            .map(|part| &**part)
            .ok_or_else(|| UnknownPart { name: name.to_owned(), near: self.near(&lower) })
    }

    /// Ids that resemble a name: those a slip of the keyboard away, then those that hold a word of
    /// it.
    fn near(&self, lower: &str) -> Vec<String> {
        resembling(lower, self.parts.keys())
    }

    /// The drives whose ids resemble a name, for messages.
    pub fn drives_near(&self, name: &str) -> Vec<String> {
        let drives = self.parts.values().filter(|part| part.class == Class::Drive);
        resembling(&name.trim().to_lowercase(), drives.map(|part| &part.id))
    }
}

/// At most five ids that resemble a name in lower case.
fn resembling<'a>(lower: &str, ids: impl Iterator<Item = &'a String>) -> Vec<String> {
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).collect();
    let far = |id: &String| {
        let slips = slips(lower, id);
        match slips <= 2 && slips < lower.len().min(id.len()) {
            true => Some(slips),
            false => words.iter().any(|word| id.contains(word)).then_some(usize::MAX),
        }
    };
    let mut near: Vec<(usize, &String)> = ids.filter_map(|id| Some((far(id)?, id))).collect();
    near.sort();
    near.into_iter().take(5).map(|(_, id)| id.clone()).collect()
}

/// Letters to insert, delete or replace to make one word of the other (Levenshtein).
fn slips(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, against) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *against);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
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

#[cfg(test)]
mod test;
