//! Locks that protect images from other processes: files and devices with a volume.
//!
//! The locks are QEMU's (`block/file-posix.c`), so that `qemu-img`, `qemu-nbd` and virtual machines
//! refuse an image that this program has open, and are refused. A process holds a shared lock on a
//! byte for each permission that it uses, and on another byte for each permission that it denies to
//! others; a conflict is another process's lock on the opposite byte. The locks belong to an open
//! file description (`F_OFD_SETLK`) and end with it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The byte of the first permission that a process uses (`RAW_PERM_LOCK_BASE`).
const USED: i64 = 100;
/// The byte of the first permission that a process denies to others (`RAW_SHARED_LOCK_BASE`).
const DENIED: i64 = 200;
/// Reading consistent data (`BLK_PERM_CONSISTENT_READ`).
const READ: u8 = 1 << 0;
/// Writing (`BLK_PERM_WRITE`).
const WRITE: u8 = 1 << 1;
/// Permission to write without changing the visible data (`BLK_PERM_WRITE_UNCHANGED`).
const WRITE_UNCHANGED: u8 = 1 << 2;
/// Changing the length (`BLK_PERM_RESIZE`).
const RESIZE: u8 = 1 << 3;
/// Number of permissions.
const PERMISSIONS: i64 = 4;

/// Attempts before a conflict is reported. Two processes that start together see each other's locks
/// and must not both fail, and one that only inspects an image is gone after a moment.
const ATTEMPTS: u32 = 5;
/// Longest pause between two attempts.
const PAUSE_MAX_MS: u64 = 60;

/// A lock on an image, released on drop.
#[derive(Debug)]
pub struct ImageLock {
    file: File,
    held: Mutex<Permissions>,
}

/// Why an image cannot be locked.
#[derive(Debug)]
pub enum LockError {
    /// Another owner has the image open.
    InUse {
        /// Description of the owner: a process, if the kernel names one.
        by: String,
        /// Whether the owner writes.
        writes: bool,
    },
    /// The file system has no locks.
    Unsupported(io::Error),
    /// The image cannot be opened.
    Open(io::Error),
}

impl ImageLock {
    /// Locks the image at `path`: shared with other readers, or exclusively if it `writes`.
    ///
    /// # Errors
    ///
    /// [`LockError`]; a conflict is reported after a fifth of a second.
    pub fn take(path: &Path, writes: bool) -> Result<ImageLock, LockError> {
        let file = open(path).map_err(LockError::Open)?;
        let lock = ImageLock { file, held: Mutex::default() };
        lock.hold(if writes { Permissions::WRITER } else { Permissions::READER })?;
        Ok(lock)
    }

    /// Checks whether a writer could lock the file at `path` now. Nothing is locked: for calls that
    /// replace, truncate or remove a file.
    ///
    /// # Errors
    ///
    /// [`LockError::InUse`], and an error if the file cannot be opened. A file system without locks
    /// never reports a conflict.
    pub fn ask(path: &Path) -> Result<(), LockError> {
        ImageLock::ask_of(&open(path).map_err(LockError::Open)?)
    }

    /// Like [`ask`](Self::ask), for an open file.
    pub(crate) fn ask_of(file: &File) -> Result<(), LockError> {
        let file = file.try_clone().map_err(LockError::Open)?;
        let lock = ImageLock { file, held: Mutex::default() };
        let mut bytes = Permissions::WRITER.opposite();
        match bytes.find(|byte| lock.is_held(*byte).unwrap_or(false)) {
            Some(byte) => Err(lock.conflict(byte, false)),
            None => Ok(()),
        }
    }

    /// Upgrades a reader's lock to a writer's, without releasing it meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of [`ImageLock::take`]; the reader's lock stays.
    pub fn raise(&self) -> Result<(), LockError> {
        self.hold(Permissions::WRITER)
    }

