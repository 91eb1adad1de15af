//! Parser and checks of catalogue files; errors have file, line and reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use crate::line::shown;
use crate::unit::{Dimension, Unit, suffix, units_of};
use crate::{
    Basis, Catalogue, Class, Figure, INTERFACES, Kind, Part, Quantity, Sold, Source,
    interface_named, pretty, quantity_named,
};

/// Error of a catalogue file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct CatalogueError {
    /// File name given by the caller.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// Reason of the refusal, with the correct form.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    source: BTreeMap<String, RawSource>,
    #[serde(default)]
    part: Vec<RawPart>,
    /// Figures of parts of this file or of earlier ones.
    #[serde(default)]
    figure: Vec<Spanned<RawFigure>>,
}

/// A source in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSource {
    #[serde(deserialize_with = "crate::line::read")]
    title: String,
    #[serde(default = "unknown", deserialize_with = "crate::line::read")]
    date: String,
    #[serde(default, deserialize_with = "crate::line::read")]
    url: String,
    #[serde(default)]
    weak: bool,
    #[serde(default)]
    recalled: bool,
}

impl RawSource {
    /// Returns a second-hand source without a date.
    pub fn new(title: &str) -> RawSource {
        let (title, url) = (title.to_owned(), String::new());
        RawSource { title, date: unknown(), url, weak: true, recalled: false }
    }
}

/// A part in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPart {
    id: Spanned<String>,
    #[serde(deserialize_with = "crate::line::read")]
    name: String,
    class: Class,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    interface: String,
    /// Years of sale: `2009-2011`, `2024-`, `never`.
    sold: Option<String>,
    #[serde(default, deserialize_with = "crate::line::read")]
    note: String,
    figures: Vec<Spanned<RawFigure>>,
}

impl RawPart {
    /// Returns a part that is not from a `[[part]]` table.
    pub fn new(
        id: Spanned<String>,
        name: String,
        class: Class,
        figures: Vec<Spanned<RawFigure>>,
    ) -> RawPart {
        let (aliases, interface, note) = (Vec::new(), String::new(), String::new());
        RawPart { id, name, class, aliases, interface, sold: None, note, figures }
    }
}

/// A figure in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawFigure {
    /// Part of the figure, if it is outside a `[[part]]` table.
    part: Option<String>,
    is: String,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(default)]
    unit: String,
    #[serde(default, deserialize_with = "crate::line::read")]
    condition: String,
    #[serde(default, deserialize_with = "crate::line::read")]
    quote: String,
    kind: Kind,
    source: Option<String>,
    date: Option<String>,
}

impl RawFigure {
    /// Returns a figure for [`RawPart::new`].
    pub fn new(is: &str, value: f64, unit: &str, kind: Kind, source: &str) -> RawFigure {
        let (is, unit, source) = (is.to_owned(), unit.to_owned(), Some(source.to_owned()));
        let (part, low, high, date) = (None, None, None, None);
        let (condition, quote) = (String::new(), String::new());
        RawFigure { part, is, value, low, high, unit, condition, quote, kind, source, date }
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Returns the line number, from 1, of a byte offset in `text`.
pub fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count() + 1
}

/// Offsets of the line ends of a text: a file of thousands of figures is scanned only once.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines(ends.map(|(at, _)| at).collect())
    }

    /// Returns the line number of a byte offset, from 1.
    fn line_of(&self, byte: usize) -> usize {
        self.0.partition_point(|end| *end < byte) + 1
    }
}

/// Returns line number and reason of a syntax error.
pub fn syntax(text: &str, error: &toml::de::Error) -> (usize, String) {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    (line, error.message().lines().next().unwrap_or("not TOML").to_owned())
}

pub(crate) fn add(to: &mut Catalogue, file: &str, text: &str) -> Result<(), CatalogueError> {
    let raw: RawFile = toml::from_str(text).map_err(|error| {
        let (line, reason) = syntax(text, &error);
        CatalogueError { file: file.to_owned(), line, reason }
    })?;
    let RawFile { source, part, figure } = raw;
    RawParts { file, text, sources: source, parts: part, figures: figure }.add_to(to)
}

/// Sources, parts and figures of a file, not yet checked.
pub struct RawParts<'a> {
    /// Name of the file in messages.
    pub file: &'a str,
    /// Text of the whole file, for line numbers.
    pub text: &'a str,
    /// Sources by their keys.
    pub sources: BTreeMap<String, RawSource>,
    /// New parts, and replacements of known parts.
    pub parts: Vec<RawPart>,
    /// Figures for known parts, placed before the known figures.
    pub figures: Vec<Spanned<RawFigure>>,
}

