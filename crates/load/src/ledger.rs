//! What a volume should hold: how often each block was written, and which writes are under way.
//!
//! All workers of a volume share one ledger, on any thread, without locks. A write claims its
//! blocks first, so no two writes of a block are ever under way at once and the last one is
//! known. A read notes what it must find at least; what it may find at most it asks at its end.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use block::Geometry;
use os::Words;

use crate::spec::Workload;
use crate::stamp::{self, SECTOR, Sector};

/// The ledger of one volume. In each word: the write that was acknowledged last (31 bits), the
/// one that was begun last (31 bits), and whether that is still under way.
#[derive(Debug)]
pub(crate) struct Ledger {
    words: Words,
    frame: Frame,
    owner: u64,
}

/// Which blocks a ledger has words for.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: u64,
    end: u64,
    unit: u64,
    count: usize,
}

impl Frame {
    fn of(workloads: &[&Workload], geometry: Geometry) -> Frame {
        let ranges = workloads.iter().map(|workload| workload.range.on(geometry));
        let start = ranges.clone().map(|(start, _)| start).min().unwrap_or(0);
        let end = ranges.map(|(start, bytes)| start + bytes).max().unwrap_or(0);
        let unit = unit(workloads, geometry, start);
        let count = (end - start).div_ceil(unit).max(1);
        Frame { start, end, unit, count: usize::try_from(count).unwrap_or(usize::MAX) }
    }
}

const GENERATION: u64 = (1 << 31) - 1;
const BUSY: u64 = 1 << 63;

fn acknowledged(word: u64) -> u32 {
    (word & GENERATION) as u32
}

fn begun(word: u64) -> u32 {
    (word >> 31 & GENERATION) as u32
}

/// A block that does not hold what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// First byte of it on the volume.
    pub offset: u64,
    /// What is wrong.
    pub kind: FindingKind,
}

/// What can be wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// Its writes were acknowledged, and it is empty.
    Lost {
        /// The write that was acknowledged last.
        acknowledged: u32,
    },
    /// It holds an older write than the one that was acknowledged last.
    Stale {
        /// The write that it holds.
        found: u32,
        /// The write that was acknowledged last.
        acknowledged: u32,
    },
    /// It holds parts of different writes, or damaged ones.
    Torn,
    /// It holds what was written elsewhere or by somebody else.
    Foreign,
    /// It holds a write that was never begun.
    Future {
        /// The write that it holds.
        found: u32,
        /// The write that was begun last.
        begun: u32,
    },
}

impl FindingKind {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            FindingKind::Lost { .. } => "lost",
            FindingKind::Stale { .. } => "stale",
            FindingKind::Torn => "torn",
            FindingKind::Foreign => "foreign",
            FindingKind::Future { .. } => "from the future",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.kind.word())?;
        match self.kind {
            FindingKind::Lost { acknowledged } => {
                let times = if acknowledged == 1 { "" } else { "s" };
                write!(f, ", empty after {acknowledged} acknowledged write{times}")
            }
            FindingKind::Stale { found, acknowledged } => {
                write!(f, ", write {found} where write {acknowledged} was acknowledged")
            }
            FindingKind::Torn => f.write_str(", parts that do not belong together"),
            FindingKind::Foreign => f.write_str(", not written to this place by this run"),
            FindingKind::Future { found, begun } => {
                write!(f, ", write {found} where only {begun} were begun")
            }
        }
    }
}

