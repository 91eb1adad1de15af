//! All patterns but the plain one: lines, distributions, walks, runs, other operations.

use block::{Nanos, Op, Rng};

use super::alias::Alias;
use super::files::Files;
use super::map::Map;
use super::places::Chooser;
use super::read_back::ReadBack;
use super::zones::Zones;
use super::{Next, share};
use job::spec::{Access, Line, Part, Walk, Workload};

/// Draws of a length that fits before the end of the range: beyond them it is cut.
const REDRAWS_MAX: u32 = 64;

/// The accesses of one worker.
#[derive(Debug)]
pub(crate) struct General {
    rng: Rng,
    /// Start and length of the range.
    start: u64,
    bytes: u64,
    /// The current position.
    here: Position,
    pick: Alias,
    /// The line of this burst, and its I/Os left.
    line: usize,
    burst_left: u32,
    walk: Walk,
    apart: bool,
    run: u32,
    run_stays: bool,
    flush_every: u32,
    writes: u32,
    trims_first: bool,
    /// The current zone, with zones.
    zones: Option<Box<Zones>>,
    /// The current file, with several.
    files: Option<Box<Files>>,
    /// The free places, where lengths differ and each place comes once.
    map: Option<Box<Map>>,
    /// Written data is read again.
    read_back: Option<Box<ReadBack>>,
    /// The write whose range was trimmed last.
    trimmed: Option<Next>,
    /// Bytes left to do.
    left: u64,
    /// I/Os left to do.
    left_ios: u64,
}

/// A worker's position in the range, or in a file.
#[derive(Debug, Default)]
pub(super) struct Position {
    lines: Vec<LineState>,
    /// Start and end of the last I/O within the range: of all, or of reads and of writes.
    last: [(u64, u64); 2],
    /// I/Os left of the run.
    run_left: u32,
}

#[derive(Debug)]
pub(super) struct LineState {
    size: u32,
    align: u64,
    places: u64,
    chooser: Chooser,
    /// Bounds of 2³² below which an I/O is a read, trim, zeroing or flush.
    bounds: [u64; 4],
    randoms: u64,
    fua: u64,
    pause: Nanos,
    burst: u32,
    reply: u32,
}

impl LineState {
    pub(super) fn new(
        line: &Line,
        access: &Access,
        bytes: u64,
        seed: u64,
        part: Part,
    ) -> LineState {
        let align = u64::from(line.align());
        let places = (bytes - u64::from(line.size_bytes)) / align + 1;
        let mut sum = 0.0;
        let parts = [line.read_percent, line.trim_percent, line.zero_percent, line.flush_percent];
        LineState {
            size: line.size_bytes,
            align,
            places,
            chooser: Chooser::new(&access.random, places, align, bytes, seed, part),
            bounds: parts.map(|percent| {
                sum += percent;
                share(sum)
            }),
            randoms: share(line.random_percent),
            fua: share(line.fua_percent),
            pause: Nanos(line.delay_us.saturating_mul(1000)),
            burst: line.burst,
            reply: line.reply_bytes,
        }
    }

    /// Restarts in another zone.
    pub(super) fn restart(&mut self) {
        self.chooser.restart();
    }

    fn op(&self, rng: &mut Rng) -> Op {
        const OPS: [Op; 4] = [Op::Read, Op::Trim, Op::WriteZeroes, Op::Flush];
        if self.bounds[0] >= 1 << 32 {
            return Op::Read;
        }
        let drawn = rng.next_u64() >> 32;
        let found = self.bounds.iter().position(|bound| drawn < *bound);
        found.map_or(Op::Write, |index| OPS[index])
    }
}

