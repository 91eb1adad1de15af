//! I/Os in flight: a slot each, taken from a free list.

use std::ops::{Index, IndexMut};

use block::{Buf, Op, Tag};

use crate::looks::Age;

/// An I/O in flight.
#[derive(Debug)]
pub(super) struct Slot {
    /// The target may answer it now.
    pub(super) busy: bool,
    pub(super) op: Op,
    pub(super) fua: bool,
    /// How often the target was too busy for it.
    pub(super) attempts: u8,
    /// Of the I/O, while it is in flight.
    pub(super) age: Age,
    generation: u16,
    pub(super) tag: Tag,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Bytes of data-out that the command brings; for reads zero.
    pub(super) out_len: u32,
    /// Bytes that came or went, in order, and Data-In or R2T so far.
    pub(super) moved: u32,
    pub(super) number: u32,
    /// Of the last data-out in the outbox.
    pub(super) stamp: u32,
    /// The Data-In in flight ends the I/O.
    pub(super) ends: bool,
    pub(super) good: bool,
    pub(super) buf: Option<Buf>,
}

/// All slots of a session. They are made as they are first needed, in memory that is there.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    count: u16,
}

impl Slots {
    /// So many slots, at most 4096.
    pub(super) fn new(count: u16) -> Slots {
        let count = count.clamp(1, 4096);
        let memory = usize::from(count);
        Slots { slots: Vec::with_capacity(memory), free: Vec::with_capacity(memory), count }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// How many are free.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.count() - self.used()
    }

    /// How many are in use.
    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

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
        self.slots[usize::from(slot)].retire();
        self.free.push(slot);
    }

    /// The slot that a task tag names now.
    #[inline(always)]
    pub(super) fn find(&mut self, task_tag: u32) -> Option<u16> {
        let slot = task_tag as u16;
        let found = self.slots.get(usize::from(slot))?;
        (found.busy && found.task_tag(slot) == task_tag).then_some(slot)
    }

    /// All slots whose commands are in flight.
    pub(super) fn all_busy(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|slot| slot.busy)
    }

    /// The slots in use, busy or waiting to be tried again.
    pub(super) fn drain(&mut self) -> Vec<u16> {
        let used = |slot: &u16| !self.free.contains(slot);
        (0..self.slots.len() as u16).filter(used).collect()
    }
}

impl Slot {
    fn free() -> Slot {
        Slot {
            busy: false,
            op: Op::Read,
            fua: false,
            attempts: 0,
            age: Age::NONE,
            generation: 0,
            tag: Tag(0),
            offset: 0,
            len: 0,
            out_len: 0,
            moved: 0,
            number: 0,
            stamp: 0,
            ends: false,
            good: false,
            buf: None,
        }
    }

    /// The name of this use of `slot`.
    #[inline(always)]
    pub(super) fn task_tag(&self, slot: u16) -> u32 {
        u32::from(self.generation) << 16 | u32::from(slot)
    }

    /// No answer counts any more for this use.
    #[inline(always)]
    pub(super) fn retire(&mut self) {
        self.busy = false;
        self.generation = self.generation.wrapping_add(1);
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
