//! Comparison of an array's legs during use: the keeper reads each written range from all legs that
//! are in, under the same claims as writers, and reports differences.
//!
//! Regions that the map marks are left out: the resync copies them. A difference is read twice
//! before it counts. A repair writes the data of the majority of legs to the others; of two legs
//! the first counts.

use block::{Buf, Nanos, Op, Plant, planted};

use super::copy::KEEPER;
use super::map::Region;
use super::port::{Deed, Job, Port, legs};
use super::superblock::DATA_OFFSET;
use crate::mirror::Rules;

/// Bytes compared at a time.
const WINDOW_BYTES: u64 = 256 << 10;
/// Unit in which differences are reported.
const BLOCK_BYTES: usize = 4096;
/// Differences that are listed; all are counted.
const LISTED_MAX: usize = 64;
/// Delay before granules are claimed again that a writer has.
const AGAIN: Nanos = Nanos(50_000);
/// A gentle check rests for this many times the duration of a window: a twentieth of the time.
const REST: u64 = 19;
const REST_MAX: Nanos = Nanos::from_secs(5);

/// Options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOrder {
    /// Make legs equal where they differ.
    pub repairs: bool,
    /// Maximum bytes of the array compared per second.
    pub rate_bytes: Option<u64>,
    /// Rest most of the time, for clients.
    pub is_gentle: bool,
}

impl CheckOrder {
    /// Number of windows that the check uses.
    fn windows(self, all: usize) -> usize {
        if self.is_gentle { 1 } else { all }
    }
}

/// A range in which legs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Offset in the array.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// A bit for each leg whose data are wrong.
    pub legs: u32,
    /// The legs could not be read there; otherwise their data differ.
    pub is_unreadable: bool,
}

/// Findings of a check so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Offset up to which the check has come, in bytes.
    pub at: u64,
    /// Capacity of the array in bytes.
    pub bytes: u64,
    /// Bytes compared on all legs. Unwritten regions need no comparison.
    pub compared_bytes: u64,
    /// Bytes that the map marks, which the resync makes equal.
    pub marked_bytes: u64,
    /// Bytes in which legs differ or cannot be read.
    pub different_bytes: u64,
    /// Repaired bytes of `different_bytes`.
    pub repaired_bytes: u64,
    /// The first differences, in order.
    pub differences: Vec<Difference>,
    /// Fewer than two legs are in: there is nothing to compare.
    pub is_alone: bool,
    /// The check has ended.
    pub has_ended: bool,
}

/// One window of a check.
pub(super) struct Check {
    job: Job,
    phase: Phase,
    offset: u64,
    len: u64,
    /// Legs that are compared.
    legs: u32,
    /// Value of `Map::differences` at the start of the window.
    before: usize,
    begun: Nanos,
    /// The blocks that differed at the first reading.
    seen: Vec<Difference>,
    /// Differences to repair, and the right data.
    repair: Vec<(Difference, Buf)>,
    wait: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Claim,
    Read { again: bool },
    Mark,
    Write,
}

/// All windows of a check.
pub(super) struct Checks {
    windows: Vec<Check>,
    order: Option<CheckOrder>,
    /// Offset of the next comparison, and the end.
    next: u64,
    bytes: u64,
    /// Time at which the next window may begin.
    rest_until: Nanos,
}

impl Checks {
    pub(super) fn new(first: Job, count: usize) -> Checks {
        let window = |slot| Check {
            job: first + slot,
            phase: Phase::Idle,
            offset: 0,
            len: 0,
            legs: 0,
            before: 0,
            begun: Nanos(0),
            seen: Vec::new(),
            repair: Vec::new(),
            wait: Nanos(0),
        };
        let windows = (0..count).map(window).collect();
        Checks { windows, order: None, next: 0, bytes: 0, rest_until: Nanos(0) }
    }

