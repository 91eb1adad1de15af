//! The target of a backup, and the source of a restore.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volume::Volume;

use crate::BackupError;
use crate::format::ALIGN;
use crate::source::FileId;
use crate::way::Way;

/// A target.
pub struct Target {
    name: String,
    place: Sink,
}

enum Sink {
    Null,
    File(Arc<File>),
    Volume(Arc<dyn Volume>),
}

impl Target {
    /// Discards all: measures everything but the writing.
    pub fn null() -> Target {
        Target { name: "null".to_owned(), place: Sink::Null }
    }

    /// A new file; overwrites an existing one only with `replace`. `direct` uses `O_DIRECT`
    /// where the file system supports it.
    ///
    /// # Errors
    ///
    /// Those of the system, and that the file exists.
    pub fn create(path: &Path, replace: bool, direct: bool) -> Result<Target, BackupError> {
        let with = |flags: i32| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags);
            if replace {
                options.create(true)
            } else {
                options.create_new(true)
            };
            options.open(path)
        };
        let file = match direct.then(|| with(os::O_DIRECT)) {
            // The refused open may have created the file.
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
            }
            Some(found) => found,
            None => with(0),
        };
        let fail = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Exists(path.to_owned()),
            _ => BackupError::Target { name: path.display().to_string(), why: error.to_string() },
        };
        let file = file.map_err(fail)?;
        file.set_len(0).map_err(fail)?;
        Ok(Target::of_file(path, file))
    }

    /// A file with a backup.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn open(path: &Path) -> Result<Target, BackupError> {
        let fail = |error| BackupError::Source { path: PathBuf::from(path), error };
        Ok(Target::of_file(path, File::open(path).map_err(fail)?))
    }

    /// A volume, and the name its user gave it.
    pub fn volume(name: &str, volume: Arc<dyn Volume>) -> Target {
        Target { name: name.to_owned(), place: Sink::Volume(volume) }
    }

    fn of_file(path: &Path, file: File) -> Target {
        Target { name: path.display().to_string(), place: Sink::File(Arc::new(file)) }
    }

    /// The name its user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it discards all.
    pub fn is_null(&self) -> bool {
        matches!(self.place, Sink::Null)
    }

    /// Whether it is a volume, which has lanes.
    pub(crate) fn is_volume(&self) -> bool {
        matches!(self.place, Sink::Volume(_))
    }

    /// The file's identity, so that it is not backed up into itself.
    pub fn file_id(&self) -> Option<FileId> {
        let Sink::File(file) = &self.place else { return None };
        file.metadata().ok().map(|about| (about.dev(), about.ino()))
    }

    /// Alignment of all parts in bytes.
    pub(crate) fn align(&self) -> usize {
        match &self.place {
            Sink::Volume(volume) => ALIGN.max(volume.geometry().block_bytes as usize),
            _ => ALIGN,
        }
    }

    /// Capacity in bytes: the longest backup it holds.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        match &self.place {
            Sink::Null => u64::MAX,
            Sink::File(_) => i64::MAX as u64,
            Sink::Volume(volume) => {
                let bytes = volume.geometry().bytes();
                bytes - bytes % self.align() as u64
            }
        }
    }

    /// Readable bytes.
    pub(crate) fn held_bytes(&self) -> Result<u64, BackupError> {
        match &self.place {
            Sink::File(file) => {
                file.metadata().map(|about| about.len()).map_err(|error| self.fail(error))
            }
            _ => Ok(self.capacity_bytes()),
        }
    }

    /// A thread's access to it.
    pub(crate) fn way(&self) -> Result<Way, BackupError> {
        match &self.place {
            Sink::Null => Ok(Way::Null),
            Sink::File(file) => Ok(Way::File(Arc::clone(file))),
            Sink::Volume(volume) => Way::to(&**volume).map_err(|why| self.fail(why)),
        }
    }

    pub(crate) fn fail(&self, why: impl ToString) -> BackupError {
        BackupError::Target { name: self.name.clone(), why: why.to_string() }
    }
}
