//! I/Os as commands, with immediate and solicited data.

use block::{Fault, Io, Op, Pool};

use crate::Outbox;
use crate::flow::Outstanding;
use crate::scsi::cdb;

use super::super::pdu::{Command, DataOut, NO_TAG};
use super::IscsiInitiator;
use super::slot::Progress;

/// Task attribute SIMPLE: the target may reorder the command.
const SIMPLE: u8 = 1;

/// Data-out of a WRITE SAME, or part of it.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// Length of an UNMAP parameter list of one range.
const UNMAP_LIST_BYTES: u16 = 24;

impl IscsiInitiator {
    /// Sends an I/O.
    #[inline(always)]
    pub(super) fn start(&mut self, io: Io, out: &mut Outbox) {
        let checked = self.geometry.check(&io);
        let fits = match (io.op, &io.buf) {
            (Op::Read | Op::Write, Some(buf)) => buf.len() >= io.len as usize,
            // A buffer is lent when data comes.
            (Op::Read, None) => io.len as usize <= Pool::LARGE_BYTES,
            (Op::Write, None) => false,
            (Op::Flush | Op::Trim | Op::WriteZeroes, buf) => buf.is_none(),
        };
        if checked.is_err() || !fits || io.len == 0 && io.op != Op::Flush {
            return self.ios.refuse(io, unsent(checked, fits));
        }
        let slot = self.ios.take().expect("an I/O is submitted only with room");
        self.ios.begin(slot, io);
        self.ios[slot].own.attempts = 0;
        self.send_command(slot, out);
    }

    /// Sends, or sends again, the command of a slot.
    #[inline(always)]
    pub(super) fn send_command(&mut self, slot: u16, out: &mut Outbox) {
        let this = &mut self.ios[slot];
        this.own.busy = true;
        this.own.moved = 0;
        this.own.number = 0;
        this.own.ends = false;
        let lba = this.offset >> self.block_shift;
        let blocks = this.len >> self.block_shift;
        match this.op {
            Op::Read => {
                this.own.out_len = 0;
                let command = Command {
                    read: true,
                    expected_len: this.len,
                    cdb: cdb::read16(lba, blocks),
                    ..self.command(slot)
                };
                self.params.put_header(&command, out);
            }
            Op::Write => {
                this.own.out_len = this.len;
                let cdb = cdb::write16(lba, blocks, this.fua && self.can_force_unit_access);
                self.send_with_data(slot, cdb, out);
            }
            _ => self.send_other(slot, out),
        }
        self.command_number = self.command_number.wrapping_add(1);
    }

    /// A command without data and without CDB.
    #[inline(always)]
    fn command(&self, slot: u16) -> Command {
        Command {
            immediate: false,
            last: true,
            read: false,
            write: false,
            attribute: SIMPLE,
            data_len: 0,
            lun: self.lun,
            task_tag: self.ios[slot].own.task_tag(slot),
            expected_len: 0,
            command_number: self.command_number,
            expected_status: self.status,
            cdb: [0; 16],
        }
    }

    #[cold]
    fn send_other(&mut self, slot: u16, out: &mut Outbox) {
        let (cdb, out_len) = self.other_command(slot);
        self.ios[slot].own.out_len = out_len;
        if out_len != 0 {
            return self.send_with_data(slot, cdb, out);
        }
        self.params.put_header(&Command { cdb, ..self.command(slot) }, out);
    }

    /// The CDB of an I/O that is neither read nor write, and the length of its data-out.
    fn other_command(&self, slot: u16) -> ([u8; 16], u32) {
        let this = &self.ios[slot];
        let (lba, blocks) = (this.offset >> self.block_shift, this.len >> self.block_shift);
        let block_bytes = self.geometry.block_bytes;
        match this.op {
            Op::Trim if self.trimmed_reads_zero => {
                (cdb::unmap(UNMAP_LIST_BYTES), UNMAP_LIST_BYTES.into())
            }
            // Trimmed blocks may have any content. WRITE SAME of zeroes with the UNMAP bit gives
            // the zeroes that a trim promises.
            Op::Trim => (cdb::write_same16(lba, blocks, true), block_bytes),
            Op::WriteZeroes => (cdb::write_same16(lba, blocks, self.can_trim), block_bytes),
            _ => (cdb::synchronize_cache16(), 0),
        }
    }

