//! The thread that takes records from workers and passes them to the log writer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use block::Nanos;
use stats::Record;

use super::merge::{Merge, Times};
use super::{Line, Recorder};
use job::spec::RunSpec;

/// Interval at which chunks are taken.
const POLL: Duration = Duration::from_millis(20);

/// Writes records during a run, on a separate thread.
pub trait Scribe: Send + std::fmt::Debug {
    /// Takes records of a job, in order of time, and makes them outlive the process. Completion
    /// times count from the job's measured window, start times from the job's start.
    fn take(&mut self, job: u32, records: &[Record]);

    /// A job is complete, I/Os in flight at its end included, this long after the start of its
    /// measured window.
    fn end(&mut self, job: u32, length: Nanos);

    /// Errors in sentences; empty without any.
    fn troubles(&mut self) -> Vec<String>;

    /// Returns whether the starts of a job's I/Os are requested.
    fn wants_beginnings(&self, job: u32) -> bool;
}

/// A writer that outlives a run.
pub type SharedScribe = Arc<Mutex<dyn Scribe>>;

/// The thread and the queues to it.
pub(crate) struct Desk {
    /// The queue of each worker, if its I/Os are recorded.
    lines: Vec<Option<Arc<Line>>>,
    /// Workers whose starts are requested, too.
    begins: Vec<bool>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Vec<String>>>,
}

/// State shared with the thread.
#[derive(Debug, Default)]
struct Shared {
    begin: AtomicU64,
    opening: AtomicU64,
    /// 0 before the run starts.
    closing: AtomicU64,
    /// All recording has ended.
    over: AtomicBool,
}

impl Desk {
    /// Starts the thread if any worker's I/Os are recorded and there is a writer.
    pub(crate) fn start(
        spec: &RunSpec,
        scribe: Option<&SharedScribe>,
    ) -> std::io::Result<Option<Desk>> {
        let jobs: Vec<Option<u32>> = spec.workers.iter().map(|worker| worker.shift.job).collect();
        let count = jobs.iter().flatten().count();
        let Some(scribe) = scribe.filter(|_| count > 0) else { return Ok(None) };
        let line = |job: &Option<u32>| job.map(|_| Arc::new(Line::one_of(count)));
        let lines: Vec<Option<Arc<Line>>> = jobs.iter().map(line).collect();
        let begins = {
            let scribe = scribe.lock().unwrap_or_else(PoisonError::into_inner);
            let wants = |job: &Option<u32>| job.is_some_and(|job| scribe.wants_beginnings(job));
            jobs.iter().map(wants).collect()
        };
        let shared = Arc::new(Shared::default());
        let clerk = Clerk::new(&jobs, &lines, Arc::clone(&shared), Arc::clone(scribe));
        let thread = std::thread::Builder::new().name("records".to_owned());
        let thread = Some(thread.spawn(move || clerk.work())?);
        Ok(Some(Desk { lines, begins, shared, thread }))
    }

    /// The recorder of a worker.
    pub(crate) fn recorder(&self, worker: usize) -> Option<Recorder> {
        let line = self.lines.get(worker)?.as_ref()?;
        Recorder::new(line, worker as u32, self.begins[worker])
    }

    /// Notes that the run starts at `begin`; its window is from `opening` to before `closing`.
    pub(crate) fn open(&self, begin: Nanos, opening: Nanos, closing: Nanos) {
        self.shared.begin.store(begin.0, Ordering::Relaxed);
        self.shared.opening.store(opening.0, Ordering::Relaxed);
        self.shared.closing.store(closing.0.max(1), Ordering::Release);
    }

    /// Waits until everything is written; returns warnings for the result.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.end()
    }

    fn end(&mut self) -> Vec<String> {
        self.shared.over.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Desk {
    /// A run that never started has one, too.
    fn drop(&mut self) {
        self.end();
    }
}

/// State of the thread.
struct Clerk {
    /// Each recorded worker, with its job.
    lines: Vec<(u32, u32, Arc<Line>)>,
    jobs: BTreeMap<u32, Merge>,
    shared: Arc<Shared>,
    scribe: SharedScribe,
}

impl Clerk {
    fn new(
        jobs: &[Option<u32>],
        lines: &[Option<Arc<Line>>],
        shared: Arc<Shared>,
        scribe: SharedScribe,
    ) -> Clerk {
        let each = (0..).zip(jobs.iter().zip(lines));
        let recorded = each.filter_map(|(worker, (job, line))| {
            Some((worker, (*job)?, Arc::clone(line.as_ref()?)))
        });
        let lines: Vec<(u32, u32, Arc<Line>)> = recorded.collect();
        let mut workers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (worker, job, _) in &lines {
            workers.entry(*job).or_default().push(*worker);
        }
        let count = workers.len();
        let jobs = workers.into_iter().map(|(job, of)| (job, Merge::new(of, count))).collect();
        Clerk { lines, jobs, shared, scribe }
    }

    fn work(mut self) -> Vec<String> {
        let mut out = Vec::new();
        loop {
            let over = self.shared.over.load(Ordering::Acquire);
            if let Some(times) = self.times() {
                self.take();
                self.give(times, over, &mut out);
            }
            if over {
                return self.troubles();
            }
            std::thread::sleep(POLL);
        }
    }

    /// The times of the run, once it has started.
    fn times(&self) -> Option<Times> {
        let of = |time: &AtomicU64| Nanos(time.load(Ordering::Relaxed));
        let closing = Nanos(self.shared.closing.load(Ordering::Acquire));
        let (begin, opening) = (of(&self.shared.begin), of(&self.shared.opening));
        (closing > Nanos(0)).then_some(Times { begin, opening, closing })
    }

    /// Takes chunks handed over by workers.
    fn take(&mut self) {
        for (worker, job, line) in &self.lines {
            let Some(merge) = self.jobs.get_mut(job) else { continue };
            // Only those present: other workers get their turn.
            for _ in 0..line.full.len() {
                let Some(mut chunk) = line.full.pop() else { break };
                merge.take(*worker, &chunk);
                chunk.records.clear();
                let _ = line.empty.push(chunk.records);
            }
        }
    }

    /// Passes on records whose order is final; all of them at the end.
    fn give(&mut self, times: Times, over: bool, out: &mut Vec<Record>) {
        let mut scribe = self.scribe.lock().unwrap_or_else(PoisonError::into_inner);
        for (job, merge) in &mut self.jobs {
            merge.give(times, over, out);
            if !out.is_empty() {
                scribe.take(*job, out);
                out.clear();
            }
            if let Some(length) = merge.length(times).filter(|_| over) {
                scribe.end(*job, length);
            }
        }
    }

    fn troubles(&self) -> Vec<String> {
        let lost: u64 =
            self.lines.iter().map(|(_, _, line)| line.lost.load(Ordering::Relaxed)).sum();
        let lost = (lost > 0).then(|| {
            format!("the logs lack {lost} I/O records: the disk of the logs was too slow")
        });
        let mut scribe = self.scribe.lock().unwrap_or_else(PoisonError::into_inner);
        lost.into_iter().chain(scribe.troubles()).collect()
    }
}
