//! One core's way to several volumes as one. Only the lanes with I/Os in flight are looked after,
//! or that are about to open or to close.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    Batch, Buf, Cause, Connection, Count, Done, Fault, Geometry, Immediate, Io, Lane, Nanos, Op,
    Pool, Tag,
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
    /// All parts are memory: I/Os are done within the call.
    immediate: bool,
    pub(super) batch: Batch,
    /// The lanes that have or want I/Os, open or close.
    busy: Vec<usize>,
    slots: Slots,
    done: Vec<Done>,
    /// Answers to I/Os that reached no lane, or were done within the call.
    pub(super) ready: Vec<Done>,
    /// All lanes are to close.
    closing: bool,
    /// Where buffers of pieces come from, if I/Os may cross from one stripe into the next.
    pool: Option<Pool>,
    /// Those that do.
    wholes: Vec<Option<Whole>>,
}

/// What one of the lanes has to do.
struct Part {
    waiting: VecDeque<Io>,
    under_way: u32,
    /// Writes, trims and zeroings among those that wait or are in flight.
    changes: u32,
    /// It is among those that are looked after.
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
        // Of volumes one behind the other a shorter one has less than its share.
        let share = geometry.bytes() / lanes.len().max(1) as u64;
        let has_all = |lane: &mut Box<dyn Lane>| {
            lane.geometry().bytes() >= share && lane.immediate().is_some()
        };
        let immediate = lanes.iter_mut().all(has_all);
        // All are looked after until they are open.
        let part =
            || Part { waiting: VecDeque::with_capacity(64), under_way: 0, changes: 0, busy: true };
        StripedLane {
            parts: lanes.iter().map(|_| part()).collect(),
            busy: (0..lanes.len()).collect(),
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

    /// The lane of an I/O within a stripe, and its offset on the lane's volume.
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

    /// Whether I/Os may cross from one stripe into the next.
    pub(super) fn may_cross(&self) -> bool {
        self.pool.is_some()
    }

    /// Whether an I/O is to be split.
    fn crosses(&self, io: &Io) -> bool {
        let inside = io.offset % self.stripe_bytes;
        self.may_cross() && inside + u64::from(io.len) > self.stripe_bytes
    }

    /// Begins an I/O in pieces.
    fn split(&mut self, io: Io) {
        let Io { tag, op, fua, len, offset, buf } = io;
        let layout = self.layout();
        let pieces: Vec<Piece> = layout.pieces(offset, len).collect();
        let bufs: Option<Vec<Option<Buf>>> =
            pieces.iter().map(|piece| self.piece_buf(op, *piece)).collect();
        let Some(bufs) = bufs else {
            // The system has no memory.
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

    /// A buffer for a piece, if it moves data; `None` if there is no memory.
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

    /// Takes the answer of a piece; the answer of the whole, if it was the last.
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

    /// Gives a part an I/O of its own, under the name of its slot.
    fn give(&mut self, index: usize, io: Io, slot: Slot) {
        self.look_after(index);
        let tag = Tag(self.slots.enter(slot).into());
        self.parts[index].waiting.push_back(Io { tag, ..io });
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
            // What was submitted before it is not acknowledged yet and need not be covered, but
            // whoever submits both at once wants that.
            if self.written[index].is_dirty() || self.parts[index].changes > 0 {
                left += 1;
                self.flush_part(index, io, whole);
            }
        }
        if left == 0 {
            // Nothing was written: the first one answers for all, in case that none can.
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

    /// What an answer of a part's lane means for the owner of this one.
    fn answer(&mut self, index: usize, one: Done) -> Option<Done> {
        match self.slots.leave(one.tag) {
            Slot::Read(tag) => Some(Done { tag, ..one }),
            Slot::Change { tag, durable } => {
                let part = &mut self.parts[index];
                part.changes.lower(1);
                // One that failed may have been done in part.
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
                Err(fault) => {
                    self.ready.push(Done {
                        tag: io.tag,
                        result: Err(fault),
                        cause: Cause::NONE,
                        buf: io.buf,
                    });
                }
            }
        }
        for index in &self.busy {
            let part = &mut self.parts[*index];
            let before = part.waiting.len();
            self.lanes[*index].submit(now, &mut part.waiting);
            part.under_way += (before - part.waiting.len()) as u32;
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.ready);
        let mut at = 0;
        while let Some(index) = self.busy.get(at).copied() {
            let mut answers = std::mem::take(&mut self.done);
            self.lanes[index].poll(now, &mut answers);
            let part = &mut self.parts[index];
            part.under_way.lower(answers.len() as u32);
            part.busy = part.under_way > 0
                || !part.waiting.is_empty()
                || self.closing
                || !self.lanes[index].is_open();
            match part.busy {
                true => at += 1,
                false => drop(self.busy.swap_remove(at)),
            }
            done.extend(answers.drain(..).filter_map(|one| self.answer(index, one)));
            self.done = answers;
        }
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        self.busy.iter().filter_map(|index| self.lanes[*index].wake()).min()
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

    fn close(&mut self, now: Nanos) -> bool {
        self.closing = true;
        (0..self.lanes.len()).for_each(|index| self.look_after(index));
        let mut closed = true;
        self.lanes.iter_mut().for_each(|lane| closed &= lane.close(now));
        closed
    }
}
