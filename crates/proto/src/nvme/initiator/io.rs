//! I/Os: commands, data and completions. The hot path.

use block::{Cause, Fault, Io, Op, Pool};

use crate::flow::{Age, lacks_buf};
use crate::{Ending, Outbox};

use super::super::frame::Fatal;
use super::super::pdu::{
    CommandBuilder, Completion, Data, ReadyToTransfer, Short, Status, fatal, flag, io, kind,
};
use super::queue::{Incoming, NvmeQueue};

/// Length of a range in the data of a Dataset Management command.
//= NVMe base §Dataset Management: attributes, length and start of a range.
const RANGE_BYTES: u32 = 16;

/// Bit of Dword 11 of Dataset Management that deallocates.
//= NVMe base §Dataset Management: AD is bit 2.
const DEALLOCATE: u32 = 1 << 2;

impl NvmeQueue {
    /// Sends an I/O.
    #[inline(always)]
    pub(super) fn begin(&mut self, io: Io, out: &mut Outbox) {
        let mut fault = self.limits.geometry.check(&io).err();
        if lacks_buf(&io) {
            fault = Some(Fault::Unsupported);
        }
        let Some(slot) = self.ios.take() else {
            debug_assert!(false, "an I/O without room");
            return self.ios.refuse(io, Err(Fault::Disconnected));
        };
        self.ios.begin(slot, io);
        let taken = &mut self.ios[slot];
        taken.own.fault = fault;
        taken.own.done = 0;
        taken.own.part = 0;
        taken.own.moved = 0;
        self.send(slot, out);
    }

    /// Sends the next command of an I/O.
    #[inline(always)]
    fn send(&mut self, slot: u16, out: &mut Outbox) {
        let next = &mut self.ios[slot];
        let left = next.len - next.own.done;
        let transfers = matches!(next.op, Op::Read | Op::Write) && left != 0;
        if !transfers || next.own.fault.is_some() || !self.is_open() {
            return self.send_other(slot, out);
        }
        let limits = &self.limits;
        let next = &mut self.ios[slot];
        next.own.part = left.min(limits.transfer);
        (next.own.moved, next.age) = (0, Age::NEW);
        let part = next.own.part;
        let start = (next.offset + u64::from(next.own.done)) >> limits.block_shift;
        let opcode = if next.op == Op::Read { io::READ } else { io::WRITE };
        let command = CommandBuilder::new(opcode, slot, limits.namespace);
        let command = command.range(start, part >> limits.block_shift);
        if next.op == Op::Read {
            return self.link.command(command.transport(part), out);
        }
        let command = command.fua(next.fua);
        if part > limits.in_capsule {
            return self.link.command(command.transport(part), out);
        }
        let from = next.own.done as usize;
        next.own.moved = part;
        let Some(buf) = &next.buf else { return self.fail(slot, Fault::Unsupported) };
        self.link.command_with(command, &buf[from..from + part as usize], out);
        self.stamp(slot, out);
    }

    /// Stamps the data of this command: its completion proves that the target has read it.
    #[inline(always)]
    fn stamp(&mut self, slot: u16, out: &mut Outbox) {
        self.ios[slot].own.stamp = self.stamps.next(out);
    }

    /// Sends a command that moves no blocks, or completes the I/O.
    #[cold]
    fn send_other(&mut self, slot: u16, out: &mut Outbox) {
        let limits = self.limits;
        let open = self.is_open();
        let next = &mut self.ios[slot];
        let left = next.len - next.own.done;
        if let Some(fault) = next.own.fault {
            return self.fail(slot, fault);
        }
        if left == 0 && next.op != Op::Flush {
            return self.finish(slot, Ok(()), Cause::NONE);
        }
        if !open {
            return self.fail(slot, Fault::Disconnected);
        }
        (next.own.moved, next.age) = (0, Age::NEW);
        let start = (next.offset + u64::from(next.own.done)) >> limits.block_shift;
        let most = match next.op {
            Op::Trim => limits.trim,
            Op::WriteZeroes => limits.zeroes,
            Op::Flush | Op::Read | Op::Write => u32::MAX,
        };
        if most == 0 {
            return self.fail(slot, Fault::Unsupported);
        }
        next.own.part = left.min(most);
        let count = next.own.part >> limits.block_shift;
        let command = |opcode| CommandBuilder::new(opcode, slot, limits.namespace);
        match next.op {
            Op::Trim => {
                let command = command(io::DATASET_MANAGEMENT).word(11, DEALLOCATE);
                if limits.in_capsule < RANGE_BYTES {
                    return self.link.command(command.transport(RANGE_BYTES), out);
                }
                next.own.moved = next.own.part;
                self.link.command_with(command, &range(start, count), out);
            }
            Op::WriteZeroes => {
                let command = command(io::WRITE_ZEROES).range(start, count).fua(next.fua);
                self.link.command(command, out);
            }
            Op::Flush | Op::Read | Op::Write => self.link.command(command(io::FLUSH), out),
        }
    }

