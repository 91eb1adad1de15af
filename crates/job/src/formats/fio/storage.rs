//! Volumes of a job, and the used part of each.

use std::collections::HashMap;
use std::ops;

use super::append;
use super::calls;
use super::convert::Converter;
use super::extents;
use super::job::FioJob;
use super::passthrough;
use super::remote;
use super::service;
use super::settings::{Engine, Settings, Sizes};
use super::value::Amount;
use crate::formats::note::Treatment;
use crate::formats::reading::Storage;
use crate::spec::{FileWalk, Range, Step, Stripes};

/// Alignment of sizes and offsets of files by default.
const SECTOR_BYTES: u64 = 512;
/// Size of a device without storage, if none is configured, in bytes.
pub(super) const ENDLESS_BYTES: u64 = 1 << 40;
/// Default name format of generated files.
const NAME_FORMAT: &str = "$jobname.$jobnum.$filenum";

/// Volumes of a job, or of one clone.
pub struct JobFiles {
    /// URIs of the volumes.
    pub volumes: Vec<String>,
    /// True if each clone has its own file; all of them are in `volumes`.
    pub own_files: bool,
    /// Number of files that one clone goes through.
    pub files: u32,
    /// Stripes in which the clone goes from one file to the next.
    pub stripes: Option<Stripes>,
    /// Order of files, if not in turn.
    pub turns: Option<FileWalk>,
    /// Used part of each volume.
    pub range: Range,
    /// Length of that part in bytes, if known: what one worker goes through.
    pub part_bytes: Option<u64>,
    /// Size of the smallest volume in bytes, if known.
    pub whole_bytes: Option<u64>,
}

/// Returns the volumes of those `clones` of a job that share a part. `None` if they were refused.
pub(super) fn place(
    converter: &mut Converter<'_>,
    job: &FioJob,
    clones: ops::Range<u32>,
) -> Option<JobFiles> {
    let settings = &job.settings;
    let offset = append::offset(converter, job, clones.start)?;
    let (storages, own_files) = storages(converter, job, offset, clones)?;
    let mut volumes = Vec::new();
    for storage in &storages {
        match converter.volume(storage) {
            Ok(uri) => volumes.push(uri),
            Err(why) => {
                converter.refuse(job, "filename", &why);
                return None;
            }
        }
    }
    let files = if own_files { 1 } else { storages.len() as u32 };
    let together = service::together(settings, files);
    if files > 1 && !together {
        let why = "one worker per file, each with its part of the queue depth, at least 1; fio \
                   visits the files with one queue depth for all";
        converter.note(job, "filename", Treatment::Differs, why);
    }
    let known = |(storage, uri): (&Storage, &String)| real_bytes(converter, job, storage, uri);
    let lengths: Vec<Option<u64>> = storages.iter().zip(&volumes).map(known).collect();
    for storage in &storages {
        if let Storage::File { path, size_bytes: Some(bytes), .. } = storage {
            let made = converter.made.entry(path.clone()).or_default();
            *made = (*bytes).max(*made);
        }
    }
    if settings.appends {
        append::grow(converter, &storages);
    }
    let least = lengths.iter().flatten().min().copied();
    let (range, part_bytes) = extents::part(converter, job, files, offset, &lengths)?;
    if together {
        return service::striped(converter, job, volumes, files, part_bytes);
    }
    let begin = extents::start(settings, offset, least);
    let whole_bytes = least.max(part_bytes.and_then(|bytes| bytes.checked_add(begin)));
    let (stripes, turns) = (None, None);
    Some(JobFiles { volumes, own_files, files, stripes, turns, range, part_bytes, whole_bytes })
}

/// Returns the size of a file or volume, now or after a previous job has created it.
pub(super) fn real_bytes(
    converter: &mut Converter<'_>,
    job: &FioJob,
    storage: &Storage,
    uri: &str,
) -> Option<u64> {
    let made = match storage {
        Storage::File { path, .. } if converter.options.volumes.is_empty() => {
            converter.made.get(path).copied()
        }
        _ => None,
    };
    made.max(converter.capacity(job, uri))
}

