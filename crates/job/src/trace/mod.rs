//! A trace: recorded I/Os, in their order and with their times.
//!
//! [`iolog`] reads a trace from a file, [`packed`] stores it in a few bytes for each I/O: always
//! fewer than its line in the file has. Workers iterate over the trace by a [`Cursor`] and share
//! it.

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
    /// Due time, from the beginning of the trace.
    pub at: Nanos,
    /// Operation.
    pub op: Op,
    /// Index of the file, in the order in which the trace names them.
    pub file: u32,
    /// Offset in the file, in bytes; a flush has offset and length 0.
    pub offset: u64,
    /// Size in bytes.
    pub len: u32,
    /// Line number in the trace, from 1.
    pub line: u32,
}

/// A trace that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// Name of the trace's file.
    name: Arc<str>,
    packed: Packed,
    facts: Facts,
}

/// Facts about a trace as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Files of the trace, in order of appearance.
    pub files: Vec<String>,
    /// Reads, writes, trims and flushes.
    pub ios: [u64; 4],
    /// Total bytes.
    pub bytes: u64,
    /// Largest read or write in bytes.
    pub longest_bytes: u32,
    /// Time from the beginning to the last I/O.
    pub length: Nanos,
    /// True if I/Os start at their own times. Otherwise they follow each other, except for pauses.
    pub timed: bool,
    /// End of the last I/O on each file, in bytes.
    ends: Vec<u64>,
    /// Size of the first I/O, and whether all others have the same.
    size_bytes: Option<u32>,
    one_size: bool,
    /// Number of I/Os that do not begin where the previous one ended.
    jumps: u64,
    /// Bitwise or of all offsets and sizes.
    bits: u64,
}

impl Facts {
    /// Returns the number of reads, writes and trims.
    pub fn moves(&self) -> u64 {
        self.ios[..3].iter().sum()
    }

    /// Returns the size of each read, write and trim in bytes, if it is the same for all.
    pub fn size_bytes(&self) -> Option<u32> {
        self.size_bytes.filter(|_| self.one_size)
    }

    /// Returns the mean size of reads, writes and trims in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.moves().max(1) as f64
    }

    /// Returns the share of reads among them, 0 to 100.
    pub fn read_percent(&self) -> f64 {
        self.ios[0] as f64 * 100.0 / self.moves().max(1) as f64
    }

    /// Returns the share of I/Os that do not begin where the previous one ended, 0 to 100.
    pub fn random_percent(&self) -> f64 {
        self.jumps as f64 * 100.0 / self.moves().max(1) as f64
    }

    /// Returns the end of the last I/O on any file, in bytes.
    pub fn end_bytes(&self) -> u64 {
        self.ends.iter().copied().max().unwrap_or(0)
    }

    /// Returns whether offsets and sizes are multiples of this block size, a power of two.
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
    /// Returns the facts about the trace as a whole.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the number of volumes of the trace.
    pub fn volumes(&self) -> usize {
        self.facts.files.len().max(1)
    }

    /// Checks that each I/O fits its volume: `shapes` are the geometries in the order of the files.
    /// The error has the line of the first I/O that does not fit.
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
                "{at} end past the volume of {bytes} bytes: use a larger volume, or scale the \
                 offsets down (replay_scale, divide_by)"
            ));
        }
        let in_blocks = offset.is_multiple_of(u64::from(block)) && len.is_multiple_of(block);
        match in_blocks {
            true => Ok(()),
            false => Err(format!(
                "{at} are not whole blocks of {block} bytes: use the page cache \
                 (?direct=0&block=1), or align offsets with replay_align"
            )),
        }
    }

    /// Returns the next I/O after the position of a cursor.
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
