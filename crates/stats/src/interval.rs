//! What one worker, or all of them, did between two instants.
//!
//! A worker owns one interval and records into it; a collector takes it every second.

use block::{Connection, Nanos, Op, Plant, planted};

use crate::failures::{Failed, Failures};
use crate::histogram::Latencies;
use crate::moments::{self, Moments};
use crate::run::{SearchedDepth, Waiting};

/// I/Os of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// How many were done without a fault.
    pub ios: u64,
    /// How many ended in a fault. They are in none of the other numbers.
    pub errors: u64,
    /// Bytes that the good ones moved. Not beside `ios`: the compiler would add to both as one
    /// vector, and the way of a vector through the store buffer takes twice as long.
    pub bytes: u64,
    /// How long the good ones took.
    pub latencies: Latencies,
}

impl Tally {
    /// Counts one I/O that was done without a fault.
    #[inline]
    pub fn record(&mut self, len_bytes: u32, latency: Nanos) {
        self.ios += 1;
        self.bytes += u64::from(len_bytes);
        self.latencies.record(latency.0);
    }

    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Tally) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latencies.merge(&other.latencies);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        (self.ios, self.bytes, self.errors) = (0, 0, 0);
        self.latencies.clear();
    }
}

/// What an open loop knows beside the response times, which count from the planned starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paced {
    /// From the actual start to the end: what the volume took.
    pub service: Latencies,
    /// From the planned start to the actual one: how far the schedule was missed.
    pub lag: Latencies,
    /// I/Os that began late because all that may be outstanding were.
    pub missed: u64,
    /// I/Os whose planned start came, and that never began: all that may be outstanding were.
    pub backlog: Waiting,
}

impl Paced {
    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Paced) {
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        self.missed += other.missed;
        self.backlog.add(other.backlog);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.service.clear();
        self.lag.clear();
        self.missed = 0;
        self.backlog = Waiting::default();
    }
}

/// Everything that was done in a span of time. Memory is taken by [`new`](Self::new) only.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Reads.
    pub read: Tally,
    /// Writes, including those of zeroes.
    pub write: Tally,
    /// Trims: they move no data.
    pub trim: Tally,
    /// Flushes. They are counted apart: no I/O of another kind, no rate and no latency of all has
    /// them, as with fio.
    pub flush: Tally,
    /// The open moment of the latencies, and the settled ones of all directions together.
    moment: u64,
    moments: Moments,
    /// Where the span begins; later than `end` as long as there is none.
    pub start: Nanos,
    /// Where it ends.
    pub end: Nanos,
    /// The number of outstanding I/Os, integrated over time: outstanding × nanoseconds. An I/O is
    /// outstanding from the instant that its latency counts from: submission, or in an open loop
    /// its planned start.
    pub outstanding_ns: u128,
    /// What of `outstanding_ns` no latency in this span stands for, less what latencies in it
    /// count of the time before: ages of the I/Os in flight at its end, less those at its start,
    /// and how long the I/Os took that ended in a fault. Without it, an I/O that was in flight for
    /// long at an end of a window would look like an error of accounting.
    pub unsettled_ns: i128,
    /// What of `outstanding_ns` lies before the span: an I/O that waited for its beginning counts
    /// from its planned start when it begins. What it had waited by the end of a span is in the
    /// `outstanding_ns` of that one, and here in the next.
    pub before_ns: u128,
    /// Age of the oldest I/O that has no answer at its end, from its planned start on; of several
    /// workers the greatest, and 0 where none is in flight.
    pub oldest_ns: u64,
    /// Present where I/Os begin by the clock.
    pub paced: Option<Box<Paced>>,
    /// Writes that went elsewhere, because one was in flight at their place and data are compared.
    pub displaced: u64,
    /// Which I/Os ended in a fault, and why.
    pub failures: Failures,
    /// I/Os that had no answer when the worker ended. They are in the latencies with their age.
    pub waiting: Waiting,
    /// What became of the connection; of several workers in all.
    pub connection: Connection,
    /// The depth at its end, where it is searched; of several workers the latest.
    pub searched: Option<SearchedDepth>,
    /// Bytes that were read and written in ramps of groups: no figure has them, and the devices'
    /// counters do. Less than nothing where those of an earlier span are in figures after all.
    pub ramp_bytes: [i64; 2],
}

impl Default for Interval {
    fn default() -> Interval {
        Interval::new()
    }
}

