//! The mount of the file: by the kernel if permitted, else by `fusermount3`.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use os::{FileAbout, FileKind, Folder, FuseChannel};
use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use crate::AttachError;
use crate::sync::{sync, sync_as};
use crate::wire::IO_MAX_BYTES;

const HELPER: &str = "fusermount3";
/// Permissions of a file that is created as a mount point, minus the umask.
const FILE_MODE: u32 = 0o666;

/// Access rights of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) allow_other: bool,
    pub(crate) read_only: bool,
    /// Backing store of the volume, in a word.
    pub(crate) backing: &'static str,
}

impl Access {
    /// Source field of the mount, which `df` and `findmnt` show, and which a `file:` volume on the
    /// mount reads.
    fn source(self) -> String {
        format!("drumfire-{}", self.backing)
    }
}

/// Mount point of the volume.
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    point: Point,
    /// `fusermount3` mounted it, and has to unmount it.
    helped: bool,
    gone: AtomicBool,
    /// Time of the last write to the file below, in seconds since 1970.
    pub(crate) since: u64,
}

/// Mounts a file system at `file` and returns its channel; no thread serves it yet.
pub(crate) fn mount(file: &Path, access: Access) -> Result<(Target, FuseChannel), AttachError> {
    let channel = FuseChannel::open().map_err(|error| AttachError::Fuse(no_fuse(&error)))?;
    let point = prepare(file)?;
    let unmake = |error| {
        point.unmake();
        error
    };
    // Nobody can replace the file behind a handle.
    let handle = os::handle_path(&point.file);
    let path = std::fs::read_link(&handle).map_err(|error| unmake(error.into()))?;
    let since = std::fs::metadata(&path).map_or(0, |about| about.mtime().max(0) as u64);
    let (helped, channel) = match by_kernel(&handle, &channel, access) {
        Ok(()) => (false, channel),
        Err(Errno::PERM | Errno::ACCESS) => (true, by_helper(&path, access).map_err(unmake)?),
        Err(Errno::NODEV) => {
            let why = "this kernel has no FUSE: modprobe fuse".to_owned();
            return Err(unmake(AttachError::Fuse(why)));
        }
        Err(error) => return Err(unmake(AttachError::Fuse(format!("mount: {error}")))),
    };
    Ok((Target { path, point, helped, gone: AtomicBool::new(false), since }, channel))
}

/// The file that serves as the mount point.
#[derive(Debug)]
struct Point {
    folder: Folder,
    name: OsString,
    file: File,
    /// We created it, and remove it on detach.
    made: bool,
}

impl Point {
    /// Removes the file if we created it and it is still there, and empty.
    fn unmake(&self) {
        let is_it = || -> io::Result<bool> {
            let there = self.folder.look(Path::new(&self.name))?;
            Ok(there.id == FileAbout::of(&self.file)?.id && there.bytes == 0)
        };
        if self.made && is_it().unwrap_or(false) {
            // Another process may have removed the file.
            let _ = self.folder.remove(Path::new(&self.name));
        }
    }
}

/// Names the remedy for a `/dev/fuse` that cannot be opened.
fn no_fuse(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "modprobe fuse; a container needs --device /dev/fuse",
        io::ErrorKind::PermissionDenied => {
            "chmod 666 /dev/fuse; a container needs --device /dev/fuse --cap-add SYS_ADMIN"
        }
        _ => return format!("/dev/fuse: {error}"),
    };
    format!("/dev/fuse: {error}: {remedy}")
}

const DEAD: &str = "its server process died: run `drumfire detach`, then attach again";

