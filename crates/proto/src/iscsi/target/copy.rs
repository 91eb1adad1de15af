//! EXTENDED COPY: reads and writes of the target itself, one at a time.

use block::{Buf, Count, Done, Io, Op, Pool};

use crate::Outbox;
use crate::flow::{part_tag, slot_of};
use crate::scsi::{
    CopyList, CopySegment, Key, Plan, Sense, copy_status_data, encode_lun, parse_copy,
};

use super::super::pdu::Command;
use super::IscsiTarget;
use super::job::Job;
use super::task::{Burst, TaskState};

/// Progress of a list of copies.
#[derive(Debug)]
pub(super) struct Copying {
    list: CopyList,
    /// The segment in progress, and how much of it was copied.
    index: usize,
    at: u32,
    /// Length of the part that is being read, and then written.
    part: u32,
    writes: bool,
    bytes: u64,
}

/// Result of a copy that was asked to be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyResult {
    lun: [u8; 8],
    id: u8,
    good: bool,
    segments: u16,
    bytes: u64,
}

/// Results that a session keeps; the oldest go first.
const RESULTS_MAX: usize = 16;

/// A unit of the list has failed, or may not be used.
//= SPC-4 §ASC and ASCQ assignments: 0Dh/01h, third party device failure.
const FAILED: Sense = Sense::new(Key::CopyAborted, 0x0d, 0x01);

impl IscsiTarget {
    /// A list of copies is complete, in `data`.
    pub(super) fn begin_copy(&mut self, slot: u16, data: &[u8], out: &mut Outbox) {
        let list = parse_copy(data, &self.target.units);
        let list = list.and_then(|list| self.may_copy(&list).map(|()| list));
        let task = &mut self.tasks[slot];
        task.state = TaskState::Copying;
        match list {
            Err(sense) => task.spoil(sense),
            Ok(list) => {
                let cdb = task.job.as_ref().map_or([0; 16], |job| job.cdb);
                let copying = Copying { list, index: 0, at: 0, part: 0, writes: false, bytes: 0 };
                task.job = Some(Box::new(Job::copying(cdb, copying)));
            }
        }
        self.continue_copy(slot, out);
    }

    /// Whether reservations and protection let this session read and write what a list names.
    fn may_copy(&self, list: &CopyList) -> Result<(), Sense> {
        for CopySegment { from, to, .. } in &list.segments {
            for (lun, code) in [(from.0, 0x28), (to.0, 0x2a)] {
                let command =
                    Command { lun: encode_lun(lun), cdb: [code; 16], ..Command::default() };
                if self.is_refused(&command) {
                    return Err(FAILED);
                }
            }
        }
        Ok(())
    }

    /// Continues with the next read.
    pub(super) fn continue_copy(&mut self, slot: u16, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        if task.burst != Burst::None || task.data.in_flight != 0 {
            return;
        }
        if task.sense.is_some() {
            self.keep_result(slot, false);
            return self.fail_when_drained(slot, out);
        }
        let Some(copying) = task.job.as_mut().and_then(|job| job.copying.as_mut()) else { return };
        let Some(segment) = copying.next() else {
            self.keep_result(slot, true);
            return self.finish(slot, out);
        };
        let (left, at) = (segment.len - copying.at, u64::from(copying.at));
        let Some(unit) = self.unit(encode_lun(segment.from.0)) else { return };
        let (unit, mask) = (unit.id, unit.geometry.block_bytes - 1);
        let mut buf = out.take_part((left as usize).min(Pool::LARGE_BYTES));
        let short = buf.take_if(|buf| buf.len() <= mask as usize);
        short.into_iter().for_each(|buf| out.give(buf));
        let Some(buf) = buf else { return self.starve(slot) };
        let len = left.min(buf.len() as u32 & !mask);
        let (tag, offset) = (part_tag(slot, 0), segment.from.1 + at);
        let task = &mut self.tasks[slot];
        task.data.in_flight += 1;
        let copying = task.job.as_mut().and_then(|job| job.copying.as_mut());
        copying.into_iter().for_each(|copying| copying.part = len);
        let io = Io { tag, op: Op::Read, fua: false, len, offset, buf: Some(buf) };
        self.backlog.request(unit, io);
    }

    /// A read or a write of a copy has completed.
    #[cold]
    pub(super) fn copy_completed(&mut self, done: Done, out: &mut Outbox) {
        let slot = slot_of(done.tag);
        let task = &mut self.tasks[slot];
        task.data.in_flight.lower(1);
        if done.result.is_err() {
            task.spoil(FAILED);
        }
        let failed = task.sense.is_some();
        let copying = task.job.as_mut().and_then(|job| job.copying.as_mut());
        let write =
            copying.and_then(|copying| if failed { None } else { copying.read_or_written() });
        match (write, done.buf) {
            (Some((lun, offset, len)), Some(buf)) => self.write_copy(slot, lun, offset, len, buf),
            (_, buf) => {
                buf.into_iter().for_each(|buf| out.give(buf));
                self.continue_copy(slot, out);
            }
        }
    }

    /// Writes what was read.
    fn write_copy(&mut self, slot: u16, lun: u16, offset: u64, len: u32, buf: Buf) {
        let Some(unit) = self.unit(encode_lun(lun)).map(|unit| unit.id) else { return };
        self.tasks[slot].data.in_flight += 1;
        let tag = part_tag(slot, 0);
        let io = Io { tag, op: Op::Write, fua: false, len, offset, buf: Some(buf) };
        self.backlog.request(unit, io);
    }

    /// Keeps the result of a copy with an identifier, for COPY STATUS.
    fn keep_result(&mut self, slot: u16, good: bool) {
        let task = &self.tasks[slot];
        let Some(copying) = task.job.as_ref().and_then(|job| job.copying.as_ref()) else { return };
        let (lun, segments, bytes) = (task.lun, copying.index as u16, copying.bytes);
        let Some(id) = copying.list.id else { return };
        self.copies.retain(|other| (other.lun, other.id) != (lun, id));
        if self.copies.len() >= RESULTS_MAX {
            self.copies.remove(0);
        }
        self.copies.push(CopyResult { lun, id, good, segments, bytes });
    }

    /// RECEIVE COPY STATUS: the result is returned once.
    //= SPC-4 §RECEIVE COPY STATUS (LID1) command: an unknown identifier is an invalid field.
    pub(super) fn copy_status(&mut self, command: &Command, id: u8) -> Result<Plan, Sense> {
        let found = self.copies.iter().position(|it| (it.lun, it.id) == (command.lun, id));
        let result = self.copies.remove(found.ok_or(Sense::cdb_field(2))?);
        let CopyResult { good, segments, bytes, .. } = result;
        Ok(Plan::Data(copy_status_data(&command.cdb, good, segments, bytes)))
    }
}

impl Copying {
    /// The part in progress was read, and LUN, offset and length of its write follow; or it was
    /// written, and nothing does.
    fn read_or_written(&mut self) -> Option<(u16, u64, u32)> {
        self.writes = !self.writes;
        if !self.writes {
            self.at += self.part;
            self.bytes += u64::from(self.part);
            return None;
        }
        let (lun, offset) = self.list.segments.get(self.index)?.to;
        Some((lun, offset + u64::from(self.at), self.part))
    }

    /// The segment in progress, past those that are done.
    fn next(&mut self) -> Option<CopySegment> {
        while let Some(segment) = self.list.segments.get(self.index) {
            if self.at < segment.len {
                return Some(*segment);
            }
            (self.index, self.at) = (self.index + 1, 0);
        }
        None
    }
}
