//! Advice to the kernel about files in the page cache.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::OpenFile;

/// `BLKFLSBUF`, which drops a device's page cache: `_IO(0x12, 97)` of `linux/fs.h`.
const BLKFLSBUF: libc::Ioctl = 0x1261;
/// Length of a read that fills the page cache.
const CHUNK_BYTES: usize = 1 << 20;

impl OpenFile {
    /// Drops the clean pages of the file or device from the page cache.
    ///
    /// # Errors
    ///
    /// Errors of the kernel; `EACCES` for a device without root.
    pub fn drop_cached(&self) -> io::Result<()> {
        if self.device {
            // SAFETY: the request takes no argument, and the descriptor is open.
            let done = unsafe { libc::ioctl(self.file.as_raw_fd(), BLKFLSBUF, 0) };
            return if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        }
        self.advise(libc::POSIX_FADV_DONTNEED)
    }

    /// Advises the kernel of the access pattern of this descriptor: random or sequential.
    pub fn expect(&self, random: bool) -> io::Result<()> {
        self.advise(if random { libc::POSIX_FADV_RANDOM } else { libc::POSIX_FADV_SEQUENTIAL })
    }

    /// Reads a range into the page cache; returns the bytes read before the end of the file, or
    /// before `goes_on` said no.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    pub fn read_in(&self, part: Range<u64>, goes_on: &dyn Fn() -> bool) -> io::Result<u64> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut at = part.start;
        while at < part.end && goes_on() {
            let most = (part.end - at).min(CHUNK_BYTES as u64) as usize;
            match self.file.read_at(&mut chunk[..most], at) {
                Ok(0) => break,
                Ok(read) => at += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(at.saturating_sub(part.start))
    }

    fn advise(&self, advice: i32) -> io::Result<()> {
        // SAFETY: numbers only, and the descriptor is open.
        match unsafe { libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, advice) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_on_the_device_can_be_dropped_from_the_cache() {
        // Not on tmpfs, as /tmp may be.
        let path = std::env::current_exe().unwrap().with_file_name("cached");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let open = OpenFile::open(&path, true, Some(false)).unwrap();
        open.file.sync_all().unwrap();
        let before = crate::cached_bytes(&open.file);
        open.drop_cached().unwrap();
        assert_eq!(open.read_in(4096..3 << 20, &|| true).unwrap(), (1 << 20) - 4096);
        let again = crate::cached_bytes(&open.file);
        assert_eq!(open.read_in(0..1 << 20, &|| false).unwrap(), 0);
        open.drop_cached().unwrap();
        open.expect(true).unwrap();
        open.expect(false).unwrap();
        let after = crate::cached_bytes(&open.file);
        fs::remove_file(&path).unwrap();
        // Unknown before Linux 6.5.
        if crate::file_system(&open.file).is_some_and(|name| name != "tmpfs") {
            assert!(before.is_none_or(|bytes| bytes > 0), "{before:?}");
            assert!(again.is_none_or(|bytes| bytes > 0), "{again:?}");
            assert!(after.is_none_or(|bytes| bytes == 0), "{after:?}");
        }
    }
}
