//! Histograms over time, in little memory however long a run is.

use crate::buckets::{Buckets, Span};
use crate::histogram::Latencies;

/// Spans that are kept at most: beyond it neighbours become one, so that a run of a week has no
/// larger result than one of half an hour.
const SPANS_MAX: usize = 2048;

/// Histograms over time in bounded memory.
#[derive(Debug)]
pub(crate) struct Spans {
    spans: Vec<Packed>,
    /// Seconds that make one span by now.
    seconds: usize,
    /// Seconds in the last span.
    filled: usize,
}

impl Default for Spans {
    fn default() -> Spans {
        Spans { spans: Vec::new(), seconds: 1, filled: 0 }
    }
}

impl Spans {
    /// Adds the second that ends at `to_s`.
    pub fn add(&mut self, to_s: f64, latencies: &Latencies) {
        let max_ns = latencies.max().unwrap_or(0);
        let from_s = self.spans.last().map_or(0.0, |last| last.to_s);
        let second = Span { from_s, to_s, max_ns, buckets: Buckets::of(latencies) };
        if self.filled < self.seconds
            && let Some(open) = self.spans.last_mut()
        {
            *open = Packed::of(&joined(open.span(), &second));
            self.filled += 1;
        } else {
            self.spans.push(Packed::of(&second));
            self.filled = 1;
        }
        if self.spans.len() == SPANS_MAX && self.filled == self.seconds {
            self.halve();
        }
    }

    /// The spans so far.
    pub fn all(&self) -> Vec<Span> {
        self.spans.iter().map(Packed::span).collect()
    }

    fn halve(&mut self) {
        let (pairs, _) = self.spans.as_chunks::<2>();
        let joined = |[one, next]: &[Packed; 2]| Packed::of(&joined(one.span(), &next.span()));
        self.spans = pairs.iter().map(joined).collect();
        self.seconds *= 2;
        self.filled = self.seconds;
    }
}

/// A span and the one that follows it, as one.
fn joined(mut one: Span, next: &Span) -> Span {
    one.to_s = next.to_s;
    one.max_ns = one.max_ns.max(next.max_ns);
    one.buckets.merge(&next.buckets);
    one
}

/// A span in about three bytes a bucket, in place of sixteen and more: a second of a fast run has
/// a thousand buckets.
#[derive(Debug)]
struct Packed {
    from_s: f64,
    to_s: f64,
    max_ns: u64,
    /// Of each bucket how far it begins behind the one before, and its count.
    numbers: Box<[u8]>,
}

impl Packed {
    fn of(span: &Span) -> Packed {
        let mut numbers = Vec::with_capacity(4 * span.buckets.count.len());
        let mut before = 0;
        for bucket in span.buckets.iter() {
            put(bucket.from_ns - before, &mut numbers);
            put(bucket.count, &mut numbers);
            before = bucket.from_ns;
        }
        let Span { from_s, to_s, max_ns, .. } = *span;
        Packed { from_s, to_s, max_ns, numbers: numbers.into_boxed_slice() }
    }

    fn span(&self) -> Span {
        let mut buckets = Buckets::default();
        let (mut rest, mut from_ns) = (&self.numbers[..], 0);
        while !rest.is_empty() {
            from_ns += take(&mut rest);
            buckets.from_ns.push(from_ns);
            buckets.count.push(take(&mut rest));
        }
        Span { from_s: self.from_s, to_s: self.to_s, max_ns: self.max_ns, buckets }
    }
}

/// Appends a number, seven bits to a byte, the least first; the last byte has its top bit clear.
fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes the next number off.
fn take(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::histogram::test::of;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_loses_nothing(
            samples in prop::collection::vec(0_u64..1 << 42, 0..200),
            ends in (0.0..1e6, 1e6..1e7),
            max_ns: u64,
        ) {
            let buckets = Buckets::of(&of(&samples));
            let span = Span { from_s: ends.0, to_s: ends.1, max_ns, buckets };
            prop_assert_eq!(Packed::of(&span).span(), span);
        }

        #[test]
        fn every_number_comes_back(numbers in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put(*number, &mut bytes));
            let mut rest = &bytes[..];
            let back: Vec<u64> = numbers.iter().map(|_| take(&mut rest)).collect();
            prop_assert_eq!((back, rest.len()), (numbers, 0));
        }
    }

    #[test]
    fn a_long_run_has_few_spans_and_loses_nothing() {
        let mut spans = Spans::default();
        for second in 1..=10_000 {
            spans.add(f64::from(second), &of(&[u64::from(second as u32)]));
        }
        let kept = spans.all();
        assert!(kept.len() < SPANS_MAX, "{}", kept.len());
        assert_eq!(kept.iter().map(|span| span.buckets.samples()).sum::<u64>(), 10_000);
        assert!(kept.windows(2).all(|pair| pair[0].to_s == pair[1].from_s));
        assert_eq!((kept[0].from_s, kept[kept.len() - 1].to_s), (0.0, 10_000.0));
        assert_eq!(kept[kept.len() - 1].max_ns, 10_000);
        assert!(kept[..kept.len() - 1].windows(2).all(|p| p[1].to_s - p[0].to_s == 8.0), "equal");
    }

    #[test]
    fn an_hour_of_a_million_a_second_takes_little_memory() {
        let mut spans = Spans::default();
        for second in 1..=3600_u32 {
            // A thousand buckets that a thousand I/Os each fell into.
            let mut latencies = Latencies::default();
            (0..1000_u64).for_each(|i| latencies.record_n(i * i + 200, 1000));
            spans.add(f64::from(second), &latencies);
        }
        let bytes: usize = spans.spans.iter().map(|span| span.numbers.len()).sum();
        assert!(bytes < 10 << 20, "{bytes} bytes");
    }
}
