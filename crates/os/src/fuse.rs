//! `/dev/fuse`: the kernel's requests to a file system served by this process.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, u32)`.
const CLONE: libc::c_ulong = 0x8004_e500;
const PATH: &str = "/dev/fuse";

/// A channel to the kernel. A request is answered on the channel from which it was read.
#[derive(Debug)]
pub struct FuseChannel {
    file: File,
}

impl FuseChannel {
    /// Opens a channel without a file system yet: its descriptor goes into the mount options.
    ///
    /// # Errors
    ///
    /// The device is missing or not permitted.
    pub fn open() -> io::Result<FuseChannel> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PATH)?;
        Ok(FuseChannel { file })
    }

    /// The channel of a file system that `fusermount3` mounted.
    ///
    /// # Errors
    ///
    /// A system call failed.
    pub fn of(fd: OwnedFd) -> io::Result<FuseChannel> {
        // SAFETY: a system call without pointers on a descriptor that we own.
        let done = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(FuseChannel { file: fd.into() }) }
    }

    /// Another channel of the same file system, with its own requests in flight.
    ///
    /// # Errors
    ///
    /// The file system is not mounted, or the process has no descriptor left.
    pub fn another(&self) -> io::Result<FuseChannel> {
        let other = FuseChannel::open()?;
        let number = self.file.as_raw_fd() as u32;
        // SAFETY: the kernel reads four bytes at this address during the call.
        let done = unsafe { libc::ioctl(other.file.as_raw_fd(), CLONE as _, &raw const number) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(other) }
    }

    /// Reads the next request: its first bytes into `head`, the rest into `data`. Returns its
    /// length.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) without a request; `ENODEV` once the file system
    /// is unmounted.
    #[inline]
    pub fn next(&self, head: &mut [u8], data: &mut [u8]) -> io::Result<usize> {
        (&self.file).read_vectored(&mut [IoSliceMut::new(head), IoSliceMut::new(data)])
    }

    /// Answers a request: `head` and `data` are one message.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the request was interrupted.
    #[inline]
    pub fn answer(&self, head: &[u8], data: &[u8]) -> io::Result<()> {
        (&self.file).write_vectored(&[IoSlice::new(head), IoSlice::new(data)]).map(drop)
    }
}

impl AsFd for FuseChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
