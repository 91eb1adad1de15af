//! The keeper's job that re-adds a failed leg, or adds a spare as its replacement.
//!
//! First the leg is checked: the leg must be the one that failed and must not have been used alone.
//! Then the leg is recorded as syncing, gets writes, and everything it may have missed is copied to
//! it. When the copy is flushed and the leg's map equals the others', the leg is recorded as in.

use block::{Nanos, Op, Plant, planted};

use super::map::{Event, PAGE_BYTES, Page, Region, page_slots};
use super::pages::Pages;
use super::port::{Deed, Job, Port, legs};
use super::record::Recorder;
use super::superblock::{LegState, SUPERBLOCK_BYTES, Superblock};
use crate::mirror::Rules;

/// First delay before the keeper tries to re-add a failed leg, and the growth of the delay with
/// each failed attempt.
const PAUSE: Nanos = Nanos::from_secs(1);
const LONGEST_PAUSE: Nanos = Nanos::from_secs(30);
/// Time-out to open a leg.
const OPENING: Nanos = Nanos::from_secs(20);
/// Time after which a spare replaces a failed leg.
pub(super) const SPARE_AFTER: Nanos = Nanos::from_secs(10);

pub(super) struct Join {
    job: Job,
    phase: Phase,
    leg: usize,
    retry_at: Nanos,
    pause: Nanos,
    /// Time since which fewer legs are in than required.
    short_since: Option<Nanos>,
    /// The leg that was tried last.
    last: usize,
    /// Legs that are never re-added: they are foreign, or were used alone.
    barred: u32,
    /// Regions that must be dirty before the leg gets writes.
    must: Vec<usize>,
    /// Size of the array in the leg's superblock: smaller than now if the leg, an older image, has
    /// missed a growth. Data beyond this size were never zeroed on the leg.
    bytes: u64,
    /// The leg gets everything ever written.
    is_empty: bool,
    /// The user was notified that the array waits for the leg.
    told: bool,
    /// Changes became in doubt on the source leg since the copy was complete.
    doubted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Opening { until: Nanos },
    Superblock,
    Map,
    Marking,
    Recording,
    Copying,
    Flushing,
    Mapping { rounds: u64 },
    Ending,
}

impl Join {
    pub(super) fn new(job: Job) -> Join {
        Join {
            job,
            phase: Phase::Idle,
            leg: 0,
            retry_at: Nanos(0),
            pause: PAUSE,
            short_since: None,
            last: 0,
            barred: 0,
            must: Vec::new(),
            bytes: u64::MAX,
            is_empty: false,
            told: false,
            doubted: false,
        }
    }

    /// Whether no leg is joining.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether a leg gets writes and a copy of the regions that it missed.
    pub(super) fn is_copying(&self) -> bool {
        self.phase == Phase::Copying
    }

