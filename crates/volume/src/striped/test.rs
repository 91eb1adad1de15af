use std::collections::VecDeque;

use block::{Cause, Done, Fault, Io, Nanos, Op, Tag};

use super::*;

/// Completes at the next poll, and records the I/Os.
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
        // The recorded I/Os.
        Some(format!("{:?}", self.0))
    }
}

fn striped(stripe_bytes: u64, share_bytes: Option<u64>) -> Result<Striped, OpenError> {
    let part = || -> Arc<dyn Volume> { Arc::new(crate::null::Null::new(10_000, 512)) };
    Striped::new(vec![part(), part(), part()], stripe_bytes, share_bytes)
}

fn lane(last: Option<Fault>) -> Box<dyn Lane> {
    let notes = |fault| -> Box<dyn Lane> { Box::new(Notes(vec![], vec![], fault)) };
    striped(1024, Some(4096))
        .unwrap()
        .around(vec![notes(None), notes(None), notes(last)], &Pool::new(9, 9))
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
    // Across a boundary, and beyond the end.
    let wrong = [(Op::Read, 512, 1024), (Op::Read, 3 * 4096, 512)];
    assert_eq!(go(&mut *lane, &wrong), [Err(Fault::OutOfRange); 2]);
}

#[test]
fn volumes_stand_one_behind_the_other() {
    let part = |bytes, block| -> Arc<dyn Volume> { Arc::new(crate::null::Null::new(bytes, block)) };
    let joined = Striped::joined(vec![part(8192, 4096), part(512, 512)]).unwrap();
    assert_eq!((joined.geometry.bytes(), joined.geometry.block_bytes), (16384, 512));
    let notes = || -> Box<dyn Lane> { Box::new(Notes(vec![], vec![], None)) };
    let mut lane = joined.around(vec![notes(), notes()], &Pool::new(9, 9));
    let reads = [(Op::Read, 4096, 4096), (Op::Read, 8192, 512), (Op::Write, 512, 512)];
    assert_eq!(go(&mut *lane, &reads), [Ok(()); 3]);
    assert_eq!(lane.words_of(Cause(0)).unwrap(), "[(Read, 4096), (Write, 512)]");
    assert_eq!(go(&mut *lane, &[(Op::Read, 7680, 1024)]), [Err(Fault::OutOfRange)]);
    assert!(Striped::joined(vec![]).is_err());
}

#[test]
fn a_flush_goes_to_those_that_were_written() {
    let mut one = lane(None);
    let flush = [(Op::Flush, 0, 0)];
    assert_eq!(go(&mut *one, &[(Op::Write, 1024, 512), flush[0]]), [Ok(()); 2]);
    assert_eq!(one.words_of(Cause(0)).unwrap(), "[]", "it is the second that was written");
    // The write was acknowledged after that flush began, so the next flush covers it. The third
    // flush finds nothing dirty, and the first part completes it.
    assert_eq!(go(&mut *one, &flush), [Ok(())]);
    assert_eq!(one.words_of(Cause(0)).unwrap(), "[]");
    assert_eq!(go(&mut *one, &flush), [Ok(())]);
    assert_eq!(one.words_of(Cause(0)).unwrap(), "[(Flush, 0)]");
    let mut bad = lane(Some(Fault::Medium));
    let all = [(Op::Write, 0, 512), (Op::Write, 2048, 512), (Op::Flush, 0, 0)];
    assert_eq!(go(&mut *bad, &all), [Ok(()), Ok(()), Err(Fault::Medium)]);
    assert_eq!(bad.wake(), None);
}

#[test]
fn a_flush_that_failed_is_asked_again() {
    let mut bad = lane(Some(Fault::Medium));
    assert_eq!(go(&mut *bad, &[(Op::Write, 2048, 512)]), [Ok(())]);
    for _ in 0..3 {
        assert_eq!(go(&mut *bad, &[(Op::Flush, 0, 0)]), [Err(Fault::Medium)]);
    }
}

/// Has something to look after at a time; counts its polls, and notes how many a submit followed.
struct Timed(Nanos, u32, u32);

impl Lane for Timed {
    fn geometry(&self) -> Geometry {
        Geometry::new(8192, 512)
    }
    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        assert!(ios.is_empty());
        self.2 = self.1;
    }
    fn poll(&mut self, _: Nanos, _: &mut Vec<Done>) {
        self.1 += 1;
    }
    fn wake(&self) -> Option<Nanos> {
        Some(self.0)
    }
    fn words_of(&self, _: Cause) -> Option<String> {
        Some(format!("{} polls, {} before a submit", self.1, self.2))
    }
}

