//! Lists the files below the folders that a user names, by handles of folders: a folder that its
//! owner replaces meanwhile leads nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use os::{FileAbout, FileId, FileKind, Folder};
use rustix::fs::OFlags;

use crate::BackupError;
use crate::fate::Fate;
use crate::format::ENTRIES_MAX;
use crate::format::index::{Kind, PATH_MAX_BYTES};
use crate::source::{Entry, Origin, Root, fate_of};

/// Files that are not backed up: the target itself.
#[derive(Clone, Debug, Default)]
pub struct Skip {
    /// Files by their device and inode number.
    pub files: Vec<FileId>,
    /// Names of the target: its folder, and a name in that folder.
    pub names: Vec<(FileId, OsString)>,
}

impl Skip {
    fn holds(&self, folder: FileId, name: &OsStr, id: FileId) -> bool {
        let is_it = |(of, its): &(FileId, OsString)| *of == folder && its == name;
        self.files.contains(&id) || self.names.iter().any(is_it)
    }
}

/// Lists files and folders recursively, in the order of their names. Symbolic links are backed
/// up as links; only those in `paths` are followed. A file with several names is backed up once.
///
/// # Errors
///
/// A path in `paths` cannot be read, or is the target; entries below may be reported as unreadable.
/// [`BackupError::Stopped`] if `stop` returns true.
pub fn list(
    paths: &[PathBuf],
    skip: &Skip,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Entry>, BackupError> {
    let mut list = List { entries: Vec::new(), names: BTreeMap::new(), skip, stop };
    let mut roots = BTreeSet::new();
    for path in paths {
        let fail = |error| BackupError::Source { path: path.clone(), error };
        let about = fs::metadata(path).map_err(fail)?;
        let whole = fs::canonicalize(path).map_err(fail)?;
        let name = whole.file_name().unwrap_or(OsStr::new("root"));
        let below = free_name(name, &mut roots);
        if about.is_dir() {
            let (root, folder) = Root::open(path).map_err(fail)?;
            list.walk(path, &root, &folder, below)?;
        } else if about.is_file() {
            let about = open_named(path, 0).and_then(FileAbout::of).map_err(fail)?;
            if is_target(skip, &whole, about.id) {
                return Err(BackupError::Itself(path.clone()));
            }
            list.file(below, Origin::Named(path.clone()), &about)?;
        } else {
            let words = "not a file or a folder: name a device as file:PATH";
            return Err(fail(io::Error::new(ErrorKind::InvalidInput, words)));
        }
    }
    Ok(list.entries)
}

/// Opens a path that the user named, without waiting for a pipe.
pub(crate) fn open_named(path: &Path, flags: i32) -> io::Result<fs::File> {
    let flags = flags | (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether a file has a name of the target.
fn is_target(skip: &Skip, path: &Path, id: FileId) -> bool {
    let folder = path.parent().and_then(|parent| fs::metadata(parent).ok());
    let folder = folder.map_or((0, 0), |about| (about.dev(), about.ino()));
    path.file_name().is_some_and(|name| skip.holds(folder, name, id))
}

/// `name`, or the first free one of `name-2`, `name-3` …
fn free_name(name: &OsStr, taken: &mut BTreeSet<OsString>) -> PathBuf {
    let mut free = name.to_owned();
    for number in 2.. {
        if taken.insert(free.clone()) {
            break;
        }
        free = name.to_owned();
        free.push(format!("-{number}"));
    }
    PathBuf::from(free)
}

struct List<'a> {
    entries: Vec<Entry>,
    /// Files with several names, and their entries.
    names: BTreeMap<FileId, u32>,
    skip: &'a Skip,
    stop: &'a dyn Fn() -> bool,
}

/// An entry that is still to be listed.
struct Waiting {
    /// Relative to the root; empty for the root itself.
    path: PathBuf,
    about: FileAbout,
    link: Option<PathBuf>,
}

impl List<'_> {
    /// Adds the folder that a user named, and everything below it.
    fn walk(
        &mut self,
        path: &Path,
        root: &Arc<Root>,
        folder: &Folder,
        name: PathBuf,
    ) -> Result<(), BackupError> {
        let fail = |error| BackupError::Source { path: path.to_owned(), error };
        let about = folder.about().map_err(fail)?;
        // A named folder must be readable; an unreadable one below it is recorded in the backup.
        folder.names().map_err(fail)?;
        let mut waiting = vec![Waiting { path: PathBuf::new(), about, link: None }];
        while let Some(next) = waiting.pop() {
            if (self.stop)() {
                return Err(BackupError::Stopped);
            }
            let path = match next.path.as_os_str().is_empty() {
                true => name.clone(),
                false => name.join(&next.path),
            };
            let from = Origin::Below(Arc::clone(root));
            match (next.about.kind, next.link) {
                (FileKind::Folder, _) => {
                    let entry = Entry::new(Kind::Folder, path, from, &next.about);
                    self.push(entry)?;
                    self.children(root, folder, &next.path, next.about.id, &mut waiting)?;
                }
                (FileKind::File, _) => self.file(path, from, &next.about)?,
                (FileKind::Link, Some(to)) => {
                    self.push(Entry::new(Kind::Link(to), path, from, &next.about))?;
                }
                _ => self.push(Entry::lost(path, from, Fate::Skipped))?,
            }
        }
        Ok(())
    }

    /// Looks at everything in the folder that was listed last.
    fn children(
        &mut self,
        root: &Arc<Root>,
        top: &Folder,
        path: &Path,
        id: FileId,
        waiting: &mut Vec<Waiting>,
    ) -> Result<(), BackupError> {
        let number = self.entries.len() - 1;
        let opened;
        let folder = if path.as_os_str().is_empty() {
            top
        } else {
            opened = match open_same(top, path, id) {
                Ok(folder) => folder,
                Err(fate) => {
                    self.entries[number].note(fate);
                    return Ok(());
                }
            };
            &opened
        };
        let names = match folder.names() {
            Ok(names) => names,
            Err(error) => {
                self.entries[number].note(fate_of(&error));
                return Ok(());
            }
        };
        // The last of the waiting comes first.
        for name in names.iter().rev() {
            let below = path.join(name);
            let listed = self.entries[number].path.join(name);
            if listed.as_os_str().as_bytes().len() > PATH_MAX_BYTES {
                let why = format!("it has entries with paths of more than {PATH_MAX_BYTES} bytes");
                self.entries[number].note(Fate::Unreadable(why));
                continue;
            }
            match look(folder, name) {
                Ok((about, _)) if self.skip.holds(id, name, about.id) => {}
                Ok((about, link)) => waiting.push(Waiting { path: below, about, link }),
                Err(error) => {
                    let from = Origin::Below(Arc::clone(root));
                    self.push(Entry::lost(listed, from, fate_of(&error)))?;
                }
            }
        }
        Ok(())
    }

    /// Adds a file, or a hard link to one.
    fn file(&mut self, path: PathBuf, from: Origin, about: &FileAbout) -> Result<(), BackupError> {
        let number = self.entries.len() as u32;
        let first = match about.links > 1 {
            true => *self.names.entry(about.id).or_insert(number),
            false => number,
        };
        let kind = if first == number { Kind::File } else { Kind::Hard(first) };
        self.push(Entry::new(kind, path, from, about))
    }

    fn push(&mut self, entry: Entry) -> Result<(), BackupError> {
        if self.entries.len() >= ENTRIES_MAX as usize {
            return Err(BackupError::TooMany);
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// Opens a folder if it is still the listed one.
fn open_same(top: &Folder, path: &Path, id: FileId) -> Result<Folder, Fate> {
    let folder = top.folder(path).map_err(|error| fate_of(&error))?;
    match folder.about() {
        Ok(about) if about.id == id => Ok(folder),
        Ok(_) => Err(Fate::Changed("replaced by another folder".to_owned())),
        Err(error) => Err(fate_of(&error)),
    }
}

/// Properties of an entry of a folder, and its target if it is a symbolic link.
fn look(folder: &Folder, name: &OsStr) -> io::Result<(FileAbout, Option<PathBuf>)> {
    let name = Path::new(name);
    let about = folder.look(name)?;
    let link = (about.kind == FileKind::Link).then(|| folder.read_link(name)).transpose()?;
    Ok((about, link))
}

#[cfg(test)]
mod test {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::test::Scratch;

    fn listed(paths: &[PathBuf], skip: &Skip) -> Vec<Entry> {
        list(paths, skip, &|| false).unwrap()
    }

    #[test]
    fn all_below_is_listed_but_the_target() {
        let scratch = Scratch::new();
        scratch.file("data/base/2", b"two");
        scratch.file("data/base/10", b"ten");
        fs::create_dir(scratch.at("data/empty")).unwrap();
        symlink("/elsewhere", scratch.at("data/link")).unwrap();
        let id =
            |path: PathBuf| fs::metadata(path).map(|about| (about.dev(), about.ino())).unwrap();
        let target = id(scratch.file("data/to.backup", b"x"));
        scratch.file("data/old.backup", b"x");
        let data = scratch.at("data");
        let names = vec![(id(data.clone()), "old.backup".into())];
        let skip = Skip { files: vec![target], names };
        let found = listed(&[data.clone(), data.clone()], &skip);
        let names: Vec<&str> = found.iter().map(|one| one.path.to_str().unwrap()).collect();
        let right = ["data", "data/base", "data/base/10", "data/base/2", "data/empty", "data/link"];
        assert_eq!(names[..6], right);
        assert_eq!(names[6..8], ["data-2", "data-2/base"]);
        assert_eq!(found[5].kind, Kind::Link("/elsewhere".into()));
        assert_eq!((found[2].listed_bytes, found[4].kind.clone()), (3, Kind::Folder));
        assert!(list(&[scratch.at("no-such")], &skip, &|| false).is_err());
        for itself in ["data/to.backup", "data/old.backup"] {
            let error = list(&[scratch.at(itself)], &skip, &|| false).err().unwrap();
            assert!(matches!(error, BackupError::Itself(_)), "{error}");
        }
        let stopped = list(&[data], &skip, &|| true).err().unwrap();
        assert!(matches!(stopped, BackupError::Stopped));
    }

    #[test]
    fn a_file_with_several_names_is_listed_once_with_data() {
        let scratch = Scratch::new();
        let one = scratch.file("d/one", b"text");
        fs::hard_link(&one, scratch.at("d/two")).unwrap();
        fs::hard_link(&one, scratch.at("three")).unwrap();
        let found = listed(&[scratch.at("d"), scratch.at("three")], &Skip::default());
        let kinds: Vec<&Kind> = found.iter().map(|entry| &entry.kind).collect();
        assert_eq!(kinds, [&Kind::Folder, &Kind::File, &Kind::Hard(1), &Kind::Hard(1)]);
        assert_eq!((found[1].listed_bytes, found[2].listed_bytes), (4, 0));
        assert!(found[1].has_names);
    }

    #[test]
    fn pipes_and_sockets_are_told_and_a_named_one_is_refused() {
        let scratch = Scratch::new();
        scratch.file("d/a", b"text");
        let pipe = scratch.at("d/pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        let found = listed(&[scratch.at("d")], &Skip::default());
        assert_eq!((found.len(), found[2].fate()), (3, Fate::Skipped));
        assert!(list(&[pipe], &Skip::default(), &|| false).is_err());
    }

    #[test]
    fn paths_longer_than_a_call_takes_are_listed() {
        let scratch = Scratch::new();
        let folder = Folder::open(&scratch.at("")).unwrap();
        let name = "n".repeat(250);
        let mut path = PathBuf::from("deep");
        folder.create_folder(&path, 0o700).unwrap();
        for _ in 0..20 {
            path.push(&name);
            folder.create_folder(&path, 0o700).unwrap();
        }
        folder.create(&path.join("file"), 0o600, 0).unwrap();
        let found = listed(&[scratch.at("deep")], &Skip::default());
        assert_eq!((found.len(), &found[21].path), (22, &path.join("file")));
        assert!(found.iter().all(|entry| entry.fate() == Fate::Whole));
    }
}
