//! What was done in each direction, and in all together where a job wants that.

use stats::Second;

use super::document::{Direction, Directions, Object, Spread, Sync};
use super::figures::Figures;
use super::{bins, options};
use crate::group::{Group, Part};

/// What is shown of every latency.
struct Shown<'a> {
    figures: &'a Figures,
    /// Histograms too.
    plus: bool,
}

/// The directions of a group; `all` is what they are together. As with fio, flushes are in none of
/// them, and are not shown where only all together is.
pub(super) fn directions(
    group: &Group<'_>,
    all: &Part,
    runtime_ms: u64,
    seconds: &[Second],
    plus: bool,
) -> Directions {
    let figures = Figures::of(group.figures);
    let shown = Shown { figures: &figures, plus };
    let none = Part::default();
    let trims = options::trims(group.workload);
    let (trim, sync) = if trims { (&group.other, &none) } else { (&none, &group.other) };
    let read = |s: &Second| (s.read_bytes_per_second, s.read_iops);
    let write = |s: &Second| (s.write_bytes_per_second, s.write_iops);
    let both = |s: &Second| (read(s).0 + write(s).0, read(s).1 + write(s).1);
    // The seconds do not know trims from flushes.
    let known = if trims { &[] } else { seconds };
    let apart = |part, seconds, of: &dyn Fn(&Second) -> (f64, f64)| {
        figures.apart.then(|| direction(part, runtime_ms, seconds, of, &shown))
    };
    let flushes = figures.of_completion || figures.of_whole;
    Directions {
        read: apart(&group.read, seconds, &read),
        write: apart(&group.write, seconds, &write),
        trim: apart(trim, &[], &read),
        sync: figures
            .apart
            .then(|| Sync { total_ios: sync.ios, lat_ns: spread(sync, &shown, flushes) }),
        mixed: figures.mixed.then(|| direction(all, runtime_ms, known, both, &shown)),
    }
}

fn direction(
    part: &Part,
    runtime_ms: u64,
    seconds: &[Second],
    of: impl Fn(&Second) -> (f64, f64),
    shown: &Shown<'_>,
) -> Direction {
    if part.ios == 0 && part.samples == 0 {
        return Direction::default();
    }
    let bytes_per_second = part.bytes_per_second;
    let rates = |of: &dyn Fn(&Second) -> f64| Rates::of(seconds.iter().map(of).collect());
    let (bw, iops) = (rates(&|s| of(s).0 / 1024.0), rates(&|s| of(s).1));
    Direction {
        io_bytes: part.bytes,
        io_kbytes: part.bytes >> 10,
        bw_bytes: bytes_per_second as u64,
        bw: (bytes_per_second / 1024.0) as u64,
        iops: part.iops,
        runtime: runtime_ms,
        total_ios: part.ios,
        short_ios: 0,
        drop_ios: 0,
        slat_ns: Spread::default(),
        clat_ns: spread(part, shown, shown.figures.of_completion),
        lat_ns: spread(part, shown, shown.figures.of_whole),
        bw_min: bw.min as u64,
        bw_max: bw.max as u64,
        bw_agg: if bw.samples > 0 { 100.0 } else { 0.0 },
        bw_mean: bw.mean,
        bw_dev: bw.deviation,
        bw_samples: bw.samples,
        iops_min: iops.min as u64,
        iops_max: iops.max as u64,
        iops_mean: iops.mean,
        iops_stddev: iops.deviation,
        iops_samples: iops.samples,
    }
}

/// Rates of the seconds.
#[derive(Default)]
struct Rates {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
    samples: u64,
}

impl Rates {
    fn of(rates: Vec<f64>) -> Rates {
        if rates.is_empty() {
            return Rates::default();
        }
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        Rates {
            min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            max: rates.iter().copied().fold(0.0, f64::max),
            mean,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
            samples: rates.len() as u64,
        }
    }
}

fn spread(part: &Part, shown: &Shown<'_>, whole: bool) -> Spread {
    if part.samples == 0 {
        return Spread::default();
    }
    let bins = bins::bins(&part.buckets);
    let named = |(percent, value): (f64, u64)| (format!("{percent:.6}"), value);
    let percentiles = bins::percentiles(&bins, &shown.figures.percentiles);
    Spread {
        min: part.min_ns,
        max: part.max_ns,
        mean: part.mean_ns,
        stddev: bins::deviation(&bins, part.mean_ns),
        samples: part.samples,
        percentile: (whole && !bins.is_empty())
            .then(|| Object(percentiles.into_iter().map(named).collect())),
        bins: (whole && shown.plus).then(|| {
            Object(bins.iter().map(|(value, count)| (value.to_string(), *count)).collect())
        }),
    }
}
