//! Records on their way from workers to the log writer.

use std::sync::{Mutex, PoisonError};

use stats::live::{About, Action, Live, Snapshot};
use stats::{RunResult, WorkerResult};

use super::*;
use crate::Engine;
use crate::run::on;
use job::spec::{Access, Part, RunSpec, Shift, When, WorkerSpec, Workload};

/// Keeps all records.
#[derive(Debug, Default)]
struct Kept {
    records: Vec<(u32, Record)>,
    ended: Vec<(u32, Nanos)>,
}

impl Scribe for Kept {
    fn take(&mut self, job: u32, records: &[Record]) {
        self.records.extend(records.iter().map(|record| (job, *record)));
    }

    fn end(&mut self, job: u32, length: Nanos) {
        self.ended.push((job, length));
    }

    fn troubles(&mut self) -> Vec<String> {
        vec!["what went wrong".to_owned()]
    }

    fn wants_beginnings(&self, job: u32) -> bool {
        job == 2
    }
}

/// No live view.
struct Blind;

impl Live for Blind {
    fn start(&mut self, _: &About) {}

    fn update(&mut self, _: &Snapshot) -> Action {
        Action::Continue
    }

    fn end(&mut self) {}
}

/// Two workers of job 1, and one of job 2 that starts later; each does 300 I/Os.
fn run() -> (RunResult, Kept) {
    let workload =
        Workload { limit_ios: Some(300), ..Workload::new(Access::new(4096, 50.0, 100.0), 8) };
    let worker = |(number, job, delay_seconds)| WorkerSpec {
        name: format!("worker {number}"),
        uri: "null:1g".to_owned(),
        number,
        part: Part { index: number, of: 3 },
        shift: Shift {
            job: Some(job),
            group: job as usize - 1,
            when: When { delay_seconds, ..When::default() },
            ..Shift::default()
        },
        ..WorkerSpec::new(workload.clone())
    };
    let workers = [(0, 1, 0.0), (1, 1, 0.0), (2, 2, 0.05)].into_iter().map(worker).collect();
    let cores = os::cpu::allowed();
    let spec = RunSpec { workers, seconds: 60.0, seed: 1, cores, ..RunSpec::default() };
    let kept = Arc::new(Mutex::new(Kept::default()));
    let engine = Engine { scribe: Some(kept.clone()), ..Engine::default() };
    let result = engine.run(on("null:1g", spec), &mut Blind).unwrap();
    let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
    (result, kept)
}

#[test]
fn every_io_of_a_run_is_recorded_once_and_in_order() {
    let (result, kept) = run();
    assert_eq!(result.warnings, ["what went wrong"]);
    for (worker, of) in (0..).zip(&result.workers) {
        let WorkerResult { ios, read, write, .. } = of;
        let count = |moment, op: Option<Op>| {
            let ours = |r: &Record| r.worker == worker && r.moment == moment;
            let fits = |r: &Record| ours(r) && op.is_none_or(|op| r.op == op);
            kept.records.iter().filter(|(_, record)| fits(record)).count() as u64
        };
        let done = |op| count(Moment::Done, Some(op));
        assert_eq!((done(Op::Read), done(Op::Write), *ios), (read.ios, write.ios, 300));
        assert_eq!(count(Moment::Begun, None), if worker == 2 { 300 } else { 0 });
    }
    for job in [1, 2] {
        let of = kept.records.iter().filter(|(of, _)| *of == job);
        let done: Vec<Nanos> = of
            .filter(|(_, record)| record.moment == Moment::Done)
            .map(|(_, record)| record.at)
            .collect();
        assert!(done.is_sorted(), "{done:?}");
        let [length] = kept.ended.iter().filter(|(of, _)| *of == job).collect::<Vec<_>>()[..]
        else {
            panic!("{:?}", kept.ended)
        };
        assert!(done.last().is_some_and(|last| *last <= length.1), "{length:?}");
    }
    // Times of this job count from its start, 50 ms after the run's, even if it starts late.
    let last = kept.records.iter().rfind(|(job, _)| *job == 2).unwrap().1.at;
    let whole = result.intervals.last().unwrap().t;
    assert!(last.as_secs_f64() + 0.04 < whole, "{last:?} of {whole} s");
}

#[test]
fn what_has_no_room_is_counted() {
    let line = Arc::new(Line::one_of(1));
    let (chunks, size) = (line.empty.len(), line.empty.pop().unwrap().capacity());
    let mut recorder = Recorder::new(&line, 7, false).unwrap();
    recorder.done(Nanos(0), Nanos(1), Op::Read, (0, 512));
    recorder.start();
    recorder.begun(Nanos(0), Op::Read, 0, 512);
    let room = (chunks - 1) * size;
    for n in 0..room as u64 + 5 {
        recorder.done(Nanos(n), Nanos(1), Op::Write, (n * 512, 512));
    }
    assert_eq!(line.lost.load(Ordering::Relaxed), 5);
    recorder.end(Nanos(1 << 40));
    let all: Vec<Chunk> = std::iter::from_fn(|| line.full.pop()).collect();
    assert_eq!(all.iter().map(|chunk| chunk.records.len()).sum::<usize>(), room);
    assert_eq!((all[0].ended, all.last().unwrap().ended), (None, Some(Nanos(1 << 40))));
    assert_eq!(all[0].records[1].offset, 512);
    assert_eq!((all[0].until, all[0].records[0].worker), (Nanos(size as u64), 7));
}

#[test]
fn memory_has_an_end() {
    for workers in [1, 2, 64, 4096, 65536] {
        let line = Line::one_of(workers);
        let records: usize =
            (0..line.empty.len()).map(|_| line.empty.pop().unwrap().capacity()).sum();
        assert!(records >= 64 && records * workers <= 4 * RECORDS_MAX, "{workers}: {records}");
    }
    const { assert!(size_of::<Record>() <= 40) };
}
