//! A run over time, in memory that its length does not affect: a row of numbers and a histogram for
//! each second, and from some length on for longer stretches of equal length.
//!
//! Neighbours are merged by adding their counts. Percentiles are those of both histograms together:
//! nothing is averaged.

use block::Connection;

use crate::buckets::Span;
use crate::collect::Stretch;
use crate::histogram::{Latencies, supports};
use crate::interval::{Interval, per};
use crate::packed::{Packed, joined};
use crate::run::Second;

/// Maximum number of histograms: 1.5 MB, if each has the thousand buckets of a fast run.
const SPANS_MAX: usize = 512;
/// Rows for each histogram, at the limit. This many rows are merged when one histogram covers them
/// all, so that its percentiles are known.
const ROWS: usize = 8;

/// Rows and histograms over time.
#[derive(Debug)]
pub(crate) struct Timeline {
    spans_max: usize,
    rows: Vec<Row>,
    /// Histograms of the last row and of the last span, while they grow.
    row: Latencies,
    span: Latencies,
    /// Histograms of all spans but the last.
    spans: Vec<Packed>,
    /// Seconds in a full row; a span has as many, or up to [`ROWS`] times as many.
    row_seconds: usize,
    span_seconds: usize,
    /// Seconds in the last row and in the last span.
    row_filled: usize,
    span_filled: usize,
    /// Beginning of the last span, and its end so far.
    span_from_s: f64,
    to_s: f64,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::of(SPANS_MAX)
    }
}

impl Timeline {
    /// Creates a timeline of at most `spans_max` spans, an even number.
    fn of(spans_max: usize) -> Timeline {
        Timeline {
            spans_max,
            rows: Vec::new(),
            row: Latencies::new(),
            span: Latencies::new(),
            spans: Vec::new(),
            row_seconds: 1,
            span_seconds: 1,
            row_filled: 0,
            span_filled: 0,
            span_from_s: 0.0,
            to_s: 0.0,
        }
    }

    /// Adds a second, and returns its row.
    pub fn add(&mut self, stretch: Stretch, done: &Interval, latencies: &Latencies) -> Second {
        let second = Row::of(stretch, done, latencies);
        if self.row_filled == self.row_seconds {
            self.row_filled = 0;
            self.row.clear();
        }
        self.row_filled += 1;
        self.row.merge(latencies);
        match self.rows.last_mut() {
            Some(open) if self.row_filled > 1 => {
                open.join(&second);
                open.shape(&self.row);
            }
            _ => self.rows.push(second),
        }
        self.add_span(stretch.to_s, latencies);
        second.second()
    }

    /// Adds work after the last second to that second; work reported when no worker was active has
    /// no `stretch`.
    pub fn extend(&mut self, stretch: Option<Stretch>, done: &Interval, latencies: &Latencies) {
        let Some(last) = self.rows.last_mut() else { return };
        let stretch = stretch.unwrap_or(Stretch { to_s: last.to_s, span_ns: 0 });
        last.join(&Row::of(stretch, done, latencies));
        self.merge_latencies(stretch.to_s, latencies);
    }

    /// Adds late completions to the last second.
    pub fn extend_late(&mut self, latencies: &Latencies) {
        let Some(last) = self.rows.last_mut() else { return };
        last.join_late(latencies);
        let to_s = last.to_s;
        self.merge_latencies(to_s, latencies);
    }

    fn merge_latencies(&mut self, to_s: f64, latencies: &Latencies) {
        self.row.merge(latencies);
        if let Some(last) = self.rows.last_mut() {
            last.shape(&self.row);
        }
        if self.span_filled == 0
            && let Some(span) = self.spans.pop()
        {
            // The span was closed with the last second: reopened, it is closed by the next one.
            let span = span.span();
            self.span_from_s = span.from_s;
            self.span = Latencies::of(&span.buckets, span.max_ns);
            self.span_filled = self.span_seconds;
        }
        self.span.merge(latencies);
        self.to_s = to_s;
    }