    /// A C2HData; its data follows.
    #[inline(always)]
    pub(super) fn data_begins(&mut self, header: &Short) -> Result<(), Fatal> {
        let data = Data::parse(header);
        let Some(read) = self.ios.find(data.command).filter(|slot| slot.op == Op::Read) else {
            return Err(Fatal::field(8, "NVMe-TCP §3.6.2.9: CCCID is that of a read"));
        };
        if data.len != self.link.frame.data_len() {
            return Err(Fatal::field(16, "NVMe-TCP §3.6.2.9: DATAL is the length of the data"));
        }
        let end = u64::from(data.offset) + u64::from(data.len);
        if data.offset != read.own.moved || end > u64::from(read.own.part) {
            let rule = "NVMe-TCP §3.3.2: C2HData lies in the data of its command, in order";
            return Err(Fatal { status: fatal::OUT_OF_RANGE, information: 0, rule, at: 12 });
        }
        let success = data.success();
        if success && (!data.last() || end != u64::from(read.own.part)) {
            return Err(Fatal::field(1, "NVMe-TCP §3.6.2.9: SUCCESS is for the last PDU"));
        }
        self.incoming = Incoming { slot: data.command, have: 0, success };
        Ok(())
    }

    /// Copies a part of the data into the buffer of its I/O, or a lent one.
    #[inline(always)]
    pub(super) fn place(&mut self, part: &[u8], pool: &Pool) -> Result<(), Ending> {
        let read = &mut self.ios[self.incoming.slot];
        let at = (read.own.done + read.own.moved + self.incoming.have) as usize;
        let buf = read.buf_for_data(pool)?;
        buf[at..at + part.len()].copy_from_slice(part);
        self.incoming.have += part.len() as u32;
        Ok(())
    }

    /// The data of a PDU is complete.
    #[inline(always)]
    pub(super) fn placed(&mut self, intact: bool, out: &mut Outbox) {
        let Incoming { slot, have, success } = self.incoming;
        let read = &mut self.ios[slot];
        read.own.moved += have;
        if !intact {
            //= NVMe-TCP §3.4.1.4: a wrong data digest fails the command, not the connection.
            read.own.fault = Some(Fault::Medium);
        }
        if success {
            self.ended(slot, out);
        }
    }

    /// A command succeeded.
    #[inline(always)]
    fn ended(&mut self, slot: u16, out: &mut Outbox) {
        let ended = &mut self.ios[slot];
        ended.own.done += ended.own.part;
        if let Some(fault) = ended.own.fault {
            return self.fail(slot, fault);
        }
        if ended.own.done < ended.len {
            return self.send_more(slot, out);
        }
        self.finish(slot, Ok(()), Cause::NONE);
    }

    /// Continues a long I/O with another command.
    #[cold]
    fn send_more(&mut self, slot: u16, out: &mut Outbox) {
        self.send(slot, out);
    }

    /// A completion.
    #[inline(always)]
    pub(super) fn completed(&mut self, header: &Short, out: &mut Outbox) -> Result<(), Fatal> {
        let completion = Completion::parse(header);
        let slot = completion.command;
        let Some(ended) = self.ios.find(slot) else {
            return Err(Fatal::field(20, "NVMe-TCP §3.6.2.7: CID is that of a command"));
        };
        let moves = matches!(ended.op, Op::Read | Op::Write);
        if !completion.status.is_success() || moves && ended.own.moved != ended.own.part {
            self.failed(slot, completion.status);
            return Ok(());
        }
        self.ended(slot, out);
        Ok(())
    }

    /// A command failed, or succeeded without having moved its data.
    #[cold]
    fn failed(&mut self, slot: u16, status: Status) {
        match self.ios[slot].own.fault {
            Some(fault) => self.fail(slot, fault),
            None => self.finish(slot, Err(fault_of(status)), cause_of(status)),
        }
    }

    #[cold]
    fn fail(&mut self, slot: u16, fault: Fault) {
        // A data digest error is the only medium error detected here.
        let cause = if fault == Fault::Medium { DIGEST } else { Cause::NONE };
        self.finish(slot, Err(fault), cause);
    }

    #[inline(always)]
    fn finish(&mut self, slot: u16, result: Result<(), Fault>, cause: Cause) {
        let ended = &self.ios[slot];
        if result.is_ok() {
            self.stamps.completed(ended.own.stamp);
        }
        self.ios.complete(slot, result, cause);
    }

