//! Opening files and block devices to be used as volumes.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::Folder;
use crate::folder::open_trusted_file;
use crate::passthrough::Namespace;

/// The flag for direct I/O; its value depends on the architecture.
pub const O_DIRECT: i32 = libc::O_DIRECT;
/// Permissions of a new file, less the umask.
const MODE: u32 = 0o666;

/// An open file or block device with its properties.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub file: fs::File,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Logical block size of the device; 512 for a file.
    pub block_bytes: u32,
    /// Whether the file uses direct I/O.
    pub direct: bool,
    /// Whether the file is a block device, or an NVMe namespace's character device.
    pub device: bool,
    /// The namespace, for passthrough commands only.
    pub namespace: Option<Namespace>,
}

impl OpenFile {
    /// Creates a zeroed file of `bytes`, durably, unless the file exists. The folder is synced,
    /// too, because a power cut could otherwise remove the name of a file whose data are durable.
    pub fn create(path: &Path, bytes: u64) -> io::Result<()> {
        let (folder, name) = Folder::trusted_parent(path)?;
        match folder.create(Path::new(name), MODE, 0) {
            Ok(file) => {
                file.set_len(bytes)?;
                file.sync_all()?;
                folder.handle()?.sync_all()
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens a file, a block device, or the generic character device of an NVMe namespace, which
    /// bypasses page cache and block layer. `direct` requires or forbids direct I/O; `None` uses it
    /// where the file system supports it. With `write`, no link of another user is followed: the
    /// folder's owner could have created it since the path was chosen.
    pub fn open(path: &Path, write: bool, direct: Option<bool>) -> io::Result<OpenFile> {
        let kind = fs::metadata(path)?.file_type();
        if kind.is_char_device() {
            return OpenFile::open_namespace(path, write, direct);
        }
        if !kind.is_file() && !kind.is_block_device() {
            let message = "not a file or a block device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let open_with = |flags| open_as(path, write, flags);
        // Updating atime costs 2 % of a read of memory. Only the owner may skip it.
        let open = |flags| match open_with(flags | libc::O_NOATIME) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => open_with(flags),
            outcome => outcome,
        };
        let (mut file, direct) = match direct {
            Some(false) => (open(0)?, false),
            Some(true) => (open(libc::O_DIRECT)?, true),
            None => match open(libc::O_DIRECT) {
                Ok(file) => (file, true),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (open(0)?, false),
                Err(error) => return Err(error),
            },
        };
        let device = kind.is_block_device();
        let block_bytes = if device { logical_block(file.metadata()?.rdev()) } else { 512 };
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(OpenFile { file, bytes, block_bytes, direct, device, namespace: None })
    }

    fn open_namespace(path: &Path, write: bool, direct: Option<bool>) -> io::Result<OpenFile> {
        let file = open_as(path, write, 0)?;
        let found = Namespace::identify(&file)?;
        if direct == Some(false) {
            let message = "NVMe passthrough bypasses the page cache: remove direct=0";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let (bytes, block_bytes) = (found.bytes(), 1 << found.block_shift);
        let namespace = Some(found);
        Ok(OpenFile { file, bytes, block_bytes, direct: true, device: true, namespace })
    }

    /// Reopens the file, whatever its path leads to by now.
    pub fn again(&self, write: bool) -> io::Result<OpenFile> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        OpenFile::open(Path::new(&path), write, Some(self.direct))
    }

    /// Reopens the file through the page cache.
    pub fn again_cached(&self, write: bool) -> io::Result<OpenFile> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        OpenFile::open(Path::new(&path), write, Some(false))
    }

    /// Opens a block device exclusively (`O_EXCL`): the device cannot be mounted or claimed
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ResourceBusy`] if another process has claimed it.
    pub fn claim(path: &Path) -> io::Result<fs::File> {
        OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_CLOEXEC).open(path)
    }

    /// Whether overwriting the file could lose data: always for a device, for a file with any data.
    pub fn holds_data(&self) -> io::Result<bool> {
        Ok(self.device || self.file.metadata()?.blocks() > 0)
    }
}

/// Opens a file to be read, or to be read and written.
fn open_as(path: &Path, write: bool, flags: i32) -> io::Result<fs::File> {
    match write {
        true => open_trusted_file(path, OFlags::RDWR | OFlags::from_bits_retain(flags as u32)),
        false => OpenOptions::new().read(true).custom_flags(flags | libc::O_CLOEXEC).open(path),
    }
}

/// Allocates blocks for a range of a file, and extends the file if it `grows`; with `punch`
/// deallocates them.
///
/// # Errors
///
/// Errors of the file system.
pub fn allocate(
    file: &fs::File,
    offset: u64,
    len: u64,
    grows: bool,
    punch: bool,
) -> io::Result<()> {
    let keep = if grows { 0 } else { libc::FALLOC_FL_KEEP_SIZE };
    let mode = keep | if punch { libc::FALLOC_FL_PUNCH_HOLE } else { 0 };
    // SAFETY: the call has only numeric arguments.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, len as i64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// State of an open file at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Size of the file in bytes; 0 for a device.
    pub bytes: u64,
    /// Link count: 0 once removed.
    pub links: u32,
}

impl FileState {
    /// State of `file` as known to this host: one system call of 1 to 2 µs, also on a network file
    /// system.
    pub fn of(file: &fs::File) -> io::Result<FileState> {
        // SAFETY: a structure of numbers, for which zeroes are values.
        let mut found: libc::statx = unsafe { std::mem::zeroed() };
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        let mask = libc::STATX_SIZE | libc::STATX_NLINK;
        // SAFETY: the descriptor is open, the path is an empty string, and the kernel fills the
        // structure that we own.
        let failed =
            unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, mask, &mut found) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(FileState { bytes: found.stx_size, links: found.stx_nlink })
    }
}

/// Logical block size of a device number; 512 where unknown.
fn logical_block(device: u64) -> u32 {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    // A partition has no queue directory: its parent has it.
    let read = |up: &str| {
        let path = format!("/sys/dev/block/{number}/{up}queue/logical_block_size");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    read("").or_else(|| read("../")).unwrap_or(512)
}

#[cfg(test)]
mod test {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    fn keeps_no_time(path: &Path) -> bool {
        let file = OpenFile::open(path, false, Some(false)).unwrap().file;
        // SAFETY: a call with numbers on an open file.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) & libc::O_NOATIME != 0 }
    }

    #[test]
    fn a_file_is_followed_whatever_becomes_of_its_name() {
        let path = std::env::temp_dir().join(format!("drumfire-again-{}", std::process::id()));
        OpenFile::create(&path, 4096).unwrap();
        let first = OpenFile::open(&path, true, Some(false)).unwrap();
        let state = |of: &OpenFile| FileState::of(&of.file).unwrap();
        assert_eq!(state(&first), FileState { bytes: 4096, links: 1 });
        fs::remove_file(&path).unwrap();
        OpenFile::create(&path, 512).unwrap();
        let again = first.again(true).unwrap();
        again.file.set_len(1024).unwrap();
        assert_eq!(state(&first), FileState { bytes: 1024, links: 0 });
        assert_eq!((again.bytes, again.direct), (4096, false));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn no_strangers_link_leads_to_what_is_written() {
        let place = std::env::temp_dir().join(format!("drumfire-links-{:x}", crate::random()));
        let at = |name: &str| place.join(name);
        fs::create_dir_all(at("theirs")).unwrap();
        fs::create_dir(at("elsewhere")).unwrap();
        fs::write(at("elsewhere/victim"), [1; 512]).unwrap();
        symlink(at("elsewhere/victim"), at("ours")).unwrap();
        assert!(OpenFile::open(&at("ours"), true, Some(false)).is_ok());
        symlink(at("elsewhere/victim"), at("theirs/img")).unwrap();
        symlink(at("elsewhere"), at("theirs/way")).unwrap();
        let stranger = Some(65_534);
        let is_theirs = ["theirs", "theirs/img", "theirs/way"]
            .iter()
            .all(|name| lchown(at(name), stranger, stranger).is_ok());
        if is_theirs {
            for name in ["theirs/img", "theirs/way/victim"] {
                let error = OpenFile::open(&at(name), true, Some(false)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}: {error}");
                // For reading, the link of the other user is followed.
                assert!(OpenFile::open(&at(name), false, Some(false)).is_ok());
            }
            assert!(OpenFile::create(&at("theirs/way/new"), 512).is_err());
            assert!(!at("elsewhere/new").exists());
        }
        OpenFile::create(&at("theirs/new"), 512).unwrap();
        assert!(at("theirs/new").is_file());
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn only_an_owner_reads_without_leaving_a_time() {
        let path = std::env::temp_dir().join(format!("drumfire-open-{}", std::process::id()));
        OpenFile::create(&path, 512).unwrap();
        assert!(keeps_no_time(&path));
        std::fs::remove_file(path).unwrap();
        let stranger = std::thread::spawn(|| {
            // SAFETY: a number, for this thread alone; if the call is refused, this process is not
            // root.
            unsafe { libc::setfsuid(65_534) };
            keeps_no_time(Path::new("/etc/passwd"))
        });
        assert!(!stranger.join().unwrap());
    }
}
