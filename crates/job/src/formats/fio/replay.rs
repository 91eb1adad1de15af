//! Jobs of fio that replay a trace: their options and effects.

use block::{Nanos, print_size};

use super::convert::Converter;
use super::job::FioJob;
use super::option::Part::Load;
use super::option::{Row, Word, sets, some_word, switch, word, word_if};
use super::parse;
use super::passthrough;
use super::remote;
use super::settings::Engine;
use super::storage::{JobFiles, path};
use super::told::span;
use super::value::{Amount, KbBase};
use super::write::Written;
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::formats::reading::Storage;
use crate::spec::{Access, Group, Range, Replay, Skip};
use crate::trace::Facts;

/// Trace options of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replays {
    /// `read_iolog`.
    pub files: Vec<String>,
    /// Volume that replaces all files of the trace, `replay_redirect`.
    pub redirect: Option<String>,
    /// `replay_no_stall`.
    pub no_stall: bool,
    /// `replay_time_scale` in percent.
    pub time_scale: Option<u32>,
    /// `replay_scale`.
    pub scale: u32,
    /// `replay_align`.
    pub align_bytes: u64,
    /// `replay_skip`.
    pub skip: Vec<Skip>,
}

/// Options whose values are in the trace.
const SAID_BY_TRACE: [&str; 24] = [
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "blocksize",
    "bsrange",
    "bssplit",
    "blockalign",
    "percentage_random",
    "random_distribution",
    "norandommap",
    "offset",
    "offset_increment",
    "io_size",
    "number_ios",
    "loops",
    "time_based",
    "fsync",
    "fdatasync",
    "nrfiles",
    "filename",
    "openfiles",
    "file_service_type",
];
/// Options that are incompatible with a trace, with the reason.
const REFUSED: [(&str, &str); 14] = [
    ("rate", "a trace has its own times: to change its speed set replay_time_scale"),
    ("rate_iops", "a trace has its own times: to change its speed set replay_time_scale"),
    ("thinktime", "a trace has its own pauses"),
    ("rate_min", NOT_STEERED),
    ("rate_iops_min", NOT_STEERED),
    ("max_latency", NOT_STEERED),
    ("latency_target", NOT_STEERED),
    ("flow", NOT_STEERED),
    ("zonemode", "a trace has its own offsets"),
    ("sync", "a trace has its own flushes"),
    ("verify", "the writes of a trace cannot be verified"),
    ("verify_pattern", "the writes of a trace cannot be verified"),
    ("verify_only", "the writes of a trace cannot be verified"),
    ("directory", "a trace contains the paths of its files"),
];

const NOT_STEERED: &str = "a trace is replayed without rate, latency and flow control";

/// The options of traces.
pub(super) const ROWS: &[Row] = &[
    // 0 and none are not names, but fio's words for no file.
    sets!("read_iolog", replays.files, |v| match v.text {
        Some("0" | "none") => Vec::new(),
        text => parse::files(text.unwrap_or_default())?,
    })
    .writes(|w| some_word(w.access().trace.as_ref().map(|r| r.file.replace(':', "\\:"))))
    .tells(Load, told),
    sets!("replay_redirect", replays.redirect, |v| v.name()).writes(redirect),
    switch!("replay_no_stall", replays.no_stall).writes(|w| number(w, |r| u32::from(!r.stalls), 0)),
    sets!("replay_time_scale", replays.time_scale, |v| Some(v.count()?))
        .writes(|w| number(w, |replay| replay.speed_percent, 100)),
    sets!("replay_scale", replays.scale, |v| v.number()?)
        .writes(|w| number(w, |replay| replay.divide_by, 1)),
    sets!("replay_align", replays.align_bytes, |v| align(v.text.unwrap_or_default(), v.kb)?)
        .writes(|w| number(w, |replay| replay.align_bytes, 1)),
    sets!("replay_skip", replays.skip, |v| skip(v.text.unwrap_or_default())?).writes(|w| {
        let skips = w.access().trace.iter().flat_map(|replay| &replay.skip);
        let words = skips.flat_map(|skip| SKIPS.iter().find(|(_, other)| other == skip));
        let words: Vec<&str> = words.map(|(word, _)| *word).collect();
        word_if(!words.is_empty(), words.join(","))
    }),
];

