//! Submits I/Os as commands.

use block::{Cause, Fault, Io, Op};

use crate::Outbox;
use crate::flow::{Age, lacks_buf};

use super::super::wire::{Asked, command, fault_of, flag};
use super::NbdInitiator;

impl NbdInitiator {
    /// Sends an I/O.
    #[inline]
    pub(super) fn begin(&mut self, io: Io, out: &mut Outbox) {
        let fault = self.fault_of(&io);
        if let Some(fault) = fault {
            return self.ios.refuse(io, Err(fault));
        }
        let Some(slot) = self.ios.take() else {
            return self.ios.refuse(io, Err(Fault::Disconnected));
        };
        self.ios.begin(slot, io);
        let taken = &mut self.ios[slot].own;
        (taken.done, taken.part, taken.error) = (0, 0, 0);
        self.send(slot, out);
    }

    /// Why an I/O cannot be sent.
    #[inline]
    fn fault_of(&self, io: &Io) -> Option<Fault> {
        let knows = match io.op {
            Op::Trim => self.flags & flag::TRIM != 0,
            Op::WriteZeroes => self.flags & flag::WRITE_ZEROES != 0,
            Op::Read | Op::Write | Op::Flush => true,
        };
        if lacks_buf(io) || !knows {
            return Some(Fault::Unsupported);
        }
        self.geometry.check(io).err()
    }

    /// Sends the next command of an I/O, or completes it.
    #[inline]
    pub(super) fn send(&mut self, slot: u16, out: &mut Outbox) {
        let next = &mut self.ios[slot];
        let left = next.len - next.own.done;
        let has_flush = self.flags & flag::FLUSH != 0;
        let has_fua = self.flags & flag::FUA != 0;
        let kind = match next.op {
            // Without FLUSH the server has no volatile cache.
            Op::Flush if next.own.part != 0 || !has_flush => return self.finish(slot, Ok(())),
            Op::Flush => command::FLUSH,
            _ if left == 0 && next.fua && !has_fua && has_flush => {
                // Without FUA a flush follows the write.
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
        //= NBD §Block size constraints: the maximum is for commands that move data; a trim may be
        // longer.
        let moves = matches!(next.op, Op::Read | Op::Write);
        next.own.part = match flushes {
            true => 1,
            false if moves => left.min(self.max_request),
            false => left,
        };
        self.turn = self.turn.wrapping_add(1);
        next.own.cookie = u64::from(self.turn) << 32 | u64::from(slot);
        next.own.came.clear();
        (next.age, next.own.error) = (Age::NEW, 0);
        let fua = next.fua && has_fua && !flushes && kind != command::READ;
        let asked = Asked {
            flags: if fua { command::FUA } else { 0 },
            kind,
            cookie: next.own.cookie,
            offset: if flushes { 0 } else { next.offset + u64::from(next.own.done) },
            len: if flushes { 0 } else { next.own.part },
        };
        out.reserve(asked.build().len()).copy_from_slice(&asked.build());
        if kind == command::WRITE
            && let Some(buf) = &next.buf
        {
            out.bytes(&buf[next.own.done as usize..(next.own.done + next.own.part) as usize]);
        }
    }

    /// A command was answered.
    #[inline]
    pub(super) fn ended(&mut self, slot: u16, out: &mut Outbox) {
        let ended = &mut self.ios[slot];
        if ended.own.error != 0 {
            let error = ended.own.error;
            return self.finish(slot, Err(error));
        }
        match ended.op {
            Op::Flush => self.finish(slot, Ok(())),
            _ => {
                ended.own.done += ended.own.part;
                self.send(slot, out);
            }
        }
    }

    #[inline]
    fn finish(&mut self, slot: u16, result: Result<(), u32>) {
        let cause = result.err().map_or(Cause::NONE, Cause);
        self.ios.complete(slot, result.map_err(fault_of), cause);
    }
}
