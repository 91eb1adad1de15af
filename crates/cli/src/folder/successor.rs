//! A result that replaces an old one.
//!
//! The new result is written to a subfolder of the result folder, whose name marks it as
//! incomplete, and replaces the old result at the end. So the old result exists until the new one
//! is complete, whatever happens meanwhile: the program or the system is killed, the target dies,
//! no I/O succeeds, or the disk is full. Only an interruption by the user replaces an old result
//! with an incomplete one: a user who interrupts a run that has measured something needs its
//! measurements.
//!
//! The new result is inside the old folder and not next to it, so that the folder may be a mount
//! point, a working folder, or in a read-only parent, and so that the user's own files in the
//! folder stay. The documents are replaced atomically, by a rename.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use os::FileKind;

use super::{DOCUMENTS, Folder, KEPT, LOCK, lock, remove_empty};
use crate::{output, signal};

/// Prefix of the name of a successor's folder; a random number follows.
const PREFIX: &str = "incomplete-";
/// Digits of that number.
const DIGITS: usize = 16;
/// Maximum depth of result folders in that of a sweep: cell, run, step.
const DEPTH: usize = 3;

/// Folder where a result is written, and its final folder. Both are the same unless the result
/// replaces another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Folder where the result is written.
    pub now: PathBuf,
    /// Final folder. Files of the volumes, such as ledgers, are there from the start: old ones do
    /// not describe the volumes any more.
    pub home: PathBuf,
}

impl Place {
    /// Place of a result that is written to its final folder from the start.
    pub fn of(folder: &Path) -> Place {
        Place { now: folder.to_owned(), home: folder.to_owned() }
    }

    /// A subfolder of this place.
    pub fn inner(&self, name: &str) -> Place {
        Place { now: self.now.join(name), home: self.home.join(name) }
    }

    /// Whether the result is written to a folder other than its final one.
    pub fn is_apart(&self) -> bool {
        self.now != self.home
    }
}

/// The folder of the results of a command.
#[derive(Debug)]
pub struct Successor {
    /// Folders of the result.
    pub place: Place,
    /// Subfolder for the new result, removed with the program if it stays empty.
    apart: Option<Folder>,
    _home: Folder,
}

impl Successor {
    /// Starts a result in `home`, or in a new subfolder if `home` has a result to `replace`.
    pub fn begin(home: Folder, replace: bool) -> Result<Successor> {
        let path = home.to_path_buf();
        if !replace || !holds_result(&path) {
            return Ok(Successor { place: Place::of(&path), apart: None, _home: home });
        }
        let name = format!("{PREFIX}{:0DIGITS$x}", os::random());
        let now = path.join(&name);
        os::Folder::open_trusted(&path)
            .and_then(|folder| folder.create_folder(Path::new(&name), 0o777))
            .with_context(|| format!("cannot create the run's folder {}", now.display()))?;
        output::note(format_args!(
            "drumfire: {} keeps its old result until the new one is complete; the new one is in {}",
            path.display(),
            now.display()
        ));
        let apart = Folder { path: now.clone(), made: vec![now.clone()], _lock: None };
        let place = Place { now, home: path };
        Ok(Successor { place, apart: Some(apart), _home: home })
    }

    /// The incomplete successor in `folder`, if that is the subfolder of a result that still
    /// exists.
    pub fn again(folder: &Path) -> Result<Option<Successor>> {
        let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        let home = above.unwrap_or(Path::new("."));
        if !is_successor(name) || !holds_result(home) {
            return Ok(None);
        }
        let mut locked = Folder::at(home)?;
        locked._lock = lock(home)?;
        let apart = Some(Folder::at(folder)?);
        let place = Place { now: folder.to_owned(), home: home.to_owned() };
        Ok(Some(Successor { place, apart, _home: locked }))
    }

    /// Replaces the old result with the new one.
    ///
    /// # Errors
    ///
    /// Errors of the file system. Files that were not moved are then where they were.
    pub fn take_place(&mut self) -> Result<()> {
        let Some(apart) = self.apart.take() else { return Ok(()) };
        let _writing = signal::Writing::begin();
        let home = &self.place.home;
        put(home, &apart.path).with_context(|| {
            let (home, now) = (home.display(), apart.path.display());
            format!("cannot replace the result in {home}: the new result is in {now}")
        })
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let Some(apart) = &self.apart else { return };
        if forget(&apart.path).is_err() {
            output::note(format_args!(
                "drumfire: {} keeps its old result: the incomplete new one is in {}",
                self.place.home.display(),
                apart.path.display()
            ));
        }
    }
}

