//! Commands in flight: a slot each, taken from a free list, so that no command allocates.

use std::ops::{Index, IndexMut};

use block::{Count, Op, Pool};

use crate::flow::{Slots, Transfer};
use crate::scsi::{Key, Sense};

use super::job::Job;

/// A command in flight.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) state: TaskState,
    /// Data-Out in flight, beyond immediate data.
    pub(super) burst: Burst,
    /// Whether the command occupies a place in the command window.
    pub(super) counted: bool,
    /// The volume is in memory.
    pub(super) in_place: bool,
    /// Whether its I/Os are reads, also after an abort.
    pub(super) reads: bool,
    /// The task was aborted, and its I/O is a flush.
    pub(super) flushed: bool,
    /// Status of a command that fails without sense data.
    pub(super) refused: Refused,
    /// Counts uses of the slot, for transfer tags.
    generation: u16,
    pub(super) lun: [u8; 8],
    /// Bytes of data-out that came in order.
    pub(super) received: u32,
    /// End of the data-out burst, the number of its next PDU, and the R2Ts sent so far.
    pub(super) burst_end: u32,
    pub(super) burst_number: u32,
    pub(super) ready_count: u32,
    /// Number of the task management request that aborted the command.
    pub(super) epoch: u32,
    pub(super) flow: Flow,
    pub(super) data: Transfer,
    /// Why it fails. Boxed, so that a slot is two cache lines.
    pub(super) sense: Option<Box<Sense>>,
    /// A command that is neither a read nor a write.
    pub(super) job: Option<Box<Job>>,
}

/// Why a command ends with another status than GOOD and CHECK CONDITION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Refused {
    /// The command ends with one of these.
    #[default]
    No,
    /// There was no memory, and the initiator may retry.
    Busy,
    /// A reservation forbids it.
    Conflict,
}

/// A slot is two cache lines: a batch of commands touches as many slots as it has.
const _: () = assert!(size_of::<Task>() <= 128);

/// Use of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Nothing.
    #[default]
    Free,
    /// Moving data from the volume to the initiator.
    Reading,
    /// Moving data from the initiator to the volume, or nowhere if there is nothing to write.
    Writing,
    /// Moving data from the initiator to [`Unit::plan_with`](crate::scsi::Unit::plan_with).
    Collecting,
    /// Working on a [`Job`].
    Working,
    /// Working on a job that looks at what blocks hold, with data of the initiator or without.
    Checking,
    /// Copying blocks.
    Copying,
    /// Aborted: its I/Os are awaited, and their results dropped.
    Aborted,
}

/// Data-out that is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Burst {
    /// No burst.
    #[default]
    None,
    /// Unsolicited Data-Out.
    Unsolicited,
    /// Data-Out solicited by an R2T.
    Solicited,
}

/// The data of a command as the initiator sees it, and its progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    pub(super) task_tag: u32,
    /// Expected data transfer length.
    pub(super) expected: u32,
    /// Length according to the CDB.
    pub(super) wanted: u32,
    /// Bytes to move: the lesser of both.
    pub(super) len: u32,
    /// Bytes sent, the number of the next Data-In, and the bytes left in its burst.
    pub(super) sent: u32,
    pub(super) data_number: u32,
    pub(super) burst_left: u32,
}

/// The commands in flight on a connection.
#[derive(Debug)]
pub(super) struct Tasks {
    slots: Slots<Task>,
    /// Places of the window that are taken, and all of them.
    counted: u16,
    limit: u16,
}

/// Sense data of a command that had no buffer for its data. The status requests a retry.
//= SPC-4 §ASC and ASCQ assignments: 55h/03h, insufficient resources.
pub(super) const NO_MEMORY: Sense = Sense::new(Key::AbortedCommand, 0x55, 0x03);

/// Slots for immediate commands, which are outside the command window.
const IMMEDIATE_SLOTS: u16 = 4;

impl Tasks {
    /// Slots for a window of `limit`, at most 4096, and some for immediate commands.
    pub(super) fn new(limit: u16) -> Tasks {
        let limit = limit.clamp(1, 4096);
        Tasks { slots: Slots::new(limit + IMMEDIATE_SLOTS), counted: 0, limit }
    }

    /// Free places in the window.
    #[inline(always)]
    pub(super) fn room(&self) -> u32 {
        u32::from(self.limit - self.counted)
    }

    /// Whether no command of the window is in flight.
    #[inline(always)]
    pub(super) fn are_free(&self) -> bool {
        self.counted == 0
    }

