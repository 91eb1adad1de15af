//! Environment of a job file: other files, variables, the host's size.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::spec::{OpenTrace, open_trace};

/// Maximum size of a job file in bytes: the largest known has some 30 KiB.
pub const FILE_MAX_BYTES: usize = 1 << 20;

/// Reads a file that another names.
type ReadFile<'a> = Box<dyn Fn(&Path) -> io::Result<String> + 'a>;
/// Reads at most this many bytes of a file, from its start.
type ReadBytes<'a> = Box<dyn Fn(&Path, usize) -> io::Result<Vec<u8>> + 'a>;
/// Looks up a variable.
type Lookup<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// Everything outside a job file that affects its meaning.
pub struct Surroundings<'a> {
    /// Reads an included file.
    pub read: ReadFile<'a>,
    /// Opens a trace that a job replays.
    pub open: Box<OpenTrace<'a>>,
    /// Reads a file of data.
    pub read_bytes: ReadBytes<'a>,
    /// Returns the value of an environment variable.
    pub variable: Lookup<'a>,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Main memory in MiB.
    pub memory_mib: u64,
    /// Number of CPUs.
    pub cpus: u64,
}

impl Surroundings<'_> {
    /// Returns the files and variables of this host, with `memory_mib` of memory and `cpus` CPUs.
    pub fn of_host(memory_mib: u64, cpus: u64) -> Surroundings<'static> {
        Surroundings {
            read: Box::new(read_text),
            open: Box::new(open_trace),
            read_bytes: Box::new(read_bytes),
            variable: Box::new(|name| std::env::var(name).ok()),
            page_bytes: 4096,
            memory_mib,
            cpus,
        }
    }

    /// Returns an environment with no other file, no variable, and the smallest host: the same
    /// everywhere.
    pub fn none() -> Surroundings<'static> {
        Surroundings {
            read: Box::new(|_| Err(io::ErrorKind::NotFound.into())),
            open: Box::new(|_| Err(io::ErrorKind::NotFound.into())),
            read_bytes: Box::new(|_, _| Err(io::ErrorKind::NotFound.into())),
            variable: Box::new(|_| None),
            page_bytes: 4096,
            memory_mib: 1024,
            cpus: 1,
        }
    }
}

/// Reads a file of ours or of other tools: text of at most [`FILE_MAX_BYTES`]. A byte order mark is
/// skipped.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_old_text(path, |_| false)
}

/// Reads the beginning of a binary file. A device or a pipe is an error: it may have no end.
fn read_bytes(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    use std::io::Read;
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text file that may be older than UTF-8: lines that are `only_words`, as comments and
/// descriptions are, may have letters of Windows' western code page.
pub fn read_old_text(path: &Path, only_words: impl Fn(&str) -> bool) -> io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // One byte more than is allowed, so that an endless device is not read to its end.
    open_file(path)?.take(FILE_MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if bytes.len() > FILE_MAX_BYTES {
        return Err(wrong("larger than 1 MiB".to_owned()));
    }
    decode(&bytes, only_words).map_err(wrong)
}

/// Opens a file for reading. A pipe is refused, as there may never be a writer, unless the process
/// was started with it.
pub fn open_file(path: &Path) -> io::Result<File> {
    let own = ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder));
    let is_pipe = std::fs::metadata(path)?.file_type().is_fifo();
    match is_pipe && !own && path != Path::new("/dev/stdin") {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is a pipe: name a file")),
        false => File::open(path),
    }
}

fn decode(bytes: &[u8], only_words: impl Fn(&str) -> bool) -> Result<String, String> {
    // PowerShell writes UTF-16 by default.
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
        return decode_wide(bytes);
    }
    let mut text = String::with_capacity(bytes.len());
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        if let Ok(line) = std::str::from_utf8(line) {
            text.push_str(line);
            continue;
        }
        // Letters of this code page are the first 256 of Unicode, except for some punctuation.
        let old: String = line.iter().map(|byte| char::from(*byte)).collect();
        let odd = |c: char| c.is_ascii_control() && c != '\t';
        if old.trim_end().contains(odd) || !only_words(&old) {
            return Err(format!("line {number} is not UTF-8 text"));
        }
        text.push_str(&old);
    }
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Decodes UTF-16 after its byte order mark.
fn decode_wide(bytes: &[u8]) -> Result<String, String> {
    let (mark, bytes) = bytes.split_at(2);
    let unit = |pair: &[u8]| match mark[0] {
        0xff => u16::from_le_bytes([pair[0], pair[1]]),
        _ => u16::from_be_bytes([pair[0], pair[1]]),
    };
    let whole = bytes.chunks_exact(2);
    let broken = !whole.remainder().is_empty();
    let text: Result<String, _> = char::decode_utf16(whole.map(unit)).collect();
    match text {
        Ok(text) if !broken => Ok(text),
        _ => Err("the file has a UTF-16 byte order mark but is not UTF-16 text".to_owned()),
    }
}

#[cfg(test)]
mod test {
    use super::decode;

    #[test]
    fn old_letters_may_stand_where_only_people_read() {
        let read = |bytes: &[u8]| decode(bytes, |line| line.starts_with('#'));
        assert_eq!(read(b"\xef\xbb\xbf[a]\n").unwrap(), "[a]\n");
        assert_eq!(read(b"# Pr\xfcfung\r\n[a]\n").unwrap(), "# Pr\u{fc}fung\r\n[a]\n");
        assert_eq!(read(b"[a]\nfilename=\xfc\n").unwrap_err(), "line 2 is not UTF-8 text");
        assert_eq!(read(b"#\x00\xfc\n").unwrap_err(), "line 1 is not UTF-8 text");
    }
    #[test]
    fn what_powershell_writes_is_read() {
        let read = |bytes: &[u8]| decode(bytes, |_| false);
        let le = b"\xff\xfe[\0a\0]\0\x14\x04".as_slice();
        let be = b"\xfe\xff\0[\0a\0]\x04\x14".as_slice();
        assert_eq!((read(le).unwrap(), read(be).unwrap()), ("[a]Д".into(), "[a]Д".into()));
        for wrong in [b"\xff\xfea".as_slice(), b"\xff\xfe\x00\xd8"] {
            assert!(read(wrong).unwrap_err().contains("UTF-16"));
        }
    }
}