/// Whether the mount is stale: its server has died.
fn is_dead(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Ensures that there is an empty file. No link of another user is followed to it.
fn prepare(file: &Path) -> Result<Point, AttachError> {
    let wrong = |why: String| AttachError::Place { path: file.to_owned(), why };
    match std::fs::metadata(file) {
        Ok(about) if !about.is_file() => {
            Err(wrong("not a regular file: name an empty file, or a new one".to_owned()))
        }
        // The kernel caches attributes, even of a mount whose server has died.
        Ok(_) if is_ours(file) && File::open(file).is_err_and(|error| is_dead(&error)) => {
            Err(wrong(DEAD.to_owned()))
        }
        Ok(_) if is_ours(file) => {
            Err(wrong("a volume is already attached there: run `drumfire detach` first".to_owned()))
        }
        Ok(about) if about.len() != 0 => {
            let bytes = about.len();
            Err(wrong(format!(
                "the file holds {bytes} bytes, which the volume would hide: name \
                an empty file"
            )))
        }
        Ok(_) => point(file, false).map_err(|error| wrong(error.to_string())),
        Err(error) if is_dead(&error) => Err(wrong(DEAD.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            point(file, true).map_err(|error| wrong(error.to_string()))
        }
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// File to mount over, which exists or is `made`.
fn point(file: &Path, made: bool) -> io::Result<Point> {
    let (folder, name) = os::trusted_place(file)?;
    if made {
        folder.create(Path::new(&name), FILE_MODE, 0)?;
    }
    let file = folder.pin(Path::new(&name))?;
    let about = FileAbout::of(&file)?;
    if about.kind != FileKind::File || about.bytes != 0 {
        return Err(io::Error::other("replaced by another file meanwhile: try again"));
    }
    Ok(Point { folder, name, file, made })
}

fn by_kernel(path: &Path, channel: &FuseChannel, access: Access) -> Result<(), Errno> {
    let number = channel.as_fd().as_raw_fd();
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mut options = format!(
        "fd={number},rootmode=100000,user_id={},group_id={},default_permissions,\
         max_read={IO_MAX_BYTES}",
        user.as_raw(),
        group.as_raw()
    );
    if access.allow_other {
        options.push_str(",allow_other");
    }
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, access.read_only);
    rustix::mount::mount(access.source(), path, os::ATTACHED, flags, Some(options.as_c_str()))
}

/// Mounts through `fusermount3`, which users may call, and receives the channel from it.
fn by_helper(path: &Path, access: Access) -> Result<FuseChannel, AttachError> {
    let pair = (AddressFamily::UNIX, SocketType::STREAM);
    let (ours, theirs) =
        socketpair(pair.0, pair.1, SocketFlags::CLOEXEC, None).map_err(io::Error::from)?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).map_err(io::Error::from)?;
    let mut options = format!(
        "fsname={},subtype=drumfire,default_permissions,max_read={IO_MAX_BYTES}",
        access.source()
    );
    for (wanted, word) in [(access.allow_other, "allow_other"), (access.read_only, "ro")] {
        if wanted {
            options = format!("{options},{word}");
        }
    }
    let child = Command::new(HELPER)
        .args(["-o", &options, "--"])
        .arg(path)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.map_err(|error| no_helper(&error))?;
    drop(theirs);
    let passed = receive(&ours);
    let said = child.wait_with_output()?;
    match passed {
        Some(fd) => Ok(FuseChannel::of(fd)?),
        None => {
            let said = String::from_utf8_lossy(&said.stderr);
            Err(AttachError::Fuse(format!("{} (or attach it as root)", said.trim())))
        }
    }
}

fn no_helper(error: &io::Error) -> AttachError {
    AttachError::Fuse(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "only root may mount without {HELPER}, which is not installed: apt-get install fuse3, \
            or attach as root; a container needs --cap-add SYS_ADMIN"
        ),
        _ => format!("{HELPER}: {error}"),
    })
}

/// Receives a file descriptor over a Unix socket (SCM_RIGHTS).
fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut passed = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut bytes, &mut passed, RecvFlags::CMSG_CLOEXEC).ok()?;
    passed.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}

impl Target {
    /// Syncs the file: the kernel writes dirty pages, and the volume flushes.
    pub(crate) fn sync(&self) -> io::Result<()> {
        sync(&self.path)
    }

    /// Unmounts the file unless a program has it open.
    pub(crate) fn unmount(&self) -> io::Result<()> {
        if is_ours(&self.path) { unmount(&self.path, self.helped, false) } else { Ok(()) }
    }

