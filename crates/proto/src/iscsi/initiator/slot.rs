//! State of an I/O in flight.

use crate::flow::{IoTable, Outstanding};

/// Progress of an I/O's command.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The target has the command and may respond.
    pub(super) busy: bool,
    /// Attempts that ended in BUSY or TASK SET FULL.
    pub(super) attempts: u8,
    generation: u16,
    /// Length of the command's data-out; zero for reads.
    pub(super) out_len: u32,
    /// Bytes moved so far, in order, and the number of Data-In PDUs or R2Ts.
    pub(super) moved: u32,
    pub(super) number: u32,
    /// Stamp of the last data-out in the outbox.
    pub(super) stamp: u32,
    /// The incoming Data-In carries the status.
    pub(super) ends: bool,
    pub(super) good: bool,
}

impl Progress {
    /// The ITT of this use of `slot`.
    #[inline(always)]
    pub(super) fn task_tag(&self, slot: u16) -> u32 {
        u32::from(self.generation) << 16 | u32::from(slot)
    }

    /// Later responses to this use of the slot are invalid.
    #[inline(always)]
    pub(super) fn retire(&mut self) {
        self.busy = false;
        self.generation = self.generation.wrapping_add(1);
    }
}

/// Returns the I/O whose command has this ITT now.
#[inline(always)]
pub(super) fn find(
    ios: &mut IoTable<Progress>,
    task_tag: u32,
) -> Option<(u16, &mut Outstanding<Progress>)> {
    let slot = task_tag as u16;
    let io = ios.get_mut(slot)?;
    (io.own.busy && io.own.task_tag(slot) == task_tag).then_some((slot, io))
}
