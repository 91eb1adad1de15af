//! Zero-copy sends: pages are spliced through a pipe, without a copy in the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Requested capacity of the pipe: the limit for unprivileged users.
const PIPE_BYTES: libc::c_int = 1 << 20;

/// Whether a splice from a pipe to a socket is zero-copy, as from Linux 6.5 on.
pub(crate) fn can_refer() -> bool {
    let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease") else { return false };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 5),
        _ => false,
    }
}

/// A pipe for pages on their way to a socket. Empty between sends.
#[derive(Debug)]
pub(crate) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Pipe> {
        let mut ends = [0; 2];
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the kernel fills the two descriptors that we own.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), flags) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptors are fresh and owned by no other object.
        let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        // Beyond the user's limit the pipe stays smaller, and a send needs more calls. SAFETY: a
        // system call on a descriptor that we own.
        unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        Ok(Pipe { read, write })
    }

    /// Sends what the socket takes now of `parts`, zero-copy; returns the bytes sent, and whether
    /// the pipe is empty again. If not, it is unusable.
    ///
    /// # Safety
    /// The bytes stay unchanged until the peer has read them. They may be unmapped.
    pub(crate) unsafe fn send(&self, socket: RawFd, parts: &[libc::iovec]) -> (usize, bool) {
        // A splice blocks on a full socket, whatever its own flags say: a peer that does not read
        // would block the core. But the ring must not see this flag: its sends would not wait at
        // all.
        if !set_flags(socket, libc::O_NONBLOCK) {
            return (0, true);
        }
        // SAFETY: the caller's promise.
        let sent = unsafe { self.send_without_waiting(socket, parts) };
        set_flags(socket, 0);
        sent
    }

    /// # Safety
    ///
    /// See [`send`](Self::send).
    unsafe fn send_without_waiting(&self, socket: RawFd, parts: &[libc::iovec]) -> (usize, bool) {
        let len: usize = parts.iter().map(|part| part.iov_len).sum();
        let mut sent = 0;
        let mut rest = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS];
        while sent < len {
            let count = remainder(parts, sent, &mut rest);
            let flags = libc::SPLICE_F_NONBLOCK;
            // SAFETY: the parts are mapped now, and the caller's promise for later.
            let filled =
                unsafe { libc::vmsplice(self.write.as_raw_fd(), rest.as_ptr(), count, flags) };
            let Ok(mut filled @ 1..) = usize::try_from(filled) else { return (sent, true) };
            while filled > 0 {
                let more = if sent + filled < len { libc::SPLICE_F_MORE } else { 0 };
                let (from, null) = (self.read.as_raw_fd(), std::ptr::null_mut());
                // SAFETY: a system call on descriptors that live, without offsets.
                let moved = unsafe { libc::splice(from, null, socket, null, filled, flags | more) };
                let Ok(moved @ 1..) = usize::try_from(moved) else { return (sent, false) };
                filled -= moved;
                sent += moved;
            }
        }
        (sent, true)
    }
}

/// Sets the settable flags of a socket; it has no others.
fn set_flags(socket: RawFd, flags: libc::c_int) -> bool {
    // SAFETY: a system call on a descriptor that lives.
    unsafe { libc::fcntl(socket, libc::F_SETFL, flags) == 0 }
}

/// Parts per call.
const PARTS: usize = 16;

/// Lists the parts after the first `skip` bytes, as many as fit; returns their number.
fn remainder(parts: &[libc::iovec], skip: usize, rest: &mut [libc::iovec; PARTS]) -> usize {
    let (mut skip, mut count) = (skip, 0);
    for part in parts {
        if skip >= part.iov_len {
            skip -= part.iov_len;
            continue;
        }
        if count == PARTS {
            break;
        }
        let iov_base = part.iov_base.cast::<u8>().wrapping_add(skip).cast();
        rest[count] = libc::iovec { iov_base, iov_len: part.iov_len - skip };
        (skip, count) = (0, count + 1);
    }
    count
}
