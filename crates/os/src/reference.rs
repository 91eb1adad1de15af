//! Sending by reference: when it pays, and how.
//!
//! A copying send writes into pages that the receiver has just read. Where the receiver is another
//! core of this host, getting these lines back is the most expensive part of a read: 450 ns for
//! 4 KiB, or 1800 ns where the cores share no cache. By reference there is no copy; see
//! [`block::Lap`] for what it takes. Where the receiver is this core, its cache is ours, and
//! copying is 5 % faster.

use std::os::fd::{AsRawFd, RawFd};

use block::Chain;

use crate::core::CoreState;
use crate::cpu;
use crate::pipe::Pipe;
use crate::socket::Socket;

/// A chain of so many bytes is worth the two system calls and the pins of its pages.
const WORTH_BYTES: usize = 32 << 10;
/// A ring of so many bytes keeps what is sent next out of the caches of the receiver, and has room
/// for what the peer has not acknowledged.
const LAP_BYTES: usize = 4 << 20;
/// What all rings of a core are to have, about, and the shortest ring that is of use.
const CORE_BYTES: usize = 8 << 20;
const LEAST_BYTES: usize = 512 << 10;

/// Whether a chain shall be sent by reference.
pub(crate) fn is_worth(chain: &Chain) -> bool {
    chain.len_bytes() >= WORTH_BYTES && chain.may_refer()
}

impl Socket {
    /// Length of the ring from which chains such as this one should be sent by reference; `None`
    /// where that is not possible or does not pay.
    pub fn lap_bytes(&self, chain: &Chain) -> Option<usize> {
        if chain.len_bytes() < WORTH_BYTES {
            return None;
        }
        let mut state = self.core.state.borrow_mut();
        let bytes = (CORE_BYTES / state.live_sockets.max(1)).min(LAP_BYTES) & !4095;
        let able = state.ring().features.send_by_reference && bytes >= LEAST_BYTES;
        let socket = state.socket(self.index);
        // Asking costs a system call, and the peer may move: ask less and less often.
        socket.long_chains = socket.long_chains.saturating_add(1);
        let asks = able && socket.long_chains.is_power_of_two();
        if !asks {
            return None;
        }
        let there = incoming_cpu(socket.fd.as_raw_fd());
        let here = state.guest.as_ref().map_or_else(cpu::here, |guest| Some(guest.home));
        (there.is_some() && there != here).then_some(bytes)
    }
}

/// The processor on which the socket's packets come in: on loopback, that of the peer.
pub(crate) fn incoming_cpu(socket: RawFd) -> Option<usize> {
    let (mut cpu, mut len) = (-1_i32, size_of::<i32>() as libc::socklen_t);
    let value = (&raw mut cpu).cast();
    // SAFETY: the kernel fills at most `len` bytes of an integer that we own.
    let result = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_INCOMING_CPU, value, &mut len)
    };
    usize::try_from(cpu).ok().filter(|_| result == 0)
}

impl CoreState {
    /// Sends by reference what the socket takes now. True when that was all; the rest is to be
    /// copied.
    pub(crate) fn send_by_reference(&mut self, index: u32) -> bool {
        let Some(pipe) = self.pipe.take().or_else(|| Pipe::new().ok()) else { return false };
        let socket = self.socket(index);
        socket.gather();
        // SAFETY: pieces that may be referred to are given back to their ring, which keeps them
        // until the peer has read them: `Chain::refer` tells it to.
        let (sent, empty) = unsafe { pipe.send(socket.fd.as_raw_fd(), &socket.parts) };
        if sent > 0 {
            socket.chain.refer();
        }
        socket.sent_bytes = sent;
        let all_sent = sent == socket.chain.len_bytes();
        if empty {
            self.pipe = Some(pipe);
        }
        all_sent
    }
}
