//! A trace: I/Os that somebody did once, in their order and with their times.
//!
//! [`iolog`] reads one from a file, [`packed`] keeps it in a few bytes for each I/O: always fewer
//! than its line in the file has. Workers go through it by a [`Cursor`] and share it.

mod iolog;
mod packed;

use std::fmt;
use std::sync::Arc;

use block::{Geometry, Nanos, Op};

pub(crate) use self::iolog::read;
pub use self::packed::Cursor;
use self::packed::Packed;

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it is due, from the beginning of the trace.
    pub at: Nanos,
    /// What is done.
    pub op: Op,
    /// Which file, in the order in which the trace names them.
    pub file: u32,
    /// Where in it, in bytes; 0 for a flush, and so is the length.
    pub offset: u64,
    /// In bytes.
    pub len: u32,
    /// Where it stands, counted from 1.
    pub line: u32,
}

/// A trace that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// The name of its file.
    name: Arc<str>,
    packed: Packed,
    facts: Facts,
}

/// What is known of a trace as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Files that it names, in the order in which they come up.
    pub files: Vec<String>,
    /// Reads, writes, trims and flushes.
    pub ios: [u64; 4],
    /// Bytes of all of them.
    pub bytes: u64,
    /// Longest read or write in bytes.
    pub longest_bytes: u32,
    /// Time from its beginning to its last I/O.
    pub length: Nanos,
    /// I/Os begin at times of their own. Otherwise they follow each other, but for pauses.
    pub timed: bool,
    /// End of the last I/O on each file, in bytes.
    ends: Vec<u64>,
    /// Length of the first one, and whether all others have it.
    size_bytes: Option<u32>,
    one_size: bool,
    /// I/Os that do not begin where the one before ended.
    jumps: u64,
    /// Every bit that is set in a place or a length.
    bits: u64,
}

impl Facts {
    /// Reads, writes and trims.
    pub fn moves(&self) -> u64 {
        self.ios[..3].iter().sum()
    }

    /// Length of each read, write and trim in bytes, if it is one.
    pub fn size_bytes(&self) -> Option<u32> {
        self.size_bytes.filter(|_| self.one_size)
    }

    /// Mean length of them in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.moves().max(1) as f64
    }

    /// Share of reads among them, 0 to 100.
    pub fn read_percent(&self) -> f64 {
        self.ios[0] as f64 * 100.0 / self.moves().max(1) as f64
    }

    /// Share of those that do not begin where the one before ended, 0 to 100.
    pub fn random_percent(&self) -> f64 {
        self.jumps as f64 * 100.0 / self.moves().max(1) as f64
    }

    /// End of the last I/O on any file, in bytes.
    pub fn end_bytes(&self) -> u64 {
        self.ends.iter().copied().max().unwrap_or(0)
    }

    /// Whether offsets and lengths are multiples of this block size, a power of two.
    pub fn is_in_blocks_of(&self, bytes: u32) -> bool {
        self.bits & (u64::from(bytes) - 1) == 0
    }

    fn add(&mut self, event: &Event, follows: bool) {
        let kind = match event.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Trim | Op::WriteZeroes => 2,
            Op::Flush => 3,
        };
        self.ios[kind] += 1;
        self.length = self.length.max(event.at);
        if kind == 3 {
            return;
        }
        self.bytes = self.bytes.saturating_add(u64::from(event.len));
        if kind < 2 {
            self.longest_bytes = self.longest_bytes.max(event.len);
        }
        let size = *self.size_bytes.get_or_insert(event.len);
        self.one_size = (self.moves() == 1 || self.one_size) && size == event.len;
        self.jumps += u64::from(!follows);
        self.bits |= event.offset | u64::from(event.len);
        let file = event.file as usize;
        if self.ends.len() <= file {
            self.ends.resize(file + 1, 0);
        }
        self.ends[file] = self.ends[file].max(event.offset + u64::from(event.len));
    }
}

impl Trace {
    /// What is known of it as a whole.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How many volumes it goes to.
    pub fn volumes(&self) -> usize {
        self.facts.files.len().max(1)
    }

    /// Whether each of its I/Os fits its volume: one of these shapes, in the order of its files.
    /// Says of the first that does not where it stands.
    pub fn fits(&self, shapes: &[Geometry]) -> Result<(), String> {
        let shape = |file: usize| shapes.get(file).or(shapes.last());
        let fits = |file: usize| {
            let end = self.facts.ends.get(file).copied().unwrap_or(0);
            shape(file).is_some_and(|shape| {
                let in_blocks = shape.block_bytes.is_power_of_two()
                    && self.facts.is_in_blocks_of(shape.block_bytes);
                end <= shape.bytes() && in_blocks
            })
        };
        if (0..self.volumes()).all(fits) {
            return Ok(());
        }
        let mut cursor = Cursor::default();
        while let Some(event) = cursor.next(&self.packed) {
            let Some(shape) = shape(event.file as usize) else { continue };
            self.fits_one(&event, shape)?;
        }
        Ok(())
    }

    fn fits_one(&self, event: &Event, shape: &Geometry) -> Result<(), String> {
        let Event { op, offset, len, line, file, .. } = *event;
        let (bytes, block) = (shape.bytes(), shape.block_bytes);
        if op == Op::Flush {
            return Ok(());
        }
        let name = &self.name;
        let file = self.facts.files.get(file as usize).map_or("the volume", String::as_str);
        let at = format!("{name}:{line}: {len} bytes at {offset} of {file}");
        if offset + u64::from(len) > bytes {
            return Err(format!(
                "{at} end behind its volume of {bytes} bytes: take a larger one, or scale places \
                 down (replay_scale, divide_by)"
            ));
        }
        let in_blocks = offset.is_multiple_of(u64::from(block)) && len.is_multiple_of(block);
        match in_blocks {
            true => Ok(()),
            false => Err(format!(
                "{at} are no whole blocks of {block} bytes: through the page cache \
                 (?direct=0&block=1) any length goes, and replay_align aligns places"
            )),
        }
    }

    /// The next I/O behind what a cursor has seen.
    #[inline]
    pub fn next(&self, cursor: &mut Cursor) -> Option<Event> {
        cursor.next(&self.packed)
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [("read", "s"), ("write", "s"), ("trim", "s"), ("flush", "es")];
        let some = self.ios.iter().zip(words).filter(|(count, _)| **count > 0);
        let some = some.map(|(count, (word, many))| {
            let many = if *count == 1 { "" } else { many };
            format!("{count} {word}{many}")
        });
        let some: Vec<String> = some.collect();
        write!(f, "{}", some.join(", "))
    }
}

#[cfg(test)]
mod test;
