//! Additional rings for files with polled I/O.
//!
//! Either the kernel polls the device for completions (IOPOLL), and the ring takes only such reads
//! and writes, or a kernel thread polls the ring for submissions (SQPOLL).

use block::{Count, Nanos};

use crate::clock::Clock;
use crate::core::CoreState;
use crate::ring::{OpenRingError, Ring};
use crate::sample;

/// Time within which a new SQPOLL thread must set its name.
const NAMING: Nanos = Nanos::from_secs(2);

/// Polling of a file's I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polling {
    /// `IORING_SETUP_IOPOLL`: poll the device for completions, without interrupts. Only direct I/O
    /// on a device with poll queues.
    pub completions: bool,
    /// `IORING_SETUP_SQPOLL`: a kernel thread polls for submissions. The thread keeps a CPU busy
    /// while there is work.
    pub submissions: bool,
}

impl Polling {
    /// Whether any kind of polling is used.
    pub fn any(self) -> bool {
        self.completions || self.submissions
    }
}

/// SQPOLL threads of the calling thread, for [`thread_cpu`](sample::thread_cpu).
pub fn poll_threads() -> Vec<i32> {
    // The kernel names them after the thread that created the ring. Linux 5.12.
    sample::threads_named(&[format!("iou-sqp-{}", sample::thread_id())])
}

/// io_uring worker threads of these threads, which execute operations that would block, for
/// [`thread_cpu`](sample::thread_cpu). Workers exist while there is such work, and some seconds
/// longer.
pub fn io_workers(of: &[i32]) -> Vec<i32> {
    // Named like SQPOLL threads.
    sample::threads_named(&of.iter().map(|thread| format!("iou-wrk-{thread}")).collect::<Vec<_>>())
}

/// A ring for one kind of polling.
pub(crate) struct PolledRing {
    polling: Polling,
    pub(crate) ring: Ring,
    /// I/Os in flight.
    pub(crate) in_flight: usize,
}

impl PolledRing {
    /// Enters the kernel if necessary, and moves completions to `batch`.
    fn turn(&mut self, batch: &mut Vec<(u64, i32, u32)>) {
        // An error leaves the submissions queued for the next turn. IOPOLL polls the device within
        // the call; an SQPOLL thread polls by itself.
        let _ = if self.polling.submissions { self.ring.submit() } else { self.ring.enter() };
        self.ring.take_completions(batch);
        self.in_flight.lower(batch.len());
    }
}

impl CoreState {
    /// The ring for a kind of polling, created on first use.
    pub(crate) fn open_polled(&mut self, polling: Polling) -> Result<usize, OpenRingError> {
        if let Some(known) = self.polled.iter().position(|polled| polled.polling == polling) {
            return Ok(known);
        }
        let before = poll_threads().len();
        let ring = Ring::open_polled(polling)?;
        // The new thread sets its name when it first runs; until then its CPU time cannot be
        // attributed.
        let clock = Clock::get();
        let end = clock.now() + NAMING;
        while polling.submissions && poll_threads().len() == before && clock.now() < end {
            std::thread::yield_now();
        }
        self.polled.push(PolledRing { polling, ring, in_flight: 0 });
        Ok(self.polled.len() - 1)
    }

    /// I/Os in flight in polled rings.
    pub(crate) fn polled_in_flight(&self) -> usize {
        self.polled.iter().map(|polled| polled.in_flight).sum()
    }

    /// Submits to and reaps from polled rings.
    #[inline]
    pub(crate) fn turn_polled(&mut self) {
        for index in 0..self.polled.len() {
            if self.polled[index].in_flight == 0 {
                continue;
            }
            let mut batch = std::mem::take(&mut self.batch);
            self.polled[index].turn(&mut batch);
            for (data, result, _) in batch.drain(..) {
                self.file_done(data as u32, (data >> 32) as u32 & 0xff_ffff, result);
            }
            self.batch = batch;
        }
    }
}
