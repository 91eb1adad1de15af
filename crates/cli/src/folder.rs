//! The folder of a run: the result first, then its renderings.

mod successor;

use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stats::RunResult;

pub use self::successor::{Place, Successor};
use crate::exit::UsageError;
use crate::signal;

/// Names in a folder with a result, and in one whose run was interrupted before its first result.
const KEPT: [&str; 4] = ["sweep.json", "result.json", "job.toml", "step-1"];
/// Documents of a folder with a result.
const DOCUMENTS: [&str; 3] = ["sweep.json", "result.json", "report.txt"];
/// Keeps others out of the folder of a sweep.
pub const LOCK: &str = "lock";
/// Runs that may begin in the same second and folder.
const RUNS_MAX: u32 = 10_000;

/// Folder of a run, created before the run so that no result is lost. A folder that stays empty is
/// removed, and so are the parent folders that were created for it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Folders that this run created, innermost first.
    made: Vec<PathBuf>,
    /// Lock against other runs while the folder is open.
    _lock: Option<File>,
}

impl Folder {
    /// Creates the folder at the user's path, or a new one named after the time and `name`. The
    /// folder is used exclusively; one with a result is accepted only to `replace` that result, by
    /// a [`Successor`].
    pub fn new(out: Option<&Path>, name: &str, replace: bool) -> Result<Folder> {
        let Some(path) = out else {
            let time = jiff::Zoned::now().strftime("%Y-%m-%dT%H-%M-%S").to_string();
            return unused(Path::new("drumfire-runs"), &format!("{time}-{name}"));
        };
        let mut folder = Folder::at(path)?;
        // Locked before its files are checked: those of a run in progress are no result yet.
        folder._lock = lock(path)?;
        refuse_kept(path, replace)?;
        Ok(folder)
    }

    /// A folder for the results of several runs, used exclusively.
    pub fn shared(out: Option<&Path>, name: &str) -> Result<Folder> {
        let Some(path) = out else { return Folder::new(None, name, false) };
        let mut folder = Folder::at(path)?;
        folder._lock = lock(path)?;
        Ok(folder)
    }

    /// Creates the folder at a given path.
    pub fn at(path: &Path) -> Result<Folder> {
        let (_, made) = os::Folder::make_trusted(path)
            .with_context(|| format!("cannot create the run's folder {}", path.display()))?;
        Ok(Folder { path: path.to_owned(), made, _lock: None })
    }
}

/// Refuses a folder with a result, unless that is to be replaced; only a sweep replaces a sweep.
pub fn refuse_kept(folder: &Path, replace: bool) -> Result<(), UsageError> {
    let kept = KEPT.into_iter().find(|name| folder.join(name).exists());
    let folder = folder.display();
    match kept {
        Some("sweep.json") => {
            Err(UsageError(format!("{folder} holds a sweep: choose another --out")))
        }
        Some(name) if !replace => {
            let why = format!(
                "{folder} holds a run, {name}: choose another --out, or add \
                --replace"
            );
            Err(UsageError(why))
        }
        _ => Ok(()),
    }
}

/// Locks a folder against other runs. File systems without locks, such as some network file
/// systems, lock nothing.
fn lock(folder: &Path) -> Result<Option<File>> {
    let file = os::Folder::open_trusted(folder).and_then(|folder| folder.handle());
    let file = file.with_context(|| format!("cannot open {}", folder.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let why = format!("{}: in use by another run: choose another --out", folder.display());
            Err(UsageError(why).into())
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.made.iter().try_for_each(|made| remove_empty(made));
    }
}

/// Removes a folder, if it is empty.
fn remove_empty(path: &Path) -> io::Result<()> {
    let (above, name) = os::Folder::trusted_parent(path)?;
    above.remove_folder(Path::new(name))
}

/// Creates a folder with a name that is unique among the runs of this second.
fn unused(parent: &Path, name: &str) -> Result<Folder> {
    let mut parents = Folder::at(parent)?;
    let numbered = (2..=RUNS_MAX).map(|n| format!("{name}-{n}"));
    for name in std::iter::once(name.to_owned()).chain(numbered) {
        let path = parent.join(&name);
        let created = os::Folder::open_trusted(parent)
            .and_then(|above| above.create_folder(Path::new(&name), 0o777));
        match created {
            // The folder exists and belongs to another run.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Another run created the parent and removed it, as its own folder stayed empty.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                parents.made.append(&mut Folder::at(parent)?.made);
            }
            Err(error) => {
                let told = || format!("cannot create the run's folder {}", path.display());
                return Err(error).with_context(told);
            }
            Ok(_) => {
                let mut made = vec![path.clone()];
                made.append(&mut parents.made);
                return Ok(Folder { path, made, _lock: None });
            }
        }
    }
    anyhow::bail!("{}: {RUNS_MAX} runs of one second are too many", parent.display())
}

