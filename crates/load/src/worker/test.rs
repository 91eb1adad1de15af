//! Workers in virtual time, on a lane with service times chosen by the test.

use std::cell::Cell;
use std::rc::Rc;

use block::{Cause, Geometry};

use super::*;
use job::spec::{Access, Arrivals, Line, Pacing, Places, Verify};

mod compared;
mod connections;
mod replay;
mod waits;

const BYTES: u64 = 1 << 20;
pub(super) const US: u64 = 1000;
pub(super) const MS: u64 = 1_000_000;

/// Misbehaviour of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// Some writes are acknowledged and dropped.
    Loses,
    /// Some writes land 4 KiB further on.
    Misplaces,
    /// Some writes execute only their first half.
    Tears,
    /// Some trims are acknowledged and dropped.
    Keeps,
    /// Some trims include the next block.
    TrimsMore,
}

/// A memory volume with its own service times.
pub(super) struct Lane {
    /// Every I/O takes this long, and a random time more.
    service: Nanos,
    spread: Nanos,
    /// Interval without completions.
    pub(super) stall: (Nanos, Nanos),
    in_flight: Vec<(Nanos, Io)>,
    memory: Vec<u8>,
    rng: Rng,
    wrong: Rc<Cell<Wrong>>,
    writes: u32,
    trims: u32,
    /// Trimmed blocks read as zeroes; otherwise some stay as they were.
    trim_zeroes: bool,
    /// Offset beyond which writes fail.
    room: u64,
}

impl Lane {
    pub(super) fn new(service_ns: u64, spread_ns: u64) -> Lane {
        Lane {
            service: Nanos(service_ns),
            spread: Nanos(spread_ns),
            stall: (Nanos(0), Nanos(0)),
            room: u64::MAX,
            in_flight: Vec::new(),
            memory: vec![0; BYTES as usize],
            rng: Rng::new(99, 0),
            wrong: Rc::new(Cell::new(Wrong::Nothing)),
            writes: 0,
            trims: 0,
            trim_zeroes: true,
        }
    }

    fn end_of(&mut self, now: Nanos) -> Nanos {
        let end = now + self.service + Nanos(self.rng.below(self.spread.0 + 1));
        if end > self.stall.0 && end < self.stall.1 { self.stall.1 } else { end }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.writes += 1;
        let goes_wrong = self.wrong.get() != Wrong::Nothing
            && self.writes > 500
            && self.writes.is_multiple_of(20);
        let at = offset as usize;
        match self.wrong.get() {
            _ if !goes_wrong => self.memory[at..at + data.len()].copy_from_slice(data),
            Wrong::Loses => {}
            Wrong::Misplaces => {
                let at = (at + 4096) % (BYTES as usize - data.len());
                self.memory[at..at + data.len()].copy_from_slice(data);
            }
            Wrong::Tears => {
                self.memory[at..at + data.len() / 2].copy_from_slice(&data[..data.len() / 2]);
            }
            Wrong::Keeps | Wrong::TrimsMore => {
                self.memory[at..at + data.len()].copy_from_slice(data);
            }
            Wrong::Nothing => unreachable!("nothing goes wrong"),
        }
    }

    fn erase(&mut self, op: Op, range: std::ops::Range<usize>) {
        self.trims += 1;
        let goes_wrong = self.trims > 100 && self.trims.is_multiple_of(20);
        let keeps = op == Op::Trim && !self.trim_zeroes && self.trims.is_multiple_of(3);
        match self.wrong.get() {
            Wrong::Keeps if goes_wrong => {}
            Wrong::TrimsMore if goes_wrong => {
                let end = (range.end + 4096).min(self.memory.len());
                self.memory[range.start..end].fill(0);
            }
            _ if keeps => {}
            _ => self.memory[range].fill(0),
        }
    }
}

