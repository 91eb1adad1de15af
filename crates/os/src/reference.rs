//! Zero-copy sends: conditions and mechanism.
//!
//! A copying send writes into pages that the receiver has just read. If the receiver is another
//! core of this host, getting these lines back is the most expensive part of a read: 450 ns for 4
//! KiB, or 1800 ns between cores without a shared cache. Zero-copy avoids that; [`block::Lap`]
//! explains the requirements. If the receiver is this core, its cache is ours, and copying is 5 %
//! faster.

use std::os::fd::{AsRawFd, RawFd};

use block::Chain;

use crate::core::CoreState;
use crate::cpu;
use crate::pipe::Pipe;
use crate::socket::Socket;

/// Length from which on zero-copy is worth its two system calls and page pins.
const WORTH_BYTES: usize = 32 << 10;
/// Length of a ring that keeps the next data out of the receiver's caches, and has room for
/// unacknowledged data.
const LAP_BYTES: usize = 4 << 20;
/// Approximate total of a core's rings, and the shortest useful ring.
const CORE_BYTES: usize = 8 << 20;
const LEAST_BYTES: usize = 512 << 10;

/// Number of long chains before which the peer's CPU is unknown: both ends may still be moved to
/// their CPUs, and a ring for zero-copy stays.
const SETTLED_CHAINS: u32 = 16;

/// Whether to send a chain zero-copy.
pub(crate) fn is_worth(chain: &Chain) -> bool {
    chain.len_bytes() >= WORTH_BYTES && chain.may_refer()
}

impl Socket {
    /// Length of the ring for zero-copy sends of chains like this one; `None` if impossible or not
    /// faster.
    pub fn lap_bytes(&self, chain: &Chain) -> Option<usize> {
        if chain.len_bytes() < WORTH_BYTES {
            return None;
        }
        let mut state = self.core.state.borrow_mut();
        let bytes = (CORE_BYTES / state.live_sockets.max(1)).min(LAP_BYTES) & !4095;
        let able = state.ring().features.send_by_reference && bytes >= LEAST_BYTES;
        let socket = state.socket(self.index);
        // The check costs a system call, and the peer may move: check less and less often.
        socket.long_chains = socket.long_chains.saturating_add(1);
        let asks = socket.long_chains >= SETTLED_CHAINS && socket.long_chains.is_power_of_two();
        if !asks || !able {
            return None;
        }
        let there = incoming_cpu(socket.fd.as_raw_fd());
        let here = state.guest.as_ref().map_or_else(cpu::here, |guest| Some(guest.home));
        // Once may be chance: another thread of this process, or an interrupt.
        let is_apart = there.is_some() && there != here;
        let was_apart = std::mem::replace(&mut state.socket(self.index).was_apart, is_apart);
        (is_apart && was_apart).then_some(bytes)
    }
}

/// The CPU on which the socket's packets arrive: on loopback, the peer's.
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
    /// Sends as much as the socket accepts now, zero-copy. True if that was all; the rest must be
    /// copied.
    pub(crate) fn send_by_reference(&mut self, index: u32) -> bool {
        let Some(pipe) = self.pipe.take().or_else(|| Pipe::new().ok()) else { return false };
        let socket = self.socket(index);
        socket.gather();
        // SAFETY: pieces sent zero-copy are returned to their ring, which keeps them until the peer
        // has read them, because of `Chain::refer`.
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
