//! Copies received data into memory.

use crate::copy::{EARLY_LINES, LINE, end_stream};
use crate::{Memories, Memory};

/// A queue of copies into memory: the counterpart of [`CopyAhead`](crate::CopyAhead).
///
/// A random offset of a large volume misses every cache. Short copies are queued until all their
/// lines were prefetched in one loop. Longer ones use non-temporal stores: they fetch no lines only
/// to overwrite them, and keep the cache for other data. Writes of 4 KiB by loopback TCP gain a
/// factor of 1.1, even on a volume that fits the cache; at 512 B the factor would be 0.87.
///
/// The data stays in its receive buffers, which limits the life of a landing.
#[derive(Debug)]
pub struct Landing<'a> {
    /// The first `count` are queued.
    copies: [Copy<'a>; WAITING],
    count: usize,
    memories: Memories,
}

/// Maximum number of queued copies.
const WAITING: usize = 32;
/// Longer copies use non-temporal stores.
const SHORT_BYTES: usize = EARLY_LINES * LINE;

#[derive(Clone, Copy, Debug)]
struct Copy<'a> {
    from: &'a [u8],
    /// Index in `memories`.
    memory: usize,
    offset: u64,
}

impl<'a> Landing<'a> {
    /// Returns an empty queue. `memories` is the value of the last [`finish`](Self::finish), or
    /// empty.
    #[inline]
    pub fn new(memories: Memories) -> Landing<'a> {
        let none = Copy { from: &[], memory: 0, offset: 0 };
        Landing { copies: [none; WAITING], count: 0, memories }
    }

    /// Queues a copy of `from` to `offset` of `memory`. Overlapping copies keep their order.
    /// Panics, now or later, if the range lies outside.
    #[inline]
    pub fn push(&mut self, memory: &Memory, offset: u64, from: &'a [u8]) {
        if self.count == WAITING {
            self.copy();
        }
        let memory = self.memories.keep(memory);
        self.copies[self.count] = Copy { from, memory, offset };
        self.count += 1;
    }

    /// Executes the queued copies, and returns the memories for the next landing. Every core then
    /// sees the data.
    #[inline]
    pub fn finish(mut self) -> Memories {
        if self.count != 0 {
            self.copy();
        }
        self.memories
    }

    fn copy(&mut self) {
        let copies = &self.copies[..std::mem::take(&mut self.count)];
        for Copy { from, memory, offset } in copies.iter().filter(|copy| copy.is_short()) {
            self.memories.get(*memory).prefetch(*offset, from.len());
        }
        for copy in copies {
            let Copy { from, memory, offset } = *copy;
            if copy.is_short() {
                self.memories.get(memory).write(offset, from);
            } else {
                self.memories.get(memory).write_past_cache(offset, from);
            }
        }
        end_stream();
        self.memories.rest();
    }
}

impl Copy<'_> {
    fn is_short(&self) -> bool {
        self.from.len() <= SHORT_BYTES
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Miri is a thousand times slower.
    const SOME: usize = if cfg!(miri) { 2048 } else { 1 << 16 };

    #[test]
    fn lands_every_length_in_order() {
        let pattern: Vec<u8> = (0..SOME).map(|i| ((i * 31) >> 3) as u8).collect();
        let memories = [(); 2].map(|()| Memory::new(SOME as u64).unwrap());
        let mut expect = vec![vec![0; SOME]; 2];
        let mut kept = Memories::new();
        for (round, count) in [0, 1, 31, 32, 33, 100].into_iter().enumerate() {
            let mut landing = Landing::new(kept);
            for i in 0..count {
                let len = [1, 63, 512, 513, 4096, 5001][i % 6].min(SOME / 4);
                let room = SOME - len;
                let (at, from) = (i * 577 % room, (i * 91 + round * 7) % room);
                let data = &pattern[from..from + len];
                landing.push(&memories[i % 2], at as u64, data);
                expect[i % 2][at..at + len].copy_from_slice(data);
            }
            kept = landing.finish();
            for (memory, expect) in memories.iter().zip(&expect) {
                let mut back = vec![9; SOME];
                memory.read(0, &mut back);
                assert!(back == *expect, "round {round}");
            }
        }
        assert_eq!(kept.count(), 2);
    }

    #[test]
    #[should_panic(expected = "beyond")]
    fn refuses_what_lies_outside() {
        let memory = Memory::new(8192).unwrap();
        let mut landing = Landing::new(Memories::new());
        landing.push(&memory, 8191, &[0; 2]);
        landing.finish();
    }
}
