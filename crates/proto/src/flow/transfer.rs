//! The data of a command of a target, on its way between the peer and a volume in parts.

use block::{Buf, Io, Op, Pool, Tag};

use crate::{Outbox, Request, UnitId};

use super::backlog::part_begin;
use super::{IOS_PER_COMMAND, part_tag};

/// Progress of the data of a command to or from its volume.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) unit: UnitId,
    /// One less than the block size: no block is cut.
    pub(crate) block_mask: u32,
    /// Offset of the data on the volume.
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// Bytes handed to the volume.
    pub(crate) asked: u32,
    /// I/Os with the volume.
    pub(crate) in_flight: u16,
    pub(crate) fua: bool,
    /// Buffer for data of the peer from `asked` on.
    pub(crate) buf: Option<Buf>,
}

impl Transfer {
    /// Whether the volume takes another I/O of this command.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < IOS_PER_COMMAND
    }

    /// Length of a block.
    #[inline(always)]
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_mask as usize + 1
    }

    /// Returns the end of the part that starts at `asked`: as long as its buffer, or as an I/O's
    /// maximum if there is no buffer yet.
    #[inline(always)]
    pub(crate) fn part_end(&self) -> u32 {
        self.len.min(self.asked.saturating_add(self.longest_part(self.buf.as_ref())))
    }

    /// Length of the part of a read that its I/O's tag names.
    #[inline(always)]
    pub(crate) fn part_len(&self, tag: Tag, buf: Option<&Buf>) -> u32 {
        self.len.saturating_sub(part_begin(tag)).min(self.longest_part(buf))
    }

    #[inline(always)]
    fn longest_part(&self, buf: Option<&Buf>) -> u32 {
        buf.map_or(Pool::LARGE_BYTES as u32, |buf| buf.len() as u32 & !self.block_mask)
    }

    /// The I/O that reads the next part into `buf`: `len` bytes, of which `moves` are sent.
    #[inline(always)]
    pub(crate) fn read(&mut self, slot: u16, moves: u32, len: u32, buf: Buf) -> Request {
        let begin = self.asked;
        self.asked += moves;
        self.request(slot, Op::Read, begin, len, buf)
    }

    /// Returns the I/O that writes the next part, whose data is complete.
    #[inline(always)]
    pub(crate) fn write(&mut self, slot: u16) -> Option<Request> {
        let (begin, end) = (self.asked, self.part_end());
        let buf = self.buf.take()?;
        self.asked = end;
        Some(self.request(slot, Op::Write, begin, end - begin, buf))
    }

    #[inline(always)]
    fn request(&mut self, slot: u16, op: Op, begin: u32, len: u32, buf: Buf) -> Request {
        self.in_flight += 1;
        let (tag, offset) = (part_tag(slot, begin), self.offset + u64::from(begin));
        let io = Io { tag, op, fua: self.fua, len, offset, buf: Some(buf) };
        Request { unit: self.unit, io }
    }

    /// Takes a buffer for requested data: of `len` bytes, or with less memory, of at least `least`.
    /// Returns whether there is a buffer now.
    pub(crate) fn take_buf(&mut self, len: usize, least: usize, out: &Outbox) -> bool {
        self.buf = out.take_part(len);
        if let Some(buf) = self.buf.take_if(|buf| buf.len() < least) {
            out.give(buf);
        }
        self.buf.is_some()
    }

    /// Gives the buffer back.
    pub(crate) fn give_buf(&mut self, pool: &Pool) {
        self.buf.take().into_iter().for_each(|buf| pool.give(buf));
    }
}