impl Interval {
    /// Nothing in no time.
    pub fn new() -> Interval {
        let tally = Tally::default;
        Interval {
            read: tally(),
            write: tally(),
            trim: tally(),
            flush: tally(),
            moment: moments::NONE,
            moments: Moments::new(),
            start: Nanos(u64::MAX),
            end: Nanos(0),
            outstanding_ns: 0,
            unsettled_ns: 0,
            before_ns: 0,
            oldest_ns: 0,
            paced: None,
            displaced: 0,
            failures: Failures::default(),
            waiting: Waiting::default(),
            connection: Connection::default(),
            searched: None,
            ramp_bytes: [0; 2],
        }
    }

    /// Nothing in no time, with memory for what an open loop knows.
    pub fn paced() -> Interval {
        Interval { paced: Some(Box::default()), ..Interval::new() }
    }

    /// The tally that `op` belongs to.
    #[inline]
    pub fn tally(&mut self, op: Op) -> &mut Tally {
        match op {
            Op::Read => &mut self.read,
            Op::Write | Op::WriteZeroes => &mut self.write,
            Op::Trim => &mut self.trim,
            Op::Flush => &mut self.flush,
        }
    }

    /// Says what time it is for the latencies that are recorded next.
    #[inline]
    pub fn turn(&mut self, now: Nanos) {
        let moment = moments::number(now.0);
        if moment != self.moment {
            self.begin_moment(moment);
        }
    }

    #[cold]
    fn begin_moment(&mut self, moment: u64) {
        self.moment = moment;
        self.tallies_mut().for_each(|tally| tally.latencies.turn(moment));
    }

    fn tallies_mut(&mut self) -> impl Iterator<Item = &mut Tally> {
        [&mut self.read, &mut self.write, &mut self.trim, &mut self.flush].into_iter()
    }

    /// Latencies of I/Os, without flushes.
    fn tallies(&self) -> [&Tally; 3] {
        [&self.read, &self.write, &self.trim]
    }

    /// Counts the moments so far, of which all workers' latencies are here.
    pub(crate) fn settle(&mut self) {
        let mut all = Moments::new();
        self.tallies().iter().for_each(|tally| tally.latencies.add_moments(&mut all));
        all.settle(0);
        self.moments.merge(&all, 0);
        self.tallies_mut().for_each(|tally| tally.latencies.settle());
    }

    /// Counts one I/O that was done without a fault.
    #[inline]
    pub fn record(&mut self, op: Op, len_bytes: u32, latency: Nanos) {
        self.tally(op).record(len_bytes, latency);
    }

    /// Counts one I/O that ended in a fault after `latency`. `words` says what its cause means.
    #[cold]
    pub fn record_failure(
        &mut self,
        failed: Failed,
        latency: Nanos,
        words: impl FnOnce() -> Option<String>,
    ) {
        self.tally(failed.op).errors += 1;
        if planted(Plant::ErrorsHaveLatencies) {
            self.tally(failed.op).latencies.record(latency.0);
        }
        self.unsettled_ns += i128::from(latency.0);
        self.failures.note(failed, words);
    }

    /// Counts one I/O that failed because it was not answered: after `age` nobody waits for it any
    /// more. Its latency is no shorter.
    #[cold]
    pub fn record_unanswered(
        &mut self,
        failed: Failed,
        age: Nanos,
        words: impl FnOnce() -> Option<String>,
    ) {
        let tally = self.tally(failed.op);
        tally.errors += 1;
        tally.latencies.record_waiting(age.0, 1);
        self.failures.note(failed, words);
    }

    /// Counts `n` I/Os that have no answer after `age`: their latencies are no shorter. Those that
    /// never `began` are the backlog of an open loop.
    #[cold]
    pub fn record_waiting(&mut self, op: Op, age: Nanos, n: u64, began: bool) {
        self.tally(op).latencies.record_waiting(age.0, n);
        let waiting = Waiting { ios: n, oldest_ns: age.0 };
        match &mut self.paced {
            Some(paced) if !began => {
                paced.backlog.add(waiting);
                paced.lag.record_waiting(age.0, n);
            }
            _ => self.waiting.add(waiting),
        }
    }

    /// Counts a moment of its own for an I/O without an answer after `age`.
    #[cold]
    pub fn note_moment(&mut self, op: Op, age: Nanos) {
        self.tally(op).latencies.moments.note_one(age.0);
        if op != Op::Flush {
            self.moments.note_one(age.0);
        }
    }

    /// Says that `outstanding` I/Os were in flight for `span`.
    #[inline]
    pub fn record_outstanding(&mut self, outstanding: u64, span: Nanos) {
        self.outstanding_ns += u128::from(outstanding) * u128::from(span.0);
    }

