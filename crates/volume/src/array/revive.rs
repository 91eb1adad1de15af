//! The keeper's job that reconnects to the last leg.
//!
//! The last leg never fails, so its data are the array's. But a leg whose connection was lost may
//! return as an older image: before the leg is used again, its superblock and its map are compared
//! with the versions written to the leg, or read from it at the opening. Until then, and for ever
//! if they are older, I/Os fail.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Buf, Done, Io, Lane, Nanos, Op, Plant, Tag, planted};

use super::map::{PAGE_BYTES, Page, page_slots};
use super::pages::Pages;
use super::port::{Port, legs};
use super::record::Recorder;
use super::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::mirror::Rules;

/// Time between attempts.
const PAUSE: Nanos = Nanos::from_millis(100);
/// Time between attempts after the leg was found to be an older image.
const LONG_PAUSE: Nanos = Nanos::from_secs(10);
/// Time-out of an attempt.
const PATIENCE: Nanos = Nanos::from_secs(30);

#[derive(Default)]
pub(super) struct Revive {
    attempt: Option<Attempt>,
    retry_at: Nanos,
}

/// A new lane to a leg, and the metadata read through it.
struct Attempt {
    leg: usize,
    lane: Box<dyn Lane>,
    waiting: VecDeque<Io>,
    in_flight: usize,
    /// Data that were read, by offset.
    found: Vec<(u64, Buf)>,
    asked: bool,
    failed: bool,
    until: Nanos,
}

impl Revive {
    pub(super) fn wake(&self, port: &Port) -> Option<Nanos> {
        match &self.attempt {
            Some(attempt) => attempt.lane.wake().into_iter().chain([attempt.until]).min(),
            None => wanted(port).map(|_| self.retry_at),
        }
    }

    pub(super) fn step(&mut self, port: &mut Port, recorder: &Recorder, pages: &Pages) {
        let Some(attempt) = &mut self.attempt else { return self.begin(port) };
        attempt.poll(port.now);
        if attempt.failed || port.now >= attempt.until {
            return self.give_up(port, PAUSE);
        }
        if attempt.lane.is_open() && !attempt.asked {
            attempt.asked = true;
            attempt.ask(port, recorder);
        }
        attempt.lane.submit(port.now, &mut attempt.waiting);
        let over = attempt.asked && attempt.in_flight == 0;
        if over && !attempt.failed {
            self.judge(port, recorder, pages);
        }
    }

    /// Opens a lane to the last leg, if its lane or one of a client is lost.
    fn begin(&mut self, port: &mut Port) {
        let Some(leg) = wanted(port).filter(|_| port.now >= self.retry_at) else { return };
        self.retry_at = port.now + PAUSE;
        let Some(lane) = port.open(leg) else { return };
        lane.looks();
        let until = port.now + PATIENCE;
        let (waiting, found) = (VecDeque::new(), Vec::new());
        let (in_flight, asked, failed) = (0, false, false);
        self.attempt = Some(Attempt { leg, lane, waiting, in_flight, found, asked, failed, until });
    }

    fn judge(&mut self, port: &mut Port, recorder: &Recorder, pages: &Pages) {
        let Some(attempt) = &self.attempt else { return };
        let leg = attempt.leg;
        if attempt.is_older(port, recorder, pages) && !planted(Plant::ReviveUnseen) {
            let name = port.shared.leg_name(leg);
            port.shared.say(format!(
                "{name}, the last leg, came back as an older image: I/Os fail until the current \
                image returns, or the array is reopened with all legs"
            ));
            return self.give_up(port, LONG_PAUSE);
        }
        let Some(Attempt { lane, found, .. }) = self.attempt.take() else { return };
        found.into_iter().for_each(|(_, buf)| port.pool.give(buf));
        // The array reports possible losses of its last leg, not the leg: legs copied from it would
        // otherwise seem to have the lost data. A clean map has nothing to lose.
        if lane.forget_losses() && port.shared.map.is_dirty() && !planted(Plant::ReviveSilently) {
            port.shared.lose();
        }
        if !planted(Plant::ReviveForClients) {
            port.put(leg, lane);
        }
        port.shared.renewed(leg);
        if port.shared.writers_now() & !(1 << leg) != 0 {
            // The leg may have lost its volatile cache, of which some was copied to others already.
            port.shared.map.joined();
        }
    }

    fn give_up(&mut self, port: &Port, pause: Nanos) {
        if let Some(Attempt { found, waiting, .. }) = self.attempt.take() {
            found.into_iter().for_each(|(_, buf)| port.pool.give(buf));
            waiting.into_iter().for_each(|io| port.give(io.buf));
        }
        self.retry_at = port.now + pause;
    }
}

/// The last leg, if its lane or one of a client is lost.
fn wanted(port: &Port) -> Option<usize> {
    let lost = |leg: &usize| port.is_broken(*leg) || port.shared.is_lost(*leg);
    legs(port.shared.in_it()).find(lost)
}

impl Attempt {
    /// Reads the superblocks and the map.
    fn ask(&mut self, port: &Port, recorder: &Recorder) {
        let pages = (0..port.shared.map.pages()).flat_map(page_slots);
        let blocks = recorder.places(self.leg).into_iter().map(|at| (at, SUPERBLOCK_BYTES));
        for (offset, len) in blocks.chain(pages.map(|at| (at, PAGE_BYTES))) {
            let Some(buf) = port.pool.take_beyond(len) else {
                self.failed = true;
                return;
            };
            let (op, fua, len, buf) = (Op::Read, false, len as u32, Some(buf));
            self.waiting.push_back(Io { tag: Tag(offset), op, fua, len, offset, buf });
            self.in_flight += 1;
        }
    }

    fn poll(&mut self, now: Nanos) {
        let mut done: Vec<Done> = Vec::new();
        self.lane.poll(now, &mut done);
        for one in done {
            self.in_flight -= 1;
            self.failed |= one.result.is_err();
            self.found.extend(one.buf.map(|buf| (one.tag.0, buf)));
        }
        self.failed |= self.lane.broken().is_some();
    }

    /// Whether the leg's metadata are older than those that it has confirmed.
    fn is_older(&self, port: &Port, recorder: &Recorder, pages: &Pages) -> bool {
        let (own, member) = (recorder.block(), recorder.block().members[self.leg]);
        let shared = Arc::clone(&port.shared);
        let at = |offset: u64| self.found.iter().find(|(at, _)| *at == offset).map(|(_, buf)| buf);
        let block = |offset: u64| Superblock::decode(&at(offset)?[..SUPERBLOCK_BYTES]).ok();
        let blocks = recorder.places(self.leg).into_iter().filter_map(block);
        let Some(newest) = blocks.max_by_key(|block| block.generation.number) else { return true };
        if (newest.array, newest.leg) != (own.array, member.uuid)
            || newest.generation.number < recorder.stands(self.leg).number
        {
            return true;
        }
        (0..shared.map.pages()).any(|page| {
            let slots = page_slots(page).map(at);
            let slots = slots.into_iter().flatten().map(|buf| &buf[..]);
            let found = Page::newest(page, own.array, shared.map.region_bytes(), slots);
            let found = found.map(|found| found.version()).unwrap_or_default();
            let read = shared.start.version(self.leg, page);
            found.is_before(pages.durable(page)) || found.is_before(read)
        })
    }
}
