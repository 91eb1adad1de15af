//! Which volumes a job drives, and which part of each.

use std::collections::HashMap;
use std::ops;

use super::convert::{Converter, range};
use super::job::FioJob;
use super::settings::{Engine, Service, Settings, Sizes};
use super::value::Amount;
use super::{access, parts};
use crate::formats::note::Treatment;
use crate::formats::reading::Storage;
use crate::spec::{Range, Step, Stripes};

/// What lengths and places of files are multiples of, if nothing else is wanted.
const SECTOR_BYTES: u64 = 512;
/// What files are called that are not named.
const NAME_FORMAT: &str = "$jobname.$jobnum.$filenum";

/// Where a job, or one clone of it, works.
pub struct Place {
    /// URIs of the volumes.
    pub volumes: Vec<String>,
    /// Each clone has a file of its own, and all of them stand in `volumes`.
    pub own_files: bool,
    /// Files that one clone goes through.
    pub files: u32,
    /// The clone goes from one file to the next.
    pub stripes: Option<Stripes>,
    /// The part of each volume that is used.
    pub range: Range,
    /// How long that part is, where it is known: what one worker goes through.
    pub part_bytes: Option<u64>,
    /// How long the shortest volume is, where it is known.
    pub whole_bytes: Option<u64>,
}

/// The place of those `clones` of a job that work on the same part. `None`: it was refused.
pub(super) fn place(
    converter: &mut Converter<'_>,
    job: &FioJob,
    clones: ops::Range<u32>,
) -> Option<Place> {
    let settings = &job.settings;
    let offset = parts::offset(converter, job, clones.start)?;
    let (storages, offset, own_files) = storages(converter, job, offset, clones)?;
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
    let together = together(settings, files);
    if files > 1 && !together {
        let why = "a worker for each file with its part of the depth, one at least; fio goes from \
                   file to file with one depth for all";
        converter.note(job, "filename", Treatment::Differs, why);
    }
    let known = |(storage, uri): (&Storage, &String)| {
        let made = match storage {
            Storage::File { path, .. } if converter.options.volumes.is_empty() => {
                converter.made.get(path).copied()
            }
            _ => None,
        };
        made.max((converter.options.capacity)(uri))
    };
    let capacity = storages.iter().zip(&volumes).filter_map(known).min();
    for storage in &storages {
        if let Storage::File { path, size_bytes: Some(bytes), .. } = storage {
            let made = converter.made.entry(path.clone()).or_default();
            *made = (*bytes).max(*made);
        }
    }
    let part = parts::part(settings, files, offset);
    let part_bytes = parts::part_bytes(part, offset, capacity);
    let whole_bytes = capacity.max(parts::file_bytes(part, offset));
    let range = range(offset, part);
    if together {
        return striped(converter, job, volumes, files, part_bytes);
    }
    Some(Place { volumes, own_files, files, stripes: None, range, part_bytes, whole_bytes })
}

/// Whether a clone goes from one file to the next: where it has fewer I/Os under way than files,
/// or makes the files up. Otherwise a worker for each file does the same with less effort.
fn together(settings: &Settings, files: u32) -> bool {
    files > 1 && (settings.files.is_empty() || settings.under_way() < files)
}

/// The place of a clone that goes from one file to the next.
fn striped(
    converter: &mut Converter<'_>,
    job: &FioJob,
    volumes: Vec<String>,
    files: u32,
    part_bytes: Option<u64>,
) -> Option<Place> {
    let settings = &job.settings;
    let random = settings.mix.random;
    let size = access::size(settings).filter(|_| settings.align_bytes == [None; 3]);
    let plain = settings.offset == Amount::Bytes(0) && settings.mix.hole_bytes == 0;
    let (Some(size), true, Engine::Synchronous | Engine::Kernel | Engine::Libaio) =
        (size, plain, settings.engine)
    else {
        let why = "over several files go I/Os of one size, without offset, holes and blockalign";
        converter.refuse(job, "nrfiles", why);
        return None;
    };
    let part = part_bytes.map(|bytes| bytes / size * size).filter(|bytes| *bytes > 0);
    let service = match (settings.service, settings.open_files) {
        // The next one is opened when the last one is done.
        (Service::Turns(_), Some(1)) => Service::OneByOne,
        (service, Some(open)) if (2..files).contains(&open) => {
            let why = "all files are open at once, and all take turns";
            converter.note(job, "openfiles", Treatment::Differs, why);
            service
        }
        (service, _) => service,
    };
    let bytes = match (service, part) {
        (Service::Turns(count), _) => size * u64::from(count),
        (Service::Random, _) if random => size,
        (Service::OneByOne, Some(part)) => part,
        (Service::Random | Service::OneByOne, _) => {
            let why =
                "sequential I/Os go from file to file in turn, or with a known size one by one";
            converter.refuse(job, "file_service_type", why);
            return None;
        }
    };
    if part.is_some_and(|part| !part.is_multiple_of(bytes)) {
        let why = "each file holds a whole number of turns";
        converter.refuse(job, "file_service_type", why);
        return None;
    }
    if random && settings.service != Service::Random {
        let why = "files come by chance, each as often, not in turn";
        converter.note(job, "file_service_type", Treatment::Differs, why);
    }
    let stripes = Some(Stripes { bytes, share_bytes: part });
    let part_bytes = part.and_then(|bytes| bytes.checked_mul(u64::from(files)));
    let (own_files, range) = (false, Range::WHOLE);
    Some(Place { volumes, own_files, files: 1, stripes, range, part_bytes, whole_bytes: None })
}