impl block::Lane for Lane {
    fn geometry(&self) -> Geometry {
        Geometry { trim_zeroes: self.trim_zeroes, ..Geometry::new(BYTES, 512) }
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        for io in ios.drain(..) {
            let end = self.end_of(now);
            self.in_flight.push((end, io));
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while let Some(index) = self.in_flight.iter().position(|(end, _)| *end <= now) {
            // Any order: overlapping I/Os pass each other.
            let (_, mut io) = self.in_flight.swap_remove(index);
            let range = io.offset as usize..io.offset as usize + io.len as usize;
            let full = io.op == Op::Write && range.end as u64 > self.room;
            match (io.op, &mut io.buf) {
                _ if full => {}
                (Op::Read, Some(buf)) => buf[..range.len()].copy_from_slice(&self.memory[range]),
                (Op::Write, Some(buf)) => {
                    let data = buf[..range.len()].to_vec();
                    self.write(io.offset, &data);
                }
                (Op::Trim | Op::WriteZeroes, _) => self.erase(io.op, range),
                _ => {}
            }
            let result = if full { Err(Fault::NoSpace) } else { Ok(()) };
            done.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
        }
    }

    fn wake(&self) -> Option<Nanos> {
        self.in_flight.iter().map(|(end, _)| *end).min()
    }
}

pub(super) fn worker(lane: Lane, workload: &Workload) -> Worker {
    let geometry = block::Lane::geometry(&lane);
    workload.fits(geometry).unwrap();
    let ledger =
        || Arc::new(Ledger::new(&[workload], geometry, 1, None).expect("memory for a ledger"));
    let ledger = workload.verify.map(|_| ledger());
    let who = Identity { seed: 1, number: 0, part: Part::WHOLE, data: true };
    Worker::new(Box::new(lane), workload, who, ledger, &Pool::new(4, 4)).unwrap()
}

fn interval(worker: &Worker) -> Box<Interval> {
    Box::new(if worker.is_paced() { Interval::paced() } else { Interval::new() })
}

/// Fills the volume, if ordered; returns the recorded interval.
fn fill(worker: &mut Worker) -> Box<Interval> {
    worker.begin(Nanos(0), interval(worker));
    let mut now = Nanos(0);
    while worker.filling() {
        let wake = worker.step(now, Order::Fill);
        now = wake.unwrap_or(now).max(now + Nanos(1));
    }
    let last = interval(worker);
    worker.take_interval(now, last)
}

/// Fills the volume, then runs for `length`; returns the interval recorded in that time.
pub(super) fn run(worker: &mut Worker, length: Nanos) -> Box<Interval> {
    let begin = fill(worker).end;
    worker.start(begin);
    let (mut now, end) = (begin, begin + length);
    while now < end && worker.trouble.is_none() {
        let wake = worker.step(now, Order::Run);
        now = wake.unwrap_or(end).max(now + Nanos(1)).min(end);
    }
    let last = interval(worker);
    worker.take_interval(now, last)
}

/// The H11 verdict of an interval.
pub(super) fn little(done: &Interval) -> stats::Check {
    let flow = ("one".to_owned(), stats::verdict::Flow::of(done, &done.latencies()));
    let flows = stats::verdict::Flows { each: vec![flow], ..Default::default() };
    stats::verdict::littles_law(&flows)
}

pub(super) fn ios(per_second: f64, arrivals: Arrivals) -> Pacing {
    Pacing::Ios { per_second, arrivals }
}

#[test]
fn a_closed_loop_goes_as_fast_as_its_lane() {
    let workload = Workload::new(Access::new(4096, 70.0, 100.0), 8);
    let mut worker = worker(Lane::new(100 * US, 0), &workload);
    let done = run(&mut worker, Nanos::from_secs(1));
    // 8 in flight, 100 µs each.
    assert!((79_990..=80_000).contains(&done.ios()), "{}", done.ios());
    assert_eq!(done.mean_outstanding().round(), 8.0);
    assert!(done.paced.is_none());
}

#[test]
fn a_queue_that_drains_is_filled_at_its_mark_and_not_before() {
    let workload =
        Workload { refill_at: Some(2), ..Workload::new(Access::new(4096, 100.0, 100.0), 8) };
    let mut worker = worker(Lane::new(100 * US, 50 * US), &workload);
    worker.begin(Nanos(0), interval(&worker));
    worker.start(Nanos(0));
    let (mut now, mut before, mut refills) = (Nanos(0), 0, 0);
    while now < Nanos(100 * MS) {
        let wake = worker.step(now, Order::Run);
        let in_flight = worker.slots.len() - worker.free.len();
        if in_flight > before {
            assert_eq!(in_flight, 8, "filled to the brim");
            refills += 1;
        }
        before = in_flight;
        assert!(in_flight > 2, "{in_flight} in flight, and nothing begun");
        now = wake.unwrap().max(now + Nanos(1));
    }
    // One refill takes as long as the slowest but two, 100 to 150 µs.
    assert!((600..=1100).contains(&refills), "{refills}");
    let last = interval(&worker);
    let done = worker.take_interval(now, last);
    assert!(done.mean_outstanding() < 7.9, "{}", done.mean_outstanding());
}

#[test]
fn littles_law_holds_whatever_stands_still_at_the_ends_of_a_window() {
    let closed = Workload::new(Access::new(512, 100.0, 100.0), 16);
    let paced = Workload { pacing: ios(10_000.0, Arrivals::Poisson), ..closed.clone() };
    for workload in [closed, paced] {
        let mut lane = Lane::new(50 * US, 0);
        // Across the first end of the second window.
        lane.stall = (Nanos(900 * MS), Nanos(1400 * MS));
        let mut worker = worker(lane, &workload);
        run(&mut worker, Nanos::from_secs(1));
        let (mut now, end) = (Nanos::from_secs(1), Nanos::from_secs(2));
        while now < end {
            let wake = worker.step(now, Order::Run);
            now = wake.unwrap_or(end).max(now + Nanos(1)).min(end);
        }
        let last = interval(&worker);
        let done = worker.take_interval(now, last);
        assert!(done.unsettled_ns < 0, "{}", done.unsettled_ns);
        let sum = done.latencies().sum() as i128;
        assert_eq!(sum, done.outstanding_ns() - done.unsettled_ns);
        assert_eq!(little(&done).verdict, stats::Verdict::Pass);
    }
}

/// Planted accounting errors in the figures of a correct worker.
#[test]
fn an_error_of_accounting_breaks_littles_law() {
    let workload = Workload {
        pacing: ios(100_000.0, Arrivals::Constant),
        ..Workload::new(Access::new(512, 100.0, 100.0), 16)
    };
    let mut lane = Lane::new(50 * US, 0);
    lane.stall = (Nanos(400 * MS), Nanos(450 * MS));
    let honest = run(&mut worker(lane, &workload), Nanos::from_secs(1));
    assert!(honest.ios() > 99_000 && little(&honest).verdict == stats::Verdict::Pass);
    let fails = |lie: &dyn Fn(&mut Interval)| {
        let mut lying = honest.clone();
        lie(&mut lying);
        assert_eq!(little(&lying).verdict, stats::Verdict::Fail, "{:?}", little(&lying));
    };
    // Among 100,000 I/Os, one is counted twice, one is not in flight, and one begins late.
    fails(&|it| it.read.latencies.record(50 * US));
    fails(&|it| it.outstanding_ns -= u128::from(50 * US));
    fails(&|it| it.record_outstanding(1, Nanos(10 * US)));
    // I/Os in flight at the end are forgotten.
    fails(&|it| it.unsettled_ns = 0);
    // All count from the instant that they got a slot.
    fails(&|it| it.read.latencies = it.paced.as_ref().unwrap().service.clone());
}

#[test]
fn a_stall_is_in_the_response_time_and_not_in_the_service_time() {
    // 10,000 I/Os a second; the lane takes 50 µs each and completes nothing for 100 ms.
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let pacing = ios(10_000.0, arrivals);
        let workload = Workload { pacing, ..Workload::new(Access::new(512, 100.0, 100.0), 16) };
        let mut lane = Lane::new(50 * US, 0);
        lane.stall = (Nanos(400 * MS), Nanos(500 * MS));
        let mut worker = worker(lane, &workload);
        let done = run(&mut worker, Nanos::from_secs(1));
        let paced = done.paced.as_ref().unwrap();
        let beyond = |latencies: &stats::Latencies, ns: u64| -> u64 {
            latencies.buckets().filter(|b| b.from_ns > ns).map(|b| b.count).sum()
        };
        let response = done.latencies();
        // 1,000 were due in the stall: 900 of them more than 10 ms before its end.
        assert!((800..1000).contains(&beyond(&response, 10 * MS)), "{:?}", response.summary());
        // A closed view sees the 16 that were in flight.
        assert!(beyond(&paced.service, 10 * MS) <= 16, "{:?}", paced.service.summary());
        assert!((900..1100).contains(&paced.missed), "{} missed", paced.missed);
        assert_eq!(response.count(), paced.service.count());
        assert!(response.max().unwrap() > 99 * MS);
        // No I/O is left out: the rate is met over the whole.
        let due = if arrivals == Arrivals::Constant { 9_990..=10_000 } else { 9_700..=10_300 };
        assert!(due.contains(&done.ios()), "{}", done.ios());
        // Little's law holds for responses: outstanding from the planned start.
        let law = done.iops() * response.mean().unwrap() / 1e9;
        let off = done.mean_outstanding() / law - 1.0;
        assert!(off.abs() < 0.01, "{} outstanding, {law} by the law", done.mean_outstanding());
    }
}

