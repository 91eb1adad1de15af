//! Journal of a sweep on disk: a line is appended for each start and end of a run, and no line is
//! ever changed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use job::sweep::Sweep;
use stats::RunResult;
use stats::sweep::journal::{Entry, Event, Journal};

/// Name of the journal in the folder of a sweep.
const NAME: &str = "journal.jsonl";

/// A journal open for appending.
pub struct Kept {
    path: PathBuf,
    file: File,
    journal: Journal,
}

/// The journal in a folder; `None` if there is none.
pub fn read(folder: &Path) -> Result<Option<Journal>> {
    let path = folder.join(NAME);
    match fs::read(&path) {
        Ok(text) => Ok(Some(Journal::read(&String::from_utf8_lossy(&text)))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

impl Kept {
    /// Opens the journal of a new or resumed sweep in `folder`. The journal of the replaced sweep
    /// in `place` is copied first: those runs were made, too.
    pub fn open(folder: &Path, place: &Path, sweep: &Sweep) -> Result<Kept> {
        let (path, old) = (folder.join(NAME), place.join(NAME));
        if !path.exists() && old.is_file() {
            fs::copy(&old, &path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let known = fs::read(&path).unwrap_or_default();
        let mut file =
            os::append_to(&path).with_context(|| format!("cannot write {}", path.display()))?;
        if known.last().is_some_and(|byte| *byte != b'\n') {
            // The writer was interrupted within a line.
            file.write_all(b"\n").context("cannot write the journal")?;
        }
        let journal = Journal::read(&String::from_utf8_lossy(&known));
        let mut kept = Kept { path, file, journal };
        if kept.journal.is_empty() || folder != place {
            kept.append(sweep.begins())?;
        }
        Ok(kept)
    }

    /// The entries so far.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Appends the start of a run in this subfolder of the sweep.
    pub fn begun(&mut self, run: &str) -> Result<()> {
        self.append(Entry { event: Event::Begun, run: run.to_owned(), ..Entry::default() })
    }

    /// Appends the end of a run: the digest of its result, or the reason why it does not count.
    pub fn ended(&mut self, run: &str, result: &RunResult, digest: &str) -> Result<()> {
        match result.partial.clone().or_else(|| result.momentary()) {
            Some(why) => self.failed(run, &why),
            None => self.ended_before(run, digest),
        }
    }

    /// Appends the end of a complete run whose line is missing because the sweep was interrupted.
    pub fn ended_before(&mut self, run: &str, digest: &str) -> Result<()> {
        let (run, digest) = (run.to_owned(), digest.to_owned());
        self.append(Entry { event: Event::Ended, run, digest, ..Entry::default() })
    }

    /// Appends that a run does not count, and why.
    pub fn failed(&mut self, run: &str, why: &str) -> Result<()> {
        let (run, why) = (run.to_owned(), why.to_owned());
        self.append(Entry { event: Event::Failed, run, why, ..Entry::default() })
    }

    /// Appends a line with one write: an interruption leaves all of it, or a partial line at the
    /// end.
    fn append(&mut self, entry: Entry) -> Result<()> {
        let line = self.journal.line(entry) + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}
