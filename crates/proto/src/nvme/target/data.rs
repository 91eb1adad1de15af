//! Data of hosts: checks, placement, and the R2Ts that solicit more.

use block::{Landing, Nanos, Op, Pool};

use crate::{Ending, Outbox};

use super::super::frame::Fatal;
use super::super::pdu::{Data, ReadyToTransfer, Short, Status, fatal};
use super::slot::SlotState;
use super::{NvmeTarget, Sink, Stage};

impl NvmeTarget {
    /// Handles the header of an H2CData.
    #[inline(always)]
    pub(super) fn host_data(&mut self, header: &Short, out: &mut Outbox) -> Result<(), Ending> {
        let data = Data::parse(header);
        match self.check_host_data(&data) {
            Ok(slot) => {
                self.incoming.sink = Sink::Slot(slot);
                self.incoming.last = data.last();
                Ok(())
            }
            Err(fatal) => Err(self.give_up(fatal, header, out)),
        }
    }

    /// The slot of the command that solicited the data, if it is as solicited.
    #[inline(always)]
    fn check_host_data(&self, data: &Data) -> Result<u16, Fatal> {
        if self.stage == Stage::Fresh {
            return Err(Fatal::sequence(
                "NVMe-TCP §3.2: the first PDU of a connection is an ICReq",
            ));
        }
        let Some(slot) = self.slots.by_transfer_tag(data.transfer_tag) else {
            return Err(Fatal::field(10, "NVMe-TCP §3.3.2: TTAG is that of an R2T"));
        };
        let expects = &self.slots[slot];
        // In-capsule data ends with its capsule, so this is H2CData for an R2T.
        if !expects.open {
            return Err(Fatal::sequence("NVMe-TCP §3.3.2: H2CData answers an R2T"));
        }
        if data.command != expects.id {
            return Err(Fatal::field(8, "NVMe-TCP §3.6.2.8: CCCID is that of the R2T"));
        }
        if data.len != self.frame.data_len() {
            return Err(Fatal::field(16, "NVMe-TCP §3.6.2.8: DATAL is the length of the data"));
        }
        if data.len > self.max_host_data() {
            let rule = "NVMe-TCP §3.6.2.3: an H2CData has at most MAXH2CDATA bytes";
            return Err(Fatal { status: fatal::LIMIT_EXCEEDED, information: 0, rule, at: 16 });
        }
        let end = u64::from(data.offset) + u64::from(data.len);
        //= NVMe-TCP §3.3.2: the data of an R2T comes in order, without gaps.
        if data.offset != expects.moved || end > u64::from(expects.burst_end) {
            let rule = "NVMe-TCP §3.3.2: H2CData lies in the range of its R2T, in order";
            return Err(Fatal { status: fatal::OUT_OF_RANGE, information: 0, rule, at: 12 });
        }
        //= NVMe-TCP §3.6.2.8: LAST_PDU is set in the last H2CData of an R2T and in no other.
        if data.last() != (end == u64::from(expects.burst_end)) {
            return Err(Fatal::field(1, "NVMe-TCP §3.6.2.8: LAST_PDU ends the data of an R2T"));
        }
        Ok(slot)
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
        let write = &mut self.slots[slot];
        out.note_in_place(write.data.unit, Op::Write, write.data.len);
        if let Some(memory) = self.subsystem.memory(write.namespace) {
            landing.push(memory, write.data.offset, data);
        }
        write.open = false;
        self.finish(slot, out);
    }

    /// Whether data of this length that came at once may [`land`](Self::land).
    #[inline(always)]
    pub(super) fn lands(&self, slot: u16, len: usize) -> bool {
        let write = &self.slots[slot];
        write.lands && len == write.data.len as usize && !write.fails()
    }

