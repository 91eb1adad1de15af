//! Split virtqueues: the rings of both ends.

use std::sync::atomic::{Ordering, fence};

use block::Window;

use super::chain::{DESCRIPTOR_BYTES, Descriptor};
use super::{Chain, GuestMemory, Place, RingViolation, broken};

/// Offset of the index in both rings.
const INDEX: u64 = 2;
/// Offset of the entries in both rings.
const ENTRIES: u64 = 4;
/// `VIRTQ_USED_F_NO_NOTIFY` and `VIRTQ_AVAIL_F_NO_INTERRUPT`.
const QUIET: u16 = 1;

/// Maximum number of descriptors of a queue.
const SIZE_MOST: u16 = 1024;

/// Addresses of a ring's three parts in the driver's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Descriptor table.
    pub descriptors: u64,
    /// Available ring.
    pub available: u64,
    /// Used ring.
    pub used: u64,
}

/// Windows onto a ring's three parts.
#[derive(Clone, Debug)]
pub struct Windows {
    size: u16,
    descriptors: Window,
    available: Window,
    used: Window,
}

impl Windows {
    /// Length of the available ring.
    pub const fn available_bytes(size: u16) -> u64 {
        6 + 2 * size as u64
    }

    /// Length of the used ring.
    pub const fn used_bytes(size: u16) -> u64 {
        6 + 8 * size as u64
    }

    /// Finds the parts of a ring in a driver's memory.
    ///
    /// # Errors
    ///
    /// The size is no power of two up to 1024, or a part is misaligned or not in the memory.
    pub fn find(guest: &GuestMemory, size: u16, at: &Addresses) -> Result<Windows, RingViolation> {
        if !size.is_power_of_two() || size > SIZE_MOST {
            let rule = "VIRTIO 1.2 §2.7: a size that is no power of two up to 1024";
            return broken(rule, Place::Addresses);
        }
        let parts = (
            guest.user(at.descriptors, u64::from(size) * DESCRIPTOR_BYTES),
            guest.user(at.available, Self::available_bytes(size)),
            guest.user(at.used, Self::used_bytes(size)),
        );
        let (Some(descriptors), Some(available), Some(used)) = parts else {
            let rule = "VIRTIO 1.2 §2.7: a part of the ring outside of the shared memory";
            return broken(rule, Place::Addresses);
        };
        if !(descriptors.is_aligned(16) && available.is_aligned(2) && used.is_aligned(4)) {
            let rule = "VIRTIO 1.2 §2.7: alignment of 16, 2 and 4 bytes";
            return broken(rule, Place::Addresses);
        }
        Ok(Windows { size, descriptors, available, used })
    }

    /// Position of an index in a ring.
    #[inline(always)]
    fn slot(&self, index: u16) -> u64 {
        u64::from(index & (self.size - 1))
    }

    /// Offset of `used_event`.
    #[inline(always)]
    fn used_event(&self) -> u64 {
        ENTRIES + 2 * u64::from(self.size)
    }

    /// Offset of `avail_event`.
    #[inline(always)]
    fn avail_event(&self) -> u64 {
        ENTRIES + 8 * u64::from(self.size)
    }
}

/// A load of our windows, whose lengths fit.
#[inline(always)]
fn load(window: &Window, at: u64) -> u16 {
    u16::from_le(window.load16(at).unwrap_or_default())
}

/// A store of our windows, whose lengths fit.
#[inline(always)]
fn store(window: &Window, at: u64, value: u16) {
    let stored = window.store16(at, value.to_le());
    debug_assert!(stored.is_some(), "windows have the length of their part");
}

