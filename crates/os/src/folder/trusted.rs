//! Folders and files in the place of which others may put a symbolic link.
//!
//! Whoever owns a folder can put a symbolic link in the place of any file or folder in it, at any
//! time. So a file is made under a name that nobody can guess and renamed: that replaces a link and
//! does not follow it. On the way to a folder only links that can be trusted are followed: those of
//! this user or of root, and those in a folder that only these may write.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::{FOLDER, FileAbout, FileKind, Folder};
use crate::{ImageLock, LockError};

/// Links followed on one way, as many as the kernel follows.
const LINKS_MAX: usize = 40;
/// Permissions of new files and folders, less the umask.
const FILE_MODE: u32 = 0o666;
const FOLDER_MODE: u32 = 0o777;
/// For a handle that only leads somewhere.
const WAY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A new file under a name that nobody can guess. Dropped, it is removed.
#[derive(Debug)]
pub struct Draft<'a> {
    folder: &'a Folder,
    name: OsString,
    /// The file, open to be read and written.
    pub file: File,
    kept: bool,
}

/// An entry of a folder, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Missing,
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, or anything else.
    Other {
        /// Whether this user or root made it, or nobody else could have.
        trusted: bool,
    },
}

impl Folder {
    /// Opens a folder to which no link of another user leads. One that may be written and not read
    /// is opened, too: what it holds cannot be listed.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] if a link of another user leads there.
    pub fn open_trusted(path: &Path) -> io::Result<Folder> {
        walk(path, &mut None)
    }

    /// Opens a folder as [`Folder::open_trusted`] and creates it before, with those above it. The
    /// second value names those that were created, from the inside.
    ///
    /// # Errors
    ///
    /// Errors of [`Folder::open_trusted`].
    pub fn make_trusted(path: &Path) -> io::Result<(Folder, Vec<PathBuf>)> {
        let mut made = Some(Vec::new());
        let folder = walk(path, &mut made)?;
        let mut made = made.unwrap_or_default();
        made.reverse();
        Ok((folder, made))
    }

    /// Opens the folder of a file; returns the file's name, too.
    ///
    /// # Errors
    ///
    /// Errors of [`Folder::open_trusted`], and that the path has no name.
    pub fn trusted_parent(path: &Path) -> io::Result<(Folder, &OsStr)> {
        let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((Folder::open_trusted(folder.unwrap_or(Path::new(".")))?, name))
    }

    /// Begins a file, to be kept by a name that has nothing to do with its own.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn draft(&self) -> io::Result<Draft<'_>> {
        let name = OsString::from(format!(".drumfire-{:016x}.part", crate::random()));
        let file = self.create(Path::new(&name), FILE_MODE, 0)?;
        Ok(Draft { folder: self, name, file, kept: false })
    }

    /// Opens a file to append to it, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] for what another user may have put there: a link, or a
    /// file that has another name, too. Otherwise those of the file system.
    pub fn append(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens a file that is there, to be read and written.
    ///
    /// # Errors
    ///
    /// Errors of [`Folder::append`].
    pub fn update(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, OFlags::RDWR)
    }

    fn open_file(&self, name: &OsStr, how: OFlags) -> io::Result<File> {
        let mut flags = how | OFlags::CLOEXEC | OFlags::NOCTTY;
        if self.entry(name)? != (Entry::Other { trusted: true }) {
            flags |= OFlags::NOFOLLOW;
        }
        // A fifo without a reader is not waited for.
        let mode = Mode::from_raw_mode(FILE_MODE);
        let opened = openat(self, name, flags | OFlags::NONBLOCK, mode);
        let file = opened.map_err(|error| match error {
            Errno::LOOP => foreign("it is a link of another user"),
            Errno::NXIO => io::Error::other("nobody reads from it"),
            other => other.into(),
        })?;
        let about = FileAbout::of(&file)?;
        if about.kind == FileKind::File && about.links > 1 && !is_private(&self.about()?) {
            return Err(foreign("it has another name, and this one may be of another user"));
        }
        rustix::fs::fcntl_setfl(&file, how & OFlags::APPEND)?;
        let file = File::from(file);
        if about.kind == FileKind::File {
            not_an_image_in_use(&file)?;
        }
        Ok(file)
    }

    /// Looks at the entry of a name.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn entry(&self, name: &OsStr) -> io::Result<Entry> {
        let about = match self.look(Path::new(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entry::Missing),
            about => about?,
        };
        Ok(match about.kind {
            FileKind::File => Entry::File,
            FileKind::Folder => Entry::Folder,
            _ => Entry::Other { trusted: is_trusted(&self.about()?, &about) },
        })
    }

    /// The folder as an open file, to lock it.
    ///
    /// # Errors
    ///
    /// The folder may not be read.
    pub fn handle(&self) -> io::Result<File> {
        Ok(openat(self, ".", FOLDER, Mode::empty())?.into())
    }
}