    /// Puts a part of a PDU's data into the command's buffer.
    #[inline(always)]
    pub(super) fn place(&mut self, slot: u16, part: &[u8], out: &Outbox) {
        let have = self.incoming.have;
        let command = &mut self.slots[slot];
        if command.fails() {
            return;
        }
        // In-capsule data may be longer than the command needs.
        let at = (command.moved + have).min(command.burst_end);
        let len = part.len().min((command.burst_end - at) as usize);
        let at = (at - command.data.asked) as usize;
        // In-capsule data has no buffer yet.
        if command.data.buf.is_none() {
            command.data.buf = out.take_unsolicited(command.data.len as usize);
        }
        match &mut command.data.buf {
            Some(buf) => buf[at..at + len].copy_from_slice(&part[..len]),
            //= NVMe base §Generic command status: the host should submit it again.
            None => command.spoil(Status::COMMAND_INTERRUPTED),
        }
    }

    /// The data of a PDU is complete.
    #[inline(always)]
    pub(super) fn placed(&mut self, now: Nanos, slot: u16, intact: bool, out: &mut Outbox) {
        let (have, last) = (self.incoming.have, self.incoming.last);
        let command = &mut self.slots[slot];
        if !intact {
            //= NVMe-TCP §3.4.1.4: a wrong data digest fails the command, not the connection.
            command.spoil(Status::TRANSIENT_TRANSPORT_ERROR);
        }
        command.moved = (command.moved + have).min(command.burst_end);
        if !last {
            return;
        }
        command.open = false;
        if command.state == SlotState::Writing {
            return self.continue_write(slot, out);
        }
        self.data_collected(now, slot, out);
    }

    /// Continues a write when a burst has ended or an I/O has completed.
    #[inline(always)]
    pub(super) fn continue_write(&mut self, slot: u16, out: &mut Outbox) {
        let write = &self.slots[slot];
        if write.fails() {
            return self.fail_when_drained(slot, out);
        }
        if write.open {
            return;
        }
        if write.data.buf.is_some() {
            self.write_chunk(slot);
        }
        let write = &self.slots[slot];
        if write.moved < write.data.len {
            self.solicit(slot, out);
        } else if write.data.in_flight == 0 {
            self.finish(slot, out);
        }
    }

    /// Sends an R2T for the next burst, unless the volume has enough I/Os of this command.
    //= NVMe-TCP §3.3.2: one R2T is outstanding for a command, which meets any MAXR2T.
    pub(super) fn solicit(&mut self, slot: u16, out: &mut Outbox) {
        let command = &mut self.slots[slot];
        if !command.data.has_room() {
            return;
        }
        if self.backlog.is_withheld(command.data.unit) {
            return self.starve(slot);
        }
        debug_assert!(command.data.buf.is_none() && command.moved == command.data.asked);
        let block_bytes = command.data.block_bytes();
        let mut len = (command.data.part_end() - command.data.asked) as usize;
        if command.state == SlotState::Comparing && out.is_short(len) {
            // A second buffer is needed, for the data of the volume.
            len = len.min(block_bytes.max(Pool::SMALL_BYTES));
        }
        // Ranges and Connect data are needed as a whole; blocks are not split.
        let least = if command.state == SlotState::Collecting { len } else { len.min(block_bytes) };
        if !command.data.take_buf(len, least, out) {
            return self.starve(slot);
        }
        let end = command.data.part_end();
        let offset = command.moved;
        command.open = true;
        command.burst_end = end;
        let (command, len) = (command.id, end - offset);
        let transfer_tag = self.slots.transfer_tag(slot);
        let ready = ReadyToTransfer { command, transfer_tag, offset, len };
        self.wire.short(ready.build(), out);
    }

    /// A failed command ends when no data and no I/O of it is in flight.
    #[cold]
    pub(super) fn fail_when_drained(&mut self, slot: u16, out: &mut Outbox) {
        let command = &mut self.slots[slot];
        if command.data.in_flight == 0 {
            self.open_fences();
        }
        let command = &mut self.slots[slot];
        if command.open || command.data.in_flight != 0 {
            return;
        }
        command.data.give_buf(out.pool());
        if command.state == SlotState::Fused {
            return self.fused_failed(slot, out);
        }
        self.finish(slot, out);
    }
}
