//! One core's lane to a striped volume. Only parts with I/Os in flight, or about to open or close,
//! are polled in each turn; idle ones at most once a second, if they have timers: a connection
//! whose target sends keep-alive requests.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    Batch, Buf, Cause, Connection, Count, Done, Fault, Geometry, Immediate, Io, Lane, Nanos, Op,
    Pool, Tag, idle_look,
};

use super::slots::{Flush, Slot, Slots, Told};
use super::split::{Layout, Piece, Whole};
use super::written::Written;

pub(super) struct StripedLane {
    pub(super) lanes: Vec<Box<dyn Lane>>,
    parts: Vec<Part>,
    written: Arc<[Written]>,
    pub(super) stripe_bytes: u64,
    pub(super) geometry: Geometry,
    /// All parts are memory: I/Os are executed within the call.
    immediate: bool,
    pub(super) batch: Batch,
    /// Parts that have or need I/Os, open or close.
    busy: Vec<usize>,
    /// Time of the next poll of the idle parts.
    look: Option<Nanos>,
    slots: Slots,
    done: Vec<Done>,
    /// Completions of I/Os that reached no part, or were executed within the call.
    pub(super) ready: Vec<Done>,
    /// Whether all lanes are to close.
    closing: bool,
    /// Pool of the buffers of split I/Os; `None` if I/Os must not cross stripe boundaries.
    pool: Option<Pool>,
    /// I/Os that were split.
    wholes: Vec<Option<Whole>>,
}

/// The state of one part's lane.
struct Part {
    waiting: VecDeque<Io>,
    in_flight: u32,
    /// Writes, trims and zeroings queued or in flight.
    changes: u32,
    /// The part is being polled.
    busy: bool,
}

impl StripedLane {
    pub(super) fn new(
        lanes: Vec<Box<dyn Lane>>,
        stripe_bytes: u64,
        geometry: Geometry,
        written: Arc<[Written]>,
        pool: Option<Pool>,
    ) -> StripedLane {
        let mut lanes = lanes;
        // A concatenated volume may be shorter than its share.
        let share = geometry.bytes() / lanes.len().max(1) as u64;
        let has_all = |lane: &mut Box<dyn Lane>| {
            lane.geometry().bytes() >= share && lane.immediate().is_some()
        };
        let immediate = lanes.iter_mut().all(has_all);
        // All parts are polled until they are open.
        let part =
            || Part { waiting: VecDeque::with_capacity(64), in_flight: 0, changes: 0, busy: true };
        StripedLane {
            parts: lanes.iter().map(|_| part()).collect(),
            busy: (0..lanes.len()).collect(),
            look: None,
            slots: Slots::new(),
            done: Vec::with_capacity(1024),
            immediate,
            batch: Batch::default(),
            ready: Vec::new(),
            closing: false,
            pool,
            wholes: Vec::new(),
            lanes,
            written,
            stripe_bytes,
            geometry,
        }
    }

    /// Part of an I/O within a stripe, and its offset on the part.
    pub(super) fn place(&self, offset: u64, len: u32) -> Result<(usize, u64), Fault> {
        let (stripe, inside) = (offset / self.stripe_bytes, offset % self.stripe_bytes);
        if inside + u64::from(len) > self.stripe_bytes {
            return Err(Fault::OutOfRange);
        }
        let count = self.lanes.len() as u64;
        Ok(((stripe % count) as usize, stripe / count * self.stripe_bytes + inside))
    }

    fn layout(&self) -> Layout {
        Layout { stripe_bytes: self.stripe_bytes, parts: self.lanes.len() as u64 }
    }

    /// Whether I/Os may cross stripe boundaries.
    pub(super) fn may_cross(&self) -> bool {
        self.pool.is_some()
    }

    /// Whether an I/O must be split.
    fn crosses(&self, io: &Io) -> bool {
        let inside = io.offset % self.stripe_bytes;
        self.may_cross() && inside + u64::from(io.len) > self.stripe_bytes
    }

