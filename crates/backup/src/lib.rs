//! Backs up database files to one file or volume: reads many in parallel, compresses and writes
//! them, and reports how long each stage waited for the others. [`restore()`] reads it back.
//!
//! Files are read as they are at that moment: a running database needs its own means to make
//! them consistent, as PostgreSQL has `pg_backup_start`.
#![forbid(unsafe_code)]

mod engine;
pub mod format;
mod queue;
mod restore;
mod source;
mod stage;
mod target;
mod way;

use std::io;
use std::path::PathBuf;

pub use crate::engine::{Codec, Host, Options, Outcome, run};
pub use crate::restore::{Checked, Damage, restore};
pub use crate::source::{Entry, Fate, FileId, add_volume, list};
pub use crate::stage::{Limit, Stage, Times, limit};
pub use crate::target::Target;

/// Why a backup failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A named source cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Source {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The target cannot be written or read.
    #[error("{name}: {why}")]
    Target {
        /// Its name.
        name: String,
        /// What failed.
        why: String,
    },
    /// The target is a file that exists.
    #[error(
        "{path} exists: give --replace to overwrite it",
        path = .0.display()
    )]
    Exists(PathBuf),
    /// The volume is too small.
    #[error("{name} of {capacity} bytes is full: {kept} of {wanted} bytes of sources were written")]
    Full {
        /// Its name.
        name: String,
        /// Bytes of the sources.
        wanted: u64,
        /// Bytes of them written.
        kept: u64,
        /// Bytes of the target.
        capacity: u64,
    },
    /// More files than an index holds.
    #[error("more than {max} files and folders", max = format::ENTRIES_MAX)]
    TooMany,
    /// There is no complete backup.
    #[error("{name}: {why}")]
    Unusable {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A restore would overwrite something.
    #[error("{path}: {error}", path = path.display())]
    Place {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The user has stopped it.
    #[error("stopped: what was written is not a whole backup")]
    Stopped,
    /// The system refused memory or threads.
    #[error("cannot begin: {0}")]
    System(#[from] io::Error),
}
