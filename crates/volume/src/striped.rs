//! Several volumes as one: in stripes, so that a worker that goes forward gets to each of them in
//! turn, or one behind the other.
//!
//! They are driven by one lane each, and only those with I/Os under way are looked after, or that
//! are about to open or to close. A flush goes to those that were written since their last one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use block::{Cause, Connection, Done, Fault, Geometry, Io, Lane, Nanos, Op, Tag};
use os::Core;

use crate::{Ground, Hints, OpenError, Volume};

/// Several volumes, of each of which the same part is used.
pub(crate) struct Striped {
    parts: Vec<Arc<dyn Volume>>,
    stripe_bytes: u64,
    geometry: Geometry,
}

impl Striped {
    /// Stripes of `stripe_bytes` over the first `share_bytes` of each volume, or over all that the
    /// smallest of them has.
    pub(crate) fn new(
        parts: Vec<Arc<dyn Volume>>,
        stripe_bytes: u64,
        share_bytes: Option<u64>,
    ) -> Result<Striped, OpenError> {
        let shapes: Vec<Geometry> = parts.iter().map(|part| part.geometry()).collect();
        let block_bytes = shapes.iter().map(|shape| shape.block_bytes).max().unwrap_or(512);
        let least = shapes.iter().map(Geometry::bytes).min().unwrap_or(0);
        let share = share_bytes.map_or(least, |bytes| bytes.min(least));
        let stripe_bytes = stripe_bytes.max(1);
        let used = share - share % stripe_bytes;
        if used == 0 || !stripe_bytes.is_multiple_of(u64::from(block_bytes)) {
            let name = format!("each of {} volumes in stripes of {stripe_bytes}", parts.len());
            return Err(OpenError::TooSmall(name, block_bytes));
        }
        let geometry = whole(&shapes, used * parts.len() as u64, block_bytes);
        Ok(Striped { parts, stripe_bytes, geometry })
    }

    /// All of each volume, in one stripe that is as long as the longest of them. The lane of a
    /// shorter one refuses what is behind its end.
    pub(crate) fn joined(parts: Vec<Arc<dyn Volume>>) -> Result<Striped, OpenError> {
        let shapes: Vec<Geometry> = parts.iter().map(|part| part.geometry()).collect();
        // Each part has its own check of whole blocks.
        let block_bytes = shapes.iter().map(|shape| shape.block_bytes).min().unwrap_or(512);
        let most = shapes.iter().map(Geometry::bytes).max().unwrap_or(0);
        let stripe_bytes = most.checked_next_multiple_of(u64::from(block_bytes.max(1)));
        let bytes = stripe_bytes.and_then(|bytes| bytes.checked_mul(parts.len() as u64));
        match (stripe_bytes, bytes) {
            (Some(stripe_bytes), Some(bytes)) if bytes > 0 => {
                let geometry = whole(&shapes, bytes, block_bytes);
                Ok(Striped { parts, stripe_bytes, geometry })
            }
            _ => {
                let name = format!("{} volumes one behind the other", parts.len());
                Err(OpenError::TooSmall(name, block_bytes))
            }
        }
    }

    fn around(&self, lanes: Vec<Box<dyn Lane>>) -> Box<dyn Lane> {
        // All are looked after until they are open.
        let part = || Part {
            waiting: VecDeque::with_capacity(64),
            under_way: 0,
            dirty: false,
            busy: true,
        };
        Box::new(StripedLane {
            parts: lanes.iter().map(|_| part()).collect(),
            busy: (0..lanes.len()).collect(),
            done: Vec::with_capacity(1024),
            refused: Vec::new(),
            flushes: Vec::with_capacity(16),
            closing: false,
            lanes,
            stripe_bytes: self.stripe_bytes,
            geometry: self.geometry,
        })
    }
}

/// The shape of so many bytes of all.
fn whole(shapes: &[Geometry], bytes: u64, block_bytes: u32) -> Geometry {
    Geometry {
        read_only: shapes.iter().any(|shape| shape.read_only),
        volatile: shapes.iter().any(|shape| shape.volatile),
        trim_zeroes: shapes.iter().all(|shape| shape.trim_zeroes),
        ..Geometry::new(bytes, block_bytes)
    }
}

impl Volume for Striped {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        self.hinted_lane(core, Hints::default())
    }

    fn hinted_lane(&self, core: &Core, hints: Hints) -> Result<Box<dyn Lane>, OpenError> {
        let lanes: Result<Vec<_>, _> =
            self.parts.iter().map(|part| part.hinted_lane(core, hints)).collect();
        Ok(self.around(lanes?))
    }

    /// The part of each that is used: who goes to all of them in turn uses no less.
    fn read_in(&self, _: Range<u64>, goes_on: &dyn Fn() -> bool) -> Result<u64, OpenError> {
        let share = self.geometry.bytes() / self.parts.len().max(1) as u64;
        let read = self.parts.iter().map(|part| part.read_in(0..share, goes_on));
        read.sum()
    }

    fn kind(&self) -> &'static str {
        self.parts.first().map_or("nothing", |part| part.kind())
    }

    fn transport(&self) -> &'static str {
        self.parts.first().map_or("local", |part| part.transport())
    }

    fn emulates(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.emulates())
    }

    /// Several are not looked at as one.
    fn ground(&self) -> Ground {
        Ground::Elsewhere
    }
}

