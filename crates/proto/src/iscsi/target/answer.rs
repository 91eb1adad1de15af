//! Answers: Data-In and status, and the completions of I/Os that lead to them.

use block::{Buf, Count, Done, Fault, Op, Pool};

use crate::Outbox;
use crate::crc32c::crc32c;
use crate::flow::{part_begin, slot_of};
use crate::scsi::Sense;

use super::super::pdu::{DataIn, Pdu, Response};
use super::IscsiTarget;
use super::job::INVALID_INFORMATION_UNIT;
use super::task::{Flow, Refused, Residual, TaskState};

/// SCSI status.
//= SAM-5 §Status codes
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const BUSY: u8 = 0x08;
const RESERVATION_CONFLICT: u8 = 0x18;
const TASK_SET_FULL: u8 = 0x28;

/// Data that has to be copied goes in pieces of so much when there is little room.
const COPIED_BYTES: u32 = 4096;

/// Source of data to send.
enum Source<'a> {
    /// In the memory of the unit of this LUN, from this byte on.
    Unit([u8; 8], u64),
    /// Here.
    Bytes(&'a [u8]),
}

impl IscsiTarget {
    /// A volume has completed an I/O.
    #[inline(always)]
    pub(super) fn completed(&mut self, done: Done, out: &mut Outbox) {
        let slot = slot_of(done.tag);
        if self.abandoned {
            self.left_over_came(&done);
            return done.buf.into_iter().for_each(|buf| out.give(buf));
        }
        let Some(task) = self.tasks.get_mut(slot) else {
            return debug_assert!(false, "an I/O that was never asked for");
        };
        debug_assert!(task.data.in_flight != 0, "an I/O comes back once");
        if task.reads {
            self.backlog.end_read(task.data.part_len(done.tag, done.buf.as_ref()));
        }
        match task.state {
            TaskState::Reading => return self.read_completed(slot, done, out),
            TaskState::Checking => return self.check_completed(done, out),
            TaskState::Copying => return self.copy_completed(done, out),
            _ => {}
        }
        task.data.in_flight.lower(1);
        done.buf.into_iter().for_each(|buf| out.give(buf));
        if task.state != TaskState::Writing {
            return self.other_completed(slot, done.result, out);
        }
        if let Err(fault) = done.result {
            task.spoil(Sense::from_fault(fault, Op::Write));
        }
        self.continue_write(slot, out);
    }

    /// An I/O of a command that is neither a read nor a write has completed, or one of a command
    /// that was aborted.
    fn other_completed(&mut self, slot: u16, result: Result<(), Fault>, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        let (aborted, flushes) = (task.state == TaskState::Aborted, task.flushes());
        let unit = self.target.unit(task.lun);
        let instance = unit.and_then(|unit| unit.instance.as_ref()).filter(|_| flushes);
        if aborted {
            instance.into_iter().for_each(|instance| instance.note_flush(result));
            return self.aborted_completed(slot, out);
        }
        if let Err(fault) = self.losses.result_of_flush(task.data.unit, instance, result) {
            let op = task.job.as_ref().map_or(Op::Write, |job| job.ranges.op);
            task.spoil(Sense::from_fault(fault, op));
        }
        self.continue_work(slot, out);
    }

    /// Sends the data of a read of memory, and its status.
    #[inline(always)]
    pub(super) fn read_in_place(
        &mut self,
        mut flow: Flow,
        lun: [u8; 8],
        offset: u64,
        out: &mut Outbox,
    ) {
        let len = flow.len;
        if out.counts_in_place()
            && let Some(unit) = self.unit(lun)
        {
            out.note_in_place(unit.id, Op::Read, len);
        }
        self.send_data(&mut flow, Source::Unit(lun, offset), len, out);
    }

