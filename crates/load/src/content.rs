//! Content of writes: by default incompressible and without duplicates.

use block::{Rng, splitmix};

use job::spec::{Content, DataPattern};

/// Unit of uniqueness: the shortest block.
const UNIT: usize = 512;
/// Chunk that compressors and deduplicators use by default: ratios hold within each.
const CHUNK: usize = 4096;
/// Number of different duplicates. Few, so that they add nothing to the stored data.
const DUPLICATES: u64 = 64;

/// Content of a file that is written before a read-only job.
#[derive(Debug)]
pub struct FirstContent(Writer);

impl FirstContent {
    /// Returns the content of a job's writes; `seed` decides the random data, and files of other
    /// numbers get other data.
    pub fn new(content: &Content, seed: u64, number: u64) -> FirstContent {
        FirstContent(Writer::new(content, seed, number))
    }

    /// Fills the next data, of any length; a pattern starts with it.
    pub fn fill(&mut self, buf: &mut [u8]) {
        self.0.fill(buf);
        self.0.renew(buf);
    }
}

/// Generates the content of one worker's writes.
///
/// Buffers hold random bytes from the start. Each write is XORed with a different key, and each
/// 512-byte unit gets a unique number: all blocks differ, and no byte pair repeats at a predictable
/// place, not even in other writes. So nothing can be compressed across I/Os, and few buffers serve
/// as well as many.
#[derive(Debug)]
pub(crate) struct Writer {
    rng: Rng,
    /// Unique number of the next unit.
    next: u64,
    /// Length of a chunk.
    chunk: usize,
    /// Random bytes of each chunk; the rest is zero or this pattern.
    random: usize,
    rest: Option<DataPattern>,
    /// Share of duplicate chunks, of 2³².
    duplicates: u64,
    /// Number of different duplicates.
    originals: u64,
    /// Writes are not masked.
    repeats: bool,
    seed: u64,
}

impl Writer {
    /// For the worker with this number.
    pub(crate) fn new(content: &Content, seed: u64, number: u64) -> Writer {
        let share = |percent: f64| (percent / 100.0 * (1_u64 << 32) as f64).round() as u64;
        let chunk = content.chunk_bytes.map_or(CHUNK, |bytes| bytes as usize).max(1);
        // Whole words; at least one number per unit makes it unique, unless all is zero.
        let random = match (&content.pattern, content.compress_percent) {
            (Some(_), 0.0) => 0,
            (_, percent) => ((1.0 - percent / 100.0) * chunk as f64).round() as usize,
        };
        Writer {
            rng: Rng::new(seed, 2 * number + 1),
            next: number << 40,
            chunk,
            random: random.next_multiple_of(8).min(chunk),
            rest: content.pattern.clone(),
            duplicates: share(content.dedupe_percent),
            originals: content.dedupe_blocks.unwrap_or(DUPLICATES).max(1),
            repeats: content.repeats,
            seed,
        }
    }

    /// Fills a new buffer.
    pub(crate) fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(self.chunk) {
            let random = self.random.min(chunk.len());
            fill_random(&mut chunk[..random], &mut self.rng);
        }
        self.fill_rest(buf);
    }

    /// Fills the part that is not random: reads put other data into write buffers.
    fn fill_rest(&self, data: &mut [u8]) {
        match &self.rest {
            // In one piece: it starts with the write, and does not restart per chunk.
            Some(pattern) if self.random == 0 => pattern.fill(data, 0),
            Some(pattern) => {
                let rest =
                    data.chunks_mut(self.chunk).filter_map(|chunk| chunk.get_mut(self.random..));
                rest.for_each(|rest| pattern.fill(rest, 0));
            }
            None => {
                let rest =
                    data.chunks_mut(self.chunk).filter_map(|chunk| chunk.get_mut(self.random..));
                rest.for_each(|rest| rest.fill(0));
            }
        }
    }

    /// Prepares a filled buffer for another write of all its bytes.
    #[inline]
    pub(crate) fn renew(&mut self, data: &mut [u8]) {
        if self.random == self.chunk && self.duplicates == 0 {
            if !self.repeats {
                mask(data, self.unique());
            }
            for unit in data.chunks_exact_mut(UNIT) {
                unit[..8].copy_from_slice(&self.unique().to_le_bytes());
            }
        } else {
            self.renew_shares(data);
        }
    }

    #[inline]
    fn unique(&mut self) -> u64 {
        // A bijection of a counter: two workers and two writes never share a number.
        self.next = self.next.wrapping_add(1);
        let mut state = self.next;
        splitmix(&mut state)
    }

    fn renew_shares(&mut self, data: &mut [u8]) {
        self.fill_rest(data);
        for chunk in data.chunks_mut(self.chunk) {
            let random = self.random.min(chunk.len());
            if self.duplicates == 0 {
                if !self.repeats {
                    mask(&mut chunk[..random], self.unique());
                }
                for unit in chunk[..random].chunks_mut(UNIT) {
                    let unique = self.unique().to_le_bytes();
                    unit[..8].copy_from_slice(&unique);
                }
                continue;
            }
            let mut content = if self.rng.chance(self.duplicates) {
                Rng::new(self.seed, u64::MAX - self.rng.below(self.originals))
            } else {
                Rng::new(self.unique(), 0)
            };
            fill_random(&mut chunk[..random], &mut content);
        }
    }
}

