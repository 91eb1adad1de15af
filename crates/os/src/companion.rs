//! Two loops on one thread: a core that runs another core's loop in each of its own turns.
//!
//! Two ends of a connection on one CPU exchange their data while it is in the cache, if one thread
//! runs them in turns; with two threads the scheduler decides.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use block::{Doing, Nanos};

use crate::core::{Core, CoreState};
use crate::waker::Waker;

/// A loop with its own core that another core of the same thread runs.
pub trait Companion {
    /// Runs the loop once, without waiting.
    fn turn(&mut self) -> io::Result<Turned>;

    /// Core of the loop: its events end the sleep of both cores.
    fn core(&self) -> &Core;
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// Whether the turn did any work.
    pub busy: bool,
    /// Time at which the next turn is needed, without an event before.
    pub wake: Option<Nanos>,
}

/// A companion, shared by the core that runs it and the thread that owns it.
pub type SharedCompanion = Rc<RefCell<dyn Companion>>;

/// A job that runs on a thread with its own loop, which becomes its companion.
pub type Job = Box<dyn FnOnce(SharedCompanion) + Send>;

/// A thread whose own loop also runs others.
#[derive(Clone, Debug)]
pub struct SharedThread {
    cpu: usize,
    jobs: Sender<Job>,
    waker: Waker,
}

impl SharedThread {
    /// The thread on CPU `cpu` that receives its jobs from `jobs` when `waker` wakes it.
    pub fn new(cpu: usize, jobs: Sender<Job>, waker: Waker) -> SharedThread {
        SharedThread { cpu, jobs, waker }
    }

    /// CPU of the thread.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Queues a job on the thread. False, and the job is dropped, if the thread is gone.
    pub fn run(&self, job: Job) -> bool {
        let sent = self.jobs.send(job).is_ok();
        self.waker.wake();
        sent
    }
}

/// Time of a thread with a companion, by the clock. The clock includes time in which other threads
/// have the CPU: the companion's share of the awake time is also its share of the thread's CPU
/// time.
#[derive(Debug, Default)]
pub struct SharedTime {
    companion_ns: AtomicU64,
    awake_ns: AtomicU64,
}

impl SharedTime {
    /// Time of the companion's busy turns.
    pub fn companion(&self) -> Nanos {
        Nanos(self.companion_ns.load(Ordering::Relaxed))
    }

    /// All time except sleeping and yielding.
    pub fn awake(&self) -> Nanos {
        Nanos(self.awake_ns.load(Ordering::Relaxed))
    }

    /// Adds the times of a turn. Only one thread calls this.
    fn add(&self, companion: Nanos, awake: Nanos) {
        for (sum, part) in [(&self.companion_ns, companion), (&self.awake_ns, awake)] {
            sum.store(sum.load(Ordering::Relaxed) + part.0, Ordering::Relaxed);
        }
    }
}

/// A companion of a core.
pub(crate) struct Company {
    companion: SharedCompanion,
    time: Arc<SharedTime>,
    /// Time up to which turns are counted.
    counted: Nanos,
    /// Time since then in which the thread slept or yielded.
    away: Nanos,
    wake: Option<Nanos>,
    /// Ends a sleep of the core.
    bell: Waker,
}

impl Core {
    /// Runs `companion` in each turn of this core from now on, and counts in `time` the time that
    /// both take.
    pub fn share(&self, companion: SharedCompanion, time: Arc<SharedTime>) -> io::Result<()> {
        let (bell, _) = self.waker()?;
        let (counted, away) = (self.now(), Nanos(0));
        let company = Company { companion, time, counted, away, wake: None, bell };
        self.state.borrow_mut().company = Some(company);
        Ok(())
    }

    /// Submits queued operations, without reaping completions.
    pub fn submit(&self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        if state.ring().has_submission() { state.ring().submit() } else { Ok(()) }
    }

    /// Runs the companion's turn; returns whether it had work.
    #[inline]
    pub(crate) fn turn_companion(&self, state: &mut CoreState) -> io::Result<bool> {
        let Some(company) = &mut state.company else { return Ok(false) };
        let start = self.now();
        let turned = company.companion.borrow_mut().turn()?;
        company.wake = turned.wake;
        let end = if turned.busy { self.now() } else { start };
        let awake = end.since(company.counted).since(company.away);
        company.time.add(end.since(start), awake);
        (company.counted, company.away) = (end, Nanos(0));
        if turned.busy {
            state.note(Doing::Companion, start, end);
        }
        Ok(turned.busy)
    }
}

impl CoreState {
    /// The thread slept or yielded for so long.
    #[inline]
    pub(crate) fn was_away(&mut self, span: Nanos) {
        if let Some(company) = &mut self.company {
            company.away = company.away + span;
        }
    }

    /// Time at which the companion needs its next turn.
    pub(crate) fn companion_wake(&self) -> Option<Nanos> {
        self.company.as_ref()?.wake
    }

    /// Registers the companion's completions with this core's waker, because both are about to
    /// sleep. False if they may not sleep: a completion is there, or must be polled for.
    pub(crate) fn prepare_companion_sleep(&self) -> io::Result<bool> {
        let Some(company) = &self.company else { return Ok(true) };
        let companion = company.companion.borrow();
        let mut other = companion.core().state.borrow_mut();
        if other.must_poll() {
            return Ok(false);
        }
        other.watch_direct()?;
        other.ring().register_eventfd(Some(&company.bell))?;
        other.ring().submit()?;
        if other.ring().needs_entry() || other.ring().has_completion() {
            other.ring().register_eventfd(None)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Unregisters the bell: both cores are awake.
    pub(crate) fn wake_companion(&self) -> io::Result<()> {
        let Some(company) = &self.company else { return Ok(()) };
        company.companion.borrow().core().state.borrow_mut().ring().register_eventfd(None)
    }
}
