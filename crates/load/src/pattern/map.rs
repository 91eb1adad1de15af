//! Random places for I/Os of several lengths, each place visited once before any again.
//!
//! An I/O begins at a random place that is free and ends at the next one that is not, so that it
//! may be shorter than drawn, as with fio's random map.

use block::Rng;

/// Maximum number of places of a map, 128 MiB of memory: the target may claim any volume size.
const PLACES_MAX: u64 = 1 << 30;

/// The free places of one worker.
#[derive(Debug)]
pub(super) struct Map {
    /// A bit for each free place; on each further level one for each word below that has any.
    levels: Vec<Vec<u64>>,
    places: u64,
    free: u64,
    align: u64,
}

impl Map {
    /// Returns the map of a range of `bytes`, at least one place long; `None` if it is too long.
    pub(super) fn new(bytes: u64, align: u64) -> Option<Map> {
        let places = bytes / align;
        if places > PLACES_MAX {
            return None;
        }
        let mut levels = Vec::new();
        let mut bits = places;
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; words as usize]);
            bits = words;
            if words <= 1 {
                break;
            }
        }
        let mut map = Map { levels, places, free: 0, align };
        map.refill();
        Some(map)
    }

    /// A random free offset.
    pub(super) fn offset(&mut self, rng: &mut Rng) -> u64 {
        if self.free == 0 {
            self.refill();
        }
        let from = rng.below(self.places);
        self.next(from).or_else(|| self.next(0)).unwrap_or_default() * self.align
    }

    /// Length of an I/O from a free offset on that is `size` bytes long where as much is free.
    pub(super) fn len(&mut self, offset: u64, size: u32) -> u32 {
        let taken = self.take(offset / self.align, u64::from(size).div_ceil(self.align));
        u64::from(size).min(taken * self.align) as u32
    }

    /// Frees all places.
    fn refill(&mut self) {
        let mut bits = self.places;
        for level in &mut self.levels {
            let words = level.len() as u64;
            level.fill(u64::MAX);
            if let (Some(last), rest @ 1..) = (level.last_mut(), bits % 64) {
                *last = (1 << rest) - 1;
            }
            bits = words;
        }
        self.free = self.places;
    }

    /// The first free place from here on.
    fn next(&self, from: u64) -> Option<u64> {
        let (mut level, mut at) = (0, from);
        loop {
            let words = self.levels.get(level)?;
            let word = (at / 64) as usize;
            let bits = words.get(word)? & (u64::MAX << (at % 64));
            if bits != 0 {
                at = word as u64 * 64 + u64::from(bits.trailing_zeros());
                break;
            }
            (level, at) = (level + 1, word as u64 + 1);
        }
        for below in self.levels[..level].iter().rev() {
            at = at * 64 + u64::from(below[at as usize].trailing_zeros());
        }
        Some(at)
    }

    /// Takes at most `most` contiguous free places from a free one on; returns their number.
    fn take(&mut self, first: u64, most: u64) -> u64 {
        let mut taken = 0;
        while taken < most {
            let at = first + taken;
            let (word, bit) = ((at / 64) as usize, at % 64);
            let Some(bits) = self.levels[0].get_mut(word) else { break };
            let run = u64::from((*bits >> bit).trailing_ones()).min(most - taken);
            if run == 0 {
                break;
            }
            *bits &= !((u64::MAX >> (64 - run)) << bit);
            if *bits == 0 {
                self.mark_empty(word);
            }
            taken += run;
        }
        self.free -= taken;
        taken
    }

    /// A word of the lowest level has no free place left.
    fn mark_empty(&mut self, mut word: usize) {
        for level in &mut self.levels[1..] {
            level[word / 64] &= !(1 << (word % 64));
            if level[word / 64] != 0 {
                return;
            }
            word /= 64;
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn draw(map: &mut Map, rng: &mut Rng, size: u32) -> (u64, u32) {
        let offset = map.offset(rng);
        (offset, map.len(offset, size))
    }

    #[test]
    fn each_place_comes_once_in_each_pass() {
        for places in [1, 63, 64, 65, 4097, 300_000] {
            let mut map = Map::new(places * 512 + 100, 512).unwrap();
            let mut rng = Rng::new(places, 0);
            let mut seen = vec![0_u32; places as usize];
            for pass in 1..=2 {
                let mut left = places * 512;
                while left > 0 {
                    let size = 512 << rng.below(8);
                    let (offset, len) = draw(&mut map, &mut rng, size);
                    assert!(len > 0 && len <= size && len.is_multiple_of(512));
                    let first = (offset / 512) as usize;
                    seen[first..first + len as usize / 512].iter_mut().for_each(|n| *n += 1);
                    left -= u64::from(len);
                }
                assert!(seen.iter().all(|count| *count == pass), "{places} places");
            }
        }
    }

    #[test]
    fn lengths_are_whole_until_free_places_are_rare() {
        let mut map = Map::new(1 << 30, 4096).unwrap();
        let mut rng = Rng::new(1, 0);
        let mut whole =
            |ios: u64| (0..ios).filter(|_| draw(&mut map, &mut rng, 65536).1 == 65536).count();
        assert!(whole(500) > 460);
        whole(12_000);
        assert!(whole(500) < 330);
        // A length other than a multiple of places is not rounded.
        let mut map = Map::new(1 << 20, 4096).unwrap();
        assert_eq!(draw(&mut map, &mut Rng::new(1, 0), 5000).1, 5000);
    }

    #[test]
    fn a_length_that_a_target_claims_takes_no_memory() {
        assert!(Map::new(u64::MAX, 512).is_none());
        assert!(Map::new(PLACES_MAX * 512 + 512, 512).is_none());
    }
}