    /// A part of a read has completed.
    #[inline(always)]
    fn read_completed(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        let sent = task.flow.sent;
        let next = part_begin(done.tag) == sent;
        if !next || done.result.is_err() || task.sense.is_some() {
            return self.read_failed_or_early(slot, done, out);
        }
        let Some(buf) = done.buf else {
            return debug_assert!(false, "a read comes back with its buffer");
        };
        let len = task.data.part_len(done.tag, Some(&buf));
        let mut flow = task.flow;
        let one = len <= self.params.send_max && len <= flow.burst_left && len.is_multiple_of(4);
        if !one && !out.has_room(self.copied_bytes(len)) {
            let done = Done { buf: Some(buf), ..done };
            return self.send_what_fits(slot, done, out);
        }
        self.tasks[slot].data.in_flight.lower(1);
        let whole = sent + len == flow.len;
        if whole {
            // The window is open again before the status says so.
            self.release(slot);
        }
        self.send_buf(&mut flow, buf, len, out);
        if whole {
            return;
        }
        self.tasks[slot].flow = flow;
        self.continue_read(slot, out);
        if self.backlog.holds_any() {
            self.send_held(slot, out);
        }
    }

    /// Sends as much of a part of a copied read as there is room for. The rest is held like a part
    /// that completed out of order.
    #[cold]
    fn send_what_fits(&mut self, slot: u16, mut done: Done, out: &mut Outbox) {
        let begin = part_begin(done.tag);
        let end = begin + self.tasks[slot].data.part_len(done.tag, done.buf.as_ref());
        let Some(buf) = done.buf.take() else { return };
        loop {
            let mut flow = self.tasks[slot].flow;
            let len = (end - flow.sent).min(COPIED_BYTES);
            if !out.has_room(self.copied_bytes(len)) {
                self.backlog.hold(Done { buf: Some(buf), ..done });
                return self.starve(slot);
            }
            let ends = flow.sent + len == end;
            let whole = ends && end == flow.len;
            self.tasks[slot].data.in_flight -= u16::from(ends);
            if whole {
                self.release(slot);
            }
            let from = (flow.sent - begin) as usize;
            self.send_data(&mut flow, Source::Bytes(&buf[from..from + len as usize]), len, out);
            if !whole {
                self.tasks[slot].flow = flow;
            }
            if ends {
                out.give(buf);
                if !whole {
                    self.continue_read(slot, out);
                    self.send_held(slot, out);
                }
                return;
            }
        }
    }

    /// A part of a read failed, completed out of order, or is to be dropped.
    #[cold]
    fn read_failed_or_early(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        if let Err(fault) = done.result {
            task.spoil(Sense::from_fault(fault, Op::Read));
        }
        if task.sense.is_none() {
            return self.backlog.hold(done);
        }
        task.data.in_flight.lower(1);
        done.buf.into_iter().for_each(|buf| out.give(buf));
        // Held parts of this task will not be sent.
        self.drop_held(slot, out.pool());
        self.fail_when_drained(slot, out);
    }

    /// Drops the parts of a read that completed out of order.
    pub(super) fn drop_held(&mut self, slot: u16, pool: &Pool) {
        while let Some(done) = self.backlog.take_held(|done| slot_of(done.tag) == slot) {
            done.buf.into_iter().for_each(|buf| pool.give(buf));
            self.tasks[slot].data.in_flight.lower(1);
        }
    }

    /// Sends the next part of a read, if it is held.
    #[cold]
    pub(super) fn send_held(&mut self, slot: u16, out: &mut Outbox) {
        let sent = self.tasks[slot].flow.sent;
        let next = |done: &Done| {
            let begin = part_begin(done.tag);
            let end = begin + self.tasks[slot].data.part_len(done.tag, done.buf.as_ref());
            slot_of(done.tag) == slot && begin <= sent && sent < end
        };
        if let Some(done) = self.backlog.take_held(next) {
            if part_begin(done.tag) == sent {
                return self.read_completed(slot, done, out);
            }
            self.send_what_fits(slot, done, out);
        }
    }