impl Position {
    /// At the start of a range of this length.
    pub(super) fn new(access: &Access, bytes: u64, seed: u64, part: Part) -> Position {
        let line = |line| LineState::new(line, access, bytes, seed, part);
        let lines: Vec<LineState> = access.lines.iter().map(line).collect();
        let first = &lines[0];
        // A walk begins where a neighbour's part ends, forward or backward.
        let begin = part.begin(first.places) * first.align;
        let end = part.end(first.places) * first.align;
        let last = match access.sequential {
            Walk::Forward => (begin, begin),
            Walk::Backward => (end, end),
            Walk::Strided { bytes } => (begin.wrapping_sub(bytes), begin),
        };
        Position { lines, last: [last; 2], run_left: 0 }
    }
}

impl General {
    pub(super) fn new(
        workload: &Workload,
        (start, bytes): (u64, u64),
        rng: Rng,
        seed: u64,
        part: Part,
    ) -> General {
        let mut general = General::forward(workload, (start, bytes), rng.clone(), seed, part);
        let bytes_each = workload.verify.map_or(0, |verify| verify.read_back_bytes);
        if bytes_each > 0 {
            let again = General::forward(workload, (start, bytes), rng, seed, part);
            general.read_back = Some(Box::new(ReadBack::new(again, bytes_each)));
        }
        general
    }

    /// Creates the pattern without its second pass, which reads back.
    fn forward(
        workload: &Workload,
        (start, bytes): (u64, u64),
        rng: Rng,
        seed: u64,
        part: Part,
    ) -> General {
        let access = &workload.access;
        let zones = access.zones.map(|walk| Zones::new(walk, access, bytes, seed, part));
        // A zone is used by this worker alone.
        let (bytes, part) = match &zones {
            Some(zones) => (zones.bytes(), Part::WHOLE),
            None => (bytes, part),
        };
        let files = access.files.as_ref();
        let bytes = files.map_or(bytes, |files| files.share_bytes(bytes, access));
        let files = files.map(|walk| Box::new(Files::new(walk, access, bytes, seed, part)));
        General {
            rng,
            start,
            bytes,
            pick: Alias::new(access.lines.iter().map(|line| line.share_percent)),
            line: 0,
            burst_left: 0,
            walk: access.sequential,
            apart: access.apart,
            run: access.run,
            run_stays: access.run_stays,
            flush_every: access.flush_every,
            writes: 0,
            trims_first: access.trims_first,
            zones: zones.map(Box::new),
            files,
            map: access
                .is_mapped()
                .then(|| Map::new(bytes, u64::from(access.lines[0].align())))
                .flatten()
                .map(Box::new),
            read_back: None,
            trimmed: None,
            left: workload.limit_bytes.unwrap_or(u64::MAX),
            left_ios: workload.limit_ios.unwrap_or(u64::MAX),
            here: Position::new(access, bytes, seed, part),
        }
    }

    pub(super) fn next(&mut self) -> Option<Next> {
        match self.read_back.take() {
            None => self.next_forward(),
            Some(mut read_back) => {
                let next = read_back.next(|| self.next_forward());
                self.read_back = Some(read_back);
                next
            }
        }
    }

    /// Returns the next I/O of the pattern.
    pub(super) fn next_forward(&mut self) -> Option<Next> {
        if let Some(write) = self.trimmed.take() {
            return Some(write);
        }
        if self.left == 0 || self.left_ios == 0 {
            return None;
        }
        if self.owes_flush() {
            self.writes = 0;
            return Some(FLUSH);
        }
        let first_of_burst = self.burst_left == 0;
        if first_of_burst {
            self.line = self.pick.draw(&mut self.rng);
            self.burst_left = self.here.lines[self.line].burst;
        }
        self.burst_left -= 1;
        let line = &self.here.lines[self.line];
        let (size, pause, reply) = (line.size, line.pause, line.reply);
        let pause = if first_of_burst { pause } else { Nanos(0) };
        let op = line.op(&mut self.rng);
        let fua = op == Op::Write && line.fua > 0 && self.rng.chance(line.fua);
        if op == Op::Flush {
            return Some(Next { pause, ..FLUSH });
        }
        let (offset, size) = match self.map.is_some() {
            true => self.mapped(),
            false => (self.offset(op, size), size),
        };
        self.left = self.left.saturating_sub(u64::from(size));
        self.left_ios -= 1;
        self.writes += u32::from(op != Op::Read);
        let next = Next { op, fua, offset: self.start + offset, len: size, pause, reply };
        if op == Op::Write && self.trims_first {
            self.trimmed = Some(Next { pause: Nanos(0), ..next });
            return Some(Next { op: Op::Trim, fua: false, reply: 0, ..next });
        }
        Some(next)
    }