    /// Takes a slot. One for a command in the window is always there while there is room; one for
    /// an immediate command may not be.
    #[inline(always)]
    pub(super) fn take(&mut self, counted: bool) -> Option<u16> {
        let others = if counted { 0 } else { self.room() as usize };
        if self.slots.room() <= others {
            return None;
        }
        self.counted += u16::from(counted);
        self.slots.take()
    }

    /// Returns a slot to the free list. Its buffer must be gone.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u16) {
        let task = &mut self.slots[slot];
        debug_assert!(
            task.data.buf.is_none() && task.data.in_flight == 0 && task.state != TaskState::Free
        );
        task.state = TaskState::Free;
        task.burst = Burst::None;
        task.generation = task.generation.wrapping_add(1);
        self.counted.lower(u16::from(task.counted));
        self.slots.release(slot);
    }

    /// The slot that a transfer tag names, if there is one.
    pub(super) fn get(&self, slot: u16) -> Option<&Task> {
        self.slots.get(slot)
    }

    /// The slot that an I/O names.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, slot: u16) -> Option<&mut Task> {
        self.slots.get_mut(slot)
    }

    /// Slots in use with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Task)> {
        self.slots.iter().filter(|(_, task)| task.state != TaskState::Free)
    }

    /// Slots in use, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.slots.iter_mut().map(|(_, task)| task).filter(|task| task.state != TaskState::Free)
    }

    /// Whether commands are left that were aborted up to an epoch.
    pub(super) fn have_aborted(&self, epoch: u32) -> bool {
        let before = |task: &Task| epoch.wrapping_sub(task.epoch) < 1 << 31;
        self.iter().any(|(_, task)| task.state == TaskState::Aborted && before(task))
    }

    /// Empties every slot, with or without I/Os in flight.
    pub(super) fn clear(&mut self, pool: &Pool) {
        for (_, task) in self.slots.iter_mut() {
            task.data.give_buf(pool);
            task.job.iter_mut().for_each(|job| job.give_bufs(pool));
            *task = Task::default();
        }
    }
}

impl Index<u16> for Tasks {
    type Output = Task;
    #[inline(always)]
    fn index(&self, slot: u16) -> &Task {
        &self.slots[slot]
    }
}

impl IndexMut<u16> for Tasks {
    #[inline(always)]
    fn index_mut(&mut self, slot: u16) -> &mut Task {
        &mut self.slots[slot]
    }
}

impl Task {
    /// Returns the name of this use of `slot`, for requested data. Never [`NO_TAG`].
    ///
    /// [`NO_TAG`]: crate::iscsi::pdu::NO_TAG
    pub(super) fn transfer_tag(&self, slot: u16) -> u32 {
        u32::from(self.generation) << 16 | u32::from(slot)
    }

    /// Sets the amount of data that the command moves.
    #[inline(always)]
    pub(super) fn begin(&mut self, flow: Flow) {
        self.flow = flow;
        self.data.len = flow.len;
    }

    /// Whether its I/Os are flushes.
    #[inline]
    pub(super) fn flushes(&self) -> bool {
        match self.state {
            TaskState::Working => self.job.as_ref().is_some_and(|job| job.ranges.op == Op::Flush),
            TaskState::Aborted => self.flushed,
            _ => false,
        }
    }

    /// The command fails for this reason, unless it already does for another.
    #[cold]
    pub(super) fn spoil(&mut self, sense: Sense) {
        self.sense.get_or_insert_with(|| Box::new(sense));
    }
}

impl Flow {
    /// Returns the flow of a command that would move `wanted` bytes with `expected` announced.
    #[inline(always)]
    pub(super) fn new(task_tag: u32, expected: u32, wanted: u32, max_burst: u32) -> Flow {
        let len = expected.min(wanted);
        let (sent, data_number, burst_left) = (0, 0, max_burst);
        Flow { task_tag, expected, wanted, len, sent, data_number, burst_left }
    }

    /// Number of bytes missing (underflow) or in excess (overflow).
    //= RFC 7143 §11.4.5: residual counts.
    #[inline(always)]
    pub(super) fn residual(&self) -> Residual {
        Residual {
            overflow: self.wanted > self.expected,
            underflow: self.wanted < self.expected,
            count: self.wanted.abs_diff(self.expected),
        }
    }
}

/// The residual count of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Residual {
    pub(super) overflow: bool,
    pub(super) underflow: bool,
    pub(super) count: u32,
}