/// Returns the storages, and whether each clone has its own.
pub(super) fn storages(
    converter: &mut Converter<'_>,
    job: &FioJob,
    offset: Amount,
    clones: ops::Range<u32>,
) -> Option<(Vec<Storage>, bool)> {
    let settings = &job.settings;
    match settings.engine {
        Engine::Nothing => {
            let start = if let Amount::Bytes(start) = offset { start } else { 0 };
            let Some(size) = extents::length(settings, 1, start, None) else {
                converter.refuse(job, "size", "ioengine=null needs a size in bytes");
                return None;
            };
            Some((vec![Storage::nothing(size.saturating_add(start))], false))
        }
        Engine::Calls(kind) => calls::storages(converter, job, kind, clones),
        Engine::Remote | Engine::Spdk | Engine::Bdev | Engine::Nbd => {
            Some((remote::storages(converter, job)?, false))
        }
        Engine::Passthrough | Engine::Synchronous | Engine::Kernel | Engine::Libaio => {
            let (names, own_files) = names(converter, job, clones)?;
            let paths: Vec<String> = names.iter().map(|name| path(settings, name)).collect();
            passthrough::check(converter, job, &paths)?;
            if settings.engine == Engine::Passthrough {
                let storage = |path| passthrough::storage(job, path);
                return Some((paths.into_iter().map(storage).collect(), own_files));
            }
            let files = if own_files { 1 } else { names.len() as u32 };
            let odd = is_odd(settings);
            let iopoll = polls(converter, job, paths.first().map_or("", String::as_str));
            let file = |path: &String| {
                let storage = |size_bytes| Storage::File {
                    path: path.clone(),
                    block_bytes: (!settings.direct && odd).then_some(1),
                    size_bytes,
                    direct: settings.direct,
                    iopoll,
                    // Only io_uring supports it.
                    sqpoll: settings.sqthread_poll && settings.engine == Engine::Kernel,
                };
                let start = match offset {
                    Amount::Bytes(start) => start,
                    Amount::Percent(_) => {
                        let bare = storage(None);
                        let uri = (converter.options.volume)(&bare).unwrap_or_default();
                        extents::start(settings, offset, real_bytes(converter, job, &bare, &uri))
                    }
                };
                let length = extents::length(settings, files, start, None);
                let own = length.and_then(|length| length.checked_add(start));
                // A previous job may have created the file with a larger size.
                storage(own.max(converter.made.get(path).copied()))
            };
            let storages = paths.iter().map(file).collect();
            Some((nowhere(converter, job, storages), own_files))
        }
    }
}

/// Returns whether completions are polled for. As in fio, only reads by io_uring fail if a device
/// has no poll queues; through the page cache polling has no effect.
fn polls(converter: &mut Converter<'_>, job: &FioJob, path: &str) -> bool {
    let settings = &job.settings;
    if !settings.hipri || !settings.direct {
        return false;
    }
    let fails = settings.engine == Engine::Kernel && settings.mix.reads;
    let polled = fails || (converter.options.polls)(path);
    if !polled {
        let why = "the device has no poll queues: completions use interrupts, as in fio";
        converter.note(job, "hipri", Treatment::Differs, why);
    }
    polled
}

/// Replaces devices that store nothing by a volume without storage.
fn nowhere(
    converter: &mut Converter<'_>,
    job: &FioJob,
    mut storages: Vec<Storage>,
) -> Vec<Storage> {
    for storage in &mut storages {
        if let Storage::File { path, size_bytes, .. } = storage
            && matches!(path.as_str(), "/dev/null" | "/dev/zero")
        {
            let why = "completed at once without a system call, as by ioengine=null";
            converter.note(job, "filename", Treatment::Differs, why);
            *storage = Storage::nothing(size_bytes.unwrap_or(ENDLESS_BYTES));
        }
    }
    storages
}

/// Extends files that several jobs use to the largest size that any job needs.
pub(super) fn widest(converter: &Converter<'_>, steps: &mut [Step]) {
    if !converter.options.volumes.is_empty() {
        return;
    }
    let mut longest: HashMap<&str, u64> = HashMap::new();
    for storage in converter.named.keys() {
        if let Storage::File { path, size_bytes: Some(bytes), .. } = storage {
            let most = longest.entry(path).or_default();
            *most = (*bytes).max(*most);
        }
    }
    let mut longer: HashMap<String, String> = HashMap::new();
    for storage in converter.named.keys() {
        let Storage::File { path, size_bytes: Some(bytes), .. } = storage else { continue };
        let Some(most) = longest.get(path.as_str()).filter(|most| *most > bytes) else { continue };
        let mut wide = storage.clone();
        if let Storage::File { size_bytes, .. } = &mut wide {
            *size_bytes = Some(*most);
        }
        let uri = converter.options.volume;
        if let (Ok(old), Ok(new)) = (uri(storage), uri(&wide)) {
            longer.insert(old, new);
        }
    }
    let groups = steps.iter_mut().flat_map(|step| &mut step.groups);
    for uri in groups.flat_map(|group| &mut group.volumes) {
        if let Some(new) = longer.get(uri) {
            uri.clone_from(new);
        }
    }
}

