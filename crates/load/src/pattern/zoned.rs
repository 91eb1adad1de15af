//! Zones of a device: which one is written next at its write pointer, and what can be read.
//!
//! What is known of write pointers is what the device told at the beginning and what was begun
//! since. A write is *entered* before it is begun: it may have to wait for the one before it in
//! its zone, or for a zone that it takes the place of, and a full zone is reset first.

use block::{Nanos, Op, Rng, Zone, Zones};
use job::spec::{Part, Workload};

use super::{Next, share};

/// The zones of one worker.
#[derive(Debug)]
pub(crate) struct Zoned {
    rng: Rng,
    bytes: u64,
    reads: u64,
    random: bool,
    beyond: bool,
    zones: Vec<State>,
    /// Those that random writes go to, and how many there may be.
    open: Vec<usize>,
    max_open: usize,
    /// The zone of the next write in order.
    writing: usize,
    /// It was come to: when it is full, the next one follows.
    begun: bool,
    /// It ends when it has gone through its range, not after so many bytes.
    by_size: bool,
    /// Zone and place in it of the next read in order.
    reading: (usize, u64),
    /// Bytes and I/Os that are left to do.
    left: (u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct State {
    zone: Zone,
    /// The write pointer, once all that was begun is done.
    at: u64,
    /// A write is in flight.
    busy: bool,
    /// The device's write pointer must go back first.
    reset: bool,
    /// This zone takes the place of another one, which must be full by then.
    after: Option<usize>,
}

/// Whether a write may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It may.
    Now,
    /// Not before another one is done.
    Wait,
    /// The zone must be reset first, with nothing in flight.
    Reset(Zone),
}

const ALL: u64 = 1 << 32;

impl Zoned {
    /// For the zones that lie in a range of start and length, and of them a worker's part.
    pub(crate) fn new(
        workload: &Workload,
        found: Zones,
        (start, bytes): (u64, u64),
        rng: Rng,
        part: Part,
    ) -> Result<Zoned, String> {
        let (how, line) = (workload.access.zoned.unwrap_or_default(), &workload.access.lines[0]);
        let inside = |zone: &Zone| zone.start >= start && zone.start + zone.bytes <= start + bytes;
        let all: Vec<Zone> = found.zones.into_iter().filter(inside).collect();
        let count = all.len() as u64;
        let mine = part.begin(count) as usize..part.end(count) as usize;
        let zones: Vec<State> = all[mine].iter().map(|zone| State::new(*zone)).collect();
        let Some(first) = zones.first().map(|state| state.zone) else {
            return Err("no whole zone of the device lies in its part of the range".to_owned());
        };
        if how.zone_bytes > 0 && how.zone_bytes != first.bytes {
            return Err(format!(
                "zones of {} bytes are asked for, and the device's have {}: say zonesize={} or \
                 nothing",
                how.zone_bytes, first.bytes, first.bytes
            ));
        }
        // As with fio a size that ends within a zone ends where that one begins.
        let whole: u64 = zones.iter().map(|state| state.zone.bytes).sum();
        let limit = workload.limit_bytes.unwrap_or(u64::MAX);
        let by_size = limit == bytes;
        let limit = if by_size { whole } else { limit };
        let bytes = u64::from(line.size_bytes);
        if zones.iter().all(|state| state.zone.capacity < bytes) {
            return Err(format!("an I/O of {bytes} bytes is longer than a zone"));
        }
        let limits = [how.max_open, found.max_open].into_iter().filter(|limit| *limit > 0);
        let max_open = limits.min().map_or(usize::MAX, |limit| limit as usize);
        let is_open = |index: &usize| zones[*index].zone.open;
        let open = (0..zones.len()).filter(is_open).take(max_open).collect();
        Ok(Zoned {
            rng,
            bytes,
            reads: share(line.read_percent),
            random: line.random_percent > 0.0,
            beyond: how.read_beyond,
            open,
            max_open,
            writing: 0,
            begun: false,
            by_size,
            reading: (0, 0),
            left: (limit, workload.limit_ios.unwrap_or(u64::MAX)),
            zones,
        })
    }

    /// The next I/O; `None` when all is done, or nothing can be.
    pub(super) fn next(&mut self) -> Option<Next> {
        if self.left() == 0 {
            return None;
        }
        let reads = match self.reads {
            ALL => true,
            0 => false,
            reads => self.rng.chance(reads),
        };
        // Before anything was written there is nothing to read.
        let reads = reads && (self.reads == ALL || self.zones.iter().any(|it| self.can_read(it)));
        let (op, offset) = match reads {
            true => (Op::Read, self.read()?),
            false => (Op::Write, self.write()?),
        };
        self.left.0 = self.left.0.saturating_sub(self.bytes);
        self.left.1 -= 1;
        Some(Next { op, fua: false, offset, len: self.bytes as u32, pause: Nanos(0), reply: 0 })
    }

    /// How many follow, at most.
    pub(super) fn left(&self) -> u64 {
        (self.left.0 / self.bytes).min(self.left.1)
    }

    /// How far a zone can be read.
    fn end_of_reads(&self, state: &State) -> u64 {
        match self.beyond || !state.zone.sequential {
            true => state.zone.capacity,
            false => state.at,
        }
    }

    fn can_read(&self, state: &State) -> bool {
        state.zone.usable && self.end_of_reads(state) >= self.bytes
    }

