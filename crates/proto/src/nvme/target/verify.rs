//! Compare and Verify: blocks are read, and compared with data of the host or with nothing.

use block::{Buf, Done, Io, Op, Pool, Tag};

use crate::Outbox;
use crate::flow::part_tag;
use crate::scsi::Deed;

use super::super::pdu::{Command, Status};
use super::NvmeTarget;
use super::answer::status_of;
use super::command::BlockRange;
use super::job::{Refused, bytes_of};
use super::slot::SlotState;

/// A buffer for a part of `len` bytes, of whole blocks, and the length of the part.
pub(super) fn buf_for_part(len: u32, block_mask: u32, out: &Outbox) -> Option<(Buf, u32)> {
    let buf = out.take_part((len as usize).min(Pool::LARGE_BYTES))?;
    let fits = len.min(buf.len() as u32 & !block_mask);
    if fits == 0 {
        out.give(buf);
        return None;
    }
    Some((buf, fits))
}

impl NvmeTarget {
    pub(super) fn compare(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        let place = self.range_of(command, false)?;
        let slot = self.begin(command, place, SlotState::Comparing).ok_or(Refused::Overrun)?;
        self.expect_data(slot, command, out);
        Ok(())
    }

    /// Continues a Compare: reads blocks to compare with the host's data.
    pub(super) fn continue_compare(&mut self, slot: u16, out: &mut Outbox) {
        let compare = &mut self.slots[slot];
        if compare.fails() {
            return self.fail_when_drained(slot, out);
        }
        if compare.open || compare.data.in_flight != 0 {
            return;
        }
        if compare.data.buf.is_none() {
            let more = compare.moved < compare.data.len;
            return if more { self.solicit(slot, out) } else { self.finish(slot, out) };
        }
        let len = compare.moved - compare.data.asked;
        let mut buf = out.take_part(len as usize);
        if let Some(short) = buf.take_if(|buf| buf.len() < len as usize) {
            out.give(short);
        }
        if buf.is_none() {
            return self.starve(slot);
        }
        compare.data.in_flight = 1;
        let (tag, offset) = (
            part_tag(slot, compare.data.asked),
            compare.data.offset + u64::from(compare.data.asked),
        );
        let io = Io { tag, op: Op::Read, fua: false, len, offset, buf };
        self.backlog.request(compare.data.unit, io);
    }

    pub(super) fn compare_read(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let compare = &mut self.slots[slot];
        compare.data.in_flight = 0;
        let len = (compare.moved - compare.data.asked) as usize;
        let same = match (&compare.data.buf, &done.buf) {
            (Some(ours), Some(theirs)) => ours[..len] == theirs[..len],
            _ => false,
        };
        match done.result {
            Err(fault) => compare.spoil(status_of(fault, Op::Read)),
            Ok(()) if !same => compare.spoil(Status::COMPARE_FAILURE),
            Ok(()) => compare.data.asked = compare.moved,
        }
        let bufs = [compare.data.buf.take(), done.buf];
        bufs.into_iter().flatten().for_each(|buf| out.give(buf));
        self.continue_compare(slot, out);
    }

    /// Handles Verify.
    //= NVM command set §Verify command: the data is read, and not transferred.
    pub(super) fn verify(&mut self, command: Command<'_>, out: &mut Outbox) -> Result<(), Refused> {
        let namespace = self.subsystem.active(command.namespace())?;
        let geometry = &namespace.geometry;
        let range = bytes_of(command.start_block(), command.block_count().into(), geometry)?;
        self.check_bound(namespace, Deed::Read)?;
        //= NVM command set §VSL: a longer one is an invalid field.
        if range.1 > u64::from(self.queue.transfer_max) {
            return Err(Status::INVALID_FIELD.into());
        }
        let (unit, block_mask) = (namespace.id, geometry.block_bytes - 1);
        let (offset, len, namespace) = (range.0, range.1 as u32, command.namespace());
        let place = BlockRange { unit, namespace, in_place: false, block_mask, offset, len };
        let slot = self.begin(command, place, SlotState::Verifying).ok_or(Refused::Overrun)?;
        self.continue_verify(slot, out);
        Ok(())
    }

    /// Reads the next part of a Verify.
    pub(super) fn continue_verify(&mut self, slot: u16, out: &mut Outbox) {
        let verify = &mut self.slots[slot];
        if verify.fails() {
            return self.fail_when_drained(slot, out);
        }
        if verify.data.in_flight != 0 {
            return;
        }
        let left = verify.data.len - verify.data.asked;
        if left == 0 {
            return self.finish(slot, out);
        }
        let Some((buf, len)) = buf_for_part(left, verify.data.block_mask, out) else {
            return self.starve(slot);
        };
        let offset = verify.data.offset + u64::from(verify.data.asked);
        verify.data.asked += len;
        verify.data.in_flight = 1;
        let tag = Tag(u64::from(slot));
        let io = Io { tag, op: Op::Read, fua: false, len, offset, buf: Some(buf) };
        self.backlog.request(verify.data.unit, io);
    }

    /// A part of a Verify was read.
    pub(super) fn verify_read(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let verify = &mut self.slots[slot];
        verify.data.in_flight = 0;
        done.buf.into_iter().for_each(|buf| out.give(buf));
        if let Err(fault) = done.result {
            verify.spoil(status_of(fault, Op::Read));
        }
        self.continue_verify(slot, out);
    }
}
