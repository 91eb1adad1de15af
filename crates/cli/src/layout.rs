//! Creates files before the run: missing files that a fio job reads, and files that a job lays out.
//!
//! Only missing or empty files are created. Only fio's command line changes a file with content: it
//! lays out a file again that is too short.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use block::print_size;
use job::spec::{Content, Group, JobSpec, LaidOut};
use load::{FirstContent, Stop};
use os::{Entry, Folder, new_file, to_write};
use rustix::fs::{FlockOperation, flock, statvfs};
use serde::{Deserialize, Serialize};
use volume::{FileUri, Locks, OpenError, Purpose, Uri};

use crate::exit::UsageError;
use crate::foreign::Format;
use crate::output;

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

/// Content and size of a missing file.
#[derive(Clone, Debug)]
pub struct Making {
    /// Size of the file.
    pub size_bytes: u64,
    /// The file is written completely.
    pub written: bool,
    /// Content of the file.
    content: Content,
    /// Bytes per write; a pattern restarts with each write.
    chunk: usize,
}

/// Handling of files that a job reads before it writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manner {
    /// Files must exist.
    Native,
    /// Missing or empty files are written, unless an earlier group writes them.
    Fio,
    /// Missing, empty or too short files are written, whatever their content, as fio's command line
    /// does.
    FioAnew,
}

impl Manner {
    /// Manner of a job file, by its format.
    pub fn of(file: &str) -> Manner {
        match Format::of(file) {
            Some(Format::Fio) => Manner::Fio,
            _ => Manner::Native,
        }
    }
}

/// Files that are missing, empty, or in [`Manner::FioAnew`] too short: those that the job lays out,
/// and those that a group reads before any group writes them.
pub fn missing(job: &JobSpec, manner: Manner) -> BTreeMap<PathBuf, Making> {
    let mut missing: BTreeMap<PathBuf, Making> = BTreeMap::new();
    let mut take = |path: &Path, size_bytes: u64, written: bool, making: &dyn Fn() -> Making| {
        if is_missing(path) || manner == Manner::FioAnew && is_shorter(path, size_bytes) {
            let making = missing.entry(path.to_owned()).or_insert_with(making);
            making.size_bytes = size_bytes.max(making.size_bytes);
            making.written |= written;
        }
    };
    for file in &job.laid_out {
        take(Path::new(&file.path), file.size_bytes, file.written, &|| Making::laid_out(file));
    }
    let mut known: HashSet<PathBuf> = HashSet::new();
    for group in job.steps.iter().flat_map(|step| &step.groups).filter(|_| manner != Manner::Native)
    {
        for (path, bytes) in files(group) {
            if reads(group) && !known.contains(&path) {
                take(&path, bytes, true, &|| Making::of(group));
            }
            if group.workload.writes() {
                known.insert(path);
            }
        }
    }
    missing
}

impl Making {
    /// Making for an empty file. A group that reads first gets the content that it would write.
    fn of(reader: &Group) -> Making {
        // Default content if reads are verified: data that no worker wrote must not pass.
        let workload = Some(&reader.workload).filter(|it| it.verify.is_none());
        let content = workload.map_or_else(Content::default, |it| it.content.clone());
        let chunk = match (workload, &content.pattern) {
            (Some(workload), Some(_)) => workload.access.longest_bytes().max(1) as usize,
            _ => CHUNK,
        };
        Making { size_bytes: 0, written: false, content, chunk }
    }

    /// Making for a file that only has to exist.
    fn laid_out(file: &LaidOut) -> Making {
        let chunk = file.write_bytes.map_or(CHUNK, |bytes| bytes.max(1) as usize);
        Making { size_bytes: 0, written: false, content: file.content.clone(), chunk }
    }
}

/// Removes the files of groups with `unlink` at the end of the run; devices stay.
pub fn unlink(job: &JobSpec) {
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    for uri in groups.filter(|group| group.unlink).flat_map(|group| &group.volumes) {
        let Ok(Uri::File(FileUri { path, .. })) = uri.parse() else { continue };
        let removed = Folder::trusted_parent(&path).and_then(|(folder, name)| {
            if folder.entry(name)? == Entry::File { folder.remove(Path::new(name)) } else { Ok(()) }
        });
        if let Err(error) = removed {
            output::note(format_args!("drumfire: cannot remove {}: {error}", path.display()));
        }
    }
}

