//! Settings that an axis may name, and the change that each makes to a job.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use block::{hint, parse_size};
use serde_json::{Map, Value};

use super::SweepError;
use crate::spec::{
    Arrivals, Extent, Group, JobSpec, Line, MADE, MAKER, Pacing, Places, Rate, Step, Workload,
};

/// A setting that an axis may name.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// Name of the setting.
    pub name: &'static str,
    /// Name of the fio option; empty if there is none.
    pub alias: &'static str,
    /// Description of the setting, with its unit.
    pub says: &'static str,
}

const fn word(name: &'static str, alias: &'static str, says: &'static str) -> Word {
    Word { name, alias, says }
}

/// Every setting with a name. In addition `workload.…` sets any key of a workload.
pub const WORDS: [Word; 21] = [
    word("size", "bs", "I/O size, such as 4k"),
    word("read", "rwmixread", "share of reads in percent"),
    word("random", "percentage_random", "share of random I/Os in percent"),
    word("places", "random_distribution", "distribution of random offsets, such as zipf:1.2"),
    word("align", "blockalign", "alignment of offsets, such as 4k"),
    word("trim", "", "share of trims in percent"),
    word("zero", "", "share of writes of zeroes in percent"),
    word("flush", "", "share of flushes in percent"),
    word("fua", "", "share of durable writes in percent"),
    word("burst", "", "I/Os in a burst"),
    word("delay", "thinktime", "wait before each burst in microseconds"),
    word("outstanding", "iodepth", "queue depth of each worker"),
    word("workers", "numjobs", "workers for each volume"),
    word("volumes", "", "number of the job's volumes, from the first on"),
    word("volume", "filename", "volume to use instead of the job's"),
    word("rate", "rate_iops", "planned I/Os per second over all workers, such as 50k; or 200MB"),
    word("arrivals", "rate_process", "distribution of planned starts: constant, poisson"),
    word("length", "", "part of the volume from its start, such as 1g or 25%"),
    word("compress", "", "compressible share of the data, in percent"),
    word("dedupe", "", "duplicate share of the data, in percent"),
    word("ramp", "ramp_time", "seconds before the measured window"),
];

/// Axes along which the load grows, which have a knee.
pub(super) const LOADS: [&str; 6] =
    ["outstanding", "workers", "volumes", "targets", "drives", "rate"];
/// Axes that count things of which each could do as much as the first.
pub(super) const COUNTS: [&str; 4] = ["workers", "volumes", "targets", "drives"];
/// Prefix of a path into the document of a workload.
const PATH: &str = "workload.";

/// Returns the name of the setting that an axis calls `text`. A job's setup has its own settings.
pub(super) fn name(text: &str, setup: &BTreeMap<String, String>) -> Result<String, SweepError> {
    let path = text.strip_prefix(PATH).is_some_and(|path| !path.is_empty());
    if path || (setup.contains_key(text) && text != MAKER) {
        return Ok(text.to_owned());
    }
    let found =
        WORDS.iter().find(|word| word.name == text || (!text.is_empty() && word.alias == text));
    found.map(|word| word.name.to_owned()).ok_or_else(|| {
        let made = setup.keys().map(String::as_str).filter(|key| *key != MAKER);
        let any = WORDS.iter().map(|word| word.name).filter(|name| !setup.contains_key(*name));
        let known: Vec<&str> = made.chain(any).collect();
        let near = hint(text, known.iter().copied());
        SweepError::Word { word: text.to_owned(), near, known: known.join(", ") }
    })
}

