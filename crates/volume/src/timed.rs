//! Latency of reads at random offsets of a volume, one at a time, through a separate lane. If a
//! second read of an offset is faster than the first, a cache has the data of the first.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use block::{Nanos, Rng};

use crate::Volume;
use crate::aside::Aside;

/// Places that are read.
#[derive(Clone, Copy, Debug)]
pub struct Timing<'a> {
    /// Ranges of offset and length in bytes, in ascending order.
    pub used: &'a [(u64, u64)],
    /// Bytes of a read: a multiple of the volume's block.
    pub len: u32,
    /// Maximum offsets in the ranges.
    pub most: u32,
    /// Also reads an offset outside the ranges for every second offset.
    pub beside: bool,
    /// Time limit of all reads; fewer of a slow volume.
    pub limit: Nanos,
    /// Offsets of an earlier call that are read again at the end, to compare their data.
    pub known: &'a [(u64, u64)],
}

/// Latencies of the reads, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimedReads {
    /// First read of each offset.
    pub first_ns: Vec<u64>,
    /// Second read of each offset, in the same order.
    pub again_ns: Vec<u64>,
    /// Reads of offsets outside the ranges; `None` if the rest is too small.
    pub unused_ns: Option<Vec<u64>>,
    /// Shortest round trip of the lane's connection.
    pub wire_ns: Option<u64>,
    /// Offsets in the ranges with a digest of the data of each.
    pub held: Vec<(u64, u64)>,
    /// Number of known offsets that were read again.
    pub compared: u32,
    /// Number of offsets whose data had changed by then, or changed before the immediate second
    /// read.
    pub changed: u32,
}

/// Reads random offsets of a volume, different ones in each call, and each of them twice in a row.
///
/// # Errors
///
/// The lane cannot be opened in the time limit, or a read failed.
pub fn time_reads(volume: &dyn Volume, timing: &Timing<'_>) -> io::Result<TimedReads> {
    let mut rng = Rng::new(os::random(), 0);
    let end = volume.geometry().bytes();
    let used = places(timing.used, timing, end, &mut rng);
    let unused = rest(timing.used, end);
    let beside = Timing { most: timing.most / 2, ..*timing };
    let unused = if timing.beside { places(&unused, &beside, end, &mut rng) } else { Vec::new() };
    // Too few offsets are not representative.
    let unused = (unused.len() as u32 == beside.most).then_some(unused);
    let before = os::own_segments();
    let mut aside = Aside::open(volume, BUFFERS, timing.limit)?;
    let timed = read(&mut aside, timing, &used, unused.as_deref());
    let ours = os::own_segments();
    let ours = ours.iter().filter(|(socket, _)| !before.contains_key(socket));
    let wire_ns = ours.filter_map(|(_, it)| it.shortest).map(|shortest| shortest.0).min();
    aside.leave()?;
    Ok(TimedReads { wire_ns, ..timed? })
}

/// Buffers of the lane: a lane above several others divides a read among them.
const BUFFERS: usize = 32;
/// Time to wait beyond the limit for a read in flight.
const PATIENCE: Nanos = Nanos::from_millis(2_000);

fn read(
    aside: &mut Aside,
    timing: &Timing<'_>,
    used: &[u64],
    unused: Option<&[u64]>,
) -> io::Result<TimedReads> {
    let until = aside.now() + timing.limit;
    let mut timed = TimedReads { unused_ns: unused.map(|_| Vec::new()), ..TimedReads::default() };
    let clock = os::Clock::get();
    // Latency of a read, and a digest of its data.
    let mut one = |place: u64| -> io::Result<(u64, u64)> {
        let began = clock.now();
        aside.ask(place, timing.len);
        let mut found = (0, 0);
        let mut show = |data: &[u8]| found = (clock.now().since(began).0, digest(data));
        aside.answers(timing.len, until + PATIENCE, &mut show)?;
        Ok(found)
    };
    for (index, place) in used.iter().enumerate() {
        if clock.now() >= until {
            break;
        }
        let (first_ns, held) = one(*place)?;
        timed.first_ns.push(first_ns);
        timed.held.push((*place, held));
        let (again_ns, holds) = one(*place)?;
        timed.again_ns.push(again_ns);
        timed.changed += u32::from(held != holds);
        let beside = unused.filter(|_| index % 2 == 0).and_then(|all| all.get(index / 2));
        if let (Some(place), Some(all)) = (beside, &mut timed.unused_ns) {
            all.push(one(*place)?.0);
        }
    }
    for (place, held) in timing.known.iter().take_while(|_| clock.now() < until) {
        let (_, holds) = one(*place)?;
        timed.compared += 1;
        timed.changed += u32::from(*held != holds);
    }
    Ok(timed)
}

fn digest(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}

