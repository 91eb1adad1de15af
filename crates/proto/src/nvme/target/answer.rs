//! Answers: data of reads and completions, and the completions of I/Os that lead to them.

use block::{Buf, Count, Done, Fault, Op, Pool};

use crate::Outbox;
use crate::crc32c::crc32c;
use crate::flow::{part_begin, part_tag, slot_of};

use super::super::pdu::{Completion, Data, Status, flag, kind};
use super::NvmeTarget;
use super::command::BlockRange;
use super::slot::SlotState;

/// With digests, data and digest are in one buffer of the outbox; half a buffer leaves blocks
/// whole.
pub(super) const DIGESTED_MAX_BYTES: u32 = Pool::LARGE_BYTES as u32 / 2;

impl NvmeTarget {
    /// A volume has completed an I/O.
    #[inline(always)]
    pub(super) fn completed(&mut self, done: Done, out: &mut Outbox) {
        let slot = slot_of(done.tag);
        if self.abandoned {
            self.left_over_came(&done);
            return done.buf.into_iter().for_each(|buf| out.give(buf));
        }
        let Some(command) = self.slots.get_mut(slot) else {
            return debug_assert!(false, "an I/O that was never asked for");
        };
        debug_assert!(command.data.in_flight != 0, "an I/O comes back once");
        match command.state {
            SlotState::Reading => self.read_completed(slot, done, out),
            SlotState::Writing => {
                command.data.in_flight.lower(1);
                done.buf.into_iter().for_each(|buf| out.give(buf));
                if let Err(fault) = done.result {
                    command.spoil(status_of(fault, Op::Write));
                }
                self.continue_write(slot, out);
            }
            _ => self.job_completed(slot, done, out),
        }
    }

    /// Sends the data of a read of memory, and that it succeeded.
    #[inline(always)]
    pub(super) fn read_in_place(&mut self, id: u16, place: BlockRange, out: &mut Outbox) {
        let shortcut = self.shortcut();
        let digest = self.wire.data_digest;
        let Some(memory) = self.subsystem.memory(place.namespace) else {
            return debug_assert!(false, "a place in memory has one");
        };
        out.note_in_place(place.unit, Op::Read, place.len);
        let most = if digest { DIGESTED_MAX_BYTES } else { Pool::LARGE_BYTES as u32 };
        let mut at = 0;
        while at < place.len {
            let part = (place.len - at).min(most);
            let last = at + part == place.len;
            self.data_header(id, at, part, end_flags(last, last && shortcut), out);
            out.memory(memory, place.offset + u64::from(at), part as usize, digest);
            at += part;
        }
        if !shortcut {
            self.answer(id, Status::SUCCESS, out);
        }
    }

    /// A part of a read has completed.
    #[inline(always)]
    fn read_completed(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let read = &mut self.slots[slot];
        let sent = read.moved;
        let next = part_begin(done.tag) == sent;
        if !next || done.result.is_err() || read.fails() {
            return self.read_failed_or_early(slot, done, out);
        }
        let Some(buf) = done.buf else {
            return debug_assert!(false, "a read comes back with its buffer");
        };
        read.data.in_flight.lower(1);
        let len = read.data.part_len(done.tag, Some(&buf));
        read.moved += len;
        self.backlog.end_read(len);
        let (id, whole) = (read.id, read.moved == read.data.len);
        if whole {
            // The slot is free before the host learns that the command has completed.
            self.slots.release(slot);
        }
        self.send_data(id, sent, (buf, len), whole, out);
        if !whole {
            self.continue_read(slot, out);
            if self.backlog.holds_any() {
                self.send_held(slot, out);
            }
        }
    }

    /// Sends the first `len` bytes of a buffer, at offset `sent` in a command's data, with the
    /// completion if this is the `end` of the data.
    #[inline(always)]
    fn send_data(
        &mut self,
        id: u16,
        sent: u32,
        (buf, len): (Buf, u32),
        end: bool,
        out: &mut Outbox,
    ) {
        let shortcut = end && self.shortcut();
        let digest = self.wire.data_digest.then(|| crc32c(&buf[..len as usize]));
        self.data_header(id, sent, len, end_flags(end, shortcut), out);
        out.buf(buf, len as usize);
        if let Some(digest) = digest {
            out.bytes(&digest.to_le_bytes());
        }
        if end && !shortcut {
            self.answer(id, Status::SUCCESS, out);
        }
    }

    /// Sends bytes that are the whole answer of a command.
    pub(super) fn answer_with(&mut self, id: u16, bytes: &[u8], out: &mut Outbox) {
        self.data_header(id, 0, bytes.len() as u32, flag::LAST, out);
        self.wire.bytes(bytes, out);
        self.answer(id, Status::SUCCESS, out);
    }