#[test]
fn idle_parts_are_looked_after_once_a_second() {
    let at = Nanos::from_millis;
    let notes = || -> Box<dyn Lane> { Box::new(Notes(vec![], vec![], None)) };
    let timed = |wake| -> Box<dyn Lane> { Box::new(Timed(wake, 0, 0)) };
    let stripe = striped(1024, Some(4096)).unwrap();
    let mut lane = stripe.around(vec![timed(at(9000)), notes(), notes()], &Pool::new(9, 9));
    let polls = |lane: &dyn Lane| lane.words_of(Cause(0)).unwrap();
    // The first poll finds the lane open.
    assert_eq!(go(&mut *lane, &[(Op::Read, 1024, 512)]), [Ok(())]);
    assert_eq!((lane.wake(), &*polls(&*lane)), (Some(at(1000)), "1 polls, 0 before a submit"));
    for (now, wake, words) in [
        (999, 1000, "1 polls, 0 before a submit"),
        (1001, 2001, "2 polls, 2 before a submit"),
        (1500, 2001, "2 polls, 2 before a submit"),
        (5000, 6000, "3 polls, 3 before a submit"),
        (8999, 9999, "4 polls, 4 before a submit"),
    ] {
        lane.poll(at(now), &mut Vec::new());
        lane.submit(at(now), &mut VecDeque::new());
        assert_eq!((lane.wake(), &*polls(&*lane)), (Some(at(wake)), words), "at {now} ms");
    }
    // The leg is due, until it reports otherwise.
    lane.poll(at(9999), &mut Vec::new());
    assert_eq!(lane.wake(), Some(at(9999)));
    // Without timers idle parts are not polled.
    let mut lane = stripe.around(vec![notes(), notes(), notes()], &Pool::new(9, 9));
    assert_eq!(go(&mut *lane, &[(Op::Read, 1024, 512)]), [Ok(())]);
    assert_eq!(lane.wake(), None);
}

/// Flushes complete at the next poll, other I/Os at the one after.
struct Held(Vec<(Op, u64)>, Vec<Done>, Vec<Done>);

impl Lane for Held {
    fn geometry(&self) -> Geometry {
        Geometry::new(8192, 512)
    }
    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        for io in ios.drain(..) {
            self.0.push((io.op, io.offset));
            let done = Done { tag: io.tag, result: Ok(()), cause: Cause::NONE, buf: io.buf };
            if io.op == Op::Flush { self.1.push(done) } else { self.2.push(done) }
        }
    }
    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.1);
        self.1.append(&mut self.2);
    }
    fn wake(&self) -> Option<Nanos> {
        None
    }
    fn words_of(&self, _: Cause) -> Option<String> {
        Some(format!("{:?}", self.0))
    }
}

#[test]
fn a_write_that_a_flush_overtook_is_flushed_by_the_next() {
    let held = || -> Box<dyn Lane> { Box::new(Held(vec![], vec![], vec![])) };
    for op in [Op::Write, Op::Trim, Op::WriteZeroes] {
        let mut lane = striped(1024, Some(4096))
            .unwrap()
            .around(vec![held(), held(), held()], &Pool::new(9, 9));
        assert_eq!(go(&mut *lane, &[(op, 0, 512), (Op::Flush, 0, 0)]), [Ok(())]);
        assert_eq!(go(&mut *lane, &[]), [Ok(())], "now it is acknowledged");
        assert_eq!(go(&mut *lane, &[(Op::Flush, 0, 0)]), [Ok(())]);
        let came = format!("[({op:?}, 0), (Flush, 0), (Flush, 0)]");
        assert_eq!(lane.words_of(Cause(0)).unwrap(), came);
    }
}

#[test]
fn a_flush_covers_what_another_lane_wrote() {
    let whole = striped(1024, Some(4096)).unwrap();
    let notes = || -> Box<dyn Lane> { Box::new(Notes(vec![], vec![], None)) };
    let lanes = || vec![notes(), notes(), notes()];
    let (mut one, mut other) =
        (whole.around(lanes(), &Pool::new(9, 9)), whole.around(lanes(), &Pool::new(9, 9)));
    assert_eq!(go(&mut *one, &[(Op::Write, 0, 512)]), [Ok(())]);
    assert_eq!(go(&mut *one, &[(Op::Write, 1024, 512)]), [Ok(())]);
    assert_eq!(go(&mut *other, &[(Op::Flush, 0, 0)]), [Ok(())]);
    assert_eq!(other.words_of(Cause(0)).unwrap(), "[(Flush, 0)]");
    assert!(whole.written.iter().all(|part| !part.is_dirty()), "the second was flushed, too");
}

/// Opens and closes after some polls, as a connection does.
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
    let mut lane =
        striped(1024, None).unwrap().around(vec![slow(1), slow(3), slow(2)], &Pool::new(9, 9));
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

#[test]
fn a_flush_covers_what_was_done_before_it_began() {
    let written = Written::default();
    assert!(!written.is_dirty());
    written.write_done();
    let one = written.flush_begins();
    assert!(written.is_dirty(), "it may fail");
    written.write_done();
    let two = written.flush_begins();
    written.flush_done(one);
    assert!(written.is_dirty(), "the second write came after the first flush");
    written.flush_done(two);
    assert!(!written.is_dirty());
    // An earlier flush that completes later does not reset anything.
    written.flush_done(one);
    assert!(!written.is_dirty());
    written.write_done();
    assert!(written.is_dirty());
}
