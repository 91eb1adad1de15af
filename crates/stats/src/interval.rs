//! Work of one worker, or of all workers, between two instants.
//!
//! A worker owns one interval and records into it; a collector drains the interval every second.

use block::{Connection, Nanos, Op, Plant, planted};

use crate::failures::{Failed, Failures};
use crate::histogram::Latencies;
use crate::moments::{self, Moments};
use crate::run::{SearchedDepth, Waiting};

/// I/Os of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of I/Os that completed without a fault.
    pub ios: u64,
    /// Number of I/Os that ended in a fault. No other field includes them.
    pub errors: u64,
    /// Bytes of the I/Os without a fault. Not adjacent to `ios`: the compiler would add to both as
    /// one vector, which takes twice as long to pass the store buffer.
    pub bytes: u64,
    /// Latencies of the I/Os without a fault.
    pub latencies: Latencies,
}

impl Tally {
    /// Counts one I/O that completed without a fault.
    #[inline]
    pub fn record(&mut self, len_bytes: u32, latency: Nanos) {
        self.ios += 1;
        self.bytes += u64::from(len_bytes);
        self.latencies.record(latency.0);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Tally) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latencies.merge(&other.latencies);
    }

    /// Clears all counts and retains the memory.
    pub fn clear(&mut self) {
        (self.ios, self.bytes, self.errors) = (0, 0, 0);
        self.latencies.clear();
    }
}

/// Figures of an open loop in addition to response times, which count from the planned starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paced {
    /// Service time: from the actual start to the end.
    pub service: Latencies,
    /// Lag: from the planned start to the actual one.
    pub lag: Latencies,
    /// I/Os that started late because the queue depth was reached.
    pub missed: u64,
    /// I/Os whose planned start passed and that never started, because the queue depth was reached.
    pub backlog: Waiting,
}

impl Paced {
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Paced) {
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        self.missed += other.missed;
        self.backlog.add(other.backlog);
    }

    /// Clears all counts and retains the memory.
    pub fn clear(&mut self) {
        self.service.clear();
        self.lag.clear();
        self.missed = 0;
        self.backlog = Waiting::default();
    }
}

/// All work in a span of time. Only [`new`](Self::new) allocates memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Reads.
    pub read: Tally,
    /// Writes, including write-zeroes commands.
    pub write: Tally,
    /// Trims: they move no data.
    pub trim: Tally,
    /// Flushes. They are counted separately: as in fio, no I/O count, rate or total latency
    /// includes them.
    pub flush: Tally,
    /// The open moment of the latencies, and the settled ones of all directions together.
    moment: u64,
    moments: Moments,
    /// Beginning of the span; later than `end` as long as there is no span.
    pub start: Nanos,
    /// End of the span.
    pub end: Nanos,
    /// Number of I/Os in flight, integrated over time: I/Os × nanoseconds. An I/O counts from the
    /// same instant as its latency: submission, or in an open loop its planned start.
    pub outstanding_ns: u128,
    /// Part of `outstanding_ns` that is in no latency of this span, less the part of its latencies
    /// that lies before the span: ages of the I/Os in flight at the end of the span, less those at
    /// its start, and durations of the I/Os that ended in a fault. Without this term, a long I/O in
    /// flight at an end of a window would look like an error of accounting.
    pub unsettled_ns: i128,
    /// Part of `outstanding_ns` that lies before the span: an I/O that waited to start counts from
    /// its planned start once it starts. Its wait by the end of a span is in `outstanding_ns` of
    /// that span, and in this field in the next.
    pub before_ns: u128,
    /// Age of the oldest unanswered I/O at the end of the span, from its planned start; for several
    /// workers the maximum, and 0 if none is in flight.
    pub oldest_ns: u64,
    /// Figures of an open loop; `None` in a closed loop.
    pub paced: Option<Box<Paced>>,
    /// Writes that were moved to another offset, because one was in flight at theirs and data are
    /// compared.
    pub displaced: u64,
    /// Failed I/Os, with their causes.
    pub failures: Failures,
    /// Unanswered I/Os when the worker ended. Latencies include them with their age.
    pub waiting: Waiting,
    /// Events of the connection; for several workers the sum.
    pub connection: Connection,
    /// Queue depth at the end of the span, if the depth is searched; for several workers the
    /// latest.
    pub searched: Option<SearchedDepth>,
    /// Bytes read and written in ramps of groups: no figure includes them, and the devices'
    /// counters do. Negative if bytes of an earlier span are in figures after all.
    pub ramp_bytes: [i64; 2],
    /// Part of the latencies in which the worker's thread waited for a processor, or came late to
    /// a planned start.
    pub waited_ns: u128,
}

