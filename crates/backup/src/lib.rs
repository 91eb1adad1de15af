//! Backs up database files to one file or volume: reads many in parallel, compresses and writes
//! them, and reports how long each stage waited for the others. [`restore()`] reads a backup back.
//!
//! Files are read as they are at that moment: a running database needs its own means to make
//! them consistent, as PostgreSQL has `pg_backup_start`.
//!
//! Folders of sources and restores may belong to other users, who may swap names meanwhile; an
//! archive may be forged. All files are opened only through handles of folders ([`os::Folder`]).
#![forbid(unsafe_code)]

mod engine;
mod fate;
pub mod format;
mod list;
mod places;
mod progress;
mod queue;
mod restore;
mod source;
mod stage;
mod target;
#[cfg(test)]
mod test;
mod way;
mod work;

use std::io;
use std::path::PathBuf;

pub use crate::engine::{Codec, Host, Options, Outcome, run};
pub use crate::fate::{Fate, Gap, GapKind};
pub use crate::list::{Skip, list};
pub use crate::progress::{Progress, Tell};
pub use crate::restore::{Checked, Damage, Destination, Missing, restore};
pub use crate::source::{Entry, add_volume};
pub use crate::stage::{Limit, Stage, Times, limit};
pub use crate::target::{Published, Target};

/// Why a backup or restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A named source cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Source {
        /// Path of the source.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A named source is the target.
    #[error(
        "{path} is both source and target: write the backup elsewhere",
        path = .0.display()
    )]
    Itself(PathBuf),
    /// The target cannot be written or read.
    #[error("{name}: {why}")]
    Target {
        /// Name of the target.
        name: String,
        /// Reason of the failure.
        why: String,
    },
    /// The target is a file that exists.
    #[error(
        "{path} exists: add --replace to replace it by a new backup",
        path = .0.display()
    )]
    Exists(PathBuf),
    /// The target is a file that somebody uses as an image.
    #[error("cannot replace an image that is in use")]
    Used(#[source] volume::OpenError),
    /// The volume is too small.
    #[error("{name} is full with {capacity} bytes: {kept} of {wanted} source bytes were written")]
    Full {
        /// Name of the target.
        name: String,
        /// Bytes of the sources.
        wanted: u64,
        /// Bytes of the sources that were written.
        kept: u64,
        /// Bytes of the target.
        capacity: u64,
    },
    /// The backup has more entries than an index holds.
    #[error(
        "more than {max} files and folders, or too many bad extents, for one backup: split the \
        sources",
        max = format::ENTRIES_MAX
    )]
    TooMany,
    /// A thread of a stage has panicked.
    #[error("a thread of stage {0} panicked: please report the message above as a bug")]
    Panicked(Stage),
    /// No complete backup exists.
    #[error("{name}: {why}")]
    Unusable {
        /// Name of the backup.
        name: String,
        /// Description of the damage.
        why: String,
    },
    /// A restore would overwrite something, or cannot write.
    #[error("{path}: {error}", path = path.display())]
    Place {
        /// Path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A restore has failed on its way.
    #[error("{error}; the files restored so far are in {left}", left = left.display())]
    Unfinished {
        /// Error that ended the restore.
        error: Box<BackupError>,
        /// Folder with the files restored so far.
        left: PathBuf,
    },
    /// The user has stopped the operation.
    #[error("stopped: the backup or restore is incomplete")]
    Stopped,
    /// The system refused memory or threads.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl BackupError {
    /// Whether the user has stopped the operation.
    pub fn is_stopped(&self) -> bool {
        match self {
            BackupError::Stopped => true,
            BackupError::Unfinished { error, .. } => error.is_stopped(),
            _ => false,
        }
    }
}
