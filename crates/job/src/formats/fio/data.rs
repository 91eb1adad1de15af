//! Data that a fio job writes, and their verification.

use std::borrow::Cow;

use block::print_size;

use super::convert::Converter;
use super::job::FioJob;
use super::option::Part::Load;
use super::option::{Row, Word, flag, sets, some_word, switch, word, word_if};
use super::parse;
use super::parts;
use super::settings::{self, Data, Engine, Method};
use super::storage::{self, JobFiles};
use super::value::Amount;
use super::write::{Written, whole};
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::formats::surroundings::Surroundings;
use crate::spec::{Content, DataPattern, PATTERN_MAX_BYTES, Pacing, Places, Verify, Workload};

/// Default chunk of the compressible share in bytes, as in fio.
const CHUNK_BYTES: u32 = 512;
/// Block of the duplicate share in bytes.
const BLOCK_BYTES: u64 = 4096;

/// The options of data, with and without verification.
pub(super) const ROWS: &[Row] = &[
    sets!("buffer_compress_percentage", data.compress_percent, |v| v.whole_percent()?)
        .writes(|w| percent_word(w.content().compress_percent, "the compressible share"))
        .tells(Load, |group| percent(group.workload.content.compress_percent, "compressible")),
    sets!("buffer_compress_chunk", data.chunk_bytes, |v| Some(parse::chunk(v.text()?, v.kb)?))
        .writes(|w| {
            let content = w.content();
            let plain = content.compress_percent > 0.0 && content.dedupe_percent == 0.0;
            word_if(plain, content.chunk_bytes.unwrap_or(BLOCK_BYTES as u32))
        })
        .tells(Load, |group| {
            group.workload.content.chunk_bytes.map(|bytes| format!("in chunks of {bytes} bytes"))
        }),
    sets!("dedupe_percentage", data.dedupe_percent, |v| v.whole_percent()?)
        .writes(|w| percent_word(w.content().dedupe_percent, "the share of duplicates"))
        .tells(Load, |group| percent(group.workload.content.dedupe_percent, "duplicate")),
    sets!("dedupe_mode", data.working_set, |v| v
        .one_of(&[("repeat", false), ("working_set", true)])?)
    .writes(|w| match w.content().dedupe_blocks {
        Some(_) => Err("fio sets the working set of duplicates as a share of the size, not as a \
                        number of blocks"
            .to_owned()),
        None => Ok(None),
    })
    .tells(Load, |group| {
        group
            .workload
            .content
            .dedupe_blocks
            .map(|blocks| format!("from a working set of {blocks} blocks"))
    }),
    sets!("dedupe_working_set_percentage", data.working_set_percent, |v| v.whole_percent()?),
    flag!("zero_buffers", data.zeroes),
    flag!("refill_buffers", data.refill),
    switch!("scramble_buffers", data.scramble)
        .tells(Load, |group| group.workload.content.repeats.then(|| "buffers reused".to_owned())),
    sets!("buffer_pattern", data.pattern, |v| match read_pattern(v.text()?, v.around)? {
        pattern if pattern.has_places() => {
            return Err("%o is valid in verify_pattern only".into());
        }
        pattern => Some(pattern),
    })
    .writes(|w| some_word(w.content().pattern.as_ref().filter(|_| w.verify().is_none())))
    .tells(Load, |group| {
        let pattern = group.workload.content.pattern.as_ref()?;
        Some(format!("data {}", shortened(pattern)))
    }),
    sets!("verify_pattern", verify.pattern, |v| Some(read_pattern(v.text()?, v.around)?))
        .writes(|w| some_word(w.content().pattern.as_ref().filter(|_| w.verify().is_some()))),
    sets!("verify", verify.method, |v| Some(parse::verify(v.text()?)?))
        .writes(|w| {
            let method = if w.content().pattern.is_some() { "pattern" } else { "crc32c" };
            some_word(w.verify().map(|_| method))
        })
        .tells(Load, |group| group.workload.verify.map(compared)),
    switch!("do_verify", verify.reads).writes(is_read_again),
    flag!("verify_only", verify.only),
    sets!("verify_backlog", verify.backlog, |v| v.number()?).writes(backlog).tells(Load, |group| {
        let bytes = group.workload.verify?.read_back_bytes;
        (bytes > 0).then(|| format!("written data read back every {}", print_size(bytes)))
    }),
];

/// Returns the beginning of a pattern.
fn shortened(pattern: &DataPattern) -> String {
    let text = pattern.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], pattern.len_bytes()),
        None => text,
    }
}

