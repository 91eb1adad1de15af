//! Intervals from the errors of similar systems.
//!
//! The next question is about a system of a new publisher, so publishers are exchangeable, not
//! rows: the rows of a publisher share one weight, and one more publisher counts as beyond all
//! others (Lee, Barber and Willett 2023, "Distribution-free inference with hierarchical data"). A
//! row that was predicted blind counts with its error of that day, since the model has learned from
//! it afterwards.
//!
//! Each kind of system has a scale: the mean error of its publishers. The errors, each divided by
//! its scale, determine the number of scales that covers four of five results (normalised conformal
//! prediction: Papadopoulos, Gammerman and Vovk 2008). A kind with few publishers thus needs no
//! rank of its own, which would be its largest error. The scales of the other kinds count as a few
//! more publishers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Class, Sample};
use crate::predict::Prediction;

/// Weight of a row that was known when the model was made, relative to one that was predicted
/// blind: the model was made to fit it, and its remaining error says little.
const AT_HAND: f64 = 0.25;
/// Number of publishers for which the scales of all other kinds count, in addition to a kind's own.
/// From a half to four, coverage is the same for all kinds.
const LEANS: f64 = 4.0;
/// Minimum number of rows of clusters: with fewer no interval covers four of five.
const ALONE: usize = 4;
/// Share of published results that an interval should cover.
const HOLDS: f64 = 0.8;

/// Similarity of systems: the bottleneck, and whether one of the figures is a guess. Rows that were
/// predicted blind had a median error of 13 % if every figure was published, and of 66 % if one was
/// assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Alike {
    /// Class, by the bottleneck.
    pub class: Class,
    /// True if a figure is a guess.
    pub guessed: bool,
}

impl Alike {
    /// Returns the kind of a predicted system.
    pub fn of(class: Class, found: &Prediction) -> Alike {
        Alike { class, guessed: found.kind == catalogue::Kind::Guess }
    }
}

/// Results of learning from rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Learned {
    /// Number of rows of the kind whose scale was used.
    pub rows: usize,
    /// Number of their publishers.
    pub publishers: usize,
    /// True if other kinds have more weight in the scale than the kind's own rows.
    pub pooled: bool,
    /// Median of the logarithms of published over predicted; 0 if a sign test shows no bias.
    pub center: f64,
    /// Half the interval of the logarithm.
    pub half: f64,
}

/// Learns from rows that are not held out. The scale of clusters is learned from clusters only; a
/// class without a row learns nothing.
pub fn learn(samples: &[Sample], alike: Alike, keep: impl Fn(&Sample) -> bool) -> Option<Learned> {
    let kept: Vec<&Sample> = samples.iter().filter(|sample| keep(sample)).collect();
    let of_class = kept.iter().filter(|s| s.alike.class == alike.class).count();
    let known = samples.iter().any(|sample| sample.alike.class == alike.class);
    if !known || (alike.class == Class::Cluster && of_class < ALONE) {
        return None;
    }
    let scales = Scales::of(&kept);
    let own = |sample: &Sample| scales.off(sample) / scales.of_kind(sample.alike).0;
    let mut off = weights(&kept, own);
    off.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (scale, weight) = scales.of_kind(alike);
    let like: Vec<&Sample> = kept.iter().copied().filter(|s| s.alike == alike).collect();
    Some(Learned {
        rows: like.len(),
        publishers: publishers(&like).len(),
        pooled: alike.class != Class::Cluster && weight < LEANS,
        center: scales.center(alike.class),
        half: scale * rank(&off),
    })
}

/// Scales of the errors of each kind of system.
struct Scales {
    centers: Vec<(Class, f64)>,
    /// Mean error and weight of the rows of each kind.
    kinds: Vec<(Alike, (f64, f64))>,
    /// Mean error and weight of all systems of one server, without guesses and with.
    singles: [(f64, f64); 2],
}

impl Scales {
    fn of(kept: &[&Sample]) -> Scales {
        let class = |class: Class| {
            let of: Vec<&Sample> =
                kept.iter().copied().filter(|s| s.alike.class == class).collect();
            (class, center(&of))
        };
        let centers = Class::ALL.map(class).to_vec();
        let mut scales = Scales { centers, kinds: Vec::new(), singles: [(0.0, 0.0); 2] };
        let mean = |fits: &dyn Fn(&Sample) -> bool| {
            let of: Vec<&Sample> = kept.iter().copied().filter(|s| fits(s)).collect();
            let of = weights(&of, |sample| scales.off(sample));
            let weight: f64 = of.iter().map(|(_, weight)| weight).sum();
            let sum: f64 = of.iter().map(|(off, weight)| off * weight).sum();
            (sum / weight.max(f64::MIN_POSITIVE), weight)
        };
        let single = |sample: &Sample| sample.alike.class != Class::Cluster;
        let singles = [false, true].map(|guessed| {
            match mean(&|s| single(s) && s.alike.guessed == guessed) {
                // If no row has a guess, or all have, the mean is that of all.
                (_, 0.0) => mean(&|s| single(s)),
                some => some,
            }
        });
        let each = Class::ALL
            .into_iter()
            .flat_map(|class| [false, true].map(|guessed| Alike { class, guessed }));
        let kinds = each.map(|alike| (alike, mean(&|s| s.alike == alike))).collect();
        scales.kinds = kinds;
        scales.singles = singles;
        scales
    }

