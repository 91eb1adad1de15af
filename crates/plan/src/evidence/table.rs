//! Tests the table: predicts each row from the others, and sums up the errors.

use serde::Serialize;

use super::{Class, Evidence, EvidenceError, Learned, Sample, interval, learn, middle, samples};
use crate::verify::Tag;
use catalogue::Catalogue;

/// Most that the median error of all systems of one server may be.
pub const MEDIAN: f64 = 0.15;
/// Most that the median error of any class may be.
pub const WORST: f64 = 0.30;
/// Between which shares p10 to p90 must hold the published results.
pub const COVERS: (f64, f64) = (0.75, 0.90);
/// The same for a class with ten rows or more.
pub const CLASS_COVERS: (f64, f64) = (0.65, 0.95);

/// A row with what the others say of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Each is asked from the others.
    pub tag: Tag,
    /// In short.
    pub name: String,
    /// Position in the table, class, published and predicted.
    #[serde(flatten)]
    pub sample: Sample,
    /// What the rows of other documents taught; `None` if there are none.
    pub learned: Option<Learned>,
    /// Relative error of the middle.
    pub error: f64,
    /// Whether p10 to p90 hold it, around what was said when it was asked first.
    pub held: bool,
    /// Whether they do if everything by the same publisher is left out.
    pub held_without_publisher: bool,
}

/// What rows come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Total {
    /// Its rows are asked from the others.
    pub tag: Tag,
    /// Which; `None` for all.
    pub class: Option<Class>,
    /// How many.
    pub rows: usize,
    /// From how many documents.
    pub sources: usize,
    /// Median of their absolute errors.
    pub median: f64,
    /// Share that p10 to p90 hold.
    pub covered: f64,
    /// The same with everything by the publisher left out.
    pub covered_without_publisher: f64,
    /// Median of p90 over p10.
    pub width: f64,
    /// Whether the bars are met.
    pub met: bool,
}

/// The table asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Its rows are asked from the others.
    pub tag: Tag,
    /// Each row.
    pub rows: Vec<Asked>,
    /// Rows that are shown and never count, since nobody saw their source.
    pub recalled: usize,
    /// All, systems of one server, then each class that has rows.
    pub all: Total,
    /// Systems of one server.
    pub single: Total,
    /// Each class that has rows.
    pub classes: Vec<Total>,
    /// Classes without a row.
    pub without: Vec<Class>,
}

impl Table {
    /// Whether every bar is met.
    pub fn passed(&self) -> bool {
        self.all.met && self.single.met && self.classes.iter().all(|class| class.met)
    }
}

/// Asks each row with its own document left out.
///
/// # Errors
///
/// The row that has no answer.
pub fn table(evidence: &Evidence, catalogue: &Catalogue) -> Result<Table, EvidenceError> {
    let all = samples(evidence, catalogue)?;
    let asked = |sample: &Sample| {
        let others = learn(&all, sample.alike, |other| other.source != sample.source);
        let strict = learn(&all, sample.alike, |other| other.publisher != sample.publisher);
        // What was learned from a row that was asked blind flatters what the model says of it now.
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
