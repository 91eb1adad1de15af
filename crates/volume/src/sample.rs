//! Samples blocks at random offsets of a volume, to find out whether a job's reads hit blocks that
//! were ever written, if no map of a file shows it.

use std::collections::HashSet;
use std::io;

use block::{Nanos, Rng};

use crate::Volume;
use crate::aside::Aside;
use crate::ground::{Looked, SAMPLE_BYTES};

/// Time limit of the lane's opening.
const OPENING: Nanos = Nanos::from_secs(5);
/// Time limit of all reads together, for a slow volume.
const PATIENCE: Nanos = Nanos::from_millis(2_000);
/// Bytes of a read.
const LEN: u32 = SAMPLE_BYTES as u32;
/// Reads in flight.
const DEPTH: usize = 8;

/// Offsets of up to `most` blocks in a range, one at random in each of equal parts: a table at the
/// beginning is not representative.
pub(crate) fn places(start: u64, length: u64, most: u32, rng: &mut Rng) -> Vec<u64> {
    let blocks = length / SAMPLE_BYTES as u64;
    let parts = u128::from(most).min(u128::from(blocks));
    let begins = |index: u64| (u128::from(blocks) * u128::from(index) / parts) as u64;
    let begin = start - start % SAMPLE_BYTES as u64;
    let one = |index: u64| {
        let place = begins(index) + rng.below(begins(index + 1) - begins(index));
        begin + place * SAMPLE_BYTES as u64
    };
    (0..parts as u64).map(one).collect()
}

/// Offsets of up to `most` blocks of a volume: the same on each host that opens it.
pub(crate) fn places_of_all(bytes: u64, most: u32) -> Vec<u64> {
    places(0, bytes, most, &mut Rng::new(bytes, 0))
}

/// Samples up to `most` random blocks of ranges of a volume, through a separate lane. A slow volume
/// yields fewer.
///
/// # Errors
///
/// The lane cannot be opened, or a read failed.
pub fn sample(volume: &dyn Volume, ranges: &[(u64, u64)], most: u32) -> io::Result<Looked> {
    let mut aside = Aside::open(volume, DEPTH, OPENING)?;
    let mut rng = Rng::new(os::random(), 0);
    let each = most / u32::try_from(ranges.len().max(1)).unwrap_or(u32::MAX);
    let places = ranges.iter().flat_map(|(at, len)| places(*at, *len, each.max(1), &mut rng));
    let end = volume.geometry().bytes();
    let mut places = places.filter(|at| at + SAMPLE_BYTES as u64 <= end).collect::<Vec<_>>();
    places.truncate(most as usize);
    let result = look(&mut aside, &places);
    aside.leave()?;
    result
}

fn look(aside: &mut Aside, places: &[u64]) -> io::Result<Looked> {
    let (mut looked, mut seen) = (Looked::default(), HashSet::new());
    let (mut next, mut in_flight, until) = (0, 0, aside.now() + PATIENCE);
    loop {
        let now = aside.now();
        while in_flight < DEPTH && next < places.len() && now < until {
            aside.ask(places[next], LEN);
            (next, in_flight) = (next + 1, in_flight + 1);
        }
        if in_flight == 0 {
            return Ok(looked);
        }
        let mut show = |block: &[u8]| looked.note(block, &mut seen);
        in_flight -= aside.answers(LEN, until + PATIENCE, &mut show)?;
    }
}

#[cfg(test)]
mod test {
    use std::collections::VecDeque;

    use block::{Buf, Io, Lane, Op, Pool, Tag};
    use os::Core;

    use super::*;
    use crate::{Purpose, Uri, open};

    #[test]
    fn places_are_spread_over_the_range_and_within_it() {
        let mut rng = Rng::new(1, 0);
        let all = places(8192, 64 << 20, 64, &mut rng);
        assert_eq!(all.len(), 64);
        for (index, at) in (0..).zip(&all) {
            let part = 8192 + index * (1 << 20)..8192 + (index + 1) * (1 << 20);
            assert!(part.contains(at) && at % SAMPLE_BYTES as u64 == 0, "{at}");
        }
        assert_eq!(places(0, 3 * 4096, 64, &mut rng), [0, 4096, 8192]);
        assert_eq!(places(0, 100, 64, &mut rng), [0_u64; 0]);
    }

    #[test]
    fn zeroes_and_data_are_told_apart() {
        let uri: Uri = "ram:1m".parse().unwrap();
        let volume = open(&uri, Purpose::Write).unwrap();
        let core = Core::open(Pool::new(4, 2)).unwrap();
        let mut lane: Box<dyn Lane> = volume.lane(&core).unwrap();
        let mut rng = Rng::new(7, 0);
        let mut buf: Buf = core.pool().take_beyond(512 << 10).unwrap();
        buf[..512 << 10].fill_with(|| rng.below(256) as u8);
        let (op, len) = (Op::Write, 512 << 10);
        let io = Io { tag: Tag(0), op, fua: false, len, offset: 512 << 10, buf: Some(buf) };
        lane.submit(core.now(), &mut VecDeque::from([io]));
        let looked = sample(&*volume, &[(0, 512 << 10)], 64).unwrap();
        assert_eq!(looked, Looked { blocks: 64, zero: 64, alike: 0 });
        let looked = sample(&*volume, &[(512 << 10, 512 << 10)], 64).unwrap();
        assert_eq!(looked, Looked { blocks: 64, zero: 0, alike: 0 });
    }
}
