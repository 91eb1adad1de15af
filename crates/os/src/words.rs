//! A mapping of atomic words, initially zero, optionally backed by a file: its content then
//! outlives the process.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A mapping of atomic words. Pages are allocated when first touched.
#[derive(Debug)]
pub struct Words {
    base: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the words are atomic, and the mapping belongs to this value alone.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// `count` zeroed words, at least one, in memory.
    pub fn new(count: usize) -> io::Result<Words> {
        Words::map(count, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    /// `count` words, at least one, in a file: its content, or zeroes in a new one. The words
    /// survive any end of the process, but not a power cut of the host.
    ///
    /// Fails if the file has another size.
    pub fn in_file(file: &File, count: usize) -> io::Result<Words> {
        let bytes = bytes_of(count)? as u64;
        match file.metadata()?.len() {
            0 => file.set_len(bytes)?,
            len if len == bytes => {}
            len => {
                let message = format!("{len} bytes, expected {bytes}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
        Words::map(count, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(count: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<Words> {
        let bytes = bytes_of(count)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Words { base, count })
    }
}

fn bytes_of(count: usize) -> io::Result<usize> {
    let bytes = count.checked_mul(size_of::<AtomicU64>()).filter(|bytes| *bytes > 0);
    bytes.ok_or(io::ErrorKind::OutOfMemory.into())
}

impl Deref for Words {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `count` aligned words, all bit patterns of which are valid,
        // until the drop.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody refers to any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn are_zero_at_first_and_stay_in_their_file() {
        let words = Words::new(3).unwrap();
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        let path = std::env::temp_dir().join(format!("drumfire-words-{}", std::process::id()));
        let file = crate::new_file(&path).unwrap();
        Words::in_file(&file, 1000).unwrap()[999].store(7, Ordering::Relaxed);
        let kept = Words::in_file(&file, 1000).unwrap()[999].load(Ordering::Relaxed);
        let other = Words::in_file(&file, 999).map(|_| ()).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(kept, 7);
        assert!(other.contains("8000 bytes, expected 7992"), "{other}");
        assert!(Words::new(0).is_err() && Words::new(usize::MAX).is_err());
    }
}
