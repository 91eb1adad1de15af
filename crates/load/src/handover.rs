//! Passes a worker's intervals to the collector without locks or allocations.

use block::Nanos;
use stats::Interval;

use crate::sync::{ArrayQueue, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, PoisonError};
use crate::worker::Trouble;

/// The runner's directive to all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Directive {
    /// Lanes are opening; no worker starts before all are open.
    Wait,
    /// Fill volumes for verification.
    Fill,
    /// Keep I/Os in flight.
    Run,
    /// Let I/Os complete, then close.
    Drain,
    /// End at once.
    Leave,
}

/// Results of a worker since its last interval: I/Os begun or planned before it.
pub(crate) struct Rest {
    pub(crate) worker: usize,
    pub(crate) late: Box<Interval>,
    /// I/Os that never completed, as failures; in `late` they only count as waiting.
    pub(crate) unanswered: Interval,
    pub(crate) trouble: Option<Trouble>,
}

/// Between one engine thread and the collector.
pub(crate) struct Handover {
    /// Number of workers that use it.
    pub(crate) workers: usize,
    command: AtomicU32,
    /// Instant at which the workers start without a command, by the clock of the cores; 0 without
    /// one.
    starts_at_ns: AtomicU64,
    /// Incremented when the collector requests the intervals.
    epoch: AtomicU64,
    /// Workers that still fill their volume.
    filling: AtomicU32,
    /// All workers have finished.
    finished: AtomicBool,
    /// All workers have found the depths they searched.
    found: AtomicBool,
    /// Rests of the workers, once the thread has drained.
    rests: Mutex<Vec<Rest>>,
    full: ArrayQueue<(usize, Box<Interval>)>,
    empty: ArrayQueue<Box<Interval>>,
    troubles: ArrayQueue<(usize, Trouble)>,
}

impl Handover {
    /// For this many workers, some of them in an open loop.
    pub(crate) fn new(workers: usize, paced: bool) -> Handover {
        let empty = ArrayQueue::new(workers.max(1));
        for _ in 0..workers {
            let interval = if paced { Interval::paced() } else { Interval::new() };
            let _ = empty.push(Box::new(interval));
        }
        Handover {
            workers,
            command: AtomicU32::new(Directive::Wait as u32),
            starts_at_ns: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            filling: AtomicU32::new(workers as u32),
            finished: AtomicBool::new(false),
            found: AtomicBool::new(false),
            rests: Mutex::default(),
            // One per worker not collected yet, and its last.
            full: ArrayQueue::new(2 * workers.max(1)),
            empty,
            troubles: ArrayQueue::new(workers.max(1)),
        }
    }

    /// Hands over a worker's rest: at its end, so a lock costs nothing.
    pub(crate) fn put_rest(&self, rest: Rest) {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).push(rest);
    }

    /// The rests of all workers, once the thread has ended.
    pub(crate) fn take_rests(&self) -> Vec<Rest> {
        std::mem::take(&mut *self.rests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn command(&self, command: Directive) {
        self.command.store(command as u32, Ordering::Release);
    }

    pub(crate) fn commanded(&self) -> Directive {
        match self.command.load(Ordering::Acquire) {
            0 => Directive::Wait,
            1 => Directive::Fill,
            2 => Directive::Run,
            3 => Directive::Drain,
            _ => Directive::Leave,
        }
    }

    /// Sets the instant at which the workers start: a command would reach each of them later.
    pub(crate) fn start_at(&self, at: Nanos) {
        self.starts_at_ns.store(at.0.max(1), Ordering::Release);
    }

    /// The instant at which the workers start without a command.
    pub(crate) fn starts_at(&self) -> Option<Nanos> {
        Some(Nanos(self.starts_at_ns.load(Ordering::Acquire))).filter(|at| at.0 > 0)
    }

    /// Asks the workers for their intervals.
    pub(crate) fn ask(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of the collector's requests.
    pub(crate) fn asked(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn say_filling(&self, workers: u32) {
        self.filling.store(workers, Ordering::Release);
    }

    pub(crate) fn is_filling(&self) -> bool {
        self.filling.load(Ordering::Acquire) > 0
    }

    pub(crate) fn say_finished(&self) {
        self.finished.store(true, Ordering::Release);
    }

    pub(crate) fn say_found(&self) {
        self.found.store(true, Ordering::Release);
    }

    pub(crate) fn has_found(&self) -> bool {
        self.found.load(Ordering::Acquire)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Hands over a worker's trouble, if any, before its interval, so that the collector of the
    /// interval finds the trouble. If the collector is late, the worker hands it over next time.
    /// Called by the workers' thread only.
    pub(crate) fn put_trouble(&self, worker: usize, take: impl FnOnce() -> Option<Trouble>) {
        if !self.troubles.is_full()
            && let Some(trouble) = take()
        {
            // The queue has room: this is the only producer.
            let _ = self.troubles.push((worker, trouble));
        }
    }

    /// Exchanges a worker's interval for an empty one. If the collector is late, the worker
    /// continues with the old one.
    pub(crate) fn put_full(
        &self,
        worker: usize,
        exchange: impl FnOnce(Box<Interval>) -> Box<Interval>,
    ) {
        if let Some(empty) = self.empty.pop() {
            // The queue has room for one per worker.
            let _ = self.full.push((worker, exchange(empty)));
        }
    }

    /// Hands over a worker's last interval, which needs no empty one.
    pub(crate) fn put_last(&self, worker: usize, last: Box<Interval>) {
        // The queue has room for two per worker.
        let _ = self.full.push((worker, last));
    }

    /// Takes the next trouble and its worker. Troubles of a worker whose interval was taken are
    /// included.
    pub(crate) fn take_trouble(&self) -> Option<(usize, Trouble)> {
        self.troubles.pop()
    }

    /// The next interval and its worker.
    pub(crate) fn take_full(&self) -> Option<(usize, Box<Interval>)> {
        self.full.pop()
    }

    /// Returns an interval, cleared, after it was read.
    pub(crate) fn put_empty(&self, mut interval: Box<Interval>) {
        interval.clear();
        // The queue is full after a last interval, which is not needed.
        let _ = self.empty.push(interval);
    }
}
