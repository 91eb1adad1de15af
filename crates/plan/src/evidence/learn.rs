//! What the errors of a class say of the next answer.

use serde::Serialize;

use super::{Class, Sample};

/// Fewest rows, and publishers of them, from which a class learns by itself.
const ROWS: usize = 9;
/// Fewest rows of clusters: with fewer no interval holds four of five.
const ALONE: usize = 4;
/// See [`ROWS`].
const PUBLISHERS: usize = 4;
/// Share of published results that an interval is to hold.
const HOLDS: f64 = 0.8;

/// What the rows of a class taught.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Learned {
    /// Rows that it rests on.
    pub rows: usize,
    /// Who published them.
    pub publishers: usize,
    /// Whether the class had too few of its own and all classes were taken together.
    pub pooled: bool,
    /// Middle of the logarithms of published over predicted; 0 where a sign test sees no bias.
    pub center: f64,
    /// Half the interval of the logarithm.
    pub half: f64,
}

/// Learns from those rows of a class that are not held out. A class with fewer than nine rows or
/// four publishers learns from all of them but clusters together; clusters learn from clusters
/// only; a class without a row learns nothing.
pub fn learn(samples: &[Sample], class: Class, keep: impl Fn(&Sample) -> bool) -> Option<Learned> {
    let others = || samples.iter().filter(|sample| keep(sample));
    let own: Vec<&Sample> = others().filter(|sample| sample.class == class).collect();
    if !samples.iter().any(|sample| sample.class == class) {
        return None;
    }
    // A cluster is not like the others: what they teach says nothing of it.
    if class == Class::Cluster && own.len() < ALONE {
        return None;
    }
    let pooled = class != Class::Cluster && (own.len() < ROWS || publishers(&own) < PUBLISHERS);
    let of = match pooled {
        true => others().filter(|sample| sample.class != Class::Cluster).collect(),
        false => own,
    };
    if of.is_empty() {
        return None;
    }
    let residuals: Vec<f64> = of.iter().map(|sample| sample.residual).collect();
    let center = center(&of);
    let mut off: Vec<f64> = residuals.iter().map(|residual| (residual - center).abs()).collect();
    off.sort_by(f64::total_cmp);
    // The rank that makes the guarantee: of n + 1 that are alike, the next is as likely anywhere.
    let rank = ((off.len() as f64 + 1.0) * HOLDS).ceil() as usize;
    let half = off[rank.clamp(1, off.len()) - 1];
    Some(Learned { rows: of.len(), publishers: publishers(&of), pooled, center, half })
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