/// Turns random bytes into other random bytes.
#[inline]
fn mask(bytes: &mut [u8], key: u64) {
    let (words, _) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_le_bytes(*word) ^ key).to_le_bytes();
    }
}

/// Fills a buffer with random data.
fn fill_random(bytes: &mut [u8], rng: &mut Rng) {
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
    }
}

/// A pattern for tests.
#[cfg(test)]
pub(crate) fn data_pattern(text: &str) -> DataPattern {
    DataPattern::parse(text, &|_| Err("no file".to_owned())).unwrap()
}

#[cfg(test)]
mod test {
    use super::*;
    use std::collections::HashSet;

    /// The writes of two workers, 32 KiB each, from two buffers per worker.
    fn written(compress_percent: f64, dedupe_percent: f64) -> Vec<u8> {
        let content = Content { compress_percent, dedupe_percent, ..Content::default() };
        let mut all = Vec::new();
        for number in 0..2 {
            let mut writer = Writer::new(&content, 7, number);
            let mut bufs = [vec![0xff; 32 << 10], vec![0xff; 32 << 10]];
            bufs.iter_mut().for_each(|buf| writer.fill(buf));
            for round in 0..50 {
                let buf = &mut bufs[round % 2];
                writer.renew(buf);
                all.extend_from_slice(buf);
            }
        }
        all
    }

    /// Compressed size in blocks of this length, in percent.
    fn compressed(data: &[u8], block: usize) -> f64 {
        let left: usize =
            data.chunks(block).map(|b| lz4_flex::block::compress(b).len().min(block)).sum();
        left as f64 / data.len() as f64 * 100.0
    }

    fn different(data: &[u8], block: usize) -> f64 {
        let all: HashSet<&[u8]> = data.chunks(block).collect();
        all.len() as f64 / (data.len() / block) as f64 * 100.0
    }

    #[test]
    fn nothing_can_be_compressed_or_shared_by_default() {
        let data = written(0.0, 0.0);
        for block in [512, 4096, 32 << 10] {
            assert_eq!(compressed(&data, block), 100.0, "in blocks of {block}");
            assert_eq!(different(&data, block), 100.0, "in blocks of {block}");
        }
        // At least 7.9 bits of entropy per byte: no order-0 coder finds anything either.
        let mut counts = [0_u64; 256];
        data.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let share = |count: &u64| *count as f64 / data.len() as f64;
        let entropy: f64 = counts.iter().map(share).map(|p| -p * p.log2()).sum();
        assert!(entropy > 7.9, "{entropy}");
    }

    /// Storage that compresses 128 KiB together sees many short writes of few buffers at once.
    #[test]
    fn nothing_is_found_again_in_other_writes() {
        for (compress, left) in [(0.0, 100.0), (50.0, 50.0)] {
            let content = Content { compress_percent: compress, ..Content::default() };
            let mut writer = Writer::new(&content, 7, 0);
            let mut bufs = [vec![0; 4096], vec![0; 4096]];
            bufs.iter_mut().for_each(|buf| writer.fill(buf));
            let mut data = Vec::new();
            for round in 0..128 {
                writer.renew(&mut bufs[round % 2]);
                data.extend_from_slice(&bufs[round % 2]);
            }
            let found = compressed(&data, 128 << 10);
            assert!((found - left).abs() < 2.0, "{found} % are left, not {left}");
        }
    }