/// Changes one setting in a job of one step.
pub(super) fn set(job: &mut JobSpec, word: &str, value: &str) -> Result<(), SweepError> {
    if let Some(setting) = job.setup.get_mut(word) {
        value.clone_into(setting);
        return Ok(());
    }
    let step = &mut job.steps[0];
    let made = step.groups.iter().any(|group| group.volumes == [MADE]);
    let why = match word {
        "volume" | "volumes" if made => Err("the job creates its own volumes".to_owned()),
        "ramp" => number(value).map(|seconds| step.ramp_seconds = seconds),
        "rate" => value.parse().map(|rate| set_rate(step, rate)),
        "volume" => {
            step.groups.iter_mut().for_each(|group| group.volumes = vec![value.to_owned()]);
            Ok(())
        }
        "volumes" => number(value).and_then(|count| keep_volumes(step, count)),
        "workers" => number(value).map(|count| scale_workers(step, count)),
        _ => step.groups.iter_mut().try_for_each(|group| set_workload(group, word, value)),
    };
    why.map_err(|why| SweepError::Value { word: word.to_owned(), value: value.to_owned(), why })
}

/// Sets the total rate of all workers, in I/Os or bytes per second.
pub(super) fn set_rate(step: &mut Step, rate: Rate) {
    let workers = step.workers().max(1) as f64;
    for group in &mut step.groups {
        let arrivals = match group.workload.pacing {
            Pacing::Closed => Arrivals::default(),
            Pacing::Ios { arrivals, .. } | Pacing::Bytes { arrivals, .. } => arrivals,
        };
        group.workload.pacing = match rate {
            Rate::Ios(rate) => Pacing::Ios { per_second: rate / workers, arrivals },
            Rate::Bytes(rate) => Pacing::Bytes { per_second: rate / workers, arrivals },
        };
    }
}

/// Makes planned starts independent of each other.
pub(super) fn set_poisson(step: &mut Step) {
    for group in &mut step.groups {
        match &mut group.workload.pacing {
            Pacing::Closed => {}
            Pacing::Ios { arrivals, .. } | Pacing::Bytes { arrivals, .. } => {
                *arrivals = Arrivals::Poisson;
            }
        }
    }
}

/// Sets the number of workers without a change of the total rate.
fn scale_workers(step: &mut Step, count: u32) {
    for group in &mut step.groups {
        group.workload.scale_pacing(f64::from(group.workers) / f64::from(count.max(1)));
        group.workers = count;
    }
}

fn keep_volumes(step: &mut Step, count: usize) -> Result<(), String> {
    for group in &mut step.groups {
        let there = group.volumes.len();
        if count == 0 || count > there {
            return Err(format!("must be 1 to {there}, the volumes of the job"));
        }
        group.workload.scale_pacing(there as f64 / count as f64);
        group.volumes.truncate(count);
    }
    Ok(())
}

fn set_workload(group: &mut Group, word: &str, value: &str) -> Result<(), String> {
    let workload = &mut group.workload;
    let access = &mut workload.access;
    let each = |line: fn(&mut Line) -> &mut f64, lines: &mut [Line]| {
        number(value).map(|share| lines.iter_mut().for_each(|of| *line(of) = share))
    };
    match word {
        "size" => {
            if access.size_bytes().is_none() {
                return Err(
                    "the job mixes sizes: set workload.access.lines.0.size_bytes".to_owned()
                );
            }
            let bytes = size(value)?;
            access.lines.iter_mut().for_each(|line| line.size_bytes = bytes);
        }
        "align" => {
            let bytes = size(value)?;
            access.lines.iter_mut().for_each(|line| line.align_bytes = Some(bytes));
        }
        "read" => each(|line| &mut line.read_percent, &mut access.lines)?,
        "random" => each(|line| &mut line.random_percent, &mut access.lines)?,
        "trim" => each(|line| &mut line.trim_percent, &mut access.lines)?,
        "zero" => each(|line| &mut line.zero_percent, &mut access.lines)?,
        "flush" => each(|line| &mut line.flush_percent, &mut access.lines)?,
        "fua" => each(|line| &mut line.fua_percent, &mut access.lines)?,
        "burst" => {
            let burst = number(value)?;
            access.lines.iter_mut().for_each(|line| line.burst = burst);
        }
        "delay" => {
            let delay_us = number(value)?;
            access.lines.iter_mut().for_each(|line| line.delay_us = delay_us);
        }
        "places" => access.random = value.parse::<Places>()?,
        "outstanding" => workload.outstanding = number(value)?,
        "arrivals" => return set_arrivals(&mut workload.pacing, value),
        "length" => workload.range.length = Some(extent(value)?),
        "compress" => workload.content.compress_percent = number(value)?,
        "dedupe" => workload.content.dedupe_percent = number(value)?,
        path => return set_path(workload, path.strip_prefix(PATH).unwrap_or(path), value),
    }
    Ok(())
}

