//! The memories of copies that wait.

use std::sync::Arc;

use crate::Memory;

/// Keeps memories mapped while copies into or out of them wait, and finds each again at once.
///
/// A connection uses a few volumes again and again, so the last few stay: counting their references
/// anew for each batch would pull a line from core to core. One that was not named for a while
/// goes, so a volume that is gone is unmapped although a connection that used it lives on. Only one
/// that does nothing any more holds its last few until its end.
#[derive(Debug, Default)]
pub struct Memories {
    list: Vec<Memory>,
    /// The one that was named last.
    last: usize,
    /// A bit for each of the first [`KEEP`], named since the last review.
    named: u8,
    /// Rests since then.
    rests: u32,
}

/// So many stay, and are looked through: the pointers of one line.
const KEEP: usize = 8;
/// Entries unused for this many rests are dropped.
const RESTS: u32 = 1024;

impl Memories {
    /// None yet.
    pub fn new() -> Memories {
        Memories::default()
    }

    /// How many are kept mapped.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Keeps a memory until the next [`rest`](Self::rest), and says which it is. One that was not
    /// among the last few is kept once more.
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

    /// Nothing waits any more.
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
        // Nobody is known to be the last, so the next one that is named is looked for and noted.
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
        // What is named stays until the rest, however many others are.
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
