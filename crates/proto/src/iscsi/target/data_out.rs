//! Data-Out: checks, placement, and the R2Ts that solicit more.

use block::{Landing, Op};

use crate::scsi::Sense;
use crate::{Ending, Outbox};

use super::super::pdu::{DataOut, Header, NO_TAG, ReadyToTransfer};
use super::control::reason;
use super::task::{Burst, TaskState};
use super::{IscsiTarget, Sink};

impl IscsiTarget {
    /// Handles the header of a Data-Out PDU.
    pub(super) fn data_out(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        let data = DataOut::parse(header);
        let slot = match self.find_burst(&data) {
            Found::Task(slot) => slot,
            Found::Late => return Ok(()),
            Found::Nothing => {
                //= RFC 7143 §11.17.1: a tag that names nothing is an invalid field.
                self.reject(header, reason::INVALID_FIELD, out);
                return Ok(());
            }
        };
        let task = &mut self.tasks[slot];
        //= RFC 7143 §7.9: a gap in DataSN means lost data, reported as the loss that it is.
        if data.data_number != task.burst_number {
            task.spoil(Sense::DATA_OUT_CRC_ERROR);
        }
        //= RFC 7143 §13.18: with DataPDUInOrder=Yes data comes at rising offsets without gaps.
        let end = u64::from(data.offset) + u64::from(data.data_len);
        if data.offset != task.received || end > u64::from(task.burst_end) {
            task.spoil(Sense::NOT_ENOUGH_UNSOLICITED_DATA);
        }
        task.burst_number = task.burst_number.wrapping_add(1);
        self.incoming.last = data.last;
        if data.data_len == 0 {
            self.placed(slot, true, out);
            return Ok(());
        }
        self.incoming.sink = Sink::Task(slot);
        Ok(())
    }

    fn find_burst(&self, data: &DataOut) -> Found {
        if data.transfer_tag == NO_TAG {
            let mut slots = self.unsolicited.iter();
            let found = slots.find(|slot| self.tasks[**slot].flow.task_tag == data.task_tag);
            // A command that was aborted may have sent its data nevertheless.
            let other = if self.epoch == 0 { Found::Nothing } else { Found::Late };
            return found.map_or(other, |slot| Found::Task(*slot));
        }
        let slot = data.transfer_tag as u16;
        let Some(task) = self.tasks.get(slot) else { return Found::Nothing };
        if task.transfer_tag(slot) != data.transfer_tag || task.state == TaskState::Aborted {
            // The slot's former command was aborted while its data was on the way.
            return Found::Late;
        }
        let asked_for = task.burst == Burst::Solicited && task.flow.task_tag == data.task_tag;
        if asked_for { Found::Task(slot) } else { Found::Nothing }
    }

