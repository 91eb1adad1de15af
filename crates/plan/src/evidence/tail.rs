//! Ratio of p99 to the mean in published runs at a steady queue depth.

use serde::Serialize;

use super::{Evidence, TailRow, middle};

/// One of ten published runs has more.
const WITHIN: f64 = 0.9;

/// What published runs teach of p99 over the mean. They are of drives, targets and clusters at a
/// steady depth: not of drives that collect garbage, nor of a load that comes in bursts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// Runs that it rests on.
    pub rows: usize,
    /// From how many documents.
    pub sources: usize,
    /// Middle of p99 over mean.
    pub middle: f64,
    /// Nine of ten published runs are at or below it.
    pub high: f64,
}

/// What the runs of those rows teach; `None` with fewer than nine, of which none could say what
/// nine of ten are.
pub fn tail(evidence: &Evidence, keep: impl Fn(&TailRow) -> bool) -> Option<Tail> {
    let rows: Vec<&TailRow> = evidence.tails.iter().filter(|row| keep(row)).collect();
    let rank = ((rows.len() as f64 + 1.0) * WITHIN).ceil() as usize;
    let mut over: Vec<f64> = rows.iter().map(|row| row.p99_us / row.mean_us).collect();
    over.sort_by(f64::total_cmp);
    let high = *over.get(rank.checked_sub(1)?)?;
    let mut sources: Vec<&str> = rows.iter().map(|row| row.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    Some(Tail { rows: rows.len(), sources: sources.len(), middle: middle(&mut over), high })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn nine_of_ten_runs_are_within() {
        let evidence = Evidence::shipped();
        let all = tail(&evidence, |_| true).unwrap();
        assert_eq!((all.rows, all.sources), (9, 7));
        assert!(1.0 < all.middle && all.middle < all.high && all.high < 3.0, "{all:?}");
        // Eight runs cannot say what nine of ten do.
        assert_eq!(tail(&evidence, |row| row.source != "openzfs-16993"), None);
        let within = |row: &&TailRow| row.p99_us / row.mean_us <= all.high;
        assert_eq!(evidence.tails.iter().filter(within).count(), 9);
    }
}