impl Draft<'_> {
    /// Gives the file a name, in the place of what has it.
    ///
    /// # Errors
    ///
    /// Errors of the file system, and that the old file is an image that somebody uses; the new
    /// file is removed.
    pub fn keep(mut self, name: &OsStr) -> io::Result<File> {
        if self.folder.entry(name)? == Entry::File
            && let Ok(old) = self.folder.file(Path::new(name), 0)
        {
            not_an_image_in_use(&old)?;
        }
        self.folder.rename(Path::new(&self.name), Path::new(name), true)?;
        self.kept = true;
        self.file.try_clone()
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // On a full disk it would be in the way of what comes next.
            let _ = self.folder.remove(Path::new(&self.name));
        }
    }
}

/// Opens a new file in the place of the one that has its name, if any.
///
/// # Errors
///
/// Errors of the file system.
pub fn new_file(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::trusted_parent(path)?;
    folder.draft()?.keep(name)
}

/// Opens a file that is there, to be read and written; see [`Folder::update`].
///
/// # Errors
///
/// Errors of the file system.
pub fn update(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::trusted_parent(path)?;
    folder.update(name)
}

/// Opens a file to append to it, and creates it if it is missing; see [`Folder::append`].
///
/// # Errors
///
/// Errors of the file system.
pub fn append_to(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::trusted_parent(path)?;
    folder.append(name)
}

/// Goes to a folder part by part, and creates what is missing if `made` collects that.
fn walk(path: &Path, made: &mut Option<Vec<PathBuf>>) -> io::Result<Folder> {
    let mut left: Vec<OsString> = parts(path);
    left.reverse();
    let (mut here, mut links, mut way) = (openat(CWD, ".", WAY, Mode::empty())?, 0, PathBuf::new());
    while let Some(part) = left.pop() {
        way.push(&part);
        if part == OsStr::new("/") {
            here = openat(CWD, "/", WAY, Mode::empty())?;
            continue;
        }
        let next = match openat(&here, &part, WAY, Mode::empty()) {
            Err(Errno::NOENT) if made.is_some() => {
                mkdirat(&here, &part, Mode::from_raw_mode(FOLDER_MODE))?;
                made.iter_mut().for_each(|made| made.push(way.clone()));
                openat(&here, &part, WAY, Mode::empty())?
            }
            next => next?,
        };
        let about = FileAbout::of(&next)?;
        if about.kind != FileKind::Link {
            here = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if !is_trusted(&FileAbout::of(&here)?, &about) {
            let why = format!("{} is a link of another user: name what it leads to", way.display());
            return Err(foreign(&why));
        }
        way.pop();
        let to = readlinkat(&next, "", Vec::new())?;
        left.extend(parts(Path::new(OsStr::from_bytes(to.as_bytes()))).into_iter().rev());
    }
    opened(&here)
}

/// A handle to read and write a folder, or where it may not be read, one to write.
fn opened(here: &OwnedFd) -> io::Result<Folder> {
    match openat(here, ".", FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            Ok(Folder(openat(here, ".", WAY | OFlags::DIRECTORY, Mode::empty())?))
        }
        found => Ok(Folder(found?)),
    }
}

