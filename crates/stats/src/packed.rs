//! Histograms over time, in little memory.

use crate::buckets::{Buckets, Span};

/// Merges a span with the one that follows it.
pub(crate) fn joined(mut one: Span, next: &Span) -> Span {
    one.to_s = next.to_s;
    one.max_ns = one.max_ns.max(next.max_ns);
    one.buckets.merge(&next.buckets);
    one
}

/// A span in about three bytes per bucket, instead of sixteen and more: a second of a fast run has
/// a thousand buckets.
#[derive(Debug)]
pub(crate) struct Packed {
    from_s: f64,
    to_s: f64,
    max_ns: u64,
    /// For each bucket the distance of its beginning from that of the previous bucket, and its
    /// count.
    numbers: Box<[u8]>,
}

impl Packed {
    pub fn of(span: &Span) -> Packed {
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

    /// Returns the size in memory, in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.numbers.len() + size_of::<Packed>()
    }

    pub fn span(&self) -> Span {
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

/// Appends a number in LEB128: seven bits per byte, least significant first; the last byte has its
/// top bit clear.
fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Decodes the next number.
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
}