fn told(group: &Group) -> Option<String> {
    let replay = group.workload.access.trace.as_ref()?;
    let mut facts = vec![format!("replays {}", replay.file)];
    if let Some(trace) = replay.trace() {
        let all = trace.facts();
        let seconds = (all.length.as_secs_f64() * 1000.0).round() / 1000.0;
        facts.push(all.to_string());
        facts.push(match (all.timed, seconds > 0.0) {
            (true, _) => format!("at the trace's times, {}", span(seconds)),
            (false, true) => format!("with pauses, at least {}", span(seconds)),
            (false, false) => "without pauses".to_owned(),
        });
    }
    let Replay { speed_percent, divide_by, align_bytes, skip, .. } = replay;
    if *speed_percent != 100 {
        facts.push(format!("at {speed_percent} % of its speed"));
    }
    if *divide_by > 1 {
        facts.push(format!("offsets divided by {divide_by}"));
    }
    if *align_bytes > 1 {
        facts.push(format!("offsets aligned to {}", print_size(u64::from(*align_bytes))));
    }
    if !skip.is_empty() {
        facts.push(format!("without {skip:?}"));
    }
    Some(facts.join(", "))
}

fn align(text: &str, kb: KbBase) -> Result<u64, String> {
    let bytes = kb.size(text)?;
    match bytes == 0 || (bytes.is_power_of_two() && bytes <= 1 << 31) {
        true => Ok(bytes),
        false => Err(format!("{text} must be a power of two, at most 2g")),
    }
}

const SKIPS: [(&str, Skip); 4] =
    [("read", Skip::Read), ("write", Skip::Write), ("trim", Skip::Trim), ("sync", Skip::Sync)];

fn skip(text: &str) -> Result<Vec<Skip>, String> {
    let one = |word: &str| match SKIPS.iter().find(|(name, _)| *name == word.trim()) {
        Some((_, skip)) => Ok(*skip),
        None => Err(format!("unknown value '{}': one of read, write, trim, sync", word.trim())),
    };
    text.split(',').map(one).collect()
}

/// Returns the target of a trace: none for its own files.
fn redirect(w: &Written<'_>) -> Word {
    let Some(replay) = &w.access().trace else { return Ok(None) };
    match &w.names[..] {
        [] => Ok(None),
        [one] => word(one),
        all if replay.trace().is_some_and(|trace| trace.facts().files == *all) => Ok(None),
        _ => Err("fio replays a trace to its own files or to one file".to_owned()),
    }
}

/// Returns a number of a trace, if it is not the default.
fn number(w: &Written<'_>, of: fn(&Replay) -> u32, usual: u32) -> Word {
    some_word(w.access().trace.as_ref().map(of).filter(|number| *number != usual))
}

/// Returns the access of a job's trace, after reading it. `Ok(None)` if the job has no trace. An
/// error was refused.
pub(super) fn access(converter: &mut Converter<'_>, job: &FioJob) -> Result<Option<Access>, ()> {
    let settings = &job.settings;
    let asked = &settings.replays;
    let file = match &asked.files[..] {
        [] => return Ok(None),
        [file] if file != "-" => file.clone(),
        _ => {
            let why = "name one file: each trace needs a separate job, and stdin is not supported";
            converter.refuse(job, "read_iolog", why);
            return Err(());
        }
    };
    let mut replay = Replay {
        stalls: !asked.no_stall,
        speed_percent: asked.time_scale.unwrap_or(100),
        divide_by: asked.scale.max(1),
        align_bytes: asked.align_bytes.max(1) as u32,
        skip: asked.skip.clone(),
        ..Replay::new(file)
    };
    // One volume replaces all files if one is named, and if nothing is stored.
    let one = asked.redirect.is_some() || settings.engine == Engine::Nothing;
    let open = &*converter.around.open;
    if let Err(error) = replay.load_once(&mut converter.traces, open, one) {
        converter.refuse(job, "read_iolog", &error.to_string());
        return Err(());
    }
    notes(converter, job, &replay);
    Ok(Some(Access::replaying(replay)))
}

