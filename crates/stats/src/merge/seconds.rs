//! A run of several hosts over time: rows and histograms of the same seconds add up.
//!
//! A second of a host belongs to the second of the measurement that it covers most of. Sums are of
//! whole numbers, so that the order of the parts does not matter.

use std::collections::BTreeMap;

use crate::buckets::{Buckets, Span};
use crate::histogram::supports;
use crate::interval::per;
use crate::run::{RunResult, Second};

/// Rows and histograms by their number.
#[derive(Debug, Default)]
pub(super) struct Course {
    rows: BTreeMap<i64, Row>,
    spans: BTreeMap<i64, Span>,
    /// Rows and histograms of some host do not cover the same time.
    apart: bool,
    /// Whether a host has rows of another length.
    uneven: bool,
    /// Length of rows and histograms in seconds.
    widths: Option<(f64, f64)>,
}

/// Percentiles that a row shows.
const SHOWN: [f64; 3] = [0.5, 0.99, 0.999];

#[derive(Debug, Default)]
struct Row {
    t_s: f64,
    seconds: f64,
    reads: u64,
    writes: u64,
    flushes: u64,
    ios: u64,
    bytes: u64,
    read_bytes: u64,
    written_bytes: u64,
    errors: u64,
    connections_lost: u64,
    reconnects: u64,
    outstanding_ns: u128,
    latency_ns: u128,
    samples: u64,
    max_ns: Option<u64>,
    oldest_ns: Option<u64>,
    waiting_from_ns: Option<u64>,
}

impl Course {
    /// Adds the rows of a host whose window began at `started_ns`.
    pub fn add(&mut self, result: &RunResult, started_ns: u64, reference_ns: u64) {
        let late_s = (i128::from(started_ns) - i128::from(reference_ns)) as f64 / 1e9;
        let row_s = result.intervals.first().map_or(1.0, |row| width(row.t));
        let span_s = result.spans.first().map_or(1.0, |span| width(span.to_s - span.from_s));
        let widths = *self.widths.get_or_insert((row_s, span_s));
        if widths != (row_s, span_s) {
            self.uneven = true;
            return;
        }
        let ends = || result.intervals.iter().map(|row| row.t);
        self.apart |= result.spans.len() != result.intervals.len()
            || ends().zip(&result.spans).any(|(end, span)| (end - span.to_s).abs() > 1e-6);
        let shift = (late_s / row_s).round() as i64;
        for (number, second) in (0_i64..).zip(&result.intervals) {
            let samples = result.spans.get(number as usize).map(|span| span.buckets.samples());
            let row = self.rows.entry(shift.saturating_add(number)).or_default();
            row.add(second, late_s, samples.unwrap_or(second.ios));
        }
        let shift = (late_s / span_s).round() as i64;
        for (number, span) in (0_i64..).zip(&result.spans) {
            let sum = self
                .spans
                .entry(shift.saturating_add(number))
                .or_insert_with(|| Span { from_s: f64::INFINITY, ..Span::default() });
            sum.from_s = sum.from_s.min(span.from_s + late_s);
            sum.to_s = sum.to_s.max(span.to_s + late_s);
            sum.max_ns = sum.max_ns.max(span.max_ns);
            sum.buckets.merge_ascending(&span.buckets);
        }
    }

    /// Makes the rows and the histograms of all hosts.
    pub fn finish(self) -> (Vec<Second>, Vec<Span>) {
        if self.uneven {
            return Default::default();
        }
        let mut rows = Vec::with_capacity(self.rows.len());
        let mut spans: Vec<Span> = Vec::with_capacity(self.spans.len());
        let begin_s = self.spans.values().map(|span| span.from_s).fold(f64::INFINITY, f64::min);
        let begin_s = if begin_s.is_finite() { begin_s } else { 0.0 };
        for (number, row) in self.rows {
            let span = self.spans.get(&number).filter(|_| !self.apart);
            rows.push(row.second(begin_s, span));
        }
        for span in self.spans.into_values() {
            // One host's last second may reach into another's next.
            let from_s = spans.last().map_or(0.0, |last| last.to_s);
            let to_s = (span.to_s - begin_s).max(from_s);
            spans.push(Span { from_s, to_s, ..span });
        }
        (rows, spans)
    }
}

/// Whole seconds, at least one.
fn width(seconds: f64) -> f64 {
    seconds.round().clamp(1.0, 1e6)
}