#[test]
fn an_idle_open_loop_keeps_its_schedule_to_the_nanosecond() {
    let workload = Workload {
        pacing: ios(33_333.0, Arrivals::Constant),
        ..Workload::new(Access::new(512, 100.0, 100.0), 16)
    };
    let mut worker = worker(Lane::new(10 * US, 0), &workload);
    let done = run(&mut worker, Nanos::from_secs(3));
    let paced = done.paced.as_ref().unwrap();
    assert!(paced.lag.max().unwrap() <= 1 && paced.missed == 0, "{:?}", paced.lag.summary());
    assert!((done.iops() / 33_333.0 - 1.0).abs() < 0.001, "{}", done.iops());
}

#[test]
fn a_rate_counts_no_flushes() {
    for (flush_every, flushes) in [(1, 990..=1001), (4, 245..=251)] {
        let access = Access { flush_every, ..Access::new(4096, 0.0, 100.0) };
        let pacing = ios(1000.0, Arrivals::Constant);
        let workload = Workload { pacing, ..Workload::new(access, 1) };
        let mut worker = worker(Lane::new(100 * US, 0), &workload);
        let done = run(&mut worker, Nanos::from_secs(1));
        assert!((998..=1001).contains(&done.write.ios), "{} writes", done.write.ios);
        assert!(flushes.contains(&done.flush.ios), "{} flushes", done.flush.ios);
    }
}

