//! Folders and files that other users may replace with a symbolic link.
//!
//! The owner of a folder can replace any file or subfolder with a symbolic link at any time. So a
//! file is created under an unguessable name and renamed: a rename replaces a link and does not
//! follow it. In a path only trusted links are followed: those of this user or of root, and those
//! in a folder that only these may write. Each link is read by its handle, and its target is
//! checked in the same way: a link of another user is not followed, even if it is swapped in
//! meanwhile or is the target of a trusted link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::links::{Place, foreign, here, is_private, is_trusted, split, walk};
use super::{FOLDER, FileAbout, FileKind, Folder};
use crate::{ImageLock, LockError};

/// Permissions of new files, less the umask.
pub(super) const FILE_MODE: u32 = 0o666;
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
    /// No entry.
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
    /// Opens a folder to which no link of another user leads. A folder with write and without read
    /// permission is opened, too: its entries cannot be listed.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] if a link of another user leads there.
    pub fn open_trusted(path: &Path) -> io::Result<Folder> {
        walk(here()?, path, &mut None)
    }

    /// Opens a folder as [`Folder::open_trusted`] and creates it before, with those above it. The
    /// second value names those that were created, from the inside.
    ///
    /// # Errors
    ///
    /// Errors of [`Folder::open_trusted`].
    pub fn make_trusted(path: &Path) -> io::Result<(Folder, Vec<PathBuf>)> {
        let mut made = Some(Vec::new());
        let folder = walk(here()?, path, &mut made)?;
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
        let (above, name) = split(path)?;
        Ok((Folder::open_trusted(above)?, name))
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
        let place = Place::of(self, name)?;
        // A fifo without a reader is not waited for.
        let file = place.open(how | OFlags::NONBLOCK).map_err(|error| {
            match error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) {
                true => io::Error::other("a FIFO without a reader"),
                false => error,
            }
        })?;
        let about = FileAbout::of(&file)?;
        if about.kind == FileKind::File && about.links > 1 && !is_private(&place.folder.about()?) {
            return Err(foreign(
                "a file with several hard links, in a folder where other users \
                can create links",
            ));
        }
        rustix::fs::fcntl_setfl(&file, how & OFlags::APPEND)?;
        if about.kind == FileKind::File {
            not_an_image_in_use(&file)?;
        }
        Ok(file)
    }

    /// Opens a writable special file, such as a pipe or a terminal, unless another user created it.
    /// `None` for regular files, missing ones and dangling links.
    ///
    /// # Errors
    ///
    /// Errors of the file system, and an error for a block device.
    pub fn special(&self, name: &OsStr) -> io::Result<Option<File>> {
        if self.entry(name)? != (Entry::Other { trusted: true }) {
            return Ok(None);
        }
        let place = Place::of(self, name)?;
        let flags = if place.is_magic { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let kind = match statat(&place.folder, &place.name, flags) {
            Err(Errno::NOENT) => return Ok(None),
            about => FileType::from_raw_mode(about?.st_mode),
        };
        match kind {
            FileType::RegularFile => return Ok(None),
            FileType::BlockDevice => return Err(io::Error::other("a block device")),
            _ => {}
        }
        let file = place.open(OFlags::WRONLY)?;
        Ok(Some(file)
            .filter(|file| FileAbout::of(file).is_ok_and(|about| about.kind != FileKind::File)))
    }

    /// Renames a file, replacing another one.
    ///
    /// # Errors
    ///
    /// Errors of the file system, and an error if the old file is an image in use.
    pub fn put(&self, file: &Path, name: &Path) -> io::Result<()> {
        if self.look(name).is_ok_and(|old| old.kind == FileKind::File)
            && let Ok(old) = self.file(name, 0)
        {
            not_an_image_in_use(&old)?;
        }
        self.rename(file, name, true)
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
    /// Gives the file a name, replacing an existing file of this name.
    ///
    /// # Errors
    ///
    /// Errors of the file system, and an error if the old file is an image in use; the new file is
    /// removed.
    pub fn keep(mut self, name: &OsStr) -> io::Result<File> {
        self.folder.put(Path::new(&self.name), Path::new(name))?;
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

/// Opens a new file, which replaces an existing one of the same name.
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

/// Opens a file to be written, as [`Folder::open_or_create`] does if it `creates`. Links that can
/// be trusted are followed.
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`] if a link of another user leads there. Otherwise those of
/// the file system.
pub fn to_write(path: &Path, creates: bool) -> io::Result<File> {
    let how = if creates { OFlags::WRONLY | OFlags::CREATE } else { OFlags::WRONLY };
    open_trusted_file(path, how)
}

/// Folder of a file and its name in the folder, after all links to the file, which must be trusted.
/// The file need not exist.
///
/// # Errors
///
/// Errors of [`to_write`].
pub fn trusted_place(path: &Path) -> io::Result<(Folder, OsString)> {
    let (folder, name) = Folder::trusted_parent(path)?;
    let place = Place::of(&folder, name)?;
    match place.is_magic {
        true => Err(io::Error::other("a /proc link to an open file, which has no name of its own")),
        false => Ok((place.folder, place.name)),
    }
}

/// Opens a file to which no link of another user leads.
pub(crate) fn open_trusted_file(path: &Path, how: OFlags) -> io::Result<File> {
    let (folder, name) = Folder::trusted_parent(path)?;
    Place::of(&folder, name)?.open(how)
}

/// Refuses a file that somebody serves, drives or runs a machine from.
fn not_an_image_in_use(file: &File) -> io::Result<()> {
    match ImageLock::ask_of(file) {
        Err(LockError::InUse { by, writes }) => {
            let does = if writes { "writes" } else { "reads" };
            let why = format!("an image in use: {by} {does} it");
            Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
        }
        _ => Ok(()),
    }
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
            assert!(error.to_string().contains("hard links"), "{error}");
            fs::remove_file(scratch.at("theirs/hard")).unwrap();
        }
        for _ in 0..2 {
            append_to(&scratch.at("theirs/new")).unwrap().write_all(b"ab").unwrap();
        }
        assert_eq!(fs::read_to_string(scratch.at("theirs/new")).unwrap(), "abab");
        scratch.is_untouched();
    }

    #[test]
    fn a_link_of_ours_is_followed_and_no_strangers_link_behind_it() {
        let scratch = Scratch::new("folder-chain");
        symlink("deep/../elsewhere/new", scratch.at("ours")).unwrap();
        fs::create_dir(scratch.at("deep")).unwrap();
        for open in [append_to, |path: &Path| to_write(path, true)] {
            open(&scratch.at("ours")).unwrap();
            assert!(scratch.at("elsewhere/new").is_file());
            fs::remove_file(scratch.at("elsewhere/new")).unwrap();
        }
        assert!(to_write(&scratch.at("ours"), false).is_err());
        if scratch.planted("elsewhere/victim", "theirs/log") {
            symlink("theirs/log", scratch.at("chain")).unwrap();
            symlink(scratch.at("chain"), scratch.at("longer")).unwrap();
            for name in ["theirs/log", "chain", "longer"] {
                for open in [append_to, update, |path: &Path| to_write(path, false)] {
                    let error = open(&scratch.at(name)).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}: {error}");
                }
                assert!(trusted_place(&scratch.at(name)).is_err(), "{name}");
            }
        }
        symlink("loop", scratch.at("loop")).unwrap();
        assert!(append_to(&scratch.at("loop")).is_err());
        assert!(append_to(&scratch.at("elsewhere/")).is_err());
        scratch.is_untouched();
    }

    #[test]
    fn what_is_no_file_is_found_behind_links_of_the_kernel() {
        let scratch = Scratch::new("folder-special");
        let special = |name: &str| {
            let path = scratch.at(name);
            let (folder, name) = Folder::trusted_parent(&path).unwrap();
            folder.special(name)
        };
        symlink("/dev/null", scratch.at("null")).unwrap();
        symlink("elsewhere/victim", scratch.at("file")).unwrap();
        symlink("nowhere", scratch.at("nothing")).unwrap();
        special("null").unwrap().unwrap().write_all(b"gone").unwrap();
        for name in ["file", "nothing", "elsewhere/victim", "elsewhere", "missing"] {
            assert!(special(name).unwrap().is_none(), "{name}");
        }
        // A file that has no path any more.
        let gone = scratch.at("gone");
        fs::create_dir(&gone).unwrap();
        let folder = fs::File::open(&gone).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
        fs::rename(&gone, scratch.at("theirs/renamed")).unwrap();
        fs::create_dir(&gone).unwrap();
        to_write(&PathBuf::from(format!("/proc/self/fd/{number}/new")), true).unwrap();
        assert!(scratch.at("theirs/renamed/new").is_file() && !gone.join("new").exists());
        let (mut reader, writer) = io::pipe().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&writer);
        let way = format!("/proc/self/fd/{number}");
        symlink(&way, scratch.at("pipe")).unwrap();
        for path in [scratch.at("pipe"), PathBuf::from(way)] {
            let (folder, name) = Folder::trusted_parent(&path).unwrap();
            folder.special(name).unwrap().unwrap().write_all(b"x").unwrap();
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"x");
            assert!(trusted_place(&path).is_err());
        }
        if scratch.planted("elsewhere", "theirs/way") {
            symlink("theirs/way/victim", scratch.at("far")).unwrap();
            assert!(special("far").is_err());
        }
        scratch.is_untouched();
    }

    #[test]
    fn no_folder_is_made_through_a_strangers_link() {
        let scratch = Scratch::new("folder-way");
        if scratch.planted("elsewhere", "theirs/out") {
            for path in ["theirs/out", "theirs/out/deep/er", "theirs/out/../elsewhere"] {
                let error = Folder::make_trusted(&scratch.at(path)).unwrap_err();
                assert!(
                    error.to_string().contains("out is a symbolic link of another user"),
                    "{error}"
                );
            }
        }
        scratch.is_untouched();
        // Links of this user are followed to where they lead.
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
    fn folders_that_several_make_at_once_have_one_maker_each() {
        let scratch = Scratch::new("folder-together");
        for round in 0..200 {
            let path = scratch.at(&format!("at-once-{round}/deep"));
            let start = std::sync::Barrier::new(4);
            let make = || {
                start.wait();
                Folder::make_trusted(&path).unwrap().1.len()
            };
            let made: usize = std::thread::scope(|threads| {
                let all = [(); 4].map(|()| threads.spawn(make));
                all.into_iter().map(|maker| maker.join().unwrap()).sum()
            });
            assert_eq!(made, 2, "round {round}");
        }
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
