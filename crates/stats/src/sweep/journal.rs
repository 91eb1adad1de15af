//! The journal of a sweep, `journal.jsonl`: a line for each run that began and for each that ended,
//! also for those that nobody sees any more. Each line names the digest of the one before.
//!
//! The journal shows how often a run was made until it pleased, and whether results were
//! exchanged. Against forgers it is no help: whoever can measure can write it. Appending is the
//! caller's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Event of an entry.
    pub event: Event,
    /// Folder of the run inside that of the sweep; empty where a sweep begins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// Digest of the result; of a sweep that begins that of its plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Why the run is none that counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Digest of the line before; empty in the first.
    #[serde(default)]
    pub before: String,
}

/// Event of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A sweep begins here; what was before is of one that it takes the place of.
    Sweep,
    /// A run begins.
    #[default]
    Begun,
    /// A run was complete.
    Ended,
    /// A run does not count.
    Failed,
}

/// Counts of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Digest of the last whole line.
    last: String,
    /// Plan of the sweep, and of those that it took the place of.
    plan: String,
    runs: BTreeMap<String, Made>,
    /// Counts of all.
    pub counts: Counts,
}

/// How often runs were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Runs that began.
    pub begun: u64,
    /// Runs that went through.
    pub ended: u64,
    /// Runs that did not.
    pub failed: u64,
    /// Runs that began after one of their folder had.
    pub again: u64,
    /// Runs that went through, and were made again all the same.
    pub thrown_away: u64,
    /// Runs of sweeps with other plans that this one took the place of.
    pub of_others: u64,
    /// Lines that were cut while they were written.
    pub torn: u64,
    /// The first line that does not follow the one before it; 0 where all do.
    pub broken_at: u64,
}

/// Runs of a folder by the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Runs that began.
    pub begun: u64,
    /// Runs that went through before the last one began.
    pub thrown_away: u64,
    /// Digest of the last one, if it went through.
    pub digest: Option<String>,
}

impl Journal {
    /// Reads all lines. The last one may be torn: its writer was cut.
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

    /// The line of an event, which is to be appended with a line feed.
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

    /// Runs of a folder so far.
    pub fn made(&self, folder: &str) -> Option<&Made> {
        self.runs.get(folder)
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }
}

/// FNV-1a, 64 bits.
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
        // A run that was cut is made again, and so is a complete one.
        all.extend([entry(Event::Begun, "c", ""), entry(Event::Failed, "c", "")]);
        all.extend([entry(Event::Begun, "c", ""), entry(Event::Ended, "c", "33")]);
        all.extend([entry(Event::Begun, "a", ""), entry(Event::Ended, "a", "44")]);
        let journal = Journal::read(&written(&all));
        let Counts { begun, ended, failed, again, thrown_away, .. } = journal.counts;
        assert_eq!([begun, ended, failed, again, thrown_away], [5, 4, 1, 2, 1]);
        let made = journal.made("a").unwrap();
        assert_eq!((made.thrown_away, made.digest.as_deref()), (1, Some("44")));
        assert_eq!(journal.made("c").unwrap().thrown_away, 0);
        // A sweep of the same plan takes the place: the runs before were thrown away.
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
            // The journal goes on behind the torn line.
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