    fn add_span(&mut self, to_s: f64, latencies: &Latencies) {
        if self.span_filled == self.span_seconds {
            self.close_span();
        }
        self.span_filled += 1;
        self.span.merge(latencies);
        self.to_s = to_s;
        if self.spans.len() + 1 == self.spans_max && self.span_filled == self.span_seconds {
            let last = self.span.clone();
            self.close_span();
            if self.rows.len() == ROWS * self.spans_max {
                self.join_rows();
                self.row = last;
            }
            self.halve_spans();
        }
    }

    fn close_span(&mut self) {
        if let Some(open) = self.open_span() {
            self.spans.push(Packed::of(&open));
        }
        self.span.clear();
        (self.span_filled, self.span_from_s) = (0, self.to_s);
    }

    fn open_span(&self) -> Option<Span> {
        let max_ns = self.span.max().unwrap_or(0);
        let buckets = crate::Buckets::of(&self.span);
        let span = Span { from_s: self.span_from_s, to_s: self.to_s, max_ns, buckets };
        (self.span_filled > 0).then_some(span)
    }

    /// Merges rows: each span covers several rows, which become one.
    fn join_rows(&mut self) {
        let (groups, _) = self.rows.as_chunks::<ROWS>();
        let groups = groups.iter().zip(&self.spans);
        let joined = groups.map(|([first, rest @ ..], span)| {
            let mut row = *first;
            rest.iter().for_each(|next| row.join(next));
            row.shape_by(&span.span());
            row
        });
        self.rows = joined.collect();
        self.row_seconds *= ROWS;
        self.row_filled = self.row_seconds;
    }

    fn halve_spans(&mut self) {
        let (pairs, _) = self.spans.as_chunks::<2>();
        let joined = |[one, next]: &[Packed; 2]| Packed::of(&joined(one.span(), &next.span()));
        self.spans = pairs.iter().map(joined).collect();
        self.span_seconds *= 2;
    }

    /// Returns whether there is no second yet.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows so far.
    pub fn rows(&self) -> Vec<Second> {
        self.rows.iter().map(Row::second).collect()
    }

    /// Returns the histograms so far, in at most about `most` spans: neighbours are merged as
    /// needed.
    pub fn spans(&self, most: usize) -> Vec<Span> {
        let each = self.spans.len().div_ceil(most.max(1)).max(1);
        let one = |span: Span, next: Span| joined(span, &next);
        let chunks = self.spans.chunks(each);
        let whole = chunks.filter_map(|chunk| chunk.iter().map(Packed::span).reduce(one));
        whole.chain(self.open_span()).collect()
    }
}

/// Counts of a stretch of time.
#[derive(Clone, Copy, Debug)]
struct Row {
    to_s: f64,
    /// Time in which I/Os could happen.
    span_ns: u64,
    reads: u64,
    writes: u64,
    trims: u64,
    flushes: u64,
    read_bytes: u64,
    written_bytes: u64,
    bytes: u64,
    errors: u64,
    connection: Connection,
    outstanding_ns: i128,
    /// Number of latencies, and their sum.
    samples: u64,
    latency_ns: u128,
    /// p50, p99 and p99.9.
    percentiles: [Option<u64>; 3],
    max_ns: Option<u64>,
    oldest_ns: Option<u64>,
    waiting_from_ns: Option<u64>,
}

/// Percentiles that a row shows.
const SHOWN: [f64; 3] = [0.5, 0.99, 0.999];