    /// Whether the lock is on this file.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn is_of(&self, file: &File) -> io::Result<bool> {
        let (one, other) = (self.file.metadata()?, file.metadata()?);
        Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
    }

    /// Device number and inode of the locked file.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn place(&self) -> io::Result<(u64, u64)> {
        let about = self.file.metadata()?;
        Ok((about.dev(), about.ino()))
    }

    fn hold(&self, more: Permissions) -> Result<(), LockError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = Permissions { uses: held.uses | more.uses, denies: held.denies | more.denies };
        for attempt in 1.. {
            match self.try_hold(wanted) {
                Ok(None) => {
                    *held = wanted;
                    return Ok(());
                }
                Ok(Some(byte)) => {
                    self.release(wanted, *held);
                    if attempt == ATTEMPTS {
                        let own = held.own().any(|held| held == byte);
                        return Err(self.conflict(byte, own));
                    }
                    let pause = 1 + crate::random() % PAUSE_MAX_MS;
                    std::thread::sleep(Duration::from_millis(pause));
                }
                Err(error) => {
                    self.release(wanted, *held);
                    return Err(LockError::Unsupported(error));
                }
            }
        }
        unreachable!("attempts end")
    }

    /// Locks bytes, then checks for conflicts; returns the first byte that another owner holds.
    fn try_hold(&self, wanted: Permissions) -> io::Result<Option<i64>> {
        for byte in wanted.own() {
            call(&self.file, libc::F_OFD_SETLK, libc::F_RDLCK, byte)?;
        }
        for byte in wanted.opposite() {
            if self.is_held(byte)? {
                return Ok(Some(byte));
            }
        }
        Ok(None)
    }

    /// Whether another owner holds a byte.
    fn is_held(&self, byte: i64) -> io::Result<bool> {
        Ok(call(&self.file, libc::F_OFD_GETLK, libc::F_WRLCK, byte)? != libc::F_UNLCK)
    }

    /// Releases bytes that were not held before.
    fn release(&self, wanted: Permissions, before: Permissions) {
        for byte in wanted.own().filter(|byte| before.own().all(|held| held != *byte)) {
            // Closing the file releases the byte in any case.
            let _ = call(&self.file, libc::F_OFD_SETLK, libc::F_UNLCK, byte);
        }
    }

    /// Error for a byte that another owner holds; `own` if this lock holds it, too.
    fn conflict(&self, byte: i64, own: bool) -> LockError {
        let inode = self.file.metadata().map_or(0, |about| about.ino());
        let by = match holders(inode, byte, own) {
            names if names.is_empty() => "a process of another user, container or host".to_owned(),
            names => names.join(" and "),
        };
        LockError::InUse { by, writes: self.is_held(USED + 1).unwrap_or(false) }
    }
}

/// Permissions that an owner uses, and those that it denies to others.
#[derive(Clone, Copy, Debug, Default)]
struct Permissions {
    uses: u8,
    denies: u8,
}

impl Permissions {
    const READER: Permissions = Permissions { uses: READ, denies: WRITE | RESIZE };
    const WRITER: Permissions =
        Permissions { uses: READ | WRITE, denies: READ | WRITE | WRITE_UNCHANGED | RESIZE };

    /// Bytes to lock.
    fn own(self) -> impl Iterator<Item = i64> {
        places(self.uses, USED).chain(places(self.denies, DENIED))
    }

    /// Bytes that no other owner may hold.
    fn opposite(self) -> impl Iterator<Item = i64> {
        places(self.uses, DENIED).chain(places(self.denies, USED))
    }
}

/// Opens an image to be read. A fifo is not waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn places(permissions: u8, base: i64) -> impl Iterator<Item = i64> {
    (0..PERMISSIONS).filter(move |bit| permissions >> bit & 1 == 1).map(move |bit| base + bit)
}

/// Processes that hold a lock on a byte of the file with this inode, as `process 12 (qemu-nbd)`;
/// those of other users are not visible to all. The locks of a file are listed in `fdinfo`
/// (proc(5)). If `own`, one lock of this process is the caller's.
fn holders(inode: u64, byte: i64, own: bool) -> Vec<String> {
    let this = std::process::id().to_string();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|digit| digit.is_ascii_digit()) {
            continue;
        }
        let files = fs::read_dir(process.path().join("fdinfo")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        let skipped = usize::from(own && name == this);
        if texts.filter(|text| locks(text, inode, byte)).nth(skipped).is_some() {
            let words = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(match name == this {
                true => "this process, under another path,".to_owned(),
                false => format!("process {name} ({})", words.trim_end()),
            });
        }
    }
    found
}

/// Whether a text of `fdinfo` has a lock on a byte of this inode:
/// `lock:   1: OFDLCK ADVISORY READ -1 fe:00:1234 101 101`.
fn locks(text: &str, inode: u64, byte: i64) -> bool {
    text.lines().filter_map(|line| line.strip_prefix("lock:")).any(|line| {
        let mut words = line.split_whitespace().skip(5);
        let (place, first, last) = (words.next(), words.next(), words.next());
        let is_there = place.and_then(|place| place.rsplit(':').next()?.parse().ok());
        let number = |word: Option<&str>| word?.parse::<i64>().ok();
        let last = if last == Some("EOF") { Some(i64::MAX) } else { number(last) };
        let range = number(first).zip(last).map(|(first, last)| first..=last);
        is_there == Some(inode) && range.is_some_and(|range| range.contains(&byte))
    })
}

