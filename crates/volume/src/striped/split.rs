//! Split I/Os: those that cross stripe boundaries become one piece per part, and complete once.
//!
//! The stripes of a part that an I/O touches are adjacent there, so one piece covers them.

use block::{Buf, Cause, Fault, Op, Tag};

use super::slots::Told;

/// Mapping of stripes to parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) stripe_bytes: u64,
    pub(super) parts: u64,
}

/// The range of one part that an I/O touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) part: usize,
    /// Offset on the part.
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A split I/O in flight.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) tag: Tag,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// The submitter's buffer.
    pub(super) buf: Option<Buf>,
    /// Pieces in flight.
    pub(super) left: u32,
    pub(super) told: Told,
}

/// Portion of an I/O in one stripe: offset in the I/O and in its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    in_whole: usize,
    in_piece: usize,
    len: usize,
}

impl Layout {
    /// The pieces of an I/O, one per part that it touches.
    pub(super) fn pieces(self, offset: u64, len: u32) -> impl Iterator<Item = Piece> {
        let end = offset + u64::from(len);
        (0..self.parts as usize).filter_map(move |part| {
            let (from, to) = (self.before(part, offset), self.before(part, end));
            (from < to).then_some(Piece { part, offset: from, len: to - from })
        })
    }

    /// Bytes of a part below an offset of the whole volume.
    fn before(self, part: usize, at: u64) -> u64 {
        let row = self.stripe_bytes * self.parts;
        let own = part as u64 * self.stripe_bytes;
        at / row * self.stripe_bytes + (at % row).saturating_sub(own).min(self.stripe_bytes)
    }

    /// The runs of a piece, in ascending order.
    fn runs(self, offset: u64, len: u32, piece: Piece) -> impl Iterator<Item = Run> {
        let end = piece.offset + piece.len;
        let mut at = piece.offset;
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let (row, inside) = (at / self.stripe_bytes, at % self.stripe_bytes);
            let run = (self.stripe_bytes - inside).min(end - at);
            let stripe = row * self.parts + piece.part as u64;
            let in_whole = stripe * self.stripe_bytes + inside - offset;
            debug_assert!(in_whole + run <= u64::from(len), "inside of the I/O");
            let found = Run {
                in_whole: in_whole as usize,
                in_piece: (at - piece.offset) as usize,
                len: run as usize,
            };
            at += run;
            Some(found)
        })
    }

    /// Copies the data of a written piece from the submitter's buffer.
    pub(super) fn gather(self, offset: u64, len: u32, piece: Piece, from: &[u8], to: &mut [u8]) {
        for Run { in_whole, in_piece, len } in self.runs(offset, len, piece) {
            to[in_piece..in_piece + len].copy_from_slice(&from[in_whole..in_whole + len]);
        }
    }
}

impl Whole {
    /// Records the result of a piece, and the data read.
    pub(super) fn answered(
        &mut self,
        layout: Layout,
        part: usize,
        (result, cause): (Result<(), Fault>, Cause),
        read: Option<&Buf>,
    ) {
        self.left -= 1;
        self.told.take(result, cause);
        if let (Op::Read, Ok(()), Some(read), Some(buf)) = (self.op, result, read, &mut self.buf)
            && let Some(piece) =
                layout.pieces(self.offset, self.len).find(|piece| piece.part == part)
        {
            for Run { in_whole, in_piece, len } in layout.runs(self.offset, self.len, piece) {
                buf[in_whole..in_whole + len].copy_from_slice(&read[in_piece..in_piece + len]);
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every byte of an I/O is in one run, at the offset that a single stripe would give it.
        #[test]
        fn every_byte_has_its_place(
            stripe in 1_u64..9, parts in 1_u64..6, offset in 0_u64..200, len in 1_u32..200,
        ) {
            let layout = Layout { stripe_bytes: stripe, parts };
            let mut places = vec![None; len as usize];
            for piece in layout.pieces(offset, len) {
                let mut expected = piece.offset;
                for run in layout.runs(offset, len, piece) {
                    prop_assert_eq!(piece.offset + run.in_piece as u64, expected);
                    expected += run.len as u64;
                    for byte in 0..run.len {
                        let on_part = piece.offset + (run.in_piece + byte) as u64;
                        let place = (piece.part as u64, on_part);
                        prop_assert!(places[run.in_whole + byte].replace(place).is_none());
                    }
                }
                prop_assert_eq!(expected, piece.offset + piece.len);
            }
            for (byte, place) in places.into_iter().enumerate() {
                let at = offset + byte as u64;
                let (number, inside) = (at / stripe, at % stripe);
                prop_assert_eq!(place, Some((number % parts, number / parts * stripe + inside)));
            }
        }
    }
}