    /// Sends `len` bytes of a buffer, which returns to the pool.
    #[inline(always)]
    fn send_buf(&mut self, flow: &mut Flow, buf: Buf, len: u32, out: &mut Outbox) {
        let one = len <= self.params.send_max && len <= flow.burst_left && len.is_multiple_of(4);
        if !one {
            self.send_data(flow, Source::Bytes(&buf[..len as usize]), len, out);
            return out.give(buf);
        }
        let header = self.data_header(flow, len);
        self.params.put_header(&header, out);
        let digest = self.params.data_digest.then(|| crc32c(&buf[..len as usize]));
        out.buf(buf, len as usize);
        if let Some(digest) = digest {
            out.bytes(&digest.to_le_bytes());
        }
    }

    /// Sends the next `len` bytes of a read in as many PDUs as agreed, with the status in the last
    /// one if that is the end of it.
    #[inline(always)]
    fn send_data(&mut self, flow: &mut Flow, source: Source<'_>, len: u32, out: &mut Outbox) {
        let one = len <= self.params.send_max && len <= flow.burst_left && len.is_multiple_of(4);
        if let (true, Source::Unit(lun, offset)) = (one, &source) {
            let header = self.data_header(flow, len);
            self.params.put_header(&header, out);
            let Some(memory) = self.memory(*lun) else { return };
            return out.memory(memory, *offset, len as usize, self.params.data_digest);
        }
        self.send_parts(flow, source, len, out);
    }

    /// Sends data in several PDUs.
    fn send_parts(&mut self, flow: &mut Flow, source: Source<'_>, len: u32, out: &mut Outbox) {
        let mut at = 0;
        while at < len {
            let part = (len - at).min(self.params.send_max).min(flow.burst_left);
            let header = self.data_header(flow, part);
            self.params.put_header(&header, out);
            match source {
                Source::Unit(lun, offset) => {
                    let Some(memory) = self.memory(lun) else { return };
                    let offset = offset + u64::from(at);
                    if part.is_multiple_of(4) {
                        out.memory(memory, offset, part as usize, self.params.data_digest);
                    } else {
                        let mut bytes = vec![0; part as usize];
                        memory.read(offset, &mut bytes);
                        self.params.put_data(&bytes, out);
                    }
                }
                Source::Bytes(bytes) => {
                    self.params.put_data(&bytes[at as usize..(at + part) as usize], out);
                }
            }
            at += part;
        }
    }

    /// The header of the next Data-In.
    #[inline(always)]
    fn data_header(&mut self, flow: &mut Flow, len: u32) -> DataIn {
        let offset = flow.sent;
        let data_number = flow.data_number;
        flow.sent += len;
        flow.data_number += 1;
        flow.burst_left -= len;
        let ends = flow.sent == flow.len;
        //= RFC 7143 §11.7.1: F ends a sequence, which is at most MaxBurstLength.
        let last = ends || flow.burst_left == 0;
        if last {
            flow.burst_left = self.params.max_burst;
        }
        let task_tag = flow.task_tag;
        let mut data = DataIn { last, data_len: len, task_tag, data_number, offset, ..zero() };
        data.numbers = self.numbers();
        if ends {
            //= RFC 7143 §11.7.3: the last Data-In may carry the status if that is GOOD.
            let Residual { overflow, underflow, count } = flow.residual();
            data = DataIn { ends, overflow, underflow, residual: count, status: GOOD, ..data };
            self.status = self.status.wrapping_add(1);
        } else {
            data.numbers.status = 0;
        }
        data
    }

    /// Completes the command in a slot with its status.
    #[inline(always)]
    pub(super) fn finish(&mut self, slot: u16, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        debug_assert!(task.data.buf.is_none(), "a command that ends has no buffer");
        task.job = None;
        let sense = task.sense.take();
        let mut flow = task.flow;
        let reading = task.state == TaskState::Reading;
        let count = if reading { flow.data_number } else { task.ready_count };
        flow.data_number = count;
        if !reading {
            flow.sent = task.received.min(flow.len);
        }
        let refused = std::mem::take(&mut task.refused);
        self.release(slot);
        match sense {
            None => self.send_good(flow, out),
            Some(_) if refused == Refused::Busy => self.send_busy(flow, out),
            Some(_) if refused == Refused::Conflict => self.send_conflict(flow, out),
            Some(sense) => self.send_check_condition(flow, &sense, out),
        }
    }

