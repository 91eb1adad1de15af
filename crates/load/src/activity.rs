//! Records the activity of the cores of a run for a limited time from the window's start.
//!
//! Each core has an [`Observer`], called once a turn, which enables recording on the core and its
//! workers only while needed. Its memory is allocated before the run and does not grow: it keeps
//! the latest spans, and every n-th I/O.

use std::sync::{Arc, Mutex, PoisonError};

use block::{Activity, Done, Nanos};
use os::Core;
use stats::{CoreActivity, Counted, SampledIo};

use crate::worker::{Slot, Worker};

/// Spans kept per core, of 24 bytes each: two seconds of 10,000 turns each.
const STRETCHES: usize = 200_000;
/// I/Os kept of all workers of a core.
const IOS: usize = 32_768;
/// At least as many per worker.
const IOS_OF_WORKER: usize = 64;
/// Number of samples of the counters.
const COUNTS: u64 = 4096;
/// Shortest sampling interval.
const COUNT_EVERY: Nanos = Nanos::from_millis(1);

/// A recording of a run's cores. Clones are the same recording.
#[derive(Clone, Debug)]
pub struct Recording {
    length: Nanos,
    made: Arc<Mutex<Vec<CoreActivity>>>,
}

impl Recording {
    /// For this many seconds from the start of the measured window, or as long as it lasts.
    pub fn new(seconds: f64) -> Recording {
        Recording { length: Nanos((seconds * 1e9) as u64), made: Arc::default() }
    }

    /// The recording by CPU; empty if the measured window never started.
    pub fn take(&self) -> Vec<CoreActivity> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut made = std::mem::take(&mut *made);
        made.sort_by_key(|core| core.cpu);
        made
    }

    fn put(&self, core: CoreActivity) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(core);
    }
}

/// Records the activity of one core.
pub(crate) struct Observer {
    recording: Recording,
    cpu: usize,
    workers: Vec<String>,
    /// Time before the measured window.
    ramp: Nanos,
    state: RecorderState,
    counts: Vec<Counted>,
    /// Time of the next sample, and the interval.
    count_at: Nanos,
    count_every: Nanos,
}

enum RecorderState {
    /// The run has not started.
    Waits(Activity, Vec<Sampler>),
    /// Recording starts at this time.
    Begins(Nanos, Activity, Vec<Sampler>),
    /// Recording from the first time to the second.
    Records(Nanos, Nanos),
    Over,
}

impl Observer {
    /// For the workers of a core, by name.
    pub(crate) fn new(
        recording: Recording,
        cpu: usize,
        workers: Vec<String>,
        ramp_seconds: f64,
    ) -> Observer {
        let room = (IOS / workers.len().max(1)).max(IOS_OF_WORKER);
        let samplers = workers.iter().map(|_| Sampler::new(room)).collect();
        let every = Nanos(recording.length.0 / COUNTS).max(COUNT_EVERY);
        Observer {
            recording,
            cpu,
            workers,
            ramp: Nanos((ramp_seconds * 1e9) as u64),
            state: RecorderState::Waits(Activity::new(STRETCHES), samplers),
            counts: Vec::with_capacity(COUNTS as usize + 2),
            count_at: Nanos(0),
            count_every: every,
        }
    }

    /// The run has started.
    pub(crate) fn start(&mut self, now: Nanos) {
        self.state = match std::mem::replace(&mut self.state, RecorderState::Over) {
            RecorderState::Waits(activity, samplers) => {
                RecorderState::Begins(now + self.ramp, activity, samplers)
            }
            other => other,
        };
    }

    /// Starts, samples and ends when due.
    pub(crate) fn look(&mut self, core: &Core, workers: &mut [Worker]) -> Nanos {
        let now = core.now();
        match &self.state {
            RecorderState::Begins(at, ..) if now >= *at => self.begin(now, core, workers),
            RecorderState::Records(_, end) if now >= *end => self.end(core, workers),
            RecorderState::Records(..) if now >= self.count_at => self.count(now, workers),
            _ => {}
        }
        now
    }

    fn begin(&mut self, now: Nanos, core: &Core, workers: &mut [Worker]) {
        let state = RecorderState::Records(now, now + self.recording.length);
        let before = std::mem::replace(&mut self.state, state);
        let RecorderState::Begins(_, activity, samplers) = before else { return };
        core.record(Some(activity));
        for (worker, sampler) in workers.iter_mut().zip(samplers) {
            worker.sample(Some(sampler));
        }
        self.count(now, workers);
    }

    fn count(&mut self, at: Nanos, workers: &[Worker]) {
        self.count_at = at + self.count_every;
        if self.counts.len() < self.counts.capacity() {
            let ios = workers.iter().map(Worker::sampled).sum();
            let outstanding = workers.iter().map(Worker::in_flight).sum();
            self.counts.push(Counted { at, ios, outstanding });
        }
    }

    /// Ends the recording, if one is in progress.
    #[cold]
    pub(crate) fn end(&mut self, core: &Core, workers: &mut [Worker]) {
        let RecorderState::Records(start, _) =
            std::mem::replace(&mut self.state, RecorderState::Over)
        else {
            return;
        };
        let now = core.now();
        self.count(now, workers);
        let (stretches, left_out) = core.record(None).map(Activity::take).unwrap_or_default();
        let mut ios = Vec::new();
        for (index, worker) in workers.iter_mut().enumerate() {
            let sampler = worker.sample(None);
            ios.extend(sampler.into_iter().flat_map(|sampler| sampler.take(index as u32)));
        }
        self.recording.put(CoreActivity {
            cpu: self.cpu,
            workers: std::mem::take(&mut self.workers),
            span: (start, now),
            stretches,
            left_out,
            ios,
            counts: std::mem::take(&mut self.counts),
        });
    }
}

/// Keeps every n-th I/O of a worker; n doubles whenever its room is full.
#[derive(Debug)]
pub(crate) struct Sampler {
    every: u64,
    seen: u64,
    room: usize,
    kept: Vec<SampledIo>,
}

impl Sampler {
    fn new(room: usize) -> Sampler {
        Sampler { every: 1, seen: 0, room, kept: Vec::with_capacity(room) }
    }

    /// I/Os seen.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Samples completed I/Os.
    pub(crate) fn take_some(&mut self, now: Nanos, done: &[Done], slots: &[Slot]) {
        for done in done {
            if self.seen.is_multiple_of(self.every) {
                if self.kept.len() == self.room {
                    let mut index = 0;
                    self.kept.retain(|_| {
                        index += 1;
                        index % 2 == 1
                    });
                    self.every *= 2;
                }
                // `every` may have grown meanwhile.
                if self.seen.is_multiple_of(self.every) {
                    let io = slots[done.tag.0 as usize].sampled(now, done.result.is_err());
                    self.kept.push(io);
                }
            }
            self.seen += 1;
        }
    }

    fn take(self, worker: u32) -> impl Iterator<Item = SampledIo> {
        let every = self.every;
        self.kept.into_iter().map(move |io| SampledIo { worker, every, ..io })
    }
}