    /// Offset and length by the map. As with fio a length that does not fit before the end of the
    /// range is drawn again, among those of the same kind.
    fn mapped(&mut self) -> (u64, u32) {
        let Some(map) = &mut self.map else { return (0, 0) };
        let offset = map.offset(&mut self.rng);
        let lines = &self.here.lines;
        let kind = lines[self.line].bounds;
        let fits = |line: &LineState| offset + u64::from(line.size) <= self.bytes;
        let mut line = &lines[self.line];
        for _ in 0..REDRAWS_MAX {
            if line.bounds == kind && fits(line) {
                break;
            }
            line = &lines[self.pick.draw(&mut self.rng)];
        }
        (offset, map.len(offset, line.size))
    }

    /// Returns whether a flush is next, after the writes before it.
    pub(super) fn owes_flush(&self) -> bool {
        self.flush_every > 0 && self.writes >= self.flush_every && self.trimmed.is_none()
    }

    /// Maximum number of I/Os left: flushes in between do not count, and with a byte limit I/Os may
    /// be shorter.
    pub(super) fn left(&self) -> u64 {
        let mapped = self.map.is_some();
        let least = |line: &LineState| match mapped {
            true => line.align.min(u64::from(line.size)),
            false => u64::from(line.size),
        };
        let shortest = self.here.lines.iter().map(least).min().unwrap_or(1).max(1);
        let ios = self.left_ios.min(self.left.div_ceil(shortest));
        let again = self.read_back.as_ref().map_or(0, |read_back| read_back.left());
        ios.saturating_add(u64::from(self.trimmed.is_some())).saturating_add(again)
    }

    /// Offset within the range.
    fn offset(&mut self, op: Op, size: u32) -> u64 {
        if let Some(files) = &mut self.files {
            files.advance(&mut self.here, size, &mut self.rng);
            return files.begin() + self.offset_in_zone(op, size);
        }
        let begin = match &mut self.zones {
            None => 0,
            Some(zones) => {
                if zones.advance(&mut self.here.lines, size) {
                    (self.here.last, self.here.run_left) = ([(0, 0); 2], 0);
                }
                zones.begin()
            }
        };
        begin + self.offset_in_zone(op, size)
    }

    fn offset_in_zone(&mut self, op: Op, size: u32) -> u64 {
        let line = &mut self.here.lines[self.line];
        let stream = usize::from(self.apart && op != Op::Read);
        let random = if self.here.run_left > 0 {
            self.here.run_left -= 1;
            let there = self.here.last[stream].0;
            if self.run_stays && there + u64::from(size) <= self.bytes {
                self.here.last[stream] = (there, there + u64::from(size));
                return there;
            }
            false
        } else {
            line.randoms > 0 && self.rng.chance(line.randoms)
        };
        let offset = if random {
            self.here.run_left = self.run - 1;
            line.chooser.draw(&mut self.rng) * line.align
        } else {
            follow(self.walk, self.here.last[stream], size, line.align, line.places)
        };
        self.here.last[stream] = (offset, offset + u64::from(size));
        offset
    }

