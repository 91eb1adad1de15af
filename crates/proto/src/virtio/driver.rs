//! The driver's end of a queue of block requests.
//!
//! Each slot has its descriptors, header, status byte and data at fixed places of the queue's
//! memory. Nothing of what the device can write is read back, except statuses, data of reads and
//! the used ring, each once.

use std::sync::Arc;

use block::{Cause, Fault, Op, Window};

use super::chain::{DESCRIPTOR_BYTES, Descriptor, INDIRECT, NEXT, WRITE};
use super::wire::{
    DISCARD, FLUSH, HEADER_BYTES, IN, OK, OUT, RANGE_BYTES, UNMAP, UNSUPP, WRITE_ZEROES,
};
use super::{
    Addresses, Area, F_EVENT_IDX, F_INDIRECT, Features, GuestMemory, Place, RingViolation,
    SECTOR_BYTES, SplitDriver, Windows, broken,
};

/// Descriptors of a request: header, data, status.
const PARTS: u16 = 3;
/// Length of a cache line, the distance between a slot's control words and the next slot's.
const LINE: u64 = 64;
/// Alignment of the first data.
const PAGE: u64 = 4096;
/// Distance between the data of two slots beyond their length: with a power of two all slots would
/// compete for the same lines of the cache. Devices need data aligned to 512 for direct I/O.
const STAGGER: u64 = 4096 + 512;

/// A slot's control words: header, range of a discard, status. Offsets within its line.
const RANGE_AT: u64 = HEADER_BYTES as u64;
const STATUS_AT: u64 = RANGE_AT + RANGE_BYTES as u64;

/// A queue of a driver.
#[derive(Debug)]
pub struct DriverQueue {
    ring: SplitDriver,
    window: Window,
    layout: Layout,
    free: Vec<u16>,
    /// Slots whose chain the device has.
    busy: Vec<bool>,
    in_flight: u16,
    /// Slots whose header is linked to data.
    has_data: Vec<bool>,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Slot of the request.
    pub slot: u16,
    /// Success, or the fault.
    pub result: Result<(), Fault>,
    /// The device's status byte, for faults.
    pub cause: Cause,
}

/// Where things are in a queue's memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    base: u64,
    size: u16,
    slots: u16,
    /// First descriptor tables of slots: indirect ones, or parts of the ring's table.
    tables: u64,
    available: u64,
    used: u64,
    control: u64,
    data: u64,
    data_bytes: u64,
    indirect: bool,
    end: u64,
}

impl Layout {
    fn new(base: u64, size: u16, slot_bytes: u64, indirect: bool) -> Layout {
        let slots = if indirect { size } else { size / PARTS };
        let line = |at: u64| at.next_multiple_of(LINE);
        let ring_table = u64::from(size) * DESCRIPTOR_BYTES;
        let tables = if indirect { line(ring_table) } else { 0 };
        let table_bytes = u64::from(slots) * LINE;
        let available = if indirect { tables + table_bytes } else { line(ring_table) };
        let used = line(available + Windows::available_bytes(size)) + LINE;
        let control = line(used + Windows::used_bytes(size)) + LINE;
        let data = (control + u64::from(slots) * LINE).next_multiple_of(PAGE);
        let end = data + u64::from(slots) * (slot_bytes + STAGGER);
        let data_bytes = slot_bytes;
        Layout {
            base,
            size,
            slots,
            tables,
            available,
            used,
            control,
            data,
            data_bytes,
            indirect,
            end,
        }
    }

    fn control(&self, slot: u16) -> u64 {
        self.control + u64::from(slot) * LINE
    }

    fn data(&self, slot: u16) -> u64 {
        self.data + u64::from(slot) * (self.data_bytes + STAGGER)
    }

    /// Offset of the first of a slot's three descriptors.
    fn table(&self, slot: u16) -> u64 {
        let stride = if self.indirect { LINE } else { PARTS as u64 * DESCRIPTOR_BYTES };
        self.tables + u64::from(slot) * stride
    }

    /// Number of the descriptor that a slot's chain begins with.
    fn head(&self, slot: u16) -> u16 {
        if self.indirect { slot } else { slot * PARTS }
    }

    /// The slot of a head.
    fn slot_of(&self, head: u32) -> Option<u16> {
        let head = u16::try_from(head).ok()?;
        let slot = if self.indirect { head } else { head / PARTS };
        (slot < self.slots && self.head(slot) == head).then_some(slot)
    }
}