    /// Whether a check is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.order.is_some()
    }

    pub(super) fn wake(&self) -> Option<Nanos> {
        let count = self.order?.windows(self.windows.len());
        // Idle windows wait for those in progress.
        let more = self.next < self.bytes;
        let idle = more && self.windows[..count].iter().any(|one| one.phase == Phase::Idle);
        let waits =
            self.windows.iter().filter(|one| matches!(one.phase, Phase::Claim | Phase::Mark));
        waits.map(|one| one.wait).chain(idle.then_some(self.rest_until)).min()
    }

    pub(super) fn step(&mut self, port: &mut Port, bytes: u64) {
        if self.order.is_none() {
            let Some(order) = port.shared.take_check() else { return };
            (self.order, self.next, self.rest_until) = (Some(order), 0, port.now);
            self.bytes = bytes;
            port.shared.report(|report| *report = CheckReport { bytes, ..CheckReport::default() });
        }
        let Some(order) = self.order else { return };
        for slot in 0..order.windows(self.windows.len()) {
            if self.windows[slot].phase == Phase::Idle && port.now >= self.rest_until {
                self.begin(slot, port, bytes);
            }
            let window = &mut self.windows[slot];
            let was = window.phase;
            window.step(port, order);
            if was != Phase::Idle && window.phase == Phase::Idle {
                self.rest(slot, port.now, order);
            }
        }
        if self.next >= bytes && self.windows.iter().all(|one| one.phase == Phase::Idle) {
            self.end(port);
        }
    }

    /// The time until the next window.
    fn rest(&mut self, slot: usize, now: Nanos, order: CheckOrder) {
        let window = &self.windows[slot];
        let mut rest = Nanos(0);
        if order.is_gentle {
            rest = Nanos(now.since(window.begun).0.saturating_mul(REST)).min(REST_MAX);
        }
        if let Some(rate) = order.rate_bytes {
            rest = rest.max(Nanos(window.len.saturating_mul(1_000_000_000) / rate.max(1)));
        }
        self.rest_until = self.rest_until.max(window.begun) + rest;
    }

    /// Begins with the next range that was ever written and is not marked.
    fn begin(&mut self, slot: usize, port: &mut Port, bytes: u64) {
        let map = &port.shared.map;
        while self.next < bytes {
            let region = (self.next / map.region_bytes()) as usize;
            let end = ((region as u64 + 1) * map.region_bytes()).min(bytes);
            let len = (end - self.next).min(WINDOW_BYTES);
            match map.get(region) {
                Region::Unwritten => {}
                Region::Clean | Region::Dirty | Region::Cooling => {
                    let window = &mut self.windows[slot];
                    (window.offset, window.len) = (self.next, len);
                    (window.phase, window.wait) = (Phase::Claim, port.now);
                    self.next += len;
                    return;
                }
                Region::Asked | Region::Behind | Region::Unsettled => {
                    port.shared.report(|report| report.marked_bytes += end - self.next);
                }
            }
            self.next = end;
        }
    }

    fn end(&mut self, port: &Port) {
        let Some(order) = self.order.take() else { return };
        port.shared.report(|report| (report.has_ended, report.at) = (true, report.bytes));
        let report = port.shared.checked();
        if report.is_alone || report.different_bytes == 0 && order.is_gentle {
            return;
        }
        port.shared.say(words(&report));
    }
}

/// The result in a sentence.
pub fn words(report: &CheckReport) -> String {
    let CheckReport { compared_bytes, different_bytes, repaired_bytes, .. } = *report;
    let compared = block::print_size(compared_bytes);
    match (different_bytes, different_bytes - repaired_bytes) {
        (0, _) => format!("checked: the legs are equal in {compared}"),
        (found, 0) => {
            format!("checked: the legs differed in {found} bytes of {compared}, repaired")
        }
        (found, left) => format!(
            "checked: the legs differ in {left} bytes of {compared} ({found} found): resync them \
            with `drumfire volume check --repair`"
        ),
    }
}

impl Check {
    fn step(&mut self, port: &mut Port, order: CheckOrder) {
        match self.phase {
            Phase::Idle => {}
            Phase::Claim => self.claim(port),
            Phase::Read { again } => self.compare(port, order, again),
            Phase::Mark => self.mark(port),
            Phase::Write => self.written(port),
        }
    }

    fn claim(&mut self, port: &mut Port) {
        if port.now < self.wait {
            return;
        }
        let shared = port.shared.clone();
        self.legs = shared.in_it();
        if self.legs.count_ones() < 2 {
            shared.report(|report| report.is_alone = true);
            self.phase = Phase::Idle;
            return;
        }
        if !planted(Plant::CheckUnclaimed) && !shared.claims.claim(KEEPER, self.offset, self.len) {
            self.wait = port.now + AGAIN;
            return;
        }
        self.begun = port.now;
        self.before = shared.map.differences();
        self.read(port, false);
    }