    /// Splits an I/O.
    fn split(&mut self, io: Io) {
        let Io { tag, op, fua, len, offset, buf } = io;
        let layout = self.layout();
        let pieces: Vec<Piece> = layout.pieces(offset, len).collect();
        let bufs: Option<Vec<Option<Buf>>> =
            pieces.iter().map(|piece| self.piece_buf(op, *piece)).collect();
        let Some(bufs) = bufs else {
            // Out of memory.
            let result = Err(Fault::Aborted);
            return self.ready.push(Done { tag, result, cause: Cause::NONE, buf });
        };
        let changes = matches!(op, Op::Write | Op::Trim | Op::WriteZeroes);
        let whole = self.enter_whole(Whole {
            tag,
            op,
            offset,
            len,
            buf,
            left: pieces.len() as u32,
            told: Told::GOOD,
        });
        for (piece, mut buf) in pieces.into_iter().zip(bufs) {
            let owners = self.wholes[whole as usize].as_ref().and_then(|whole| whole.buf.as_ref());
            if let (Op::Write, Some(to), Some(from)) = (op, &mut buf, owners) {
                layout.gather(offset, len, piece, from, to);
            }
            let slot = Slot::Piece { whole, changes, durable: op == Op::Write && fua };
            self.parts[piece.part].changes += u32::from(changes);
            let (offset, len) = (piece.offset, piece.len as u32);
            self.give(piece.part, Io { tag, op, fua, len, offset, buf }, slot);
        }
    }

    /// A buffer for a piece that moves data; `None` if out of memory.
    fn piece_buf(&self, op: Op, piece: Piece) -> Option<Option<Buf>> {
        if !matches!(op, Op::Read | Op::Write) {
            return Some(None);
        }
        let pool = self.pool.as_ref()?;
        pool.take_beyond(piece.len as usize).map(Some)
    }

    fn enter_whole(&mut self, whole: Whole) -> u32 {
        let free = self.wholes.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.wholes.push(None);
            self.wholes.len() - 1
        });
        self.wholes[index] = Some(whole);
        index as u32
    }

    /// Handles the completion of a piece; returns that of the whole I/O after the last piece.
    fn piece_answered(&mut self, part: usize, number: u32, one: Done) -> Option<Done> {
        let layout = self.layout();
        let place = &mut self.wholes[number as usize];
        let whole = place.as_mut().expect("a piece has its whole");
        whole.answered(layout, part, (one.result, one.cause), one.buf.as_ref());
        if let (Some(buf), Some(pool)) = (one.buf, &self.pool) {
            pool.give(buf);
        }
        if whole.left > 0 {
            return None;
        }
        let Whole { tag, buf, told: Told { result, cause }, .. } = place.take()?;
        Some(Done { tag, result, cause, buf })
    }

    fn look_after(&mut self, index: usize) {
        if !std::mem::replace(&mut self.parts[index].busy, true) {
            self.busy.push(index);
        }
    }

    /// Queues an I/O for a part, tagged with its slot.
    fn give(&mut self, index: usize, io: Io, slot: Slot) {
        self.look_after(index);
        let tag = Tag(self.slots.enter(slot).into());
        self.parts[index].waiting.push_back(Io { tag, ..io });
    }

    /// Polls parts without I/Os.
    #[cold]
    fn look_after_idle(&mut self, now: Nanos) {
        self.look = None;
        let idle = self.parts.iter().zip(&mut self.lanes).filter(|(part, _)| !part.busy);
        for (_, lane) in idle {
            lane.poll(now, &mut self.done);
            lane.submit(now, &mut VecDeque::new());
            self.look = self.look.into_iter().chain(idle_look(&**lane, now)).min();
        }
    }

    fn begin(&mut self, index: usize, io: Io) {
        let tag = io.tag;
        let slot = match io.op {
            Op::Read | Op::Flush => Slot::Read(tag),
            Op::Write => Slot::Change { tag, durable: io.fua },
            Op::Trim | Op::WriteZeroes => Slot::Change { tag, durable: false },
        };
        self.parts[index].changes += u32::from(matches!(slot, Slot::Change { .. }));
        self.give(index, io, slot);
    }

    fn flush(&mut self, io: &Io) {
        let flush = Flush { tag: io.tag, left: 0, told: Told::GOOD };
        let whole = self.slots.enter(Slot::Flush(flush));
        let mut left = 0;
        for index in 0..self.lanes.len() {
            // A flush need not cover I/Os in flight, but a caller that submits a write and a flush
            // together expects it.
            if self.written[index].is_dirty() || self.parts[index].changes > 0 {
                left += 1;
                self.flush_part(index, io, whole);
            }
        }
        if left == 0 {
            // Nothing is dirty: the first part answers, as a flush may be unsupported.
            left = 1;
            self.flush_part(0, io, whole);
        }
        self.slots.flush(whole).left = left;
    }

    fn flush_part(&mut self, index: usize, io: &Io, whole: u32) {
        let number = self.written[index].flush_begins();
        let io = Io { buf: None, ..*io };
        self.give(index, io, Slot::Share { whole, number });
    }

    /// Translates a completion of a part's lane; `None` if the whole I/O is not complete.
    fn answer(&mut self, index: usize, one: Done) -> Option<Done> {
        match self.slots.leave(one.tag) {
            Slot::Read(tag) => Some(Done { tag, ..one }),
            Slot::Change { tag, durable } => {
                let part = &mut self.parts[index];
                part.changes.lower(1);
                // A failed write may have been done in part.
                if !durable || one.result.is_err() {
                    self.written[index].write_done();
                }
                Some(Done { tag, ..one })
            }
            Slot::Share { whole, number } => {
                if one.result.is_ok() {
                    self.written[index].flush_done(number);
                }
                let flush = self.slots.flush(whole);
                flush.answered(one.result, one.cause);
                let Flush { tag, left, told: Told { result, cause } } = *flush;
                (left == 0).then(|| {
                    self.slots.leave(Tag(whole.into()));
                    Done { tag, result, cause, buf: None }
                })
            }
            Slot::Piece { whole, changes, durable } => {
                if changes {
                    self.parts[index].changes.lower(1);
                    if !durable || one.result.is_err() {
                        self.written[index].write_done();
                    }
                }
                self.piece_answered(index, whole, one)
            }
            Slot::Flush(_) => unreachable!("no part knows a flush of the whole"),
        }
    }
}