    /// Sends a command with its immediate and unsolicited data.
    #[inline(always)]
    fn send_with_data(&mut self, slot: u16, cdb: [u8; 16], out: &mut Outbox) {
        let params = &self.params;
        let len = self.ios[slot].own.out_len;
        //= RFC 7143 §13.11: immediate data fits into one PDU, and into FirstBurstLength.
        let first = len.min(params.first_burst);
        let immediate = if params.immediate_data { first.min(params.send_max) } else { 0 };
        //= RFC 7143 §13.10: with InitialR2T=No as much follows as FirstBurstLength says.
        let unsolicited = if params.initial_r2t { immediate } else { first };
        let command = Command {
            last: unsolicited == immediate,
            write: true,
            data_len: immediate,
            expected_len: len,
            cdb,
            ..self.command(slot)
        };
        params.put_header(&command, out);
        self.put_part(slot, 0, immediate, out);
        self.ios[slot].own.moved = immediate;
        if unsolicited != immediate {
            return self.send_burst(slot, [0; 8], NO_TAG, unsolicited - immediate, out);
        }
        self.stamp(slot, out);
    }

    /// Stamps the data of this command: its answer proves that the target has read it.
    #[inline(always)]
    fn stamp(&mut self, slot: u16, out: &mut Outbox) {
        self.ios[slot].own.stamp = self.stamps.next(out);
    }

    /// Sends the next `len` bytes of data-out as one burst.
    pub(super) fn send_burst(
        &mut self,
        slot: u16,
        lun: [u8; 8],
        transfer_tag: u32,
        len: u32,
        out: &mut Outbox,
    ) {
        let end = self.ios[slot].own.moved + len;
        let mut data_number = 0;
        loop {
            let this = &self.ios[slot];
            let offset = this.own.moved;
            let data_len = (end - offset).min(self.params.send_max);
            let data = DataOut {
                last: offset + data_len == end,
                data_len,
                lun,
                task_tag: this.own.task_tag(slot),
                transfer_tag,
                expected_status: self.status,
                data_number,
                offset,
            };
            self.params.put_header(&data, out);
            self.put_part(slot, offset, data_len, out);
            self.ios[slot].own.moved += data_len;
            data_number += 1;
            if data.last {
                return self.stamp(slot, out);
            }
        }
    }

    /// Appends a part of a slot's data-out as a data segment.
    #[inline(always)]
    fn put_part(&self, slot: u16, offset: u32, len: u32, out: &mut Outbox) {
        let range = offset as usize..(offset + len) as usize;
        let this = &self.ios[slot];
        match &this.buf {
            Some(buf) => self.params.put_data(&buf[range], out),
            None => self.put_made_part(this, range, out),
        }
    }

    /// Appends a part of a parameter list or of zeroes.
    #[cold]
    fn put_made_part(
        &self,
        this: &Outstanding<Progress>,
        range: std::ops::Range<usize>,
        out: &mut Outbox,
    ) {
        if this.own.out_len != u32::from(UNMAP_LIST_BYTES) {
            return self.params.put_data(&ZEROES[range], out);
        }
        let blocks = this.len >> self.block_shift;
        let list = cdb::unmap_list(&[(this.offset >> self.block_shift, blocks)]);
        self.params.put_data(&list[range], out);
    }
}

/// The result of an I/O that is not sent.
#[cold]
fn unsent(checked: Result<(), Fault>, fits: bool) -> Result<(), Fault> {
    debug_assert!(fits, "writes bring a buffer that holds them, long reads too, others none");
    checked.and(if fits { Ok(()) } else { Err(Fault::Unsupported) })
}
