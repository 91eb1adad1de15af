//! SCSI commands: order, reads and writes, and their first I/Os.

use block::{Buf, Pool};

use crate::flow::{Transfer, is_full};
use crate::scsi::{Plan, Sense};
use crate::{Ending, Outbox, UnitId};

use super::super::pdu::{Command, Header, cdb, command_number, is_immediate, lun, task_tag};
use super::task::{Burst, Flow, NO_MEMORY, Refused, Task, TaskState};
use super::{IscsiTarget, Sink, violation};

/// Maximum size of a read in place; a longer read of memory goes through buffers, part by part, so
/// that it stays within the backlog.
const IN_PLACE_MAX_BYTES: u32 = 1 << 20;

/// Header of a data PDU with its digest, padding and the digest of its data.
const HEADERS_BYTES: usize = 64;

/// The logical unit of a command that begins.
#[derive(Clone, Copy)]
pub(super) struct UnitRef {
    pub(super) unit: UnitId,
    /// The volume is in memory.
    pub(super) in_place: bool,
    pub(super) block_mask: u32,
}

impl IscsiTarget {
    /// A SCSI command.
    #[inline(always)]
    pub(super) fn command(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        let next = command_number(header) == self.expected && self.tasks.room() != 0;
        let told = self.attentions.spare(lun(header)) && self.aborted_ahead.is_empty();
        if !next || !told || is_immediate(header) {
            return self.slow_command(header, out);
        }
        let Some(unit) = self.target.unit(lun(header)) else {
            return self.slow_command(header, out);
        };
        let word = unit.state.word();
        if word != 0 && self.free != (unit.id, word) {
            return self.slow_command(header, out);
        }
        self.expected = self.expected.wrapping_add(1);
        let place = UnitRef {
            unit: unit.id,
            in_place: unit.memory.is_some(),
            block_mask: unit.geometry.block_bytes - 1,
        };
        let (read, write) = directions(header);
        match unit.plan(cdb(header)) {
            Ok(Plan::Read { offset, len }) if !write => {
                self.start_read(header, place, offset, len, out);
            }
            Ok(Plan::Write { offset, len, fua }) if !read => {
                self.start_write(header, place, offset, len, fua, out);
            }
            plan => self.start_other(header, place, plan, out),
        }
        Ok(())
    }

    /// Whether a request is next in order or immediate. Others are ignored.
    pub(super) fn in_order(&mut self, header: &Header) -> Result<bool, Ending> {
        let room = self.tasks.room();
        if is_immediate(header) {
            return Ok(true);
        }
        let ahead = command_number(header).wrapping_sub(self.expected);
        if ahead == 0 && room != 0 {
            self.expected = self.expected.wrapping_add(1);
            return Ok(!self.was_aborted_ahead(header));
        }
        //= RFC 7143 §4.2.2.1: commands outside of [ExpCmdSN, MaxCmdSN] are silently ignored.
        if ahead >= room {
            return Ok(false);
        }
        // On the only connection a gap can never be filled: PDUs were lost, and at recovery level
        // 0 that ends the session.
        //= RFC 7143 §7.1.5: within-session recovery is not for ErrorRecoveryLevel 0.
        Err(violation("RFC 7143 §4.2.2.1: CmdSN rises by one from command to command", 24))
    }

    /// A read of `len` bytes.
    #[inline(always)]
    pub(super) fn start_read(
        &mut self,
        header: &Header,
        place: UnitRef,
        offset: u64,
        len: u64,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        let expected = if command.read { command.expected_len } else { 0 };
        if expected == 0 || len == 0 {
            return self.move_nothing(header, expected, len, None, out);
        }
        let flow = Flow::new(command.task_tag, expected, len as u32, self.params.max_burst);
        let in_place = place.in_place && flow.len <= IN_PLACE_MAX_BYTES;
        let place = UnitRef { in_place, ..place };
        let room = !is_full(out) && self.has_room(flow.len, out);
        if in_place && room {
            return self.read_in_place(flow, lun(header), offset, out);
        }
        let Some(slot) = self.begin(header, place, TaskState::Reading) else {
            return self.reject_immediate(header, out);
        };
        let task = &mut self.tasks[slot];
        task.begin(flow);
        task.data.offset = offset;
        self.continue_read(slot, out);
    }

    /// A read of memory that had to wait for room in the outbox.
    #[cold]
    fn read_later(&mut self, slot: u16, out: &mut Outbox) {
        if is_full(out) {
            return self.starve(slot);
        }
        let Task { flow, lun, data: Transfer { offset, .. }, .. } = self.tasks[slot];
        if !self.has_room(flow.len, out) {
            // Memory suffices for short parts only: the read continues in parts.
            self.tasks[slot].in_place = false;
            return self.continue_read(slot, out);
        }
        self.release(slot);
        self.read_in_place(flow, lun, offset, out);
    }

