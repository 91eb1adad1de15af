//! Owners of a file or device: one that writes, or several that read.
//!
//! [`FileVolume`](crate::file::FileVolume) locks an image when it opens the image, and its lanes
//! hold the lock. The volumes of a run are one owner: they share [`Locks`]. `?lock=off` disables
//! locking.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use os::{Device, ImageLock, LockError, OpenFile};

use crate::uri::FileUri;
use crate::{OpenError, Purpose, Uri};

/// Locks of one owner, for the files and devices of its volumes. A file named by two volumes is
/// locked once.
#[derive(Debug, Default)]
pub struct Locks(Vec<Arc<ImageLock>>);

/// The locks of an open file or device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    locks: Vec<Arc<ImageLock>>,
    remark: Option<String>,
}

impl Locks {
    /// Locks the file of a file URI, and returns the URI to open the file with; any other URI is
    /// returned unchanged, and its volume locks when opened. A file is created first if the URI has
    /// a size.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`] if another owner has the file open.
    pub fn take(&mut self, uri: &Uri, purpose: Purpose) -> Result<Uri, OpenError> {
        let Uri::File(file) = uri else { return Ok(uri.clone()) };
        if file.unlocked {
            return Ok(uri.clone());
        }
        create(file, purpose)?;
        let hold = Hold::take_beside(file, purpose, &self.0)?;
        if hold.locks.is_empty() {
            // Opening the file reports why there is no lock.
            return Ok(uri.clone());
        }
        self.0.extend(hold.locks);
        Ok(Uri::File(FileUri { unlocked: true, ..file.clone() }))
    }
}

impl Hold {
    /// Locks a file or device, unless its URI says `lock=off`.
    pub(crate) fn take(uri: &FileUri, purpose: Purpose) -> Result<Hold, OpenError> {
        if uri.unlocked { Ok(Hold::default()) } else { Hold::take_beside(uri, purpose, &[]) }
    }

    /// Locks a file or device that the owner may have locked already.
    fn take_beside(
        uri: &FileUri,
        purpose: Purpose,
        own: &[Arc<ImageLock>],
    ) -> Result<Hold, OpenError> {
        let mut hold = Hold::default();
        for path in images(&uri.path) {
            match lock(&path, purpose.writes(), own) {
                Ok(lock) => hold.locks.push(lock),
                Err(LockError::InUse { by, writes }) => {
                    let path = uri.path.clone();
                    return Err(OpenError::Locked { path, by, writes });
                }
                Err(LockError::Open(error)) => {
                    return Err(cannot_open(uri, error));
                }
                Err(LockError::Unsupported(error)) => {
                    hold.remark = Some(format!(
                        "{}: the file system does not support locks ({error}): other processes \
                        can use the file at the same time",
                        uri.path.display()
                    ));
                }
            }
        }
        if purpose.writes() {
            not_below_a_loop(&uri.path)?;
        }
        Ok(hold)
    }

    /// A remark for the user.
    pub(crate) fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// Whether there is no lock, or the lock is on this file: not on one that replaced it
    /// meanwhile.
    pub(crate) fn is_of(&self, file: &File) -> bool {
        let kind = file.metadata().map(|about| about.file_type());
        let is_plain = kind.is_ok_and(|kind| kind.is_file());
        let locked = self.locks.first().filter(|_| is_plain);
        locked.is_none_or(|lock| lock.is_of(file).unwrap_or(false))
    }
}

/// Error for a file that cannot be opened; for a missing one, the hint that a size creates it.
pub(crate) fn cannot_open(uri: &FileUri, error: io::Error) -> OpenError {
    let path = uri.path.clone();
    let folder = path.parent().filter(|path| *path != Path::new("")).unwrap_or(Path::new("."));
    let is_missing = error.kind() == ErrorKind::NotFound && folder.is_dir();
    if !is_missing || uri.size_bytes.is_some() || folder.starts_with("/dev") {
        return OpenError::File { path, error };
    }
    let why = format!("{error}; file:{}?size=1g creates it", path.display());
    OpenError::File { path, error: io::Error::new(ErrorKind::NotFound, why) }
}

/// Creates a file whose size is known, if it is to be written and is missing.
pub(crate) fn create(uri: &FileUri, purpose: Purpose) -> Result<(), OpenError> {
    match uri.size_bytes {
        Some(bytes) if purpose.writes() => OpenFile::create(&uri.path, bytes)
            .map_err(|error| OpenError::File { path: uri.path.clone(), error }),
        _ => Ok(()),
    }
}

/// Locks one image, or upgrades the lock of its owner.
fn lock(path: &Path, writes: bool, own: &[Arc<ImageLock>]) -> Result<Arc<ImageLock>, LockError> {
    let file = File::open(path).map_err(LockError::Open)?;
    match own.iter().find(|lock| lock.is_of(&file).unwrap_or(false)) {
        Some(lock) if writes => lock.raise().map(|()| Arc::clone(lock)),
        Some(lock) => Ok(Arc::clone(lock)),
        None => ImageLock::take(path, writes).map(Arc::new),
    }
}

/// Files to lock for a path: the path itself, or the block device of an NVMe namespace; and the
/// backing file of a loop device. Empty for anything that cannot be a volume, which opening it
/// reports.
fn images(path: &Path) -> Vec<PathBuf> {
    let Ok(about) = fs::metadata(path) else { return vec![path.to_owned()] };
    let kind = about.file_type();
    if kind.is_file() {
        return vec![path.to_owned()];
    }
    if kind.is_char_device() {
        return os::block_twin(path).into_iter().collect();
    }
    if !kind.is_block_device() {
        return Vec::new();
    }
    let device = File::open(path).ok().and_then(|file| Device::under(&file));
    // Partitions do not overlap: each may have its own owner.
    let whole = device.filter(|device| device.name == device.disk);
    let backing = whole.and_then(|device| device.backing_file());
    let backing = backing.filter(|path| fs::metadata(path).is_ok_and(|about| about.is_file()));
    std::iter::once(path.to_owned()).chain(backing).collect()
}

/// Refuses to write a file behind a loop device in use: with a mounted file system, or a device
/// stacked on it.
fn not_below_a_loop(path: &Path) -> Result<(), OpenError> {
    let is_file = fs::metadata(path).is_ok_and(|about| about.is_file());
    let loops = if is_file { Device::loops_of(path) } else { Vec::new() };
    let users: Vec<String> = loops.iter().flat_map(Device::users).collect();
    match users.is_empty() {
        true => Ok(()),
        false => Err(OpenError::InUse { path: path.to_owned(), by: users.join(", ") }),
    }
}
