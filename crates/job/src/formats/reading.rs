//! What reading a file comes to.

use crate::formats::note::{Note, Treatment};
use crate::spec::JobSpec;

/// A file that was read: what would run, and what of it is not taken as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What would run; `None` when a setting is refused.
    pub job: Option<JobSpec>,
    /// Processors for the workers; empty when the file does not say.
    pub cores: Vec<usize>,
    /// What is refused, differs or is ignored, in the order of the file.
    pub notes: Vec<Note>,
}

impl Reading {
    /// The notes of one treatment.
    pub fn notes_of(&self, treatment: Treatment) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(move |note| note.treatment == treatment)
    }
}

/// What stores, in the words of a file. The caller makes the URI of a volume of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// A file or block device.
    File {
        /// Where it is.
        path: String,
        /// Length of a block; its own if not said.
        block_bytes: Option<u32>,
        /// Made with this size when it is not there.
        size_bytes: Option<u64>,
        /// Around the page cache, or through it.
        direct: bool,
        /// We poll the device for completions.
        iopoll: bool,
        /// A thread of the kernel polls for submissions.
        sqpoll: bool,
    },
    /// Nothing: answers at once.
    Nothing {
        /// Capacity.
        size_bytes: u64,
        /// Length of a block.
        block_bytes: u32,
    },
    /// Nothing, and each I/O is a system call that moves no data.
    Calls {
        /// Capacity.
        size_bytes: u64,
        /// Which call: its kind, bytes for each file, and path, with commas between.
        call: String,
    },
    /// Memory of this process, zeroes at first.
    Memory {
        /// Capacity.
        size_bytes: u64,
        /// Length of a block.
        block_bytes: u32,
        /// Tells apart those that are alike.
        name: String,
    },
    /// Several as one, in chunks that go to each in turn.
    Stripe {
        /// Bytes of a chunk.
        chunk_bytes: u64,
        /// Two or more.
        parts: Vec<Storage>,
    },
    /// The same data on several.
    Mirror {
        /// Two or more.
        legs: Vec<Storage>,
    },
    /// A volume that names itself.
    Uri(String),
    /// A volume on another host, named part by part.
    Remote(Remote),
}

impl Storage {
    /// Nothing in blocks of 512 bytes.
    pub(crate) fn nothing(size_bytes: u64) -> Storage {
        Storage::Nothing { size_bytes, block_bytes: 512 }
    }
}

/// A volume on another host, by what each part of its name says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Remote {
    /// Name or address of the host: an IPv6 address without brackets.
    pub host: String,
    /// Port, from 1.
    pub port: u16,
    /// Name of the target; empty for the only one that is there.
    pub target: String,
    /// Number of the volume there, from 1.
    pub unit: u32,
    /// CRC-32C over headers.
    pub header_digest: bool,
    /// CRC-32C over data.
    pub data_digest: bool,
    /// What we are called there, if the file says it.
    pub initiator: Option<String>,
}
