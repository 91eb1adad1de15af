//! The ledger of a volume: how often each block was changed, and which changes are in flight.
//!
//! All workers of a volume share one ledger, on any thread, without locks. A write claims its
//! blocks first, so two writes of a block are never in flight together, and the last one is known.
//! A read notes the least version it must find when it begins, and looks up the most at its end.
//!
//! Trims and zeroings count and claim like writes. If there are any, a second word per block has
//! the last of both: since then the block may be empty, and after a trim without guaranteed zeroes
//! it may hold older data, too.

mod earlier;
mod finding;
mod frame;
mod judge;
mod patterned;
mod word;

use std::io;
use std::path::Path;

use block::{Geometry, Op};
use os::Words;

pub(crate) use self::earlier::Earlier;
use self::frame::Frame;
pub(crate) use self::patterned::Patterned;
use self::word::{GENERATION, acknowledged, begun};
use crate::stamp::{self, SECTOR};
use crate::sync::{AtomicU64, Ordering};
use job::spec::Workload;

pub use self::finding::{Finding, FindingKind};

/// The ledger of a volume: a [word](word) per block. If blocks are erased, a second one follows for
/// each: the last begun trim (31 bits), the last begun zeroing (31 bits), and whether the block was
/// ever written. The last word is unique to the run: data that an earlier run of the same seed left
/// must not pass as this run's.
#[derive(Debug)]
pub(crate) struct Ledger {
    words: Words,
    frame: Frame,
    owner: u64,
    trim_zeroes: bool,
    /// The pattern of blocks without stamps.
    patterned: Option<Patterned>,
}

/// Flag in a word of erasures.
const WRITTEN: u64 = 1 << 63;

/// Erasures of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Erased {
    /// The last begun trim; 0 for none.
    trimmed: u32,
    /// The last begun zeroing; 0 for none.
    zeroed: u32,
    /// Whether it was written.
    written: bool,
}

impl Ledger {
    /// A new ledger for a volume and all its workloads; in a file if it is to outlive the process.
    pub(crate) fn new(
        workloads: &[&Workload],
        geometry: Geometry,
        seed: u64,
        path: Option<&Path>,
    ) -> io::Result<Ledger> {
        let frame = Frame::of(workloads, geometry);
        let room = os::cgroup::memory_room();
        let available = room.map_or(u64::MAX, |room| room.available_bytes);
        let bytes = (frame.words() as u64).saturating_mul(8);
        if bytes > available / 2 {
            let message = format!(
                "verification needs {bytes} bytes of memory for {} blocks of {} bytes, and \
                {available} are available: verify a smaller range",
                frame.count, frame.unit
            );
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
        }
        let count = frame.words() + 1;
        let words = match path {
            Some(path) => {
                // An earlier run's ledger is obsolete.
                Words::in_file(&os::new_file(path)?, count)?
            }
            None => Words::new(count)?,
        };
        words[count - 1].store(os::random(), Ordering::Release);
        Ok(Ledger::of(words, frame, seed, geometry, workloads))
    }

