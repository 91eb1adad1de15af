//! One core's way to several volumes as one. Only the lanes with I/Os under way are looked after,
//! or that are about to open or to close.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Cause, Connection, Count, Done, Fault, Geometry, Io, Lane, Nanos, Op, Tag};

use super::slots::{Flush, Slot, Slots};
use super::written::Written;

pub(super) struct StripedLane {
    lanes: Vec<Box<dyn Lane>>,
    parts: Vec<Part>,
    written: Arc<[Written]>,
    stripe_bytes: u64,
    geometry: Geometry,
    /// The lanes that have or want I/Os, open or close.
    busy: Vec<usize>,
    slots: Slots,
    done: Vec<Done>,
    /// Answers to I/Os that reached no lane.
    refused: Vec<Done>,
    /// All lanes are to close.
    closing: bool,
}

/// What one of the lanes has to do.
struct Part {
    waiting: VecDeque<Io>,
    under_way: u32,
    /// Writes, trims and zeroings among those that wait or are under way.
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
    ) -> StripedLane {
        // All are looked after until they are open.
        let part =
            || Part { waiting: VecDeque::with_capacity(64), under_way: 0, changes: 0, busy: true };
        StripedLane {
            parts: lanes.iter().map(|_| part()).collect(),
            busy: (0..lanes.len()).collect(),
            slots: Slots::new(),
            done: Vec::with_capacity(1024),
            refused: Vec::new(),
            closing: false,
            lanes,
            written,
            stripe_bytes,
            geometry,
        }
    }

    /// The lane of an I/O; its offset becomes that on the lane's volume.
    fn place(&self, io: &mut Io) -> Result<usize, Fault> {
        let (stripe, inside) = (io.offset / self.stripe_bytes, io.offset % self.stripe_bytes);
        if inside + u64::from(io.len) > self.stripe_bytes {
            return Err(Fault::OutOfRange);
        }
        let count = self.lanes.len() as u64;
        io.offset = stripe / count * self.stripe_bytes + inside;
        Ok((stripe % count) as usize)
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
        let flush = Flush { tag: io.tag, left: 0, result: Ok(()), cause: Cause::NONE };
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
                let Flush { tag, left, result, cause } = *flush;
                (left == 0).then(|| {
                    self.slots.leave(Tag(whole.into()));
                    Done { tag, result, cause, buf: None }
                })
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
        while let Some(mut io) = ios.pop_front() {
            if io.op == Op::Flush {
                self.flush(&io);
                continue;
            }
            match self.geometry.check(&io).and_then(|()| self.place(&mut io)) {
                Ok(index) => self.begin(index, io),
                Err(fault) => {
                    self.refused.push(Done {
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
        done.append(&mut self.refused);
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
        if !self.refused.is_empty() {
            return Some(Nanos(0));
        }
        self.busy.iter().filter_map(|index| self.lanes[*index].wake()).min()
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
