//! Commands on an I/O queue that are neither reads nor writes, and those that wait for a buffer.

use block::{Count, Done, Fault, Geometry, Io, Op, Tag};

use crate::flow::{CLEAR_BYTES_MAX, Ranges};
use crate::scsi::Deed;
use crate::{Ending, Outbox};

use super::super::pdu::{CAPSULE_BYTES, Command, Entry, Status, admin, fabrics, io};
use super::answer::status_of;
use super::command::BlockRange;
use super::slot::{Job, SlotState};
use super::{NvmeTarget, Stage};
use crate::UnitId;
use block::Nanos;

/// Length of a range in the data of a Dataset Management command.
//= NVMe base §Dataset Management: a range is 16 bytes, and there are at most 256.
const RANGE_BYTES: u32 = 16;

/// Bits of Dword 11 of Dataset Management and of Dword 12 of Write Zeroes.
//= NVMe base §Dataset Management: AD is bit 2 of Dword 11.
const DEALLOCATE: u32 = 1 << 2;
//= NVMe base §Write Zeroes: DEAC is bit 25 of Dword 12.
const ZEROES_DEALLOCATE: u32 = 1 << 25;

/// The range of commands without one.
pub(super) const NOWHERE: BlockRange =
    BlockRange { unit: UnitId(0), namespace: 0, in_place: false, block_mask: 0, offset: 0, len: 0 };

impl NvmeTarget {
    /// Handles an I/O command other than read and write.
    #[cold]
    pub(super) fn other_io(
        &mut self,
        command: Command<'_>,
        capsule: &[u8; CAPSULE_BYTES],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        self.learns(command.namespace());
        if command.fuse() != 0 && command.opcode() != admin::FABRICS {
            return self.fused(command, capsule, out);
        }
        let result = match command.opcode() {
            admin::FABRICS => self.io_fabrics(command, out),
            //= NVMe-oF §2.3: SGLs are used for all commands.
            _ if !command.is_plain() => Err(Refused::Status(Status::INVALID_FIELD)),
            io::FLUSH => self.flush(command),
            io::WRITE_ZEROES => self.write_zeroes(command),
            io::DATASET_MANAGEMENT => self.dataset_management(command, out),
            io::COMPARE => self.compare(command, out),
            io::VERIFY => self.verify(command, out),
            io::COPY => self.copy(command, out),
            io::RESERVATION_REGISTER | io::RESERVATION_ACQUIRE | io::RESERVATION_RELEASE => {
                self.reservation(command, out)
            }
            io::RESERVATION_REPORT => self.report(command, out),
            _ => Err(Refused::Status(Status::INVALID_OPCODE)),
        };
        self.taken_up(result, command, capsule, out)
    }

    fn flush(&mut self, command: Command<'_>) -> Result<(), Refused> {
        //= NVMe base §Flush: with VWC bits 2:1 = 10b the broadcast identifier is not valid.
        let namespace = self.subsystem.active(command.namespace())?;
        let unit = namespace.id;
        self.check_bound(namespace, Deed::Flush)?;
        let place = BlockRange { unit, namespace: command.namespace(), ..NOWHERE };
        let slot = self.begin(command, place, SlotState::Flushing).ok_or(Refused::Overrun)?;
        // Without a job: databases flush after every other write.
        self.ask_for_flush(slot);
        Ok(())
    }

    fn ask_for_flush(&mut self, slot: u16) {
        let flush = &mut self.slots[slot];
        flush.state = SlotState::Flushing;
        flush.data.in_flight = 1;
        let tag = Tag(u64::from(slot));
        let io = Io { tag, op: Op::Flush, fua: false, len: 0, offset: 0, buf: None };
        self.backlog.request(flush.data.unit, io);
    }

    fn write_zeroes(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let namespace = self.subsystem.active(command.namespace())?;
        let geometry = namespace.geometry;
        let range = bytes_of(command.start_block(), command.block_count().into(), &geometry)?;
        if geometry.read_only {
            return Err(Status::WRITE_PROTECTED.into());
        }
        self.check_bound(namespace, Deed::Write)?;
        let may_trim = command.word(12) & ZEROES_DEALLOCATE != 0 && geometry.trim_zeroes;
        let op = if may_trim { Op::Trim } else { Op::WriteZeroes };
        let place = BlockRange { unit: namespace.id, namespace: command.namespace(), ..NOWHERE };
        let slot = self.begin(command, place, SlotState::Working).ok_or(Refused::Overrun)?;
        let ranges = Ranges::new(op, vec![range]);
        self.slots[slot].job = Some(Box::new(Job { entry: *command.0, ranges }));
        // Volumes have no FUA for zeroing: a flush follows it.
        self.slots[slot].data.fua = command.fua() && geometry.volatile;
        self.ask_for_ranges(slot);
        Ok(())
    }