impl Lane for StripedLane {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if self.immediate {
            self.execute_all(ios);
        }
        while let Some(io) = ios.pop_front() {
            if io.op == Op::Flush {
                self.flush(&io);
                continue;
            }
            let checked = self.geometry.check(&io);
            if checked.is_ok() && self.crosses(&io) {
                self.split(io);
                continue;
            }
            match checked.and_then(|()| self.place(io.offset, io.len)) {
                Ok((index, offset)) => self.begin(index, Io { offset, ..io }),
                Err(fault) => self.ready.push(io.failed(fault)),
            }
        }
        for index in &self.busy {
            let part = &mut self.parts[*index];
            let before = part.waiting.len();
            self.lanes[*index].submit(now, &mut part.waiting);
            part.in_flight += (before - part.waiting.len()) as u32;
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.ready);
        if self.look.is_some_and(|look| look <= now) {
            self.look_after_idle(now);
        }
        let mut at = 0;
        while let Some(index) = self.busy.get(at).copied() {
            let mut answers = std::mem::take(&mut self.done);
            self.lanes[index].poll(now, &mut answers);
            let part = &mut self.parts[index];
            part.in_flight.lower(answers.len() as u32);
            part.busy = part.in_flight > 0
                || !part.waiting.is_empty()
                || self.closing
                || !self.lanes[index].is_open();
            if part.busy {
                at += 1;
            } else {
                self.busy.swap_remove(at);
                self.look = self.look.or_else(|| idle_look(&*self.lanes[index], now));
            }
            done.extend(answers.drain(..).filter_map(|one| self.answer(index, one)));
            self.done = answers;
        }
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        self.busy.iter().filter_map(|index| self.lanes[*index].wake()).chain(self.look).min()
    }

    fn immediate(&mut self) -> Option<&mut dyn Immediate> {
        if self.immediate { Some(self) } else { None }
    }

    fn is_open(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_open())
    }

    fn broken(&self) -> Option<&str> {
        self.lanes.iter().find_map(|lane| lane.broken())
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        self.lanes.iter().find_map(|lane| lane.words_of(cause))
    }

    fn connection(&self, now: Nanos) -> Connection {
        let each = self.lanes.iter().map(|lane| lane.connection(now));
        each.fold(Connection::default(), |sum, one| sum + one)
    }

    fn in_doubt_until(&self) -> Option<Nanos> {
        self.lanes.iter().filter_map(|lane| lane.in_doubt_until()).max()
    }

    fn doubts(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.doubts()).sum()
    }

    fn forget_losses(&self) -> bool {
        self.lanes.iter().filter(|lane| lane.forget_losses()).count() > 0
    }

    fn looks(&self) {
        self.lanes.iter().for_each(|lane| lane.looks());
    }

    fn close(&mut self, now: Nanos) -> bool {
        self.closing = true;
        (0..self.lanes.len()).for_each(|index| self.look_after(index));
        let mut closed = true;
        self.lanes.iter_mut().for_each(|lane| closed &= lane.close(now));
        closed
    }
}
