//! Counters of the I/Os of each volume, for viewers of a server that is watched.
//!
//! An I/O counts when the turn in which it was answered has ended: its latency is the time from
//! the turn that received the command to the end of the turn that sent the answer, by a clock that
//! is read once per turn. Each core has its own counters, and only the core writes them: a viewer
//! adds up those of all cores, without a lock on the way of an I/O.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{Done, EDGES, Io, Nanos, Op, bucket_of};
use proto::InPlace;

/// Counters of a volume since the server began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounts {
    /// Reads.
    pub read: OpCounts,
    /// Writes, and writes of zeroes.
    pub write: OpCounts,
    /// Trims.
    pub trim: OpCounts,
    /// Flushes.
    pub flush: OpCounts,
}

/// Counters of one kind of I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpCounts {
    /// I/Os without a fault.
    pub ios: u64,
    /// I/Os that ended in a fault.
    pub errors: u64,
    /// Bytes of the I/Os without a fault.
    pub bytes: u64,
    /// Sum of the latencies in nanoseconds.
    pub latency_ns: u64,
    /// Latencies up to each of [`block::EDGES_NS`], and longer than the edge before.
    pub buckets: [u64; EDGES],
}

impl Default for OpCounts {
    fn default() -> OpCounts {
        OpCounts { ios: 0, errors: 0, bytes: 0, latency_ns: 0, buckets: [0; EDGES] }
    }
}

impl VolumeCounts {
    /// The counts since an earlier state of the same counters.
    #[must_use]
    pub(crate) fn since(mut self, before: &VolumeCounts) -> VolumeCounts {
        for (now, before) in [
            (&mut self.read, &before.read),
            (&mut self.write, &before.write),
            (&mut self.trim, &before.trim),
            (&mut self.flush, &before.flush),
        ] {
            now.ios = now.ios.wrapping_sub(before.ios);
            now.errors = now.errors.wrapping_sub(before.errors);
            now.bytes = now.bytes.wrapping_sub(before.bytes);
            now.latency_ns = now.latency_ns.wrapping_sub(before.latency_ns);
            for (now, before) in now.buckets.iter_mut().zip(before.buckets) {
                *now = now.wrapping_sub(before);
            }
        }
        self
    }
}

/// Counters of a core: for each volume and kind of I/O a row of cells.
#[derive(Debug)]
pub(crate) struct Cells(Box<[AtomicU64]>);

/// Kinds of I/O that are counted separately.
const KINDS: usize = 4;
/// Cells of a row before its buckets: I/Os, errors, bytes, sum of latencies.
const SUMS: usize = 4;
const ROW: usize = SUMS + EDGES;

impl Cells {
    pub(crate) fn new(volumes: usize) -> Arc<Cells> {
        Arc::new(Cells((0..volumes * KINDS * ROW).map(|_| AtomicU64::new(0)).collect()))
    }

    fn row(&self, volume: usize, op: Op) -> &[AtomicU64] {
        let row = volume * KINDS + kind(op);
        &self.0[row * ROW..(row + 1) * ROW]
    }

    /// Adds what this core has counted of a volume.
    pub(crate) fn add_to(&self, volume: usize, sum: &mut VolumeCounts) {
        for (op, sum) in [
            (Op::Read, &mut sum.read),
            (Op::Write, &mut sum.write),
            (Op::Trim, &mut sum.trim),
            (Op::Flush, &mut sum.flush),
        ] {
            let row = self.row(volume, op);
            let at = |index: usize| row[index].load(Ordering::Relaxed);
            sum.ios += at(0);
            sum.errors += at(1);
            sum.bytes += at(2);
            sum.latency_ns += at(3);
            for (bucket, count) in sum.buckets.iter_mut().enumerate() {
                *count += at(SUMS + bucket);
            }
        }
    }
}

fn kind(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write | Op::WriteZeroes => 1,
        Op::Trim => 2,
        Op::Flush => 3,
    }
}