    fn center(&self, class: Class) -> f64 {
        self.centers.iter().find(|(of, _)| *of == class).map_or(0.0, |(_, center)| *center)
    }

    /// Returns the distance of a row from the centre of its class.
    fn off(&self, sample: &Sample) -> f64 {
        let first = sample.asked_blind.unwrap_or(sample.residual);
        (first - self.center(sample.alike.class)).abs()
    }

    /// Returns the scale of a kind, and the weight of its own rows. The scale is never zero: that
    /// of two exact rows would make all others infinitely far.
    fn of_kind(&self, alike: Alike) -> (f64, f64) {
        let find = |alike: Alike| self.kinds.iter().find(|(of, _)| *of == alike);
        let (own, weight) = find(alike).map_or((0.0, 0.0), |(_, found)| *found);
        let scale = match alike.class {
            // A cluster is unlike the others: their errors say nothing about it.
            Class::Cluster if weight > 0.0 => own,
            Class::Cluster => {
                find(Alike { guessed: !alike.guessed, ..alike }).map_or(0.0, |(_, found)| found.0)
            }
            _ => {
                let others = self.singles[usize::from(alike.guessed)].0;
                (weight * own + LEANS * others) / (weight + LEANS)
            }
        };
        (scale.max(1e-3), weight)
    }
}

/// Returns the error of each row, with its weight: a publisher's rows share one.
fn weights(of: &[&Sample], off: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let theirs = publishers(of);
    let weigh = |sample: &&Sample| {
        let worth = if sample.asked_blind.is_some() { 1.0 } else { AT_HAND };
        (off(sample), worth / theirs[sample.publisher.as_str()] as f64)
    };
    of.iter().map(weigh).collect()
}

/// Returns the end of the share to cover. One more publisher is as likely to be beyond all.
fn rank(sorted: &[(f64, f64)]) -> f64 {
    let most = sorted.last().map_or(0.0, |last| last.0);
    let goal = HOLDS * (sorted.iter().map(|(_, weight)| weight).sum::<f64>() + 1.0);
    let mut sum = 0.0;
    let reaches = |(_, weight): &&(f64, f64)| {
        sum += weight;
        sum >= goal - 1e-9
    };
    sorted.iter().find(reaches).map_or(most, |(off, _)| *off)
}

/// Returns the number of these rows by publisher.
fn publishers<'a>(of: &[&'a Sample]) -> BTreeMap<&'a str, usize> {
    let mut rows = BTreeMap::new();
    for sample in of {
        *rows.entry(sample.publisher.as_str()).or_default() += 1;
    }
    rows
}

/// Returns the median, each publisher with the same weight; 0 unless so many publishers err to one
/// side that chance would do it in one of twenty cases at most.
fn center(of: &[&Sample]) -> f64 {
    let mut theirs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for sample in of {
        theirs.entry(&sample.publisher).or_default().push(sample.residual);
    }
    let mut middles: Vec<f64> = theirs.values_mut().map(|theirs| middle(theirs)).collect();
    let above = middles.iter().filter(|middle| **middle > 0.0).count();
    match one_sided(middles.len(), above.max(middles.len() - above)) {
        true => middle(&mut middles),
        false => 0.0,
    }
}

/// Returns whether `most` or more of `n` fair coins show the same side in one of twenty cases at
/// most.
fn one_sided(n: usize, most: usize) -> bool {
    let mut ways = 0.0;
    let mut choose = 1.0;
    for k in 0..=n {
        if k >= most {
            ways += choose;
        }
        choose *= (n - k) as f64 / (k + 1) as f64;
    }
    2.0 * ways / 2f64.powi(n as i32) <= 0.05
}

/// Returns the median.
pub(crate) fn middle(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    match of.len() {
        0 => 0.0,
        n if n % 2 == 1 => of[n / 2],
        n => (of[n / 2 - 1] + of[n / 2]) / 2.0,
    }
}

/// Returns the factors from the model's value to p10, the middle and p90.
pub fn interval(learned: &Learned) -> (f64, f64, f64) {
    let Learned { center, half, .. } = *learned;
    ((center - half).exp(), center.exp(), (center + half).exp())
}
