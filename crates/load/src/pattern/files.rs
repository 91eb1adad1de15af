//! The current file of a worker, of several in one range.

use block::Rng;

use super::general::Position;
use super::places::normal;
use super::zipf::Zipf;
use job::spec::{Access, FileWalk, Part, Places};

/// Files are chosen by a distribution over this many places each, as in fio: neighbours share their
/// weight.
const PLACES_SHIFT: u32 = 10;
/// Parts of the files' seeds.
const OWN_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The files of one worker.
#[derive(Debug)]
pub(super) struct Files {
    /// Length of each.
    share: u64,
    /// I/Os on one file before the next.
    ios: u32,
    order: Order,
    /// The current file, and I/Os left on it.
    index: usize,
    left: u32,
    /// Index of the current file among unfinished files, if these are drawn.
    slot: usize,
    /// Positions of the other files; the current one's entry is empty.
    parked: Vec<Position>,
    /// Bytes begun in each file since the last restart.
    begun: Vec<u64>,
    /// Each file is done once before all restart.
    once: bool,
    /// Finished files, and the unfinished ones.
    done: Vec<bool>,
    undone: Vec<u32>,
}

/// Order of the files.
#[derive(Debug)]
enum Order {
    /// Round-robin.
    Turns {
        next: usize,
    },
    Uniform,
    Zipf(Zipf),
    Pareto {
        places: f64,
        power: f64,
    },
    Normal {
        places: f64,
        deviation: f64,
    },
}

impl Files {
    /// For files of `share` bytes, each with its own lines.
    pub(super) fn new(
        walk: &FileWalk,
        access: &Access,
        share: u64,
        seed: u64,
        part: Part,
    ) -> Files {
        let count = walk.count as usize;
        let places = u64::from(walk.count) << PLACES_SHIFT;
        let order = match &walk.random {
            None => Order::Turns { next: 0 },
            Some(Places::Zipf { exponent }) => Order::Zipf(Zipf::new(places, *exponent)),
            Some(Places::Pareto { hot }) => {
                Order::Pareto { places: places as f64, power: hot.ln() / (1.0 - hot).ln() }
            }
            Some(Places::Normal { deviation_percent }) => {
                let places = places as f64;
                Order::Normal { places, deviation: places * deviation_percent / 100.0 }
            }
            Some(Places::Uniform | Places::Once | Places::Zones { .. }) => Order::Uniform,
        };
        // Random offsets that repeat have no end.
        let ends = access.random == Places::Once
            || access.lines.iter().all(|line| line.random_percent == 0.0);
        let once = ends && matches!(order, Order::Turns { .. } | Order::Uniform);
        let own = |file: u64| seed.wrapping_add(file.wrapping_mul(OWN_SEED));
        let position = |file: u64| match file {
            0 => Position::default(),
            file => Position::new(access, share, own(file), part),
        };
        Files {
            share,
            ios: walk.ios,
            order,
            index: 0,
            left: 0,
            slot: 0,
            parked: (0..u64::from(walk.count)).map(position).collect(),
            begun: vec![0; count],
            once,
            done: vec![false; count],
            undone: (0..walk.count).collect(),
        }
    }

    /// Offset of the file within the range.
    pub(super) fn begin(&self) -> u64 {
        self.index as u64 * self.share
    }

    /// Counts an I/O of this length, and moves on to another file if this one had its turn or is
    /// finished. `here` is the position in the file.
    pub(super) fn advance(&mut self, here: &mut Position, size: u32, rng: &mut Rng) {
        let size = u64::from(size);
        let full = self.begun[self.index] + size > self.share;
        if full && self.once && !self.done[self.index] {
            self.done[self.index] = true;
            self.undone.swap_remove(self.slot);
            self.left = 0;
        }
        if self.left == 0 {
            let next = self.choose(rng);
            if next != self.index {
                std::mem::swap(here, &mut self.parked[self.index]);
                std::mem::swap(here, &mut self.parked[next]);
                self.index = next;
            }
            self.left = self.ios;
        }
        self.left -= 1;
        self.begun[self.index] = self.begun[self.index].saturating_add(size);
    }

