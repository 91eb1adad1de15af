//! Requests of a target to volumes, and its flow control: a peer that does not read occupies at
//! most [`BACKLOG_BYTES`].

use std::collections::VecDeque;

use block::{Count, Done, Io, Nanos, Pool, Tag};

use crate::{Outbox, Request, UnitId};

use super::later;

/// Maximum number of bytes queued or being read; beyond it, commands that send more wait.
const BACKLOG_BYTES: usize = 16 << 20;

/// Commands that wait for a buffer are retried at this interval, and on events of the connection.
const RETRY_INTERVAL: Nanos = Nanos::from_millis(1);

/// I/Os that one command has with its volume at a time.
pub(crate) const IOS_PER_COMMAND: u16 = 4;

/// Unit of the offset by which the I/Os of a command are distinguished: the smallest buffer.
const PART_BYTES: u32 = Pool::SMALL_BYTES as u32;

/// Requests to volumes, and the commands that wait for memory.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// For the caller to drain.
    pub(crate) requests: VecDeque<Request>,
    /// Slots of commands that wait for a buffer or for room in the outbox.
    pub(crate) starving: VecDeque<u16>,
    /// Units whose writes get no R2Ts now.
    withheld: Vec<UnitId>,
    /// Parts of reads that completed before their predecessors.
    held: Vec<Done>,
    /// Bytes of reads in flight or held.
    reading_bytes: usize,
}

impl Backlog {
    /// Requests an I/O of its volume.
    #[inline(always)]
    pub(crate) fn request(&mut self, unit: UnitId, io: Io) {
        self.requests.push_back(Request { unit, io });
    }

    /// Counts bytes of a read that is in flight from now on.
    #[inline(always)]
    pub(crate) fn begin_read(&mut self, len: u32) {
        self.reading_bytes += len as usize;
    }

    /// Stops counting them.
    #[inline(always)]
    pub(crate) fn end_read(&mut self, len: u32) {
        self.reading_bytes.lower(len as usize);
    }

    /// Returns whether a read is in flight or held.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading_bytes != 0
    }

    /// Returns whether a part of a read of `len` bytes, with headers of `header_bytes`, may start
    /// now: there will be room for its data, even with the other reads in flight.
    #[inline(always)]
    pub(crate) fn may_read(&self, len: usize, header_bytes: usize, out: &Outbox) -> bool {
        // Long data goes by reference, or in parts as short as that.
        let longest = Outbox::BY_REFERENCE_BYTES;
        let rows = len.min(longest) + self.reading_bytes.min(longest);
        out.len_bytes() + self.reading_bytes < BACKLOG_BYTES && out.has_room(rows + header_bytes)
    }

    /// Time of the next retry of waiting commands, which were last retried at `at`.
    pub(crate) fn retry_at(&self, at: Nanos) -> Option<Nanos> {
        (!self.starving.is_empty()).then(|| later(at, RETRY_INTERVAL))
    }

    /// Withholds R2Ts of writes to these units until the next call.
    pub(crate) fn withhold(&mut self, units: &[UnitId]) {
        self.withheld.clear();
        self.withheld.extend_from_slice(units);
    }

    /// Whether R2Ts of writes to this unit are withheld.
    pub(crate) fn is_withheld(&self, unit: UnitId) -> bool {
        self.withheld.contains(&unit)
    }

    /// Holds a part of a read until its predecessors are sent.
    #[cold]
    pub(crate) fn hold(&mut self, done: Done) {
        self.held.push(done);
    }

    /// Returns whether a part of any read is held.
    #[inline(always)]
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes a held part that fits.
    pub(crate) fn take_held(&mut self, fits: impl Fn(&Done) -> bool) -> Option<Done> {
        let at = self.held.iter().position(fits)?;
        Some(self.held.swap_remove(at))
    }

    /// The connection is lost: buffers go back to `pool`.
    pub(crate) fn abandon(&mut self, pool: &Pool) {
        let requested = self.requests.drain(..).filter_map(|request| request.io.buf);
        let held = self.held.drain(..).filter_map(|done| done.buf);
        requested.chain(held).for_each(|buf| pool.give(buf));
        self.starving.clear();
    }
}

/// Whether the outbox is so full that only short answers are to be added.
#[inline(always)]
pub(crate) fn is_full(out: &Outbox) -> bool {
    out.len_bytes() >= BACKLOG_BYTES
}

/// Whether the outbox has room for `len` bytes of a volume in memory, in parts as long as the
/// longest buffer, that go by reference.
pub(crate) fn has_room_by_reference(len: usize, header_bytes: usize, out: &Outbox) -> bool {
    match len.div_ceil(Pool::LARGE_BYTES) {
        // Data by reference ends the row that has its header.
        1 => out.has_room(Outbox::BY_REFERENCE_BYTES + Outbox::ENDED_ROW_BYTES + header_bytes),
        // The last part may be so short that it is copied.
        parts => out.has_headers(parts + 2),
    }
}

/// The tag of an I/O: the slot of its command, and which part of the command it is.
#[inline(always)]
pub(crate) fn part_tag(slot: u16, asked: u32) -> Tag {
    Tag(u64::from(asked / PART_BYTES) << 16 | u64::from(slot))
}

/// The slot that a tag names.
#[inline(always)]
pub(crate) fn slot_of(tag: Tag) -> u16 {
    tag.0 as u16
}

/// Returns the offset, in the data of its command, of the part that a tag names.
#[inline(always)]
pub(crate) fn part_begin(tag: Tag) -> u32 {
    u32::from((tag.0 >> 16) as u16) * PART_BYTES
}