impl RawParts<'_> {
    fn refuse(&self, byte: usize, reason: String) -> CatalogueError {
        let line = line_of(self.text, byte);
        CatalogueError { file: self.file.to_owned(), line, reason }
    }

    /// Checks all sources, parts and figures, then adds them to the catalogue.
    ///
    /// # Errors
    ///
    /// [`CatalogueError`] with file, line and reason; the catalogue is unchanged then.
    pub fn add_to(mut self, to: &mut Catalogue) -> Result<(), CatalogueError> {
        let lines = Lines::of(self.text);
        let mut sources = Arc::clone(&to.sources);
        for (key, source) in std::mem::take(&mut self.sources) {
            let RawSource { title, date, url, weak, recalled } = source;
            let source = Source { title, date, url, weak, recalled };
            Arc::make_mut(&mut sources).insert(key, source);
        }
        let mut parts: BTreeMap<String, Arc<Part>> = BTreeMap::new();
        for raw in std::mem::take(&mut self.parts) {
            let start = raw.id.span().start;
            let part = self.part(raw, &sources, &lines)?;
            if parts.contains_key(&part.id) {
                return Err(self.refuse(start, format!("the part '{}' is defined twice", part.id)));
            }
            parts.insert(part.id.clone(), Arc::new(part));
        }
        for raw in std::mem::take(&mut self.figures) {
            let start = raw.span().start;
            let named = raw.get_ref().part.clone();
            let named = named
                .ok_or_else(|| self.refuse(start, "part: missing: name the part".to_owned()))?;
            let part = match parts.contains_key(&named) {
                true => parts.entry(named),
                false => {
                    let known = to.part(&named).map_err(|e| self.refuse(start, e.to_string()))?;
                    parts.entry(known.id.clone())
                }
            };
            let (name, figure) = self.figure(raw, part.key(), &sources, &lines)?;
            let known = part.key().clone();
            let part = part.or_insert_with(|| to.parts[&known].clone());
            Arc::make_mut(part).figures.entry(name).or_default().insert(0, figure);
        }
        to.sources = sources;
        if !parts.is_empty() {
            Arc::make_mut(&mut to.parts).extend(parts);
        }
        Ok(())
    }

    fn part(&self, raw: RawPart, sources: &Sources, lines: &Lines) -> Result<Part, CatalogueError> {
        let start = raw.id.span().start;
        let id = raw.id.get_ref().clone();
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            let reason = format!("'{id}' is not an id: use letters, digits, - . _");
            return Err(self.refuse(start, reason));
        }
        let mut figures: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
        let aliases = raw.aliases.iter().map(|alias| shown(alias)).collect();
        let RawPart { name, class, interface, note, sold, figures: given, .. } = raw;
        let sold = match sold.as_deref().map(|text| (text, Sold::parse(text))) {
            Some((text, None)) => {
                let text = shown(text);
                let reason = format!("{id}: sold '{text}': years as 2009-2011, 2024- or never");
                return Err(self.refuse(start, reason));
            }
            known => known.and_then(|(_, sold)| sold),
        };
        let interface = connected(class, &interface)
            .map_err(|reason| self.refuse(start, format!("{id}: interface: {reason}")))?;
        for raw in given {
            if raw.get_ref().part.is_some() {
                let reason = "part: a figure in a part belongs to that part".to_owned();
                return Err(self.refuse(raw.span().start, reason));
            }
            let (name, figure) = self.figure(raw, &id, sources, lines)?;
            figures.entry(name).or_default().push(figure);
        }
        Ok(Part { id, aliases, name, class, interface, note, sold, figures })
    }

    fn figure(
        &self,
        raw: Spanned<RawFigure>,
        part: &str,
        sources: &Sources,
        lines: &Lines,
    ) -> Result<(String, Figure), CatalogueError> {
        let start = raw.span().start;
        let at = format!("{}:{}", self.file, lines.line_of(start));
        let name = raw.get_ref().is.clone();
        let figure = figure(raw.into_inner(), sources, at)
            .map_err(|reason| self.refuse(start, format!("{part}: {reason}")))?;
        Ok((name, figure))
    }
}

/// Returns the interface of a part of this class, or the reason why the word is invalid.
fn connected(class: Class, word: &str) -> Result<String, String> {
    match (class, word) {
        (Class::Drive, "") => Err(format!("missing: one of {}", INTERFACES.join(", "))),
        (Class::Drive, word) => interface_named(word).map(str::to_owned),
        (_, "") => Ok(String::new()),
        (class, _) => Err(format!("only drives have one, and this is {}", class.with_article())),
    }
}