fn set_arrivals(pacing: &mut Pacing, value: &str) -> Result<(), String> {
    let word = Value::String(value.to_owned());
    let wanted: Arrivals = serde_json::from_value(word).map_err(|error| error.to_string())?;
    match pacing {
        Pacing::Closed => return Err("a closed loop has no arrivals: set a rate".to_owned()),
        Pacing::Ios { arrivals, .. } | Pacing::Bytes { arrivals, .. } => *arrivals = wanted,
    }
    Ok(())
}

/// Changes the document of a workload at a path of keys, and reads it back: the valid keys are
/// those of the workload's own layout.
fn set_path(workload: &mut Workload, path: &str, value: &str) -> Result<(), String> {
    let mut document = serde_json::to_value(&*workload).map_err(|error| error.to_string())?;
    let mut at = &mut document;
    for key in path.split('.') {
        if let Value::Array(list) = at {
            let index = key.parse::<usize>().ok();
            let count = list.len();
            let found = index.and_then(|index| list.get_mut(index));
            at = found.ok_or_else(|| {
                format!("'{key}' is not the index of an entry: {count} entries, from 0")
            })?;
            continue;
        }
        if !at.is_object() {
            // The name of a distribution becomes a distribution with a number.
            *at = Value::Object(Map::new());
        }
        let Value::Object(keys) = at else { unreachable!("it was made one") };
        let law = matches!(key, "zipf" | "pareto" | "normal" | "strided");
        if law {
            keys.retain(|other, _| other == key);
        }
        at = keys.entry(key).or_insert(Value::Null);
    }
    *at = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    *workload = serde_json::from_value(document).map_err(|error| error.to_string())?;
    Ok(())
}

fn number<N: FromStr<Err: Display>>(text: &str) -> Result<N, String> {
    text.parse().map_err(|error: N::Err| error.to_string())
}

fn size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| "too large for one I/O".to_owned())
}

