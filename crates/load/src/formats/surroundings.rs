//! What a job file may ask of the host that reads it: other files, variables, the host's size.

use std::io;
use std::path::Path;

/// Longest job file in bytes: the longest known has some 30 KiB.
pub const FILE_MAX_BYTES: usize = 1 << 20;

/// Reads a file that another names.
type ReadFile<'a> = Box<dyn Fn(&Path) -> io::Result<String> + 'a>;
/// Looks up a variable.
type Lookup<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// Everything outside a job file that decides what it means.
pub struct Surroundings<'a> {
    /// Reads an included file.
    pub read: ReadFile<'a>,
    /// Value of an environment variable.
    pub variable: Lookup<'a>,
    /// Size of a page.
    pub page_bytes: u64,
    /// Main memory in MiB.
    pub memory_mib: u64,
    /// Number of processors.
    pub cpus: u64,
}

impl Surroundings<'_> {
    /// This host.
    pub fn host() -> Surroundings<'static> {
        Surroundings {
            read: Box::new(read_text),
            variable: Box::new(|name| std::env::var(name).ok()),
            page_bytes: 4096,
            memory_mib: os::sample::memory_total_bytes().unwrap_or(0) >> 20,
            cpus: os::cpu::allowed().len() as u64,
        }
    }

    /// No other file, no variable, and the smallest host: the same for everybody.
    pub fn none() -> Surroundings<'static> {
        Surroundings {
            read: Box::new(|_| Err(io::ErrorKind::NotFound.into())),
            variable: Box::new(|_| None),
            page_bytes: 4096,
            memory_mib: 1024,
            cpus: 1,
        }
    }
}

/// Reads a file of ours or of other tools: text, and not longer than [`FILE_MAX_BYTES`].
pub fn read_text(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // One byte more than is allowed, so that a device without end is not read to its end.
    std::fs::File::open(path)?.take(FILE_MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if bytes.len() > FILE_MAX_BYTES {
        return Err(wrong("longer than 1 MiB".to_owned()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        wrong(format!("line {line} is not UTF-8 text"))
    })
}