struct StripedLane {
    lanes: Vec<Box<dyn Lane>>,
    parts: Vec<Part>,
    stripe_bytes: u64,
    geometry: Geometry,
    /// The lanes that have or want I/Os, open or close.
    busy: Vec<usize>,
    done: Vec<Done>,
    /// Answers to I/Os that reached no lane.
    refused: Vec<Done>,
    /// Flushes under way.
    flushes: Vec<Flush>,
    /// All lanes are to close.
    closing: bool,
}

/// A flush on some of the lanes: on how many still, and what came of it so far.
struct Flush {
    tag: Tag,
    left: u32,
    result: Result<(), Fault>,
    cause: Cause,
}

/// What one of the lanes has to do.
struct Part {
    waiting: VecDeque<Io>,
    under_way: u32,
    /// It was written since its last flush.
    dirty: bool,
    /// It is among those that are looked after.
    busy: bool,
}

impl StripedLane {
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

    fn give(&mut self, index: usize, io: Io) {
        self.look_after(index);
        let part = &mut self.parts[index];
        part.dirty = match io.op {
            Op::Flush => false,
            Op::Read => part.dirty,
            Op::Write | Op::Trim | Op::WriteZeroes => true,
        };
        part.waiting.push_back(io);
    }

    fn flush(&mut self, io: &Io) {
        let mut count = 0;
        for index in 0..self.lanes.len() {
            // Where nothing was written, the first one answers for all.
            let none = index + 1 == self.lanes.len() && count == 0;
            if self.parts[index].dirty || none {
                count += 1;
                self.give(index, Io { tag: io.tag, buf: None, ..*io });
            }
        }
        let (tag, left, result, cause) = (io.tag, count, Ok(()), Cause::NONE);
        self.flushes.push(Flush { tag, left, result, cause });
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
                Ok(index) => self.give(index, io),
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
            let part = &mut self.parts[index];
            self.lanes[index].poll(now, &mut self.done);
            part.under_way -= self.done.len() as u32;
            part.busy = part.under_way > 0
                || !part.waiting.is_empty()
                || self.closing
                || !self.lanes[index].is_open();
            match part.busy {
                true => at += 1,
                false => drop(self.busy.swap_remove(at)),
            }
            for one in self.done.drain(..) {
                let found = self.flushes.iter().position(|flush| flush.tag == one.tag);
                let Some(found) = found else {
                    done.push(one);
                    continue;
                };
                let flush = &mut self.flushes[found];
                flush.left -= 1;
                if one.result.is_err() {
                    (flush.result, flush.cause) = (one.result, one.cause);
                }
                if flush.left == 0 {
                    let Flush { tag, result, cause, .. } = self.flushes.swap_remove(found);
                    done.push(Done { tag, result, cause, buf: None });
                }
            }
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

#[cfg(test)]
mod test {
    use super::*;

    /// Answers at the next poll, and remembers what came.
    struct Notes(Vec<(Op, u64)>, Vec<Done>, Option<Fault>);

    impl Lane for Notes {
        fn geometry(&self) -> Geometry {
            Geometry::new(8192, 512)
        }
        fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
            for io in ios.drain(..) {
                self.0.push((io.op, io.offset));
                let result = self.2.filter(|_| io.op == Op::Flush).map_or(Ok(()), Err);
                self.1.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
            }
        }
        fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
            done.append(&mut self.1);
        }
        fn wake(&self) -> Option<Nanos> {
            None
        }
        fn broken(&self) -> Option<&str> {
            None
        }
        fn words_of(&self, _: Cause) -> Option<String> {
            // What came, for the test.
            Some(format!("{:?}", self.0))
        }
    }

    fn striped(stripe_bytes: u64, share_bytes: Option<u64>) -> Result<Striped, OpenError> {
        let part = || -> Arc<dyn Volume> { Arc::new(crate::null::Null::new(10_000, 512)) };
        Striped::new(vec![part(), part(), part()], stripe_bytes, share_bytes)
    }

    fn lane(last: Option<Fault>) -> Box<dyn Lane> {
        let notes = |fault| -> Box<dyn Lane> { Box::new(Notes(vec![], vec![], fault)) };
        striped(1024, Some(4096)).unwrap().around(vec![notes(None), notes(None), notes(last)])
    }

