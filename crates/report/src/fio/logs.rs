//! The logs that `fio` writes with `write_bw_log`, `write_iops_log` and `write_lat_log`: programs
//! that draw fio's draw these too.
//!
//! With a window a line is a point of one direction: milliseconds since the job began at which the
//! window ends, value, direction, and columns that fio fills for single I/Os only. A direction
//! without an I/O in a window has no line, as with fio. Without a window each I/O has a line.
//! Submission is not measured apart: the `_slat` log is empty, and `_clat` says the same as `_lat`.

use std::fmt::Write;

use block::{Nanos, Op};
use stats::Record;

/// Format of a job's log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Averaging window of a line; 0 for a line per I/O.
    pub window: Nanos,
    /// Lines have a column with the offset of the I/O.
    pub offsets: bool,
    /// Lines report the maximum latency of a window instead of the mean.
    pub longest: bool,
}

/// The logs of one job: text that grows with the records, to be taken away.
#[derive(Debug, Default)]
pub struct Logs {
    form: Form,
    /// Bandwidths, in KiB/s; those of single I/Os in thousands of bytes a second, as by fio.
    pub bandwidth: String,
    /// I/Os per second; 1 for a single I/O.
    pub iops: String,
    /// Latencies in nanoseconds.
    pub latency: String,
    /// The previous window, which a short last one may still join, and the open one.
    ended: Option<Window>,
    open: Window,
}

/// Sums of a window, with its number.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    number: u64,
    /// Reads, writes and trims.
    sums: [Sum; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ios: u64,
    bytes: u64,
    latency_ns: u128,
    longest_ns: u64,
}

/// fio's number of a direction; flushes are in no log.
pub(super) fn direction(op: Op) -> Option<usize> {
    match op {
        Op::Read => Some(0),
        Op::Write | Op::WriteZeroes => Some(1),
        Op::Trim => Some(2),
        Op::Flush => None,
    }
}

impl Logs {
    /// Logs without a line.
    pub fn new(form: Form) -> Logs {
        Logs { form, ..Logs::default() }
    }

    /// Takes an I/O that was done; its time counts from the job's beginning, and is not before
    /// that of the one before it.
    pub fn take(&mut self, record: &Record) {
        let Some(direction) = direction(record.op) else { return };
        let Nanos(window) = self.form.window;
        let Some(number) = record.at.0.checked_div(window) else {
            return self.single(record, direction);
        };
        if number > self.open.number {
            let ended = std::mem::replace(&mut self.open, Window { number, ..Window::default() });
            self.write_ended();
            self.ended = Some(ended);
        }
        // The job may end before the middle of this window, which then has no line.
        if record.at.0 % window >= window / 2 {
            self.write_ended();
        }
        let sum = &mut self.open.sums[direction];
        sum.ios += 1;
        sum.bytes += u64::from(record.len);
        sum.latency_ns += u128::from(record.latency.0);
        sum.longest_ns = sum.longest_ns.max(record.latency.0);
    }

    /// The job is over, so long after it began.
    pub fn end(&mut self, length: Nanos) {
        let Nanos(window) = self.form.window;
        if window == 0 {
            return;
        }
        let open = std::mem::take(&mut self.open);
        let begin = open.number.saturating_mul(window);
        let rest = length.0.saturating_sub(begin).clamp(1, window);
        if rest >= window / 2 || open.number == 0 {
            self.write_ended();
            return self.write(&open, begin + rest, rest);
        }
        let mut last = open;
        // The remainder joins the window before it.
        if let Some(ended) = self.ended.take() {
            match ended.number + 1 == open.number {
                true => ended.sums.iter().zip(&mut last.sums).for_each(|(sum, to)| to.join(sum)),
                false => self.write_whole(&ended),
            }
        }
        self.write(&last, begin + rest, window + rest);
    }

    fn write_ended(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.write_whole(&ended);
        }
    }

    fn write_whole(&mut self, window: &Window) {
        let Nanos(length) = self.form.window;
        self.write(window, (window.number + 1).saturating_mul(length), length);
    }

    fn write(&mut self, window: &Window, end_ns: u64, length_ns: u64) {
        let ms = end_ns.saturating_add(500_000) / 1_000_000;
        let place = if self.form.offsets { ", 0" } else { "" };
        let per_second = 1e9 / length_ns as f64;
        for (direction, sum) in window.sums.iter().enumerate().filter(|(_, sum)| sum.ios > 0) {
            let bandwidth = sum.bytes as f64 * per_second / 1024.0;
            let iops = sum.ios as f64 * per_second;
            let mean = sum.latency_ns as f64 / sum.ios as f64;
            let latency = if self.form.longest { sum.longest_ns as f64 } else { mean };
            for (log, value) in [
                (&mut self.bandwidth, bandwidth),
                (&mut self.iops, iops),
                (&mut self.latency, latency),
            ] {
                let _ = writeln!(log, "{ms}, {value:.0}, {direction}, 0{place}, 0");
            }
        }
    }

    fn single(&mut self, record: &Record, direction: usize) {
        let Record { at, latency: Nanos(ns), offset, len, .. } = *record;
        let ms = at.0 / 1_000_000;
        // fio's formula, whatever the unit of its result.
        let bandwidth = (u64::from(len) * 1_000_000).checked_div(ns).unwrap_or(0);
        for (log, value) in
            [(&mut self.bandwidth, bandwidth), (&mut self.iops, 1), (&mut self.latency, ns)]
        {
            let _ = match self.form.offsets {
                true => writeln!(log, "{ms}, {value}, {direction}, {len}, {offset}, 0"),
                false => writeln!(log, "{ms}, {value}, {direction}, {len}, 0"),
            };
        }
    }
}

