//! The error table: every published figure that the model predicts, and its errors.
//!
//! FIT: the figure was used to choose a parameter. PRED: it was held out. ALT: the value of another
//! structure of the model. ARITH: the document's own arithmetic. A FIT is never counted as a
//! prediction. Texts hedge: "nearly 1.3 million" is an end of a range, not its middle, and a model
//! within 1.25 to 1.3 million does not contradict it. So an error is the distance of the model from
//! the range of the wording, half way to the next digit; the error against the bare number is
//! listed next to it. "About" and digits alone have no range. Every model value is solved from the
//! catalogue and the bills in `systems/` each time; the published values are in `claims/` and in
//! the catalogue. The errors of held-out figures against the bare numbers are recorded in
//! `data/errors.toml`, and one that grows is a failure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bill::Bill;
use crate::claim::{Claim, Document, FOUNDING};
use crate::expression::Standing;
use crate::predict::{Prediction, predict};
use crate::system::{PlanError, Tweak};
use catalogue::Catalogue;
use catalogue::unit::{Amount, Dimension, Hedge};

mod founding;
mod outside;
mod simulated;

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Tag {
    /// Used to choose a parameter.
    #[serde(rename = "FIT")]
    Fit,
    /// Held out.
    #[serde(rename = "PRED")]
    Pred,
    /// The value of another structure of the model, or of another reading of the text.
    #[serde(rename = "ALT")]
    Alt,
    /// The document's own arithmetic.
    #[serde(rename = "ARITH")]
    Arith,
}

impl Tag {
    /// Returns the word for the tag.
    pub fn word(self) -> &'static str {
        match self {
            Tag::Fit => "FIT",
            Tag::Pred => "PRED",
            Tag::Alt => "ALT",
            Tag::Arith => "ARITH",
        }
    }
}

/// Set of a held-out row, with its own error limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Rates and means of the founding documents.
    Founding,
    /// CPU usage of the founding documents.
    Processor,
    /// Rates and means of third parties.
    Outside,
    /// Percentiles without calibration: shown to warn of relying on them.
    Tails,
}

impl Set {
    /// All sets.
    pub const ALL: [Set; 4] = [Set::Founding, Set::Processor, Set::Outside, Set::Tails];

    /// Returns the title of the set.
    pub fn title(self) -> &'static str {
        match self {
            Set::Founding => "founding documents, rates and means",
            Set::Processor => "founding documents, processor use",
            Set::Outside => "others, rates and means",
            Set::Tails => "others, p99 without calibration",
        }
    }

    /// Returns the limits of the median and the worst error.
    pub fn bars(self) -> (f64, f64) {
        match self {
            Set::Founding => (0.015, 0.06),
            Set::Processor => (0.15, 0.15),
            Set::Outside => (0.04, 0.10),
            Set::Tails => (f64::INFINITY, f64::INFINITY),
        }
    }
}

/// A published figure and the value of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the system.
    pub case: &'static str,
    /// Name of the figure.
    pub figure: String,
    /// Kind of the row.
    pub tag: Tag,
    /// Set whose limits apply; `None` if none do.
    pub set: Option<Set>,
    /// Published number, in base units.
    pub published: f64,
    /// Range of its wording: "nearly 1.3M" is 1.25M to 1.3M. Without a hedge both ends are the
    /// number itself.
    pub allowed: (f64, f64),
    /// Value of the model.
    pub model: f64,
    /// A note for the reader.
    pub note: String,
}

impl Row {
    /// Returns the relative error beyond the range of the wording; 0 within.
    pub fn error(&self) -> f64 {
        let (low, high) = self.allowed;
        self.model / self.model.clamp(low, high) - 1.0
    }

    /// Returns the relative error against the bare number, hedged or not.
    pub fn error_bare(&self) -> f64 {
        self.model / self.published - 1.0
    }

    /// Returns whether the published number is hedged, an end of a range.
    pub fn is_bound(&self) -> bool {
        self.allowed.0 < self.allowed.1
    }

    /// Returns the name of its recorded error.
    pub fn key(&self) -> String {
        format!("{}: {}", self.case, self.figure)
    }
}

/// A parameter fitted to published figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// Name of the parameter.
    pub name: String,
    /// Value, with unit.
    pub value: String,
    /// Figure that it was fitted to.
    pub to: String,
    /// True if it belongs to the founding documents.
    pub founding: bool,
}

