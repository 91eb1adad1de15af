//! What some workers did over time, direction by direction, for jobs that want logs of it. Memory
//! is bounded however long a run is and however many jobs there are: seconds become longer
//! stretches of equal length. Only counts and sums are kept, so what is joined is exact.

use block::Nanos;

use crate::interval::{Interval, Tally};
use crate::run::{Amount, Stretch};

/// Rows that one series keeps at most: the seconds of more than an hour.
const ROWS_MAX: usize = 4096;
/// Rows that all series of a run keep at most: 32 MB.
const ALL_ROWS_MAX: usize = 1 << 18;

/// The rows of one job.
#[derive(Debug)]
pub(crate) struct Series {
    rows_max: usize,
    rows: Vec<Row>,
    /// Seconds that make one row by now, and those in the last row.
    row_seconds: usize,
    row_filled: usize,
    /// The second that is still open.
    second: Row,
}

impl Series {
    /// One of so many of a run.
    pub fn one_of(count: usize) -> Series {
        let share = ALL_ROWS_MAX / count.max(1);
        Series::of(share.clamp(2, ROWS_MAX) / 2 * 2)
    }

    /// With at most so many rows, an even number.
    fn of(rows_max: usize) -> Series {
        let (row_seconds, row_filled) = (1, 0);
        Series { rows_max, rows: Vec::new(), row_seconds, row_filled, second: Row::default() }
    }

    /// Adds what one of its workers did in the open second.
    pub fn add(&mut self, done: &Interval) {
        self.second.join(&Row::of(done));
    }

    /// Closes the second.
    pub fn end_second(&mut self) {
        let second = std::mem::take(&mut self.second);
        if let Some(open) = self.rows.last_mut()
            && self.row_filled < self.row_seconds
        {
            open.join(&second);
            self.row_filled += 1;
            return;
        }
        if self.rows.len() == self.rows_max {
            self.halve();
        }
        self.rows.push(second);
        self.row_filled = 1;
    }

    fn halve(&mut self) {
        let (pairs, _) = self.rows.as_chunks::<2>();
        let joined = pairs.iter().map(|[one, next]| {
            let mut one = *one;
            one.join(next);
            one
        });
        self.rows = joined.collect();
        self.row_seconds *= 2;
    }

    /// The rows so far, without those in which none of the workers had begun or all had ended;
    /// times count from `begin`.
    pub fn stretches(&self, begin: Nanos) -> Vec<Stretch> {
        let worked = self.rows.iter().filter(|row| row.start < row.end);
        worked.map(|row| row.stretch(begin)).collect()
    }
}

/// What was counted in a stretch of time.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: Nanos,
    end: Nanos,
    /// Reads, writes, and flushes and trims.
    sums: [Sum; 3],
}

impl Default for Row {
    fn default() -> Row {
        Row { start: Nanos(u64::MAX), end: Nanos(0), sums: [Sum::default(); 3] }
    }
}

impl Row {
    fn of(done: &Interval) -> Row {
        let sums = [&done.read, &done.write, &done.other].map(Sum::of);
        Row { start: done.start, end: done.end, sums }
    }

    fn join(&mut self, other: &Row) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            sum.ios += other.ios;
            sum.bytes += other.bytes;
            sum.latency_ns += other.latency_ns;
        }
    }

    fn stretch(&self, begin: Nanos) -> Stretch {
        let [read, write, other] = self.sums.map(|sum| sum.amount());
        let seconds = |at: Nanos| at.since(begin).as_secs_f64();
        Stretch { from_s: seconds(self.start), to_s: seconds(self.end), read, write, other }
    }
}

/// One direction of it.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ios: u64,
    bytes: u64,
    latency_ns: u128,
}

impl Sum {
    fn of(tally: &Tally) -> Sum {
        Sum { ios: tally.ios, bytes: tally.bytes, latency_ns: tally.latencies.sum() }
    }

    fn amount(&self) -> Amount {
        let mean_ns = (self.ios > 0).then(|| self.latency_ns as f64 / self.ios as f64);
        Amount { ios: self.ios, bytes: self.bytes, mean_ns }
    }
}

#[cfg(test)]
mod test {
    use block::Op;

    use super::*;

    /// A second with one read more than the one before it, and a write.
    fn second(number: u64) -> Interval {
        let mut done = Interval::new();
        (done.start, done.end) = (Nanos::from_secs(number), Nanos::from_secs(number + 1));
        (0..number).for_each(|_| done.record(Op::Read, 512, Nanos(1000 * number)));
        done.record(Op::Write, 4096, Nanos(700));
        done
    }

    fn run(series: &mut Series, seconds: std::ops::Range<u64>) {
        for number in seconds {
            series.add(&second(number));
            series.end_second();
        }
    }

    #[test]
    fn directions_stay_apart_and_workers_of_a_job_come_together() {
        let mut series = Series::one_of(1);
        run(&mut series, 3..4);
        series.add(&second(4));
        series.add(&second(4));
        series.end_second();
        let [one, two] = &series.stretches(Nanos::from_secs(3))[..] else { panic!("{series:?}") };
        assert_eq!((one.from_s, one.to_s, two.from_s, two.to_s), (0.0, 1.0, 1.0, 2.0));
        assert_eq!(one.read, Amount { ios: 3, bytes: 1536, mean_ns: Some(3000.0) });
        assert_eq!(one.write, Amount { ios: 1, bytes: 4096, mean_ns: Some(700.0) });
        assert_eq!((two.read.ios, two.write.ios, two.other), (8, 2, Amount::default()));
    }

    #[test]
    fn nothing_is_shown_of_seconds_before_the_begin_and_after_the_end() {
        let mut series = Series::of(4);
        series.add(&Interval::new());
        series.end_second();
        run(&mut series, 5..6);
        series.add(&Interval::new());
        series.end_second();
        assert_eq!(series.stretches(Nanos(0)).len(), 1);
    }

    #[test]
    fn long_runs_are_kept_in_few_rows_that_are_sums() {
        let mut series = Series::of(4);
        for seconds in [1, 4, 5, 6, 8, 9, 100, 1003] {
            let begin = series.stretches(Nanos(0)).last().map_or(0, |last| last.to_s as u64);
            run(&mut series, begin..seconds);
            let rows = series.stretches(Nanos(0));
            assert!(rows.len() <= 4, "{rows:?}");
            assert_eq!((rows[0].from_s, rows[rows.len() - 1].to_s), (0.0, seconds as f64));
            for row in &rows {
                let all = row.from_s as u64..row.to_s as u64;
                let (ios, sum) = all.clone().fold((0, 0), |(i, s), n| (i + n, s + 1000 * n * n));
                assert_eq!((row.read.ios, row.write.ios), (ios, all.end - all.start));
                let mean = (ios > 0).then(|| sum as f64 / ios as f64);
                assert_eq!(row.read.mean_ns, mean);
            }
            let widths: Vec<f64> = rows.iter().map(|row| row.to_s - row.from_s).collect();
            assert!(widths[..widths.len() - 1].iter().all(|width| *width == widths[0]));
            assert!(rows.windows(2).all(|pair| pair[0].to_s == pair[1].from_s));
        }
    }

    #[test]
    fn memory_has_an_end() {
        const { assert!(ALL_ROWS_MAX * size_of::<Row>() <= 40 << 20) };
        for count in [1, 64, 65, 4096, 65536] {
            let rows = Series::one_of(count).rows_max;
            assert!(rows >= 2 && rows.is_multiple_of(2) && rows * count <= ALL_ROWS_MAX, "{rows}");
        }
    }
}
