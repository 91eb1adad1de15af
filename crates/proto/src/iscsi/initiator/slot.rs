//! What a session keeps of an I/O in flight.

use crate::flow::{IoTable, Outstanding};

/// How far the command of an I/O is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The target may answer it now.
    pub(super) busy: bool,
    /// How often the target was too busy for it.
    pub(super) attempts: u8,
    generation: u16,
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
}

impl Progress {
    /// The task tag of this use of `slot`.
    #[inline(always)]
    pub(super) fn task_tag(&self, slot: u16) -> u32 {
        u32::from(self.generation) << 16 | u32::from(slot)
    }

    /// No answer counts any more for this use of the slot.
    #[inline(always)]
    pub(super) fn retire(&mut self) {
        self.busy = false;
        self.generation = self.generation.wrapping_add(1);
    }
}

/// The I/O whose command has that task tag now.
#[inline(always)]
pub(super) fn find(
    ios: &mut IoTable<Progress>,
    task_tag: u32,
) -> Option<(u16, &mut Outstanding<Progress>)> {
    let slot = task_tag as u16;
    let io = ios.get_mut(slot)?;
    (io.own.busy && io.own.task_tag(slot) == task_tag).then_some((slot, io))
}