    fn dataset_management(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        let namespace = self.subsystem.active(command.namespace())?;
        self.check_bound(namespace, Deed::Write)?;
        //= NVMe base §Dataset Management: NR is the number of ranges, less one.
        let len = ((command.word(10) & 0xff) + 1) * RANGE_BYTES;
        if command.sgl_len() < len {
            return Err(Status::SGL_LENGTH_INVALID.into());
        }
        let unit = namespace.id;
        let place = BlockRange { unit, namespace: command.namespace(), len, ..NOWHERE };
        self.collect(command, place, out)
    }

    /// Starts a command that needs its data first.
    pub(super) fn collect(
        &mut self,
        command: Command<'_>,
        place: BlockRange,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        let slot = self.begin(command, place, SlotState::Collecting).ok_or(Refused::Overrun)?;
        self.slots[slot].job = Some(Box::new(Job::new(*command.0)));
        self.expect_data(slot, command, out);
        Ok(())
    }

    /// The data of a command other than write is complete.
    #[cold]
    pub(super) fn data_collected(&mut self, now: Nanos, slot: u16, out: &mut Outbox) {
        let command = &mut self.slots[slot];
        if command.fails() {
            return self.fail_when_drained(slot, out);
        }
        match command.state {
            SlotState::Comparing => return self.continue_compare(slot, out),
            SlotState::Fused => return self.continue_fused(slot, out),
            _ => {}
        }
        let len = command.data.len as usize;
        let entry = command.job.as_ref().map_or([0; 64], |job| job.entry);
        let Some(buf) = command.data.buf.take() else { return };
        if self.stage == Stage::Unconnected {
            self.slots[slot].job = None;
            self.slots.release(slot);
            self.connect(now, Command(&entry), &buf[..len], out);
        } else {
            let data = &buf[..len];
            match Command(&entry).opcode() {
                io::DATASET_MANAGEMENT => self.deallocate(slot, &entry, data, out),
                io::COPY => self.copy_ranges(slot, &entry, data, out),
                _ => self.reserve(slot, &entry, data, out),
            }
        }
        out.give(buf);
    }

    /// The ranges of a Dataset Management command are complete.
    fn deallocate(&mut self, slot: u16, entry: &Entry, data: &[u8], out: &mut Outbox) {
        let command = Command(entry);
        let ranges = match self.ranges(command, data) {
            //= NVMe base §Dataset Management: all attributes but AD are hints.
            Ok(_) if command.word(11) & DEALLOCATE == 0 => Vec::new(),
            Ok(ranges) => ranges,
            Err(status) => {
                self.slots[slot].spoil(status);
                Vec::new()
            }
        };
        let slot_ref = &mut self.slots[slot];
        slot_ref.state = SlotState::Working;
        slot_ref.job = Some(Box::new(Job { entry: *entry, ranges: Ranges::new(Op::Trim, ranges) }));
        self.continue_work(slot, out);
    }

