//! Copy: blocks of a namespace go to other blocks of it, one part at a time.

use block::{Done, Geometry, Io, Op, Tag};

use crate::Outbox;
use crate::flow::Ranges;
use crate::scsi::Deed;

use super::super::pdu::{Command, Entry, Status};
use super::NvmeTarget;
use super::answer::status_of;
use super::command::BlockRange;
use super::job::{Refused, bytes_of};
use super::slot::{Job, SlotState};
use super::verify::buf_for_part;

/// Length of a source range.
//= NVM command set §Copy command: format 0h has 32 bytes, and there are at most 256.
const RANGE_BYTES: u32 = 32;

/// Maximum number of source ranges, less one.
//= NVM command set §MSRC: a 0's based value.
pub(super) const RANGES_LIMIT: u8 = 255;

/// Most bytes of a copy: it bounds the time of a command.
const BYTES_MAX: u64 = 64 << 20;

/// Formats of source ranges: 0h.
//= NVM command set §OCFS: bit 0. Format 1h is for guards of 64 bits, which no namespace has.
pub(super) const FORMATS: u16 = 1;

/// Most blocks of a copy.
//= NVM command set §MCL: in logical blocks.
pub(super) fn blocks_max(geometry: &Geometry) -> u32 {
    (BYTES_MAX / u64::from(geometry.block_bytes)) as u32
}

/// Most blocks of a source range.
//= NVM command set §MSSRL: in logical blocks, 16 bits.
pub(super) fn range_max(geometry: &Geometry) -> u16 {
    blocks_max(geometry).min(u16::MAX.into()) as u16
}

/// Ranges of a copy.
#[derive(Default)]
struct Sources {
    /// Offset of the destination.
    offset: u64,
    /// One less than the block size.
    block_mask: u32,
    /// Offset and length in bytes.
    ranges: Vec<(u64, u64)>,
}

impl NvmeTarget {
    /// Handles Copy, whose source ranges are its data.
    pub(super) fn copy(&mut self, command: Command<'_>, out: &mut Outbox) -> Result<(), Refused> {
        let namespace = self.subsystem.active(command.namespace())?;
        //= NVM command set §Copy command: NR bits 7:0, DESFMT bits 11:8 of Dword 12.
        if command.word(12) >> 8 & 0xf != 0 {
            return Err(Status::INVALID_FIELD.into());
        }
        if namespace.geometry.read_only {
            return Err(Status::WRITE_PROTECTED.into());
        }
        self.check_bound(namespace, Deed::Read)?;
        self.check_bound(namespace, Deed::Write)?;
        let len = ((command.word(12) & 0xff) + 1) * RANGE_BYTES;
        if command.sgl_len() < len {
            return Err(Status::SGL_LENGTH_INVALID.into());
        }
        let unit = namespace.id;
        let namespace = command.namespace();
        let place = BlockRange { unit, namespace, in_place: false, block_mask: 0, offset: 0, len };
        self.collect(command, place, out)
    }

    /// The source ranges are complete.
    pub(super) fn copy_ranges(&mut self, slot: u16, entry: &Entry, data: &[u8], out: &mut Outbox) {
        let command = Command(entry);
        let sources = self.sources(command, data);
        let copy = &mut self.slots[slot];
        let Sources { offset, block_mask, ranges } = sources.unwrap_or_else(|status| {
            copy.spoil(status);
            Sources::default()
        });
        (copy.data.offset, copy.data.block_mask) = (offset, block_mask);
        copy.data.fua = command.fua();
        // From here on, bytes that were written.
        copy.moved = 0;
        copy.state = SlotState::Copying;
        copy.job = Some(Box::new(Job { entry: *entry, ranges: Ranges::new(Op::Read, ranges) }));
        self.continue_copy(slot, out);
    }

    /// Checks the ranges of a copy.
    fn sources(&self, command: Command<'_>, data: &[u8]) -> Result<Sources, Status> {
        let geometry = &self.subsystem.active(command.namespace())?.geometry;
        let (each, _) = data.as_chunks::<{ RANGE_BYTES as usize }>();
        let mut blocks = 0;
        let mut ranges = Vec::with_capacity(each.len());
        for range in each {
            //= NVM command set §Copy command: SLBA in bytes 15:8, NLB, 0's based, in bytes 17:16.
            let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h, low, high, ..] = *range;
            let start = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let count = u64::from(u16::from_le_bytes([low, high])) + 1;
            blocks += count;
            //= NVM command set §Copy command: limits are Command Size Limit Exceeded.
            if count > range_max(geometry).into() || blocks > blocks_max(geometry).into() {
                return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
            }
            ranges.push(bytes_of(start, count, geometry)?);
        }
        let (offset, _) = bytes_of(command.start_block(), blocks, geometry)?;
        Ok(Sources { offset, block_mask: geometry.block_bytes - 1, ranges })
    }

    /// Reads the next part of a copy.
    pub(super) fn continue_copy(&mut self, slot: u16, out: &mut Outbox) {
        let copy = &mut self.slots[slot];
        if copy.fails() {
            return self.fail_when_drained(slot, out);
        }
        if copy.data.in_flight != 0 {
            return;
        }
        let Some((offset, left)) = copy.job.as_ref().and_then(|job| job.ranges.next()) else {
            return self.finish(slot, out);
        };
        let Some((buf, len)) = buf_for_part(left as u32, copy.data.block_mask, out) else {
            return self.starve(slot);
        };
        copy.data.in_flight = 1;
        copy.burst_end = copy.moved + len;
        let tag = Tag(u64::from(slot));
        let io = Io { tag, op: Op::Read, fua: false, len, offset, buf: Some(buf) };
        self.backlog.request(copy.data.unit, io);
    }

    /// A part was read: writes it.
    pub(super) fn copy_read(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let copy = &mut self.slots[slot];
        copy.data.in_flight = 0;
        if let Err(fault) = done.result {
            copy.spoil(status_of(fault, Op::Read));
        }
        if copy.fails() || done.buf.is_none() {
            done.buf.into_iter().for_each(|buf| out.give(buf));
            return self.continue_copy(slot, out);
        }
        copy.state = SlotState::Pasting;
        copy.data.in_flight = 1;
        let offset = copy.data.offset + u64::from(copy.moved);
        let len = copy.burst_end - copy.moved;
        let (tag, fua) = (Tag(u64::from(slot)), copy.data.fua);
        let io = Io { tag, op: Op::Write, fua, len, offset, buf: done.buf };
        self.backlog.request(copy.data.unit, io);
    }

    /// A part was written.
    pub(super) fn copy_written(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let copy = &mut self.slots[slot];
        copy.data.in_flight = 0;
        done.buf.into_iter().for_each(|buf| out.give(buf));
        match (done.result, &mut copy.job) {
            (Ok(()), Some(job)) => {
                job.ranges.advance(copy.burst_end - copy.moved);
                copy.moved = copy.burst_end;
            }
            (Ok(()), None) => {}
            (Err(fault), _) => copy.spoil(status_of(fault, Op::Write)),
        }
        copy.state = SlotState::Copying;
        self.continue_copy(slot, out);
    }
}