impl Sum {
    fn join(&mut self, other: &Sum) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency_ns += other.latency_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

#[cfg(test)]
mod test {
    use stats::Moment;

    use super::*;

    fn record(ms: u64, op: Op, latency: u64) -> Record {
        let (at, latency) = (Nanos(ms * 1_000_000), Nanos(latency));
        Record { at, latency, offset: 8192, len: 4096, worker: 0, op, moment: Moment::Done }
    }

    /// Reads of one millisecond each and a write of two at each tenth of a second, to the end.
    fn logs(form: Form, seconds: f64) -> Logs {
        let mut logs = Logs::new(form);
        let ms = (seconds * 1000.0) as u64;
        for at in 0..ms {
            logs.take(&record(at, Op::Read, 1_000_000));
            if at % 100 == 0 {
                logs.take(&record(at, Op::Write, 2_000_000));
                logs.take(&record(at, Op::Flush, 5_000_000));
            }
        }
        logs.end(Nanos(ms * 1_000_000));
        logs
    }

    fn form(ms: u64) -> Form {
        Form { window: Nanos::from_millis(ms), ..Form::default() }
    }

    /// The form of `fio-3.33`.
    #[test]
    fn each_io_has_the_line_of_fio() {
        let mut logs = Logs::new(Form::default());
        logs.take(&record(0, Op::Read, 10_465));
        logs.take(&record(49, Op::Trim, 0));
        logs.take(&record(50, Op::Flush, 7));
        logs.end(Nanos::from_secs(1));
        assert_eq!(logs.bandwidth, "0, 391399, 0, 4096, 0\n49, 0, 2, 4096, 0\n");
        assert_eq!(logs.iops, "0, 1, 0, 4096, 0\n49, 1, 2, 4096, 0\n");
        assert_eq!(logs.latency, "0, 10465, 0, 4096, 0\n49, 0, 2, 4096, 0\n");
        let mut places = Logs::new(Form { offsets: true, ..Form::default() });
        places.take(&record(7, Op::Write, 70));
        assert_eq!(places.latency, "7, 70, 1, 4096, 8192, 0\n");
    }

    #[test]
    fn windows_have_rates_and_means() {
        let of = logs(form(500), 1.0);
        assert_eq!(
            of.iops,
            "500, 1000, 0, 0, 0\n500, 10, 1, 0, 0\n1000, 1000, 0, 0, 0\n1000, 10, 1, 0, 0\n"
        );
        assert!(of.bandwidth.starts_with("500, 4000, 0, 0, 0\n500, 40, 1, 0, 0\n"));
        assert!(of.latency.ends_with("1000, 1000000, 0, 0, 0\n1000, 2000000, 1, 0, 0\n"));
        let places = logs(Form { offsets: true, ..form(1000) }, 1.0);
        assert_eq!(places.iops, "1000, 1000, 0, 0, 0, 0\n1000, 10, 1, 0, 0, 0\n");
        let mut longest = Logs::new(Form { longest: true, ..form(10) });
        [5, 90, 7].into_iter().for_each(|ns| longest.take(&record(3, Op::Read, ns)));
        longest.end(Nanos::from_millis(10));
        assert_eq!(longest.latency, "10, 90, 0, 0, 0\n");
    }

    #[test]
    fn a_short_rest_joins_the_window_before_it() {
        let times = |seconds| -> Vec<(u64, u64)> {
            let of = logs(form(1000), seconds);
            let reads = of.iops.lines().filter(|line| line.contains(", 0, 0, 0"));
            let numbers = |line: &str| {
                let mut words = line.split(", ").map(|word| word.parse().unwrap());
                (words.next().unwrap(), words.next().unwrap())
            };
            reads.map(numbers).collect()
        };
        assert_eq!(times(2.003), [(1000, 1000), (2003, 1000)]);
        assert_eq!(times(2.6), [(1000, 1000), (2000, 1000), (2600, 1000)]);
        assert_eq!(times(0.2), [(200, 1000)]);
    }

    #[test]
    fn quiet_windows_have_no_line() {
        let mut logs = Logs::new(form(1000));
        [3, 5700, 8100].into_iter().for_each(|ms| logs.take(&record(ms, Op::Read, 1)));
        logs.end(Nanos::from_millis(8100));
        assert_eq!(logs.iops, "1000, 1, 0, 0, 0\n6000, 1, 0, 0, 0\n8100, 1, 0, 0, 0\n");
        let mut none = Logs::new(form(1000));
        none.end(Nanos(u64::MAX));
        assert_eq!(none.iops, "");
        let mut far = Logs::new(form(1));
        far.take(&Record {
            at: Nanos(u64::MAX),
            latency: Nanos(u64::MAX),
            ..record(0, Op::Read, 1)
        });
        far.end(Nanos(0));
        assert_eq!(far.iops.lines().count(), 1);
    }
}
