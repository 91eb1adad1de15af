//! A lane behind a write cache: writes are acknowledged once cached.
//!
//! Reads see the cache over the medium. A flush or FUA write waits until its data is on the medium,
//! whichever lane writes the data, unless the cache ignores flushes. Evictions complete before the
//! write that needs the room is acknowledged. Closing writes everything to the medium, as drives do
//! on a shutdown.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use block::{Buf, Cause, Done, Fault, Geometry, Io, Lane, Nanos, Op, Pool, Tag};

use super::cache::{Cache, Manner, Run};

/// Interval at which a lane checks whether other lanes have written blocks.
const LOOK: Nanos = Nanos(200_000);
/// Maximum number of I/Os of one flush at once. Tests exceed it.
const RUNS_MAX: usize = if cfg!(test) { 2 } else { 32 };

pub(super) struct CachedLane {
    cache: Arc<Cache>,
    inner: Box<dyn Lane>,
    pool: Pool,
    slots: Vec<Option<Inner>>,
    free: Vec<u32>,
    tasks: Vec<Option<Task>>,
    /// I/Os for the inner lane.
    batch: VecDeque<Io>,
    finished: Vec<Done>,
    ready: Vec<Done>,
    looked: Nanos,
    /// The whole cache is being written to the medium before closing.
    closing: bool,
}

/// The purpose of an I/O of the inner lane.
enum Inner {
    /// The caller's I/O, unchanged, with the cached blocks if it is a read.
    Owners { tag: Tag, overlay: Vec<(usize, Box<[u8]>)> },
    /// A run being written to the medium.
    Run { run: Run, task: usize },
    /// Last I/O of a task, and the blocks that it changes.
    Last { task: usize, claimed: Option<Run> },
}

/// A caller's I/O that needs several I/Os of the inner lane.
struct Task {
    /// `None` for a task of the lane itself.
    tag: Option<Tag>,
    buf: Option<Buf>,
    step: Step,
    /// Runs in flight of the task.
    in_flight: u32,
    result: Result<(), (Fault, Cause)>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Evicts blocks for a write.
    Room,
    /// Writes a range's blocks to the medium, as far as written by `upto`.
    Clear { range: Range<u64>, upto: u64, then: Then },
    /// Waits until no other I/O changes the I/O's blocks.
    Claim { op: Op, offset: u64, len: u32, fua: bool },
    /// The task's last I/O is in flight.
    Last,
}

/// The step after a range is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Answer,
    /// Flush the medium.
    Flush,
    /// Runs are written with FUA. If other tasks wrote some of the blocks, the medium is flushed:
    /// this many were not written by the task itself.
    Durable(u64),
}

impl CachedLane {
    pub(super) fn new(cache: Arc<Cache>, inner: Box<dyn Lane>, pool: Pool) -> CachedLane {
        CachedLane {
            cache,
            inner,
            pool,
            slots: Vec::new(),
            free: Vec::new(),
            tasks: Vec::new(),
            batch: VecDeque::new(),
            finished: Vec::new(),
            ready: Vec::new(),
            looked: Nanos(0),
            closing: false,
        }
    }

    fn begin(&mut self, io: Io) {
        let manner = self.cache.manner();
        let is_through = manner == Manner::Through && self.cache.is_empty();
        if is_through || io.op == Op::Read || self.inner.geometry().check(&io).is_err() {
            return self.pass(io);
        }
        let lies = manner == Manner::Lying;
        let Io { tag, op, fua, len, offset, buf } = io;
        match op {
            Op::Flush if lies => {
                self.cache.lied();
                self.answer(Some(tag), Ok(()), buf);
            }
            Op::Flush => self.clear_all(Some(tag), buf),
            Op::Read | Op::Write => self.write(Io { tag, op, fua, len, offset, buf }, manner),
            Op::Trim | Op::WriteZeroes => {
                let step = Step::Claim { op, offset, len, fua: fua && !lies };
                self.start(Some(tag), buf, step);
            }
        }
    }

    /// Passes an I/O to the inner lane unchanged.
    fn pass(&mut self, io: Io) {
        let is_overlaid = io.op == Op::Read && !self.cache.is_empty();
        let overlay = match is_overlaid {
            true => self.cache.overlay(io.offset, io.len),
            false => Vec::new(),
        };
        self.send(Inner::Owners { tag: io.tag, overlay }, io);
    }

