//! Work of an array besides client I/O: superblocks, map, resync, returning legs. The keeper has
//! its own lanes to all legs and gets the time as an argument; a thread or the simulation steps it.

use std::sync::Arc;

use block::{Lane, Nanos, Pool, Rng};

use super::check::{CheckOrder, Checks};
use super::cool::Cool;
use super::copy::{Copy, Pace, next_behind};
use super::fence::Fence;
use super::join::Join;
use super::pages::Pages;
use super::port::Port;
use super::record::Recorder;
use super::revive::Revive;
use super::shared::Shared;
use super::slow::Slow;
use super::superblock::{Generation, LegState, Superblock};
use crate::mirror::Ways;

/// Windows copied at a time while clients are idle.
const COPIES: usize = 8;
/// Windows compared at a time by a check.
const CHECKS: usize = 4;
/// Job numbers; those of the copies and of the windows of a check follow.
const RECORD: usize = 0;
const PAGES: usize = 1;
const COOL: usize = 2;
const JOIN: usize = 3;
const COPY: usize = 4;

/// The keeper of an array.
pub struct Keeper {
    port: Port,
    bytes: u64,
    recorder: Recorder,
    pages: Pages,
    cool: Cool,
    join: Join,
    revive: Revive,
    copies: Vec<Copy>,
    pace: Pace,
    slow: Slow,
    checks: Checks,
    /// The legs are compared again so long after each check.
    every: Option<Nanos>,
    check_at: Option<Nanos>,
    fence: Fence,
    /// Writes of a lost connection could still be executed on the last leg.
    doubtful: bool,
    /// Superblocks and maps of this opening are durable.
    recorded: bool,
    /// Region after the one whose copy was started last.
    next: usize,
    closing: bool,
}

impl Keeper {
    pub(super) fn new(
        shared: Arc<Shared>,
        block: Superblock,
        places: (Vec<[u64; 2]>, Vec<Generation>),
        pool: Pool,
        rng: Rng,
        (lanes, source): (Vec<Option<Box<dyn Lane>>>, Ways),
        fence: Nanos,
    ) -> Keeper {
        shared.set_kept();
        let fence = Fence::new(&shared, fence);
        Keeper {
            port: Port::new(shared, pool, lanes, source, COPY + COPIES + CHECKS),
            bytes: block.bytes,
            pages: Pages::new(PAGES, block.array),
            recorder: Recorder::new(RECORD, block, places, rng),
            cool: Cool::new(COOL),
            join: Join::new(JOIN),
            revive: Revive::default(),
            copies: (0..COPIES).map(|slot| Copy::new(COPY + slot)).collect(),
            pace: Pace::default(),
            slow: Slow::default(),
            checks: Checks::new(COPY + COPIES, CHECKS),
            every: None,
            check_at: None,
            fence,
            doubtful: false,
            recorded: false,
            next: 0,
            closing: false,
        }
    }

    /// Does all work that is due.
    pub fn step(&mut self, now: Nanos) {
        self.port.poll(now);
        self.revive.step(&mut self.port, &self.recorder, &self.pages);
        self.recorder.step(&mut self.port);
        self.pages.step(&mut self.port);
        let shared = Arc::clone(&self.port.shared);
        if !self.recorded && self.pages.rounds() > 0 && self.recorder.is_durable() {
            self.recorded = true;
            shared.start.record();
        }
        if !shared.is_ready() && self.recorded {
            self.fence.step(now, &shared);
            if self.fence.is_over() {
                shared.set_ready();
            }
        }
        self.look_for_doubts();
        let calm = self.fence.is_over() && !self.doubtful && (self.is_calm() || self.is_coming());
        self.cool.step(&mut self.port, calm, self.closing);
        self.copy();
        // After everything that it waits for, so that no further step is needed.
        if !self.closing {
            self.join.step(&mut self.port, &mut self.recorder, &mut self.pages);
        }
        self.slow.step(now, &shared);
        self.check(now);
        self.port.submit(now);
    }

    /// Resyncs legs that were copied from the last leg while writes of a lost connection could
    /// still be executed on the last leg.
    ///
    /// Doubts may begin and end between two calls.
    fn look_for_doubts(&mut self) {
        let begun = self.port.look_for_doubts();
        let is_doubtful = self.port.reads_in_doubt_until().is_some();
        let was_doubtful = std::mem::replace(&mut self.doubtful, is_doubtful) || begun;
        if was_doubtful {
            self.join.doubt();
        }
        if was_doubtful && !is_doubtful && self.port.shared.writers_now().count_ones() > 1 {
            self.port.shared.map.joined();
        }
    }