    /// Puts the whole data of a write directly into memory and completes it. Data received in parts
    /// is collected first: a lost connection leaves no block half written.
    #[inline(always)]
    pub(super) fn land<'a>(
        &mut self,
        slot: u16,
        data: &'a [u8],
        landing: &mut Landing<'a>,
        out: &mut Outbox,
    ) {
        let write = &mut self.tasks[slot];
        write.received = write.flow.len;
        let (lun, offset) = (write.lun, write.data.offset);
        out.note_in_place(write.data.unit, Op::Write, write.flow.len);
        if let Some(memory) = self.memory(lun) {
            landing.push(memory, offset, data);
        }
        self.finish(slot, out);
    }

    /// Whether data of this length that came at once may [`land`](Self::land).
    #[inline(always)]
    pub(super) fn lands(&self, slot: u16, len: usize) -> bool {
        let write = &self.tasks[slot];
        let alone = self.incoming.last && write.burst == Burst::None && write.data.buf.is_none();
        let whole = len == write.flow.len as usize && write.flow.len != 0;
        let fit = write.state == TaskState::Writing && write.sense.is_none();
        write.in_place && whole && alone && fit
    }

    /// Puts a part of a data segment into the task's buffer.
    #[inline(always)]
    pub(super) fn place(&mut self, slot: u16, part: &[u8], out: &Outbox) {
        self.expect_unsolicited(slot, out);
        let have = self.incoming.have;
        let task = &mut self.tasks[slot];
        if task.sense.is_some() {
            return;
        }
        // Data beyond the length of the command is no error; it is dropped.
        let at = (task.received + have).min(task.data.part_end());
        let len = part.len().min((task.data.part_end() - at) as usize);
        let at = (at - task.data.asked) as usize;
        if let Some(buf) = &mut task.data.buf {
            buf[at..at + len].copy_from_slice(&part[..len]);
        }
    }

    /// A data segment is complete.
    #[inline(always)]
    pub(super) fn placed(&mut self, slot: u16, intact: bool, out: &mut Outbox) {
        if !intact {
            self.reject_corrupt(slot, out);
        }
        let (have, last) = (self.incoming.have, self.incoming.last);
        let task = &mut self.tasks[slot];
        if task.sense.is_none() {
            task.received += have;
        }
        if !last {
            return;
        }
        if task.burst != Burst::None {
            self.end_burst(slot);
        }
        self.continue_write(slot, out);
    }

    fn end_burst(&mut self, slot: u16) {
        let task = &mut self.tasks[slot];
        let burst = std::mem::replace(&mut task.burst, Burst::None);
        if burst == Burst::Unsolicited {
            self.unsolicited.retain(|other| *other != slot);
        } else if task.received != task.burst_end {
            //= RFC 7143 §11.4.7.2: an R2T answered by another amount is "incorrect amount of data".
            task.spoil(Sense::NOT_ENOUGH_UNSOLICITED_DATA);
        }
    }

    /// Continues a write when a burst has ended or an I/O has completed.
    #[inline(always)]
    pub(super) fn continue_write(&mut self, slot: u16, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        if task.sense.is_some() {
            return self.fail_when_drained(slot, out);
        }
        match task.state {
            TaskState::Working => return self.continue_work(slot, out),
            TaskState::Checking => return self.continue_check(slot, out),
            TaskState::Copying => return self.continue_copy(slot, out),
            _ => {}
        }
        let len = task.flow.len;
        let got = task.received.min(len);
        if got == task.data.part_end() {
            match task.state {
                TaskState::Collecting => return self.plan_with(slot, out),
                _ if len != 0 => self.write_chunk(slot),
                _ => {}
            }
        }
        let task = &self.tasks[slot];
        if task.burst != Burst::None {
            return;
        }
        if got < len {
            self.solicit(slot, out);
        } else if task.data.in_flight == 0 {
            self.finish(slot, out);
        }
    }

    /// Sends an R2T for the next burst, unless the volume has enough I/Os of this command.
    pub(super) fn solicit(&mut self, slot: u16, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        if !task.data.has_room() || task.burst != Burst::None || task.sense.is_some() {
            return;
        }
        // A command that waited may have been served meanwhile.
        if task.received >= task.flow.len {
            return;
        }
        if self.backlog.is_withheld(task.data.unit) {
            return self.starve(slot);
        }
        let len = (task.data.part_end() - task.data.asked) as usize;
        // A parameter list is needed as a whole; blocks are not split.
        let whole = task.state == TaskState::Collecting;
        let least = if whole { len } else { len.min(task.data.block_bytes()) };
        if task.data.buf.is_none() && !task.data.take_buf(len, least, out) {
            return self.starve(slot);
        }
        let offset = task.received;
        //= RFC 7143 §11.8.3: an R2T requests at most MaxBurstLength, and at least one byte.
        let len = (task.data.part_end() - offset).min(self.params.max_burst);
        task.burst = Burst::Solicited;
        task.burst_end = offset + len;
        task.burst_number = 0;
        let number = task.ready_count;
        task.ready_count += 1;
        let (lun, task_tag, transfer_tag) = (task.lun, task.flow.task_tag, task.transfer_tag(slot));
        //= RFC 7143 §11.8.2: an R2T carries the next StatSN and does not use it up.
        let numbers = self.numbers();
        let ready = ReadyToTransfer { lun, task_tag, transfer_tag, numbers, number, offset, len };
        self.send(&ready, &[], out);
    }

    /// A failed task ends when no data and no I/O of it is in flight.
    //= RFC 7143 §7.8: all requested data is awaited before the status is sent.
    #[cold]
    pub(super) fn fail_when_drained(&mut self, slot: u16, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        task.data.give_buf(out.pool());
        if task.burst == Burst::None && task.data.in_flight == 0 {
            self.finish(slot, out);
        }
    }

    /// Handles a data segment with a wrong digest.
    //= RFC 7143 §7.8: it is rejected, and the task ends with "protocol service CRC error".
    #[cold]
    fn reject_corrupt(&mut self, slot: u16, out: &mut Outbox) {
        let header = self.gathering;
        self.reject(&header, reason::DATA_DIGEST, out);
        self.tasks[slot].spoil(Sense::DATA_OUT_CRC_ERROR);
    }
}

/// The task that a Data-Out belongs to.
enum Found {
    /// The task in this slot.
    Task(u16),
    /// A task that was aborted.
    Late,
    /// No task.
    Nothing,
}