impl DriverQueue {
    /// Length of the memory of a queue of `size` descriptors, with `slot_bytes` of data, a multiple
    /// of 4096, for each request.
    pub fn bytes(size: u16, slot_bytes: u64, features: Features) -> u64 {
        Layout::new(0, size, slot_bytes, features.has(F_INDIRECT)).end.next_multiple_of(PAGE)
    }

    /// A new queue. `window` is its memory, zeroed, of [`bytes`](Self::bytes); `base` is the
    /// address of that memory in descriptors and ring addresses.
    ///
    /// # Errors
    ///
    /// The window is too short, or the size is no power of two up to 1024.
    pub fn new(
        window: Window,
        base: u64,
        size: u16,
        slot_bytes: u64,
        features: Features,
    ) -> Result<DriverQueue, RingViolation> {
        let layout = Layout::new(base, size, slot_bytes, features.has(F_INDIRECT));
        let area = Area { guest: base, user: base, window: window.clone() };
        let memory = GuestMemory::new(vec![area])?;
        let windows = Windows::find(&memory, size, &layout.addresses())?;
        if window.part(0, layout.end).is_none() {
            return broken("VIRTIO 1.2 §2.7: memory too short", Place::Addresses);
        }
        let ring = SplitDriver::new(windows, features.has(F_EVENT_IDX));
        let queue = DriverQueue {
            ring,
            window,
            layout,
            free: (0..layout.slots).rev().collect(),
            busy: vec![false; layout.slots.into()],
            in_flight: 0,
            has_data: vec![true; layout.slots.into()],
        };
        for slot in 0..layout.slots {
            queue.describe(slot);
        }
        Ok(queue)
    }

    /// Addresses of the ring, for the device.
    pub fn addresses(&self) -> Addresses {
        self.layout.addresses()
    }

    /// Number of free slots.
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Number of requests that the device has.
    #[inline]
    pub fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Writes what stays the same in a slot's descriptors.
    fn describe(&self, slot: u16) {
        let layout = &self.layout;
        let (base, first) = (layout.base, if layout.indirect { 0 } else { layout.head(slot) });
        let parts = [
            (layout.control(slot), HEADER_BYTES as u32, NEXT),
            (layout.data(slot), 0, NEXT),
            (layout.control(slot) + STATUS_AT, 1, WRITE),
        ];
        for (at, (address, len, flags)) in (0..).zip(parts) {
            let next = if flags & NEXT != 0 { first + at + 1 } else { 0 };
            let one = Descriptor { address: base + address, len, flags, next };
            let at = layout.table(slot) + u64::from(at) * DESCRIPTOR_BYTES;
            let stored = one.store(&self.window, at);
            debug_assert!(stored.is_some(), "the window has the length of the layout");
        }
        if layout.indirect {
            let (address, len) = (base + layout.table(slot), 3 * DESCRIPTOR_BYTES as u32);
            self.ring.describe(slot, Descriptor { address, len, flags: INDIRECT, next: 0 });
        }
    }

    /// Starts a request of whole sectors and returns its slot; `None` if no slot is free. `data`
    /// is that of a write, of `len` bytes. The device sees it after [`publish`](Self::publish).
    ///
    /// # Panics
    ///
    /// The length is beyond a slot's, or not that of the data.
    #[inline]
    pub fn start(&mut self, op: Op, offset: u64, len: u32, data: Option<&[u8]>) -> Option<u16> {
        let slot = self.free.pop()?;
        let layout = self.layout;
        let (control, place) = (layout.control(slot), layout.data(slot));
        let sectors = len / SECTOR_BYTES as u32;
        let sector = offset / SECTOR_BYTES;
        let (kind, middle) = match op {
            Op::Read => (IN, Some((place, len, NEXT | WRITE))),
            Op::Write => (OUT, Some((place, len, NEXT))),
            Op::Flush => (FLUSH, None),
            Op::Trim => (DISCARD, Some((control + RANGE_AT, RANGE_BYTES as u32, NEXT))),
            Op::WriteZeroes => (WRITE_ZEROES, Some((control + RANGE_AT, RANGE_BYTES as u32, NEXT))),
        };
        let moves = matches!(op, Op::Read | Op::Write);
        assert!(!moves || u64::from(len) <= layout.data_bytes, "{len} bytes in a slot");
        let mut stored = self.window.store64(control, u64::from(kind).to_le());
        let at = if middle.is_some() && moves { sector } else { 0 };
        stored = stored.and(self.window.store64(control + 8, at.to_le()));
        if let Some(data) = data {
            assert!(data.len() == len as usize && op == Op::Write, "data of a write");
            stored = stored.and(self.window.write(place, data));
        }
        if matches!(op, Op::Trim | Op::WriteZeroes) {
            let flags = if op == Op::Trim { 0 } else { UNMAP };
            let rest = u64::from(sectors) | u64::from(flags) << 32;
            stored = stored.and(self.window.store64(control + RANGE_AT, sector.to_le()));
            stored = stored.and(self.window.store64(control + RANGE_AT + 8, rest.to_le()));
        }
        stored = stored.and(self.window.store8(control + STATUS_AT, u8::MAX));
        self.describe_request(slot, middle);
        debug_assert!(stored.is_some(), "the window has the length of the layout");
        self.busy[usize::from(slot)] = true;
        self.in_flight += 1;
        self.ring.put(layout.head(slot));
        Some(slot)
    }

