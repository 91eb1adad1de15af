//! A lane: a queue of a device in another process.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{Cause, Connection, Done, Fault, Geometry, Io, Lane, Nanos, Op};
use os::{Core, EventSet};
use proto::virtio::Completed;

use super::{Device, Line, SLOT_BYTES};

/// Time without completions after which a lane waits for an interrupt: a wake takes as long.
const SPIN: Nanos = Nanos(50_000);
/// Polls without completions before each yield of the CPU, which the device may need.
const POLLS_PER_YIELD: u32 = 32;
/// Keys of the events.
const CALL: u64 = 0;
const LINK: u64 = 1;
/// Length of a sector.
const SECTOR_BYTES: u64 = proto::virtio::SECTOR_BYTES;

/// A part of an I/O in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Index of its I/O.
    io: u32,
    /// Offset in the I/O.
    at: u32,
    len: u32,
}

/// An I/O with parts in flight.
#[derive(Debug)]
struct Flight {
    io: Io,
    parts: u32,
    result: Result<(), Fault>,
    cause: Cause,
    /// A write that is durable only after a flush.
    flushes: bool,
}

/// A lane to a device.
pub(super) struct VhostLane {
    core: Core,
    device: Arc<Device>,
    /// `None` once the lane is dropped.
    line: Option<Line>,
    events: EventSet,
    parts: Vec<Part>,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// An I/O whose parts are not all started, and the offset of the next.
    rest: Option<(u32, u32)>,
    ready: Vec<Done>,
    /// Time of the last completion, or of the first submission after idling.
    last: Nanos,
    /// Waits for an interrupt.
    sleeps: bool,
    idle_polls: u32,
    broken: Option<String>,
    lost: u64,
}

impl VhostLane {
    pub(super) fn new(core: &Core, device: Arc<Device>, line: Line) -> io::Result<VhostLane> {
        let events = EventSet::new(core)?;
        events.add(&line.call, CALL)?;
        events.add(&device.link, LINK)?;
        let slots = line.queue.free();
        let mut lane = VhostLane {
            core: core.clone(),
            device,
            line: Some(line),
            events,
            parts: vec![Part::default(); usize::from(super::QUEUE_SIZE)],
            flights: (0..=slots).map(|_| None).collect(),
            free: (0..=slots as u32).rev().collect(),
            rest: None,
            ready: Vec::with_capacity(slots),
            last: core.now(),
            sleeps: false,
            idle_polls: 0,
            broken: None,
            lost: 0,
        };
        if let Some(line) = &mut lane.line {
            line.queue.silence();
        }
        Ok(lane)
    }

    fn in_flight(&self) -> u16 {
        self.line.as_ref().map_or(0, |line| line.queue.in_flight())
    }

    /// Fails all I/Os: the device is unusable.
    #[cold]
    fn fail(&mut self, why: String, fault: Fault) {
        if self.broken.is_none() {
            self.broken = Some(why);
            self.lost = 1;
        }
        self.device.dead.store(true, Ordering::Relaxed);
        self.rest = None;
        for (at, flight) in (0..).zip(&mut self.flights) {
            if let Some(flight) = flight.take() {
                self.free.push(at);
                self.ready.push(flight.io.failed(fault));
            }
        }
    }

    /// Length of the next part of an operation.
    fn part_most(&self, op: Op) -> u64 {
        let config = &self.device.known.config;
        match op {
            Op::Read | Op::Write => SLOT_BYTES,
            Op::Trim => u64::from(config.discard_sectors_most) * SECTOR_BYTES,
            Op::WriteZeroes => u64::from(config.zeroes_sectors_most) * SECTOR_BYTES,
            Op::Flush => u64::MAX,
        }
    }

