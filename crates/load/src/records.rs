//! Records of single I/Os for job logs, from the workers to the log writer.
//!
//! A worker puts its records into a [`Recorder`], chunk by chunk, and a thread of the [`Desk`]
//! takes the chunks. Their number is fixed: a worker never waits and allocates nothing. Records
//! that overflow are counted as lost, which the result reports.

mod desk;
mod merge;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{Nanos, Op};
use crossbeam_queue::ArrayQueue;
use stats::{Moment, Record};

pub(crate) use self::desk::Desk;
pub use self::desk::{Scribe, SharedScribe};

/// Maximum number of records in flight of all workers: 40 MiB.
const RECORDS_MAX: usize = 1 << 20;
/// Maximum and minimum number of records of a chunk, for any number of workers.
const CHUNK: (usize, usize) = (4096, 16);
/// Most and fewest chunks of a worker.
const CHUNKS: (usize, usize) = (64, 4);

/// The queue of one worker's records to the desk.
#[derive(Debug)]
pub(crate) struct Line {
    full: ArrayQueue<Chunk>,
    empty: ArrayQueue<Vec<Record>>,
    /// Records lost for lack of space.
    lost: AtomicU64,
}

/// Records in order of time, complete up to a time.
#[derive(Debug)]
struct Chunk {
    records: Vec<Record>,
    /// All later records are of this time or later.
    until: Nanos,
    /// End of the worker, in its last chunk. I/Os in flight then may be in it, too.
    ended: Option<Nanos>,
}

impl Line {
    /// One of this many in a run.
    fn one_of(lines: usize) -> Line {
        let share = RECORDS_MAX / lines.max(1);
        let count = (share / CHUNK.0).clamp(CHUNKS.1, CHUNKS.0);
        let size = (share / count).clamp(CHUNK.1, CHUNK.0);
        let (full, empty) = (ArrayQueue::new(count + 1), ArrayQueue::new(count + 1));
        for _ in 0..count {
            let _ = empty.push(Vec::with_capacity(size));
        }
        Line { full, empty, lost: AtomicU64::new(0) }
    }
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Recorder {
    line: Arc<Line>,
    chunk: Vec<Record>,
    worker: u32,
    /// Recording has started: the fill is not recorded.
    on: bool,
    /// Starts of I/Os are recorded, too.
    begins: bool,
}

impl Recorder {
    fn new(line: &Arc<Line>, worker: u32, begins: bool) -> Option<Recorder> {
        let chunk = line.empty.pop()?;
        Some(Recorder { line: Arc::clone(line), chunk, worker, on: false, begins })
    }

    /// Records I/Os from now on.
    pub(crate) fn start(&mut self) {
        self.on = true;
    }

    /// The worker's own start, with its ramp in place of the latency.
    #[cold]
    pub(crate) fn turn(&mut self, at: Nanos, ramp: Nanos) {
        let (latency, op) = (ramp, Op::Flush);
        self.put(Record { latency, offset: 0, len: 0, op, ..self.record(at, Moment::Turn) });
    }

    /// An I/O is submitted.
    #[inline]
    pub(crate) fn begun(&mut self, at: Nanos, op: Op, offset: u64, len: u32) {
        if self.begins {
            self.put(Record { op, offset, len, ..self.record(at, Moment::Begun) });
        }
    }

    /// An I/O completed.
    #[inline]
    pub(crate) fn done(&mut self, at: Nanos, latency: Nanos, op: Op, (offset, len): (u64, u32)) {
        self.put(Record { latency, op, offset, len, ..self.record(at, Moment::Done) });
    }

    fn record(&self, at: Nanos, moment: Moment) -> Record {
        let (latency, op) = (Nanos(0), Op::Flush);
        Record { at, latency, offset: 0, len: 0, worker: self.worker, op, moment }
    }

    #[inline]
    fn put(&mut self, record: Record) {
        if !self.on {
            return;
        }
        if self.chunk.len() == self.chunk.capacity() && !self.hand_over(record.at) {
            self.line.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.chunk.push(record);
    }

    /// Hands over the records, and the time up to which they are complete; false if there is no
    /// room.
    #[cold]
    pub(crate) fn hand_over(&mut self, until: Nanos) -> bool {
        let Some(empty) = self.line.empty.pop() else { return false };
        let records = std::mem::replace(&mut self.chunk, empty);
        let _ = self.line.full.push(Chunk { records, until, ended: None });
        true
    }

    /// The last chunk: the worker ended at `at`, with nothing in flight.
    pub(crate) fn end(self, at: Nanos) {
        let _ = self.line.full.push(Chunk { records: self.chunk, until: at, ended: Some(at) });
    }
}

#[cfg(test)]
mod test;
