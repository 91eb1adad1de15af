//! Ratio of p99 to the mean in published runs at a steady queue depth.

use serde::Serialize;

use super::{Evidence, TailRow, middle};

/// Share of published runs at or below the high ratio.
const WITHIN: f64 = 0.9;

/// Ratio of p99 to the mean in published runs: drives, targets and clusters at a steady queue
/// depth, neither drives that collect garbage nor bursty loads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// Number of runs.
    pub rows: usize,
    /// Number of documents.
    pub sources: usize,
    /// Median of p99 over mean.
    pub middle: f64,
    /// Ratio that nine of ten published runs do not exceed.
    pub high: f64,
}

/// Returns the ratios of the runs of those rows; `None` with fewer than nine, which do not
/// determine a share of nine of ten.
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
        // Eight runs do not determine a share of nine of ten.
        assert_eq!(tail(&evidence, |row| row.source != "openzfs-16993"), None);
        let within = |row: &&TailRow| row.p99_us / row.mean_us <= all.high;
        assert_eq!(evidence.tails.iter().filter(within).count(), 9);
    }
}
