//! Reads and writes on an I/O queue: checks, and their first I/Os.

use block::Pool;

use crate::flow::{Transfer, has_room_by_reference, is_full};
use crate::scsi::Deed;
use crate::{Ending, Outbox, UnitId};

use super::super::frame::Fatal;
use super::super::pdu::{CAPSULE_BYTES, Command, SglKind, Status, io};
use super::answer::DIGESTED_MAX_BYTES;
use super::slot::{Slot, SlotState};
use super::{NvmeTarget, Sink};

/// Header of a data PDU with padding and digests.
const HEADERS_BYTES: usize = 192;
const BY_REFERENCE_BYTES: u32 = Outbox::BY_REFERENCE_BYTES as u32;

/// The range of a volume that a command works on.
#[derive(Clone, Copy)]
pub(super) struct BlockRange {
    pub(super) unit: UnitId,
    pub(super) namespace: u32,
    /// The volume is in memory.
    pub(super) in_place: bool,
    /// One less than the block size.
    pub(super) block_mask: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl NvmeTarget {
    /// A command on an I/O queue.
    #[inline(always)]
    pub(super) fn io_command(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        match command.opcode() {
            io::READ => self.read(command, capsule, out),
            io::WRITE => self.write(command, capsule, out),
            _ => self.other_io(command, capsule, out),
        }
    }

    #[inline(always)]
    fn read(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let place = match self.range_of(command, false) {
            Ok(place) if command.sgl_kind() == SglKind::Transport => place,
            Ok(_) => {
                self.answer(command.id(), Status::SGL_TYPE_INVALID, out);
                return Ok(());
            }
            Err(status) => return self.out_of_range(command, capsule, status, out),
        };
        let room = !is_full(out) && self.has_room(place.len, out);
        if place.in_place && room {
            self.read_in_place(command.id(), place, out);
            return Ok(());
        }
        let Some(slot) = self.begin(command, place, SlotState::Reading) else {
            return Err(self.overrun(capsule, out));
        };
        self.continue_read(slot, out);
        Ok(())
    }

    #[inline(always)]
    fn write(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let place = match self.range_of(command, true) {
            Ok(place) => place,
            Err(status) => return self.out_of_range(command, capsule, status, out),
        };
        let Some(slot) = self.begin(command, place, SlotState::Writing) else {
            return Err(self.overrun(capsule, out));
        };
        self.slots[slot].data.fua = command.fua();
        self.expect_data(slot, command, out);
        Ok(())
    }

    /// Refuses a command whose range is invalid, unless its namespace is new.
    #[cold]
    fn out_of_range(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        status: Status,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        if command.fuse() != 0 {
            return self.fused(command, capsule, out);
        }
        if self.learns(command.namespace()) {
            return self.io_command(command, capsule, out);
        }
        self.answer(command.id(), status, out);
        Ok(())
    }

    /// The range of a command that moves blocks, or the status if it is invalid.
    #[inline(always)]
    pub(super) fn range_of(
        &self,
        command: Command<'_>,
        writes: bool,
    ) -> Result<BlockRange, Status> {
        let namespace = self.subsystem.active(command.namespace())?;
        //= NVMe-oF §2.3: SGLs are used for all commands. Fused ones are not plain.
        if !command.is_plain() {
            return Err(Status::INVALID_FIELD);
        }
        let geometry = &namespace.geometry;
        let (start, count) = (command.start_block(), command.block_count());
        let inside = start < geometry.blocks && u64::from(count) <= geometry.blocks - start;
        if !inside {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if writes && geometry.read_only {
            return Err(Status::WRITE_PROTECTED);
        }
        let deed = if writes { Deed::Write } else { Deed::Read };
        self.check_bound(namespace, deed)?;
        let shift = geometry.block_bytes.trailing_zeros();
        let len = u64::from(count) << shift;
        //= NVMe base §MDTS: a longer transfer is aborted with Invalid Field in Command.
        if len > u64::from(self.queue.transfer_max) {
            return Err(Status::INVALID_FIELD);
        }
        let len = len as u32;
        //= NVMe base §SGLS: without bit 18 the SGL is exactly as long as the data.
        if command.sgl_len() != len {
            return Err(Status::SGL_LENGTH_INVALID);
        }
        let offset = start << shift;
        let (unit, in_place) = (namespace.id, namespace.memory.is_some());
        let block_mask = geometry.block_bytes - 1;
        let namespace = command.namespace();
        Ok(BlockRange { unit, namespace, in_place, block_mask, offset, len })
    }

    /// Takes a slot for a command.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        command: Command<'_>,
        place: BlockRange,
        state: SlotState,
    ) -> Option<u16> {
        let slot = self.slots.take()?;
        let taken = &mut self.slots[slot];
        taken.state = state;
        taken.open = false;
        taken.in_place = place.in_place;
        taken.lands = false;
        taken.data.fua = false;
        taken.id = command.id();
        taken.status = Status::SUCCESS;
        taken.data.unit = place.unit;
        taken.namespace = place.namespace;
        taken.data.block_mask = place.block_mask;
        taken.data.offset = place.offset;
        taken.data.len = place.len;
        taken.data.asked = 0;
        taken.moved = 0;
        taken.burst_end = 0;
        Some(slot)
    }

    /// The host has more commands in flight than the queue has entries.
    //= NVMe base §3.3.1: a full queue has one entry less than its size, and no command fits in.
    #[cold]
    pub(super) fn overrun(&mut self, capsule: &[u8; CAPSULE_BYTES], out: &mut Outbox) -> Ending {
        let fatal = Fatal::sequence("NVMe base §3.3.1: a queue has at most SQSIZE commands");
        self.give_up(fatal, capsule, out)
    }

    /// Requests the next parts of a read, as far as there are buffers.
    #[inline(always)]
    pub(super) fn continue_read(&mut self, slot: u16, out: &mut Outbox) {
        let read = &mut self.slots[slot];
        if read.in_place {
            return self.read_later(slot, out);
        }
        while read.data.asked < read.data.len && read.data.has_room() {
            let len = read.data.part_end() - read.data.asked;
            let ready = self.backlog.may_read(len as usize, HEADERS_BYTES, out);
            let least = Pool::SMALL_BYTES.max(read.data.block_bytes());
            let buf = if ready { out.take_to_send(len as usize, least) } else { None };
            let Some(buf) = buf else { return self.starve(slot) };
            let len = len.min(buf.len() as u32);
            self.backlog.begin_read(len);
            self.backlog.requests.push_back(read.data.read(slot, len, len, buf));
        }
    }

    /// Retries a read of memory that waited for room in the outbox.
    #[cold]
    fn read_later(&mut self, slot: u16, out: &mut Outbox) {
        if is_full(out) {
            return self.starve(slot);
        }
        let Slot { id, namespace, data: Transfer { unit, block_mask, offset, len, .. }, .. } =
            self.slots[slot];
        if !self.has_room(len, out) {
            // Memory allows short parts only: the read continues in parts.
            self.slots[slot].in_place = false;
            return self.continue_read(slot, out);
        }
        self.slots.release(slot);
        let place = BlockRange { unit, namespace, in_place: true, block_mask, offset, len };
        self.read_in_place(id, place, out);
    }

    /// Whether the outbox has room for a read of memory of `len` bytes.
    #[inline(always)]
    fn has_room(&self, len: u32, out: &Outbox) -> bool {
        if len < BY_REFERENCE_BYTES - HEADERS_BYTES as u32 {
            return out.has_room(len as usize + 2 * HEADERS_BYTES);
        }
        self.has_room_for_parts(len, out)
    }

    /// Returns whether the outbox has room for a long read.
    fn has_room_for_parts(&self, len: u32, out: &Outbox) -> bool {
        if self.wire.data_digest {
            // Data and digest share a row.
            let part = len.min(DIGESTED_MAX_BYTES);
            return out.has_rows(len.div_ceil(part) as usize, part as usize + HEADERS_BYTES);
        }
        has_room_by_reference(len as usize, HEADERS_BYTES, out)
    }

    /// Expects the data of a command: in-capsule, or solicited by an R2T.
    #[inline(always)]
    pub(super) fn expect_data(&mut self, slot: u16, command: Command<'_>, out: &mut Outbox) {
        let data_len = self.frame.data_len();
        if command.sgl_kind() != SglKind::InCapsule || data_len == 0 {
            return self.expect_later(slot, command, data_len, out);
        }
        let taken = &mut self.slots[slot];
        //= NVMe-TCP §3.3.1: in-capsule data begins at offset ICDOFF, which is 0.
        if command.sgl_offset() != 0 {
            taken.spoil(Status::SGL_OFFSET_INVALID);
        }
        if data_len != command.sgl_len() {
            taken.spoil(Status::SGL_LENGTH_INVALID);
        }
        self.incoming.sink = Sink::Slot(slot);
        self.incoming.last = true;
        taken.open = true;
        taken.burst_end = taken.data.len;
        taken.lands = taken.in_place && taken.state == SlotState::Writing;
    }

    /// The data is not in the capsule.
    fn expect_later(&mut self, slot: u16, command: Command<'_>, data_len: u32, out: &mut Outbox) {
        let status = match command.sgl_kind() {
            SglKind::Transport if data_len == 0 => return self.solicit(slot, out),
            //= NVMe base §SGL Length Invalid: there is less data than the command moves.
            SglKind::InCapsule => Status::SGL_LENGTH_INVALID,
            _ => Status::SGL_TYPE_INVALID,
        };
        // In-capsule data is dropped.
        self.slots[slot].spoil(status);
        self.fail_when_drained(slot, out);
    }

    /// Submits a part of the data to the volume.
    #[inline(always)]
    pub(super) fn write_chunk(&mut self, slot: u16) {
        let request = self.slots[slot].data.write(slot);
        self.backlog.requests.extend(request);
    }
}