    /// Whether the outbox has room for a read of memory of `len` bytes.
    #[inline(always)]
    fn has_room(&self, len: u32, out: &Outbox) -> bool {
        if len as usize + HEADERS_BYTES < Outbox::BY_REFERENCE_BYTES && len <= self.part_max() {
            return out.has_room(len as usize + HEADERS_BYTES);
        }
        self.has_room_for_parts(len, out)
    }

    /// Returns whether the outbox has room for a long read, or one in several PDUs.
    fn has_room_for_parts(&self, len: u32, out: &Outbox) -> bool {
        let (parts, part) = (self.parts(len), self.part_max().min(len) as usize);
        if self.params.data_digest && part + HEADERS_BYTES > Pool::SMALL_BYTES {
            // Data and digest lie in a row.
            return out.has_rows(parts, part + HEADERS_BYTES);
        }
        match parts {
            _ if part < Outbox::BY_REFERENCE_BYTES => out.has_room(self.copied_bytes(len)),
            // A shorter part after the long ones is copied.
            1 => out.has_room(Outbox::BY_REFERENCE_BYTES + Outbox::ENDED_ROW_BYTES + HEADERS_BYTES),
            _ => out.has_headers(parts + 2 * (parts - (len as usize / part).min(parts))),
        }
    }

    /// Data of the longest PDU.
    #[inline(always)]
    fn part_max(&self) -> u32 {
        self.params.send_max.min(self.params.max_burst).max(1)
    }

    /// In how many PDUs `len` bytes go at most: each burst may end with a shorter one.
    fn parts(&self, len: u32) -> usize {
        let (part, burst) = (self.part_max(), self.params.max_burst.max(1));
        ((len / burst) * burst.div_ceil(part) + (len % burst).div_ceil(part)) as usize
    }

    /// Room in the outbox for `len` bytes that are copied.
    pub(super) fn copied_bytes(&self, len: u32) -> usize {
        // A burst may have begun before.
        len as usize + (self.parts(len) + 1) * HEADERS_BYTES
    }

    /// Answers a read or write of `wanted` bytes without moving data.
    #[cold]
    fn move_nothing(
        &mut self,
        header: &Header,
        expected: u32,
        wanted: u64,
        sense: Option<Sense>,
        out: &mut Outbox,
    ) {
        let flow = Flow::new(task_tag(header), expected, wanted as u32, 0);
        self.answer_at_once(flow, sense, out);
    }

