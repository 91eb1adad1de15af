//! The target of a backup, and the source of a restore.
//!
//! A file is written without a name and gets its name when all of it is durable: until then an
//! older backup of this name stays complete.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use os::{FileAbout, FileId, FileKind, NewFile};
use volume::{FileUri, Locks, OpenError, Purpose, Uri, Volume};

use crate::BackupError;
use crate::format::ALIGN;
use crate::list::{Skip, open_named};
use crate::restore::is_whole;
use crate::way::{NoWay, Stop, Way};

/// Suffix of an incomplete backup, if a complete one has the name.
const PARTIAL: &str = ".partial";
/// Longest name of a file in Linux, in bytes.
pub(crate) const NAME_MAX_BYTES: usize = 255;

/// A target.
pub struct Target {
    name: String,
    place: Sink,
}

/// The file that a new one replaces, locked like an image so that it is not served meanwhile.
struct Replaced {
    path: PathBuf,
    id: Option<FileId>,
    _locks: Locks,
}

enum Sink {
    Null,
    New { file: Arc<File>, new: NewFile, replace: Option<Replaced> },
    File(Arc<File>),
    Volume(Arc<dyn Volume>),
}

/// Location of a finished backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The requested path.
    There,
    /// A path next to an older, complete backup, because this one lacks data.
    Beside(PathBuf),
}

impl Target {
    /// Discards all: measures everything but the writing.
    pub fn null() -> Target {
        Target { name: "null".to_owned(), place: Sink::Null }
    }

