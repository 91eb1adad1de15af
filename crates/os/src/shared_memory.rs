//! Memory shared with another process by a descriptor, sealed so that nobody can truncate it: a
//! load beyond the end of a file would end this process with SIGBUS.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use block::{Window, print_size};
use rustix::fs::{MemfdFlags, SealFlags};

/// `TMPFS_MAGIC`: files of memfd_create without huge pages.
const TMPFS: i64 = 0x0102_1994;
/// Alignment of offsets in a file.
const PAGE: u64 = 4096;

/// Why memory of a peer is refused.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The memory could be truncated.
    #[error("its memory lacks F_SEAL_SHRINK: with QEMU use -object memory-backend-memfd,share=on")]
    NotSealed,
    /// A file system other than tmpfs may fail to provide a page, which is SIGBUS, too.
    #[error("its memory is not of memfd_create, or in huge pages")]
    NotMemory,
    /// The range is not in the file.
    #[error(
        "{len} at offset {offset} of memory of {file} bytes, or not at a page",
        len = print_size(*.len)
    )]
    OutOfBounds {
        /// Offset.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Length of the file.
        file: u64,
    },
    /// A system call failed.
    #[error("cannot map its memory: {0}")]
    Kernel(#[from] io::Error),
}

/// Creates zeroed memory of `len_bytes` to share. It can be neither truncated nor extended.
///
/// # Errors
///
/// The process is out of descriptors or address space.
pub fn share_memory(name: &CStr, len_bytes: u64) -> io::Result<(OwnedFd, Window)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&fd, len_bytes)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals)?;
    let window = map(fd.as_fd(), 0, len_bytes)?;
    Ok((fd, window))
}

/// Maps memory of a peer.
///
/// # Errors
///
/// The memory could be truncated, or the range is not in it.
pub fn map_shared(fd: BorrowedFd<'_>, offset: u64, len_bytes: u64) -> Result<Window, ShareError> {
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| ShareError::NotSealed)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(ShareError::NotSealed);
    }
    let system = rustix::fs::fstatfs(fd).map_err(io::Error::from)?;
    #[allow(clippy::unnecessary_cast, reason = "the type differs by architecture")]
    if system.f_type as i64 != TMPFS {
        return Err(ShareError::NotMemory);
    }
    // The seal came first: from now on the file is at least this long.
    let file = rustix::fs::fstat(fd).map_err(io::Error::from)?.st_size as u64;
    let end = offset.checked_add(len_bytes).filter(|end| *end <= file);
    if end.is_none() || len_bytes == 0 || !offset.is_multiple_of(PAGE) {
        return Err(ShareError::OutOfBounds { offset, len: len_bytes, file });
    }
    Ok(map(fd, offset, len_bytes)?)
}

/// A mapping, until it is dropped.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: only an address range, which the drop unmaps.
unsafe impl Send for Mapping {}
// SAFETY: as above; it offers no access.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of `map`; all windows onto it hold this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn map(fd: BorrowedFd<'_>, offset: u64, len_bytes: u64) -> io::Result<Window> {
    let too_long = |_| io::Error::from(io::ErrorKind::OutOfMemory);
    let len = usize::try_from(len_bytes).map_err(too_long)?;
    let offset = libc::off_t::try_from(offset).map_err(too_long)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
    let base = unsafe {
        let fd = fd.as_raw_fd();
        libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, offset)
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = NonNull::new(base.cast::<u8>()).expect("mmap never returns null");
    let mapping = Arc::new(Mapping { base, len });
    // SAFETY: the pages are mapped whole, from a page on, until `mapping` is dropped; the file
    // cannot be truncated because of its seal.
    Ok(unsafe { Window::new(base, len_bytes, mapping) })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn both_ends_see_the_same_bytes() {
        let (fd, ours) = share_memory(c"test", 3 * PAGE).unwrap();
        let theirs = map_shared(fd.as_fd(), PAGE, 2 * PAGE).unwrap();
        ours.store64(PAGE + 8, 77).unwrap();
        assert_eq!(theirs.load64(8), Some(77));
        assert!(rustix::fs::ftruncate(&fd, PAGE).is_err(), "sealed");
        drop(ours);
        drop(fd);
        assert_eq!(theirs.load64(8), Some(77));
    }

    #[test]
    fn memory_that_may_vanish_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(c"test", flags).unwrap();
        rustix::fs::ftruncate(&fd, 2 * PAGE).unwrap();
        let of = |offset, len| map_shared(fd.as_fd(), offset, len);
        assert!(matches!(of(0, PAGE), Err(ShareError::NotSealed)));
        rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
        assert!(matches!(of(0, PAGE), Err(ShareError::NotSealed)));
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        assert!(of(0, 2 * PAGE).is_ok());
        for (offset, len) in [(0, 2 * PAGE + 1), (PAGE, PAGE + 1), (1, 1), (0, 0), (u64::MAX, 2)] {
            let refused = of(offset, len);
            assert!(matches!(refused, Err(ShareError::OutOfBounds { .. })), "{offset} {len}");
        }
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(map_shared(null.as_fd(), 0, PAGE), Err(ShareError::NotSealed)));
    }
}
