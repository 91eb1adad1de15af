//! Merges the records of a job's workers in order of time, relative to the job's start.

use block::Nanos;
use stats::{Moment, Record};

use super::Chunk;

/// Maximum number of records waiting for slower workers, over all jobs.
const WAITING_MAX: usize = 1 << 20;

/// Start of a run, and start and end of its measured window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) begin: Nanos,
    pub(super) opening: Nanos,
    pub(super) closing: Nanos,
}

/// One job.
#[derive(Debug)]
pub(super) struct Merge {
    /// Progress of each of its workers, by their indices in the run.
    workers: Vec<(u32, Nanos)>,
    waiting: Vec<Record>,
    waiting_max: usize,
    /// Records up to here were passed on.
    given: Nanos,
    /// Start of the job's first worker, and the length of the job's ramp.
    turn: Option<(Nanos, Nanos)>,
    /// End of the last worker.
    ended: Option<Nanos>,
}

impl Merge {
    /// For these workers, one of this many jobs.
    pub(super) fn new(workers: Vec<u32>, jobs: usize) -> Merge {
        Merge {
            workers: workers.into_iter().map(|worker| (worker, Nanos(0))).collect(),
            waiting: Vec::new(),
            waiting_max: (WAITING_MAX / jobs.max(1)).max(1024),
            given: Nanos(0),
            turn: None,
            ended: None,
        }
    }

    /// Takes a worker's chunk.
    pub(super) fn take(&mut self, worker: u32, chunk: &Chunk) {
        for record in &chunk.records {
            match record.moment {
                Moment::Turn => {
                    let turn = (record.at, record.latency);
                    self.turn = Some(self.turn.map_or(turn, |first| first.min(turn)));
                }
                Moment::Begun | Moment::Done => self.waiting.push(*record),
            }
        }
        self.ended = self.ended.max(chunk.ended);
        let reached = chunk.ended.map_or(chunk.until, |_| Nanos(u64::MAX));
        let found = self.workers.iter_mut().filter(|(number, _)| *number == worker);
        found.for_each(|(_, until)| *until = (*until).max(reached));
    }

    /// Passes on records older than any still to come, in order of time; everything if `all`.
    pub(super) fn give(&mut self, times: Times, all: bool, out: &mut Vec<Record>) {
        let all = all || self.waiting.len() > self.waiting_max;
        let reached = self.workers.iter().map(|(_, until)| *until).min();
        let until = reached.filter(|_| !all).unwrap_or(Nanos(u64::MAX));
        // Each worker's are sorted already.
        self.waiting.sort_by_key(|record| record.at);
        let ready = match all {
            true => self.waiting.len(),
            false => self.waiting.partition_point(|record| record.at < until),
        };
        let (begin, opening) = (self.begin(times), self.opening(times));
        for mut record in self.waiting.drain(..ready) {
            // A late record moves to the next possible time.
            let at = record.at.max(self.given);
            self.given = at;
            let from = if record.moment == Moment::Begun { begin } else { opening };
            // I/Os in flight at the end come after it.
            if at >= from {
                record.at = at.since(from);
                out.push(record);
            }
        }
    }

    fn begin(&self, times: Times) -> Nanos {
        self.turn.map_or(times.begin, |(at, _)| at)
    }

    fn opening(&self, times: Times) -> Nanos {
        let ramp = self.turn.map_or(Nanos(0), |(_, ramp)| ramp);
        (self.begin(times) + ramp).max(times.opening)
    }

    /// Time until its last I/O completed, at the end; `None` if it never started.
    pub(super) fn length(&self, times: Times) -> Option<Nanos> {
        let ended = self.ended.unwrap_or(self.given).min(times.closing);
        let end = ended.max(self.given);
        Some(end.since(self.opening(times))).filter(|length| *length > Nanos(0))
    }
}

#[cfg(test)]
mod test {
    use block::Op;

    use super::*;