    /// Writes the descriptor of a request's data, and links it.
    #[inline(always)]
    fn describe_request(&mut self, slot: u16, middle: Option<(u64, u32, u16)>) {
        let layout = self.layout;
        let (base, table) = (layout.base, layout.table(slot));
        let first = if layout.indirect { 0 } else { layout.head(slot) };
        let next = if middle.is_some() { first + 1 } else { first + 2 };
        let (address, len) = (base + layout.control(slot), HEADER_BYTES as u32);
        let mut stored = Some(());
        if std::mem::replace(&mut self.has_data[usize::from(slot)], middle.is_some())
            != middle.is_some()
        {
            stored = Descriptor { address, len, flags: NEXT, next }.store(&self.window, table);
        }
        if let Some((at, len, flags)) = middle {
            let one = Descriptor { address: base + at, len, flags, next: first + 2 };
            stored = stored.and(one.store(&self.window, table + DESCRIPTOR_BYTES));
        }
        debug_assert!(stored.is_some(), "the window has the length of the layout");
    }

    /// Shows the device all requests. Returns whether to notify the device.
    #[inline]
    pub fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    /// Returns the next completed request. Its slot stays taken until
    /// [`release`](Self::release).
    ///
    /// # Errors
    ///
    /// The device broke a rule of the ring: the queue is unusable.
    #[inline]
    pub fn poll(&mut self) -> Result<Option<Completed>, RingViolation> {
        if self.ring.used(self.in_flight)? == 0 {
            return Ok(None);
        }
        let slot = self.layout.slot_of(self.ring.take());
        let Some(slot) = slot.filter(|slot| self.busy[usize::from(*slot)]) else {
            let rule = "VIRTIO 1.2 §2.7.8: a chain that is not in flight";
            return broken(rule, Place::Used(self.ring.last()));
        };
        self.busy[usize::from(slot)] = false;
        self.in_flight -= 1;
        let status = self.window.load8(self.layout.control(slot) + STATUS_AT).unwrap_or(u8::MAX);
        let (result, cause) = match status {
            OK => (Ok(()), Cause::NONE),
            UNSUPP => (Err(Fault::Unsupported), Cause(status.into())),
            _ => (Err(Fault::Medium), Cause(status.into())),
        };
        Ok(Some(Completed { slot, result, cause }))
    }

    /// Copies the data of a completed read out.
    ///
    /// # Panics
    ///
    /// `to` is longer than a slot's data.
    #[inline]
    pub fn read_data(&self, slot: u16, to: &mut [u8]) {
        assert!(to.len() as u64 <= self.layout.data_bytes, "{} bytes of a slot", to.len());
        let copied = self.window.read(self.layout.data(slot), to);
        debug_assert!(copied.is_some(), "the window has the length of the layout");
    }

    /// Frees the slot of a completed request.
    #[inline]
    pub fn release(&mut self, slot: u16) {
        debug_assert!(!self.busy[usize::from(slot)], "the device has slot {slot}");
        self.free.push(slot);
    }

    /// Asks the device for no interrupts: the owner polls.
    pub fn silence(&mut self) {
        self.ring.silence();
    }

    /// Asks the device for an interrupt. Returns whether there are completions already.
    pub fn listen(&mut self) -> bool {
        self.ring.listen()
    }

    /// The memory of the queue, as one region of a driver's memory.
    pub fn memory(&self) -> Result<Arc<GuestMemory>, RingViolation> {
        let base = self.layout.base;
        let area = Area { guest: base, user: base, window: self.window.clone() };
        Ok(Arc::new(GuestMemory::new(vec![area])?))
    }

    /// Number of descriptors.
    pub fn size(&self) -> u16 {
        self.layout.size
    }
}

impl Layout {
    fn addresses(&self) -> Addresses {
        Addresses {
            descriptors: self.base,
            available: self.base + self.available,
            used: self.base + self.used,
        }
    }
}
