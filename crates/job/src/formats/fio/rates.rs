//! Start times of a fio job's I/Os, and the effect of its rates on the mix.

use std::borrow::Cow;

use super::convert::Converter;
use super::job::FioJob;
use super::lengths;
use super::option::Part::Load;
use super::option::{Row, Word, sets, some_word, takes, word, word_if};
use super::settings::Settings;
use super::write::Written;
use crate::formats::note::Treatment;
use crate::spec::{Access, Arrivals, Group, Line, Pacing};

/// The options of depths and rates.
pub(super) const ROWS: &[Row] = &[
    sets!("iodepth", depth, |v| v.count()?)
        .writes(|w| word(u64::from(w.group.workload.outstanding) * w.files))
        .tells(Load, |group| Some(format!("{} outstanding", group.workload.outstanding))),
    sets!("iodepth_low", depth_low, |v| v.number()?)
        .writes(|w| some_word(w.group.workload.refill_at.map(|low| u64::from(low) * w.files)))
        .tells(Load, |group| {
            let low = group.workload.refill_at?;
            Some(format!("refilled at {low} in flight (iodepth_low)"))
        }),
    takes!("rate", |s, v| s.rate_bytes = v.each(&s.rate_bytes, |text| v.kb.size(text))?)
        .writes(|w| written(w, "rate"))
        .tells(Load, |group| told(group, "rate", "bytes")),
    takes!("rate_iops", |s, v| s.rate_ios = v.each(&s.rate_ios, |text| v.kb.size(text))?)
        .writes(|w| written(w, "rate_iops"))
        .tells(Load, |group| told(group, "rate_iops", "I/Os")),
    sets!("rate_process", poisson, |v| v.one_of(&[("linear", false), ("poisson", true)])?).writes(
        |w| {
            let poisson = |of| matches!(rate_of(w.group, of), Some((_, Arrivals::Poisson)));
            word_if(["rate", "rate_iops"].into_iter().any(poisson), "poisson")
        },
    ),
];

fn told(group: &Group, key: &str, unit: &str) -> Option<String> {
    let (per_second, arrivals) = rate_of(group, key)?;
    Some(format!("{per_second} {unit} per second for each worker, {arrivals:?}"))
}

/// Returns the rate of each worker, if it is set by this option.
fn rate_of(group: &Group, key: &str) -> Option<(f64, Arrivals)> {
    match group.workload.pacing {
        Pacing::Ios { per_second, arrivals } if key == "rate_iops" => Some((per_second, arrivals)),
        Pacing::Bytes { per_second, arrivals } if key == "rate" => Some((per_second, arrivals)),
        _ => None,
    }
}

/// Returns the job with the share of reads that results from its rates. fio has a clock for each
/// direction and issues the one that is due, whatever `rwmixread` is.
pub(super) fn by_rates<'a>(converter: &mut Converter<'_>, job: &'a FioJob) -> Cow<'a, FioJob> {
    let settings = &job.settings;
    let (key, rates) = rates(settings);
    let both = settings.mix.reads && settings.mix.writes && settings.replays.files.is_empty();
    let [read, write, _] = rates.map(|rate| rate as f64);
    if !both || read + write == 0.0 {
        return Cow::Borrowed(job);
    }
    if read == 0.0 || write == 0.0 {
        let why = "set a rate for both reads and writes, or for neither";
        converter.refuse(job, key, why);
        return Cow::Borrowed(job);
    }
    let per_byte = [0, 1].map(|direction| 1.0 / mean_bytes(settings, direction));
    let percent = share([read, write], if key == "rate_iops" { [1.0; 2] } else { per_byte });
    if (percent - settings.read_percent).abs() <= 1e-6 {
        return Cow::Borrowed(job);
    }
    for asked in ["rwmixread", "rwmixwrite"].into_iter().filter(|key| job.sets(key)) {
        let why = format!(
            "with {key}, {percent:.4} % of the I/Os are reads, as in fio while the volume \
             sustains the rates"
        );
        converter.note(job, asked, Treatment::Differs, &why);
    }
    let mut job = job.clone();
    job.settings.read_percent = percent;
    Cow::Owned(job)
}

