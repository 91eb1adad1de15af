//! Direct I/O of a single socket: plain system calls instead of the ring.
//!
//! A core with one socket has nothing to batch: the ring would only add a second system call per
//! exchange. Such a socket is polled by non-blocking receives while the core spins, and sent on at
//! once: 8.7 µs an exchange instead of 10.8 µs (512 B, depth 1, both ends spinning, near). Before
//! the core sleeps, it arms a poll in the ring.
//!
//! Of two sockets the younger is direct, because the older may be the quiet admin queue of an NVMe
//! association. A third socket ends direct I/O.

use std::io;
use std::os::fd::AsRawFd;

use block::{Buf, Pool};
use io_uring::opcode;
use io_uring::types::Fd;

use crate::core::{CoreState, Kind};
use crate::socket::End;

/// Maximum sockets of a core with direct I/O on one.
const FEW: usize = 2;

/// Receive mode of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The ring receives.
    Ring,
    /// System calls of the spinning core receive.
    Direct,
}

/// Bytes received by a system call: the first of a buffer.
pub(crate) struct Arrival {
    pub(crate) buf: Buf,
    pub(crate) len: usize,
}

impl CoreState {
    /// Decides how a new socket receives, and moves a socket that was alone to the ring.
    pub(crate) fn begin_receiving(&mut self, index: u32) {
        if let Some(other) = self.direct.take() {
            self.socket(other).mode = Mode::Ring;
            self.begin_on_ring(other);
        }
        if self.live_sockets > FEW {
            return self.begin_on_ring(index);
        }
        self.socket(index).mode = Mode::Direct;
        self.direct = Some(index);
    }

    /// Receives on the direct socket, if there is one.
    #[inline]
    pub(crate) fn receive_direct(&mut self) {
        let Some(index) = self.direct else { return };
        let socket = self.socket(index);
        // One arrival at a time: the owner consumes it before the next.
        if socket.ended.is_some() || socket.arrived.is_some() {
            return;
        }
        let fd = socket.fd.as_raw_fd();
        let Some(mut buf) = self.spare.take().or_else(|| Buf::new(Pool::LARGE_BYTES).ok()) else {
            return;
        };
        let len = buf.len().min(self.socket(index).receive_max);
        // SAFETY: the kernel writes at most the length of a buffer that we own.
        let got = unsafe { libc::recv(fd, buf.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT) };
        match got {
            1.. => {
                self.socket(index).arrived = Some(Arrival { buf, len: got as usize });
                return self.mark_ready(index);
            }
            0 => self.end_socket(index, End::Closed),
            _ => {
                self.spare = Some(buf);
                let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
                if matches!(errno, libc::EAGAIN | libc::EINTR) {
                    return;
                }
                self.end_socket(index, End::Broken(errno));
            }
        }
        self.mark_ready(index);
    }

    /// Whether a turn begins with the ring instead of the direct socket. The direct socket goes
    /// first, because after a rest the ring also reports the socket's data, at the cost of a system
    /// call. But queued submissions go at once, and events of the ring wait for at most one turn.
    #[inline]
    pub(crate) fn polls_ring_first(&mut self) -> bool {
        let after_direct = std::mem::take(&mut self.heard_direct);
        after_direct || self.direct.is_none() || self.ring().has_submission()
    }

    /// Delays the ACK of the next data until the next send, or for 40 ms. After a rest the kernel
    /// does not expect a response, and acknowledges before the data is delivered.
    pub(crate) fn delay_acknowledgement(&mut self, index: u32) {
        let fd = self.socket(index).fd.as_raw_fd();
        let (level, off) = (libc::IPPROTO_TCP, 0 as libc::c_int);
        let (value, len) = ((&raw const off).cast(), size_of_val(&off) as libc::socklen_t);
        // SAFETY: the kernel reads an integer that we own, of the given size. If it refuses, the
        // ACK goes at once.
        unsafe { libc::setsockopt(fd, level, libc::TCP_QUICKACK, value, len) };
    }

    /// Arms a poll in the ring, because the core is about to sleep.
    pub(crate) fn watch_direct(&mut self) -> io::Result<()> {
        let Some(index) = self.direct else { return Ok(()) };
        self.watch(index)
    }

    /// Arms a poll for data of a socket.
    pub(crate) fn watch(&mut self, index: u32) -> io::Result<()> {
        let socket = self.socket(index);
        if socket.watched || socket.dropped || socket.ended.is_some() {
            return Ok(());
        }
        socket.watched = true;
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        let entry = opcode::PollAdd::new(Fd(socket.fd.as_raw_fd()), events).build();
        // SAFETY: the entry points to nothing; the descriptor lives until the slot is removed.
        unsafe { self.push(entry, Kind::Watch, index, 0) }
    }

    /// Handles a completed poll.
    pub(crate) fn watched(&mut self, index: u32, result: i32) {
        self.socket(index).watched = false;
        match self.socket(index).mode {
            Mode::Direct => self.receive_direct(),
            // The receive will report an error of the poll.
            Mode::Ring if result != -libc::ECANCELED => self.wait_for_buffer(index),
            Mode::Ring => {}
        }
        self.free_socket(index);
    }

    /// Sends as much as the socket accepts now. True if that was all.
    pub(crate) fn send_direct(&mut self, index: u32) -> bool {
        let socket = self.socket(index);
        socket.gather();
        let [part] = socket.parts[..] else { return false };
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the part lies in the chain, which the slot owns.
        let sent = unsafe { libc::send(socket.fd.as_raw_fd(), part.iov_base, part.iov_len, flags) };
        // Any other error shows again in the ring's send.
        socket.sent_bytes += sent.max(0) as usize;
        socket.sent_bytes == socket.chain.len_bytes()
    }
}