/// Median and worst error of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Set of the rows.
    pub set: Set,
    /// Tag, always `PRED`: no fitted row is in it.
    pub tag: Tag,
    /// Number of held-out rows.
    pub rows: usize,
    /// Median of the absolute errors beyond the range of the wording.
    pub median: f64,
    /// Maximum of these errors.
    pub worst: f64,
    /// Median error against the bare numbers: "nearly 1.3M" as 1.3M.
    pub median_bare: f64,
    /// Maximum error against the bare numbers.
    pub worst_bare: f64,
    /// True if both limits are met.
    pub met: bool,
}

/// The error table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// All rows.
    pub rows: Vec<Row>,
    /// All fitted parameters.
    pub fitted: Vec<Fitted>,
    /// The summary by set.
    pub summaries: Vec<Summary>,
    /// Held-out rows with an error larger than recorded, or without a record.
    pub grown: Vec<String>,
}

impl Report {
    /// Returns whether all limits are met and no error grew.
    pub fn passed(&self) -> bool {
        self.grown.is_empty() && self.summaries.iter().all(|summary| summary.met)
    }
}

/// Recorded errors of held-out rows.
const RECORDED: &str = include_str!("../data/errors.toml");
/// Tolerance for the rounding of other compilers.
const ROOM: f64 = 0.0005;

/// Solves everything again and compares.
///
/// # Errors
///
/// [`PlanError`] if a bill has no prediction.
pub fn verify(catalogue: &Catalogue) -> Result<Report, PlanError> {
    let mut table =
        Table { catalogue, rows: Vec::new(), fitted: Vec::new(), claims: claims(catalogue) };
    founding::rows(&mut table)?;
    outside::rows(&mut table)?;
    arithmetic(&mut table);
    let Table { rows, fitted, .. } = table;
    let summaries = Set::ALL.into_iter().filter_map(|set| summary(&rows, set)).collect();
    let grown = grown(&rows);
    Ok(Report { rows, fitted, summaries, grown })
}

/// Returns held-out rows with an error larger than recorded, or without a record.
fn grown(rows: &[Row]) -> Vec<String> {
    let recorded: BTreeMap<String, f64> = toml::from_str(RECORDED).unwrap_or_default();
    let grew = |row: &&Row| {
        let now = row.error_bare().abs();
        row.tag == Tag::Pred && recorded.get(&row.key()).is_none_or(|then| now > then + ROOM)
    };
    rows.iter().filter(grew).map(Row::key).collect()
}

fn summary(rows: &[Row], set: Set) -> Option<Summary> {
    let held_out = || rows.iter().filter(|row| row.tag == Tag::Pred && row.set == Some(set));
    let sorted = |error: fn(&Row) -> f64| {
        let mut errors: Vec<f64> = held_out().map(|row| error(row).abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let (errors, bare) = (sorted(Row::error), sorted(Row::error_bare));
    let (median, worst) = (middle(&errors), *errors.last()?);
    let (bar_median, bar_worst) = set.bars();
    Some(Summary {
        tag: Tag::Pred,
        set,
        rows: errors.len(),
        median,
        worst,
        median_bare: middle(&bare),
        worst_bare: *bare.last()?,
        met: median <= bar_median && worst <= bar_worst,
    })
}

/// Returns the median of sorted numbers.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

struct Table<'a> {
    catalogue: &'a Catalogue,
    rows: Vec<Row>,
    fitted: Vec<Fitted>,
    claims: Vec<Claim<'a>>,
}

fn claims(catalogue: &Catalogue) -> Vec<Claim<'_>> {
    let read = |(name, text): &(&str, &str)| Document::read(name, text, catalogue);
    // A test reads all of them.
    FOUNDING.iter().filter_map(|file| read(file).ok()).flat_map(|file| file.claims).collect()
}

impl<'a> Table<'a> {
    /// Returns a figure of a founding document.
    fn claim(&self, number: u32, field: &str) -> &Amount {
        let found = self.claims.iter().find(|claim| claim.text.number == Some(number));
        let amount = found.and_then(|claim| claim.amount(field));
        amount.unwrap_or_else(|| panic!("claim {number} has no {field}"))
    }

