//! A chain of descriptors, read once from the shared memory and checked.

use block::Window;

use super::{GuestMemory, Place, RingViolation, broken};

/// `VIRTQ_DESC_F_NEXT`.
pub(super) const NEXT: u16 = 1;
/// `VIRTQ_DESC_F_WRITE`.
pub(super) const WRITE: u16 = 2;
/// `VIRTQ_DESC_F_INDIRECT`.
pub(super) const INDIRECT: u16 = 4;
/// Length of a descriptor.
pub(super) const DESCRIPTOR_BYTES: u64 = 16;
/// Maximum number of descriptors of an indirect table.
const INDIRECT_MOST: u64 = 1024;

/// A range of a driver's memory within one region, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the region.
    pub area: u16,
    /// Offset in the region.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

/// A descriptor, copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

impl Descriptor {
    /// Reads each byte once.
    #[inline(always)]
    pub fn load(table: &Window, at: u64) -> Option<Descriptor> {
        let (address, rest) = match (table.load64(at), table.load64(at.wrapping_add(8))) {
            (Some(address), Some(rest)) => (address, u64::from_le(rest)),
            _ => Self::load_misaligned(table, at)?,
        };
        let (len, flags, next) = (rest as u32, (rest >> 32) as u16, (rest >> 48) as u16);
        Some(Descriptor { address: u64::from_le(address), len, flags, next })
    }

    /// Tables of indirect descriptors may have any address.
    #[cold]
    fn load_misaligned(table: &Window, at: u64) -> Option<(u64, u64)> {
        let mut words = [[0; 8]; 2];
        table.read(at, words.as_flattened_mut())?;
        Some((u64::from_ne_bytes(words[0]), u64::from_le_bytes(words[1])))
    }

    /// Writes a descriptor of an aligned table.
    #[inline(always)]
    pub fn store(self, table: &Window, at: u64) -> Option<()> {
        let rest = u64::from(self.len) | u64::from(self.flags) << 32 | u64::from(self.next) << 48;
        table.store64(at, self.address.to_le())?;
        table.store64(at + 8, rest.to_le())
    }
}

/// A chain: pieces that the device reads, then pieces that the device writes.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Number of the first descriptor.
    pub head: u16,
    pieces: Vec<Piece>,
    /// Number of pieces that the device reads.
    readable: usize,
}

impl Chain {
    /// Pieces that the device reads.
    #[inline(always)]
    pub fn readable(&self) -> &[Piece] {
        &self.pieces[..self.readable]
    }

    /// Pieces that the device writes.
    #[inline(always)]
    pub fn writable(&self) -> &[Piece] {
        &self.pieces[self.readable..]
    }

    /// Reads the chain that begins with descriptor `head` of a table of `size`.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        table: &Window,
        size: u16,
        head: u16,
        guest: &GuestMemory,
    ) -> Result<(), RingViolation> {
        self.head = head;
        self.pieces.clear();
        self.readable = 0;
        let mut at = head;
        for _ in 0..size {
            if at >= size {
                let rule = "VIRTIO 1.2 §2.7.5: a number beyond the table";
                return broken(rule, Place::Descriptor(at));
            }
            let Some(one) = Descriptor::load(table, u64::from(at) * DESCRIPTOR_BYTES) else {
                return broken("VIRTIO 1.2 §2.7.5: outside of the memory", Place::Descriptor(at));
            };
            if one.flags & INDIRECT != 0 {
                return self.read_indirect(one, at, guest);
            }
            self.push(one, Place::Descriptor(at), guest)?;
            if one.flags & NEXT == 0 {
                return Ok(());
            }
            at = one.next;
        }
        let rule = "VIRTIO 1.2 §2.7.5.2: a chain longer than the queue";
        broken(rule, Place::Descriptor(at))
    }

    /// Reads an indirect table.
    fn read_indirect(
        &mut self,
        of: Descriptor,
        at: u16,
        guest: &GuestMemory,
    ) -> Result<(), RingViolation> {
        let place = Place::Descriptor(at);
        if of.flags & NEXT != 0 {
            let rule = "VIRTIO 1.2 §2.7.5.3.1: INDIRECT and NEXT in one descriptor";
            return broken(rule, place);
        }
        let (len, count) = (u64::from(of.len), u64::from(of.len) / DESCRIPTOR_BYTES);
        if !len.is_multiple_of(DESCRIPTOR_BYTES) || count == 0 || count > INDIRECT_MOST {
            let rule = "VIRTIO 1.2 §2.7.5.3.1: an indirect table of 1 to 1024 descriptors";
            return broken(rule, place);
        }
        let Some(table) = guest.find(of.address, len) else {
            let rule = "VIRTIO 1.2 §2.7.5.3: an indirect table outside of the shared memory";
            return broken(rule, place);
        };
        let window = guest.window(&table);
        let mut next = 0;
        for _ in 0..count {
            let place = Place::Indirect(next);
            let at = u64::from(next);
            if at >= count {
                return broken("VIRTIO 1.2 §2.7.5.3: a number beyond the table", place);
            }
            let one = Descriptor::load(window, table.offset + at * DESCRIPTOR_BYTES);
            let Some(one) = one else {
                return broken("VIRTIO 1.2 §2.7.5.3: outside of the memory", place);
            };
            if one.flags & INDIRECT != 0 {
                return broken("VIRTIO 1.2 §2.7.5.3.1: a table within a table", place);
            }
            self.push(one, place, guest)?;
            if one.flags & NEXT == 0 {
                return Ok(());
            }
            next = one.next;
        }
        broken("VIRTIO 1.2 §2.7.5.3: a loop in an indirect table", Place::Indirect(next))
    }

    /// Appends a buffer.
    #[inline(always)]
    fn push(
        &mut self,
        one: Descriptor,
        place: Place,
        guest: &GuestMemory,
    ) -> Result<(), RingViolation> {
        let writes = one.flags & WRITE != 0;
        if one.len == 0 {
            return broken("VIRTIO 1.2 §2.7.5: a buffer of no bytes", place);
        }
        if !writes && self.readable != self.pieces.len() {
            let rule = "VIRTIO 1.2 §2.7.4.2: a readable buffer after a writable one";
            return broken(rule, place);
        }
        if guest.resolve(one.address, one.len, &mut self.pieces).is_none() {
            return broken("VIRTIO 1.2 §2.7.5: a buffer outside of the shared memory", place);
        }
        if !writes {
            self.readable = self.pieces.len();
        }
        Ok(())
    }
}
