//! Images whose size is no multiple of the block: 1,000,001 bytes.
//!
//! Peers that count in bytes see the exact size. Others see whole blocks: the last one is padded
//! with zeroes, and cannot be written, as the file has no room for the padding.

use std::fmt::Display;

use block::{Fault, Geometry, Io, Op, Tag};
use os::OpenFile;

use super::FileVolume;
use crate::uri::FileUri;

/// Treatment of the last part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// The image has no partial block.
    None,
    /// The last block is padded.
    Padded,
    /// The part is not used.
    LeftOut,
}

/// The padded last block of an image.
pub(super) struct Odd {
    /// The image to the byte.
    exact: Geometry,
    /// Reads past the end, with the start and end of the padding in their buffers.
    cut: Vec<(Tag, usize, usize)>,
}

impl Tail {
    pub(super) fn of(uri: &FileUri, found: &OpenFile, block_bytes: u32) -> Tail {
        match found.device || found.bytes.is_multiple_of(u64::from(block_bytes)) {
            true => Tail::None,
            // Direct I/O was requested, which transfers whole blocks only.
            false if !uri.to_the_byte || uri.direct == Some(true) || uri.sqpoll || uri.iopoll => {
                Tail::LeftOut
            }
            false if found.bytes == 0 => Tail::LeftOut,
            false => Tail::Padded,
        }
    }
}

/// Says that the last part of a block is not used.
pub(crate) fn left_out(name: &dyn Display, bytes: u64, block_bytes: u32) -> String {
    let odd = bytes % u64::from(block_bytes);
    format!(
        "{name}: {bytes} bytes are not a multiple of {block_bytes}: the last {odd} bytes are \
        not used"
    )
}

impl FileVolume {
    /// A remark for the user of an image of odd length.
    pub(super) fn tail_remark(&self) -> Option<String> {
        let block_bytes = u64::from(self.geometry.block_bytes);
        let odd = self.opened.bytes % block_bytes;
        let (name, bytes) = (self.path().display(), self.opened.bytes);
        match self.tail {
            Tail::None => None,
            Tail::Padded => Some(format!(
                "{name}: {bytes} bytes are not a multiple of {block_bytes}: NBD and attach give \
                access to every byte, through the page cache; elsewhere the last block is padded \
                with {} zeroes and read-only",
                block_bytes - odd
            )),
            Tail::LeftOut => Some(left_out(&name, bytes, self.geometry.block_bytes)),
        }
    }
}

impl Odd {
    pub(super) fn new(exact: Geometry) -> Odd {
        Odd { exact, cut: Vec::new() }
    }

    /// Checks that an I/O is one of whole blocks that is allowed, or one within the image's bytes.
    pub(super) fn check(&self, padded: &Geometry, io: &Io) -> Result<(), Fault> {
        match self.exact.check(io) {
            Err(Fault::OutOfRange) if io.op == Op::Read => padded.check(io),
            // Data past the last byte could not be stored.
            Err(Fault::OutOfRange) => padded.check(io).and(Err(Fault::ReadOnly)),
            checked => checked,
        }
    }

    /// The bytes of an I/O that the file has.
    pub(super) fn cut(&mut self, tag: Tag, offset: u64, len: u32) -> u32 {
        let there = self.exact.bytes().saturating_sub(offset).min(len.into()) as u32;
        if there < len {
            self.cut.push((tag, there as usize, len as usize));
        }
        there
    }

    /// Fills the padding of a truncated read.
    pub(super) fn pad(&mut self, tag: Tag, data: Option<&mut [u8]>) {
        let Some(at) = self.cut.iter().position(|(cut, ..)| *cut == tag) else { return };
        let (_, from, to) = self.cut.swap_remove(at);
        if let Some(padding) = data.and_then(|data| data.get_mut(from..to)) {
            padding.fill(0);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn bytes_within_the_image_may_be_written_and_its_padding_only_read() {
        let odd = Odd::new(Geometry::new(1025, 1));
        let padded = Geometry::new(1536, 512);
        let check = |op, offset, len| {
            let io = Io { tag: Tag(0), op, fua: false, len, offset, buf: None };
            odd.check(&padded, &io)
        };
        for (op, offset, len, outcome) in [
            (Op::Read, 0, 1536, Ok(())),
            (Op::Read, 1024, 512, Ok(())),
            (Op::Read, 1024, 1, Ok(())),
            (Op::Read, 3, 5, Ok(())),
            (Op::Read, 1023, 3, Err(Fault::OutOfRange)),
            (Op::Read, 1536, 512, Err(Fault::OutOfRange)),
            (Op::Write, 0, 1025, Ok(())),
            (Op::Write, 1024, 1, Ok(())),
            (Op::Write, 512, 512, Ok(())),
            (Op::Write, 1024, 512, Err(Fault::ReadOnly)),
            (Op::Trim, 0, 1536, Err(Fault::ReadOnly)),
            (Op::WriteZeroes, 1536, 512, Err(Fault::OutOfRange)),
            (Op::Flush, 0, 0, Ok(())),
        ] {
            assert_eq!(check(op, offset, len), outcome, "{op:?} {offset} {len}");
        }
    }

    #[test]
    fn what_the_file_does_not_have_reads_as_zeroes() {
        let mut odd = Odd::new(Geometry::new(1025, 1));
        assert_eq!((odd.cut(Tag(1), 0, 1024), odd.cut(Tag(2), 512, 1024)), (1024, 513));
        let mut data = [7; 1024];
        odd.pad(Tag(1), Some(&mut data));
        assert!(data.iter().all(|byte| *byte == 7));
        odd.pad(Tag(2), Some(&mut data));
        assert!(data[..513].iter().all(|byte| *byte == 7) && data[513..].iter().all(|b| *b == 0));
        assert!(odd.cut.is_empty());
    }
}
