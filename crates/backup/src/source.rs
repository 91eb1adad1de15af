//! Sources: files, whole folders and volumes, and the fate of each. A running database goes on
//! meanwhile: files vanish, grow and shrink, which is reported and stops nothing.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use volume::Volume;

use crate::BackupError;
use crate::format::{ALIGN, ENTRIES_MAX, Kind};

/// A source.
pub struct Entry {
    /// Kind.
    pub kind: Kind,
    /// Relative to the folder of a restore.
    pub path: PathBuf,
    /// Permissions.
    pub mode: u32,
    /// Bytes when it was listed.
    pub listed_bytes: u64,
    pub(crate) from: Origin,
    /// Bytes read so far.
    pub(crate) read_bytes: AtomicU64,
    fate: Mutex<Fate>,
}

/// Where its bytes come from.
pub(crate) enum Origin {
    Path(PathBuf),
    Volume(Arc<dyn Volume>),
}

/// Fate of a source during the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All that was listed was read.
    Whole,
    /// It vanished before its turn: nothing of it was backed up.
    Vanished,
    /// It grew; the listed length was backed up.
    Grew {
        /// Its new length.
        to: u64,
    },
    /// It shrank; the rest was backed up.
    Shrank,
    /// It cannot be read.
    Unreadable(String),
    /// Neither file, folder nor link: a socket, pipe or device.
    Skipped,
}

impl Entry {
    fn new(kind: Kind, path: PathBuf, mode: u32, bytes: u64, from: Origin) -> Entry {
        let fate = Mutex::new(Fate::Whole);
        let read_bytes = AtomicU64::new(0);
        Entry { kind, path, mode: mode & 0o7777, listed_bytes: bytes, from, read_bytes, fate }
    }

    /// Its fate so far.
    pub fn fate(&self) -> Fate {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, fate: Fate) {
        *self.fate.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }

    fn note_error(&self, error: &io::Error) {
        self.note(match error.kind() {
            ErrorKind::NotFound => Fate::Vanished,
            _ => Fate::Unreadable(error.to_string()),
        });
    }
}

/// Device and inode number of the target, which is not backed up into itself.
pub type FileId = (u64, u64);

/// Lists files and folders recursively, in the order of their names. Symbolic links are backed
/// up as links; only those in `paths` are followed.
///
/// # Errors
///
/// A path in `paths` cannot be read; what is found below may be reported as unreadable.
pub fn list(paths: &[PathBuf], target: Option<FileId>) -> Result<Vec<Entry>, BackupError> {
    let (mut entries, mut names) = (Vec::new(), BTreeSet::new());
    for path in paths {
        let fail = |error| BackupError::Source { path: path.clone(), error };
        let about = fs::metadata(path).map_err(fail)?;
        if !about.is_file() && !about.is_dir() {
            let words = "neither a file nor a folder: name a device as file:PATH";
            return Err(fail(io::Error::new(ErrorKind::InvalidInput, words)));
        }
        let whole = fs::canonicalize(path).map_err(fail)?;
        let name = whole.file_name().map_or_else(|| "root".into(), |name| name.to_os_string());
        let mut below = PathBuf::from(&name);
        for number in 2.. {
            if names.insert(below.clone()) {
                break;
            }
            let mut other = name.clone();
            other.push(format!("-{number}"));
            below = PathBuf::from(other);
        }
        walk(&whole, below, target, &mut entries)?;
    }
    Ok(entries)
}

/// Adds a volume, backed up as a file of this name.
pub fn add_volume(entries: &mut Vec<Entry>, name: &str, volume: Arc<dyn Volume>) {
    let bytes = volume.geometry().bytes();
    let place = Origin::Volume(volume);
    entries.push(Entry::new(Kind::Volume, PathBuf::from(name), 0o600, bytes, place));
}

