//! Reads catalogue files and refuses what makes no sense, with file, line and reason.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Catalogue, Class, Figure, Kind, Part, Source, fits, quantity_named};
use crate::unit::{Dimension, unit_named};

/// Why a catalogue file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct CatalogueError {
    /// As the caller named it.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    source: BTreeMap<String, RawSource>,
    #[serde(default)]
    part: Vec<RawPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSource {
    title: String,
    #[serde(default = "unknown")]
    date: String,
    #[serde(default)]
    weak: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPart {
    id: Spanned<String>,
    name: String,
    class: Class,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    note: String,
    figures: Vec<Spanned<RawFigure>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFigure {
    is: String,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    condition: String,
    kind: Kind,
    source: Option<String>,
    date: Option<String>,
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The line of a byte of `text`, from 1.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count() + 1
}

/// Line and reason of a syntax error.
pub(crate) fn syntax(text: &str, error: &toml::de::Error) -> (usize, String) {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    (line, error.message().lines().next().unwrap_or("not TOML").to_owned())
}

pub(super) fn add(to: &mut Catalogue, file: &str, text: &str) -> Result<(), CatalogueError> {
    let refuse = |line, reason| CatalogueError { file: file.to_owned(), line, reason };
    let raw: RawFile = toml::from_str(text).map_err(|error| {
        let (line, reason) = syntax(text, &error);
        refuse(line, reason)
    })?;
    let mut sources = to.sources.clone();
    for (key, source) in raw.source {
        let RawSource { title, date, weak } = source;
        sources.insert(key, Source { title, date, weak });
    }
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for raw in raw.part {
        let line = line_of(text, raw.id.span().start);
        let id = raw.id.get_ref().clone();
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            return Err(refuse(line, format!("'{id}' is no id: letters, digits, - . _ only")));
        }
        if parts.contains_key(&id) {
            return Err(refuse(line, format!("the part '{id}' stands here twice")));
        }
        let mut figures: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
        for raw in raw.figures {
            let line = line_of(text, raw.span().start);
            let name = raw.get_ref().is.clone();
            let at = format!("{file}:{line}");
            let figure = figure(raw.into_inner(), &sources, at)
                .map_err(|reason| refuse(line, format!("{id}: {reason}")))?;
            figures.entry(name).or_default().push(figure);
        }
        let RawPart { name, class, aliases, note, .. } = raw;
        parts.insert(id.clone(), Part { id, aliases, name, class, note, figures });
    }
    to.sources = sources;
    to.parts.extend(parts);
    Ok(())
}

/// Checks one figure; the error is the reason.
fn figure(
    raw: RawFigure,
    sources: &BTreeMap<String, Source>,
    at: String,
) -> Result<Figure, String> {
    let Some(quantity) = quantity_named(&raw.is) else {
        return Err(format!("'{}' is no quantity; `drumfire catalogue check` lists them", raw.is));
    };
    let name = quantity.name;
    let Some(unit) = unit_named(&raw.unit) else {
        return Err(format!("{name}: '{}' is no unit", raw.unit));
    };
    if !fits(&unit, quantity) {
        return Err(format!(
            "{name}: {} where {} belongs",
            if raw.unit.is_empty() { "no unit" } else { &raw.unit },
            quantity.dimension
        ));
    }
    let Some(source) = raw.source.filter(|source| !source.trim().is_empty()) else {
        return Err(format!("{name}: a figure without a source; say where {} is from", raw.value));
    };
    let Some(known) = sources.get(&source) else {
        return Err(format!("{name}: no [source.{source}] says what '{source}' is"));
    };
    let spread = if quantity.exact { 0.0 } else { raw.kind.default_spread() };
    let low = raw.low.unwrap_or(raw.value * (1.0 - spread));
    let high = raw.high.unwrap_or(raw.value * (1.0 + spread));
    for (word, given) in [("value", raw.value), ("low", low), ("high", high)] {
        let base = given * unit.factor;
        if !given.is_finite() || given < 0.0 {
            return Err(format!("{name}: {word} {given} is not a number above nought"));
        }
        if base < quantity.least * 0.5 || base > quantity.most {
            return Err(format!(
                "{name}: {word} {given} {} is absurd: {} to {} is possible; check the unit",
                unit.name,
                super::pretty(quantity.least, quantity),
                super::pretty(quantity.most, quantity)
            ));
        }
    }
    let counted = quantity.exact && unit.dimension == Dimension::NUMBER;
    if counted && raw.value.fract() != 0.0 {
        return Err(format!("{name}: {} is counted, so it must be whole", raw.value));
    }
    if !(low <= raw.value && raw.value <= high) {
        return Err(format!("{name}: {} is not between {low} and {high}", raw.value));
    }
    Ok(Figure {
        value: raw.value * unit.factor,
        low: low * unit.factor,
        high: high * unit.factor,
        given: raw.value,
        unit: raw.unit,
        condition: raw.condition,
        kind: raw.kind,
        date: raw.date.unwrap_or_else(|| known.date.clone()),
        source,
        at,
    })
}