    fn write(&mut self, io: Io, manner: Manner) {
        let Io { tag, offset, len, fua, buf, .. } = io;
        let data = buf.as_ref().map_or(&[][..], |buf| &buf[..len as usize]);
        let (number, room) = self.cache.write(offset, data);
        let range = self.cache.blocks_of(offset, len);
        let then = match manner {
            Manner::Through if !fua => Some(Then::Answer),
            Manner::Lying => None,
            _ => fua.then_some(Then::Durable(range.end - range.start)),
        };
        if fua && manner == Manner::Lying {
            self.cache.lied();
        }
        match then {
            Some(then) => {
                // The eviction is a separate task: a write that goes to the medium does not wait
                // for it.
                let room_for =
                    if room.is_empty() { None } else { Some(self.enter_room(None, None)) };
                self.bring(room_for, room, false);
                self.start(Some(tag), buf, Step::Clear { range, upto: number, then });
            }
            None if room.is_empty() => self.answer(Some(tag), Ok(()), buf),
            None => {
                let task = self.enter_room(Some(tag), buf);
                self.bring(Some(task), room, false);
            }
        }
    }

    fn enter_room(&mut self, tag: Option<Tag>, buf: Option<Buf>) -> usize {
        self.enter(Task { tag, buf, step: Step::Room, in_flight: 0, result: Ok(()) })
    }

    fn clear_all(&mut self, tag: Option<Tag>, buf: Option<Buf>) {
        let (range, upto) = (0..u64::MAX, self.cache.writes());
        self.start(tag, buf, Step::Clear { range, upto, then: Then::Flush });
    }

    fn start(&mut self, tag: Option<Tag>, buf: Option<Buf>, step: Step) {
        let task = self.enter(Task { tag, buf, step, in_flight: 0, result: Ok(()) });
        self.go_on(task);
    }

    fn enter(&mut self, task: Task) -> usize {
        match self.tasks.iter().position(Option::is_none) {
            Some(free) => {
                self.tasks[free] = Some(task);
                free
            }
            None => {
                self.tasks.push(Some(task));
                self.tasks.len() - 1
            }
        }
    }

    /// Continues a task as far as possible.
    fn go_on(&mut self, number: usize) {
        let Some(task) = &self.tasks[number] else { return };
        match task.step.clone() {
            Step::Last => {}
            Step::Room if task.in_flight > 0 => {}
            Step::Room => self.finish(number, Ok(())),
            Step::Clear { range, upto, then } => {
                let (result, in_flight) = (task.result, task.in_flight);
                // A failed run is not retried for the same task.
                if result.is_ok() {
                    let room = RUNS_MAX.saturating_sub(in_flight as usize);
                    let left = self.cache.left(range, upto, room);
                    let is_there = left.runs.is_empty() && !left.more;
                    self.bring(Some(number), left.runs, matches!(then, Then::Durable(_)));
                    if !is_there {
                        return;
                    }
                }
                match (in_flight, result, then) {
                    (1.., ..) => {}
                    (0, Ok(()), Then::Flush | Then::Durable(1..)) => {
                        self.last(number, Op::Flush, (0, 0), (false, None));
                    }
                    (0, ..) => self.finish(number, result),
                }
            }
            Step::Claim { .. } if task.result.is_err() => {
                if task.in_flight == 0 {
                    let result = task.result;
                    self.finish(number, result);
                }
            }
            Step::Claim { op, offset, len, fua } => match self.cache.claim(offset, len) {
                Some(run) => self.last(number, op, (offset, len), (fua, Some(run))),
                None => {
                    let runs = self.cache.survivors(offset, len);
                    self.bring(Some(number), runs, true);
                }
            },
        }
    }

    /// Submits the last I/O of a task.
    fn last(
        &mut self,
        number: usize,
        op: Op,
        (offset, len): (u64, u32),
        (fua, claimed): (bool, Option<Run>),
    ) {
        if let Some(task) = &mut self.tasks[number] {
            task.step = Step::Last;
        }
        let io = Io { tag: Tag(0), op, fua, len, offset, buf: None };
        self.send(Inner::Last { task: number, claimed }, io);
    }

    /// Writes runs to the medium.
    fn bring(&mut self, number: Option<usize>, runs: Vec<Run>, fua: bool) {
        let Some(number) = number else { return };
        for run in runs {
            let Some(mut buf) = self.pool.take_beyond(run.data.len()) else {
                // Out of memory.
                self.cache.arrived(&run, false);
                self.failed(number, (Fault::Aborted, Cause::NONE));
                continue;
            };
            buf[..run.data.len()].copy_from_slice(&run.data);
            let (offset, len) = (run.first * self.cache.block_bytes, run.data.len() as u32);
            if let Some(task) = &mut self.tasks[number] {
                task.in_flight += 1;
            }
            let fua = fua || run.safe;
            let io = Io { tag: Tag(0), op: Op::Write, fua, len, offset, buf: Some(buf) };
            self.send(Inner::Run { run, task: number }, io);
        }
    }