    /// Unmounts the file lazily, even while programs have it open.
    pub(crate) fn unmount_by_force(&self) {
        if is_ours(&self.path) {
            // A mount that stays returns errors once we have exited; `detach` removes it.
            let _ = unmount(&self.path, self.helped, true);
        }
        self.forget();
    }

    /// Removes the mount point, if we created it.
    pub(crate) fn forget(&self) {
        let again = self.gone.swap(true, Ordering::Relaxed);
        if !again && !is_ours(&self.path) {
            self.point.unmake();
        }
    }
}

fn unmount(path: &Path, helped: bool, force: bool) -> io::Result<()> {
    let flags = if force { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(path, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) if !helped => return Err(error.into()),
        Err(_) => {}
    }
    let how = if force { "-uzq" } else { "-u" };
    let said = Command::new(HELPER).args([how, "--"]).arg(path).stdin(Stdio::null()).output()?;
    match said.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            let busy = said.contains("busy");
            Err(if busy { Errno::BUSY.into() } else { io::Error::other(said) })
        }
    }
}

/// Whether one of our mounts is at that path.
fn is_ours(path: &Path) -> bool {
    mount_line(path).is_some()
}

/// The line of the mount table of our mount at that path.
fn mount_line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // The path of a dead mount cannot be resolved, but that of its folder can.
    let name = path.file_name().unwrap_or_default();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = std::fs::canonicalize(folder.unwrap_or(Path::new("."))).unwrap_or_default();
    let path = folder.join(name);
    let is_it = |line: &&str| {
        let Some((place, kind)) = line.split_once(" - ") else { return false };
        let place = place.split(' ').nth(4).unwrap_or_default();
        kind.starts_with(os::ATTACHED) && unescape(place) == path.to_string_lossy()
    };
    text.lines().find(is_it).map(str::to_owned)
}

/// The user and group that attached the file at a path, if they are others than this process's and
/// this is root's.
fn owner_of(path: &Path) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let line = mount_line(path)?;
    let id = |word: &str| -> Option<u32> {
        let (_, rest) = line.split_once(word)?;
        rest.split(',').next()?.trim().parse().ok()
    };
    Some((id("user_id=")?, id("group_id=")?)).filter(|(user, _)| *user != 0)
}

/// Decodes the octal escapes of a path in the mount table.
fn unescape(text: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

/// Flushes an attached file and detaches it.
pub(crate) fn detach(file: &Path) -> Result<(), AttachError> {
    let wrong = |why: String| AttachError::Place { path: file.to_owned(), why };
    if !is_ours(file) {
        // A link is not followed: its owner could choose what is detached.
        let behind = file.is_symlink().then(|| std::fs::canonicalize(file).ok()).flatten();
        let behind = behind.filter(|behind| is_ours(behind));
        return Err(wrong(match behind {
            Some(behind) => format!("a symbolic link: detach {}", behind.display()),
            None => "no volume is attached there".to_owned(),
        }));
    }
    let synced = match File::open(file).and_then(|file| file.sync_all()) {
        // Root may not open a file that another user attached for himself: he may.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            owner_of(file).map_or(Err(error), |owner| sync_as(file, owner))
        }
        synced => synced,
    };
    match synced {
        Err(error) if is_dead(&error) => {
            return unmount(file, false, true).map_err(|error| wrong(error.to_string()));
        }
        Err(error) => {
            return Err(wrong(format!(
                "flush failed, so written data may not be durable: {error}; the volume stays \
                attached; to detach it anyway, send SIGTERM to its server process"
            )));
        }
        Ok(()) => {}
    }
    unmount(file, false, false).map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::BUSY.raw_os_error() => wrong(
            "in use: stop the program that has it open (fuser -vm lists its users), or \
                losetup -d"
                .to_owned(),
        ),
        _ => wrong(error.to_string()),
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_path_is_unescaped() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    }

    #[test]
    fn a_file_with_data_is_not_hidden() {
        let error = prepare(Path::new("/proc/self/exe")).unwrap_err().to_string();
        assert!(error.contains("which the volume would hide"), "{error}");
        let error = prepare(Path::new("/dev")).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert!(detach(Path::new("/proc/self/exe")).is_err());
    }
}
