//! A volatile write cache: acknowledged blocks that are not on the medium yet.
//!
//! All lanes of a volume share the cache, under a lock taken once per batch. A block has the number
//! of its last write; `since` is the first write whose data would be lost with the cache, so a
//! flush is complete when no block's `since` is older than the flush.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{Rng, splitmix};

use super::rule::Cut;
use super::schedule::CacheRule;

/// Maximum bytes that one I/O writes to the medium.
const RUN_MAX_BYTES: u64 = 64 << 10;

/// A write cache.
pub(super) struct Cache {
    pub(super) block_bytes: u64,
    inside: Mutex<Inside>,
    /// The cache's [`Manner`], readable without the lock.
    manner: AtomicU8,
    /// Number of its blocks, readable without the lock.
    held: AtomicU64,
    /// Number of power cuts.
    cuts: AtomicU64,
}

struct Inside {
    rule: Option<CacheRule>,
    blocks: BTreeMap<u64, Block>,
    /// Number of writes.
    writes: u64,
    rng: Rng,
    counts: Counts,
}

/// Counters of lost and unsaved data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Flushes and FUA writes acknowledged without being durable.
    pub(super) lies: u64,
    /// Blocks of acknowledged writes lost in power cuts.
    pub(super) lost: u64,
}

struct Block {
    data: Box<[u8]>,
    /// The number of its last write.
    number: u64,
    /// First write of the block that is not on the medium.
    since: u64,
    /// The block is being written to the medium, or changed there in another way. Only one at a
    /// time, to keep the order.
    busy: bool,
    /// The block's data after the last cut, if it counts as on the medium without having been
    /// written.
    safe: Option<Box<[u8]>>,
}

/// Meaning of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// The data is on the medium (write-through).
    Through = 0,
    /// The data is on the medium after a flush or with FUA (write-back).
    Honest = 1,
    /// Nothing: flushes and FUA are ignored.
    Lying = 2,
}

impl Manner {
    fn of(rule: Option<&CacheRule>) -> Manner {
        match rule {
            None => Manner::Through,
            Some(rule) if rule.lies => Manner::Lying,
            Some(_) => Manner::Honest,
        }
    }
}

/// Adjacent blocks being written to the medium.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u64,
    /// Write numbers of the blocks, in order; a hole for a block that is not cached.
    pub(super) numbers: Vec<Option<u64>>,
    pub(super) data: Vec<u8>,
    /// Some block survived a power cut, and must survive whatever the medium does.
    pub(super) safe: bool,
}

/// The part of a range still to be written to the medium.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Runs for the caller to write.
    pub(super) runs: Vec<Run>,
    /// More is in flight, or waits for the next call.
    pub(super) more: bool,
}

impl Cache {
    pub(super) fn new(rule: Option<CacheRule>, seed: u64, block_bytes: u64) -> Cache {
        let manner = AtomicU8::new(Manner::of(rule.as_ref()) as u8);
        let inside = Inside {
            rule,
            blocks: BTreeMap::new(),
            writes: 0,
            rng: Rng::new(seed, 1),
            counts: Counts::default(),
        };
        let (held, cuts) = (AtomicU64::new(0), AtomicU64::new(0));
        Cache { block_bytes, inside: Mutex::new(inside), manner, held, cuts }
    }

    /// Applies another rule. Cached blocks stay until they are on the medium.
    pub(super) fn replace(&self, rule: Option<CacheRule>) {
        self.manner.store(Manner::of(rule.as_ref()) as u8, Ordering::Release);
        self.lock().rule = rule;
    }

    /// Current handling of I/Os.
    pub(super) fn manner(&self) -> Manner {
        match self.manner.load(Ordering::Acquire) {
            0 => Manner::Through,
            1 => Manner::Honest,
            _ => Manner::Lying,
        }
    }