    /// Reads the window from all legs.
    fn read(&mut self, port: &mut Port, again: bool) {
        let (op, fua, len) = (Op::Read, false, self.len as u32);
        let take = |_| port.pool.take_beyond(self.len as usize);
        let Some(bufs) = legs(self.legs).map(take).collect::<Option<Vec<Buf>>>() else {
            // No memory now: from the beginning, a little later.
            self.release(port);
            (self.phase, self.wait) = (Phase::Claim, port.now + AGAIN);
            return;
        };
        self.phase = Phase::Read { again };
        for (leg, buf) in legs(self.legs).zip(bufs) {
            let (offset, buf) = (DATA_OFFSET + self.offset, Some(buf));
            port.send(self.job, leg, Deed { op, offset, len, fua, buf });
        }
    }

    fn release(&self, port: &Port) {
        if !planted(Plant::CheckUnclaimed) {
            port.shared.claims.release(KEEPER, self.offset, self.len);
        }
    }

    /// Whether the region's legs must still be equal, as at the start of the window.
    fn still_holds(&self, port: &Port) -> bool {
        let map = &port.shared.map;
        let region = (self.offset / map.region_bytes()) as usize;
        let equal = matches!(map.get(region), Region::Clean | Region::Dirty | Region::Cooling);
        equal && map.differences() == self.before && port.shared.in_it() == self.legs
    }

    fn compare(&mut self, port: &mut Port, order: CheckOrder, again: bool) {
        let Some(outcome) = port.outcome(self.job) else { return };
        let mut bufs = outcome.bufs;
        bufs.sort_by_key(|(leg, _)| *leg);
        let found = if self.still_holds(port) {
            Some(differences(self.offset, self.len as usize, &bufs, outcome.bad))
        } else {
            None
        };
        match found {
            // A leg failed or joined, or a write failed, meanwhile: the map handles this, not the
            // check.
            None => self.leave(port, 0),
            Some(found) if found.is_empty() => self.leave(port, self.len),
            Some(found) if !again => {
                self.seen = found;
                bufs.into_iter().for_each(|(_, buf)| port.pool.give(buf));
                return self.read(port, true);
            }
            Some(found) => {
                let both = |one: &Difference| {
                    self.seen.iter().any(|seen| {
                        one.offset < seen.offset + seen.len && seen.offset < one.offset + one.len
                    })
                };
                let found: Vec<Difference> = found.into_iter().filter(both).collect();
                let bytes: u64 = found.iter().map(|one| one.len).sum();
                port.shared.report(|report| {
                    report.different_bytes += bytes;
                    let room = LISTED_MAX.saturating_sub(report.differences.len());
                    report.differences.extend(found.iter().take(room));
                });
                if order.repairs && !found.is_empty() {
                    self.plan(port, &found, &bufs);
                }
                match self.repair.is_empty() {
                    true => self.leave(port, self.len),
                    false => {
                        // Marked first, as any write.
                        (self.phase, self.wait) = (Phase::Mark, port.now);
                    }
                }
            }
        }
        bufs.into_iter().for_each(|(_, buf)| port.pool.give(buf));
    }

    /// Plans the writes: data of the majority of legs, to the others.
    fn plan(&mut self, port: &Port, found: &[Difference], bufs: &[(usize, Buf)]) {
        for one in found {
            let source = bufs.iter().find(|(leg, _)| one.legs & 1 << leg == 0);
            let at = (one.offset - self.offset) as usize;
            if let Some((_, source)) = source
                && let Some(buf) = port.copy(&source[at..at + one.len as usize])
            {
                self.repair.push((*one, buf));
            }
        }
    }

    fn mark(&mut self, port: &mut Port) {
        let shared = port.shared.clone();
        if !shared.map.opens(self.offset, self.len).marked {
            self.wait = port.now + AGAIN;
            return;
        }
        let (op, fua) = (Op::Write, false);
        let mut deeds = Vec::new();
        for (one, buf) in &self.repair {
            for leg in legs(one.legs) {
                let Some(buf) = port.copy(&buf[..one.len as usize]) else {
                    deeds.into_iter().for_each(|(_, Deed { buf, .. })| port.give(buf));
                    self.wait = port.now + AGAIN;
                    return;
                };
                let (offset, len, buf) = (DATA_OFFSET + one.offset, one.len as u32, Some(buf));
                deeds.push((leg, Deed { op, offset, len, fua, buf }));
            }
        }
        deeds.into_iter().for_each(|(leg, deed)| port.send(self.job, leg, deed));
        self.phase = Phase::Write;
    }

