//! What the kernel is told of a file that goes through its page cache.

use std::io;
use std::os::fd::AsRawFd;

use crate::OpenFile;

/// Asks a device to forget what of it is cached: `_IO(0x12, 97)` of `linux/fs.h`.
const BLKFLSBUF: libc::Ioctl = 0x1261;

impl OpenFile {
    /// Drops what of it stands in the page cache and is on the device already.
    ///
    /// # Errors
    ///
    /// Those of the system; of a device, if we are not root.
    pub fn drop_cached(&self) -> io::Result<()> {
        if self.device {
            // SAFETY: the request takes no argument, and the descriptor is open.
            let done = unsafe { libc::ioctl(self.file.as_raw_fd(), BLKFLSBUF, 0) };
            return if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        }
        self.advise(libc::POSIX_FADV_DONTNEED)
    }

    /// Tells the kernel in which order this opening of it will be used: at random, or forward.
    pub fn expect(&self, random: bool) -> io::Result<()> {
        self.advise(if random { libc::POSIX_FADV_RANDOM } else { libc::POSIX_FADV_SEQUENTIAL })
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
        // Not where files live in memory only, as /tmp may.
        let path = std::env::current_exe().unwrap().with_file_name("cached");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let open = OpenFile::open(&path, true, Some(false)).unwrap();
        open.file.sync_all().unwrap();
        let before = crate::cached_bytes(&open.file);
        open.drop_cached().unwrap();
        open.expect(true).unwrap();
        open.expect(false).unwrap();
        let after = crate::cached_bytes(&open.file);
        fs::remove_file(&path).unwrap();
        // Before Linux 6.5 nobody says.
        if crate::file_system(&open.file).is_some_and(|name| name != "tmpfs") {
            assert!(before.is_none_or(|bytes| bytes > 0), "{before:?}");
            assert!(after.is_none_or(|bytes| bytes == 0), "{after:?}");
        }
    }
}