/// Whether a group reads data that it has not written first.
fn reads(group: &Group) -> bool {
    let fills = group.workload.verify.is_some_and(|verify| verify.fill);
    group.workload.access.reads() && !fills
}

/// Files of a group with a known size.
fn files(group: &Group) -> Vec<(PathBuf, u64)> {
    let file = |text: &String| match text.parse() {
        Ok(Uri::File(FileUri { path, size_bytes: Some(bytes), .. })) => Some((path, bytes)),
        _ => None,
    };
    group.volumes.iter().filter_map(file).collect()
}

fn is_missing(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(there) => there.is_file() && there.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn is_shorter(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() < bytes)
}

/// Creates missing folders and files of a rank's job, one rank of a host after the other: ranks may
/// share files. `None` if the user requested a stop.
///
/// # Errors
///
/// Errors of [`has_room`], [`folders`] and [`make`].
pub fn on_this_rank(
    job: &JobSpec,
    manner: Manner,
    destroy: &[String],
    stop: &Stop,
) -> Result<Option<Vec<PathBuf>>> {
    folders(job, manner)?;
    let first = missing(job, manner).into_keys().next();
    let folder = first.as_ref().and_then(|path| path.parent()).map(|folder| match folder {
        none if none.as_os_str().is_empty() => Path::new("."),
        folder => folder,
    });
    // The lock ends with the descriptor. A file system without locks has none.
    let turn = folder.and_then(|folder| File::open(folder).ok());
    let _ = turn.as_ref().map(|folder| flock(folder, FlockOperation::LockExclusive));
    has_room(job, manner)?;
    make(job, manner, destroy, stop)
}

/// Creates missing files of a job and returns their names: their content is disposable. `None` if
/// the user requested a stop.
///
/// # Errors
///
/// A file cannot be created, a file to lay out has content and is too short, or it may not grow
/// because `destroy` does not name it.
pub fn make(
    job: &JobSpec,
    manner: Manner,
    destroy: &[String],
    stop: &Stop,
) -> Result<Option<Vec<PathBuf>>> {
    job.laid_out.iter().try_for_each(fits)?;
    // A file that is replaced or resized must not be in use; one that is created checks this
    // itself.
    for path in missing(job, manner).keys().filter(|path| path.exists()) {
        Locks::default().take(&file_uri(path), Purpose::Destroy)?;
    }
    let mut locks = Locks::default();
    for (path, bytes) in longer(job) {
        let uri = file_uri(&path);
        locks.take(&uri, Purpose::Destroy)?;
        if fs::metadata(&path)?.blocks() > 0 && !volume::may_destroy(&uri, destroy) {
            // Conditions that would refuse the run are reported before its file is changed.
            return Err(OpenError::HoldsData(path).into());
        }
        let (name, size) = (path.display(), print_size(bytes));
        output::note(format_args!("drumfire: extending {name} to {size} before the run"));
        let grown = to_write(&path, false).and_then(|file| file.set_len(bytes));
        grown.with_context(|| format!("cannot extend {name}"))?;
    }
    let mut names = Vec::new();
    for (number, (path, making)) in (0..).zip(missing(job, manner)) {
        let (name, size) = (path.display(), print_size(making.size_bytes));
        if !making.written {
            output::note(format_args!(
                "drumfire: creating {name} before the run, {size} \
                without data"
            ));
            let made = new_file(&path).and_then(|file| file.set_len(making.size_bytes));
            made.with_context(|| format!("cannot create {name}"))?;
            names.push(path);
            continue;
        }
        output::note(format_args!("drumfire: laying out {name}, {size}, like fio"));
        let made = Folder::trusted_parent(&path).and_then(|(folder, file)| {
            let draft = folder.draft()?;
            let whole = write(&draft.file, &making, (job.seed, number), stop)?;
            if whole {
                draft.keep(file)?;
            }
            Ok(whole)
        });
        if !made.with_context(|| format!("cannot write {name}"))? {
            return Ok(None);
        }
        names.push(path);
    }
    Ok(Some(names))
}

fn file_uri(path: &Path) -> Uri {
    Uri::File(FileUri { path: path.to_owned(), ..FileUri::default() })
}