/// What stores, where the part of it begins, and whether each clone has its own.
fn storages(
    converter: &mut Converter<'_>,
    job: &FioJob,
    offset: Amount,
    clones: ops::Range<u32>,
) -> Option<(Vec<Storage>, Amount, bool)> {
    let settings = &job.settings;
    match settings.engine {
        Engine::Nothing => {
            let Some(Amount::Bytes(size)) = parts::part(settings, 1, offset) else {
                converter.refuse(job, "size", "ioengine=null wants a size in bytes");
                return None;
            };
            let start = if let Amount::Bytes(start) = offset { start } else { 0 };
            let size_bytes = size.saturating_add(start);
            Some((vec![Storage::Nothing { size_bytes }], offset, false))
        }
        Engine::Remote => {
            let named = settings.files.iter().all(|name| name.contains("://"));
            if settings.files.is_empty() || !named {
                converter.refuse(job, "filename", "libiscsi wants the URI of a volume");
                return None;
            }
            let storages = settings.files.iter().map(|uri| Storage::Uri(uri.clone())).collect();
            Some((storages, offset, false))
        }
        Engine::Synchronous | Engine::Kernel | Engine::Libaio => {
            let (names, own_files) = names(converter, job, clones)?;
            let files = if own_files { 1 } else { names.len() as u32 };
            let odd = is_odd(settings);
            let file = |name: &String, own: Option<u64>, made: Option<u64>| Storage::File {
                path: path(settings, name),
                block_bytes: (!settings.direct && odd).then_some(1),
                // A job before may have made it, and larger.
                size_bytes: own.max(made),
                direct: settings.direct,
                iopoll: settings.hipri,
                // Only io_uring has it.
                sqpoll: settings.sqthread_poll && settings.engine == Engine::Kernel,
            };
            let made = |name: &String| converter.made.get(&path(settings, name)).copied();
            let bare: Vec<Storage> =
                names.iter().map(|name| file(name, None, made(name))).collect();
            let offset = parts::of_missing(converter, job, offset, &bare);
            let own = parts::file_bytes(parts::part(settings, files, offset), offset);
            let made = |name: &String| converter.made.get(&path(settings, name)).copied();
            let storages = names.iter().map(|name| file(name, own, made(name))).collect();
            Some((storages, offset, own_files))
        }
    }
}

/// Files that several jobs use are made as long as the one wants them that goes furthest.
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

/// Names of files: those that are given, or those that fio would make up.
fn names(
    converter: &mut Converter<'_>,
    job: &FioJob,
    clones: ops::Range<u32>,
) -> Option<(Vec<String>, bool)> {
    let settings = &job.settings;
    if let Some(odd) = settings.files.iter().find(|name| name.contains('?')) {
        converter.refuse(job, "filename", &format!("{odd}: no ? can stand in a name"));
        return None;
    }
    if !settings.files.is_empty() {
        return Some((settings.files.clone(), false));
    }
    // By a format files can be meant that a run before has left.
    let sized = settings.size.is_some() || settings.file_size.is_some();
    if !sized && settings.name_format.is_none() {
        converter.refuse(job, "filename", "no file is named, and no size to make one of");
        return None;
    }
    let format = settings.name_format.as_deref().unwrap_or(NAME_FORMAT);
    let has = |word| format.char_indices().any(|(at, _)| begins_with(&format[at..], word));
    let of_job = has("$jobname");
    let odd = format.contains('?') || of_job && job.section.contains(['/', '?']);
    if odd {
        converter.refuse(job, "name", "no / and ? can stand in the name of a file");
        return None;
    }
    // The m-th file of the n-th clone is called NAME.n.m, as with fio.
    let files = settings.nr_files;
    let name = |(clone, file): (u32, u32)| made_up(format, &job.section, clone, file);
    if !has("$jobnum") && settings.clones > 1 && clones.start == 0 {
        let why = "all clones work on the same files; of fio's only the first does";
        converter.note(job, "filename_format", Treatment::Differs, why);
    }
    // Without its number all clones have the same files, and without theirs all files are one.
    let clones = if has("$jobnum") { clones } else { 0..1 };
    let own = files == 1 && has("$jobnum");
    let files = if has("$filenum") { files } else { 1 };
    let all = clones.flat_map(|clone| (0..files).map(move |file| (clone, file)));
    Some((all.map(name).collect(), own))
}

/// The name of a file by its format. Without clients `$clientuid` is nothing, as with fio.
fn made_up(format: &str, job: &str, clone: u32, file: u32) -> String {
    let (clone, file) = (clone.to_string(), file.to_string());
    let words = [("$jobnum", &*clone), ("$filenum", &file), ("$clientuid", ""), ("$jobname", job)];
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

/// Whether a text begins with a word of ASCII, in any case, as fio reads them.
fn begins_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
}

/// Whether lengths or places are no whole sectors: through the page cache that works.
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
    sizes.chain(aligns).chain(offsets).any(|bytes| !bytes.is_multiple_of(SECTOR_BYTES))
}

pub(super) fn path(settings: &Settings, name: &str) -> String {
    match &settings.directory {
        Some(directory) => format!("{}/{name}", directory.trim_end_matches('/')),
        None => name.to_owned(),
    }
}
