//! The trace that `fio` writes with `write_iolog`, which programs replay: every I/O of a job in the
//! order of start times.
//!
//! The format is version 3, that of `fio-3.33`: microseconds since the job's start, the file, the
//! operation, offset and length.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use block::{Nanos, Op};
use stats::Record;

/// Files that a worker drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driven {
    /// Names of its files.
    pub names: Vec<String>,
    /// Length of the part of each that comes before a part of the next one, in bytes; 0 for one
    /// file alone.
    pub stripe_bytes: u64,
}

/// The trace of one job: text that grows with the records, to be taken away.
#[derive(Debug, Default)]
pub struct Trace {
    /// The lines so far.
    pub text: String,
    /// Workers by their positions in the run.
    workers: BTreeMap<u32, Driven>,
    /// Begin of the last I/O.
    last_us: u64,
}

impl Trace {
    /// One without an I/O, of a job with these workers. Each file is added and opened once.
    pub fn new(workers: Vec<(u32, Driven)>) -> Trace {
        let text = "fio version 3 iolog\n".to_owned();
        let workers = workers.into_iter().collect();
        let mut trace = Trace { text, workers, last_us: 0 };
        for action in ["add", "open"] {
            trace.each_file(0, action);
        }
        trace
    }

    fn each_file(&mut self, us: u64, action: &str) {
        let mut seen = HashSet::new();
        for name in self.workers.values().flat_map(|driven| &driven.names) {
            if seen.insert(name) {
                let _ = writeln!(self.text, "{us} {name} {action}");
            }
        }
    }

    /// Takes an I/O that began; its time counts from the job's beginning, and is not before that
    /// of the one before it.
    pub fn take(&mut self, record: &Record) {
        let Some(driven) = self.workers.get(&record.worker) else { return };
        let us = record.at.0 / 1000;
        self.last_us = us;
        let action = match record.op {
            Op::Read => "read",
            Op::Write | Op::WriteZeroes => "write",
            Op::Trim => "trim",
            Op::Flush => {
                // Our flush covers all written files.
                for name in &driven.names {
                    let _ = writeln!(self.text, "{us} {name} sync 0 0");
                }
                return;
            }
        };
        if let Some((name, offset)) = driven.place(record.offset) {
            let _ = writeln!(self.text, "{us} {name} {action} {offset} {}", record.len);
        }
    }

    /// The job is over: `length` is that of its measured window, without a ramp.
    pub fn end(&mut self, length: Nanos) {
        self.each_file(self.last_us.max(length.0 / 1000), "close");
    }
}

impl Driven {
    /// Returns the file at an offset, and the offset in that file.
    fn place(&self, offset: u64) -> Option<(&str, u64)> {
        let count = self.names.len() as u64;
        let Some(stripe) = offset.checked_div(self.stripe_bytes).filter(|_| count > 0) else {
            return self.names.first().map(|name| (name.as_str(), offset));
        };
        let name = &self.names[(stripe % count) as usize];
        Some((name, stripe / count * self.stripe_bytes + offset % self.stripe_bytes))
    }
}

#[cfg(test)]
mod test {
    use stats::Moment;

    use super::*;

    fn trace(stripe_bytes: u64, names: &[&str], records: &[(u64, Op, u64)]) -> String {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let mut trace = Trace::new(vec![(4, Driven { names, stripe_bytes })]);
        for (us, op, offset) in records {
            let (at, latency) = (Nanos(us * 1000 + 999), Nanos(0));
            let moment = Moment::Begun;
            let (offset, op) = (*offset, *op);
            trace.take(&Record { at, latency, offset, len: 512, worker: 4, op, moment });
            trace.take(&Record { at, latency, offset, len: 512, worker: 5, op, moment });
        }
        trace.end(Nanos(2_000_000));
        trace.text
    }

    #[test]
    fn lines_are_those_of_fio() {
        let records =
            [(7, Op::Read, 0), (7, Op::Write, 4096), (90, Op::Trim, 512), (101, Op::Flush, 0)];
        let expected = "fio version 3 iolog\n0 /x add\n0 /x open\n7 /x read 0 512\n\
            7 /x write 4096 512\n90 /x trim 512 512\n101 /x sync 0 0\n2000 /x close\n";
        assert_eq!(trace(0, &["/x"], &records), expected);
    }

    #[test]
    fn a_place_of_several_files_is_one_in_its_file() {
        let records = [(1, Op::Read, 0), (2, Op::Read, 1536), (3, Op::Read, 2048)];
        let text = trace(1024, &["a", "b"], &records);
        assert!(text.contains("0 a add\n0 b add\n0 a open\n0 b open\n"), "{text}");
        let expected = "1 a read 0 512\n2 b read 512 512\n3 a read 1024 512\n";
        assert!(text.contains(expected), "{text}");
    }
}
