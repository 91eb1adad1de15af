//! The keeper's jobs that make legs equal: each copies some regions that lie beside each other,
//! from the leg that is read there to all others, in windows that it claims as a writer does.
//!
//! While clients have no I/Os, all jobs copy at once, so that each leg always has something to do.
//! While they have, one window is copied at a time, and after it the legs are left to the clients
//! for a multiple of what it took: by [`Pace`].

use std::ops::Range;

use block::{Nanos, Op, Plant, planted};

use super::map::{Event, Region};
use super::port::{Deed, Job, Port, legs};
use super::superblock::DATA_OFFSET;
use crate::mirror::Rules;

/// The number by which the keeper claims granules. Lanes have others.
pub(super) const KEEPER: u16 = u16::MAX;
/// Bytes that are copied at a time.
const WINDOW_BYTES: u64 = 256 << 10;
/// The same where a writer was met.
const NARROW_BYTES: u64 = 64 << 10;
/// While clients have I/Os, copying rests for so many times as long as a window took: a sixth of
/// the time is copied.
const REST: u64 = 5;
/// How soon a region is tried again that could not be read.
const PAUSE: Nanos = Nanos::from_millis(1000);
/// How soon granules are asked for again.
const AGAIN: Nanos = Nanos(20_000);

/// When windows may be copied.
#[derive(Default)]
pub(super) struct Pace {
    under_way: u32,
    /// Clients had I/Os when a window ended last.
    busy: bool,
    rest_until: Nanos,
}

impl Pace {
    fn begins(&mut self, now: Nanos) -> bool {
        let begins = !self.busy || (self.under_way == 0 && now >= self.rest_until);
        self.under_way += u32::from(begins);
        begins
    }

    /// `busy` tells that clients had I/Os since this was called last.
    fn ends(&mut self, now: Nanos, begun: Nanos, busy: bool) {
        self.under_way -= 1;
        if busy {
            self.busy = true;
            self.rest_until = self.rest_until.max(now + Nanos(now.since(begun).0 * REST));
        } else if now >= self.rest_until {
            self.busy = false;
        }
    }

    /// When a job that may go on then may begin a window; `None` while it waits for another's.
    fn wake(&self, from: Nanos) -> Option<Nanos> {
        match (self.busy, self.under_way) {
            (false, _) => Some(from),
            (true, 0) => Some(from.max(self.rest_until)),
            (true, _) => None,
        }
    }
}

