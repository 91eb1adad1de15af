//! A thread's lane to the volume, and the I/Os queued for it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use block::{Buf, Done, Fault, Geometry, Io, Lane, Nanos, Op, Pool, Tag};
use os::{Core, Waker};
use rustix::io::Errno;
use volume::Volume;

use crate::{AttachError, Shared};

/// Time limit for an orderly end of a lane.
const LEAVING: Nanos = Nanos::from_secs(2);
/// Tag of a flush that no request caused.
const OWN_FLUSH: Tag = Tag(u64::MAX);

/// A lane on the core of its thread.
pub(crate) struct Station<'a> {
    shared: &'a Shared,
    pub(crate) core: Core,
    pub(crate) geometry: Geometry,
    lane: Box<dyn Lane>,
    ios: VecDeque<Io>,
    done: Vec<Done>,
    flushed: Option<Result<(), Fault>>,
}

impl<'a> Station<'a> {
    /// Pins the thread and opens a lane for at most `most` I/Os.
    pub(crate) fn open(
        shared: &'a Shared,
        volume: &dyn Volume,
        cpu: Option<usize>,
        pool: Pool,
        most: usize,
    ) -> Result<(Station<'a>, Waker), AttachError> {
        if let Some(cpu) = cpu {
            os::cpu::pin(cpu)?;
        }
        let core = Core::open(pool).map_err(io::Error::other)?;
        let (waker, _) = core.waker()?;
        let lane = volume.lane(&core)?;
        let station = Station {
            shared,
            core,
            geometry: volume.byte_geometry(),
            lane,
            ios: VecDeque::with_capacity(most),
            done: Vec::with_capacity(most),
            flushed: None,
        };
        Ok((station, waker))
    }

    /// Queues an I/O for the lane.
    pub(crate) fn push(&mut self, io: Io) {
        self.ios.push_back(io);
    }

    /// Time at which the lane needs to be driven without an event of its core.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.lane.wake()
    }

    /// Submits queued I/Os to the lane and returns completions, in a list that is to be given
    /// [back](Self::give_back).
    pub(crate) fn drive(&mut self) -> Vec<Done> {
        let now = self.core.now();
        let mut done = std::mem::take(&mut self.done);
        self.lane.poll(now, &mut done);
        self.lane.submit(now, &mut self.ios);
        self.lane.poll(now, &mut done);
        if self.lane.broken().is_some() {
            self.tell_of_loss();
            done.extend(self.ios.drain(..).map(|io| io.failed(Fault::Disconnected)));
        }
        done
    }

    /// Keeps the empty list for the next time.
    pub(crate) fn give_back(&mut self, done: Vec<Done>) {
        debug_assert!(done.is_empty());
        self.done = done;
    }

    #[cold]
    fn tell_of_loss(&self) {
        if !self.shared.has_told.swap(true, Ordering::Relaxed) {
            let why = self.lane.broken().unwrap_or_default();
            (self.shared.log)(&format!(
                "the volume is lost and all I/Os fail: {why}; detach it and attach it again (with \
                ?reconnect=60s a remote volume reconnects)"
            ));
        }
    }

    /// Makes all data durable, and ends the lane cleanly. `answer` gets the completions meanwhile.
    pub(crate) fn leave(&mut self, mut answer: impl FnMut(Done)) -> Result<(), Fault> {
        let flush = Io { tag: OWN_FLUSH, op: Op::Flush, fua: false, len: 0, offset: 0, buf: None };
        self.ios.push_back(flush);
        while self.flushed.is_none() {
            if self.drive_on(&mut answer) == 0 && !self.turn(None) {
                return Err(Fault::Disconnected);
            }
        }
        let end = self.core.now() + LEAVING;
        while self.core.now() < end && !self.lane.close(self.core.now()) {
            self.drive_on(&mut answer);
            if !self.turn(Some(end)) {
                break;
            }
        }
        self.flushed.unwrap_or(Err(Fault::Disconnected))
    }

    fn drive_on(&mut self, answer: &mut impl FnMut(Done)) -> usize {
        let mut done = self.drive();
        let count = done.len();
        for done in done.drain(..) {
            match done.tag {
                OWN_FLUSH => self.flushed = Some(done.result),
                _ => answer(done),
            }
        }
        self.give_back(done);
        count
    }

    /// Waits for an event of the lane. False if the core has failed.
    fn turn(&mut self, end: Option<Nanos>) -> bool {
        let until = self.lane.wake().into_iter().chain(end).min();
        self.core.turn(until, &mut Vec::new()).is_ok()
    }
}

/// Creates a thread's parts, reports the result to the waiting thread, and returns them.
pub(crate) fn begin<T>(
    shared: &Shared,
    tell: &Sender<Result<(), AttachError>>,
    set_up: impl FnOnce() -> Result<(T, Waker), AttachError>,
) -> Option<T> {
    let (parts, told) = match set_up() {
        Ok((parts, waker)) => {
            shared.wakes(waker);
            (Some(parts), Ok(()))
        }
        Err(error) => (None, Err(error)),
    };
    // The receiver is gone if another thread could not start.
    let _ = tell.send(told);
    parts
}

/// A buffer of the pool, or an error.
pub(crate) fn take(pool: &Pool, len_bytes: usize) -> Result<Buf, AttachError> {
    let full = || io::Error::from(io::ErrorKind::OutOfMemory).into();
    pool.take(len_bytes).ok_or_else(full)
}

/// Errno that a program gets for a fault.
pub(crate) fn errno_of(fault: Fault) -> Errno {
    match fault {
        Fault::OutOfRange => Errno::INVAL,
        Fault::ReadOnly => Errno::ROFS,
        Fault::NoSpace => Errno::NOSPC,
        Fault::Unsupported => Errno::OPNOTSUPP,
        Fault::Medium
        | Fault::Miscompare
        | Fault::Disconnected
        | Fault::Aborted
        | Fault::Unanswered => Errno::IO,
    }
}
