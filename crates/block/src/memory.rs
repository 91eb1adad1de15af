//! Memory that several cores read and write at once, as they do a disk.

use std::io;
use std::sync::Arc;

use crate::Ahead;
use crate::copy::{self, EARLY_LINES, LINE};
use crate::kept::Memories;
use crate::pages::Pages;

/// Length from which on discarded memory is returned to the kernel.
const GIVEN_BACK_BYTES: u64 = 64 << 10;

/// Shared memory: the store of a RAM volume.
///
/// Reads and writes are copies by accesses that may race; no reference to the bytes ever exists.
/// Overlapping accesses of two cores may be torn, as overlapping I/Os on a disk may; each byte is
/// one that was written.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(crate) pages: Arc<Pages>,
}

impl Memory {
    /// Maps `len_bytes` that read as zeroes. Pages are allocated when first touched.
    pub fn new(len_bytes: u64) -> io::Result<Memory> {
        let len = usize::try_from(len_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Memory { pages: Arc::new(Pages::new(len)?) })
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Copies `to.len()` bytes at `offset` out. Panics if they lie outside.
    pub fn read(&self, offset: u64, to: &mut [u8]) {
        let from = self.at(offset, to.len());
        // SAFETY: `at` checked that the range is mapped; `to` is exclusive and outside of it,
        // because no reference into `pages` exists.
        unsafe { copy::copy_out(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `from` in at `offset`. Panics if it lies outside.
    pub fn write(&self, offset: u64, from: &[u8]) {
        let to = self.at(offset, from.len());
        // SAFETY: as in `read`, with the directions exchanged.
        unsafe { copy::copy_in(from.as_ptr(), to, from.len()) }
    }

    /// The address of an offset, as a hint. It may lie outside.
    #[inline]
    pub fn ahead(&self, offset: u64) -> Ahead {
        Ahead(self.pages.base().as_ptr().wrapping_add(offset as usize))
    }

    /// Copies `to.len()` bytes at `offset` out, and prefetches the lines at `next`, the target of
    /// the next I/O. Panics if the range is out of bounds.
    #[inline]
    pub fn read_ahead(&self, offset: u64, to: &mut [u8], next: Ahead) {
        let from = self.at(offset, to.len()).cast_const();
        let next = if next.0.is_null() { from } else { next.0 };
        // SAFETY: as in `read`; a hint may be any address.
        unsafe { copy::copy_out_ahead(from, to.as_mut_ptr(), to.len(), next) }
    }

    /// Copies `from` in at `offset`, and prefetches the lines at `next`, the target of the next
    /// I/O. Panics if the range is out of bounds.
    #[inline]
    pub fn write_ahead(&self, offset: u64, from: &[u8], next: Ahead) {
        let to = self.at(offset, from.len());
        let next = if next.0.is_null() { to.cast_const() } else { next.0 };
        // SAFETY: as in `write`; a hint may be any address.
        unsafe { copy::copy_in_ahead(from.as_ptr(), to, from.len(), next) }
    }

    /// Writes with non-temporal stores: no lines are fetched only to be overwritten. Other cores
    /// see the stores after [`end_stream`](copy::end_stream).
    pub(crate) fn write_past_cache(&self, offset: u64, from: &[u8]) {
        let to = self.at(offset, from.len());
        // SAFETY: as in `write`; a hint may be any address.
        unsafe { copy::copy_in_past_cache(from.as_ptr(), to, from.len(), from.as_ptr()) }
    }

    /// Prefetches the first lines of a range that will soon be copied out or written. Panics if it
    /// lies outside.
    ///
    /// A random offset misses the cache and the TLB. The CPU overlaps such misses only within its
    /// reorder window, so prefetch a whole batch in one short loop before anything else. One by one
    /// they took 165 ns of each 512 B read in a race.
    #[inline]
    pub fn prefetch(&self, offset: u64, len_bytes: usize) {
        let from = self.at(offset, len_bytes).cast_const();
        for line in 0..len_bytes.div_ceil(LINE).min(EARLY_LINES) {
            copy::prefetch(from.wrapping_add(line * LINE));
        }
    }

    /// Zeroes a range. Panics if it lies outside.
    pub fn zero(&self, offset: u64, len_bytes: u64) {
        let to = self.at(offset, len_bytes as usize);
        // SAFETY: as in `write`.
        unsafe { copy::zero(to, len_bytes as usize) }
    }

    /// Zeroes a range, and returns its whole pages to the kernel if it is long. Panics if it lies
    /// outside.
    ///
    /// Short ranges are only cleared: returning a page and allocating it again costs more, and
    /// splits a huge page.
    pub fn discard(&self, offset: u64, len_bytes: u64) {
        if len_bytes < GIVEN_BACK_BYTES {
            return self.zero(offset, len_bytes);
        }
        let end = offset.checked_add(len_bytes).expect("range overflows");
        assert!(end <= self.len_bytes(), "range ends at {end} beyond {}", self.len_bytes());
        let given = self.pages.give_back(offset as usize..end as usize);
        self.zero(offset, given.start as u64 - offset);
        self.zero(given.end as u64, end - given.end as u64);
    }

    /// Returns the address of a range, for the kernel to send from. Panics if the range is out of
    /// bounds.
    ///
    /// The caller must keep this `Memory` alive with it.
    pub fn at(&self, offset: u64, len_bytes: usize) -> *mut u8 {
        let end = offset.checked_add(len_bytes as u64).expect("range overflows");
        assert!(end <= self.len_bytes(), "range ends at {end} beyond {}", self.len_bytes());
        // SAFETY: offset <= len, so the address stays in the mapping or one past it.
        unsafe { self.pages.base().as_ptr().add(offset as usize) }
    }
}

/// A queue of copies out of memory that hides the cache misses of each behind its predecessor.
///
/// Random reads of a large volume miss every cache, and a plain copy waits for each line. While one
/// range is copied, the lines of the next are prefetched: a cold 4 KiB copy takes 178 ns instead of
/// 288 ns.
#[derive(Debug, Default)]
pub struct CopyAhead {
    jobs: Vec<Job>,
    /// The memories that the addresses in `jobs` point into.
    keep: Memories,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    from: *const u8,
    to: usize,
    len: usize,
}

// SAFETY: the addresses in `jobs` point into `keep`, which moves along and may be used anywhere.
unsafe impl Send for CopyAhead {}

impl CopyAhead {
    /// Queues a copy of `len` bytes at `offset` of `memory` to position `to` of the later target.
    /// Panics if the range lies outside.
    pub fn push(&mut self, memory: &Memory, offset: u64, len: usize, to: usize) {
        let from = memory.at(offset, len).cast_const();
        self.keep.keep(memory);
        self.jobs.push(Job { from, to, len });
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Executes the queued copies. Panics if one does not fit into `target`.
    ///
    /// `past_cache` is for bytes that only another core will read, such as those of a
    /// [`Lap`](crate::Lap): non-temporal stores fetch no lines. Between cores without a shared
    /// cache that is 1.06M instead of 0.45M reads of 4 KiB a second by loopback TCP; with a shared
    /// cache it costs 7 %.
    pub fn run(&mut self, target: &mut [u8], past_cache: bool) {
        // The CPU overlaps misses only within its reorder window, so all are prefetched in one
        // short loop: 1.13 times as many 512 B reads a second as prefetching when each is queued.
        for job in &self.jobs {
            for line in 0..job.len.div_ceil(LINE).min(EARLY_LINES) {
                copy::prefetch(job.from.wrapping_add(line * LINE));
            }
        }
        for i in 0..self.jobs.len() {
            let job = self.jobs[i];
            let next = self.jobs.get(i + 1).map_or(job.from, |next| next.from);
            let to = &mut target[job.to..job.to + job.len];
            // SAFETY: `push` checked the source range against its memory, which `keep` keeps
            // mapped until then; `to` is exclusive and of that length. A hint may be any address.
            unsafe {
                match past_cache {
                    true => copy::copy_out_past_cache(job.from, to.as_mut_ptr(), job.len, next),
                    false => copy::copy_out_ahead(job.from, to.as_mut_ptr(), job.len, next),
                }
            }
        }
        if past_cache {
            copy::end_stream();
        }
        self.jobs.clear();
        self.keep.rest();
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Miri is a thousand times slower.
    const SOME: usize = if cfg!(miri) { 2048 } else { 1 << 16 };

    #[test]
    fn reads_what_was_written() {
        let memory = Memory::new(1 << 20).unwrap();
        memory.write(4096, &[1, 2, 3, 4]);
        memory.zero(4097, 1);
        let mut back = [9; 6];
        memory.read(4095, &mut back);
        assert_eq!(back, [0, 1, 0, 3, 4, 0]);
    }

    /// Under Miri nothing is returned, and this much takes an hour.
    #[cfg(not(miri))]
    #[test]
    fn what_is_discarded_reads_as_zeroes() {
        let memory = Memory::new(1 << 18).unwrap();
        let ones = vec![1; 1 << 18];
        for (offset, len) in
            [(0, 1 << 18), (1, 100_000), (4096, 65_536), (5000, 200), (777, 65_536)]
        {
            memory.write(0, &ones);
            memory.discard(offset, len);
            let mut back = vec![9; 1 << 18];
            memory.read(0, &mut back);
            let (from, to) = (offset as usize, (offset + len) as usize);
            assert!(back[..from].iter().chain(&back[to..]).all(|byte| *byte == 1));
            assert!(back[from..to].iter().all(|byte| *byte == 0), "{offset} + {len}");
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn what_is_discarded_uses_no_memory() {
        let memory = Memory::new(1 << 20).unwrap();
        memory.write(0, &vec![1; 1 << 20]);
        let resident = || {
            let mut pages = [0_u8; 256];
            // SAFETY: the range is mapped, and there is a byte for each of its pages.
            let told =
                unsafe { libc::mincore(memory.at(0, 0).cast(), 1 << 20, pages.as_mut_ptr()) };
            assert_eq!(told, 0);
            pages.iter().filter(|page| **page & 1 == 1).count()
        };
        assert_eq!(resident(), 256);
        memory.discard(4096, 512 << 10);
        assert_eq!(resident(), 128);
    }

    #[test]
    fn writes_ahead_whatever_comes_next() {
        let memory = Memory::new(SOME as u64).unwrap();
        let pattern: Vec<u8> = (0..9000).map(|i| ((i * 13) >> 2) as u8).collect();
        let all = [(1, 0), (512, 4096), (4096, u64::MAX), (4097, 1 << 40), (9000, 65_535)];
        for (len, next) in all.into_iter().filter(|(len, _)| len + 778 < SOME) {
            memory.zero(0, SOME as u64);
            memory.write_ahead(777, &pattern[..len], memory.ahead(next));
            let mut back = vec![9; len + 2];
            memory.read(776, &mut back);
            assert!(back[0] == 0 && back[1..=len] == pattern[..len] && back[len + 1] == 0);
        }
    }

    #[test]
    #[should_panic(expected = "beyond")]
    fn refuses_what_lies_outside() {
        Memory::new(8192).unwrap().read(8191, &mut [0; 2]);
    }

    #[test]
    fn copies_ahead_every_length() {
        let memory = Memory::new(SOME as u64).unwrap();
        let pattern: Vec<u8> = (0..SOME).map(|i| ((i * 31) >> 3) as u8).collect();
        memory.write(0, &pattern);
        let mut ahead = CopyAhead::default();
        let mut target = vec![0; SOME];
        let lens: &[usize] = match cfg!(miri) {
            true => &[1, 63, 65],
            false => &[1, 63, 64, 512, 513, 4096, 5001, 8192],
        };
        for past_cache in [false, true] {
            target.fill(0);
            let mut to = 0;
            for (i, len) in lens.iter().copied().enumerate() {
                ahead.push(&memory, i as u64 * 777, len, to);
                to += len;
            }
            ahead.run(&mut target, past_cache);
            assert!(ahead.is_empty());
            let mut at = 0;
            for (i, len) in lens.iter().copied().enumerate() {
                assert_eq!(target[at..at + len], pattern[i * 777..i * 777 + len], "length {len}");
                at += len;
            }
            assert!(target[at..].iter().all(|byte| *byte == 0));
        }
    }
}