    const TIMES: Times = Times { begin: Nanos(100), opening: Nanos(200), closing: Nanos(900) };

    fn record(worker: u32, at: u64, moment: Moment) -> Record {
        let (at, latency) = (Nanos(at), Nanos(5));
        Record { at, latency, offset: 0, len: 512, worker, op: Op::Read, moment }
    }

    fn chunk(worker: u32, moment: Moment, times: &[u64], until: u64) -> Chunk {
        let records = times.iter().map(|at| record(worker, *at, moment)).collect();
        Chunk { records, until: Nanos(until), ended: None }
    }

    fn given(merge: &mut Merge, all: bool) -> Vec<u64> {
        let mut out = Vec::new();
        merge.give(TIMES, all, &mut out);
        out.iter().map(|record| record.at.0).collect()
    }

    #[test]
    fn records_of_all_workers_are_in_the_order_of_time() {
        let mut merge = Merge::new(vec![3, 8], 1);
        merge.take(3, &chunk(3, Moment::Done, &[150, 210, 400, 500], 500));
        assert!(given(&mut merge, false).is_empty());
        merge.take(8, &chunk(8, Moment::Done, &[205, 450], 460));
        // Records before the opening do not count, and times count from it.
        assert_eq!(given(&mut merge, false), [5, 10, 200, 250]);
        let over = Chunk { ended: Some(Nanos(470)), ..chunk(8, Moment::Done, &[], 470) };
        merge.take(8, &over);
        merge.take(3, &chunk(3, Moment::Done, &[700, 950], 960));
        // The last one was in flight at the end of the run, and completed later.
        assert_eq!(given(&mut merge, false), [300, 500, 750]);
        assert!(given(&mut merge, true).is_empty());
        assert_eq!(merge.length(TIMES), Some(Nanos(750)));
    }

    #[test]
    fn beginnings_count_from_the_beginning_and_a_turn_from_its_own() {
        let mut merge = Merge::new(vec![0], 1);
        merge.take(0, &chunk(0, Moment::Begun, &[110, 300], 400));
        assert_eq!(given(&mut merge, false), [10, 200]);
        let mut late = Merge::new(vec![0], 1);
        assert_eq!(late.length(TIMES), None);
        let mut turn = chunk(0, Moment::Turn, &[500], 500);
        turn.records[0].latency = Nanos(0);
        late.take(0, &turn);
        late.take(0, &chunk(0, Moment::Done, &[510], 520));
        let ended = || Chunk { ended: Some(Nanos(600)), ..chunk(0, Moment::Done, &[], 600) };
        late.take(0, &chunk(0, Moment::Begun, &[520], 600));
        late.take(0, &ended());
        assert_eq!(given(&mut late, false), [10, 20]);
        assert_eq!(late.length(TIMES), Some(Nanos(100)));
        // With a ramp of the job, completions count from the ramp's end.
        let mut ramped = Merge::new(vec![0], 1);
        turn.records[0].latency = Nanos(50);
        ramped.take(0, &turn);
        ramped.take(0, &chunk(0, Moment::Done, &[530, 560], 570));
        ramped.take(0, &chunk(0, Moment::Begun, &[570], 600));
        ramped.take(0, &ended());
        assert_eq!(given(&mut ramped, false), [10, 70]);
        assert_eq!(ramped.length(TIMES), Some(Nanos(50)));
    }

    #[test]
    fn nothing_waits_without_end() {
        let mut merge = Merge::new(vec![0, 1], 1 << 20);
        let times: Vec<u64> = (200..1300).map(|n| 200 + n / 2).collect();
        merge.take(0, &chunk(0, Moment::Done, &times, 800));
        assert_eq!(given(&mut merge, false).len(), 1100);
        // Late, but in order.
        merge.take(1, &chunk(1, Moment::Done, &[300], 800));
        assert_eq!(given(&mut merge, false), [649]);
    }
}
