//! Splits a request of the kernel into I/Os of the volume: one in most cases, several in sequence
//! if the request is unaligned or very long.

use block::{Buf, Geometry, Op, Pool};

/// Maximum bytes of one trim.
const CLEAR_MAX_BYTES: u64 = 1 << 30;

/// The I/Os of a request.
#[derive(Debug)]
pub(crate) enum Work {
    /// Read `len` bytes, from an offset within the first block.
    Read { skip: usize, size: usize },
    /// Writes whole blocks; the answer has the length in bytes.
    Write { size: u32 },
    /// Read-modify-write of the surrounding blocks.
    Patch { patch: Patch, data: Option<Buf>, size: u32, stage: Stage },
    /// Flush.
    Flush { stage: Stage },
    /// Zero from `at` to `end`; partial blocks by read-modify-write.
    Clear { op: Op, at: u64, end: u64, patch: Option<(Patch, Stage)> },
}

/// Progress of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    New,
    /// The surrounding blocks are being read.
    Reading,
    /// The last I/O is in flight.
    Last,
}

/// The next step of a request.
#[derive(Debug)]
pub(crate) enum Next {
    /// An I/O: operation, offset, length, buffer.
    Io(Op, u64, u32, Option<Buf>),
    /// Done, with the buffer of the last I/O.
    Done(Option<Buf>),
    /// Out of memory: no buffer is available.
    NoMemory,
}

impl Work {
    /// Next step: the first, or the one after an I/O that returned `buf`.
    pub(crate) fn next(&mut self, geometry: &Geometry, pool: &Pool, buf: Option<Buf>) -> Next {
        match self {
            Work::Read { .. } | Work::Write { .. } => Next::Done(buf),
            Work::Flush { stage: Stage::Last } => Next::Done(None),
            Work::Flush { stage } => {
                *stage = Stage::Last;
                Next::Io(Op::Flush, 0, 0, None)
            }
            Work::Patch { patch, data, stage, .. } => patch.next(stage, pool, data.as_ref(), buf),
            Work::Clear { op, at, end, patch } => {
                if let Some((part, stage)) = patch {
                    match part.next(stage, pool, None, buf) {
                        Next::Done(Some(buf)) => pool.give(buf),
                        Next::Done(None) => {}
                        other => return other,
                    }
                    *patch = None;
                }
                if *at >= *end {
                    return Next::Done(None);
                }
                match next_clear(geometry, *at, *end) {
                    Ok((offset, len)) => {
                        *at += u64::from(len);
                        Next::Io(*op, offset, len, None)
                    }
                    Err(part) => {
                        *at += part.size as u64;
                        let (part, stage) = patch.insert((part, Stage::New));
                        part.next(stage, pool, None, None)
                    }
                }
            }
        }
    }

    /// Takes the buffer that the request still holds.
    pub(crate) fn into_data(self) -> Option<Buf> {
        if let Work::Patch { data, .. } = self { data } else { None }
    }
}

/// A range of bytes and the whole blocks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The first block.
    pub(crate) offset: u64,
    /// Length of the blocks.
    pub(crate) len: u32,
    /// Offset of the bytes within the blocks.
    pub(crate) skip: usize,
    /// Length in bytes.
    pub(crate) size: usize,
}

impl Patch {
    /// The blocks around a range.
    pub(crate) fn around(geometry: &Geometry, offset: u64, size: u32) -> Patch {
        let block = u64::from(geometry.block_bytes);
        let begin = offset / block * block;
        let end = (offset + u64::from(size)).next_multiple_of(block);
        let (skip, size) = ((offset - begin) as usize, size as usize);
        Patch { offset: begin, len: (end - begin) as u32, skip, size }
    }

    /// Whether the range is block-aligned.
    pub(crate) fn is_whole(&self) -> bool {
        self.skip == 0 && self.size == self.len as usize
    }

    /// Read-modify-write of the blocks with `data`, or zeroes without.
    fn next(&self, stage: &mut Stage, pool: &Pool, data: Option<&Buf>, buf: Option<Buf>) -> Next {
        let Patch { offset, len, .. } = *self;
        match (*stage, buf) {
            (Stage::New, _) => {
                let Some(buf) = pool.take_beyond(len as usize) else { return Next::NoMemory };
                *stage = Stage::Reading;
                Next::Io(Op::Read, offset, len, Some(buf))
            }
            (Stage::Reading, Some(mut blocks)) => {
                *stage = Stage::Last;
                match data {
                    Some(data) => blocks[self.place()].copy_from_slice(&data[..self.size]),
                    None => blocks[self.place()].fill(0),
                }
                Next::Io(Op::Write, offset, len, Some(blocks))
            }
            // A lane returns a read with its buffer.
            (Stage::Reading, None) => Next::NoMemory,
            (Stage::Last, buf) => Next::Done(buf),
        }
    }

    /// Range of the bytes within the blocks.
    pub(crate) fn place(&self) -> std::ops::Range<usize> {
        self.skip..self.skip + self.size
    }
}

/// Next part of a range to zero: all of its whole blocks at once, or the bytes of a partial block
/// at its start or end.
pub(crate) fn next_clear(geometry: &Geometry, at: u64, end: u64) -> Result<(u64, u32), Patch> {
    let block = u64::from(geometry.block_bytes);
    let first = at.next_multiple_of(block);
    if first != at || end - at < block {
        let size = first.max(at + 1).next_multiple_of(block).min(end) - at;
        return Err(Patch::around(geometry, at, size as u32));
    }
    let len = (end - at).min(CLEAR_MAX_BYTES) / block * block;
    Ok((at, len as u32))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_range_is_cleared_in_parts() {
        let geometry = Geometry::new(8 << 30, 512);
        let parts = |mut at: u64, end: u64| {
            let mut parts = Vec::new();
            while at < end {
                let (whole, len) = match next_clear(&geometry, at, end) {
                    Ok((offset, len)) => {
                        assert_eq!(offset, at);
                        (true, u64::from(len))
                    }
                    Err(patch) => {
                        assert_eq!(patch.offset + patch.skip as u64, at);
                        assert_eq!(patch.len, 512);
                        (false, patch.size as u64)
                    }
                };
                parts.push((whole, len));
                at += len;
            }
            assert_eq!(at, end);
            parts
        };
        assert_eq!(parts(0, 1024), [(true, 1024)]);
        assert_eq!(parts(100, 2000), [(false, 412), (true, 1024), (false, 464)]);
        assert_eq!(parts(100, 200), [(false, 100)]);
        assert_eq!(parts(0, 3 << 30), [(true, 1 << 30); 3]);
        assert_eq!(parts(500, 1030), [(false, 12), (true, 512), (false, 6)]);
    }

    #[test]
    fn a_patch_knows_its_blocks() {
        let geometry = Geometry::new(1 << 20, 512);
        let patch = Patch::around(&geometry, 510, 4);
        assert_eq!(patch, Patch { offset: 0, len: 1024, skip: 510, size: 4 });
        assert!(Patch::around(&geometry, 512, 512).is_whole() && !patch.is_whole());
        let bytes = Patch::around(&Geometry::new(1000, 1), 7, 5);
        assert!(bytes.is_whole());
    }
}