    #[inline(always)]
    fn data_header(&self, command: u16, offset: u32, len: u32, flags: u8, out: &mut Outbox) {
        let (kind, data_offset, pdu_len, transfer_tag) = (kind::C2H_DATA, 0, 0, 0);
        let data = Data { kind, flags, data_offset, pdu_len, command, transfer_tag, offset, len };
        self.wire.data(data, out);
    }

    /// Whether the last C2HData may carry SUCCESS in place of a completion.
    //= NVMe-TCP §3.3.2: SUCCESS replaces a completion that has no other information.
    #[inline(always)]
    fn shortcut(&mut self) -> bool {
        if !self.queue.flow_control {
            return true;
        }
        // A host that relies on SQHD must get it before it runs out of entries.
        self.queue.untold += 1;
        self.queue.untold < self.queue.untold_max
    }

    /// Completes a command.
    #[inline(always)]
    pub(super) fn answer(&mut self, id: u16, status: Status, out: &mut Outbox) {
        self.answer_result(id, status, 0, out);
    }

    /// Completes a command with a result.
    #[inline(always)]
    pub(super) fn answer_result(&mut self, id: u16, status: Status, result: u64, out: &mut Outbox) {
        self.queue.untold = 0;
        //= NVMe-oF §Submission Queue Flow Control: without it SQHD is reserved.
        let head = if self.queue.flow_control { self.queue.head } else { 0 };
        self.complete_command(id, status, result, head, out);
    }

    /// Sends a completion.
    #[inline(always)]
    pub(super) fn complete_command(
        &mut self,
        command: u16,
        status: Status,
        result: u64,
        head: u16,
        out: &mut Outbox,
    ) {
        self.wire.short(Completion { result, head, command, status }.build(), out);
    }

    /// Completes the command in a slot with its status.
    #[inline(always)]
    pub(super) fn finish(&mut self, slot: u16, out: &mut Outbox) {
        let command = &mut self.slots[slot];
        debug_assert!(command.data.buf.is_none(), "a command that ends has no buffer");
        let mut result = 0;
        if command.job.is_some() {
            let fails = command.fails();
            result = command.job.take().filter(|_| fails).map_or(0, |job| job.result());
        }
        let (id, status) = (command.id, command.status);
        self.slots.release(slot);
        self.answer_result(id, status, result, out);
    }

    /// A part of a read failed, completed out of order, or is to be dropped.
    #[cold]
    fn read_failed_or_early(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let read = &mut self.slots[slot];
        if let Err(fault) = done.result {
            read.spoil(status_of(fault, Op::Read));
        }
        if !read.fails() {
            return self.backlog.hold(done);
        }
        self.drop_part(slot, done, out);
        // Held parts of this command will not be sent.
        while let Some(held) = self.backlog.take_held(|done| slot_of(done.tag) == slot) {
            self.drop_part(slot, held, out);
        }
        self.fail_when_drained(slot, out);
    }

    /// Drops a part of a failed read.
    fn drop_part(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let read = &mut self.slots[slot];
        read.data.in_flight.lower(1);
        self.backlog.end_read(read.data.part_len(done.tag, done.buf.as_ref()));
        done.buf.into_iter().for_each(|buf| out.give(buf));
    }

    /// Sends the next part of a read, if it is held.
    #[cold]
    fn send_held(&mut self, slot: u16, out: &mut Outbox) {
        let next = part_tag(slot, self.slots[slot].moved);
        if let Some(done) = self.backlog.take_held(|done| done.tag == next) {
            self.read_completed(slot, done, out);
        }
    }
}

/// The flags of a data PDU: the last of its command, and one that says that it succeeded.
#[inline(always)]
fn end_flags(last: bool, success: bool) -> u8 {
    let last = if last { flag::LAST } else { 0 };
    last | if success { flag::SUCCESS } else { 0 }
}

/// The status of a fault. The only place where faults become statuses.
#[cold]
pub(super) fn status_of(fault: Fault, op: Op) -> Status {
    match fault {
        Fault::Medium | Fault::Disconnected | Fault::Unanswered if op == Op::Flush => {
            Status::FLUSH_FAILED
        }
        Fault::Medium => match op {
            Op::Read => Status::UNRECOVERED_READ_ERROR,
            Op::Write => Status::WRITE_FAULT,
            Op::Flush | Op::Trim | Op::WriteZeroes => Status::INTERNAL_ERROR,
        },
        Fault::OutOfRange => Status::LBA_OUT_OF_RANGE,
        Fault::ReadOnly => Status::WRITE_PROTECTED,
        Fault::NoSpace => Status::CAPACITY_EXCEEDED,
        Fault::Unsupported => Status::INVALID_OPCODE,
        Fault::Miscompare => Status::COMPARE_FAILURE,
        Fault::Disconnected | Fault::Unanswered => Status::INTERNAL_PATH_ERROR,
        Fault::Aborted => Status::ABORT_REQUESTED,
    }
}
