//! The histogram log that `fio` writes with `write_hist_log`: a line for each direction and window
//! with the count of each fio bucket.

use std::collections::BTreeMap;
use std::fmt::Write;

use block::Nanos;
use stats::Record;

use super::bins;
use super::logs::direction;

/// The log of one job: text that grows with the records, to be taken away.
#[derive(Debug, Default)]
pub struct HistogramLog {
    /// The lines so far.
    pub text: String,
    window: Nanos,
    coarseness: u8,
    /// Number of the open window.
    number: u64,
    /// Reads, writes and trims of it.
    open: [Counted; 3],
}

/// Counts by bucket number, and the size of the last I/O.
#[derive(Debug, Default)]
struct Counted {
    counts: BTreeMap<usize, u64>,
    len: u32,
}

impl HistogramLog {
    /// A log with a line for each window, where 2 to the power of `coarseness`, 0 to 6, of fio's
    /// buckets are one. It has no line if the window is nothing, as with fio.
    pub fn new(window: Nanos, coarseness: u8) -> HistogramLog {
        HistogramLog { window, coarseness: coarseness.min(6), ..HistogramLog::default() }
    }

    /// Takes an I/O that was done; its time counts from the job's beginning, and is not before
    /// that of the one before it.
    pub fn take(&mut self, record: &Record) {
        let Some(direction) = direction(record.op) else { return };
        let Some(number) = record.at.0.checked_div(self.window.0) else { return };
        if number > self.number {
            self.write((self.number + 1).saturating_mul(self.window.0));
            self.number = number;
        }
        let counted = &mut self.open[direction];
        counted.len = record.len;
        let bucket = bins::number(record.latency.0) >> self.coarseness;
        *counted.counts.entry(bucket).or_default() += 1;
    }

    /// The job is over, so long after it began.
    pub fn end(&mut self, length: Nanos) {
        let end = (self.number + 1).saturating_mul(self.window.0);
        self.write(length.0.min(end));
    }

    fn write(&mut self, end_ns: u64) {
        let ms = end_ns.saturating_add(500_000) / 1_000_000;
        let buckets = bins::BUCKETS >> self.coarseness;
        for (direction, counted) in self.open.iter_mut().enumerate() {
            if counted.counts.is_empty() {
                continue;
            }
            let _ = write!(self.text, "{ms}, {direction}, {}", counted.len);
            for bucket in 0..buckets {
                let count = counted.counts.get(&bucket).copied().unwrap_or(0);
                let _ = write!(self.text, ", {count}");
            }
            self.text.push('\n');
            counted.counts.clear();
        }
    }
}

#[cfg(test)]
mod test {
    use block::Op;
    use stats::Moment;

    use super::*;

    #[test]
    fn lines_are_those_of_fio() {
        let mut log = HistogramLog::new(Nanos::from_millis(300), 3);
        let record = |ms: u64, op, ns| Record {
            at: Nanos(ms * 1_000_000),
            latency: Nanos(ns),
            offset: 0,
            len: 4096,
            worker: 0,
            op,
            moment: Moment::Done,
        };
        for (ms, op, ns) in [
            (5, Op::Read, 3),
            (90, Op::Write, 1_000_000),
            (95, Op::Flush, 3),
            (299, Op::Read, 9),
            (800, Op::Read, u64::MAX),
        ] {
            log.take(&record(ms, op, ns));
        }
        log.end(Nanos::from_millis(810));
        let lines: Vec<Vec<u64>> = log
            .text
            .lines()
            .map(|line| line.split(", ").map(|word| word.parse().unwrap()).collect())
            .collect();
        let [read, write, last] = &lines[..] else { panic!("{}", log.text) };
        assert_eq!((&read[..5], read.len()), (&[300, 0, 4096, 1, 1][..], 3 + 232));
        assert_eq!((&write[..3], write[3..].iter().sum::<u64>()), (&[300, 1, 4096][..], 1));
        assert_eq!((&last[..3], last[234]), (&[810, 0, 4096][..], 1));
        let mut none = HistogramLog::new(Nanos(0), 0);
        none.take(&record(5, Op::Read, 3));
        none.end(Nanos(9));
        assert_eq!(none.text, "");
    }
}