/// Refuses to write more than the free space of any of the file systems.
pub fn has_room(job: &JobSpec, manner: Manner) -> Result<()> {
    // For each device number: bytes to write, bytes free, and a file on the device.
    let mut wanted: BTreeMap<u64, (u64, u64, &Path)> = BTreeMap::new();
    let missing = missing(job, manner);
    for (path, making) in missing.iter().filter(|(_, making)| making.written) {
        // Folder of the file, or its nearest existing parent.
        let folder = path.ancestors().skip(1).find(|above| above.exists());
        let folder = folder.unwrap_or(Path::new("."));
        let (Ok(about), Ok(system)) = (fs::metadata(folder), statvfs(folder)) else { continue };
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        let (sum, ..) = wanted.entry(about.dev()).or_insert((0, free, path));
        *sum = sum.saturating_add(making.size_bytes);
    }
    for (sum, free, path) in wanted.into_values() {
        let digits = if free >> 30 > 0 { 30 } else { 20 };
        let rounded = free >> digits << digits;
        ensure!(
            sum <= free,
            "{}: the layout needs {}, and {} are free in this file system",
            path.display(),
            print_size(sum),
            print_size(rounded),
        );
    }
    Ok(())
}

/// Files with content that grow, with their final size.
pub fn longer(job: &JobSpec) -> Vec<(PathBuf, u64)> {
    let grows = job.laid_out.iter().filter(|file| file.grows && short(file).is_some());
    grows.map(|file| (PathBuf::from(&file.path), file.size_bytes)).collect()
}

/// Size of a file that has content but is shorter than requested.
fn short(file: &LaidOut) -> Option<u64> {
    let there = fs::metadata(&file.path).ok().filter(fs::Metadata::is_file)?;
    Some(there.len()).filter(|bytes| (1..file.size_bytes).contains(bytes))
}

/// Whether an existing file may be used as it is: fio rewrites a shorter one.
fn fits(file: &LaidOut) -> Result<()> {
    match short(file).filter(|_| !file.grows) {
        Some(bytes) => {
            let (path, has) = (&file.path, print_size(bytes));
            let why = format!(
                "{path} has {has}, and the job needs {}: remove it first",
                print_size(file.size_bytes)
            );
            Err(UsageError(why).into())
        }
        None => Ok(()),
    }
}

/// Creates the missing folders of the files that a fio job creates, as fio does, and reports this.
/// Folders of files that a native job lays out must exist.
pub fn folders(job: &JobSpec, manner: Manner) -> Result<()> {
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    let laid_out = job.laid_out.iter().map(|file| PathBuf::from(&file.path));
    for path in groups.flat_map(files).map(|(path, _)| path).chain(laid_out) {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let name = folder.display();
            if folder.exists() {
                continue;
            }
            if manner == Manner::Native {
                let file = path.display();
                let why = format!("cannot lay out {file}: {name} is missing: create it first");
                return Err(UsageError(why).into());
            }
            output::note(format_args!("drumfire: creating the folder {name}, like fio"));
            Folder::make_trusted(folder)
                .with_context(|| format!("cannot create the folder {name}"))?;
        }
    }
    Ok(())
}

/// Whether a job drives only files, or null volumes. A name in `--destroy` then allows nothing
/// else; volumes of other kinds only check whether any name was given.
pub fn only_files(job: &JobSpec) -> bool {
    let mut volumes = job.steps.iter().flat_map(|step| &step.groups).flat_map(|g| &g.volumes);
    volumes.all(|text| matches!(text.parse(), Ok(Uri::File(_) | Uri::Null { .. })))
}

/// Writes a file and syncs it to its device, so that write-back does not overlap with the run.
fn write(
    mut file: &File,
    making: &Making,
    (seed, number): (u64, u64),
    stop: &Stop,
) -> std::io::Result<bool> {
    let mut content = FirstContent::new(&making.content, seed, number);
    let mut chunk = vec![0; making.chunk];
    let mut left = making.size_bytes;
    while left > 0 {
        if stop.asked() > 0 {
            return Ok(false);
        }
        content.fill(&mut chunk);
        let part = left.min(chunk.len() as u64);
        file.write_all(&chunk[..part as usize])?;
        left -= part;
    }
    file.sync_all()?;
    Ok(true)
}