    /// Whether the cache is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// Number of power cuts.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Acquire)
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Counts a flush or FUA write that was only acknowledged.
    pub(super) fn lied(&self) {
        self.lock().counts.lies += 1;
    }

    /// Number of writes so far.
    pub(super) fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Caches a write; returns its number, and the blocks to evict for it.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> (u64, Vec<Run>) {
        let (first, inside) = (offset / self.block_bytes, &mut *self.lock());
        inside.writes += 1;
        let number = inside.writes;
        for (block, data) in (first..).zip(data.chunks(self.block_bytes as usize)) {
            if let Some(held) = inside.blocks.get_mut(&block) {
                held.data.copy_from_slice(data);
                held.number = number;
                continue;
            }
            let (data, since) = (data.into(), number);
            inside.blocks.insert(block, Block { data, number, since, busy: false, safe: None });
        }
        let room = inside.make_room(self.block_bytes);
        self.count(inside);
        (number, room)
    }

    /// Copies of a range's cached blocks, with the byte offset of each in the range.
    pub(super) fn overlay(&self, offset: u64, len: u32) -> Vec<(usize, Box<[u8]>)> {
        let first = offset / self.block_bytes;
        let inside = self.lock();
        let held = inside.blocks.range(self.blocks_of(offset, len));
        held.map(|(block, held)| (((block - first) * self.block_bytes) as usize, held.data.clone()))
            .collect()
    }

    /// The block numbers of a byte range.
    pub(super) fn blocks_of(&self, offset: u64, len: u32) -> Range<u64> {
        let end = offset.saturating_add(len.into());
        offset / self.block_bytes..end.div_ceil(self.block_bytes)
    }

    /// Blocks of a range written by `upto` and not on the medium; the caller writes the first
    /// `runs_max` runs.
    pub(super) fn left(&self, range: Range<u64>, upto: u64, runs_max: usize) -> Left {
        let inside = &mut *self.lock();
        let mut left = Left::default();
        let mut next = range.start;
        while let Some((block, held)) =
            inside.blocks.range(next.min(range.end)..range.end).find(|(_, held)| held.since <= upto)
        {
            let block = *block;
            next = block + 1;
            if left.runs.len() == runs_max {
                left.more = true;
                break;
            }
            if held.busy {
                left.more = true;
                continue;
            }
            let run = inside.take_run(block, self.block_bytes);
            next = run.ends_at();
            left.runs.push(run);
        }
        left
    }

    /// Runs in a range with blocks that survived a power cut.
    pub(super) fn survivors(&self, offset: u64, len: u32) -> Vec<Run> {
        let range = self.blocks_of(offset, len);
        let inside = &mut *self.lock();
        let held = inside.blocks.range(range);
        let blocks: Vec<u64> =
            held.filter(|(_, held)| held.safe.is_some()).map(|(block, _)| *block).collect();
        let runs = blocks.iter().map(|block| inside.take_run(*block, self.block_bytes));
        runs.filter(|run| !run.numbers.is_empty()).collect()
    }

    /// Locks a range whose blocks on the medium are being changed, such as by a trim; `None` while
    /// other I/Os are in flight there, or if the range has [survivors](Self::survivors).
    pub(super) fn claim(&self, offset: u64, len: u32) -> Option<Run> {
        let range = self.blocks_of(offset, len);
        let inside = &mut *self.lock();
        if inside.blocks.range(range.clone()).any(|(_, held)| held.busy || held.safe.is_some()) {
            return None;
        }
        let Some((first, _)) = inside.blocks.range(range.clone()).next() else {
            return Some(Run {
                first: range.start,
                numbers: Vec::new(),
                data: Vec::new(),
                safe: false,
            });
        };
        let first = *first;
        let mut run = Run { first, numbers: Vec::new(), data: Vec::new(), safe: false };
        for (block, held) in inside.blocks.range_mut(range) {
            run.numbers.resize((block - first) as usize, None);
            run.numbers.push(Some(held.number));
            held.busy = true;
        }
        Some(run)
    }

