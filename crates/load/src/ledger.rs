//! What a volume should hold: how often each block was changed, and which changes are under way.
//!
//! All workers of a volume share one ledger, on any thread, without locks. A write claims its
//! blocks first, so no two writes of a block are ever under way at once and the last one is
//! known. A read notes what it must find at least; what it may find at most it asks at its end.
//!
//! Trims and zeroings count and claim as writes do. Where there are any, a second word for each
//! block knows the last of both: since then it may be empty, and after a trim on a volume that
//! promises no zeroes it may hold anything older, too.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{Geometry, Op};
use os::Words;

use crate::spec::Workload;
use crate::stamp::{self, SECTOR, Sector};

/// The ledger of one volume. In each word: the change that was acknowledged last (31 bits), the
/// one that was begun last (31 bits), and whether that is still under way. Behind all of them,
/// where blocks are erased: the trim that was begun last (31 bits), the zeroing (31 bits), and
/// whether the block was ever written.
#[derive(Debug)]
pub(crate) struct Ledger {
    words: Words,
    frame: Frame,
    owner: u64,
    trim_zeroes: bool,
}

/// Which blocks a ledger has words for.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: u64,
    end: u64,
    unit: u64,
    count: usize,
    /// There are words for erasures, too.
    erases: bool,
}

impl Frame {
    fn of(workloads: &[&Workload], geometry: Geometry) -> Frame {
        let ranges = workloads.iter().map(|workload| workload.range.on(geometry));
        let start = ranges.clone().map(|(start, _)| start).min().unwrap_or(0);
        let end = ranges.map(|(start, bytes)| start + bytes).max().unwrap_or(0);
        let unit = unit(workloads, geometry, start);
        let count = (end - start).div_ceil(unit).max(1);
        let mut lines = workloads.iter().flat_map(|workload| &workload.access.lines);
        let erases = lines.any(|line| line.trim_percent > 0.0 || line.zero_percent > 0.0);
        let count = usize::try_from(count).unwrap_or(usize::MAX / 2);
        Frame { start, end, unit, count, erases }
    }

    fn words(&self) -> usize {
        self.count.saturating_mul(if self.erases { 2 } else { 1 })
    }
}

const GENERATION: u64 = (1 << 31) - 1;
const BUSY: u64 = 1 << 63;
/// In a word of erasures.
const WRITTEN: u64 = 1 << 63;

