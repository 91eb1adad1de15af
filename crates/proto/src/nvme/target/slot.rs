//! Commands in flight: a slot each, from a free list, so that no command allocates.

use std::ops::{Index, IndexMut};

use block::{Op, Pool};

use crate::flow::{Ranges, Slots, Transfer};

use super::super::pdu::{Command, Entry, Status, io};

/// A command in flight.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) state: SlotState,
    /// Expects data of the host up to `burst_end`.
    pub(super) open: bool,
    /// On the list of commands that wait for a buffer.
    pub(super) starving: bool,
    /// The volume is memory.
    pub(super) in_place: bool,
    /// Data received as a whole is written there directly.
    pub(super) lands: bool,
    /// Counts uses of the slot, for TTAGs.
    generation: u16,
    /// The command identifier (CID).
    pub(super) id: u16,
    /// Status so far.
    pub(super) status: Status,
    pub(super) namespace: u32,
    pub(super) data: Transfer,
    /// Bytes moved to or from the host.
    pub(super) moved: u32,
    pub(super) burst_end: u32,
    /// A command other than read and write.
    pub(super) job: Option<Box<Job>>,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Unused.
    #[default]
    Free,
    /// Moving data from the volume to the host.
    Reading,
    /// Moving data from the host to the volume.
    Writing,
    /// Comparing data of the host with that of the volume.
    Comparing,
    /// Reading blocks to find out whether they can be read.
    Verifying,
    /// A Compare or a Write, fused with another command.
    Fused,
    /// Reading a part of a copy, and writing it.
    Copying,
    Pasting,
    /// Collecting ranges, or data of Connect.
    Collecting,
    /// Working on the ranges of a [`Job`].
    Working,
    /// Flushing, alone or after a [`Job`].
    Flushing,
    /// Waiting until the commands of hosts that it preempted have ended.
    Fenced,
    /// Waiting until another controller is reset.
    Resetting,
    /// Flushing volumes before the controller reports that it is shut down.
    ShuttingDown,
    /// Waiting for room in the outbox.
    Waiting,
}

/// A command other than read and write.
#[derive(Debug)]
pub(super) struct Job {
    /// The command.
    pub(super) entry: Entry,
    pub(super) ranges: Ranges,
}

impl Job {
    /// A command that needs its data first.
    pub(super) fn new(entry: Entry) -> Job {
        Job { entry, ranges: Ranges::new(Op::Flush, Vec::new()) }
    }

    /// Dword 0 of the completion of a command that failed.
    //= NVM command set §Copy command: the number of the first range that was not copied.
    pub(super) fn result(&self) -> u64 {
        match Command(&self.entry).opcode() {
            io::COPY => self.ranges.index() as u64,
            _ => 0,
        }
    }
}

/// The commands in flight on a connection.
#[derive(Debug)]
pub(super) struct Commands {
    slots: Slots<Slot>,
    /// Low bits of a TTAG that hold the slot; the generation is above.
    tag_bits: u32,
}

impl Commands {
    /// Slots for `count` commands, 1 to 4096.
    pub(super) fn new(count: u16) -> Commands {
        let tag_bits = u16::BITS - count.saturating_sub(1).leading_zeros();
        Commands { slots: Slots::new(count), tag_bits }
    }

    /// Takes a slot.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.slots.take()
    }

    /// Frees a slot, which must have no buffer.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u16) {
        let free = &mut self.slots[slot];
        debug_assert!(
            free.data.buf.is_none() && free.data.in_flight == 0 && free.state != SlotState::Free
        );
        free.state = SlotState::Free;
        free.generation = free.generation.wrapping_add(1);
        self.slots.release(slot);
    }

    /// The slot of that number, if there is one.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, slot: u16) -> Option<&mut Slot> {
        self.slots.get_mut(slot)
    }

    /// The TTAG of this use of a slot.
    pub(super) fn transfer_tag(&self, slot: u16) -> u16 {
        let generation = u32::from(self[slot].generation);
        (generation << self.tag_bits) as u16 | slot
    }

    /// The slot of a TTAG, if that use is not over.
    #[inline(always)]
    pub(super) fn by_transfer_tag(&self, tag: u16) -> Option<u16> {
        let slot = tag & ((1_u32 << self.tag_bits) - 1) as u16;
        let there = self.slots.get(slot).is_some();
        (there && self.transfer_tag(slot) == tag).then_some(slot)
    }

    /// Slots in use with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Slot)> {
        self.slots.iter().filter(|(_, slot)| slot.state != SlotState::Free)
    }

    /// Whether no command is in flight.
    pub(super) fn are_free(&self) -> bool {
        self.slots.used() == 0
    }

    /// Empties every slot, and gives out no more.
    pub(super) fn clear(&mut self, pool: &Pool) {
        for (_, slot) in self.slots.iter_mut() {
            slot.data.give_buf(pool);
        }
        self.slots = Slots::new(0);
    }
}

impl Index<u16> for Commands {
    type Output = Slot;
    #[inline(always)]
    fn index(&self, slot: u16) -> &Slot {
        &self.slots[slot]
    }
}

impl IndexMut<u16> for Commands {
    #[inline(always)]
    fn index_mut(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[slot]
    }
}

impl Slot {
    /// Fails the command with this status, unless it has failed already.
    #[cold]
    pub(super) fn spoil(&mut self, status: Status) {
        if self.status == Status::SUCCESS {
            self.status = status;
        }
    }

    /// Whether it fails.
    #[inline(always)]
    pub(super) fn fails(&self) -> bool {
        self.status != Status::SUCCESS
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn transfer_tags_name_one_use_of_a_slot() {
        for count in [1, 2, 3, 64, 65, 1024, 1025] {
            let mut slots = Commands::new(count);
            let taken: Vec<u16> = (0..count).map(|_| slots.take().unwrap()).collect();
            assert!(slots.take().is_none());
            for slot in taken {
                let tag = slots.transfer_tag(slot);
                assert_eq!(slots.by_transfer_tag(tag), Some(slot));
                slots[slot].state = SlotState::Reading;
                slots.release(slot);
                assert_eq!(slots.by_transfer_tag(tag), None);
            }
            assert!(slots.are_free());
            let there = (0..=u16::MAX).filter(|tag| slots.by_transfer_tag(*tag).is_some());
            assert_eq!(there.count(), usize::from(count));
        }
    }
}
