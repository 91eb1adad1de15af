//! Contents of the folder of a sweep: its document, the results of its runs, and a lock.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use block::Nanos;
use job::sweep::{Sweep, Ticket};
use os::Clock;
use stats::sweep::journal::Journal;
use stats::sweep::{CellRun, Source, SweepResult};
use stats::{FLUSHES_APART_SINCE, SCHEMA_VERSION};

use super::journal;
use crate::exit::UsageError;
use crate::{folder, output, report as results};

/// The document in the folder of a sweep.
pub const DOCUMENT: &str = "sweep.json";
/// Maximum bytes of a document: the largest sweep, with a thousand runs of each of a thousand
/// cells, has a gigabyte.
const DOCUMENT_MAX_BYTES: u64 = 4 << 30;
/// Maximum runs of a sweep whose document is written after each run: it has a megabyte.
const SHORT: usize = 1000;
/// Writing a longer document uses at most 1/20 of the time.
const SHARE: u64 = 20;

/// Whether a folder is that of a sweep.
pub fn is_one(folder: &Path) -> bool {
    folder.join(DOCUMENT).is_file()
}

/// Locks the folder against other sweeps. A run in a separate process holds the lock too: the
/// folder stays locked until a run that outlived its sweep has ended.
pub fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(folder::LOCK);
    let file = os::append_to(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let folder = folder.display();
            let why = format!("{folder}: this sweep is running: wait until it ends");
            Err(UsageError(why).into())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Resumes a sweep, and prints its progress.
pub fn resume(folder: &Path) -> Result<Sweep> {
    let mut sweep = read_sweep(folder)?;
    let layout = sweep.document().schema_version;
    if layout != SCHEMA_VERSION {
        let why = format!(
            "{} was started by another version (layout {layout}, this version {SCHEMA_VERSION}) \
            with different figures: start a new sweep with another --out",
            folder.display()
        );
        return Err(UsageError(why).into());
    }
    let (done, planned) = sweep.progress();
    output::note(format_args!("drumfire: {done} of {planned} runs already done"));
    Ok(sweep)
}

/// Appends to the journal the ends of runs that were interrupted before their line.
pub fn close_open(folder: &Path, sweep: &mut Sweep, journal: &mut journal::Kept) -> Result<()> {
    let runs = sweep.document().cells.iter().flat_map(|cell| cell.whole_runs());
    let is_open = |run: &&CellRun| {
        let made = journal.journal().made(&run.folder);
        made.is_some_and(|made| made.begun > 0 && made.digest.is_none())
    };
    let open: Vec<String> = runs.filter(is_open).map(|run| run.folder.clone()).collect();
    for run in open {
        let digest = results::digest_of(&folder.join(&run).join("result.json"));
        journal.ended_before(&run, &digest)?;
    }
    Ok(())
}

/// A sweep with all that was measured: runs that ended since its document was written, too.
fn read_sweep(folder: &Path) -> Result<Sweep> {
    let path = folder.join(DOCUMENT);
    let read = || -> Result<SweepResult> {
        let mut text = Vec::new();
        File::open(&path)?.take(DOCUMENT_MAX_BYTES).read_to_end(&mut text)?;
        if let Some(why) = results::newer(&text) {
            return Err(UsageError(why).into());
        }
        Ok(serde_json::from_slice(&text)?)
    };
    let document = read().with_context(|| format!("cannot read {}", path.display()))?;
    let mut sweep = Sweep::resume(document)
        .map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
    let missing: Vec<Ticket> = sweep.missing().collect();
    for ticket in missing {
        let result = folder.join(&ticket.folder).join("result.json");
        if result.is_file()
            && let Ok(result) = results::read_own(&result)
        {
            sweep.adopt(&ticket, &result);
        }
    }
    Ok(sweep)
}

/// Reads a sweep with all results, and refuses one whose figures differ from those of its runs.
pub fn read(folder: &Path) -> Result<SweepResult> {
    let mut sweep = read_sweep(folder)?;
    let document = sweep.document().clone();
    let mut sources: HashMap<String, Source> = HashMap::new();
    let runs = document.cells.iter().flat_map(|cell| cell.whole_runs());
    for run in runs.take(CHECKED_RUNS) {
        let path = folder.join(&run.folder).join("result.json");
        if !path.is_file() {
            continue;
        }
        let result = results::read_document(&path)?;
        let (says, is) = (run.iops, result.totals.iops);
        let same = (says - is).abs() <= 1e-6 * is.abs()
            && run.class == result.class
            && run.latency_ns == result.totals.latency_ns;
        if !same {
            let (sweep, path) = (folder.join(DOCUMENT), path.display());
            let why = format!(
                "{}: its entry for {} does not match {path} ({says:.0} and {is:.0} IOPS, {} and \
                {}): one of them was changed after the run",
                sweep.display(),
                run.folder,
                run.class.word(),
                result.class.word(),
            );
            return Err(UsageError(why).into());
        }
        let digest = results::digest_of(&path);
        sources.insert(run.folder.clone(), Source { digest, ..Source::of(&result) });
    }
    let journal = match journal::read(folder)? {
        // Newer sweeps have a journal: without it nothing is known about their runs.
        None if document.schema_version >= FLUSHES_APART_SINCE => Some(Journal::default()),
        journal => journal,
    };
    sweep.hold_against(journal.as_ref(), |run| sources.remove(&run.folder));
    Ok(sweep.document().clone())
}

/// Maximum runs of a sweep that are compared with their results: some seconds.
const CHECKED_RUNS: usize = 2000;

/// Document of a growing sweep.
pub struct Index<'a> {
    folder: &'a Path,
    clock: Clock,
    /// Time of the last write, and its duration.
    written: Nanos,
    took: Nanos,
}

impl<'a> Index<'a> {
    /// Creates the index of a sweep in a folder.
    pub fn new(folder: &'a Path) -> Index<'a> {
        let clock = Clock::get();
        Index { folder, clock, written: clock.now(), took: Nanos(0) }
    }

    /// Writes the document, a long one only if that is a small part of the elapsed time: a hundred
    /// thousand cells have a hundred megabytes. Runs missing after an interruption are read from
    /// their results.
    pub fn keep(&mut self, sweep: &mut Sweep) -> Result<()> {
        let since = self.clock.now().since(self.written);
        let is_short = sweep.progress().1 <= SHORT;
        if is_short || since.0 > SHARE * self.took.0 { self.write(sweep) } else { Ok(()) }
    }

    /// Writes the document.
    pub fn write(&mut self, sweep: &mut Sweep) -> Result<()> {
        let begin = self.clock.now();
        folder::write_file(&self.folder.join(DOCUMENT), |out| {
            ::report::json::write_value(sweep.document(), out)?;
            Ok(())
        })?;
        self.written = self.clock.now();
        self.took = self.written.since(begin);
        Ok(())
    }
}