    /// Whether the device has the operation.
    fn check(&self, io: &Io) -> Result<(), Fault> {
        self.device.geometry.check(io)?;
        let features = self.device.known.features;
        let has = match io.op {
            Op::Trim => features.discards() && self.part_most(io.op) > 0,
            Op::WriteZeroes => features.writes_zeroes() && self.part_most(io.op) > 0,
            Op::Read | Op::Write | Op::Flush => true,
        };
        if has { Ok(()) } else { Err(Fault::Unsupported) }
    }

    /// Starts the parts of an I/O from `at` on, as far as slots are free. Whether all started.
    fn start(&mut self, index: u32, mut at: u32) -> bool {
        let most = self.flights[index as usize].as_ref().map_or(0, |one| self.part_most(one.io.op));
        let (Some(line), Some(Some(flight))) =
            (&mut self.line, self.flights.get_mut(index as usize))
        else {
            return true;
        };
        loop {
            let Flight { io, parts, .. } = flight;
            let len = u64::from(io.len - at).min(most) as u32;
            let data = match (io.op, &io.buf) {
                (Op::Write, Some(buf)) => Some(&buf[at as usize..(at + len) as usize]),
                _ => None,
            };
            let slot = line.queue.start(io.op, io.offset + u64::from(at), len, data);
            let Some(slot) = slot else {
                self.rest = Some((index, at));
                return false;
            };
            self.parts[usize::from(slot)] = Part { io: index, at, len };
            *parts += 1;
            at += len;
            if at >= io.len {
                return true;
            }
        }
    }

    /// Handles a completed part.
    #[inline]
    fn complete(&mut self, done: Completed) {
        let Some(line) = &mut self.line else { return };
        let part = self.parts[usize::from(done.slot)];
        let Some(Some(flight)) = self.flights.get_mut(part.io as usize) else { return };
        if let (Ok(()), Op::Read, Some(buf)) = (done.result, flight.io.op, &mut flight.io.buf) {
            let to = &mut buf[part.at as usize..(part.at + part.len) as usize];
            line.queue.read_data(done.slot, to);
        }
        line.queue.release(done.slot);
        if let (Err(_), Ok(())) = (done.result, flight.result) {
            (flight.result, flight.cause) = (done.result, done.cause);
        }
        flight.parts -= 1;
        if flight.parts > 0 || self.rest.is_some_and(|(index, _)| index == part.io) {
            return;
        }
        if std::mem::take(&mut flight.flushes) && flight.result.is_ok() {
            // The slot of the last part is free.
            if let Some(slot) = line.queue.start(Op::Flush, 0, 0, None) {
                self.parts[usize::from(slot)] = Part { io: part.io, at: 0, len: 0 };
                flight.parts = 1;
                flight.io.op = Op::Flush;
                return;
            }
        }
        if let Some(Flight { io, result, cause, .. }) = self.flights[part.io as usize].take() {
            self.free.push(part.io);
            self.ready.push(Done { tag: io.tag, result, cause, buf: io.buf });
        }
    }

    /// Takes completions. Whether there were any.
    fn take(&mut self) -> bool {
        let mut any = false;
        loop {
            let Some(line) = &mut self.line else { return any };
            match line.queue.poll() {
                Ok(Some(done)) => {
                    any = true;
                    self.complete(done);
                }
                Ok(None) => return any,
                Err(violation) => {
                    self.fail(format!("the device breaks a rule: {violation}"), Fault::Medium);
                    return true;
                }
            }
        }
    }

    /// Starts what has room.
    fn start_rest(&mut self) {
        while let Some((index, at)) = self.rest.take() {
            if !self.start(index, at) {
                return;
            }
        }
    }

    /// Shows the device the new requests.
    fn publish(&mut self) {
        if let Some(line) = &mut self.line
            && line.queue.publish()
        {
            line.kick.signal();
        }
    }

    /// Waits for an interrupt, unless completions are there already.
    fn sleep(&mut self) {
        let Some(line) = &mut self.line else { return };
        if line.queue.listen() {
            line.queue.silence();
            return;
        }
        self.sleeps = true;
        if let Err(error) = self.events.await_events(&self.core) {
            self.fail(error.to_string(), Fault::Medium);
        }
    }