fn extent(text: &str) -> Result<Extent, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::spec::{Access, Verify};

    fn job() -> JobSpec {
        let volumes = ["null:1g", "null:2g", "null:3g"].map(str::to_owned).to_vec();
        let workload = Workload::new(Access::new(512, 100.0, 100.0), 32);
        JobSpec::of(1, 1.0, 0.0, Group::new(volumes, 2, workload))
    }

    fn after(settings: &[(&str, &str)]) -> Result<Group, String> {
        let mut job = job();
        for (word, value) in settings {
            let word = name(word, &job.setup).map_err(|e| e.to_string())?;
            set(&mut job, &word, value).map_err(|error| error.to_string())?;
        }
        job.check().map_err(|error| error.to_string())?;
        Ok(job.steps.remove(0).groups.remove(0))
    }

    #[test]
    fn every_word_changes_the_job() {
        for word in WORDS {
            let value = match word.name {
                "size" | "align" | "length" => "8k",
                "places" => "zipf:1.2",
                "volume" => "ram:1g",
                "arrivals" => "poisson",
                "rate" => "50k",
                "trim" | "zero" | "flush" => "0.5",
                _ => "3",
            };
            let before: &[(&str, &str)] = match word.name {
                "arrivals" => &[("rate", "1k"), ("read", "90")],
                "volumes" => &[("volumes", "2"), ("read", "90")],
                _ => &[("read", "90")],
            };
            let value = if word.name == "volumes" { "1" } else { value };
            let mut changed = job();
            before.iter().for_each(|(word, value)| set(&mut changed, word, value).unwrap());
            let unchanged = changed.clone();
            set(&mut changed, word.name, value).unwrap();
            assert_ne!(changed, unchanged, "{}", word.name);
            changed.check().unwrap_or_else(|error| panic!("{}: {error}", word.name));
        }
    }

    #[test]
    fn a_rate_is_shared_by_all_workers_whatever_comes_after() {
        let rate = |settings: &[(&str, &str)]| match after(settings).unwrap().workload.pacing {
            Pacing::Ios { per_second, .. } => per_second,
            other => panic!("{other:?}"),
        };
        assert_eq!(rate(&[("rate", "60k")]), 10e3);
        assert_eq!(rate(&[("rate", "60k"), ("workers", "1")]), 20e3);
        assert_eq!(rate(&[("workers", "1"), ("volumes", "1"), ("rate", "60k")]), 60e3);
        assert_eq!(rate(&[("rate", "60k"), ("volumes", "1")]), 30e3);
    }

    #[test]
    fn a_setup_has_words_of_its_own() {
        let mut job = job();
        job.setup.insert("volumes".to_owned(), "5".to_owned());
        job.steps[0].groups[0].volumes = vec![MADE.to_owned()];
        assert_eq!(name("volumes", &job.setup).unwrap(), "volumes");
        set(&mut job, "volumes", "7").unwrap();
        assert_eq!(job.setup["volumes"], "7");
        assert_eq!(job.steps[0].groups[0].volumes, [MADE]);
        let error = set(&mut job, "volume", "null:1g").unwrap_err().to_string();
        assert!(error.contains("creates its own volumes"), "{error}");
        let error = name("targets", &job.setup).unwrap_err().to_string();
        assert!(error.contains("one of volumes, size, read"), "{error}");
        // A rate is that of all workers, however many volumes there will be.
        set(&mut job, "rate", "60k").unwrap();
        let step = &mut job.steps[0];
        step.make_volumes(&["a", "b", "c"].map(str::to_owned));
        let Pacing::Ios { per_second, .. } = step.groups[0].workload.pacing else { panic!() };
        assert_eq!((per_second, step.workers()), (10e3, 6));
    }

    #[test]
    fn paths_reach_every_key_of_a_workload() {
        let group = after(&[("workload.access.random.zipf.exponent", "0.9")]).unwrap();
        assert_eq!(group.workload.access.random, Places::Zipf { exponent: 0.9 });
        let group = after(&[("workload.access.lines.0.size_bytes", "4k")]).unwrap();
        assert_eq!(group.workload.access.size_bytes(), Some(4096));
        let group = after(&[("workload.verify.sample_percent", "5")]).unwrap();
        assert_eq!(
            group.workload.verify,
            Some(Verify { sample_percent: 5.0, ..Verify::default() })
        );
        let error = after(&[("workload.acces.run", "5")]).unwrap_err();
        assert!(error.contains("unknown field `acces`, expected one of"), "{error}");
        let error = after(&[("workload.access.lines.1.size_bytes", "5")]).unwrap_err();
        assert!(error.contains("not the index of an entry: 1 entries"), "{error}");
    }

    #[test]
    fn what_does_not_exist_is_refused_with_what_does() {
        let name = |text| super::name(text, &BTreeMap::new());
        let error = name("sise").unwrap_err().to_string();
        assert!(error.contains("'sise'") && error.contains("size, read, random"), "{error}");
        assert_eq!(name("iodepth").unwrap(), "outstanding");
        assert!(name("").is_err() && name("workload.").is_err());
        let wrong = |word, value| after(&[(word, value)]).unwrap_err();
        assert!(wrong("size", "4x").starts_with("size=4x: "));
        assert!(wrong("volumes", "4").contains("must be 1 to 3, the volumes of the job"));
        assert!(wrong("arrivals", "poisson").contains("set a rate"));
        assert!(wrong("outstanding", "-1").starts_with("outstanding=-1: "));
    }
}
