//! Rows of each worker over time, in bounded memory however long the run and however many the
//! workers: a row for each second, and from some length on one for 2, 4, 8 … seconds.

use crate::interval::{Interval, Tally, per};
use crate::run::{WorkerRow, WorkerRows};

/// Rows over all workers at most: 8 MB in memory, 3 MB in a document.
const ROWS_MAX: usize = 1 << 16;
/// Rows of one worker: at most as many as the result has for all together, and of thousands of
/// workers still enough for a course.
const OF_ONE: (usize, usize) = (16, 4096);

/// Counts of each worker in stretches of equal length.
#[derive(Debug)]
pub(super) struct Rows {
    /// Stretches at most, an even number.
    most: usize,
    /// Seconds that make a stretch by now, and those in the last one.
    width: usize,
    filled: usize,
    stretches: Vec<Stretch>,
    /// The open second of each worker.
    open: Vec<Count>,
}

#[derive(Debug)]
struct Stretch {
    to_s: f64,
    workers: Vec<Count>,
}

/// Counts of one worker in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    span_ns: u64,
    reads: u64,
    writes: u64,
    trims: u64,
    flushes: u64,
    read_bytes: u64,
    written_bytes: u64,
    trimmed_bytes: u64,
    errors: u64,
    outstanding_ns: i128,
    samples: u64,
    latency_ns: u128,
    max_ns: u64,
}

impl Rows {
    /// Makes empty rows for a number of workers.
    pub fn new(workers: usize) -> Rows {
        Rows::of(workers, (ROWS_MAX / workers.max(1)).clamp(OF_ONE.0, OF_ONE.1) & !1)
    }

    fn of(workers: usize, most: usize) -> Rows {
        let open = vec![Count::default(); workers];
        Rows { most, width: 1, filled: 0, stretches: Vec::new(), open }
    }

    /// Adds the work of a worker in the open second.
    pub fn add(&mut self, worker: usize, done: &Interval) {
        let open = &mut self.open[worker];
        open.span_ns += done.end.since(done.start).0;
        open.reads += done.read.ios;
        open.writes += done.write.ios;
        open.trims += done.trim.ios;
        open.flushes += done.flush.ios;
        open.read_bytes += done.read.bytes;
        open.written_bytes += done.write.bytes;
        open.trimmed_bytes += done.trim.bytes;
        open.errors += done.errors();
        open.outstanding_ns += done.outstanding_ns();
        open.add_latencies(done);
        open.max_ns = open.max_ns.max(done.oldest_ns);
    }

    /// Closes the second that ends at `to_s`, in seconds since the window began.
    pub fn end_second(&mut self, to_s: f64) {
        let begins = self.filled == self.width || self.stretches.is_empty();
        if begins && self.stretches.len() == self.most {
            self.halve();
        }
        // Halved, the last stretch may have room again.
        if self.filled == self.width || self.stretches.is_empty() {
            self.stretches.push(Stretch { to_s, workers: vec![Count::default(); self.open.len()] });
            self.filled = 0;
        }
        self.filled += 1;
        self.extend_second(Some(to_s));
    }

    /// Adds the open second to the last stretch, which then ends at `to_s` if that is given.
    /// Without a stretch the second stays open.
    pub fn extend_second(&mut self, to_s: Option<f64>) {
        let Some(last) = self.stretches.last_mut() else { return };
        last.to_s = to_s.unwrap_or(last.to_s);
        for (count, open) in last.workers.iter_mut().zip(&mut self.open) {
            count.join(&std::mem::take(open));
        }
    }

    /// Adds latencies of a worker's I/Os that were in flight when the last second was closed.
    pub fn add_late(&mut self, worker: usize, late: &Interval) {
        self.last_of(worker).add_latencies(late);
    }

    /// Adds a worker's I/Os that failed after the last second was closed.
    pub fn add_late_failures(&mut self, worker: usize, late: &Interval) {
        self.last_of(worker).errors += late.errors();
    }

    /// Finds the last stretch in which a worker ran.
    fn last_of(&mut self, worker: usize) -> &mut Count {
        let nothing = Count::default();
        let there = self.stretches.iter().rposition(|it| it.workers[worker] != nothing);
        match there.or_else(|| self.stretches.len().checked_sub(1)) {
            Some(index) => &mut self.stretches[index].workers[worker],
            None => &mut self.open[worker],
        }
    }

    /// Returns the rows of a worker: one for each stretch in which it ran.
    pub fn of_worker(&self, worker: usize) -> WorkerRows {
        let mut rows = WorkerRows::default();
        let closed = self.stretches.iter().map(|stretch| (stretch.to_s, &stretch.workers[worker]));
        let open = (0.0, &self.open[worker]);
        for (to_s, count) in closed.chain(self.stretches.is_empty().then_some(open)) {
            if *count != Count::default() {
                rows.push(&count.row(to_s));
            }
        }
        rows
    }

    fn halve(&mut self) {
        let mut all = std::mem::take(&mut self.stretches).into_iter();
        while let Some(mut one) = all.next() {
            if let Some(next) = all.next() {
                one.to_s = next.to_s;
                one.workers.iter_mut().zip(&next.workers).for_each(|(sum, more)| sum.join(more));
            }
            self.stretches.push(one);
        }
        self.width *= 2;
        self.filled = self.width;
    }
}