impl Row {
    fn of(stretch: Stretch, done: &Interval, latencies: &Latencies) -> Row {
        let Stretch { to_s, span_ns } = stretch;
        let mut row = Row {
            to_s,
            span_ns,
            reads: done.read.ios,
            writes: done.write.ios,
            trims: done.trim.ios,
            flushes: done.flush.ios,
            read_bytes: done.read.bytes,
            written_bytes: done.write.bytes,
            bytes: done.bytes(),
            errors: done.errors(),
            connection: done.connection,
            outstanding_ns: done.outstanding_ns(),
            samples: latencies.count(),
            latency_ns: latencies.sum(),
            percentiles: [None; 3],
            max_ns: latencies.max().max(Some(done.oldest_ns).filter(|ns| *ns > 0)),
            oldest_ns: Some(done.oldest_ns).filter(|ns| *ns > 0),
            waiting_from_ns: latencies.waiting_from(),
        };
        row.shape(latencies);
        row
    }

    fn ios(&self) -> u64 {
        self.reads + self.writes + self.trims
    }

    /// Adds the counts of the stretch that follows. The caller sets the percentiles again.
    fn join(&mut self, next: &Row) {
        self.to_s = next.to_s;
        self.span_ns += next.span_ns;
        self.reads += next.reads;
        self.writes += next.writes;
        self.trims += next.trims;
        self.flushes += next.flushes;
        self.read_bytes += next.read_bytes;
        self.written_bytes += next.written_bytes;
        self.bytes += next.bytes;
        self.errors += next.errors;
        self.connection += next.connection;
        self.outstanding_ns += next.outstanding_ns;
        self.samples += next.samples;
        self.latency_ns += next.latency_ns;
        self.max_ns = self.max_ns.max(next.max_ns);
        self.oldest_ns = next.oldest_ns;
        self.waiting_from_ns = next.waiting_from_ns.or(self.waiting_from_ns);
    }

    /// Adds late completions. The caller sets the percentiles again.
    fn join_late(&mut self, latencies: &Latencies) {
        self.samples += latencies.count();
        self.latency_ns += latencies.sum();
        self.max_ns = self.max_ns.max(latencies.max());
        let waiting = self.waiting_from_ns.into_iter().chain(latencies.waiting_from());
        self.waiting_from_ns = waiting.min();
    }

    fn shape(&mut self, latencies: &Latencies) {
        self.percentiles = SHOWN.map(|p| latencies.supported_percentile(p));
    }

    fn shape_by(&mut self, span: &Span) {
        let samples = self.samples;
        self.percentiles =
            SHOWN.map(|p| supports(samples, p).then(|| span.percentile(p)).flatten());
    }

    fn second(&self) -> Second {
        let span_ns = self.span_ns as f64;
        let rate = |amount: u64| per(amount as f64, span_ns / 1e9);
        let [p50_ns, p99_ns, p99_9_ns] = self.percentiles;
        let ios = self.ios();
        Second {
            t: self.to_s,
            seconds: span_ns / 1e9,
            ios,
            iops: rate(ios),
            bytes_per_second: rate(self.bytes),
            read_iops: rate(self.reads),
            write_iops: rate(self.writes),
            flush_iops: rate(self.flushes),
            read_bytes_per_second: rate(self.read_bytes),
            write_bytes_per_second: rate(self.written_bytes),
            errors: self.errors,
            connections_lost: self.connection.lost,
            reconnects: self.connection.reconnects,
            mean_outstanding: per(self.outstanding_ns.max(0) as f64, span_ns),
            mean_ns: (self.samples > 0).then(|| self.latency_ns as f64 / self.samples as f64),
            p50_ns,
            p99_ns,
            p99_9_ns,
            max_ns: self.max_ns,
            oldest_ns: self.oldest_ns,
            waiting_from_ns: self.waiting_from_ns,
        }
    }
}

#[cfg(test)]
mod test {
    use block::{Nanos, Op, splitmix};

    use super::*;

    /// Returns one second of work: some hundred I/Os, with latencies that wander.
    fn second(number: u64) -> Interval {
        let mut done = Interval::new();
        (done.start, done.end) = (Nanos::from_secs(number), Nanos::from_secs(number + 1));
        for i in 0..20 + number % 40 {
            let chance = splitmix(&mut (number << 10 | i));
            let op = if chance.is_multiple_of(3) { Op::Write } else { Op::Read };
            done.record(op, 512, Nanos(1000 + (chance >> 20) % (1000 * (1 + number % 50))));
        }
        done.record_outstanding(1 + number % 7, Nanos::from_secs(1));
        done
    }

