//! Keeps database files in one file or volume: many are read in parallel, compressed, and written,
//! and each stage says how long it waited for the others. What was written can be
//! [read back](restore()).
//!
//! Files are read as they are at that moment: a database that goes on needs its own means to make
//! that consistent, as PostgreSQL has `pg_backup_start`.
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

/// Why a backup did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A source that was named cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Source {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The target cannot be written or read.
    #[error("{name}: {why}")]
    Target {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// The target is a file that is there already.
    #[error(
        "{path} is there already: give --replace if it may be overwritten",
        path = .0.display()
    )]
    Exists(PathBuf),
    /// The volume is too small.
    #[error(
        "{name} is full: of {wanted} bytes of sources {kept} were written to its {capacity} bytes"
    )]
    Full {
        /// Which.
        name: String,
        /// Bytes of the sources.
        wanted: u64,
        /// Of them written.
        kept: u64,
        /// Of the target.
        capacity: u64,
    },
    /// There are more files than an index holds.
    #[error("more than {max} files and folders", max = format::ENTRIES_MAX)]
    TooMany,
    /// What is there is no whole backup.
    #[error("{name}: {why}")]
    Unusable {
        /// Where.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// What is restored would take the place of something.
    #[error("{path}: {error}", path = path.display())]
    Place {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The user has stopped it.
    #[error("stopped: what was written is not a whole backup")]
    Stopped,
    /// The system refused memory or threads.
    #[error("cannot begin: {0}")]
    System(#[from] io::Error),
}