    /// A file that is [published](Self::publish) at the end, over an existing one only with
    /// `replace`. `direct` uses `O_DIRECT` if the file system supports it. An existing file of this
    /// name is not touched.
    ///
    /// # Errors
    ///
    /// Errors of the system, and errors if the file exists, is not a regular file, or is an image
    /// in use.
    pub fn create(path: &Path, replace: bool, direct: bool) -> Result<Target, BackupError> {
        let name = path.display().to_string();
        let fail = |why: String| BackupError::Target { name: name.clone(), why };
        let begin = |flags| NewFile::begin(path, flags);
        let new = match direct.then(|| begin(os::O_DIRECT)) {
            Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => begin(0),
            Some(found) => found,
            None => begin(0),
        };
        let new = new.map_err(|error| fail(not_begun(&error)))?;
        let id = match new.old() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error.to_string())),
            Ok(_) if !replace => return Err(BackupError::Exists(path.to_owned())),
            Ok(old) if old.kind == FileKind::File => Some(old.id),
            Ok(old) => return Err(fail(not_replaced(old.kind).to_owned())),
        };
        let replaced = || Replaced::lock(path, id).map_err(BackupError::Used);
        let replace = replace.then(replaced).transpose()?;
        let file = Arc::new(new.file().try_clone()?);
        Ok(Target { name, place: Sink::New { file, new, replace } })
    }

    /// A file with a backup.
    ///
    /// # Errors
    ///
    /// Errors of the system, and that the path names no file.
    pub fn open(path: &Path) -> Result<Target, BackupError> {
        let fail = |error| BackupError::Source { path: PathBuf::from(path), error };
        let file = open_named(path, 0).map_err(fail)?;
        if FileAbout::of(&file).map_err(fail)?.kind != FileKind::File {
            let words = "not a file or a volume: name a device as file:PATH";
            return Err(fail(io::Error::new(ErrorKind::InvalidInput, words)));
        }
        Ok(Target::of_file(path.display().to_string(), file))
    }

    /// A volume, and its name as given by the user.
    pub fn volume(name: &str, volume: Arc<dyn Volume>) -> Target {
        Target { name: name.to_owned(), place: Sink::Volume(volume) }
    }

    fn of_file(name: String, file: File) -> Target {
        Target { name, place: Sink::File(Arc::new(file)) }
    }

    /// Name as given by the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the target discards all data.
    pub fn is_null(&self) -> bool {
        matches!(self.place, Sink::Null)
    }

    /// Whether the target is a volume, which has lanes.
    pub(crate) fn is_volume(&self) -> bool {
        matches!(self.place, Sink::Volume(_))
    }

    /// Files that must not be backed up: the target itself, and older ones with its names.
    pub fn skip(&self) -> Skip {
        let Sink::New { file, new, .. } = &self.place else { return Skip::default() };
        let id = |about: io::Result<FileAbout>| about.map(|about| about.id).ok();
        let names = [new.name().to_owned(), partial_name(new.name())];
        let folder = id(new.folder().about());
        let named = |folder| names.map(|name| (folder, name)).into_iter().collect();
        let names = folder.map_or_else(Vec::new, named);
        Skip { files: id(FileAbout::of(file)).into_iter().collect(), names }
    }

    /// Gives a finished file its name. A file that lacks data (`whole` is false) does not replace
    /// an older complete one: the new file gets another name, which marks it as incomplete.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn publish(self, whole: bool) -> Result<Published, BackupError> {
        let Target { name, place } = self;
        let Sink::New { new, replace, .. } = place else { return Ok(Published::There) };
        let old = new.folder().file(Path::new(new.name()), 0).ok();
        let old_is_whole = || {
            let old = old.map(|file| Target::of_file(String::new(), file));
            old.is_some_and(|old| is_whole(&old))
        };
        let beside = (!whole && old_is_whole()).then(|| partial_name(new.name()));
        // A file that took this name meanwhile may be in use. The new file gets another name then.
        let name_now = beside.as_deref().unwrap_or(new.name());
        let there = new.folder().look(Path::new(name_now)).ok().map(|about| about.id);
        let path = replace.as_ref().map_or(Path::new(&name), |replaced| &replaced.path);
        let free = match &replace {
            Some(replaced) if beside.is_none() && replaced.id == there => Ok(None),
            _ => Replaced::lock(&path.with_file_name(name_now), there).map(Some),
        };
        let replaces = (replace.is_some() || beside.is_some()) && free.is_ok();
        let published = new.publish(beside.as_deref(), replaces);
        match (published, free) {
            (Ok(path), _) if beside.is_some() => Ok(Published::Beside(path)),
            (Ok(_), _) => Ok(Published::There),
            (Err(error), Err(used)) => {
                Err(BackupError::Target { name, why: format!("{used}: {error}") })
            }
            (Err(error), Ok(_)) => Err(BackupError::Target { name, why: error.to_string() }),
        }
    }

    /// Alignment of all parts in bytes.
    pub(crate) fn align(&self) -> usize {
        match &self.place {
            Sink::Volume(volume) => ALIGN.max(volume.geometry().block_bytes as usize),
            _ => ALIGN,
        }
    }

    /// Capacity in bytes: the maximum size of a backup.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        match &self.place {
            Sink::Null => u64::MAX,
            Sink::New { .. } | Sink::File(_) => i64::MAX as u64,
            Sink::Volume(volume) => {
                let bytes = volume.geometry().bytes();
                bytes - bytes % self.align() as u64
            }
        }
    }

    /// Readable bytes.
    pub(crate) fn held_bytes(&self) -> Result<u64, BackupError> {
        match &self.place {
            Sink::New { file, .. } | Sink::File(file) => {
                file.metadata().map(|about| about.len()).map_err(|error| self.fail(error))
            }
            _ => Ok(self.capacity_bytes()),
        }
    }

    /// A thread's access to the target.
    pub(crate) fn way<'a>(&self, stop: Stop<'a>) -> Result<Way<'a>, BackupError> {
        match &self.place {
            Sink::Null => Ok(Way::Null),
            Sink::New { file, .. } | Sink::File(file) => Ok(Way::File(Arc::clone(file))),
            Sink::Volume(volume) => Way::to(&**volume, stop).map_err(|why| match why {
                NoWay::Host(error) => BackupError::System(error),
                NoWay::Volume(why) => self.fail(why),
            }),
        }
    }

    pub(crate) fn fail(&self, why: impl ToString) -> BackupError {
        BackupError::Target { name: self.name.clone(), why: why.to_string() }
    }
}

impl Replaced {
    /// Locks a file, if there is one. A file that this user may not read cannot be locked.
    fn lock(path: &Path, id: Option<FileId>) -> Result<Replaced, OpenError> {
        let mut locks = Locks::default();
        let uri = Uri::File(FileUri { path: path.to_owned(), ..FileUri::default() });
        match locks.take(&uri, Purpose::Destroy) {
            Err(error @ (OpenError::Locked { .. } | OpenError::InUse { .. })) => Err(error),
            _ => Ok(Replaced { path: path.to_owned(), id, _locks: locks }),
        }
    }
}

/// Name of an incomplete backup.
fn partial_name(name: &OsStr) -> OsString {
    let kept = name.len().min(NAME_MAX_BYTES - PARTIAL.len());
    let mut beside = OsStr::from_bytes(&name.as_bytes()[..kept]).to_owned();
    beside.push(PARTIAL);
    beside
}

/// Reason why no file can be created in the folder of the target.
fn not_begun(error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ": the folder of the backup must be writable, as a new backup is a new file"
        }
        ErrorKind::NotFound => ": create its folder first",
        _ => "",
    };
    format!("{error}{remedy}")
}

/// Reason why `--replace` does not replace the entry with the target's name.
fn not_replaced(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Link => "is a symbolic link and is not replaced: name the file itself",
        FileKind::Folder => "is a folder: name a file in it",
        _ => "is not a regular file and is not replaced",
    }
}