fn compared(verify: Verify) -> String {
    match verify {
        Verify { sample_percent: 0.0, .. } => "stamped for a later run".to_owned(),
        Verify { earlier: true, .. } => "compared with the data of an earlier run".to_owned(),
        Verify { sample_percent: 100.0, .. } => "every read is compared".to_owned(),
        Verify { sample_percent, .. } => format!("{sample_percent} % of reads are compared"),
    }
}

fn percent(percent: f64, what: &str) -> Option<String> {
    (percent > 0.0).then(|| format!("{percent} % {what}"))
}

fn percent_word(percent: f64, what: &str) -> Word {
    whole(percent, what).and_then(|percent| word_if(percent > 0, percent))
}

/// Returns the value of `do_verify`. Jobs that only read expect the data of an earlier run; jobs
/// that read and write are filled first.
fn is_read_again(w: &Written<'_>) -> Word {
    let Some(verify) = w.verify() else { return Ok(None) };
    // fio reads back its writes in any case.
    let verify = Verify { read_back_bytes: 0, ..verify };
    let (reads, writes) = (w.access().read_percent() > 0.0, w.access().writes());
    let usual = Verify { fill: reads && writes, earlier: !writes, ..Verify::default() };
    let unread = Verify { sample_percent: 0.0, fill: false, ..Verify::default() };
    match verify {
        _ if verify == usual => Ok(None),
        _ if verify == unread && writes => word(0),
        Verify { fill: true, .. } if !writes => {
            Err("fio does not write the data of a job that only reads: add a job that writes them \
                 first"
                .to_owned())
        }
        _ => Err("fio cannot verify only a share of the reads".to_owned()),
    }
}

/// Returns `verify_backlog`: the number of I/Os after which writes are read back.
fn backlog(w: &Written<'_>) -> Word {
    let bytes = w.verify().map_or(0, |verify| verify.read_back_bytes);
    match w.access().size_bytes().map(u64::from) {
        _ if bytes == 0 => Ok(None),
        Some(size) if bytes.is_multiple_of(size) => word(bytes / size),
        _ => Err("verify_backlog is a number of I/Os: read_back_bytes must be a multiple of a \
                  single block size"
            .to_owned()),
    }
}

/// Returns the job with verification that is possible: `ioengine=null` stores nothing, and fio
/// reports its reads as correct without checking them.
pub(super) fn stored<'a>(converter: &mut Converter<'_>, job: Cow<'a, FioJob>) -> Cow<'a, FioJob> {
    let settings = &job.settings;
    let nowhere = settings.engine == Engine::Nothing && converter.options.volumes.is_empty();
    if !nowhere || settings.verify.method().is_none() {
        return job;
    }
    let word = if settings.verify.method.is_some() { "verify" } else { "verify_pattern" };
    let why = "ioengine=null stores nothing, so nothing is verified; fio reads the data back \
               without comparing them and reports success";
    converter.note(&job, word, Differs, why);
    let mut job = job.into_owned();
    // Data that are only verified are still read.
    let only = job.settings.verify.only && job.settings.mix.writes;
    if only {
        (job.settings.mix.reads, job.settings.mix.writes) = (true, false);
    }
    job.settings.verify = settings::Verify::default();
    Cow::Owned(job)
}

fn read_pattern(text: &str, surroundings: &Surroundings<'_>) -> Result<DataPattern, String> {
    let file = |name: &str| {
        // One additional byte shows that the pattern is too long.
        let read = (surroundings.read_bytes)(name.as_ref(), PATTERN_MAX_BYTES + 1);
        read.map_err(|error| format!("cannot read {name}: {error}"))
    };
    DataPattern::parse(text, &file)
}

/// Returns the data that a job writes.
pub(super) fn content(
    converter: &mut Converter<'_>,
    job: &FioJob,
    place: &JobFiles,
    writes: bool,
) -> Content {
    let (data, verify) = (&job.settings.data, &job.settings.verify);
    match verify.method() {
        Some(Method::Pattern | Method::PatternWithHeader) => {
            Content { pattern: verify.pattern.clone(), ..Content::default() }
        }
        Some(_) if !writes => Content::default(),
        Some(_) => {
            let why = "a checksum verifies Drumfire's stamps, which do not compress; to write a \
                       pattern set verify=pattern and verify_pattern";
            for (word, given) in [
                ("buffer_pattern", data.pattern.is_some()),
                ("buffer_compress_percentage", data.compress_percent > 0),
                ("dedupe_percentage", data.dedupe_percent > 0),
            ] {
                if given {
                    converter.note(job, word, Differs, why);
                }
            }
            Content::default()
        }
        None => buffers(converter, job, place.part_bytes),
    }
}

