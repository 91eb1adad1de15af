//! Buffers that the kernel fills with what sockets receive, shared by all sockets of a core.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use block::{Arena, Buf};
use io_uring::types::BufRingEntry;

use crate::ring::Ring;

/// Length of one receive buffer. Shorter ones cut batches, longer ones leave the cache.
pub(crate) const BUFFER_BYTES: usize = 32 << 10;
/// Number of buffers: 1 MiB in all, as much as a core's second level cache has. The kernel fills
/// all of them before they are read, so twice as many are read from further away, and half as many
/// run dry when 25 connections answer in one turn.
const BUFFERS: u16 = 32;
/// The one group of provided buffers of a ring.
pub(crate) const GROUP: u16 = 0;

/// The stock of receive buffers of one core.
///
/// With multishot receive the free ones stand in a ring that the kernel takes from. Without, the
/// free ones stand in a list and each receive is given one.
pub(crate) struct ReceiveBuffers {
    bufs: Vec<Buf>,
    free: Free,
}

enum Free {
    Ring { entries: Buf, tail: u16 },
    List(Vec<u16>),
}

impl ReceiveBuffers {
    pub(crate) fn new(ring: &mut Ring) -> io::Result<ReceiveBuffers> {
        let bufs = Arena::cut(usize::from(BUFFERS), BUFFER_BYTES)?;
        let mut buffers = ReceiveBuffers { bufs, free: Free::List((0..BUFFERS).collect()) };
        if ring.features.multishot_receive {
            let entries = Buf::new(usize::from(BUFFERS) * size_of::<BufRingEntry>())?;
            let address = entries.as_ptr() as u64;
            // SAFETY: `entries` is page-aligned, of the right length, and lives as long as the
            // ring, because `State` drops the ring before the buffers.
            let registered = unsafe {
                ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)
            };
            ring.features.multishot_receive = registered.is_ok();
            if registered.is_ok() {
                buffers.free = Free::Ring { entries, tail: 0 };
                (0..BUFFERS).for_each(|id| buffers.give(id));
            }
        }
        Ok(buffers)
    }

    /// No buffers at all.
    pub(crate) fn empty() -> ReceiveBuffers {
        ReceiveBuffers { bufs: Vec::new(), free: Free::List(Vec::new()) }
    }

    /// A free buffer for a single receive; `None` when all are filled or a ring hands them out.
    pub(crate) fn take(&mut self) -> Option<u16> {
        match &mut self.free {
            Free::Ring { .. } => None,
            Free::List(free) => free.pop(),
        }
    }

    /// Makes a buffer free again, after its bytes were consumed.
    pub(crate) fn give(&mut self, id: u16) {
        let address = self.address(id) as u64;
        match &mut self.free {
            Free::List(free) => free.push(id),
            Free::Ring { entries, tail } => {
                let base = entries.as_mut_ptr().cast::<BufRingEntry>();
                let index = usize::from(*tail & (BUFFERS - 1));
                // SAFETY: `index` < BUFFERS entries, all in `entries`; the kernel reads an entry
                // only after the tail was moved past it, which happens below.
                let entry = unsafe { &mut *base.add(index) };
                entry.set_addr(address);
                entry.set_len(BUFFER_BYTES as u32);
                entry.set_bid(id);
                *tail = tail.wrapping_add(1);
                // SAFETY: the tail is an aligned u16 inside the first entry, which the kernel
                // reads with acquire.
                let shared = unsafe { &*BufRingEntry::tail(base).cast::<AtomicU16>() };
                shared.store(*tail, Ordering::Release);
            }
        }
    }

    /// Where a buffer lies.
    pub(crate) fn address(&self, id: u16) -> *mut u8 {
        self.bufs[usize::from(id)].as_ptr().cast_mut()
    }
}
