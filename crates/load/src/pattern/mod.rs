//! The offset and operation of each I/O.
//!
//! A worker calls this once per I/O. The usual pattern, with one size, uniform or sequential, has a
//! fast path; all others use the general one. Both take constant time and memory,
//! but for the map of I/Os of several lengths.

mod alias;
mod files;
mod general;
mod map;
mod permutation;
mod places;
mod read_back;
mod replay;
mod zipf;
mod zoned;
mod zones;

use block::{Geometry, Nanos, Op, Rng};

use crate::pattern::general::General;
pub(crate) use crate::pattern::replay::Stream;
pub(crate) use crate::pattern::zoned::{Entry, Zoned};
use job::spec::{Access, Line, Part, Places, Walk, Workload};

/// An I/O to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) op: Op,
    /// The write uses FUA.
    pub(crate) fua: bool,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// Delay after the previous I/O; zero except for the first of a burst.
    pub(crate) pause: Nanos,
    /// Length of an I/O in the opposite direction that follows its completion; zero for none.
    pub(crate) reply: u32,
}

/// The accesses of one worker.
#[derive(Debug)]
pub(crate) enum Pattern {
    Plain(Plain),
    General(Box<General>),
    /// I/Os of a trace.
    Replay(Box<Stream>),
    /// I/Os in the zones of a zoned device.
    Zoned(Box<Zoned>),
}

/// One size, uniformly random or sequential forward, reads and writes only.
#[derive(Debug)]
pub(crate) struct Plain {
    rng: Rng,
    size: u32,
    align: u64,
    /// Start of the range.
    start: u64,
    /// Possible offsets, in units of the alignment.
    places: u64,
    /// The next sequential offset.
    next: u64,
    /// Share of reads, of 2³².
    reads: u64,
    randoms: u64,
}

/// Converts percent to a share of 2³².
fn share(percent: f64) -> u64 {
    (percent / 100.0 * (1_u64 << 32) as f64).round() as u64
}

impl Pattern {
    /// For a volume that the workload fits. The worker's number seeds it; sequential workers of a
    /// volume start at offsets of their own, by their part.
    pub(crate) fn new(
        workload: &Workload,
        geometry: Geometry,
        seed: u64,
        number: u64,
        part: Part,
    ) -> Pattern {
        let rng = Rng::new(seed, 2 * number);
        let access = &workload.access;
        let range = workload.range.on(geometry);
        if let Some(stream) = access.trace.as_ref().and_then(|replay| Stream::new(replay, geometry))
        {
            return Pattern::Replay(Box::new(stream));
        }
        let goes_on = (workload.limit_bytes, workload.limit_ios) == (None, None);
        if is_plain(access) && goes_on && !workload.reads_back() {
            return Pattern::Plain(Plain::new(&access.lines[0], range, rng, part));
        }
        Pattern::General(Box::new(General::new(workload, range, rng, seed, part)))
    }

    /// The next I/O; `None` once the worker has done everything.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Next> {
        match self {
            Pattern::Plain(plain) => {
                let (op, offset) = plain.next();
                let (len, pause) = (plain.size, Nanos(0));
                Some(Next { op, fua: false, offset, len, pause, reply: 0 })
            }
            Pattern::General(general) => general.next(),
            Pattern::Replay(stream) => stream.next(),
            Pattern::Zoned(zoned) => zoned.next(),
        }
    }

    /// Whether no I/O follows for certain.
    pub(crate) fn is_over(&self) -> bool {
        self.left() == 0
    }

    /// Returns whether a flush is next, after `flush_every` writes: the rate does not count it.
    pub(crate) fn owes_flush(&self) -> bool {
        match self {
            Pattern::General(general) => general.owes_flush(),
            Pattern::Zoned(zoned) => zoned.owes_flush(),
            Pattern::Plain(_) | Pattern::Replay(_) => false,
        }
    }

    /// Maximum number of I/Os left.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Pattern::General(general) => general.left(),
            Pattern::Zoned(zoned) => zoned.left(),
            Pattern::Plain(_) | Pattern::Replay(_) => u64::MAX,
        }
    }

    /// Another, equally likely offset for an I/O that is blocked. The same offset if the pattern
    /// allows no other.
    pub(crate) fn elsewhere(&mut self, next: Next) -> Next {
        match self {
            Pattern::Plain(Plain { randoms: 0, .. }) => next,
            Pattern::Plain(plain) => {
                Next { offset: plain.start + plain.rng.below(plain.places) * plain.align, ..next }
            }
            Pattern::General(general) => general.elsewhere(next),
            Pattern::Replay(_) | Pattern::Zoned(_) => next,
        }
    }

    /// The reply to an I/O.
    pub(crate) fn reply(&mut self, to: Op, bytes: u32) -> Next {
        let op = if to == Op::Read { Op::Write } else { Op::Read };
        let offset = match self {
            Pattern::Plain(_) | Pattern::Replay(_) | Pattern::Zoned(_) => {
                unreachable!("this pattern has no replies")
            }
            Pattern::General(general) => general.reply_offset(bytes),
        };
        Next { op, fua: false, offset, len: bytes, pause: Nanos(0), reply: 0 }
    }
}

fn is_plain(access: &Access) -> bool {
    let [line] = &access.lines[..] else { return false };
    let usual = Line {
        align_bytes: line.align_bytes,
        share_percent: line.share_percent,
        ..Line::new(line.size_bytes, line.read_percent, line.random_percent)
    };
    *line == usual
        && matches!(access.random, Places::Uniform)
        && access.sequential == Walk::Forward
        && (access.run, access.apart, access.flush_every) == (1, false, 0)
        && !access.trims_first
        && access.zones.is_none()
        && access.zoned.is_none()
        && access.files.is_none()
}