    /// Completes a command that needs no slot.
    pub(super) fn answer_at_once(&mut self, flow: Flow, sense: Option<Sense>, out: &mut Outbox) {
        match sense {
            None => self.send_good(flow, out),
            Some(sense) => self.send_check_condition(flow, &sense, out),
        }
    }

    /// Completes a command with these bytes, up to its expected length.
    pub(super) fn answer_with(&mut self, mut flow: Flow, bytes: &[u8], out: &mut Outbox) {
        if flow.len == 0 {
            return self.send_good(flow, out);
        }
        let len = flow.len;
        self.send_data(&mut flow, Source::Bytes(bytes), len, out);
    }

    #[inline(always)]
    fn send_good(&mut self, flow: Flow, out: &mut Outbox) {
        let Residual { overflow, underflow, count } = flow.residual();
        let response = Response {
            overflow,
            underflow,
            status: GOOD,
            task_tag: flow.task_tag,
            numbers: self.next_status(),
            data_count: flow.data_number,
            residual: count,
            ..Response::default()
        };
        self.params.put_header(&response, out);
    }

    /// No memory for the data of a command: the initiator is to retry it.
    //= SAM-5 §Status codes: TASK SET FULL while others are in flight, BUSY otherwise.
    #[cold]
    fn send_busy(&mut self, flow: Flow, out: &mut Outbox) {
        let status = if self.tasks.iter().next().is_some() { TASK_SET_FULL } else { BUSY };
        let numbers = self.next_status();
        let response = Response {
            status,
            task_tag: flow.task_tag,
            numbers,
            data_count: flow.data_number,
            ..Response::default()
        };
        self.params.put_header(&response, out);
    }

    /// A reservation forbids the command.
    #[cold]
    pub(super) fn send_conflict(&mut self, flow: Flow, out: &mut Outbox) {
        let moved = Flow { wanted: flow.sent, ..flow }.residual();
        let response = Response {
            underflow: moved.underflow,
            status: RESERVATION_CONFLICT,
            task_tag: flow.task_tag,
            numbers: self.next_status(),
            data_count: flow.data_number,
            residual: moved.count,
            ..Response::default()
        };
        self.params.put_header(&response, out);
    }

    #[cold]
    fn send_check_condition(&mut self, flow: Flow, sense: &Sense, out: &mut Outbox) {
        // The residual count excludes only the bytes moved before the failure.
        let refused = *sense == INVALID_INFORMATION_UNIT && flow.wanted != 0;
        let wanted = if refused { flow.wanted } else { flow.sent };
        let moved = Flow { wanted, ..flow }.residual();
        //= RFC 7143 §11.4.7: the sense data follows its length in two bytes.
        let mut data = [0; 2 + Sense::FIXED_BYTES];
        data[1] = Sense::FIXED_BYTES as u8;
        data[2..].copy_from_slice(&sense.encode_fixed());
        let response = Response {
            overflow: moved.overflow,
            underflow: moved.underflow,
            status: CHECK_CONDITION,
            data_len: data.len() as u32,
            task_tag: flow.task_tag,
            numbers: self.next_status(),
            data_count: flow.data_number,
            residual: moved.count,
            ..Response::default()
        };
        self.send(&response, &data, out);
    }

    /// Sends a whole PDU.
    pub(super) fn send(&mut self, pdu: &impl Pdu, data: &[u8], out: &mut Outbox) {
        self.params.put(pdu, data, out);
    }
}

fn zero() -> DataIn {
    DataIn::default()
}