impl Ledger {
    /// A new one, for a volume and all workloads that are driven on it; in a file if it is to
    /// outlive us.
    pub(crate) fn new(
        workloads: &[&Workload],
        geometry: Geometry,
        seed: u64,
        path: Option<&Path>,
    ) -> io::Result<Ledger> {
        let frame = Frame::of(workloads, geometry);
        let available = os::sample::memory_available_bytes().unwrap_or(u64::MAX);
        if frame.count as u64 * 8 > available / 2 {
            let message = format!(
                "verification keeps 8 bytes for each of {} blocks of {} bytes, and {available} \
                 bytes of memory are available: verify a smaller range",
                frame.count, frame.unit
            );
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
        }
        let words = match path {
            Some(path) => {
                // That of an earlier run knows nothing of this one.
                std::fs::write(path, [])?;
                Words::in_file(path, frame.count)?
            }
            None => Words::new(frame.count)?,
        };
        Ok(Ledger { words, frame, owner: stamp::owner(seed) })
    }

    /// The one that a run with the same workloads and seed left in a file.
    pub(crate) fn reopen(
        workloads: &[&Workload],
        geometry: Geometry,
        seed: u64,
        path: &Path,
    ) -> io::Result<Ledger> {
        let frame = Frame::of(workloads, geometry);
        if std::fs::metadata(path)?.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty"));
        }
        let words = Words::in_file(path, frame.count)?;
        Ok(Ledger { words, frame, owner: stamp::owner(seed) })
    }

    /// Claims a range for a write; false when another one is under way there.
    pub(crate) fn claim(&self, offset: u64, len: u32) -> bool {
        let blocks = self.blocks(offset, len);
        for (index, block) in blocks.iter().enumerate() {
            let claimed = block.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let begun = (u64::from(begun(word)) + 1) & GENERATION;
                (word & BUSY == 0).then_some(word & GENERATION | begun << 31 | BUSY)
            });
            if claimed.is_err() {
                blocks[..index].iter().for_each(give_back);
                return false;
            }
        }
        true
    }

    /// Ends a write: what was claimed is acknowledged if it was `done`.
    pub(crate) fn release(&self, offset: u64, len: u32, done: bool) {
        for block in self.blocks(offset, len) {
            // Nobody else changes a word that is claimed.
            let word = block.load(Ordering::Acquire);
            let acknowledged = if done { word >> 31 } else { word } & GENERATION;
            block.store(word & GENERATION << 31 | acknowledged, Ordering::Release);
        }
    }

    /// Writes the stamps of a write that was claimed.
    pub(crate) fn stamp(&self, data: &mut [u8], offset: u64) {
        for (place, sector) in (offset..).step_by(SECTOR).zip(data.chunks_exact_mut(SECTOR)) {
            let generation = begun(self.block(place).load(Ordering::Acquire));
            stamp::write(sector, self.owner, place, generation);
        }
    }

    /// Notes what a read must find at least. `notes` has room for all its blocks.
    pub(crate) fn note(&self, offset: u64, len: u32, notes: &mut Vec<u32>) {
        notes.clear();
        let blocks = self.blocks(offset, len).iter();
        notes.extend(blocks.map(|block| acknowledged(block.load(Ordering::Acquire))));
    }

    /// Compares what a read brought with what it noted when it began and with what was begun
    /// since. Blocks that were never written are not compared.
    pub(crate) fn check(&self, data: &[u8], offset: u64, notes: &[u32]) -> Option<Finding> {
        let unit = self.frame.unit as usize;
        let places = (offset - (offset - self.frame.start) % self.frame.unit..).step_by(unit);
        let mut data = data;
        for ((place, block), least) in places.zip(self.blocks(offset, data.len() as u32)).zip(notes)
        {
            let (part, rest) = data.split_at(data.len().min(unit));
            data = rest;
            let most = begun(block.load(Ordering::Acquire));
            if let Some(kind) = self.judge(part, place, *least, most) {
                return Some(Finding { offset: place, kind });
            }
        }
        None
    }

    /// Compares a block that is read when nothing is under way any more, after a crash perhaps.
    pub(crate) fn check_at_rest(&self, data: &[u8], offset: u64) -> Option<Finding> {
        let word = self.block(offset).load(Ordering::Acquire);
        let kind = self.judge(data, offset, acknowledged(word), begun(word))?;
        Some(Finding { offset, kind })
    }

    /// Length of its blocks.
    pub(crate) fn unit_bytes(&self) -> u64 {
        self.frame.unit
    }

    /// First byte of the volume that it is about, and the one behind the last.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.frame.start, self.frame.end)
    }

    /// Whether a write to this place was ever begun.
    pub(crate) fn is_written(&self, place: u64) -> bool {
        begun(self.block(place).load(Ordering::Acquire)) > 0
    }

    fn judge(&self, data: &[u8], place: u64, least: u32, most: u32) -> Option<FindingKind> {
        let sectors = || (place..).step_by(SECTOR).zip(data.chunks_exact(SECTOR));
        let read = |(place, sector)| stamp::read(sector, self.owner, place);
        if least == 0 && most == 0 {
            return None;
        }
        let mut first = None;
        let mut empty = 0;
        for sector in sectors().map(read) {
            match sector {
                Sector::Ours(found) if found > most => {
                    return Some(FindingKind::Future { found, begun: most });
                }
                Sector::Ours(found) => {
                    let same = *first.get_or_insert(found) == found;
                    // While writes may be under way, parts of several may stand side by side.
                    if found < least || (!same && most == least) {
                        return Some(
                            match data.len() == SECTOR
                                || sectors().map(read).all(|s| s == Sector::Ours(found))
                            {
                                true => FindingKind::Stale { found, acknowledged: least },
                                false => FindingKind::Torn,
                            },
                        );
                    }
                }
                Sector::Torn => return Some(FindingKind::Torn),
                // What was there before the first write.
                Sector::Empty | Sector::Foreign if least == 0 => {}
                Sector::Foreign => return Some(FindingKind::Foreign),
                Sector::Empty => empty += 1,
            }
        }
        match (empty, first) {
            (0, _) => None,
            (_, None) => Some(FindingKind::Lost { acknowledged: least }),
            (_, Some(_)) => Some(FindingKind::Torn),
        }
    }

    fn block(&self, place: u64) -> &AtomicU64 {
        &self.words[((place - self.frame.start) / self.frame.unit) as usize]
    }

    fn blocks(&self, offset: u64, len: u32) -> &[AtomicU64] {
        let first = (offset - self.frame.start) / self.frame.unit;
        let last = (offset - self.frame.start + u64::from(len)).div_ceil(self.frame.unit);
        &self.words[first as usize..last as usize]
    }
}

