//! Block status: which parts of the export have storage, by the context `base:allocation`.
//!
//! The descriptors are added up as they come, so a reply of any length needs no memory.

use block::Allocation;

use crate::{Ending, Outbox};

use super::super::wire::{Asked, allocation, chunk, command, u32_at};
use super::answer::{Incoming, WORDS_MAX};
use super::{NbdInitiator, violation};

/// A question and the answer so far.
#[derive(Debug)]
pub(super) struct Query {
    cookie: u64,
    /// Bytes of the queried range.
    len: u32,
    sum: Allocation,
    /// A chunk with descriptors came.
    came: bool,
    /// A chunk with an error came.
    failed: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Refused,
    Answered,
    Taken,
}

/// The next part of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusPart {
    /// The number of the context.
    Context,
    /// Descriptors.
    Descriptors,
    /// An error with its words.
    Error,
}

/// Lower half of these commands' cookies, which no slot has.
const QUERY: u64 = 0xffff_fffe;
/// Longest part of an export in one question.
const ASKED_MAX_BYTES: u64 = 1 << 31;
/// Longest chunk that is accepted.
const CHUNK_MAX_BYTES: u32 = 64 << 20;

impl NbdInitiator {
    //= NBD §NBD_CMD_BLOCK_STATUS: only with a context that was selected.
    pub(super) fn query_allocation(&mut self, offset: u64, len: u64, out: &mut Outbox) -> bool {
        let waits = self.query.as_ref().is_some_and(|query| query.state == State::Open);
        let end = offset.checked_add(len).filter(|end| *end <= self.geometry.bytes());
        if self.context.is_none() || waits || len == 0 || end.is_none() {
            return false;
        }
        let len = len.min(ASKED_MAX_BYTES) as u32;
        self.turn = self.turn.wrapping_add(1);
        let cookie = u64::from(self.turn) << 32 | QUERY;
        let (sum, state) = (Allocation::default(), State::Open);
        let query = Query { cookie, len, sum, came: false, failed: false, state };
        self.query = Some(Box::new(query));
        let asked = Asked { flags: 0, kind: command::BLOCK_STATUS, cookie, offset, len };
        out.bytes(&asked.build());
        true
    }

    pub(super) fn take_answer(&mut self) -> Option<Option<Allocation>> {
        let query = self.query.as_mut()?;
        let answer = match query.state {
            State::Open | State::Taken => return None,
            State::Refused => None,
            State::Answered => Some(query.sum),
        };
        query.state = State::Taken;
        Some(answer)
    }

    /// Whether a cookie is that of the question that waits for its answer.
    #[cold]
    pub(super) fn is_query(&self, cookie: u64) -> bool {
        let query = self.query.as_ref().filter(|query| query.state == State::Open);
        query.is_some_and(|query| query.cookie == cookie)
    }

    /// A simple reply.
    #[cold]
    pub(super) fn status_refused(&mut self, error: u32) -> Result<(), Ending> {
        if error == 0 {
            return Err(violation("NBD §NBD_CMD_BLOCK_STATUS: answered by chunks", 0));
        }
        self.end_query(State::Refused);
        Ok(())
    }

    /// The header of a chunk.
    #[cold]
    pub(super) fn status_begins(&mut self, kind: u16, len: u32, ends: bool) -> Result<(), Ending> {
        let Some(query) = &mut self.query else { return Ok(()) };
        let descriptor = allocation::DESCRIPTOR_BYTES as u32;
        //= NBD §NBD_REPLY_TYPE_BLOCK_STATUS: one chunk for each context.
        let fits = match kind {
            chunk::NONE => len == 0 && ends,
            chunk::BLOCK_STATUS => {
                let whole = len > 4 && (len - 4).is_multiple_of(descriptor);
                whole && len <= CHUNK_MAX_BYTES && !std::mem::replace(&mut query.came, true)
            }
            chunk::ERROR.. if kind >= 1 << 15 => (4..=WORDS_MAX).contains(&len),
            _ => false,
        };
        if !fits {
            return Err(violation("NBD §Structured reply chunks: kinds and lengths", 16));
        }
        let part = match kind {
            chunk::NONE => return self.end_status(true),
            chunk::BLOCK_STATUS => StatusPart::Context,
            _ => {
                query.failed = true;
                StatusPart::Error
            }
        };
        self.incoming = Incoming::Status { left: len, ends, part };
        Ok(())
    }

    /// Takes the next part of a chunk; true while there may be more.
    #[cold]
    pub(super) fn take_status(
        &mut self,
        bytes: &mut &[u8],
        left: u32,
        ends: bool,
        part: StatusPart,
    ) -> Result<bool, Ending> {
        let now = match part {
            StatusPart::Context => {
                let Some(number) = self.head.take::<4>(bytes) else { return Ok(false) };
                if Some(u32::from_be_bytes(number)) != self.context {
                    let rule = "NBD §NBD_REPLY_TYPE_BLOCK_STATUS: a context that was selected";
                    return Err(violation(rule, 20));
                }
                4
            }
            StatusPart::Descriptors => {
                let Some(descriptor) = self.head.take::<{ allocation::DESCRIPTOR_BYTES }>(bytes)
                else {
                    return Ok(false);
                };
                self.descriptor(u32_at(&descriptor, 0), u32_at(&descriptor, 4))?;
                descriptor.len() as u32
            }
            StatusPart::Error => {
                let now = bytes.len().min(left as usize);
                *bytes = &bytes[now..];
                now as u32
            }
        };
        let part = if part == StatusPart::Context { StatusPart::Descriptors } else { part };
        let left = left - now;
        self.incoming = Incoming::Status { left, ends, part };
        if left == 0 {
            self.end_status(ends)?;
        }
        Ok(left == 0 || part == StatusPart::Descriptors)
    }

    /// Adds an extent.
    //= NBD §NBD_REPLY_TYPE_BLOCK_STATUS: no extent is empty, and only the last one may reach
    // beyond the request.
    fn descriptor(&mut self, len: u32, flags: u32) -> Result<(), Ending> {
        let Some(query) = &mut self.query else { return Ok(()) };
        let left = u64::from(query.len) - query.sum.bytes;
        if len == 0 || left == 0 {
            let rule = "NBD §NBD_REPLY_TYPE_BLOCK_STATUS: extents are part of the request";
            return Err(violation(rule, 24));
        }
        let bytes = u64::from(len).min(left);
        let is_hole = flags & allocation::HOLE != 0;
        let is_zero = !is_hole && flags & allocation::ZERO != 0;
        let of = |is: bool| if is { bytes } else { 0 };
        query.sum.add(Allocation { bytes, holes: of(is_hole), zeroes: of(is_zero) });
        Ok(())
    }

    /// A chunk is complete, and the reply, too, if it ends.
    fn end_status(&mut self, ends: bool) -> Result<(), Ending> {
        self.incoming = Incoming::Head;
        let Some(query) = &self.query else { return Ok(()) };
        if !ends {
            return Ok(());
        }
        match (query.failed, query.came) {
            (true, _) => self.end_query(State::Refused),
            (_, true) => self.end_query(State::Answered),
            (_, false) => {
                let rule = "NBD §NBD_CMD_BLOCK_STATUS: a reply without an error has extents";
                return Err(violation(rule, 0));
            }
        }
        Ok(())
    }

    fn end_query(&mut self, state: State) {
        if let Some(query) = &mut self.query {
            query.state = state;
        }
    }
}
