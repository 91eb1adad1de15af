//! Keeps the memories of queued copies alive.

use std::sync::Arc;

use crate::Memory;

/// Keeps memories mapped while copies into or out of them are queued, and finds each again fast.
///
/// A connection uses a few volumes again and again, so the last few stay referenced: a reference
/// count per batch would bounce its cache line between cores. One that is not used for a while is
/// dropped, so that a closed volume is unmapped although a connection to it lives on; only an idle
/// connection keeps its last few until its end.
#[derive(Debug, Default)]
pub struct Memories {
    list: Vec<Memory>,
    /// The one used last.
    last: usize,
    /// A bit for each of the first [`KEEP`], set if used since the last review.
    named: u8,
    /// Rests since the last review.
    rests: u32,
}

/// Number of memories that stay referenced and are searched: their pointers fill a cache line.
const KEEP: usize = 8;
/// Entries unused for this many rests are dropped.
const RESTS: u32 = 1024;

impl Memories {
    /// Returns an empty list.
    pub fn new() -> Memories {
        Memories::default()
    }

    /// Number of memories kept mapped.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Keeps a memory until the next [`rest`](Self::rest), and returns its index. A memory beyond
    /// the last few is stored again.
    #[inline]
    pub(crate) fn keep(&mut self, memory: &Memory) -> usize {
        match self.list.get(self.last) {
            Some(kept) if Arc::ptr_eq(&kept.pages, &memory.pages) => self.last,
            _ => self.find(memory),
        }
    }

    fn find(&mut self, memory: &Memory) -> usize {
        let first = self.list.len().saturating_sub(KEEP);
        let same = |kept: &Memory| Arc::ptr_eq(&kept.pages, &memory.pages);
        self.last = match self.list[first..].iter().position(same) {
            Some(found) => first + found,
            None => {
                self.list.push(memory.clone());
                self.list.len() - 1
            }
        };
        self.named |= 1 << (self.last % KEEP);
        self.last
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &Memory {
        &self.list[index]
    }

    /// No copies are queued any more.
    #[inline]
    pub(crate) fn rest(&mut self) {
        self.rests += 1;
        if self.list.len() > KEEP || self.rests >= RESTS {
            self.review();
        }
    }

    #[cold]
    fn review(&mut self) {
        if self.list.len() > KEEP {
            self.list.drain(..self.list.len() - KEEP);
            self.named = u8::MAX;
        }
        if self.rests >= RESTS {
            let (mut index, named) = (0, self.named);
            self.list.retain(|_| {
                index += 1;
                named >> (index - 1) & 1 != 0
            });
            (self.named, self.rests) = (0, 0);
        }
        // The last one is unknown, so that the next is searched for and marked as used.
        self.last = usize::MAX;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn memories(count: usize) -> Vec<Memory> {
        (0..count).map(|_| Memory::new(4096).unwrap()).collect()
    }

    fn is_mapped_by_others(memory: &Memory) -> bool {
        Arc::strong_count(&memory.pages) > 1
    }

    #[test]
    fn a_few_are_found_again_and_many_are_not_kept() {
        let all = memories(if cfg!(miri) { 50 } else { 1000 });
        let mut kept = Memories::new();
        for _ in 0..3 {
            assert_eq!([0, 1, 0, 7, 1].map(|one: usize| kept.keep(&all[one])), [0, 1, 0, 2, 1]);
            kept.rest();
        }
        assert_eq!(kept.count(), 3);
        // All memories of queued copies stay until the rest, however many there are.
        for (number, memory) in all.iter().enumerate() {
            let index = kept.keep(memory);
            assert!(Arc::ptr_eq(&kept.get(index).pages, &memory.pages), "memory {number}");
        }
        assert!(all.iter().all(is_mapped_by_others));
        kept.rest();
        assert_eq!(kept.count(), KEEP);
        assert_eq!(all.iter().filter(|memory| is_mapped_by_others(memory)).count(), KEEP);
    }

    #[test]
    fn one_that_is_used_no_more_goes() {
        let all = memories(2);
        let mut kept = Memories::new();
        assert_eq!([0, 1].map(|one: usize| kept.keep(&all[one])), [0, 1]);
        for _ in 0..2 * RESTS {
            kept.keep(&all[1]);
            kept.rest();
        }
        assert!(!is_mapped_by_others(&all[0]) && is_mapped_by_others(&all[1]));
        (0..2 * RESTS).for_each(|_| kept.rest());
        assert_eq!(kept.count(), 0);
    }
}
