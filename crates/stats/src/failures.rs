//! Failed I/Os: operation, offset, time and cause, in little memory however many there are.
//!
//! A worker notes a failure in its interval; the collector merges failures like everything else.
//! All of this code runs on the path of a fault only.

use std::collections::BTreeMap;

use block::{Cause, Fault, Nanos, Op};
use serde::{Deserialize, Serialize};

/// Maximum number of kinds of failures per volume that are listed separately; further kinds are
/// only counted.
pub const KINDS_MAX: usize = 16;
/// Maximum number of failures in a result; further ones are only counted.
pub const LISTED_MAX: usize = 64;

/// I/Os of one kind that failed on one volume, in the same way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// URI of the volume.
    pub volume: String,
    /// Operation: `read`, `write`, `flush`, `trim` or `write zeroes`.
    pub operation: String,
    /// Kind of the fault: `medium error`, `connection lost` and others.
    pub fault: String,
    /// Status that the system or the peer reported: an errno, SCSI sense, an NVMe status. `null` if
    /// none was reported.
    pub status: Option<String>,
    /// Number of I/Os that failed this way.
    pub count: u64,
    /// The first of these I/Os.
    pub first: FirstFailure,
}

/// The first failure of its kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FirstFailure {
    /// Time at which the completion was seen, in seconds since the measured window began.
    pub t_s: f64,
    /// Offset in bytes.
    pub offset_bytes: u64,
    /// Size in bytes.
    pub length_bytes: u64,
    /// Name of the worker.
    pub worker: String,
}

/// One I/O that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Operation of the I/O.
    pub op: Op,
    /// Kind of the fault.
    pub fault: Fault,
    /// Cause that the lane reported.
    pub cause: Cause,
    /// Time at which the completion was seen.
    pub at: Nanos,
    /// Offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub len: u32,
}

/// Failures of one worker in a span of time, by kind. Memory is allocated at the first failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failures {
    kinds: Vec<Kept>,
    /// Number of failures of further kinds.
    beyond: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub first: Failed,
    /// Text of the cause.
    pub words: Option<String>,
    pub count: u64,
}