    pub(super) fn elsewhere(&mut self, next: Next) -> Next {
        let line = &mut self.here.lines[self.line];
        // With offsets visited once, each waits for its turn, or one would be skipped.
        let once = matches!(line.chooser, Chooser::Once(_));
        if line.randoms == 0 || next.len != line.size || once || self.map.is_some() {
            return next;
        }
        let zone = self.zones.as_ref().map_or(0, |zones| zones.begin());
        let begin = self.start + zone + self.files.as_ref().map_or(0, |files| files.begin());
        Next { offset: begin + line.chooser.draw(&mut self.rng) * line.align, ..next }
    }

    /// A reply goes to the line's offsets, as far as it fits.
    pub(super) fn reply_offset(&mut self, bytes: u32) -> u64 {
        let line = &mut self.here.lines[self.line];
        let places = (self.bytes - u64::from(bytes)) / line.align + 1;
        let random = line.randoms > 0 && self.rng.chance(line.randoms);
        let offset = match random {
            true => (line.chooser.draw(&mut self.rng) % places) * line.align,
            false => follow(self.walk, self.here.last[0], bytes, line.align, places),
        };
        self.here.last[0] = (offset, offset + u64::from(bytes));
        self.start + offset
    }
}

pub(super) const FLUSH: Next =
    Next { op: Op::Flush, fua: false, offset: 0, len: 0, pause: Nanos(0), reply: 0 };

