//! Files that a job of fio's reads and that are not there, or that a job lays out: they are made
//! first.
//!
//! Only what is missing or empty is made. A file that holds something is touched by fio's command
//! line alone, which lays out anew what is too short.

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
use rustix::fs::statvfs;
use volume::{FileUri, Locks, OpenError, Purpose, Uri};

use crate::exit::UsageError;
use crate::foreign::Format;
use crate::output;

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

/// What a file that is missing becomes.
#[derive(Clone, Debug)]
pub struct Making {
    /// How long.
    pub size_bytes: u64,
    /// All of it is written.
    pub written: bool,
    /// What it holds then.
    content: Content,
    /// Bytes that are written at once: a pattern begins anew with each.
    chunk: usize,
}

/// How files of a job come about that it reads and has not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// They must be there.
    Native,
    /// Those that are missing or empty are written, unless a group before writes them.
    Fio,
    /// So are those that are too short, whatever they hold, as fio's command line does.
    FioAnew,
}

impl Manner {
    /// That of a job file by its name.
    pub fn of(file: &str) -> Manner {
        match Format::of(file) {
            Some(Format::Fio) => Manner::Fio,
            _ => Manner::Native,
        }
    }
}

/// Files that are missing or empty, or too short where that is the manner: those that the job lays
/// out, and those that a group reads and nobody before it writes.
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
    /// A file of no length yet. What a group reads first is what it would write.
    fn of(reader: &Group) -> Making {
        // What is compared was not written: nobody must find it.
        let workload = Some(&reader.workload).filter(|it| it.verify.is_none());
        let content = workload.map_or_else(Content::default, |it| it.content.clone());
        let chunk = match (workload, &content.pattern) {
            (Some(workload), Some(_)) => workload.access.longest_bytes().max(1) as usize,
            _ => CHUNK,
        };
        Making { size_bytes: 0, written: false, content, chunk }
    }

    /// The same of a file that must only exist.
    fn laid_out(file: &LaidOut) -> Making {
        let chunk = file.write_bytes.map_or(CHUNK, |bytes| bytes.max(1) as usize);
        Making { size_bytes: 0, written: false, content: file.content.clone(), chunk }
    }
}

/// Removes the files of groups that want that of theirs when all is over; devices stay.
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

/// Whether it reads what it has not written first.
fn reads(group: &Group) -> bool {
    let fills = group.workload.verify.is_some_and(|verify| verify.fill);
    group.workload.access.reads() && !fills
}

/// The files of a group whose sizes are known.
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

/// Makes the files of a job that are missing, and returns their names: they hold nothing that
/// anybody wants. `None` if the user asked for an end before.
///
/// # Errors
///
/// When a file cannot be made, or one that is laid out holds something and is too short, or may not
/// become longer because `destroy` does not name it.
pub fn make(
    job: &JobSpec,
    manner: Manner,
    destroy: &[String],
    stop: &Stop,
) -> Result<Option<Vec<PathBuf>>> {
    job.laid_out.iter().try_for_each(fits)?;
    // Nobody else uses a file whose name becomes another file's, which asks again when it does, or
    // one that gets another length.
    for path in missing(job, manner).keys().filter(|path| path.exists()) {
        Locks::default().take(&file_uri(path), Purpose::Destroy)?;
    }
    let mut locks = Locks::default();
    for (path, bytes) in longer(job) {
        let uri = file_uri(&path);
        locks.take(&uri, Purpose::Destroy)?;
        if fs::metadata(&path)?.blocks() > 0 && !volume::may_destroy(&uri, destroy) {
            // What would refuse the run says so before its file is another one.
            return Err(OpenError::HoldsData(path).into());
        }
        let (name, size) = (path.display(), print_size(bytes));
        output::note(format_args!("drumfire: extends {name} to {size} first"));
        let grown = to_write(&path, false).and_then(|file| file.set_len(bytes));
        grown.with_context(|| format!("cannot extend {name}"))?;
    }
    let mut names = Vec::new();
    for (number, (path, making)) in (0..).zip(missing(job, manner)) {
        let (name, size) = (path.display(), print_size(making.size_bytes));
        if !making.written {
            output::note(format_args!("drumfire: creates {name} first, {size} without data"));
            let made = new_file(&path).and_then(|file| file.set_len(making.size_bytes));
            made.with_context(|| format!("cannot make {name}"))?;
            names.push(path);
            continue;
        }
        output::note(format_args!("drumfire: writes {name} first, {size}, as fio does"));
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

/// Refuses to write more than there is room for on any of the file systems.
pub fn has_room(job: &JobSpec, manner: Manner) -> Result<()> {
    // By the number of each: what is to be written, what is free, and a file there.
    let mut wanted: BTreeMap<u64, (u64, u64, &Path)> = BTreeMap::new();
    let missing = missing(job, manner);
    for (path, making) in missing.iter().filter(|(_, making)| making.written) {
        // Its folder, or where that will be made.
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
            "{}: {} are to be written first, and {} are free there",
            path.display(),
            print_size(sum),
            print_size(rounded),
        );
    }
    Ok(())
}

/// Files that hold something and are made longer, with the length that each is to have.
pub fn longer(job: &JobSpec) -> Vec<(PathBuf, u64)> {
    let grows = job.laid_out.iter().filter(|file| file.grows && short(file).is_some());
    grows.map(|file| (PathBuf::from(&file.path), file.size_bytes)).collect()
}

/// How long a file is that holds something, and less than it is to have.
fn short(file: &LaidOut) -> Option<u64> {
    let there = fs::metadata(&file.path).ok().filter(fs::Metadata::is_file)?;
    Some(there.len()).filter(|bytes| (1..file.size_bytes).contains(bytes))
}

/// Whether a file that is laid out may stay as it is: fio writes a shorter one anew.
fn fits(file: &LaidOut) -> Result<()> {
    match short(file).filter(|_| !file.grows) {
        Some(bytes) => {
            let (path, has) = (&file.path, print_size(bytes));
            let why = format!(
                "{path} holds {has}, and {} are needed: remove it first",
                print_size(file.size_bytes)
            );
            Err(UsageError(why).into())
        }
        None => Ok(()),
    }
}

/// Makes the folders of the files of a job of fio's that are made when they are missing, as fio
/// does, and says so. Where a job of our own lays files out, their folders are there.
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
            output::note(format_args!("drumfire: creates the folder {name} first, as fio does"));
            Folder::make_trusted(folder)
                .with_context(|| format!("cannot create the folder {name}"))?;
        }
    }
    Ok(())
}

/// Whether a job drives files only, or what keeps nothing. To name one of them as what may be
/// overwritten allows nothing else then; a volume of another kind asks only whether anything was
/// named.
pub fn only_files(job: &JobSpec) -> bool {
    let mut volumes = job.steps.iter().flat_map(|step| &step.groups).flat_map(|g| &g.volumes);
    volumes.all(|text| matches!(text.parse(), Ok(Uri::File(_) | Uri::Null { .. })))
}

/// Writes a file down to the device: the run begins without it.
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