pub(super) struct Copy {
    job: Job,
    /// What is copied, if anything is.
    regions: Option<Range<usize>>,
    /// The window in it, and its bytes.
    at: u64,
    len: u64,
    /// A writer was met.
    narrow: bool,
    phase: Phase,
    /// Who is read, and who is written.
    from: usize,
    to: u32,
    tried: u32,
    /// How often legs had come to differ when the regions were begun.
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
        Copy {
            job,
            regions: None,
            at: 0,
            len: 0,
            narrow: false,
            phase: Phase::Claim,
            from: 0,
            to: 0,
            tried: 0,
            differences: 0,
            begun: Nanos(0),
            wait: Nanos(0),
        }
    }

    pub(super) fn regions(&self) -> Option<Range<usize>> {
        self.regions.clone()
    }

    pub(super) fn wake(&self, pace: &Pace) -> Option<Nanos> {
        let claims = self.regions.is_some() && self.phase == Phase::Claim;
        if claims { pace.wake(self.wait) } else { None }
    }

    /// Goes on; `next` are regions that nobody copies yet.
    pub(super) fn step(
        &mut self,
        port: &mut Port,
        pace: &mut Pace,
        bytes: u64,
        next: Option<Range<usize>>,
    ) {
        if self.regions.is_none() {
            self.regions = next;
            (self.at, self.tried, self.to) = (0, 0, 0);
        }
        let Some(regions) = &self.regions else { return };
        let region_bytes = port.shared.map.region_bytes();
        let start = regions.start as u64 * region_bytes;
        let end = (regions.end as u64 * region_bytes).min(bytes);
        let offset = start + self.at;
        match self.phase {
            Phase::Claim => self.claim(port, pace, offset, end),
            Phase::Read => self.read_done(port, pace, offset),
            Phase::Write => self.write_done(port, pace, offset, end),
        }
    }

    fn claim(&mut self, port: &mut Port, pace: &mut Pace, offset: u64, end: u64) {
        if port.now < self.wait {
            return;
        }
        let shared = port.shared.clone();
        let all = shared.writers_now();
        let readers = shared.in_it() & !self.tried;
        let from = readers.trailing_zeros() as usize;
        if readers == 0 {
            // No leg can read it: the regions wait.
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
            return self.copied(port);
        }
        if !pace.begins(port.now) {
            return;
        }
        self.begun = port.now;
        self.len = (end - offset).min(if self.narrow { NARROW_BYTES } else { WINDOW_BYTES });
        if !planted(Plant::CopyUnclaimed) && !shared.claims.claim(KEEPER, offset, self.len) {
            pace.under_way -= 1;
            (self.narrow, self.wait) = (true, port.now + AGAIN);
            return;
        }
        let Some(buf) = port.pool.take_beyond(self.len as usize) else {
            pace.under_way -= 1;
            self.release(port, offset);
            self.wait = port.now + PAUSE;
            return;
        };
        self.phase = Phase::Read;
        let (op, fua, buf, len) = (Op::Read, false, Some(buf), self.len as u32);
        port.send(self.job, from, Deed { op, offset: DATA_OFFSET + offset, len, fua, buf });
    }

    /// The regions are the same on all legs that get writes.
    fn copied(&mut self, port: &Port) {
        for region in self.regions.take().into_iter().flatten() {
            port.shared.map.tell(region, Event::Copied);
        }
    }

    fn read_done(&mut self, port: &mut Port, pace: &mut Pace, offset: u64) {
        let Some(mut outcome) = port.outcome(self.job) else { return };
        let buf = outcome.bufs.pop().map(|(_, buf)| buf);
        let Some(buf) = buf.filter(|_| outcome.bad == 0) else {
            self.release(port, offset);
            pace.ends(port.now, self.begun, port.shared.was_busy());
            self.phase = Phase::Claim;
            self.tried |= 1 << self.from;
            port.shared.read_failed(self.from);
            return;
        };
        self.phase = Phase::Write;
        let (op, fua, len) = (Op::Write, false, self.len as u32);
        let last = 31 - self.to.leading_zeros() as usize;
        for leg in legs(self.to & !(1 << last)) {
            let buf = port.copy(&buf[..self.len as usize]);
            port.send(self.job, leg, Deed { op, offset: DATA_OFFSET + offset, len, fua, buf });
        }
        let buf = Some(buf);
        port.send(self.job, last, Deed { op, offset: DATA_OFFSET + offset, len, fua, buf });
    }

    fn write_done(&mut self, port: &mut Port, pace: &mut Pace, offset: u64, end: u64) {
        let Some((_, bad)) = port.verdict(self.job) else { return };
        self.release(port, offset);
        let shared = port.shared.clone();
        pace.ends(port.now, self.begun, shared.was_busy());
        for leg in legs(bad) {
            shared.leave(leg, &|| "a copy could not be written".to_owned());
        }
        (self.phase, self.narrow) = (Phase::Claim, false);
        if bad != 0 {
            // From the start: who is left may have got less.
            (self.at, self.tried) = (0, 0);
            return;
        }
        self.at += self.len;
        if offset + self.len < end {
            return;
        }
        // One that came meanwhile has not got all of it.
        let came = shared.writers_now() & !(1 << self.from) & !self.to;
        match came == 0 && shared.map.differences() == self.differences {
            true => self.copied(port),
            false => self.regions = None,
        }
    }

    fn release(&self, port: &Port, offset: u64) {
        if !planted(Plant::CopyUnclaimed) {
            port.shared.claims.release(KEEPER, offset, self.len);
        }
    }
}

/// Regions beside each other that are behind, from `from` on and around, as many as make a window.
pub(super) fn next_behind(
    port: &Port,
    from: usize,
    taken: &[Option<Range<usize>>],
) -> Option<Range<usize>> {
    let map = &port.shared.map;
    if map.behind() <= taken.iter().flatten().map(ExactSizeIterator::len).sum() {
        return None;
    }
    let behind = |region: &usize| {
        let taken = taken.iter().flatten().any(|range| range.contains(region));
        !taken && map.get(*region) == Region::Behind
    };
    let first = (from..map.len()).chain(0..from.min(map.len())).find(behind)?;
    let most = (WINDOW_BYTES / map.region_bytes()).max(1) as usize;
    let end = (first + 1..map.len().min(first + most)).find(|region| !behind(region));
    Some(first..end.unwrap_or(map.len().min(first + most)))
}