    /// Takes a slot for a command. Only immediate commands may find none.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        header: &Header,
        place: UnitRef,
        state: TaskState,
    ) -> Option<u16> {
        let slot = self.tasks.take(!is_immediate(header))?;
        let task = &mut self.tasks[slot];
        task.state = state;
        task.counted = !is_immediate(header);
        task.reads = state == TaskState::Reading;
        task.in_place = place.in_place;
        task.data.fua = false;
        task.refused = Refused::No;
        task.data.unit = place.unit;
        task.data.block_mask = place.block_mask;
        task.lun = lun(header);
        task.data.offset = 0;
        task.data.asked = 0;
        task.received = 0;
        task.burst_end = 0;
        task.burst_number = 0;
        task.ready_count = 0;
        Some(slot)
    }

    /// Requests the next parts of a read, as far as there are buffers.
    #[inline(always)]
    pub(super) fn continue_read(&mut self, slot: u16, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        if task.in_place {
            return self.read_later(slot, out);
        }
        while task.data.asked < task.data.len && task.data.has_room() {
            let mut moves = task.data.part_end() - task.data.asked;
            // Whole blocks are read even if the initiator expects less than the command says.
            let block_mask = task.data.block_mask;
            let mut len = (moves + block_mask) & !block_mask;
            let ready = self.backlog.may_read(len as usize, HEADERS_BYTES, out);
            let copied = moves > self.params.send_max.min(self.params.max_burst);
            let buf = if ready { buf_for_read(len, block_mask, copied, out) } else { None };
            let Some(buf) = buf else { return self.starve(slot) };
            if buf.len() < len as usize {
                (moves, len) = (buf.len() as u32, buf.len() as u32);
            }
            self.backlog.begin_read(moves);
            self.backlog.requests.push_back(task.data.read(slot, moves, len, buf));
        }
    }

    /// A write of `len` bytes.
    #[inline(always)]
    pub(super) fn start_write(
        &mut self,
        header: &Header,
        place: UnitRef,
        offset: u64,
        len: u64,
        fua: bool,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        let expected = if command.write { command.expected_len } else { 0 };
        if expected < len as u32 && self.is_short_of_block(header, place, len as u32) {
            return self.refuse_length(header, place, len as u32, out);
        }
        if command.last && (expected == 0 || len == 0) {
            return self.move_nothing(header, expected, len, self.unfit(header), out);
        }
        let Some(slot) = self.begin(header, place, TaskState::Writing) else {
            return self.reject_immediate(header, out);
        };
        let task = &mut self.tasks[slot];
        let mut flow = Flow::new(command.task_tag, expected, len as u32, 0);
        // If the initiator offers less data than the command needs, whole blocks of it are written.
        flow.len &= !place.block_mask;
        task.begin(flow);
        task.data.offset = offset;
        task.data.fua = fua;
        self.expect_data(slot, header, out);
    }

    /// Expects the immediate and unsolicited data of a command.
    #[inline(always)]
    pub(super) fn expect_data(&mut self, slot: u16, header: &Header, out: &mut Outbox) {
        let command = Command::parse(header);
        if let Some(sense) = self.unfit(header) {
            self.tasks[slot].spoil(sense);
        }
        let task = &mut self.tasks[slot];
        if !command.last {
            task.burst = Burst::Unsolicited;
            task.burst_end = command.expected_len.min(self.params.first_burst);
            self.unsolicited.push(slot);
        } else {
            task.burst_end = command.data_len;
        }
        if command.data_len == 0 {
            if command.last {
                self.continue_write(slot, out);
            }
            return;
        }
        self.incoming.sink = Sink::Task(slot);
        self.incoming.last = command.last;
    }

    /// Takes a buffer for unsolicited data. Without memory the command fails, and may be retried.
    #[inline(always)]
    pub(super) fn expect_unsolicited(&mut self, slot: u16, out: &Outbox) {
        let task = &mut self.tasks[slot];
        let placeless = task.received >= task.flow.len || task.sense.is_some();
        if task.data.buf.is_some() || placeless {
            return;
        }
        let len = task.data.part_end() - task.data.asked;
        if self.affordable == u32::MAX {
            task.data.buf = out.take(len as usize);
        }
        if task.data.buf.is_none() {
            self.ready_for_burst(slot, out);
            // The next MaxCmdSN is lower by this command.
            self.affordable = self.affordable.saturating_sub(1);
        }
    }

    /// Takes a smaller buffer if memory does not suffice for a whole part: enough for the
    /// unsolicited data.
    #[cold]
    fn ready_for_burst(&mut self, slot: u16, out: &Outbox) {
        let task = &mut self.tasks[slot];
        let collects = task.state == TaskState::Collecting;
        // Collected data must be contiguous.
        let end =
            if collects { task.data.part_end() } else { task.data.part_end().min(task.burst_end) };
        let len = end.saturating_sub(task.data.asked);
        // Blocks are not cut.
        let len = (len + task.data.block_mask) & !task.data.block_mask;
        task.data.buf = out.take_unsolicited(len as usize);
        if let Some(buf) = task.data.buf.take_if(|buf| buf.len() < len as usize) {
            out.give(buf);
        }
        if task.data.buf.is_none() {
            task.refused = Refused::Busy;
            task.spoil(NO_MEMORY);
        }
    }

    /// Checks unsolicited data against the negotiated parameters.
    #[inline(always)]
    pub(super) fn unfit(&self, header: &Header) -> Option<Sense> {
        let command = Command::parse(header);
        let unsolicited = command.data_len != 0 && !self.params.immediate_data
            || !command.last && self.params.initial_r2t;
        if unsolicited || command.data_len > self.params.first_burst.min(command.expected_len) {
            return Some(unfit_data(unsolicited));
        }
        None
    }

    /// Submits a part of the data to the volume.
    #[inline(always)]
    pub(super) fn write_chunk(&mut self, slot: u16) {
        let request = self.tasks[slot].data.write(slot);
        self.backlog.requests.extend(request);
    }
}

/// The R and W bits of a command.
#[inline(always)]
fn directions(header: &Header) -> (bool, bool) {
    let command = Command::parse(header);
    (command.read, command.write)
}

//= RFC 7143 §11.4.7.2: unsolicited data where none is allowed, or too few of them.
#[cold]
fn unfit_data(unsolicited: bool) -> Sense {
    if unsolicited {
        Sense::UNEXPECTED_UNSOLICITED_DATA
    } else {
        Sense::NOT_ENOUGH_UNSOLICITED_DATA
    }
}

/// A buffer for a read of `len` bytes, whole blocks; where little memory is left for a shorter one.
#[inline(always)]
fn buf_for_read(len: u32, block_mask: u32, copied: bool, out: &Outbox) -> Option<Buf> {
    let least = Pool::SMALL_BYTES.max(block_mask as usize + 1);
    // Data for several PDUs is copied on completion: this needs room, too.
    let short = copied && out.is_short(4 * Pool::LARGE_BYTES);
    let len = if short { least.min(len as usize) } else { len as usize };
    out.take_to_send(len, least)
}
