//! A disk: a seeking arm and rotating platters.
//!
//! The time of an access depends on the end position of the last access and on the angle at that
//! moment. Data is laid out along one spiral of equal tracks: a sequential access needs neither
//! seek nor rotation, and reaches the media rate.

use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::time::{PER_S, Picos};
use block::Rng;

/// Range of the rotation speed, in revolutions per minute.
const RPM: std::ops::RangeInclusive<f64> = 60.0..=1e6;
/// Range of the media rate, in bytes per second.
const RATE: std::ops::RangeInclusive<f64> = 1e3..=1e12;
/// Maximum seek time, in seconds.
const SEEK_S_MAX: f64 = 10.0;
/// Lateness, as a share of a revolution, at which the arm does not yet miss a revolution: sums of
/// rounded times are inexact, and sectors have gaps.
const GAP: f64 = 1.0 / 4096.0;
/// Maximum number of times that the oldest request is passed over, per waiting request.
const PASSES: u32 = 4;
/// Queue depths that [`Head::speeds`] simulates; speedups at other depths are interpolated.
const DEPTHS: [u32; 15] = [3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512];
/// Number of accesses of each such simulation.
const ACCESSES: u32 = 8_000;

/// Mechanical parameters of a disk.
///
/// The volume spans the whole disk: a seek across the volume lasts `full_seek_s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Rotation speed in revolutions per minute, 60 to 10⁶.
    pub rpm: f64,
    /// Media rate in bytes per second, 10³ to 10¹².
    pub bytes_per_s: f64,
    /// Track-to-track seek, in seconds.
    pub settle_s: f64,
    /// Average seek between random offsets, in seconds.
    pub average_seek_s: f64,
    /// Full-stroke seek, in seconds.
    pub full_seek_s: f64,
    /// Additional settle time of a seek before a write, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_settle_s: f64,
    /// Read-ahead of an idle head into the buffer, in bytes; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ahead_bytes: f64,
}

/// Extent of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the access, in bytes.
    pub offset: u64,
    /// Length in bytes; at 0 the arm does not move.
    pub bytes: u32,
    /// Capacity of the disk, in bytes.
    pub within: u64,
    /// True for a write.
    pub write: bool,
}

impl Head {
    /// Checks all values of the disk. The time of a seek over the distance x, a share of the disk,
    /// is settle + b ⁴√x + c x. Its values at both ends and its mean over two random positions are
    /// those given, and the time must never decrease with the distance.
    ///
    /// # Errors
    ///
    /// [`ModelError::Invalid`] with the key and the range.
    pub fn check(&self, place: &str) -> Result<(), ModelError> {
        let refuse = |problem: String| Err(ModelError::invalid(format!("{place}, head"), problem));
        if !RPM.contains(&self.rpm) {
            return refuse(format!("rpm = {}: {} to {}", self.rpm, RPM.start(), RPM.end()));
        }
        if !RATE.contains(&self.bytes_per_s) {
            let (least, most) = (RATE.start(), RATE.end());
            return refuse(format!("bytes_per_s = {}: {least} to {most}", self.bytes_per_s));
        }
        let seeks = [self.settle_s, self.average_seek_s, self.full_seek_s, self.write_settle_s];
        if let Some(seek) = seeks.iter().find(|seek| !(0.0..=SEEK_S_MAX).contains(*seek)) {
            return refuse(format!("a seek of {seek} s: 0 to {SEEK_S_MAX}"));
        }
        if !(0.0..=1e18).contains(&self.ahead_bytes) {
            return refuse(format!("ahead_bytes = {}: 0 to 1e18", self.ahead_bytes));
        }
        let (root, linear) = self.curve();
        if root < 0.0 || root / 4.0 + linear < 0.0 {
            let (settle, full) = (self.settle_s, self.full_seek_s);
            // Minimum and maximum of the mean: a straight line, and a curve that is flat at its
            // end.
            let (least, most) =
                (settle + (full - settle) / 3.0, settle + (full - settle) * 113.0 / 135.0);
            return refuse(format!(
                "average_seek_s = {}: with these settle_s and full_seek_s {least:.6} to {most:.6}",
                self.average_seek_s
            ));
        }
        Ok(())
    }

