//! Commands of a client, with writes of any length.

use block::{Buf, Done, Fault, Io, Op, Pool, Tag};

use crate::flow::{CLEAR_BYTES_MAX, IOS_PER_COMMAND};
use crate::scsi::Bound;
use crate::{Ending, Outbox};

use super::super::wire::{Asked, REQUEST_MAX_BYTES, command, error, error_of, simple_reply};
use super::{NbdTarget, Stage, violation};

/// I/Os of one command in flight.
pub(super) const PARTS: usize = IOS_PER_COMMAND as usize;

/// A command in flight.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) cookie: u64,
    pub(super) work: Work,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Bytes submitted to the volume.
    pub(super) asked: u32,
    /// Bytes of data received.
    came: u32,
    /// Offset and length of the parts in flight.
    pub(super) flying: [Option<(u32, u32)>; PARTS],
    /// The error of its reply; 0 is success.
    pub(super) error: u32,
    fua: bool,
    /// Whether the command is flushing, alone or after its change.
    pub(super) flushes: bool,
    /// Data of an incomplete part, and its length.
    buf: Option<Buf>,
    have: u32,
    /// Parts of a read that are sent together: offset, length, data.
    pub(super) parts: Vec<(u32, u32, Buf)>,
    pub(super) starving: bool,
    /// A block status of only one extent.
    pub(super) one_extent: bool,
}

/// The operation of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Work {
    #[default]
    None,
    Read,
    Write,
    /// Trim, write zeroes or flush.
    Other(Op),
    /// Block status: no I/O.
    Status,
}

impl Slot {
    pub(super) fn is_flying(&self) -> bool {
        self.flying.iter().any(Option::is_some)
    }

    /// Submits no more I/Os of it.
    pub(super) fn cut_short(&mut self) {
        if self.work != Work::None && self.asked < self.len && self.error == 0 {
            self.error = error::SHUTDOWN;
        }
    }

    pub(super) fn take_bufs(&mut self) -> Vec<Buf> {
        let parts = self.parts.drain(..).map(|(_, _, buf)| buf);
        self.buf.take().into_iter().chain(parts).collect()
    }
}

impl NbdTarget {
    /// Handles a command.
    #[inline(always)]
    pub(super) fn command(&mut self, asked: Asked, out: &mut Outbox) -> Result<(), Ending> {
        match asked.kind {
            command::READ => self.read(asked, out),
            command::WRITE => self.write(asked, out),
            command::DISC => {
                //= NBD §NBD_CMD_DISC: I/Os in flight are answered, and then the connection ends.
                self.stage = Stage::Leaving;
                self.losses.confirm();
                self.end_when_quiet();
                Ok(())
            }
            command::BLOCK_STATUS => self.block_status(asked, out),
            _ => self.other(asked, out),
        }
    }

    /// Takes a slot for a command.
    #[inline(always)]
    pub(super) fn hold(&mut self, asked: Asked, work: Work) -> Result<u16, Ending> {
        let Some(slot) = self.slots.take() else {
            let most = self.config.max_commands;
            return Err(Ending::Refused(format!("more than {most} commands in flight")));
        };
        let held = &mut self.slots[slot];
        (held.cookie, held.work, held.offset, held.len) =
            (asked.cookie, work, asked.offset, asked.len);
        (held.asked, held.came, held.error, held.have) = (0, 0, 0, 0);
        held.fua = asked.flags & command::FUA != 0;
        held.flushes = false;
        Ok(slot)
    }

    pub(super) fn release(&mut self, slot: u16) {
        let held = &mut self.slots[slot];
        if held.work != Work::None {
            held.work = Work::None;
            self.slots.release(slot);
        }
    }

    /// The error of an invalid command; 0 if it is valid.
    #[inline(always)]
    pub(super) fn check(&self, asked: &Asked, flags: u16, writes: bool) -> u32 {
        let geometry = &self.export().geometry;
        let end = asked.offset.checked_add(asked.len.into());
        let inside = end.is_some_and(|end| end <= geometry.bytes());
        let mask = u64::from(geometry.block_bytes) - 1;
        if asked.flags & !flags != 0 {
            return error::INVAL;
        }
        //= NBD §Error values: EPERM; the protocol has no reservations, but others bind its clients.
        // A volume that goes away is served until its client has left.
        let bound = self.export().shared.binds(writes).filter(|bound| *bound != Bound::Gone);
        if writes && geometry.read_only || bound.is_some() {
            return error::PERM;
        }
        if !inside {
            //= NBD §Error values: a write beyond the end is ENOSPC, anything else EINVAL.
            return if writes { error::NOSPC } else { error::INVAL };
        }
        if (asked.offset | u64::from(asked.len)) & mask != 0 { error::INVAL } else { 0 }
    }

