//! Compare fused with Write: if a block holds the data of the first, it gets that of the second, in
//! one action.
//!
//! While the second command is expected, the stage of the queue is [`Stage::Fused`], so that plain
//! commands pay nothing. Each of both has its slot, and collects its data. The block is claimed
//! while it is read, compared and written, as COMPARE AND WRITE over iSCSI claims its range. Who
//! claims a block has all buffers.

use block::{Done, Io, Op, Tag};

use crate::scsi::Claim;
use crate::{Ending, Outbox};

use super::super::pdu::{CAPSULE_BYTES, Command, Status, io};
use super::answer::status_of;
use super::command::BlockRange;
use super::slot::SlotState;
use super::{NvmeTarget, Stage};

/// A Compare and the Write that is fused with it.
#[derive(Debug)]
pub(super) struct Pair {
    /// The Write is the next command.
    awaits: bool,
    /// Namespace, first block and number of blocks.
    range: (u32, u64, u32),
    /// Slots of the commands, until they have ended.
    compare: Option<u16>,
    write: Option<u16>,
    claim: Option<Claim>,
}

/// Values of FUSE.
//= NVMe base §3.3.3.1: 01b first command, 10b second command.
const FIRST: u8 = 1;
const SECOND: u8 = 2;

fn range_of(command: Command<'_>) -> (u32, u64, u32) {
    (command.namespace(), command.start_block(), command.block_count())
}

impl NvmeTarget {
    /// Handles a command with FUSE, or any command after the first of a pair.
    #[cold]
    pub(super) fn fused(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let awaits = self.stage == Stage::Fused;
        self.stage = Stage::Io;
        if awaits && command.fuse() != SECOND {
            self.lack_second(out);
        }
        match command.fuse() {
            0 => self.io_command(command, capsule, out),
            FIRST => self.first_of_pair(command, capsule, out),
            SECOND if awaits => self.second_of_pair(command, capsule, out),
            //= NVMe base §3.4.2: a second command without a first one is aborted.
            SECOND => {
                self.answer(command.id(), Status::MISSING_FUSED, out);
                Ok(())
            }
            _ => {
                self.answer(command.id(), Status::INVALID_FIELD, out);
                Ok(())
            }
        }
    }

    /// The command after a first one is not the second.
    //= NVMe base §3.4.2: the first command is aborted.
    fn lack_second(&mut self, out: &mut Outbox) {
        let Some(at) = self.pairs.iter().position(|pair| pair.awaits) else { return };
        self.pairs[at].awaits = false;
        match self.pairs[at].compare {
            Some(slot) => {
                self.slots[slot].spoil(Status::MISSING_FUSED);
                self.fail_when_drained(slot, out);
            }
            None => {
                self.pairs.swap_remove(at);
            }
        }
    }

    fn first_of_pair(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        self.stage = Stage::Fused;
        let range = range_of(command);
        let entry = command.unfused();
        let plain = Command(&entry);
        let place = match command.opcode() {
            io::COMPARE => self.block_of(plain, false),
            _ => Err(Status::INVALID_FIELD),
        };
        let slot = match place {
            Ok(place) => self.begin(plain, place, SlotState::Fused),
            Err(status) => {
                self.answer(command.id(), status, out);
                None
            }
        };
        if place.is_ok() && slot.is_none() {
            return Err(self.overrun(capsule, out));
        }
        self.pairs.push(Pair { awaits: true, range, compare: slot, write: None, claim: None });
        slot.into_iter().for_each(|slot| self.expect_data(slot, plain, out));
        Ok(())
    }

    fn second_of_pair(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let Some(at) = self.pairs.iter().position(|pair| pair.awaits) else { return Ok(()) };
        let pair = &mut self.pairs[at];
        pair.awaits = false;
        let Some(compare) = pair.compare else {
            self.pairs.swap_remove(at);
            self.answer(command.id(), Status::FAILED_FUSED, out);
            return Ok(());
        };
        //= NVM command set §Compare and Write: both have the same range.
        if command.opcode() != io::WRITE || pair.range != range_of(command) {
            self.slots[compare].spoil(Status::INVALID_FIELD);
            self.fail_when_drained(compare, out);
            self.answer(command.id(), Status::INVALID_FIELD, out);
            return Ok(());
        }
        let entry = command.unfused();
        let plain = Command(&entry);
        let place = match self.block_of(plain, true) {
            Ok(place) => place,
            Err(status) => {
                self.slots[compare].spoil(Status::FAILED_FUSED);
                self.fail_when_drained(compare, out);
                self.answer(command.id(), status, out);
                return Ok(());
            }
        };
        let Some(slot) = self.begin(plain, place, SlotState::Fused) else {
            return Err(self.overrun(capsule, out));
        };
        self.slots[slot].data.fua = command.fua();
        self.pairs[at].write = Some(slot);
        self.expect_data(slot, plain, out);
        Ok(())
    }

    /// The range of a fused command.
    //= NVM command set §ACWU: 0's based, so one block.
    fn block_of(&self, command: Command<'_>, writes: bool) -> Result<BlockRange, Status> {
        let place = self.range_of(command, writes)?;
        match command.block_count() {
            1 => Ok(place),
            _ => Err(Status::ATOMIC_WRITE_UNIT_EXCEEDED),
        }
    }