/// Whether the step from `old` to `new` passes the index at which the other end is to be told.
//= VIRTIO 1.2 §2.7.10: used_event and avail_event.
#[inline(always)]
fn passes(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// The device's end of a split virtqueue.
#[derive(Debug)]
pub struct SplitDevice {
    windows: Windows,
    event_index: bool,
    /// Next entry of the available ring.
    next: u16,
    /// Entries of the available ring that may be read.
    known: u16,
    /// Next entry of the used ring.
    used: u16,
    /// Used index that the driver knows.
    published: u16,
    quiet: bool,
}

impl SplitDevice {
    /// Starts at the entry `base` of both rings.
    pub fn new(windows: Windows, base: u16, event_index: bool) -> SplitDevice {
        let (next, used) = (base, base);
        SplitDevice { windows, event_index, next, known: next, used, published: used, quiet: false }
    }

    /// Size of the queue.
    pub fn size(&self) -> u16 {
        self.windows.size
    }

    /// The next entry of the available ring, to continue from later.
    pub fn base(&self) -> u16 {
        self.next
    }

    /// Number of entries of the available ring that were not taken yet.
    ///
    /// # Errors
    ///
    /// The driver's index is further ahead than the queue is long.
    #[inline(always)]
    pub fn available(&mut self) -> Result<u16, RingViolation> {
        if self.known == self.next {
            self.known = load(&self.windows.available, INDEX);
        }
        let count = self.known.wrapping_sub(self.next);
        if count > self.windows.size {
            let rule = "VIRTIO 1.2 §2.7.6: more entries than the queue is long";
            return broken(rule, Place::Available(self.known));
        }
        Ok(count)
    }

    /// Takes the next chain. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// The entry or the chain breaks a rule.
    #[inline(always)]
    pub fn take(&mut self, guest: &GuestMemory, chain: &mut Chain) -> Result<bool, RingViolation> {
        if self.available()? == 0 {
            return Ok(false);
        }
        let (windows, next) = (&self.windows, self.next);
        let head = load(&windows.available, ENTRIES + 2 * windows.slot(next));
        chain.read(&windows.descriptors, windows.size, head, guest)?;
        self.next = next.wrapping_add(1);
        Ok(true)
    }

    /// Leaves the chain that was just taken for later: it is read again.
    pub fn untake(&mut self) {
        self.next = self.next.wrapping_sub(1);
    }

    /// Puts a chain into the used ring; the driver sees it after [`publish`](Self::publish).
    #[inline(always)]
    pub fn put(&mut self, head: u16, written: u32) {
        let at = ENTRIES + 8 * self.windows.slot(self.used);
        let used = &self.windows.used;
        let stored = used.store32(at, u32::from(head).to_le());
        let stored = stored.and_then(|()| used.store32(at + 4, written.to_le()));
        debug_assert!(stored.is_some(), "the window has the length of the used ring");
        self.used = self.used.wrapping_add(1);
    }

    /// Shows the driver all chains that were put. Returns whether to interrupt the driver.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (new, old) = (self.used, self.published);
        if new == old {
            return false;
        }
        store(&self.windows.used, INDEX, new);
        self.published = new;
        // The driver writes its wish and then reads our index; this reads them in the other order.
        fence(Ordering::SeqCst);
        let available = &self.windows.available;
        match self.event_index {
            true => passes(load(available, self.windows.used_event()), new, old),
            false => load(available, 0) & QUIET == 0,
        }
    }

    /// Asks for no notifications: this end polls.
    pub fn silence(&mut self) {
        if !self.event_index && !self.quiet {
            store(&self.windows.used, 0, QUIET);
        }
        self.quiet = true;
    }

    /// Asks for a notification of the next entry. Returns whether there is one already.
    pub fn listen(&mut self) -> bool {
        match self.event_index {
            true => store(&self.windows.used, self.windows.avail_event(), self.next),
            false => store(&self.windows.used, 0, 0),
        }
        self.quiet = false;
        fence(Ordering::SeqCst);
        load(&self.windows.available, INDEX) != self.next
    }
}

/// The driver's end of a split virtqueue.
#[derive(Debug)]
pub struct SplitDriver {
    windows: Windows,
    event_index: bool,
    /// Next entry of the available ring.
    next: u16,
    /// Available index that the device knows.
    published: u16,
    /// Next entry of the used ring.
    used: u16,
}

impl SplitDriver {
    /// A new ring, whose memory is zero.
    pub fn new(windows: Windows, event_index: bool) -> SplitDriver {
        SplitDriver { windows, event_index, next: 0, published: 0, used: 0 }
    }

    /// Writes a descriptor of the table.
    pub(super) fn describe(&self, number: u16, descriptor: Descriptor) {
        let at = u64::from(number) * DESCRIPTOR_BYTES;
        let stored = descriptor.store(&self.windows.descriptors, at);
        debug_assert!(stored.is_some(), "a descriptor of the table");
    }

    /// Offers a chain; the device sees it after [`publish`](Self::publish).
    #[inline(always)]
    pub fn put(&mut self, head: u16) {
        let at = ENTRIES + 2 * self.windows.slot(self.next);
        store(&self.windows.available, at, head);
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the device all chains that were put. Returns whether to notify the device.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (new, old) = (self.next, self.published);
        if new == old {
            return false;
        }
        store(&self.windows.available, INDEX, new);
        self.published = new;
        fence(Ordering::SeqCst);
        let used = &self.windows.used;
        match self.event_index {
            true => passes(load(used, self.windows.avail_event()), new, old),
            false => load(used, 0) & QUIET == 0,
        }
    }

    /// Number of entries of the used ring that were not taken, of at most `in_flight`.
    ///
    /// # Errors
    ///
    /// The device has used more chains than are in flight.
    #[inline(always)]
    pub fn used(&self, in_flight: u16) -> Result<u16, RingViolation> {
        let index = load(&self.windows.used, INDEX);
        let count = index.wrapping_sub(self.used);
        if count > in_flight {
            let rule = "VIRTIO 1.2 §2.7.8: more entries than chains in flight";
            return broken(rule, Place::Used(index));
        }
        Ok(count)
    }

    /// Takes the next entry of the used ring: the head's number, as the device wrote it.
    #[inline(always)]
    pub fn take(&mut self) -> u32 {
        let at = ENTRIES + 8 * self.windows.slot(self.used);
        self.used = self.used.wrapping_add(1);
        u32::from_le(self.windows.used.load32(at).unwrap_or(u32::MAX))
    }

    /// Index of the last entry taken.
    pub(super) fn last(&self) -> u16 {
        self.used.wrapping_sub(1)
    }

    /// Asks for no interrupts: this end polls.
    pub fn silence(&mut self) {
        if !self.event_index {
            store(&self.windows.available, 0, QUIET);
        }
    }

    /// Asks for an interrupt at the next used chain. Returns whether there is one already.
    pub fn listen(&mut self) -> bool {
        match self.event_index {
            true => store(&self.windows.available, self.windows.used_event(), self.used),
            false => store(&self.windows.available, 0, 0),
        }
        fence(Ordering::SeqCst);
        load(&self.windows.used, INDEX) != self.used
    }
}

#[cfg(test)]
mod test {
    use super::passes;

    #[test]
    fn events_are_passed_once_and_across_the_wrap() {
        assert!(passes(5, 6, 5) && passes(5, 9, 3) && !passes(5, 5, 3) && !passes(5, 9, 6));
        assert!(passes(0xffff, 2, 0xfffe) && !passes(2, 2, 0xfffe));
    }
}