/// Makes a lock call for one byte; returns the type of the lock.
fn call(file: &File, command: i32, kind: i32, byte: i64) -> io::Result<i32> {
    // SAFETY: a structure of numbers, for which zeroes are values.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    (lock.l_start, lock.l_len) = (byte, 1);
    // SAFETY: the descriptor is open, and the kernel reads and fills the structure that we own.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock.l_type.into()),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    struct Image(std::path::PathBuf);

    impl Image {
        fn new(name: &str) -> Image {
            let path = std::env::temp_dir().join(format!("drumfire-{name}-{}", std::process::id()));
            fs::write(&path, [0; 512]).unwrap();
            Image(path)
        }

        fn take(&self, writes: bool) -> Result<ImageLock, LockError> {
            ImageLock::take(&self.0, writes)
        }
    }

    impl Drop for Image {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn readers_share_and_writers_are_alone() {
        let image = Image::new("lock-share");
        let refused = |outcome: Result<ImageLock, LockError>| match outcome {
            Err(LockError::InUse { by, writes }) => {
                assert_eq!(by, "this process, under another path,");
                writes
            }
            other => panic!("{other:?}"),
        };
        let (one, two) = (image.take(false).unwrap(), image.take(false).unwrap());
        assert!(!refused(image.take(true)));
        assert!(!refused(one.raise().map(|()| image.take(false).unwrap())));
        drop(two);
        one.raise().unwrap();
        assert!(refused(image.take(false)));
        assert!(refused(image.take(true)));
        drop(one);
        image.take(true).unwrap();
    }

    #[test]
    fn whoever_asks_locks_nothing() {
        let image = Image::new("lock-ask");
        let ask = || ImageLock::ask(&image.0);
        ask().unwrap();
        for writes in [false, true] {
            let held = image.take(writes).unwrap();
            let Err(LockError::InUse { writes: told, .. }) = ask() else { panic!("{writes}") };
            assert_eq!(told, writes);
            drop(held);
            ask().unwrap();
        }
        image.take(true).unwrap();
    }

    #[test]
    fn a_lock_that_cannot_be_raised_is_still_a_readers() {
        let image = Image::new("lock-raise");
        let (one, two) = (image.take(false).unwrap(), image.take(false).unwrap());
        assert!(one.raise().is_err());
        // Releasing shared bytes after the failed raise would let a writer in while `one` still
        // reads.
        drop(two);
        assert!(image.take(true).is_err());
        image.take(false).unwrap();
    }

    #[test]
    fn the_bytes_are_those_of_qemu() {
        let image = Image::new("lock-bytes");
        let stranger = File::options().read(true).write(true).open(&image.0).unwrap();
        let set = |kind, byte| call(&stranger, libc::F_OFD_SETLK, kind, byte).unwrap();
        for (byte, reads, writes) in
            [(100, true, false), (101, false, false), (103, false, false), (200, false, false)]
        {
            set(libc::F_RDLCK, byte);
            assert_eq!(image.take(false).is_ok(), reads, "{byte}");
            assert_eq!(image.take(true).is_ok(), writes, "{byte}");
            set(libc::F_UNLCK, byte);
        }
        for byte in [99, 104, 199, 204, 300] {
            set(libc::F_RDLCK, byte);
            assert!(image.take(true).is_ok(), "{byte}");
            set(libc::F_UNLCK, byte);
        }
        let held = |_lock: ImageLock| {
            let is_free = |byte: &i64| {
                call(&stranger, libc::F_OFD_GETLK, libc::F_WRLCK, *byte).unwrap() == libc::F_UNLCK
            };
            (90..300).filter(|byte| !is_free(byte)).collect::<Vec<i64>>()
        };
        assert_eq!(held(image.take(false).unwrap()), [100, 201, 203]);
        assert_eq!(held(image.take(true).unwrap()), [100, 101, 200, 201, 202, 203]);
    }

    #[test]
    fn a_lock_is_found_in_fdinfo() {
        let text = "pos:\t0\nlock:\t1: OFDLCK  ADVISORY  READ -1 fe:00:1234 100 101\n\
                    lock:\t2: FLOCK  ADVISORY  WRITE 7 fe:00:99 0 EOF\n";
        assert!(locks(text, 1234, 100) && locks(text, 1234, 101) && locks(text, 99, 200));
        assert!(!locks(text, 1234, 102) && !locks(text, 1, 100) && !locks("lock: x", 1, 1));
    }
}
