//! I/Os in flight: a slot each, whose number is the identifier of its command.

use std::ops::{Index, IndexMut};

use block::{Buf, Fault, Op, Tag};

use crate::looks::Age;

/// An I/O in flight.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) op: Op,
    pub(super) fua: bool,
    /// Of the command in flight.
    pub(super) age: Age,
    /// Why it fails, whatever the target says.
    pub(super) fault: Option<Fault>,
    pub(super) tag: Tag,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Bytes that earlier commands for it did, and those that the command in flight is for.
    pub(super) done: u32,
    pub(super) part: u32,
    /// Bytes of data of that command that were moved.
    pub(super) moved: u32,
    /// Of the last data in the outbox.
    pub(super) stamp: u32,
    pub(super) buf: Option<Buf>,
}

/// All slots of a queue. They are made as they are first needed, in memory that is there.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    count: u16,
}

impl Slots {
    pub(super) fn new(count: u16) -> Slots {
        let memory = usize::from(count);
        Slots { slots: Vec::with_capacity(memory), free: Vec::with_capacity(memory), count }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// How many are free.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.len() - self.slots.len() + self.free.len()
    }

    /// Takes a slot.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.free.pop().or_else(|| self.make())
    }

    #[cold]
    fn make(&mut self) -> Option<u16> {
        let slot = self.slots.len() as u16;
        (slot < self.count).then(|| self.slots.push(Slot::free()))?;
        Some(slot)
    }

    /// Gives a slot back.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u16) {
        let free = &mut self.slots[usize::from(slot)];
        debug_assert!(free.age.is_some() && free.buf.is_none());
        free.age = Age::NONE;
        self.free.push(slot);
    }

    /// All slots whose commands are in flight.
    pub(super) fn all_busy(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|slot| slot.age.is_some())
    }

    /// The slot of the command with that identifier, if there is one in flight.
    #[inline(always)]
    pub(super) fn busy(&mut self, slot: u16) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(slot)).filter(|slot| slot.age.is_some())
    }
}

impl Slot {
    fn free() -> Slot {
        Slot {
            op: Op::Flush,
            fua: false,
            age: Age::NONE,
            fault: None,
            tag: Tag(0),
            offset: 0,
            len: 0,
            done: 0,
            part: 0,
            moved: 0,
            stamp: 0,
            buf: None,
        }
    }
}

impl Index<u16> for Slots {
    type Output = Slot;
    #[inline(always)]
    fn index(&self, slot: u16) -> &Slot {
        &self.slots[usize::from(slot)]
    }
}

impl IndexMut<u16> for Slots {
    #[inline(always)]
    fn index_mut(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[usize::from(slot)]
    }
}
