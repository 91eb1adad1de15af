//! Results of other tools, several as one: merged histograms, compared with the averages of
//! percentiles that scripts and readers compute.

mod elbencho;
mod fio;
mod spdk;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::figure;
use crate::painted::Painted;
use crate::style::Paint;

pub use self::elbencho::{is_elbencho, read as read_elbencho};
pub use self::fio::{is_fio, read as read_fio};
pub use self::spdk::{is_spdk, read as read_spdk};

/// Most histograms that are merged.
pub const ENTRIES_MAX: usize = 1 << 16;

/// Figures of one job, client or file in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Name: file, host and job.
    pub name: String,
    /// `read`, `write`, `trim`, or `all` if the tool does not distinguish them.
    pub direction: &'static str,
    /// The field that has the histogram: `clat_ns`.
    pub field: &'static str,
    /// Count of each bucket, by the latency that the tool calls it, in nanoseconds.
    pub bins: BTreeMap<u64, u64>,
    /// Exact ends and mean in nanoseconds, as the tool says them.
    pub min_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Percentiles (0 to 100) as the tool says them, in nanoseconds.
    pub percentiles: Vec<(f64, u64)>,
    /// I/Os per second.
    pub iops: f64,
    /// Already a sum over others of the same file: compared, not merged.
    pub is_sum: bool,
}

/// One direction of all entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Together {
    /// `read`, `write`, `trim` or `all`.
    pub direction: String,
    /// The field that has the histograms.
    pub field: String,
    /// Number of histograms that were merged.
    pub entries: usize,
    /// Latencies in them.
    pub samples: u64,
    /// Sum of the rates, which is one only if all ran at the same time.
    pub iops: f64,
    /// Minimum in nanoseconds.
    pub min_ns: u64,
    /// Exact mean, as far as the tool's own are.
    pub mean_ns: f64,
    /// Maximum in nanoseconds.
    pub max_ns: u64,
    /// Percentiles.
    pub percentiles: Vec<Compared>,
    /// The merged histogram: counts by the latency that the tool calls a bucket.
    pub bins: BTreeMap<u64, u64>,
}

/// A percentile of the merged histogram, compared with the averages of the entries' percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// 0 to 100.
    pub percent: f64,
    /// Percentile of the merged histogram, in nanoseconds.
    pub merged_ns: u64,
    /// Plain average of the entries' percentiles, in nanoseconds; `null` if an entry has none.
    pub average_ns: Option<f64>,
    /// Error of the average, in percent of the merged percentile.
    pub off_percent: Option<f64>,
    /// Highest of the entries' own, in nanoseconds.
    pub highest_ns: Option<u64>,
    /// The tool's own sum over all, where its file has one, in nanoseconds.
    pub own_ns: Option<u64>,
}

/// Merges entries, direction by direction.
///
/// # Errors
///
/// Entries whose histograms count different things, or overflow 64 bits.
pub fn together(entries: &[Entry]) -> Result<Vec<Together>, String> {
    let mut all = Vec::new();
    for direction in ["read", "write", "trim", "all"] {
        let of = || entries.iter().filter(move |entry| entry.direction == direction);
        let own: Vec<&Entry> = of().filter(|entry| entry.is_sum).collect();
        let parts: Vec<&Entry> = of().filter(|entry| !entry.is_sum).collect();
        let Some(first) = parts.first() else { continue };
        if let Some(other) = parts.iter().find(|entry| entry.field != first.field) {
            return Err(format!(
                "{} has histograms of {}, {} of {}: make all with the same options",
                first.name, first.field, other.name, other.field
            ));
        }
        all.push(merged(&parts, &own)?);
    }
    Ok(all)
}

