//! Random offsets: one of N by a distribution.

use block::Rng;

use super::alias::Alias;
use super::permutation::Permutation;
use super::zipf::Zipf;
use job::spec::{Extent, Part, Places, Zone};

/// Draws an index below a count, in constant time and memory.
#[derive(Debug)]
pub(super) enum Chooser {
    Uniform { places: u64 },
    Once(Box<Once>),
    Zipf { ranks: Zipf, scattered: Permutation },
    Pareto { places: f64, power: f64, scattered: Permutation },
    Normal { places: f64, deviation: f64 },
    Zones { pick: Alias, zones: Vec<(u64, u64)> },
}

/// A pass over a part of all offsets, then another one in another order.
#[derive(Debug)]
pub(super) struct Once {
    order: Permutation,
    places: u64,
    part: Part,
    next: u64,
    pass: u64,
    seed: u64,
}

impl Chooser {
    /// For `places` offsets, at least one, at multiples of `align` bytes of a range of `bytes`.
    /// `seed` gives the order for all workers of a volume: `part` is this one's share.
    pub(super) fn new(
        how: &Places,
        places: u64,
        align: u64,
        bytes: u64,
        seed: u64,
        part: Part,
    ) -> Chooser {
        let scattered = || Permutation::new(places, seed);
        match how {
            Places::Uniform => Chooser::Uniform { places },
            Places::Once => Chooser::Once(Box::new(Once::new(places, seed, part))),
            Places::Zipf { exponent } => {
                Chooser::Zipf { ranks: Zipf::new(places, *exponent), scattered: scattered() }
            }
            Places::Pareto { hot } => Chooser::Pareto {
                places: places as f64,
                power: hot.ln() / (1.0 - hot).ln(),
                scattered: scattered(),
            },
            Places::Normal { deviation_percent } => {
                let places = places as f64;
                Chooser::Normal { places, deviation: places * deviation_percent / 100.0 }
            }
            Places::Zones { zones } => Chooser::Zones {
                pick: Alias::new(zones.iter().map(|zone| zone.io_percent)),
                zones: cut(zones, places, align, bytes),
            },
        }
    }

    /// Restarts: visited offsets may be visited again.
    pub(super) fn restart(&mut self) {
        if let Chooser::Once(once) = self {
            once.next = once.part.end(once.places);
        }
    }

    /// The next index.
    #[inline]
    pub(super) fn draw(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Chooser::Uniform { places } => rng.below(*places),
            Chooser::Once(once) => once.next(),
            Chooser::Zipf { ranks, scattered } => scattered.at(ranks.draw(rng) - 1),
            Chooser::Pareto { places, power, scattered } => {
                let rank = (rng.uniform().powf(*power) * *places) as u64;
                scattered.at(rank.min(*places as u64 - 1))
            }
            Chooser::Normal { places, deviation } => normal(*places, *deviation, rng),
            Chooser::Zones { pick, zones } => {
                let (begin, places) = zones[pick.draw(rng)];
                begin + rng.below(places)
            }
        }
    }
}

impl Once {
    fn new(places: u64, seed: u64, part: Part) -> Once {
        let order = Permutation::new(places, seed);
        Once { order, places, part, next: part.begin(places), pass: 0, seed }
    }

    fn next(&mut self) -> u64 {
        if self.next >= self.part.end(self.places) {
            self.pass += 1;
            let key = self.seed.wrapping_add(self.pass.wrapping_mul(0xd134_2543_de82_ef95));
            self.order = Permutation::new(self.places, key);
            self.next = self.part.begin(self.places);
        }
        self.next += 1;
        // With more workers than offsets some have no part, and use a neighbour's.
        self.order.at((self.next - 1).min(self.places - 1))
    }
}

/// An index around the middle, by Marsaglia's polar method; those outside are redrawn.
pub(super) fn normal(places: f64, deviation: f64, rng: &mut Rng) -> u64 {
    loop {
        let (x, y) = (2.0 * rng.uniform() - 1.0, 2.0 * rng.uniform() - 1.0);
        let radius = x * x + y * y;
        if radius >= 1.0 || radius == 0.0 {
            continue;
        }
        let place = places / 2.0 + x * (-2.0 * radius.ln() / radius).sqrt() * deviation;
        if (0.0..places).contains(&place) {
            return place as u64;
        }
    }
}