    #[inline(always)]
    fn write(&mut self, asked: Asked, out: &mut Outbox) -> Result<(), Ending> {
        if asked.len > REQUEST_MAX_BYTES {
            //= NBD §NBD_CMD_WRITE: data that are not taken end the connection.
            return Err(violation("NBD §Block size constraints: a write has at most 32 MiB"));
        }
        let error = self.check(&asked, command::FUA, true);
        let slot = self.hold(asked, Work::Write)?;
        self.slots[slot].error = error;
        if asked.len == 0 {
            self.finish(slot, out);
        } else {
            self.sink = Some(slot);
        }
        Ok(())
    }

    /// Receives data of a write.
    #[inline(always)]
    pub(super) fn data(&mut self, bytes: &mut &[u8], out: &mut Outbox) {
        let Some(slot) = self.sink else { return };
        let export = &self.export;
        let held = &mut self.slots[slot];
        let (mut part, rest) = bytes.split_at(bytes.len().min((held.len - held.came) as usize));
        *bytes = rest;
        if held.error != 0 {
            held.came += part.len() as u32;
        } else if let Some(memory) = &export.memory {
            memory.write(held.offset + u64::from(held.came), part);
            held.came += part.len() as u32;
            held.asked = held.came;
            if held.came == held.len {
                out.note_in_place(export.id, Op::Write, held.len);
            }
        } else {
            while !part.is_empty() {
                self.collect(slot, &mut part, out);
            }
        }
        let held = &mut self.slots[slot];
        if held.came == held.len {
            self.sink = None;
            self.finish_write(slot, out);
        }
    }

    /// Collects a part of the data, and submits it to the volume when complete.
    fn collect(&mut self, slot: u16, part: &mut &[u8], out: &mut Outbox) {
        let held = &mut self.slots[slot];
        if held.buf.is_none() && held.error == 0 {
            let want = (held.len - held.came).min(Pool::LARGE_BYTES as u32) as usize;
            held.buf = out.take_unsolicited(want).or_else(|| out.take_part(want));
            held.have = 0;
            if held.buf.is_none() {
                held.error = error::NOMEM;
            }
        }
        let Some(buf) = &mut held.buf else {
            held.came += part.len() as u32;
            *part = &[];
            return;
        };
        let have = held.have as usize;
        let whole = buf.len().min((held.len - held.asked) as usize);
        let (now, rest) = part.split_at(part.len().min(whole - have));
        buf[have..have + now.len()].copy_from_slice(now);
        *part = rest;
        held.have += now.len() as u32;
        held.came += now.len() as u32;
        if held.have as usize == whole {
            self.hand_over(slot);
        }
    }

    /// Submits a complete part to the volume.
    fn hand_over(&mut self, slot: u16) {
        let unit = self.export().id;
        let held = &mut self.slots[slot];
        let Some(buf) = held.buf.take() else { return };
        let (len, offset) = (held.have, held.offset + u64::from(held.asked));
        held.have = 0;
        // A long write has more parts than tag bits: the first number serves for all beyond.
        held.asked += len;
        let at = held.flying.iter().position(Option::is_none).unwrap_or(0);
        let count = held.flying[at].map_or(1, |(count, _)| count + 1);
        held.flying[at] = Some((count, 0));
        let tag = Tag(u64::from(slot) | (at as u64) << 16);
        let io = Io { tag, op: Op::Write, fua: held.fua, len, offset, buf: Some(buf) };
        self.backlog.request(unit, io);
    }

