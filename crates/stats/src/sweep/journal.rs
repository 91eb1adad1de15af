//! The journal of a sweep, `journal.jsonl`: a line for each start and each end of a run, including
//! runs whose results were deleted. Each line has the digest of the previous one.
//!
//! The journal shows how often a run was repeated until its result was liked, and whether results
//! were exchanged. It does not protect against forgery: a program that can measure can write the
//! journal. The caller appends the lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Event that the line records.
    pub event: Event,
    /// Folder of the run inside that of the sweep; empty for the beginning of a sweep.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// Digest of the result; for the beginning of a sweep that of its plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Reason why the run does not count.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Digest of the previous line; empty in the first.
    #[serde(default)]
    pub before: String,
}

/// Event of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A sweep begins; earlier lines belong to a sweep that it replaces.
    Sweep,
    /// A run begins.
    #[default]
    Begun,
    /// A run completed.
    Ended,
    /// A run does not count.
    Failed,
}

/// Counts of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Digest of the last whole line.
    last: String,
    /// Plans of the sweep and of the sweeps that it replaced.
    plan: String,
    runs: BTreeMap<String, Made>,
    /// Counts over all runs.
    pub counts: Counts,
}

/// Counts of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Runs that began.
    pub begun: u64,
    /// Runs that completed.
    pub ended: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that began after another run of the same folder.
    pub again: u64,
    /// Runs that completed, and were made again all the same.
    pub thrown_away: u64,
    /// Runs of sweeps with other plans that this one replaced.
    pub of_others: u64,
    /// Torn lines: their write was interrupted.
    pub torn: u64,
    /// Number of the first line that does not follow the previous one; 0 if all do.
    pub broken_at: u64,
}

/// Runs of a folder by the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Runs that began.
    pub begun: u64,
    /// Runs that completed before the last one began.
    pub thrown_away: u64,
    /// Digest of the last run, if it completed.
    pub digest: Option<String>,
}

impl Journal {
    /// Reads all lines. The last one may be torn: its writer was interrupted.
    pub fn read(text: &str) -> Journal {
        let mut journal = Journal::default();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_str::<Entry>(line) {
                Err(_) => journal.counts.torn += 1,
                Ok(entry) => {
                    if entry.before != journal.last && journal.counts.broken_at == 0 {
                        journal.counts.broken_at = number;
                    }
                    journal.take(&entry);
                    journal.last = digest(line.as_bytes());
                }
            }
        }
        journal
    }

    /// Returns the line of an event, which the caller appends with a line feed.
    pub fn line(&mut self, mut entry: Entry) -> String {
        entry.before.clone_from(&self.last);
        let line = serde_json::to_string(&entry).unwrap_or_default();
        self.take(&entry);
        self.last = digest(line.as_bytes());
        line
    }

    fn take(&mut self, entry: &Entry) {
        let counts = &mut self.counts;
        if entry.event == Event::Sweep {
            if !self.plan.is_empty() && self.plan != entry.digest {
                counts.of_others += counts.begun;
                let kept =
                    Counts { of_others: counts.of_others, torn: counts.torn, ..Counts::default() };
                *counts = Counts { broken_at: counts.broken_at, ..kept };
                self.runs.clear();
            }
            self.plan.clone_from(&entry.digest);
            return;
        }
        let made = self.runs.entry(entry.run.clone()).or_default();
        match entry.event {
            Event::Begun => {
                counts.begun += 1;
                counts.again += u64::from(made.begun > 0);
                if made.digest.take().is_some() {
                    counts.thrown_away += 1;
                    made.thrown_away += 1;
                }
                made.begun += 1;
            }
            Event::Ended => {
                counts.ended += 1;
                made.digest = Some(entry.digest.clone());
            }
            Event::Failed => counts.failed += 1,
            Event::Sweep => {}
        }
    }

    /// Returns the runs of a folder so far.
    pub fn made(&self, folder: &str) -> Option<&Made> {
        self.runs.get(folder)
    }

    /// Returns whether the journal has no lines yet.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }
}

/// Returns the FNV-1a digest, 64 bits, in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod test {
    use super::*;

    fn entry(event: Event, run: &str, digest: &str) -> Entry {
        let (run, digest) = (run.to_owned(), digest.to_owned());
        Entry { event, run, digest, ..Entry::default() }
    }

    fn written(entries: &[Entry]) -> String {
        let mut journal = Journal::default();
        entries.iter().map(|entry| journal.line(entry.clone()) + "\n").collect()
    }

    fn two_runs() -> Vec<Entry> {
        vec![
            entry(Event::Sweep, "", "plan"),
            entry(Event::Begun, "a", ""),
            entry(Event::Ended, "a", "11"),
            entry(Event::Begun, "b", ""),
            entry(Event::Ended, "b", "22"),
        ]
    }

    #[test]
    fn what_is_made_again_is_counted() {
        let mut all = two_runs();
        let counts = Journal::read(&written(&all)).counts;
        assert_eq!(counts, Counts { begun: 2, ended: 2, ..Counts::default() });
        // An interrupted run is repeated, and so is a complete one.
        all.extend([entry(Event::Begun, "c", ""), entry(Event::Failed, "c", "")]);
        all.extend([entry(Event::Begun, "c", ""), entry(Event::Ended, "c", "33")]);
        all.extend([entry(Event::Begun, "a", ""), entry(Event::Ended, "a", "44")]);
        let journal = Journal::read(&written(&all));
        let Counts { begun, ended, failed, again, thrown_away, .. } = journal.counts;
        assert_eq!([begun, ended, failed, again, thrown_away], [5, 4, 1, 2, 1]);
        let made = journal.made("a").unwrap();
        assert_eq!((made.thrown_away, made.digest.as_deref()), (1, Some("44")));
        assert_eq!(journal.made("c").unwrap().thrown_away, 0);
        // A sweep of the same plan replaces the first: the runs before it were thrown away.
        all.extend([entry(Event::Sweep, "", "plan"), entry(Event::Begun, "b", "")]);
        assert_eq!(Journal::read(&written(&all)).counts.thrown_away, 2);
        all.extend([entry(Event::Sweep, "", "other"), entry(Event::Begun, "b", "")]);
        let counts = Journal::read(&written(&all)).counts;
        assert_eq!(counts, Counts { begun: 1, of_others: 6, ..Counts::default() });
    }

    #[test]
    fn a_torn_line_is_told_and_a_changed_one_too() {
        let whole = written(&two_runs());
        for cut in 1..whole.lines().last().unwrap().len() {
            let mut torn = whole.clone();
            torn.truncate(whole.len() - 1 - cut);
            let mut journal = Journal::read(&torn);
            let counts = &journal.counts;
            assert_eq!((counts.torn, counts.begun, counts.ended, counts.broken_at), (1, 2, 1, 0));
            // The journal continues after the torn line.
            let next = journal.line(entry(Event::Begun, "b", ""));
            let counts = Journal::read(&format!("{torn}\n{next}\n")).counts;
            assert_eq!((counts.torn, counts.begun, counts.again, counts.broken_at), (1, 3, 1, 0));
        }
        let lines: Vec<&str> = whole.lines().collect();
        for left_out in 0..lines.len() - 1 {
            let mut rest = lines.clone();
            rest.remove(left_out);
            let counts = Journal::read(&rest.join("\n")).counts;
            assert_eq!(counts.broken_at, left_out as u64 + 1);
        }
        let changed = whole.replace("\"digest\":\"11\"", "\"digest\":\"12\"");
        assert_eq!(Journal::read(&changed).counts.broken_at, 4);
        assert!(Journal::read("").is_empty());
    }
}
