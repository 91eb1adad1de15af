//! Replies of the server: simple replies and structured reply chunks.

use crate::{Ending, Outbox};

use block::Op;

use super::super::wire::{
    CHUNK_BYTES, CHUNK_MAGIC, SIMPLE_BYTES, SIMPLE_MAGIC, chunk, error, u16_at, u32_at, u64_at,
};
use super::status::StatusPart;
use super::{NbdInitiator, violation};

/// Maximum number of separate ranges in which a read's data may arrive.
const PIECES_MAX: usize = 64;
/// Longest error message.
pub(super) const WORDS_MAX: u32 = 4096 + 16;

/// The next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// The header of a reply.
    Head,
    /// Data of a read: slot, offset, bytes left, and whether the reply ends with it.
    Data { slot: u16, at: u32, left: u32, ends: bool },
    /// The fixed part of a chunk.
    Chunk { slot: u16, kind: u16, len: u32, ends: bool },
    /// Bytes to skip.
    Skip { slot: u16, left: u32, ends: bool },
    /// The reply to a block status request: bytes left of the chunk, whether it ends the reply, and
    /// the part that is next.
    Status { left: u32, ends: bool, part: StatusPart },
}

impl NbdInitiator {
    /// Takes the next part; true while there may be more.
    #[inline]
    pub(super) fn answer(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> Result<bool, Ending> {
        match self.incoming {
            Incoming::Head => self.begin_answer(bytes, out),
            Incoming::Data { slot, at, left, ends } => {
                let (part, rest) = bytes.split_at(bytes.len().min(left as usize));
                *bytes = rest;
                self.place(slot, at, part, out)?;
                let (now, left) = (part.len() as u32, left - part.len() as u32);
                self.incoming = Incoming::Data { slot, at: at + now, left, ends };
                if left == 0 {
                    self.end_chunk(slot, ends, out)?;
                }
                Ok(left == 0)
            }
            Incoming::Chunk { slot, kind, len, ends } => {
                let want = prefix(kind);
                if !self.head.fill(bytes, want) {
                    return Ok(false);
                }
                let mut first = [0; 12];
                first[..want].copy_from_slice(&self.head.bytes()[..want]);
                self.head.clear();
                self.chunk(slot, kind, len, &first, ends, out)?;
                Ok(true)
            }
            Incoming::Status { left, ends, part } => self.take_status(bytes, left, ends, part),
            Incoming::Skip { slot, left, ends } => {
                let now = bytes.len().min(left as usize);
                *bytes = &bytes[now..];
                let left = left - now as u32;
                self.incoming = Incoming::Skip { slot, left, ends };
                if left == 0 {
                    self.end_chunk(slot, ends, out)?;
                }
                Ok(left == 0)
            }
        }
    }

    #[inline]
    fn begin_answer(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> Result<bool, Ending> {
        // A simple reply is the shorter one; only structured replies are longer.
        if !self.structured {
            let Some(head) = self.head.take::<SIMPLE_BYTES>(bytes) else { return Ok(false) };
            self.simple(&head, out)?;
            return Ok(true);
        }
        if !self.head.fill(bytes, SIMPLE_BYTES) {
            return Ok(false);
        }
        if u32_at(self.head.bytes(), 0) == SIMPLE_MAGIC {
            let head = *self.head.bytes().first_chunk().expect("so many were filled");
            self.head.clear();
            self.simple(&head, out)?;
            return Ok(true);
        }
        if !self.head.fill(bytes, CHUNK_BYTES) {
            return Ok(false);
        }
        let head: [u8; CHUNK_BYTES] = *self.head.bytes().first_chunk().expect("likewise");
        self.head.clear();
        self.chunk_begins(&head, out)?;
        Ok(true)
    }

    /// The slot of a cookie.
    #[inline]
    fn slot_of(&mut self, cookie: u64) -> Result<u16, Ending> {
        let slot = u16::try_from(cookie as u32).ok();
        match slot.filter(|slot| self.ios.find(*slot).is_some_and(|io| io.own.cookie == cookie)) {
            Some(slot) => Ok(slot),
            None => Err(violation("NBD §Reply message: the cookie is that of a request", 8)),
        }
    }

    fn simple(&mut self, head: &[u8; SIMPLE_BYTES], out: &mut Outbox) -> Result<(), Ending> {
        if u32_at(head, 0) != SIMPLE_MAGIC {
            return Err(violation("NBD §Simple reply message: it begins with its magic number", 0));
        }
        let error = u32_at(head, 4);
        let slot = match self.slot_of(u64_at(head, 8)) {
            Err(_) if self.is_query(u64_at(head, 8)) => return self.status_refused(error),
            slot => slot?,
        };
        let asked = &mut self.ios[slot];
        let reads = asked.op == Op::Read;
        if reads && self.structured {
            return Err(violation("NBD §Structured replies: a read is answered by chunks", 0));
        }
        asked.own.error = error;
        if reads && error == 0 {
            let left = asked.own.part;
            asked.own.came.push((0, left));
            self.incoming = Incoming::Data { slot, at: 0, left, ends: true };
        } else {
            self.ended(slot, out);
        }
        Ok(())
    }

    fn chunk_begins(&mut self, head: &[u8; CHUNK_BYTES], out: &mut Outbox) -> Result<(), Ending> {
        if u32_at(head, 0) != CHUNK_MAGIC {
            return Err(violation("NBD §Reply message: it begins with a magic number", 0));
        }
        let (kind, len) = (u16_at(head, 6), u32_at(head, 16));
        let ends = u16_at(head, 4) & chunk::DONE != 0;
        let slot = match self.slot_of(u64_at(head, 8)) {
            Err(_) if self.is_query(u64_at(head, 8)) => return self.status_begins(kind, len, ends),
            slot => slot?,
        };
        let reads = self.ios[slot].op == Op::Read;
        let fits = match kind {
            chunk::NONE => len == 0 && ends,
            chunk::DATA => reads && len > 8,
            chunk::HOLE => reads && len == 12,
            // Any other error is one, too.
            chunk::ERROR.. if kind >= 1 << 15 => (prefix(kind) as u32..=WORDS_MAX).contains(&len),
            _ => false,
        };
        if !fits {
            return Err(violation("NBD §Structured reply chunks: kinds and lengths", 16));
        }
        if kind == chunk::NONE {
            return self.end_chunk(slot, true, out);
        }
        self.incoming = Incoming::Chunk { slot, kind, len, ends };
        Ok(())
    }

    /// The fixed part of a chunk is complete.
    fn chunk(
        &mut self,
        slot: u16,
        kind: u16,
        len: u32,
        first: &[u8; 12],
        ends: bool,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        if kind != chunk::DATA && kind != chunk::HOLE {
            let error = u32_at(first, 0);
            let asked = &mut self.ios[slot];
            asked.own.error = if error == 0 { error::IO } else { error };
            let left = len - prefix(kind) as u32;
            self.incoming = Incoming::Skip { slot, left, ends };
            if left == 0 {
                self.end_chunk(slot, ends, out)?;
            }
            return Ok(());
        }
        let count = if kind == chunk::DATA { len - 8 } else { u32_at(first, 8) };
        let at = self.claim(slot, u64_at(first, 0), count)?;
        if kind == chunk::DATA {
            self.incoming = Incoming::Data { slot, at, left: count, ends };
            return Ok(());
        }
        self.fill(slot, at, count, out)?;
        self.end_chunk(slot, ends, out)
    }

    /// Checks that a chunk's data is new and within the requested range; returns its place there.
    //= NBD §Structured reply chunks: data is within the requested range, and never comes twice.
    fn claim(&mut self, slot: u16, offset: u64, count: u32) -> Result<u32, Ending> {
        let asked = &mut self.ios[slot];
        let begin = asked.offset + u64::from(asked.own.done);
        let at = offset.checked_sub(begin).filter(|at| *at <= u64::from(asked.own.part));
        let at = at.map(|at| at as u32).filter(|at| count != 0 && count <= asked.own.part - at);
        let outside = "NBD §Structured reply chunks: data lie in what was asked for";
        let at = at.ok_or_else(|| violation(outside, CHUNK_BYTES))?;
        let behind = asked.own.came.partition_point(|(begin, _)| *begin < at);
        let before = behind.checked_sub(1).map(|index| asked.own.came[index]);
        let after = asked.own.came.get(behind);
        let overlaps = before.is_some_and(|(_, end)| end > at)
            || after.is_some_and(|(begin, _)| *begin < at + count);
        if overlaps {
            let rule = "NBD §Structured reply chunks: no data come twice";
            return Err(violation(rule, CHUNK_BYTES));
        }
        match before.filter(|(_, end)| *end == at) {
            Some(_) => asked.own.came[behind - 1].1 = at + count,
            None if asked.own.came.len() >= PIECES_MAX => {
                return Err(Ending::Refused("a read comes in too many pieces".to_owned()));
            }
            None => asked.own.came.insert(behind, (at, at + count)),
        }
        Ok(at)
    }

    /// Copies data into the buffer of its I/O, or into one lent now.
    #[inline]
    fn place(&mut self, slot: u16, at: u32, part: &[u8], out: &Outbox) -> Result<(), Ending> {
        self.put(slot, at, part.len(), out, |to| to.copy_from_slice(part))
    }

    fn fill(&mut self, slot: u16, at: u32, count: u32, out: &Outbox) -> Result<(), Ending> {
        self.put(slot, at, count as usize, out, |to| to.fill(0))
    }

    #[inline]
    fn put(
        &mut self,
        slot: u16,
        at: u32,
        count: usize,
        out: &Outbox,
        put: impl FnOnce(&mut [u8]),
    ) -> Result<(), Ending> {
        let read = &mut self.ios[slot];
        let at = (read.own.done + at) as usize;
        let buf = read.buf_for_data(out.pool())?;
        put(&mut buf[at..at + count]);
        Ok(())
    }

    /// A chunk is complete, and the reply, too, if it ends.
    fn end_chunk(&mut self, slot: u16, ends: bool, out: &mut Outbox) -> Result<(), Ending> {
        self.incoming = Incoming::Head;
        if !ends {
            return Ok(());
        }
        let asked = &mut self.ios[slot];
        let came: u32 = asked.own.came.iter().map(|(begin, end)| end - begin).sum();
        if asked.op == Op::Read && asked.own.error == 0 && came != asked.own.part {
            return Err(violation("NBD §Structured replies: a read without an error is whole", 0));
        }
        self.ended(slot, out);
        Ok(())
    }
}

/// Length of a chunk's fixed part.
fn prefix(kind: u16) -> usize {
    match kind {
        chunk::DATA => 8,
        chunk::HOLE => 12,
        chunk::ERROR | chunk::ERROR_OFFSET => 6,
        _ => 4,
    }
}