/// Writes `result.json`, then `report.txt` and `job.toml`.
pub fn write(folder: &Path, result: &RunResult) -> Result<()> {
    write_file(&folder.join("result.json"), |out| {
        report::json::write(result, out)?;
        Ok(())
    })?;
    render(folder, result)
}

/// Writes `result.json` of a run that continues. The write is not synced to the disk, which may be
/// the one being measured; if the program ends, the system still writes the file back.
pub fn write_draft(folder: &Path, result: &RunResult) -> Result<()> {
    write_draft_file(&folder.join("result.json"), result)
}

/// Writes the document of a run that continues.
pub fn write_draft_file(file: &Path, result: &RunResult) -> Result<()> {
    replace(file, |out| {
        // A digest would use time of the run.
        report::json::write_value(result, out)?;
        Ok(out.flush()?)
    })
}

/// Writes the text report of a saved result.
pub fn render(folder: &Path, result: &RunResult) -> Result<()> {
    write_file(&folder.join("report.txt"), |out| {
        let text = report::text::painted(result, report::Paint::PLAIN);
        Ok(out.write_all(text.as_str().as_bytes())?)
    })?;
    write_job(folder, &result.spec)
}

/// Writes `job.toml`.
pub fn write_job(folder: &Path, job: &serde_json::Value) -> Result<()> {
    write_file(&folder.join("job.toml"), |out| {
        writeln!(out, "# This run again: the job as it was, with every default filled in.")?;
        let job = toml::to_string_pretty(job).context("the job as TOML")?;
        out.write_all(job.as_bytes())?;
        Ok(())
    })
}

/// Writes a new file and renames it: a reader never sees a partial file, an existing file stays if
/// the disk is full, and a link of another user is replaced, not followed. Special files, such as
/// /dev/stdout, are written directly.
pub fn write_file(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let told = || format!("cannot write {}", path.display());
    if let Some(file) = special(path).with_context(told)? {
        let write = || -> Result<()> {
            let mut out = BufWriter::new(file);
            content(&mut out)?;
            Ok(out.flush()?)
        };
        return write().with_context(told);
    }
    let durable = |out: &mut BufWriter<File>| {
        content(out)?;
        out.flush()?;
        match signal::is_asked() {
            // No fsync on a slow disk: if the program ends, the system still writes the file back.
            true => Ok(()),
            false => Ok(out.get_ref().sync_all()?),
        }
    };
    replace(path, durable).with_context(told)
}

/// Truncates a file that is appended to later; a special file stays as it is.
pub fn begin_file(path: &Path) -> io::Result<()> {
    match special(path)? {
        Some(_) => Ok(()),
        None => os::new_file(path).map(drop),
    }
}

/// Opens a pipe, a terminal or another special file for writing, unless another user created it.
fn special(path: &Path) -> io::Result<Option<File>> {
    let (folder, name) = os::Folder::trusted_parent(path)?;
    folder.special(name)
}

/// Writes a new file and renames it to `path`.
fn replace(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let (folder, name) = os::Folder::trusted_parent(path)?;
    let draft = folder.draft()?;
    content(&mut BufWriter::new(draft.file.try_clone()?))?;
    draft.keep(name)?;
    Ok(())
}