type Sources = BTreeMap<String, Source>;

/// Checks one figure; the error is the reason.
fn figure(raw: RawFigure, sources: &Sources, at: String) -> Result<Figure, String> {
    let Some(quantity) = quantity_named(&raw.is) else {
        return Err(format!(
            "'{}' is not a quantity: `drumfire catalogue check` lists them",
            raw.is
        ));
    };
    let name = quantity.name;
    let Some((prefix, unit)) = suffix(&raw.unit) else {
        return Err(format!("{name}: '{}' is not a unit: {}", shown(&raw.unit), units(quantity)));
    };
    let unit = Unit { factor: prefix * unit.factor, ..unit };
    if !fits(&unit, quantity) {
        return Err(format!(
            "{name}: {} where {} belongs",
            if raw.unit.is_empty() { "no unit" } else { &raw.unit },
            units(quantity)
        ));
    }
    let Some(source) = raw.source.filter(|source| !source.trim().is_empty()) else {
        return Err(format!("{name}: a figure without a source: name the source of {}", raw.value));
    };
    let Some(known) = sources.get(&source) else {
        return Err(format!("{name}: source '{source}' is unknown: add [source.{source}]"));
    };
    let spread = if quantity.exact { 0.0 } else { spread(raw.kind) };
    let low = raw.low.unwrap_or(raw.value * (1.0 - spread));
    let high = raw.high.unwrap_or(raw.value * (1.0 + spread));
    for (word, given) in [("value", raw.value), ("low", low), ("high", high)] {
        let base = given * unit.factor;
        if !given.is_finite() || given < 0.0 {
            return Err(format!("{name}: {word} {given} must be a number above 0"));
        }
        if base < quantity.least * 0.5 || base > quantity.most {
            return Err(format!(
                "{name}: {word} {given} {} is out of range, {} to {}: check the unit",
                unit.name,
                pretty(quantity.least, quantity),
                pretty(quantity.most, quantity)
            ));
        }
    }
    let counted = quantity.exact && quantity.most > 1.0 && unit.dimension == Dimension::NUMBER;
    if counted && raw.value.fract() != 0.0 {
        return Err(format!("{name}: {} must be a whole number", raw.value));
    }
    if !(low <= raw.value && raw.value <= high) {
        return Err(format!("{name}: {} is not between {low} and {high}", raw.value));
    }
    let date = raw.date.map_or_else(|| known.date.clone(), |date| shown(&date));
    Ok(Figure {
        value: raw.value * unit.factor,
        low: low * unit.factor,
        high: high * unit.factor,
        given: raw.value,
        // Quantities without a unit have the unit "number" in files.
        unit: if raw.unit == "number" { String::new() } else { raw.unit },
        condition: raw.condition,
        kind: raw.kind,
        basis: Basis::of(raw.kind, known, &date, &raw.quote),
        quote: raw.quote,
        date,
        source,
        at,
    })
}

/// Returns the half width of the interval, relative to the value, for sources that give none: five
/// percent for ratings, as much as drives of one type differ, two for careful measurements, which
/// repeat within that, and a quarter for guesses.
fn spread(kind: Kind) -> f64 {
    match kind {
        Kind::Spec | Kind::Derived => 0.05,
        Kind::Measured => 0.02,
        Kind::Fit => 0.03,
        Kind::Guess => 0.25,
    }
}

/// Returns the units of a quantity, for messages.
fn units(quantity: &Quantity) -> String {
    let clock = quantity.name == "clock";
    let mut all = units_of(quantity.dimension);
    all.retain(|name| quantity.dimension != Dimension::RATE || name.ends_with("Hz") == clock);
    if quantity.dimension == Dimension::RATE && !clock {
        all.push("kIOPS");
    }
    match all.len() {
        0 | 1 => quantity.dimension.to_string(),
        _ if quantity.dimension == Dimension::NUMBER => "a number without unit, or %".to_owned(),
        _ => all.join(", "),
    }
}

/// Returns whether the unit has the dimension of the quantity.
fn fits(unit: &Unit, quantity: &Quantity) -> bool {
    unit.dimension == quantity.dimension
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lines_are_those_that_are_counted() {
        for text in ["", "\n", "a", "a\n\nbc\n", "\n\nlast"] {
            let lines = Lines::of(text);
            for byte in 0..=text.len() {
                assert_eq!(lines.line_of(byte), line_of(text, byte), "{text:?} at {byte}");
            }
        }
    }
}