    fn run(timeline: &mut Timeline, seconds: std::ops::Range<u64>) {
        for number in seconds {
            let done = second(number);
            let stretch = Stretch { to_s: (number + 1) as f64, span_ns: 1_000_000_000 };
            timeline.add(stretch, &done, &done.latencies());
        }
    }

    /// A week has 147 times as many seconds as a timeline keeps rows, and so does this test.
    #[test]
    fn a_week_is_kept_in_few_rows_that_are_those_of_the_union() {
        let mut timeline = Timeline::of(4);
        let seconds = 4 * ROWS as u64 * 147 + 3;
        run(&mut timeline, 0..seconds);
        let rows = timeline.rows();
        assert!((4..=4 * ROWS).contains(&rows.len()), "{}", rows.len());
        let (mut from, mut ios) = (0, 0.0);
        for row in &rows {
            let to = row.t as u64;
            let mut union = Interval::new();
            (from..to).for_each(|number| union.merge(&second(number)));
            let stretch = Stretch { to_s: row.t, span_ns: (to - from) * 1_000_000_000 };
            let expected = Row::of(stretch, &union, &union.latencies()).second();
            assert_eq!(*row, expected, "{from} to {to}");
            assert_eq!(row.iops, union.iops());
            assert_eq!(row.mean_outstanding, union.mean_outstanding());
            ios += row.iops * (to - from) as f64;
            from = to;
        }
        assert_eq!(from, seconds);
        let all: f64 = (0..seconds).map(|number| second(number).iops()).sum();
        assert!((ios - all).abs() < 1e-3, "{ios} of {all}");
        let widths: Vec<f64> = rows.windows(2).map(|pair| pair[1].t - pair[0].t).collect();
        assert!(widths[..widths.len() - 1].iter().all(|width| *width == widths[0]), "{widths:?}");
    }

    #[test]
    fn histograms_over_time_are_those_of_the_union_too() {
        let mut timeline = Timeline::of(8);
        for end in [1, 7, 8, 9, 16, 17, 31, 32, 33, 200] {
            let begin = timeline.to_s as u64;
            run(&mut timeline, begin..end);
            let spans = timeline.spans(usize::MAX);
            assert!(spans.len() <= 8, "{}", spans.len());
            let few = timeline.spans(3);
            assert!(few.len() <= 4, "{}", few.len());
            for spans in [&spans, &few] {
                assert_eq!((spans[0].from_s, spans[spans.len() - 1].to_s), (0.0, end as f64));
            }
            for span in spans.iter().chain(&few) {
                let mut union = Latencies::new();
                let within = span.from_s as u64..span.to_s as u64;
                within.for_each(|number| union.merge(&second(number).latencies()));
                assert_eq!(span.buckets, crate::Buckets::of(&union));
                assert_eq!(Some(span.max_ns), union.max());
            }
            assert!(spans.windows(2).all(|pair| pair[0].to_s == pair[1].from_s));
        }
    }

    /// An hour keeps its seconds, and memory has a limit that does not depend on the run's length.
    #[test]
    fn memory_has_an_end() {
        const { assert!(ROWS * SPANS_MAX >= 3600) };
        // A thousand buckets with a thousand I/Os each.
        let mut latencies = Latencies::new();
        (0..1000_u64).for_each(|i| latencies.record_n(i * i + 200, 1000));
        let buckets = crate::Buckets::of(&latencies);
        let span = Span { from_s: 0.0, to_s: 1.0, max_ns: 1_000_000, buckets };
        let bytes = SPANS_MAX * (Packed::of(&span).bytes() + ROWS * size_of::<Row>());
        assert!(bytes > 1 << 20 && bytes < 3 << 20, "{bytes} bytes");
    }
}