/// What is known of a block's erasures.
#[derive(Clone, Copy, Debug, Default)]
struct Erased {
    /// The trim that was begun last; 0 for none.
    trimmed: u32,
    /// The zeroing that was begun last; 0 for none.
    zeroed: u32,
    /// It was written, too.
    written: bool,
}

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
    /// It was erased, and holds an older write.
    Kept {
        /// The write that it holds.
        found: u32,
        /// The trim or zeroing that was acknowledged last.
        erased: u32,
    },
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
            FindingKind::Kept { .. } => "kept",
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
            FindingKind::Kept { found, erased } => {
                write!(f, ", write {found} where erasure {erased} was acknowledged")
            }
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
        let bytes = (frame.words() as u64).saturating_mul(8);
        if bytes > available / 2 {
            let message = format!(
                "verification keeps {bytes} bytes for {} blocks of {} bytes, and {available} \
                 bytes of memory are available: verify a smaller range",
                frame.count, frame.unit
            );
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
        }
        let words = match path {
            Some(path) => {
                // That of an earlier run knows nothing of this one.
                std::fs::write(path, [])?;
                Words::in_file(path, frame.words())?
            }
            None => Words::new(frame.words())?,
        };
        let trim_zeroes = geometry.trim_zeroes;
        Ok(Ledger { words, frame, owner: stamp::owner(seed), trim_zeroes })
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
        let words = Words::in_file(path, frame.words())?;
        let trim_zeroes = geometry.trim_zeroes;
        Ok(Ledger { words, frame, owner: stamp::owner(seed), trim_zeroes })
    }

    /// Claims a range for a write, a trim or a zeroing; false when a change is under way there.
    pub(crate) fn claim(&self, op: Op, offset: u64, len: u32) -> bool {
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
        if self.frame.erases {
            (offset..offset + u64::from(len))
                .step_by(self.frame.unit as usize)
                .for_each(|place| self.remember(op, place));
        }
        true
    }

    /// Remembers what the change of a claimed block is, before it can be seen on the volume.
    fn remember(&self, op: Op, place: u64) {
        let generation = u64::from(begun(self.block(place).load(Ordering::Acquire)));
        let word = &self.words[self.frame.count + self.index(place)];
        // Nobody else changes the words of a block that is claimed.
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

    /// Ends a change: what was claimed is acknowledged if it was `done`.
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
        let erased = self.erased(place);
        let last = erased.trimmed.max(erased.zeroed);
        // An erasure that was acknowledged last, or begun since, may be what is seen.
        let may_be_empty = last > 0 && last >= least;
        if !self.trim_zeroes && erased.trimmed > 0 && erased.trimmed >= least {
            return self.judge_trimmed(data, place, most, erased);
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
                    if found < least && may_be_empty && last == least {
                        return Some(FindingKind::Kept { found, erased: least });
                    }
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
                Sector::Empty if may_be_empty => {}
                Sector::Empty => empty += 1,
            }
        }
        match (empty, first) {
            (0, _) => None,
            (_, None) => Some(FindingKind::Lost { acknowledged: least }),
            (_, Some(_)) => Some(FindingKind::Torn),
        }
    }

    /// The same for a block that was trimmed on a volume that promises no zeroes: nothing that
    /// it ever held is wrong, but what was never written to it is.
    fn judge_trimmed(
        &self,
        data: &[u8],
        place: u64,
        most: u32,
        erased: Erased,
    ) -> Option<FindingKind> {
        (place..).step_by(SECTOR).zip(data.chunks_exact(SECTOR)).find_map(|(place, sector)| {
            match stamp::read(sector, self.owner, place) {
                Sector::Ours(found) if found > most => {
                    Some(FindingKind::Future { found, begun: most })
                }
                Sector::Ours(_) | Sector::Empty => None,
                Sector::Torn => Some(FindingKind::Torn),
                //= NVMe base §DLFEAT: all ones are a third way to read what was deallocated.
                Sector::Foreign if sector.iter().all(|byte| *byte == 0xff) => None,
                // What was there before the trim, when nobody had written it.
                Sector::Foreign if !erased.written => None,
                Sector::Foreign => Some(FindingKind::Foreign),
            }
        })
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
    use crate::spec::{Access, Line};
    use block::Rng;

    fn ledger() -> Ledger {
        let workload = Workload::new(Access::new(4096, 50.0, 100.0), 1);
        Ledger::new(&[&workload], Geometry::new(64 << 10, 512), 3, None).unwrap()
    }

    fn write(ledger: &Ledger, offset: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        assert!(ledger.claim(Op::Write, offset, len as u32));
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
        assert!(ledger.claim(Op::Write, 0, 4096));
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
        assert!(ledger.claim(Op::Write, 4096, 8192));
        assert!(!ledger.claim(Op::Write, 0, 8192) && !ledger.claim(Op::Write, 8192, 4096));
        assert!(ledger.claim(Op::Write, 0, 4096), "a claim that failed left something behind");
        ledger.release(4096, 8192, true);
        assert!(ledger.claim(Op::Write, 4096, 8192));
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

    /// A ledger of blocks that are erased, too.
    fn erasing(trim_zeroes: bool) -> Ledger {
        let line = Line { trim_percent: 10.0, zero_percent: 10.0, ..Line::new(4096, 50.0, 100.0) };
        let workload = Workload::new(Access::of(vec![line]), 1);
        let geometry = Geometry { trim_zeroes, ..Geometry::new(64 << 10, 512) };
        Ledger::new(&[&workload], geometry, 3, None).unwrap()
    }

    fn erase(ledger: &Ledger, op: Op, offset: u64) {
        assert!(ledger.claim(op, offset, 4096));
        ledger.release(offset, 4096, true);
    }

    #[test]
    fn what_was_erased_is_empty_or_what_the_volume_may_keep() {
        for (op, zeroes) in [(Op::Trim, true), (Op::Trim, false), (Op::WriteZeroes, false)] {
            let ledger = erasing(zeroes);
            let judge = |data: &[u8]| at_rest(&ledger, data, 8192);
            let first = write(&ledger, 8192, 4096);
            let second = write(&ledger, 8192, 4096);
            erase(&ledger, op, 8192);
            assert_eq!(judge(&[0; 4096]), None);
            let may_keep = op == Op::Trim && !zeroes;
            for (found, old) in [(1, &first), (2, &second)] {
                let kept = Some(FindingKind::Kept { found, erased: 3 });
                let half = [&old[..2048], &[0; 2048]].concat();
                assert_eq!(judge(old), kept.filter(|_| !may_keep), "{op:?} {zeroes}");
                assert_eq!(judge(&half), kept.filter(|_| !may_keep), "{op:?} {zeroes}");
            }
            assert_eq!(judge(&[0xff; 4096]).is_none(), may_keep);
            assert_eq!(judge(&[7; 4096]), Some(FindingKind::Foreign));
            // From the next write on all is as ever.
            let third = write(&ledger, 8192, 4096);
            assert_eq!(judge(&third), None);
            assert_eq!(judge(&[0; 4096]), Some(FindingKind::Lost { acknowledged: 4 }));
            let stale = FindingKind::Stale { found: 2, acknowledged: 4 };
            assert_eq!(judge(&second), Some(stale), "{op:?} {zeroes}");
        }
    }

    #[test]
    fn an_erasure_under_way_may_be_there_or_not() {
        let ledger = erasing(true);
        let mut notes = Vec::new();
        let old = write(&ledger, 0, 4096);
        ledger.note(0, 4096, &mut notes);
        assert!(ledger.claim(Op::Trim, 0, 4096));
        assert_eq!(ledger.check(&old, 0, &notes), None);
        assert_eq!(ledger.check(&[0; 4096], 0, &notes), None);
        ledger.release(0, 4096, true);
        let new = write(&ledger, 0, 4096);
        // The read began before all that.
        let empty = vec![0; 4096];
        for data in [&old, &new, &empty] {
            assert_eq!(ledger.check(data, 0, &notes), None);
        }
        ledger.note(0, 4096, &mut notes);
        let lost = FindingKind::Lost { acknowledged: 3 };
        assert_eq!(ledger.check(&[0; 4096], 0, &notes), Some(Finding { offset: 0, kind: lost }));
    }

    #[test]
    fn what_was_never_written_is_anything_until_it_must_be_zeroes() {
        for zeroes in [false, true] {
            let ledger = erasing(zeroes);
            erase(&ledger, Op::Trim, 0);
            let foreign = Some(FindingKind::Foreign).filter(|_| zeroes);
            assert_eq!(at_rest(&ledger, &[7; 4096], 0), foreign);
            assert_eq!(at_rest(&ledger, &[0; 4096], 0), None);
        }
    }

    /// Random changes of a volume that erases as it may, and then one that does not do what it
    /// acknowledged.
    #[test]
    fn a_planted_mistake_is_found_and_nothing_else() {
        for seed in 0..40 {
            let zeroes = seed % 2 == 0;
            let (ledger, mut rng) = (erasing(zeroes), Rng::new(seed, 1));
            let mut volume = vec![0_u8; 64 << 10];
            for _ in 0..200 {
                let offset = rng.below(16) * 4096;
                let at = offset as usize..offset as usize + 4096;
                match rng.below(4) {
                    0 | 1 => volume[at.clone()].copy_from_slice(&write(&ledger, offset, 4096)),
                    2 => {
                        erase(&ledger, Op::WriteZeroes, offset);
                        volume[at.clone()].fill(0);
                    }
                    _ => {
                        erase(&ledger, Op::Trim, offset);
                        let keeps = !zeroes && rng.below(2) == 0;
                        if !keeps {
                            volume[at.clone()].fill(0);
                        }
                    }
                }
                assert_eq!(at_rest(&ledger, &volume[at], offset), None, "seed {seed}");
            }
            // A block that certainly holds a write, so that every mistake leaves a trace.
            let before = write(&ledger, 4096, 4096);
            let mistake = [Op::Write, Op::WriteZeroes, Op::Trim][rng.below(3) as usize];
            match mistake {
                Op::Write => drop(write(&ledger, 4096, 4096)),
                op => erase(&ledger, op, 4096),
            }
            let allowed = mistake == Op::Trim && !zeroes;
            let found = at_rest(&ledger, &before, 4096);
            assert_eq!(found.is_none(), allowed, "seed {seed}, {mistake:?}: {found:?}");
        }
    }
}
