//! Work of each worker over time, in memory that the length of the run and the number of workers
//! bound: enough to show a worker that stalled while others worked, or two that took turns.

use crate::interval::{Interval, per};
use crate::series::Rates;
use crate::verdict::Course;

/// Maximum number of stretches. At the maximum, pairs are merged into stretches of twice the
/// length.
const STRETCHES: usize = 128;
/// A worker that was active for less than this share of a second cannot be idle in it.
const THERE: f64 = 0.5;
/// Minimum length of a second, in seconds; a shorter one is the rest of a window.
const WHOLE_S: f64 = 0.9;

/// I/Os of each worker in stretches of equal length.
#[derive(Debug)]
pub(super) struct Tracks {
    /// Seconds in a full stretch, and seconds in the last stretch.
    width: usize,
    filled: usize,
    ended_s: f64,
    stretches: Vec<Stretch>,
    /// The open second of each worker.
    open: Vec<Open>,
    /// Whole seconds in which a worker completed nothing while another one did.
    idle: Vec<u32>,
    /// Rates of reads and writes of each worker in the seconds in which it was active.
    rates: Vec<[Rates; 2]>,
}

#[derive(Debug)]
struct Stretch {
    to_s: f64,
    ios: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Open {
    ios: u64,
    seconds: f64,
    /// Bytes and I/Os of reads and of writes.
    moved: [(u64, u64); 2],
}

impl Tracks {
    /// Creates tracks for the given number of workers.
    pub fn new(workers: usize) -> Tracks {
        Tracks {
            width: 1,
            filled: 0,
            ended_s: 0.0,
            stretches: Vec::new(),
            open: vec![Open::default(); workers],
            idle: vec![0; workers],
            rates: vec![[Rates::default(); 2]; workers],
        }
    }

    /// Adds a worker's interval in the open second.
    pub fn add(&mut self, worker: usize, interval: &Interval) {
        let open = &mut self.open[worker];
        open.ios += interval.completed();
        open.seconds += interval.seconds();
        for (moved, tally) in open.moved.iter_mut().zip([&interval.read, &interval.write]) {
            *moved = (moved.0 + tally.bytes, moved.1 + tally.ios);
        }
    }

    /// Closes the second that ends at `to_s`.
    pub fn end_second(&mut self, to_s: f64) {
        let length_s = to_s - std::mem::replace(&mut self.ended_s, to_s);
        let worked = self.open.iter().any(|open| open.ios > 0);
        for ((open, idle), rates) in self.open.iter().zip(&mut self.idle).zip(&mut self.rates) {
            let there = open.seconds >= THERE * length_s;
            for (rates, (bytes, ios)) in rates.iter_mut().zip(open.moved).filter(|_| there) {
                rates.note(per(bytes as f64, open.seconds), per(ios as f64, open.seconds));
            }
            *idle += u32::from(worked && there && open.ios == 0 && length_s >= WHOLE_S);
        }
        let begins = self.filled == self.width || self.stretches.is_empty();
        if begins && self.stretches.len() == STRETCHES {
            self.halve();
        }
        // After the merge the last stretch may have room again.
        if self.filled == self.width || self.stretches.is_empty() {
            self.stretches.push(Stretch { to_s, ios: vec![0; self.open.len()] });
            self.filled = 0;
        }
        self.filled += 1;
        self.extend_second(Some(to_s));
    }

    /// Moves the end of the last second to `to_s`, if that is later, and adds the open interval to
    /// it.
    pub fn extend_second(&mut self, to_s: Option<f64>) {
        let to_s = to_s.unwrap_or(self.ended_s);
        self.ended_s = to_s;
        let Some(last) = self.stretches.last_mut() else { return };
        last.to_s = to_s;
        for (sum, open) in last.ios.iter_mut().zip(&mut self.open) {
            *sum += std::mem::take(open).ios;
        }
    }

    /// Returns the number of I/Os that a worker completed in the closed seconds.
    pub fn ios(&self, worker: usize) -> u64 {
        self.stretches.iter().map(|stretch| stretch.ios[worker]).sum()
    }

    /// Returns the whole seconds in which each worker completed nothing while another one did.
    pub fn idle_seconds(&self) -> &[u32] {
        &self.idle
    }

    /// Returns the rates of each worker's reads and writes, second by second.
    pub fn rates(&self) -> &[[Rates; 2]] {
        &self.rates
    }

