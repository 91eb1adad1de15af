//! Sources: files, folders and volumes, and the fate of each during a backup. A running database
//! continues meanwhile: files vanish, grow and shrink, which is reported and does not stop the
//! backup.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use os::{FileAbout, FileId, Folder};
use rustix::io::Errno;
use volume::Volume;

use crate::fate::{Fate, Gap, GapKind, joined};
use crate::format::index::{Kept, Kind};

/// A source.
pub struct Entry {
    /// Kind.
    pub kind: Kind,
    /// Relative to the folder of a restore.
    pub path: PathBuf,
    /// Size in bytes at the time of listing.
    pub listed_bytes: u64,
    pub(crate) from: Origin,
    /// Device and inode number of the listed file. A volume has none.
    pub(crate) id: Option<FileId>,
    /// The file has other names, which may be among the sources.
    pub(crate) has_names: bool,
    /// The file has holes, or may have some that the file system does not show.
    pub(crate) is_sparse: bool,
    /// Bytes read so far.
    read_bytes: AtomicU64,
    /// Failed reads that were tried again in pieces.
    salvages: AtomicU32,
    state: Mutex<State>,
}

/// State of a source so far.
struct State {
    fate: Fate,
    gaps: Vec<Gap>,
    mode: u32,
    uid: u32,
    gid: u32,
}

/// Origin of the bytes.
pub(crate) enum Origin {
    /// A path that the user named.
    Named(PathBuf),
    /// An entry below a folder that the user named: its path without the first name.
    Below(Arc<Root>),
    /// A volume.
    Volume(Arc<dyn Volume>),
}

/// A folder that the user named.
pub(crate) struct Root {
    path: PathBuf,
    id: FileId,
}

impl Root {
    /// Opens the folder that was named.
    pub(crate) fn open(path: &Path) -> io::Result<(Arc<Root>, Folder)> {
        let folder = Folder::open(path)?;
        let id = folder.about()?.id;
        Ok((Arc::new(Root { path: path.to_owned(), id }), folder))
    }

    /// Opens the folder again.
    ///
    /// # Errors
    ///
    /// [`Fate::Changed`] if its path leads to another folder by now.
    pub(crate) fn again(&self) -> Result<Folder, Fate> {
        let folder = Folder::open(&self.path).map_err(|error| fate_of(&error))?;
        match folder.about() {
            Ok(about) if about.id == self.id => Ok(folder),
            Ok(_) => Err(Fate::Changed(format!("{} is another folder", self.path.display()))),
            Err(error) => Err(fate_of(&error)),
        }
    }
}

impl Entry {
    pub(crate) fn new(kind: Kind, path: PathBuf, from: Origin, about: &FileAbout) -> Entry {
        let FileAbout { mode, uid, gid, .. } = *about;
        let has_data = kind.has_data();
        Entry {
            has_names: has_data && about.links > 1,
            is_sparse: has_data && about.stored_bytes < about.bytes,
            listed_bytes: if has_data { about.bytes } else { 0 },
            id: Some(about.id),
            kind,
            path,
            from,
            read_bytes: AtomicU64::new(0),
            salvages: AtomicU32::new(0),
            state: Mutex::new(State { fate: Fate::Whole, gaps: Vec::new(), mode, uid, gid }),
        }
    }

    /// An entry of which only the name is known.
    pub(crate) fn lost(path: PathBuf, from: Origin, fate: Fate) -> Entry {
        let entry = Entry { id: None, ..Entry::new(Kind::File, path, from, &nothing()) };
        entry.note(fate);
        entry
    }