/// Adds to a cell that only this thread writes.
fn raise(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// The I/Os of a core until they count.
#[derive(Debug)]
pub(crate) struct Tally {
    cells: Arc<Cells>,
    /// I/Os of volumes in flight, by their tags.
    begun: HashMap<u64, Begun>,
    /// I/Os that were answered in this turn.
    answered: Vec<Answered>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    op: Op,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    volume: usize,
    io: Begun,
    is_good: bool,
}

impl Tally {
    pub(crate) fn new(cells: Arc<Cells>) -> Tally {
        Tally { cells, begun: HashMap::new(), answered: Vec::new() }
    }

    /// An I/O goes to a volume; its tag is unique among those in flight.
    pub(crate) fn begin(&mut self, io: &Io, at: Nanos) {
        self.begun.insert(io.tag.0, Begun { at, op: io.op, len: io.len });
    }

    /// A volume has answered an I/O.
    pub(crate) fn answer(&mut self, volume: usize, done: &Done) {
        if let Some(io) = self.begun.remove(&done.tag.0) {
            self.answered.push(Answered { volume, io, is_good: done.result.is_ok() });
        }
    }

    /// An end has done an I/O in the memory of a volume, of a command that came at `at`.
    pub(crate) fn in_place(&mut self, done: InPlace, at: Nanos) {
        let io = Begun { at, op: done.op, len: done.len };
        self.answered.push(Answered { volume: done.unit.0 as usize, io, is_good: true });
    }

    /// Counts the answers of a turn that ends now, by a clock that is read only if there are any.
    pub(crate) fn end_turn(&mut self, now: impl FnOnce() -> Nanos) {
        if self.answered.is_empty() {
            return;
        }
        let now = now();
        for Answered { volume, io, is_good } in self.answered.drain(..) {
            let row = self.cells.row(volume, io.op);
            if !is_good {
                raise(&row[1], 1);
                continue;
            }
            let latency_ns = now.0.saturating_sub(io.at.0);
            raise(&row[0], 1);
            raise(&row[2], u64::from(io.len));
            raise(&row[3], latency_ns);
            if let Some(bucket) = row.get(SUMS + bucket_of(latency_ns)) {
                raise(bucket, 1);
            }
        }
    }
}

#[cfg(test)]
mod test {
    use block::{Cause, Fault, Tag};
    use proto::UnitId;

    use super::*;

    fn io(tag: u64, op: Op, len: u32) -> Io {
        Io { tag: Tag(tag), op, fua: false, len, offset: 0, buf: None }
    }

    fn done(tag: u64, result: Result<(), Fault>) -> Done {
        Done { tag: Tag(tag), result, cause: Cause::NONE, buf: None }
    }

    #[test]
    fn every_answer_counts_once_with_the_end_of_its_turn() {
        let cells = Cells::new(2);
        let mut tally = Tally::new(Arc::clone(&cells));
        tally.begin(&io(1, Op::Read, 4096), Nanos(1000));
        tally.begin(&io(2, Op::WriteZeroes, 512), Nanos(1000));
        tally.begin(&io(3, Op::Read, 4096), Nanos(2000));
        tally.answer(1, &done(1, Ok(())));
        tally.answer(1, &done(2, Ok(())));
        tally.answer(1, &done(3, Err(Fault::Medium)));
        // Nobody began this one, such as an I/O of a server that is not watched.
        tally.answer(1, &done(4, Ok(())));
        tally.in_place(InPlace { unit: UnitId(0), op: Op::Write, len: 512 }, Nanos(2500));
        tally.end_turn(|| Nanos(2600));
        tally.end_turn(|| panic!("no clock is read without an answer"));
        let [mut first, mut second] = [VolumeCounts::default(), VolumeCounts::default()];
        cells.add_to(0, &mut first);
        cells.add_to(1, &mut second);
        let of = |counts: &OpCounts| (counts.ios, counts.errors, counts.bytes, counts.latency_ns);
        assert_eq!(of(&first.write), (1, 0, 512, 100));
        assert_eq!(first.write.buckets[0], 1, "100 ns");
        assert_eq!(of(&second.read), (1, 1, 4096, 1600));
        assert_eq!(of(&second.write), (1, 0, 512, 1600));
        assert_eq!(second.read.buckets[bucket_of(1600)], 1);
        assert_eq!((&first.read, &second.flush), (&OpCounts::default(), &OpCounts::default()));
    }

    #[test]
    fn a_latency_beyond_all_edges_is_in_the_sum_only() {
        let cells = Cells::new(1);
        let mut tally = Tally::new(Arc::clone(&cells));
        tally.begin(&io(1, Op::Flush, 0), Nanos(0));
        tally.answer(0, &done(1, Ok(())));
        tally.end_turn(|| Nanos::from_secs(200));
        let mut sum = VolumeCounts::default();
        cells.add_to(0, &mut sum);
        assert_eq!((sum.flush.ios, sum.flush.latency_ns), (1, 200_000_000_000));
        assert!(sum.flush.buckets.iter().all(|count| *count == 0));
    }
}