/// Returns the share of reads in percent that results from two weighted rates.
fn share([read, write]: [f64; 2], weights: [f64; 2]) -> f64 {
    let (read, write) = (read * weights[0], write * weights[1]);
    read * 100.0 / (read + write)
}

/// Returns the rates of all directions, and the option that sets them.
fn rates(settings: &Settings) -> (&'static str, [u64; 3]) {
    match settings.rate_ios {
        [0, 0, 0] => ("rate", settings.rate_bytes),
        ios => ("rate_iops", ios),
    }
}

/// Returns the mean I/O size of one direction in bytes.
fn mean_bytes(settings: &Settings, direction: usize) -> f64 {
    let mean = |of: usize| {
        let shares = lengths::lengths(settings, of);
        shares.iter().map(|(bytes, share)| *bytes as f64 * share / 100.0).sum::<f64>()
    };
    if !settings.sizes_by_order {
        return mean(direction).max(1.0);
    }
    // The sizes of reads are those of sequential I/Os then, and of writes those of random ones.
    let random = if settings.mix.random { settings.random_percent[direction] / 100.0 } else { 0.0 };
    (mean(0) * (1.0 - random) + mean(1) * random).max(1.0)
}

/// Returns the pacing of the job's I/Os.
pub(super) fn pacing(converter: &mut Converter<'_>, job: &FioJob, files: u32) -> Pacing {
    let settings = &job.settings;
    let arrivals = if settings.poisson { Arrivals::Poisson } else { Arrivals::Constant };
    if settings.rate_ios != [0; 3] && settings.rate_bytes != [0; 3] {
        converter.refuse(job, "rate", "rate and rate_iops cannot be combined");
    }
    let (key, rates) = rates(settings);
    let [read, write, trim] = rates.map(|rate| rate as f64);
    let whole = match (settings.mix.reads, settings.mix.writes) {
        (true, true) => read + write,
        (true, false) => read,
        (false, true) => write,
        (false, false) => trim,
    };
    if whole <= 0.0 {
        return Pacing::Closed;
    }
    // The rate is that of the job, over all its files.
    let per_second = whole / f64::from(files);
    if settings.depth_low > 0 {
        converter.refuse(
            job,
            "iodepth_low",
            "cannot be combined with a rate, whose clock starts the I/Os",
        );
    }
    if settings.mix.trims && settings.mix.writes {
        converter.refuse(job, key, "rw=trimwrite cannot be combined with a rate");
    }
    match key {
        "rate_iops" => Pacing::Ios { per_second, arrivals },
        _ => Pacing::Bytes { per_second, arrivals },
    }
}

/// Returns the rate of a workload for `key`, which also determines its share of reads. Errors if
/// whole rates do not result in that share.
fn written(w: &Written<'_>, key: &str) -> Word {
    let Some((rate, _)) = rate_of(w.group, key) else { return Ok(None) };
    let (access, rate) = (w.access(), rate * w.files as f64);
    let percent = access.read_percent();
    if percent > 0.0 && percent < 100.0 {
        let reads = mean_of(access, |line| line.read_percent);
        let bytes = [reads, mean_of(access, Line::write_percent)];
        let weights = if key == "rate_iops" { [1.0; 2] } else { bytes };
        let read = rate * share([percent, 100.0 - percent], weights) / 100.0;
        let (read, write) = (read.round(), (rate - read).round());
        let made = share([read, write], weights.map(|weight| 1.0 / weight));
        if read + write != rate || (made - percent).abs() > 1e-6 {
            return Err(format!(
                "fio needs whole rates: {percent} % reads of a rate of {rate} are not"
            ));
        }
        return word(format!("{read},{write}"));
    }
    match rate.fract() == 0.0 {
        true => word(rate),
        false => Err(format!("fio needs whole rates: {rate} is not")),
    }
}

/// Returns the mean I/O size in bytes of one direction, of which each line has a share.
fn mean_of(access: &Access, share_of: impl Fn(&Line) -> f64) -> f64 {
    let weights = access.lines.iter().map(|line| line.share_percent * share_of(line));
    let bytes = weights.clone().zip(&access.lines).map(|(w, line)| w * f64::from(line.size_bytes));
    bytes.sum::<f64>() / weights.sum::<f64>()
}
