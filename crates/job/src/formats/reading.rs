//! Result of reading a file.

use crate::formats::note::{Note, Treatment};
use crate::spec::JobSpec;

/// A file that was read: its job, and the notes on settings that are not applied unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Job of the file; `None` if a setting is refused.
    pub job: Option<JobSpec>,
    /// CPUs for the workers; empty if the file does not name any.
    pub cores: Vec<usize>,
    /// Notes on settings that are refused, differ or are ignored, in the order of the file.
    pub notes: Vec<Note>,
}

impl Reading {
    /// Returns the notes of one treatment.
    pub fn notes_of(&self, treatment: Treatment) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(move |note| note.treatment == treatment)
    }
}

/// Storage as a file describes it. The caller converts it to the URI of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// A file or block device.
    File {
        /// Path.
        path: String,
        /// Block size in bytes; the device's own if not given.
        block_bytes: Option<u32>,
        /// Size in bytes with which a missing file is created.
        size_bytes: Option<u64>,
        /// True for direct I/O, false for the page cache.
        direct: bool,
        /// True if the device is polled for completions.
        iopoll: bool,
        /// True if a kernel thread polls for submissions.
        sqpoll: bool,
    },
    /// No storage: completes I/Os at once.
    Nothing {
        /// Capacity in bytes.
        size_bytes: u64,
        /// Block size in bytes.
        block_bytes: u32,
    },
    /// No storage: each I/O is a system call that moves no data.
    Calls {
        /// Capacity in bytes.
        size_bytes: u64,
        /// Call: its kind, bytes for each file, and path, separated by commas.
        call: String,
    },
    /// Memory of this process, initially zeroes.
    Memory {
        /// Capacity in bytes.
        size_bytes: u64,
        /// Block size in bytes.
        block_bytes: u32,
        /// Name that distinguishes volumes of the same size.
        name: String,
    },
    /// Striped volume: chunks are on each part in turn.
    Stripe {
        /// Size of a chunk in bytes.
        chunk_bytes: u64,
        /// Parts, two or more.
        parts: Vec<Storage>,
    },
    /// Mirrored volume.
    Mirror {
        /// Legs, two or more.
        legs: Vec<Storage>,
    },
    /// A volume named by its URI.
    Uri(String),
    /// A volume on another host, named by its parts.
    Remote(Remote),
}

impl Storage {
    /// Returns a volume without storage in blocks of 512 bytes.
    pub(crate) fn nothing(size_bytes: u64) -> Storage {
        Storage::Nothing { size_bytes, block_bytes: 512 }
    }
}

/// A volume on another host, by the parts of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Remote {
    /// Name or address of the host: an IPv6 address without brackets.
    pub host: String,
    /// Port, from 1.
    pub port: u16,
    /// Name of the target; empty for the only one of the host.
    pub target: String,
    /// Number of the volume on the target, from 1.
    pub unit: u32,
    /// CRC-32C over headers.
    pub header_digest: bool,
    /// CRC-32C over data.
    pub data_digest: bool,
    /// Name of the initiator, if the file has it.
    pub initiator: Option<String>,
}