/// The offset after the last I/O on a walk, with wrap-around.
fn follow(walk: Walk, (begin, end): (u64, u64), size: u32, align: u64, places: u64) -> u64 {
    match walk {
        Walk::Forward => {
            let place = end.div_ceil(align);
            if place < places { place * align } else { 0 }
        }
        Walk::Backward => match begin.checked_sub(u64::from(size)) {
            Some(before) => (before / align).min(places - 1) * align,
            None => (places - 1) * align,
        },
        Walk::Strided { bytes } => {
            let place = begin.wrapping_add(bytes).div_ceil(align);
            if place < places { place * align } else { 0 }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::pattern::Pattern;
    use crate::pattern::test::pattern;
    use block::Geometry;
    use job::spec::Places;

    fn blocks(access: Access, bytes: u64, count: usize) -> Vec<u64> {
        let mut pattern = pattern(access, bytes);
        (0..count).map(|_| pattern.next().unwrap().offset / 4096).collect()
    }

    fn walk(sequential: Walk) -> Access {
        Access { sequential, ..Access::new(4096, 100.0, 0.0) }
    }

    #[test]
    fn walks_backward_and_strided() {
        let back = blocks(walk(Walk::Backward), 4 * 4096, 6);
        assert_eq!(back, [3, 2, 1, 0, 3, 2]);
        let strided = blocks(walk(Walk::Strided { bytes: 8192 }), 5 * 4096, 5);
        assert_eq!(strided, [0, 2, 4, 0, 2]);
    }

    #[test]
    fn a_run_follows_its_random_place() {
        let access = Access { run: 4, ..Access::new(4096, 100.0, 100.0) };
        let blocks = blocks(access, 1 << 30, 400);
        for run in blocks.chunks(4) {
            assert!(run.windows(2).all(|pair| pair[1] == pair[0] + 1 || pair[1] == 0), "{run:?}");
        }
        let jumps = blocks.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert!((95..=105).contains(&jumps), "{jumps}");
    }

    #[test]
    fn a_run_may_stay_where_it_began() {
        let line = Line::new(4096, 50.0, 100.0);
        let access = Access { run: 4, run_stays: true, apart: true, ..Access::of(vec![line]) };
        let mut pattern = pattern(access, 1 << 30);
        let mut last = [0, 0];
        for index in 0..400 {
            let next = pattern.next().unwrap();
            let stream = usize::from(next.op == Op::Write);
            // Each direction keeps its own position.
            assert!(index % 4 == 0 || next.offset == last[stream], "{index}");
            last[stream] = next.offset;
        }
        assert!(last.iter().all(|offset| *offset > 0));
    }

    #[test]
    fn lines_are_drawn_by_their_shares_once_per_burst() {
        let line = |size, share_percent, burst, delay_us, read| Line {
            share_percent,
            burst,
            delay_us,
            ..Line::new(size, read, 100.0)
        };
        let lines = vec![line(4096, 75.0, 2, 5, 100.0), line(512, 25.0, 4, 0, 0.0)];
        let mut pattern = pattern(Access::of(lines), 1 << 20);
        let (mut small, mut large, mut pauses) = (0, 0, 0);
        for _ in 0..100_000 {
            let next = pattern.next().unwrap();
            let (size, op) = if next.len == 512 { (512, Op::Write) } else { (4096, Op::Read) };
            assert_eq!((next.len, next.op), (size, op));
            small += u32::from(size == 512);
            large += u32::from(size == 4096);
            pauses += u32::from(next.pause == Nanos(5000));
        }
        // Bursts are 3 to 1, I/Os 6 to 4, and every second large one begins a burst.
        assert!((59_000..61_000).contains(&large) && small + large == 100_000, "{large}");
        assert!((pauses * 2).abs_diff(large) <= 2, "{pauses} of {large}");
    }

    #[test]
    fn all_operations_have_their_shares() {
        let line = Line {
            trim_percent: 10.0,
            zero_percent: 5.0,
            flush_percent: 2.0,
            fua_percent: 50.0,
            ..Line::new(4096, 40.0, 100.0)
        };
        let mut pattern = pattern(Access { flush_every: 1000, ..Access::of(vec![line]) }, 1 << 30);
        let mut counts = [0_u32; 6];
        for _ in 0..100_000 {
            let next = pattern.next().unwrap();
            counts[next.op as usize] += 1;
            counts[5] += u32::from(next.fua);
            assert!(next.op != Op::Flush || (next.offset, next.len) == (0, 0));
        }
        for (count, expected) in counts.into_iter().zip([40, 43, 2, 10, 5, 21]) {
            assert!(count.abs_diff(expected * 1000) < 700, "{counts:?}");
        }
    }

    #[test]
    fn ends_at_its_limit_having_been_everywhere_once() {
        let access = Access { random: Places::Once, ..Access::new(4096, 0.0, 100.0) };
        let geometry = Geometry::new(1000 * 4096, 512);
        let workload = Workload { limit_bytes: Some(1000 * 4096), ..Workload::new(access, 1) };
        let mut pattern = Pattern::new(&workload, geometry, 1, 1, Part::WHOLE);
        let mut seen = vec![0; 1000];
        while let Some(next) = pattern.next() {
            seen[(next.offset / 4096) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count == 1));
    }

    #[test]
    fn a_write_comes_behind_a_trim_of_its_place() {
        for random in [0.0, 100.0] {
            let access = Access { trims_first: true, ..Access::new(4096, 0.0, random) };
            let geometry = Geometry::new(1 << 20, 512);
            let workload = Workload { limit_bytes: Some(100 * 4096), ..Workload::new(access, 1) };
            let mut pattern = Pattern::new(&workload, geometry, 1, 1, Part::WHOLE);
            let mut places = Vec::new();
            while let Some(trim) = pattern.next() {
                let write = pattern.next().expect("a write behind the trim");
                assert_eq!((trim.op, write.op), (Op::Trim, Op::Write));
                assert_eq!((trim.offset, trim.len), (write.offset, write.len));
                places.push(write.offset / 4096);
            }
            assert_eq!(places.len(), 100);
            let forward = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
            assert_eq!(forward, random == 0.0);
        }
    }

    #[test]
    fn reads_and_writes_walk_apart() {
        let access = Access { apart: true, ..Access::new(4096, 50.0, 0.0) };
        let mut pattern = pattern(access, 1 << 30);
        let mut expected = [0, 0];
        for _ in 0..100 {
            let next = pattern.next().unwrap();
            let stream = usize::from(next.op == Op::Write);
            assert_eq!(next.offset, expected[stream]);
            expected[stream] += 4096;
        }
    }
}