/// Adds `path`, and all below it.
fn walk(
    path: &Path,
    below: PathBuf,
    target: Option<FileId>,
    entries: &mut Vec<Entry>,
) -> Result<(), BackupError> {
    let mut waiting = vec![(path.to_owned(), below)];
    while let Some((path, below)) = waiting.pop() {
        if entries.len() >= ENTRIES_MAX as usize {
            return Err(BackupError::TooMany);
        }
        let place = Origin::Path(path.clone());
        let about = match fs::symlink_metadata(&path) {
            Ok(about) => about,
            Err(error) => {
                let gone = Entry::new(Kind::File, below, 0o600, 0, place);
                gone.note_error(&error);
                entries.push(gone);
                continue;
            }
        };
        if target == Some((about.dev(), about.ino())) {
            continue;
        }
        let kind = about.file_type();
        let mode = about.mode();
        let entry = if kind.is_dir() {
            let folder = Entry::new(Kind::Folder, below.clone(), mode, 0, place);
            match children(&path) {
                Ok(names) => {
                    let at = |name: &std::ffi::OsString| (path.join(name), below.join(name));
                    waiting.extend(names.iter().rev().map(at));
                }
                Err(error) => folder.note_error(&error),
            }
            folder
        } else if kind.is_symlink() {
            match fs::read_link(&path) {
                Ok(to) => Entry::new(Kind::Link(to), below, mode, 0, place),
                Err(error) => {
                    let gone = Entry::new(Kind::File, below, mode, 0, place);
                    gone.note_error(&error);
                    gone
                }
            }
        } else {
            let bytes = if kind.is_file() { about.len() } else { 0 };
            let file = Entry::new(Kind::File, below, mode, bytes, place);
            let special = kind.is_socket() || kind.is_fifo();
            if special || kind.is_block_device() || kind.is_char_device() {
                file.note(Fate::Skipped);
            }
            file
        };
        entries.push(entry);
    }
    Ok(())
}

/// Names in a folder, sorted.
fn children(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// An extent of a source, read by one thread.
pub(crate) struct Part {
    pub(crate) entry: usize,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// The open file; `None` for a volume, which has a lane.
    pub(crate) file: Option<Arc<File>>,
    /// It is the last one of its source.
    pub(crate) last: bool,
}

/// Hands out extents: each reader has its own source while there are enough, then helps with
/// the longest.
pub(crate) struct Work<'a> {
    entries: &'a [Entry],
    transfer_bytes: u64,
    direct: bool,
    state: Mutex<ReaderState>,
}

#[derive(Default)]
struct ReaderState {
    next: usize,
    open: Vec<Open>,
}

struct Open {
    entry: usize,
    file: Option<Arc<File>>,
    at: u64,
    end: u64,
}

impl<'a> Work<'a> {
    pub(crate) fn new(entries: &'a [Entry], transfer_bytes: u32, direct: bool) -> Work<'a> {
        let transfer_bytes = u64::from(transfer_bytes);
        Work { entries, transfer_bytes, direct, state: Mutex::default() }
    }

    /// The next extent for a reader, whose source is remembered in `mine`.
    pub(crate) fn take(&self, mine: &mut Option<usize>) -> Option<Part> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open.retain(|open| open.at < open.end);
        let own = |open: &Open| Some(open.entry) == *mine;
        let index = state.open.iter().position(own).or_else(|| self.open_next(&mut state));
        let longest = |state: &ReaderState| {
            let left = |(_, open): &(usize, &Open)| open.end - open.at;
            state.open.iter().enumerate().max_by_key(left).map(|(index, _)| index)
        };
        let index = index.or_else(|| longest(&state))?;
        let open = &mut state.open[index];
        *mine = Some(open.entry);
        let (offset, len) = (open.at, self.transfer_bytes.min(open.end - open.at));
        open.at += len;
        let last = open.at == open.end;
        let (entry, file) = (open.entry, open.file.clone());
        Some(Part { entry, offset, len: len as usize, file, last })
    }

    /// Hands out no more of this source.
    pub(crate) fn cut(&self, entry: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open.retain(|open| open.entry != entry);
    }