fn notes(converter: &mut Converter<'_>, job: &FioJob, replay: &Replay) {
    let settings = &job.settings;
    for key in SAID_BY_TRACE.into_iter().filter(|key| job.sets(key)) {
        let why = "the trace determines the I/Os, and is replayed once";
        converter.note(job, key, Ignored, why);
    }
    for (key, why) in REFUSED.into_iter().filter(|(key, _)| job.sets(key)) {
        converter.refuse(job, key, why);
    }
    let timed = replay.trace().is_some_and(|trace| trace.facts().timed);
    if timed {
        let why = "each I/O is planned for its time in the trace, and its latency is measured \
                   from then; fio counts pauses from the start of the previous I/O, so its replay \
                   takes longer on a slow volume";
        converter.note(job, "read_iolog", Differs, why);
    }
    let waits = |facts: &Facts| !facts.timed && facts.length > Nanos(0);
    if replay.trace().is_some_and(|trace| waits(trace.facts())) {
        let why = "waits count from the start of the job; in fio from the start of fio";
        converter.note(job, "read_iolog", Differs, why);
    }
    if timed && settings.depth_low > 0 {
        converter.refuse(
            job,
            "iodepth_low",
            "the trace determines when I/Os start: remove iodepth_low",
        );
    }
    if timed && !replay.skip.is_empty() {
        let why = "the other I/Os retain their times; fio omits the pauses before skipped I/Os";
        converter.note(job, "replay_skip", Differs, why);
    }
}

/// Returns the volumes of a trace: its files, or the one that replaces all. `None` if they were
/// refused.
pub(super) fn place(
    converter: &mut Converter<'_>,
    job: &FioJob,
    access: &Access,
) -> Option<JobFiles> {
    let settings = &job.settings;
    let trace = access.trace.as_ref()?.trace()?.clone();
    let names = match &settings.replays.redirect {
        Some(name) => std::slice::from_ref(name),
        None => &trace.facts().files[..],
    };
    let mut volumes = Vec::new();
    for name in names {
        if name.contains('?') {
            converter.refuse(job, "read_iolog", &format!("{name}: file names cannot contain ?"));
            return None;
        }
        let storage = storage(converter, job, trace.facts(), name)?;
        match converter.volume(&storage) {
            Ok(uri) => volumes.push(uri),
            Err(why) => {
                let key = if names.len() == 1 { "replay_redirect" } else { "read_iolog" };
                converter.refuse(job, key, &why);
                return None;
            }
        }
    }
    let (own_files, files, range) = (false, 1, Range::WHOLE);
    let (stripes, turns, part_bytes, whole_bytes) = (None, None, None, None);
    Some(JobFiles { volumes, own_files, files, stripes, turns, range, part_bytes, whole_bytes })
}

/// Returns the storage of a file of the trace. A missing file is created with the configured size,
/// never with a size that a trace claims.
fn storage(
    converter: &mut Converter<'_>,
    job: &FioJob,
    facts: &Facts,
    name: &str,
) -> Option<Storage> {
    let settings = &job.settings;
    let said = match settings.file_size.or(settings.size) {
        Some(Amount::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    match settings.engine {
        Engine::Nothing => {
            let end = facts.end_bytes().max(said.unwrap_or(0));
            Some(Storage::nothing(end.max(1).next_multiple_of(4096)))
        }
        Engine::Calls(_) => {
            converter.refuse(job, "ioengine", "this engine cannot replay a trace");
            None
        }
        Engine::Remote | Engine::Spdk | Engine::Bdev | Engine::Nbd => {
            remote::storage(converter, job, name)
        }
        Engine::Passthrough => {
            let path = path(settings, name);
            passthrough::check(converter, job, std::slice::from_ref(&path))?;
            Some(passthrough::storage(job, path))
        }
        Engine::Synchronous | Engine::Kernel | Engine::Libaio => {
            let path = path(settings, name);
            passthrough::check(converter, job, std::slice::from_ref(&path))?;
            let made = converter.made.get(&path).copied();
            let file = |size_bytes| Storage::File {
                path: path.clone(),
                block_bytes: (!settings.direct && !facts.is_in_blocks_of(512)).then_some(1),
                size_bytes,
                direct: settings.direct,
                iopoll: settings.hipri,
                sqpoll: settings.sqthread_poll && settings.engine == Engine::Kernel,
            };
            let options = converter.options;
            let uri = (options.volume)(&file(None));
            let there = uri.is_ok_and(|uri| (options.capacity)(&uri).is_some());
            let size = said.max(made).filter(|_| !there);
            let lacks = !there && size.is_none() && options.volumes.is_empty();
            let storage = file(size);
            if lacks && !path.starts_with("/dev/") {
                let why = format!(
                    "{path} does not exist or cannot be opened: create the file, or set filesize"
                );
                converter.refuse(job, "read_iolog", &why);
            }
            Some(storage)
        }
    }
}

#[cfg(test)]
mod test;