    /// Handles everything except reads, writes and disconnects.
    #[cold]
    fn other(&mut self, asked: Asked, out: &mut Outbox) -> Result<(), Ending> {
        let trims = self.export().geometry.trim_zeroes;
        let (op, error) = match asked.kind {
            command::FLUSH if asked.offset == 0 && asked.len == 0 => {
                (Op::Flush, if asked.flags & !command::FUA == 0 { 0 } else { error::INVAL })
            }
            command::TRIM => {
                //= NBD §Error values: ENOSPC is for data; a trim beyond the end is EINVAL.
                let error = match self.check(&asked, command::FUA, true) {
                    error::NOSPC => error::INVAL,
                    error => error,
                };
                (Op::Trim, error)
            }
            command::WRITE_ZEROES => {
                let hole = asked.flags & command::NO_HOLE == 0 && trims;
                let error = self.check(&asked, command::FUA | command::NO_HOLE, true);
                (if hole { Op::Trim } else { Op::WriteZeroes }, error)
            }
            _ => (Op::Flush, error::INVAL),
        };
        let slot = self.hold(asked, Work::Other(op))?;
        let held = &mut self.slots[slot];
        held.error = error;
        if op == Op::Flush {
            // A flush is durable and has no length.
            (held.fua, held.len) = (error == 0, 0);
        }
        self.work_on(slot, out);
        Ok(())
    }

    /// Submits the next I/O of a command without data, or replies.
    fn work_on(&mut self, slot: u16, out: &mut Outbox) {
        let (unit, volatile) = (self.export().id, self.export().geometry.volatile);
        let held = &mut self.slots[slot];
        let Work::Other(op) = held.work else { return };
        let left = held.len - held.asked;
        let wants_flush = held.fua && (op == Op::Flush || volatile);
        let (op, len, offset) = match left {
            _ if held.error != 0 => return self.finish(slot, out),
            0 if wants_flush => {
                (held.fua, held.flushes) = (false, true);
                (Op::Flush, 0, 0)
            }
            0 => return self.finish(slot, out),
            _ => (op, left.min(CLEAR_BYTES_MAX), held.offset + u64::from(held.asked)),
        };
        held.asked += len;
        held.flying[0] = Some((1, 0));
        let io = Io { tag: Tag(slot.into()), op, fua: false, len, offset, buf: None };
        self.backlog.request(unit, io);
    }

    /// A volume has completed an I/O.
    #[inline(always)]
    pub(super) fn completed(&mut self, done: Done, out: &mut Outbox) {
        let (slot, at) = (done.tag.0 as u16, (done.tag.0 >> 16) as usize % PARTS);
        if self.gone {
            self.left_over_came(slot, &done);
        }
        let held = &mut self.slots[slot];
        let flown = held.flying[at].take();
        let mut result = done.result;
        if held.flushes {
            result = self.flushed(slot, result);
        }
        let held = &mut self.slots[slot];
        if let Err(fault) = result
            && held.error == 0
        {
            held.error = error_of(fault);
        }
        match held.work {
            Work::Read => return self.read_done(slot, flown, done.buf, out),
            Work::Write if let Some((count, _)) = flown.filter(|(count, _)| *count > 1) => {
                held.flying[at] = Some((count - 1, 0));
            }
            _ => {}
        }
        if let Some(buf) = done.buf {
            out.give(buf);
        }
        match held.work {
            Work::Write => self.finish_write(slot, out),
            Work::Other(_) => self.work_on(slot, out),
            Work::Read | Work::Status | Work::None => {}
        }
    }

    /// A flush has completed.
    #[cold]
    fn flushed(&mut self, slot: u16, result: Result<(), Fault>) -> Result<(), Fault> {
        let export = &self.export;
        if self.gone {
            return result;
        }
        if self.slots[slot].work == Work::Other(Op::Flush) {
            return self.losses.result_of_flush(export.id, export.instance.as_ref(), result);
        }
        // The flush covers only the preceding part of this command.
        export.instance.iter().for_each(|instance| instance.note_flush(result));
        result
    }

    /// Replies to a write whose data has been received and written.
    #[inline(always)]
    fn finish_write(&mut self, slot: u16, out: &mut Outbox) {
        let held = &self.slots[slot];
        let awaits = self.sink == Some(slot) || held.is_flying();
        if !awaits {
            self.finish(slot, out);
        }
    }

    /// Sends a reply without data.
    #[inline(always)]
    fn finish(&mut self, slot: u16, out: &mut Outbox) {
        let held = &mut self.slots[slot];
        let answer = simple_reply(held.cookie, held.error);
        let buf = held.buf.take();
        out.bytes(&answer);
        buf.into_iter().for_each(|buf| out.give(buf));
        self.release(slot);
    }
}
