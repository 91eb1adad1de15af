//! The keeper's resync jobs: each copies adjacent regions from the leg that serves their reads to
//! all others, in windows that the job claims as a writer does.
//!
//! While clients are idle, all jobs copy at once, so that every leg is busy. With client I/O, one
//! window is copied at a time, followed by a rest of several times its duration: see [`Pace`].

use std::ops::Range;

use block::{Nanos, Op, Plant, planted};

use super::map::Event;
use super::port::{Deed, Job, Port, legs};
use super::superblock::DATA_OFFSET;
use crate::mirror::Rules;

/// Owner number of the keeper's claims; lanes have lower ones.
pub(super) const KEEPER: u16 = u16::MAX;
/// Bytes of a copy window.
const WINDOW_BYTES: u64 = 256 << 10;
/// Window size after a conflict with a writer.
const NARROW_BYTES: u64 = 64 << 10;
/// With client I/O, copying rests for this many times the duration of a window: a sixth of the time
/// goes to the resync.
const REST: u64 = 5;
/// Maximum rest: the duration of a window delayed by a leg does not predict the next ones.
const REST_MAX: Nanos = Nanos::from_secs(1);
/// Delay before a region that could not be read is tried again.
const PAUSE: Nanos = Nanos::from_millis(1000);
/// Delay before granules are claimed again.
const AGAIN: Nanos = Nanos(20_000);

/// Pacing of the copied windows.
#[derive(Default)]
pub(super) struct Pace {
    in_flight: u32,
    /// Clients had I/Os when the last window ended.
    busy: bool,
    rest_until: Nanos,
}

impl Pace {
    /// Lets the next window be copied without a rest, because a read waits.
    pub(super) fn hurry(&mut self) {
        (self.busy, self.rest_until) = (false, Nanos(0));
    }

    fn begins(&mut self, now: Nanos) -> bool {
        let begins = !self.busy || (self.in_flight == 0 && now >= self.rest_until);
        self.in_flight += u32::from(begins);
        begins
    }

    /// `busy`: clients had I/Os since the last call.
    fn ends(&mut self, now: Nanos, begun: Nanos, busy: bool) {
        self.in_flight -= 1;
        if busy {
            self.busy = true;
            let rest = Nanos(now.since(begun).0.saturating_mul(REST)).min(REST_MAX);
            self.rest_until = self.rest_until.max(now + rest);
        } else if now >= self.rest_until {
            self.busy = false;
        }
    }

    /// Time at which a job that could continue at `from` may begin a window; `None` while the job
    /// waits for another's.
    fn wake(&self, from: Nanos) -> Option<Nanos> {
        match (self.busy, self.in_flight) {
            (false, _) => Some(from),
            (true, 0) => Some(from.max(self.rest_until)),
            (true, _) => None,
        }
    }
}

pub(super) struct Copy {
    job: Job,
    /// The regions in progress.
    regions: Option<Range<usize>>,
    /// The window in them: offset and bytes.
    at: u64,
    len: u64,
    /// A writer was in the way: windows are narrow.
    narrow: bool,
    phase: Phase,
    /// The leg that is read, and those that are written.
    from: usize,
    to: u32,
    tried: u32,
    /// Value of `Map::differences` at the start of the regions.
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

    /// Goes on; `next` are regions that no other job copies.
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
            // No leg can read them: the regions wait.
            (self.tried, self.wait) = (0, port.now + PAUSE);
            return;
        }
        let to = all & !(1 << from);
        let differences = shared.map.differences();
        let same = (from, to, differences) == (self.from, self.to, self.differences);
        (self.from, self.to, self.differences) = (from, to, differences);
        if self.at > 0 && !same {
            // A leg joined or failed: data copied before are not on all legs.
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
            pace.in_flight -= 1;
            (self.narrow, self.wait) = (true, port.now + AGAIN);
            return;
        }
        let Some(buf) = port.pool.take_beyond(self.len as usize) else {
            pace.in_flight -= 1;
            self.release(port, offset);
            self.wait = port.now + PAUSE;
            return;
        };
        self.phase = Phase::Read;
        let (op, fua, buf, len) = (Op::Read, false, Some(buf), self.len as u32);
        port.send(self.job, from, Deed { op, offset: DATA_OFFSET + offset, len, fua, buf });
    }

    /// Marks the copied regions: all legs that get writes are equal there.
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
            shared.leave(leg, &|| "a write of the resync failed".to_owned());
        }
        (self.phase, self.narrow) = (Phase::Claim, false);
        if bad != 0 {
            // From the start: a remaining leg may have got less.
            (self.at, self.tried) = (0, 0);
            return;
        }
        self.at += self.len;
        if offset + self.len < end {
            return;
        }
        // A leg that joined meanwhile lacks a part.
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

/// Adjacent regions that need a resync, from `from` on with wrap-around, enough to fill a window.
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
        !taken && map.get(*region).is_behind()
    };
    let first = (from..map.len()).chain(0..from.min(map.len())).find(behind)?;
    let most = (WINDOW_BYTES / map.region_bytes()).max(1) as usize;
    let end = (first + 1..map.len().min(first + most)).find(|region| !behind(region));
    Some(first..end.unwrap_or(map.len().min(first + most)))
}