/// Random offsets, one in each of equal parts, in random order: an HDD seeks as far for each as for
/// those of a job.
fn places(ranges: &[(u64, u64)], timing: &Timing<'_>, end: u64, rng: &mut Rng) -> Vec<u64> {
    let len = u64::from(timing.len.max(1));
    let blocks = |(start, length): &(u64, u64)| {
        let begin = start.next_multiple_of(len);
        (begin, (start + length).min(end).saturating_sub(begin) / len)
    };
    let ranges: Vec<(u64, u64)> = ranges.iter().map(blocks).collect();
    let all: u64 = ranges.iter().map(|(_, blocks)| blocks).sum();
    let parts = u64::from(timing.most).min(all);
    let mut places: Vec<u64> = Vec::with_capacity(parts as usize);
    for part in 0..parts {
        let edge = |part: u64| (u128::from(all) * u128::from(part) / u128::from(parts)) as u64;
        let mut block = edge(part) + rng.below(edge(part + 1) - edge(part));
        for (begin, blocks) in &ranges {
            if block < *blocks {
                places.push(begin + block * len);
                break;
            }
            block -= blocks;
        }
    }
    for at in (1..places.len()).rev() {
        places.swap(at, rng.below(at as u64 + 1) as usize);
    }
    places
}

/// Ranges of a volume that are not in `ranges`, which ascend.
fn rest(ranges: &[(u64, u64)], end: u64) -> Vec<(u64, u64)> {
    let ends = ranges.iter().map(|(start, length)| start.saturating_add(*length));
    let begins = std::iter::once(0).chain(ends);
    let gaps = begins.zip(ranges.iter().map(|(start, _)| *start).chain([end]));
    gaps.filter(|(from, to)| to > from).map(|(from, to)| (from, to - from)).collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Purpose, Uri, open};

    fn timing(used: &[(u64, u64)], beside: bool) -> Timing<'_> {
        Timing { used, len: 4096, most: 64, beside, limit: Nanos::from_secs(5), known: &[] }
    }

    #[test]
    fn places_are_within_the_ranges_each_once() {
        let ranges = [(4096 + 512, 1 << 20), (1 << 30, 3 << 20)];
        for seed in 0..50 {
            let mut rng = Rng::new(seed, 0);
            let mut all = places(&ranges, &timing(&ranges, true), 1 << 40, &mut rng);
            assert!(!all.is_sorted(), "seed {seed}");
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 64, "seed {seed}");
            for at in &all {
                let is_in = |(start, length): &(u64, u64)| {
                    (*start..=start + length - 4096).contains(at) && at % 4096 == 0
                };
                assert!(ranges.iter().any(is_in), "seed {seed}: {at}");
            }
            // A quarter of the blocks, and of the offsets.
            let first = all.iter().filter(|at| **at < 1 << 30).count();
            assert!((15..=17).contains(&first), "seed {seed}: {first}");
        }
        let mut rng = Rng::new(1, 0);
        let few = [(0, 3 * 4096)];
        assert_eq!(places(&few, &timing(&few, true), 2 * 4096, &mut rng).len(), 2);
        assert_eq!(places(&[(5, 100)], &timing(&[], true), 4096, &mut rng), [0_u64; 0]);
    }

    #[test]
    fn ranges_leave_the_rest() {
        assert_eq!(rest(&[(0, 10)], 10), []);
        assert_eq!(rest(&[(2, 3), (7, 1)], 10), [(0, 2), (5, 2), (8, 2)]);
        assert_eq!(rest(&[], 10), [(0, 10)]);
    }

    #[test]
    fn each_place_is_read_twice_and_every_other_one_beside_another() {
        let uri: Uri = "ram:4m".parse().unwrap();
        let volume = open(&uri, Purpose::Read).unwrap();
        let half = [(0, 2 << 20)];
        let timed = time_reads(&*volume, &timing(&half, true)).unwrap();
        assert_eq!([timed.first_ns.len(), timed.again_ns.len()], [64; 2]);
        assert_eq!(timed.unused_ns.map(|all| all.len()), Some(32));
        let all = [(0, 4 << 20)];
        let timed = time_reads(&*volume, &timing(&all, true)).unwrap();
        assert_eq!((timed.unused_ns, timed.wire_ns), (None, None));
        let timed = time_reads(&*volume, &timing(&half, false)).unwrap();
        assert_eq!([timed.first_ns.len(), timed.again_ns.len()], [64; 2]);
        assert_eq!((timed.unused_ns, timed.held.len()), (None, 64));
        assert_eq!([timed.compared, timed.changed], [0, 0]);
        let mut known = timed.held;
        known[9].1 += 1;
        let later = Timing { known: &known, ..timing(&half, true) };
        let timed = time_reads(&*volume, &later).unwrap();
        assert_eq!([timed.compared, timed.changed], [64, 1]);
        let none = Timing { limit: Nanos(0), ..timing(&half, true) };
        assert_eq!(time_reads(&*volume, &none).unwrap().first_ns, [0_u64; 0]);
    }
}