/// Start and number of offsets of each zone: at least one each, none beyond the last.
fn cut(zones: &[Zone], places: u64, align: u64, bytes: u64) -> Vec<(u64, u64)> {
    let mut end_bytes = 0.0;
    let mut begin = 0;
    let cut = |zone: &Zone| {
        end_bytes += match zone.space {
            Extent::Bytes(bytes) => bytes as f64,
            Extent::Percent(percent) => bytes as f64 * percent / 100.0,
        };
        let first = begin.min(places - 1);
        let end = ((end_bytes / align as f64).round() as u64).clamp(first + 1, places);
        begin = end;
        (first, end - first)
    };
    zones.iter().map(cut).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    fn counts(how: &Places, places: u64, draws: u32) -> Vec<u32> {
        let mut chooser = Chooser::new(how, places, 512, places * 512, 5, Part::WHOLE);
        let mut rng = Rng::new(1, 0);
        let mut counts = vec![0; places as usize];
        (0..draws).for_each(|_| counts[chooser.draw(&mut rng) as usize] += 1);
        counts
    }

    #[test]
    fn every_place_once_by_any_number_of_workers() {
        for workers in [1, 3, 7, 150] {
            let mut seen = vec![0; 100];
            let mut rng = Rng::new(1, 0);
            for index in 0..workers {
                let part = Part { index, of: workers };
                let mut chooser = Chooser::new(&Places::Once, 100, 1, 100, 9, part);
                let mine = part.end(100) - part.begin(100);
                (0..2 * mine).for_each(|_| seen[chooser.draw(&mut rng) as usize] += 1);
            }
            assert!(seen.iter().all(|count| *count == 2), "{workers} workers: {seen:?}");
        }
    }

    #[test]
    fn the_hot_part_gets_its_share() {
        for hot in [0.2, 0.1, 0.7] {
            let mut counts = counts(&Places::Pareto { hot }, 10_000, 400_000);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let top = (10_000.0 * hot) as usize;
            let share = |counts: &[u32]| f64::from(counts.iter().sum::<u32>()) / 400_000.0;
            // The rule holds for hot and cold; above a half the cold part is the hotter.
            let expected = if hot < 0.5 { 1.0 - hot } else { hot };
            let top = if hot < 0.5 { top } else { 10_000 - top };
            assert!((share(&counts[..top]) - expected).abs() < 0.02, "{hot}");
        }
    }

    #[test]
    fn the_middle_is_hot_and_nothing_is_outside() {
        let counts = counts(&Places::Normal { deviation_percent: 10.0 }, 1000, 1_000_000);
        let within = |sigma: usize| -> f64 {
            let part = &counts[500 - 100 * sigma..500 + 100 * sigma];
            f64::from(part.iter().sum::<u32>()) / 1e6
        };
        for (sigma, share) in [(1, 0.6827), (2, 0.9545), (3, 0.9973)] {
            assert!((within(sigma) - share).abs() < 0.003, "{sigma} sigma: {}", within(sigma));
        }
    }

    #[test]
    fn zones_are_as_busy_as_they_are_told() {
        let zone = |io_percent, space| Zone { io_percent, space };
        let zones = vec![
            zone(60.0, Extent::Percent(10.0)),
            zone(30.0, Extent::Bytes(200 * 512)),
            zone(10.0, Extent::Percent(70.0)),
        ];
        let counts = counts(&Places::Zones { zones }, 1000, 100_000);
        let share = |from: usize, to: usize| counts[from..to].iter().sum::<u32>();
        assert!((59_000..61_000).contains(&share(0, 100)), "{}", share(0, 100));
        assert!((29_000..31_000).contains(&share(100, 300)));
        assert!((9_000..11_000).contains(&share(300, 1000)));
        assert!(counts[..100].iter().all(|n| (450..750).contains(n)));
    }

    #[test]
    fn zipf_is_scattered() {
        let counts = counts(&Places::Zipf { exponent: 1.2 }, 1000, 100_000);
        let hottest = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
        let beside = counts[(hottest.0 + 1) % 1000];
        assert!(*hottest.1 > 20_000 && beside < 10_000, "{hottest:?}, beside it {beside}");
    }
}
