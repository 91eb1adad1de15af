//! I/Os in a few bytes each: fields that follow from the previous I/O are omitted.
//!
//! Each I/O begins with a byte for its operation and for the fields after it; numbers are LEB128:
//! seven bits per byte, the lowest first.

use std::fmt;

use block::{Nanos, Op};

use super::Event;

const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Trim, Op::Flush];
/// Bits of the first byte for the operation.
const OP: u8 = 3;
/// Field: delay after the previous I/O.
const LATER: u8 = 1 << 2;
/// Field: distance from the end of the previous I/O, with the sign in the lowest bit.
const JUMPS: u8 = 1 << 3;
/// Field: new size.
const LENGTH: u8 = 1 << 4;
/// Field: new file.
const FILE: u8 = 1 << 5;
/// Field: number of lines in between that are no I/Os.
const LINES: u8 = 1 << 6;

/// Maximum size of a trace in bytes: some 200 million I/Os.
pub(super) const MAX_BYTES: usize = 1 << 30;

/// The I/Os of a trace.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    /// Cursor past the last I/O.
    end: Cursor,
}

/// A position in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    at: usize,
    last: Event,
}

impl Default for Cursor {
    fn default() -> Cursor {
        let (at, op, file, offset, len, line) = (Nanos(0), Op::Read, 0, 0, 0, 1);
        Cursor { at: 0, last: Event { at, op, file, offset, len, line } }
    }
}

impl Packed {
    /// Adds an I/O, which is no earlier than the previous one and in a later line. Returns whether
    /// it begins where the previous one ended, or `None` if there is no space.
    pub(super) fn push(&mut self, event: Event) -> Option<bool> {
        if self.bytes.len() >= MAX_BYTES {
            return None;
        }
        let last = &mut self.end.last;
        let op = OPS.iter().position(|op| *op == event.op).unwrap_or(0);
        let later = event.at.0 - last.at.0;
        let lines = u64::from(event.line - last.line - 1);
        let (mut first, begin) = (op as u8, self.bytes.len());
        self.bytes.push(0);
        let mut put = |bit: u8, number: u64, said: bool| {
            if said {
                first |= bit;
                push(&mut self.bytes, number);
            }
        };
        put(LATER, later, later > 0);
        put(LINES, lines, lines > 0);
        (last.at, last.line, last.op) = (event.at, event.line, event.op);
        let end = last.offset + u64::from(last.len);
        if event.op == Op::Flush {
            put(FILE, u64::from(event.file), event.file != last.file);
            last.file = event.file;
            self.bytes[begin] = first;
            return Some(true);
        }
        let follows = event.offset == end && event.file == last.file;
        let (far, back) = (event.offset.abs_diff(end), event.offset < end);
        // The distance is shifted by one bit: the lowest bit is the sign.
        put(JUMPS, far << 1 | u64::from(back), event.offset != end);
        put(LENGTH, u64::from(event.len), event.len != last.len);
        put(FILE, u64::from(event.file), event.file != last.file);
        (last.offset, last.len, last.file) = (event.offset, event.len, event.file);
        self.bytes[begin] = first;
        Some(follows)
    }

    /// Frees unused memory.
    pub(super) fn finish(&mut self) {
        self.bytes.shrink_to_fit();
    }
}

impl Cursor {
    #[inline]
    pub(super) fn next(&mut self, packed: &Packed) -> Option<Event> {
        let bytes = &packed.bytes[..];
        let first = *bytes.get(self.at)?;
        self.at += 1;
        let at = &mut self.at;
        let mut take = |bit: u8| if first & bit != 0 { pull(bytes, at) } else { 0 };
        let last = &mut self.last;
        last.op = OPS[usize::from(first & OP)];
        last.at = last.at + Nanos(take(LATER));
        last.line += 1 + take(LINES) as u32;
        if last.op == Op::Flush {
            if first & FILE != 0 {
                last.file = take(FILE) as u32;
            }
            return Some(Event { offset: 0, len: 0, ..*last });
        }
        let end = last.offset + u64::from(last.len);
        let jump = take(JUMPS);
        last.offset = if jump & 1 == 0 { end + (jump >> 1) } else { end - (jump >> 1) };
        if first & LENGTH != 0 {
            last.len = take(LENGTH) as u32;
        }
        if first & FILE != 0 {
            last.file = take(FILE) as u32;
        }
        Some(*last)
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn pull(bytes: &[u8], at: &mut usize) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some(byte) = bytes.get(*at) else { break };
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use block::Rng;

    #[test]
    fn what_is_packed_comes_out_again() {
        let mut rng = Rng::new(7, 1);
        let (mut at, mut line) = (0, 1);
        let mut events = Vec::new();
        for _ in 0..10_000 {
            at += if rng.chance(1 << 31) { rng.below(1 << 40) } else { 0 };
            line += 1 + if rng.chance(1 << 28) { rng.below(1 << 16) as u32 } else { 0 };
            let op = OPS[rng.below(4) as usize];
            let file = if rng.chance(1 << 30) { rng.below(300) as u32 } else { 0 };
            let flush = op == Op::Flush;
            let bits = rng.below(63);
            let offset = if flush { 0 } else { rng.below(1 << bits) };
            let len = if flush { 0 } else { rng.below(1 << 32) as u32 };
            events.push(Event { at: Nanos(at), op, file, offset, len, line });
        }
        let mut packed = Packed::default();
        for event in &events {
            packed.push(*event).unwrap();
        }
        packed.finish();
        let mut cursor = Cursor::default();
        let again: Vec<Event> = std::iter::from_fn(|| cursor.next(&packed)).collect();
        assert_eq!(again, events);
        assert_eq!(cursor.next(&packed), None);
    }

    #[test]
    fn what_follows_takes_one_byte() {
        let mut packed = Packed::default();
        for number in 0..1000_u32 {
            let (at, op, offset) = (Nanos(0), Op::Write, u64::from(number) * 4096);
            let event = Event { at, op, file: 0, offset, len: 4096, line: number + 2 };
            assert_eq!(packed.push(event), Some(true));
        }
        assert!(packed.bytes.len() < 1010, "{packed:?}");
    }
}
