//! Files and folders beneath the handle of a folder. A folder may belong to a user who swaps names
//! while this program works: no symbolic link beneath the handle is followed, no path leads out of
//! the folder, no open blocks, and created files did not exist.
//!
//! `openat2` (Linux 5.6) resolves a whole path under these rules. If `openat2` is missing or
//! forbidden, each folder on the path is opened separately.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Uid};
use rustix::io::{Errno, retry_on_intr};

mod links;
mod trusted;

pub(crate) use self::trusted::open_trusted_file;
pub use self::trusted::{Draft, Entry, append_to, new_file, to_write, trusted_place, update};

/// Maximum path that the kernel accepts in one call, in bytes without the final zero.
const CALL_PATH_MAX_BYTES: usize = 4095;

/// Device and inode number of a file.
pub type FileId = (u64, u64);

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe with a name.
    Pipe,
    /// A socket.
    Socket,
    /// A block or character device.
    Device,
}

/// Properties of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAbout {
    /// Device and inode number.
    pub id: FileId,
    /// Kind.
    pub kind: FileKind,
    /// Permissions with the set-id and sticky bits.
    pub mode: u32,
    /// User that owns the file.
    pub uid: u32,
    /// Group that owns the file.
    pub gid: u32,
    /// Length in bytes.
    pub bytes: u64,
    /// Allocated bytes: fewer than the file's length if it has holes.
    pub stored_bytes: u64,
    /// Number of hard links.
    pub links: u64,
}

impl FileAbout {
    /// Properties of an open file.
    pub fn of(file: impl AsFd) -> io::Result<FileAbout> {
        Ok(FileAbout::from(&rustix::fs::fstat(file)?))
    }
}

impl From<&Stat> for FileAbout {
    // The widths of these fields differ from one architecture to the next.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    fn from(stat: &Stat) -> FileAbout {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Link,
            FileType::Fifo => FileKind::Pipe,
            FileType::Socket => FileKind::Socket,
            _ => FileKind::Device,
        };
        FileAbout {
            id: (stat.st_dev as u64, stat.st_ino as u64),
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            bytes: stat.st_size as u64,
            stored_bytes: stat.st_blocks as u64 * 512,
            links: stat.st_nlink as u64,
        }
    }
}