    /// Byte ranges, checked against the namespace.
    fn ranges(&self, command: Command<'_>, data: &[u8]) -> Result<Vec<(u64, u64)>, Status> {
        let geometry = self.subsystem.active(command.namespace())?.geometry;
        let shift = geometry.block_bytes.trailing_zeros();
        let mut ranges = Vec::new();
        let (each, _) = data.as_chunks::<{ RANGE_BYTES as usize }>();
        for range in each {
            //= NVMe base §Dataset Management: attributes, length and start of a range.
            let [_, _, _, _, a, b, c, d, start @ ..] = *range;
            let (count, start) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(start));
            let inside = start <= geometry.blocks && u64::from(count) <= geometry.blocks - start;
            if !inside {
                return Err(Status::LBA_OUT_OF_RANGE);
            }
            if count != 0 {
                ranges.push((start << shift, u64::from(count) << shift));
            }
        }
        let writes = command.word(11) & DEALLOCATE != 0;
        if writes && geometry.read_only { Err(Status::WRITE_PROTECTED) } else { Ok(ranges) }
    }

    /// Continues with further ranges after an I/O.
    fn continue_work(&mut self, slot: u16, out: &mut Outbox) {
        if self.slots[slot].fails() {
            return self.fail_when_drained(slot, out);
        }
        self.ask_for_ranges(slot);
        let work = &mut self.slots[slot];
        if work.data.in_flight != 0 {
            return;
        }
        if std::mem::take(&mut work.data.fua) {
            return self.ask_for_flush(slot);
        }
        self.finish(slot, out);
    }

    /// Submits ranges to the volume, as many as allowed at once.
    fn ask_for_ranges(&mut self, slot: u16) {
        let work = &mut self.slots[slot];
        let Some(job) = work.job.as_mut() else { return };
        while let Some((offset, left)) = job.ranges.next()
            && work.data.has_room()
        {
            let (tag, op) = (Tag(u64::from(slot)), job.ranges.op);
            let len = left.min(CLEAR_BYTES_MAX.into()) as u32;
            let io = Io { tag, op, fua: false, len, offset, buf: None };
            job.ranges.advance(len);
            work.data.in_flight += 1;
            self.backlog.request(work.data.unit, io);
        }
    }

    /// An I/O of such a command has completed.
    #[cold]
    pub(super) fn job_completed(&mut self, slot: u16, done: Done, out: &mut Outbox) {
        match self.slots[slot].state {
            SlotState::Comparing => return self.compare_read(slot, done, out),
            SlotState::Verifying => return self.verify_read(slot, done, out),
            SlotState::Fused => return self.fused_done(slot, done, out),
            SlotState::Copying => return self.copy_read(slot, done, out),
            SlotState::Pasting => return self.copy_written(slot, done, out),
            SlotState::ShuttingDown => return self.flushed_for_shutdown(slot, done.result),
            SlotState::Flushing => return self.flushed(slot, done.result, out),
            _ => {}
        }
        let work = &mut self.slots[slot];
        work.data.in_flight.lower(1);
        if let Err(fault) = done.result {
            let op = work.job.as_ref().map_or(Op::Flush, |job| job.ranges.op);
            work.spoil(status_of(fault, op));
        }
        done.buf.into_iter().for_each(|buf| out.give(buf));
        self.continue_work(slot, out);
    }

    /// A flush has completed.
    fn flushed(&mut self, slot: u16, result: Result<(), Fault>, out: &mut Outbox) {
        let flush = &mut self.slots[slot];
        flush.data.in_flight.lower(1);
        let namespace = self.subsystem.namespace(flush.namespace);
        let instance = namespace.and_then(|namespace| namespace.instance.as_ref());
        let result = match &flush.job {
            None => self.losses.result_of_flush(flush.data.unit, instance, result),
            // The flush covers only the ranges before it.
            Some(_) => {
                instance.into_iter().for_each(|instance| instance.note_flush(result));
                result
            }
        };
        if let Err(fault) = result {
            flush.spoil(status_of(fault, Op::Flush));
        }
        self.finish(slot, out);
        self.open_fences();
    }

    /// Handles a fabrics command on an I/O queue.
    fn io_fabrics(&mut self, command: Command<'_>, out: &mut Outbox) -> Result<(), Refused> {
        match command.fabrics_type() {
            fabrics::DISCONNECT => {
                self.disconnect(command, out);
                Ok(())
            }
            //= NVMe-oF §Connect command: a queue that is connected cannot be connected again.
            fabrics::CONNECT => Err(Status::SEQUENCE_ERROR.into()),
            _ => Err(Status::INVALID_OPCODE.into()),
        }
    }

    /// Queues a command that waits for a buffer or for room in the outbox.
    #[cold]
    pub(super) fn starve(&mut self, slot: u16) {
        let starving = &mut self.slots[slot].starving;
        if !std::mem::replace(starving, true) {
            self.backlog.starving.push_back(slot);
        }
    }

    /// Retries waiting commands, in order.
    #[inline(always)]
    pub(super) fn retry_starving(&mut self, out: &mut Outbox) {
        if self.leaving || !self.backlog.starving.is_empty() {
            self.retry_all(out);
        }
    }

    #[cold]
    fn retry_all(&mut self, out: &mut Outbox) {
        self.end_between_commands();
        for _ in 0..self.backlog.starving.len() {
            let Some(number) = self.backlog.starving.pop_front() else { return };
            let slot = &mut self.slots[number];
            slot.starving = false;
            // The command may have failed or ended meanwhile, and its slot been reused.
            let wants_data = !slot.open && slot.data.buf.is_none() && slot.moved < slot.data.len;
            match slot.state {
                SlotState::Reading if !slot.fails() => self.continue_read(number, out),
                SlotState::Writing | SlotState::Collecting | SlotState::Fused
                    if wants_data && !slot.fails() =>
                {
                    self.solicit(number, out);
                }
                SlotState::Comparing => self.continue_compare(number, out),
                SlotState::Fused => self.continue_fused(number, out),
                SlotState::Verifying => self.continue_verify(number, out),
                SlotState::Copying => self.continue_copy(number, out),
                SlotState::Waiting => self.try_again(number, out),
                _ => {}
            }
        }
    }
}

/// Offset and length in bytes of `count` blocks, at least one, that the namespace has.
pub(super) fn bytes_of(start: u64, count: u64, geometry: &Geometry) -> Result<(u64, u64), Status> {
    if start >= geometry.blocks || count > geometry.blocks - start {
        return Err(Status::LBA_OUT_OF_RANGE);
    }
    let shift = geometry.block_bytes.trailing_zeros();
    Ok((start << shift, count << shift))
}

/// Why a command is refused.
pub(super) enum Refused {
    /// With this status.
    Status(Status),
    /// The queue is overrun.
    Overrun,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Refused {
        Refused::Status(status)
    }
}