    #[test]
    fn what_repeats_is_new_in_every_512_bytes_and_no_more() {
        let content = Content { repeats: true, ..Content::default() };
        let mut writer = Writer::new(&content, 7, 0);
        let mut buf = vec![0; 4096];
        writer.fill(&mut buf);
        let before = buf.clone();
        writer.renew(&mut buf);
        for (old, new) in before.chunks(UNIT).zip(buf.chunks(UNIT)) {
            assert!(old[..8] != new[..8] && old[8..] == new[8..]);
        }
    }

    #[test]
    fn a_pattern_goes_from_the_beginning_of_each_write_on() {
        let pattern = |text: &str, compress_percent| Content {
            compress_percent,
            pattern: Some(data_pattern(text)),
            ..Content::default()
        };
        let mut writer = Writer::new(&pattern("\"abc\"", 0.0), 7, 0);
        let mut buf = vec![0; 3 * 4096];
        for dirt in [0, 0x55] {
            // A read has used the buffer.
            buf.fill(dirt);
            writer.renew(&mut buf[..8192]);
            assert!(buf[..8192].iter().zip(b"abc".iter().cycle()).all(|(a, b)| a == b));
            assert!(buf[8192..].iter().all(|byte| *byte == dirt));
        }
        let mut writer = Writer::new(&pattern("0xdead", 75.0), 7, 0);
        writer.fill(&mut buf);
        let before = buf.clone();
        writer.renew(&mut buf);
        for (old, new) in before.chunks(4096).zip(buf.chunks(4096)) {
            assert_ne!(old[..1024], new[..1024]);
            assert!(new[1024..].chunks(2).all(|pair| pair == [0xde, 0xad]));
        }
    }

    #[test]
    fn what_a_read_left_in_a_buffer_is_not_written() {
        let content = Content { compress_percent: 50.0, ..Content::default() };
        let mut writer = Writer::new(&content, 7, 0);
        let mut buf = vec![0x55; 8192];
        writer.renew(&mut buf);
        assert!(buf.chunks(4096).all(|chunk| chunk[2048..].iter().all(|byte| *byte == 0)));
    }

    #[test]
    fn compresses_by_the_share_that_was_asked_for() {
        for percent in [25.0, 50.0, 80.0] {
            let data = written(percent, 0.0);
            for block in [4096, 32 << 10] {
                let left = compressed(&data, block);
                assert!((left - (100.0 - percent)).abs() < 2.0, "{percent} %: {left} % are left");
            }
            assert_eq!(different(&data, 4096), 100.0);
        }
        assert!(compressed(&written(100.0, 0.0), 4096) < 2.0);
    }

    #[test]
    fn shares_are_kept_in_chunks_of_any_length() {
        for chunk in [512, 65536] {
            let content =
                Content { compress_percent: 75.0, chunk_bytes: Some(chunk), ..Content::default() };
            let mut writer = Writer::new(&content, 7, 0);
            let mut buf = vec![0x55; 1 << 17];
            writer.renew(&mut buf);
            for chunk in buf.chunks(chunk as usize) {
                let (random, zero) = chunk.split_at(chunk.len() / 4);
                assert!(zero.iter().all(|byte| *byte == 0));
                assert!(random.chunks(64).all(|part| part.iter().any(|byte| *byte != 0)));
            }
        }
    }

    #[test]
    fn duplicates_are_of_as_many_blocks_as_were_asked_for() {
        let content =
            Content { dedupe_percent: 100.0, dedupe_blocks: Some(200), ..Content::default() };
        let mut writer = Writer::new(&content, 7, 0);
        let mut buf = vec![0; 4096 * 4000];
        writer.renew(&mut buf);
        let all: HashSet<&[u8]> = buf.chunks(4096).collect();
        assert_eq!(all.len(), 200);
    }

    #[test]
    fn repeats_by_the_share_that_was_asked_for() {
        for percent in [30.0, 75.0] {
            let data = written(0.0, percent);
            // 64 of 800 blocks are the originals of all duplicates.
            let expected = 100.0 - percent + 64.0 / 800.0 * 100.0;
            let found = different(&data, 4096);
            assert!((found - expected).abs() < 4.0, "{percent} %: {found} % differ");
            assert_eq!(compressed(&data, 4096), 100.0);
        }
        let both = written(50.0, 50.0);
        assert!((compressed(&both, 4096) - 50.0).abs() < 2.0);
        assert!((different(&both, 4096) - 58.0).abs() < 4.0);
    }
}