#[test]
fn bursts_begin_after_their_delay() {
    let line = Line { delay_us: 1000, burst: 4, ..Line::new(512, 100.0, 0.0) };
    let workload = Workload::new(Access::of(vec![line]), 2);
    let mut worker = worker(Lane::new(100 * US, 0), &workload);
    let done = run(&mut worker, Nanos::from_secs(1));
    // 4 I/Os by two: the last two begin at 100 µs, and the next burst 1 ms later.
    assert!((3620..=3640).contains(&done.ios()), "{}", done.ios());
}

#[test]
fn replies_follow_in_the_opposite_direction() {
    let line = Line { reply_bytes: 4096, ..Line::new(512, 100.0, 100.0) };
    let workload = Workload::new(Access::of(vec![line]), 4);
    let mut worker = worker(Lane::new(100 * US, 0), &workload);
    let done = run(&mut worker, Nanos::from_secs(1));
    assert!(done.read.ios.abs_diff(done.write.ios) <= 4 && done.ios() > 39_000);
    assert_eq!((done.read.bytes, done.write.bytes), (done.read.ios * 512, done.write.ios * 4096));
}

#[test]
fn a_limit_ends_the_worker_and_its_time() {
    let access = Access { random: Places::Once, ..Access::new(4096, 0.0, 100.0) };
    let workload = Workload { limit_bytes: Some(BYTES), ..Workload::new(access, 4) };
    let mut worker = worker(Lane::new(100 * US, 0), &workload);
    let done = run(&mut worker, Nanos::from_secs(1));
    assert!(worker.is_finished());
    assert_eq!((done.ios(), done.bytes()), (256, BYTES));
    assert_eq!(done.end, Nanos(6400 * US));
}

#[test]
fn who_finds_no_room_ends_without_a_failure_if_that_is_wanted() {
    let full = |until_full| {
        let workload = Workload { until_full, ..Workload::new(Access::new(4096, 0.0, 0.0), 4) };
        let mut lane = Lane::new(100 * US, 0);
        lane.room = BYTES / 2;
        let mut worker = worker(lane, &workload);
        let done = run(&mut worker, Nanos::from_millis(5));
        let sum = done.latencies().sum() as i128;
        assert_eq!(sum, done.outstanding_ns as i128 - done.unsettled_ns);
        (worker.is_finished(), done.bytes(), done.write.errors)
    };
    assert_eq!(full(true), (true, BYTES / 2, 0));
    let (finished, _, errors) = full(false);
    assert!(!finished && errors > 0);
}

#[test]
fn what_is_written_before_counts_against_no_limit() {
    let workload = Workload {
        limit_bytes: Some(64 * 4096),
        ..Workload::new(Access::new(4096, 50.0, 100.0), 4)
    };
    let workload = Workload { verify: Some(Verify::default()), ..workload };
    let mut filled = worker(Lane::new(100 * US, 0), &workload);
    let before = fill(&mut filled);
    assert_eq!((before.write.bytes, before.read.ios), (BYTES, 0));
    // The worker waits for its start: others may still be filling.
    for later in 1..100 {
        assert_eq!(filled.step(before.end + Nanos(later * MS), Order::Fill), None);
    }
    assert!(filled.is_idle() && !filled.is_finished());
    let mut worker = worker(Lane::new(100 * US, 0), &workload);
    let done = run(&mut worker, Nanos::from_secs(1));
    assert!(worker.is_finished());
    assert_eq!((done.ios(), done.bytes()), (64, 64 * 4096));
    // Four at a time; the interval begins with the job.
    assert_eq!(done.end.since(done.start), Nanos(16 * 100 * US));
}

#[test]
fn a_plan_begins_after_the_filling() {
    let pacing = ios(10_000.0, Arrivals::Constant);
    let workload = Workload { pacing, ..Workload::new(Access::new(4096, 50.0, 100.0), 4) };
    let workload = Workload { verify: Some(Verify::default()), ..workload };
    let mut worker = worker(Lane::new(100 * US, 0), &workload);
    let done = run(&mut worker, Nanos::from_secs(1));
    assert!((9_990..=10_000).contains(&done.ios()), "{}", done.ios());
    assert_eq!(done.paced.as_ref().unwrap().missed, 0, "nothing was due during the filling");
}