impl Failures {
    /// Notes one failure. `words` returns the text of its cause and is called for the first failure
    /// of a kind only.
    #[cold]
    pub fn note(&mut self, failed: Failed, words: impl FnOnce() -> Option<String>) {
        let full = self.kinds.len() >= KINDS_MAX;
        match self.kinds.iter_mut().find(|kept| kept.is_like(&failed)) {
            Some(kept) => kept.count += 1,
            None if !full => {
                self.kinds.push(Kept { first: failed, words: words(), count: 1 });
            }
            None => self.beyond += 1,
        }
    }

    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, other: &Failures) {
        self.beyond += other.beyond;
        for theirs in &other.kinds {
            let full = self.kinds.len() >= KINDS_MAX;
            match self.kinds.iter_mut().find(|kept| kept.is_like(&theirs.first)) {
                Some(kept) => kept.add(theirs),
                None if !full => self.kinds.push(theirs.clone()),
                None => self.beyond += theirs.count,
            }
        }
    }

    /// Clears all counts.
    pub(crate) fn clear(&mut self) {
        self.kinds.clear();
        self.beyond = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

impl Kept {
    fn is_like(&self, other: &Failed) -> bool {
        let Failed { op, fault, cause, .. } = self.first;
        (op, fault, cause) == (other.op, other.fault, other.cause)
    }

    fn add(&mut self, other: &Kept) {
        self.count += other.count;
        if other.first.at < self.first.at {
            self.first = other.first;
        }
    }
}

/// Returns the failures of all workers as a result lists them, earliest first, and the number that
/// is only counted. `begin` is the beginning of the measured window.
pub(crate) fn listed<'a>(
    workers: impl Iterator<Item = (&'a str, &'a str, &'a Failures)>,
    begin: Nanos,
) -> (Vec<Failure>, u64) {
    let mut volumes: BTreeMap<&str, Vec<Failure>> = BTreeMap::new();
    let mut beyond = 0;
    for (worker, volume, failures) in workers.filter(|(.., failures)| !failures.is_empty()) {
        beyond += failures.beyond;
        let rows = volumes.entry(volume).or_default();
        for kept in &failures.kinds {
            let row = row(worker, volume, kept, begin);
            let full = rows.len() >= KINDS_MAX;
            match rows.iter_mut().find(|other| is_same(other, &row)) {
                Some(other) => join(other, row),
                None if !full => rows.push(row),
                None => beyond += row.count,
            }
        }
    }
    let mut rows: Vec<Failure> = volumes.into_values().flatten().collect();
    rows.sort_by(|a, b| a.first.t_s.total_cmp(&b.first.t_s));
    let cut = rows.split_off(rows.len().min(LISTED_MAX));
    (rows, beyond + cut.iter().map(|row| row.count).sum::<u64>())
}

fn row(worker: &str, volume: &str, kept: &Kept, begin: Nanos) -> Failure {
    let Failed { op, fault, at, offset, len, .. } = kept.first;
    Failure {
        volume: volume.to_owned(),
        operation: op.word().to_owned(),
        fault: fault.to_string(),
        status: kept.words.clone(),
        count: kept.count,
        first: FirstFailure {
            t_s: at.since(begin).as_secs_f64(),
            offset_bytes: offset,
            length_bytes: len.into(),
            worker: worker.to_owned(),
        },
    }
}

fn is_same(a: &Failure, b: &Failure) -> bool {
    (&a.operation, &a.fault, &a.status) == (&b.operation, &b.fault, &b.status)
}

fn join(row: &mut Failure, other: Failure) {
    row.count += other.count;
    if other.first.t_s < row.first.t_s {
        row.first = other.first;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn failed(op: Op, cause: u32, at_s: u64, offset: u64) -> Failed {
        let (fault, cause, at) = (Fault::Medium, Cause(cause), Nanos::from_secs(at_s));
        Failed { op, fault, cause, at, offset, len: 4096 }
    }

    fn words(failures: &mut Failures, failed: Failed) {
        failures.note(failed, || Some(format!("cause {}", failed.cause.0)));
    }

    #[test]
    fn kinds_are_counted_and_their_first_is_kept() {
        let [mut one, mut later, mut two] =
            [Failures::default(), Failures::default(), Failures::default()];
        words(&mut one, failed(Op::Read, 5, 12, 8192));
        words(&mut one, failed(Op::Read, 5, 13, 0));
        words(&mut one, failed(Op::Write, 5, 14, 512));
        words(&mut later, failed(Op::Read, 5, 20, 4096));
        one.merge(&later);
        words(&mut two, failed(Op::Read, 5, 11, 65536));
        let all = [("a", "null:1g", &one), ("b", "null:1g", &two), ("c", "null:2g", &later)];
        let (rows, beyond) = listed(all.into_iter(), Nanos::from_secs(10));
        assert_eq!(beyond, 0);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (&*row.volume, &*row.operation, row.count, row.first.t_s, &*row.first.worker)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("null:1g", "read", 4, 1.0, "b"),
                ("null:1g", "write", 1, 4.0, "a"),
                ("null:2g", "read", 1, 10.0, "c"),
            ]
        );
        let first = &rows[0];
        assert_eq!((first.first.offset_bytes, first.first.length_bytes), (65536, 4096));
        assert_eq!((&*first.fault, first.status.as_deref()), ("medium error", Some("cause 5")));
    }

    #[test]
    fn memory_and_rows_are_bounded_and_nothing_is_lost() {
        let mut failures = Failures::default();
        for cause in 0..1000 {
            words(&mut failures, failed(Op::Read, cause, 1, 0));
        }
        let mut twice = failures.clone();
        twice.merge(&failures);
        assert_eq!((failures.kinds.len(), failures.beyond), (KINDS_MAX, 1000 - 16));
        assert_eq!((twice.kinds.len(), twice.beyond), (KINDS_MAX, 2 * (1000 - 16)));
        let names: Vec<String> = (0..100).map(|volume| format!("null:{volume}")).collect();
        let all = names.iter().map(|name| ("worker", name.as_str(), &failures));
        let (rows, beyond) = listed(all, Nanos(0));
        assert_eq!(rows.len(), LISTED_MAX);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>() + beyond, 100_000);
        twice.clear();
        assert_eq!(twice, Failures::default());
    }
}
