//! Unix sockets whose messages carry descriptors.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use block::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Maximum number of descriptors that one receive takes; the kernel closes others.
const DESCRIPTORS_MOST: usize = 8;
/// Only the user may open a socket.
const NOBODY_ELSE: u32 = 0o177;

/// A listening Unix socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct UnixPort {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, by which the file is known to be ours.
    file: (u64, u64),
}

impl UnixPort {
    /// Listens at `path`, which only the user may open. A socket that a killed process left there
    /// is replaced, nothing else.
    ///
    /// # Errors
    ///
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if a process listens there already;
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is another file.
    pub fn open(path: &Path) -> io::Result<UnixPort> {
        match fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(_) if !is_left_behind(path) => return Err(io::ErrorKind::AddrInUse.into()),
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        let before = rustix::process::umask(Mode::from_raw_mode(NOBODY_ELSE));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        let meta = fs::symlink_metadata(path)?;
        Ok(UnixPort { listener, path: path.to_owned(), file: (meta.dev(), meta.ino()) })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the next connection, if there is one.
    ///
    /// # Errors
    ///
    /// The process is out of descriptors.
    pub fn accept(&self) -> io::Result<Option<UnixLink>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                Ok(Some(UnixLink { stream }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for UnixPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for UnixPort {
    fn drop(&mut self) {
        let is_ours = |meta: fs::Metadata| (meta.dev(), meta.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether nobody listens at a socket.
fn is_left_behind(path: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    UnixStream::connect(path).is_err_and(refused)
}

/// A connection, whose calls do not block.
#[derive(Debug)]
pub struct UnixLink {
    stream: UnixStream,
}

impl UnixLink {
    /// Connects to a socket.
    ///
    /// # Errors
    ///
    /// Nobody listens there.
    pub fn connect(path: &Path) -> io::Result<UnixLink> {
        let stream = UnixStream::connect(path)?;
        stream.set_nonblocking(true)?;
        Ok(UnixLink { stream })
    }

    /// Waits until there is something to receive, at most `limit`. Returns whether there is.
    ///
    /// # Errors
    ///
    /// The system call failed.
    pub fn await_readable(&self, limit: Nanos) -> io::Result<bool> {
        let limit = Timespec {
            tv_sec: (limit.0 / 1_000_000_000) as i64,
            tv_nsec: (limit.0 % 1_000_000_000) as _,
        };
        let mut polled = [PollFd::new(&self.stream, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&limit)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives into `bytes`, and appends the descriptors that came with them. `None` if nothing is
    /// there; 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn receive(
        &self,
        bytes: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
    ) -> io::Result<Option<usize>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let parts = &mut [IoSliceMut::new(bytes)];
        match rustix::net::recvmsg(&self.stream, parts, &mut control, flags) {
            Ok(message) => {
                for part in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(came) = part {
                        descriptors.extend(came);
                    }
                }
                Ok(Some(message.bytes))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends bytes and descriptors as one.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the peer does not read.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, flags)?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

impl AsFd for UnixLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
