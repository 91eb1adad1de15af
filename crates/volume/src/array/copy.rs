//! The keeper's jobs that make legs equal: each copies one region at a time from the leg that is
//! read there to all others, in windows that it claims as a writer does.

use block::{Nanos, Op, Plant, planted};

use super::map::{Event, Region};
use super::port::{Deed, Job, Port, legs};
use super::superblock::DATA_OFFSET;
use crate::mirror::Rules;

/// The number by which the keeper claims granules. Lanes have others.
pub(super) const KEEPER: u16 = u16::MAX;
/// Bytes that are copied at a time.
const WINDOW_BYTES: u64 = 256 << 10;
/// While clients have I/Os, copying rests for so many times as long as a window took.
const REST: u64 = 4;
/// How soon a region is tried again that could not be read.
const PAUSE: Nanos = Nanos::from_millis(1000);
/// How soon granules are asked for again.
const AGAIN: Nanos = Nanos(20_000);

pub(super) struct Copy {
    job: Job,
    /// What is copied, if anything is.
    region: Option<usize>,
    /// The window in it.
    at: u64,
    phase: Phase,
    /// Who is read, and who is written.
    from: usize,
    to: u32,
    tried: u32,
    /// How often legs had come to differ when the region was begun.
    differences: usize,
    begun: Nanos,
    wait: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Claim,
    Read,
    Write,
}

impl Copy {
    pub(super) fn new(job: Job) -> Copy {
        let (at, from, to, tried) = (0, 0, 0, 0);
        let (begun, wait, differences) = (Nanos(0), Nanos(0), 0);
        let (region, phase) = (None, Phase::Claim);
        Copy { job, region, at, phase, from, to, tried, differences, begun, wait }
    }

    pub(super) fn region(&self) -> Option<usize> {
        self.region
    }

    pub(super) fn wake(&self) -> Option<Nanos> {
        (self.region.is_some() && self.phase == Phase::Claim).then_some(self.wait)
    }

    /// Goes on; `next` finds a region that nobody copies yet.
    pub(super) fn step(
        &mut self,
        port: &mut Port,
        bytes: u64,
        next: impl FnOnce() -> Option<usize>,
    ) {
        if self.region.is_none() {
            self.region = next();
            (self.at, self.tried, self.to) = (0, 0, 0);
        }
        let Some(region) = self.region else { return };
        let region_bytes = port.shared.map.region_bytes();
        let start = region as u64 * region_bytes;
        let end = (start + region_bytes).min(bytes);
        let (offset, len) = (start + self.at, WINDOW_BYTES.min(end - start - self.at));
        match self.phase {
            Phase::Claim => self.claim(port, offset, len),
            Phase::Read => self.read_done(port, offset, len),
            Phase::Write => self.write_done(port, offset, len, end),
        }
    }

    fn claim(&mut self, port: &mut Port, offset: u64, len: u64) {
        if port.now < self.wait {
            return;
        }
        let shared = port.shared.clone();
        let all = shared.writers_now();
        let readers = shared.in_it() & !self.tried;
        let from = readers.trailing_zeros() as usize;
        if readers == 0 {
            // No leg can read it: the region waits.
            (self.tried, self.wait) = (0, port.now + PAUSE);
            return;
        }
        let to = all & !(1 << from);
        let differences = shared.map.differences();
        let same = (from, to, differences) == (self.from, self.to, self.differences);
        (self.from, self.to, self.differences) = (from, to, differences);
        if self.at > 0 && !same {
            // Others came or went: what was copied before they did is not on all.
            self.at = 0;
            return;
        }
        if to == 0 {
            shared.map.tell(self.region.expect("one is copied"), Event::Copied);
            self.region = None;
            return;
        }
        if !planted(Plant::CopyUnclaimed) && !shared.claims.claim(KEEPER, offset, len) {
            self.wait = port.now + AGAIN;
            return;
        }
        let Some(buf) = port.pool.take_beyond(len as usize) else {
            self.release(port, offset, len);
            self.wait = port.now + PAUSE;
            return;
        };
        self.begun = port.now;
        self.phase = Phase::Read;
        let (op, fua, buf, len) = (Op::Read, false, Some(buf), len as u32);
        port.send(self.job, from, Deed { op, offset: DATA_OFFSET + offset, len, fua, buf });
    }

    fn read_done(&mut self, port: &mut Port, offset: u64, len: u64) {
        let Some(mut outcome) = port.outcome(self.job) else { return };
        let buf = outcome.bufs.pop().map(|(_, buf)| buf);
        let Some(buf) = buf.filter(|_| outcome.bad == 0) else {
            self.release(port, offset, len);
            self.phase = Phase::Claim;
            self.tried |= 1 << self.from;
            port.shared.read_failed(self.from);
            return;
        };
        self.phase = Phase::Write;
        for leg in legs(self.to) {
            let (op, fua, buf) = (Op::Write, false, port.copy(&buf[..len as usize]));
            let (offset, len) = (DATA_OFFSET + offset, len as u32);
            port.send(self.job, leg, Deed { op, offset, len, fua, buf });
        }
        port.pool.give(buf);
    }

    fn write_done(&mut self, port: &mut Port, offset: u64, len: u64, end: u64) {
        let Some((_, bad)) = port.verdict(self.job) else { return };
        self.release(port, offset, len);
        let shared = port.shared.clone();
        for leg in legs(bad) {
            shared.leave(leg, &|| "a copy could not be written".to_owned());
        }
        self.phase = Phase::Claim;
        if shared.was_busy() {
            self.wait = port.now + Nanos(port.now.since(self.begun).0 * REST);
        }
        if bad != 0 {
            // From the start: who is left may have got less.
            (self.at, self.tried) = (0, 0);
            return;
        }
        self.at += len;
        if offset + len < end {
            return;
        }
        let region = self.region.take().expect("one is copied");
        // One that came meanwhile has not got all of it.
        let came = shared.writers_now() & !(1 << self.from) & !self.to;
        if came == 0 && shared.map.differences() == self.differences {
            shared.map.tell(region, Event::Copied);
        }
    }

    fn release(&self, port: &Port, offset: u64, len: u64) {
        if !planted(Plant::CopyUnclaimed) {
            port.shared.claims.release(KEEPER, offset, len);
        }
    }
}

/// A region that is behind, from `from` on and around.
pub(super) fn next_behind(port: &Port, from: usize, taken: &[Option<usize>]) -> Option<usize> {
    let map = &port.shared.map;
    if map.behind() == 0 {
        return None;
    }
    let behind =
        |region: &usize| map.get(*region) == Region::Behind && !taken.contains(&Some(*region));
    (from..map.len()).chain(0..from.min(map.len())).find(behind)
}
