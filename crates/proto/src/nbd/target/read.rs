//! Reads: from memory at once, or from the volume in parts.

use block::{Buf, Io, Op, Pool, Tag};

use crate::flow::{has_room_by_reference, is_full};
use crate::{Ending, Outbox};

use super::super::wire::{
    Asked, CHUNK_BYTES, REQUEST_MAX_BYTES, chunk, chunk_head, error, simple_reply,
};
use super::NbdTarget;
use super::command::{PARTS, Work};

/// Header of a chunk with data.
const HEAD_BYTES: usize = CHUNK_BYTES + 8;

impl NbdTarget {
    #[inline(always)]
    pub(super) fn read(&mut self, asked: Asked, out: &mut Outbox) -> Result<(), Ending> {
        let mut error = self.check(&asked, super::super::wire::command::FUA, false);
        if asked.len > REQUEST_MAX_BYTES {
            error = error::INVAL;
        }
        let slot = self.hold(asked, Work::Read)?;
        self.slots[slot].error = error;
        if error != 0 || asked.len == 0 {
            self.end_read(slot, out);
        } else {
            self.read_on(slot, out);
        }
        Ok(())
    }

    /// Continues a read, as far as there are buffers and room in the outbox.
    #[inline(always)]
    fn read_on(&mut self, slot: u16, out: &mut Outbox) {
        let export = &self.export;
        let held = &mut self.slots[slot];
        let (cookie, offset, len) = (held.cookie, held.offset, held.len);
        if let Some(memory) = export.memory.as_ref().filter(|_| held.error == 0) {
            if is_full(out) || !has_room(len as usize, out) {
                return self.starve(slot, out);
            }
            out.note_in_place(export.id, Op::Read, len);
            if self.structured {
                data_head(chunk::DONE, cookie, offset, len, out);
            } else {
                out.bytes(&simple_reply(cookie, 0));
            }
            for at in (0..len).step_by(Pool::LARGE_BYTES) {
                let part = (len - at).min(Pool::LARGE_BYTES as u32);
                out.memory(memory, offset + u64::from(at), part as usize, false);
            }
            return self.release(slot);
        }
        let (unit, block) = (export.id, export.geometry.block_bytes as usize);
        while held.error == 0
            && held.asked < len
            && let Some(at) = held.flying.iter().position(Option::is_none)
        {
            let want = (len - held.asked).min(Pool::LARGE_BYTES as u32) as usize;
            let ready = self.backlog.may_read(want, HEAD_BYTES, out);
            let least = block.max(Pool::SMALL_BYTES);
            let buf = if ready { out.take_to_send(want, least) } else { None };
            let Some(buf) = buf else { return self.starve(slot, out) };
            let part = want.min(buf.len()) as u32;
            held.flying[at] = Some((held.asked, part));
            let tag = Tag(u64::from(slot) | (at as u64) << 16);
            let place = offset + u64::from(held.asked);
            held.asked += part;
            self.backlog.begin_read(part);
            let io = Io { tag, op: Op::Read, fua: false, len: part, offset: place, buf: Some(buf) };
            self.backlog.request(unit, io);
        }
    }

    /// A part of a read has completed.
    #[inline(always)]
    pub(super) fn read_done(
        &mut self,
        slot: u16,
        flown: Option<(u32, u32)>,
        buf: Option<Buf>,
        out: &mut Outbox,
    ) {
        let (at, len) = flown.unwrap_or_default();
        self.backlog.end_read(len);
        let structured = self.structured;
        let held = &mut self.slots[slot];
        let ends = !held.is_flying() && held.asked == held.len;
        match buf {
            Some(buf) if held.error != 0 || self.gone => out.give(buf),
            Some(buf) if structured => {
                let flags = if ends { chunk::DONE } else { 0 };
                data_head(flags, held.cookie, held.offset + u64::from(at), len, out);
                out.buf(buf, len as usize);
                if ends {
                    return self.release(slot);
                }
            }
            Some(buf) => held.parts.push((at, len, buf)),
            None if held.error == 0 => held.error = error::IO,
            None => {}
        }
        let held = &self.slots[slot];
        if held.is_flying() || held.error == 0 && held.asked < held.len && !self.gone {
            return self.read_on(slot, out);
        }
        self.end_read(slot, out);
    }

    /// Ends a read that has nothing in flight.
    fn end_read(&mut self, slot: u16, out: &mut Outbox) {
        let held = &mut self.slots[slot];
        let (cookie, error) = (held.cookie, held.error);
        let mut parts = std::mem::take(&mut held.parts);
        if self.gone || error != 0 {
            parts.drain(..).for_each(|(_, _, buf)| out.give(buf));
        }
        match self.structured {
            _ if self.gone => {}
            true if error != 0 => {
                //= NBD §Structured reply chunks: an error, and no words for it.
                out.bytes(&chunk_head(chunk::DONE, chunk::ERROR, cookie, 6));
                out.bytes(&error.to_be_bytes());
                out.bytes(&[0; 2]);
            }
            true => out.bytes(&chunk_head(chunk::DONE, chunk::NONE, cookie, 0)),
            false => {
                out.bytes(&simple_reply(cookie, error));
                parts.sort_unstable_by_key(|(at, ..)| *at);
                parts.drain(..).for_each(|(_, len, buf)| out.buf(buf, len as usize));
            }
        }
        self.slots[slot].parts = parts;
        self.release(slot);
    }

    /// Queues a read that waits for a buffer or for room in the outbox.
    #[cold]
    pub(super) fn starve(&mut self, slot: u16, out: &mut Outbox) {
        let quiet = !self.backlog.is_reading() && out.is_empty();
        let held = &mut self.slots[slot];
        // Only its own parts could free a buffer.
        if quiet && !held.parts.is_empty() && !held.is_flying() {
            held.error = error::NOMEM;
            return self.end_read(slot, out);
        }
        if !std::mem::replace(&mut held.starving, true) {
            self.backlog.starving.push_back(slot);
        }
    }

    /// Retries waiting reads, in order.
    #[inline(always)]
    pub(super) fn retry_starving(&mut self, out: &mut Outbox) {
        for _ in 0..self.backlog.starving.len() {
            let Some(slot) = self.backlog.starving.pop_front() else { return };
            let held = &mut self.slots[slot];
            held.starving = false;
            if held.work == Work::Read && !held.is_flying() && held.error != 0 {
                self.end_read(slot, out);
            } else if held.work == Work::Read {
                self.read_on(slot, out);
            } else if held.work == Work::Status {
                self.tell_status(slot, out);
            }
        }
    }
}

/// Header of a chunk with data.
#[inline(always)]
fn data_head(flags: u16, cookie: u64, offset: u64, len: u32, out: &mut Outbox) {
    let head = out.reserve(HEAD_BYTES);
    head[..CHUNK_BYTES].copy_from_slice(&chunk_head(flags, chunk::DATA, cookie, len + 8));
    head[CHUNK_BYTES..].copy_from_slice(&offset.to_be_bytes());
}

/// Whether the outbox has room for a read of memory.
#[inline(always)]
fn has_room(len: usize, out: &Outbox) -> bool {
    if len < Outbox::BY_REFERENCE_BYTES {
        return out.has_room(len + HEAD_BYTES);
    }
    has_room_by_reference(len, HEAD_BYTES, out)
}

const _: () = assert!(PARTS <= 4, "a tag has room for the part beside the slot");