    fn choose(&mut self, rng: &mut Rng) -> usize {
        let count = self.begun.len();
        if self.undone.is_empty() {
            self.undone.extend(0..count as u32);
            self.done.fill(false);
            self.begun.fill(0);
        }
        let of = |place: u64| ((place >> PLACES_SHIFT) as usize).min(count - 1);
        match &mut self.order {
            Order::Turns { next } => {
                // The next unfinished one: in the last round some are finished before others.
                while self.done[*next] {
                    *next = (*next + 1) % count;
                }
                // In round-robin only their number matters.
                self.slot = 0;
                let file = *next;
                *next = (file + 1) % count;
                file
            }
            Order::Uniform => {
                self.slot = rng.below(self.undone.len() as u64) as usize;
                self.undone[self.slot] as usize
            }
            Order::Zipf(zipf) => of(zipf.draw(rng) - 1),
            Order::Pareto { places, power } => of((rng.uniform().powf(*power) * *places) as u64),
            Order::Normal { places, deviation } => of(normal(*places, *deviation, rng)),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::pattern::test::pattern;

    const BLOCK: u64 = 4096;

    /// The files and the blocks in them, of files of eight blocks.
    fn visited(walk: FileWalk, random: f64, ios: usize) -> Vec<(u64, u64)> {
        let bytes = u64::from(walk.count) * 8 * BLOCK;
        let places = Places::Once;
        let access =
            Access { random: places, files: Some(walk), ..Access::new(4096, 100.0, random) };
        let mut pattern = pattern(access, bytes);
        let mut next = || pattern.next().unwrap().offset / BLOCK;
        (0..ios).map(|_| next()).map(|block| (block / 8, block % 8)).collect()
    }

    fn walk(count: u32, ios: u32, random: Option<Places>) -> FileWalk {
        FileWalk { count, ios, random }
    }

    #[test]
    fn so_many_go_to_each_in_turn_and_each_goes_forward() {
        let all = visited(walk(3, 3, None), 0.0, 48);
        let files: Vec<u64> = all.iter().map(|(file, _)| *file).collect();
        assert_eq!(files[..12], [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0]);
        // The last turn of each is its remainder.
        assert_eq!(files[18..24], [0, 0, 1, 1, 2, 2]);
        let first: Vec<u64> =
            all.iter().filter(|(file, _)| *file == 0).map(|(_, at)| *at).collect();
        assert_eq!(first[..10], [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    }

    #[test]
    fn all_is_done_once_in_each_before_any_begins_anew() {
        for (order, random) in [(None, 100.0), (Some(Places::Uniform), 0.0), (None, 0.0)] {
            for ios in [1, 2, 5, 100] {
                let all = visited(walk(5, ios, order.clone()), random, 80);
                for pass in all.chunks(40) {
                    let mut sorted = pass.to_vec();
                    sorted.sort_unstable();
                    sorted.dedup();
                    assert_eq!(sorted.len(), 40, "{order:?} {ios}: {pass:?}");
                }
            }
        }
    }

    #[test]
    fn files_of_chance_keep_their_turn() {
        let all = visited(walk(4, 4, Some(Places::Uniform)), 100.0, 32);
        for turn in all.chunks(4) {
            assert!(turn.iter().all(|(file, _)| *file == turn[0].0), "{all:?}");
        }
        let files: Vec<u64> = all.chunks(4).map(|turn| turn[0].0).collect();
        assert_ne!(files, [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn some_files_are_more_popular() {
        let counts = |law: Places| {
            let all = visited(walk(10, 1, Some(law)), 0.0, 20_000);
            let mut counts = [0; 10];
            all.iter().for_each(|(file, _)| counts[*file as usize] += 1);
            counts
        };
        let pareto = counts(Places::Pareto { hot: 0.2 });
        let hot: u32 = pareto[..2].iter().sum();
        assert!((15_500..16_500).contains(&hot), "{pareto:?}");
        let normal = counts(Places::Normal { deviation_percent: 10.0 });
        let middle: u32 = normal[4..6].iter().sum();
        assert!((13_000..14_300).contains(&middle), "{normal:?}");
        let zipf = counts(Places::Zipf { exponent: 1.2 });
        assert!(zipf[0] > 15_000 && zipf[9] > 10, "{zipf:?}");
    }
}