    fn pair_of(&self, slot: u16) -> Option<usize> {
        let slot = Some(slot);
        self.pairs.iter().position(|pair| pair.compare == slot || pair.write == slot)
    }

    /// Data of a fused command has come, or a claim may be free: reads the block if both are
    /// complete.
    pub(super) fn continue_fused(&mut self, slot: u16, out: &mut Outbox) {
        if self.slots[slot].fails() {
            return self.fail_when_drained(slot, out);
        }
        let Some(at) = self.pair_of(slot) else { return };
        let Pair { range, compare: Some(compare), write: Some(write), claim: None, .. } =
            self.pairs[at]
        else {
            return;
        };
        let is_complete = |slot: u16| {
            let slot = &self.slots[slot];
            !slot.open && slot.data.buf.is_some() && slot.moved == slot.data.len
        };
        if !is_complete(compare) || !is_complete(write) {
            return;
        }
        let data = &mut self.slots[compare].data;
        let (unit, offset, len) = (data.unit, data.offset, data.len);
        let mut buf = out.take_part(len as usize);
        if let Some(short) = buf.take_if(|buf| buf.len() < len as usize) {
            out.give(short);
        }
        let namespace = self.subsystem.namespace(range.0);
        let claim = namespace.filter(|_| buf.is_some());
        let claim = claim.and_then(|namespace| namespace.shared.claim(offset, len.into()));
        if claim.is_none() {
            buf.into_iter().for_each(|buf| out.give(buf));
            return self.starve(compare);
        }
        self.pairs[at].claim = claim;
        data.in_flight = 1;
        let tag = Tag(u64::from(compare));
        let io = Io { tag, op: Op::Read, fua: false, len, offset, buf };
        self.backlog.request(unit, io);
    }

    /// The block of a pair was read, or written.
    pub(super) fn fused_done(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        let pair = self.pair_of(slot).map(|at| (self.pairs[at].compare, self.pairs[at].write));
        match pair {
            Some((compare, Some(write))) if write == slot => {
                self.fused_written(compare, write, done, out);
            }
            Some((_, write)) => self.fused_read(slot, write, done, out),
            None => debug_assert!(false, "a pair lasts as long as its I/Os"),
        }
    }

    fn fused_read(&mut self, compare: u16, write: Option<u16>, done: Done, out: &mut Outbox) {
        let slot = &mut self.slots[compare];
        slot.data.in_flight = 0;
        let len = slot.data.len as usize;
        let same = match (&slot.data.buf, &done.buf) {
            (Some(ours), Some(theirs)) => ours[..len] == theirs[..len],
            _ => false,
        };
        match done.result {
            Err(fault) => slot.spoil(status_of(fault, Op::Read)),
            Ok(()) if !same => slot.spoil(Status::COMPARE_FAILURE),
            Ok(()) => {}
        }
        done.buf.into_iter().for_each(|buf| out.give(buf));
        slot.data.give_buf(out.pool());
        let fails = slot.fails();
        let Some(write) = write.filter(|write| !fails && !self.slots[*write].fails()) else {
            self.slots[compare].spoil(Status::FAILED_FUSED);
            return self.fail_when_drained(compare, out);
        };
        let data = &mut self.slots[write].data;
        data.in_flight = 1;
        let tag = Tag(u64::from(write));
        let (fua, len, offset, buf) = (data.fua, data.len, data.offset, data.buf.take());
        self.backlog.request(data.unit, Io { tag, op: Op::Write, fua, len, offset, buf });
    }

    fn fused_written(&mut self, compare: Option<u16>, write: u16, done: Done, out: &mut Outbox) {
        let slot = &mut self.slots[write];
        slot.data.in_flight = 0;
        done.buf.into_iter().for_each(|buf| out.give(buf));
        if let Err(fault) = done.result {
            slot.spoil(status_of(fault, Op::Write));
        }
        self.pairs.retain(|pair| pair.write != Some(write));
        compare.into_iter().for_each(|compare| self.finish(compare, out));
        self.finish(write, out);
        self.open_fences();
    }

    /// A fused command has failed, and nothing of it is in flight: the other one fails, too.
    //= NVMe base §3.4.2: Command Aborted due to Failed Fused Command.
    pub(super) fn fused_failed(&mut self, slot: u16, out: &mut Outbox) {
        let mut other = None;
        if let Some(at) = self.pair_of(slot) {
            let pair = &mut self.pairs[at];
            let is_compare = pair.compare == Some(slot);
            let (own, partner) = match is_compare {
                true => (&mut pair.compare, &pair.write),
                false => (&mut pair.write, &pair.compare),
            };
            (*own, other) = (None, *partner);
            if other.is_none() && !pair.awaits {
                self.pairs.swap_remove(at);
            }
        }
        self.finish(slot, out);
        if let Some(other) = other {
            self.slots[other].spoil(Status::FAILED_FUSED);
            self.fail_when_drained(other, out);
        }
    }
}