/// Returns names of files: given ones, or those that fio would generate.
pub(super) fn names(
    converter: &mut Converter<'_>,
    job: &FioJob,
    clones: ops::Range<u32>,
) -> Option<(Vec<String>, bool)> {
    let settings = &job.settings;
    if let Some(odd) = settings.files.iter().find(|name| name.contains('?')) {
        converter.refuse(job, "filename", &format!("{odd}: file names cannot contain ?"));
        return None;
    }
    if !settings.files.is_empty() {
        return Some((settings.files.clone(), false));
    }
    // A format may name files that an earlier run has left.
    let sized = settings.size.is_some() || settings.file_size.is_some();
    if !sized && settings.name_format.is_none() {
        converter.refuse(job, "filename", "neither a file nor a size: set filename or size");
        return None;
    }
    let format = settings.name_format.as_deref().unwrap_or(NAME_FORMAT);
    let has = |word| format.char_indices().any(|(at, _)| begins_with(&format[at..], word));
    let of_job = has("$jobname");
    let odd = format.contains('?') || of_job && job.section.contains(['/', '?']);
    if odd {
        converter.refuse(job, "name", "file names cannot contain / or ?");
        return None;
    }
    // The m-th file of the n-th clone is named NAME.n.m, as in fio.
    let files = settings.nr_files;
    let name = |(clone, file): (u32, u32)| {
        let numbered = settings.calls.each_bytes.is_some();
        let file = if numbered { "$filenum".to_owned() } else { file.to_string() };
        made_up(format, &job.section, clone, &file)
    };
    if !has("$jobnum") && settings.clones > 1 && clones.start == 0 {
        let why = "all clones use the same files; in fio only the first clone does";
        converter.note(job, "filename_format", Treatment::Differs, why);
    }
    // Without `$jobnum` all clones have the same files, and without `$filenum` all files are one.
    let clones = if has("$jobnum") { clones } else { 0..1 };
    let own = files == 1 && has("$jobnum");
    let files = if has("$filenum") { files } else { 1 };
    let all = clones.flat_map(|clone| (0..files).map(move |file| (clone, file)));
    Some((all.map(name).collect(), own))
}

/// Returns the name of a file by its format. Without clients `$clientuid` is empty, as in fio.
fn made_up(format: &str, job: &str, clone: u32, file: &str) -> String {
    let clone = clone.to_string();
    let words = [("$jobnum", &*clone), ("$filenum", file), ("$clientuid", ""), ("$jobname", job)];
    let mut name = String::new();
    let mut rest = format;
    while let Some(next) = rest.chars().next() {
        match words.iter().find(|(word, _)| begins_with(rest, word)) {
            Some((word, text)) => {
                name.push_str(text);
                rest = &rest[word.len()..];
            }
            None => {
                name.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    name
}

/// Returns whether a text begins with an ASCII word, ignoring case, as fio does.
fn begins_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
}

/// Returns whether sizes or offsets are no whole sectors, which works through the page cache.
pub(super) fn is_odd(settings: &Settings) -> bool {
    let ranges = settings.sizes.iter().any(|sizes| matches!(sizes, Sizes::Range(..)));
    if settings.unaligned && ranges {
        return true;
    }
    let sizes = settings.sizes.iter().flat_map(|sizes| match sizes {
        Sizes::Fixed(size) => vec![*size],
        Sizes::Range(least, most) => vec![*least, *most],
        Sizes::Split(split) => split.iter().map(|(size, _)| *size).collect(),
    });
    let aligns = settings.align_bytes.iter().flatten().copied();
    let offsets = [settings.offset, settings.offset_increment].map(|amount| match amount {
        Amount::Bytes(bytes) => bytes,
        Amount::Percent(_) => 0,
    });
    let aligned = Some(settings.offset_align).filter(|_| settings.offset_in_percent());
    sizes
        .chain(aligns)
        .chain(offsets)
        .chain(aligned)
        .any(|bytes| !bytes.is_multiple_of(SECTOR_BYTES))
}

pub(super) fn path(settings: &Settings, name: &str) -> String {
    match &settings.directory {
        Some(directory) => format!("{}/{name}", directory.trim_end_matches('/')),
        None => name.to_owned(),
    }
}