    /// The ledger that a run with the same workloads and seed left in a file.
    pub(crate) fn reopen(
        workloads: &[&Workload],
        geometry: Geometry,
        seed: u64,
        path: &Path,
    ) -> io::Result<Ledger> {
        let frame = Frame::of(workloads, geometry);
        let file = os::update(path)?;
        if file.metadata()?.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
        }
        let words = Words::in_file(&file, frame.words() + 1)?;
        Ok(Ledger::of(words, frame, seed, geometry, workloads))
    }

    fn of(
        words: Words,
        frame: Frame,
        seed: u64,
        geometry: Geometry,
        workloads: &[&Workload],
    ) -> Ledger {
        let run = words[frame.words()].load(Ordering::Acquire);
        let owner = stamp::owner(seed ^ run);
        let patterned = workloads.iter().find_map(|workload| Patterned::of(workload, geometry));
        Ledger { words, frame, owner, trim_zeroes: geometry.trim_zeroes, patterned }
    }

    /// Claims a range for a write, trim or zeroing; false if a change is in flight there.
    pub(crate) fn claim(&self, op: Op, offset: u64, len: u32) -> bool {
        if !word::claim(self.blocks(offset, len)) {
            return false;
        }
        if self.frame.erases {
            (offset..offset + u64::from(len))
                .step_by(self.frame.unit as usize)
                .for_each(|place| self.remember(op, place));
        }
        word::before_write();
        true
    }

    /// Records the kind of a claimed change, before it can be visible on the volume.
    fn remember(&self, op: Op, place: u64) {
        let generation = u64::from(begun(self.block(place).load(Ordering::Acquire)));
        let word = &self.words[self.frame.count + self.index(place)];
        // Only the claimer changes the words of a claimed block.
        let before = word.load(Ordering::Acquire);
        let now = match op {
            Op::Trim => before & !GENERATION | generation,
            Op::WriteZeroes => before & !(GENERATION << 31) | generation << 31,
            _ => before | WRITTEN,
        };
        word.store(now, Ordering::Release);
    }

    fn erased(&self, place: u64) -> Erased {
        if !self.frame.erases {
            return Erased { written: true, ..Erased::default() };
        }
        let word = self.words[self.frame.count + self.index(place)].load(Ordering::Acquire);
        let (trimmed, zeroed) = ((word & GENERATION) as u32, (word >> 31 & GENERATION) as u32);
        Erased { trimmed, zeroed, written: word & WRITTEN != 0 }
    }

    /// Ends a claimed change; it is acknowledged if `done`.
    pub(crate) fn release(&self, offset: u64, len: u32, done: bool) {
        word::release(self.blocks(offset, len), done);
    }

    /// Fills a claimed write with its stamps or pattern.
    pub(crate) fn stamp(&self, data: &mut [u8], offset: u64) {
        if let Some(patterned) = &self.patterned {
            return patterned.fill(data, offset);
        }
        for (place, sector) in (offset..).step_by(SECTOR).zip(data.chunks_exact_mut(SECTOR)) {
            let generation = begun(self.block(place).load(Ordering::Acquire));
            stamp::write(sector, self.owner, place, generation);
        }
    }

    /// Notes the least version a read must find. `notes` has room for all its blocks.
    pub(crate) fn note(&self, offset: u64, len: u32, notes: &mut Vec<u32>) {
        notes.clear();
        let blocks = self.blocks(offset, len).iter();
        notes.extend(blocks.map(|block| acknowledged(block.load(Ordering::Acquire))));
    }

    /// Compares read data with the notes of the read's start and with changes begun since. Blocks
    /// never written are not compared.
    pub(crate) fn check(&self, data: &[u8], offset: u64, notes: &[u32]) -> Option<Finding> {
        word::after_read();
        let unit = self.frame.unit as usize;
        let places = (offset - (offset - self.frame.start) % self.frame.unit..).step_by(unit);
        let mut data = data;
        for ((place, block), least) in places.zip(self.blocks(offset, data.len() as u32)).zip(notes)
        {
            let (part, rest) = data.split_at(data.len().min(unit));
            data = rest;
            let most = begun(block.load(Ordering::Acquire));
            if let Some(kind) = self.judge(part, place, *least, most)
                && !self.is_between(part, place, *least, most)
            {
                return Some(Finding { offset: place, kind });
            }
        }
        None
    }

    /// Compares a block read without I/Os in flight, such as after a crash.
    pub(crate) fn check_at_rest(&self, data: &[u8], offset: u64) -> Option<Finding> {
        let word = self.block(offset).load(Ordering::Acquire);
        let kind = self.judge(data, offset, acknowledged(word), begun(word))?;
        Some(Finding { offset, kind })
    }

    /// Block length.
    pub(crate) fn unit_bytes(&self) -> u64 {
        self.frame.unit
    }

    /// Start and end of the range that it covers.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.frame.start, self.frame.end)
    }

    /// Whether a write to this block was ever begun.
    pub(crate) fn is_written(&self, place: u64) -> bool {
        begun(self.block(place).load(Ordering::Acquire)) > 0
    }

    fn index(&self, place: u64) -> usize {
        ((place - self.frame.start) / self.frame.unit) as usize
    }

    fn block(&self, place: u64) -> &AtomicU64 {
        &self.words[self.index(place)]
    }

    fn blocks(&self, offset: u64, len: u32) -> &[AtomicU64] {
        let first = (offset - self.frame.start) / self.frame.unit;
        let last = (offset - self.frame.start + u64::from(len)).div_ceil(self.frame.unit);
        &self.words[first as usize..last as usize]
    }
}

#[cfg(test)]
mod test;