    /// Handles a completed or failed write of a run to the medium.
    pub(super) fn arrived(&self, run: &Run, is_there: bool) {
        let inside = &mut *self.lock();
        for (block, number) in (run.first..).zip(&run.numbers) {
            let Some(number) = number else { continue };
            let Some(held) = inside.blocks.get_mut(&block) else { continue };
            held.busy = false;
            // A block in flight during the power cut must survive the next one, too, and is written
            // again.
            if !is_there || held.safe.is_some() && !run.safe {
                continue;
            }
            held.safe = None;
            if held.number == *number {
                inside.blocks.remove(&block);
            } else {
                held.since = number + 1;
            }
        }
        self.count(inside);
    }

    /// Cuts the power: each cached block is lost, or by chance was on the medium already. Writes to
    /// the medium in flight complete.
    pub(super) fn cut(&self, cut: Cut) {
        let inside = &mut *self.lock();
        let salt = inside.rng.next_u64();
        let mut lost = 0;
        inside.blocks.retain(|block, held| {
            // The blocks of a write share one outcome, or each has its own.
            let of = if cut.torn { *block } else { held.number };
            let mut state = salt ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let survives = (splitmix(&mut state) >> 11) as f64 / (1_u64 << 53) as f64;
            if held.busy || survives < cut.survives {
                held.safe = Some(held.data.clone());
                return true;
            }
            let was_safe = held.safe.as_ref().is_some_and(|safe| *safe == held.data);
            lost += u64::from(!was_safe);
            if let Some(safe) = &held.safe {
                held.data.copy_from_slice(safe);
            }
            held.safe.is_some()
        });
        self.count(inside);
        inside.counts.lost += lost;
        self.cuts.fetch_add(1, Ordering::Release);
    }

    fn count(&self, inside: &Inside) {
        self.held.store(inside.blocks.len() as u64, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A thread that panicked has reported it; state is consistent between two calls.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Blocks to evict down to the capacity; random ones, not the oldest.
    fn make_room(&mut self, block_bytes: u64) -> Vec<Run> {
        let Some(rule) = &self.rule else { return Vec::new() };
        let fit = (rule.bytes() / block_bytes).max(1);
        let mut over = (self.blocks.len() as u64).saturating_sub(fit);
        let mut runs = Vec::new();
        while over > 0 {
            let end = self.blocks.last_key_value().map_or(0, |(last, _)| last + 1);
            let from = self.rng.below(end.max(1));
            let behind = self.blocks.range(from..).find(|(_, held)| !held.busy);
            let found = behind.or_else(|| self.blocks.range(..from).find(|(_, held)| !held.busy));
            let Some((block, _)) = found else { break };
            let run = self.take_run(*block, block_bytes);
            over = over.saturating_sub(run.numbers.len() as u64);
            runs.push(run);
        }
        runs
    }

    /// Takes the run of idle blocks that begins at this block.
    fn take_run(&mut self, first: u64, block_bytes: u64) -> Run {
        let mut run = Run { first, numbers: Vec::new(), data: Vec::new(), safe: false };
        let most = (RUN_MAX_BYTES / block_bytes).max(1);
        for (block, held) in self.blocks.range_mut(first..first + most) {
            if held.busy || *block != run.ends_at() {
                break;
            }
            held.busy = true;
            run.numbers.push(Some(held.number));
            run.data.extend_from_slice(&held.data);
            run.safe |= held.safe.is_some();
        }
        run
    }
}

impl Run {
    /// Number of the run's blocks in a range.
    pub(super) fn blocks_in(&self, range: &Range<u64>) -> u64 {
        self.ends_at().min(range.end).saturating_sub(self.first.max(range.start))
    }

    /// First block after the run.
    fn ends_at(&self) -> u64 {
        self.first + self.numbers.len() as u64
    }
}