    fn open_next(&self, state: &mut ReaderState) -> Option<usize> {
        while let Some(entry) = self.entries.get(state.next) {
            let number = state.next;
            state.next += 1;
            if entry.listed_bytes == 0 || entry.fate() != Fate::Whole {
                continue;
            }
            let file = match &entry.from {
                Origin::Volume(_) => None,
                Origin::Path(path) => match open(path, self.direct) {
                    Ok(file) => Some(Arc::new(file)),
                    Err(error) => {
                        entry.note_error(&error);
                        continue;
                    }
                },
            };
            state.open.push(Open { entry: number, file, at: 0, end: entry.listed_bytes });
            return Some(state.open.len() - 1);
        }
        None
    }
}

/// Opens a file for reading, without blocking: it may have become a pipe since it was listed.
fn open(path: &Path, direct: bool) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let with = |more: i32| OpenOptions::new().read(true).custom_flags(flags | more).open(path);
    if direct {
        match with(os::O_DIRECT) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            found => return found,
        }
    }
    with(0)
}

/// Reads up to `len` bytes of a file into the front of `buf`; less only at the file's end.
pub(crate) fn read_at(
    file: &File,
    buf: &mut [u8],
    at: u64,
    len: usize,
    direct: bool,
) -> io::Result<usize> {
    let mut read = 0;
    while read < len {
        // O_DIRECT needs whole blocks; a short read is the file's end.
        let end = if direct { len.next_multiple_of(ALIGN).min(buf.len()) } else { len };
        match file.read_at(&mut buf[read..end], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if direct && read % ALIGN != 0 {
            break;
        }
    }
    Ok(read.min(len))
}

#[cfg(test)]
pub(crate) mod test {
    use super::*;

    /// A temporary folder, removed on drop.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new() -> Folder {
            let name = format!("drumfire-backup-{:x}", os::random());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn all_below_is_listed_but_the_target() {
        let folder = Folder::new();
        folder.file("data/base/2", b"two");
        folder.file("data/base/10", b"ten");
        fs::create_dir(folder.0.join("data/empty")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", folder.0.join("data/link")).unwrap();
        let target = folder.file("data/to.backup", b"x");
        let about = fs::metadata(target).unwrap();
        let id = Some((about.dev(), about.ino()));
        let data = folder.0.join("data");
        let found = list(&[data.clone(), data], id).unwrap();
        let names: Vec<&str> = found.iter().map(|one| one.path.to_str().unwrap()).collect();
        let right = ["data", "data/base", "data/base/10", "data/base/2", "data/empty", "data/link"];
        assert_eq!(names[..6], right);
        assert_eq!(names[6..8], ["data-2", "data-2/base"]);
        assert_eq!(found[5].kind, Kind::Link("/elsewhere".into()));
        assert_eq!((found[2].listed_bytes, found[4].kind.clone()), (3, Kind::Folder));
        assert!(list(&[folder.0.join("no-such")], None).is_err());
    }

    #[test]
    fn readers_have_sources_of_their_own_and_then_help() {
        let folder = Folder::new();
        folder.file("d/a", &[0; 3000]);
        folder.file("d/b", &[0; 5000]);
        let gone = folder.file("d/c", &[0; 10]);
        let entries = list(&[folder.0.join("d")], None).unwrap();
        fs::remove_file(gone).unwrap();
        let work = Work::new(&entries, 1000, false);
        let (mut one, mut two) = (None, None);
        let part = |mine: &mut Option<usize>| {
            work.take(mine).map(|part| (part.entry, part.offset, part.len, part.last))
        };
        assert_eq!(part(&mut one), Some((1, 0, 1000, false)));
        assert_eq!(part(&mut two), Some((2, 0, 1000, false)));
        assert_eq!(part(&mut one), Some((1, 1000, 1000, false)));
        assert_eq!(part(&mut one), Some((1, 2000, 1000, true)));
        // It has nothing left, and c vanished: it helps with b.
        assert_eq!(part(&mut one), Some((2, 1000, 1000, false)));
        assert_eq!(part(&mut two), Some((2, 2000, 1000, false)));
        work.cut(2);
        assert_eq!(part(&mut one), None);
        assert_eq!(entries[3].fate(), Fate::Vanished);
    }
}
