//! Receive buffers, shared by all sockets of a core.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use block::{Arena, Buf, Count};
use io_uring::types::BufRingEntry;

use crate::ring::Ring;

/// Size of one receive buffer: the data of 32 reads of 4 KiB fits in one, not in five.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;
/// Number of buffers of a core.
const BUFFERS: u16 = 64;
/// Minimum buffers offered to the kernel: 1 MiB, the size of an L2 cache. The kernel fills buffers
/// in turn, so with more each has left the cache before it is filled again.
const OFFERED_LEAST: u16 = 8;
/// Number of turns without demand after which the kernel is offered half as many buffers.
const TURNS_WITHOUT_WANT: u32 = 1024;
/// The one group of provided buffers of a ring.
pub(crate) const GROUP: u16 = 0;

/// Receive buffers of one core.
///
/// With multishot receive some of the free buffers are in a provided buffer ring. Without, all are
/// in a list, and each receive gets one.
pub(crate) struct ReceiveBuffers {
    bufs: Vec<Buf>,
    /// Free buffers outside of the ring, used last in, first out.
    spare: Vec<u16>,
    ring: Option<Offered>,
}

/// The provided buffer ring.
struct Offered {
    entries: Buf,
    tail: u16,
    demand: Demand,
}

impl ReceiveBuffers {
    pub(crate) fn new(ring: &mut Ring) -> io::Result<ReceiveBuffers> {
        let bufs = Arena::cut(usize::from(BUFFERS), BUFFER_BYTES)?;
        let mut buffers = ReceiveBuffers { bufs, spare: (0..BUFFERS).collect(), ring: None };
        if ring.features.multishot_receive {
            let entries = Buf::new(usize::from(BUFFERS) * size_of::<BufRingEntry>())?;
            let address = entries.address().as_ptr() as u64;
            // SAFETY: `entries` is page-aligned, of the right length, and lives as long as the
            // ring, because `CoreState` drops the ring before the buffers.
            let registered = unsafe {
                ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)
            };
            ring.features.multishot_receive = registered.is_ok();
            if registered.is_ok() {
                buffers.ring = Some(Offered { entries, tail: 0, demand: Demand::new() });
                buffers.offer();
            }
        }
        Ok(buffers)
    }

    /// Creates a set without buffers.
    pub(crate) fn empty() -> ReceiveBuffers {
        ReceiveBuffers { bufs: Vec::new(), spare: Vec::new(), ring: None }
    }

    /// A free buffer for a single receive; `None` if all are filled, or a ring provides them.
    pub(crate) fn take(&mut self) -> Option<u16> {
        if self.ring.is_some() { None } else { self.spare.pop() }
    }

    /// Buffers available to the next receives.
    pub(crate) fn free(&self) -> usize {
        self.ring.as_ref().map_or(self.spare.len(), |ring| usize::from(ring.demand.offered))
    }

    /// Notes that the kernel took a buffer out of the ring, if there is one.
    pub(crate) fn taken(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.demand.taken();
        }
    }

    /// Notes that the kernel found the ring empty.
    pub(crate) fn wanted(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.demand.wanted();
        }
    }

    /// Frees a buffer whose data was consumed.
    pub(crate) fn give(&mut self, id: u16) {
        self.spare.push(id);
        self.offer();
    }

    /// Called once a turn: offers the kernel as many buffers as it needs.
    pub(crate) fn turn(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.demand.turn();
            self.offer();
        }
    }

    fn offer(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        while ring.demand.is_open()
            && let Some(id) = self.spare.pop()
        {
            ring.demand.offered += 1;
            ring.put(id, self.bufs[usize::from(id)].address().as_ptr() as u64);
        }
    }

    /// Address of a buffer.
    pub(crate) fn address(&self, id: u16) -> *mut u8 {
        self.bufs[usize::from(id)].address().as_ptr()
    }
}

impl Offered {
    fn put(&mut self, id: u16, address: u64) {
        let base = self.entries.as_mut_ptr().cast::<BufRingEntry>();
        let index = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: `index` < BUFFERS entries, all in `entries`; the kernel reads an entry only
        // after the tail was moved past it, which happens below.
        let entry = unsafe { &mut *base.add(index) };
        entry.set_addr(address);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned u16 inside the first entry, which the kernel reads with
        // acquire.
        let shared = unsafe { &*BufRingEntry::tail(base).cast::<AtomicU16>() };
        shared.store(self.tail, Ordering::Release);
    }
}

/// The number of buffers to offer: as few as suffice.
struct Demand {
    /// Buffers needed.
    wanted: u16,
    /// Buffers offered.
    offered: u16,
    /// Fewest buffers available since the last review.
    least: u16,
    /// Turns since the last review.
    turns: u32,
}

impl Demand {
    fn new() -> Demand {
        Demand { wanted: OFFERED_LEAST, offered: 0, least: 0, turns: 0 }
    }

    fn is_open(&self) -> bool {
        self.offered < self.wanted
    }

    fn taken(&mut self) {
        self.offered.lower(1);
        self.least = self.least.min(self.offered);
    }

    fn wanted(&mut self) {
        self.wanted = (self.wanted * 2).min(BUFFERS);
        self.least = 0;
    }

    fn turn(&mut self) {
        self.turns += 1;
        if self.turns < TURNS_WITHOUT_WANT {
            return;
        }
        if self.least > self.wanted / 2 {
            self.wanted = (self.wanted / 2).max(OFFERED_LEAST);
        }
        (self.least, self.turns) = (self.wanted, 0);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_kernel_is_offered_what_it_needs_and_no_more() {
        let mut demand = Demand::new();
        let review = |demand: &mut Demand| (0..TURNS_WITHOUT_WANT).for_each(|_| demand.turn());
        demand.wanted();
        assert_eq!(demand.wanted, 2 * OFFERED_LEAST);
        (0..10).for_each(|_| demand.wanted());
        assert_eq!(demand.wanted, BUFFERS);
        demand.offered = BUFFERS;
        // Demand was in the reviewed time, and none afterwards.
        review(&mut demand);
        assert_eq!(demand.wanted, BUFFERS);
        review(&mut demand);
        assert_eq!(demand.wanted, BUFFERS / 2);
        assert!(!demand.is_open());
        // More than half of them are in use at once.
        demand.offered = BUFFERS / 2;
        (0..BUFFERS / 4).for_each(|_| demand.taken());
        demand.offered = BUFFERS / 2;
        review(&mut demand);
        assert_eq!(demand.wanted, BUFFERS / 2);
        (0..5).for_each(|_| review(&mut demand));
        assert_eq!(demand.wanted, OFFERED_LEAST);
    }
}