    /// Adds `other`: another worker's part of the same span, or a later part of the same worker.
    /// The span becomes the hull of both.
    pub fn merge(&mut self, other: &Interval) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.trim.merge(&other.trim);
        self.flush.merge(&other.flush);
        self.moments.merge(&other.moments, 0);
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.outstanding_ns += other.outstanding_ns;
        self.unsettled_ns += other.unsettled_ns;
        self.before_ns += other.before_ns;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
        self.displaced += other.displaced;
        self.failures.merge(&other.failures);
        self.waiting.add(other.waiting);
        self.connection += other.connection;
        self.searched = other.searched.or(self.searched);
        self.ramp_bytes[0] += other.ramp_bytes[0];
        self.ramp_bytes[1] += other.ramp_bytes[1];
        if let Some(theirs) = &other.paced {
            self.paced.get_or_insert_default().merge(theirs);
        }
    }

    /// Adds what came of I/Os of this span after its end: `late` begins there, and nothing new was
    /// begun in it. How long they took counts, and how many failed or had no answer; neither rates
    /// nor the mean number of outstanding I/Os do.
    pub fn merge_late(&mut self, late: &Interval) {
        self.read.latencies.merge(&late.read.latencies);
        self.write.latencies.merge(&late.write.latencies);
        self.trim.latencies.merge(&late.trim.latencies);
        self.flush.latencies.merge(&late.flush.latencies);
        self.moments.merge(&late.moments, 0);
        self.merge_failures(late);
        self.waiting.add(late.waiting);
        // What was outstanding behind the end is in their latencies, and in nothing else.
        self.unsettled_ns += late.unsettled_ns - late.outstanding_ns();
        if let (Some(ours), Some(theirs)) = (&mut self.paced, &late.paced) {
            ours.merge(theirs);
        }
    }

    /// Adds what failed in `other` and which connections were lost, and nothing else: what came of
    /// I/Os of this span after its end.
    pub fn merge_failures(&mut self, other: &Interval) {
        self.read.errors += other.read.errors;
        self.write.errors += other.write.errors;
        self.trim.errors += other.trim.errors;
        self.flush.errors += other.flush.errors;
        self.failures.merge(&other.failures);
        self.connection += other.connection;
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.read.clear();
        self.write.clear();
        self.trim.clear();
        self.flush.clear();
        self.moment = moments::NONE;
        self.moments.clear();
        (self.start, self.end) = (Nanos(u64::MAX), Nanos(0));
        (self.outstanding_ns, self.unsettled_ns) = (0, 0);
        (self.before_ns, self.oldest_ns) = (0, 0);
        self.displaced = 0;
        self.failures.clear();
        self.waiting = Waiting::default();
        self.connection = Connection::default();
        self.searched = None;
        self.ramp_bytes = [0; 2];
        if let Some(paced) = &mut self.paced {
            paced.clear();
        }
    }

    /// Forgets what was done in a ramp, but for the bytes that devices counted.
    pub fn forget_ramp(&mut self) {
        let [read, written] = self.ramp_bytes;
        let bytes = [&self.read, &self.write].map(|tally| tally.bytes as i64);
        self.clear();
        self.ramp_bytes = [read + bytes[0], written + bytes[1]];
    }

    /// Counts a ramp that was forgotten after all.
    pub fn take_back(&mut self, ramp: &Interval) {
        self.merge(ramp);
        self.ramp_bytes[0] -= ramp.read.bytes as i64;
        self.ramp_bytes[1] -= ramp.write.bytes as i64;
    }

    /// Length of the span in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.since(self.start).as_secs_f64()
    }

    /// I/Os of all directions that were done without a fault; flushes are none.
    pub fn ios(&self) -> u64 {
        self.read.ios + self.write.ios + self.trim.ios
    }

    /// I/Os and flushes that were done without a fault.
    pub fn completed(&self) -> u64 {
        self.ios() + self.flush.ios
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes + self.trim.bytes
    }

    /// I/Os and flushes that ended in a fault.
    pub fn errors(&self) -> u64 {
        self.read.errors + self.write.errors + self.trim.errors + self.flush.errors
    }

    /// I/Os per second; zero without a span.
    pub fn iops(&self) -> f64 {
        per(self.ios() as f64, self.seconds())
    }

    /// Bytes per second; zero without a span.
    pub fn bytes_per_second(&self) -> f64 {
        per(self.bytes() as f64, self.seconds())
    }

    /// The number of outstanding I/Os, integrated over the time of this span only; below zero by as
    /// much as what it began with was estimated too high.
    pub fn outstanding_ns(&self) -> i128 {
        self.outstanding_ns as i128 - self.before_ns as i128
    }

    /// Mean number of outstanding I/Os; zero without a span.
    pub fn mean_outstanding(&self) -> f64 {
        per(self.outstanding_ns().max(0) as f64, self.end.since(self.start).0 as f64)
    }

    /// Latencies of all I/Os and flushes, for what is outstanding is both. Allocates.
    pub fn all_latencies(&self) -> Latencies {
        let mut all = self.latencies();
        all.merge(&self.flush.latencies);
        all
    }

    /// Latencies of all I/Os in one histogram. Allocates.
    pub fn latencies(&self) -> Latencies {
        let mut all = self.read.latencies.clone();
        all.merge(&self.write.latencies);
        all.merge(&self.trim.latencies);
        if self.moments.is_known() {
            let mut moments = self.moments.clone();
            self.tallies().iter().for_each(|tally| tally.latencies.add_moments(&mut moments));
            all.set_moments(moments);
        }
        all
    }
}