/// Returns the data of writes without verification: by the buffer options, for a part of
/// `part_bytes`.
pub(super) fn buffers(
    converter: &mut Converter<'_>,
    job: &FioJob,
    part_bytes: Option<u64>,
) -> Content {
    let data = &job.settings.data;
    if data.pattern.is_some() && data.dedupe_percent > 0 {
        let why = "all writes contain the buffer_pattern: no share of duplicates is drawn";
        converter.note(job, "dedupe_percentage", Differs, why);
        let pattern = data.pattern.clone();
        return Content {
            compress_percent: f64::from(data.compress_percent),
            chunk_bytes: chunk_bytes(&Data { dedupe_percent: 0, ..data.clone() }),
            pattern,
            ..Content::default()
        };
    }
    let shares = data.compress_percent > 0 || data.dedupe_percent > 0;
    Content {
        compress_percent: match data.zeroes {
            // With shares, or with a pattern, buffers are not zero in fio either.
            true if !shares && data.pattern.is_none() => 100.0,
            _ => f64::from(data.compress_percent),
        },
        dedupe_percent: f64::from(data.dedupe_percent),
        chunk_bytes: chunk_bytes(data),
        dedupe_blocks: working_set(converter, job, part_bytes),
        repeats: false,
        pattern: data.pattern.clone(),
    }
}

/// Returns the chunk of the compressible share, if it is not a block.
fn chunk_bytes(data: &Data) -> Option<u32> {
    let chunk = data.chunk_bytes.unwrap_or(CHUNK_BYTES);
    let plain = data.compress_percent > 0 && data.dedupe_percent == 0;
    (plain && u64::from(chunk) != BLOCK_BYTES).then_some(chunk)
}

/// Returns the number of our blocks in the set from which duplicates are drawn.
fn working_set(
    converter: &mut Converter<'_>,
    job: &FioJob,
    part_bytes: Option<u64>,
) -> Option<u64> {
    let data = &job.settings.data;
    if data.dedupe_percent == 0 {
        return None;
    }
    if data.chunk_bytes.is_some() && data.compress_percent > 0 {
        let why = "with duplicates, which are blocks of 4 KiB, the chunks must be 4 KiB too: \
                   remove buffer_compress_chunk";
        converter.refuse(job, "buffer_compress_chunk", why);
    }
    if !data.working_set {
        let why = "duplicates are blocks of 4 KiB from a set of 64; fio repeats whole writes";
        converter.note(job, "dedupe_percentage", Differs, why);
        return None;
    }
    let Some(bytes) = part_bytes else {
        converter.refuse(
            job,
            "dedupe_mode",
            "the working set is a share of the size, which is unknown: set a size in bytes",
        );
        return None;
    };
    let why = "duplicates are blocks of 4 KiB from a working set shared by all jobs; in fio they \
               are whole writes";
    converter.note(job, "dedupe_mode", Differs, why);
    let set = u128::from(bytes) * u128::from(data.working_set_percent) / 100;
    Some((set as u64 / BLOCK_BYTES).max(1))
}

/// Returns the verification of a job.
pub(super) fn verify(converter: &mut Converter<'_>, job: &FioJob) -> Option<Verify> {
    let settings = &job.settings;
    let method = settings.verify.method()?;
    let (reads, writes) = (settings.mix.reads, settings.mix.writes);
    let earlier = !writes || settings.verify.only;
    let unread = !settings.verify.reads && !earlier;
    let word = if settings.verify.method.is_some() { "verify" } else { "verify_pattern" };
    let ours = if method == Method::Sum { "; stamps have Drumfire's format" } else { "" };
    let why = match (earlier, reads) {
        (true, _) if method == Method::Sum => {
            "Drumfire's stamps are expected, not fio's headers, and a lost overwrite is not \
             detected; `run JOB.toml --verify-only` detects it"
        }
        (true, _) => "",
        (false, _) if unread => "blocks are not compared in this job",
        (false, true) => "the range is written once before the run, and all reads are compared",
        (false, false) => "",
    };
    if why.is_empty() && method == Method::Sum {
        converter.note(job, word, Differs, "stamps have Drumfire's format");
    } else if !why.is_empty() {
        let ours = if earlier { "" } else { ours };
        converter.note(job, word, Differs, &format!("{why}{ours}"));
    }
    if method == Method::PatternWithHeader {
        converter.note(job, word, Differs, "the pattern has no header");
    }
    Some(Verify {
        // Data that a job reads must have been written; data that it only writes are read at the
        // end.
        fill: reads && writes && !unread,
        sample_percent: if unread { 0.0 } else { 100.0 },
        earlier,
        read_back_bytes: 0,
    })
}