fn merged(parts: &[&Entry], own: &[&Entry]) -> Result<Together, String> {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut samples, mut sum_ns) = (0_u64, 0.0);
    for entry in parts {
        let mut count = 0_u64;
        for (ns, more) in &entry.bins {
            let bin = bins.entry(*ns).or_default();
            let sums = (bin.checked_add(*more), count.checked_add(*more));
            let (Some(bin_sum), Some(sum)) = sums else {
                return Err(format!("{}: more I/Os than 64 bits count", entry.name));
            };
            (*bin, count) = (bin_sum, sum);
        }
        let sum = samples.checked_add(count);
        samples = sum.ok_or_else(|| format!("{}: more I/Os than 64 bits count", entry.name))?;
        sum_ns += entry.mean_ns * count as f64;
    }
    let pairs: Vec<(u64, u64)> = bins.iter().map(|(ns, count)| (*ns, *count)).collect();
    let mut percents: Vec<f64> =
        parts.iter().flat_map(|entry| entry.percentiles.iter().map(|(p, _)| *p)).collect();
    percents.sort_by(f64::total_cmp);
    percents.dedup();
    let found = crate::fio::bins::percentiles(&pairs, &percents);
    let percentiles = found.into_iter().map(|(percent, ns)| compared(percent, ns, parts, own));
    let first = parts.first().copied();
    Ok(Together {
        direction: first.map_or("", |entry| entry.direction).to_owned(),
        field: first.map_or("", |entry| entry.field).to_owned(),
        entries: parts.len(),
        samples,
        iops: parts.iter().map(|entry| entry.iops).sum(),
        min_ns: parts.iter().map(|entry| entry.min_ns).min().unwrap_or_default(),
        mean_ns: if samples > 0 { sum_ns / samples as f64 } else { 0.0 },
        max_ns: parts.iter().map(|entry| entry.max_ns).max().unwrap_or_default(),
        percentiles: percentiles.collect(),
        bins,
    })
}

fn compared(percent: f64, merged_ns: u64, parts: &[&Entry], own: &[&Entry]) -> Compared {
    let of =
        |entry: &&Entry| entry.percentiles.iter().find(|(p, _)| *p == percent).map(|(_, ns)| *ns);
    let each: Option<Vec<u64>> = parts.iter().map(of).collect();
    let average_ns = each
        .as_ref()
        .map(|each| each.iter().map(|ns| *ns as f64).sum::<f64>() / each.len().max(1) as f64);
    let off = |average: f64| (average / merged_ns as f64 - 1.0) * 100.0;
    let own_ns = match own {
        [one] => of(one),
        _ => None,
    };
    Compared {
        percent,
        merged_ns,
        average_ns,
        off_percent: average_ns.filter(|_| merged_ns > 0).map(off),
        highest_ns: each.and_then(|each| each.into_iter().max()),
        own_ns,
    }
}

/// The table of all directions.
pub fn painted(tool: &str, files: usize, all: &[Together], paint: Paint) -> Painted {
    let mut text = String::new();
    let results = figure::plural(files as u64, "result");
    let _ = writeln!(text, "{tool}: {results} merged, nothing averaged");
    for one in all {
        let histograms = figure::plural_of(one.entries as u64, "histogram", "histograms");
        let _ = writeln!(
            text,
            "\n{}: {histograms} of {} · {} I/Os · {} together, if all ran at once · min {} · mean \
             {} · max {}",
            one.direction,
            one.field,
            figure::count(one.samples),
            figure::iops(one.iops),
            figure::span(one.min_ns as f64),
            figure::span(one.mean_ns),
            figure::span(one.max_ns as f64),
        );
        let own = one.percentiles.iter().any(|row| row.own_ns.is_some());
        let head = format!(
            "{:>10} {:>11} {:>18} {:>9} {:>11}{}",
            "percentile",
            "merged",
            "average of theirs",
            "off",
            "highest",
            if own { format!(" {:>15}", "tool's own sum") } else { String::new() }
        );
        let _ = writeln!(text, "{}", paint.dim(&head));
        for row in &one.percentiles {
            let _ = writeln!(text, "{}", line(row, own));
        }
    }
    Painted::of(text.into_bytes())
}

fn line(row: &Compared, own: bool) -> String {
    let span = |ns: Option<f64>| ns.map_or_else(|| figure::UNKNOWN.to_owned(), figure::span);
    let whole = |ns: Option<u64>| span(ns.map(|ns| ns as f64));
    let off =
        row.off_percent.map_or_else(|| figure::UNKNOWN.to_owned(), |off| format!("{off:+.1} %"));
    let own = if own { format!(" {:>15}", whole(row.own_ns)) } else { String::new() };
    let name = format!("p{}", row.percent);
    format!(
        "{name:>10} {:>11} {:>18} {off:>9} {:>11}{own}",
        figure::span(row.merged_ns as f64),
        span(row.average_ns),
        whole(row.highest_ns),
    )
}

#[cfg(test)]
mod test;