/// `amount / unit`, and zero where there is no unit: results hold no NaN.
pub(crate) fn per(amount: f64, unit: f64) -> f64 {
    if unit > 0.0 { amount / unit } else { 0.0 }
}

#[cfg(test)]
mod test {
    use block::{Cause, Fault};

    use super::*;

    #[test]
    fn counts_by_direction() {
        let mut interval = Interval::new();
        assert_eq!(
            (interval.seconds(), interval.iops(), interval.mean_outstanding()),
            (0., 0., 0.)
        );
        (interval.start, interval.end) = (Nanos::from_secs(5), Nanos::from_secs(7));
        for (op, len) in [(Op::Read, 512), (Op::Read, 512), (Op::Write, 4096), (Op::Flush, 0)] {
            interval.record(op, len, Nanos(1000));
        }
        let (op, fault, cause) = (Op::Trim, Fault::Medium, Cause(5));
        let failed = Failed { op, fault, cause, at: Nanos::from_secs(6), offset: 0, len: 512 };
        interval.record_failure(failed, Nanos(500_000_000), || None);
        interval.record_outstanding(3, Nanos::from_secs(1));
        interval.record_outstanding(1, Nanos::from_secs(1));
        assert_eq!((interval.read.ios, interval.write.ios, interval.flush.ios), (2, 1, 1));
        assert_eq!((interval.bytes(), interval.errors(), interval.completed()), (5120, 1, 4));
        // Three I/Os in two seconds, and a flush beside them.
        assert_eq!((interval.iops(), interval.mean_outstanding()), (1.5, 2.0));
        assert_eq!(interval.unsettled_ns, 500_000_000);
        assert_eq!((interval.latencies().count(), interval.all_latencies().count()), (3, 4));
    }

    #[test]
    fn merges_over_workers_and_over_time() {
        let span = |from, to| {
            let mut interval = Interval::new();
            (interval.start, interval.end) = (Nanos::from_secs(from), Nanos::from_secs(to));
            interval.record(Op::Read, 512, Nanos(from));
            interval.record_outstanding(4, Nanos::from_secs(to - from));
            interval
        };
        let mut whole = Interval::new();
        for part in [span(1, 2), span(2, 3), span(1, 3)] {
            whole.merge(&part);
        }
        whole.merge(&Interval::new());
        assert_eq!((whole.seconds(), whole.ios(), whole.mean_outstanding()), (2.0, 3, 8.0));
        whole.clear();
        assert_eq!(whole, Interval::new());
    }

    #[test]
    fn what_a_ramp_moved_is_known_and_in_no_figure() {
        let of = |reads: u32| {
            let mut interval = Interval::new();
            (0..reads).for_each(|_| interval.record(Op::Read, 512, Nanos(1)));
            interval
        };
        let mut ramp = of(4);
        ramp.record(Op::Write, 4096, Nanos(1));
        let kept = ramp.clone();
        ramp.forget_ramp();
        assert_eq!((ramp.ios(), ramp.bytes(), ramp.ramp_bytes), (0, 0, [2048, 4096]));
        let mut whole = of(1);
        whole.merge(&ramp);
        assert_eq!((whole.bytes(), whole.ramp_bytes), (512, [2048, 4096]));
        // Its worker ended within the ramp: that is what it measured.
        whole.take_back(&kept);
        assert_eq!((whole.read.bytes, whole.write.bytes), (2560, 4096));
        assert_eq!(whole.ramp_bytes, [0, 0]);
        whole.clear();
        assert_eq!(whole, Interval::new());
    }

    #[test]
    fn schedules_are_merged_and_cleared() {
        let mut paced = Interval::paced();
        let schedule = paced.paced.as_mut().unwrap();
        schedule.lag.record(7);
        schedule.missed = 3;
        let mut whole = Interval::new();
        whole.merge(&Interval::new());
        assert!(whole.paced.is_none());
        whole.merge(&paced);
        whole.merge(&paced);
        let merged = whole.paced.as_ref().unwrap();
        assert_eq!((merged.lag.count(), merged.missed), (2, 6));
        whole.clear();
        assert_eq!(whole, Interval::paced());
    }
}
