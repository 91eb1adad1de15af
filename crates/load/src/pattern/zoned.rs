//! Zones of a zoned device: the next zone to write at its write pointer, and readable ranges.
//!
//! Write pointers are those that the device reported at the start, plus the writes begun since. A
//! write is *entered* before it is submitted: it may have to wait for the previous one in its zone,
//! or for the zone that it replaces to become full, and a full zone is reset first.

use block::{Nanos, Op, Rng, Zone, Zones};
use job::spec::{Line, Part, Places, Workload};

use super::alias::Alias;
use super::general::FLUSH;
use super::permutation::Permutation;
use super::{Next, share};

/// The zones of one worker.
#[derive(Debug)]
pub(crate) struct Zoned {
    rng: Rng,
    lines: Vec<Line>,
    pick: Alias,
    /// Shortest I/O: a zone with less room is full. Longer I/Os are cut to its rest.
    bytes: u64,
    random: bool,
    beyond: bool,
    /// Writes between two flushes, 0 for none, and those since the last one.
    flush: (u32, u32),
    zones: Vec<State>,
    /// Zones are drawn as often as blocks lie in them, and a block of each zone.
    order: Option<(Permutation, u64)>,
    /// Zones are reset before they are full.
    early: Option<Early>,
    /// Bytes of all zones that were written since their resets.
    valid: u64,
    /// Whether written data is verified later: then no zone with such data is reset.
    keeps: bool,
    /// Zones that random writes go to, and their maximum number.
    open: Vec<usize>,
    max_open: usize,
    /// The zone of the next sequential write.
    writing: usize,
    /// Whether the zone was entered: when it is full, the next one follows.
    begun: bool,
    /// Whether the worker ends after one pass of its range, not after a number of bytes.
    by_size: bool,
    /// Zone and offset in it of the next sequential read.
    reading: (usize, u64),
    /// Bytes and I/Os left to do.
    left: (u64, u64),
}

/// Resets of zones before they are full.
#[derive(Debug)]
struct Early {
    /// Bytes of valid data from which on zones are reset early.
    from: u64,
    /// Number of writes per reset.
    every: u64,
    left: u64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    zone: Zone,
    /// The write pointer, once all begun writes complete.
    at: u64,
    /// A write is in flight.
    busy: bool,
    /// The zone must be reset first.
    reset: bool,
    /// Zone that this zone replaces, which must be full first.
    after: Option<usize>,
}

/// Whether a write may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Now.
    Now,
    /// Only after another one completes.
    Wait,
    /// The zone must be reset first, without I/Os in flight.
    Reset(Zone),
}

const ALL: u64 = 1 << 32;