/// An open folder. Paths passed to its functions are relative to the folder, of plain names: `..`,
/// `.`, a leading `/` and empty paths are invalid.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// Flags of all opens beneath a folder.
const OPEN: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// Flags of a folder.
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const RULES: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl Folder {
    /// Opens the folder that a user names. Symbolic links in this path are followed.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder(rustix::fs::open(path, FOLDER, Mode::empty())?))
    }

    /// Properties of this folder.
    pub fn about(&self) -> io::Result<FileAbout> {
        FileAbout::of(&self.0)
    }

    /// Opens a folder beneath this one.
    pub fn folder(&self, path: &Path) -> io::Result<Folder> {
        self.beneath(path, FOLDER | OFlags::NOFOLLOW, Mode::empty()).map(Folder)
    }

    /// Opens a file to be read, with further flags such as [`O_DIRECT`](crate::O_DIRECT). A pipe
    /// does not block; compare the [kind](FileAbout::kind).
    pub fn file(&self, path: &Path, flags: i32) -> io::Result<File> {
        let flags = OFlags::from_bits_retain(flags as u32);
        self.beneath(path, OPEN | OFlags::RDONLY | flags, Mode::empty()).map(File::from)
    }

    /// Handle of the entry with this name, of a symbolic link itself: the handle can neither be
    /// read nor written, and refers to the same file even if the name changes.
    pub fn pin(&self, path: &Path) -> io::Result<File> {
        self.beneath(path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
            .map(File::from)
    }

    /// Opens a file to be written that this program has created: compare its identity.
    pub fn file_to_write(&self, path: &Path) -> io::Result<File> {
        self.beneath(path, OPEN | OFlags::WRONLY, Mode::empty()).map(File::from)
    }

    /// Creates a file that does not exist, to be read and written.
    pub fn create(&self, path: &Path, mode: u32, flags: i32) -> io::Result<File> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        self.beneath(path, OPEN | new | flags, Mode::from_raw_mode(mode)).map(File::from)
    }

    /// Opens a file for writing, and creates it if it is missing.
    pub fn open_or_create(&self, path: &Path) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o666);
        self.beneath(path, OPEN | OFlags::WRONLY | OFlags::CREATE, mode).map(File::from)
    }

    /// Creates a file without a name in this folder, for reading and writing. The file vanishes
    /// with its last handle unless it is [given a name](Self::give_name).
    pub fn create_unnamed(&self, mode: u32, flags: i32) -> io::Result<File> {
        let flags = OFlags::from_bits_retain(flags as u32) | OFlags::TMPFILE | OFlags::RDWR;
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::openat(&self.0, ".", flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Links a file without a name to a name that does not exist.
    pub fn give_name(&self, file: &File, name: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(name)?;
        let path = handle_path(file);
        Ok(rustix::fs::linkat(rustix::fs::CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Creates a folder that does not exist.
    pub fn create_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(mode))?)
    }

    /// Creates a symbolic link that does not exist.
    pub fn create_link(&self, to: &Path, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::symlinkat(to, folder, name)?)
    }

    /// Gives a file a second name that does not exist.
    pub fn create_hard_link(&self, file: &Path, path: &Path) -> io::Result<()> {
        let (from, old) = self.parent(file)?;
        let (to, new) = self.parent(path)?;
        Ok(rustix::fs::linkat(from, old, to, new, AtFlags::empty())?)
    }

    /// Renames a file or folder. Without `replace` an existing one of the new name is an error.
    pub fn rename(&self, old: &Path, new: &Path, replace: bool) -> io::Result<()> {
        let (from, old_name) = self.parent(old)?;
        let (to, new_name) = self.parent(new)?;
        if !replace {
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&from, old_name, &to, new_name, flags) {
                // The file system has no such flag. A name made at this very moment is lost.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                done => return Ok(done?),
            }
            match self.look(new) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                found => return Err(found.err().unwrap_or(Errno::EXIST.into())),
            }
        }
        Ok(rustix::fs::renameat(&from, old_name, &to, new_name)?)
    }

    /// Removes a file.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Properties of the entry with this name, of a symbolic link itself.
    pub fn look(&self, path: &Path) -> io::Result<FileAbout> {
        let (folder, name) = self.parent(path)?;
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileAbout::from(&stat))
    }

    /// Target of a symbolic link.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let (folder, name) = self.parent(path)?;
        let to = rustix::fs::readlinkat(folder, name, Vec::new())?;
        Ok(OsString::from_vec(to.into_bytes()).into())
    }

    /// Sets the owner of the entry with this name, of a symbolic link itself.
    pub fn set_owner(&self, path: &Path, uid: u32, gid: u32) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        Ok(rustix::fs::chownat(folder, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the permissions of this folder.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// All names in this folder, sorted.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the names in this folder durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Makes the whole file system of this folder durable.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }

    /// Opens the parent folder of a path, and returns it with the last name.
    fn parent<'a>(&'a self, path: &'a Path) -> io::Result<(Parent<'a>, &'a OsStr)> {
        let (parent, name) = plain(path)?;
        let parent = match parent {
            Some(parent) => Parent::Opened(self.folder(parent)?),
            None => Parent::Own(self),
        };
        Ok((parent, name))
    }

    /// Opens a path beneath this folder by the rules of this module.
    fn beneath(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        plain(path)?;
        let (folder, path) = self.near(path)?;
        open_whole(folder.as_fd(), path, flags, mode)
    }

    /// Opens the folder from which the kernel accepts the rest of the path in one call.
    fn near<'a>(&'a self, path: &'a Path) -> io::Result<(Parent<'a>, &'a Path)> {
        let (mut folder, mut rest) = (Parent::Own(self), path.as_os_str().as_bytes());
        while rest.len() > CALL_PATH_MAX_BYTES {
            let Some(cut) = rest[..CALL_PATH_MAX_BYTES].iter().rposition(|byte| *byte == b'/')
            else {
                return Err(Errno::NAMETOOLONG.into());
            };
            let step = Path::new(OsStr::from_bytes(&rest[..cut]));
            let flags = FOLDER | OFlags::NOFOLLOW;
            let next = open_whole(folder.as_fd(), step, flags, Mode::empty())?;
            folder = Parent::Opened(Folder(next));
            rest = &rest[cut + 1..];
        }
        Ok((folder, Path::new(OsStr::from_bytes(rest))))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Path of an open file for this process, if `/proc` is mounted.
pub fn handle_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Parent folder of a name.
enum Parent<'a> {
    Own(&'a Folder),
    Opened(Folder),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Own(folder) => folder.as_fd(),
            Parent::Opened(folder) => folder.as_fd(),
        }
    }
}