impl Default for Interval {
    fn default() -> Interval {
        Interval::new()
    }
}

impl Interval {
    /// Creates an empty interval of no length.
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
            waited_ns: 0,
        }
    }

    /// Creates an empty interval of no length, with memory for the figures of an open loop.
    pub fn paced() -> Interval {
        Interval { paced: Some(Box::default()), ..Interval::new() }
    }

    /// Returns the tally that `op` belongs to.
    #[inline]
    pub fn tally(&mut self, op: Op) -> &mut Tally {
        match op {
            Op::Read => &mut self.read,
            Op::Write | Op::WriteZeroes => &mut self.write,
            Op::Trim => &mut self.trim,
            Op::Flush => &mut self.flush,
        }
    }

    /// Sets the time of the latencies that are recorded next.
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

    /// Returns the tallies of I/Os, without flushes.
    fn tallies(&self) -> [&Tally; 3] {
        [&self.read, &self.write, &self.trim]
    }

    /// Counts the moments so far; these contain the latencies of all workers.
    pub(crate) fn settle(&mut self) {
        let mut all = Moments::new();
        self.tallies().iter().for_each(|tally| tally.latencies.add_moments(&mut all));
        all.settle(0);
        self.moments.merge(&all, 0);
        self.tallies_mut().for_each(|tally| tally.latencies.settle());
    }

    /// Counts one I/O that completed without a fault.
    #[inline]
    pub fn record(&mut self, op: Op, len_bytes: u32, latency: Nanos) {
        self.tally(op).record(len_bytes, latency);
    }

    /// Counts one I/O that ended in a fault after `latency`. `words` returns the text of its cause.
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

    /// Counts one I/O that timed out after `age`. Its true latency is no shorter.
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

    /// Counts `n` unanswered I/Os of `age`: their true latencies are no shorter. I/Os that never
    /// `began` are the backlog of an open loop.
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

    /// Counts a separate moment for an unanswered I/O of `age`.
    #[cold]
    pub fn note_moment(&mut self, op: Op, age: Nanos) {
        self.tally(op).latencies.moments.note_one(age.0);
        if op != Op::Flush {
            self.moments.note_one(age.0);
        }
    }

    /// Adds `outstanding` I/Os in flight for `span`.
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
        self.waited_ns += other.waited_ns;
        if let Some(theirs) = &other.paced {
            self.paced.get_or_insert_default().merge(theirs);
        }
    }

    /// Adds the completions of this span's I/Os after its end: `late` begins there, and no I/O
    /// started in it. Latencies, failures and unanswered I/Os count; rates and the mean number of
    /// I/Os in flight do not.
    pub fn merge_late(&mut self, late: &Interval) {
        self.read.latencies.merge(&late.read.latencies);
        self.write.latencies.merge(&late.write.latencies);
        self.trim.latencies.merge(&late.trim.latencies);
        self.flush.latencies.merge(&late.flush.latencies);
        self.moments.merge(&late.moments, 0);
        self.merge_failures(late);
        self.waiting.add(late.waiting);
        // I/Os in flight past the end are in their latencies, and in nothing else.
        self.unsettled_ns += late.unsettled_ns - late.outstanding_ns();
        self.waited_ns += late.waited_ns;
        if let (Some(ours), Some(theirs)) = (&mut self.paced, &late.paced) {
            ours.merge(theirs);
        }
    }

    /// Adds only the failures and lost connections of `other`: I/Os of this span that completed
    /// after its end.
    pub fn merge_failures(&mut self, other: &Interval) {
        self.read.errors += other.read.errors;
        self.write.errors += other.write.errors;
        self.trim.errors += other.trim.errors;
        self.flush.errors += other.flush.errors;
        self.failures.merge(&other.failures);
        self.connection += other.connection;
    }

    /// Clears all counts and retains the memory.
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
        (self.ramp_bytes, self.waited_ns) = ([0; 2], 0);
        if let Some(paced) = &mut self.paced {
            paced.clear();
        }
    }

    /// Clears the counts of a ramp, except for the bytes that devices counted.
    pub fn forget_ramp(&mut self) {
        let [read, written] = self.ramp_bytes;
        let bytes = [&self.read, &self.write].map(|tally| tally.bytes as i64);
        self.clear();
        self.ramp_bytes = [read + bytes[0], written + bytes[1]];
    }

    /// Adds the counts of a ramp that was cleared.
    pub fn take_back(&mut self, ramp: &Interval) {
        self.merge(ramp);
        self.ramp_bytes[0] -= ramp.read.bytes as i64;
        self.ramp_bytes[1] -= ramp.write.bytes as i64;
    }

    /// Returns the length of the span in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.since(self.start).as_secs_f64()
    }

    /// Returns the I/Os of all directions that completed without a fault, flushes excluded.
    pub fn ios(&self) -> u64 {
        self.read.ios + self.write.ios + self.trim.ios
    }

    /// Returns the I/Os and flushes that completed without a fault.
    pub fn completed(&self) -> u64 {
        self.ios() + self.flush.ios
    }

    /// Returns the bytes of all directions.
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes + self.trim.bytes
    }

    /// Returns the I/Os and flushes that ended in a fault.
    pub fn errors(&self) -> u64 {
        self.read.errors + self.write.errors + self.trim.errors + self.flush.errors
    }

    /// Returns the IOPS; zero without a span.
    pub fn iops(&self) -> f64 {
        per(self.ios() as f64, self.seconds())
    }

    /// Returns the bytes per second; zero without a span.
    pub fn bytes_per_second(&self) -> f64 {
        per(self.bytes() as f64, self.seconds())
    }

    /// Returns the number of I/Os in flight, integrated over the time of this span only; negative
    /// by the amount by which the estimate at its start was too high.
    pub fn outstanding_ns(&self) -> i128 {
        self.outstanding_ns as i128 - self.before_ns as i128
    }

    /// Returns the mean number of I/Os in flight; zero without a span.
    pub fn mean_outstanding(&self) -> f64 {
        per(self.outstanding_ns().max(0) as f64, self.end.since(self.start).0 as f64)
    }

    /// Returns the mean part of a latency, in nanoseconds, in which the worker's thread waited for
    /// a processor; `None` without completions.
    pub fn mean_wait_ns(&self) -> Option<f64> {
        let ended = self.completed() + self.errors();
        (ended > 0).then(|| self.waited_ns as f64 / ended as f64)
    }

    /// Returns the latencies of all I/Os and flushes, as both count as in flight. Allocates.
    pub fn all_latencies(&self) -> Latencies {
        let mut all = self.latencies();
        all.merge(&self.flush.latencies);
        all
    }

    /// Returns the latencies of all I/Os in one histogram. Allocates.
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

/// Returns `amount / unit`, and zero if there is no unit: results hold no NaN.
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
        // Three I/Os in two seconds, and a flush.
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
        // The worker ended within the ramp, so the ramp is its measurement.
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