    pub(super) fn wake(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Idle => self.short_since.map(|_| self.retry_at),
            Phase::Opening { until } => Some(until),
            _ => None,
        }
    }

    pub(super) fn step(&mut self, port: &mut Port, recorder: &mut Recorder, pages: &mut Pages) {
        let left = port.shared.leaving() & 1 << self.leg != 0;
        let writes = !matches!(
            self.phase,
            Phase::Idle
                | Phase::Opening { .. }
                | Phase::Superblock
                | Phase::Map
                | Phase::Marking
                | Phase::Recording
        );
        if writes && left {
            // Wait for the leg's I/Os in flight.
            if self.phase != Phase::Flushing || port.verdict(self.job).is_some() {
                self.give_up(port);
            }
            return;
        }
        match self.phase {
            Phase::Idle => self.begin(port, recorder),
            Phase::Opening { until } => self.open(port, recorder, until),
            Phase::Superblock => self.look(port, recorder),
            Phase::Map => self.take_map(port, recorder),
            Phase::Marking => self.mark(port, recorder),
            Phase::Recording if recorder.is(self.leg, LegState::Syncing) => {
                port.shared.join(self.leg);
                self.phase = Phase::Copying;
            }
            Phase::Recording if recorder.is_durable() => self.give_up(port),
            Phase::Copying if port.reads_in_doubt_until().is_some() => {}
            Phase::Copying if port.shared.map.behind() == 0 => {
                self.doubted = false;
                self.flush(port, pages);
            }
            Phase::Flushing => {
                let Some((_, bad)) = port.verdict(self.job) else { return };
                for leg in legs(bad) {
                    port.shared.leave(leg, &|| "flush failed".to_owned());
                }
                // Checked again in the next step: the leg may have failed.
                self.phase = Phase::Mapping { rounds: pages.write_all() };
            }
            Phase::Mapping { rounds } if pages.rounds() >= rounds => {
                recorder.wish(self.leg, LegState::In);
                self.phase = Phase::Ending;
            }
            Phase::Ending if recorder.is(self.leg, LegState::In) => self.end(port),
            Phase::Ending if recorder.is_durable() => self.give_up(port),
            Phase::Recording | Phase::Copying | Phase::Mapping { .. } | Phase::Ending => {}
        }
    }

    fn give_up(&mut self, port: &Port) {
        self.phase = Phase::Idle;
        self.retry_at = port.now + self.pause;
        self.pause = Nanos(self.pause.0 * 2).min(LONGEST_PAUSE);
    }

    /// Picks a leg to re-add, if one is missing.
    fn begin(&mut self, port: &mut Port, recorder: &Recorder) {
        let block = recorder.block();
        if recorder.is_complete() {
            return self.short_since = None;
        }
        if !recorder.is_durable() {
            // The time is checked again later, not on each step.
            if port.now >= self.retry_at {
                self.retry_at = port.now + PAUSE;
            }
            return;
        }
        let since = *self.short_since.get_or_insert_with(|| {
            self.retry_at = port.now + PAUSE;
            port.now
        });
        if port.now < self.retry_at {
            return;
        }
        self.retry_at = port.now + PAUSE;
        let out = block.in_state(LegState::Out) & !self.barred;
        let spares = block.in_state(LegState::Spare) & !self.barred;
        let late = port.now >= since + SPARE_AFTER || out == 0;
        let wanted = out | if late { spares } else { 0 };
        let behind = |leg: &usize| *leg > self.last;
        let Some(leg) = legs(wanted).find(behind).or_else(|| legs(wanted).next()) else { return };
        (self.leg, self.last) = (leg, leg);
        if port.shared.is_haunted(leg) && !planted(Plant::JoinWithoutFence) {
            let why = "waits: its unanswered I/Os may still be executed";
            port.shared.say(format!("{} {why}", port.shared.leg_name(leg)));
            return;
        }
        self.told = false;
        if port.renew(leg) {
            self.phase = Phase::Opening { until: port.now + OPENING };
        }
    }

    fn open(&mut self, port: &mut Port, recorder: &Recorder, until: Nanos) {
        if port.is_broken(self.leg) || port.now >= until {
            return self.give_up(port);
        }
        if !port.is_open(self.leg) {
            return;
        }
        if let Some(end) = port.in_doubt_until(self.leg).max(port.reads_in_doubt_until()) {
            // A write of a lost connection must not be executed after the resync, on the leg or on
            // its source.
            self.phase = Phase::Opening { until: end.max(port.now) + OPENING };
            if !std::mem::replace(&mut self.told, true) {
                let (name, wait) = (port.shared.leg_name(self.leg), end.since(port.now));
                let seconds = wait.as_secs_f64();
                port.shared.say(format!(
                    "{name} waits {seconds:.0} s: writes sent on a lost connection may still be \
                    executed"
                ));
            }
            return;
        }
        // Writes that the leg may have lost with its cache are copied again.
        port.forget_losses(self.leg);
        for place in recorder.places(self.leg) {
            self.read(port, place, SUPERBLOCK_BYTES);
        }
        self.phase = Phase::Superblock;
    }

    fn read(&self, port: &mut Port, offset: u64, len: usize) {
        let Some(buf) = port.pool.take_beyond(len) else { return };
        let (op, fua, buf, len) = (Op::Read, false, Some(buf), len as u32);
        port.send(self.job, self.leg, Deed { op, offset, len, fua, buf });
    }

    /// Checks that the leg is the one that failed, and was not used alone.
    fn look(&mut self, port: &mut Port, recorder: &Recorder) {
        let Some(outcome) = port.outcome(self.job) else { return };
        let failed = outcome.bad != 0 || outcome.bufs.len() < 2;
        let read = |buf: &[u8]| Superblock::decode(&buf[..SUPERBLOCK_BYTES]).ok();
        let found = outcome.bufs.iter().filter_map(|(_, buf)| read(buf));
        let newer = found.max_by_key(|block| block.generation.number);
        outcome.bufs.into_iter().for_each(|(_, buf)| port.pool.give(buf));
        if failed {
            return self.give_up(port);
        }
        let own = recorder.block();
        let member = own.members[self.leg];
        let shorter = newer.as_ref().map(|block| block.bytes).filter(|bytes| *bytes < own.bytes);
        self.bytes = shorter.unwrap_or(u64::MAX);
        let is_ours = newer.as_ref().is_some_and(|block| {
            (block.array, block.leg) == (own.array, member.uuid) && own.knows_while_open(block)
        });
        if !is_ours {
            self.barred |= 1 << self.leg;
            let why = "was changed while it was out: it is not re-added";
            port.shared.say(format!("{} {why}", port.shared.leg_name(self.leg)));
            return self.give_up(port);
        }
        self.is_empty = member.empty || member.state == LegState::Spare;
        for page in 0..port.shared.map.pages() {
            for slot in page_slots(page) {
                self.read(port, slot, PAGE_BYTES);
            }
        }
        self.phase = Phase::Map;
    }

    /// Regions that the leg's own map marks dirty may differ, too, and all that were ever written
    /// where its map is that of an older image.
    fn take_map(&mut self, port: &mut Port, recorder: &Recorder) {
        let Some(outcome) = port.outcome(self.job) else { return };
        let pages = port.shared.map.pages();
        if outcome.bad != 0 || outcome.bufs.len() < 2 * pages {
            outcome.bufs.into_iter().for_each(|(_, buf)| port.pool.give(buf));
            return self.give_up(port);
        }
        let (array, regions) = (recorder.block().array, port.shared.map.region_bytes());
        let read = |page: usize| {
            // Completions arrive in any order; each page has its number.
            Page::newest(page, array, regions, outcome.bufs.iter().map(|(_, buf)| &buf[..]))
        };
        let found: Vec<Option<Page>> = (0..pages).map(read).collect();
        outcome.bufs.into_iter().for_each(|(_, buf)| port.pool.give(buf));
        for (page, found) in found.iter().enumerate() {
            // Versions of an earlier opening that other legs do not have are skipped: later
            // versions must count as newer.
            if let Some(found) = found {
                port.shared.map.raise(page, found.version());
            }
        }
        match self.is_empty {
            true => self.begin_marking(port, |region| region != Region::Unwritten, &[]),
            false => self.begin_marking(port, |_| false, &found),
        }
    }

    /// Starts marking the regions to be copied dirty: all that are `wanted`, and those dirty in the
    /// leg's own map.
    fn begin_marking(
        &mut self,
        port: &Port,
        wanted: impl Fn(Region) -> bool,
        own: &[Option<Page>],
    ) {
        let map = &port.shared.map;
        self.must.clear();
        let mut is_old = false;
        for page in 0..map.pages() {
            let (regions, found) = (map.of_page(page), own.get(page));
            let first = regions.start;
            let newest = map.version(page);
            let old = |found: &Page| found.version().lacks(newest);
            let old = matches!(found, Some(Some(found)) if old(found));
            is_old |= old;
            let dirty = |region: usize| match found {
                Some(Some(found)) => found.is_dirty(region - first),
                Some(None) => true,
                None => false,
            };
            let written = |region: usize| old && map.get(region) != Region::Unwritten;
            let beyond = |region: usize| (region as u64 + 1) * map.region_bytes() > self.bytes;
            let must =
                |at: &usize| wanted(map.get(*at)) || dirty(*at) || written(*at) || beyond(*at);
            self.must.extend(regions.filter(must));
        }
        if is_old {
            let name = port.shared.leg_name(self.leg);
            port.shared.say(format!(
                "{name} holds an older image: everything that may have \
                changed is resynced"
            ));
        }
        for region in &self.must {
            map.tell(*region, Event::Write);
        }
        self.phase = Phase::Marking;
    }

    fn mark(&mut self, port: &Port, recorder: &mut Recorder) {
        let map = &port.shared.map;
        let unmarked = |region: &usize| map.get(*region) == Region::Asked;
        if self.must.iter().any(unmarked) {
            return;
        }
        self.must.clear();
        recorder.wish(self.leg, LegState::Syncing);
        self.phase = Phase::Recording;
    }

    /// Records that changes are or were in doubt on a leg that is in.
    pub(super) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// Ends the join: the leg is read from now on.
    ///
    /// If changes became in doubt meanwhile on the source leg, the new leg is resynced first: a
    /// change that was executed late on the source, and read there, would be missing.
    fn end(&mut self, port: &Port) {
        let in_doubt = port.reads_in_doubt_until().is_some() || port.shared.map.behind() > 0;
        if self.doubted && in_doubt {
            return;
        }
        port.shared.admit(self.leg);
        if port.has_new_doubts() {
            // The last leg did not fail, as this one was not read.
            return port.shared.retract(self.leg);
        }
        port.shared.say(format!("{} is back in sync", port.shared.leg_name(self.leg)));
        (self.phase, self.short_since, self.pause) = (Phase::Idle, None, PAUSE);
    }

    /// Flushes the copied data.
    fn flush(&mut self, port: &mut Port, pages: &mut Pages) {
        self.phase = Phase::Flushing;
        if planted(Plant::JoinUnflushed) {
            return self.phase = Phase::Mapping { rounds: pages.write_all() };
        }
        let (op, offset, len, fua) = (Op::Flush, 0, 0, false);
        for leg in legs(port.shared.writers_now()) {
            port.send(self.job, leg, Deed { op, offset, len, fua, buf: None });
        }
    }
}