    /// Whether no leg is out, leaving or joining.
    fn is_calm(&self) -> bool {
        let recorder = &self.recorder;
        let settled = recorder.is_durable() && recorder.is_complete() && self.join.is_idle();
        settled && self.leaving() == 0
    }

    /// Legs that get writes and are to be recorded as out.
    fn leaving(&self) -> u32 {
        let block = self.recorder.block();
        let active = block.in_state(LegState::In) | block.in_state(LegState::Syncing);
        self.port.shared.leaving() & active
    }

    /// Whether a leg is syncing and no other one lacks anything: after an interruption, regions
    /// already copied to it need not be copied again.
    fn is_coming(&self) -> bool {
        let recorder = &self.recorder;
        let settled = recorder.is_durable() && recorder.forgets() && self.join.is_copying();
        settled && self.leaving() == 0
    }

    /// Compares the legs, if a check is requested or due.
    fn check(&mut self, now: Nanos) {
        if let Some(every) = self.every {
            if self.checks.is_busy() {
                // The interval starts at the end of a check.
                self.check_at = None;
            }
            let at = *self.check_at.get_or_insert(now + every);
            if now >= at && !self.checks.is_busy() && !self.port.shared.wants_check() {
                let order = CheckOrder { is_gentle: true, ..CheckOrder::default() };
                self.port.shared.order_check(order);
            }
        }
        if self.port.shared.is_ready() && !self.closing {
            self.checks.step(&mut self.port, self.bytes);
        }
    }

    /// Compares the legs again, so long after each comparison.
    pub fn check_every(&mut self, every: Option<Nanos>) {
        self.every = every;
    }

    fn copy(&mut self) {
        // Until missing legs are recorded as out, the legs to read are not known.
        if !self.recorded {
            return;
        }
        if let Some(region) = self.port.shared.take_urged() {
            self.next = region;
            self.pace.hurry();
        }
        for slot in 0..self.copies.len() {
            // A finished job continues with the next regions at once.
            loop {
                let idle = self.copies[slot].regions().is_none();
                if idle && (self.closing || self.port.shared.map.behind() == 0) {
                    break;
                }
                let mut found = None;
                if idle {
                    let taken: Vec<_> = self.copies.iter().map(Copy::regions).collect();
                    found = next_behind(&self.port, self.next, &taken);
                    self.next = found.as_ref().map_or(self.next, |regions| regions.end);
                }
                let ends = idle && found.is_none();
                self.copies[slot].step(&mut self.port, &mut self.pace, self.bytes, found);
                if ends || self.copies[slot].regions().is_some() {
                    break;
                }
            }
        }
    }

    /// Time of the next step without an event.
    pub fn wake(&self) -> Option<Nanos> {
        let shared = &self.port.shared;
        let recorder = self.recorder.wake(shared.leaving());
        let pages = self.pages.wake(shared.map.is_asked());
        let copies = self.copies.iter().filter_map(|copy| copy.wake(&self.pace)).min();
        let cool = self.cool.wake(shared.map.behind() > 0);
        // A check that is requested during another one begins after that.
        let wanted = shared.wants_check() && shared.is_ready() && !self.checks.is_busy();
        let wanted = wanted.then_some(Nanos(0));
        let check = [wanted, self.checks.wake(), self.check_at, self.fence.wake()];
        let check = check.into_iter().flatten().min();
        let revive = self.revive.wake(&self.port);
        [recorder, pages, copies, cool, self.join.wake(), check, revive]
            .into_iter()
            .chain([self.port.wake()])
            .flatten()
            .min()
    }

    /// Marks dirty regions clean if possible, after all lanes are gone. True when nothing is left
    /// to do.
    pub fn close(&mut self, now: Nanos) -> bool {
        self.closing = true;
        self.step(now);
        let still = self.recorder.is_durable() && self.cool.is_idle() && self.pages.is_idle();
        let copies = self.copies.iter().all(|copy| copy.regions().is_none());
        still && copies && !self.port.shared.map.is_asked() && self.port.close()
    }

    /// The superblock that is on the legs, or being written.
    pub fn superblock(&self) -> &Superblock {
        self.recorder.block()
    }

    /// A bit for each leg that the superblocks record as in.
    pub fn recorded(&self) -> u32 {
        self.port.shared.recorded()
    }

    /// Whether all required legs are in and no resync is due.
    pub fn is_whole(&self) -> bool {
        self.is_calm() && self.port.shared.map.behind() == 0
    }
}

#[cfg(test)]
mod test;
