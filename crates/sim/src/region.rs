//! Model of a client's blocks, which every read is checked against.

use block::Rng;

use crate::disk::BLOCK;

/// Blocks used by one client only.
pub(crate) struct Region {
    pub(crate) first: u64,
    blocks: Vec<Block>,
    /// The next unique value.
    next: u64,
}

#[derive(Clone, Default)]
struct Block {
    /// The last acknowledged value.
    last: u64,
    /// Later writes that failed, or of lost connections: any of them may be stored, until the next
    /// one succeeds.
    maybe: Vec<u64>,
    /// Writes of a lost connection: they may be executed at any time, until the server confirms
    /// their end.
    floating: Vec<u64>,
    busy: bool,
}

impl Region {
    /// `count` blocks from `first` on, of a client whose values start at `values`.
    pub(crate) fn new(first: u64, count: u64, values: u64) -> Region {
        Region { first, blocks: vec![Block::default(); count as usize], next: values }
    }

    /// A run of at most `most` blocks without I/Os in flight: index and length, or nothing.
    pub(crate) fn pick(&mut self, rng: &mut Rng, most: u64) -> Option<(usize, usize)> {
        let at = rng.below(self.blocks.len() as u64) as usize;
        let want = 1 + rng.below(most) as usize;
        let free = self.blocks[at..].iter().take(want).take_while(|block| !block.busy).count();
        (free > 0).then(|| {
            self.blocks[at..at + free].iter_mut().for_each(|block| block.busy = true);
            (at, free)
        })
    }

    /// A run of blocks of which a write is in doubt, if there are any.
    pub(crate) fn pick_doubtful(&mut self, rng: &mut Rng, most: u64) -> Option<(usize, usize)> {
        let doubtful = |block: &Block| !block.busy && !block.maybe.is_empty();
        let begin = rng.below(self.blocks.len() as u64) as usize;
        let places = (begin..self.blocks.len()).chain(0..begin);
        let at = { places }.find(|at| doubtful(&self.blocks[*at]))?;
        let run = self.blocks[at..].iter().take(most as usize);
        let count = run.take_while(|block| doubtful(block)).count();
        self.blocks[at..at + count].iter_mut().for_each(|block| block.busy = true);
        Some((at, count))
    }

    /// Notes that the server executes no more I/Os of lost connections: each of these writes was
    /// stored, or never will be.
    pub(crate) fn fenced(&mut self) {
        for block in &mut self.blocks {
            block.maybe.append(&mut block.floating);
        }
    }

    /// Fills a buffer with new values; returns the first.
    pub(crate) fn fill(&mut self, count: usize, bytes: &mut [u8]) -> u64 {
        let first = self.next;
        self.next += count as u64;
        for (value, block) in (first..).zip(bytes[..count * BLOCK as usize].chunks_mut(512)) {
            block.as_chunks_mut::<8>().0.fill(value.to_le_bytes());
        }
        first
    }

    /// The result of a write of values from `first` on, or of zeroes.
    pub(crate) fn written(&mut self, at: usize, count: usize, first: Option<u64>, end: WriteEnd) {
        for (index, block) in self.blocks[at..at + count].iter_mut().enumerate() {
            let value = first.map_or(0, |first| first + index as u64);
            block.busy = false;
            match end {
                WriteEnd::Done => {
                    block.last = value;
                    block.maybe.clear();
                }
                WriteEnd::Failed => block.maybe.push(value),
                WriteEnd::Lost => block.floating.push(value),
            }
        }
    }

    /// Handles a completed read, with these bytes or failed.
    pub(crate) fn read(
        &mut self,
        at: usize,
        count: usize,
        bytes: Option<&[u8]>,
    ) -> Result<(), String> {
        for (index, block) in self.blocks[at..at + count].iter_mut().enumerate() {
            block.busy = false;
            let Some(bytes) = bytes else { continue };
            let part = &bytes[index * BLOCK as usize..(index + 1) * BLOCK as usize];
            block.check(self.first + (at + index) as u64, part)?;
        }
        Ok(())
    }

    /// Length in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.blocks.len() * BLOCK as usize
    }

    /// Checks all blocks on the disk.
    pub(crate) fn check_all(&self, disk: &[u8]) -> Result<(), String> {
        for (index, block) in self.blocks.iter().enumerate().filter(|(_, block)| !block.busy) {
            let at = index * BLOCK as usize;
            block.check(self.first + index as u64, &disk[at..at + BLOCK as usize])?;
        }
        Ok(())
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    Done,
    Failed,
    Lost,
}

impl Block {
    fn check(&self, place: u64, bytes: &[u8]) -> Result<(), String> {
        let (words, _) = bytes.as_chunks::<8>();
        let value = u64::from_le_bytes(words[0]);
        // A fold has no early exit, so it is vectorized.
        if words.iter().fold(0, |other, word| other | (u64::from_le_bytes(*word) ^ value)) != 0 {
            return Err(format!("block {place} holds parts of several writes"));
        }
        let known = value == self.last || self.maybe.contains(&value);
        if !known && !self.floating.contains(&value) {
            return Err(format!("block {place} holds {value:x}, written was {:x}", self.last));
        }
        Ok(())
    }
}