    fn failed(&mut self, number: usize, why: (Fault, Cause)) {
        if let Some(task) = &mut self.tasks[number] {
            task.result = task.result.and(Err(why));
        }
    }

    fn send(&mut self, what: Inner, io: Io) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(what);
                slot
            }
            None => {
                self.slots.push(Some(what));
                self.slots.len() as u32 - 1
            }
        };
        self.batch.push_back(Io { tag: Tag(slot.into()), ..io });
    }

    fn finish(&mut self, number: usize, result: Result<(), (Fault, Cause)>) {
        if let Some(Task { tag, buf, .. }) = self.tasks[number].take() {
            self.answer(tag, result, buf);
        }
    }

    fn answer(&mut self, tag: Option<Tag>, result: Result<(), (Fault, Cause)>, buf: Option<Buf>) {
        let Some(tag) = tag else { return };
        let cause = result.map_or_else(|(_, cause)| cause, |()| Cause::NONE);
        let result = result.map_err(|(fault, _)| fault);
        self.ready.push(Done { tag, result, cause, buf });
    }

    /// Collects completions of the inner lane.
    fn gather(&mut self, now: Nanos) {
        self.inner.poll(now, &mut self.finished);
        let mut finished = std::mem::take(&mut self.finished);
        for Done { tag, result, cause, buf } in finished.drain(..) {
            let told = result.map_err(|fault| (fault, cause));
            self.free.push(tag.0 as u32);
            match self.slots[tag.0 as usize].take() {
                Some(Inner::Owners { tag, overlay }) => {
                    let buf = overlaid(buf, &overlay, result.is_ok());
                    self.ready.push(Done { tag, result, cause, buf });
                }
                Some(Inner::Run { run, task }) => {
                    self.cache.arrived(&run, result.is_ok());
                    buf.into_iter().for_each(|buf| self.pool.give(buf));
                    self.run_arrived(task, &run, told);
                }
                Some(Inner::Last { task, claimed }) => {
                    if let Some(run) = claimed {
                        self.cache.arrived(&run, result.is_ok());
                    }
                    self.finish(task, told);
                }
                None => debug_assert!(false, "an answer to nothing"),
            }
        }
        self.finished = finished;
    }

    fn run_arrived(&mut self, number: usize, run: &Run, told: Result<(), (Fault, Cause)>) {
        if let Some(task) = &mut self.tasks[number] {
            task.in_flight -= 1;
            if let (Ok(()), Step::Clear { range, then: Then::Durable(owed), .. }) =
                (told, &mut task.step)
            {
                *owed = owed.saturating_sub(run.blocks_in(range));
            }
        }
        if let Err(why) = told {
            self.failed(number, why);
        }
    }

    fn waits(&self) -> bool {
        self.tasks.iter().any(Option::is_some)
    }
}

/// Puts cached blocks over read data.
fn overlaid(mut buf: Option<Buf>, overlay: &[(usize, Box<[u8]>)], was_read: bool) -> Option<Buf> {
    if let (Some(buf), true) = (&mut buf, was_read) {
        for (at, data) in overlay {
            buf[*at..*at + data.len()].copy_from_slice(data);
        }
    }
    buf
}

impl Lane for CachedLane {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        for io in ios.drain(..) {
            self.begin(io);
        }
        self.inner.submit(now, &mut self.batch);
        // Ready completions need no further turn.
        if self.inner.wake().is_some_and(|at| at <= now) {
            self.gather(now);
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.gather(now);
        if self.waits() {
            self.looked = now;
            (0..self.tasks.len()).for_each(|task| self.go_on(task));
            self.inner.submit(now, &mut self.batch);
        }
        done.append(&mut self.ready);
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        let look = self.waits().then_some(self.looked + LOOK);
        self.inner.wake().into_iter().chain(look).min()
    }

    fn inner(&self) -> Option<&dyn Lane> {
        Some(&*self.inner)
    }

    fn close(&mut self, now: Nanos) -> bool {
        if !std::mem::replace(&mut self.closing, true) && !self.cache.is_empty() {
            self.clear_all(None, None);
        }
        let is_over = !self.waits();
        is_over && self.inner.close(now) && self.free.len() == self.slots.len()
    }
}