    fn written(&mut self, port: &mut Port) {
        let Some((_, bad)) = port.verdict(self.job) else { return };
        let shared = port.shared.clone();
        for leg in legs(bad) {
            shared.leave(leg, &|| "a block could not be repaired".to_owned());
        }
        if bad != 0 {
            shared.map.differs(self.offset, self.len);
        }
        let repair = std::mem::take(&mut self.repair);
        let repaired: u64 = repair.iter().map(|(one, _)| one.len).sum();
        repair.into_iter().for_each(|(_, buf)| port.pool.give(buf));
        shared.report(|report| {
            if bad == 0 {
                report.repaired_bytes += repaired;
            }
        });
        self.leave(port, self.len);
    }

    /// Ends the window.
    fn leave(&mut self, port: &Port, compared: u64) {
        self.release(port);
        port.shared.report(|report| {
            report.compared_bytes += compared;
            report.at = report.at.max(self.offset + self.len);
            if compared == 0 {
                report.marked_bytes += self.len;
            }
        });
        (self.phase, self.seen) = (Phase::Idle, Vec::new());
    }
}

/// Blocks in which legs differ; neighbours with the same legs are merged. All blocks of an
/// unreadable leg differ.
fn differences(offset: u64, len: usize, bufs: &[(usize, Buf)], bad: u32) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    for at in (0..len).step_by(BLOCK_BYTES) {
        let end = (at + BLOCK_BYTES).min(len);
        let good: Vec<(usize, &[u8])> = bufs
            .iter()
            .filter(|(leg, _)| bad & 1 << leg == 0)
            .map(|(leg, buf)| (*leg, &buf[at..end]))
            .collect();
        let votes = |data: &[u8]| good.iter().filter(|(_, other)| *other == data).count();
        // The first leg of the majority.
        let Some((_, right)) = good.iter().rev().max_by_key(|(_, data)| votes(data)) else {
            continue;
        };
        let wrong = good.iter().filter(|(_, data)| data != right);
        let legs = wrong.fold(bad, |all, (leg, _)| all | 1 << leg);
        if legs == 0 {
            continue;
        }
        let (offset, len) = (offset + at as u64, (end - at) as u64);
        let is_unreadable = legs == bad;
        match found.last_mut() {
            Some(last)
                if last.offset + last.len == offset
                    && (last.legs, last.is_unreadable) == (legs, is_unreadable) =>
            {
                last.len += len;
            }
            _ => found.push(Difference { offset, len, legs, is_unreadable }),
        }
    }
    found
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn most_legs_are_right_and_of_two_the_first() {
        let buf = |fill: [u8; 3]| {
            let mut buf = Buf::new(3 * BLOCK_BYTES).unwrap();
            for (at, byte) in fill.into_iter().enumerate() {
                buf[at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES].fill(byte);
            }
            buf
        };
        let found = |fills: &[[u8; 3]], bad: u32| {
            let bufs: Vec<_> = fills.iter().map(|fill| buf(*fill)).enumerate().collect();
            let found = differences(65_536, 3 * BLOCK_BYTES, &bufs, bad);
            found
                .into_iter()
                .map(|one| (one.offset - 65_536, one.len, one.legs))
                .collect::<Vec<_>>()
        };
        let block = BLOCK_BYTES as u64;
        assert_eq!(found(&[[1, 2, 3], [1, 2, 3]], 0), []);
        assert_eq!(found(&[[1, 2, 3], [1, 9, 9]], 0), [(block, 2 * block, 2)]);
        assert_eq!(found(&[[1, 9, 3], [1, 2, 3], [1, 2, 3]], 0), [(block, block, 1)]);
        assert_eq!(
            found(&[[1, 9, 3], [1, 2, 3], [7, 2, 3]], 0),
            [(0, block, 4), (block, block, 1)]
        );
        assert_eq!(found(&[[1, 2, 3], [1, 2, 3]], 2), [(0, 3 * block, 2)], "one cannot be read");
    }
}
