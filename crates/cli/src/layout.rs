//! Files that a job of fio's reads and that are not there: fio writes them first, and so do we.
//!
//! Only what is missing or empty is made. A file that holds something is never touched here.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use block::print_size;
use load::spec::{Content, Group, JobSpec};
use load::{LaidOut, Stop};
use volume::{FileUri, Uri};

use crate::output;

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

/// What a file is to be that is not there.
pub struct Missing {
    /// Its size.
    pub bytes: u64,
    /// What it holds: what the job that reads it first would write.
    content: Content,
    /// Bytes that are written at once: a pattern begins anew with each.
    chunk: usize,
}

/// Files that a group reads and nobody before it writes.
pub fn missing(job: &JobSpec) -> BTreeMap<PathBuf, Missing> {
    let mut written: HashSet<PathBuf> = HashSet::new();
    let mut missing: BTreeMap<PathBuf, Missing> = BTreeMap::new();
    for group in job.steps.iter().flat_map(|step| &step.groups) {
        for (path, bytes) in files(group) {
            if reads(group) && !written.contains(&path) && is_missing(&path) {
                let file = missing.entry(path.clone()).or_insert_with(|| Missing::of(group));
                file.bytes = bytes.max(file.bytes);
            }
            if group.workload.writes() {
                written.insert(path);
            }
        }
    }
    missing
}

impl Missing {
    /// For a group that reads it first.
    fn of(group: &Group) -> Missing {
        // What is compared was not written: nobody must find it.
        let content = match group.workload.verify {
            Some(_) => Content::default(),
            None => group.workload.content.clone(),
        };
        let chunk = match content.pattern {
            Some(_) => group.workload.access.longest_bytes().max(1) as usize,
            None => CHUNK,
        };
        Missing { bytes: 0, content, chunk }
    }
}

/// Whether it reads what it has not written first.
fn reads(group: &Group) -> bool {
    let fills = group.workload.verify.is_some_and(|verify| verify.fill);
    group.workload.access.read_percent() > 0.0 && !fills
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

/// Makes the files of a job that are missing, and returns their names: they hold nothing that
/// anybody wants. `None` if the user asked for an end before.
pub fn make(job: &JobSpec, stop: &Stop) -> Result<Option<Vec<PathBuf>>> {
    let mut names = Vec::new();
    for (number, (path, file)) in (0..).zip(missing(job)) {
        let (name, size) = (path.display(), print_size(file.bytes));
        output::note(format_args!("drumfire: writes {name} first, {size}, as fio does"));
        let mut beside = OsString::from(&path);
        beside.push(".part");
        let beside = PathBuf::from(beside);
        let whole = write(&beside, &file, (job.seed, number), stop);
        let made = whole.and_then(|whole| {
            if whole {
                fs::rename(&beside, &path)?;
            }
            Ok(whole)
        });
        if !matches!(made, Ok(true)) {
            // It would be in the way of what comes next, and may not even be there.
            let _ = fs::remove_file(&beside);
        }
        if !made.with_context(|| format!("cannot write {name}, which the job reads"))? {
            return Ok(None);
        }
        names.push(path);
    }
    Ok(Some(names))
}

/// Makes the folders of the files of a job that are made when they are missing, as fio does.
pub fn folders(job: &JobSpec) -> Result<()> {
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    for (path, _) in groups.flat_map(files) {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
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
    path: &Path,
    missing: &Missing,
    (seed, number): (u64, u64),
    stop: &Stop,
) -> std::io::Result<bool> {
    let mut file = File::create(path)?;
    let mut content = LaidOut::new(&missing.content, seed, number);
    let mut chunk = vec![0; missing.chunk];
    let mut left = missing.bytes;
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