    /// Returns the combined rate of these workers over time.
    pub fn course(&self, name: &str, workers: &[usize]) -> Course {
        let mut from_s = 0.0;
        let rates = self.stretches.iter().map(|stretch| {
            let ios: u64 = workers.iter().map(|worker| stretch.ios[*worker]).sum();
            let length_s = stretch.to_s - std::mem::replace(&mut from_s, stretch.to_s);
            (stretch.to_s, per(ios as f64, length_s))
        });
        Course { name: name.to_owned(), rates: rates.collect() }
    }

    fn halve(&mut self) {
        let mut all = std::mem::take(&mut self.stretches).into_iter();
        while let Some(mut one) = all.next() {
            if let Some(next) = all.next() {
                one.to_s = next.to_s;
                one.ios.iter_mut().zip(next.ios).for_each(|(sum, more)| *sum += more);
            }
            self.stretches.push(one);
        }
        self.width *= 2;
        self.filled = self.width;
    }
}

#[cfg(test)]
mod test {
    use block::Nanos;

    use super::*;

    fn second(ios: u64, seconds: f64) -> Interval {
        let mut interval = Interval::new();
        (interval.start, interval.end) = (Nanos(0), Nanos((seconds * 1e9) as u64));
        interval.read.ios = ios;
        interval
    }

    #[test]
    fn each_worker_has_the_rates_of_the_seconds_in_which_it_was_there() {
        let mut tracks = Tracks::new(2);
        for (index, (first, late)) in
            [((100, 1.0), (0, 0.0)), ((300, 1.0), (0, 0.2)), ((200, 1.0), (80, 0.8))]
                .into_iter()
                .enumerate()
        {
            tracks.add(0, &second(first.0, first.1));
            tracks.add(1, &second(late.0, late.1));
            tracks.end_second(index as f64 + 1.0);
        }
        let [[first, written], [late, _]] = tracks.rates() else { panic!("two workers") };
        let Rates { iops, .. } = first;
        assert_eq!((iops.min, iops.max, iops.mean, iops.samples), (100.0, 300.0, 200.0, 3));
        assert_eq!((late.iops.samples, late.iops.mean.round()), (1, 100.0));
        assert!(written.is_none());
    }

    #[test]
    fn who_stands_still_beside_others_is_counted() {
        let mut tracks = Tracks::new(3);
        // The third worker begins late, and ends with the fourth second.
        let done = [[5, 5, 0], [5, 0, 0], [0, 0, 7], [5, 0, 0], [5, 5, 0]];
        let there = [0.0, 0.2, 1.0, 1.0, 0.0];
        for (number, (ios, third)) in done.iter().zip(there).enumerate() {
            for (worker, ios) in ios.iter().enumerate() {
                tracks.add(worker, &second(*ios, if worker == 2 { third } else { 1.0 }));
            }
            tracks.end_second(number as f64 + 1.0);
        }
        assert_eq!(tracks.idle_seconds(), [1, 3, 1]);
        // A second without I/Os of any worker is no worker's idle second. Nor is the rest of a
        // second.
        (0..3).for_each(|worker| tracks.add(worker, &second(0, 1.0)));
        tracks.end_second(6.0);
        tracks.add(0, &second(5, 0.5));
        tracks.add(1, &second(0, 0.5));
        tracks.end_second(6.5);
        assert_eq!(tracks.idle_seconds(), [1, 3, 1]);
    }

    #[test]
    fn many_seconds_become_few_stretches() {
        let mut tracks = Tracks::new(2);
        for number in 0..3 * STRETCHES as u64 + 5 {
            tracks.add(0, &second(number, 1.0));
            tracks.add(1, &second(10, 1.0));
            tracks.end_second(number as f64 + 1.0);
        }
        let course = tracks.course("both", &[0, 1]);
        assert!(course.rates.len() <= STRETCHES, "{}", course.rates.len());
        assert!(course.rates.len() > STRETCHES / 2, "{}", course.rates.len());
        let (mut from_s, mut all) = (0.0, 0.0);
        for (number, (to_s, iops)) in course.rates.iter().enumerate() {
            if number + 1 < course.rates.len() {
                assert_eq!(to_s - from_s, 4.0);
            }
            all += iops * (to_s - from_s);
            from_s = *to_s;
        }
        let seconds = 3 * STRETCHES as u64 + 5;
        assert_eq!(from_s, seconds as f64);
        assert!((all - (seconds * (seconds - 1) / 2 + 10 * seconds) as f64).abs() < 1e-6, "{all}");
    }
}