    /// Returns b and c of the seek curve. Between two random positions ⁴√x is 32/45 on average, and
    /// x is 1/3.
    ///
    /// With √x instead of ⁴√x short seeks are too fast: at queue depth 32, the IOPS of random
    /// accesses are 7 to 16 % above those with the seek times measured on six disks; with ⁴√x they
    /// are between 3 % below and 4 % above.
    fn curve(&self) -> (f64, f64) {
        let (average, full) =
            (self.average_seek_s - self.settle_s, self.full_seek_s - self.settle_s);
        let root = 45.0 / 17.0 * (average - full / 3.0);
        (root, full - root)
    }

    /// Returns the time of a revolution, in seconds.
    pub fn turn_s(&self) -> f64 {
        60.0 / self.rpm
    }

    /// Returns the mean time of a random access at queue depth 1, in seconds: seek, half a
    /// revolution, and the transfer.
    pub fn random_s(&self, bytes: u32, write: bool) -> f64 {
        let settle_s = if write { self.write_settle_s } else { 0.0 };
        let transfer_s = f64::from(bytes) / self.bytes_per_s;
        self.average_seek_s + settle_s + self.turn_s() / 2.0 + transfer_s
    }

    /// Returns the speedups over queue depth 1 of random accesses at depths 1, 2, … `depth`; each
    /// access also needs `besides_s` seconds in addition to the disk's access time. The speedups
    /// are simulated with a fixed seed.
    pub fn speeds(&self, bytes: u32, write_share: f64, besides_s: f64, depth: u32) -> Vec<f64> {
        let of = |write| self.random_s(bytes, write) + besides_s;
        let alone_s = write_share * of(true) + (1.0 - write_share) * of(false);
        // At depth 2 the speedup is 1: when the next access is chosen, the slot of the completed
        // one is not yet refilled.
        let mut known: Vec<(u32, f64)> = vec![(1, 1.0), (2, 1.0)];
        for present in DEPTHS {
            if known.last().is_some_and(|(last, _)| *last >= depth) {
                break;
            }
            let mean_s = self.mean_s(bytes, write_share, besides_s, present);
            known.push((present, alone_s / mean_s));
        }
        let between = |present: u32| {
            let at = known.partition_point(|(known, _)| *known < present);
            let Some((above, high)) = known.get(at) else { return known[known.len() - 1].1 };
            let Some((below, low)) = at.checked_sub(1).map(|at| known[at]) else { return *high };
            // The speedups are almost linear in the logarithm of the depth.
            let [present, above, below] = [present, *above, below].map(|n| f64::from(n).ln());
            low + (high - low) * (present - below) / (above - below)
        };
        (1..=depth).map(between).collect()
    }

    /// Returns the mean time of a random access at queue depth `present`, 2 or more, in seconds.
    fn mean_s(&self, bytes: u32, write_share: f64, besides_s: f64, present: u32) -> f64 {
        let within = 1_u64 << 40;
        let (mut rng, mut now) = (Rng::new(15_000, u64::from(present)), Picos(0));
        let besides = Picos::round(besides_s * PER_S);
        let mut draw = || {
            let offset = rng.below((within - u64::from(bytes)) / 512) * 512;
            Extent { offset, bytes, within, write: rng.uniform() < write_share }
        };
        let mut waiting: Vec<Extent> = (1..present).map(|_| draw()).collect();
        let mut arm = Arm::new(self.clone());
        for _ in 0..ACCESSES {
            let next = arm.choose(now, waiting.iter().map(|extent| Some(*extent)));
            let extent = waiting.remove(next);
            now = Picos(now.0 + arm.access(now, extent).0 + besides.0);
            waiting.push(draw());
        }
        now.as_secs_f64() / f64::from(ACCESSES)
    }
}