    fn of_volume(path: PathBuf, volume: Arc<dyn Volume>) -> Entry {
        let listed_bytes = volume.geometry().bytes();
        let about = FileAbout { mode: 0o600, ..nothing() };
        let entry = Entry::new(Kind::Volume, path, Origin::Volume(volume), &about);
        // A volume does not show its holes.
        Entry { listed_bytes, id: None, is_sparse: true, ..entry }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fate of the source so far.
    pub fn fate(&self) -> Fate {
        self.state().fate.clone()
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of holes found so far.
    pub fn hole_bytes(&self) -> u64 {
        let state = self.state();
        let holes = state.gaps.iter().filter(|gap| gap.kind == GapKind::Hole);
        holes.map(|gap| gap.range.end - gap.range.start).sum()
    }

    /// Ranges that could not be read so far.
    pub fn unread(&self) -> Vec<Range<u64>> {
        let gaps = joined(self.state().gaps.clone());
        gaps.into_iter().filter(|gap| gap.kind == GapKind::Unread).map(|gap| gap.range).collect()
    }

    /// Records a fate of the source, if it is worse than the current one.
    pub(crate) fn note(&self, fate: Fate) {
        self.state().fate.worsen(fate);
    }

    /// A range that has no data in the backup.
    pub(crate) fn note_gap(&self, kind: GapKind, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let gaps = &mut self.state().gaps;
        match gaps.last_mut() {
            Some(last) if last.kind == kind && last.range.end == range.start => {
                last.range.end = range.end;
            }
            _ => gaps.push(Gap { kind, range }),
        }
    }

    pub(crate) fn add_read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether one more failed read may be retried in pieces, of `most` in all.
    pub(crate) fn may_salvage(&self, most: u32) -> bool {
        self.salvages.fetch_add(1, Ordering::Relaxed) < most
    }

    /// Records the current permissions and owner: the data read now are as private as that.
    pub(crate) fn note_owner(&self, about: &FileAbout) {
        let mut state = self.state();
        (state.mode, state.uid, state.gid) = (about.mode, about.uid, about.gid);
    }

    /// The path below its root.
    pub(crate) fn below(&self) -> &Path {
        let mut names = self.path.components();
        names.next();
        names.as_path()
    }

    /// The source's entry in the index.
    fn kept(&self) -> Kept {
        let state = self.state();
        let State { fate, mode, uid, gid, .. } = &*state;
        let gaps = joined(state.gaps.clone());
        let nothing_read = self.kind.has_data() && self.read_bytes() == 0;
        let is_lost = nothing_read
            && matches!(
                fate,
                Fate::Vanished | Fate::Skipped | Fate::Changed(_) | Fate::Unreadable(_)
            );
        Kept {
            kind: if is_lost { Kind::Absent } else { self.kind.clone() },
            path: self.path.clone(),
            mode: *mode,
            uid: *uid,
            gid: *gid,
            listed_bytes: self.listed_bytes,
            fate: fate.clone(),
            gaps: if is_lost { Vec::new() } else { gaps },
        }
    }
}

/// Index entries of all sources. A hard link to a file without an entry has none.
pub(crate) fn kept(entries: &[Entry]) -> Vec<Kept> {
    let mut all: Vec<Kept> = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut kept = entry.kept();
        if let Kind::Hard(to) = kept.kind
            && all[to as usize].kind != Kind::File
        {
            (kept.kind, kept.fate) = (Kind::Absent, all[to as usize].fate.clone());
        }
        all.push(kept);
    }
    all
}

/// Adds a volume, backed up as a file of this name.
pub fn add_volume(entries: &mut Vec<Entry>, name: &str, volume: Arc<dyn Volume>) {
    entries.push(Entry::of_volume(PathBuf::from(name), volume));
}

/// Fate of a file that cannot be opened for this reason.
pub(crate) fn fate_of(error: &io::Error) -> Fate {
    let is = |code: Errno| error.raw_os_error() == Some(code.raw_os_error());
    if error.kind() == ErrorKind::NotFound {
        Fate::Vanished
    } else if is(Errno::LOOP) {
        Fate::Changed("its path contains a symbolic link".to_owned())
    } else if is(Errno::NOTDIR) {
        Fate::Changed("a component of its path is no longer a folder".to_owned())
    } else if is(Errno::XDEV) {
        Fate::Changed("its path leads outside the source folder".to_owned())
    } else if is(Errno::NXIO) {
        Fate::Changed("it is a socket or device".to_owned())
    } else {
        Fate::Unreadable(error.to_string())
    }
}

/// Placeholder for unknown properties.
fn nothing() -> FileAbout {
    FileAbout {
        id: (0, 0),
        kind: os::FileKind::File,
        mode: 0o600,
        uid: 0,
        gid: 0,
        bytes: 0,
        stored_bytes: 0,
        links: 1,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_lost_file_takes_its_further_names_with_it() {
        let named = || Origin::Named("x".into());
        let entry = |kind| Entry::new(kind, "x".into(), named(), &nothing());
        let entries =
            [entry(Kind::File), entry(Kind::Hard(0)), entry(Kind::File), entry(Kind::Hard(2))];
        entries[0].note(Fate::Vanished);
        let found = kept(&entries);
        let kinds: Vec<&Kind> = found.iter().map(|kept| &kept.kind).collect();
        assert_eq!(kinds, [&Kind::Absent, &Kind::Absent, &Kind::File, &Kind::Hard(2)]);
        assert_eq!(found[1].fate, Fate::Vanished);
    }

    #[test]
    fn a_fate_is_told_apart_by_the_error_of_the_system() {
        let of = |code: Errno| fate_of(&code.into());
        assert_eq!(of(Errno::NOENT), Fate::Vanished);
        assert!(matches!(of(Errno::LOOP), Fate::Changed(_)));
        assert!(matches!(of(Errno::NOTDIR), Fate::Changed(_)));
        assert!(matches!(of(Errno::ACCESS), Fate::Unreadable(_)));
    }
}