impl Count {
    fn add_latencies(&mut self, done: &Interval) {
        let all: [&Tally; 3] = [&done.read, &done.write, &done.trim];
        for latencies in all.map(|tally| &tally.latencies).into_iter().filter(|it| !it.is_empty()) {
            self.samples += latencies.count();
            self.latency_ns += latencies.sum();
            self.max_ns = self.max_ns.max(latencies.max().unwrap_or(0));
        }
    }

    fn join(&mut self, next: &Count) {
        self.span_ns += next.span_ns;
        self.reads += next.reads;
        self.writes += next.writes;
        self.trims += next.trims;
        self.flushes += next.flushes;
        self.read_bytes += next.read_bytes;
        self.written_bytes += next.written_bytes;
        self.trimmed_bytes += next.trimmed_bytes;
        self.errors += next.errors;
        self.outstanding_ns += next.outstanding_ns;
        self.samples += next.samples;
        self.latency_ns += next.latency_ns;
        self.max_ns = self.max_ns.max(next.max_ns);
    }

    fn row(&self, t_s: f64) -> WorkerRow {
        WorkerRow {
            t_s,
            seconds: self.span_ns as f64 / 1e9,
            reads: self.reads,
            writes: self.writes,
            trims: self.trims,
            flushes: self.flushes,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            trimmed_bytes: self.trimmed_bytes,
            errors: self.errors,
            mean_outstanding: per(self.outstanding_ns.max(0) as f64, self.span_ns as f64),
            mean_ns: (self.samples > 0).then(|| self.latency_ns as f64 / self.samples as f64),
            max_ns: (self.max_ns > 0 || self.samples > 0).then_some(self.max_ns),
        }
    }
}

#[cfg(test)]
mod test {
    use block::{Nanos, Op};
    use proptest::prelude::*;

    use super::*;

    /// A worker's second: reads of 512 bytes, some writes of 4 KiB, failures.
    fn done(second: u64, ios: u64, failed: u64) -> Interval {
        let mut done = Interval::new();
        (done.start, done.end) = (Nanos::from_secs(second), Nanos::from_secs(second + 1));
        (0..ios).for_each(|io| match io % 5 {
            0 => done.record(Op::Write, 4096, Nanos(1000 + io)),
            1 => done.record(Op::Trim, 65536, Nanos(1000 + io)),
            _ => done.record(Op::Read, 512, Nanos(100 + io)),
        });
        done.read.errors = failed;
        done
    }

    proptest! {
        /// In any order of events, rows add up to everything that was added.
        #[test]
        fn rows_add_up(
            seconds in prop::collection::vec((0_u64..40, 0_u64..3, 0_u8..4), 1..70),
            late in 0_u64..3,
        ) {
            let mut rows = Rows::of(2, 8);
            let (mut ios, mut bytes, mut errors, mut span) = (0, 0, 0, 0.0);
            for (number, (count, failed, how)) in seconds.iter().enumerate() {
                let part = done(number as u64, *count, *failed);
                rows.add(1, &part);
                ios += part.ios();
                bytes += part.bytes();
                errors += part.errors();
                span += part.seconds();
                match how {
                    0 => rows.extend_second(None),
                    1 => rows.extend_second(Some(number as f64 + 1.0)),
                    _ => rows.end_second(number as f64 + 1.0),
                }
            }
            rows.add_late_failures(1, &done(0, 0, late));
            let all: Vec<WorkerRow> = rows.of_worker(1).iter().collect();
            prop_assert!(all.len() <= 8);
            prop_assert!(rows.of_worker(0).is_empty());
            prop_assert_eq!(all.iter().map(WorkerRow::ios).sum::<u64>(), ios);
            let moved = |row: &WorkerRow| row.read_bytes + row.written_bytes + row.trimmed_bytes;
            prop_assert_eq!(all.iter().map(moved).sum::<u64>(), bytes);
            prop_assert_eq!(all.iter().map(|row| row.errors).sum::<u64>(), errors + late);
            prop_assert!((all.iter().map(|row| row.seconds).sum::<f64>() - span).abs() < 1e-6);
            prop_assert!(all.windows(2).all(|pair| pair[0].t_s < pair[1].t_s), "{:?}", all);
        }
    }

    #[test]
    fn a_long_run_has_rows_of_equal_length_with_exact_means() {
        let mut rows = Rows::of(1, 4);
        for second in 0..11 {
            let mut part = done(second, 0, 0);
            part.record(Op::Read, 512, Nanos(100 * (second + 1)));
            rows.add(0, &part);
            rows.end_second(second as f64 + 1.0);
        }
        let all: Vec<WorkerRow> = rows.of_worker(0).iter().collect();
        let ends: Vec<f64> = all.iter().map(|row| row.t_s).collect();
        assert_eq!(ends, [4.0, 8.0, 11.0]);
        assert_eq!((all[0].mean_ns, all[0].max_ns), (Some(250.0), Some(400)));
        assert_eq!((all[2].seconds, all[2].reads), (3.0, 3));
    }

    #[test]
    fn an_io_that_comes_back_late_counts_where_its_worker_was_last() {
        let mut rows = Rows::of(2, 4);
        rows.add(0, &done(0, 1, 0));
        rows.add(1, &done(0, 1, 0));
        rows.end_second(1.0);
        rows.add(1, &done(1, 1, 0));
        rows.end_second(2.0);
        let mut late = Interval::new();
        late.read.latencies.record(9_000_000);
        rows.add_late(0, &late);
        let all: Vec<WorkerRow> = rows.of_worker(0).iter().collect();
        assert_eq!((all.len(), all[0].reads + all[0].writes), (1, 1));
        assert_eq!(all[0].max_ns, Some(9_000_000));
    }
}
