//! Earlier contents of blocks, for stale reads.

use std::collections::HashMap;

use block::{Io, Op};

/// Maximum number of blocks; writes of further blocks are never stale.
const BLOCKS_MAX: usize = 1 << 16;

/// The last two contents of blocks.
#[derive(Debug, Default)]
pub(super) struct History {
    blocks: HashMap<u64, Versions>,
}

#[derive(Debug)]
struct Versions {
    now: Box<[u8]>,
    before: Option<Box<[u8]>>,
}

impl History {
    /// Records the changes of an I/O.
    pub(super) fn note(&mut self, block_bytes: u64, io: &Io) {
        let first = io.offset / block_bytes;
        match (io.op, &io.buf) {
            (Op::Write, Some(buf)) => {
                let data = buf[..io.len as usize].chunks_exact(block_bytes as usize);
                (first..).zip(data).for_each(|(block, data)| self.write(block, data));
            }
            (Op::Trim | Op::WriteZeroes, _) => {
                let end = first + u64::from(io.len) / block_bytes;
                match end - first > self.blocks.len() as u64 {
                    true => self.blocks.retain(|block, _| !(first..end).contains(block)),
                    false => (first..end).for_each(|block| drop(self.blocks.remove(&block))),
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, block: u64, data: &[u8]) {
        if let Some(versions) = self.blocks.get_mut(&block) {
            let before = std::mem::replace(&mut versions.now, data.into());
            versions.before = Some(before);
        } else if self.blocks.len() < BLOCKS_MAX {
            self.blocks.insert(block, Versions { now: data.into(), before: None });
        }
    }

    /// Whether older data of a range is known.
    pub(super) fn knows(&self, block_bytes: u64, offset: u64, len: u32) -> bool {
        self.of(block_bytes, offset, len).next().is_some()
    }

    /// Replaces read data by older data, where known.
    pub(super) fn put(&self, block_bytes: u64, offset: u64, data: &mut [u8]) {
        for (at, before) in self.of(block_bytes, offset, data.len() as u32) {
            data[at..at + before.len()].copy_from_slice(before);
        }
    }

    fn of(&self, block_bytes: u64, offset: u64, len: u32) -> impl Iterator<Item = (usize, &[u8])> {
        let first = offset / block_bytes;
        let blocks = first..first + u64::from(len) / block_bytes;
        blocks.filter_map(move |block| {
            let before = self.blocks.get(&block)?.before.as_deref()?;
            Some((((block - first) * block_bytes) as usize, before))
        })
    }
}
