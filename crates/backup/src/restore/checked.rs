//! Outcome of reading a backup: damages, and missing data of each file.

use std::ops::Range;
use std::path::PathBuf;

use block::Nanos;

use crate::fate::{Fate, GapKind};
use crate::format::FrameHead;
use crate::format::index::{Kept, Kind};
use crate::places::Places;

/// Maximum damages that are listed; further ones are counted.
const DAMAGES_MAX: usize = 1000;

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Time from the first read to the end.
    pub time: Nanos,
    /// Files and volumes.
    pub files: u64,
    /// Good frames.
    pub frames: u64,
    /// Bytes of sources in them.
    pub source_bytes: u64,
    /// The first damages.
    pub damages: Vec<Damage>,
    /// Number of all damages: frames, and files that lack data listed in the index.
    pub damaged: u64,
    /// Incomplete sources, with their fates and the data that were never in the backup.
    pub missing: Vec<Missing>,
    /// Number of sources with data missing in the backup.
    pub partial: u64,
    /// Number of files and folders whose set-user-ID and set-group-ID bits were not restored.
    pub left_out: u64,
    /// Folder of the restored files.
    pub in_folder: Option<PathBuf>,
}

/// A damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Place: an offset in the target, or a path.
    pub at: String,
    /// Description of the damage.
    pub what: String,
    /// Bytes of the file that are missing.
    pub ranges: Vec<Range<u64>>,
}

/// An incomplete source in the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The source's path.
    pub path: PathBuf,
    /// The source's fate.
    pub fate: Fate,
    /// Byte ranges that are missing in the backup.
    pub ranges: Vec<Range<u64>>,
}

/// Accounts for every byte of every file.
pub(super) struct Account {
    checked: Checked,
    /// For each entry: ranges of frames found, and of gaps in the index.
    places: Vec<Places>,
}

impl Account {
    /// Begins the account of these entries.
    pub(super) fn of(entries: &[Kept]) -> Account {
        let places = entries.iter().map(|entry| {
            let mut places = Places::default();
            for gap in &entry.gaps {
                assert!(places.claim(gap.range.clone()), "an index has no gaps that overlap");
            }
            places
        });
        Account { checked: Checked::default(), places: places.collect() }
    }

    /// Accounts for a good frame, unless its range is taken or outside of the entry's data.
    pub(super) fn claim(&mut self, frame: &FrameHead, entries: &[Kept]) -> Result<(), String> {
        let (entry, start) = (&entries[frame.entry as usize], frame.offset);
        let end = start.saturating_add(u64::from(frame.source_bytes));
        let path = entry.path.display();
        if !entry.kind.has_data() {
            return Err(format!("{path} has a frame, but no data"));
        }
        if end > entry.listed_bytes {
            return Err(format!("{path}: its frame at {start} is past the end of the file"));
        }
        if !self.places[frame.entry as usize].claim(start..end) {
            return Err(format!("{path}: its frame at {start} overlaps another frame or a gap"));
        }
        self.checked.frames += 1;
        self.checked.source_bytes += u64::from(frame.source_bytes);
        Ok(())
    }

    /// Counts a damage at an offset of the target.
    pub(super) fn damage(&mut self, at: u64, what: impl ToString) {
        self.tell(at.to_string(), what.to_string(), Vec::new());
    }

    /// Ends the account, with the outcome.
    pub(super) fn end(mut self, entries: &[Kept]) -> Checked {
        let places = std::mem::take(&mut self.places);
        for (entry, places) in entries.iter().zip(places) {
            self.checked.files += u64::from(entry.kind.has_data());
            self.checked.partial += u64::from(entry.fate.is_partial());
            if entry.fate != Fate::Whole {
                let (path, fate) = (entry.path.clone(), entry.fate.clone());
                self.checked.missing.push(Missing { path, fate, ranges: lacking(entry) });
            }
            let ranges = places.missing(entry.listed_bytes);
            if entry.kind.has_data() && !ranges.is_empty() {
                let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                let what = format!("{bytes} of {} bytes are missing", entry.listed_bytes);
                self.tell(entry.path.display().to_string(), what, ranges);
            }
        }
        self.checked
    }

    fn tell(&mut self, at: String, what: String, ranges: Vec<Range<u64>>) {
        self.checked.damaged += 1;
        if self.checked.damages.len() < DAMAGES_MAX {
            self.checked.damages.push(Damage { at, what, ranges });
        }
    }
}

/// Ranges of a source that were never in the backup.
fn lacking(entry: &Kept) -> Vec<Range<u64>> {
    let gaps = entry.gaps.iter().filter(|gap| gap.kind != GapKind::Hole);
    let is_absent = entry.kind == Kind::Absent && entry.listed_bytes > 0;
    let all = is_absent.then_some(0..entry.listed_bytes);
    all.into_iter().chain(gaps.map(|gap| gap.range.clone())).collect()
}
