//! The I/Os that an initiator has in flight.

use std::ops::{Index, IndexMut};

use block::{Buf, Cause, Done, Fault, Io, Nanos, Op, Pool, Tag};

use crate::endpoint::out_of_memory;
use crate::{Ending, Unanswered};

use super::{Age, IoTimeout, Slots};

/// An I/O in flight, with the protocol's part.
#[derive(Debug)]
pub(crate) struct Outstanding<P> {
    pub(crate) op: Op,
    pub(crate) fua: bool,
    /// Age of the command in flight; [`Age::NONE`] in a free slot.
    pub(crate) age: Age,
    pub(crate) tag: Tag,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) buf: Option<Buf>,
    /// Protocol's part.
    pub(crate) own: P,
}

/// The I/Os in flight on a connection of an initiator: a slot each, and their time-outs.
#[derive(Debug)]
pub(crate) struct IoTable<P> {
    slots: Slots<Outstanding<P>>,
    timeout: IoTimeout,
    /// Changes without FUA that succeeded.
    pub(crate) changes: u64,
    /// Completed I/Os, for the caller to drain.
    pub(crate) done: Vec<Done>,
}

impl<P: Default> IoTable<P> {
    /// Room for `max` I/Os, of which each may take `io_timeout`; zero: for ever.
    pub(crate) fn new(max: u16, io_timeout: Nanos, now: Nanos) -> IoTable<P> {
        IoTable {
            slots: Slots::preallocated(max),
            timeout: IoTimeout::new(io_timeout, now),
            changes: 0,
            done: Vec::with_capacity(usize::from(max)),
        }
    }

    /// Maximum number of I/Os.
    pub(crate) fn max(&self) -> usize {
        self.slots.max()
    }

    /// Number of I/Os that may be added now.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.slots.room()
    }

    /// Whether no I/O is in flight.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.used() == 0
    }

    /// Takes a slot, if one is free.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<u16> {
        self.slots.take()
    }

    /// Begins an I/O in a slot that was taken for it.
    #[inline(always)]
    pub(crate) fn begin(&mut self, slot: u16, io: Io) {
        let Io { tag, op, fua, len, offset, buf } = io;
        let taken = &mut self.slots[slot];
        taken.age = Age::NEW;
        taken.op = op;
        taken.fua = fua;
        taken.tag = tag;
        taken.offset = offset;
        taken.len = len;
        taken.buf = buf;
    }

    /// The I/O in that slot, in flight or not.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut Outstanding<P>> {
        self.slots.get_mut(slot)
    }

    /// The I/O in that slot, if there is one in flight.
    #[inline(always)]
    pub(crate) fn find(&mut self, slot: u16) -> Option<&mut Outstanding<P>> {
        self.slots.get_mut(slot).filter(|io| io.age.is_some())
    }

    /// Completes an I/O.
    #[inline(always)]
    pub(crate) fn complete(&mut self, slot: u16, result: Result<(), Fault>, cause: Cause) {
        let io = &mut self.slots[slot];
        debug_assert!(io.age.is_some(), "an I/O is completed once");
        io.age = Age::NONE;
        let changes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes) && !io.fua;
        self.changes += u64::from(changes && result.is_ok());
        let done = Done { tag: io.tag, result, cause, buf: io.buf.take() };
        self.slots.release(slot);
        self.done.push(done);
    }

    /// Completes an I/O that never had a slot.
    #[cold]
    pub(crate) fn refuse(&mut self, io: Io, result: Result<(), Fault>) {
        self.done.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
    }

    /// Time at which [`check_timeouts`](Self::check_timeouts) is due.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        self.timeout.due()
    }

    /// Whether the target has left an I/O unanswered for too long.
    #[cold]
    pub(crate) fn check_timeouts(&mut self, now: Nanos) -> Result<(), Ending> {
        if !self.timeout.begin_scan(now) {
            return Ok(());
        }
        let (mut late, limit) = (None, self.timeout.limit());
        for (_, io) in self.slots.iter_mut().filter(|(_, io)| io.age.is_some()) {
            io.age.grow();
            if self.timeout.is_late(io.age) {
                let (op, offset, len) = (io.op, io.offset, io.len);
                late.get_or_insert(Unanswered { op, offset, len, limit });
            }
        }
        late.map_or(Ok(()), |late| Err(Ending::Unanswered(late)))
    }

    /// Returns the changes that the target has and has not answered: offset and length in bytes,
    /// which `part` returns for each.
    #[cold]
    pub(crate) fn in_doubt(
        &self,
        part: impl Fn(&Outstanding<P>) -> Option<(u64, u64)>,
    ) -> Vec<(u64, u64)> {
        let changes = self.slots.iter().map(|(_, io)| io).filter(|io| {
            let changes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes);
            io.age.is_some() && changes
        });
        changes.filter_map(part).filter(|(_, len)| *len != 0).collect()
    }

    /// The connection is lost, and with it every I/O in flight.
    pub(crate) fn fail_all(&mut self) {
        for slot in 0..self.slots.max() as u16 {
            let Some(age) = self.find(slot).map(|io| io.age) else { continue };
            let late = self.timeout.is_late(age);
            let fault = if late { Fault::Unanswered } else { Fault::Disconnected };
            self.complete(slot, Err(fault), Cause::NONE);
        }
    }
}

impl<P> Outstanding<P> {
    /// The buffer of a read, or one that is lent now.
    #[inline(always)]
    pub(crate) fn buf_for_data(&mut self, pool: &Pool) -> Result<&mut Buf, Ending> {
        if self.buf.is_none() {
            self.buf = pool.take_beyond(self.len as usize);
        }
        self.buf.as_mut().ok_or_else(out_of_memory)
    }
}

impl<P: Default> Default for Outstanding<P> {
    fn default() -> Outstanding<P> {
        Outstanding {
            op: Op::Flush,
            fua: false,
            age: Age::NONE,
            tag: Tag(0),
            offset: 0,
            len: 0,
            buf: None,
            own: P::default(),
        }
    }
}

impl<P> Index<u16> for IoTable<P> {
    type Output = Outstanding<P>;
    #[inline(always)]
    fn index(&self, slot: u16) -> &Outstanding<P> {
        &self.slots[slot]
    }
}

impl<P> IndexMut<u16> for IoTable<P> {
    #[inline(always)]
    fn index_mut(&mut self, slot: u16) -> &mut Outstanding<P> {
        &mut self.slots[slot]
    }
}

/// Whether an I/O comes without the buffer that it needs. Short reads need none: one is lent when
/// their data comes.
#[inline(always)]
pub(crate) fn lacks_buf(io: &Io) -> bool {
    io.buf.is_none()
        && match io.op {
            Op::Read => io.len as usize > Pool::LARGE_BYTES,
            Op::Write => io.len != 0,
            Op::Flush | Op::Trim | Op::WriteZeroes => false,
        }
}