impl Row {
    fn add(&mut self, of: &Second, late_s: f64, samples: u64) {
        let count = |rate: f64| (rate * of.seconds).round().max(0.0) as u64;
        self.t_s = self.t_s.max(of.t + late_s);
        self.seconds = self.seconds.max(of.seconds);
        for (sum, more) in [
            (&mut self.reads, count(of.read_iops)),
            (&mut self.writes, count(of.write_iops)),
            (&mut self.flushes, count(of.flush_iops)),
            (&mut self.ios, of.ios),
            (&mut self.bytes, count(of.bytes_per_second)),
            (&mut self.read_bytes, count(of.read_bytes_per_second)),
            (&mut self.written_bytes, count(of.write_bytes_per_second)),
            (&mut self.errors, of.errors),
            (&mut self.connections_lost, of.connections_lost),
            (&mut self.reconnects, of.reconnects),
            (&mut self.samples, samples),
        ] {
            *sum = sum.saturating_add(more);
        }
        let outstanding_ns = (of.mean_outstanding * of.seconds * 1e9).max(0.0) as u128;
        self.outstanding_ns = self.outstanding_ns.saturating_add(outstanding_ns);
        let latency_ns = (of.mean_ns.unwrap_or(0.0) * samples as f64).max(0.0).round() as u128;
        self.latency_ns = self.latency_ns.saturating_add(latency_ns);
        self.max_ns = self.max_ns.max(of.max_ns);
        self.oldest_ns = self.oldest_ns.max(of.oldest_ns);
        let waiting = self.waiting_from_ns.into_iter().chain(of.waiting_from_ns);
        self.waiting_from_ns = waiting.min();
    }

    fn second(&self, begin_s: f64, span: Option<&Span>) -> Second {
        let rate = |amount: u64| per(amount as f64, self.seconds);
        let shown = SHOWN.map(|p| {
            let span = span.filter(|span| supports(span.buckets.samples(), p))?;
            span.percentile(p)
        });
        let [p50_ns, p99_ns, p99_9_ns] = shown;
        Second {
            t: self.t_s - begin_s,
            seconds: self.seconds,
            ios: self.ios,
            iops: rate(self.ios),
            bytes_per_second: rate(self.bytes),
            read_iops: rate(self.reads),
            write_iops: rate(self.writes),
            flush_iops: rate(self.flushes),
            read_bytes_per_second: rate(self.read_bytes),
            write_bytes_per_second: rate(self.written_bytes),
            errors: self.errors,
            connections_lost: self.connections_lost,
            reconnects: self.reconnects,
            mean_outstanding: per(self.outstanding_ns as f64, self.seconds * 1e9),
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

impl Buckets {
    /// Adds the counts of another histogram; both are in ascending order.
    fn merge_ascending(&mut self, other: &Buckets) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        let mut sum = Buckets::default();
        let room = self.from_ns.len().max(other.from_ns.len());
        sum.from_ns.reserve(room);
        sum.count.reserve(room);
        let mut ours = self.from_ns.iter().zip(&self.count).peekable();
        let mut theirs = other.from_ns.iter().zip(&other.count).peekable();
        loop {
            let (from_ns, count) = match (ours.peek(), theirs.peek()) {
                (None, None) => break,
                (Some((a, _)), Some((b, _))) if a == b => {
                    let a = *a;
                    let counts = [ours.next(), theirs.next()].map(|it| it.map_or(0, |it| *it.1));
                    (a, counts[0].saturating_add(counts[1]))
                }
                (Some((a, _)), Some((b, _))) if a > b => pair(theirs.next()),
                (None, Some(_)) => pair(theirs.next()),
                (Some(_), _) => pair(ours.next()),
            };
            sum.from_ns.push(*from_ns);
            sum.count.push(count);
        }
        *self = sum;
    }
}

fn pair<'a>(of: Option<(&'a u64, &'a u64)>) -> (&'a u64, u64) {
    of.map_or((&0, 0), |(from_ns, count)| (from_ns, *count))
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::test::of;

    proptest! {
        #[test]
        fn merging_in_order_is_merging(
            a in prop::collection::vec(0_u64..1 << 20, 0..200),
            b in prop::collection::vec(0_u64..1 << 20, 0..200),
        ) {
            let (a, b) = (Buckets::of(&of(&a)), Buckets::of(&of(&b)));
            let (mut one, mut other) = (a.clone(), a);
            one.merge(&b);
            other.merge_ascending(&b);
            prop_assert_eq!(one, other);
        }
    }
}