/// State of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    head: Head,
    root: f64,
    linear: f64,
    /// Picoseconds per revolution, and per byte.
    turn: f64,
    byte: f64,
    track_bytes: f64,
    /// Byte position of the head at the time `since`; the head moves on from there during
    /// read-ahead.
    at: f64,
    since: Picos,
    reads_on: bool,
    /// Range of data read since the last access, which is in the buffer: its first byte, and the
    /// limit of read-ahead.
    low: f64,
    limit: f64,
    /// Number of times that the oldest request was passed over.
    passed: u32,
}

/// The course of an access, in picoseconds.
#[derive(Clone, Copy)]
struct Course {
    /// Time until the first byte.
    wait: f64,
    /// Time until the last byte.
    span: f64,
    /// True if the access needs only data of the read-ahead.
    is_on_the_way: bool,
}

impl Arm {
    pub(crate) fn new(head: Head) -> Arm {
        let (root, linear) = head.curve();
        let turn = head.turn_s() * PER_S;
        let track_bytes = head.bytes_per_s * head.turn_s();
        let byte = PER_S / head.bytes_per_s;
        Arm {
            head,
            root,
            linear,
            turn,
            byte,
            track_bytes,
            at: 0.0,
            since: Picos(0),
            reads_on: false,
            low: 0.0,
            limit: 0.0,
            passed: 0,
        }
    }

    /// Chooses the waiting access to serve next and returns its index: the access that the head
    /// reaches first, or the oldest one, at index 0, if it was passed over too often.
    pub(crate) fn choose(
        &mut self,
        now: Picos,
        waiting: impl ExactSizeIterator<Item = Option<Extent>>,
    ) -> usize {
        let patience = PASSES * waiting.len() as u32;
        self.stop(now);
        let mut best = (f64::INFINITY, 0);
        for (index, extent) in waiting.enumerate() {
            let wait = extent.map_or(0.0, |extent| self.course(now, &extent).wait);
            if wait < best.0 {
                best = (wait, index);
            }
        }
        if best.1 == 0 || self.passed >= patience {
            self.passed = 0;
            return 0;
        }
        self.passed += 1;
        best.1
    }

    /// Moves the head and returns the time of the access.
    pub(crate) fn access(&mut self, now: Picos, extent: Extent) -> Picos {
        if extent.bytes == 0 {
            return Picos(0);
        }
        self.stop(now);
        let course = self.course(now, &extent);
        let end = extent.offset as f64 + f64::from(extent.bytes);
        if !course.is_on_the_way {
            (self.at, self.since) = (end, Picos::round(now.0 as f64 + course.span));
            self.reads_on = !extent.write && self.head.ahead_bytes > 0.0;
        }
        (self.low, self.limit) = (end, end + self.head.ahead_bytes);
        Picos::round(course.span)
    }

    /// Stops read-ahead if the buffer is full.
    fn stop(&mut self, now: Picos) {
        if self.reads_on && self.position(now) >= self.limit {
            (self.at, self.since) = (self.at.max(self.limit), now);
        }
    }

    fn position(&self, now: Picos) -> f64 {
        let gone = if self.reads_on { now.0.saturating_sub(self.since.0) as f64 } else { 0.0 };
        self.at + gone / self.byte
    }

    fn course(&self, now: Picos, extent: &Extent) -> Course {
        let (offset, transfer) = (extent.offset as f64, f64::from(extent.bytes) * self.byte);
        let position = self.position(now);
        let seek = self.seek(position, extent) * PER_S;
        let angle = offset % self.track_bytes / self.track_bytes * self.turn;
        let mut turn = (angle - (now.0 as f64 + seek) % self.turn).rem_euclid(self.turn);
        if turn > self.turn * (1.0 - GAP) {
            // This access still counts as in time, or many small delays would add up to a
            // revolution.
            turn -= self.turn;
        }
        let span = (seek + turn + transfer).max(0.0);
        let there = Course { wait: (seek + turn).max(0.0), span, is_on_the_way: false };
        if extent.write || !self.reads_on || offset < self.low {
            return there;
        }
        let passes = |byte: f64| {
            let late = self.since.0 as f64 + (byte - self.at) * self.byte - now.0 as f64;
            late.max(0.0)
        };
        let (wait, span) = (passes(offset), passes(offset + f64::from(extent.bytes)));
        match span <= there.span {
            true => Course { wait, span, is_on_the_way: true },
            false => there,
        }
    }

