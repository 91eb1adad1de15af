//! The way to a folder or file, link by link: which are followed, and where they lead.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::trusted::FILE_MODE;
use super::{FOLDER, FileAbout, FileKind, Folder};

/// Links followed on one way, as many as the kernel follows.
const LINKS_MAX: usize = 40;
/// Permissions of new folders, less the umask.
const FOLDER_MODE: u32 = 0o777;
/// Times that a folder which other processes create and remove is tried.
const RACES_MAX: usize = 8;
/// For a handle that only leads somewhere.
const WAY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A name, after all links that lead to it.
pub(super) struct Place {
    pub(super) folder: Folder,
    pub(super) name: OsString,
    /// Whether the kernel made the link to an open file of a process: its target is no path.
    pub(super) is_magic: bool,
}

impl Place {
    pub(super) fn of(folder: &Folder, name: &OsStr) -> io::Result<Place> {
        let (mut folder, mut name) = (Folder(folder.0.try_clone()?), name.to_owned());
        for _ in 0..=LINKS_MAX {
            let there = match openat(&folder, &name, WAY, Mode::empty()) {
                Err(Errno::NOENT) => return Ok(Place { folder, name, is_magic: false }),
                there => there?,
            };
            let about = FileAbout::of(&there)?;
            let is_magic = is_of_proc(&there);
            if about.kind != FileKind::Link || is_magic {
                let is_magic = is_magic && about.kind == FileKind::Link;
                return Ok(Place { folder, name, is_magic });
            }
            if !is_trusted(&folder.about()?, &about) {
                return Err(foreign("a symbolic link of another user"));
            }
            let to = readlinkat(&there, "", Vec::new())?;
            let (above, last) = split(Path::new(OsStr::from_bytes(to.as_bytes())))?;
            (folder, name) = (walk(folder.0, above, &mut None)?, last.to_owned());
        }
        Err(Errno::LOOP.into())
    }

    pub(super) fn open(&self, how: OFlags) -> io::Result<File> {
        let follows = if self.is_magic { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = how | follows | OFlags::CLOEXEC | OFlags::NOCTTY;
        match openat(&self.folder, &self.name, flags, Mode::from_raw_mode(FILE_MODE)) {
            Err(Errno::LOOP) => Err(foreign("a symbolic link of another user")),
            file => Ok(file?.into()),
        }
    }
}

/// The folder of a path, and the name in it.
pub(super) fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let ends_in_name = !path.as_os_str().as_bytes().ends_with(b"/");
    let name = path.file_name().filter(|_| ends_in_name);
    let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    Ok((above.unwrap_or(Path::new(".")), name))
}

/// The working folder.
pub(super) fn here() -> io::Result<OwnedFd> {
    Ok(openat(CWD, ".", WAY, Mode::empty())?)
}

/// Whether the kernel made it. In a container such a link may seem to be of another user.
fn is_of_proc(file: &OwnedFd) -> bool {
    fstatfs(file).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC)
}

/// Goes to a folder part by part, and creates what is missing if `made` collects that.
pub(super) fn walk(
    from: OwnedFd,
    path: &Path,
    made: &mut Option<Vec<PathBuf>>,
) -> io::Result<Folder> {
    let mut left: Vec<OsString> = parts(path);
    left.reverse();
    let (mut here, mut links, mut way) = (from, 0, PathBuf::new());
    while let Some(part) = left.pop() {
        way.push(&part);
        if part == OsStr::new("/") {
            here = openat(CWD, "/", WAY, Mode::empty())?;
            continue;
        }
        let next = match made {
            Some(made) => step_or_make(&here, &part, || made.push(way.clone()))?,
            None => step(&here, &part)?,
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
        if is_of_proc(&next) {
            // The link's target has no path: a removed folder, or the root of a container.
            let follows = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
            here = openat(&here, &part, follows, Mode::empty())?;
            continue;
        }
        if !is_trusted(&FileAbout::of(&here)?, &about) {
            let why = format!(
                "{} is a symbolic link of another user: name its destination",
                way.display()
            );
            return Err(foreign(&why));
        }
        way.pop();
        let to = readlinkat(&next, "", Vec::new())?;
        left.extend(parts(Path::new(OsStr::from_bytes(to.as_bytes()))).into_iter().rev());
    }
    opened(&here)
}

/// Opens the next component of a path. Only opening it as a folder triggers an automount.
fn step(here: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    match openat(here, name, WAY | OFlags::DIRECTORY, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => openat(here, name, WAY, Mode::empty()),
        next => next,
    }
}

/// Opens the next component of a path, and creates it as a folder if it is missing. Another process
/// may create or remove the same folder in the meantime.
fn step_or_make(here: &OwnedFd, name: &OsStr, made: impl FnOnce()) -> Result<OwnedFd, Errno> {
    let mut next = step(here, name);
    for _ in 0..RACES_MAX {
        if !matches!(next, Err(Errno::NOENT)) {
            break;
        }
        match mkdirat(here, name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) => {
                made();
                return step(here, name);
            }
            Err(Errno::EXIST) => next = step(here, name),
            Err(error) => return Err(error),
        }
    }
    next
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

/// Whether an entry of a folder was created by this user or by root.
pub(super) fn is_trusted(folder: &FileAbout, about: &FileAbout) -> bool {
    is_ours(about.uid) || is_private(folder)
}

/// Whether nobody but this user and root may put something into a folder.
pub(super) fn is_private(folder: &FileAbout) -> bool {
    is_ours(folder.uid) && folder.mode & 0o022 == 0
}

fn is_ours(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

pub(super) fn foreign(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