impl Zoned {
    /// For the zones within a range of this start and length, and a worker's part of them.
    pub(crate) fn new(
        workload: &Workload,
        found: Zones,
        range: (u64, u64),
        mut rng: Rng,
        part: Part,
    ) -> Result<Zoned, String> {
        let how = workload.access.zoned.unwrap_or_default();
        let lines = workload.access.lines.clone();
        let keeps = workload.verify.is_some_and(|verify| !verify.earlier);
        let zones = State::all(found.zones, range, part, keeps);
        let Some(first) = zones.first().map(|state| state.zone) else {
            return Err("its part of the range contains no whole zone of the device".to_owned());
        };
        if how.zone_bytes > 0 && how.zone_bytes != first.bytes {
            return Err(format!(
                "zonesize={}, but the zones of the device have {} bytes: set zonesize={} or \
                remove it",
                how.zone_bytes, first.bytes, first.bytes
            ));
        }
        // As in fio, a size that ends within a zone ends at the zone's start.
        let whole: u64 = zones.iter().map(|state| state.zone.bytes).sum();
        let limit = workload.limit_bytes.unwrap_or(u64::MAX);
        let by_size = limit == range.1;
        let limit = if by_size { whole } else { limit };
        let bytes = lines.iter().map(|line| line.size_bytes).min().map_or(1, u64::from);
        if zones.iter().all(|state| state.zone.capacity < bytes) {
            return Err(format!("I/O size {bytes} is larger than a zone"));
        }
        let limits = [how.max_open, found.max_open].into_iter().filter(|limit| *limit > 0);
        let max_open = limits.min().map_or(usize::MAX, |limit| limit as usize);
        let is_open = |index: &usize| zones[*index].zone.open && !keeps;
        let blocks = (first.bytes / bytes).max(1) * zones.len() as u64;
        let once = workload.access.random == Places::Once;
        let order = once.then(|| (Permutation::new(blocks, rng.next_u64()), 0));
        let open = (0..zones.len()).filter(is_open).take(max_open).collect();
        Ok(Zoned {
            rng,
            pick: Alias::new(lines.iter().map(|line| line.share_percent)),
            bytes,
            random: lines[0].random_percent > 0.0,
            beyond: how.read_beyond,
            flush: (workload.access.flush_every, 0),
            order,
            early: Early::new(&how, range.1),
            valid: zones.iter().filter(|it| it.zone.sequential).map(|state| state.at).sum(),
            keeps,
            lines,
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

    /// Returns whether a flush is next, after the writes before it.
    pub(super) fn owes_flush(&self) -> bool {
        self.flush.0 > 0 && self.flush.1 >= self.flush.0
    }

    /// The next I/O; `None` if all is done, or none is possible.
    pub(super) fn next(&mut self) -> Option<Next> {
        if self.left() == 0 {
            return None;
        }
        if self.owes_flush() {
            self.flush.1 = 0;
            return Some(FLUSH);
        }
        let line = self.lines[self.pick.draw(&mut self.rng)];
        let reads = match share(line.read_percent) {
            ALL => true,
            0 => false,
            reads => self.rng.chance(reads),
        };
        // Before anything was written there is nothing to read.
        let only = self.lines.iter().all(|line| line.read_percent == 100.0);
        let reads = reads && (only || self.zones.iter().any(|it| self.can_read(it)));
        let most = u64::from(line.size_bytes).min(self.left.0);
        let (op, (offset, len)) = match reads {
            true => (Op::Read, self.read(most)?),
            false => (Op::Write, self.write(most)?),
        };
        self.flush.1 += u32::from(op == Op::Write);
        self.left.0 = self.left.0.saturating_sub(len);
        self.left.1 -= 1;
        Some(Next { op, fua: false, offset, len: len as u32, pause: Nanos(0), reply: 0 })
    }

    /// Cuts an I/O to the room of a zone, in whole shortest I/Os.
    fn cut(&self, len: u64, room: u64) -> u64 {
        if len <= room { len } else { room - room % self.bytes }
    }

    /// The zone that is drawn.
    fn draw(&mut self) -> usize {
        let count = self.zones.len() as u64;
        let Some((order, next)) = &mut self.order else { return self.rng.below(count) as usize };
        let blocks = (self.zones[0].zone.bytes / self.bytes).max(1);
        let drawn = order.at(*next) / blocks;
        *next = (*next + 1) % (blocks * count);
        drawn as usize
    }

    /// Maximum number of I/Os left.
    pub(super) fn left(&self) -> u64 {
        (self.left.0 / self.bytes).min(self.left.1)
    }

    /// Readable bytes of a zone.
    fn end_of_reads(&self, state: &State) -> u64 {
        match self.beyond || !state.zone.sequential {
            true => state.zone.capacity,
            false => state.at,
        }
    }

    fn can_read(&self, state: &State) -> bool {
        state.zone.usable && self.end_of_reads(state) >= self.bytes
    }

    fn read(&mut self, len: u64) -> Option<(u64, u64)> {
        if self.random {
            let from = self.draw();
            let index = self.nearest(from)?;
            let end = self.end_of_reads(&self.zones[index]);
            let at = self.rng.below((end - self.bytes) / self.bytes + 1) * self.bytes;
            return Some((self.zones[index].zone.start + at, self.cut(len, end - at)));
        }
        for _ in 0..=self.zones.len() {
            let (index, at) = self.reading;
            let state = &self.zones[index];
            if state.zone.usable && at + self.bytes <= self.end_of_reads(state) {
                let len = self.cut(len, self.end_of_reads(state) - at);
                self.reading.1 += len;
                return Some((self.zones[index].zone.start + at, len));
            }
            let next = index + 1;
            // With a size limit the last zone is the end.
            if next == self.zones.len() && self.left.0 < u64::MAX / 2 {
                return None;
            }
            self.reading = (next % self.zones.len(), 0);
        }
        None
    }

    /// A readable zone: a drawn one, or the nearest before it.
    fn nearest(&self, from: usize) -> Option<usize> {
        let count = self.zones.len();
        let near = (0..count).flat_map(|step| [from.checked_add(step), from.checked_sub(step)]);
        let mut near = near.flatten().filter(|index| *index < count);
        near.find(|index| self.can_read(&self.zones[*index]))
    }

    fn write(&mut self, len: u64) -> Option<(u64, u64)> {
        let index = if self.random { self.choose()? } else { self.in_order()? };
        let early = self.early.as_mut().is_some_and(|early| early.is_due(self.valid));
        let state = &mut self.zones[index];
        if state.zone.sequential && (early || state.room() < self.bytes) {
            if self.keeps {
                return None;
            }
            self.valid = self.valid.saturating_sub(state.at);
            // An empty zone needs no reset.
            (state.at, state.reset) = (0, state.reset || state.at > 0);
        } else if state.room() < self.bytes {
            state.at = 0;
        }
        let (offset, room) = (state.zone.start + state.at, state.room());
        let len = self.cut(len, room);
        let state = &mut self.zones[index];
        state.at += len;
        self.valid += if state.zone.sequential { len } else { 0 };
        Some((offset, len))
    }

    /// The zone after the one that is full now.
    fn in_order(&mut self) -> Option<usize> {
        let (count, before) = (self.zones.len(), self.writing);
        let state = &self.zones[before];
        let begun = std::mem::replace(&mut self.begun, true);
        if state.zone.usable && (state.room() >= self.bytes || !begun) {
            return Some(before);
        }
        if begun && self.by_size {
            // As in fio, unwritable space counts as done.
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

    /// A zone for a random write: a drawn one, within the limit of open zones.
    fn choose(&mut self) -> Option<usize> {
        let count = self.zones.len();
        let drawn = self.draw();
        let fits = |this: &Zoned, index: usize| this.zones[index].room() >= this.bytes;
        let is_usable = |this: &Zoned, index: usize| {
            this.zones[index].zone.usable && (!this.keeps || fits(this, index))
        };
        let is_free =
            |this: &Zoned, index: usize| is_usable(this, index) && !this.open.contains(&index);
        if self.max_open == usize::MAX {
            let mut near = (0..count).map(|step| (drawn + step) % count);
            return near.find(|index| is_usable(self, *index));
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
        // The zone is full: another one replaces it.
        let other = (1..count).map(|step| (index + step) % count).find(|it| is_free(self, *it));
        let Some(other) = other else { return Some(index) };
        self.open[slot] = other;
        self.zones[other].after = Some(index);
        Some(other)
    }

    fn index_of(&self, offset: u64) -> usize {
        self.zones.partition_point(|state| state.zone.start <= offset).saturating_sub(1)
    }

    /// Starts a write, if possible.
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

    /// A write has ended. After a failure the write pointer is unknown: the zone is not used any
    /// more.
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

impl Early {
    /// Returns the early resets for a range of `bytes`.
    fn new(how: &job::spec::Zoned, bytes: u64) -> Option<Early> {
        let every = (1.0 / how.reset_frequency) as u64;
        let from = (bytes as f64 * how.reset_threshold) as u64;
        (how.reset_frequency > 0.0).then_some(Early { from, every, left: every })
    }

    /// Returns whether the next write resets its zone, with `valid` bytes of data.
    fn is_due(&mut self, valid: u64) -> bool {
        if valid < self.from {
            return false;
        }
        self.left -= 1;
        let due = self.left == 0;
        self.left = if due { self.every } else { self.left };
        due
    }
}

impl State {
    /// Returns the zones within a range of start and length, limited to the worker's part.
    fn all(found: Vec<Zone>, (start, bytes): (u64, u64), part: Part, keeps: bool) -> Vec<State> {
        let inside = |zone: &Zone| zone.start >= start && zone.start + zone.bytes <= start + bytes;
        let all: Vec<Zone> = found.into_iter().filter(inside).collect();
        let count = all.len() as u64;
        let mine = part.begin(count) as usize..part.end(count) as usize;
        let state = |zone: &Zone| match keeps && zone.sequential {
            // As in fio, the zone is rewritten from its start.
            true => State { at: 0, reset: zone.written > 0, ..State::new(*zone) },
            false => State::new(*zone),
        };
        all[mine].iter().map(state).collect()
    }

    fn new(zone: Zone) -> State {
        State { zone, at: zone.written, busy: false, reset: false, after: None }
    }

    fn room(&self) -> u64 {
        self.zone.capacity.saturating_sub(self.at)
    }
}

#[cfg(test)]
mod test;