    fn read(&mut self) -> Option<u64> {
        if self.random {
            let from = self.rng.below(self.zones.len() as u64) as usize;
            let index = self.nearest(from)?;
            let places = (self.end_of_reads(&self.zones[index]) - self.bytes) / self.bytes + 1;
            return Some(self.zones[index].zone.start + self.rng.below(places) * self.bytes);
        }
        for _ in 0..=self.zones.len() {
            let (index, at) = self.reading;
            let state = &self.zones[index];
            if state.zone.usable && at + self.bytes <= self.end_of_reads(state) {
                self.reading.1 += self.bytes;
                return Some(state.zone.start + at);
            }
            let next = index + 1;
            // What ends by its size ends with the last zone.
            if next == self.zones.len() && self.left.0 < u64::MAX / 2 {
                return None;
            }
            self.reading = (next % self.zones.len(), 0);
        }
        None
    }

    /// The zone that can be read, from a drawn one on or before it.
    fn nearest(&self, from: usize) -> Option<usize> {
        let count = self.zones.len();
        let near = (0..count).flat_map(|step| [from.checked_add(step), from.checked_sub(step)]);
        let mut near = near.flatten().filter(|index| *index < count);
        near.find(|index| self.can_read(&self.zones[*index]))
    }

    fn write(&mut self) -> Option<u64> {
        let index = if self.random { self.choose()? } else { self.in_order()? };
        let bytes = self.bytes;
        let state = &mut self.zones[index];
        if state.room() < bytes {
            (state.at, state.reset) = (0, state.zone.sequential);
        }
        let offset = state.zone.start + state.at;
        state.at += bytes;
        Some(offset)
    }

    /// The zone after the one that is full by now.
    fn in_order(&mut self) -> Option<usize> {
        let (count, before) = (self.zones.len(), self.writing);
        let state = &self.zones[before];
        let begun = std::mem::replace(&mut self.begun, true);
        if state.zone.usable && (state.room() >= self.bytes || !begun) {
            return Some(before);
        }
        if begun && self.by_size {
            // As with fio what cannot be written is gone through, too.
            self.left.0 = self.left.0.saturating_sub(state.zone.bytes - state.at);
            if self.left() == 0 {
                return None;
            }
        }
        for step in 1..=count {
            let next = (before + step) % count;
            if self.zones[next].zone.usable {
                self.zones[next].after = Some(before).filter(|_| before != next);
                self.writing = next;
                return Some(next);
            }
        }
        None
    }

    /// A zone for a random write: the one that is drawn, as long as not too many are open.
    fn choose(&mut self) -> Option<usize> {
        let count = self.zones.len();
        let drawn = self.rng.below(count as u64) as usize;
        let fits = |this: &Zoned, index: usize| this.zones[index].room() >= this.bytes;
        let is_free = |this: &Zoned, index: usize| {
            this.zones[index].zone.usable && !this.open.contains(&index)
        };
        if self.max_open == usize::MAX {
            let mut near = (0..count).map(|step| (drawn + step) % count);
            return near.find(|index| self.zones[*index].zone.usable);
        }
        if self.open.contains(&drawn) && fits(self, drawn) {
            return Some(drawn);
        }
        if self.open.len() < self.max_open && is_free(self, drawn) {
            self.open.push(drawn);
            return Some(drawn);
        }
        if self.open.is_empty() {
            let opened = (0..count).find(|index| is_free(self, *index))?;
            self.open.push(opened);
            return Some(opened);
        }
        let slot = self.rng.below(self.open.len() as u64) as usize;
        let index = self.open[slot];
        if fits(self, index) && self.zones[index].zone.usable {
            return Some(index);
        }
        // It is full: another one takes its place.
        let other = (1..count).map(|step| (index + step) % count).find(|it| is_free(self, *it));
        let Some(other) = other else { return Some(index) };
        self.open[slot] = other;
        self.zones[other].after = Some(index);
        Some(other)
    }

    fn index_of(&self, offset: u64) -> usize {
        self.zones.partition_point(|state| state.zone.start <= offset).saturating_sub(1)
    }

    /// Begins a write, if it may.
    pub(crate) fn enter(&mut self, offset: u64) -> Entry {
        let index = self.index_of(offset);
        let state = self.zones[index];
        if state.busy || state.after.is_some_and(|other| self.zones[other].busy) {
            return Entry::Wait;
        }
        if state.reset {
            return Entry::Reset(state.zone);
        }
        let state = &mut self.zones[index];
        (state.busy, state.after) = (state.zone.sequential, None);
        Entry::Now
    }

    /// A zone was reset.
    pub(crate) fn was_reset(&mut self, zone: &Zone) {
        let index = self.index_of(zone.start);
        self.zones[index].reset = false;
    }

    /// A write has ended. Where one failed nobody knows the write pointer: the zone is left.
    pub(crate) fn ended(&mut self, offset: u64, succeeded: bool) {
        let index = self.index_of(offset);
        let state = &mut self.zones[index];
        state.busy = false;
        state.zone.usable &= succeeded || !state.zone.sequential;
        if !state.zone.usable {
            self.open.retain(|open| *open != index);
        }
    }
}

impl State {
    fn new(zone: Zone) -> State {
        State { zone, at: zone.written, busy: false, reset: false, after: None }
    }

    fn room(&self) -> u64 {
        self.zone.capacity.saturating_sub(self.at)
    }
}

#[cfg(test)]
mod test;
