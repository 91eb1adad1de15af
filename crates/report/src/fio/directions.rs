//! Figures of each direction, and of all directions together if the job requests them.

use stats::{Rates, Second};

use super::document::{Direction, Directions, Object, Spread, Sync};
use super::figures::Figures;
use super::{bins, options};
use crate::group::{Group, Part};

/// Selection of the figures shown for every latency.
struct Shown<'a> {
    figures: &'a Figures,
    /// Histograms too.
    plus: bool,
}

/// Returns the directions of a group; `all` is their sum. As in fio, no direction includes flushes,
/// and flushes are not shown with `all` only. `seconds` are those of the run, if the group is all
/// of the run; otherwise empty, and the workers' rates count.
pub(super) fn directions(
    group: &Group<'_>,
    all: &Part,
    runtime_ms: u64,
    seconds: &[Second],
    plus: bool,
) -> Directions {
    let figures = Figures::of(group.figures);
    let shown = Shown { figures: &figures, plus };
    let (trim, sync) = (&group.trim, &group.flush);
    let trims = options::trims(group.workload);
    let read = |s: &Second| (s.read_bytes_per_second, s.read_iops);
    let write = |s: &Second| (s.write_bytes_per_second, s.write_iops);
    let both = |s: &Second| (read(s).0 + write(s).0, read(s).1 + write(s).1);
    let rates = |part: &Part, of: &dyn Fn(&Second) -> (f64, f64)| {
        let mut rates = Rates::default();
        // The rest of a second, in which a job begins or ends, is none of fio's samples.
        let whole = |second: &&Second| second.seconds == 0.0 || second.seconds >= 0.5;
        let some = seconds.iter().any(|second| whole(&second));
        let counted = seconds.iter().filter(|second| !some || whole(second));
        counted.map(of).for_each(|(bytes, ios)| rates.note(bytes, ios));
        if seconds.is_empty() { part.rates } else { rates }
    };
    let apart = |part, rates| figures.apart.then(|| direction(part, runtime_ms, rates, &shown));
    // The seconds do not know trims from flushes.
    let of_all = if trims { Rates::default() } else { rates(all, &both) };
    let flushes = figures.of_completion || figures.of_whole;
    Directions {
        read: apart(&group.read, rates(&group.read, &read)),
        write: apart(&group.write, rates(&group.write, &write)),
        trim: apart(trim, Rates::default()),
        sync: figures
            .apart
            .then(|| Sync { total_ios: sync.ios, lat_ns: spread(sync, &shown, flushes) }),
        mixed: figures.mixed.then(|| direction(all, runtime_ms, of_all, &shown)),
    }
}

fn direction(part: &Part, runtime_ms: u64, rates: Rates, shown: &Shown<'_>) -> Direction {
    if part.ios == 0 && part.samples == 0 {
        return Direction::default();
    }
    let bytes_per_second = part.bytes_per_second;
    let (mut bw, iops) = (rates.bytes_per_second.in_units_of(1024.0), rates.iops);
    if part.bytes == 0 {
        bw = stats::Series::default();
    }
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
        bw_dev: bw.deviation(),
        bw_samples: bw.samples,
        iops_min: iops.min as u64,
        iops_max: iops.max as u64,
        iops_mean: iops.mean,
        iops_stddev: iops.deviation(),
        iops_samples: iops.samples,
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