    /// Looks for the end of the connection, and arms the events again.
    fn look(&mut self, now: Nanos) {
        let mut keys = Vec::new();
        let taken = self.events.take(&mut keys);
        let armed = taken.and_then(|()| self.events.await_events(&self.core));
        if let Err(error) = armed {
            return self.fail(error.to_string(), Fault::Medium);
        }
        if self.device.is_dead() || keys.contains(&LINK) && self.device.has_closed() {
            // Requests that the device answered before its end are answered.
            self.take();
            return self.fail("the device closed the connection".to_owned(), Fault::Disconnected);
        }
        if self.in_flight() > 0 && now.since(self.last) >= proto::IO_TIMEOUT {
            let why = "the device did not answer an I/O in time".to_owned();
            self.fail(why, Fault::Unanswered);
        }
    }
}

impl Lane for VhostLane {
    fn geometry(&self) -> Geometry {
        self.device.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if self.broken.is_some() {
            self.ready.extend(ios.drain(..).map(|io| io.failed(Fault::Disconnected)));
            return;
        }
        if self.in_flight() == 0 {
            self.last = now;
        }
        self.start_rest();
        while self.rest.is_none() && !self.free.is_empty() {
            if self.line.as_ref().is_none_or(|line| line.queue.free() == 0) {
                break;
            }
            let Some(io) = ios.pop_front() else { break };
            if let Err(fault) = self.check(&io) {
                self.ready.push(io.failed(fault));
                continue;
            }
            let volatile = self.device.known.features.flushes();
            if io.len == 0 && io.op != Op::Flush || io.op == Op::Flush && !volatile {
                let (tag, buf) = (io.tag, io.buf);
                self.ready.push(Done { tag, result: Ok(()), cause: Cause::NONE, buf });
                continue;
            }
            let Some(index) = self.free.pop() else { break };
            let flushes = io.fua && io.op == Op::Write && volatile;
            let flight = Flight { io, parts: 0, result: Ok(()), cause: Cause::NONE, flushes };
            self.flights[index as usize] = Some(flight);
            self.start(index, 0);
        }
        self.publish();
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        if self.take() {
            self.last = now;
            self.start_rest();
            self.publish();
            if std::mem::take(&mut self.sleeps)
                && let Some(line) = &mut self.line
            {
                line.queue.silence();
            }
        } else if self.broken.is_none() && (self.in_flight() > 0 || self.sleeps) {
            if self.sleeps {
                self.look(now);
            } else if now.since(self.last) >= SPIN || self.core.is_crowded(now) {
                self.sleep();
            } else {
                self.idle_polls = self.idle_polls.wrapping_add(1);
                if self.idle_polls.is_multiple_of(POLLS_PER_YIELD) {
                    self.core.yield_now();
                }
            }
        }
        done.append(&mut self.ready);
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        match (self.in_flight(), self.sleeps) {
            _ if self.broken.is_some() => None,
            (0, _) => None,
            (_, false) => Some(Nanos(0)),
            (_, true) => Some(self.last + proto::IO_TIMEOUT),
        }
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        match cause.0 {
            0 => None,
            1 => Some("VIRTIO_BLK_S_IOERR".to_owned()),
            2 => Some("VIRTIO_BLK_S_UNSUPP".to_owned()),
            other => Some(format!("status {other} of the device")),
        }
    }

    fn connection(&self, _: Nanos) -> Connection {
        Connection { lost: self.lost, ..Connection::default() }
    }
}

impl Drop for VhostLane {
    fn drop(&mut self) {
        let Some(line) = self.line.take() else { return };
        self.events.remove(&line.call);
        self.events.remove(&self.device.link);
        // A queue with requests in flight would answer the next lane's.
        if line.queue.in_flight() == 0 && self.broken.is_none() {
            self.device.give_back(line);
        }
    }
}
