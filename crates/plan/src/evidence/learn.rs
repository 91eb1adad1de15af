//! What the errors of systems that are alike say of the next answer.
//!
//! The next question comes from somebody new, so that publishers, not rows, are what is alike: a
//! publisher's rows share one weight, and one more publisher counts as beyond all others (Lee,
//! Barber and Willett 2023, "Distribution-free inference with hierarchical data"). A row that was
//! asked before its answer was seen counts with the error that it had then, for what was learned
//! from it flatters what it has now. Kinds of system with few publishers lean on all that were
//! asked so.

use serde::Serialize;

use super::{Class, Sample};
use crate::predict::Prediction;

/// Publishers that those asked blind count for, all together, beside a class's own. With 4 to 16
/// they are held alike; with 16 the classes differ least.
const BLIND: f64 = 16.0;
/// What a row weighs that was at hand when the model was made, beside one that was asked blind: the
/// model was made to fit it, and what is left of its error says little.
const AT_HAND: f64 = 0.25;
/// With fewer publishers of its own a class is mostly what was asked blind.
const PUBLISHERS: usize = 4;
/// Fewest rows of clusters: with fewer no interval holds four of five.
const ALONE: usize = 4;
/// Share of published results that an interval is to hold.
const HOLDS: f64 = 0.8;

/// What makes systems alike: what limits them, and whether a figure of theirs is a guess. Rows that
/// were asked blind were off by 13 % in the median where every figure was published, and by 66 %
/// where one was supposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Alike {
    /// By what limits it.
    pub class: Class,
    /// Whether it rests on a figure that somebody supposed.
    pub guessed: bool,
}

impl Alike {
    /// Of an answer.
    pub fn of(class: Class, found: &Prediction) -> Alike {
        Alike { class, guessed: found.kind == catalogue::Kind::Guess }
    }
}

/// What rows taught.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Learned {
    /// Rows that it rests on.
    pub rows: usize,
    /// Who published them.
    pub publishers: usize,
    /// Whether those asked blind, of all classes but clusters, weigh more than its own.
    pub pooled: bool,
    /// Middle of the logarithms of published over predicted; 0 where a sign test sees no bias.
    pub center: f64,
    /// Half the interval of the logarithm.
    pub half: f64,
}

/// Learns from rows that are not held out: those that are alike, and those that were asked blind.
/// Clusters learn from clusters only; a class without a row learns nothing.
pub fn learn(samples: &[Sample], alike: Alike, keep: impl Fn(&Sample) -> bool) -> Option<Learned> {
    let class = alike.class;
    if !samples.iter().any(|sample| sample.alike.class == class) {
        return None;
    }
    let others = || samples.iter().filter(|sample| keep(sample));
    let of_class: Vec<&Sample> = others().filter(|s| s.alike.class == class).collect();
    if class == Class::Cluster {
        // A cluster is not like the others: what they teach says nothing of it.
        return (of_class.len() >= ALONE).then(|| told(center(&of_class), &of_class, &[]));
    }
    let center = center(&of_class);
    let own: Vec<&Sample> = of_class.into_iter().filter(|s| s.alike == alike).collect();
    let single = |s: &&Sample| s.alike.class != Class::Cluster;
    let pool = |fits: &dyn Fn(&Sample) -> bool| {
        others().filter(single).filter(|s| fits(s)).collect::<Vec<&Sample>>()
    };
    // The first that is not empty: a table without a row asked blind still says something.
    let pools = [
        pool(&|s| s.asked_blind.is_some() && s.alike.guessed == alike.guessed),
        pool(&|s| s.asked_blind.is_some()),
        pool(&|_| true),
    ];
    let pool = pools.into_iter().find(|pool| !pool.is_empty())?;
    Some(told(center, &own, &pool))
}

/// From a kind's own rows and those that it leans on.
fn told(center: f64, own: &[&Sample], pool: &[&Sample]) -> Learned {
    let weights = |of: &[&Sample], all: Option<f64>| {
        let each = all.map_or(1.0, |all| all / publishers(of).max(1) as f64);
        let weigh = |sample: &&Sample| {
            let theirs = of.iter().filter(|other| other.publisher == sample.publisher).count();
            let off = sample.asked_blind.unwrap_or(sample.residual) - center;
            let worth = if sample.asked_blind.is_some() { 1.0 } else { AT_HAND };
            (off.abs(), worth * each / theirs as f64)
        };
        of.iter().map(weigh).collect::<Vec<(f64, f64)>>()
    };
    let mut off = weights(own, None);
    off.extend(weights(pool, Some(BLIND)));
    off.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all: Vec<&Sample> = own.iter().chain(pool).copied().collect();
    all.sort_by_key(|sample| sample.row);
    all.dedup_by_key(|sample| sample.row);
    Learned {
        rows: all.len(),
        publishers: publishers(&all),
        pooled: !pool.is_empty() && publishers(own) < PUBLISHERS,
        center,
        half: rank(&off),
    }
}

/// Where the share that is to be held ends. One more publisher is as likely to be beyond all.
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

fn publishers(of: &[&Sample]) -> usize {
    let mut names: Vec<&str> = of.iter().map(|sample| sample.publisher.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// The median, each publisher with the same weight; 0 unless so many publishers err to one side
/// that chance would do it in one of twenty cases at most.
fn center(of: &[&Sample]) -> f64 {
    let mut names: Vec<&str> = of.iter().map(|sample| sample.publisher.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut middles: Vec<f64> = names
        .iter()
        .map(|name| {
            let theirs = of.iter().filter(|sample| sample.publisher == *name);
            let mut theirs: Vec<f64> = theirs.map(|sample| sample.residual).collect();
            middle(&mut theirs)
        })
        .collect();
    let above = middles.iter().filter(|middle| **middle > 0.0).count();
    match one_sided(middles.len(), above.max(middles.len() - above)) {
        true => middle(&mut middles),
        false => 0.0,
    }
}

/// Whether of `n` fair coins `most` or more show the same side in one of twenty cases at most.
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

/// The median.
pub(crate) fn middle(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    match of.len() {
        0 => 0.0,
        n if n % 2 == 1 => of[n / 2],
        n => (of[n / 2 - 1] + of[n / 2]) / 2.0,
    }
}

/// Factors from what the model says: p10, the middle, p90.
pub fn interval(learned: &Learned) -> (f64, f64, f64) {
    let Learned { center, half, .. } = *learned;
    ((center - half).exp(), center.exp(), (center + half).exp())
}