impl Plain {
    fn new(line: &Line, (start, bytes): (u64, u64), rng: Rng, part: Part) -> Plain {
        let align = u64::from(line.align());
        let places = (bytes - u64::from(line.size_bytes)) / align + 1;
        let (reads, randoms) = (share(line.read_percent), share(line.random_percent));
        let (size, next) = (line.size_bytes, part.begin(places));
        Plain { rng, size, align, start, places, next, reads, randoms }
    }

    /// Operation and offset of the next I/O.
    #[inline]
    pub(crate) fn next(&mut self) -> (Op, u64) {
        const ALL: u64 = 1 << 32;
        let op = match self.reads {
            ALL => Op::Read,
            0 => Op::Write,
            reads if self.rng.chance(reads) => Op::Read,
            _ => Op::Write,
        };
        let random = self.randoms == ALL || (self.randoms > 0 && self.rng.chance(self.randoms));
        let place = if random { self.rng.below(self.places) } else { self.next };
        // A sequential I/O follows the previous one, whatever its kind.
        let step = if self.align == u64::from(self.size) { 1 } else { self.steps() };
        self.next = if place + step >= self.places { 0 } else { place + step };
        (op, self.start + place * self.align)
    }

    #[cold]
    fn steps(&self) -> u64 {
        u64::from(self.size).div_ceil(self.align)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use job::spec::{Extent, Range};
    use proptest::prelude::{prop_assert, proptest};

    pub(super) fn pattern(access: Access, bytes: u64) -> Pattern {
        let geometry = Geometry::new(bytes, 512);
        let workload = Workload::new(access, 1);
        workload.fits(geometry).unwrap();
        Pattern::new(&workload, geometry, 1, 1, Part::WHOLE)
    }

    fn offsets(pattern: &mut Pattern, count: usize) -> Vec<u64> {
        (0..count).map(|_| pattern.next().unwrap().offset).collect()
    }

    #[test]
    fn keeps_the_mix_and_reaches_every_place() {
        let mut pattern = pattern(Access::new(4096, 70.0, 100.0), 64 << 10);
        let mut seen = [0_u32; 16];
        let mut reads = 0;
        for _ in 0..16_000 {
            let next = pattern.next().unwrap();
            seen[(next.offset / 4096) as usize] += 1;
            reads += u32::from(next.op == Op::Read);
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert!((11_000..11_400).contains(&reads), "{reads}");
    }

    #[test]
    fn runs_through_and_begins_again() {
        let access = Access::new(4096, 70.0, 0.0);
        let mut forward = pattern(access.clone(), 5 * 4096);
        let blocks: Vec<u64> = offsets(&mut forward, 7).iter().map(|at| at / 4096).collect();
        assert_eq!(blocks, [0, 1, 2, 3, 4, 0, 1]);
        let line = Line { align_bytes: Some(512), ..access.lines[0] };
        let mut fine = pattern(Access::of(vec![line]), 3 * 4096 + 512);
        assert_eq!(offsets(&mut fine, 5), [0, 4096, 8192, 0, 4096]);
    }

    #[test]
    fn streams_belong_to_seed_and_worker() {
        let geometry = Geometry::new(1 << 30, 512);
        let workload = Workload::new(Access::new(4096, 50.0, 50.0), 1);
        let stream = |seed, number| {
            let part = Part { index: number, of: 4 };
            offsets(&mut Pattern::new(&workload, geometry, seed, number, part), 50)
        };
        assert_eq!(stream(7, 3), stream(7, 3));
        assert_ne!(stream(7, 3), stream(7, 2));
        assert_ne!(stream(7, 3), stream(8, 3));
    }

    proptest! {
        #[test]
        fn stays_inside_and_aligned(
            size in 1_u32..64, align in 1_u32..64, blocks in 200_u64..10_000,
            random in 0.0..=100.0, start in 0.0..50.0, walk in 0..3, places in 0..5, seed: u64,
        ) {
            let (size_bytes, align_bytes) = (size * 512, align * 512);
            let line = Line::new(size_bytes, 50.0, random);
            let line = Line { align_bytes: Some(align_bytes), ..line };
            let access = Access {
                sequential: match walk {
                    0 => Walk::Forward,
                    1 => Walk::Backward,
                    _ => Walk::Strided { bytes: 3 * u64::from(align_bytes) },
                },
                random: match places {
                    0 => Places::Uniform,
                    1 => Places::Once,
                    2 => Places::Zipf { exponent: 1.1 },
                    3 => Places::Pareto { hot: 0.3 },
                    _ => Places::Normal { deviation_percent: 40.0 },
                },
                run: 1 + seed as u32 % 3,
                ..Access::of(vec![line])
            };
            let geometry = Geometry::new(blocks * 512, 512);
            let range = Range { start: Extent::Percent(start), length: None };
            let workload = Workload { range, ..Workload::new(access, 1) };
            prop_assert!(workload.fits(geometry).is_ok());
            let (begin, bytes) = range.on(geometry);
            let mut pattern = Pattern::new(&workload, geometry, seed, 0, Part { index: 1, of: 3 });
            for _ in 0..200 {
                let next = pattern.next().unwrap();
                prop_assert!(next.offset >= begin);
                prop_assert!((next.offset - begin).is_multiple_of(u64::from(align_bytes)));
                prop_assert!(next.offset + u64::from(next.len) <= begin + bytes);
            }
        }
    }
}