/// Removes a folder that is empty except for the lock of a sweep.
fn forget(path: &Path) -> io::Result<()> {
    let folder = os::Folder::open_trusted(path)?;
    if folder.names()? == [LOCK] {
        folder.remove(Path::new(LOCK))?;
    }
    remove_empty(path)
}

/// Whether a folder has a result, complete or partial, and not only its job.
fn holds_result(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    has("sweep.json") || has("result.json") || has("step-1/result.json")
}

fn is_successor(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|number| {
        number.len() == DIGITS && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Moves the contents of `apart`, a folder in `home`, over the results in `home`.
fn put(home: &Path, apart: &Path) -> io::Result<()> {
    let home = os::Folder::open_trusted(home)?;
    let apart = Path::new(apart.file_name().unwrap_or_default());
    // Steps and cells of the old result must not be mistaken for those of the new one. Remove them
    // first: the old document, which is replaced later, still records their results.
    clear_below(&home, Path::new(""), 0)?;
    let mut old = Vec::new();
    for name in DOCUMENTS {
        match home.look(&apart.join(name)) {
            Ok(_) => home.put(&apart.join(name), Path::new(name))?,
            Err(error) if error.kind() == ErrorKind::NotFound => old.push(name),
            Err(error) => return Err(error),
        }
    }
    old.iter().try_for_each(|name| remove(&home, Path::new(name)))?;
    merge(&home, apart, Path::new(""))
}

/// Moves the contents of a folder, and removes the folder. Files of the same names are replaced,
/// all others stay.
fn merge(home: &os::Folder, from: &Path, to: &Path) -> io::Result<()> {
    for name in home.folder(from)?.names()? {
        let (old, new) = (from.join(&name), to.join(&name));
        let is_folder =
            |path: &Path| home.look(path).is_ok_and(|about| about.kind == FileKind::Folder);
        match is_folder(&old) && is_folder(&new) {
            true => merge(home, &old, &new)?,
            false => home.put(&old, &new)?,
        }
    }
    home.remove_folder(from)
}

/// Removes the results in the folders of steps, cells and their runs. Jobs, logs and other files
/// stay, and so do incomplete successors: after a kill they may be the only copy.
fn clear_below(home: &os::Folder, inside: &Path, depth: usize) -> io::Result<()> {
    let is_root = inside.as_os_str().is_empty();
    let names = if is_root { home.names() } else { home.folder(inside)?.names() };
    for name in names? {
        let path = inside.join(&name);
        let is_folder = home.look(&path)?.kind == FileKind::Folder;
        let holds = |name: &str| home.look(&path.join(name)).is_ok();
        if !is_folder || name.to_str().is_some_and(is_successor) || !KEPT.iter().any(|n| holds(n)) {
            continue;
        }
        DOCUMENTS.iter().try_for_each(|name| remove(home, &path.join(name)))?;
        if depth + 1 < DEPTH {
            clear_below(home, &path, depth + 1)?;
        }
    }
    Ok(())
}

fn remove(home: &os::Folder, path: &Path) -> io::Result<()> {
    match home.remove(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod test {
    use std::fs;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            let path = std::env::temp_dir().join(format!("drumfire-place-{:x}", os::random()));
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// All files with their content, and empty folders, sorted.
        fn all(&self) -> Vec<(String, String)> {
            let (mut found, mut open) = (Vec::new(), vec![self.0.clone()]);
            while let Some(folder) = open.pop() {
                let inside: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
                let name = |path: &Path| {
                    path.strip_prefix(&self.0).unwrap().to_string_lossy().into_owned()
                };
                if inside.is_empty() {
                    found.push((name(&folder), "folder".to_owned()));
                }
                for path in inside.iter().map(fs::DirEntry::path) {
                    match path.is_dir() {
                        true => open.push(path),
                        false => found.push((name(&path), fs::read_to_string(&path).unwrap())),
                    }
                }
            }
            found.sort_unstable();
            found
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn owned(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn begun(scratch: &Scratch) -> Successor {
        Successor::begin(Folder::at(&scratch.0).unwrap(), true).unwrap()
    }

    #[test]
    fn the_old_result_stays_until_the_new_one_takes_its_place() {
        let scratch = Scratch::new();
        scratch.write("result.json", "old");
        scratch.write("report.txt", "old");
        scratch.write("job.toml", "old");
        scratch.write("notes", "mine");
        let before = scratch.all();
        // The run, or a sweep, measured nothing.
        drop(begun(&scratch));
        assert_eq!(scratch.all(), before);
        let sweep = begun(&scratch);
        fs::write(sweep.place.now.join(LOCK), "").unwrap();
        drop(sweep);
        assert_eq!(scratch.all(), before);
        let mut new = begun(&scratch);
        assert!(new.place.is_apart() && new.place.now.starts_with(&new.place.home));
        for (name, text) in [("result.json", "new"), ("job.toml", "new"), ("trace.json", "new")] {
            fs::write(new.place.now.join(name), text).unwrap();
        }
        for (name, text) in &before {
            assert_eq!(fs::read_to_string(scratch.0.join(name)).unwrap(), *text, "{name}");
        }
        new.take_place().unwrap();
        drop(new);
        let after =
            [("job.toml", "new"), ("notes", "mine"), ("result.json", "new"), ("trace.json", "new")];
        assert_eq!(scratch.all(), owned(&after));
    }

    #[test]
    fn no_cell_of_the_old_one_is_one_of_the_new_one() {
        let scratch = Scratch::new();
        for name in
            ["sweep.json", "a/result.json", "a/repeat-1/result.json", "a/notes", "b/job.toml"]
        {
            scratch.write(name, "old");
        }
        scratch.write("b/result.json", "old");
        scratch.write("incomplete-0123456789abcdef/result.json", "killed");
        scratch.write("mine/deep/result.txt", "mine");
        let mut new = begun(&scratch);
        for name in ["sweep.json", "a/repeat-1/result.json", "c/result.json"] {
            let path = new.place.now.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "new").unwrap();
        }
        new.take_place().unwrap();
        drop(new);
        let after = [
            ("a/notes", "old"),
            ("a/repeat-1/result.json", "new"),
            ("b/job.toml", "old"),
            ("c/result.json", "new"),
            ("incomplete-0123456789abcdef/result.json", "killed"),
            ("mine/deep/result.txt", "mine"),
            ("sweep.json", "new"),
        ];
        assert_eq!(scratch.all(), owned(&after));
    }

    #[test]
    fn half_a_successor_stays_beside_the_old_result_and_may_go_on() {
        let scratch = Scratch::new();
        scratch.write("sweep.json", "old");
        let new = begun(&scratch);
        let now = new.place.now.clone();
        fs::write(now.join("sweep.json"), "half").unwrap();
        drop(new);
        assert_eq!(fs::read_to_string(scratch.0.join("sweep.json")).unwrap(), "old");
        let mut again = Successor::again(&now).unwrap().expect("it is one");
        assert_eq!((&again.place.now, &again.place.home), (&now, &scratch.0));
        again.take_place().unwrap();
        drop(again);
        assert_eq!(scratch.all(), owned(&[("sweep.json", "half")]));
        for other in ["incomplete-x", "other", "."] {
            assert!(Successor::again(&scratch.0.join(other)).unwrap().is_none(), "{other}");
        }
    }

    #[test]
    fn where_no_result_is_there_is_none_to_keep() {
        let scratch = Scratch::new();
        // A job file may be the input of the run.
        scratch.write("job.toml", "job");
        assert!(!begun(&scratch).place.is_apart());
        scratch.write("step-1/result.json", "old");
        assert!(begun(&scratch).place.is_apart());
        let plain = Successor::begin(Folder::at(&scratch.0).unwrap(), false).unwrap();
        assert!(!plain.place.is_apart());
        drop(plain);
        // A document of the other kind is removed.
        let mut new = begun(&scratch);
        fs::write(new.place.now.join("result.json"), "new").unwrap();
        new.take_place().unwrap();
        drop(new);
        let after = [("job.toml", "job"), ("result.json", "new"), ("step-1", "folder")];
        assert_eq!(scratch.all(), owned(&after));
    }
}