    fn go(lane: &mut dyn Lane, ios: &[(Op, u64, u32)]) -> Vec<Result<(), Fault>> {
        let io = |(number, (op, offset, len)): (usize, &(Op, u64, u32))| {
            let (tag, offset, len) = (Tag(number as u64), *offset, *len);
            Io { tag, op: *op, offset, len, fua: false, buf: None }
        };
        let mut ios: VecDeque<Io> = ios.iter().enumerate().map(io).collect();
        let mut done = Vec::new();
        lane.submit(Nanos(0), &mut ios);
        lane.poll(Nanos(0), &mut done);
        done.sort_by_key(|done| done.tag.0);
        done.into_iter().map(|done| done.result).collect()
    }

    #[test]
    fn forward_goes_from_one_to_the_next() {
        let shape = striped(1024, Some(4500)).unwrap().geometry();
        assert_eq!((shape.bytes(), shape.block_bytes), (3 * 4096, 512));
        assert_eq!(striped(1024, None).unwrap().geometry().bytes(), 3 * 9216);
        assert!(striped(100, None).is_err() && striped(16384, None).is_err());
        let mut lane = lane(None);
        let reads: Vec<_> = (0..6).map(|n| (Op::Read, n * 1024, 1024)).collect();
        assert_eq!(go(&mut *lane, &reads), [Ok(()); 6]);
        let first = lane.words_of(Cause(0)).unwrap();
        assert_eq!(first, "[(Read, 0), (Read, 1024)]");
        // Across two of them, and behind the last.
        let wrong = [(Op::Read, 512, 1024), (Op::Read, 3 * 4096, 512)];
        assert_eq!(go(&mut *lane, &wrong), [Err(Fault::OutOfRange); 2]);
    }

    #[test]
    fn volumes_stand_one_behind_the_other() {
        let part =
            |bytes, block| -> Arc<dyn Volume> { Arc::new(crate::null::Null::new(bytes, block)) };
        let joined = Striped::joined(vec![part(8192, 4096), part(512, 512)]).unwrap();
        assert_eq!((joined.geometry.bytes(), joined.geometry.block_bytes), (16384, 512));
        let notes = || -> Box<dyn Lane> { Box::new(Notes(vec![], vec![], None)) };
        let mut lane = joined.around(vec![notes(), notes()]);
        let reads = [(Op::Read, 4096, 4096), (Op::Read, 8192, 512), (Op::Write, 512, 512)];
        assert_eq!(go(&mut *lane, &reads), [Ok(()); 3]);
        assert_eq!(lane.words_of(Cause(0)).unwrap(), "[(Read, 4096), (Write, 512)]");
        assert_eq!(go(&mut *lane, &[(Op::Read, 7680, 1024)]), [Err(Fault::OutOfRange)]);
        assert!(Striped::joined(vec![]).is_err());
    }

    #[test]
    fn a_flush_goes_to_those_that_were_written() {
        let mut one = lane(None);
        let ios = [(Op::Write, 0, 512), (Op::Flush, 0, 0), (Op::Flush, 0, 0)];
        assert_eq!(go(&mut *one, &ios), [Ok(()); 3]);
        // The second one had nothing to do, and the last lane answered for all.
        assert_eq!(one.words_of(Cause(0)).unwrap(), "[(Write, 0), (Flush, 0)]");
        let mut bad = lane(Some(Fault::Medium));
        let all = [(Op::Write, 0, 512), (Op::Write, 2048, 512), (Op::Flush, 0, 0)];
        assert_eq!(go(&mut *bad, &all), [Ok(()), Ok(()), Err(Fault::Medium)]);
        assert_eq!(bad.wake(), None);
    }

    /// Open and closed after some polls, as a connection is.
    struct Slow(u32, u32);

    impl Lane for Slow {
        fn geometry(&self) -> Geometry {
            Geometry::new(8192, 512)
        }
        fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
            assert!(ios.is_empty());
        }
        fn poll(&mut self, _: Nanos, _: &mut Vec<Done>) {
            self.0 = self.0.saturating_sub(1);
        }
        fn wake(&self) -> Option<Nanos> {
            (!self.is_open()).then_some(Nanos(7))
        }
        fn is_open(&self) -> bool {
            self.0 == 0
        }
        fn close(&mut self, _: Nanos) -> bool {
            self.0 = self.1;
            self.1 = 0;
            self.0 == 0
        }
    }

    #[test]
    fn all_are_looked_after_until_they_are_open_and_closed() {
        let slow = |polls| -> Box<dyn Lane> { Box::new(Slow(polls, 2)) };
        let mut lane = striped(1024, None).unwrap().around(vec![slow(1), slow(3), slow(2)]);
        for _ in 0..3 {
            assert_eq!((lane.is_open(), lane.wake()), (false, Some(Nanos(7))));
            assert_eq!(go(&mut *lane, &[]), []);
        }
        assert_eq!((lane.is_open(), lane.wake()), (true, None));
        assert!(!lane.close(Nanos(0)));
        go(&mut *lane, &[]);
        go(&mut *lane, &[]);
        assert!(lane.close(Nanos(0)));
    }
}