    /// Returns the share of the best that a founding document gives.
    fn share(&self, number: u32) -> Amount {
        let found = self.claims.iter().find(|claim| claim.text.number == Some(number));
        let share = found.and_then(|claim| claim.share.clone());
        share.unwrap_or_else(|| panic!("claim {number} has no share")).1
    }

    /// Returns a named figure of a founding document.
    fn said(&self, number: u32, key: &str) -> Amount {
        let found = self.claims.iter().find(|claim| claim.text.number == Some(number));
        let same = found.and_then(|claim| claim.same.iter().find(|(name, _)| name == key));
        same.unwrap_or_else(|| panic!("claim {number} has no {key}")).1.clone()
    }

    fn bill(&self, text: &str) -> Bill {
        Bill::read("system", text, self.catalogue).unwrap_or_else(|error| panic!("{error}"))
    }

    fn row(
        &mut self,
        case: &'static str,
        figure: &str,
        (tag, set): (Tag, Option<Set>),
        values: (&Amount, f64),
        note: &str,
    ) {
        let (published, model) = values;
        let allowed = match published.hedge {
            Hedge::Over | Hedge::Nearly => published.next_digit(),
            Hedge::Plain | Hedge::About => (published.value, published.value),
        };
        let row = Row {
            case,
            figure: figure.to_owned(),
            tag,
            set,
            published: published.value,
            allowed,
            model,
            note: note.to_owned(),
        };
        self.rows.push(row);
    }

    fn fit(&mut self, name: &str, value: String, to: &str, founding: bool) {
        let (name, to) = (name.to_owned(), to.to_owned());
        self.fitted.push(Fitted { name, value, to, founding });
    }
}

/// Returns a bare number as an amount.
fn plain(value: f64) -> Amount {
    Amount { value, half: 0.0, hedge: Hedge::Plain, dimension: Dimension::NUMBER, unit: "" }
}

fn solved(bill: &Bill, values: &[(&str, &'static str, f64)]) -> Result<Prediction, PlanError> {
    let values =
        values.iter().map(|(part, quantity, value)| (((*part).to_owned(), *quantity), *value));
    predict(bill, &Tweak { values: values.collect(), ..Tweak::default() })
}

/// Returns the root of `error` between `low` and `high`, where it must change its sign.
fn root(
    range: (f64, f64),
    error: impl FnMut(f64) -> Result<f64, PlanError>,
) -> Result<f64, PlanError> {
    root_within(range, 1e-12, error)
}

/// Returns the root to a share of `high`. False position after Illinois (Dowell and Jarratt 1971):
/// some ten evaluations.
fn root_within(
    (low, high): (f64, f64),
    share: f64,
    mut error: impl FnMut(f64) -> Result<f64, PlanError>,
) -> Result<f64, PlanError> {
    let (mut a, mut b) = ((low, error(low)?), (high, error(high)?));
    for _ in 0..100 {
        let at = b.0 - b.1 * (b.0 - a.0) / (b.1 - a.1);
        let new = (at, error(at)?);
        if new.1 == 0.0 || (new.0 - b.0).abs() <= share * high {
            return Ok(new.0);
        }
        // Halve the weight of the end that stays, or it would stay forever.
        a = if (new.1 < 0.0) == (b.1 < 0.0) { (a.0, a.1 / 2.0) } else { b };
        b = new;
    }
    Ok(b.0)
}

/// Adds every equation of the founding documents.
fn arithmetic(table: &mut Table) {
    let mut found = Vec::new();
    for claim in &table.claims {
        for (text, equation) in &claim.equations {
            let number = claim.text.number.unwrap_or_default();
            let short: String = text.chars().take(60).collect();
            let note = match equation.standing() {
                Standing::Holds => "",
                Standing::HoldsInBinary => "its unit is binary",
                Standing::MixedThousands => "its unit is thousands of 1024",
                Standing::Breaks | Standing::Units => "wrong in the text",
            };
            let Some(left) = equation.compared() else { continue };
            found.push((format!("claim {number}: {short}"), equation.right.clone(), left, note));
        }
    }
    for (figure, right, left, note) in found {
        table.row("arithmetic", &figure, (Tag::Arith, None), (&right, left), note);
    }
}

#[cfg(test)]
mod test;