/// Takes back a claim of which nothing came. Nobody else changes a word that is claimed.
fn give_back(block: &AtomicU64) {
    let word = block.load(Ordering::Acquire);
    let before = u64::from(begun(word)).wrapping_sub(1) & GENERATION;
    block.store(word & GENERATION | before << 31, Ordering::Release);
}

/// The length that every I/O is a multiple of and begins at a multiple of.
fn unit(workloads: &[&Workload], geometry: Geometry, start: u64) -> u64 {
    let mut unit = 0;
    for workload in workloads {
        let (begin, _) = workload.range.on(geometry);
        unit = gcd(unit, begin - start);
        for line in &workload.access.lines {
            for bytes in [line.size_bytes, line.align(), line.reply_bytes] {
                unit = gcd(unit, u64::from(bytes));
            }
        }
    }
    // The pass that fills a volume writes its end too.
    let rest = workloads.iter().map(|workload| workload.range.on(geometry).1);
    rest.fold(unit, gcd).max(u64::from(geometry.block_bytes.min(SECTOR as u32)))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::spec::Access;

    fn ledger() -> Ledger {
        let workload = Workload::new(Access::new(4096, 50.0, 100.0), 1);
        Ledger::new(&[&workload], Geometry::new(64 << 10, 512), 3, None).unwrap()
    }

    fn write(ledger: &Ledger, offset: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        assert!(ledger.claim(offset, len as u32));
        ledger.stamp(&mut data, offset);
        ledger.release(offset, len as u32, true);
        data
    }

    fn at_rest(ledger: &Ledger, data: &[u8], offset: u64) -> Option<FindingKind> {
        ledger.check_at_rest(data, offset).map(|finding| finding.kind)
    }

    #[test]
    fn tells_lost_stale_torn_and_foreign_apart() {
        let ledger = ledger();
        let [first, second, elsewhere] =
            [(8192, 4096), (8192, 4096), (0, 4096)].map(|(at, len)| write(&ledger, at, len));
        let judge = |data: &[u8]| at_rest(&ledger, data, 8192);
        assert_eq!(judge(&second), None);
        assert_eq!(judge(&first), Some(FindingKind::Stale { found: 1, acknowledged: 2 }));
        assert_eq!(judge(&[0; 4096]), Some(FindingKind::Lost { acknowledged: 2 }));
        assert_eq!(judge(&elsewhere), Some(FindingKind::Foreign));
        assert_eq!(judge(&[7; 4096]), Some(FindingKind::Foreign));
        for cut in [512, 700, 2048, 3584] {
            let torn = [&second[..cut], &first[cut..]].concat();
            assert_eq!(judge(&torn), Some(FindingKind::Torn), "cut at {cut}");
            let torn = [&first[..cut], &second[cut..]].concat();
            assert_eq!(judge(&torn), Some(FindingKind::Torn), "cut at {cut}");
            let torn = [&second[..cut], &[0; 4096][cut..]].concat();
            assert_eq!(judge(&torn), Some(FindingKind::Torn), "cut at {cut}");
        }
        // Never written: anything may be there.
        assert_eq!(at_rest(&ledger, &[7; 4096], 16384), None);
        assert_eq!(at_rest(&ledger, &second, 16384), None);
    }

    #[test]
    fn a_write_that_was_cut_off_may_be_there_or_not() {
        let ledger = ledger();
        let first = write(&ledger, 0, 4096);
        let mut second = vec![0; 4096];
        assert!(ledger.claim(0, 4096));
        ledger.stamp(&mut second, 0);
        let halves = [&second[..2048], &first[2048..]].concat();
        for data in [&first, &second, &halves] {
            assert_eq!(at_rest(&ledger, data, 0), None);
        }
        assert_eq!(at_rest(&ledger, &[0; 4096], 0), Some(FindingKind::Lost { acknowledged: 1 }));
        // A write that failed likewise.
        ledger.release(0, 4096, false);
        assert_eq!(at_rest(&ledger, &first, 0), None);
        assert_eq!(at_rest(&ledger, &second, 0), None);
    }

    #[test]
    fn writes_of_a_block_exclude_each_other() {
        let ledger = ledger();
        assert!(ledger.claim(4096, 8192));
        assert!(!ledger.claim(0, 8192) && !ledger.claim(8192, 4096));
        assert!(ledger.claim(0, 4096), "a claim that failed left something behind");
        ledger.release(4096, 8192, true);
        assert!(ledger.claim(4096, 8192));
    }

    #[test]
    fn a_read_may_find_what_was_written_while_it_was_under_way() {
        let ledger = ledger();
        let mut notes = Vec::with_capacity(2);
        let old = write(&ledger, 0, 8192);
        ledger.note(0, 8192, &mut notes);
        let new = write(&ledger, 4096, 4096);
        let mixed = [&old[..4096], &new[..]].concat();
        assert_eq!(ledger.check(&old, 0, &notes), None);
        assert_eq!(ledger.check(&mixed, 0, &notes), None);
        // One that begins now must find it.
        ledger.note(0, 8192, &mut notes);
        assert_eq!(ledger.check(&mixed, 0, &notes), None);
        let stale = FindingKind::Stale { found: 1, acknowledged: 2 };
        assert_eq!(ledger.check(&old, 0, &notes), Some(Finding { offset: 4096, kind: stale }));
    }
}