/// Splits a path of plain names into the parent folder, if there is one, and the last name.
fn plain(path: &Path) -> io::Result<(Option<&Path>, &OsStr)> {
    let is_plain = |part: Component| matches!(part, Component::Normal(_));
    let ends_in_name = !path.as_os_str().as_bytes().ends_with(b"/");
    match path.file_name() {
        Some(name) if ends_in_name && path.components().all(is_plain) => {
            Ok((path.parent().filter(|parent| !parent.as_os_str().is_empty()), name))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path of plain names")),
    }
}

/// Opens a path that the kernel accepts in one call.
fn open_whole(from: BorrowedFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let open = || rustix::fs::openat2(from, path, flags, mode, RULES);
    match retry_on_intr(open) {
        // Unknown to the kernel, or to a seccomp filter.
        Err(Errno::NOSYS | Errno::PERM) => by_steps(from, path, flags, mode),
        found => Ok(found?),
    }
}

/// Opens folder by folder, without following a symbolic link.
fn by_steps(from: BorrowedFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut opened: Option<OwnedFd> = None;
    let mut names = path.components().map(Component::as_os_str).peekable();
    while let Some(name) = names.next() {
        let at = opened.as_ref().map_or(from, AsFd::as_fd);
        let is_last = names.peek().is_none();
        let (flags, mode) = match is_last {
            true => (flags | OFlags::NOFOLLOW, mode),
            false => (FOLDER | OFlags::NOFOLLOW, Mode::empty()),
        };
        let next = retry_on_intr(|| rustix::fs::openat(at, name, flags, mode));
        // For a symbolic link the kernel reports "not a directory"; openat2 reports a link.
        let next = match next {
            Err(Errno::NOTDIR) if is_link(at, name) => Err(Errno::LOOP),
            next => next,
        };
        opened = Some(next?);
    }
    opened.ok_or_else(|| Errno::NOENT.into())
}

fn is_link(at: BorrowedFd, name: &OsStr) -> bool {
    let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod test {
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of the file system, removed on drop.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Place {
            let path = std::env::temp_dir().join(format!("drumfire-folder-{:x}", crate::random()));
            std::fs::create_dir(&path).unwrap();
            Place(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    type Open = fn(&Folder, &Path, OFlags) -> io::Result<OwnedFd>;

    /// Both ways to open: the system call of the whole path, and one for each folder.
    const WAYS: [Open; 2] = [
        |folder, path, flags| folder.beneath(path, flags, Mode::empty()),
        |folder, path, flags| by_steps(folder.as_fd(), path, flags, Mode::empty()),
    ];

    #[test]
    fn no_path_leads_through_a_link_whichever_call_there_is() {
        let place = Place::new();
        let at = |name: &str| place.0.join(name);
        std::fs::create_dir_all(at("in/deep")).unwrap();
        std::fs::create_dir(at("out")).unwrap();
        for name in ["in/deep/file", "out/file"] {
            std::fs::write(at(name), b"text").unwrap();
        }
        symlink("../out", at("in/folder-link")).unwrap();
        symlink("deep/file", at("in/file-link")).unwrap();
        let folder = Folder::open(&at("in")).unwrap();
        let flags = OPEN | OFlags::RDONLY;
        for open in WAYS {
            assert!(open(&folder, Path::new("deep/file"), flags).is_ok());
            for name in ["folder-link/file", "file-link", "folder-link"] {
                let error = open(&folder, Path::new(name), flags).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()), "{name}");
            }
            let gone = open(&folder, Path::new("deep/none"), flags).unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::NotFound);
        }
        for name in ["..", "../out/file", "deep/../../out/file", "/etc/passwd", "", ".", "deep/"] {
            let error = folder.file(Path::new(name), 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
        }
        assert_eq!(folder.look(Path::new("file-link")).unwrap().kind, FileKind::Link);
        assert_eq!(folder.read_link(Path::new("file-link")).unwrap(), Path::new("deep/file"));
        assert_eq!(folder.names().unwrap(), ["deep", "file-link", "folder-link"]);
    }

    #[test]
    fn a_pipe_is_opened_without_waiting_and_is_told_apart() {
        let place = Place::new();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, place.0.join("pipe"), mode).unwrap();
        let file = Folder::open(&place.0).unwrap().file(Path::new("pipe"), 0).unwrap();
        assert_eq!(FileAbout::of(&file).unwrap().kind, FileKind::Pipe);
    }

    #[test]
    fn what_exists_is_neither_opened_nor_replaced_by_creation() {
        let place = Place::new();
        let folder = Folder::open(&place.0).unwrap();
        let exists = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::AlreadyExists);
        };
        folder.create(Path::new("a"), 0o600, 0).unwrap().write_all(b"old").unwrap();
        folder.create_folder(Path::new("b"), 0o700).unwrap();
        folder.create_link(Path::new("nowhere"), Path::new("c")).unwrap();
        for name in ["a", "b", "c"].map(Path::new) {
            exists(folder.create(name, 0o600, 0).map(drop));
            exists(folder.create_folder(name, 0o700));
            exists(folder.create_link(Path::new("x"), name));
            exists(folder.create_hard_link(Path::new("a"), name));
            let unnamed = folder.create_unnamed(0o600, 0).unwrap();
            exists(folder.give_name(&unnamed, name));
        }
        folder.create(Path::new("new"), 0o600, 0).unwrap().write_all(b"new").unwrap();
        exists(folder.rename(Path::new("new"), Path::new("a"), false));
        folder.rename(Path::new("new"), Path::new("a"), true).unwrap();
        let mut text = String::new();
        folder.file(Path::new("a"), 0).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "new");
        folder.rename(Path::new("a"), Path::new("d"), false).unwrap();
        folder.remove(Path::new("d")).unwrap();
        assert!(!place.0.join("nowhere").exists() && !place.0.join("d").exists());
    }

    #[test]
    fn paths_longer_than_a_call_takes_are_reached() {
        let place = Place::new();
        let folder = Folder::open(&place.0).unwrap();
        let name = "n".repeat(200);
        let mut path = PathBuf::new();
        while path.as_os_str().len() < 2 * CALL_PATH_MAX_BYTES {
            path.push(&name);
            folder.create_folder(&path, 0o700).unwrap();
        }
        path.push("file");
        folder.create(&path, 0o600, 0).unwrap().write_all(b"far").unwrap();
        let mut text = String::new();
        folder.file(&path, 0).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((&*text, folder.look(&path).unwrap().bytes), ("far", 3));
        let one = PathBuf::from("m".repeat(CALL_PATH_MAX_BYTES + 1));
        assert!(folder.file(&one, 0).is_err());
        // Cleanup after this test uses whole paths, for which the deepest are too long.
        let mut deep = path.parent();
        folder.remove(&path).unwrap();
        while let Some(path) = deep.filter(|path| !path.as_os_str().is_empty()) {
            let (parent, name) = folder.parent(path).unwrap();
            rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).unwrap();
            deep = path.parent();
        }
    }
}