    /// Returns the time of a seek in seconds; 0 within a track, and 0 to the head's position.
    fn seek(&self, from: f64, extent: &Extent) -> f64 {
        let to = extent.offset as f64;
        let track = |byte: f64| (byte / self.track_bytes).floor();
        if to == from || track(to) == track(from) {
            return 0.0;
        }
        let part = ((to - from).abs() / extent.within.max(1) as f64).min(1.0);
        let settle_s = if extent.write { self.head.write_settle_s } else { 0.0 };
        self.head.settle_s + self.root * part.sqrt().sqrt() + self.linear * part + settle_s
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[cfg(test)]
mod test {
    use super::*;

    fn head() -> Head {
        Head {
            rpm: 15_000.0,
            bytes_per_s: 100e6,
            settle_s: 0.2e-3,
            average_seek_s: 2.9e-3,
            full_seek_s: 6e-3,
            write_settle_s: 0.4e-3,
            ahead_bytes: 0.0,
        }
    }

    fn extent(offset: u64, write: bool) -> Extent {
        Extent { offset, bytes: 4096, within: 73_000_000_000, write }
    }

    /// Returns the mean time of sequential accesses of 4 KiB, `gap` apart, in seconds.
    fn mean_s(arm: &mut Arm, count: u64, gap: Picos, mut place: impl FnMut(u64) -> Extent) -> f64 {
        let mut now = Picos(1_000_000);
        let begun = now;
        for number in 0..count {
            now = Picos(now.0 + arm.access(now, place(number)).0 + gap.0);
        }
        Picos(now.0 - begun.0).as_secs_f64() / count as f64
    }

    #[test]
    fn at_random_it_takes_the_average_seek_and_half_a_turn() {
        head().check("x").unwrap();
        for write in [false, true] {
            let mut rng = Rng::new(3, 0);
            let place = |_| extent(rng.below(73_000_000_000 / 4096 - 1) * 4096, write);
            let found = mean_s(&mut Arm::new(head()), 50_000, Picos(0), place);
            let expected = head().random_s(4096, write);
            assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
        }
        assert!((head().random_s(4096, false) - 4.941e-3).abs() < 1e-6);
    }

    /// Seek times in milliseconds: track to track, average and full stroke; then over 1, 10, 30 and
    /// 60 % of the disk, as measured on the disks in DiskSim: Atlas 10K, Atlas III, Cheetah 9LP and
    /// 4LP, Barracuda, and Atlas 10K V by Western Digital.
    const MEASURED: [([f64; 3], [f64; 4]); 6] = [
        ([1.245, 5.593, 10.828], [2.01, 3.82, 5.63, 7.54]),
        ([1.663, 8.285, 15.360], [3.31, 5.65, 8.09, 11.27]),
        ([0.831, 5.441, 10.627], [1.94, 3.61, 5.38, 7.56]),
        ([0.636, 7.960, 16.107], [2.32, 4.95, 7.79, 11.36]),
        ([1.943, 9.180, 16.679], [3.77, 6.13, 9.11, 12.45]),
        ([0.526, 4.823, 9.570], [1.87, 3.10, 4.82, 6.55]),
    ];

    #[test]
    fn three_figures_give_the_seeks_of_measured_disks() {
        for ([settle_ms, average_ms, full_ms], seeks_ms) in MEASURED {
            let [settle_s, average_seek_s, full_seek_s] =
                [settle_ms, average_ms, full_ms].map(|ms| ms * 1e-3);
            let arm = Arm::new(Head { settle_s, average_seek_s, full_seek_s, ..head() });
            for (percent, measured_ms) in [1, 10, 30, 60].into_iter().zip(seeks_ms) {
                let found_s = arm.seek(0.0, &extent(73_000_000_000 / 100 * percent, false));
                let off = (found_s * 1e3 - measured_ms) / average_ms;
                assert!(off.abs() < 0.1, "{average_ms} ms, {percent} %: {found_s}, {measured_ms}");
            }
        }
    }

    #[test]
    fn a_stream_reaches_the_media_rate_unless_it_comes_too_late() {
        let each_s = 4096.0 / 100e6;
        for write in [false, true] {
            let place = |number: u64| extent(number * 4096, write);
            let found = mean_s(&mut Arm::new(head()), 100_000, Picos(0), place);
            assert!((found / each_s - 1.0).abs() < 0.001, "{found}");
            // A gap of 50 us misses the next block: one revolution is lost.
            let gap = Picos(50_000_000);
            let found = mean_s(&mut Arm::new(head()), 10_000, gap, place);
            assert!((found / (4e-3 + each_s) - 1.0).abs() < 0.02, "{found}");
            // With read-ahead the data is in the buffer: the gap limits the rate, or, at 10 us, the
            // disk.
            let ahead = Head { ahead_bytes: 1e6, ..head() };
            for (gap_us, read_s) in [(50, 50e-6), (10, each_s)] {
                let gap = Picos(gap_us * 1_000_000);
                let found = mean_s(&mut Arm::new(ahead.clone()), 10_000, gap, place);
                let expected = if write { 4e-3 + each_s } else { read_s };
                assert!((found / expected - 1.0).abs() < 0.02, "{gap_us} {write}: {found}");
            }
        }
    }

    #[test]
    fn a_buffer_holds_no_more_than_it_has_room_for() {
        let mut arm = Arm::new(Head { ahead_bytes: 16384.0, ..head() });
        arm.access(Picos(0), extent(0, false));
        // After one second four blocks are buffered, and the fifth is being read.
        let mut now = Picos(1_000_000_000_000);
        let times: Vec<u64> = (1..8)
            .map(|block| {
                let span = arm.access(now, extent(block * 4096, false));
                now = Picos(now.0 + span.0);
                span.0 / 1_000_000
            })
            .collect();
        assert_eq!(times, [0, 0, 0, 0, 40, 40, 40]);
    }

    #[test]
    fn depth_helps_and_nobody_waits_for_ever() {
        let speeds = head().speeds(4096, 0.0, 0.0, 256);
        assert_eq!((speeds.len(), speeds[0]), (256, 1.0));
        assert!(speeds.windows(2).all(|pair| pair[1] > pair[0] * 0.995), "{speeds:?}");
        // At depth 8 the disk is almost 1.5 times as fast as at 1, at depth 64 more than twice.
        assert!(speeds[7] > 1.3 && speeds[63] > 2.2 && speeds[63] < 6.0, "{speeds:?}");
        // One distant request among many near ones.
        let mut arm = Arm::new(head());
        let mut waiting = vec![extent(72_000_000_000, false)];
        waiting.extend((0..7).map(|block| extent(block * 4096, false)));
        let mut now = Picos(0);
        let served = (0..100).position(|_| {
            let next = arm.choose(now, waiting.iter().map(|extent| Some(*extent)));
            let chosen = waiting.remove(next);
            now = Picos(now.0 + arm.access(now, chosen).0);
            waiting.push(extent(now.0 % 90 * 4096, false));
            chosen.offset == 72_000_000_000
        });
        assert!(served.is_some_and(|after| (1..=32).contains(&after)), "{served:?}");
    }

    #[test]
    fn an_arm_that_there_is_not_is_refused() {
        let says = |head: Head| head.check("x").unwrap_err().to_string();
        assert!(says(Head { rpm: 0.0, ..head() }).contains("rpm"));
        assert!(says(Head { bytes_per_s: f64::NAN, ..head() }).contains("bytes_per_s"));
        assert!(says(Head { full_seek_s: -1.0, ..head() }).contains("a seek of -1"));
        // Average seeks that no valid seek curve with these ends has.
        for average_seek_s in [1e-3, 5.1e-3] {
            let error = says(Head { average_seek_s, ..head() });
            assert!(error.contains("0.002133 to 0.005055"), "{error}");
        }
    }
}