    /// An R2T.
    //= NVMe-TCP §3.3.2: the data of an R2T is sent in order, LAST_PDU set in the last PDU.
    pub(super) fn data_wanted(&mut self, header: &Short, out: &mut Outbox) -> Result<(), Fatal> {
        let ready = ReadyToTransfer::parse(header);
        let (block_shift, max_data) = (self.limits.block_shift, self.link.max_data);
        let Some(write) = self.ios.find(ready.command) else {
            return Err(Fatal::field(8, "NVMe-TCP §3.6.2.10: CCCID is that of a write"));
        };
        let (whole, trims) = match write.op {
            Op::Write => (write.own.part, false),
            Op::Trim if write.own.moved == 0 => (RANGE_BYTES, true),
            _ => return Err(Fatal::field(8, "NVMe-TCP §3.6.2.10: CCCID is that of a write")),
        };
        let end = u64::from(ready.offset) + u64::from(ready.len);
        if ready.len == 0 || ready.offset != write.own.moved || end > u64::from(whole) {
            let rule = "NVMe-TCP §3.3.2: an R2T asks for the next data of its command";
            return Err(Fatal { status: fatal::OUT_OF_RANGE, information: 0, rule, at: 12 });
        }
        let start = (write.offset + u64::from(write.own.done)) >> block_shift;
        let range = range(start, write.own.part >> block_shift);
        let data = match &write.buf {
            _ if trims => &range[..],
            Some(buf) => &buf[write.own.done as usize..],
            None => return Err(Fatal::field(8, "NVMe-TCP §3.6.2.10: CCCID is that of a write")),
        };
        let mut at = ready.offset;
        while u64::from(at) < end {
            let len = max_data.min(end as u32 - at);
            let last = u64::from(at + len) == end;
            let header = Data {
                kind: kind::H2C_DATA,
                flags: if last { flag::LAST } else { 0 },
                data_offset: 0,
                pdu_len: 0,
                command: ready.command,
                transfer_tag: ready.transfer_tag,
                offset: at,
                len,
            };
            self.link.wire.data(header, out);
            self.link.wire.bytes(&data[at as usize..(at + len) as usize], out);
            at += len;
        }
        write.own.moved = if trims { write.own.part } else { end as u32 };
        self.stamp(ready.command, out);
        Ok(())
    }
}

/// The data of a Dataset Management command with one range.
fn range(start: u64, count: u32) -> [u8; RANGE_BYTES as usize] {
    let mut range = [0; RANGE_BYTES as usize];
    range[4..8].copy_from_slice(&count.to_le_bytes());
    range[8..].copy_from_slice(&start.to_le_bytes());
    range
}

/// [`Cause`]s: a status, or a data digest error.
const STATUS: u32 = 1 << 16;
const DIGEST: Cause = Cause(2 << 16);

#[cold]
fn cause_of(status: Status) -> Cause {
    Cause(STATUS | u32::from(status.to_wire() >> 1))
}

/// Returns fault and cause of a status from the kernel: status code type and status code, without
/// the phase bit.
pub fn status_from_kernel(status: u16) -> (Fault, Cause) {
    let status = Status::from_wire(status << 1);
    (fault_of(status), cause_of(status))
}

/// Text of a cause, in the words of the standard.
pub fn words(cause: Cause) -> Option<String> {
    if cause == DIGEST {
        return Some("data digest error: data came damaged".to_owned());
    }
    if cause.0 & STATUS == 0 {
        return None;
    }
    let status = Status::from_wire((cause.0 as u16) << 1);
    let (kind, code) = (status.kind(), status.code());
    Some(match status.is_success() {
        true => "success, but not all data moved".to_owned(),
        false => format!("{status} (SCT {kind:x}h, SC {code:02x}h)"),
    })
}

/// The fault of a status. The only place where statuses become faults.
#[cold]
fn fault_of(status: Status) -> Fault {
    let table = [
        (Status::LBA_OUT_OF_RANGE, Fault::OutOfRange),
        (Status::WRITE_PROTECTED, Fault::ReadOnly),
        (Status::ATTEMPTED_WRITE_TO_READ_ONLY, Fault::ReadOnly),
        (Status::CAPACITY_EXCEEDED, Fault::NoSpace),
        (Status::INVALID_OPCODE, Fault::Unsupported),
        (Status::INVALID_FIELD, Fault::Unsupported),
        (Status::COMPARE_FAILURE, Fault::Miscompare),
        (Status::ABORT_REQUESTED, Fault::Aborted),
        (Status::INTERNAL_PATH_ERROR, Fault::Disconnected),
    ];
    let found = table.into_iter().find(|(known, _)| status.means(*known));
    found.map_or(Fault::Medium, |(_, fault)| fault)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn statuses_become_faults() {
        assert_eq!(fault_of(Status::WRITE_FAULT), Fault::Medium);
        assert_eq!(fault_of(Status::from_wire(0x0100)), Fault::OutOfRange);
        assert_eq!(fault_of(Status::INVALID_OPCODE), Fault::Unsupported);
        assert_eq!(fault_of(Status::from_wire(0x81 << 1)), Fault::NoSpace);
        // Success without data.
        assert_eq!(fault_of(Status::SUCCESS), Fault::Medium);
    }

    #[test]
    fn range_golden() {
        let bytes = [0, 0, 0, 0, 8, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(range(0x0102, 8), bytes);
    }
}