/// Refuses combinations that are invalid for every volume.
pub(super) fn check(converter: &mut Converter<'_>, job: &FioJob) {
    let settings = &job.settings;
    if settings.verify.method == Some(Method::Null) {
        converter.note(job, "verify", Ignored, "this method compares nothing");
    }
    let data = &settings.data;
    let random = data.pattern.is_none()
        && !(data.zeroes || data.scramble || data.refill)
        && data.compress_percent == 0
        && data.dedupe_percent == 0;
    let Some(method) = settings.verify.method() else {
        if random && settings.mix.writes {
            let why = "each write has different data; fio reuses its buffers unchanged";
            converter.note(job, "scramble_buffers", Differs, why);
        }
        if settings.verify.only {
            converter.refuse(job, "verify_only", "verify_only needs verify");
        }
        return;
    };
    let has_pattern = settings.verify.pattern.is_some();
    if storage::is_odd(settings) {
        let word = if settings.unaligned { "bs_unaligned" } else { "bs" };
        converter.refuse(job, word, "verify needs block sizes that are multiples of 512");
    }
    if settings.mix.trims {
        converter.refuse(job, "verify", "trims are not verified");
    }
    if method != Method::Sum && !has_pattern {
        converter.refuse(job, "verify", "a verify_pattern is missing");
    }
    if method == Method::Sum && has_pattern {
        let why = "Drumfire's stamps fill the whole block; to verify the pattern set \
                   verify=pattern";
        converter.note(job, "verify_pattern", Differs, why);
    }
    if settings.verify.only && settings.mix.reads && settings.mix.writes {
        converter.refuse(
            job,
            "verify_only",
            "the blocks written in a mix of reads and writes are unknown: set rw=write or \
             rw=randwrite",
        );
    }
    let shared = settings.clones > 1 && !settings.files.is_empty();
    let meet = settings.offset_increment == Amount::Bytes(0) && !settings.appends;
    if shared && settings.mix.writes && meet {
        let why = "all clones expect the last write of any clone; in fio, clones that overwrite \
                   each other's blocks report errors";
        converter.note(job, "numjobs", Differs, why);
    }
}

/// Sets when writes are read back. As in fio, sequential jobs that only time ends are not read
/// before their end.
fn read_back(
    converter: &mut Converter<'_>,
    job: &FioJob,
    place: &JobFiles,
    workload: &mut Workload,
) {
    let settings = &job.settings;
    let Some(verify) = workload.verify else { return };
    if verify.earlier || verify.sample_percent == 0.0 || !workload.access.writes() {
        return;
    }
    let random = workload.access.lines.iter().any(|line| line.random_percent > 0.0);
    let each = match (settings.verify.backlog, workload.limit_bytes) {
        (0, Some(bytes)) => Some(bytes.div_ceil(settings.loops)),
        (0, None) if random => parts::pass_bytes(settings, place, &workload.access),
        (0, None) => None,
        (ios, _) => Some((ios as f64 * workload.access.mean_bytes()).ceil() as u64),
    };
    let each = each.filter(|_| workload.can_read_back());
    workload.verify = Some(Verify { read_back_bytes: each.unwrap_or(0), ..verify });
    if workload.is_unread() {
        let word = if settings.verify.method.is_some() { "verify" } else { "verify_pattern" };
        converter.note(job, word, Differs, "blocks are compared at the end of the run");
    }
}

/// Adapts the workload to its verification: a job that only verifies reads where it would have
/// written.
pub(super) fn fitting(
    converter: &mut Converter<'_>,
    job: &FioJob,
    place: &JobFiles,
    mut workload: Workload,
) -> Workload {
    let settings = &job.settings;
    read_back(converter, job, place, &mut workload);
    if workload.verify.is_some()
        && let Some(pattern) = &workload.content.pattern
    {
        if let Err(why) = workload.pattern_fits(pattern) {
            converter.refuse(job, "verify_pattern", why);
        }
        if pattern.has_places() && place.stripes.is_some() {
            let why = "%o is an offset in one file, but the job visits several: name one file";
            converter.refuse(job, "verify_pattern", why);
        }
    }
    if !settings.verify.only || !settings.mix.writes || workload.verify.is_none() {
        return workload;
    }
    let access = &mut workload.access;
    let all_random = access.random == Places::Once
        && access.lines.iter().all(|line| line.random_percent == 100.0);
    let sequential = access.lines.iter().all(|line| line.random_percent == 0.0);
    let known = workload.limit_bytes.is_some() || workload.limit_ios.is_some();
    if !(all_random || sequential) || access.size_bytes().is_none() || !known {
        let why = "verify_only needs a single block size, offsets that are each written once, and \
                   a job that ends by its size";
        converter.refuse(job, "verify_only", why);
    }
    for line in &mut access.lines {
        (line.read_percent, line.fua_percent, line.delay_us) = (100.0, 0.0, 0);
    }
    access.flush_every = 0;
    workload.pacing = Pacing::Closed;
    workload.end_flush = false;
    workload
}