fn parts(path: &Path) -> Vec<OsString> {
    let part = |part: Component| match part {
        Component::RootDir => Some(OsString::from("/")),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Normal(name) => Some(name.to_owned()),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

/// Whether an entry of a folder was put there by this user or by root.
fn is_trusted(folder: &FileAbout, about: &FileAbout) -> bool {
    is_ours(about.uid) || is_private(folder)
}

/// Whether nobody but this user and root may put something into a folder.
fn is_private(folder: &FileAbout) -> bool {
    is_ours(folder.uid) && folder.mode & 0o022 == 0
}

fn is_ours(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Refuses a file that somebody serves, drives or runs a machine from.
fn not_an_image_in_use(file: &File) -> io::Result<()> {
    match ImageLock::ask_of(file) {
        Err(LockError::InUse { by, writes }) => {
            let does = if writes { "writes" } else { "reads" };
            let why = format!("it is an image in use: {by} {does} it");
            Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
        }
        _ => Ok(()),
    }
}

fn foreign(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod test {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    /// The user of whom files and links are not to be trusted.
    const STRANGER: u32 = 65_534;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("drumfire-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("elsewhere")).unwrap();
            fs::write(path.join("elsewhere/victim"), "precious").unwrap();
            fs::create_dir(path.join("theirs")).unwrap();
            Scratch(path)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        /// A link that a stranger made; `false` where this user may not make one.
        fn planted(&self, to: &str, name: &str) -> bool {
            symlink(self.at(to), self.at(name)).unwrap();
            let owner = Some(STRANGER);
            chown(self.at("theirs"), owner, owner).is_ok()
                && std::os::unix::fs::lchown(self.at(name), owner, owner).is_ok()
        }

        fn is_untouched(&self) {
            assert_eq!(fs::read_to_string(self.at("elsewhere/victim")).unwrap(), "precious");
            assert_eq!(fs::read_dir(self.at("elsewhere")).unwrap().count(), 1);
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_takes_the_place_of_a_link_and_does_not_follow_it() {
        let scratch = Scratch::new("folder-link");
        scratch.planted("elsewhere/victim", "theirs/result.json");
        let mut file = new_file(&scratch.at("theirs/result.json")).unwrap();
        file.write_all(b"mine").unwrap();
        scratch.is_untouched();
        assert!(fs::symlink_metadata(scratch.at("theirs/result.json")).unwrap().is_file());
        assert_eq!(fs::read_to_string(scratch.at("theirs/result.json")).unwrap(), "mine");
        assert_eq!(fs::read_dir(scratch.at("theirs")).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_appended_through_a_strangers_link() {
        let scratch = Scratch::new("folder-append");
        if scratch.planted("elsewhere/victim", "theirs/log") {
            for open in [append_to, update] {
                let error = open(&scratch.at("theirs/log")).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            }
            fs::hard_link(scratch.at("elsewhere/victim"), scratch.at("theirs/hard")).unwrap();
            let error = append_to(&scratch.at("theirs/hard")).unwrap_err();
            assert!(error.to_string().contains("another name"), "{error}");
            fs::remove_file(scratch.at("theirs/hard")).unwrap();
        }
        for _ in 0..2 {
            append_to(&scratch.at("theirs/new")).unwrap().write_all(b"ab").unwrap();
        }
        assert_eq!(fs::read_to_string(scratch.at("theirs/new")).unwrap(), "abab");
        scratch.is_untouched();
    }

    #[test]
    fn no_folder_is_made_through_a_strangers_link() {
        let scratch = Scratch::new("folder-way");
        if scratch.planted("elsewhere", "theirs/out") {
            for path in ["theirs/out", "theirs/out/deep/er", "theirs/out/../elsewhere"] {
                let error = Folder::make_trusted(&scratch.at(path)).unwrap_err();
                assert!(error.to_string().contains("out is a link of another user"), "{error}");
            }
        }
        scratch.is_untouched();
        // Ours lead where they lead.
        symlink(scratch.at("theirs"), scratch.at("ours")).unwrap();
        symlink("ours", scratch.at("again")).unwrap();
        let (folder, made) = Folder::make_trusted(&scratch.at("again/deep/./er")).unwrap();
        assert_eq!(made, [scratch.at("theirs/deep/er"), scratch.at("theirs/deep")]);
        let mut draft = folder.draft().unwrap();
        draft.file.write_all(b"x").unwrap();
        draft.keep(OsStr::new("file")).unwrap();
        assert!(scratch.at("theirs/deep/er/file").is_file());
        symlink("loop", scratch.at("loop")).unwrap();
        assert!(Folder::open_trusted(&scratch.at("loop/x")).is_err());
        assert!(Folder::open_trusted(&scratch.at("elsewhere/victim")).is_err());
        assert!(Folder::open_trusted(&scratch.at("missing")).is_err());
    }

    #[test]
    fn an_image_in_use_is_neither_replaced_nor_written() {
        let scratch = Scratch::new("folder-image");
        let path = scratch.at("elsewhere/victim");
        for writes in [true, false] {
            let _used = ImageLock::take(&path, writes).unwrap();
            for open in [new_file, append_to, update] {
                let error = open(&path).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
            }
            scratch.is_untouched();
        }
        append_to(&path).unwrap();
        new_file(&path).unwrap();
    }

    #[test]
    fn a_draft_that_is_not_kept_is_gone() {
        let scratch = Scratch::new("folder-draft");
        let folder = Folder::open_trusted(&scratch.at("theirs")).unwrap();
        let mut draft = folder.draft().unwrap();
        draft.file.write_all(b"half").unwrap();
        assert_eq!(draft.file.metadata().unwrap().permissions().mode() & 0o111, 0);
        assert!(draft.file.metadata().unwrap().nlink() == 1);
        drop(draft);
        assert_eq!(fs::read_dir(scratch.at("theirs")).unwrap().count(), 0);
        assert_eq!(folder.entry(OsStr::new("x")).unwrap(), Entry::Missing);
        folder.create_folder(Path::new("x"), 0o700).unwrap();
        assert_eq!(folder.entry(OsStr::new("x")).unwrap(), Entry::Folder);
        let inner = Folder::open_trusted(&scratch.at("theirs/x")).unwrap();
        assert_eq!(inner.handle().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
        assert!(folder.create_folder(Path::new("x"), 0o700).is_err());
        let mut text = String::new();
        new_file(&scratch.at("theirs/y")).unwrap().read_to_string(&mut text).unwrap();
        folder.remove(Path::new("y")).unwrap();
        assert_eq!(folder.entry(OsStr::new("y")).unwrap(), Entry::Missing);
    }
}
