//! Test of the table: predicts each row from the others, and summarizes the errors.

use serde::Serialize;

use super::{Class, Evidence, EvidenceError, Learned, Sample, interval, learn, middle, samples};
use crate::verify::Tag;
use catalogue::Catalogue;

/// Maximum median error over all systems of one server.
pub const MEDIAN: f64 = 0.15;
/// Maximum median error of any class.
pub const WORST: f64 = 0.30;
/// Range for the share of published results that p10 to p90 cover.
pub const COVERS: (f64, f64) = (0.75, 0.90);
/// Range of that share for a class with ten rows or more.
pub const CLASS_COVERS: (f64, f64) = (0.65, 0.95);

/// A row with the prediction from the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Tag: each row is predicted from the others.
    pub tag: Tag,
    /// Short name.
    pub name: String,
    /// Position in the table, class, published and predicted value.
    #[serde(flatten)]
    pub sample: Sample,
    /// Results of learning from the rows of other documents; `None` if there are none.
    pub learned: Option<Learned>,
    /// Relative error of the middle.
    pub error: f64,
    /// True if p10 to p90 cover the value, around its first prediction.
    pub held: bool,
    /// True if p10 to p90 cover the value when all rows by the same publisher are left out.
    pub held_without_publisher: bool,
}

/// Totals of rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Total {
    /// Tag: rows are predicted from the others.
    pub tag: Tag,
    /// Class; `None` for all.
    pub class: Option<Class>,
    /// Number of rows.
    pub rows: usize,
    /// Number of documents.
    pub sources: usize,
    /// Median of the absolute errors.
    pub median: f64,
    /// Share covered by p10 to p90.
    pub covered: f64,
    /// Share covered with all rows by the publisher left out.
    pub covered_without_publisher: f64,
    /// Median width of the predicted intervals: p90 over p10.
    pub width: f64,
    /// True if the criteria are met.
    pub met: bool,
}

/// The table with its predictions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Tag: rows are predicted from the others.
    pub tag: Tag,
    /// Rows of the table.
    pub rows: Vec<Asked>,
    /// Number of rows that are shown and never count, since their source was not seen.
    pub recalled: usize,
    /// Total of all rows.
    pub all: Total,
    /// Total of systems of one server.
    pub single: Total,
    /// Totals of each class that has rows.
    pub classes: Vec<Total>,
    /// Classes without a row.
    pub without: Vec<Class>,
}

impl Table {
    /// Returns whether every criterion is met.
    pub fn passed(&self) -> bool {
        self.all.met && self.single.met && self.classes.iter().all(|class| class.met)
    }
}

/// Predicts each row with its own document left out.
///
/// # Errors
///
/// The row without a prediction.
pub fn table(evidence: &Evidence, catalogue: &Catalogue) -> Result<Table, EvidenceError> {
    let all = samples(evidence, catalogue)?;
    let asked = |sample: &Sample| {
        let others = learn(&all, sample.alike, |other| other.source != sample.source);
        let strict = learn(&all, sample.alike, |other| other.publisher != sample.publisher);
        // A model that has learned from a row predicts it better now than blind.
        let first = sample.asked_blind.unwrap_or(sample.residual);
        let inside = |learned: &Option<Learned>| {
            learned.as_ref().is_some_and(|l| (first - l.center).abs() <= l.half + 1e-12)
        };
        let center = others.as_ref().map_or(0.0, |learned| learned.center);
        Asked {
            tag: Tag::Pred,
            name: evidence.rows[sample.row].name(),
            error: (center - sample.residual).exp_m1(),
            held: inside(&others),
            held_without_publisher: inside(&strict),
            learned: others,
            sample: sample.clone(),
        }
    };
    let rows: Vec<Asked> = all.iter().map(asked).collect();
    let of = |class: Option<Class>, keep: &dyn Fn(&Asked) -> bool| total(class, &rows, keep);
    let classes: Vec<Total> = Class::ALL
        .into_iter()
        .filter_map(|class| of(Some(class), &|row| row.sample.alike.class == class))
        .collect();
    let without = Class::ALL.into_iter();
    let without =
        without.filter(|class| !classes.iter().any(|c| c.class == Some(*class))).collect();
    let empty = || EvidenceError { row: 0, name: "all".to_owned(), reason: "no rows".to_owned() };
    let mut whole = of(None, &|_| true).ok_or_else(empty)?;
    whole.met = (COVERS.0..=COVERS.1).contains(&whole.covered);
    let mut single = of(None, &|row| row.sample.alike.class != Class::Cluster).ok_or_else(empty)?;
    single.met = single.median <= MEDIAN;
    let recalled = evidence.rows.iter().filter(|row| row.recalled).count();
    Ok(Table { tag: Tag::Pred, recalled, all: whole, single, classes, without, rows })
}

fn total(class: Option<Class>, rows: &[Asked], keep: &dyn Fn(&Asked) -> bool) -> Option<Total> {
    let of: Vec<&Asked> = rows.iter().filter(|row| keep(row)).collect();
    let share = |held: &dyn Fn(&Asked) -> bool| {
        of.iter().filter(|row| held(row)).count() as f64 / of.len().max(1) as f64
    };
    let mut sources: Vec<&str> = of.iter().map(|row| row.sample.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut errors: Vec<f64> = of.iter().map(|row| row.error.abs()).collect();
    let mut widths: Vec<f64> = of
        .iter()
        .filter_map(|row| row.learned.as_ref())
        .map(|learned| {
            let (low, _, high) = interval(learned);
            high / low
        })
        .collect();
    let covered = share(&|row| row.held);
    let median = middle(&mut errors);
    let holds = of.len() < 10 || (CLASS_COVERS.0..=CLASS_COVERS.1).contains(&covered);
    (!of.is_empty()).then(|| Total {
        tag: Tag::Pred,
        class,
        rows: of.len(),
        sources: sources.len(),
        median,
        covered,
        covered_without_publisher: share(&|row| row.held_without_publisher),
        width: middle(&mut widths),
        met: median <= WORST && holds,
    })
}
