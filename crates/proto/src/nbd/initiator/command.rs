//! I/Os on their way out.

use block::{Cause, Done, Fault, Io, Op, Pool};

use crate::Outbox;
use crate::looks::Age;

use super::super::wire::{Asked, command, fault_of, flag};
use super::NbdInitiator;

impl NbdInitiator {
    /// Sends an I/O.
    #[inline]
    pub(super) fn begin(&mut self, io: Io, out: &mut Outbox) {
        let fault = self.fault_of(&io);
        let Some(slot) = self.free.pop().filter(|_| fault.is_none()) else {
            let (tag, buf) = (io.tag, io.buf);
            let result = Err(fault.unwrap_or(Fault::Disconnected));
            return self.done.push(Done { tag, result, cause: Cause::NONE, buf });
        };
        let taken = &mut self.slots[usize::from(slot)];
        (taken.op, taken.fua, taken.tag) = (io.op, io.fua, io.tag);
        (taken.offset, taken.len, taken.buf) = (io.offset, io.len, io.buf);
        (taken.done, taken.part, taken.error) = (0, 0, 0);
        taken.age = Age::NEW;
        self.send(slot, out);
    }

    /// Why an I/O cannot be sent.
    #[inline]
    fn fault_of(&self, io: &Io) -> Option<Fault> {
        let without = match io.op {
            Op::Read => io.len as usize <= Pool::LARGE_BYTES,
            Op::Write => io.len == 0,
            Op::Flush | Op::Trim | Op::WriteZeroes => true,
        };
        let knows = match io.op {
            Op::Trim => self.flags & flag::TRIM != 0,
            Op::WriteZeroes => self.flags & flag::WRITE_ZEROES != 0,
            Op::Read | Op::Write | Op::Flush => true,
        };
        if (io.buf.is_none() && !without) || !knows {
            return Some(Fault::Unsupported);
        }
        self.geometry.check(io).err()
    }

    /// Sends the next command of an I/O, or ends it.
    #[inline]
    pub(super) fn send(&mut self, slot: u16, out: &mut Outbox) {
        let next = &mut self.slots[usize::from(slot)];
        let left = next.len - next.done;
        let has_flush = self.flags & flag::FLUSH != 0;
        let has_fua = self.flags & flag::FUA != 0;
        let kind = match next.op {
            // Without a cache there is nothing to flush.
            Op::Flush if next.part != 0 || !has_flush => return self.finish(slot, Ok(())),
            Op::Flush => command::FLUSH,
            _ if left == 0 && next.fua && !has_fua && has_flush => {
                // What cannot be durable at once is flushed behind.
                next.op = Op::Flush;
                command::FLUSH
            }
            _ if left == 0 => return self.finish(slot, Ok(())),
            Op::Read => command::READ,
            Op::Write => command::WRITE,
            Op::Trim => command::TRIM,
            Op::WriteZeroes => command::WRITE_ZEROES,
        };
        let flushes = kind == command::FLUSH;
        //= NBD §Block size constraints: the maximum is for what moves data; a trim may be longer.
        let moves = matches!(next.op, Op::Read | Op::Write);
        next.part = match flushes {
            true => 1,
            false if moves => left.min(self.max_request),
            false => left,
        };
        self.turn = self.turn.wrapping_add(1);
        next.cookie = u64::from(self.turn) << 32 | u64::from(slot);
        next.came.clear();
        (next.age, next.error) = (Age::NEW, 0);
        let fua = next.fua && has_fua && !flushes && kind != command::READ;
        let asked = Asked {
            flags: if fua { command::FUA } else { 0 },
            kind,
            cookie: next.cookie,
            offset: if flushes { 0 } else { next.offset + u64::from(next.done) },
            len: if flushes { 0 } else { next.part },
        };
        out.reserve(asked.build().len()).copy_from_slice(&asked.build());
        if kind == command::WRITE
            && let Some(buf) = &next.buf
        {
            out.bytes(&buf[next.done as usize..(next.done + next.part) as usize]);
        }
    }

    /// A command was answered.
    #[inline]
    pub(super) fn ended(&mut self, slot: u16, out: &mut Outbox) {
        let ended = &mut self.slots[usize::from(slot)];
        if ended.error != 0 {
            let error = ended.error;
            return self.finish(slot, Err(error));
        }
        match ended.op {
            Op::Flush => self.finish(slot, Ok(())),
            _ => {
                ended.done += ended.part;
                self.send(slot, out);
            }
        }
    }

    #[inline]
    fn finish(&mut self, slot: u16, result: Result<(), u32>) {
        let ended = &mut self.slots[usize::from(slot)];
        ended.age = Age::NONE;
        let (tag, buf) = (ended.tag, ended.buf.take());
        self.free.push(slot);
        let cause = result.err().map_or(Cause::NONE, Cause);
        self.done.push(Done { tag, result: result.map_err(fault_of), cause, buf });
    }
}
